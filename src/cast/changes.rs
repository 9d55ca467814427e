//! Counts of changes by casts.

use num_traits::Float;

use super::number::Number;

/// Counts of the elements changed by a cast.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Changes {
    /// Changed numbers, including overflows and underflows.
    pub(super) changed: u64,
    /// Numbers out of range.
    pub(super) overflowed: u64,
    /// Nonzero numbers that became zero.
    pub(super) underflowed: u64,
    /// NaNs that became the integer 0.
    pub(super) nan_to_zero: u64,
}

impl Changes {
    pub(super) fn between(from: Number, to: Number, is_out_of_range: bool) -> Self {
        let changed = !from.is_nan() && !from.is(to);
        Self {
            changed: changed.into(),
            overflowed: (changed && is_out_of_range).into(),
            underflowed: (changed && !is_out_of_range && to.is(Number::Integer(0))).into(),
            nan_to_zero: (from.is_nan() && !to.is_nan()).into(),
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.changed += other.changed;
        self.overflowed += other.overflowed;
        self.underflowed += other.underflowed;
        self.nan_to_zero += other.nan_to_zero;
    }

    /// The number of elements changed by more than rounding.
    pub(super) fn losses(&self) -> u64 {
        self.overflowed + self.underflowed + self.nan_to_zero
    }
}

/// Counts of floats changed by rounding to another float type, for up to a chunk.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RoundingCounts {
    /// Floats not equal to their old value. A NaN is not counted.
    pub(super) changed: u32,
    /// Changed floats that are now infinite or NaN.
    pub(super) not_finite: u32,
    /// Changed floats that are now zero.
    pub(super) zero: u32,
}

impl RoundingCounts {
    /// Adds a number and its rounded value. Without branches, so that the loop is vectorized.
    // Part of the loops of `vectors`, which are compiled for wide vectors only as far as they are inlined.
    #[inline(always)]
    pub(super) fn add<F: Float>(&mut self, from: F, to: F) {
        let (is_changed, is_finite) = (from != to, to.abs() < F::infinity());
        self.changed += u32::from(is_changed);
        self.not_finite += u32::from(is_changed & !is_finite);
        self.zero += u32::from(is_changed & (to == F::zero()));
    }

    /// Returns the changes of the counted `numbers`.
    pub(super) fn of<F: Float>(self, numbers: &[F]) -> Changes {
        let mut nan = 0;
        if self.not_finite > 0 {
            // NaN stays NaN, which is not a change.
            nan = numbers.iter().map(|number| u32::from(number.is_nan())).sum();
        }
        Changes {
            changed: (self.changed - nan).into(),
            overflowed: (self.not_finite - nan).into(),
            underflowed: self.zero.into(),
            nan_to_zero: 0,
        }
    }
}
