use std::io;

use indexmap::IndexMap;
use serde::Serialize;
use tensorfile::{File, FileMetadata, FileTensor, Layout};

use crate::failure::{At, Outcome, Verdict};
use crate::input::Input;
use crate::listed::{self, Listed, Total};
use crate::out::Out;
use crate::size::{Sizes, count, counted};
use crate::storage::Storage;
use crate::table::{Column, Table};

/// Tell what a file is: format, sizes, dtypes, layout, metadata and warnings.
///
/// Only the index and the metadata of the file are read. Bytes that are no payload are those of the index, of the heads of records, of
/// padding, or of nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Info {
    #[command(flatten)]
    input: Input,
    /// Print JSON, with sizes in bytes
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    sizes: Sizes,
}

const EXAMPLES: &str = "\
Examples:
  tensorfile info model.ptd
  tensorfile info --json model.ptd | jq .storage.alignment
  curl --silent https://example.org/model.ptd | tensorfile info -";

/// Of metadata, people see so many characters.
const SHOWN: usize = 200;

impl Info {
    pub fn run(&self, out: &mut Out) -> Outcome {
        let file = self.input.open()?;
        let metadata = file.metadata().at(self.input.path())?;
        let facts = Facts::of(&file, &metadata);
        if self.json {
            out.json(&facts)?;
        } else {
            self.print(&facts, out)?;
        }
        Ok(Verdict::Fine)
    }

    fn print(&self, facts: &Facts<'_>, out: &mut Out) -> io::Result<()> {
        let mut table = Table::without_header([Column::Left, Column::Left]);
        let mut section = |title: &str, lines: Vec<String>| {
            for (at, line) in lines.into_iter().enumerate() {
                table.row([if at == 0 { title } else { "" }, &line]);
            }
        };
        let version = facts.version.map(|version| format!(", version {version}")).unwrap_or_default();
        section("format", vec![format!("{}{version}", facts.format)]);
        section("size", vec![self.sizes.phrase(facts.size)]);
        section("tensors", vec![self.tensors(facts)]);
        section("dtypes", self.dtypes(facts));
        section("payload", self.payload(facts));
        section("other bytes", self.others(&facts.storage));
        section("alignment", alignment(facts));
        section("metadata", facts.metadata.iter().map(|(key, value)| format!("{key} = {}", short(value))).collect());
        section("warnings", facts.warnings.to_vec());
        table.print(out)
    }

    fn tensors(&self, facts: &Facts<'_>) -> String {
        let Total { tensors, parameters, .. } = facts.total;
        format!("{} with {}", count(tensors as u64), counted(parameters, "parameter"))
    }

    fn dtypes(&self, facts: &Facts<'_>) -> Vec<String> {
        let line = |(dtype, total): (&&str, &Total)| {
            let Total { tensors, parameters, bytes } = *total;
            let tensors = counted(tensors as u64, "tensor");
            format!("{dtype}: {tensors}, {}, {}", counted(parameters, "parameter"), self.sizes.phrase(bytes))
        };
        facts.dtypes.iter().map(line).collect()
    }

    fn payload(&self, facts: &Facts<'_>) -> Vec<String> {
        let Storage { payload, shared, .. } = facts.storage;
        let mut lines = vec![self.sizes.phrase(payload)];
        if shared > 0 {
            lines.push(format!("{} more by tensors that share bytes", self.sizes.phrase(shared)));
        }
        lines
    }

    fn others(&self, storage: &Storage) -> Vec<String> {
        let Storage { before, between, gaps, largest_gap, after, .. } = *storage;
        let size = |bytes| self.sizes.phrase(bytes);
        let mut lines = Vec::new();
        if before > 0 {
            lines.push(format!("{} before the first payload", size(before)));
        }
        if between > 0 {
            let places = counted(gaps, "place");
            lines.push(format!("{} between payloads, in {places} of up to {}", size(between), size(largest_gap)));
        }
        if after > 0 {
            lines.push(format!("{} behind the last payload", size(after)));
        }
        lines
    }
}

fn alignment(facts: &Facts<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(alignment) = facts.storage.alignment {
        lines.push(format!("every payload begins at a multiple of {}", counted(alignment, "byte")));
    }
    if facts.misaligned > 0 {
        let tensors = counted(facts.misaligned as u64, "tensor");
        lines.push(format!("{tensors} cannot be borrowed, as the elements are not aligned"));
    }
    lines
}

/// The text on one line, cut where it is long.
fn short(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((cut, _)) => format!("{}… ({} bytes)", &text[..cut], count(text.len() as u64)),
        None => text.to_owned(),
    }
}

/// What there is to tell of a file.
#[derive(Debug, Serialize)]
struct Facts<'f> {
    format: &'static str,
    version: Option<&'f str>,
    /// The bytes of the file.
    size: u64,
    total: Total,
    /// In the order of the file.
    dtypes: IndexMap<&'static str, Total>,
    storage: Storage,
    /// Tensors that begin where no element of their dtype may.
    misaligned: usize,
    metadata: &'f IndexMap<String, String>,
    warnings: &'f [String],
}

impl<'f> Facts<'f> {
    fn of(file: &File, metadata: &'f FileMetadata) -> Self {
        let (mut total, mut dtypes) = (Total::default(), IndexMap::<_, Total>::new());
        for tensor in file.tensors().map(Listed::from) {
            total.add(tensor.info, tensor.bytes);
            dtypes.entry(listed::dtype(tensor.info)).or_default().add(tensor.info, tensor.bytes);
        }
        Self {
            format: file.format().name,
            version: metadata.version.as_deref(),
            size: file.file_bytes(),
            total,
            dtypes,
            storage: storage(file),
            misaligned: file.tensors().filter(is_misaligned).count(),
            metadata: &metadata.entries,
            warnings: &metadata.warnings,
        }
    }
}

/// How the payloads of a file lie in it, or in its shards.
pub(super) fn storage(file: &File) -> Storage {
    if file.shards().is_empty() {
        return Storage::of(file.tensors().map(|tensor| tensor.range()), file.file_bytes());
    }
    // Offsets count from the start of each shard.
    let mut shards: IndexMap<_, Vec<_>> = IndexMap::new();
    for tensor in file.tensors() {
        shards.entry(tensor.path()).or_default().push(tensor.range());
    }
    Storage::of_all(shards.into_values(), file.file_bytes())
}

/// Whether a tensor begins where no element of its dtype may.
pub(super) fn is_misaligned(tensor: &FileTensor<'_>) -> bool {
    let range = tensor.range();
    // What is packed cannot be borrowed wherever it lies.
    let is_packed = range.end - range.start != tensor.payload_bytes();
    let is_dense = matches!(tensor.layout(), Layout::RowMajor | Layout::DimOrder(_));
    let alignment = tensor.dtype().block_bytes() as u64;
    is_dense && !is_packed && !range.is_empty() && !range.start.is_multiple_of(alignment)
}
