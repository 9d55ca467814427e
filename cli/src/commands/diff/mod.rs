mod compare;
mod read;
mod report;

use std::collections::HashSet;
use std::path::PathBuf;
use std::thread::Scope;

use indexmap::IndexSet;
use tensorfile::file::FileTensor;
use tensorfile::{File, Layout, Shape, TensorInfo};

use crate::args::{Decoding, Filter, MapArgs, Rename, Unnamed, display_name, format_names, is_stdin, open};
use crate::exit::{At, Failure, Outcome, Verdict};
use crate::output::tensors::{TensorRow, is_unknown, is_unseen};
use crate::output::{Progress, Stdout, Wide, note};

use compare::{Comparison, PIECE, Tolerance, are_comparable, compare_sparse};
use read::{ElementStream, read_ahead};
use report::{FileWarning, Uncompared};

pub use compare::ValueDiff;
pub use report::{Aspect, DiffReport, MetadataDiff, TensorDiff};

/// Compare the names, dtypes, shapes and values of two files in any formats.
///
/// Each line is a tensor: `-` if only A has it, `+` if only B has it, and `~` if it differs, with A before an arrow and
/// B after it. If values differ, you see how many, and the largest absolute and relative differences (relative to B).
/// The order of tensors and the memory order of elements do not matter.
///
/// Use --rename to rename the tensors of A before the comparison. If both files have one tensor, and one of these is
/// unnamed, as in npy files, they are compared.
///
/// Values are compared as numbers, across dtypes too, and must be equal unless you pass a tolerance. NaN equals NaN,
/// and 0.0 equals -0.0. Quantized and packed elements are compared as bits, and only with the same dtype. Sparse
/// tensors are equal if they store the same elements; they are not compared with dense tensors.
///
/// Values are read in pieces. A tensor that is sparse or not in row-major order is read into memory.
#[derive(Debug, Default, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Diff {
    /// The first file; `-` for standard input
    a: PathBuf,
    /// The second file; `-` for standard input
    b: PathBuf,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    decoding: Decoding,
    #[command(flatten)]
    mapping: MapArgs,
    #[command(flatten)]
    rename: Rename,
    #[command(flatten)]
    tolerance: Tolerance,
    /// Compare tensors at the same position instead of those with the same name
    #[arg(long, conflicts_with = "renames")]
    by_position: bool,
    /// Treat tensors as equal if only their dtypes differ
    #[arg(long, conflicts_with = "names_only")]
    ignore_dtype: bool,
    #[command(flatten)]
    depth: Depth,
    /// Also compare metadata
    #[arg(long)]
    metadata: bool,
    /// Print nothing, and stop at the first difference
    #[arg(long, short, conflicts_with = "json")]
    quiet: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    wide: Wide,
    /// Read A as this format instead of detecting it
    #[arg(long, value_name = "FORMAT", value_parser = format_names())]
    from_a: Option<String>,
    /// Read B as this format instead of detecting it
    #[arg(long, value_name = "FORMAT", value_parser = format_names())]
    from_b: Option<String>,
}

#[derive(Debug, Default, clap::Args)]
#[group(multiple = false)]
struct Depth {
    /// Compare only names
    #[arg(long)]
    names_only: bool,
    /// Compare only names, dtypes and shapes; payloads are not read
    #[arg(long)]
    no_values: bool,
}

const EXAMPLES: &str = "\
Examples:
  tensorfile diff model.safetensors model.ptd
  tensorfile diff --atol 1e-6 --rtol 1e-5 before.ptd after.ptd
  tensorfile diff --ignore-dtype --rtol 0.01 --filter '*.weight' model.ptd model-bf16.ptd
  tensorfile diff --by-position named.ptd nameless.btf
  tensorfile diff llama.gguf model.ptd --rename 'blk.*.attn_q.*=layers.*.q_proj.*'
  tensorfile diff --quiet a.ptd b.ptd || echo they differ";

impl Diff {
    /// A comparison of the files at these paths and of their metadata, with no other arguments than these.
    pub fn between([a, b]: [PathBuf; 2], filter: Filter, no_values: bool) -> Self {
        Self { a, b, filter, depth: Depth { no_values, ..Depth::default() }, metadata: true, ..Self::default() }
    }

