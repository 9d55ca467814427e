//! Computes the statistics of a tensor, in one pass over its payload or two.

use std::path::Path;

use serde::{Serialize, Serializer};
use tensorfile::cast::Number;
use tensorfile::file::FileTensor;
use tensorfile::model::TensorData;
use tensorfile::stats::{Histogram, Stats};
use tensorfile::{Dtype, Error, Layout, TensorInfo};

use crate::computed::WatchedTensor;
use crate::exit::{At, Outcome};
use crate::output::Progress;
use crate::output::tensors::{TensorRow, index_of};

/// The statistics that are computed in one pass over a payload.
#[derive(Clone, Default)]
pub struct PayloadStats {
    stats: Option<Stats>,
    quantiles: Option<Vec<f64>>,
}

impl PayloadStats {
    pub fn read(info: &TensorInfo, data: &dyn TensorData, with_quantiles: bool) -> tensorfile::Result<Self> {
        let Some(mut stats) = Stats::from_info(info) else { return Ok(Self::default()) };
        if !with_quantiles {
            stats = stats.without_quantiles();
        }
        data.write_to(&mut stats)?;
        Ok(Self { quantiles: stats.quantiles(&Stats::PARTS), stats: Some(stats.without_quantiles()) })
    }
}

/// A tensor with its statistics.
#[derive(Debug)]
pub struct TensorStats<'f> {
    pub tensor: FileTensor<'f>,
    /// `None` if the elements are not numbers. Has no quantiles, which take memory.
    pub stats: Option<Stats>,
    /// The quantiles at [`Stats::PARTS`].
    pub quantiles: Option<Vec<f64>>,
    pub histogram: Option<Histogram>,
}

impl<'f> TensorStats<'f> {
    pub fn new(tensor: FileTensor<'f>, numbers: PayloadStats) -> Self {
        Self { tensor, stats: numbers.stats, quantiles: numbers.quantiles, histogram: None }
    }

    /// Reads the tensor again and computes a histogram with at most `bins` bins.
    pub fn read_histogram(&mut self, bins: usize, progress: &mut Progress, path: &Path) -> Outcome<()> {
        let Some(mut histogram) = self.stats.as_ref().and_then(|stats| empty_histogram(stats, bins)) else {
            return Ok(());
        };
        WatchedTensor::new(self.tensor, progress).write_to(&mut histogram).map_err(Error::from).at(path)?;
        self.histogram = Some(histogram);
        Ok(())
    }

    /// Returns whether any element is a finite number.
    pub fn has_numbers(&self) -> bool {
        self.stats.as_ref().is_some_and(|stats| stats.min().is_some())
    }

    /// Describes the numbers that the statistics are about, if they are not the elements of the tensor.
    pub fn remark(&self) -> Option<&'static str> {
        match self.tensor.layout() {
            _ if self.stats.is_none() => Some("the elements are not numbers"),
            Layout::Coo { .. } if is_quantized(self.tensor) => Some("statistics of the stored elements, as integers"),
            Layout::Coo { .. } if self.tensor.dtype().is_complex() => {
                Some("statistics of the magnitudes of the stored elements")
            }
            Layout::Coo { .. } => Some("statistics of the stored elements"),
            _ if self.tensor.dtype().is_complex() => Some("statistics of the magnitudes"),
            _ if is_quantized(self.tensor) => Some("statistics of the stored integers"),
            _ => None,
        }
    }
}

/// Returns an empty histogram with at most `bins` bins, and no more than integers between the smallest and the largest
/// element. `None` if there is none.
pub fn empty_histogram(stats: &Stats, bins: usize) -> Option<Histogram> {
    let bins = match (stats.min(), stats.max()) {
        (Some(Number::Integer(min)), Some(Number::Integer(max))) => {
            usize::try_from(max - min + 1).map_or(bins, |values| values.min(bins))
        }
        _ => bins,
    };
    stats.histogram(bins)
}

pub fn is_quantized(tensor: FileTensor<'_>) -> bool {
    matches!(tensor.dtype(), Dtype::QInt8 | Dtype::QUint8 | Dtype::QInt32)
}

impl Serialize for TensorStats<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Row<'a> {
            #[serde(flatten)]
            tensor: TensorRow<'a>,
            stats: Option<StatsRow<'a>>,
        }

        #[derive(Serialize)]
        struct StatsRow<'a> {
            count: u64,
            min: Option<Number>,
            max: Option<Number>,
            mean: Option<f64>,
            std: Option<f64>,
            nans: u64,
            /// The index; of a sparse tensor, the number among the stored elements.
            first_nan: Option<Vec<u64>>,
            positive_infinities: u64,
            negative_infinities: u64,
            first_infinity: Option<Vec<u64>>,
            zeros: u64,
            /// Pairs of part and quantile.
            quantiles: Option<Vec<(f64, f64)>>,
            #[serde(skip_serializing_if = "Option::is_none")]
            histogram: Option<&'a Histogram>,
        }

        let pairs = |quantiles: &Vec<f64>| Stats::PARTS.into_iter().zip(quantiles.iter().copied()).collect();
        let index = |position| index_of(self.tensor.info(), position);
        let row = |stats: &Stats| StatsRow {
            count: stats.count(),
            min: stats.min(),
            max: stats.max(),
            mean: stats.mean(),
            std: stats.std(),
            nans: stats.nans(),
            first_nan: stats.first_nan().map(index),
            positive_infinities: stats.positive_infinities(),
            negative_infinities: stats.negative_infinities(),
            first_infinity: stats.first_infinity().map(index),
            zeros: stats.zeros(),
            quantiles: self.quantiles.as_ref().map(pairs),
            histogram: self.histogram.as_ref(),
        };
        Row { tensor: self.tensor.into(), stats: self.stats.as_ref().map(row) }.serialize(serializer)
    }
}
