//! The values of a tensor: statistics, a histogram and a heat map, of all elements or of a sample.

use std::io;
use std::ops::Range;
use std::path::Path;

use serde::Serialize;
use tensorfile::cast::{Caster, Number};
use tensorfile::file::FileTensor;
use tensorfile::model::TensorData;
use tensorfile::stats::Stats;
use tensorfile::view::{Scalar, scalars};
use tensorfile::{Dtype, Error, Layout};

use super::heat_map::{Cells, HeatMap, Matrix};
use crate::commands::stats::empty_histogram;
use crate::exit::{At, Outcome};
use crate::output::Progress;
use crate::output::numbers::{NONE, to_f64};
use crate::pieces::Pieces;

/// The bins of histograms.
const BINS: usize = 60;

/// The most bytes read at once, for elements of any size.
const PIECE: u64 = 1 << 20;

/// The values of a tensor.
#[derive(Debug, Serialize)]
pub struct Values {
    /// The number of the tensor in the list.
    tensor: usize,
    /// The number of read elements.
    read: u64,
    /// The number of elements.
    of: u64,
    part: Part,
    #[serde(skip_serializing_if = "Option::is_none")]
    stats: Option<StatsRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    histogram: Option<HistogramRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    heat_map: Option<HeatMap>,
}

/// The part of a tensor to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Part {
    All,
    /// Runs of elements, spread evenly.
    Spread,
    /// The first elements, of a payload readable only from its start.
    Front,
}

/// The reason that a tensor has no values to draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NoValues {
    /// There are no elements.
    Empty,
    Blob,
    UnknownDtype,
    /// A block has several elements, which are not decoded.
    Blocks,
    /// The elements are packed or uninterpreted bits, not numbers.
    Bits,
}

/// Statistics, with numbers as text.
#[derive(Debug, Serialize)]
struct StatsRow {
    min: String,
    max: String,
    mean: String,
    std: String,
    zeros: u64,
    nans: u64,
    positive_infinities: u64,
    negative_infinities: u64,
    /// Pairs of part and quantile.
    quantiles: Vec<(f64, String)>,
}

/// The counts in bins of equal width.
#[derive(Debug, Serialize)]
struct HistogramRow {
    low: f64,
    high: f64,
    counts: Vec<u64>,
}

/// The elements of a payload, after the coordinates if it is sparse.
#[derive(Debug, Clone, Copy)]
struct Elements {
    skip: u64,
    count: u64,
    size: u64,
}

impl Elements {
    fn of(tensor: FileTensor<'_>) -> Result<Self, NoValues> {
        let (dtype, bytes) = (tensor.dtype(), tensor.payload_bytes());
        let count = match tensor.layout() {
            Layout::Blob => return Err(NoValues::Blob),
            Layout::Unknown(_) => return Err(NoValues::UnknownDtype),
            Layout::Coo { entries } => *entries,
            _ => tensor.shape().elements().unwrap_or_default(),
        };
        if !dtype.has_elements() {
            return Err(NoValues::Blocks);
        }
        if Stats::from_info(tensor.info()).is_none() {
            return Err(NoValues::Bits);
        }
        let size = dtype.block_bytes() as u64;
        let count = count as u64;
        match count.checked_mul(size).and_then(|elements| bytes.checked_sub(elements)) {
            Some(skip) if count > 0 => Ok(Self { skip, count, size }),
            _ => Err(NoValues::Empty),
        }
    }
}

/// Returns the reason that a tensor has no values to draw, if there is one.
pub fn no_values(tensor: FileTensor<'_>) -> Option<NoValues> {
    Elements::of(tensor).err()
}

/// Reads tensors of a file.
pub struct Reader<'a> {
    pub path: &'a Path,
    /// The most bytes read of a tensor.
    pub sample: u64,
    pub progress: Progress,
}

impl Reader<'_> {
    /// Reads the tensor with this number in the list. `None` if it has no values to draw.
    pub fn read(&mut self, index: usize, tensor: FileTensor<'_>) -> Outcome<Option<Values>> {
        let Ok(elements) = Elements::of(tensor) else { return Ok(None) };
        let Elements { count, size, .. } = elements;
        let matrix = Matrix::of(tensor.shape(), tensor.layout());
        // The stored elements of a sparse tensor are in a line.
        let mut cells = Cells::new(matrix.as_ref().map_or((1, count), Matrix::size));

        let in_order = tensor.read_at(0, &mut []).is_err();
        let most = (self.sample / size).max(1);
        let up_to = |end| std::iter::once(0..end).collect();
        let (part, runs) = match (count <= most, in_order) {
            (true, _) => (Part::All, up_to(count)),
            (false, true) => (Part::Front, up_to(most)),
            (false, false) => (Part::Spread, cells.runs(most)),
        };
        let mut source = SourceTensor { tensor, elements, in_order, path: self.path };
        if matches!(tensor.layout(), Layout::Coo { .. }) {
            // The coordinates are checked as they are read in order.
            source.read_front(1, &mut |_, _| {})?;
        }
        let (mut stats, mut numbers) = (Stats::new(tensor.dtype()), Numbers::new(tensor.dtype()));
        source.read(&runs, &mut |first, bytes| {
            if let Some(stats) = &mut stats {
                stats.update(bytes);
            }
            if matrix.is_some() {
                cells.add(first, numbers.of(bytes));
            }
            self.progress.advance(bytes.len());
        })?;
        let mut histogram = stats.as_ref().and_then(|stats| empty_histogram(stats, BINS));
        if let Some(histogram) = &mut histogram {
            source.read(&runs, &mut |_, bytes| histogram.update(bytes))?;
        }
        Ok(Some(Values {
            tensor: index,
            read: runs.iter().map(|run| run.end - run.start).sum(),
            of: count,
            part,
            stats: stats.as_ref().map(StatsRow::from),
            histogram: histogram.map(|histogram| HistogramRow {
                low: histogram.edges().first().copied().unwrap_or_default(),
                high: histogram.edges().last().copied().unwrap_or_default(),
                counts: histogram.counts().to_vec(),
            }),
            heat_map: matrix.map(|matrix| cells.draw(matrix, tensor.dtype().is_complex())),
        }))
    }
}

