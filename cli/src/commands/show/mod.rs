mod gather;
mod sparse;

use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;

use clap::ValueEnum;
use tensorfile::file::FileTensor;
use tensorfile::model::{TensorData, TensorRecord, TensorSink};
use tensorfile::view::{PrintOptions, Scalar, scalars};
use tensorfile::{Dtype, Error, File, Format, Layout, Tensor, TensorInfo, Tensors, WriteOptions};

use crate::args::{Axis, Decoding, Glob, MapArgs, NamedInputs, Printer, Slice, SplitArgs, Unread, open};
use crate::exit::{At, Failure, Outcome, Verdict, for_each};
use crate::output::tensors::{is_unknown, type_label};
use crate::output::warnings::WarningRow;
use crate::output::{FAINT, JsonList, Progress, Stdout, escape, json};
use crate::pieces::Pieces;

use gather::gather;
pub use sparse::Sparse;

/// Show the elements of tensors, or of slices of them.
///
/// If the file has one tensor, you need not name it. A pattern with `*`, `?`, `[a-z]` and `{a,b}` shows all tensors
/// whose whole name matches.
///
/// Text looks as in numpy: tensors with more than 1000 elements are summarized, only the shown elements are read, and
/// floats have up to 8 digits after the point. All other formats have every element. If you parse JSON or CSV as
/// doubles, you get exactly the stored number: an f32 of 0.1 is 0.10000000149011612. Quantized and packed elements are
/// shown as integers. Show blocks of several elements, such as f4 and q4_0, and unknown dtypes with --format raw.
///
/// JSON has nested lists, and the strings "NaN", "Infinity" and "-Infinity". Complex numbers are lists of two. CSV is
/// for tensors of up to 2 dims, with a line for each row, or for each element of a vector. Raw is little-endian bytes
/// in row-major order.
///
/// Sparse tensors are shown as their stored elements with coordinates.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Show {
    #[command(flatten)]
    inputs: NamedInputs,
    #[command(flatten)]
    decoding: Decoding,
    #[command(flatten)]
    mapping: MapArgs,
    /// Show only this slice, in numpy's notation: `0:8,:`, `-1`, `::2`, `...,0`
    #[arg(long, short, value_name = "SLICE", allow_hyphen_values = true)]
    slice: Option<Slice>,
    /// The output format
    #[arg(long, short, value_enum, default_value_t)]
    format: OutputFormat,
    /// Print JSON with the file, the name, the dtype and the shape of each tensor, and its elements as nested lists
    #[arg(long, conflicts_with_all = ["format", "full"])]
    json: bool,
    /// Show every element as text, without a summary
    #[arg(long)]
    full: bool,
    /// Show at most this number of digits after the point as text [default: 8]
    #[arg(long, value_name = "DIGITS", conflicts_with = "json")]
    precision: Option<u8>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    /// Rows and columns, as numpy prints them
    #[default]
    Text,
    /// Nested lists
    Json,
    /// Comma-separated values
    Csv,
    /// A numpy file
    Npy,
    /// Little-endian bytes
    Raw,
}

/// The default of `--precision`.
const PRECISION: u8 = 8;

const EXAMPLES: &str = "\
Examples:
  tensorfile show model.ptd encoder.0.bias
  tensorfile show model.ptd encoder.0.weight --slice '0:8, -3:'
  tensorfile show model.ptd 'encoder.*.bias'
  tensorfile show old.ptd new.ptd --tensor encoder.0.bias
  tensorfile show model.ptd '#3' --format csv > table.csv
  tensorfile show model.ptd encoder.0.bias --format json | jq 'max'
  tensorfile show model.ptd encoder.0.bias --format raw | xxd | head";

