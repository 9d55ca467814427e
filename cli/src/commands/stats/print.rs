//! Statistics as text and JSON.

use std::borrow::Cow;
use std::cell::RefCell;
use std::io::{self, Write};
use std::path::Path;

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use serde::ser::{SerializeSeq, SerializeStruct, Serializer};
use tensorfile::File;
use tensorfile::file::FileTensor;
use tensorfile::stats::{Histogram, Stats};

use super::place;
use super::summary::{TensorStats, is_quantized};
use crate::exit::{Failure, Outcome};
use crate::output::numbers::{self, DIGITS, NONE, count, counted, digits_between, general};
use crate::output::tensors::{
    CODES, CODES_NOTE, are_codes, dtype_label, dtype_style, scheme_label, shape_label, type_label, verdict,
};
use crate::output::warnings::WarningRow;
use crate::output::{Column, Columns, FAINT, HEADER, JsonList, Stdout, Table, escape};

/// The JSON output, written as the tensors are read.
pub struct StatsListing<I> {
    file: String,
    format: &'static str,
    warnings: Vec<WarningRow>,
    tensors: RefCell<Reading<I>>,
}

/// Tensors being read.
struct Reading<I> {
    tensors: I,
    total: StatsTotal,
    failure: Option<Failure>,
}

impl<'f, I: Iterator<Item = Outcome<TensorStats<'f>>>> StatsListing<I> {
    pub fn new(path: &Path, file: &File, tensors: I) -> Self {
        Self {
            file: path.display().to_string(),
            format: file.format().name,
            warnings: WarningRow::of_file(file),
            tensors: RefCell::new(Reading { tensors, total: StatsTotal::default(), failure: None }),
        }
    }

    /// Writes the output. If a tensor cannot be read, it ends there with the error.
    pub fn print(self, list: &mut JsonList<'_>) -> Outcome<()> {
        list.push(&self)?;
        self.tensors.into_inner().failure.map_or(Ok(()), |failure| Err(failure.listed()))
    }
}

impl<'f, I: Iterator<Item = Outcome<TensorStats<'f>>>> Serialize for StatsListing<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut listing = serializer.serialize_struct("StatsListing", 6)?;
        listing.serialize_field("file", &self.file)?;
        listing.serialize_field("format", self.format)?;
        listing.serialize_field("warnings", &self.warnings)?;
        listing.serialize_field("tensors", &StatsRows(&self.tensors))?;
        listing.serialize_field("total", &self.tensors.borrow().total)?;
        if let Some(failure) = &self.tensors.borrow().failure {
            listing.serialize_field("error", &failure.to_string())?;
        }
        listing.end()
    }
}

struct StatsRows<'a, I>(&'a RefCell<Reading<I>>);

impl<'f, I: Iterator<Item = Outcome<TensorStats<'f>>>> Serialize for StatsRows<'_, I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        let mut reading = self.0.borrow_mut();
        while let Some(stats) = reading.tensors.next() {
            match stats {
                Ok(stats) => {
                    reading.total.add(&stats);
                    list.serialize_element(&stats)?;
                }
                Err(failure) => {
                    reading.failure = Some(failure);
                    break;
                }
            }
        }
        list.end()
    }
}

/// The sums over several tensors.
#[derive(Default, Serialize)]
pub struct StatsTotal {
    tensors: u64,
    count: u64,
    nans: u64,
    infinities: u64,
    zeros: u64,
}

impl StatsTotal {
    pub fn add(&mut self, tensor: &TensorStats<'_>) {
        self.tensors += 1;
        if let Some(stats) = &tensor.stats {
            self.count += stats.count();
            self.nans += stats.nans();
            self.infinities += infinities(stats);
            self.zeros += stats.zeros();
        }
    }
}

impl StatsTotal {
    /// Prints the sums.
    pub fn print(self, out: &mut Stdout) -> io::Result<()> {
        let Self { tensors, count: elements, nans, infinities, zeros } = self;
        let line = [
            counted(tensors, "tensor"),
            counted(elements, "element"),
            format!("{} NaN", count(nans)),
            format!("{} Inf", count(infinities)),
            counted(zeros, "zero"),
        ];
        writeln!(out, "{}", out.styled(HEADER, &line.join(", ")).into_owned())
    }
}

/// Returns the number of positive and negative infinities.
pub fn infinities(stats: &Stats) -> u64 {
    stats.positive_infinities() + stats.negative_infinities()
}

/// The rows held until the columns of numbers are measured. Later rows may be wider.
const HELD: usize = 1000;

/// The columns of possible floats, and the length of the longest float.
const FLOATS: std::ops::Range<usize> = 3..7;
const LONGEST_FLOAT: usize = DIGITS + "-.e-308".len();

