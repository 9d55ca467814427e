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
    #[expect(clippy::cast_possible_truncation, reason = "of 32 bits shifted by 16")]
    fn narrow(from: &[f32], to: &mut [Self]) {
        for (from, to) in from.iter().zip(to) {
            let bits = from.to_bits();
            let last = (bits >> 16) & 1;
            let number = bits.wrapping_add(0x7fff + last) >> 16;
            let nan = (bits >> 16) | 0x40;
            *to = Self::from_bits(if from.is_nan() { nan } else { number } as u16);
        }
    }
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
