//! Statistics as text and JSON.

use std::io::{self, Write};

use serde::Serialize;
use tensorfile::{Histogram, Stats};

use super::summary::TensorStats;
use crate::output::numbers::{self, DIGITS, NONE, count, counted, digits_between, general};
use crate::output::tensors::{dtype_label, shape_label, type_label};
use crate::output::{Column, FAINT, HEADER, Stdout, Table, escape};

/// The JSON output.
#[derive(Serialize)]
pub struct Listing<'a> {
    pub format: &'static str,
    pub tensors: &'a [TensorStats<'a>],
    pub total: Total,
}

/// The sums over several tensors.
#[derive(Default, Serialize)]
pub struct Total {
    tensors: u64,
    count: u64,
    nans: u64,
    infinities: u64,
    zeros: u64,
}

impl Total {
    pub fn of(tensors: &[TensorStats<'_>]) -> Self {
        let mut total = Self { tensors: tensors.len() as u64, ..Self::default() };
        for stats in tensors.iter().filter_map(|tensor| tensor.stats.as_ref()) {
            total.count += stats.count();
            total.nans += stats.nans();
            total.infinities += infinities(stats);
            total.zeros += stats.zeros();
        }
        total
    }
}

/// Returns the number of positive and negative infinities.
pub fn infinities(stats: &Stats) -> u64 {
    stats.positive_infinities() + stats.negative_infinities()
}

/// Prints a table with a row for each tensor.
pub fn print_table(tensors: &[TensorStats<'_>], out: &mut Stdout) -> io::Result<()> {
    use Column::{Left, Right};
    if !tensors.is_empty() {
        let [name, dtype, shape] = ["name", "dtype", "shape"].map(|title| (title, Left));
        let [min, max, mean, std] = ["min", "max", "mean", "std"].map(|title| (title, Right));
        let [nan, inf, zeros] = ["NaN", "Inf", "zeros"].map(|title| (title, Right));
        let mut table = Table::new([name, dtype, shape, min, max, mean, std, nan, inf, zeros]);
        for stats in tensors {
            let info = stats.tensor.info();
            let cells = [stats.tensor.name().to_owned(), dtype_label(info).to_owned(), shape_label(info)];
            table.row(cells.into_iter().chain(columns(stats)));
        }
        table.print(out)?;
    }
    let total = Total::of(tensors);
    let line = [
        counted(total.tensors, "tensor"),
        counted(total.count, "element"),
        format!("{} NaN", count(total.nans)),
        format!("{} Inf", count(total.infinities)),
        counted(total.zeros, "zero"),
    ];
    writeln!(out, "{}", out.styled(HEADER, &line.join(", ")).into_owned())?;
    if tensors.iter().any(TensorStats::is_quantized) {
        writeln!(out, "{}", out.styled(FAINT, "quantized elements are counted as integers").into_owned())?;
    }
    Ok(())
}

/// Prints a line for each tensor, without alignment.
pub fn print_diffable(tensors: &[TensorStats<'_>], out: &mut Stdout) -> io::Result<()> {
    for stats in tensors {
        let (name, label) = (escape(stats.tensor.name()), type_label(stats.tensor.info()));
        writeln!(out, "{name} {label} {}", columns(stats).join(" "))?;
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
pub fn print_long(tensors: &[TensorStats<'_>], out: &mut Stdout) -> io::Result<()> {
    for (at, stats) in tensors.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        let title = format!("{}: {}", escape(stats.tensor.name()), type_label(stats.tensor.info()));
        writeln!(out, "{}", out.styled(HEADER, &title).into_owned())?;
        if let Some(remark) = stats.remark() {
            writeln!(out, "{}", out.styled(FAINT, remark).into_owned())?;
        }
        print_one(stats, out)?;
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
    table.row(["NaN", &with_percentage(stats.nans())]);
    table.row(["+Inf", &with_percentage(stats.positive_infinities())]);
    table.row(["-Inf", &with_percentage(stats.negative_infinities())]);
    table.print(out)?;
    if let Some(histogram) = &tensor.histogram {
        writeln!(out)?;
        bars(histogram, out.width().unwrap_or(80)).print(out)?;
    }
    Ok(())
}

/// Draws a histogram `width` characters wide: a row for each bin with its lower edge, its count and a bar, and a last row
/// with the upper edge.
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
