mod print;
mod summary;

use std::cmp::Ordering;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use clap::builder::RangedU64ValueParser;
use tensorfile::file::FileTensor;
use tensorfile::stats::Stats as Statistics;
use tensorfile::{File, Layout, TensorInfo};

use crate::args::{
    Decoding, FileTable, Filter, MapArgs, NamedInputs, NoClobber, Printer, SplitArgs, Warnings, is_one_tensor, open,
};
use crate::computed::Computed;
use crate::exit::{At, Failure, Outcome, Verdict};
use crate::export::quoted;
use crate::output::numbers::{NONE, count, counted, general, to_f64};
use crate::output::plot::{ChartFormat, MAX_PANELS, Panel, plot};
use crate::output::tensors::{index_of, is_unknown, type_label};
use crate::output::{Progress, Stdout, Wide, escape, note};

use print::{StatsListing, StatsTotal, infinities, print_diffable, print_long, print_rows, print_table};
use summary::{PayloadStats, TensorStats};

pub use summary::{empty_histogram, is_quantized};

/// Print statistics of tensors: range, mean, standard deviation, NaN, infinities and zeros.
///
/// Files of one unnamed tensor each, such as npy files, make one table with the files as names.
///
/// NaN and infinities are counted; all other statistics are over the finite elements. For a single tensor, or with
/// --long, you also get quantiles and a histogram. The tensor is read twice for these, so a pipe is held.
///
/// Minimum and maximum are exact. Quantiles are exact for up to a million elements, for floats of up to 16 bits and for
/// integers of up to 8 bits. Otherwise they are accurate to 0.2 % of their value, or of their distance from the median
/// if most elements are close to it.
///
/// Quantized elements count as integers, and complex numbers as their magnitudes. In sparse tensors, only the stored
/// elements count. Packed dtypes, blocks of several elements, unknown dtypes and blobs have no statistics; with
/// --fail-on they are a failure.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Stats {
    #[command(flatten)]
    inputs: NamedInputs,
    #[command(flatten)]
    split: SplitArgs,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    decoding: Decoding,
    #[command(flatten)]
    mapping: MapArgs,
    #[command(flatten)]
    view: StatsView,
    #[command(flatten)]
    wide: Wide,
    /// Sort by this column; by default, tensors are in the order of the file or of the names given
    #[arg(long, value_name = "KEY", conflicts_with = "diffable")]
    sort: Option<StatsKey>,
    /// Reverse the order
    #[arg(long, short, conflicts_with = "diffable")]
    reverse: bool,
    /// The number of bins of histograms, which are printed for a single tensor and with --long; by default, 20, or 50
    /// with --plot
    #[arg(long, value_name = "COUNT", conflicts_with = "diffable", value_parser = RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    bins: Option<usize>,
    /// Draw the histograms of the first 24 tensors with numbers to this file, .png or .svg
    #[arg(long, value_name = "PATH")]
    plot: Option<PathBuf>,
    #[command(flatten)]
    no_clobber: NoClobber,
    /// Exit with code 1 if a tensor has one of these, and print its name and the first place to standard error; also if
    /// the elements of a tensor cannot be checked
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    fail_on: Vec<Flaw>,
}

