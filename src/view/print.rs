//! Prints tensors as numpy does.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::ops::Range;

use super::scalar::{Float, Scalar, scalars};
use crate::tensor::{Dtype, Layout, TensorView};

/// Prints arrays as numpy does, with the same options as `numpy.set_printoptions`.
///
/// ```
/// use tensorfile::Tensor;
/// use tensorfile::view::PrintOptions;
///
/// let tensor = Tensor::from_slice(&[1.0_f32, 0.5, -3.25, 2.0], [2, 2])?;
/// assert_eq!(PrintOptions::new().print(&tensor.as_view()).unwrap(), "[[ 1.    0.5 ]\n [-3.25  2.  ]]");
/// # Ok::<(), tensorfile::Error>(())
/// ```
///
/// A tensor with more elements than the [threshold](Self::threshold) is summarized: only the first and the last indices
/// of each dim are printed. To print one without reading the rest, take its [`summary`](Self::summary), read the
/// elements at the summary's [ranges](Summary::ranges), and pass them to [`write`](Self::write).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrintOptions {
    threshold: usize,
    edge_items: usize,
    precision: usize,
    line_width: usize,
}

impl Default for PrintOptions {
    fn default() -> Self {
        Self { threshold: 1000, edge_items: 3, precision: 8, line_width: 75 }
    }
}

impl PrintOptions {
    /// Returns numpy's defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the number of elements above which a tensor is summarized: 1000 by default.
    ///
    /// ```
    /// use tensorfile::Tensor;
    /// use tensorfile::view::PrintOptions;
    ///
    /// let tensor = Tensor::from_slice(&[1_u8, 2, 3, 4, 5, 6, 7, 8], [8])?;
    /// let printed = PrintOptions::new().threshold(7).print(&tensor.as_view());
    /// assert_eq!(printed.as_deref(), Some("[1 2 3 ... 6 7 8]"));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn threshold(mut self, elements: usize) -> Self {
        self.threshold = elements;
        self
    }

    /// Sets the number of indices at each end of a dim in a summary: 3 by default.
    ///
    /// ```
    /// use tensorfile::Tensor;
    /// use tensorfile::view::PrintOptions;
    ///
    /// let tensor = Tensor::from_slice(&[1_u8, 2, 3, 4, 5, 6, 7, 8], [8])?;
    /// let printed = PrintOptions::new().threshold(7).edge_items(1).print(&tensor.as_view());
    /// assert_eq!(printed.as_deref(), Some("[1 ... 8]"));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn edge_items(mut self, items: usize) -> Self {
        self.edge_items = items;
        self
    }

    /// Sets the maximum number of digits after the point: 8 by default.
    ///
    /// ```
    /// use tensorfile::Tensor;
    /// use tensorfile::view::PrintOptions;
    ///
    /// let tensor = Tensor::from_slice(&[0.123456_f32], [1])?;
    /// assert_eq!(PrintOptions::new().precision(2).print(&tensor.as_view()).as_deref(), Some("[0.12]"));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn precision(mut self, digits: usize) -> Self {
        self.precision = digits;
        self
    }

    /// Sets the number of characters after which lines are broken: 75 by default.
    #[must_use]
    pub fn line_width(mut self, characters: usize) -> Self {
        self.line_width = characters;
        self
    }

    /// Returns the indices to print of a tensor with this shape.
    #[must_use]
    pub fn summary(&self, shape: &[usize]) -> Summary {
        let elements = if shape.contains(&0) {
            0
        } else {
            shape.iter().fold(1_usize, |product, &dim| product.saturating_mul(dim))
        };
        let is_cut = |len: usize| elements > self.threshold && len > self.edge_items.saturating_mul(2);
        let dims = shape.iter().map(|&len| SummaryDim { len, edge: is_cut(len).then_some(self.edge_items) });
        Summary { dims: dims.collect() }
    }

    /// Prints a dense tensor, without a newline at the end; returns `None` for a sparse one, and for dtypes that are
    /// unknown or have several elements in a block.
    ///
    /// ```
    /// use tensorfile::Tensor;
    /// use tensorfile::view::PrintOptions;
    ///
    /// let tensor = Tensor::from_slice(&[true, false], [1, 2])?;
    /// assert_eq!(PrintOptions::new().print(&tensor.as_view()).as_deref(), Some("[[ True False]]"));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn print(&self, tensor: &TensorView<'_>) -> Option<String> {
        if !tensor.dtype().has_elements() {
            return None;
        }
        let (shape, size) = (tensor.shape(), tensor.dtype().block_bytes());
        let strides = match tensor.layout() {
            Layout::RowMajor | Layout::Blob => shape.row_major_strides(),
            Layout::DimOrder(order) => order.strides(shape),
            Layout::Coo { .. } | Layout::Unknown(_) => return None,
        };
        let summary = self.summary(shape);
        let mut elements = Vec::new();
        // The remaining dims of an empty tensor may have any length.
        if !tensor.as_bytes().is_empty() {
            gather(tensor.as_bytes(), size, &strides, &summary.dims, 0, &mut elements);
        }
        let mut text = Vec::new();
        self.write(&mut text, tensor.dtype(), &summary, &elements).expect("writing to a `Vec` does not fail");
        Some(String::from_utf8(text).expect("only text is written"))
    }

    /// Writes the elements of a summary, without a newline at the end.
    ///
    /// `elements` holds the elements at the [ranges](Summary::ranges) in row-major order, little-endian.
    ///
    /// # Errors
    ///
    /// If `out` fails.
    pub fn write(&self, out: &mut dyn Write, dtype: Dtype, summary: &Summary, elements: &[u8]) -> io::Result<()> {
        if summary.dims.is_empty() {
            return scalars(dtype, elements).take(1).try_for_each(|scalar| write!(out, "{scalar}"));
        }
        if summary.dims.iter().any(|dim| dim.len == 0) {
            return write!(out, "[]");
        }
        let cells = Cells::of(scalars(dtype, elements), self.precision);
        let mut scalars = scalars(dtype, elements);
        let rank = summary.dims.len();
        let mut rows = Rows { out, cells, width: self.line_width, rank, line: String::new() };
        rows.write(&summary.dims, &mut scalars)
    }
}

