//! Sums of two floats, for what does not fit into one.

/// A number as the sum of two floats. The lower one is at most half of the last digit of the higher one.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Twofold {
    pub(super) high: f64,
    pub(super) low: f64,
}

/// Returns the rounded sum of two numbers, and what rounding left out. It has the instructions of six sums.
// Inlined into the loop over elements, whose sums are kept apart for every eighth one.
#[inline(always)]
pub(super) fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let part_of_b = sum - a;
    let part_of_a = sum - part_of_b;
    (sum, (a - part_of_a) + (b - part_of_b))
}

impl Twofold {
    /// Returns the sum of two numbers.
    pub(super) fn new(a: f64, b: f64) -> Self {
        let (high, low) = two_sum(a, b);
        Self { high, low }
    }

    /// Returns an integer of up to 106 bits.
    #[expect(clippy::cast_possible_truncation, reason = "the float is near the integer")]
    pub(super) fn from_integer(integer: i128) -> Self {
        let high = integer as f64;
        Self { high, low: (integer - high as i128) as f64 }
    }

    pub(super) fn is_finite(self) -> bool {
        self.high.is_finite() && self.low.is_finite()
    }

    pub(super) fn add(self, other: Self) -> Self {
        let (high, low) = two_sum(self.high, other.high);
        let (lower, lowest) = two_sum(self.low, other.low);
        let sum = Self::new(high, low + lower);
        Self::new(sum.high, sum.low + lowest)
    }

    /// Returns the difference, rounded to a float.
    pub(super) fn distance_to(self, other: Self) -> f64 {
        let negative = Self { high: -self.high, low: -self.low };
        let difference = other.add(negative);
        difference.high + difference.low
    }

    pub(super) fn divide(self, by: f64) -> Self {
        let high = self.high / by;
        // The remainder of the division, which is a float.
        let left = high.mul_add(-by, self.high) + self.low;
        Self::new(high, left / by)
    }

    /// Multiplies by a power of two.
    pub(super) fn scale(self, power: f64) -> Self {
        Self { high: self.high * power, low: self.low * power }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::cast_possible_truncation, reason = "the floats are integers")]
    fn nothing_is_left_out() {
        let sum =
            [1e16, 1.0, -1e16, 1e-3, 1.0].iter().fold(Twofold::default(), |sum, x| sum.add(Twofold::new(*x, 0.0)));
        assert_eq!((sum.high, sum.low.abs() < 1e-15), (2.001, true));
        let integer = (1_i128 << 100) + (1 << 50) + 1;
        let Twofold { high, low } = Twofold::from_integer(integer);
        assert_eq!(high as i128 + low as i128, integer);
        let third = Twofold::new(1.0, 0.0).divide(3.0);
        assert_eq!(third.high, 1.0 / 3.0);
        // A third has no end in base 2: three times it, rounded to 107 bits, is less than 1 by what rounding left out.
        assert_eq!(third.add(third).add(third), Twofold { high: 1.0, low: -(2.0_f64.powi(-108)) });
        assert_eq!(third.distance_to(Twofold::new(third.high, 0.0)), -third.low);
    }
}
