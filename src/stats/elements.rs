//! Elements of any numeric dtype as floats that hold them.

use bytemuck::Pod;
use half::{bf16, f16};
use num_traits::AsPrimitive;

use crate::tensor::{CHUNK, Dtype, Element, F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz, Pieces, SmallFloat, in_chunks};

/// Some elements.
pub(super) enum Chunk<'a> {
    Narrow(&'a [f32]),
    /// Exactly, but for integers of 64 bits, which are rounded.
    Wide(&'a [f64]),
    /// The smallest and the largest of rounded integers that came before.
    Range(i128, i128),
}

type Decode = fn(&[u8], &mut dyn FnMut(Chunk<'_>));

/// Quantised elements are the integers that are stored.
const DECODE: &[(Dtype, Decode)] = &[
    (Dtype::Bool, small_integers::<u8>),
    (Dtype::I8, small_integers::<i8>),
    (Dtype::I16, small_integers::<i16>),
    (Dtype::I32, wide::<i32>),
    (Dtype::I64, large_integers::<i64>),
    (Dtype::U8, small_integers::<u8>),
    (Dtype::U16, small_integers::<u16>),
    (Dtype::U32, wide::<u32>),
    (Dtype::U64, large_integers::<u64>),
    (Dtype::F16, small_floats::<f16>),
    (Dtype::Bf16, small_floats::<bf16>),
    (Dtype::F32, |bytes, take| in_chunks(bytes, |chunk| take(Chunk::Narrow(chunk)))),
    (Dtype::F64, |bytes, take| in_chunks(bytes, |chunk| take(Chunk::Wide(chunk)))),
    (Dtype::F8E5M2, small_floats::<F8E5M2>),
    (Dtype::F8E4M3Fn, small_floats::<F8E4M3Fn>),
    (Dtype::F8E5M2Fnuz, small_floats::<F8E5M2Fnuz>),
    (Dtype::F8E4M3Fnuz, small_floats::<F8E4M3Fnuz>),
    (Dtype::QInt8, small_integers::<i8>),
    (Dtype::QUint8, small_integers::<u8>),
    (Dtype::QInt32, wide::<i32>),
];

fn small_floats<A: SmallFloat>(bytes: &[u8], take: &mut dyn FnMut(Chunk<'_>)) {
    let mut floats = [0.0; CHUNK];
    in_chunks::<A>(bytes, |chunk| {
        let floats = &mut floats[..chunk.len()];
        A::widen(chunk, floats);
        take(Chunk::Narrow(floats));
    });
}

fn small_integers<A: Element<Bits = A> + Pod + Into<f32>>(bytes: &[u8], take: &mut dyn FnMut(Chunk<'_>)) {
    let mut floats = [0.0; CHUNK];
    in_chunks::<A>(bytes, |chunk| {
        let floats = &mut floats[..chunk.len()];
        chunk.iter().zip(&mut *floats).for_each(|(element, float)| *float = (*element).into());
        take(Chunk::Narrow(floats));
    });
}

fn wide<A: Element<Bits = A> + Pod + AsPrimitive<f64>>(bytes: &[u8], take: &mut dyn FnMut(Chunk<'_>)) {
    let mut floats = [0.0; CHUNK];
    in_chunks::<A>(bytes, |chunk| {
        let floats = &mut floats[..chunk.len()];
        chunk.iter().zip(&mut *floats).for_each(|(element, float)| *float = element.as_());
        take(Chunk::Wide(floats));
    });
}

fn large_integers<A>(bytes: &[u8], take: &mut dyn FnMut(Chunk<'_>))
where
    A: Element<Bits = A> + Pod + Ord + AsPrimitive<f64> + Into<i128>,
{
    wide::<A>(bytes, take);
    in_chunks::<A>(bytes, |chunk| {
        if let (Some(&smallest), Some(&largest)) = (chunk.iter().min(), chunk.iter().max()) {
            take(Chunk::Range(smallest.into(), largest.into()));
        }
    });
}

/// The elements of a payload that comes in pieces.
#[derive(Debug, Clone)]
pub(super) struct Elements {
    pieces: Pieces,
    decode: Decode,
}

impl Elements {
    /// Elements of this dtype after so many bytes that are none; `None` where they are no numbers.
    pub(super) fn new(dtype: Dtype, skip: usize) -> Option<Self> {
        let (_, decode) = *DECODE.iter().find(|(of, _)| *of == dtype)?;
        Some(Self { pieces: Pieces::new(dtype.block_bytes(), skip), decode })
    }

    /// Calls `take` with the elements that are whole by now.
    pub(super) fn add(&mut self, piece: &[u8], mut take: impl FnMut(Chunk<'_>)) {
        self.pieces.add(piece, |elements| (self.decode)(elements, &mut take));
    }
}
