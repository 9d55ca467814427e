//! Quantiles in bounded memory.
//!
//! Up to 2^20 elements are kept. More are counted in bins: elements with the same leading bits share one. If they are
//! close together and far from zero, their distances from the median are binned instead.

use std::cmp::Ordering;
use std::sync::Mutex;

use num_traits::Float;

use super::elements::Chunk;
use super::twofold::two_sum;
use crate::cast::{CHUNK, widest};

/// The maximum number of elements to keep.
const FEW: usize = 1 << 20;
/// The leading bits of a float that select its bin: sign, exponent and the start of the mantissa.
const BIN_BITS: u32 = 20;
/// The bin of zero.
const ZERO: u32 = 1 << (BIN_BITS - 1);

/// A float type with bins.
pub(super) trait Real: Float + Into<f64> {
    /// Returns the bin of the nearest number with [`BIN_BITS`] bits. Bins are in the order of the numbers.
    // Inlined into the loops that find the bins of many elements at once.
    fn bin(self) -> u32;

    /// Compares numbers as `total_cmp` of the type does.
    fn total_order(&self, other: &Self) -> Ordering;

    /// Returns the nearest number of this type.
    fn nearest(number: f64) -> Self;

    /// Returns the number in the middle of a bin.
    fn of_bin(bin: u32) -> f64;

    /// Adds the number to a sum. What rounding leaves out is added to `rest`, if it could matter.
    // Inlined into the loop over elements.
    fn add_to(self, sum: &mut f64, rest: &mut f64);
}

macro_rules! reals {
    ($($float:ident by $bits:ident, $add:expr;)*) => {$(
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_possible_wrap,
            clippy::cast_sign_loss,
            reason = "20 bits, or a number that was of this type"
        )]
        impl Real for $float {
            #[inline(always)]
            fn bin(self) -> u32 {
                const DROPPED: u32 = $bits::BITS - BIN_BITS;
                let magnitude = ((self.abs().to_bits() + (1 << (DROPPED - 1))) >> DROPPED) as u32;
                if self < 0.0 { ZERO - magnitude } else { ZERO + magnitude }
            }

            fn total_order(&self, other: &Self) -> Ordering {
                self.total_cmp(other)
            }

            fn nearest(number: f64) -> Self {
                number as $float
            }

            fn of_bin(bin: u32) -> f64 {
                let from_zero = i64::from(bin) - i64::from(ZERO);
                let bits = (from_zero.unsigned_abs() as $bits) << ($bits::BITS - BIN_BITS);
                let magnitude: f64 = $float::from_bits(bits).into();
                if from_zero < 0 { -magnitude } else { magnitude }
            }

            #[inline(always)]
            fn add_to(self, sum: &mut f64, rest: &mut f64) {
                ($add)(self, sum, rest);
            }
        }
    )*};
}

reals! {
    // A sum of `f32` has 29 more bits than its numbers.
    f32 by u32, |number: f32, sum: &mut f64, _: &mut f64| *sum += f64::from(number);
    f64 by u64, |number: f64, sum: &mut f64, rest: &mut f64| {
        let (rounded, left_out) = two_sum(*sum, number);
        *sum = rounded;
        *rest += left_out;
    };
}

/// The numbers of elements in bins. Memory is only allocated for used bins and their neighbors, to stay in the
/// processor's caches.
#[derive(Debug, Clone)]
pub(super) struct BinCounts {
    /// Subtracted from elements before they are binned.
    center: f64,
    /// The start in `counts` of the bins with these upper bits; [`NO_PAGE`] if all of them are empty.
    pages: Vec<u32>,
    counts: Vec<u32>,
    /// One entry for each overflow of a bin's count.
    carries: Vec<u32>,
}

/// The number of bins in a page.
// A table of all bins has 8 MiB. One thread counted in it, and touched its pages one by one to read it; with pages,
// each thread has its own counts.
const PAGE: u32 = 1 << 11;
/// Beyond the end of all counts.
const NO_PAGE: u32 = u32::MAX - (PAGE - 1);

impl BinCounts {
    fn new(center: f64) -> Self {
        let pages = vec![NO_PAGE; (1 << BIN_BITS) / PAGE as usize];
        Self { center, pages, counts: Vec::new(), carries: Vec::new() }
    }

