use std::borrow::Cow;
use std::io::{self, Write};

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table as Grid, presets};

use super::{HEADER, Stdout, escape};

/// The longest text of a cell in characters; longer ones are cut, so that one hostile name does not widen every row.
const MAX_CELL: usize = 1000;

/// Rows of text in aligned columns, without lines between them. Cells are not wrapped, so names can be copied.
#[derive(Debug)]
pub struct Table {
    grid: Grid,
    columns: Vec<Column>,
    has_header: bool,
}

/// The alignment of a column: left for text, right for numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    Left,
    Right,
}

impl Table {
    /// Returns a table whose first row has the titles of the columns.
    pub fn new<const N: usize>(columns: [(&str, Column); N]) -> Self {
        let (titles, columns): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        let mut table = Self::without_header(columns);
        table.row(titles);
        table.has_header = true;
        table
    }

    /// Returns a table without titles.
    pub fn without_header(columns: impl Into<Vec<Column>>) -> Self {
        let mut grid = Grid::new();
        grid.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        Self { grid, columns: columns.into(), has_header: false }
    }

    /// Adds a row.
    pub fn row<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let cells = self.columns.iter().zip(cells).map(|(column, cell)| {
            let alignment = match column {
                Column::Left => CellAlignment::Left,
                Column::Right => CellAlignment::Right,
            };
            Cell::new(cut(&escape(cell.as_ref()))).set_alignment(alignment)
        });
        self.grid.add_row(cells.collect::<Vec<_>>());
    }

    /// Writes the rows.
    pub fn print(self, out: &mut Stdout) -> io::Result<()> {
        let has_header = self.has_header;
        for (at, line) in self.lines().enumerate() {
            match at == 0 && has_header {
                true => writeln!(out, "{}", out.styled(HEADER, &line).into_owned())?,
                false => writeln!(out, "{line}")?,
            }
        }
        Ok(())
    }

    fn lines(mut self) -> impl Iterator<Item = String> {
        for at in 0..self.columns.len() {
            let last = at + 1 == self.columns.len();
            if let Some(column) = self.grid.column_mut(at) {
                column.set_padding((0, if last { 0 } else { 2 }));
            }
        }
        let lines: Vec<String> = self.grid.lines().map(|line| line.trim_end().to_owned()).collect();
        // A grid without rows returns an empty line.
        lines.into_iter().take(if self.grid.row_count() == 0 { 0 } else { usize::MAX })
    }
}

fn cut(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MAX_CELL) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_a_line() {
        let long = "x".repeat(100_000);
        let mut table = Table::new([("name", Column::Left), ("bytes", Column::Right)]);
        table.row([long.as_str(), "1"]);
        table.row(["a\nb", "12"]);
        let lines: Vec<String> = table.lines().collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[2].split_whitespace().collect::<Vec<_>>(), ["a\\nb", "12"]);
    }

    #[test]
    fn lines_have_no_trailing_spaces() {
        let mut table = Table::without_header([Column::Left, Column::Left]);
        table.row(["a", "b"]);
        table.row(["cc", ""]);
        table.row(["日本", "dd"]);
        assert_eq!(table.lines().collect::<Vec<_>>(), ["a     b", "cc", "日本  dd"]);
    }
}
