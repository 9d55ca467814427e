use std::cmp::Ordering;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use clap::builder::RangedU64ValueParser;
use serde::Serialize;
use tensorfile::{File, FileTensor, Stats as Figures};

use crate::bars::bars;
use crate::failure::{At, Failure, Outcome, Verdict};
use crate::figure::{self, DIGITS, NONE, approximate, general};
use crate::filter::Filter;
use crate::input::Input;
use crate::listed;
use crate::out::{FAINT, HEADER, Out, plain};
use crate::plot::{self, MOST_PANELS, Panel, plot};
use crate::progress::Progress;
use crate::size::{count, counted};
use crate::survey::Survey;
use crate::table::{Column, Table};

/// Tell what the numbers of tensors are like: range, mean, spread, NaN, infinities and zeros.
///
/// NaN and the infinities are counted; all else is of the finite elements. Of one tensor, or with --long, there are also
/// quantiles and a histogram, for which the tensor is read twice. Integers of any size have exact limits. Quantiles are
/// exact up to a million elements, and beyond that for floats of up to 16 bits and integers of up to 8; else they are
/// known to within 0.2 % of themselves, or of their distances from the median where most numbers are near it.
///
/// Quantised elements count as the integers that are stored; of sparse tensors, the stored elements count. What has no
/// numbers, as packed dtypes and blobs, has none of the figures.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Stats {
    #[command(flatten)]
    input: Input,
    /// The names of tensors, or their positions in the file as `#3`; without one, all tensors
    #[arg(value_name = "NAME", conflicts_with = "globs")]
    names: Vec<String>,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    view: View,
    /// Sort by this; without it, tensors stand in the order of the file, or of the names given
    #[arg(long, value_name = "KEY", conflicts_with = "diffable")]
    sort: Option<Key>,
    /// Turn the order around
    #[arg(long, short, conflicts_with = "diffable")]
    reverse: bool,
    /// The bins of histograms, from the smallest number to the largest: 20, or in a picture 50
    #[arg(long, value_name = "COUNT", value_parser = RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    bins: Option<usize>,
    /// Draw histograms into a picture, .png or .svg: those of the first 24 tensors that have numbers
    #[arg(long, value_name = "PATH")]
    plot: Option<PathBuf>,
    /// End with exit code 1 where a tensor has one of these, and name the tensor on standard error
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    fail_on: Vec<Flaw>,
}

#[derive(Debug, clap::Args)]
struct View {
    /// Show all there is about each tensor, also with several
    #[arg(long, short)]
    long: bool,
    /// Print JSON, with quantiles and unrounded figures; with --long or one tensor, with histograms
    #[arg(long, conflicts_with = "diffable")]
    json: bool,
    /// Print lines to be compared: by name, each independent of the others
    #[arg(long, conflicts_with = "long")]
    diffable: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Key {
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
    /// An element that is infinity or negative infinity
    Inf,
    /// Elements that are all zero
    Zero,
}

const EXAMPLES: &str = "\
Examples:
  tensorfile stats model.ptd
  tensorfile stats model.ptd encoder.0.weight
  tensorfile stats --filter '*.weight' --sort std --reverse model.ptd
  tensorfile stats --fail-on nan,inf model.ptd > /dev/null && echo fine
  tensorfile stats --plot weights.png --filter '*.weight' model.ptd
  tensorfile stats --json model.ptd | jq '.tensors[] | select(.stats.mean > 1) | .name'";

impl Stats {
    pub fn run(&self, out: &mut Out) -> Outcome {
        // Before long work.
        if let Some(path) = &self.plot {
            plot::Kind::of(path)?;
        }
        let file = self.input.open()?;
        let tensors = self.tensors(&file)?;
        let is_long = (self.view.long || self.names.len() == 1) && !self.view.diffable;
        let mut surveys = self.survey(&tensors, is_long || self.view.json)?;
        self.sort(&mut surveys);
        self.count_bins(&mut surveys, is_long)?;

        if let Some(path) = &self.plot {
            self.draw(path, &surveys)?;
        }
        if self.view.json {
            out.json(&Listing { format: file.format().name, tensors: &surveys, total: Sum::of(&surveys) })?;
        } else if self.view.diffable {
            print_diffable(&surveys, out)?;
        } else if is_long {
            print_sheets(&surveys, out)?;
        } else {
            print_table(&surveys, out)?;
        }
        out.flush()?;
        Ok(self.judge(&surveys))
    }

