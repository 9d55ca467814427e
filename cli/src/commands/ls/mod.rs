mod logical;
mod patterns;
mod tree;

use std::borrow::Cow;
use std::cell::RefCell;
use std::cmp::Ordering;
use std::io::{self, Write};
use std::path::Path;

use clap::ValueEnum;
use serde::Serialize;
use tensorfile::quant::Verdict;
use tensorfile::{File, TensorInfo};

use crate::args::{Decoding, FileTable, Filter, Inputs, MapArgs, Printer, Warnings, is_one_tensor};
use crate::exit::{At, Outcome, Verdict as Passed};
use crate::output::numbers::{Sizes, counted};
use crate::output::tensors::{
    TensorRow, Total, are_codes, dtype_label, dtype_style, scheme_label, shape_label, type_label,
};
use crate::output::warnings::WarningRow;
use crate::output::{Column, Columns, Each, HEADER, Stdout, Wide, escape};

use patterns::{Pattern, patterns};
use tree::{Line, Tree};

/// List the tensors of files with dtype, shape, size and offset.
///
/// Only the index of the file is read. The offset is the position of the payload, in bytes from the start of the file.
/// The last line sums up the listed tensors; if you pass several files, one more line sums up all of them. Files of one
/// unnamed tensor each, such as npy files, make one table with the files as names.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Ls {
    #[command(flatten)]
    inputs: Inputs,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    decoding: Decoding,
    #[command(flatten)]
    mapping: MapArgs,
    #[command(flatten)]
    view: LsView,
    /// Sort by this column; by default, tensors are in the order of the file
    #[arg(long, value_name = "KEY", conflicts_with_all = ["tree", "diffable"])]
    sort: Option<LsKey>,
    /// Reverse the order
    #[arg(long, short, conflicts_with_all = ["tree", "diffable"])]
    reverse: bool,
    /// Print JSON, with sizes in bytes
    #[arg(long, conflicts_with_all = ["tree", "patterns", "diffable"])]
    json: bool,
    #[command(flatten)]
    sizes: Sizes,
    #[command(flatten)]
    wide: Wide,
}

#[derive(Debug, clap::Args)]
#[group(multiple = false)]
struct LsView {
    /// List names as a tree that branches at dots, with the sums of each branch
    #[arg(long, short)]
    tree: bool,
    /// Combine tensors that have the same dtype and shape and whose names differ only in numbers:
    /// `layers.{0..5}.weight`
    #[arg(long, short)]
    patterns: bool,
    /// List quantized weights, with the tensors that each is made of, and what may be one but fits no layout
    #[arg(long)]
    logical: bool,
    /// Print lines for `diff`: sorted by name, with sizes in bytes and without offsets
    #[arg(long)]
    diffable: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LsKey {
    Name,
    Bytes,
    Offset,
    Dtype,
    Shape,
}

const EXAMPLES: &str = "\
Examples:
  tensorfile ls model.ptd
  tensorfile ls --patterns model.ptd
  tensorfile ls model.ptd checkpoints/
  tensorfile ls --sort bytes --reverse --filter '*.weight' --filter '!lm_head.*' model.ptd
  tensorfile ls --json model.ptd | jq '.[].tensors[].name'
  diff <(tensorfile ls --diffable old.ptd) <(tensorfile ls --diffable new.tbs)";

impl Ls {
    pub fn run(&self, out: &mut Stdout) -> Outcome {
        self.decoding.apply();
        self.mapping.apply(false)?;
        let totals = RefCell::new(Totals::default());
        let list = &mut |path: &Path, file: File, printer: &mut Printer<'_, '_>| {
            let total = self.list(path, &file, printer)?;
            totals.borrow_mut().add(&total);
            Ok(Passed::Pass)
        };
        if self.json || self.view.diffable || self.view.logical {
            return self.inputs.for_each_index(Warnings::StandardError, self.json, out, list);
        }
        let mut table = LsTable { ls: self, rows: Vec::new(), totals: &totals };
        let outcome = self.inputs.for_each_in_table(&mut table, out, list);
        let Totals { files, total } = totals.into_inner();
        if files > 1 {
            let files = counted(files, "file");
            let line = format!("{files}, {}", self.sums(&total));
            writeln!(out, "\n{}", out.styled(HEADER, &line).into_owned())?;
        }
        outcome
    }