#[derive(Debug, clap::Args)]
struct StatsView {
    /// Print all statistics of each tensor
    #[arg(long, short)]
    long: bool,
    /// Print JSON, with quantiles; with --long or for a single tensor, with histograms
    #[arg(long, conflicts_with = "diffable")]
    json: bool,
    /// Print lines for `diff`: sorted by name, without alignment
    #[arg(long, conflicts_with = "long")]
    diffable: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum StatsKey {
    Name,
    Dtype,
    Shape,
    Min,
    Max,
    Mean,
    Std,
    Nan,
    Inf,
    Zeros,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Flaw {
    /// An element that is NaN
    Nan,
    /// An element that is infinite
    Inf,
    /// Only elements that are zero
    Zero,
}

/// The most statistics held in memory at once. If there are more tensors, and they are sorted by their elements or
/// drawn, they are read twice.
const MAX_HELD: usize = 1 << 15;

const EXAMPLES: &str = "\
Examples:
  tensorfile stats model.ptd
  tensorfile stats model.ptd encoder.0.weight
  tensorfile stats old.ptd new.ptd --tensor encoder.0.weight
  tensorfile stats --filter '*.weight' --sort std --reverse model.ptd
  tensorfile stats --fail-on nan,inf model.ptd > /dev/null && echo fine
  tensorfile stats --plot weights.png --filter '*.weight' model.ptd
  tensorfile stats --json model.ptd | jq '.[].tensors[] | select(.stats.mean > 1) | .name'";

impl Stats {
    pub fn run(&self, out: &mut Stdout) -> Outcome {
        self.decoding.apply();
        self.mapping.apply(false)?;
        // Checked before the tensors are read, which may take long.
        if let Some(path) = &self.plot {
            ChartFormat::from_path(path)?;
            self.no_clobber.check(path)?;
        }
        if self.plot.is_some() && !self.inputs.is_single() {
            return Err(Failure::usage("--plot draws the tensors of a single file"));
        }
        let names = self.inputs.names();
        if !names.is_empty() && !self.filter.is_empty() {
            return Err(Failure::usage("the names of tensors and --filter cannot be given together"));
        }
        let is_long = (self.view.long || names.len() == 1) && !self.view.diffable;
        let with_quantiles = is_long || self.view.json;
        let open = |path: &Path, from: Option<&str>| {
            let mut computed = Computed::new(move |info, data| PayloadStats::read(info, data, with_quantiles));
            // Histograms take a second pass.
            let file = if is_long || self.plot.is_some() {
                open(path, from)?
            } else {
                computed.open(path, from, Warnings::StandardError)?
            };
            Ok((file, computed))
        };
        let run = &mut |path: &Path, (file, computed): OpenFile, printer: &mut Printer<'_, '_>| {
            StatsRun { args: self, path, names: &names, is_long }.run(&file, computed, printer)
        };
        if self.view.json || self.view.diffable || is_long || !names.is_empty() || !self.filter.is_empty() {
            return self.inputs.for_each(open, self.split, self.view.json, out, run);
        }
        let mut table = StatsTable { args: self, rows: Vec::new(), total: StatsTotal::default() };
        self.inputs.for_each_in_table(open, self.split, &mut table, out, run)
    }
}

/// An open file, and the statistics of its tensors if it is a stream.
type OpenFile = (File, Computed<PayloadStats>);

/// Files of one tensor, as rows of a table.
struct StatsTable<'a> {
    args: &'a Stats,
    rows: Vec<SummedFile>,
    total: StatsTotal,
}

/// A file of one tensor.
struct SummedFile {
    path: String,
    info: TensorInfo,
    rank: Rank,
    cells: [String; 10],
}

impl FileTable<OpenFile> for StatsTable<'_> {
    fn add(&mut self, path: &Path, (file, mut computed): OpenFile) -> Outcome<Result<Verdict, OpenFile>> {
        if !is_one_tensor(&file) {
            return Ok(Err((file, computed)));
        }
        let run = StatsRun { args: self.args, path, names: &[], is_long: false };
        let mut flaws = Flaws::default();
        computed.watch(file.tensors());
        for tensor in file.tensors() {
            let stats = run.read(tensor, &mut computed)?;
            run.check(&stats, &mut flaws);
            self.total.add(&stats);
            let path = path.display().to_string();
            let rank = self.args.sort.map_or(Rank::Count(None), |key| key.rank(stats.stats.as_ref()));
            let cells = print::cells(&path, &stats).map(|cell| cell.into_owned());
            self.rows.push(SummedFile { path, info: tensor.info().clone(), rank, cells });
        }
        Ok(Ok(run.report(&file, &flaws)))
    }

    fn has_rows(&self) -> bool {
        !self.rows.is_empty()
    }

    fn print(&mut self, out: &mut Stdout) -> Outcome<()> {
        let mut rows = std::mem::take(&mut self.rows);
        if let Some(key) = self.args.sort {
            rows.sort_by(|a, b| match key {
                StatsKey::Name => a.path.cmp(&b.path),
                StatsKey::Dtype => a.info.dtype.name().cmp(b.info.dtype.name()),
                StatsKey::Shape => a.info.shape.dims().cmp(b.info.shape.dims()),
                _ => a.rank.compare(&b.rank),
            });
        }
        if self.args.reverse {
            rows.reverse();
        }
        print_rows(rows.iter().map(|row| &row.cells), self.args.wide.width(out), out)?;
        std::mem::take(&mut self.total).print(out)?;
        Ok(())
    }
}

/// A run over one file.
struct StatsRun<'a> {
    args: &'a Stats,
    path: &'a Path,
    /// The tensors; all, if there are none.
    names: &'a [String],
    /// All statistics of each tensor are printed.
    is_long: bool,
}

