//! Statistics of tensors: count, range, mean, standard deviation, quantiles and histograms.

mod elements;
mod histogram;
mod moments;
mod quantiles;
mod twofold;

use std::convert::Infallible;
use std::io;

use crate::cast::{Number, WholeElements};
use crate::tensor::{Dtype, Layout, TensorInfo};
use crate::threads::in_order;
use elements::{Chunk, Elements};
pub use histogram::Histogram;
use moments::Moments;
use quantiles::Quantiles;

/// Statistics of a tensor, computed from its payload in one pass.
///
/// NaN and infinities are counted; everything else is computed from the finite elements. Quantized elements count as
/// the stored integers, and `bool` as 0 and 1: any byte but 0 is true. Complex numbers count as their magnitudes; one
/// with a NaN is NaN.
///
/// Minimum and maximum are exact. The mean and the standard deviation are exact except for their last digits, however
/// far from zero the elements are. The memory is below 20 MiB for tensors of any size, and up to 4 MiB more for each
/// further thread.
///
/// The payload can be passed to [`update`](Self::update) in pieces, or written: [`Stats`] is an [`io::Write`]. Large
/// pieces are read with several threads; see [`set_max_threads`](crate::threads::set_max_threads).
///
/// ```
/// use tensorfile::stats::Stats;
/// use tensorfile::{Dtype, Tensor};
///
/// let tensor = Tensor::from_slice(&[0.0_f32, 1.0, 2.0, 5.0, f32::NAN], [5])?;
/// let mut stats = Stats::new(Dtype::F32).expect("f32 is numeric");
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
    /// The size of the payload before the first element.
    skip: usize,
    elements: Elements,
    whole: WholeElements,
    moments: Moments,
    quantiles: Option<Quantiles>,
    /// The smallest and the largest element of 64-bit integers, possibly rounded by an `f64`.
    exact_range: Option<(i128, i128)>,
}

impl Stats {
    /// The quantiles in the serialized form.
    pub const PARTS: [f64; 7] = [0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99];

    /// Creates statistics of elements of this dtype. `None` if they are not numbers, but packed or uninterpreted bits,
    /// or blocks of several elements.
    ///
    /// ```
    /// use tensorfile::stats::Stats;
    /// use tensorfile::Dtype;
    ///
    /// assert!(Stats::new(Dtype::Bf16).is_some() && Stats::new(Dtype::C64).is_some());
    /// assert!(Stats::new(Dtype::Bits16).is_none());
    /// ```
    #[must_use]
    pub fn new(dtype: Dtype) -> Option<Self> {
        Self::after(dtype, 0)
    }

