//! Counts of the numbers that casts change.

use num_traits::Float;

use super::number::Number;

/// Counts of the elements that a cast changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Changes {
    /// All numbers that became other numbers, including overflows and underflows.
    pub(super) changed: u64,
    /// Numbers out of range.
    pub(super) overflowed: u64,
    /// Numbers other than zero that became zero.
    pub(super) underflowed: u64,
    /// NaN that became the integer 0.
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

    /// The elements that changed by more than rounding.
    pub(super) fn losses(&self) -> u64 {
        self.overflowed + self.underflowed + self.nan_to_zero
    }
}

/// Counts of the floats that rounding to other floats changed. Those of up to a chunk fit.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RoundingCounts {
    /// All that are not equal to what they were, which NaN never is.
    pub(super) changed: u32,
    /// Of these, those that are infinite or NaN now.
    pub(super) not_finite: u32,
    /// Of these, those that are zero now.
    pub(super) zero: u32,
}

impl RoundingCounts {
    /// Adds a number, and what it was rounded to. Without branches, so that many are done at once.
    #[inline(always)]
    pub(super) fn add<F: Float>(&mut self, from: F, to: F) {
        let (is_changed, is_finite) = (from != to, to.abs() < F::infinity());
        self.changed += u32::from(is_changed);
        self.not_finite += u32::from(is_changed & !is_finite);
        self.zero += u32::from(is_changed & (to == F::zero()));
    }

    /// Returns the changes of the `numbers` that were counted.
    pub(super) fn of<F: Float>(self, numbers: &[F]) -> Changes {
        let mut nan = 0;
        if self.not_finite > 0 {
            // NaN stays NaN, which is no change.
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
