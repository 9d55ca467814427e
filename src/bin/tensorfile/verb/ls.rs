use std::cmp::Ordering;
use std::io::{self, Write};

use clap::ValueEnum;
use serde::Serialize;
use tensorfile::TensorInfo;

use crate::failure::{Outcome, Verdict};
use crate::filter::Filter;
use crate::input::Input;
use crate::listed::{self, Listed, Total};
use crate::out::{HEADER, Out, plain};
use crate::patterns::patterns;
use crate::size::{Sizes, counted};
use crate::table::{Column, Table};
use crate::tree::tree;

/// List the tensors of a file: name, dtype, shape, bytes and offset.
///
/// Only the index of the file is read, however large the file is. The offset of a tensor is where its payload begins, in
/// bytes from the start of the file. The last line has the sums of what is listed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Ls {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    view: View,
    /// Sort by this; without it, tensors stand in the order of the file
    #[arg(long, value_name = "KEY", conflicts_with_all = ["tree", "diffable"])]
    sort: Option<Key>,
    /// Turn the order around
    #[arg(long, short, conflicts_with_all = ["tree", "diffable"])]
    reverse: bool,
    #[command(flatten)]
    sizes: Sizes,
}

#[derive(Debug, clap::Args)]
#[group(multiple = false)]
struct View {
    /// Show names as a tree that branches at dots, with the sums of each branch
    #[arg(long, short)]
    tree: bool,
    /// Show tensors of the same dtype and shape whose names differ by numbers only as one: `layers.{0..5}.weight`
    #[arg(long, short)]
    patterns: bool,
    /// Print JSON, with sizes in bytes
    #[arg(long)]
    json: bool,
    /// Print lines to be compared: by name, with exact sizes and without offsets, each independent of the others
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
    pub fn run(&self, out: &mut Out) -> Outcome {
        let matcher = self.filter.build()?;
        let file = self.input.open()?;
        let tensors = file.tensors().map(Listed::from).filter(|tensor| matcher.keeps(tensor.name));
        let mut tensors: Vec<Listed<'_>> = tensors.collect();
        matcher.expect_some(tensors.len())?;
        let total = Total::of(&tensors);

        if self.view.diffable {
            tensors.sort_by_key(|tensor| tensor.name);
            print_diffable(&tensors, out)?;
            return Ok(Verdict::Fine);
        }
        if self.view.json {
            self.sort(&mut tensors, columns);
            out.json(&Listing { format: file.format().name, tensors: &tensors, total })?;
            return Ok(Verdict::Fine);
        }
        if self.view.tree {
            self.print_tree(&tensors, out)?;
        } else if self.view.patterns {
            self.print_patterns(&tensors, out)?;
        } else {
            self.sort(&mut tensors, columns);
            self.print_list(&tensors, out)?;
        }
        let sums = [
            counted(total.tensors as u64, "tensor"),
            counted(total.parameters, "parameter"),
            self.sizes.phrase(total.bytes),
        ];
        writeln!(out, "{}", out.styled(HEADER, &sums.join(", ")).into_owned())?;
        Ok(Verdict::Fine)
    }

    fn print_list(&self, tensors: &[Listed<'_>], out: &mut Out) -> io::Result<()> {
        use Column::{Left, Right};
        if tensors.is_empty() {
            return Ok(());
        }
        let mut table =
            Table::new([("name", Left), ("dtype", Left), ("shape", Left), ("bytes", Right), ("offset", Right)]);
        for Listed { name, info, bytes, offset } in tensors {
            let dtype = listed::dtype(info);
            table.row([name, dtype, &listed::shape(info), &self.sizes.cell(*bytes), &offset.to_string()]);
        }
        table.print(out)
    }

    fn print_patterns(&self, tensors: &[Listed<'_>], out: &mut Out) -> io::Result<()> {
        if tensors.is_empty() {
            return Ok(());
        }
        let mut patterns = patterns(tensors.iter().map(|tensor| (tensor.name, tensor.info)));
        self.sort(&mut patterns, |pattern| {
            let Listed { offset, bytes, .. } = tensors[pattern.first];
            let bytes = bytes.saturating_mul(pattern.count as u64);
            Columns { name: &pattern.name, info: &pattern.info, bytes, offset }
        });
        let mut table = Table::without_header([Column::Left, Column::Left, Column::Right, Column::Right]);
        for pattern in patterns {
            let count = pattern.count as u64;
            let bytes = self.sizes.cell(tensors[pattern.first].bytes.saturating_mul(count));
            table.row([pattern.name, listed::kind(&pattern.info), format!("×{count}"), bytes]);
        }
        table.print(out)
    }

    fn print_tree(&self, tensors: &[Listed<'_>], out: &mut Out) -> io::Result<()> {
        let lines = tree(tensors.iter().map(|tensor| (tensor.name, tensor.info, tensor.bytes)));
        let mut table = Table::without_header([Column::Left, Column::Left, Column::Right, Column::Right]);
        for line in lines {
            let label = format!("{}{}", line.branch, plain(&line.label));
            let kind = line.info.as_ref().map(listed::kind).unwrap_or_default();
            let count = if line.info.is_some() && line.tensors == 1 { String::new() } else { line.tensors.to_string() };
            table.row([label, kind, count, self.sizes.cell(line.bytes)]);
        }
        table.print(out)
    }

    fn sort<T>(&self, rows: &mut [T], columns: impl for<'a> Fn(&'a T) -> Columns<'a>) {
        // Stable, so that what is the same in this keeps the order of the file.
        rows.sort_by(|a, b| {
            let (a, b) = (columns(a), columns(b));
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

/// What rows are sorted by.
struct Columns<'a> {
    name: &'a str,
    info: &'a TensorInfo,
    bytes: u64,
    offset: u64,
}

fn columns<'a>(tensor: &'a Listed<'_>) -> Columns<'a> {
    Columns { name: tensor.name, info: tensor.info, bytes: tensor.bytes, offset: tensor.offset }
}

fn print_diffable(tensors: &[Listed<'_>], out: &mut Out) -> io::Result<()> {
    for Listed { name, info, bytes, .. } in tensors {
        writeln!(out, "{} {} {bytes}", plain(name), listed::kind(info))?;
    }
    Ok(())
}

#[derive(Serialize)]
struct Listing<'a> {
    format: &'static str,
    tensors: &'a [Listed<'a>],
    total: Total,
}
