//! The dtypes of decoded weights, and of scales.

use half::{bf16, f16};

use crate::vectors::{narrow_f16, widest};

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for half::bf16 {}
    impl Sealed for half::f16 {}
}

/// A dtype that weights are decoded to: `f32`, [`half::bf16`] or [`half::f16`].
///
/// ```
/// use half::bf16;
/// use tensorfile_quant::Float;
///
/// assert_eq!(bf16::nearest(1.001), bf16::ONE);
/// ```
pub trait Float: sealed::Sealed + Copy + Default + Send + Sync + 'static {
    /// Returns the nearest number, ties to even. Numbers beyond the largest become infinite, and NaN stays NaN.
    #[must_use]
    fn nearest(number: f32) -> Self;

    /// Returns the number as `f32`, exactly.
    #[must_use]
    fn widen(self) -> f32;

    /// Converts little-endian numbers to `f32`, exactly. Makes the scales for other functions from a file's bytes.
    ///
    /// ```
    /// use half::f16;
    /// use tensorfile_quant::Float;
    ///
    /// let mut scales = [0.0; 2];
    /// f16::widen_bytes(&[0x00, 0x3c, 0x00, 0x40], &mut scales);
    /// assert_eq!(scales, [1.0, 2.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the lengths differ.
    fn widen_bytes(bytes: &[u8], out: &mut [f32]);

    /// Calls a function for each piece with the index of its first weight, and rounds the `f32` it writes. Pieces are as long as the
    /// buffer.
    ///
    /// Kernels write only `f32`: they are compiled once, and rustc does not vectorize most of them together with rounding.
    #[doc(hidden)]
    fn collect(out: &mut [Self], buffer: &mut [f32], decode: &mut dyn FnMut(usize, &mut [f32])) {
        let piece = buffer.len();
        for (i, out) in out.chunks_mut(piece).enumerate() {
            let numbers = &mut buffer[..out.len()];
            decode(i * piece, numbers);
            Self::round(numbers, out);
        }
    }

    /// Rounds to the nearest numbers. The slices have the same length.
    #[doc(hidden)]
    fn round(numbers: &[f32], out: &mut [Self]) {
        widest(
            #[inline(always)]
            |numbers: &[f32], out: &mut [Self], ()| {
                for (&number, out) in numbers.iter().zip(out) {
                    *out = Self::nearest(number);
                }
            },
            numbers,
            out,
            (),
        );
    }
}

/// Weights in a buffer.
pub(crate) const PIECE: usize = 1024;

impl Float for f32 {
    #[inline(always)]
    fn nearest(number: f32) -> Self {
        number
    }

    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }

    fn widen_bytes(bytes: &[u8], out: &mut [f32]) {
        widen_each(
            bytes,
            out,
            #[inline(always)]
            |bytes| Self::from_bits(u32::from_le_bytes(bytes)),
        );
    }

    fn collect(out: &mut [Self], _: &mut [f32], decode: &mut dyn FnMut(usize, &mut [f32])) {
        decode(0, out);
    }
}

impl Float for bf16 {
    #[inline(always)]
    fn nearest(number: f32) -> Self {
        let bits = number.to_bits();
        let last = (bits >> 16) & 1;
        let nearest = if number.is_nan() { bits | 0x40_0000 } else { bits.wrapping_add(0x7fff + last) };
        // Shifted with their sign, the bits fit the instructions for packing 32 bits into 16.
        Self::from_bits(low_half(nearest.cast_signed() >> 16))
    }

    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }

    fn widen_bytes(bytes: &[u8], out: &mut [f32]) {
        widen_each(
            bytes,
            out,
            #[inline(always)]
            |bytes| Self::from_le_bytes(bytes).widen(),
        );
    }
}

