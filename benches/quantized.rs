//! The time to convert a file of quantized weights, beside a plain cast of the same codes, and to recognize weights by names.
//!
//! ```sh
//! cargo bench -p tensorfile-benches --bench quantized --all-features   # takes half a minute
//! ```
//!
//! Files are in a temporary folder, and are read through the system's cache. What is written is thrown away. Each time is the
//! lowest of several rounds, in which the rows take turns. `BENCH_SHRINK` divides the sizes.

use std::error::Error;
use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use comfy_table::{Table, presets};
use tensorfile::view::CastView;
use tensorfile::{
    Dequantize, Dtype, File, OpenOptions, Tensor, TensorInfo, TensorMap, WriteOptions, gguf, safetensors,
};

/// The bytes of codes in a file.
const CODES: usize = 256 << 20;

/// The weights in an index.
const WEIGHTS: usize = 50_000;

/// Work to measure, with its name.
type Row<'w> = (&'static str, &'w dyn Fn() -> Result<(), Box<dyn Error>>);

fn main() -> Result<(), Box<dyn Error>> {
    let shrink = std::env::var("BENCH_SHRINK").ok().and_then(|shrink| shrink.parse().ok()).unwrap_or(1_usize).max(1);
    let folder = tempfile::tempdir()?;
    let fp8 = folder.path().join("fp8.safetensors");
    let (rows, columns) = ((CODES / shrink / 4096).max(128), 4096);
    fs::write(&fp8, of_fp8(rows, columns)?)?;
    let q4_k = folder.path().join("q4_k.gguf");
    fs::write(&q4_k, of_q4_k(CODES / shrink)?)?;

    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_header(["to bf16, thrown away", "ms", "of the cast"]);
    let work: [Row<'_>; 3] = [
        ("FP8, codes cast as they are stored", &|| cast_codes(&fp8)),
        ("FP8, decoded", &|| decode(&fp8)),
        ("Q4_K of as many bytes, decoded", &|| decode(&q4_k)),
    ];
    let times = measure(&work)?;
    for ((what, _), time) in work.iter().zip(&times) {
        table.add_row([
            (*what).to_owned(),
            format!("{:.0}", time.as_secs_f64() * 1e3),
            format!("{:.2}", time.as_secs_f64() / times[0].as_secs_f64()),
        ]);
    }
    println!("{table}\n");

    let [plain, quantized] = [false, true].map(|scales| of_many((WEIGHTS / shrink).max(10), scales));
    let (plain, quantized) = (plain?, quantized?);
    let open = |bytes: &'static [u8], recognizes: bool| -> Result<(), Box<dyn Error>> {
        let file = File::from_bytes(bytes)?;
        if recognizes {
            std::hint::black_box(file.quantized()?);
        }
        Ok(())
    };
    let (plain, quantized): (&'static [u8], &'static [u8]) = (plain.leak(), quantized.leak());
    let work: [Row<'_>; 4] = [
        ("plain, opened", &|| open(plain, false)),
        ("plain, opened and looked at", &|| open(plain, true)),
        ("FP8 with scales, opened", &|| open(quantized, false)),
        ("FP8 with scales, opened and recognized", &|| open(quantized, true)),
    ];
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_header(["an index of twice as many tensors as weights", "ms"]);
    for ((what, _), time) in work.iter().zip(measure(&work)?) {
        table.add_row([(*what).to_owned(), format!("{:.1}", time.as_secs_f64() * 1e3)]);
    }
    println!("{table}");
    Ok(())
}

/// Returns the lowest time of each row.
fn measure(rows: &[Row<'_>]) -> Result<Vec<Duration>, Box<dyn Error>> {
    let mut lowest = vec![Duration::MAX; rows.len()];
    for _ in 0..5 {
        for ((_, work), lowest) in rows.iter().zip(&mut lowest) {
            let start = Instant::now();
            work()?;
            *lowest = (*lowest).min(start.elapsed());
        }
    }
    Ok(lowest)
}

fn cast_codes(path: &Path) -> Result<(), Box<dyn Error>> {
    let file = File::open(path)?;
    let cast = CastView::new(&file, |_, info| if info.dtype.is_float() { Dtype::Bf16 } else { info.dtype }).as_stored();
    Ok(safetensors::FORMAT.to_writer(io::sink(), &cast, &WriteOptions::new())?)
}

fn decode(path: &Path) -> Result<(), Box<dyn Error>> {
    let file = OpenOptions::new().dequantize(Dequantize::to(Dtype::Bf16)).open(path)?;
    Ok(safetensors::FORMAT.to_writer(io::sink(), &file, &WriteOptions::new())?)
}

/// Codes with a scale for each block of 128 x 128.
fn of_fp8(rows: usize, columns: usize) -> Result<Vec<u8>, Box<dyn Error>> {
    let codes: Vec<u8> = (0..rows * columns).map(|i| (i * 7 % 120).to_le_bytes()[0]).collect();
    let scales = vec![0.5_f32; rows.div_ceil(128) * columns.div_ceil(128)];
    let mut map = TensorMap::new();
    map.insert("up.weight", Tensor::new(TensorInfo::new(Dtype::F8E4M3Fn, [rows, columns]), &codes)?);
    map.insert("up.weight_scale_inv", Tensor::from_slice(&scales, [rows.div_ceil(128), columns.div_ceil(128)])?);
    Ok(safetensors::to_vec(&map)?)
}

/// Blocks of 256 weights in 144 bytes.
fn of_q4_k(bytes: usize) -> Result<Vec<u8>, Box<dyn Error>> {
    let rows = (bytes / (16 * 144)).max(1);
    // A half of 1.0 for both scales, then scales and codes.
    let block: Vec<u8> = [0x00, 0x3c, 0x00, 0x3c].into_iter().chain(0..140).collect();
    let mut map = TensorMap::new();
    map.insert("blk.0.weight", Tensor::new(TensorInfo::new(Dtype::Q4K, [rows, 16 * 256]), &block.repeat(16 * rows))?);
    Ok(gguf::to_vec(&map)?)
}

/// The index of many weights, each with another tensor beside it, which is its scale or a bias.
fn of_many(weights: usize, scales: bool) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut map = TensorMap::new();
    let other = if scales { "weight_scale" } else { "bias" };
    let dtype = if scales { Dtype::F8E4M3Fn } else { Dtype::I8 };
    for i in 0..weights {
        let name = format!("model.layers.{}.mlp.experts.{}.down_proj", i / 256, i % 256);
        map.insert(format!("{name}.weight"), Tensor::new(TensorInfo::new(dtype, [1, 4]), &[1, 2, 3, 4])?);
        map.insert(format!("{name}.{other}"), ndarray::arr1(&[0.5_f32]));
    }
    Ok(safetensors::to_vec(&map)?)
}