    /// Creates statistics of this tensor. `None` for blobs, and if the elements are not numbers.
    ///
    /// The payload is in the layout of the tensor. Of sparse tensors, the stored elements count.
    ///
    /// ```
    /// use tensorfile::stats::Stats;
    /// use tensorfile::CooTensor;
    ///
    /// let sparse = CooTensor::new([1000], vec![3, 7], vec![1.0_f32, 2.0])?.to_tensor();
    /// let mut stats = Stats::from_info(sparse.info()).expect("f32 is numeric");
    /// stats.update(sparse.as_bytes());
    /// assert_eq!(stats.count(), 2);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn from_info(info: &TensorInfo) -> Option<Self> {
        match info.layout {
            Layout::RowMajor | Layout::DimOrder(_) => Self::new(info.dtype),
            Layout::Coo { entries } => Self::after(info.dtype, info.payload_bytes()? - info.dtype.bytes_for(entries)?),
            Layout::Blob | Layout::Unknown(_) => None,
        }
    }

    fn after(dtype: Dtype, skip: usize) -> Option<Self> {
        let elements = Elements::new(dtype)?;
        let whole = elements.joined_after(skip);
        let quantiles = Some(Quantiles::new(elements.are_f32(), dtype.block_bytes() > 2));
        Some(Self { dtype, skip, elements, whole, moments: Moments::default(), quantiles, exact_range: None })
    }

    /// Leaves out quantiles, which take most of the time and memory.
    ///
    /// ```
    /// use tensorfile::stats::Stats;
    /// use tensorfile::{Dtype, Tensor};
    ///
    /// let mut stats = Stats::new(Dtype::F32).expect("f32 is numeric").without_quantiles();
    /// stats.update(Tensor::from_slice(&[1.0_f32, 3.0], [2])?.as_bytes());
    /// assert_eq!((stats.mean(), stats.quantiles(&[0.5])), (Some(2.0), None));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn without_quantiles(self) -> Self {
        Self { quantiles: None, ..self }
    }

    /// Adds the next bytes of the payload. A piece may begin and end inside of an element.
    ///
    /// ```
    /// use tensorfile::stats::Stats;
    /// use tensorfile::Dtype;
    ///
    /// let mut stats = Stats::new(Dtype::U16).expect("u16 is numeric");
    /// stats.update(&[1]);                     // the first half of an element
    /// stats.update(&[0, 3, 0]);
    /// assert_eq!((stats.count(), stats.mean()), (2, Some(2.0)));
    /// ```
    pub fn update(&mut self, piece: &[u8]) {
        let Self { elements, whole, moments, quantiles, exact_range, .. } = self;
        whole.add(piece, |mut bytes| {
            // Quantiles keep the first elements, in order.
            while let Some(quantiles) = quantiles
                && quantiles.counts().is_none()
                && let Some(part) = elements.parts(bytes).next()
            {
                let mut found = PartStats::default();
                found.read(*elements, part, &mut |finite| quantiles.add(finite));
                found.add_to(moments, exact_range);
                bytes = &bytes[part.len()..];
            }
            let counts = quantiles.as_mut().and_then(Quantiles::counts);
            let parts: Vec<&[u8]> = elements.parts(bytes).collect();
            let read = |part: usize, found: &mut PartStats| match &counts {
                Some(counts) => counts.count(&mut |counts| {
                    found.read(*elements, parts[part], &mut |finite| counts.add(finite));
                }),
                None => found.read(*elements, parts[part], &mut |_| {}),
            };
            let Ok(()) = in_order(&mut Vec::new(), parts.len(), bytes.len(), &read, &mut |found| {
                found.add_to(moments, exact_range);
                Ok::<(), Infallible>(())
            });
        });
    }

    /// Merges statistics of the same dtype, such as of a later part of the tensor.
    ///
    /// ```
    /// use tensorfile::stats::Stats;
    /// use tensorfile::{Dtype, Tensor};
    ///
    /// let part = |elements: &[f32]| {
    ///     let mut stats = Stats::new(Dtype::F32).expect("f32 is numeric");
    ///     stats.update(Tensor::from_slice(elements, [elements.len()])?.as_bytes());
    ///     Ok::<_, tensorfile::Error>(stats)
    /// };
    /// let mut all = part(&[1.0, 2.0])?;
    /// all.merge(&part(&[6.0])?);
    /// assert_eq!((all.count(), all.mean()), (3, Some(3.0)));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// If the dtypes differ.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!(self.dtype, other.dtype, "statistics of two dtypes");
        self.moments.merge(&other.moments);
        self.exact_range = join(self.exact_range, other.exact_range);
        match (&mut self.quantiles, &other.quantiles) {
            (Some(quantiles), Some(other)) => quantiles.merge(other),
            (quantiles, _) => *quantiles = None,
        }
    }

    /// Returns the dtype.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.moments.count()
    }

    /// Returns the position of the first NaN, in payload order.
    #[must_use]
    pub fn first_nan(&self) -> Option<u64> {
        self.moments.first_nan
    }

    /// Returns the position of the first infinite element, in payload order.
    #[must_use]
    pub fn first_infinity(&self) -> Option<u64> {
        self.moments.first_infinity
    }

    /// Returns the number of NaNs.
    #[must_use]
    pub fn nans(&self) -> u64 {
        self.moments.nans
    }

    /// Returns the number of positive infinities.
    #[must_use]
    pub fn positive_infinities(&self) -> u64 {
        self.moments.positive_infinities
    }

    /// Returns the number of negative infinities.
    #[must_use]
    pub fn negative_infinities(&self) -> u64 {
        self.moments.negative_infinities
    }

    /// Returns the number of elements equal to zero, of either sign, or `false`.
    #[must_use]
    pub fn zeros(&self) -> u64 {
        self.moments.zeros
    }

    /// Returns the smallest finite element, exactly. `None` if there is none.
    #[must_use]
    pub fn min(&self) -> Option<Number> {
        self.limit(self.moments.min, self.exact_range.map(|(smallest, _)| smallest))
    }

    /// Returns the largest finite element, exactly. `None` if there is none.
    #[must_use]
    pub fn max(&self) -> Option<Number> {
        self.limit(self.moments.max, self.exact_range.map(|(_, largest)| largest))
    }

    fn limit(&self, float: f64, exact: Option<i128>) -> Option<Number> {
        let number = match exact {
            Some(integer) => Number::Integer(integer),
            None if self.dtype.is_float() || self.dtype.is_complex() => Number::Float(float),
            None => Number::Float(float).to_integer().map(Number::Integer)?,
        };
        (self.moments.finite > 0).then_some(number)
    }

    /// Returns the mean of the finite elements. `None` if there is none.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.moments.finite > 0).then(|| self.moments.mean())
    }

    /// Returns the population standard deviation of the finite elements. `None` if there is none.
    #[must_use]
    pub fn std(&self) -> Option<f64> {
        let Moments { finite, min, max, .. } = self.moments;
        // No numbers in a range deviate more than its ends.
        let most = match self.exact_range {
            Some((smallest, largest)) => (largest - smallest) as f64 / 2.0,
            None => max / 2.0 - min / 2.0,
        };
        (finite > 0).then(|| self.moments.std().min(most))
    }

    /// Returns quantiles of the finite elements: for 0.5 the median. `None` if there is no finite element, or quantiles
    /// were left out.
    ///
    /// Between two elements, quantiles are interpolated. They are exact for up to 2^20 elements, and for any number of
    /// floats of up to 16 bits and integers of up to 8 bits. Otherwise, each of the two elements has a relative error
    /// below 0.2 %; if most elements are close together and far from zero, it is relative to the distance from their
    /// median.
    ///
    /// ```
    /// use tensorfile::stats::Stats;
    /// use tensorfile::{Dtype, Tensor};
    ///
    /// let mut stats = Stats::new(Dtype::F32).expect("f32 is numeric");
    /// stats.update(Tensor::from_slice(&[0.0_f32, 1.0, 5.0, f32::NAN, f32::INFINITY], [5])?.as_bytes());
    /// assert_eq!(stats.quantiles(&[0.0, 0.5, 1.0]), Some(vec![0.0, 1.0, 5.0]));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn quantiles(&self, parts: &[f64]) -> Option<Vec<f64>> {
        let Moments { finite, min, max, .. } = self.moments;
        let quantiles = self.quantiles.as_ref().filter(|_| finite > 0)?;
        Some(quantiles.at(parts, min, max))
    }

    /// Returns an empty histogram with `bins` bins between the smallest and the largest finite element. `None` if there
    /// is none.
    ///
    /// A second pass over the payload fills it.
    ///
    /// ```
    /// use tensorfile::stats::Stats;
    /// use tensorfile::Tensor;
    ///
    /// let tensor = Tensor::from_slice(&[0_i64, 1, 2, 3, 4, 10], [6])?;
    /// let mut stats = Stats::from_info(tensor.info()).expect("i64 is numeric");
    /// stats.update(tensor.as_bytes());
    /// let mut histogram = stats.histogram(5).expect("there are elements");
    /// histogram.update(tensor.as_bytes());
    /// assert_eq!(histogram.edges(), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
    /// assert_eq!(histogram.counts(), [2, 2, 1, 0, 1]);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn histogram(&self, bins: usize) -> Option<Histogram> {
        let Moments { finite, min, max, .. } = self.moments;
        let elements = Elements::new(self.dtype).filter(|_| finite > 0)?;
        Some(Histogram::new(elements, self.skip, min, max, bins))
    }
}