impl StatsRun<'_> {
    fn run(&self, file: &File, mut computed: Computed<PayloadStats>, printer: &mut Printer<'_, '_>) -> Outcome {
        let mut positions = self.positions(file)?;
        computed.watch(tensors(file, &positions));

        let mut flaws = Flaws::default();
        let is_few = positions.len() <= MAX_HELD || computed.are_known();
        let key = self.key().filter(|key| key.is_of_elements());
        if is_few && (self.args.plot.is_some() || key.is_some()) {
            let read = |tensor| self.read(tensor, &mut computed);
            let mut stats = tensors(file, &positions).map(read).collect::<Outcome<Vec<_>>>()?;
            self.sort(&mut stats, |a, b, key| a.sort_keys().compare(&b.sort_keys(), key));
            self.read_histograms(&mut stats)?;
            if let Some(path) = &self.args.plot {
                self.plot(path, &stats, stats.len())?;
            }
            let sorted: Vec<usize> = stats.iter().map(|stats| stats.tensor.position()).collect();
            self.print(file, &sorted, stats.into_iter().map(Ok), &mut flaws, printer)?;
        } else {
            // There may be millions of tensors, so they are printed as they are read.
            if let Some(key) = key {
                positions = self.sort_by_elements(file, &positions, key, &mut computed)?;
                computed.watch(tensors(file, &positions));
            } else {
                let keys = |i: &usize| StatsSortKeys { tensor: tensor_at(file, *i), stats: None };
                self.sort(&mut positions, |a, b, key| keys(a).compare(&keys(b), key));
            }
            let bins = self.bins();
            if let Some(path) = &self.args.plot {
                let mut panels = Vec::new();
                for tensor in tensors(file, &positions) {
                    let mut stats = self.read(tensor, &mut computed)?;
                    if stats.has_numbers() {
                        stats.read_histogram(bins, &mut Progress::bytes(0), self.path)?;
                        panels.push(stats);
                    }
                    if panels.len() == MAX_PANELS {
                        break;
                    }
                }
                self.plot(path, &panels, positions.len())?;
                computed.watch(tensors(file, &positions));
            }
            let stats = tensors(file, &positions).map(|tensor| {
                let mut stats = self.read(tensor, &mut computed)?;
                if self.is_long {
                    stats.read_histogram(bins, &mut Progress::bytes(tensor.payload_bytes()), self.path)?;
                }
                Ok(stats)
            });
            self.print(file, &positions, stats, &mut flaws, printer)?;
        }
        if let Printer::Text(out) = printer {
            out.flush()?;
        }
        Ok(self.report(file, &flaws))
    }

    /// Reads a tensor.
    fn read<'f>(&self, tensor: FileTensor<'f>, computed: &mut Computed<PayloadStats>) -> Outcome<TensorStats<'f>> {
        Ok(TensorStats::new(tensor, computed.of(tensor).at(self.path)?))
    }

    /// Reads tensors, holds one of their statistics, and returns their positions in its order.
    fn sort_by_elements(
        &self,
        file: &File,
        positions: &[usize],
        key: StatsKey,
        computed: &mut Computed<PayloadStats>,
    ) -> Outcome<Vec<usize>> {
        let mut ranked = Vec::with_capacity(positions.len());
        for tensor in tensors(file, positions) {
            let read = self.read(tensor, computed)?;
            ranked.push((key.rank(read.stats.as_ref()), tensor.position()));
        }
        self.sort(&mut ranked, |(a, _), (b, _), _| a.compare(b));
        Ok(ranked.into_iter().map(|(_, i)| i).collect())
    }

    /// Prints the tensors at these positions, and collects their flaws.
    fn print<'f>(
        &self,
        file: &'f File,
        positions: &[usize],
        stats: impl Iterator<Item = Outcome<TensorStats<'f>>>,
        flaws: &mut Flaws,
        printer: &mut Printer<'_, '_>,
    ) -> Outcome<()> {
        let stats = stats.inspect(|stats| {
            if let Ok(stats) = stats {
                self.check(stats, flaws);
            }
        });
        let out = match printer {
            Printer::Text(out) => out,
            Printer::Json(list) => return StatsListing::new(self.path, file, stats).print(list),
        };
        if self.args.view.diffable {
            print_diffable(stats, out)
        } else if self.is_long {
            print_long(stats, out)
        } else {
            print_table(tensors(file, positions), stats, self.args.wide.width(out), out)
        }
    }

    fn positions(&self, file: &File) -> Outcome<Vec<usize>> {
        if self.names.is_empty() {
            let tensors = file.tensors().filter(|tensor| self.args.filter.matches(tensor.name()));
            let positions: Vec<usize> = tensors.map(|tensor| tensor.position()).collect();
            self.args.filter.expect_some(positions.len())?;
            return Ok(positions);
        }
        let position = |name: &String| Ok(file.get(name).at(self.path)?.position());
        self.names.iter().map(position).collect()
    }

    fn bins(&self) -> usize {
        self.args.bins.unwrap_or(if self.args.plot.is_some() { 50 } else { 20 })
    }

    /// Reads tensors a second time, to print or draw their histograms.
    fn read_histograms(&self, stats: &mut [TensorStats<'_>]) -> Outcome<()> {
        let bins = self.bins();
        let count = match (self.is_long, &self.args.plot) {
            (true, _) => usize::MAX,
            (false, Some(_)) => MAX_PANELS,
            (false, None) => 0,
        };
        let with_numbers = stats.iter_mut().filter(|tensor| tensor.has_numbers());
        let mut chosen: Vec<&mut TensorStats<'_>> = with_numbers.take(count).collect();
        let mut progress = Progress::bytes(chosen.iter().map(|stats| stats.tensor.payload_bytes()).sum());
        chosen.iter_mut().try_for_each(|stats| stats.read_histogram(bins, &mut progress, self.path))
    }

    fn key(&self) -> Option<StatsKey> {
        if self.args.view.diffable { Some(StatsKey::Name) } else { self.args.sort }
    }

    fn sort<T>(&self, rows: &mut [T], compare: impl Fn(&T, &T, StatsKey) -> Ordering) {
        // A stable sort keeps the order between equal tensors.
        if let Some(key) = self.key() {
            rows.sort_by(|a, b| compare(a, b, key));
        }
        if self.args.reverse {
            rows.reverse();
        }
    }

    /// Draws the first tensors of `all`.
    fn plot(&self, path: &Path, tensors: &[TensorStats<'_>], all: usize) -> Outcome<()> {
        let panels: Vec<Panel<'_>> = tensors.iter().filter_map(panel).take(MAX_PANELS).collect();
        if panels.is_empty() {
            return Err(Failure::usage("--plot: no tensor has numbers to draw"));
        }
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let caption = match all {
            1 => name.into_owned(),
            all if all == panels.len() => format!("{name}: {}", counted(all, "tensor")),
            all => format!("{name}: {} of {}", panels.len(), counted(all, "tensor")),
        };
        plot(path, &escape(&caption), &panels)
    }

    /// Notes the flaws of a tensor for `--fail-on`, and whether it could be checked.
    fn check(&self, tensor: &TensorStats<'_>, flaws: &mut Flaws) {
        let position = tensor.tensor.position();
        let Some(stats) = &tensor.stats else {
            if !self.args.fail_on.is_empty() && (tensor.tensor.payload_bytes() > 0 || is_unknown(tensor.tensor.info()))
            {
                flaws.unchecked.push(position);
            }
            return;
        };
        for &flaw in &self.args.fail_on {
            let (count, first) = match flaw {
                Flaw::Nan => (stats.nans(), stats.first_nan()),
                Flaw::Inf => (infinities(stats), stats.first_infinity()),
                Flaw::Zero if stats.zeros() == stats.count() => (stats.count(), None),
                Flaw::Zero => (0, None),
            };
            if count > 0 {
                flaws.found.push(FoundFlaw { position, flaw, count, first });
            }
        }
    }

    /// Reports tensors with the flaws of `--fail-on`.
    fn report(&self, file: &File, flaws: &Flaws) -> Verdict {
        let path = self.path.display();
        for &FoundFlaw { position, flaw, count: number, first } in &flaws.found {
            let tensor = tensor_at(file, position);
            let number = count(number);
            let place = first.map(|first| format!(", first at {}", place(tensor, first))).unwrap_or_default();
            let found = match flaw {
                Flaw::Nan => format!("has {number} NaN{place}"),
                Flaw::Inf => format!("has {number} Inf{place}"),
                Flaw::Zero => "is all zeros".to_owned(),
            };
            note(format_args!("{path}: `{}` {found}", tensor.name()));
        }
        let unchecked: Vec<String> = tensors(file, &flaws.unchecked).map(|tensor| tensor.name().to_owned()).collect();
        if !unchecked.is_empty() {
            let advice = if self.names.is_empty() { "; --filter '!NAME' leaves a tensor out" } else { "" };
            let names = quoted(&unchecked);
            note(format_args!("{path}: cannot check {names}, whose elements are not numbers{advice}"));
        }
        Verdict::from_pass(flaws.found.is_empty() && unchecked.is_empty())
    }
}

/// The results of `--fail-on`.
#[derive(Debug, Default)]
struct Flaws {
    found: Vec<FoundFlaw>,
    /// The positions of tensors without statistics.
    unchecked: Vec<usize>,
}

/// A flaw of a tensor.
#[derive(Debug)]
struct FoundFlaw {
    /// The position of the tensor.
    position: usize,
    flaw: Flaw,
    /// The number of elements with the flaw.
    count: u64,
    /// The position of the first one.
    first: Option<u64>,
}

/// Describes the place of an element, given its position in the payload.
pub fn place(tensor: FileTensor<'_>, position: u64) -> String {
    let index = index_of(tensor.info(), position);
    match tensor.layout() {
        Layout::Coo { .. } => format!("stored element {position}"),
        _ => format!("{index:?}"),
    }
}

fn tensors<'f>(file: &'f File, positions: &[usize]) -> impl Iterator<Item = FileTensor<'f>> + Clone {
    positions.iter().map(|i| tensor_at(file, *i))
}