// Without branches, so that loops are vectorized. The conversions of `half` are calls.
impl Float for f16 {
    #[inline(always)]
    fn nearest(number: f32) -> Self {
        const INFINITY: u32 = 0x7c00;
        /// The smallest normal `f16`.
        const NORMAL: u32 = 113 << 23;
        /// The smallest power of two beyond `f16`.
        const BEYOND: u32 = 143 << 23;
        let bits = number.to_bits();
        let sign = bits >> 31 << 15;
        let magnitude = bits & !(1 << 31);
        // The neighbours of 0.5 in `f32` are as far apart as subnormal numbers of `f16`.
        let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5_f32.to_bits());
        let odd = (magnitude >> 13) & 1;
        let normal = magnitude.wrapping_sub(112 << 23).wrapping_add(0xfff + odd) >> 13;
        let finite = if magnitude < NORMAL { subnormal } else { normal };
        let rounded = if magnitude >= BEYOND { INFINITY } else { finite };
        let nearest = if number.is_nan() { 0x7e00 } else { rounded };
        Self::from_bits(low_half((nearest | sign).cast_signed() << 16 >> 16))
    }

    #[inline(always)]
    fn widen(self) -> f32 {
        let bits = u32::from(self.to_bits());
        let sign = bits >> 15 << 31;
        let magnitude = (bits & 0x7fff) << 13;
        // The product is exact, for subnormal numbers too.
        let finite = f32::from_bits(magnitude) * f32::from_bits((127 + 112) << 23);
        let special = magnitude | 0xff << 23;
        let positive = if magnitude >= 0x1f << 23 { special } else { finite.to_bits() };
        f32::from_bits(positive | sign)
    }

    fn round(numbers: &[f32], out: &mut [Self]) {
        if !narrow_f16(numbers, out) {
            numbers.iter().zip(out).for_each(|(&number, out)| *out = Self::nearest(number));
        }
    }

    fn widen_bytes(bytes: &[u8], out: &mut [f32]) {
        widen_each(
            bytes,
            out,
            #[inline(always)]
            |bytes| Self::from_le_bytes(bytes).widen(),
        );
    }
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the number fits 16 bits, with or without a sign")]
fn low_half(bits: i32) -> u16 {
    (bits as i16).cast_unsigned()
}

fn widen_each<const BYTES: usize>(bytes: &[u8], out: &mut [f32], widen: impl Fn([u8; BYTES]) -> f32) {
    let (numbers, rest) = bytes.as_chunks::<BYTES>();
    assert!(
        numbers.len() == out.len() && rest.is_empty(),
        "{} bytes are not {} numbers of {BYTES} bytes",
        bytes.len(),
        out.len()
    );
    widest(
        #[inline(always)]
        |numbers: &[[u8; BYTES]], out: &mut [f32], ()| {
            for (&bytes, out) in numbers.iter().zip(out) {
                *out = widen(bytes);
            }
        },
        numbers,
        out,
        (),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_two_bytes_are_those_of_half() {
        for bits in 0..=u16::MAX {
            let (number, same) = (f16::from_bits(bits).widen(), f16::from_bits(bits).to_f32_const());
            assert!(number.to_bits() == same.to_bits() || number.is_nan() && same.is_nan(), "{bits:#x}");
            assert_eq!(bf16::from_bits(bits).widen().to_bits(), u32::from(bits) << 16);
        }
    }

    #[test]
    fn numbers_are_rounded_as_half_does() {
        // Neighbours of every number of two bytes and of every middle between two, and numbers of all exponents.
        for bits in (0..=u16::MAX).flat_map(|upper| {
            let upper = u32::from(upper) << 16;
            [0, 1, 0x0fff, 0x1000, 0x1001, 0x2fff, 0x3000, 0x3001, 0x7fff, 0x8000, 0x8001, 0xffff]
                .map(|low| upper | low)
        }) {
            let number = f32::from_bits(bits);
            let (f, b) = (f16::nearest(number), bf16::nearest(number));
            assert!(f == f16::from_f32_const(number) || f.is_nan() && number.is_nan(), "{bits:#x}");
            assert!(b == bf16::from_f32_const(number) || b.is_nan() && number.is_nan(), "{bits:#x}");
            assert_eq!(
                (f.is_sign_negative(), b.is_sign_negative()),
                (number.is_sign_negative(), number.is_sign_negative())
            );
        }
    }
}
