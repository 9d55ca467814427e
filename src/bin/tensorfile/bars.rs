//! A histogram drawn with letters.

use tensorfile::Histogram;

use crate::figure::{digits_between, general};
use crate::size::count;
use crate::table::{Column, Table};

/// Bars that are an eighth, two eighths, … of a character wide.
const EIGHTHS: [char; 8] = ['█', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// Where a bin begins, how many numbers lie in it, and a bar. The last line has the end of the last bin.
pub fn bars(histogram: &Histogram, width: usize) -> Table {
    let (edges, counts) = (histogram.edges(), histogram.counts());
    let digits = digits_between(edges[0], edges[counts.len()]);
    let edges: Vec<String> = edges.iter().map(|&edge| general(edge, digits)).collect();
    let numbers: Vec<String> = counts.iter().map(|&number| count(number).to_string()).collect();
    let widest = |texts: &[String]| texts.iter().map(String::len).max().unwrap_or(0);
    // Two blanks behind each column.
    let room = width.saturating_sub(widest(&edges) + widest(&numbers) + 4).max(10);
    let most = counts.iter().copied().max().unwrap_or(0);

    let mut table = Table::without_header([Column::Right, Column::Right, Column::Left]);
    for ((edge, number), &count) in edges.iter().zip(&numbers).zip(counts) {
        table.row([edge.as_str(), number, &bar(count, most, room)]);
    }
    if let Some(last) = edges.last() {
        table.row([last.as_str(), "", ""]);
    }
    table
}

/// A bar of `room` characters for the most; some of it for each count but 0.
fn bar(count: u64, most: u64, room: usize) -> String {
    let eighths = (u128::from(count) * 8 * room as u128).div_ceil(u128::from(most.max(1)));
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
    fn bars_are_as_long_as_counts_are_large() {
        assert_eq!(bar(8, 8, 4), "████");
        assert_eq!(bar(5, 8, 4), "██▌");
        assert_eq!(bar(1, u64::MAX, 4), "▏");
        assert_eq!(bar(0, 8, 4), "");
        assert_eq!(bar(0, 0, 4), "");
        assert_eq!(bar(u64::MAX, u64::MAX, 3), "███");
    }
}
