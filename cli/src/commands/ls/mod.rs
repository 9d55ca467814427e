mod patterns;
mod tree;

use std::cmp::Ordering;
use std::io::{self, Write};

use clap::ValueEnum;
use serde::Serialize;
use tensorfile::TensorInfo;

use crate::args::{Filter, Input};
use crate::exit::{Outcome, Verdict};
use crate::output::numbers::{Sizes, counted};
use crate::output::tensors::{TensorRow, Total, dtype_label, shape_label, type_label};
use crate::output::{Column, HEADER, Stdout, Table, escape};

use patterns::patterns;
use tree::tree;

/// List the tensors of a file with dtype, shape, size and offset.
///
/// Only the index of the file is read. The offset is the position of the payload in bytes from the start of the file. The
/// last line has the sums over all listed tensors.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Ls {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    view: View,
    /// Sort by this column; by default, tensors are in the order of the file
    #[arg(long, value_name = "KEY", conflicts_with_all = ["tree", "diffable"])]
    sort: Option<Key>,
    /// Reverse the order
    #[arg(long, short, conflicts_with_all = ["tree", "diffable"])]
    reverse: bool,
    #[command(flatten)]
    sizes: Sizes,
}

#[derive(Debug, clap::Args)]
#[group(multiple = false)]
struct View {
    /// List names as a tree that branches at dots, with the sums of each branch
    #[arg(long, short)]
    tree: bool,
    /// Combine tensors that have the same dtype and shape and whose names differ only in numbers: `layers.{0..5}.weight`
    #[arg(long, short)]
    patterns: bool,
    /// Print JSON, with sizes in bytes
    #[arg(long)]
    json: bool,
    /// Print lines for `diff`: sorted by name, with sizes in bytes and without offsets
    #[arg(long)]
    diffable: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Key {
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
  tensorfile ls --sort bytes --reverse --filter '*.weight' --filter '!lm_head.*' model.ptd
  tensorfile ls --json model.ptd | jq '.tensors[].name'
  diff <(tensorfile ls --diffable old.ptd) <(tensorfile ls --diffable new.tbs)";

impl Ls {
    pub fn run(&self, out: &mut Stdout) -> Outcome {
        let matcher = self.filter.build()?;
        let file = self.input.open()?;
        let tensors = file.tensors().map(TensorRow::from).filter(|tensor| matcher.matches(tensor.name));
        let mut tensors: Vec<TensorRow<'_>> = tensors.collect();
        matcher.expect_some(tensors.len())?;
        let total = Total::of(&tensors);

        if self.view.diffable {
            tensors.sort_by_key(|tensor| tensor.name);
            print_diffable(&tensors, out)?;
            return Ok(Verdict::Pass);
        }
        if self.view.json {
            self.sort(&mut tensors, sort_keys);
            out.json(&Listing { format: file.format().name, tensors: &tensors, total })?;
            return Ok(Verdict::Pass);
        }
        if self.view.tree {
            self.print_tree(&tensors, out)?;
        } else if self.view.patterns {
            self.print_patterns(&tensors, out)?;
        } else {
            self.sort(&mut tensors, sort_keys);
            self.print_table(&tensors, out)?;
        }
        let sums =
            [counted(total.tensors, "tensor"), counted(total.parameters, "parameter"), self.sizes.phrase(total.bytes)];
        writeln!(out, "{}", out.styled(HEADER, &sums.join(", ")).into_owned())?;
        Ok(Verdict::Pass)
    }

    fn print_table(&self, tensors: &[TensorRow<'_>], out: &mut Stdout) -> io::Result<()> {
        use Column::{Left, Right};
        if tensors.is_empty() {
            return Ok(());
        }
        let mut table =
            Table::new([("name", Left), ("dtype", Left), ("shape", Left), ("bytes", Right), ("offset", Right)]);
        for TensorRow { name, info, bytes, offset } in tensors {
            let dtype = dtype_label(info);
            table.row([name, dtype, &shape_label(info), &self.sizes.cell(*bytes), &offset.to_string()]);
        }
        table.print(out)
    }

    fn print_patterns(&self, tensors: &[TensorRow<'_>], out: &mut Stdout) -> io::Result<()> {
        if tensors.is_empty() {
            return Ok(());
        }
        let mut patterns = patterns(tensors.iter().map(|tensor| (tensor.name, tensor.info)));
        self.sort(&mut patterns, |pattern| {
            let TensorRow { offset, bytes, .. } = tensors[pattern.first];
            let bytes = bytes.saturating_mul(pattern.count as u64);
            SortKeys { name: &pattern.name, info: &pattern.info, bytes, offset }
        });
        let mut table = Table::without_header([Column::Left, Column::Left, Column::Right, Column::Right]);
        for pattern in patterns {
            let count = pattern.count as u64;
            let bytes = self.sizes.cell(tensors[pattern.first].bytes.saturating_mul(count));
            table.row([pattern.name, type_label(&pattern.info), format!("×{count}"), bytes]);
        }
        table.print(out)
    }

    fn print_tree(&self, tensors: &[TensorRow<'_>], out: &mut Stdout) -> io::Result<()> {
        let lines = tree(tensors.iter().map(|tensor| (tensor.name, tensor.info, tensor.bytes)));
        let mut table = Table::without_header([Column::Left, Column::Left, Column::Right, Column::Right]);
        for line in lines {
            let name = format!("{}{}", line.branch, escape(&line.label));
            let label = line.info.as_ref().map(type_label).unwrap_or_default();
            let count = if line.info.is_some() && line.tensors == 1 { String::new() } else { line.tensors.to_string() };
            table.row([name, label, count, self.sizes.cell(line.bytes)]);
        }
        table.print(out)
    }

    fn sort<T>(&self, rows: &mut [T], keys: impl for<'a> Fn(&'a T) -> SortKeys<'a>) {
        // A stable sort keeps the order of the file between equal rows.
        rows.sort_by(|a, b| {
            let (a, b) = (keys(a), keys(b));
            match self.sort {
                None => Ordering::Equal,
                Some(Key::Name) => a.name.cmp(b.name),
                Some(Key::Bytes) => a.bytes.cmp(&b.bytes),
                Some(Key::Offset) => a.offset.cmp(&b.offset),
                Some(Key::Dtype) => a.info.dtype.name().cmp(b.info.dtype.name()),
                Some(Key::Shape) => a.info.shape.dims().cmp(b.info.shape.dims()),
            }
        });
        if self.reverse {
            rows.reverse();
        }
    }
}

/// The columns of a row that `--sort` compares.
struct SortKeys<'a> {
    name: &'a str,
    info: &'a TensorInfo,
    bytes: u64,
    offset: u64,
}

fn sort_keys<'a>(tensor: &'a TensorRow<'_>) -> SortKeys<'a> {
    SortKeys { name: tensor.name, info: tensor.info, bytes: tensor.bytes, offset: tensor.offset }
}

fn print_diffable(tensors: &[TensorRow<'_>], out: &mut Stdout) -> io::Result<()> {
    for TensorRow { name, info, bytes, .. } in tensors {
        writeln!(out, "{} {} {bytes}", escape(name), type_label(info))?;
    }
    Ok(())
}

#[derive(Serialize)]
struct Listing<'a> {
    format: &'static str,
    tensors: &'a [TensorRow<'a>],
    total: Total,
}
