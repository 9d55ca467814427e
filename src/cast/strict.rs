//! Casts that only round floats, and refuse any other change.

use super::CHUNK;
use super::changes::Changes;
use super::kernels::Kernel;
use crate::error::{InvalidCast, Result};
use crate::tensor::{Buffer, Dtype};

/// The number of elements to cast before a check.
const PIECE: usize = 8 * CHUNK;

/// Casts the elements in little-endian `bytes`; `TensorInfo::can_cast_to` must be `true` for the dtypes.
///
/// Floats are rounded to the nearest number, ties to even.
///
/// # Errors
///
/// [`InvalidCast`] names the first number with a refused change: an integer out of range, a fraction or NaN cast to an
/// integer, or a finite number that would become infinite. [`ErrorKind::OutOfMemory`](crate::ErrorKind).
pub(crate) fn cast(from: Dtype, to: Dtype, bytes: &[u8]) -> Result<Buffer> {
    let kernel = Kernel::between(from, to).expect("`can_cast_to` was asked first");
    let is_invalid = |changes: Changes| {
        if to.is_integer() { changes.changed + changes.nan_to_zero > 0 } else { changes.overflowed > 0 }
    };
    let expected = bytes.len() / from.block_bytes() * to.block_bytes();
    let mut elements = Buffer::with_capacity(to.block_bytes(), 0);
    elements.reserve(expected)?;
    let mut out = Vec::new();
    for (piece, bytes) in bytes.chunks(PIECE * from.block_bytes()).enumerate() {
        out.clear();
        if is_invalid(kernel.cast(bytes, &mut out)) {
            let (element, value, _) = kernel.first(bytes, is_invalid).expect("the kernel has counted one");
            return Err(InvalidCast { element: piece * PIECE + element, value: value.to_string(), to }.into());
        }
        elements.append(&out, expected)?;
    }
    Ok(elements)
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;
    use crate::tensor::{Element, F8E4M3Fn, F8E5M2};

    fn one<A: Element, F: Element>(value: F) -> Option<A> {
        let cast = cast(F::DTYPE, A::DTYPE, &F::as_le_bytes(&[value])).ok()?;
        Some(A::from_buffer(cast).unwrap()[0])
    }

    #[test]
    fn rounds_once_and_to_even() {
        assert_eq!(one::<f32, f64>(16_777_217.0), Some(16_777_216.0));
        assert_eq!(one::<f32, i64>(16_777_219), Some(16_777_220.0));
        // Rounded to `f32` first, these numbers would become ties.
        assert_eq!(one::<f16, f64>(1.0 + 2.0_f64.powi(-11) + 2.0_f64.powi(-40)), Some(f16::from_bits(0x3c01)));
        let above_a_tie = (1_i64 << 60) + (1 << 52) + 1;
        assert_eq!(one::<bf16, i64>(above_a_tie).map(bf16::to_f32), Some(2.0_f32.powi(60) + 2.0_f32.powi(53)));
        assert_eq!(one::<bf16, i64>(-above_a_tie).map(bf16::to_f32), Some(-2.0_f32.powi(60) - 2.0_f32.powi(53)));
    }

    #[test]
    fn refuses_numbers_that_do_not_fit() {
        assert_eq!(one::<u8, i16>(256), None);
        assert_eq!(one::<u8, i16>(-1), None);
        assert_eq!(one::<i32, f32>(0.5), None);
        assert_eq!(one::<i32, f32>(f32::NAN), None);
        assert_eq!(one::<f16, f32>(65520.0), None);
        assert_eq!(one::<F8E4M3Fn, f32>(f32::INFINITY), None);
        assert_eq!(one::<f32, f64>(1e39), None);
    }

    #[test]
    fn keeps_numbers_that_fit() {
        assert_eq!(one::<f16, f32>(f32::INFINITY), Some(f16::INFINITY));
        assert_eq!(one::<F8E5M2, f32>(f32::INFINITY), Some(F8E5M2(0x7c)));
        assert_eq!(one::<i64, f64>(-3.0), Some(-3));
        assert_eq!(one::<u8, f32>(-0.0), Some(0));
        assert_eq!(one::<f32, f64>(1e-50), Some(0.0));
        assert!(one::<f32, f64>(f64::NAN).is_some_and(f32::is_nan));
    }

    #[test]
    fn names_the_first_number_that_does_not_fit() {
        let mut numbers = vec![1.0_f32; 3 * PIECE];
        (numbers[2 * PIECE + 5], numbers[2 * PIECE + 7]) = (0.5, 1e10);
        let error = cast(Dtype::F32, Dtype::I32, &Element::as_le_bytes(&numbers[..])).unwrap_err();
        let expected = InvalidCast { element: 2 * PIECE + 5, value: "0.5".to_owned(), to: Dtype::I32 };
        assert_eq!(error.to_string(), expected.to_string());
        assert_eq!(error.to_string(), "element 16389 is 0.5, which i32 cannot hold");
    }
}