impl Show {
    pub fn run(&self, out: &mut Stdout) -> Outcome {
        self.decoding.apply();
        self.mapping.apply(false)?;
        out.expect_json(self.json);
        let names = self.inputs.names();
        let format = if self.json { OutputFormat::Json } else { self.format };
        if !self.json && format != OutputFormat::Text && (names.len() > 1 || !self.inputs.is_single()) {
            return Err(Failure::usage("--format prints a single tensor; use --json for several"));
        }
        if format != OutputFormat::Text && self.precision.is_some() {
            return Err(Failure::usage("--precision is for text; other formats have all digits"));
        }
        if matches!(format, OutputFormat::Npy | OutputFormat::Raw) && out.is_terminal() {
            return Err(Failure::usage("refusing to write binary data to a terminal; redirect standard output"));
        }
        let names_file = self.json || !self.inputs.is_single();
        self.inputs.for_each(open, SplitArgs::ALL, self.json, out, &mut |path, file, printer| {
            let names = match (names.as_slice(), file.len()) {
                ([], 1) => vec!["#0".to_owned()],
                ([], 0) => return Err(Failure::usage_at(path, "the file has no tensors")),
                ([], _) => {
                    let how = "name a tensor, as in `tensorfile show FILE NAME`; `tensorfile ls FILE` lists them";
                    return Err(Failure::usage_at(path, how));
                }
                (names, _) => self.matching(&file, names)?,
            };
            let warnings = if self.json { WarningRow::of_file(&file) } else { Vec::new() };
            for_each(names.iter().enumerate(), |(i, name)| {
                let shown = file.get(name).at(path).and_then(|tensor| match printer {
                    Printer::Text(out) => {
                        if i > 0 {
                            writeln!(out)?;
                        }
                        self.show(path, tensor, out)
                    }
                    Printer::Json(list) => self.list(path, tensor, &warnings, list),
                });
                let shown = shown.map_err(|failure| if names_file { failure.or_in(path) } else { failure });
                if let (Err(failure), Printer::Json(list)) = (&shown, &mut *printer)
                    && let Some((file, error)) = failure.unlisted()
                {
                    list.push(&Unread { file, error })?;
                }
                shown.map(|()| Verdict::Pass)
            })
        })
    }

    /// Returns the names of tensors, with those that match a pattern in its place. A tensor of that very name is meant
    /// first.
    fn matching(&self, file: &File, names: &[String]) -> Outcome<Vec<String>> {
        let mut all = Vec::with_capacity(names.len());
        for name in names {
            let is_pattern = name.contains(['*', '?', '[', '{']) && file.get(name).is_err();
            let Some(glob) = is_pattern.then(|| name.parse::<Glob>().ok()).flatten() else {
                all.push(name.clone());
                continue;
            };
            let before = all.len();
            let matching = file.tensors().filter(|tensor| glob.matches(tensor.name()));
            all.extend(matching.map(|tensor| match tensor.has_name() {
                true => tensor.name().to_owned(),
                false => format!("#{}", tensor.position()),
            }));
            // The message about a missing tensor lists the nearest names.
            if all.len() == before {
                all.push(name.clone());
            }
        }
        let is_binary = !self.json && self.format != OutputFormat::Text;
        if is_binary && all.len() > 1 {
            return Err(Failure::usage("--format prints a single tensor; use --json for several"));
        }
        Ok(all)
    }

    /// Shows a tensor as text or in another format.
    fn show(&self, path: &Path, tensor: FileTensor<'_>, out: &mut Stdout) -> Outcome<()> {
        if let Layout::Coo { .. } = tensor.layout() {
            return self.show_sparse(path, tensor, out);
        }
        let selection = self.select(path, tensor)?;
        let (dtype, shape) = (tensor.dtype(), selection.shape());
        match self.format {
            OutputFormat::Text => self.print_text(&selection, out),
            OutputFormat::Json => {
                let mut json = Json::new(dtype, &shape);
                selection.read_in_pieces(&mut |bytes| json.print(bytes, out))?;
                json.close(out)?;
                Ok(writeln!(out)?)
            }
            OutputFormat::Csv => {
                let (columns, mut column) = (csv_columns(&shape)?, 0);
                selection.read_in_pieces(&mut |bytes| {
                    scalars(dtype, bytes).try_for_each(|scalar| {
                        column = if column + 1 == columns { 0 } else { column + 1 };
                        write!(out, "{}{}", scalar.with_all_digits(), if column == 0 { '\n' } else { ',' })
                    })
                })
            }
            OutputFormat::Npy => print_npy(&selection, out),
            OutputFormat::Raw if self.slice.is_none() => print_raw(tensor, path, out),
            OutputFormat::Raw => {
                let out = out.raw()?;
                selection.read_in_pieces(&mut |bytes| out.write_all(bytes))
            }
        }
    }

