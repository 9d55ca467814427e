use std::borrow::Cow;
use std::io::{self, Write};

use anstyle::Style;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::{FAINT, HEADER, Stdout, escape};

/// The longest text of a cell in characters; longer ones are cut.
const MAX_CELL: usize = 1000;

/// The widest column in characters. A wider cell moves the rest of its row, so that one hostile name does not widen
/// every row.
const MAX_WIDTH: usize = 200;

/// The spaces between two columns.
const GAP: usize = 2;

/// The width of narrowed text before columns are left out, and the width if leaving them out is not enough.
const NARROW: usize = 32;
const NARROWEST: usize = 8;

/// The alignment of a column: left for text, right for numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    Left,
    Right,
}

/// Rows of text in aligned columns, without lines between them. Cells are not wrapped. They are whole, so names can be
/// copied, unless the rows are [fitted](Columns::fit) to a terminal.
///
/// The rows are held until they are printed. For millions of rows, use [`Columns`].
#[derive(Debug)]
pub struct Table {
    columns: Columns,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Returns a table with the titles of the columns in its first row.
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

    /// Writes the rows, at most `width` characters wide if possible.
    pub fn print(mut self, width: Option<usize>, out: &mut Stdout) -> io::Result<()> {
        self.columns.fit(width);
        self.columns.print_header(out)?;
        self.rows.iter().try_for_each(|row| self.columns.print(row, out))?;
        self.columns.print_omissions(out)
    }
}

/// The columns of a table. Its rows are made twice: once to measure them, once to print them.
#[derive(Debug)]
pub struct Columns {
    alignments: Vec<Column>,
    widths: Vec<usize>,
    titles: Vec<&'static str>,
    /// The optional columns, least needed first.
    spare: &'static [usize],
    /// The omitted columns.
    hidden: Vec<usize>,
    styles: Vec<Option<CellStyle>>,
    /// Set if text wider than its column is shortened.
    is_fitted: bool,
    /// Set once a text was shortened.
    has_shortened: bool,
    line: String,
}

/// Returns the style of a cell, by its text.
pub type CellStyle = fn(&str) -> Style;

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
        Self {
            widths: vec![0; alignments.len()],
            styles: vec![None; alignments.len()],
            alignments,
            titles: Vec::new(),
            spare: &[],
            hidden: Vec::new(),
            is_fitted: false,
            has_shortened: false,
            line: String::new(),
        }
    }

    /// Lets [`fit`](Self::fit) leave out these columns, the first ones first.
    pub fn spare(self, columns: &'static [usize]) -> Self {
        Self { spare: columns, ..self }
    }

    /// Sets the style of a column, for outputs that show styles.
    pub fn style(mut self, column: usize, style: CellStyle) -> Self {
        self.styles[column] = Some(style);
        self
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

    /// Returns the width of a row.
    pub fn width(&self) -> usize {
        let shown = (0..self.widths.len()).filter(|column| !self.hidden.contains(column));
        shown.map(|column| self.widths[column] + GAP).sum::<usize>().saturating_sub(GAP)
    }

    /// Makes rows at most `width` characters wide, if possible, after they were measured.
    ///
    /// Columns of text are narrowed to [`NARROW`] characters at most; then optional columns are left out; then text is
    /// narrowed more. Numbers are never shortened.
    pub fn fit(&mut self, width: Option<usize>) {
        let Some(width) = width else { return };
        self.is_fitted = true;
        let mut spare = self.spare.iter();
        loop {
            let excess = self.width().saturating_sub(width);
            if self.room(NARROW) >= excess {
                return self.narrow(excess, NARROW);
            }
            match spare.next() {
                Some(column) => self.hidden.push(*column),
                None => return self.narrow(excess, NARROWEST),
            }
        }
    }

    /// Returns the number of characters saved if no column of text is wider than `least`.
    fn room(&self, least: usize) -> usize {
        self.texts().map(|column| self.widths[column].saturating_sub(least)).sum()
    }

    /// Narrows the widest columns of text by `excess` characters together, but none to less than `least`.
    fn narrow(&mut self, excess: usize, least: usize) {
        for _ in 0..excess {
            let Some(widest) = self.texts().max_by_key(|column| self.widths[*column]) else { return };
            if self.widths[widest] <= least {
                return;
            }
            self.widths[widest] -= 1;
        }
    }

    fn texts(&self) -> impl Iterator<Item = usize> {
        let is_text = |column: &usize| self.alignments[*column] == Column::Left && !self.hidden.contains(column);
        (0..self.widths.len()).filter(is_text)
    }

    /// Writes the titles, if there are any.
    pub fn print_header(&mut self, out: &mut Stdout) -> io::Result<()> {
        if self.titles.is_empty() {
            return Ok(());
        }
        let titles = std::mem::take(&mut self.titles);
        self.set_line(&titles, false);
        self.titles = titles;
        writeln!(out, "{}", out.styled(HEADER, &self.line).into_owned())
    }

    /// Writes a row.
    pub fn print<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>, out: &mut Stdout) -> io::Result<()> {
        self.set_line(cells, out.has_color());
        writeln!(out, "{}", self.line)
    }

    /// Writes the names of the columns omitted by [`fit`](Self::fit), after the rows.
    pub fn print_omissions(&self, out: &mut Stdout) -> io::Result<()> {
        /// More names do not fit into a narrow terminal.
        const NAMED: usize = 5;

        let hidden: Vec<&str> =
            self.hidden.iter().rev().filter_map(|column| self.titles.get(*column).copied()).collect();
        let columns = if hidden.len() > NAMED { format!("{} more columns", hidden.len()) } else { hidden.join(", ") };
        let text = match (self.has_shortened, hidden.is_empty()) {
            (false, true) => return Ok(()),
            (true, true) => "--wide shows text in full".to_owned(),
            (false, false) => format!("--wide shows {columns}"),
            (true, false) => format!("--wide shows text in full, and {columns}"),
        };
        writeln!(out, "{}", out.styled(FAINT, &text).into_owned())
    }

    fn set_line<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>, color: bool) {
        self.line.clear();
        // Spaces are only written before more text.
        let mut spaces = 0;
        for (column, cell) in cells.into_iter().enumerate().take(self.widths.len()) {
            if self.hidden.contains(&column) {
                continue;
            }
            let (alignment, width) = (self.alignments[column], self.widths[column]);
            let mut cell = cell_text(cell.as_ref());
            if self.is_fitted && alignment == Column::Left && width_of(&cell) > width {
                cell = shorten(&cell, width).into();
                self.has_shortened = true;
            }
            let padding = width.saturating_sub(width_of(&cell));
            let (before, after) = match alignment {
                Column::Left => (0, padding),
                Column::Right => (padding, 0),
            };
            spaces += before;
            if !cell.is_empty() {
                self.line.extend(std::iter::repeat_n(' ', spaces));
                spaces = 0;
                match self.styles[column].filter(|_| color).map(|style| style(&cell)) {
                    Some(style) => self.line.push_str(&format!("{style}{cell}{style:#}")),
                    None => self.line.push_str(&cell),
                }
            }
            spaces += after + GAP;
        }
        self.line.truncate(self.line.trim_end().len());
    }
}