/// A tensor being read.
struct SourceTensor<'a> {
    tensor: FileTensor<'a>,
    elements: Elements,
    /// Only the whole payload can be read, from its start.
    in_order: bool,
    path: &'a Path,
}

impl SourceTensor<'_> {
    /// Calls `take` with the elements in these ranges, and the number of the first one in each piece.
    fn read(&mut self, runs: &[Range<u64>], take: &mut dyn FnMut(u64, &[u8])) -> Outcome<()> {
        if self.in_order {
            self.read_front(runs.last().map_or(0, |run| run.end), take)
        } else {
            self.read_runs(runs, take)
        }
    }

    fn read_runs(&self, runs: &[Range<u64>], take: &mut dyn FnMut(u64, &[u8])) -> Outcome<()> {
        let Elements { skip, size, .. } = self.elements;
        let most = (PIECE / size).max(1);
        let mut buffer = Vec::new();
        for run in runs {
            let mut first = run.start;
            while first < run.end {
                let now = most.min(run.end - first);
                // A piece is small.
                buffer.resize(usize::try_from(now * size).unwrap_or_default(), 0);
                self.tensor.read_at(skip + first * size, &mut buffer).at(self.path)?;
                take(first, &buffer);
                first += now;
            }
        }
        Ok(())
    }

    /// Reads the payload from its start, up to this element.
    fn read_front(&self, end: u64, take: &mut dyn FnMut(u64, &[u8])) -> Outcome<()> {
        let Elements { skip, size, .. } = self.elements;
        let [mut before, mut left] = [skip, end * size].map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let (mut first, mut partial, mut is_enough) = (0, Vec::new(), false);
        let size = usize::try_from(size).unwrap_or(1);
        let mut pieces = Pieces(|mut piece: &[u8]| {
            if left == 0 {
                is_enough = true;
                return Err(io::Error::other("no more is needed"));
            }
            let skipped = before.min(piece.len());
            before -= skipped;
            piece = &piece[skipped..];
            piece = &piece[..left.min(piece.len())];
            left -= piece.len();
            // A piece may begin and end inside of an element.
            partial.extend_from_slice(piece);
            let whole = partial.len() / size * size;
            take(first, &partial[..whole]);
            first += (whole / size) as u64;
            partial.drain(..whole);
            Ok(())
        });
        let written = self.tensor.write_to(&mut pieces);
        if is_enough { Ok(()) } else { written.map_err(Error::from).at(self.path) }
    }
}

/// Converts elements to the numbers to draw.
struct Numbers {
    dtype: Dtype,
    /// Converts many at once. `None` if the dtype is not cast.
    caster: Option<Caster>,
    cast: Vec<u8>,
    numbers: Vec<f64>,
}

impl Numbers {
    fn new(dtype: Dtype) -> Self {
        let caster = Caster::between_kinds(dtype, Dtype::F64).ok();
        Self { dtype, caster, cast: Vec::new(), numbers: Vec::new() }
    }

    fn of(&mut self, elements: &[u8]) -> &[f64] {
        let Self { dtype, caster, cast, numbers } = self;
        let (dtype, elements) = match caster {
            Some(caster) => {
                cast.clear();
                caster.cast(elements, cast);
                (Dtype::F64, &cast[..])
            }
            None => (*dtype, elements),
        };
        numbers.clear();
        match dtype {
            Dtype::F64 => {
                let (whole, _) = elements.as_chunks();
                numbers.extend(whole.iter().map(|bytes| f64::from_le_bytes(*bytes)));
            }
            _ => numbers.extend(scalars(dtype, elements).map(value)),
        }
        numbers
    }
}

/// Returns the number to draw: of a complex number, its absolute value.
fn value(scalar: Scalar) -> f64 {
    scalar.to_number().map_or_else(
        || {
            let (real, imaginary) = scalar.to_complex();
            real.hypot(imaginary)
        },
        to_f64,
    )
}

/// Returns all digits of a number.
fn exact(number: Option<Number>) -> String {
    match number {
        None => NONE.to_owned(),
        Some(Number::Integer(integer)) => integer.to_string(),
        Some(Number::Float(float)) => Scalar::from(float).to_string(),
    }
}

impl From<&Stats> for StatsRow {
    fn from(stats: &Stats) -> Self {
        let quantiles = stats.quantiles(&Stats::PARTS).unwrap_or_default();
        Self {
            min: exact(stats.min()),
            max: exact(stats.max()),
            mean: exact(stats.mean().map(Number::Float)),
            std: exact(stats.std().map(Number::Float)),
            zeros: stats.zeros(),
            nans: stats.nans(),
            positive_infinities: stats.positive_infinities(),
            negative_infinities: stats.negative_infinities(),
            quantiles: Stats::PARTS
                .into_iter()
                .zip(quantiles.iter().map(|value| exact(Some(Number::Float(*value)))))
                .collect(),
        }
    }
}
