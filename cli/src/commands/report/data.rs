//! The data of the page.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};
use tensorfile::file::FileTensor;
use tensorfile::model::FileMetadata;
use tensorfile::report::WarningKind;
use tensorfile::view::Scalar;
use tensorfile::{File, Warning};

use super::coverage::{Coverage, shard_numbers};
use super::values::{NoValues, Reader, Values, no_values};
use crate::args::{Filter, display_name, open};
use crate::commands::diff::{self, Aspect};
use crate::commands::info::{Description, cut};
use crate::commands::stats::is_quantized;
use crate::exit::{At, Outcome};
use crate::output::Progress;
use crate::output::numbers::counted;
use crate::output::tensors::{TensorRow, Total, dtype_label, shape_label, type_label};

/// The most listed tensors of all files together, and the most bytes of their names and shapes.
const LISTED: usize = 200_000;
const NAMES: usize = 24 << 20;
/// The most listed differences.
const DIFFERENCES: usize = 50_000;
/// The most entries of metadata and warnings of a file.
const ENTRIES: usize = 1000;
/// The most characters of each.
const LONGEST: usize = 1000;

/// The data of the page, and the output of `--json`.
#[derive(Debug, Serialize)]
pub struct Page<'f> {
    pub program: &'static str,
    /// The most bytes read of a tensor; `None` if no values were read.
    pub sample: Option<u64>,
    pub files: Vec<FileData<'f>>,
    /// The differences, if there are two files.
    pub diff: Option<DiffData>,
}

/// A file.
#[derive(Debug, Serialize)]
pub struct FileData<'f> {
    info: Description<'f>,
    /// The number of omitted entries of metadata.
    metadata_left_out: usize,
    /// The listed tensors, in the order of the file.
    tensors: TensorRows<'f>,
    /// The sums over the omitted tensors.
    left_out: Total,
    /// The file, or its shards.
    coverage: Vec<Coverage>,
    /// The number of tensors with values chosen by the filter.
    with_values: usize,
    /// The values of the read tensors.
    values: Vec<Values>,
}

/// A file to show.
#[derive(Debug)]
pub struct SourceFile {
    pub path: PathBuf,
    pub file: File,
    /// The metadata, with long texts cut.
    metadata: FileMetadata,
    metadata_left_out: usize,
}

impl SourceFile {
    pub fn open(path: PathBuf, from: Option<&str>) -> Outcome<Self> {
        let file = open(&path, from)?;
        let mut metadata = file.metadata().at(display_name(&path))?;
        let all = metadata.entries.len();
        let entries = metadata.entries.into_iter().take(ENTRIES);
        metadata.entries = entries.map(|(key, value)| (cut(&key, LONGEST), cut(&value, LONGEST))).collect();
        let more = metadata.warnings.len().saturating_sub(ENTRIES);
        metadata.warnings.truncate(ENTRIES);
        metadata.warnings.iter_mut().for_each(|warning| warning.text = cut(&warning.text, LONGEST));
        if more > 0 {
            let text = format!("{} are left out", counted(more, "more warning"));
            metadata.warnings.push(Warning::new(WarningKind::LeftOut, text));
        }
        let metadata_left_out = all - metadata.entries.len();
        Ok(Self { path, file, metadata, metadata_left_out })
    }
}

/// Chooses the tensors to read.
#[derive(Debug, Clone, Copy)]
pub struct Choice<'a> {
    pub filter: &'a Filter,
    /// The most bytes of a tensor; `None` to read no values.
    pub sample: Option<u64>,
    /// The most tensors of a file.
    pub charts: usize,
    /// The number of files sharing the limits of the page.
    pub files: usize,
}

