//! What the numbers of a tensor are like: their count, range, mean, spread and quantiles, and those that are no numbers.

mod elements;
mod histogram;
mod quantiles;
mod tally;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::tensor::{Dtype, Layout, Number, TensorInfo};
use elements::{Chunk, Elements};
pub use histogram::Histogram;
use quantiles::Quantiles;
use tally::Tally;

/// Statistics of the elements of a tensor, whose bytes come in pieces.
///
/// NaN and the infinities are counted; all else is of the finite elements. Quantised elements count as the integers that
/// are stored, and `bool` as 0 and 1. The memory is bounded, whatever the size of the tensor: below 20 MiB.
///
/// ```
/// use tensorfile::{Dtype, Stats, Tensor};
///
/// let tensor = Tensor::from_slice(&[0.0_f32, 1.0, 2.0, 5.0, f32::NAN], [5])?;
/// let mut stats = Stats::of(Dtype::F32).expect("f32 are numbers");
/// stats.update(tensor.as_bytes());
/// assert_eq!((stats.count(), stats.nans(), stats.zeros()), (5, 1, 1));
/// assert_eq!((stats.min().unwrap().to_string(), stats.max().unwrap().to_string()), ("0".into(), "5".into()));
/// assert_eq!((stats.mean(), stats.std()), (Some(2.0), Some(3.5_f64.sqrt())));
/// assert_eq!(stats.quantiles(&[0.5, 0.75]), Some(vec![1.5, 2.75]));
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Stats {
    dtype: Dtype,
    /// The bytes of the payload before the first element.
    skip: usize,
    elements: Elements,
    tally: Tally,
    quantiles: Option<Quantiles>,
    /// The smallest and the largest integer of a dtype of which an `f64` cannot hold all.
    exact_range: Option<(i128, i128)>,
}

impl Stats {
    /// The quantiles that [`Serialize`] tells.
    pub const PARTS: [f64; 7] = [0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99];

    /// Statistics of elements of this dtype, none so far; `None` where they are no numbers, as packed and
    /// uninterpreted bits are not.
    #[must_use]
    pub fn of(dtype: Dtype) -> Option<Self> {
        Self::after(dtype, 0)
    }

    /// As [`of`](Self::of), for the payload of this tensor in its layout. Of a sparse tensor, the stored elements count;
    /// a blob has none.
    #[must_use]
    pub fn of_tensor(info: &TensorInfo) -> Option<Self> {
        match info.layout {
            Layout::RowMajor | Layout::DimOrder(_) => Self::of(info.dtype),
            Layout::Coo { entries } => Self::after(info.dtype, info.payload_bytes()? - info.dtype.bytes_for(entries)?),
            Layout::Blob => None,
        }
    }

    fn after(dtype: Dtype, skip: usize) -> Option<Self> {
        let elements = Elements::new(dtype, skip)?;
        let quantiles = Some(Quantiles::new(dtype.block_bytes() > 2));
        Some(Self { dtype, skip, elements, tally: Tally::default(), quantiles, exact_range: None })
    }

    /// Leaves quantiles out, which take most of the time and of the memory.
    #[must_use]
    pub fn without_quantiles(self) -> Self {
        Self { quantiles: None, ..self }
    }

    /// Takes the next bytes of the payload. A piece may end inside of an element.
    pub fn update(&mut self, piece: &[u8]) {
        let Self { elements, tally, quantiles, exact_range, .. } = self;
        elements.add(piece, |chunk| match chunk {
            Chunk::Narrow(chunk) => tally.add(chunk, quantiles),
            Chunk::Wide(chunk) => tally.add(chunk, quantiles),
            Chunk::Range(smallest, largest) => *exact_range = join(*exact_range, Some((smallest, largest))),
        });
    }