fn tensor_at(file: &File, i: usize) -> FileTensor<'_> {
    file.nth(i).expect("the positions are those of tensors")
}

impl StatsKey {
    /// Returns whether the elements have to be read to sort by this key.
    fn is_of_elements(self) -> bool {
        !matches!(self, Self::Name | Self::Dtype | Self::Shape)
    }

    /// Returns the number to sort by.
    fn rank(self, stats: Option<&Statistics>) -> Rank {
        let float = |of: fn(&Statistics) -> Option<f64>| Rank::Float(stats.and_then(of).unwrap_or(f64::NEG_INFINITY));
        let number = |of: fn(&Statistics) -> u64| Rank::Count(stats.map(of));
        match self {
            Self::Name | Self::Dtype | Self::Shape => Rank::Count(None),
            Self::Min => float(|stats| stats.min().map(to_f64)),
            Self::Max => float(|stats| stats.max().map(to_f64)),
            Self::Mean => float(Statistics::mean),
            Self::Std => float(Statistics::std),
            Self::Nan => number(Statistics::nans),
            Self::Inf => number(infinities),
            Self::Zeros => number(Statistics::zeros),
        }
    }
}

/// A number to sort by; none comes first.
#[derive(Debug, Clone, Copy)]
enum Rank {
    Float(f64),
    Count(Option<u64>),
}

