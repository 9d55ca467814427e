//! What is found out about the numbers of a tensor, in one pass over its payload, or two.

use std::path::Path;

use serde::{Serialize, Serializer};
use tensorfile::{Dtype, FileTensor, Histogram, Layout, Number, Stats};

use crate::failure::{At, Outcome};
use crate::listed::Listed;
use crate::progress::Progress;

/// How much is looked at between two looks at the clock.
const PIECE: usize = 1 << 20;

/// A tensor with the statistics of its numbers.
#[derive(Debug)]
pub struct Survey<'f> {
    pub tensor: FileTensor<'f>,
    /// Without the quantiles, which take memory; `None` where the elements are no numbers.
    pub stats: Option<Stats>,
    /// Those of [`Stats::PARTS`].
    pub quantiles: Option<Vec<f64>>,
    pub histogram: Option<Histogram>,
}

impl<'f> Survey<'f> {
    /// Reads the tensor for all but the histogram.
    pub fn of(tensor: FileTensor<'f>, with_quantiles: bool, progress: &mut Progress, path: &Path) -> Outcome<Self> {
        let mut survey = Self { tensor, stats: None, quantiles: None, histogram: None };
        let Some(mut stats) = Stats::of_tensor(tensor.info()) else { return Ok(survey) };
        if !with_quantiles {
            stats = stats.without_quantiles();
        }
        pour(tensor, progress, path, |piece| stats.update(piece))?;
        survey.quantiles = stats.quantiles(&Stats::PARTS);
        survey.stats = Some(stats.without_quantiles());
        Ok(survey)
    }

    /// Reads the tensor again, for a histogram of up to so many bins.
    ///
    /// Integers have no more bins than there are of them from the smallest to the largest.
    pub fn count_bins(&mut self, bins: usize, progress: &mut Progress, path: &Path) -> Outcome<()> {
        let Some(stats) = &self.stats else { return Ok(()) };
        let bins = match (stats.min(), stats.max()) {
            (Some(Number::Integer(min)), Some(Number::Integer(max))) => {
                usize::try_from(max - min + 1).map_or(bins, |values| values.min(bins))
            }
            _ => bins,
        };
        let Some(mut histogram) = stats.histogram(bins) else { return Ok(()) };
        pour(self.tensor, progress, path, |piece| histogram.update(piece))?;
        self.histogram = Some(histogram);
        Ok(())
    }

    /// Whether there is any number that is finite.
    pub fn has_numbers(&self) -> bool {
        self.stats.as_ref().is_some_and(|stats| stats.min().is_some())
    }

    /// What the numbers are, where they are not just the elements of the tensor.
    pub fn note(&self) -> Option<&'static str> {
        match self.tensor.layout() {
            _ if self.stats.is_none() => Some("the elements are no numbers"),
            Layout::Coo { .. } if self.is_quantised() => Some("of the stored elements, as integers"),
            Layout::Coo { .. } => Some("of the stored elements"),
            _ if self.is_quantised() => Some("of the stored integers"),
            _ => None,
        }
    }

    /// Whether the numbers are integers that stand for others.
    pub fn is_quantised(&self) -> bool {
        matches!(self.tensor.dtype(), Dtype::QInt8 | Dtype::QUint8 | Dtype::QInt32)
    }
}

fn pour(tensor: FileTensor<'_>, progress: &mut Progress, path: &Path, mut take: impl FnMut(&[u8])) -> Outcome<()> {
    let mut in_pieces = |bytes: &[u8]| {
        for piece in bytes.chunks(PIECE) {
            take(piece);
            progress.advance(piece.len());
        }
        Ok(())
    };
    tensor.pour(&mut in_pieces).at(path)
}

impl Serialize for Survey<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Row<'a> {
            #[serde(flatten)]
            tensor: Listed<'a>,
            stats: Option<Figures<'a>>,
        }

        #[derive(Serialize)]
        struct Figures<'a> {
            count: u64,
            min: Option<Number>,
            max: Option<Number>,
            mean: Option<f64>,
            std: Option<f64>,
            nans: u64,
            positive_infinities: u64,
            negative_infinities: u64,
            zeros: u64,
            /// Pairs of part and quantile.
            quantiles: Option<Vec<(f64, f64)>>,
            #[serde(skip_serializing_if = "Option::is_none")]
            histogram: Option<&'a Histogram>,
        }

        let pairs = |quantiles: &Vec<f64>| Stats::PARTS.into_iter().zip(quantiles.iter().copied()).collect();
        let figures = |stats: &Stats| Figures {
            count: stats.count(),
            min: stats.min(),
            max: stats.max(),
            mean: stats.mean(),
            std: stats.std(),
            nans: stats.nans(),
            positive_infinities: stats.positive_infinities(),
            negative_infinities: stats.negative_infinities(),
            zeros: stats.zeros(),
            quantiles: self.quantiles.as_ref().map(pairs),
            histogram: self.histogram.as_ref(),
        };
        Row { tensor: self.tensor.into(), stats: self.stats.as_ref().map(figures) }.serialize(serializer)
    }
}