impl<'f> FileData<'f> {
    /// Collects the data of a file, and reads values.
    pub fn of(source: &'f SourceFile, choice: Choice<'_>) -> Outcome<Self> {
        let SourceFile { path, file, metadata, metadata_left_out } = source;
        let path = display_name(path);
        let with_values =
            || file.tensors().filter(|tensor| choice.filter.matches(tensor.name()) && no_values(*tensor).is_none());
        let read = choice.sample.map_or_else(Vec::new, |_| largest(with_values(), choice.charts));
        let listed = listed(file, &read, choice.files);
        let all = Total::of(file.tensors().map(TensorRow::from));
        let shown = Total::of(listed.iter().filter_map(|index| file.nth(*index)).map(TensorRow::from));
        Ok(Self {
            info: Description::of(path, file, metadata),
            metadata_left_out: *metadata_left_out,
            left_out: Total {
                tensors: all.tensors - shown.tensors,
                parameters: all.parameters.saturating_sub(shown.parameters),
                bytes: all.bytes.saturating_sub(shown.bytes),
            },
            coverage: Coverage::of_file(file),
            with_values: with_values().count(),
            values: values(path, file, &read, &listed, choice.sample.unwrap_or_default())?,
            tensors: TensorRows { file, listed },
        })
    }
}

/// Reads the values of tensors. A tensor with a name too long for the page is omitted, as in the list.
fn values(path: &Path, file: &File, tensors: &[usize], listed: &[usize], sample: u64) -> Outcome<Vec<Values>> {
    let tensors = || tensors.iter().filter_map(|index| Some((listed.binary_search(index).ok()?, file.nth(*index)?)));
    let total = tensors().map(|(_, tensor)| tensor.payload_bytes().min(sample)).sum();
    let mut reader = Reader { path, sample, progress: Progress::bytes(total) };
    tensors().filter_map(|(row, tensor)| reader.read(row, tensor).transpose()).collect()
}

/// Returns the positions of the largest tensors, the largest first.
fn largest<'f>(tensors: impl Iterator<Item = FileTensor<'f>>, most: usize) -> Vec<usize> {
    let key = |tensor: FileTensor<'_>| (Reverse(tensor.payload_bytes()), tensor.position());
    let mut sizes: Vec<(Reverse<u64>, usize)> = tensors.map(key).collect();
    if sizes.len() > most {
        sizes.select_nth_unstable(most);
        sizes.truncate(most);
    }
    sizes.sort_unstable();
    sizes.into_iter().map(|(_, index)| index).collect()
}

/// Returns the positions of the listed tensors: all, or the largest and all with values.
fn listed(file: &File, read: &[usize], files: usize) -> Vec<usize> {
    /// The bytes of a dim in a shape, at most.
    const DIM: usize = 22;
    let (most, mut names) = (LISTED / files, NAMES / files);
    let text =
        |tensor: FileTensor<'_>| tensor.name().len() + dtype_label(tensor.info()).len() + tensor.shape().len() * DIM;
    let is_all = file.len() <= most && file.tensors().map(text).sum::<usize>() <= names;
    if is_all {
        return (0..file.len()).collect();
    }
    let mut listed = BTreeSet::new();
    for tensor in read.iter().copied().chain(largest(file.tensors(), most)).filter_map(|index| file.nth(index)) {
        if listed.len() == most {
            break;
        }
        if let Some(left) = names.checked_sub(text(tensor)).filter(|_| !listed.contains(&tensor.position())) {
            names = left;
            listed.insert(tensor.position());
        }
    }
    listed.into_iter().collect()
}

/// Tensors in the order of their positions, serialized one by one.
#[derive(Debug)]
struct TensorRows<'f> {
    file: &'f File,
    listed: Vec<usize>,
}

impl Serialize for TensorRows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let shards = shard_numbers(self.file);
        let tensors = self.listed.iter().filter_map(|index| self.file.nth(*index));
        serializer.collect_seq(tensors.map(|tensor| Row::of(tensor, &shards)))
    }
}

