//! Quantiles in bounded memory.
//!
//! Up to 2^20 elements are kept. More are counted in bins: elements that start with the same bits share one. If they are
//! near each other and far from zero, their distances from the median are binned instead.

use num_traits::Float;

/// The most elements that are kept.
const FEW: usize = 1 << 20;
/// The first bits of a float, which are its bin: sign, exponent and the start of the mantissa.
const BIN_BITS: u32 = 20;
/// The bin of zero.
const ZERO: u32 = 1 << (BIN_BITS - 1);

/// A float type with bins.
pub(super) trait Real: Float + Into<f64> {
    /// Returns the bin of the nearest number with [`BIN_BITS`] bits. Bins are in the order of the numbers.
    fn bin(self) -> u32;

    /// Returns the bin of a number that was of this type.
    fn bin_of(number: f64) -> u32;

    /// Returns the number in the middle of a bin.
    fn of_bin(bin: usize) -> f64;
}

macro_rules! reals {
    ($($float:ident by $bits:ident),*) => {$(
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_possible_wrap,
            clippy::cast_sign_loss,
            reason = "20 bits, or a number that was of this type"
        )]
        impl Real for $float {
            fn bin(self) -> u32 {
                const DROPPED: u32 = $bits::BITS - BIN_BITS;
                let magnitude = ((self.abs().to_bits() + (1 << (DROPPED - 1))) >> DROPPED) as u32;
                if self < 0.0 { ZERO - magnitude } else { ZERO + magnitude }
            }

            fn bin_of(number: f64) -> u32 {
                (number as $float).bin()
            }

            fn of_bin(bin: usize) -> f64 {
                let from_zero = bin as i64 - i64::from(ZERO);
                let bits = (from_zero.unsigned_abs() as $bits) << ($bits::BITS - BIN_BITS);
                let magnitude: f64 = $float::from_bits(bits).into();
                if from_zero < 0 { -magnitude } else { magnitude }
            }
        }
    )*};
}

reals! { f32 by u32, f64 by u64 }

/// The bins of elements.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bins {
    /// Subtracted from elements before they are binned.
    center: f64,
}

impl Bins {
    pub(super) fn of<F: Real>(self, element: F) -> u32 {
        let center = F::from(self.center).expect("a center is one of the elements");
        (element - center).bin()
    }
}

#[derive(Debug, Clone)]
pub(super) struct Quantiles {
    /// All elements, as long as they are few.
    few: Vec<f64>,
    /// The number of elements in each bin, once they are many.
    counts: Vec<u64>,
    /// Allows bins of distances from a center. Without a center, bins are exact for elements of few bits.
    is_centered: bool,
    /// Subtracted from elements before they are binned.
    center: f64,
    bin: fn(f64) -> u32,
    of_bin: fn(usize) -> f64,
}

impl Quantiles {
    /// Creates quantiles without elements. `are_wide`: elements may have more bits than bins.
    pub(super) fn new(are_wide: bool) -> Self {
        let (few, counts) = (Vec::new(), Vec::new());
        Self { few, counts, is_centered: are_wide, center: 0.0, bin: f64::bin_of, of_bin: f64::of_bin }
    }

    pub(super) fn add<F: Real>(&mut self, finite: &[F]) {
        (self.bin, self.of_bin) = (F::bin_of, F::of_bin);
        if self.counts.is_empty() && self.few.len() + finite.len() <= FEW {
            self.few.extend(finite.iter().map(|&element| element.into()));
            return;
        }
        self.count();
        let bins = self.bins().expect("elements are counted");
        finite.iter().for_each(|&element| self.counts[bins.of(element) as usize] += 1);
    }

    /// Returns the bins that elements are counted in, once they are many.
    pub(super) fn bins(&self) -> Option<Bins> {
        (!self.counts.is_empty()).then_some(Bins { center: self.center })
    }