    /// Writes a tensor as an item of `--json`. If its elements cannot be read to the end, the item has the error too.
    fn list(
        &self,
        path: &Path,
        tensor: FileTensor<'_>,
        warnings: &[WarningRow],
        list: &mut JsonList<'_>,
    ) -> Outcome<()> {
        // Errors come before the item begins, unless a long tensor is read in pieces.
        let elements = match tensor.layout() {
            Layout::Coo { .. } => ShownElements::Sparse(self.read_sparse(path, tensor)?),
            _ => ShownElements::Dense(self.select(path, tensor)?),
        };
        let shape = match &elements {
            ShownElements::Sparse(_) => tensor.shape().dims().to_vec(),
            ShownElements::Dense(selection) => selection.shape(),
        };
        let mut unread = None;
        list.item(|out| {
            write!(out, "{{\n    \"file\": ")?;
            json::write(out, &path.display().to_string())?;
            if !warnings.is_empty() {
                write!(out, ",\n    \"warnings\": ")?;
                json::write(out, &warnings)?;
            }
            write!(out, ",\n    \"name\": ")?;
            json::write(out, &tensor.name())?;
            write!(out, ",\n    \"dtype\": \"{}\",\n    \"shape\": {shape:?},\n    \"data\": ", tensor.dtype())?;
            match &elements {
                ShownElements::Sparse(tensor) => Sparse::new(tensor).print_json(out)?,
                ShownElements::Dense(selection) => {
                    let mut json = Json::new(tensor.dtype(), &shape);
                    let read = selection.read_in_pieces(&mut |bytes| json.print(bytes, out));
                    json.close(out)?;
                    if let Err(failure) = read {
                        let Some((_, error)) = failure.unlisted() else { return Err(failure) };
                        write!(out, ",\n    \"error\": ")?;
                        json::write(out, &error)?;
                        unread = Some(failure.listed());
                    }
                }
            }
            Ok::<_, Failure>(write!(out, "\n  }}")?)
        })?;
        unread.map_or(Ok(()), Err)
    }

    fn select<'a>(&self, path: &'a Path, tensor: FileTensor<'a>) -> Outcome<Selection<'a>> {
        let is_raw = !self.json && self.format == OutputFormat::Raw && self.slice.is_none();
        let dtype = tensor.dtype();
        if is_unknown(tensor.info()) && !is_raw {
            let (name, info) = (tensor.name(), tensor.info());
            return Err(Failure::usage(format_args!("cannot show elements of `{name}`, {info}; use --format raw")));
        }
        if !dtype.has_elements() && !is_raw {
            let (name, block) = (tensor.name(), dtype.block_elements());
            let why =
                format_args!("cannot show elements of `{name}`: {dtype} packs {block} into a block; use --format raw");
            return Err(Failure::usage(why));
        }
        let axes = self.slice.clone().unwrap_or_else(Slice::all).axes(tensor.shape())?;
        Ok(Selection { path, tensor, axes })
    }

    fn print_text(&self, selection: &Selection<'_>, out: &mut Stdout) -> Outcome<()> {
        let options = self.print_options(out);
        let summary = options.summary(&selection.shape());
        // Dims removed by the slice are read, but not in the summary.
        let mut shown = summary.ranges();
        let mut ranges = |axis: &Axis| if axis.drop { full(1) } else { shown.next().unwrap_or_default() };
        let ranges: Vec<Vec<Range<usize>>> = selection.axes.iter().map(&mut ranges).collect();
        let elements = selection.gather(&ranges)?;
        writeln!(out, "{}", out.styled(FAINT, &self.title(selection)).into_owned())?;
        options.write(out, selection.tensor.dtype(), &summary, &elements)?;
        writeln!(out)?;
        Ok(())
    }

    fn print_options(&self, out: &Stdout) -> PrintOptions {
        let mut options = PrintOptions::new().precision(self.precision.unwrap_or(PRECISION).into());
        if self.full {
            options = options.threshold(usize::MAX);
        }
        out.width().map_or(options, |width| options.line_width(width))
    }

    /// Returns the line above the elements.
    fn title(&self, selection: &Selection<'_>) -> String {
        let name = escape(selection.tensor.name());
        let label = type_label(selection.tensor.info());
        match &self.slice {
            Some(slice) => {
                let info = TensorInfo::new(selection.tensor.dtype(), selection.shape());
                format!("{name}[{slice}]: {info} of {label}")
            }
            None => format!("{name}: {label}"),
        }
    }

    fn show_sparse(&self, path: &Path, tensor: FileTensor<'_>, out: &mut Stdout) -> Outcome<()> {
        if self.format == OutputFormat::Raw && self.slice.is_none() {
            return print_raw(tensor, path, out);
        }
        let read = self.read_sparse(path, tensor)?;
        let sparse = Sparse::new(&read);
        match self.format {
            OutputFormat::Json => {
                sparse.print_json(out)?;
                writeln!(out)?;
            }
            OutputFormat::Csv => sparse.print_csv(out)?,
            OutputFormat::Npy => return Err(Failure::usage("npy cannot store sparse tensors; use json or csv")),
            OutputFormat::Text | OutputFormat::Raw => {
                let title = format!("{}: {}", escape(tensor.name()), type_label(tensor.info()));
                writeln!(out, "{}", out.styled(FAINT, &title).into_owned())?;
                sparse.print_text(&self.print_options(out), out)?;
            }
        }
        Ok(())
    }

