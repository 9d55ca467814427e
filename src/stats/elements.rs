//! Elements as floats, exactly if possible.

use std::slice::Chunks;

use bytemuck::Pod;

use crate::cast::{CHUNK, FloatChunks, WholeElements, float_chunks, in_chunks};
use crate::tensor::{Dtype, Element, for_each_dtype};

/// A chunk of elements, by type.
pub(super) enum Chunk<'a> {
    F32(&'a [f32]),
    F64(&'a [f64]),
    Integers(Integers<'a>),
}

/// 64-bit integers, possibly rounded by a float.
pub(super) struct Integers<'a> {
    pub(super) rounded: &'a [f64],
    /// The distances from the smallest integer, rounded only if they have more than 53 bits.
    pub(super) distances: &'a [f64],
    pub(super) min: i128,
    pub(super) max: i128,
    pub(super) sum: i128,
}

/// Reads elements of a dtype as floats.
#[derive(Debug, Clone, Copy)]
pub(super) struct Elements {
    /// The bytes of an element.
    size: usize,
    kind: ElementKind,
}

/// The ways to read elements.
#[derive(Debug, Clone, Copy)]
enum ElementKind {
    Floats(FloatChunks),
    /// Any byte but 0 is true.
    Bool,
    I64,
    U64,
    /// Complex numbers of two `f32`, or of two `f64`: their magnitudes.
    C64,
    C128,
}

impl Elements {
    /// Elements of this dtype; `None` if they are not numbers.
    ///
    /// Booleans and quantized elements are read as their stored integers, and complex numbers as their magnitudes.
    pub(super) fn new(dtype: Dtype) -> Option<Self> {
        let kind = match read_as(dtype) {
            Dtype::Bool => ElementKind::Bool,
            Dtype::I64 => ElementKind::I64,
            Dtype::U64 => ElementKind::U64,
            Dtype::C64 => ElementKind::C64,
            Dtype::C128 => ElementKind::C128,
            dtype => ElementKind::Floats(float_chunks(dtype)?),
        };
        Some(Self { size: dtype.block_bytes(), kind })
    }

    /// Returns whether the elements come as `f32`.
    pub(super) fn are_f32(self) -> bool {
        matches!(self.kind, ElementKind::Bool | ElementKind::Floats(FloatChunks::F32(_)))
    }

    /// Joins elements of pieces of a payload, after `skip` bytes of other data.
    pub(super) fn joined_after(self, skip: usize) -> WholeElements {
        WholeElements::new(self.size, skip)
    }

    /// Calls `take` with the elements in `bytes`, a chunk at a time.
    pub(super) fn read(self, bytes: &[u8], mut take: impl FnMut(Chunk<'_>)) {
        match self.kind {
            ElementKind::Floats(FloatChunks::F32(read)) => read(bytes, &mut |floats| take(Chunk::F32(floats))),
            ElementKind::Floats(FloatChunks::F64(read)) => read(bytes, &mut |floats| take(Chunk::F64(floats))),
            ElementKind::Bool => {
                let mut floats = [0.0; CHUNK];
                in_chunks::<u8>(bytes, |bools| {
                    let floats = &mut floats[..bools.len()];
                    bools.iter().zip(&mut *floats).for_each(|(bool, float)| *float = f32::from(u8::from(*bool != 0)));
                    take(Chunk::F32(floats));
                });
            }
            // The difference of two integers fits into 64 bits without a sign.
            ElementKind::I64 => {
                large_integers(bytes, |one: i64, other| one.wrapping_sub(other).cast_unsigned(), &mut take)
            }
            ElementKind::U64 => large_integers(bytes, |one: u64, other| one.wrapping_sub(other), &mut take),
            ElementKind::C64 => magnitudes(bytes, |part: f32| part.into(), &mut take),
            ElementKind::C128 => magnitudes(bytes, |part: f64| part, &mut take),
        }
    }

    /// Returns the parts of elements for threads: whole chunks, except for the last one.
    pub(super) fn parts(self, bytes: &[u8]) -> Chunks<'_, u8> {
        /// The number of chunks in a part.
        const CHUNKS: usize = 64;
        bytes.chunks(CHUNKS * CHUNK * self.size)
    }
}

fn large_integers<A>(bytes: &[u8], distance: impl Fn(A, A) -> u64, take: &mut impl FnMut(Chunk<'_>))
where
    A: Element + Pod + Ord + Into<i128> + ToF64,
{
    let (mut rounded, mut distances) = ([0.0; CHUNK], [0.0; CHUNK]);
    in_chunks::<A>(bytes, |integers| {
        let (Some(&min), Some(&max)) = (integers.iter().min(), integers.iter().max()) else { return };
        let (rounded, distances) = (&mut rounded[..integers.len()], &mut distances[..integers.len()]);
        for ((integer, rounded), far) in integers.iter().zip(&mut *rounded).zip(&mut *distances) {
            *rounded = integer.to_f64();
            *far = distance(*integer, min) as f64;
        }
        let sum = integers.iter().map(|integer| (*integer).into()).sum();
        take(Chunk::Integers(Integers { rounded, distances, min: min.into(), max: max.into(), sum }));
    });
}

/// Integers that an `f64` may round.
trait ToF64: Copy {
    fn to_f64(self) -> f64;
}

impl ToF64 for i64 {
    fn to_f64(self) -> f64 {
        self as f64
    }
}

impl ToF64 for u64 {
    fn to_f64(self) -> f64 {
        self as f64
    }
}

/// Reads complex numbers. One with a NaN has the magnitude NaN, even if the other part is infinite.
fn magnitudes<A: Element + Pod>(bytes: &[u8], to_f64: impl Fn(A) -> f64, take: &mut impl FnMut(Chunk<'_>)) {
    let mut magnitudes = [0.0; CHUNK];
    in_chunks::<A>(bytes, |parts| {
        let (numbers, _) = parts.as_chunks::<2>();
        let magnitudes = &mut magnitudes[..numbers.len()];
        for (number, magnitude) in numbers.iter().zip(&mut *magnitudes) {
            let [real, imaginary] = number.map(&to_f64);
            *magnitude = if real.is_nan() || imaginary.is_nan() { f64::NAN } else { real.hypot(imaginary) };
        }
        take(Chunk::F64(magnitudes));
    });
}

/// Returns the dtype of the stored integers for quantized dtypes; other dtypes are unchanged.
fn read_as(dtype: Dtype) -> Dtype {
    macro_rules! read_as {
        ($($variant:ident $name:literal $elements:literal / $bytes:literal $class:ident $scalar:ty as $bits:ty, $doc:literal;)*) => {
            match dtype {
                $(Dtype::$variant => one!($class $variant, $bits),)*
            }
        };
    }

    macro_rules! one {
        (Quantized $variant:ident, $bits:ty) => {
            <$bits as Element>::DTYPE
        };
        ($class:ident $variant:ident, $bits:ty) => {
            Dtype::$variant
        };
    }

    for_each_dtype!(read_as)
}