    pub fn run(&self, out: &mut Stdout) -> Outcome {
        self.decoding.apply();
        self.mapping.apply(false)?;
        let outcome = self.compare(out);
        if let Err(failure) = &outcome
            && self.json
            && let Some((file, error)) = failure.unlisted()
        {
            let [a, b] = [&self.a, &self.b].map(|path| display_name(path).display().to_string());
            out.json(&Uncompared { a, b, file, error })?;
        }
        outcome
    }

    fn compare(&self, out: &mut Stdout) -> Outcome {
        if is_stdin(&self.a) && is_stdin(&self.b) {
            return Err(Failure::usage("only one of the files can be standard input"));
        }
        let a = open(&self.a, self.from_a.as_deref())?;
        // Only the first file is in another layout.
        self.mapping.end();
        let b = open(&self.b, self.from_b.as_deref())?;
        let report = self.report(&a, &b)?;
        if self.json {
            out.json(&report)?;
        } else if !self.quiet {
            report.print(self.wide.width(out), out)?;
        }
        Ok(Verdict::from_pass(report.equal))
    }

    /// Compares the open files.
    pub fn report<'f>(&self, a: &'f File, b: &'f File) -> Outcome<DiffReport<'f>> {
        // A rename or another format makes other pairs.
        let are_known_equal = self.rename.is_empty() && a.format().name == b.format().name && a.is_known_equal(b);
        let mut pairs = if self.rename.is_empty() {
            Pairs::new(a, b, self.by_position)
        } else {
            Pairs::renamed(a, b, self.new_names(a)?)
        };
        pairs.are_known_equal = are_known_equal;
        if !pairs.is_empty() && pairs.iter().all(|pair| pair.both().is_none()) {
            self.suggest_by_position(a, b);
        }
        pairs.retain(|pair| self.filter.matches(pair.name()));
        self.filter.expect_some(pairs.len())?;

        let metadata = if self.metadata { self.metadata_diffs(a, b)? } else { Vec::new() };
        let tensors = if self.quiet && !metadata.is_empty() {
            Vec::new()
        } else {
            std::thread::scope(|scope| self.tensor_diffs(scope, &pairs))?
        };
        let [name_a, name_b] = [&self.a, &self.b].map(|path| display_name(path).display().to_string());
        let equal = tensors.is_empty() && metadata.is_empty();
        let (compared, known_equal) = (pairs.len(), pairs.are_known_equal);
        let equal_by = self.equal_by(known_equal);
        let warnings = || FileWarning::of_file(&name_a, a).chain(FileWarning::of_file(&name_b, b)).collect();
        let warnings = if self.json { warnings() } else { Vec::new() };
        let (a, b) = (name_a, name_b);
        Ok(DiffReport { a, b, equal, compared, known_equal, tensors, metadata, warnings, equal_by })
    }

    /// Returns the names of the tensors of A for the comparison.
    fn new_names(&self, a: &File) -> Outcome<Vec<String>> {
        let path = display_name(&self.a);
        let names = self.rename.new_names(&[(a, path)], Unnamed::Numbered(0), None)?;
        names.iter().try_for_each(|names| names.expect_unique(path))?;
        Ok(a.tensors().map(|tensor| names[0].name(tensor.position()).to_owned()).collect())
    }