    /// Adds elements by their [`bins`](Self::bins).
    pub(super) fn add_by_bin(&mut self, bins: &[u32]) {
        bins.iter().for_each(|&bin| self.counts[bin as usize] += 1);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        // Without elements, `bin` and `of_bin` are not those of the element type.
        if other.few.is_empty() && other.counts.is_empty() {
            return;
        }
        if self.few.is_empty() && self.counts.is_empty() {
            *self = other.clone();
            return;
        }
        (self.bin, self.of_bin) = (other.bin, other.of_bin);
        if self.counts.is_empty() && other.counts.is_empty() && self.few.len() + other.few.len() <= FEW {
            self.few.extend_from_slice(&other.few);
            return;
        }
        self.count();
        other.few.iter().for_each(|&element| self.counts[(self.bin)(element - self.center) as usize] += 1);
        if self.center == other.center {
            self.counts.iter_mut().zip(&other.counts).for_each(|(count, other)| *count += other);
            return;
        }
        for (bin, count) in other.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            self.counts[(self.bin)((other.of_bin)(bin) + other.center - self.center) as usize] += count;
        }
    }

    /// Switches to counting.
    fn count(&mut self) {
        if self.counts.is_empty() {
            self.counts = vec![0; 1 << BIN_BITS];
            let mut few = std::mem::take(&mut self.few);
            self.count_few(&few);
            if self.is_centered && !few.is_empty() && !self.is_spread(few.len()) {
                self.center = center(&mut few);
                if self.center != 0.0 {
                    self.counts.fill(0);
                    self.count_few(&few);
                }
            }
        }
    }

    fn count_few(&mut self, few: &[f64]) {
        few.iter().for_each(|element| self.counts[(self.bin)(element - self.center) as usize] += 1);
    }

    /// Returns `true` if the bins show that the [`center`] of `elements` elements is zero, which takes less time than to
    /// find it.
    fn is_spread(&self, elements: usize) -> bool {
        /// Twice the relative error of a number that is known by its bin, or more.
        const ERROR: f64 = 1.0 / 256.0;
        let quarter = (elements / 4) as u64;
        let quartiles = self.nths_by_count(&[1, 2, 3].map(|part| part * quarter));
        let [low, median, high] = [quartiles[0], quartiles[1], quartiles[2]];
        let least = high - low - ERROR * (high.abs() + low.abs());
        // The bins of the largest numbers are infinite.
        high.is_finite() && low.is_finite() && least > (1.0 + ERROR) * NEAR * median.abs()
    }

    /// Returns the quantiles of at least one element. They are between the limits.
    pub(super) fn at(&self, parts: &[f64], min: f64, max: f64) -> Vec<f64> {
        let count = self.counts.iter().sum::<u64>() + self.few.len() as u64;
        let place = |part: f64| part.clamp(0.0, 1.0) * (count - 1) as f64;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and `count`")]
        let neighbors = |part: &f64| [place(*part).floor() as u64, place(*part).ceil() as u64];
        let mut numbers: Vec<u64> = parts.iter().flat_map(neighbors).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let elements = if self.counts.is_empty() { self.nths_of_few(&numbers) } else { self.nths_by_count(&numbers) };
        let element = |number| elements[numbers.partition_point(|other| *other < number)].clamp(min, max);
        let quantile = |part: &f64| {
            let ([below, above], fract) = (neighbors(part).map(element), place(*part).fract());
            below * (1.0 - fract) + above * fract
        };
        parts.iter().map(quantile).collect()
    }

    fn nths_of_few(&self, numbers: &[u64]) -> Vec<f64> {
        let mut sorted = self.few.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let nth = |n: &u64| usize::try_from(*n).ok().and_then(|n| sorted.get(n).copied());
        // Rounding may have passed the last element.
        numbers.iter().map(|n| nth(n).unwrap_or(f64::INFINITY)).collect()
    }

    /// Returns the elements with these numbers, which are in ascending order, by their bins.
    fn nths_by_count(&self, numbers: &[u64]) -> Vec<f64> {
        let (mut bins, mut bin, mut end) = (self.counts.iter().enumerate(), 0, 0);
        let nth = |&n: &u64| {
            while end <= n {
                // Rounding may have passed the last element.
                let Some((at, count)) = bins.next() else { return f64::INFINITY };
                bin = at;
                end += count;
            }
            (self.of_bin)(bin) + self.center
        };
        numbers.iter().map(nth).collect()
    }
}

/// Elements are near each other if half of them are no further apart than this part of the median.
const NEAR: f64 = 1.0 / 16.0;

/// Returns the number around which bins are narrowest: the median if most elements are nearer to each other than to zero,
/// else zero.
fn center(elements: &mut [f64]) -> f64 {
    let quarter = elements.len() / 4;
    let [low, median, high] = [1, 2, 3].map(|part| *elements.select_nth_unstable_by(part * quarter, f64::total_cmp).1);
    if high - low < median.abs() * NEAR { median } else { 0.0 }
}
