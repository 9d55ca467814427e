//! Elements as floats that hold their numbers.

use std::slice::Chunks;

use bytemuck::Pod;

use crate::cast::{CHUNK, FloatChunks, WholeElements, float_chunks, in_chunks};
use crate::tensor::{Dtype, Element, for_each_dtype};

/// Some elements.
pub(super) enum Chunk<'a> {
    F32(&'a [f32]),
    /// Exact, except that integers of 64 bits are rounded.
    F64(&'a [f64]),
    /// The smallest and the largest of integers of 64 bits, which come as floats too.
    Range(i128, i128),
}

/// Reads elements of a dtype as floats.
#[derive(Debug, Clone, Copy)]
pub(super) struct Elements {
    /// The numeric dtype that the elements are read as.
    dtype: Dtype,
    pub(super) floats: FloatChunks,
}

impl Elements {
    /// Elements of this dtype; `None` if they are not numbers.
    ///
    /// Booleans and quantized elements are read as the integers that are stored.
    pub(super) fn new(dtype: Dtype) -> Option<Self> {
        let dtype = read_as(dtype);
        Some(Self { dtype, floats: float_chunks(dtype)? })
    }

    /// Joins elements of pieces of a payload, after `skip` bytes of other data.
    pub(super) fn joined_after(self, skip: usize) -> WholeElements {
        WholeElements::new(self.dtype.block_bytes(), skip)
    }

    /// Calls `take` with the elements in `bytes`, a chunk at a time.
    pub(super) fn read(self, bytes: &[u8], mut take: impl FnMut(Chunk<'_>)) {
        match (self.dtype, self.floats) {
            (Dtype::I64, _) => large_integers(bytes, |integer: i64| integer as f64, &mut take),
            (Dtype::U64, _) => large_integers(bytes, |integer: u64| integer as f64, &mut take),
            (_, FloatChunks::F32(read)) => read(bytes, &mut |floats| take(Chunk::F32(floats))),
            (_, FloatChunks::F64(read)) => read(bytes, &mut |floats| take(Chunk::F64(floats))),
        }
    }

    /// Returns the parts of elements that threads read: whole chunks, except for the last one.
    pub(super) fn parts(self, bytes: &[u8]) -> Chunks<'_, u8> {
        /// Chunks in a part.
        const CHUNKS: usize = 64;
        bytes.chunks(CHUNKS * CHUNK * self.dtype.block_bytes())
    }
}

fn large_integers<A>(bytes: &[u8], to_f64: impl Fn(A) -> f64, take: &mut impl FnMut(Chunk<'_>))
where
    A: Element + Pod + Ord + Into<i128>,
{
    let mut floats = [0.0; CHUNK];
    in_chunks::<A>(bytes, |integers| {
        let floats = &mut floats[..integers.len()];
        integers.iter().zip(&mut *floats).for_each(|(integer, float)| *float = to_f64(*integer));
        take(Chunk::F64(floats));
        if let (Some(&smallest), Some(&largest)) = (integers.iter().min(), integers.iter().max()) {
            take(Chunk::Range(smallest.into(), largest.into()));
        }
    });
}

/// Returns the dtype of the stored integers for `bool` and quantized dtypes, and other dtypes unchanged.
fn read_as(dtype: Dtype) -> Dtype {
    macro_rules! read_as {
        ($($variant:ident $name:literal $elements:literal / $bytes:literal $class:ident $scalar:ty as $bits:ty, $doc:literal;)*) => {
            match dtype {
                $(Dtype::$variant => one!($class $variant, $bits),)*
            }
        };
    }

    macro_rules! one {
        (Logical $variant:ident, $bits:ty) => {
            <$bits as Element>::DTYPE
        };
        (Quantized $variant:ident, $bits:ty) => {
            <$bits as Element>::DTYPE
        };
        ($class:ident $variant:ident, $bits:ty) => {
            Dtype::$variant
        };
    }

    for_each_dtype!(read_as)
}