    /// Describes the comparison of equal tensors, unless it was a full one.
    fn equal_by(&self, is_known: bool) -> &'static str {
        match (self.depth.names_only, self.depth.no_values) {
            (true, _) => " by name",
            (_, true) if self.ignore_dtype => " by name and shape",
            (_, true) => " by name, dtype and shape",
            _ if is_known => " by the digest or entity tag of the servers; no values were read",
            _ => "",
        }
    }

    /// Suggests `--by-position` for files without names.
    fn suggest_by_position(&self, a: &File, b: &File) {
        for (file, path) in [(a, &self.a), (b, &self.b)] {
            if !file.is_empty() && !has_names(file) {
                let path = display_name(path).display();
                note(format_args!("{path} has no names; `diff --by-position` compares tensors at the same position"));
            }
        }
    }

    fn tensor_diffs<'scope, 'f: 'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        pairs: &'scope Pairs<'f>,
    ) -> Outcome<Vec<TensorDiff<'f>>> {
        let [path_a, path_b] = [&self.a, &self.b].map(|path| display_name(path));
        let dense =
            || pairs.iter().filter(|pair| self.method(pairs, pair) == Method::InPieces).filter_map(|pair| pair.both());
        let compared = pairs.iter().filter(|pair| self.method(pairs, pair) != Method::None);
        let mut reading = ReadAhead {
            a: read_ahead(scope, path_a, dense().map(|(a, _)| a)),
            b: read_ahead(scope, path_b, dense().map(|(_, b)| b)),
            progress: Progress::bytes(compared.map(|pair| pair.bytes()).sum()),
        };
        let mut diffs = Vec::new();
        for pair in pairs.iter() {
            let values = match (pair.both(), self.method(pairs, &pair)) {
                (Some((a, b)), Method::AtPositions) => Some(self.compare_at_positions(a, b, &mut reading.progress)?),
                (Some((a, b)), Method::InPieces) => Some(self.compare_in_pieces(a, b, &mut reading)?),
                (Some((a, b)), Method::Sparse) => {
                    reading.progress.advance(usize::try_from(pair.bytes()).unwrap_or(usize::MAX));
                    Some(compare_sparse(&a.read().at(path_a)?, &b.read().at(path_b)?, self.tolerance))
                }
                _ => None,
            };
            diffs.extend(self.tensor_diff(pairs, &pair, values));
            if self.quiet && !diffs.is_empty() {
                break;
            }
        }
        Ok(diffs)
    }

    /// Returns the method for comparing the values of a pair.
    fn method(&self, pairs: &Pairs<'_>, pair: &Pair<'_>) -> Method {
        let reads_values = !pairs.are_known_equal && !self.depth.names_only && !self.depth.no_values;
        let is_comparable = |(a, b): &(FileTensor<'_>, FileTensor<'_>)| {
            a.shape() == b.shape() && are_comparable([a.dtype(), b.dtype()]) && have_same_tag(a.info(), b.info())
        };
        let Some((a, b)) = pair.both().filter(|pair| reads_values && is_comparable(pair)) else { return Method::None };
        match (TensorKind::of(a.info()), TensorKind::of(b.info())) {
            (TensorKind::Sparse, TensorKind::Sparse) => Method::Sparse,
            (in_a, in_b) if in_a == in_b => {
                if is_read_at_positions(a) && is_read_at_positions(b) {
                    Method::AtPositions
                } else {
                    Method::InPieces
                }
            }
            _ => Method::None,
        }
    }

    fn compare_at_positions(
        &self,
        a: FileTensor<'_>,
        b: FileTensor<'_>,
        progress: &mut Progress,
    ) -> Outcome<ValueDiff> {
        let [path_a, path_b] = [&self.a, &self.b].map(|path| display_name(path));
        let read = |start_a: u64, to_a: &mut [u8], start_b: u64, to_b: &mut [u8]| {
            a.read_at(start_a, to_a).at(path_a)?;
            b.read_at(start_b, to_b).at(path_b)
        };
        let shape = compared_shape(a);
        let elements = shape.elements().unwrap_or_default();
        let comparison = Comparison::new([a.dtype(), b.dtype()], &shape, self.tolerance);
        comparison.of_all(elements, &read, self.quiet, &mut |bytes| progress.advance(bytes))
    }

    fn compare_in_pieces(
        &self,
        a: FileTensor<'_>,
        b: FileTensor<'_>,
        reading: &mut ReadAhead<'_>,
    ) -> Outcome<ValueDiff> {
        let shape = compared_shape(a);
        let mut comparison = Comparison::new([a.dtype(), b.dtype()], &shape, self.tolerance);
        let mut left = shape.elements().unwrap_or_default();
        while left > 0 {
            let now = left.min(PIECE);
            left -= now;
            // Packed dtypes have several elements in a byte. A piece has whole bytes.
            let [bytes_a, bytes_b] = [a, b].map(|tensor| tensor.dtype().bytes_for(now).unwrap_or(0));
            let (a, b) = (reading.a.next(bytes_a)?, reading.b.next(bytes_b)?);
            comparison.update(a, b);
            reading.progress.advance(a.len() + b.len());
            // With `--quiet`, nothing is read after the first difference.
            if self.quiet && comparison.has_differences() {
                break;
            }
        }
        Ok(comparison.finish())
    }

    /// Returns the differences of a pair, if it has any.
    fn tensor_diff<'f>(&self, pairs: &Pairs<'f>, pair: &Pair<'f>, values: Option<ValueDiff>) -> Option<TensorDiff<'f>> {
        let what = match (pair.a, pair.b) {
            (Some(_), None) => vec![Aspect::OnlyInA],
            (None, _) => vec![Aspect::OnlyInB],
            (Some(_), Some(_)) if self.depth.names_only => vec![],
            (Some(a), Some(b)) => {
                let is_unread = is_unseen(pairs.a, a) || is_unseen(pairs.b, b);
                let (a, b) = (a.info(), b.info());
                let same_dtype = a.dtype == b.dtype || self.ignore_dtype && are_comparable([a.dtype, b.dtype]);
                let same_dtype = same_dtype && have_same_tag(a, b);
                let differ = [
                    (Aspect::Dtype, !same_dtype),
                    (Aspect::Shape, a.shape != b.shape),
                    (Aspect::Kind, TensorKind::of(a) != TensorKind::of(b)),
                    (Aspect::Values, values.as_ref().is_some_and(|values| values.differing > 0)),
                    (Aspect::Unread, !self.depth.no_values && is_unread),
                ];
                differ.into_iter().filter(|(_, differs)| *differs).map(|(aspect, _)| aspect).collect()
            }
        };
        let (a, b) = (pair.a.map(TensorRow::from), pair.b.map(TensorRow::from));
        (!what.is_empty()).then(|| TensorDiff { name: pair.name(), what, a, b, values })
    }

    fn metadata_diffs(&self, a: &File, b: &File) -> Outcome<Vec<MetadataDiff>> {
        let a = a.metadata().at(display_name(&self.a))?.entries;
        let b = b.metadata().at(display_name(&self.b))?.entries;
        let keys: IndexSet<&String> = a.keys().chain(b.keys()).collect();
        let differ = keys.into_iter().filter(|key| a.get(*key) != b.get(*key));
        let diff = |key: &String| MetadataDiff { key: key.clone(), a: a.get(key).cloned(), b: b.get(key).cloned() };
        Ok(differ.map(diff).collect())
    }
}

