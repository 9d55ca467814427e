use super::quantiles::Real;
use crate::cast::{CHUNK, widest};

/// Counts, range, mean and variance. Those of each chunk are merged, which is numerically stable and passes over memory
/// once.
#[derive(Debug, Clone)]
pub(super) struct Moments {
    pub(super) nans: u64,
    pub(super) positive_infinities: u64,
    pub(super) negative_infinities: u64,
    /// All others. The following fields are about them.
    pub(super) finite: u64,
    pub(super) zeros: u64,
    pub(super) min: f64,
    pub(super) max: f64,
    pub(super) mean: f64,
    /// The sum of squared differences from the mean.
    pub(super) squares: f64,
}

impl Default for Moments {
    fn default() -> Self {
        Self {
            nans: 0,
            positive_infinities: 0,
            negative_infinities: 0,
            finite: 0,
            zeros: 0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            mean: 0.0,
            squares: 0.0,
        }
    }
}

impl Moments {
    /// Returns those of up to a chunk of elements, and calls `take` with the finite ones.
    pub(super) fn of<F: Real>(elements: &[F], take: impl FnOnce(&[F])) -> Self {
        let all = widest(sums_of, elements);
        // The sum of others is not finite, and that of finite ones only if they are large.
        if all.mean.is_finite() {
            take(elements);
            return Self { squares: widest(squares_of, (elements, all.mean)), ..all };
        }
        let mut room = [F::zero(); CHUNK];
        let finite = elements.iter().filter(|element| element.is_finite());
        let count = room.iter_mut().zip(finite).map(|(to, from)| *to = *from).count();
        let finite = &room[..count];
        take(finite);
        let count = |is: fn(&F) -> bool| elements.iter().map(|element| u64::from(is(element))).sum::<u64>();
        let sums = widest(sums_of, finite);
        Self {
            nans: count(|element| element.is_nan()),
            positive_infinities: count(|element| *element == F::infinity()),
            negative_infinities: count(|element| *element == F::neg_infinity()),
            squares: widest(squares_of, (finite, sums.mean)),
            ..sums
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.nans += other.nans;
        self.positive_infinities += other.positive_infinities;
        self.negative_infinities += other.negative_infinities;
        if other.finite == 0 {
            return;
        }
        let (ours, theirs) = (self.finite as f64, other.finite as f64);
        let (distance, part) = (other.mean - self.mean, theirs / (ours + theirs));
        self.finite += other.finite;
        self.zeros += other.zeros;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.mean += distance * part;
        self.squares += other.squares + distance * distance * ours * part;
    }
}

/// Sums and limits are of every eighth element, so that eight are done at once.
const LANES: usize = 8;

/// Returns all that takes one pass over finite elements.
#[inline(always)]
fn sums_of<F: Real>(elements: &[F]) -> Moments {
    let [mut smallest, mut largest] = [[F::infinity(); LANES], [F::neg_infinity(); LANES]];
    let (mut sums, mut zeros) = ([0.0; LANES], [0_u32; LANES]);
    let (eights, rest) = elements.as_chunks::<LANES>();
    let mut add = |lane: usize, element: F| {
        smallest[lane] = if element < smallest[lane] { element } else { smallest[lane] };
        largest[lane] = if element > largest[lane] { element } else { largest[lane] };
        zeros[lane] += u32::from(element == F::zero());
        sums[lane] += element.into();
    };
    eights.iter().for_each(|eight| (0..LANES).for_each(|lane| add(lane, eight[lane])));
    rest.iter().for_each(|&element| add(0, element));
    Moments {
        finite: elements.len() as u64,
        zeros: zeros.into_iter().map(u64::from).sum(),
        min: smallest.into_iter().fold(F::infinity(), F::min).into(),
        max: largest.into_iter().fold(F::neg_infinity(), F::max).into(),
        mean: sums.iter().sum::<f64>() / elements.len() as f64,
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