    /// Counts up to a chunk of finite elements.
    pub(super) fn add(&mut self, elements: Chunk<'_>) {
        match elements {
            Chunk::F32(elements) => self.add_floats(elements),
            Chunk::F64(elements) => self.add_floats(elements),
            Chunk::Integers(integers) => self.add_floats(integers.rounded),
        }
    }

    fn add_floats<F: Real>(&mut self, elements: &[F]) {
        // Inlined into `widest`.
        #[inline(always)]
        fn each<F: Real>((elements, center, bins): (&[F], F, &mut [u32])) {
            elements.iter().zip(bins).for_each(|(&element, bin)| *bin = (element - center).bin());
        }

        let mut bins = [0; CHUNK];
        let bins = &mut bins[..elements.len()];
        widest(each, (elements, F::nearest(self.center), &mut *bins));
        let mut left = &*bins;
        while let Some(index) = count(&self.pages, &mut self.counts, &mut self.carries, left) {
            left = &left[index..];
            self.add_page(left[0]);
        }
    }

    fn add_page(&mut self, bin: u32) {
        self.pages[(bin / PAGE) as usize] = u32::try_from(self.counts.len()).expect("there are 2^20 bins");
        self.counts.resize(self.counts.len() + PAGE as usize, 0);
    }

    /// Adds several elements of one bin.
    fn add_several(&mut self, bin: u32, elements: u64) {
        let page = (bin / PAGE) as usize;
        if self.pages[page] == NO_PAGE {
            self.add_page(bin);
        }
        let count = &mut self.counts[(self.pages[page] + bin % PAGE) as usize];
        let sum = u64::from(*count) + elements;
        *count = u32::try_from(sum & u64::from(u32::MAX)).expect("32 bits");
        self.carries.extend((0..sum >> u32::BITS).map(|_| bin));
    }

    fn merge(&mut self, other: &Self) {
        other.iter().for_each(|(bin, count)| self.add_several(bin, count));
    }

    /// Returns the non-empty bins in ascending order, with their numbers of elements.
    fn iter(&self) -> impl Iterator<Item = (u32, u64)> {
        let pages = (0..).step_by(PAGE as usize).zip(&self.pages).filter(|(_, index)| **index != NO_PAGE);
        let bins = pages.flat_map(|(first, index)| (first..).zip(&self.counts[*index as usize..][..PAGE as usize]));
        let carried = |bin| {
            if self.carries.is_empty() {
                0
            } else {
                (self.carries.iter().filter(|carry| **carry == bin).count() as u64) << u32::BITS
            }
        };
        bins.map(move |(bin, count)| (bin, u64::from(*count) + carried(bin))).filter(|(_, count)| *count > 0)
    }
}

/// Counts bins up to the first one without a page, and returns its position.
fn count(pages: &[u32], counts: &mut [u32], carries: &mut Vec<u32>, bins: &[u32]) -> Option<usize> {
    for (index, &bin) in bins.iter().enumerate() {
        let Some(count) = counts.get_mut((pages[(bin / PAGE) as usize] + bin % PAGE) as usize) else {
            return Some(index);
        };
        *count = count.wrapping_add(1);
        if *count == 0 {
            carries.push(bin);
        }
    }
    None
}

#[derive(Debug, Clone)]
pub(super) enum Quantiles {
    OfF32(Sample<f32>),
    OfF64(Sample<f64>),
}

impl Quantiles {
    /// Creates quantiles without elements, to be added as `f32` or as `f64`. `are_wide`: they may have more bits than
    /// bins.
    pub(super) fn new(are_f32: bool, are_wide: bool) -> Self {
        if are_f32 { Self::OfF32(Sample::new(are_wide)) } else { Self::OfF64(Sample::new(are_wide)) }
    }

    /// Adds up to a chunk of finite elements.
    pub(super) fn add(&mut self, finite: Chunk<'_>) {
        match (self, finite) {
            (Self::OfF32(sample), Chunk::F32(finite)) => sample.add(finite),
            (Self::OfF64(sample), Chunk::F64(finite)) => sample.add(finite),
            (Self::OfF64(sample), Chunk::Integers(integers)) => sample.add(integers.rounded),
            _ => {}
        }
    }

