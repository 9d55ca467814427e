use std::fmt;

use half::{bf16, f16};

use super::{Dtype, Element, F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz, Number, element};

/// A number that the dtype asked for cannot hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidCast {
    /// Which element.
    pub element: usize,
    /// The number.
    pub value: String,
    /// The dtype asked for.
    pub to: Dtype,
}

impl fmt::Display for InvalidCast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "element {} is {}, which no {} can hold", self.element, self.value, self.to)
    }
}

impl std::error::Error for InvalidCast {}

/// Whether elements of one dtype can be read as another by [`cast`]: both are numbers.
pub(crate) fn can_cast(from: Dtype, to: Dtype) -> bool {
    let number = |dtype: Dtype| dtype.is_integer() || dtype.is_float();
    number(from) && number(to)
}

/// Casts the elements in little-endian `bytes`, number by number; [`can_cast`] says between which dtypes.
///
/// A float is rounded to the nearest of the other type, ties to even. Nothing else may change: an integer that does not
/// fit, a fraction that would become an integer, and a finite number that would become infinite are errors.
pub(crate) fn cast<A: Element>(from: Dtype, bytes: &[u8]) -> Result<Vec<A>, InvalidCast> {
    let cast = |(element, bytes): (usize, &[u8])| {
        let value = number(from, bytes).expect("`can_cast` says yes for numbers only");
        A::from_number(value).ok_or_else(|| InvalidCast { element, value: value.to_string(), to: A::DTYPE })
    };
    bytes.chunks_exact(from.block_bytes()).enumerate().map(cast).collect()
}

/// The number that the little-endian bytes of one element are; `None` where the dtype is not of numbers that we can
/// compute with.
pub(crate) fn number(dtype: Dtype, bytes: &[u8]) -> Option<Number> {
    fn one<A: Element + Into<Number>>(bytes: &[u8]) -> Option<Number> {
        let mut bits = [bytemuck::try_pod_read_unaligned::<A::Bits>(bytes).ok()?];
        element::le_to_host(&mut bits);
        Some(A::view_bits(&bits).ok()?[0].into())
    }

    match dtype {
        Dtype::I8 => one::<i8>(bytes),
        Dtype::I16 => one::<i16>(bytes),
        Dtype::I32 => one::<i32>(bytes),
        Dtype::I64 => one::<i64>(bytes),
        Dtype::U8 => one::<u8>(bytes),
        Dtype::U16 => one::<u16>(bytes),
        Dtype::U32 => one::<u32>(bytes),
        Dtype::U64 => one::<u64>(bytes),
        Dtype::F16 => one::<f16>(bytes),
        Dtype::Bf16 => one::<bf16>(bytes),
        Dtype::F32 => one::<f32>(bytes),
        Dtype::F64 => one::<f64>(bytes),
        Dtype::F8E5M2 => one::<F8E5M2>(bytes),
        Dtype::F8E4M3Fn => one::<F8E4M3Fn>(bytes),
        Dtype::F8E5M2Fnuz => one::<F8E5M2Fnuz>(bytes),
        Dtype::F8E4M3Fnuz => one::<F8E4M3Fnuz>(bytes),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one<A: Element, F: Element>(value: F) -> Option<A> {
        cast(F::DTYPE, &element::to_le_bytes(&[value])).ok().map(|all| all[0])
    }

    #[test]
    fn rounds_once_and_to_even() {
        assert_eq!(one::<f32, f64>(16_777_217.0), Some(16_777_216.0));
        assert_eq!(one::<f32, i64>(16_777_219), Some(16_777_220.0));
        // Rounded to `f32` first, these would be ties that they are not.
        assert_eq!(one::<f16, f64>(1.0 + 2.0_f64.powi(-11) + 2.0_f64.powi(-40)), Some(f16::from_bits(0x3c01)));
        let above_a_tie = (1_i64 << 60) + (1 << 52) + 1;
        assert_eq!(one::<bf16, i64>(above_a_tie).map(bf16::to_f32), Some(2.0_f32.powi(60) + 2.0_f32.powi(53)));
        assert_eq!(one::<bf16, i64>(-above_a_tie).map(bf16::to_f32), Some(-2.0_f32.powi(60) - 2.0_f32.powi(53)));
    }

    #[test]
    fn refuses_what_does_not_fit() {
        assert_eq!(one::<u8, i16>(256), None);
        assert_eq!(one::<u8, i16>(-1), None);
        assert_eq!(one::<i32, f32>(0.5), None);
        assert_eq!(one::<i32, f32>(f32::NAN), None);
        assert_eq!(one::<f16, f32>(65520.0), None);
        assert_eq!(one::<f16, f32>(f32::INFINITY), Some(f16::INFINITY));
        assert_eq!(one::<i64, f64>(-3.0), Some(-3));
        assert!(one::<f32, f64>(f64::NAN).is_some_and(f32::is_nan));
    }
}