/// The indices to print of a tensor: all of them, or at both ends of each dim.
///
/// ```
/// use tensorfile::view::PrintOptions;
///
/// let summary = PrintOptions::new().edge_items(1).summary(&[1000, 1000]);
/// let dims: Vec<_> = summary.ranges().collect();
/// assert_eq!(dims, [[0..1, 999..1000], [0..1, 999..1000]]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    dims: Vec<SummaryDim>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SummaryDim {
    len: usize,
    /// The number of indices at each end; `None` if all are printed.
    edge: Option<usize>,
}

impl Summary {
    /// Returns the indices to print, as ranges for each dim: the whole dim, or two ranges at its ends.
    pub fn ranges(&self) -> impl Iterator<Item = Vec<Range<usize>>> {
        self.dims.iter().map(|dim| dim.ranges().collect())
    }
}

impl SummaryDim {
    fn ranges(self) -> impl Iterator<Item = Range<usize>> {
        let (first, last) = match self.edge {
            None => (0..self.len, None),
            Some(edge) => (0..edge, Some(self.len - edge..self.len)),
        };
        std::iter::once(first).chain(last)
    }

    /// Returns the number of indices to print.
    fn count(self) -> usize {
        self.edge.map_or(self.len, |edge| 2 * edge)
    }
}

/// Appends the elements to print, of `size` bytes each, to `elements`, in row-major order.
fn gather(bytes: &[u8], size: usize, strides: &[usize], dims: &[SummaryDim], first: usize, elements: &mut Vec<u8>) {
    match (dims.split_first(), strides.split_first()) {
        (Some((dim, dims)), Some((stride, strides))) => {
            for index in dim.ranges().flatten() {
                gather(bytes, size, strides, dims, first + index * stride, elements);
            }
        }
        _ => elements.extend_from_slice(&bytes[first * size..][..size]),
    }
}

struct Rows<'a> {
    out: &'a mut dyn Write,
    cells: Cells,
    width: usize,
    rank: usize,
    line: String,
}