/// Statistics of a part of a piece, computed by a thread.
#[derive(Default)]
struct PartStats {
    /// The moments of each chunk. Merged in order, they give the same numbers with any number of threads.
    moments: Vec<Moments>,
    exact_range: Option<(i128, i128)>,
}

impl PartStats {
    /// Reads a part, and calls `take` with the finite elements.
    fn read(&mut self, elements: Elements, part: &[u8], take: &mut dyn FnMut(Chunk<'_>)) {
        self.moments.clear();
        self.exact_range = None;
        elements.read(part, |chunk| match chunk {
            Chunk::F32(chunk) => self.moments.push(Moments::of(chunk, |finite| take(Chunk::F32(finite)))),
            Chunk::F64(chunk) => self.moments.push(Moments::of(chunk, |finite| take(Chunk::F64(finite)))),
            Chunk::Integers(integers) => {
                self.moments.push(Moments::from_integers(&integers));
                self.exact_range = join(self.exact_range, Some((integers.min, integers.max)));
                take(Chunk::Integers(integers));
            }
        });
    }

    fn add_to(&self, moments: &mut Moments, exact_range: &mut Option<(i128, i128)>) {
        self.moments.iter().for_each(|chunk| moments.merge(chunk));
        *exact_range = join(*exact_range, self.exact_range);
    }
}

/// Returns the range of both.
fn join(one: Option<(i128, i128)>, other: Option<(i128, i128)>) -> Option<(i128, i128)> {
    match (one, other) {
        (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
        (one, other) => one.or(other),
    }
}

/// Writing adds to the payload.
///
/// ```
/// use std::io::Write;
/// use tensorfile::stats::Stats;
/// use tensorfile::Tensor;
///
/// let tensor = Tensor::from_slice(&[1.0_f32, 3.0], [2])?;
/// let mut stats = Stats::from_info(tensor.info()).expect("f32 is numeric");
/// stats.write_all(tensor.as_bytes())?;
/// assert_eq!(stats.mean(), Some(2.0));
/// # Ok::<(), tensorfile::Error>(())
/// ```
impl io::Write for Stats {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.update(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
