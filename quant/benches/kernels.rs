//! The speed of every layout: GB/s of decoded weights, next to that of `memcpy`.
//!
//!     cargo bench -p tensorfile-quant [-- PART OF A NAME]
//!
//! All bytes fit the second-level cache, and one thread decodes them.

use std::hint::black_box;
use std::time::{Duration, Instant};

use half::{bf16, f16};
use tensorfile_quant::packed::Packing;
use tensorfile_quant::{Block, Columns, Float, Float4, Float8, affine, awq, codebook, gptq, int8, packed};

/// Weights of a call. A row or several: 128 KiB of `f32`.
const WEIGHTS: usize = 1 << 15;
const ROUNDS: usize = 30;

fn main() {
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    println!("{:24}{:>8}{:>8}{:>8}   GB/s of output", "", "f32", "bf16", "f16");
    let numbers = vec![1.0_f32; WEIGHTS];
    let mut copy = vec![0.0_f32; WEIGHTS + 1000];
    let copy = &mut copy[1000..];
    let speed = measure(4 * WEIGHTS, || black_box(&mut *copy).copy_from_slice(black_box(&numbers)));
    println!("{:24}{speed:8.1}{speed:8.1}{speed:8.1}", "memcpy");
    for layout in layouts().filter(|layout| layout.name().contains(&filter)) {
        let f32 = layout.speed::<f32>();
        println!("{:24}{f32:8.1}{:8.1}{:8.1}", layout.name(), layout.speed::<bf16>(), layout.speed::<f16>());
    }
}

enum Layout {
    Block(Block),
    Float8(Float8, usize),
    Float4(Float4, usize),
    Int8,
    Codebook,
    Packed(u32),
    Affine(u32),
    Gptq(u32),
    Awq,
    Transpose,
}

fn layouts() -> impl Iterator<Item = Layout> {
    let others = [
        Layout::Float8(Float8::E4m3Fn, WEIGHTS),
        Layout::Float8(Float8::E4m3Fn, 128),
        Layout::Float8(Float8::E4m3Fn, 32),
        Layout::Float8(Float8::E5m2, 128),
        Layout::Float4(Float4::Ocp, 16),
        Layout::Float4(Float4::Ocp, 32),
        Layout::Int8,
        Layout::Codebook,
        Layout::Packed(2),
        Layout::Packed(3),
        Layout::Packed(4),
        Layout::Packed(8),
        Layout::Affine(2),
        Layout::Affine(3),
        Layout::Affine(4),
        Layout::Affine(5),
        Layout::Affine(6),
        Layout::Affine(8),
        Layout::Gptq(2),
        Layout::Gptq(3),
        Layout::Gptq(4),
        Layout::Gptq(8),
        Layout::Awq,
        Layout::Transpose,
    ];
    others.into_iter().chain(Block::ALL.iter().copied().map(Layout::Block))
}

impl Layout {
    fn name(&self) -> String {
        match self {
            Self::Block(block) => block.name().to_owned(),
            Self::Float8(float, group) => format!("{float:?}, groups of {group}"),
            Self::Float4(float, group) => format!("{float:?} e2m1, groups of {group}"),
            Self::Int8 => "int8".to_owned(),
            Self::Codebook => "nf4".to_owned(),
            Self::Packed(bits) => format!("packed, {bits} bits"),
            Self::Affine(bits) => format!("affine, {bits} bits"),
            Self::Gptq(bits) => format!("gptq, {bits} bits"),
            Self::Awq => "awq".to_owned(),
            Self::Transpose => "transpose".to_owned(),
        }
    }

    fn speed<F: Float>(&self) -> f64 {
        const GROUP: usize = 128;
        /// Columns of a tile, as rows of the result.
        const COLUMNS: usize = 128;
        const ROWS: usize = WEIGHTS / COLUMNS;
        let codes: Vec<_> = (0..4 * WEIGHTS).map(|i| (i.wrapping_mul(0x9e37_79b9) >> 12).to_le_bytes()[0]).collect();
        let scales = vec![0.01; WEIGHTS];
        let zeros = vec![7; WEIGHTS];
        let groups: Vec<_> = (0..ROWS).map(|row| u32::try_from(row / GROUP).expect("a small number")).collect();
        let values = groups.len() / GROUP * COLUMNS;
        let columns = Columns { count: COLUMNS, zeros: &zeros[..values], scales: &scales[..values], groups: &groups };
        let mut out = vec![F::default(); WEIGHTS];
        let out = &mut *out;
        let run: &mut dyn FnMut(&[u8]) = match *self {
            Self::Block(block) => {
                let weights = WEIGHTS / block.weights() * block.weights();
                &mut move |codes| block.decode(&codes[..weights / block.weights() * block.bytes()], &mut out[..weights])
            }
            Self::Float8(float, group) => {
                &mut move |codes| float.decode(&codes[..WEIGHTS], &scales[..WEIGHTS / group], group, out)
            }
            Self::Float4(float, group) => {
                &mut move |codes| float.decode(&codes[..WEIGHTS / 2], &scales[..WEIGHTS / group], group, out)
            }
            Self::Int8 => &mut |codes| int8::decode(&codes[..WEIGHTS], &scales[..WEIGHTS / GROUP], GROUP, out),
            Self::Codebook => {
                let map = std::array::from_fn(|i| f32::from(u8::try_from(i).expect("a small number")) - 7.5);
                let absmax = &scales[..WEIGHTS / 64];
                &mut move |codes| codebook::decode(&codes[..WEIGHTS / 2], &map, absmax, 64, out)
            }
            Self::Packed(bits) => {
                let words = 4 * Packing::Padded.words(WEIGHTS, bits);
                let (zeros, scales) = (&zeros[..WEIGHTS / GROUP], &scales[..WEIGHTS / GROUP]);
                &mut move |codes| packed::decode(&codes[..words], bits, Packing::Padded, zeros, scales, GROUP, out)
            }
            Self::Affine(bits) => {
                let scales = &scales[..WEIGHTS / 64];
                &mut move |codes| affine::decode(&codes[..WEIGHTS / 8 * bits as usize], bits, scales, scales, 64, out)
            }
            Self::Gptq(bits) => {
                let columns = &columns;
                &mut move |codes| gptq::decode(&codes[..WEIGHTS / 8 * bits as usize], bits, columns, out, ROWS)
            }
            Self::Awq => &mut |codes| awq::decode(&codes[..WEIGHTS / 2], &columns, out, ROWS),
            Self::Transpose => {
                let numbers = vec![F::default(); WEIGHTS];
                &mut move |_| tensorfile_quant::transpose(black_box(&numbers), COLUMNS, out, ROWS)
            }
        };
        measure(WEIGHTS * size_of::<F>(), || run(black_box(&codes)))
    }
}

/// Returns the GB/s of the fastest of several runs.
fn measure(bytes: usize, mut run: impl FnMut()) -> f64 {
    const CALLS: u32 = 20;
    let mut fastest = Duration::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        (0..CALLS).for_each(|_| run());
        fastest = fastest.min(start.elapsed() / CALLS);
    }
    bytes as f64 / fastest.as_secs_f64() / 1e9
}