    fn read_sparse(&self, path: &Path, tensor: FileTensor<'_>) -> Outcome<Tensor> {
        if self.slice.is_some() {
            return Err(Failure::usage(format_args!("cannot slice `{}`, which is sparse", tensor.name())));
        }
        tensor.read().at(path)
    }
}

/// The elements in an item of `--json`.
enum ShownElements<'a> {
    Sparse(Tensor),
    Dense(Selection<'a>),
}

/// The shown slice of a tensor.
struct Selection<'a> {
    path: &'a Path,
    tensor: FileTensor<'a>,
    axes: Vec<Axis>,
}

impl Selection<'_> {
    /// Returns the shape of the slice.
    fn shape(&self) -> Vec<usize> {
        self.axes.iter().filter(|axis| !axis.drop).map(|axis| axis.count).collect()
    }

    /// Reads every element, in row-major order. Calls `each` with some whole elements after the other.
    ///
    /// If the tensor must be decoded, the slice is held in memory.
    fn read_in_pieces(&self, each: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> Outcome<()> {
        let elements = self.axes.iter().fold(1_u64, |product, axis| product.saturating_mul(axis.count as u64));
        let mut progress = Progress::beside_output(elements.saturating_mul(self.tensor.dtype().block_bytes() as u64));
        let each = &mut |bytes: &[u8]| {
            progress.advance(bytes.len());
            each(bytes)
        };
        let is_whole = |(axis, dim): (&Axis, &usize)| !axis.drop && *axis == Axis::full(*dim);
        if self.axes.iter().zip(self.tensor.shape().iter()).all(is_whole) {
            let mut elements = ElementWriter { size: self.tensor.dtype().block_bytes(), rest: Vec::new(), each };
            return self.tensor.write_row_major_to(&mut elements).map_err(Error::from).at(self.path);
        }
        let ranges: Vec<Range<usize>> = self.axes.iter().map(|axis| 0..axis.count).collect();
        // Otherwise, each part would be decoded from the beginning.
        let is_read_in_parts = self.tensor.read_at(0, &mut []).is_ok();
        self.read_part(&ranges, if is_read_in_parts { PIECE } else { usize::MAX }, each)
    }

    /// Reads a range of each axis, in parts of at most `most` bytes.
    fn read_part(
        &self,
        ranges: &[Range<usize>],
        most: usize,
        each: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Outcome<()> {
        let size = self.tensor.dtype().block_bytes();
        let bytes = ranges.iter().fold(size, |product, range| product.saturating_mul(range.len()));
        let long = ranges.iter().position(|range| range.len() > 1);
        if let Some(dim) = long.filter(|_| bytes > most) {
            // The axes before have one index each, so the order is kept.
            let Range { start, end } = ranges[dim];
            let middle = start + (end - start) / 2;
            let mut half = ranges.to_vec();
            half[dim] = start..middle;
            self.read_part(&half, most, each)?;
            half[dim] = middle..end;
            return self.read_part(&half, most, each);
        }
        let ranges: Vec<Vec<Range<usize>>> = ranges.iter().map(|range| std::slice::from_ref(range).to_vec()).collect();
        Ok(each(&self.gather(&ranges)?)?)
    }

    /// Reads the elements at these ranges of each axis, in row-major order.
    fn gather(&self, ranges: &[Vec<Range<usize>>]) -> Outcome<Vec<u8>> {
        gather(&self.axes, ranges, self.tensor.dtype().block_bytes(), |ranges| {
            let block = self.tensor.slice(ranges).at(self.path)?;
            Ok(block.as_bytes().to_vec())
        })
    }
}

/// The most bytes of a slice read at once, if it can be read in parts.
const PIECE: usize = 1 << 20;

/// A writer that passes on whole elements.
struct ElementWriter<'a> {
    size: usize,
    /// The beginning of an element.
    rest: Vec<u8>,
    each: &'a mut dyn FnMut(&[u8]) -> io::Result<()>,
}

impl Write for ElementWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.rest.is_empty() {
            let now = bytes.len().min(self.size - self.rest.len());
            self.rest.extend_from_slice(&bytes[..now]);
            if self.rest.len() == self.size {
                (self.each)(&self.rest)?;
                self.rest.clear();
            }
            return Ok(now);
        }
        // In pieces, to show progress.
        let bytes = &bytes[..bytes.len().min(PIECE)];
        let whole = bytes.len() - bytes.len() % self.size;
        (self.each)(&bytes[..whole])?;
        self.rest.extend_from_slice(&bytes[whole..]);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns all indices of a dim, as one range.
