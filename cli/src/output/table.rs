use std::borrow::Cow;
use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

use super::{HEADER, Stdout, escape};

/// The longest text of a cell in characters; longer ones are cut.
const MAX_CELL: usize = 1000;

/// The widest column in characters. A wider cell moves the rest of its row, so that one hostile name does not widen every row.
const MAX_WIDTH: usize = 200;

/// The alignment of a column: left for text, right for numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    Left,
    Right,
}

/// Rows of text in aligned columns, without lines between them. Cells are not wrapped, so names can be copied.
///
/// The rows are held until they are printed. For rows of which there may be millions, there are [`Columns`].
#[derive(Debug)]
pub struct Table {
    columns: Columns,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Returns a table whose first row has the titles of the columns.
    pub fn new<const N: usize>(columns: [(&'static str, Column); N]) -> Self {
        Self { columns: Columns::new(columns), rows: Vec::new() }
    }

    /// Returns a table without titles.
    pub fn without_header(columns: impl Into<Vec<Column>>) -> Self {
        Self { columns: Columns::without_header(columns), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let cells: Vec<String> = cells.into_iter().map(|cell| cell_text(cell.as_ref()).into_owned()).collect();
        self.columns.measure(&cells);
        self.rows.push(cells);
    }

    /// Writes the rows.
    pub fn print(mut self, out: &mut Stdout) -> io::Result<()> {
        self.columns.print_header(out)?;
        self.rows.iter().try_for_each(|row| self.columns.print(row, out))
    }
}

/// The columns of a table whose rows are made twice: once to measure them, once to print them.
#[derive(Debug)]
pub struct Columns {
    alignments: Vec<Column>,
    widths: Vec<usize>,
    titles: Vec<&'static str>,
    line: String,
}

impl Columns {
    /// Returns columns with titles.
    pub fn new<const N: usize>(columns: [(&'static str, Column); N]) -> Self {
        let (titles, columns): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        let mut this = Self::without_header(columns);
        this.measure(&titles);
        Self { titles, ..this }
    }

    /// Returns columns without titles.
    pub fn without_header(columns: impl Into<Vec<Column>>) -> Self {
        let alignments = columns.into();
        Self { widths: vec![0; alignments.len()], alignments, titles: Vec::new(), line: String::new() }
    }

    /// Widens the first columns for a row, or for the beginning of one.
    pub fn measure<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        for (width, cell) in self.widths.iter_mut().zip(cells) {
            *width = width_of(&cell_text(cell.as_ref())).min(MAX_WIDTH).max(*width);
        }
    }

    /// Widens a column to at least `width` characters.
    pub fn widen(&mut self, column: usize, width: usize) {
        self.widths[column] = self.widths[column].max(width);
    }

    /// Writes the titles, if there are any.
    pub fn print_header(&mut self, out: &mut Stdout) -> io::Result<()> {
        if self.titles.is_empty() {
            return Ok(());
        }
        let titles = std::mem::take(&mut self.titles);
        self.set_line(&titles);
        writeln!(out, "{}", out.styled(HEADER, &self.line).into_owned())
    }

    /// Writes a row.
    pub fn print<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>, out: &mut Stdout) -> io::Result<()> {
        self.set_line(cells);
        writeln!(out, "{}", self.line)
    }

    fn set_line<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.line.clear();
        for (at, (cell, (alignment, width))) in
            cells.into_iter().zip(self.alignments.iter().zip(&self.widths)).enumerate()
        {
            let cell = cell_text(cell.as_ref());
            let padding = width.saturating_sub(width_of(&cell));
            let (before, after) = match alignment {
                Column::Left => (0, padding),
                Column::Right => (padding, 0),
            };
            let gap = if at == 0 { 0 } else { 2 };
            self.line.extend(std::iter::repeat_n(' ', gap + before));
            self.line.push_str(&cell);
            self.line.extend(std::iter::repeat_n(' ', after));
        }
        self.line.truncate(self.line.trim_end().len());
    }
}

/// Returns the text of a cell without control characters, cut if it is long.
fn cell_text(text: &str) -> Cow<'_, str> {
    // Most cells are of this kind.
    if text.len() <= MAX_CELL && text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return text.into();
    }
    // A name may be long, and no more of it is shown.
    let end = text.char_indices().nth(MAX_CELL + 1).map_or(text.len(), |(end, _)| end);
    match escape(&text[..end]) {
        Cow::Borrowed(text) => cut(text).map_or(Cow::Borrowed(text), Cow::Owned),
        Cow::Owned(text) => Cow::Owned(cut(&text).unwrap_or(text)),
    }
}

fn cut(text: &str) -> Option<String> {
    let (end, _) = text.char_indices().nth(MAX_CELL)?;
    Some(format!("{}…", &text[..end]))
}

fn width_of(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.width() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(mut table: Table) -> Vec<String> {
        let mut lines = Vec::new();
        for row in [table.columns.titles.iter().map(|title| (*title).to_owned()).collect()].iter().chain(&table.rows) {
            table.columns.set_line(row);
            lines.push(table.columns.line.clone());
        }
        lines
    }

    #[test]
    fn a_row_is_a_line() {
        let long = "x".repeat(100_000);
        let mut table = Table::new([("name", Column::Left), ("bytes", Column::Right)]);
        table.row([long.as_str(), "1"]);
        table.row(["a\nb", "12"]);
        let lines = lines(table);
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[1], format!("{}…      1", &long[..MAX_CELL]));
        assert_eq!(lines[2], format!("a\\nb{}     12", " ".repeat(MAX_WIDTH - 4)));
    }

    #[test]
    fn lines_have_no_trailing_spaces() {
        let mut table = Table::without_header([Column::Left, Column::Left]);
        table.row(["a", "b"]);
        table.row(["cc", ""]);
        table.row(["日本", "dd"]);
        assert_eq!(lines(table)[1..], ["a     b", "cc", "日本  dd"]);
    }
}
