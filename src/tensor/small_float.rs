use bytemuck::Pod;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use super::{Element, F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz, Number, nearest};

/// A float whose numbers are all numbers of `f32`.
pub(crate) trait SmallFloat: Element<Bits = Self> + Pod {
    /// The numbers, exactly. The slices are of one length.
    fn widen(from: &[Self], to: &mut [f32]);

    /// The nearest numbers, ties to even; beyond the largest, infinity, or NaN where there is none.
    fn narrow(from: &[f32], to: &mut [Self]);
}

impl SmallFloat for f32 {
    fn widen(from: &[Self], to: &mut [f32]) {
        to.copy_from_slice(from);
    }

    fn narrow(from: &[f32], to: &mut [Self]) {
        to.copy_from_slice(from);
    }
}

impl SmallFloat for f16 {
    // `half` uses the processor's own instructions where it has some.
    fn widen(from: &[Self], to: &mut [f32]) {
        from.convert_to_f32_slice(to);
    }

    fn narrow(from: &[f32], to: &mut [Self]) {
        to.convert_from_f32_slice(from);
    }
}

impl SmallFloat for bf16 {
    fn widen(from: &[Self], to: &mut [f32]) {
        from.iter().zip(to).for_each(|(from, to)| *to = f32::from_bits(u32::from(from.to_bits()) << 16));
    }

    // As `half` does it, but without branches, so that many are done at once.
    fn narrow(from: &[f32], to: &mut [Self]) {
        for (from, to) in from.iter().zip(to) {
            let bits = from.to_bits();
            let last = (bits >> 16) & 1;
            let nearest = if from.is_nan() { bits | 0x40_0000 } else { bits.wrapping_add(0x7fff + last) };
            *to = Self::from_bits(upper_half(nearest));
        }
    }
}

/// The upper 16 bits. Shifted with their sign, they fit the instructions that make 16 of 32 bits.
#[expect(clippy::cast_possible_wrap, clippy::cast_sign_loss, reason = "bits, no number")]
fn upper_half(bits: u32) -> u16 {
    ((bits as i32) >> 16) as i16 as u16
}

macro_rules! float8 {
    ($($scalar:ident),*) => {$(
        impl SmallFloat for $scalar {
            fn widen(from: &[Self], to: &mut [f32]) {
                from.iter().zip(to).for_each(|(from, to)| *to = from.to_f32());
            }

            fn narrow(from: &[f32], to: &mut [Self]) {
                from.iter().zip(to).for_each(|(from, to)| *to = nearest::<Self>(Number::Float((*from).into())).0);
            }
        }
    )*};
}

float8! { F8E5M2, F8E4M3Fn, F8E5M2Fnuz, F8E4M3Fnuz }
