//! The differences between two files, as text and JSON.

use std::borrow::Cow;
use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use tensorfile::File;

use super::compare::ValueDiff;
use crate::commands::info::{MAX_VALUE, cut};
use crate::output::numbers::{count, counted};
use crate::output::tensors::{CODES, CODES_NOTE, TensorRow, are_codes, type_label};
use crate::output::warnings::WarningRow;
use crate::output::{Column, Columns, Stdout, escape, shorten, wrap};

#[derive(Debug, Serialize)]
pub struct DiffReport<'f> {
    /// The paths of the files.
    pub a: String,
    pub b: String,
    pub equal: bool,
    /// The number of names in either file.
    pub compared: usize,
    /// Whether the servers say that the files are equal, so that no values were read.
    pub known_equal: bool,
    pub tensors: Vec<TensorDiff<'f>>,
    pub metadata: Vec<MetadataDiff>,
    /// The warnings about both files.
    pub warnings: Vec<FileWarning>,
    /// Describes the comparison of equal tensors, unless it was a full one.
    #[serde(skip)]
    pub equal_by: &'static str,
}

/// A warning about one of the files.
#[derive(Debug, Serialize)]
pub struct FileWarning {
    file: String,
    #[serde(flatten)]
    warning: WarningRow,
}

impl FileWarning {
    /// Returns the warnings about a file.
    pub fn of_file(path: &str, file: &File) -> impl Iterator<Item = Self> {
        WarningRow::of_file(file).into_iter().map(|warning| Self { file: path.to_owned(), warning })
    }
}

/// Files that could not be compared.
#[derive(Debug, Serialize)]
pub struct Uncompared {
    pub a: String,
    pub b: String,
    /// The file at fault; empty if the command line is.
    pub file: String,
    pub error: String,
}

/// The differences between two tensors.
#[derive(Debug, Serialize)]
pub struct TensorDiff<'f> {
    pub name: &'f str,
    pub what: Vec<Aspect>,
    pub a: Option<TensorRow<'f>>,
    pub b: Option<TensorRow<'f>>,
    /// `None` if the values were not compared.
    pub values: Option<ValueDiff>,
}

/// A property in which tensors differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Aspect {
    OnlyInA,
    OnlyInB,
    Dtype,
    Shape,
    /// Dense, sparse or a blob.
    Kind,
    Values,
    /// The elements of one of them cannot be read: nobody knows whether the values differ.
    Unread,
}

/// A metadata entry that differs.
#[derive(Debug, Serialize)]
pub struct MetadataDiff {
    pub key: String,
    pub a: Option<String>,
    pub b: Option<String>,
}

/// Returns the number of characters to skip before two values are shown: none, unless the difference is far
/// from the beginning.
fn first_shown(a: &str, b: &str) -> usize {
    /// The number of characters shown before the difference.
    const BEFORE: usize = 40;

    let same = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    if same > MAX_VALUE / 2 { same - BEFORE } else { 0 }
}

/// Shows a value in quotes from a character on. A long one is cut.
fn shown_from(text: &str, start: usize) -> String {
    let from = text.char_indices().nth(start).map_or(text.len(), |(index, _)| index);
    let before = if start > 0 { "…" } else { "" };
    format!("{:?}", format!("{before}{}", cut(&text[from..], MAX_VALUE)))
}