/// Returns the columns of the table, for the cells of [`cells`].
fn table() -> Columns {
    use Column::{Left, Right};
    let [name, dtype, shape] = ["name", "dtype", "shape"].map(|title| (title, Left));
    let [min, max, mean, std] = ["min", "max", "mean", "std"].map(|title| (title, Right));
    let [nan, inf, zeros] = ["NaN", "Inf", "zeros"].map(|title| (title, Right));
    Columns::new([name, dtype, shape, min, max, mean, std, nan, inf, zeros])
        // The names of layers are long, and alike but for their middle.
        .spare(&[9, 2, 8, 7, 1, 6, 5, 3])
        .style(1, dtype_style)
        .style(7, flaw_style)
        .style(8, flaw_style)
}

/// Returns the row of a tensor under a name.
pub fn cells<'a>(name: &'a str, tensor: &TensorStats<'a>) -> [Cow<'a, str>; 10] {
    let info = tensor.tensor.info();
    let [min, max, mean, std, nan, inf, zeros] = columns(tensor).map(Cow::Owned);
    [name.into(), marked_dtype(tensor.tensor), shape_label(info).into(), min, max, mean, std, nan, inf, zeros]
}

/// Returns the dtype, with a mark if the elements are codes.
fn marked_dtype(tensor: FileTensor<'_>) -> Cow<'_, str> {
    match dtype_label(tensor.info()) {
        dtype if are_codes(verdict(tensor)) => format!("{dtype}{CODES}").into(),
        dtype => dtype.into(),
    }
}

/// Prints a table of rows made before.
pub fn print_rows<'r>(
    rows: impl Iterator<Item = &'r [String; 10]> + Clone,
    width: Option<usize>,
    out: &mut Stdout,
) -> io::Result<()> {
    let mut table = table();
    rows.clone().for_each(|row| table.measure(row));
    table.fit(width);
    table.print_header(out)?;
    rows.into_iter().try_for_each(|row| table.print(row, out))?;
    table.print_omissions(out)
}

/// Prints a table with a row for each tensor, as their statistics arrive.
pub fn print_table<'f>(
    tensors: impl Iterator<Item = FileTensor<'f>> + Clone,
    stats: impl Iterator<Item = Outcome<TensorStats<'f>>>,
    width: Option<usize>,
    out: &mut Stdout,
) -> Outcome<()> {
    let mut table = table();
    let labels = |tensor: FileTensor<'f>| -> [Cow<'f, str>; 3] {
        [tensor.name().into(), marked_dtype(tensor), shape_label(tensor.info()).into()]
    };
    tensors.clone().for_each(|tensor| table.measure(labels(tensor)));

    let mut total = StatsTotal::default();
    let mut rows = stats.map(|stats| -> Outcome<Vec<Cow<'f, str>>> {
        let stats = stats?;
        total.add(&stats);
        Ok(labels(stats.tensor).into_iter().chain(columns(&stats).map(Cow::Owned)).collect())
    });
    let held = rows.by_ref().take(HELD).collect::<Outcome<Vec<_>>>()?;
    held.iter().for_each(|row| table.measure(row));
    if held.len() == HELD {
        FLOATS.for_each(|column| table.widen(column, LONGEST_FLOAT));
    }
    table.fit(width);
    if !held.is_empty() {
        table.print_header(out)?;
    }
    for row in held.into_iter().map(Ok).chain(rows) {
        table.print(row?, out)?;
    }
    table.print_omissions(out)?;
    total.print(out)?;
    if tensors.clone().any(|tensor| are_codes(verdict(tensor))) {
        writeln!(out, "{}", out.styled(FAINT, CODES_NOTE).into_owned())?;
    }
    if tensors.into_iter().any(is_quantized) {
        writeln!(out, "{}", out.styled(FAINT, "quantized elements are counted as integers").into_owned())?;
    }
    Ok(())
}

/// Returns the style of a number of NaN or infinite elements.
fn flaw_style(count: &str) -> Style {
    match count {
        "0" | NONE => Style::new(),
        _ => AnsiColor::Red.on_default().bold(),
    }
}

/// Prints a line for each tensor, without alignment.
pub fn print_diffable<'f>(tensors: impl Iterator<Item = Outcome<TensorStats<'f>>>, out: &mut Stdout) -> Outcome<()> {
    for stats in tensors {
        let stats = stats?;
        let (name, label) = (escape(stats.tensor.name()), type_label(stats.tensor.info()));
        writeln!(out, "{name} {label} {}", columns(&stats).join(" "))?;
    }
    Ok(())
}

/// Returns minimum, maximum, mean, standard deviation, and the numbers of NaN, infinities and zeros.
fn columns(tensor: &TensorStats<'_>) -> [String; 7] {
    let Some(stats) = &tensor.stats else { return [NONE; 7].map(str::to_owned) };
    [
        numbers::number(stats.min()),
        numbers::number(stats.max()),
        numbers::float(stats.mean()),
        numbers::float(stats.std()),
        stats.nans().to_string(),
        infinities(stats).to_string(),
        stats.zeros().to_string(),
    ]
}

