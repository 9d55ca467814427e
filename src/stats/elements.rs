//! Elements as floats that hold their numbers.

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

/// The elements of a payload that comes in pieces.
#[derive(Debug, Clone)]
pub(super) struct Elements {
    /// The numeric dtype that the elements are read as.
    dtype: Dtype,
    floats: FloatChunks,
    whole: WholeElements,
}

impl Elements {
    /// Elements of this dtype after `skip` bytes of other data; `None` if they are not numbers.
    ///
    /// Booleans and quantised elements are read as the integers that are stored.
    pub(super) fn new(dtype: Dtype, skip: usize) -> Option<Self> {
        let dtype = read_as(dtype);
        Some(Self { dtype, floats: float_chunks(dtype)?, whole: WholeElements::new(dtype.block_bytes(), skip) })
    }

    /// Adds the next piece, and calls `take` with the elements that are complete.
    pub(super) fn add(&mut self, piece: &[u8], mut take: impl FnMut(Chunk<'_>)) {
        let Self { dtype, floats, whole } = self;
        whole.add(piece, |elements| match (*dtype, *floats) {
            (Dtype::I64, _) => large_integers(elements, |integer: i64| integer as f64, &mut take),
            (Dtype::U64, _) => large_integers(elements, |integer: u64| integer as f64, &mut take),
            (_, FloatChunks::F32(read)) => read(elements, &mut |floats| take(Chunk::F32(floats))),
            (_, FloatChunks::F64(read)) => read(elements, &mut |floats| take(Chunk::F64(floats))),
        });
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

/// Returns the dtype of the stored integers for `bool` and quantised dtypes, and other dtypes unchanged.
fn read_as(dtype: Dtype) -> Dtype {
    macro_rules! read_as {
        ($($variant:ident $name:literal $elements:literal / $bytes:literal $class:ident $scalar:ty as $bits:ty, $doc:literal;)*) => {
            match dtype {
                $(Dtype::$variant => one!($class $scalar, $bits),)*
            }
        };
    }

    macro_rules! one {
        (Logical $scalar:ty, $bits:ty) => {
            <$bits as Element>::DTYPE
        };
        (Quantised $scalar:ty, $bits:ty) => {
            <$bits as Element>::DTYPE
        };
        ($class:ident $scalar:ty, $bits:ty) => {
            <$scalar as Element>::DTYPE
        };
    }

    for_each_dtype!(read_as)
}