impl DiffReport<'_> {
    /// Prints a line for each difference, and a summary. If lines are wider than `width`, each has its details below
    /// it.
    pub fn print(&self, width: Option<usize>, out: &mut Stdout) -> io::Result<()> {
        let tensors =
            self.tensors.iter().map(|tensor| [tensor.mark().into(), tensor.name.into(), tensor.text().into()]);
        let metadata = self.metadata.iter().map(|MetadataDiff { key, a, b }| -> [Cow<'_, str>; 3] {
            let key = format!("metadata {key}").into();
            let start = match (a, b) {
                (Some(a), Some(b)) => first_shown(a, b),
                _ => 0,
            };
            let quoted = |text: &Option<String>| shown_from(text.as_deref().unwrap_or_default(), start);
            match (a, b) {
                (a, None) => ["-".into(), key, quoted(a).into()],
                (None, b) => ["+".into(), key, quoted(b).into()],
                (a, b) => ["~".into(), key, format!("{} -> {}", quoted(a), quoted(b)).into()],
            }
        });
        let (rows, mut columns) = (tensors.chain(metadata), Columns::without_header([Column::Left; 3]));
        columns = columns.style(0, mark_style);
        rows.clone().for_each(|row| columns.measure(row));
        match width.filter(|width| columns.width() > *width) {
            Some(width) => rows.into_iter().try_for_each(|row| print_below(&row, width, out))?,
            None => rows.into_iter().try_for_each(|row| columns.print(row, out))?,
        }
        writeln!(out, "{}", escape(&self.summary()))?;
        if self.tensors.iter().any(TensorDiff::has_codes) {
            writeln!(out, "{CODES_NOTE}")?;
        }
        Ok(())
    }

    /// Describes the differences in a line of text.
    pub fn summary(&self) -> String {
        let with = |aspect: Aspect| self.tensors.iter().filter(|tensor| tensor.what.contains(&aspect)).count();
        let [only_a, only_b] = [Aspect::OnlyInA, Aspect::OnlyInB].map(with);
        let unread = self.tensors.iter().filter(|tensor| tensor.what == [Aspect::Unread]).count();
        let different = self.tensors.len() - only_a - only_b - unread;
        let equal = counted(self.compared - self.tensors.len(), "tensor");
        let mut parts = vec![format!("{equal} equal{}", self.equal_by)];
        let mut part = |number: usize, text: &str| {
            if number > 0 {
                parts.push(format!("{} {text}", count(number as u64)));
            }
        };
        part(different, "different");
        part(unread, "not compared");
        part(only_a, &format!("only in {}", self.a));
        part(only_b, &format!("only in {}", self.b));
        part(self.metadata.len(), "different in the metadata");
        parts.join(", ")
    }
}

/// Prints a difference with a line for each detail.
fn print_below([mark, name, text]: &[Cow<'_, str>; 3], width: usize, out: &mut Stdout) -> io::Result<()> {
    /// The columns of the mark and of the space after it.
    const INDENT: usize = 3;
    let mark = out.styled(mark_style(mark), mark).into_owned();
    writeln!(out, "{mark}  {}", shorten(&escape(name), width.saturating_sub(INDENT)))?;
    for line in text.split("; ").flat_map(|part| wrap(part, Some(width.saturating_sub(INDENT + 2)))) {
        writeln!(out, "{:INDENT$}  {line}", "")?;
    }
    Ok(())
}

fn mark_style(mark: &str) -> Style {
    match mark {
        "-" => AnsiColor::Red.on_default(),
        "+" => AnsiColor::Green.on_default(),
        _ => AnsiColor::Yellow.on_default(),
    }
}

impl TensorDiff<'_> {
    fn mark(&self) -> &'static str {
        match (self.a, self.b) {
            (_, None) => "-",
            (None, _) => "+",
            _ => "~",
        }
    }

    /// Returns whether one of the tensors is a part of a quantized weight.
    fn has_codes(&self) -> bool {
        [self.a, self.b].iter().flatten().any(|tensor| are_codes(tensor.verdict))
    }

    fn text(&self) -> String {
        let type_label = |tensor: TensorRow<'_>| {
            let mark = if are_codes(tensor.verdict) { String::from(CODES) } else { String::new() };
            type_label(tensor.info) + &mark
        };
        let (Some(a), Some(b)) = (self.a, self.b) else {
            return [self.a, self.b].into_iter().flatten().map(type_label).collect();
        };
        let mut parts = Vec::new();
        if !matches!(self.what[..], [Aspect::Values | Aspect::Unread]) {
            parts.push(format!("{} -> {}", type_label(a), type_label(b)));
        }
        parts.extend(self.values.as_ref().map(|values| match values.differing {
            0 => "equal values".to_owned(),
            _ => values.summary(),
        }));
        if self.what.contains(&Aspect::Unread) {
            parts.push(format!("{} cannot be compared: its elements are not stored in one place", type_label(a)));
        }
        parts.join("; ")
    }
}