    /// Adds the elements of other statistics of the same dtype, such as those of another part of a tensor.
    ///
    /// # Panics
    ///
    /// Where the dtypes differ.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!(self.dtype, other.dtype, "statistics of two dtypes");
        self.tally.merge(&other.tally);
        self.exact_range = join(self.exact_range, other.exact_range);
        match (&mut self.quantiles, &other.quantiles) {
            (Some(quantiles), Some(other)) => quantiles.merge(other),
            (quantiles, _) => *quantiles = None,
        }
    }

    /// The dtype of the elements.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// All elements.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.tally.finite + self.tally.nans + self.tally.positive_infinities + self.tally.negative_infinities
    }

    /// The elements that are NaN.
    #[must_use]
    pub fn nans(&self) -> u64 {
        self.tally.nans
    }

    /// The elements that are infinity.
    #[must_use]
    pub fn positive_infinities(&self) -> u64 {
        self.tally.positive_infinities
    }

    /// The elements that are negative infinity.
    #[must_use]
    pub fn negative_infinities(&self) -> u64 {
        self.tally.negative_infinities
    }

    /// The elements that are zero, of either sign; of `bool`, those that are false.
    #[must_use]
    pub fn zeros(&self) -> u64 {
        self.tally.zeros
    }

    /// The smallest finite element, exactly; `None` where there is none.
    #[must_use]
    pub fn min(&self) -> Option<Number> {
        self.limit(self.tally.min, self.exact_range.map(|(smallest, _)| smallest))
    }

    /// The largest finite element, exactly; `None` where there is none.
    #[must_use]
    pub fn max(&self) -> Option<Number> {
        self.limit(self.tally.max, self.exact_range.map(|(_, largest)| largest))
    }

    fn limit(&self, float: f64, exact: Option<i128>) -> Option<Number> {
        let number = match exact {
            Some(integer) => Number::Integer(integer),
            None if self.dtype.is_float() => Number::Float(float),
            None => Number::Float(float).to_integer().map(Number::Integer)?,
        };
        (self.tally.finite > 0).then_some(number)
    }

    /// The mean of the finite elements, computed as 64-bit floats; `None` where there is none, or it passes those.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.tally.finite > 0).then_some(self.tally.mean).filter(|mean| mean.is_finite())
    }

    /// The standard deviation of the finite elements, as of a whole population; `None` as of the [mean](Self::mean).
    #[must_use]
    pub fn std(&self) -> Option<f64> {
        let variance = self.tally.squares / self.tally.finite as f64;
        (self.tally.finite > 0).then_some(variance.sqrt()).filter(|std| std.is_finite())
    }

    /// The finite elements that stand at these parts of all of them in order: 0.5 for the median.
    ///
    /// Between two elements it is interpolated. Exact for up to 2^20 elements, and for floats of up to 16 bits and integers
    /// of up to 8 however many; else each of the two is known to within 0.2 % of itself, or, where most elements are near each
    /// other and far from zero, of its distance from their median.
    ///
    /// `None` where there is no finite element, or quantiles were left out.
    #[must_use]
    pub fn quantiles(&self, parts: &[f64]) -> Option<Vec<f64>> {
        let Tally { finite, min, max, .. } = self.tally;
        let quantiles = self.quantiles.as_ref().filter(|_| finite > 0)?;
        Some(quantiles.at(parts, min, max))
    }

    /// A histogram of so many bins between the smallest and the largest finite element, to be filled by a second pass
    /// over the payload; `None` where there is no finite element.
    ///
    /// ```
    /// use tensorfile::{Stats, Tensor};
    ///
    /// let tensor = Tensor::from_slice(&[0_i64, 1, 2, 3, 4, 10], [6])?;
    /// let mut stats = Stats::of_tensor(tensor.info()).expect("i64 are numbers");
    /// stats.update(tensor.as_bytes());
    /// let mut histogram = stats.histogram(5).expect("there are elements");
    /// histogram.update(tensor.as_bytes());
    /// assert_eq!(histogram.edges(), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
    /// assert_eq!(histogram.counts(), [2, 2, 1, 0, 1]);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn histogram(&self, bins: usize) -> Option<Histogram> {
        let Tally { finite, min, max, .. } = self.tally;
        let elements = Elements::new(self.dtype, self.skip).filter(|_| finite > 0)?;
        Some(Histogram::new(elements, min, max, bins))
    }
}

/// The range of both.
fn join(one: Option<(i128, i128)>, other: Option<(i128, i128)>) -> Option<(i128, i128)> {
    match (one, other) {
        (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
        (one, other) => one.or(other),
    }
}

impl Serialize for Stats {
    /// What the methods tell; of the quantiles, pairs of part and quantile for [`PARTS`](Self::PARTS).
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let quantiles = self.quantiles(&Self::PARTS);
        let quantiles: Option<Vec<_>> = quantiles.map(|quantiles| Self::PARTS.into_iter().zip(quantiles).collect());
        let mut stats = serializer.serialize_struct("Stats", 11)?;
        stats.serialize_field("dtype", self.dtype.name())?;
        stats.serialize_field("count", &self.count())?;
        stats.serialize_field("min", &self.min())?;
        stats.serialize_field("max", &self.max())?;
        stats.serialize_field("mean", &self.mean())?;
        stats.serialize_field("std", &self.std())?;
        stats.serialize_field("nans", &self.nans())?;
        stats.serialize_field("positive_infinities", &self.positive_infinities())?;
        stats.serialize_field("negative_infinities", &self.negative_infinities())?;
        stats.serialize_field("zeros", &self.zeros())?;
        stats.serialize_field("quantiles", &quantiles)?;
        stats.end()
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Float(float) => serializer.serialize_f64(float),
            // Not all formats have 128 bits, and no dtype.
            Self::Integer(integer) => match (i64::try_from(integer), u64::try_from(integer)) {
                (Ok(integer), _) => serializer.serialize_i64(integer),
                (_, Ok(integer)) => serializer.serialize_u64(integer),
                _ => serializer.serialize_i128(integer),
            },
        }
    }
}
