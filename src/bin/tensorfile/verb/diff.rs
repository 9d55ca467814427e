use std::collections::HashMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::thread::Scope;

use indexmap::IndexSet;
use serde::Serialize;
use tensorfile::{File, FileTensor, Layout, TensorInfo};

use crate::compare::{Comparison, Differences, Tolerance, are_comparable, compare_sparse};
use crate::failure::{At, Failure, Outcome, Verdict};
use crate::filter::Filter;
use crate::input::{format_names, is_stdin, name_of, open};
use crate::listed::{self, Listed};
use crate::lockstep::{PIECE, Pieces, read_ahead};
use crate::out::{Out, note, plain};
use crate::progress::Progress;
use crate::size::counted;
use crate::table::{Column, Table};

/// Compare two files: names, dtypes, shapes and values, whatever their formats.
///
/// What only A has is marked by -, what only B has by +, and what differs by ~, with what A has before the arrow and
/// what B has behind it. Of values, it tells how many differ and where they do so most, as a number and, where B is not
/// 0, as a part of B. The order of tensors, and that of elements in memory, are no differences.
///
/// Values are compared as numbers, exactly unless a tolerance is given, also where dtypes differ; NaN is equal to NaN,
/// and 0.0 to -0.0. Quantised and packed elements are compared as bits with those of their dtype. Sparse tensors are
/// equal where they store the same elements; with dense ones they are not compared.
///
/// A few pieces of both files are in memory at a time, but a tensor that is sparse or not in row-major order is read
/// whole.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Diff {
    /// The first file; `-` for standard input
    a: PathBuf,
    /// The second file; `-` for standard input
    b: PathBuf,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    tolerance: Tolerance,
    /// Compare the first tensor of A with the first of B and so on, whatever their names
    #[arg(long)]
    by_position: bool,
    /// Take tensors for equal that differ in their dtypes only, unless these cannot be compared
    #[arg(long)]
    ignore_dtype: bool,
    #[command(flatten)]
    depth: DepthOptions,
    /// Compare metadata, too
    #[arg(long)]
    metadata: bool,
    /// Print nothing, and stop at the first difference
    #[arg(long, short, conflicts_with = "json")]
    quiet: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Take A for a file of this format, whatever it looks like
    #[arg(long, value_name = "FORMAT", value_parser = format_names())]
    from_a: Option<String>,
    /// Take B for a file of this format, whatever it looks like
    #[arg(long, value_name = "FORMAT", value_parser = format_names())]
    from_b: Option<String>,
}

#[derive(Debug, clap::Args)]
#[group(multiple = false)]
struct DepthOptions {
    /// Compare names, but no dtypes, shapes and values
    #[arg(long)]
    names_only: bool,
    /// Compare names, dtypes and shapes, but no values: only the indices of the files are read
    #[arg(long)]
    no_values: bool,
}