    fn tensors<'f>(&self, file: &'f File) -> Outcome<Vec<FileTensor<'f>>> {
        if self.names.is_empty() {
            let matcher = self.filter.build()?;
            let tensors: Vec<_> = file.tensors().filter(|tensor| matcher.keeps(tensor.name())).collect();
            matcher.expect_some(tensors.len())?;
            return Ok(tensors);
        }
        self.names.iter().map(|name| file.get(name).at(self.input.path())).collect()
    }

    fn survey<'f>(&self, tensors: &[FileTensor<'f>], with_quantiles: bool) -> Outcome<Vec<Survey<'f>>> {
        let mut progress = Progress::bytes(tensors.iter().map(FileTensor::payload_bytes).sum());
        let survey = |tensor: &FileTensor<'f>| Survey::of(*tensor, with_quantiles, &mut progress, self.input.path());
        tensors.iter().map(survey).collect()
    }

    /// Reads those tensors again whose histograms are shown.
    fn count_bins(&self, surveys: &mut [Survey<'_>], is_long: bool) -> Outcome<()> {
        let bins = self.bins.unwrap_or(if self.plot.is_some() { 50 } else { 20 });
        let most = match (is_long, &self.plot) {
            (true, _) => usize::MAX,
            (false, Some(_)) => MOST_PANELS,
            (false, None) => 0,
        };
        let mut chosen: Vec<&mut Survey<'_>> =
            surveys.iter_mut().filter(|survey| survey.has_numbers()).take(most).collect();
        let mut progress = Progress::bytes(chosen.iter().map(|survey| survey.tensor.payload_bytes()).sum());
        chosen.iter_mut().try_for_each(|survey| survey.count_bins(bins, &mut progress, self.input.path()))
    }

    fn sort(&self, surveys: &mut [Survey<'_>]) {
        let float = |survey: &Survey<'_>, figure: fn(&Figures) -> Option<f64>| {
            survey.stats.as_ref().and_then(figure).unwrap_or(f64::NEG_INFINITY)
        };
        let number = |survey: &Survey<'_>, figure: fn(&Figures) -> u64| survey.stats.as_ref().map(figure);
        let key = if self.view.diffable { Some(Key::Name) } else { self.sort };
        // Stable, so that what is the same in this keeps its order.
        surveys.sort_by(|a, b| {
            let by_float = |figure| float(a, figure).total_cmp(&float(b, figure));
            let by_number = |figure| number(a, figure).cmp(&number(b, figure));
            match key {
                None => Ordering::Equal,
                Some(Key::Name) => a.tensor.name().cmp(b.tensor.name()),
                Some(Key::Dtype) => a.tensor.dtype().name().cmp(b.tensor.dtype().name()),
                Some(Key::Shape) => a.tensor.shape().dims().cmp(b.tensor.shape().dims()),
                Some(Key::Min) => by_float(|stats| stats.min().map(approximate)),
                Some(Key::Max) => by_float(|stats| stats.max().map(approximate)),
                Some(Key::Mean) => by_float(Figures::mean),
                Some(Key::Std) => by_float(Figures::std),
                Some(Key::Nan) => by_number(Figures::nans),
                Some(Key::Inf) => by_number(infinities),
                Some(Key::Zeros) => by_number(Figures::zeros),
            }
        });
        if self.reverse {
            surveys.reverse();
        }
    }

    fn draw(&self, path: &Path, surveys: &[Survey<'_>]) -> Outcome<()> {
        let panels: Vec<Panel<'_>> = surveys.iter().filter_map(panel).take(MOST_PANELS).collect();
        if panels.is_empty() {
            return Err(Failure::usage("--plot: no tensor has numbers to draw"));
        }
        let name = self.input.path().file_name().unwrap_or_default().to_string_lossy();
        let caption = match surveys.len() {
            1 => name.into_owned(),
            all if all == panels.len() => format!("{name}: {}", counted(all as u64, "tensor")),
            all => format!("{name}: {} of {}", panels.len(), counted(all as u64, "tensor")),
        };
        plot(path, &plain(&caption), &panels)
    }

    /// Names the tensors that have what they should not.
    fn judge(&self, surveys: &[Survey<'_>]) -> Verdict {
        let mut verdict = Verdict::Fine;
        for survey in surveys {
            let Some(stats) = &survey.stats else { continue };
            for flaw in &self.fail_on {
                let found = match flaw {
                    Flaw::Nan if stats.nans() > 0 => format!("has {} NaN", count(stats.nans())),
                    Flaw::Inf if infinities(stats) > 0 => format!("has {} Inf", count(infinities(stats))),
                    Flaw::Zero if stats.count() > 0 && stats.zeros() == stats.count() => "is all zeros".to_owned(),
                    _ => continue,
                };
                verdict = Verdict::Finding;
                let (path, name) = (self.input.path().display(), plain(survey.tensor.name()));
                // Nobody is left to be told that standard error is closed.
                let _ = writeln!(anstream::stderr().lock(), "tensorfile: {path}: `{name}` {found}");
            }
        }
        verdict
    }
}

fn panel<'a>(survey: &'a Survey<'_>) -> Option<Panel<'a>> {
    let (stats, histogram) = (survey.stats.as_ref()?, survey.histogram.as_ref()?);
    let [min, max] = [stats.min(), stats.max()].map(|limit| limit.map(approximate));
    let figures = [("min", min), ("max", max), ("mean", stats.mean()), ("std", stats.std())];
    let figures = figures.map(|(name, figure)| {
        // In few digits: there is little room.
        format!("{name} {}", figure.map_or_else(|| NONE.to_owned(), |figure| general(figure, 4)))
    });
    let note = format!("{}: {}", listed::kind(survey.tensor.info()), figures.join(", "));
    Some(Panel { title: plain(survey.tensor.name()).into_owned(), note, histogram })
}

/// Minimum, maximum, mean, deviation, NaN, infinities and zeros.
fn figures(survey: &Survey<'_>) -> [String; 7] {
    let Some(stats) = &survey.stats else { return [NONE; 7].map(str::to_owned) };
    [
        figure::number(stats.min()),
        figure::number(stats.max()),
        figure::float(stats.mean()),
        figure::float(stats.std()),
        stats.nans().to_string(),
        infinities(stats).to_string(),
        stats.zeros().to_string(),
    ]
}

fn print_table(surveys: &[Survey<'_>], out: &mut Out) -> io::Result<()> {
    use Column::{Left, Right};
    if !surveys.is_empty() {
        let [name, dtype, shape] = ["name", "dtype", "shape"].map(|title| (title, Left));
        let [min, max, mean, std] = ["min", "max", "mean", "std"].map(|title| (title, Right));
        let [nan, inf, zeros] = ["NaN", "Inf", "zeros"].map(|title| (title, Right));
        let mut table = Table::new([name, dtype, shape, min, max, mean, std, nan, inf, zeros]);
        for survey in surveys {
            let info = survey.tensor.info();
            let cells = [survey.tensor.name().to_owned(), listed::dtype(info).to_owned(), listed::shape(info)];
            table.row(cells.into_iter().chain(figures(survey)));
        }
        table.print(out)?;
    }
    let sum = Sum::of(surveys);
    let line = [
        counted(sum.tensors, "tensor"),
        counted(sum.count, "element"),
        format!("{} NaN", count(sum.nans)),
        format!("{} Inf", count(sum.infinities)),
        counted(sum.zeros, "zero"),
    ];
    writeln!(out, "{}", out.styled(HEADER, &line.join(", ")).into_owned())?;
    if surveys.iter().any(Survey::is_quantised) {
        writeln!(out, "{}", out.styled(FAINT, "of quantised tensors, the stored integers").into_owned())?;
    }
    Ok(())
}

fn print_diffable(surveys: &[Survey<'_>], out: &mut Out) -> io::Result<()> {
    for survey in surveys {
        let kind = listed::kind(survey.tensor.info());
        writeln!(out, "{} {kind} {}", plain(survey.tensor.name()), figures(survey).join(" "))?;
    }
    Ok(())
}

fn print_sheets(surveys: &[Survey<'_>], out: &mut Out) -> io::Result<()> {
    for (at, survey) in surveys.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        let title = format!("{}: {}", plain(survey.tensor.name()), listed::kind(survey.tensor.info()));
        writeln!(out, "{}", out.styled(HEADER, &title).into_owned())?;
        if let Some(note) = survey.note() {
            writeln!(out, "{}", out.styled(FAINT, note).into_owned())?;
        }
        print_sheet(survey, out)?;
    }
    Ok(())
}

fn print_sheet(survey: &Survey<'_>, out: &mut Out) -> io::Result<()> {
    let Some(stats) = &survey.stats else { return Ok(()) };
    let [min, max, mean, std, ..] = figures(survey);
    let part = |number: u64| match number {
        0 => "0".to_owned(),
        _ => format!("{} ({} %)", count(number), general(number as f64 / stats.count() as f64 * 100.0, 3)),
    };
    let mut table = Table::without_header([Column::Left, Column::Left]);
    table.row(["count", &count(stats.count()).to_string()]);
    table.row(["min", &min]);
    for (part, quantile) in Figures::PARTS.iter().zip(survey.quantiles.iter().flatten()) {
        let name = if *part == 0.5 { "median".to_owned() } else { format!("{} %", general(part * 100.0, 3)) };
        table.row([name, general(*quantile, DIGITS)]);
    }
    table.row(["max", &max]);
    table.row(["mean", &mean]);
    table.row(["std", &std]);
    table.row(["zeros", &part(stats.zeros())]);
    table.row(["NaN", &part(stats.nans())]);
    table.row(["+Inf", &part(stats.positive_infinities())]);
    table.row(["-Inf", &part(stats.negative_infinities())]);
    table.print(out)?;
    if let Some(histogram) = &survey.histogram {
        writeln!(out)?;
        bars(histogram, out.width().unwrap_or(80)).print(out)?;
    }
    Ok(())
}

#[derive(Serialize)]
struct Listing<'a> {
    format: &'static str,
    tensors: &'a [Survey<'a>],
    total: Sum,
}

/// What tensors add up to.
#[derive(Default, Serialize)]
struct Sum {
    tensors: u64,
    count: u64,
    nans: u64,
    infinities: u64,
    zeros: u64,
}

impl Sum {
    fn of(surveys: &[Survey<'_>]) -> Self {
        let mut sum = Self { tensors: surveys.len() as u64, ..Self::default() };
        for stats in surveys.iter().filter_map(|survey| survey.stats.as_ref()) {
            sum.count += stats.count();
            sum.nans += stats.nans();
            sum.infinities += infinities(stats);
            sum.zeros += stats.zeros();
        }
        sum
    }
}

fn infinities(stats: &Figures) -> u64 {
    stats.positive_infinities() + stats.negative_infinities()
}