    /// Returns the counts for adding elements, once they are many.
    pub(super) fn counts(&mut self) -> Option<Counting<'_>> {
        let counts = match self {
            Self::OfF32(sample) => &mut sample.counts,
            Self::OfF64(sample) => &mut sample.counts,
        };
        let center = counts.first()?.center;
        Some(Counting { center, idle: Mutex::new(counts) })
    }

    pub(super) fn merge(&mut self, other: &Self) {
        match (self, other) {
            (Self::OfF32(sample), Self::OfF32(other)) => sample.merge(other),
            (Self::OfF64(sample), Self::OfF64(other)) => sample.merge(other),
            _ => unreachable!("elements of one dtype come as the same floats"),
        }
    }

    /// Returns the quantiles of at least one element. They are between the limits.
    pub(super) fn at(&self, parts: &[f64], min: f64, max: f64) -> Vec<f64> {
        match self {
            Self::OfF32(sample) => sample.at(parts, min, max),
            Self::OfF64(sample) => sample.at(parts, min, max),
        }
    }
}

/// Counts for several threads.
pub(super) struct Counting<'q> {
    center: f64,
    /// Counts not in use by a thread.
    idle: Mutex<&'q mut Vec<BinCounts>>,
}

impl Counting<'_> {
    /// Calls `add` with counts for the use of this thread only.
    pub(super) fn count(&self, add: &mut dyn FnMut(&mut BinCounts)) {
        let idle = || self.idle.lock().expect("no thread panics with the lock");
        let mut counts = idle().pop().unwrap_or_else(|| BinCounts::new(self.center));
        add(&mut counts);
        idle().push(counts);
    }
}

/// Elements, or the numbers of them in bins.
#[derive(Debug, Clone)]
pub(super) struct Sample<F> {
    /// All elements, as long as they are few.
    few: Vec<F>,
    /// The numbers of elements in bins, once they are many, around one center: one for each counting thread.
    counts: Vec<BinCounts>,
    /// Allows bins of distances from a center. Without a center, bins are exact for elements of few bits.
    is_centered: bool,
}

impl<F: Real> Sample<F> {
    fn new(is_centered: bool) -> Self {
        Self { few: Vec::new(), counts: Vec::new(), is_centered }
    }

    fn add(&mut self, finite: &[F]) {
        if self.counts.is_empty() && self.few.len() + finite.len() <= FEW {
            self.few.extend_from_slice(finite);
            return;
        }
        self.count();
        self.counts[0].add_floats(finite);
    }

    fn merge(&mut self, other: &Self) {
        if other.few.is_empty() && other.counts.is_empty() {
            return;
        }
        if self.few.is_empty() && self.counts.is_empty() {
            *self = other.clone();
            return;
        }
        if self.counts.is_empty() && other.counts.is_empty() && self.few.len() + other.few.len() <= FEW {
            self.few.extend_from_slice(&other.few);
            return;
        }
        self.count();
        let ours = &mut self.counts[0];
        other.few.chunks(CHUNK).for_each(|few| ours.add_floats(few));
        for theirs in &other.counts {
            if ours.center == theirs.center {
                ours.merge(theirs);
                continue;
            }
            for (bin, count) in theirs.iter() {
                ours.add_several(F::nearest(F::of_bin(bin) + theirs.center - ours.center).bin(), count);
            }
        }
    }

    /// Switches from kept elements to counts.
    fn count(&mut self) {
        if self.counts.is_empty() {
            let mut few = std::mem::take(&mut self.few);
            self.count_few(&few, 0.0);
            if self.is_centered && !few.is_empty() && !self.is_spread(few.len()) {
                let center = center(&mut few);
                if center != F::zero() {
                    self.count_few(&few, center.into());
                }
            }
        }
    }

    fn count_few(&mut self, few: &[F], center: f64) {
        let mut counts = BinCounts::new(center);
        few.chunks(CHUNK).for_each(|few| counts.add_floats(few));
        self.counts = vec![counts];
    }