    pub fn list(&self, path: &Path, file: &File, printer: &mut Printer<'_, '_>) -> Outcome<Total> {
        if self.view.logical {
            return self.list_logical(path, file, printer);
        }
        // There may be millions of tensors, so only their positions are held, and rows are made as they are printed.
        let matching = file.tensors().filter(|tensor| self.filter.matches(tensor.name()));
        let mut positions: Vec<usize> = matching.map(|tensor| tensor.position()).collect();
        self.filter.expect_some(positions.len())?;
        self.sort(&mut positions, |a, b, key| row(file, *a).sort_keys().compare(&row(file, *b).sort_keys(), key));
        let rows = positions.iter().map(|index| row(file, *index));
        let total = Total::of(rows.clone());

        let out = match printer {
            Printer::Text(out) => out,
            Printer::Json(list) => {
                let file_name = path.display().to_string();
                let (format, warnings) = (file.format().name, WarningRow::of_file(file));
                list.push(&Listing { file: file_name, format, warnings, tensors: Each(rows), total })?;
                return Ok(total);
            }
        };
        if self.view.diffable {
            print_diffable(rows, out)?;
            return Ok(total);
        }
        if self.view.tree {
            self.print_tree(positions.len(), &|index| row(file, positions[index]), out)?;
        } else if self.view.patterns {
            self.print_patterns(rows, &|index| row(file, positions[index]), out)?;
        } else {
            self.print_table(rows, out)?;
        }
        writeln!(out, "{}", out.styled(HEADER, &self.sums(&total)).into_owned())?;
        Ok(total)
    }

    fn list_logical(&self, path: &Path, file: &File, printer: &mut Printer<'_, '_>) -> Outcome<Total> {
        let quantized = file.quantized().at(path)?;
        let rows = logical::rows(file, quantized, &|name| self.filter.matches(name));
        let total = Total::of((0..file.len()).map(|index| row(file, index)));
        match printer {
            Printer::Text(out) => logical::print(&rows, self.wide.width(out), out)?,
            Printer::Json(list) => {
                let file_name = path.display().to_string();
                list.push(&logical::LogicalListing {
                    file: file_name,
                    warnings: WarningRow::of_file(file),
                    weights: rows,
                })?;
            }
        }
        Ok(total)
    }

    fn sums(&self, total: &Total) -> String {
        let Total { tensors, parameters, bytes } = *total;
        [counted(tensors, "tensor"), counted(parameters, "parameter"), self.sizes.phrase(bytes)].join(", ")
    }

    fn print_table<'f>(
        &self,
        tensors: impl ExactSizeIterator<Item = TensorRow<'f>> + Clone,
        out: &mut Stdout,
    ) -> io::Result<()> {
        use Column::{Left, Right};
        if tensors.len() == 0 {
            return Ok(());
        }
        let titles = [("name", Left), ("dtype", Left), ("shape", Left), ("bytes", Right), ("offset", Right)];
        let is_quantized = tensors.clone().any(|tensor| are_codes(tensor.verdict));
        let (columns, shown) = if is_quantized {
            let [name, dtype, shape, bytes, offset] = titles;
            (Columns::new([name, dtype, shape, bytes, offset, ("scheme", Left)]).spare(&[4, 3, 5]), 6)
        } else {
            (Columns::new(titles).spare(&[4, 3]), 5)
        };
        let mut columns = columns.style(1, dtype_style);
        let cells = tensors.map(|TensorRow { name, info, bytes, offset, verdict }| {
            let (bytes, offset) = (self.sizes.cell(bytes), offset.to_string());
            let scheme = scheme_label(verdict).into();
            let cells: [Cow<'_, str>; 6] =
                [name.into(), dtype_label(info).into(), shape_label(info).into(), bytes.into(), offset.into(), scheme];
            cells.into_iter().take(shown)
        });
        cells.clone().for_each(|cells| columns.measure(cells));
        columns.fit(self.wide.width(out));
        columns.print_header(out)?;
        cells.into_iter().try_for_each(|cells| columns.print(cells, out))?;
        columns.print_omissions(out)
    }

    fn print_patterns<'f>(
        &self,
        tensors: impl Iterator<Item = TensorRow<'f>>,
        row: &dyn Fn(usize) -> TensorRow<'f>,
        out: &mut Stdout,
    ) -> io::Result<()> {
        let mut patterns = patterns(tensors.map(|tensor| (tensor.name, tensor.info)));
        fn keys<'a>(pattern: &'a Pattern, first: TensorRow<'a>) -> LsSortKeys<'a> {
            let TensorRow { name, info, offset, bytes, .. } = first;
            let bytes = bytes.saturating_mul(pattern.count as u64);
            LsSortKeys { name: pattern.name.as_deref().unwrap_or(name), info, bytes, offset }
        }
        self.sort(&mut patterns, |a, b, key| keys(a, row(a.first)).compare(&keys(b, row(b.first)), key));
        let cells = |pattern: &Pattern| -> [String; 4] {
            let LsSortKeys { name, info, bytes, .. } = keys(pattern, row(pattern.first));
            [name.to_owned(), type_label(info), format!("×{}", pattern.count), self.sizes.cell(bytes)]
        };
        let mut columns =
            Columns::without_header([Column::Left, Column::Left, Column::Right, Column::Right]).style(1, dtype_style);
        patterns.iter().for_each(|pattern| columns.measure(cells(pattern)));
        columns.fit(self.wide.width(out));
        patterns.iter().try_for_each(|pattern| columns.print(cells(pattern), out))?;
        columns.print_omissions(out)
    }