/// Shortens a text to `width` characters in the middle: the ends of a name tell most.
pub fn shorten(text: &str, width: usize) -> String {
    if width_of(text) <= width {
        return text.to_owned();
    }
    let room = width.saturating_sub(1);
    let (start, end) = (room.div_ceil(2), room / 2);
    let mut head = String::new();
    for c in text.chars() {
        if width_of(&head) + c.width().unwrap_or(0) > start {
            break;
        }
        head.push(c);
    }
    let mut tail = text.len();
    for (at, _) in text.char_indices().rev() {
        if width_of(&text[at..]) > end {
            break;
        }
        tail = at;
    }
    format!("{head}…{}", &text[tail..])
}

/// Breaks a text into lines of at most `width` characters, at spaces where there are any.
pub fn wrap(text: &str, width: Option<usize>) -> Vec<String> {
    let text = cell_text(text);
    let Some(width) = width.map(|width| width.max(NARROWEST)) else { return vec![text.into_owned()] };
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split_inclusive(' ') {
        if !line.is_empty() && width_of(&line) + width_of(word.trim_end()) > width {
            lines.push(std::mem::take(&mut line));
        }
        for c in word.chars() {
            if c != ' ' && width_of(&line) + c.width().unwrap_or(0) > width {
                lines.push(std::mem::take(&mut line));
            }
            line.push(c);
        }
    }
    lines.push(line);
    lines.iter_mut().for_each(|line| line.truncate(line.trim_end().len()));
    lines
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
            table.columns.set_line(row, false);
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

    fn fitted(width: usize, rows: &[[&str; 4]]) -> Vec<String> {
        use Column::{Left, Right};
        let titles = [("name", Left), ("shape", Left), ("bytes", Right), ("offset", Right)];
        let mut columns = Columns::new(titles).spare(&[3, 2]);
        rows.iter().for_each(|row| columns.measure(row));
        columns.fit(Some(width));
        let mut line = |row: &[&str; 4]| {
            columns.set_line(row, false);
            columns.line.clone()
        };
        let mut lines: Vec<String> = rows.iter().map(&mut line).collect();
        let mut out = Stdout::to_memory();
        columns.print_omissions(&mut out).unwrap();
        lines.push(String::from_utf8(out.into_memory()).unwrap());
        lines
    }

    #[test]
    fn rows_fit_into_the_width() {
        let row = ["encoder.layers.10.attention.query.weight", "[768, 768]", "9437184", "123456789"];
        let at = |width| fitted(width, &[row]);
        assert_eq!(at(80), [row.join("  "), String::new()]);
        let shortened = "encoder.layers.10…tion.query.weight  [768, 768]  9437184  123456789";
        assert_eq!(at(67), [shortened, "--wide shows text in full\n"]);
        for width in 18..80 {
            let lines = at(width);
            assert!(width_of(&lines[0]) <= width, "{width}: {lines:?}");
            assert_eq!(width < 72, lines[1].starts_with("--wide shows "), "{width}");
        }
        assert_eq!(at(55)[1], "--wide shows text in full, and offset\n");
        assert_eq!(at(30)[1], "--wide shows text in full, and bytes, offset\n");
    }

    #[test]
    fn shortens_in_the_middle() {
        assert_eq!(shorten("abcdef", 6), "abcdef");
        assert_eq!(shorten("abcdef", 5), "ab…ef");
        assert_eq!(shorten("abcdef", 4), "ab…f");
        assert_eq!(shorten("abcdef", 1), "…");
        assert_eq!(shorten("日本語日本語", 7), "日…語");
        assert_eq!(shorten(&"x".repeat(300), 5), "xx…xx");
    }

    #[test]
    fn wraps_at_spaces() {
        assert_eq!(wrap("ab cd", None), ["ab cd"]);
        assert_eq!(wrap("a list of some words", Some(9)), ["a list of", "some", "words"]);
        assert_eq!(wrap("abcdefghijk lm", Some(8)), ["abcdefgh", "ijk lm"]);
        assert_eq!(wrap("", Some(8)), [""]);
    }
}