impl DepthOptions {
    /// What is said of equal tensors.
    fn words(&self) -> &'static str {
        match (self.names_only, self.no_values) {
            (true, _) => " by name",
            (_, true) => " by name, dtype and shape",
            _ => "",
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  tensorfile diff model.safetensors model.ptd
  tensorfile diff --atol 1e-6 --rtol 1e-5 before.ptd after.ptd
  tensorfile diff --ignore-dtype --rtol 0.01 --filter '*.weight' model.ptd model-bf16.ptd
  tensorfile diff --by-position named.ptd nameless.btf
  tensorfile diff --quiet a.ptd b.ptd || echo they differ";

impl Diff {
    pub fn run(&self, out: &mut Out) -> Outcome {
        if is_stdin(&self.a) && is_stdin(&self.b) {
            return Err(Failure::usage("one file only can be standard input"));
        }
        let matcher = self.filter.build()?;
        let a = open(&self.a, self.from_a.as_deref())?;
        let b = open(&self.b, self.from_b.as_deref())?;
        let mut pairs = if self.by_position { by_position(&a, &b) } else { by_name(&a, &b) };
        if !pairs.is_empty() && pairs.iter().all(|pair| pair.both().is_none()) {
            self.hint(&a, &b);
        }
        pairs.retain(|pair| matcher.keeps(pair.name()));
        matcher.expect_some(pairs.len())?;

        let metadata = if self.metadata { self.metadata_differences(&a, &b)? } else { Vec::new() };
        let tensors = match self.quiet && !metadata.is_empty() {
            true => Vec::new(),
            false => std::thread::scope(|scope| self.differences(scope, &pairs))?,
        };
        let found =
            Found { equal: tensors.is_empty() && metadata.is_empty(), compared: pairs.len(), tensors, metadata };
        if self.json {
            out.json(&found)?;
        } else if !self.quiet {
            self.print(&found, out)?;
        }
        Ok(Verdict::of(found.equal))
    }

    /// Says why no name of one file may be in the other.
    fn hint(&self, a: &File, b: &File) {
        let has_names = |file: &File| file.tensors().any(|tensor| tensor.has_name());
        for (file, path) in [(a, &self.a), (b, &self.b)] {
            if !file.is_empty() && !has_names(file) {
                let path = name_of(path).display();
                note(format_args!("{path} has no names; --by-position compares tensors in the order of the files"));
            }
        }
    }

    fn differences<'scope, 'f: 'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        pairs: &[Pair<'f>],
    ) -> Outcome<Vec<Difference<'f>>> {
        let [path_a, path_b] = [&self.a, &self.b].map(|path| name_of(path));
        let (dense_a, dense_b) =
            pairs.iter().filter(|pair| self.way(pair) == Way::Dense).filter_map(Pair::both).unzip();
        let mut reading = Reading {
            a: read_ahead(scope, path_a, dense_a),
            b: read_ahead(scope, path_b, dense_b),
            progress: Progress::bytes(pairs.iter().filter(|pair| self.way(pair) != Way::No).map(Pair::bytes).sum()),
        };
        let mut found = Vec::new();
        for pair in pairs {
            let values = match (pair.both(), self.way(pair)) {
                (Some((a, b)), Way::Dense) => Some(self.compare_dense(a, b, &mut reading)?),
                (Some((a, b)), Way::Sparse) => {
                    reading.progress.advance(usize::try_from(pair.bytes()).unwrap_or(usize::MAX));
                    Some(compare_sparse(&a.read().at(path_a)?, &b.read().at(path_b)?, self.tolerance))
                }
                _ => None,
            };
            found.extend(self.difference(pair, values));
            if self.quiet && !found.is_empty() {
                break;
            }
        }
        Ok(found)
    }

    /// How the values of a pair are compared.
    fn way(&self, pair: &Pair<'_>) -> Way {
        let is_wanted = !self.depth.names_only && !self.depth.no_values;
        let Some((a, b)) =
            pair.both().filter(|(a, b)| is_wanted && a.shape() == b.shape() && are_comparable([a.dtype(), b.dtype()]))
        else {
            return Way::No;
        };
        match (Kind::of(a.info()), Kind::of(b.info())) {
            (Kind::Sparse, Kind::Sparse) => Way::Sparse,
            (a, b) if a == b => Way::Dense,
            _ => Way::No,
        }
    }

    fn compare_dense(&self, a: FileTensor<'_>, b: FileTensor<'_>, reading: &mut Reading) -> Outcome<Differences> {
        let mut comparison = Comparison::new([a.dtype(), b.dtype()], a.shape(), self.tolerance);
        for _ in 0..a.shape().elements().unwrap_or_default().div_ceil(PIECE) {
            // The threads send as many pieces, or a failure.
            let (Ok(a), Ok(b)) = (reading.a.recv(), reading.b.recv()) else { break };
            let (a, b) = (a?, b?);
            comparison.update(&a, &b);
            reading.progress.advance(a.len() + b.len());
            if self.quiet && comparison.has_differences() {
                break;
            }
        }
        Ok(comparison.finish())
    }

    /// What a pair differs in, if it does.
    fn difference<'f>(&self, pair: &Pair<'f>, values: Option<Differences>) -> Option<Difference<'f>> {
        let what = match (pair.a, pair.b) {
            (Some(_), None) => vec![What::OnlyInA],
            (None, _) => vec![What::OnlyInB],
            (Some(_), Some(_)) if self.depth.names_only => vec![],
            (Some(a), Some(b)) => {
                let (a, b) = (a.info(), b.info());
                let is_one_dtype = a.dtype == b.dtype || self.ignore_dtype && are_comparable([a.dtype, b.dtype]);
                let differ = [
                    (What::Dtype, !is_one_dtype),
                    (What::Shape, a.shape != b.shape),
                    (What::Kind, Kind::of(a) != Kind::of(b)),
                    (What::Values, values.as_ref().is_some_and(|values| values.differing > 0)),
                ];
                differ.into_iter().filter(|(_, differs)| *differs).map(|(what, _)| what).collect()
            }
        };
        let (a, b) = (pair.a.map(Listed::from), pair.b.map(Listed::from));
        (!what.is_empty()).then(|| Difference { name: pair.name(), what, a, b, values })
    }

    fn metadata_differences(&self, a: &File, b: &File) -> Outcome<Vec<Entry>> {
        let a = a.metadata().at(name_of(&self.a))?.entries;
        let b = b.metadata().at(name_of(&self.b))?.entries;
        let keys: IndexSet<&String> = a.keys().chain(b.keys()).collect();
        let entries = keys.into_iter().filter(|key| a.get(*key) != b.get(*key));
        let entry = |key: &String| Entry { key: key.clone(), a: a.get(key).cloned(), b: b.get(key).cloned() };
        Ok(entries.map(entry).collect())
    }

    fn print(&self, found: &Found<'_>, out: &mut Out) -> io::Result<()> {
        let mut table = Table::without_header([Column::Left, Column::Left, Column::Left]);
        for difference in &found.tensors {
            table.row([difference.mark(), difference.name, &difference.text()]);
        }
        for Entry { key, a, b } in &found.metadata {
            let key = format!("metadata {key}");
            let quoted = |text: &Option<String>| format!("{:?}", text.as_deref().unwrap_or_default());
            match (a, b) {
                (a, None) => table.row(["-", &key, &quoted(a)]),
                (None, b) => table.row(["+", &key, &quoted(b)]),
                (a, b) => table.row(["~", &key, &format!("{} -> {}", quoted(a), quoted(b))]),
            }
        }
        table.print(out)?;
        writeln!(out, "{}", plain(&self.summary(found)))
    }

    fn summary(&self, found: &Found<'_>) -> String {
        let count = |what: What| found.tensors.iter().filter(|difference| difference.what.contains(&what)).count();
        let [only_a, only_b] = [What::OnlyInA, What::OnlyInB].map(count);
        let different = found.tensors.len() - only_a - only_b;
        let equal = counted((found.compared - found.tensors.len()) as u64, "tensor");
        let mut parts = vec![format!("{equal} equal{}", self.depth.words())];
        let mut part = |count: usize, text: &str| {
            if count > 0 {
                parts.push(format!("{} {text}", crate::size::count(count as u64)));
            }
        };
        part(different, "different");
        part(only_a, &format!("only in {}", name_of(&self.a).display()));
        part(only_b, &format!("only in {}", name_of(&self.b).display()));
        part(found.metadata.len(), "different in the metadata");
        parts.join(", ")
    }
}

