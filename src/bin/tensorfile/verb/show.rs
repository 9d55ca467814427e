use std::io::{self, Write};
use std::ops::Range;

use clap::ValueEnum;
use tensorfile::{Dtype, FileTensor, Format, Layout, Tensor, TensorInfo, TensorMap, WriteOptions};

use crate::failure::{At, Failure, Outcome, Verdict};
use crate::input::Input;
use crate::listed;
use crate::out::{FAINT, Out, plain};
use crate::print::{self, Style};
use crate::progress::Progress;
use crate::scalar::scalars;
use crate::select::{gather, whole};
use crate::slice::{Axis, Subscript};
use crate::sparse::Sparse;

/// Show the numbers of a tensor, or of a part of it.
///
/// Text is what numpy prints: tensors of more than 1000 elements are shortened to the ends of each dim, and only these
/// are read. Of floats, up to 8 digits behind the point are shown. The other formats have every element, with as many
/// digits as it takes to tell it from others of its dtype; quantised and packed elements are the integers that their
/// bits are.
///
/// JSON has lists in lists, `[]` for a tensor without elements, and the strings "NaN", "Infinity" and "-Infinity" for
/// what it has no numbers for. CSV is for tensors of up to two dims, with a line for each row, or for each element of a
/// vector. Raw is little-endian bytes in row-major order.
///
/// Of sparse tensors, what is stored is shown, with its coordinates.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Show {
    #[command(flatten)]
    input: Input,
    /// The name of the tensor, or its position in the file as `#3`
    name: String,
    /// The part that is shown, in numpy's words: `0:8,:`, `-1`, `::2`, `...,0`
    #[arg(long, short, value_name = "SLICE", allow_hyphen_values = true)]
    slice: Option<Subscript>,
    /// What is printed
    #[arg(long, short, value_enum, default_value_t)]
    format: Printed,
    /// Show every element as text, however many there are
    #[arg(long)]
    full: bool,
    /// Show so many digits behind the point as text
    #[arg(long, value_name = "DIGITS", default_value_t = 8, value_parser = clap::value_parser!(u8))]
    precision: u8,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Printed {
    /// Rows and columns, as numpy prints them
    #[default]
    Text,
    /// Lists in lists
    Json,
    /// Rows with commas
    Csv,
    /// A file for numpy
    Npy,
    /// The bytes
    Raw,
}

const EXAMPLES: &str = "\
Examples:
  tensorfile show model.ptd encoder.0.bias
  tensorfile show model.ptd encoder.0.weight --slice '0:8, -3:'
  tensorfile show model.ptd '#3' --format csv > table.csv
  tensorfile show model.ptd encoder.0.bias --format json | jq 'max'
  tensorfile show model.ptd encoder.0.bias --format raw | xxd | head";

impl Show {
    pub fn run(&self, out: &mut Out) -> Outcome {
        if matches!(self.format, Printed::Npy | Printed::Raw) && out.is_terminal() {
            return Err(Failure::usage("bytes are not printed to a terminal; send them to a file or a pipe"));
        }
        let file = self.input.open()?;
        let tensor = file.get(&self.name).at(self.input.path())?;
        if let Layout::Coo { .. } = tensor.layout() {
            return self.show_sparse(tensor, out);
        }

        let slice = self.slice.clone().unwrap_or_else(Subscript::all);
        let part = Part { show: self, tensor, axes: slice.of(tensor.shape())? };
        match self.format {
            Printed::Text => self.print_text(&part, out)?,
            Printed::Json => print_json(tensor.dtype(), &part.shape(), &part.read()?, out)?,
            Printed::Csv => print_csv(tensor.dtype(), &part.shape(), &part.read()?, out)?,
            Printed::Npy => print_npy(part, out)?,
            Printed::Raw if self.slice.is_none() => pour(tensor, self.input.path(), out)?,
            Printed::Raw => out.write_all(&part.read()?)?,
        }
        Ok(Verdict::Fine)
    }

    fn print_text(&self, part: &Part<'_>, out: &mut Out) -> Outcome<()> {
        let style = self.style(out);
        let shown = style.shown(&part.shape());
        // Dims that the slice has no rows of are still read.
        let mut ranges = shown.iter().map(|shown| shown.ranges());
        let ranges: Vec<Vec<Range<usize>>> =
            part.axes.iter().map(|axis| if axis.drop { whole(1) } else { ranges.next().unwrap_or_default() }).collect();
        let bytes = part.gather(&ranges)?;
        writeln!(out, "{}", out.styled(FAINT, &self.title(part)).into_owned())?;
        print::print(out, part.tensor.dtype(), &shown, &bytes, &style)?;
        writeln!(out)?;
        Ok(())
    }

    fn style(&self, out: &Out) -> Style {
        let style = Style::default();
        Style {
            threshold: if self.full { usize::MAX } else { style.threshold },
            precision: self.precision.into(),
            width: out.width().unwrap_or(style.width),
            ..style
        }
    }