fn full(len: usize) -> Vec<Range<usize>> {
    std::iter::once(0..len).collect()
}

/// Writes the whole payload in pieces.
fn print_raw(tensor: FileTensor<'_>, path: &Path, out: &mut Stdout) -> Outcome<()> {
    let mut progress = Progress::bytes(tensor.payload_bytes());
    let out = out.raw()?;
    let mut pieces = Pieces(|piece: &[u8]| {
        out.write_all(piece)?;
        progress.advance(piece.len());
        Ok(())
    });
    tensor.write_row_major_to(&mut pieces).map_err(Error::from).at(path)
}

fn print_npy(selection: &Selection<'_>, out: &mut Stdout) -> Outcome<()> {
    let npy = Format::named("npy").ok_or_else(|| Failure::usage("this build has no support for npy"))?;
    npy.to_writer(out.raw()?, selection, &WriteOptions::new()).at(Path::new("standard output"))
}

impl Tensors for Selection<'_> {
    fn send(&self, sink: &mut dyn TensorSink) -> tensorfile::Result<()> {
        let info = TensorInfo::new(self.tensor.dtype(), self.shape());
        sink.tensor(&TensorRecord { name: "0", info: &info, data: self, tied: None })
    }
}

impl TensorData for Selection<'_> {
    fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        self.read_in_pieces(&mut |bytes| out.write_all(bytes)).map_err(io::Error::other)
    }
}

/// Prints elements as nested lists, as they come.
struct Json<'a> {
    dtype: Dtype,
    shape: &'a [usize],
    index: Vec<usize>,
    /// The number of lists ended by the last element; `None` before the first element.
    ends: Option<usize>,
}

impl<'a> Json<'a> {
    fn new(dtype: Dtype, shape: &'a [usize]) -> Self {
        Self { dtype, shape, index: vec![0; shape.len()], ends: None }
    }

    /// Prints whole elements.
    fn print(&mut self, bytes: &[u8], out: &mut dyn Write) -> io::Result<()> {
        let (shape, index) = (self.shape, &mut self.index);
        for scalar in scalars(self.dtype, bytes) {
            let comma = match self.ends {
                None => "",
                Some(0) => ", ",
                Some(_) => ",\n",
            };
            // An element has a bracket for each dim starting at it, and for each dim ending at it.
            write!(out, "{comma}{}", "[".repeat(self.ends.unwrap_or(shape.len())))?;
            write_json(scalar, out)?;
            let ends = (0..shape.len()).rev().take_while(|&dim| index[dim] + 1 == shape[dim]).count();
            write!(out, "{}", "]".repeat(ends))?;
            if let Some(dim) = (shape.len() - ends).checked_sub(1) {
                index[dim] += 1;
                index[dim + 1..].fill(0);
            }
            self.ends = Some(ends);
        }
        Ok(())
    }

    /// Ends all lists, whether or not all elements came.
    fn close(&self, out: &mut dyn Write) -> io::Result<()> {
        match self.ends {
            Some(ends) => write!(out, "{}", "]".repeat(self.shape.len() - ends)),
            None if self.shape.is_empty() => write!(out, "null"),
            None => write!(out, "[]"),
        }
    }
}

/// Writes an element as JSON. Parsers read numbers as doubles, so it has all digits.
fn write_json(scalar: Scalar, out: &mut dyn Write) -> io::Result<()> {
    match scalar {
        Scalar::Float(float) if !float.value().is_finite() => Ok(serde_json::to_writer(out, &scalar)?),
        Scalar::Bool(bool) => write!(out, "{bool}"),
        Scalar::Integer(_) | Scalar::Float(_) => write!(out, "{}", scalar.with_all_digits()),
        Scalar::Complex(real, imaginary) => {
            write!(out, "[")?;
            write_json(Scalar::Float(real), out)?;
            write!(out, ", ")?;
            write_json(Scalar::Float(imaginary), out)?;
            write!(out, "]")
        }
    }
}

/// Returns the number of columns of a CSV file with a tensor of this shape.
fn csv_columns(shape: &[usize]) -> Outcome<usize> {
    match shape {
        [] | [_] => Ok(1),
        [_, columns] => Ok(*columns),
        _ => {
            let rank = shape.len();
            Err(Failure::usage(format_args!("csv has at most 2 dims, not {rank}; use --slice to remove dims")))
        }
    }
}
