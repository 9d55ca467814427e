//! Counts, range, mean and variance, computed per chunk and merged.

use super::elements::Integers;
use super::quantiles::Real;
use super::twofold::Twofold;
use crate::cast::{CHUNK, widest};

/// Counts, range, mean and variance. Merging chunks is numerically stable and passes over memory once.
///
/// Sums are [`Twofold`]: a mean rounded to a float is wrong by half of its last digit, and a chunk would add up this
/// error for each of its squares.
#[derive(Debug, Clone)]
pub(super) struct Moments {
    pub(super) nans: u64,
    pub(super) positive_infinities: u64,
    pub(super) negative_infinities: u64,
    /// The position of the first NaN among all elements.
    pub(super) first_nan: Option<u64>,
    pub(super) first_infinity: Option<u64>,
    /// The number of finite elements. The following fields are about these.
    pub(super) finite: u64,
    pub(super) zeros: u64,
    pub(super) min: f64,
    pub(super) max: f64,
    /// The numbers are multiplied by a power of two for the sums.
    scale: Scale,
    sum: Twofold,
    /// The sum of squared differences from the mean.
    squares: Twofold,
}

/// The magnitude of numbers, chosen so that their squares are neither infinite nor zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Scale {
    Small,
    Normal,
    Large,
}

impl Scale {
    /// 2^600.
    const STEP: f64 = f64::from_bits((1023 + 600) << 52);
    /// 2^450. Squares of smaller numbers, and sums of many of them, are finite.
    const LARGE: f64 = f64::from_bits((1023 + 450) << 52);

    /// Returns the scale for numbers of up to this magnitude.
    fn of(magnitude: f64) -> Self {
        if magnitude > Self::LARGE {
            Self::Large
        } else if magnitude < Self::LARGE.recip() {
            Self::Small
        } else {
            Self::Normal
        }
    }

    /// Returns the factor for scaling numbers.
    fn factor(self) -> f64 {
        match self {
            Self::Small => Self::STEP,
            Self::Normal => 1.0,
            Self::Large => Self::STEP.recip(),
        }
    }

    /// Undoes the scaling of a number.
    fn unscale(self, number: f64) -> f64 {
        number / self.factor()
    }

    /// Returns the number of steps to a larger scale.
    fn steps_to(self, larger: Self) -> usize {
        larger as usize - self as usize
    }
}

impl Default for Moments {
    fn default() -> Self {
        Self {
            nans: 0,
            positive_infinities: 0,
            negative_infinities: 0,
            first_nan: None,
            first_infinity: None,
            finite: 0,
            zeros: 0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            scale: Scale::Small,
            sum: Twofold::default(),
            squares: Twofold::default(),
        }
    }
}

impl Moments {
    /// Returns the moments of up to a chunk of elements, and calls `take` with the finite ones.
    pub(super) fn of<F: Real>(elements: &[F], take: impl FnOnce(&[F])) -> Self {
        let all = widest(sums_of, elements);
        // Infinite elements and NaNs make the sum non-finite; finite elements do so only if they are large.
        if all.sum.is_finite() {
            take(elements);
            return all.with_squares(elements);
        }
        let mut room = [F::zero(); CHUNK];
        let finite = elements.iter().filter(|element| element.is_finite());
        let count = room.iter_mut().zip(finite).map(|(to, from)| *to = *from).count();
        let finite = &room[..count];
        take(finite);
        let count = |is: fn(&F) -> bool| elements.iter().map(|element| u64::from(is(element))).sum::<u64>();
        let first = |is: fn(&F) -> bool| elements.iter().position(is).map(|index| index as u64);
        Self {
            nans: count(|element| element.is_nan()),
            positive_infinities: count(|element| *element == F::infinity()),
            negative_infinities: count(|element| *element == F::neg_infinity()),
            first_nan: first(|element| element.is_nan()),
            first_infinity: first(|element| element.is_infinite()),
            ..widest(sums_of, finite).with_squares(finite)
        }
    }

    /// Returns the moments of up to a chunk of integers.
    pub(super) fn from_integers(integers: &Integers<'_>) -> Self {
        let Integers { rounded, distances, min, max, sum } = *integers;
        let all = widest(sums_of, distances).with_squares(distances);
        Self {
            zeros: rounded.iter().map(|number| u64::from(*number == 0.0)).sum(),
            min: min as f64,
            max: max as f64,
            // Distances are as large as 64 bits, or zero.
            scale: Scale::Normal,
            sum: Twofold::from_integer(sum),
            ..all
        }
    }