    /// Returns `true` if the bins show that the [`center`] of `elements` elements is zero, which takes less time than
    /// computing it.
    fn is_spread(&self, elements: usize) -> bool {
        /// An upper bound for twice the relative error of a number known only by its bin.
        const ERROR: f64 = 1.0 / 256.0;
        let quarter = (elements / 4) as u64;
        let quartiles = Self::nths_by_count(&self.counts[0], &[1, 2, 3].map(|part| part * quarter));
        let [low, median, high] = [quartiles[0], quartiles[1], quartiles[2]];
        let least = high - low - ERROR * (high.abs() + low.abs());
        // The bins of the largest numbers are infinite.
        high.is_finite() && low.is_finite() && least > (1.0 + ERROR) * NEAR * median.abs()
    }

    fn at(&self, parts: &[f64], min: f64, max: f64) -> Vec<f64> {
        let counts = self.counts.split_first().map(|(first, others)| {
            let mut counts = first.clone();
            others.iter().for_each(|other| counts.merge(other));
            counts
        });
        let count = counts.as_ref().map_or(self.few.len() as u64, |counts| counts.iter().map(|(_, count)| count).sum());
        let place = |part: f64| part.clamp(0.0, 1.0) * (count - 1) as f64;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and `count`")]
        let neighbors = |part: &f64| [place(*part).floor() as u64, place(*part).ceil() as u64];
        let mut numbers: Vec<u64> = parts.iter().flat_map(neighbors).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let elements = match &counts {
            Some(counts) => Self::nths_by_count(counts, &numbers),
            None => self.nths_of_few(&numbers),
        };
        let element = |number| elements[numbers.partition_point(|other| *other < number)].clamp(min, max);
        let quantile = |part: &f64| {
            let ([below, above], fract) = (neighbors(part).map(element), place(*part).fract());
            below * (1.0 - fract) + above * fract
        };
        parts.iter().map(quantile).collect()
    }

    fn nths_of_few(&self, numbers: &[u64]) -> Vec<f64> {
        let mut sorted = self.few.clone();
        sorted.sort_unstable_by(F::total_order);
        let nth = |n: &u64| usize::try_from(*n).ok().and_then(|n| sorted.get(n).copied());
        // Rounding may have passed the last element.
        numbers.iter().map(|n| nth(n).map_or(f64::INFINITY, F::into)).collect()
    }

    /// Returns the elements with these numbers, in ascending order, by their bins.
    fn nths_by_count(counts: &BinCounts, numbers: &[u64]) -> Vec<f64> {
        let (mut bins, mut bin, mut end) = (counts.iter(), 0, 0);
        let nth = |&n: &u64| {
            while end <= n {
                // Rounding may have passed the last element.
                let Some((index, count)) = bins.next() else { return f64::INFINITY };
                bin = index;
                end += count;
            }
            F::of_bin(bin) + counts.center
        };
        numbers.iter().map(nth).collect()
    }
}

/// Elements are close together if half of them are within this part of the median.
const NEAR: f64 = 1.0 / 16.0;

/// Returns the number around which bins are narrowest: the median if most elements are closer together than to zero,
/// else zero.
fn center<F: Real>(elements: &mut [F]) -> F {
    let quarter = elements.len() / 4;
    let [low, median, high] = [1, 2, 3].map(|part| *elements.select_nth_unstable_by(part * quarter, F::total_order).1);
    let is_near = high.into() - low.into() < median.into().abs() * NEAR;
    if is_near { median } else { F::zero() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_count_more_than_32_bits() {
        let mut counts = BinCounts::new(1.0);
        let [low, high] = [-2.0_f32, 5.0].map(|number| (number - 1.0).bin());
        counts.add_several(high, u32::MAX.into());
        counts.add(Chunk::F32(&[5.0, 5.0, -2.0]));
        counts.add_several(low, (3 << u32::BITS) - 1);
        let expected = [(low, 3 << u32::BITS), (high, (1 << u32::BITS) + 1)];
        assert_eq!(counts.iter().collect::<Vec<_>>(), expected);
        let mut twice = counts.clone();
        twice.merge(&counts);
        assert_eq!(twice.iter().collect::<Vec<_>>(), expected.map(|(bin, count)| (bin, 2 * count)));
    }
}