/// Prints all statistics of each tensor, with its histogram.
pub fn print_long<'f>(tensors: impl Iterator<Item = Outcome<TensorStats<'f>>>, out: &mut Stdout) -> Outcome<()> {
    for (index, stats) in tensors.enumerate() {
        let stats = stats?;
        if index > 0 {
            writeln!(out)?;
        }
        let title = format!("{}: {}", escape(stats.tensor.name()), type_label(stats.tensor.info()));
        writeln!(out, "{}", out.styled(HEADER, &title).into_owned())?;
        let scheme = scheme_label(verdict(stats.tensor));
        if !scheme.is_empty() {
            let note = format!("{scheme} of a quantized weight, as stored: these are not the weights");
            writeln!(out, "{}", out.styled(FAINT, &note).into_owned())?;
        }
        if let Some(remark) = stats.remark() {
            writeln!(out, "{}", out.styled(FAINT, remark).into_owned())?;
        }
        print_one(&stats, out)?;
    }
    Ok(())
}

fn print_one(tensor: &TensorStats<'_>, out: &mut Stdout) -> io::Result<()> {
    let Some(stats) = &tensor.stats else { return Ok(()) };
    let [min, max, mean, std, ..] = columns(tensor);
    let with_percentage = |number: u64| match number {
        0 => "0".to_owned(),
        _ => format!("{} ({} %)", count(number), general(number as f64 / stats.count() as f64 * 100.0, 3)),
    };
    let with_place = |number: u64, first: Option<u64>| {
        let place = first.map(|first| format!(", first at {}", place(tensor.tensor, first)));
        with_percentage(number) + &place.unwrap_or_default()
    };
    // The first infinity has one of the signs.
    let infinite = |number: u64, is_first: bool| with_place(number, stats.first_infinity().filter(|_| is_first));
    let [positive, negative] = [stats.positive_infinities(), stats.negative_infinities()];
    let mut table = Table::without_header([Column::Left, Column::Left]);
    table.row(["count", &count(stats.count()).to_string()]);
    table.row(["min", &min]);
    for (part, quantile) in Stats::PARTS.iter().zip(tensor.quantiles.iter().flatten()) {
        let name = if *part == 0.5 { "median".to_owned() } else { format!("{} %", general(part * 100.0, 3)) };
        table.row([name, general(*quantile, DIGITS)]);
    }
    table.row(["max", &max]);
    table.row(["mean", &mean]);
    table.row(["std", &std]);
    table.row(["zeros", &with_percentage(stats.zeros())]);
    table.row(["NaN", &with_place(stats.nans(), stats.first_nan())]);
    table.row(["+Inf", &infinite(positive, positive > 0 && negative == 0)]);
    table.row(["-Inf", &infinite(negative, negative > 0 && positive == 0)]);
    table.print(None, out)?;
    if let Some(histogram) = &tensor.histogram {
        writeln!(out)?;
        bars(histogram, out.width().unwrap_or(80)).print(None, out)?;
    }
    Ok(())
}

/// Draws a histogram `width` characters wide: a row for each bin with its lower edge, its count and a bar, and a last
/// row with the upper edge.
fn bars(histogram: &Histogram, width: usize) -> Table {
    let (edges, counts) = (histogram.edges(), histogram.counts());
    let digits = digits_between(edges[0], edges[counts.len()]);
    let edges: Vec<String> = edges.iter().map(|&edge| general(edge, digits)).collect();
    let numbers: Vec<String> = counts.iter().map(|&number| count(number).to_string()).collect();
    let widest = |texts: &[String]| texts.iter().map(String::len).max().unwrap_or(0);
    // The columns are separated by two spaces.
    let room = width.saturating_sub(widest(&edges) + widest(&numbers) + 4).max(10);
    let largest = counts.iter().copied().max().unwrap_or(0);

    let mut table = Table::without_header([Column::Right, Column::Right, Column::Left]);
    for ((edge, number), &count) in edges.iter().zip(&numbers).zip(counts) {
        table.row([edge.as_str(), number, &bar(count, largest, room)]);
    }
    if let Some(last) = edges.last() {
        table.row([last.as_str(), "", ""]);
    }
    table
}

/// Draws a bar whose length is `room` characters for the largest count, and at least an eighth of one for all but 0.
fn bar(count: u64, largest: u64, room: usize) -> String {
    const EIGHTHS: [char; 8] = ['█', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let eighths = (u128::from(count) * 8 * room as u128).div_ceil(u128::from(largest.max(1)));
    let eighths = usize::try_from(eighths).unwrap_or(usize::MAX);
    let mut bar = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        bar.push(EIGHTHS[eighths % 8]);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_proportional_to_counts() {
        assert_eq!(bar(8, 8, 4), "████");
        assert_eq!(bar(5, 8, 4), "██▌");
        assert_eq!(bar(1, u64::MAX, 4), "▏");
        assert_eq!(bar(0, 8, 4), "");
        assert_eq!(bar(0, 0, 4), "");
        assert_eq!(bar(u64::MAX, u64::MAX, 3), "███");
    }
}