impl Rows<'_> {
    /// Writes the elements of these dims, the outermost first, in brackets.
    fn write(&mut self, dims: &[SummaryDim], scalars: &mut dyn Iterator<Item = Scalar>) -> io::Result<()> {
        let Some((outer, inner)) = dims.split_first() else { return Ok(()) };
        if inner.is_empty() {
            return self.write_row(*outer, scalars);
        }
        let indent = self.rank - inner.len();
        write!(self.out, "[")?;
        for index in 0..outer.count() {
            if index > 0 {
                self.break_lines(inner.len(), indent)?;
            }
            if outer.edge == Some(index) {
                write!(self.out, "...")?;
                self.break_lines(inner.len(), indent)?;
            }
            self.write(inner, scalars)?;
        }
        write!(self.out, "]")
    }

    fn break_lines(&mut self, lines: usize, indent: usize) -> io::Result<()> {
        write!(self.out, "{}{}", "\n".repeat(lines), " ".repeat(indent))
    }

    fn write_row(&mut self, row: SummaryDim, scalars: &mut dyn Iterator<Item = Scalar>) -> io::Result<()> {
        // Leaves room for the closing brackets.
        let width = self.width.saturating_sub(self.rank);
        self.line.clear();
        write!(self.out, "[")?;
        for (index, scalar) in scalars.take(row.count()).enumerate() {
            if row.edge == Some(index) {
                self.push("...", width)?;
                self.line.push(' ');
            }
            let cell = self.cells.format(scalar);
            self.push(&cell, width)?;
            self.line.push(' ');
        }
        // There is no space after the last element.
        self.line.pop();
        write!(self.out, "{}]", self.line)
    }

    /// Adds a word to the line, or starts the next line with it.
    fn push(&mut self, word: &str, width: usize) -> io::Result<()> {
        if self.rank + self.line.len() + word.len() > width && !self.line.is_empty() {
            writeln!(self.out, "{}", self.line.trim_end())?;
            write!(self.out, "{}", " ".repeat(self.rank))?;
            self.line.clear();
        }
        self.line.push_str(word);
        Ok(())
    }
}

/// The format of the elements of a tensor, which aligns them in columns.
enum Cells {
    Bool,
    Integer {
        width: usize,
    },
    Float(FloatCells),
    /// The real and the imaginary parts.
    Complex(FloatCells, FloatCells),
}

/// Widths as numpy's `FloatingFormat` computes them.
struct FloatCells {
    /// Positive numbers have a sign too.
    signed: bool,
    scientific: bool,
    precision: usize,
    /// Characters before the point: sign and digits.
    left: usize,
    /// Characters after the point; in scientific notation with the exponent.
    right: usize,
    exponent: usize,
}

impl Cells {
    fn of(scalars: impl Iterator<Item = Scalar> + Clone, precision: usize) -> Self {
        let floats = scalars.clone().filter_map(|scalar| match scalar {
            Scalar::Float(float) | Scalar::Complex(float, _) => Some(float),
            _ => None,
        });
        let imaginary = scalars.clone().filter_map(|scalar| match scalar {
            Scalar::Complex(_, imaginary) => Some(imaginary),
            _ => None,
        });
        match scalars.clone().next() {
            Some(Scalar::Bool(_)) => Self::Bool,
            Some(Scalar::Float(_)) => Self::Float(FloatCells::of(floats, precision, false)),
            Some(Scalar::Complex(..)) => {
                Self::Complex(FloatCells::of(floats, precision, false), FloatCells::of(imaginary, precision, true))
            }
            _ => Self::Integer { width: scalars.map(|scalar| scalar.to_string().len()).max().unwrap_or(0) },
        }
    }

    fn format(&self, scalar: Scalar) -> String {
        match (self, scalar) {
            (Self::Float(cells), Scalar::Float(float)) => cells.format(float),
            (Self::Complex(real_cells, cells), Scalar::Complex(real, imaginary)) => {
                // Blanks after the digits come after the `j`.
                let imaginary = cells.format(imaginary);
                let digits = imaginary.trim_end();
                format!("{}{digits}j{}", real_cells.format(real), &imaginary[digits.len()..])
            }
            (Self::Integer { width }, scalar) => format!("{:>width$}", scalar.to_string()),
            (_, scalar) => format!("{:>5}", scalar.to_string()),
        }
    }
}