impl Rank {
    fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Float(a), Self::Float(b)) => a.total_cmp(b),
            (Self::Count(a), Self::Count(b)) => a.cmp(b),
            _ => Ordering::Equal,
        }
    }
}

/// A tensor as `--sort` compares it.
struct StatsSortKeys<'a> {
    tensor: FileTensor<'a>,
    stats: Option<&'a Statistics>,
}

impl TensorStats<'_> {
    fn sort_keys(&self) -> StatsSortKeys<'_> {
        StatsSortKeys { tensor: self.tensor, stats: self.stats.as_ref() }
    }
}

impl StatsSortKeys<'_> {
    fn compare(&self, other: &Self, key: StatsKey) -> Ordering {
        let (a, b) = (self, other);
        match key {
            StatsKey::Name => a.tensor.name().cmp(b.tensor.name()),
            StatsKey::Dtype => a.tensor.dtype().name().cmp(b.tensor.dtype().name()),
            StatsKey::Shape => a.tensor.shape().dims().cmp(b.tensor.shape().dims()),
            _ => key.rank(a.stats).compare(&key.rank(b.stats)),
        }
    }
}

fn panel<'a>(tensor: &'a TensorStats<'_>) -> Option<Panel<'a>> {
    let (stats, histogram) = (tensor.stats.as_ref()?, tensor.histogram.as_ref()?);
    let [min, max] = [stats.min(), stats.max()].map(|limit| limit.map(to_f64));
    let numbers = [("min", min), ("max", max), ("mean", stats.mean()), ("std", stats.std())];
    // Few digits, as there is little room.
    let numbers = numbers.map(|(name, number)| {
        format!("{name} {}", number.map_or_else(|| NONE.to_owned(), |number| general(number, 4)))
    });
    let subtitle = format!("{}: {}", type_label(tensor.tensor.info()), numbers.join(", "));
    Some(Panel { title: escape(tensor.tensor.name()).into_owned(), subtitle, histogram })
}