    fn print_tree<'f>(&self, len: usize, row: &dyn Fn(usize) -> TensorRow<'f>, out: &mut Stdout) -> io::Result<()> {
        let tensor = |index| {
            let TensorRow { name, info, bytes, .. } = row(index);
            (name, info, bytes)
        };
        let mut tree = Tree::new(len, &tensor);
        let mut columns =
            Columns::without_header([Column::Left, Column::Left, Column::Right, Column::Right]).style(1, dtype_style);
        let cells = |line: Line<'_>| -> [Cow<'_, str>; 4] {
            let name = format!("{}{}", line.branch, escape(&line.label));
            let label = line.info.map(type_label).unwrap_or_default();
            let count = if line.info.is_some() && line.tensors == 1 { String::new() } else { line.tensors.to_string() };
            [name.into(), label.into(), count.into(), self.sizes.cell(line.bytes).into()]
        };
        // Lines are made twice, so that they need not be held.
        tree.lines(&mut |line| {
            columns.measure(cells(line));
            Ok::<_, io::Error>(())
        })?;
        columns.fit(self.wide.width(out));
        tree.lines(&mut |line| columns.print(cells(line), out))?;
        columns.print_omissions(out)
    }

    fn sort<T>(&self, rows: &mut [T], compare: impl Fn(&T, &T, LsKey) -> Ordering) {
        // A stable sort keeps the order of the file between equal rows.
        if let Some(key) = if self.view.diffable { Some(LsKey::Name) } else { self.sort } {
            rows.sort_by(|a, b| compare(a, b, key));
        }
        if self.reverse {
            rows.reverse();
        }
    }
}

/// The sums over several files.
#[derive(Default)]
struct Totals {
    files: usize,
    total: Total,
}

impl Totals {
    fn add(&mut self, total: &Total) {
        self.files += 1;
        self.total.join(total);
    }
}

/// Files of one tensor, as rows of a table.
struct LsTable<'a> {
    ls: &'a Ls,
    rows: Vec<ListedFile>,
    totals: &'a RefCell<Totals>,
}

/// A file of one tensor.
struct ListedFile {
    path: String,
    info: TensorInfo,
    offset: u64,
    bytes: u64,
}

impl ListedFile {
    fn row(&self) -> TensorRow<'_> {
        let verdict = Verdict::Plain;
        TensorRow { name: &self.path, info: &self.info, offset: self.offset, bytes: self.bytes, verdict }
    }
}

impl FileTable<File> for LsTable<'_> {
    fn add(&mut self, path: &Path, file: File) -> Outcome<Result<Passed, File>> {
        let LsView { tree, patterns, .. } = self.ls.view;
        if tree || patterns || !self.ls.filter.is_empty() || !is_one_tensor(&file) {
            return Ok(Err(file));
        }
        for tensor in file.tensors().map(TensorRow::from) {
            let path = path.display().to_string();
            self.rows.push(ListedFile { path, info: tensor.info.clone(), offset: tensor.offset, bytes: tensor.bytes });
            self.totals.borrow_mut().add(&Total::of([tensor]));
        }
        Ok(Ok(Passed::Pass))
    }

    fn has_rows(&self) -> bool {
        !self.rows.is_empty()
    }

    fn print(&mut self, out: &mut Stdout) -> Outcome<()> {
        let mut rows = std::mem::take(&mut self.rows);
        self.ls.sort(&mut rows, |a, b, key| a.row().sort_keys().compare(&b.row().sort_keys(), key));
        Ok(self.ls.print_table(rows.iter().map(ListedFile::row), out)?)
    }
}

/// Returns the row of the tensor at a position that the file has.
fn row(file: &File, index: usize) -> TensorRow<'_> {
    file.nth(index).expect("the positions are those of tensors").into()
}

/// The columns of a row that `--sort` compares.
struct LsSortKeys<'a> {
    name: &'a str,
    info: &'a TensorInfo,
    bytes: u64,
    offset: u64,
}

impl LsSortKeys<'_> {
    fn compare(&self, other: &Self, key: LsKey) -> Ordering {
        match key {
            LsKey::Name => self.name.cmp(other.name),
            LsKey::Bytes => self.bytes.cmp(&other.bytes),
            LsKey::Offset => self.offset.cmp(&other.offset),
            LsKey::Dtype => self.info.dtype.name().cmp(other.info.dtype.name()),
            LsKey::Shape => self.info.shape.dims().cmp(other.info.shape.dims()),
        }
    }
}

impl<'f> TensorRow<'f> {
    fn sort_keys(self) -> LsSortKeys<'f> {
        LsSortKeys { name: self.name, info: self.info, bytes: self.bytes, offset: self.offset }
    }
}

fn print_diffable<'f>(tensors: impl Iterator<Item = TensorRow<'f>>, out: &mut Stdout) -> io::Result<()> {
    for TensorRow { name, info, bytes, .. } in tensors {
        writeln!(out, "{} {} {bytes}", escape(name), type_label(info))?;
    }
    Ok(())
}

#[derive(Serialize)]
#[serde(bound(serialize = "Each<I>: Serialize"))]
struct Listing<I> {
    file: String,
    format: &'static str,
    warnings: Vec<WarningRow>,
    tensors: Each<I>,
    total: Total,
}