/// A tensor.
#[derive(Debug, Serialize)]
struct Row<'f> {
    name: &'f str,
    dtype: &'f str,
    /// The shape as text, with the layout.
    shape: String,
    parameters: u64,
    /// The bytes in the file.
    bytes: u64,
    /// The bytes of the payload, if they are compressed in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    decoded: Option<u64>,
    offset: u64,
    #[serde(skip_serializing_if = "is_zero")]
    shard: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    no_values: Option<NoValues>,
    /// The values are integers, quantized from other numbers.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    quantized: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl<'f> Row<'f> {
    fn of(tensor: FileTensor<'f>, shards: &HashMap<&Path, usize>) -> Self {
        let row = TensorRow::from(tensor);
        Self {
            name: row.name,
            dtype: dtype_label(row.info),
            shape: shape_label(row.info),
            parameters: Total::of([row]).parameters,
            bytes: row.bytes,
            decoded: Some(tensor.payload_bytes()).filter(|decoded| *decoded != row.bytes),
            offset: row.offset,
            shard: tensor.path().and_then(|path| shards.get(path)).copied().unwrap_or_default(),
            no_values: no_values(tensor),
            quantized: is_quantized(tensor),
        }
    }
}

/// The differences between two files.
#[derive(Debug, Serialize)]
pub struct DiffData {
    a: String,
    b: String,
    equal: bool,
    /// A sentence.
    summary: String,
    /// Only the tensors chosen by the filter were compared.
    filtered: bool,
    tensors: Vec<DiffRow>,
    /// The number of different tensors not listed.
    left_out: usize,
    metadata: Vec<diff::MetadataDiff>,
}

#[derive(Debug, Serialize)]
struct DiffRow {
    name: String,
    what: Vec<Aspect>,
    /// The offsets in both files.
    offsets: [Option<u64>; 2],
    /// The dtype and the shape.
    a: Option<String>,
    b: Option<String>,
    /// A line about the values; `None` if they were not compared.
    values: Option<String>,
    /// The fraction of different elements.
    part: Option<f64>,
    #[serde(serialize_with = "as_scalar")]
    max_abs: Option<f64>,
}

/// Serializes a number as an element, as JSON has no infinity.
#[expect(clippy::ref_option, reason = "serde passes a reference")]
fn as_scalar<S: Serializer>(number: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    number.map(Scalar::from).serialize(serializer)
}

impl DiffData {
    pub fn of(report: diff::DiffReport<'_>, filtered: bool) -> Self {
        let summary = report.summary();
        let diff::DiffReport { a, b, equal, tensors, metadata, .. } = report;
        let short = |text: Option<String>| text.map(|text| cut(&text, LONGEST));
        let metadata = metadata.into_iter().take(ENTRIES).map(|entry| diff::MetadataDiff {
            key: cut(&entry.key, LONGEST),
            a: short(entry.a),
            b: short(entry.b),
        });
        let mut names = NAMES;
        let row = |tensor: &diff::TensorDiff<'_>| {
            names = names.checked_sub(tensor.name.len())?;
            let values = tensor.values.as_ref();
            Some(DiffRow {
                name: tensor.name.to_owned(),
                what: tensor.what.clone(),
                offsets: [tensor.a, tensor.b].map(|tensor| tensor.map(|tensor| tensor.offset)),
                a: tensor.a.map(|tensor| type_label(tensor.info)),
                b: tensor.b.map(|tensor| type_label(tensor.info)),
                values: values.map(diff::ValueDiff::summary),
                part: values.filter(|values| values.of > 0).map(|values| values.differing as f64 / values.of as f64),
                max_abs: values.and_then(diff::ValueDiff::max_abs),
            })
        };
        let rows: Vec<DiffRow> = tensors.iter().take(DIFFERENCES).map_while(row).collect();
        let left_out = tensors.len() - rows.len();
        Self { a, b, equal, summary, filtered, tensors: rows, left_out, metadata: metadata.collect() }
    }
}
