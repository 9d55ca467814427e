//! What the numbers of a tensor are like: their count, range, mean, spread and quantiles, and those that are no numbers.

mod decode;
mod histogram;
mod moments;
mod quantiles;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::tensor::{Dtype, Element, Layout, Number, Pieces, TensorInfo, number};
use decode::Decode;
pub use histogram::Histogram;
use moments::Moments;
use quantiles::Quantiles;

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
/// assert_eq!(stats.quantiles(&[0.5, 0.9]), Some(vec![1.5, 4.1]));
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Stats {
    dtype: Dtype,
    decode: Decode,
    pieces: Pieces,
    moments: Moments,
    quantiles: Option<Quantiles>,
    /// The range of a dtype whose integers pass what an `f64` tells apart.
    exact_range: Option<(i128, i128)>,
}

impl Stats {
    /// Statistics of elements of this dtype, none so far; `None` where they are no numbers, as packed and
    /// uninterpreted bits are.
    #[must_use]
    pub fn of(dtype: Dtype) -> Option<Self> {
        Self::after(dtype, 0)
    }

    /// As [`of`](Self::of), for the payload of this tensor in its layout; of a sparse tensor, the stored elements count.
    #[must_use]
    pub fn of_tensor(info: &TensorInfo) -> Option<Self> {
        Self::after(info.dtype, info.bytes_before_elements()?)
    }

    fn after(dtype: Dtype, skip: usize) -> Option<Self> {
        Some(Self {
            dtype,
            decode: Decode::of(dtype)?,
            pieces: Pieces::new(dtype.block_bytes(), skip),
            moments: Moments::default(),
            quantiles: Some(Quantiles::default()),
            exact_range: None,
        })
    }

    /// Leaves quantiles out, which take most of the time and the memory.
    #[must_use]
    pub fn without_quantiles(self) -> Self {
        Self { quantiles: None, ..self }
    }

    /// Takes the next bytes: little-endian elements. A piece may end inside of one.
    pub fn update(&mut self, piece: &[u8]) {
        let Self { dtype, decode, pieces, moments, quantiles, exact_range } = self;
        pieces.add(piece, |elements| {
            decode.in_chunks(
                elements,
                |narrow| {
                    moments.add(narrow);
                    quantiles.iter_mut().for_each(|quantiles| quantiles.add(narrow));
                },
                |wide| {
                    moments.add(wide);
                    quantiles.iter_mut().for_each(|quantiles| quantiles.add(wide));
                },
            );
            *exact_range = join(*exact_range, decode::exact_range(*dtype, elements));
        });
    }

    /// Adds the elements of other statistics of the same dtype, such as of another part of the tensor.
    ///
    /// # Panics
    ///
    /// Where the dtypes differ.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!(self.dtype, other.dtype, "statistics of two dtypes");
        self.moments.merge(&other.moments);
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
        self.moments.finite + self.nans() + self.positive_infinities() + self.negative_infinities()
    }

    /// The elements that are NaN.
    #[must_use]
    pub fn nans(&self) -> u64 {
        self.moments.nans
    }

    /// The elements that are infinity.
    #[must_use]
    pub fn positive_infinities(&self) -> u64 {
        self.moments.positive_infinities
    }

    /// The elements that are negative infinity.
    #[must_use]
    pub fn negative_infinities(&self) -> u64 {
        self.moments.negative_infinities
    }

    /// The elements that are zero, of either sign.
    #[must_use]
    pub fn zeros(&self) -> u64 {
        self.moments.zeros
    }

    /// The smallest finite element, exactly; `None` where there is none.
    #[must_use]
    pub fn min(&self) -> Option<Number> {
        self.limit(self.moments.min, self.exact_range.map(|(min, _)| min))
    }

    /// The largest finite element, exactly; `None` where there is none.
    #[must_use]
    pub fn max(&self) -> Option<Number> {
        self.limit(self.moments.max, self.exact_range.map(|(_, max)| max))
    }

    fn limit(&self, float: f64, exact: Option<i128>) -> Option<Number> {
        let number = exact.map_or(Number::Float(float), Number::Integer);
        let number = if self.dtype.is_float() { number } else { number.as_integer() };
        (self.moments.finite > 0).then_some(number)
    }

    /// The mean of the finite elements, as 64-bit floats; `None` where there is none, or it passes what those hold.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.moments.finite > 0).then_some(self.moments.mean).filter(|mean| mean.is_finite())
    }

    /// The standard deviation of the finite elements, as of a whole population; `None` as for the [mean](Self::mean).
    #[must_use]
    pub fn std(&self) -> Option<f64> {
        let variance = self.moments.squares / self.moments.finite as f64;
        (self.moments.finite > 0).then_some(variance.sqrt()).filter(|std| std.is_finite())
    }

    /// The finite elements below which these parts of them lie: 0.5 for the median.
    ///
    /// A quantile between two elements is interpolated. Exact for up to 2^20 elements, and for floats of up to 16 bits
    /// however many; else each element is known to within 0.2 % of itself.
    ///
    /// `None` where there is no finite element, or quantiles were left out.
    #[must_use]
    pub fn quantiles(&self, parts: &[f64]) -> Option<Vec<f64>> {
        if self.moments.finite == 0 {
            return None;
        }
        self.quantiles.as_ref().map(|quantiles| quantiles.at(parts, self.moments.min, self.moments.max))
    }

    /// A histogram of so many bins between the smallest and the largest finite element, to be filled by a second pass
    /// over the bytes; `None` where there is no finite element.
    #[must_use]
    pub fn histogram(&self, bins: usize) -> Option<Histogram> {
        let decode = self.decode;
        (self.moments.finite > 0).then(|| Histogram::new(decode, self.pieces.clone(), self.moments.min, self.moments.max, bins))
    }
}
