use std::io;
use std::path::Path;

use indexmap::IndexMap;
use serde::Serialize;
use tensorfile::File;
use tensorfile::model::FileMetadata;
use tensorfile::quant::Scheme;
use tensorfile::view::{ByteMap, is_aligned};

use crate::args::{Inputs, MapArgs, Printer, Warnings};
use crate::exit::{At, Outcome, Verdict};
use crate::output::numbers::{Sizes, count, counted};
use crate::output::tensors::{TensorRow, Total, dtype_label};
use crate::output::warnings::WarningRow;
use crate::output::{Column, Stdout, Table, Wide, wrap};

/// Describe files: format, size, dtypes, layout, metadata and warnings.
///
/// Only the index and the metadata are read. Bytes outside of payloads are the index, record headers, padding, or
/// unused.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Info {
    #[command(flatten)]
    inputs: Inputs,
    #[command(flatten)]
    mapping: MapArgs,
    /// Print JSON, with sizes in bytes
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    sizes: Sizes,
    #[command(flatten)]
    wide: Wide,
}

const EXAMPLES: &str = "\
Examples:
  tensorfile info model.ptd
  tensorfile info --json model.ptd | jq '.[].storage.alignment'
  curl --silent https://example.org/model.ptd | tensorfile info -";

/// The maximum number of printed characters of a metadata value.
pub const MAX_VALUE: usize = 200;

impl Info {
    pub fn run(&self, out: &mut Stdout) -> Outcome {
        self.mapping.apply(false)?;
        self.inputs.for_each_index(Warnings::Results, self.json, out, &mut |path, file, printer| {
            let metadata = file.metadata().at(path)?;
            let description = Description::of(path, &file, &metadata);
            match printer {
                Printer::Json(list) => list.push(&description)?,
                Printer::Text(out) => self.print(&description, out)?,
            }
            Ok(Verdict::Pass)
        })
    }

    fn print(&self, file: &Description<'_>, out: &mut Stdout) -> io::Result<()> {
        // The titles take 11 characters.
        let width = self.wide.width(out).map(|width| width.saturating_sub(13));
        let mut table = Table::without_header([Column::Left, Column::Left]);
        let mut section = |title: &str, lines: Vec<String>| {
            for (index, line) in lines.iter().flat_map(|line| wrap(line, width)).enumerate() {
                table.row([if index == 0 { title } else { "" }, &line]);
            }
        };
        let version = file.version.map(|version| format!(", version {version}")).unwrap_or_default();
        section("format", vec![format!("{}{version}", file.format)]);
        section("size", vec![self.sizes.phrase(file.size)]);
        section("shards", (file.shards > 0).then(|| counted(file.shards, "file")).into_iter().collect());
        section("tensors", vec![tensors(&file.total)]);
        section("dtypes", self.dtypes(file));
        section("quantized", quantized(&file.quantized));
        section("payload", self.payload(&file.storage));
        section("other bytes", self.other_bytes(&file.storage));
        section("compressed", self.compressed(file));
        section("byte order", byte_order(file));
        section("alignment", alignment(file));
        section(
            "metadata",
            file.metadata.iter().map(|(key, value)| format!("{key} = {}", cut(value, MAX_VALUE))).collect(),
        );
        section("warnings", file.warnings.iter().map(|warning| warning.text.clone()).collect());
        table.print(None, out)
    }

    fn dtypes(&self, file: &Description<'_>) -> Vec<String> {
        let line = |(dtype, total): (&&str, &Total)| {
            let Total { tensors, parameters, bytes } = *total;
            let tensors = counted(tensors, "tensor");
            format!("{dtype}: {tensors}, {}, {}", counted(parameters, "parameter"), self.sizes.phrase(bytes))
        };
        file.dtypes.iter().map(line).collect()
    }

    fn payload(&self, map: &ByteMap) -> Vec<String> {
        let mut lines = vec![self.sizes.phrase(map.payload)];
        if map.shared > 0 {
            lines.push(format!("{} saved by tensors that share their bytes", self.sizes.phrase(map.shared)));
        }
        lines
    }

    fn compressed(&self, file: &Description<'_>) -> Vec<String> {
        let Compressed { tensors, bytes, stored } = file.compressed;
        let phrase = || {
            let (tensors, bytes) = (of_all(tensors, file), self.sizes.phrase(bytes));
            format!("{tensors}: {bytes} in {}", self.sizes.phrase(stored))
        };
        (tensors > 0).then(phrase).into_iter().collect()
    }