/// A tensor of A and its partner in B. At least one of them exists.
#[derive(Debug, Clone, Copy)]
struct Pair<'f> {
    a: Option<FileTensor<'f>>,
    b: Option<FileTensor<'f>>,
    is_renamed: bool,
}

/// The tensors of both files, by their positions, as there may be millions.
struct Pairs<'f> {
    a: &'f File,
    b: &'f File,
    positions: Vec<[Position; 2]>,
    /// The tensors of A were renamed: the common names are the names in B.
    is_renamed: bool,
    /// The servers of the files say that they are equal.
    are_known_equal: bool,
}

/// A position. [`NONE`] stands for no tensor, as an `Option` would take twice the memory.
type Position = usize;
const NONE: Position = usize::MAX;

impl<'f> Pairs<'f> {
    fn new(a: &'f File, b: &'f File, by_position: bool) -> Self {
        let positions = match by_position {
            true => {
                let within = |file: &File, index| if index < file.len() { index } else { NONE };
                (0..a.len().max(b.len())).map(|index| [within(a, index), within(b, index)]).collect()
            }
            // A tensor without a name has no partner.
            false if a.len() == 1 && b.len() == 1 && !(has_names(a) && has_names(b)) => vec![[0, 0]],
            false => by_name(a, b),
        };
        Self { a, b, positions, is_renamed: false, are_known_equal: false }
    }

    /// Pairs tensors of A, under other names, with tensors of B.
    fn renamed(a: &'f File, b: &'f File, names: Vec<String>) -> Self {
        let partners: Vec<Position> = names.iter().map(|name| b.position(name).unwrap_or(NONE)).collect();
        let taken: HashSet<Position> = partners.iter().copied().collect();
        let mut positions: Vec<[Position; 2]> = partners.into_iter().enumerate().map(|(a, b)| [a, b]).collect();
        positions.extend((0..b.len()).filter(|position| !taken.contains(position)).map(|position| [NONE, position]));
        Self { a, b, positions, is_renamed: true, are_known_equal: false }
    }