    /// The line above the numbers.
    fn title(&self, part: &Part<'_>) -> String {
        let name = plain(part.tensor.name());
        let whole = listed::kind(part.tensor.info());
        match &self.slice {
            Some(slice) => {
                let info = TensorInfo::new(part.tensor.dtype(), part.shape());
                format!("{name}[{slice}]: {info} of {whole}")
            }
            None => format!("{name}: {whole}"),
        }
    }

    fn show_sparse(&self, tensor: FileTensor<'_>, out: &mut Out) -> Outcome {
        if self.slice.is_some() {
            return Err(Failure::usage(format_args!("`{}` is sparse; it has no slices", tensor.name())));
        }
        if self.format == Printed::Raw {
            pour(tensor, self.input.path(), out)?;
            return Ok(Verdict::Fine);
        }
        let tensor_read = tensor.read().at(self.input.path())?;
        let sparse = Sparse::of(&tensor_read);
        match self.format {
            Printed::Json => sparse.print_json(out)?,
            Printed::Csv => sparse.print_csv(out)?,
            Printed::Npy => return Err(Failure::usage("npy has no sparse tensors; json and csv have")),
            Printed::Text | Printed::Raw => {
                let style = self.style(out);
                let title = format!("{}: {}", plain(tensor.name()), listed::kind(tensor.info()));
                writeln!(out, "{}", out.styled(FAINT, &title).into_owned())?;
                sparse.print_text(&style, out)?;
            }
        }
        Ok(Verdict::Fine)
    }
}

/// A tensor, and which part of it is shown.
struct Part<'a> {
    show: &'a Show,
    tensor: FileTensor<'a>,
    axes: Vec<Axis>,
}

impl Part<'_> {
    /// The dims that are left.
    fn shape(&self) -> Vec<usize> {
        self.axes.iter().filter(|axis| !axis.drop).map(|axis| axis.count).collect()
    }

    /// Every element, in row-major order.
    fn read(&self) -> Outcome<Vec<u8>> {
        let ranges: Vec<Vec<Range<usize>>> = self.axes.iter().map(|axis| whole(axis.count)).collect();
        self.gather(&ranges)
    }

    fn gather(&self, ranges: &[Vec<Range<usize>>]) -> Outcome<Vec<u8>> {
        gather(&self.axes, ranges, self.tensor.dtype().block_bytes(), |ranges| {
            let block = self.tensor.slice(ranges).at(self.show.input.path())?;
            Ok(block.as_bytes().to_vec())
        })
    }
}

/// Writes the whole payload, piece by piece.
fn pour(tensor: FileTensor<'_>, path: &std::path::Path, out: &mut Out) -> Outcome<()> {
    let mut progress = Progress::bytes(tensor.payload_bytes());
    let mut take = |bytes: &[u8]| {
        for piece in bytes.chunks(1 << 20) {
            out.write_all(piece)?;
            progress.advance(piece.len());
        }
        Ok(())
    };
    tensor.pour_row_major(&mut take).at(path)
}

fn print_npy(part: Part<'_>, out: &mut Out) -> Outcome<()> {
    let npy = Format::named("npy").ok_or_else(|| Failure::usage("this build has no format npy"))?;
    let info = TensorInfo::new(part.tensor.dtype(), part.shape());
    let tensor = Tensor::new(info, &part.read()?).map_err(tensorfile::Error::from).at(part.show.input.path())?;
    let map: TensorMap = [("0", tensor)].into_iter().collect();
    npy.to_writer(out, &map, &WriteOptions::new()).at("standard output".as_ref())
}

fn print_json(dtype: Dtype, shape: &[usize], bytes: &[u8], out: &mut Out) -> io::Result<()> {
    // The brackets that open and close before and behind an element are those of the dims that begin and end there.
    let mut at = vec![0; shape.len()];
    if shape.contains(&0) {
        return writeln!(out, "[]");
    }
    let mut opened = shape.len();
    for number in scalars(dtype, bytes) {
        write!(out, "{}", "[".repeat(opened))?;
        number.write_json(out)?;
        // Counts to the next element, the last dim running fastest.
        let ended = (0..shape.len()).rev().take_while(|&dim| at[dim] + 1 == shape[dim]).count();
        write!(out, "{}", "]".repeat(ended))?;
        if let Some(dim) = (shape.len() - ended).checked_sub(1) {
            at[dim] += 1;
            at[dim + 1..].fill(0);
            write!(out, "{}", if ended == 0 { ", " } else { ",\n" })?;
        }
        opened = ended;
    }
    writeln!(out)
}

fn print_csv(dtype: Dtype, shape: &[usize], bytes: &[u8], out: &mut Out) -> Outcome<()> {
    let columns = match shape {
        [] | [_] => 1,
        [_, columns] => *columns,
        _ => {
            let rank = shape.len();
            return Err(Failure::usage(format_args!(
                "csv is for up to 2 dims, and here are {rank}; --slice takes some out"
            )));
        }
    };
    for (at, number) in scalars(dtype, bytes).enumerate() {
        write!(out, "{number}{}", if (at + 1) % columns == 0 { '\n' } else { ',' })?;
    }
    Ok(())
}