    fn other_bytes(&self, map: &ByteMap) -> Vec<String> {
        let ByteMap { before, between, gaps, largest_gap, after, .. } = *map;
        let size = |bytes| self.sizes.phrase(bytes);
        let mut lines = Vec::new();
        if before > 0 {
            lines.push(format!("{} before the first payload", size(before)));
        }
        if between > 0 {
            let gaps = counted(gaps, "gap");
            lines.push(format!("{} between payloads, in {gaps} of up to {}", size(between), size(largest_gap)));
        }
        if after > 0 {
            lines.push(format!("{} after the last payload", size(after)));
        }
        lines
    }
}

/// Describes the schemes of quantized weights, each with their number.
fn quantized(schemes: &IndexMap<String, usize>) -> Vec<String> {
    schemes.iter().map(|(scheme, weights)| format!("{scheme}: {}", counted(*weights, "weight"))).collect()
}

fn byte_order(file: &Description<'_>) -> Vec<String> {
    let big_endian = |tensors| format!("big-endian: {}", of_all(tensors, file));
    (file.big_endian > 0).then(|| big_endian(file.big_endian)).into_iter().collect()
}

/// Returns how many tensors of a file something is true of.
fn of_all(tensors: usize, file: &Description<'_>) -> String {
    match file.total.tensors {
        all if all == tensors => "all tensors".to_owned(),
        all => format!("{} of {}", count(tensors as u64), counted(all, "tensor")),
    }
}

fn tensors(total: &Total) -> String {
    format!("{} with {}", count(total.tensors as u64), counted(total.parameters, "parameter"))
}

fn alignment(file: &Description<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(alignment) = file.storage.alignment {
        lines.push(format!("payloads start at multiples of {}", counted(alignment, "byte")));
    }
    if file.misaligned > 0 {
        let tensors = counted(file.misaligned, "tensor");
        lines.push(format!("{tensors} cannot be borrowed, because the elements are not aligned"));
    }
    lines
}

/// Cuts a text of more than `most` characters.
pub fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], count(text.len() as u64)),
        None => text.to_owned(),
    }
}

/// A file without its tensors.
#[derive(Debug, Serialize)]
pub struct Description<'f> {
    pub file: String,
    format: &'static str,
    version: Option<&'f str>,
    /// The length of the file in bytes.
    size: u64,
    total: Total,
    /// The sums for each dtype, in the order of the file.
    dtypes: IndexMap<&'f str, Total>,
    /// The number of quantized weights of each scheme; `unknown` if they fit no layout.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    quantized: IndexMap<String, usize>,
    storage: ByteMap,
    /// The number of files, if there are several.
    shards: usize,
    compressed: Compressed,
    /// The number of tensors with big-endian elements.
    big_endian: usize,
    /// The number of tensors with unaligned elements.
    misaligned: usize,
    metadata: &'f IndexMap<String, String>,
    warnings: Vec<WarningRow>,
}

/// The sums over compressed tensors.
#[derive(Debug, Default, Serialize)]
struct Compressed {
    tensors: usize,
    bytes: u64,
    /// The number of bytes in the file.
    stored: u64,
}

impl Compressed {
    fn of(file: &File) -> Self {
        let mut total = Self::default();
        for tensor in file.tensors().filter(|tensor| tensor.is_compressed()) {
            let range = tensor.range();
            total.tensors += 1;
            total.bytes = total.bytes.saturating_add(tensor.payload_bytes());
            total.stored = total.stored.saturating_add(range.end - range.start);
        }
        total
    }
}

impl<'f> Description<'f> {
    pub fn of(path: &Path, file: &'f File, metadata: &'f FileMetadata) -> Self {
        let (mut total, mut dtypes) = (Total::default(), IndexMap::<_, Total>::new());
        for tensor in file.tensors().map(TensorRow::from) {
            total.add(&tensor);
            dtypes.entry(dtype_label(tensor.info)).or_default().add(&tensor);
        }
        let mut schemes = IndexMap::new();
        // The warnings say what cannot be found out.
        if let Ok(quantized) = file.quantized() {
            // Blocks of ggml are dtypes.
            let known = quantized.tensors().iter().filter(|weight| weight.scheme() != Scheme::Ggml);
            known.for_each(|weight| *schemes.entry(weight.to_string()).or_default() += 1);
            quantized.unknown().iter().for_each(|_| *schemes.entry("unknown".to_owned()).or_default() += 1);
        }
        Self {
            quantized: schemes,
            file: path.display().to_string(),
            format: file.format().name,
            version: metadata.version.as_deref(),
            size: file.file_bytes(),
            total,
            dtypes,
            storage: ByteMap::from_file(file),
            shards: file.shards().len(),
            compressed: Compressed::of(file),
            big_endian: file.tensors().filter(|tensor| tensor.is_big_endian()).count(),
            misaligned: file.tensors().filter(|tensor| !is_aligned(tensor)).count(),
            metadata: &metadata.entries,
            warnings: metadata.warnings.iter().cloned().map(WarningRow::from).collect(),
        }
    }
}