impl FloatCells {
    fn of(floats: impl Iterator<Item = Float> + Clone, precision: usize, signed: bool) -> Self {
        let finite = floats.clone().filter(|float| float.value.is_finite());
        let scientific = needs_exponents(finite.clone());
        let mut cells = Self { signed, scientific, precision, left: 0, right: 0, exponent: 0 };
        if scientific {
            cells.precision = 0;
            for float in finite {
                let (mantissa, exponent) = float.scientific(precision);
                let point = mantissa.find('.').unwrap_or(mantissa.len());
                cells.left = cells.left.max(point + cells.sign(float).len());
                cells.precision = cells.precision.max(mantissa.len() - point - 1);
                cells.exponent = cells.exponent.max(exponent.unsigned_abs().to_string().len().max(2));
            }
            cells.right = cells.exponent + 2 + cells.precision;
        } else {
            for float in finite {
                let text = float.positional(precision);
                let point = text.find('.').unwrap_or(text.len());
                cells.left = cells.left.max(point + cells.sign(float).len());
                cells.right = cells.right.max(text.len() - point - 1);
            }
        }
        for float in floats.filter(|float| !float.value.is_finite()) {
            let width = if signed { "-inf".len() } else { float.name().len() };
            cells.left = cells.left.max(width.saturating_sub(cells.right + 1));
        }
        cells
    }

    /// Returns the sign of a number printed as its magnitude.
    fn sign(&self, float: Float) -> &'static str {
        let is_negative = float.value.is_sign_negative() && !float.value.is_nan();
        if self.signed && !is_negative { "+" } else { "" }
    }

    fn format(&self, float: Float) -> String {
        let Self { left, right, precision, exponent: digits, .. } = *self;
        if !float.value.is_finite() {
            return format!("{:>1$}", self.sign(float).to_owned() + float.name(), left + right + 1);
        }
        let number = match self.scientific {
            // All columns have the same digits, even if fewer would identify the number.
            true => format!("{:.precision$e}", float.value),
            false => float.positional(precision),
        };
        let (number, exponent) = number.split_once('e').unwrap_or((&number, ""));
        let (before, after) = number.split_once('.').unwrap_or((number, ""));
        let before = self.sign(float).to_owned() + before;
        let mut text = format!("{before:>left$}.");
        let written = if self.scientific {
            let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
            write!(text, "{after}e{sign}{exponent:0>digits$}")
        } else {
            write!(text, "{after:<right$}")
        };
        written.expect("writing to a `String` does not fail");
        text
    }
}

/// Returns whether numbers are so large, so small or so different that numpy prints them with exponents.
fn needs_exponents(finite: impl Iterator<Item = Float>) -> bool {
    let (mut least, mut most, mut precision) = (f64::INFINITY, 0_f64, None);
    for float in finite.filter(|float| float.value != 0.0) {
        least = least.min(float.value.abs());
        most = most.max(float.value.abs());
        precision = Some(float.precision);
    }
    // numpy compares in the dtype of the tensor.
    precision.is_some_and(|precision| {
        most >= 10_f64.powi(precision.digits.min(8))
            || least < precision.round(0.0001)
            || precision.round(most / least) > 1000.0
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::TensorInfo;

    #[test]
    fn prints_any_memory_order() {
        let info =
            TensorInfo { layout: Layout::from_dim_order(&[1, 0]).unwrap(), ..TensorInfo::new(Dtype::U8, [2, 3]) };
        let tensor = TensorView::new(info, &[1, 4, 2, 5, 3, 6]).unwrap();
        assert_eq!(PrintOptions::new().print(&tensor).unwrap(), "[[1 2 3]\n [4 5 6]]");
        assert_eq!(PrintOptions::new().threshold(2).edge_items(1).print(&tensor).unwrap(), "[[1 ... 3]\n [4 ... 6]]");
    }

    #[test]
    fn empty_tensors_are_printed_at_once() {
        for shape in [&[0][..], &[usize::MAX, 0], &[0, usize::MAX], &[usize::MAX, 2, 0, 3]] {
            let tensor = TensorView::new(TensorInfo::new(Dtype::F32, shape), &[]).unwrap();
            assert_eq!(PrintOptions::new().print(&tensor).unwrap(), "[]", "{shape:?}");
        }
    }
}