    fn iter(&self) -> impl Iterator<Item = Pair<'f>> {
        self.positions.iter().map(|positions| self.pair(*positions))
    }

    fn pair(&self, [a, b]: [Position; 2]) -> Pair<'f> {
        Pair { a: self.a.nth(a), b: self.b.nth(b), is_renamed: self.is_renamed }
    }

    fn retain(&mut self, keep: impl Fn(&Pair<'f>) -> bool) {
        let mut positions = std::mem::take(&mut self.positions);
        positions.retain(|positions| keep(&self.pair(*positions)));
        self.positions = positions;
    }

    fn len(&self) -> usize {
        self.positions.len()
    }

    fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }
}

fn has_names(file: &File) -> bool {
    file.tensors().any(|tensor| tensor.has_name())
}

/// Pairs tensors of the same name. If a name repeats in a file, later tensors must have the same position too.
fn by_name(a: &File, b: &File) -> Vec<[Position; 2]> {
    /// Returns the tensors of `file`, each with the position of its partner in `other`.
    fn partners(file: &File, other: &File) -> impl Iterator<Item = [Position; 2]> {
        file.tensors().map(|tensor| {
            let (index, name) = (tensor.position(), tensor.name());
            let first = other.position(name);
            let partner = if file.position(name) == Some(index) {
                first
            } else {
                other.nth(index).filter(|other| other.name() == name && first != Some(index)).map(|_| index)
            };
            [index, partner.unwrap_or(NONE)]
        })
    }

    let mut pairs = Vec::with_capacity(a.len());
    pairs.extend(partners(a, b));
    pairs.extend(partners(b, a).filter(|[_, in_a]| *in_a == NONE).map(|[index, _]| [NONE, index]));
    pairs
}

impl<'f> Pair<'f> {
    fn both(&self) -> Option<(FileTensor<'f>, FileTensor<'f>)> {
        self.a.zip(self.b)
    }

    /// Returns the name in A, or the name in B if A has none or was renamed.
    fn name(&self) -> &'f str {
        let both = if self.is_renamed { [self.b, self.a] } else { [self.a, self.b] };
        let named = both.into_iter().flatten().find(FileTensor::has_name);
        named.or(self.a).or(self.b).map_or("", |tensor| tensor.name())
    }

    fn bytes(&self) -> u64 {
        [self.a, self.b].iter().flatten().map(FileTensor::payload_bytes).sum()
    }
}

/// A way to compare the values of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    /// Element by element, on several threads.
    AtPositions,
    /// Element by element, read ahead.
    InPieces,
    /// By coordinates.
    Sparse,
    None,
}

/// Returns whether parts of a payload can be read, and are worth it.
fn is_read_at_positions(tensor: FileTensor<'_>) -> bool {
    /// The fewest bytes worth several threads.
    const LARGE: u64 = 2 << 20;
    let is_in_order = !matches!(tensor.layout(), Layout::DimOrder(_));
    is_in_order && tensor.payload_bytes() >= LARGE && tensor.read_at(0, &mut []).is_ok()
}

/// Returns whether unknown dtypes have the same name, and payloads of the same length.
fn have_same_tag(a: &TensorInfo, b: &TensorInfo) -> bool {
    let is_known = !is_unknown(a) && !is_unknown(b);
    is_known || a.layout == b.layout
}

/// Returns the shape to compare: of an unknown dtype, a vector of bytes.
fn compared_shape(tensor: FileTensor<'_>) -> Shape {
    match tensor.info().unknown_dtype() {
        Some(_) => [usize::try_from(tensor.payload_bytes()).unwrap_or(usize::MAX)].into(),
        None => tensor.shape().clone(),
    }
}

/// The kind of a tensor. Tensors of different kinds are not compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TensorKind {
    Dense,
    Sparse,
    Blob,
    Unknown,
}

impl TensorKind {
    fn of(info: &TensorInfo) -> Self {
        match info.layout {
            Layout::Coo { .. } => Self::Sparse,
            Layout::Blob => Self::Blob,
            Layout::Unknown(_) => Self::Unknown,
            _ => Self::Dense,
        }
    }
}

/// The dense tensors of both files, read ahead by threads.
struct ReadAhead<'f> {
    a: ElementStream<'f>,
    b: ElementStream<'f>,
    progress: Progress,
}