/// A tensor of A and the one of B that it is compared with; one of them is there.
#[derive(Debug, Clone, Copy)]
struct Pair<'f> {
    a: Option<FileTensor<'f>>,
    b: Option<FileTensor<'f>>,
}

fn by_name<'f>(a: &'f File, b: &'f File) -> Vec<Pair<'f>> {
    let mut left: HashMap<&str, FileTensor<'f>> = b.tensors().map(|tensor| (tensor.name(), tensor)).collect();
    let in_a = a.tensors().map(|tensor| Pair { a: Some(tensor), b: left.remove(tensor.name()) });
    let mut pairs: Vec<Pair<'f>> = in_a.collect();
    let only_in_b = b.tensors().filter(|tensor| left.contains_key(tensor.name()));
    pairs.extend(only_in_b.map(|tensor| Pair { a: None, b: Some(tensor) }));
    pairs
}

fn by_position<'f>(a: &'f File, b: &'f File) -> Vec<Pair<'f>> {
    let (mut in_a, mut in_b) = (a.tensors(), b.tensors());
    (0..a.len().max(b.len())).map(|_| Pair { a: in_a.next(), b: in_b.next() }).collect()
}

impl<'f> Pair<'f> {
    fn both(&self) -> Option<(FileTensor<'f>, FileTensor<'f>)> {
        self.a.zip(self.b)
    }

    /// The name in A, or the one in B where A has none.
    fn name(&self) -> &'f str {
        let named = [self.a, self.b].into_iter().flatten().find(FileTensor::has_name);
        named.or(self.a).or(self.b).map_or("", |tensor| tensor.name())
    }

    fn bytes(&self) -> u64 {
        [self.a, self.b].iter().flatten().map(FileTensor::payload_bytes).sum()
    }
}

/// How the values of a pair are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Element by element.
    Dense,
    /// By coordinates.
    Sparse,
    /// Not at all.
    No,
}

/// What cannot be compared with another kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Dense,
    Sparse,
    Blob,
}

impl Kind {
    fn of(info: &TensorInfo) -> Self {
        match info.layout {
            Layout::Coo { .. } => Self::Sparse,
            Layout::Blob => Self::Blob,
            _ => Self::Dense,
        }
    }
}

/// The dense tensors of both files as they are read.
struct Reading {
    a: Pieces,
    b: Pieces,
    progress: Progress,
}

#[derive(Debug, Serialize)]
struct Found<'f> {
    equal: bool,
    /// The names in any of both files.
    compared: usize,
    tensors: Vec<Difference<'f>>,
    metadata: Vec<Entry>,
}

/// A tensor that is not the same in both files.
#[derive(Debug, Serialize)]
struct Difference<'f> {
    name: &'f str,
    what: Vec<What>,
    a: Option<Listed<'f>>,
    b: Option<Listed<'f>>,
    /// `None` where values were not compared.
    values: Option<Differences>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum What {
    OnlyInA,
    OnlyInB,
    Dtype,
    Shape,
    /// Dense, sparse or a blob.
    Kind,
    Values,
}

/// An entry of metadata that is not the same in both files.
#[derive(Debug, Serialize)]
struct Entry {
    key: String,
    a: Option<String>,
    b: Option<String>,
}

impl Difference<'_> {
    fn mark(&self) -> &'static str {
        match (self.a, self.b) {
            (_, None) => "-",
            (None, _) => "+",
            _ => "~",
        }
    }

    fn text(&self) -> String {
        let (Some(a), Some(b)) = (self.a, self.b) else {
            return [self.a, self.b].iter().flatten().map(|tensor| listed::kind(tensor.info)).collect();
        };
        let mut parts = Vec::new();
        if self.what != [What::Values] {
            parts.push(format!("{} -> {}", listed::kind(a.info), listed::kind(b.info)));
        }
        parts.extend(self.values.as_ref().map(|values| match values.differing {
            0 => "equal values".to_owned(),
            _ => values.sentence(),
        }));
        parts.join("; ")
    }
}