    /// Adds the squares of the summed elements.
    fn with_squares<F: Real>(mut self, elements: &[F]) -> Self {
        let magnitude = self.min.abs().max(self.max.abs());
        if elements.is_empty() || magnitude == 0.0 {
            return self;
        }
        self.scale = Scale::of(magnitude);
        let count = elements.len() as f64;
        let squares = if self.scale == Scale::Normal {
            widest(squares_of, (elements, self.mean_of_sum().high))
        } else {
            let (mut room, factor) = ([0.0; CHUNK], self.scale.factor());
            let scaled = &mut room[..elements.len()];
            scaled.iter_mut().zip(elements).for_each(|(to, from)| *to = (*from).into() * factor);
            self.sum = widest(sums_of, &*scaled).sum;
            widest(squares_of, (&*scaled, self.mean_of_sum().high))
        };
        // The subtracted mean is rounded.
        let rounded = self.mean_of_sum().low;
        self.squares = Twofold::new((squares - count * rounded * rounded).max(0.0), 0.0);
        self
    }

    /// Adds the moments of the next elements.
    pub(super) fn merge(&mut self, other: &Self) {
        let before = self.count();
        self.first_nan = self.first_nan.or(other.first_nan.map(|index| before + index));
        self.first_infinity = self.first_infinity.or(other.first_infinity.map(|index| before + index));
        self.nans += other.nans;
        self.positive_infinities += other.positive_infinities;
        self.negative_infinities += other.negative_infinities;
        if other.finite == 0 {
            return;
        }
        let scale = self.scale.max(other.scale);
        let (ours, theirs) = (self.scaled_to(scale), other.scaled_to(scale));
        let squares = ours.squares.add(theirs.squares);
        self.squares = match (ours.finite as f64, theirs.finite as f64) {
            (0.0, _) => squares,
            (a, b) => {
                let distance = ours.mean_of_sum().distance_to(theirs.mean_of_sum());
                squares.add(Twofold::new(distance * distance * (a * b / (a + b)), 0.0))
            }
        };
        self.scale = scale;
        self.sum = ours.sum.add(theirs.sum);
        self.finite += other.finite;
        self.zeros += other.zeros;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Returns the number of all elements.
    pub(super) fn count(&self) -> u64 {
        self.finite + self.nans + self.positive_infinities + self.negative_infinities
    }

    /// Returns the mean of at least one finite element.
    pub(super) fn mean(&self) -> f64 {
        self.scale.unscale(self.mean_of_sum().high).clamp(self.min, self.max)
    }

    /// Returns the standard deviation of at least one finite element.
    pub(super) fn std(&self) -> f64 {
        let variance = self.squares.divide(self.finite as f64);
        self.scale.unscale(variance.high.sqrt())
    }

    fn mean_of_sum(&self) -> Twofold {
        self.sum.divide(self.finite as f64)
    }

    /// Returns the moments at a larger scale. Numbers too small for it become zero.
    fn scaled_to(&self, scale: Scale) -> Self {
        let mut scaled = self.clone();
        for _ in 0..self.scale.steps_to(scale) {
            let step = Scale::STEP.recip();
            scaled.sum = scaled.sum.scale(step);
            scaled.squares = scaled.squares.scale(step).scale(step);
        }
        scaled.scale = scale;
        scaled
    }
}

/// Sums and limits are kept for every eighth element, so that eight are processed at once.
const LANES: usize = 8;

/// Returns everything computed in one pass over finite elements.
// Inlined into `widest`, as the squares below, so that a pass uses the widest vectors of the processor.
#[inline(always)]
fn sums_of<F: Real>(elements: &[F]) -> Moments {
    let [mut smallest, mut largest] = [[F::infinity(); LANES], [F::neg_infinity(); LANES]];
    let (mut sums, mut rests, mut zeros) = ([0.0; LANES], [0.0; LANES], [0_u32; LANES]);
    let (eights, rest) = elements.as_chunks::<LANES>();
    let mut add = |lane: usize, element: F| {
        smallest[lane] = if element < smallest[lane] { element } else { smallest[lane] };
        largest[lane] = if element > largest[lane] { element } else { largest[lane] };
        zeros[lane] += u32::from(element == F::zero());
        element.add_to(&mut sums[lane], &mut rests[lane]);
    };
    eights.iter().for_each(|eight| (0..LANES).for_each(|lane| add(lane, eight[lane])));
    rest.iter().for_each(|&element| add(0, element));
    let sum = sums.into_iter().zip(rests).fold(Twofold::default(), |sum, (high, low)| sum.add(Twofold::new(high, low)));
    Moments {
        finite: elements.len() as u64,
        zeros: zeros.into_iter().map(u64::from).sum(),
        min: smallest.into_iter().fold(F::infinity(), F::min).into(),
        max: largest.into_iter().fold(F::neg_infinity(), F::max).into(),
        sum,
        ..Moments::default()
    }
}

/// Returns the sum of squared differences from the mean.
#[inline(always)]
fn squares_of<F: Real>((elements, mean): (&[F], f64)) -> f64 {
    let mut squares = [0.0; LANES];
    let (eights, rest) = elements.as_chunks::<LANES>();
    let mut add = |lane: usize, element: F| {
        let distance = element.into() - mean;
        squares[lane] += distance * distance;
    };
    eights.iter().for_each(|eight| (0..LANES).for_each(|lane| add(lane, eight[lane])));
    rest.iter().for_each(|&element| add(0, element));
    squares.iter().sum()
}
