//! Tensors as numpy prints them, shortened as it does.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::ops::Range;

use tensorfile::Dtype;

use crate::scalar::{Float, Scalar, scalars};
use crate::select::whole;

/// How tensors are printed.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// A tensor of more elements is shortened.
    pub threshold: usize,
    /// The elements at both ends of each dim that a shortened tensor keeps.
    pub edge: usize,
    /// Digits behind the point.
    pub precision: usize,
    /// Where lines are broken.
    pub width: usize,
}

impl Default for Style {
    /// As numpy has it.
    fn default() -> Self {
        Self { threshold: 1000, edge: 3, precision: 8, width: 75 }
    }
}

impl Style {
    /// What is shown of each dim: all of it, or its two ends.
    pub fn shown(&self, shape: &[usize]) -> Vec<Shown> {
        let elements = match shape.contains(&0) {
            true => 0,
            false => shape.iter().fold(1_usize, |product, &dim| product.saturating_mul(dim)),
        };
        let is_cut = |dim: usize| elements > self.threshold && dim > self.edge.saturating_mul(2);
        shape.iter().map(|&dim| Shown { dim, edge: is_cut(dim).then_some(self.edge) }).collect()
    }
}

/// What is shown of a dim.
#[derive(Debug, Clone, Copy)]
pub struct Shown {
    dim: usize,
    /// So many at both ends, if not all.
    edge: Option<usize>,
}

impl Shown {
    /// The indices that are shown.
    pub fn ranges(self) -> Vec<Range<usize>> {
        match self.edge {
            None => whole(self.dim),
            Some(edge) => vec![0..edge, self.dim - edge..self.dim],
        }
    }

    /// How many are shown.
    pub fn count(self) -> usize {
        self.edge.map_or(self.dim, |edge| 2 * edge)
    }
}

/// Prints the elements that are shown, row by row in little-endian `bytes`, without a line's end.
pub fn print(out: &mut impl Write, dtype: Dtype, shown: &[Shown], bytes: &[u8], style: &Style) -> io::Result<()> {
    if shown.is_empty() {
        return scalars(dtype, bytes).take(1).try_for_each(|number| write!(out, "{number}"));
    }
    if shown.iter().any(|shown| shown.dim == 0) {
        return write!(out, "[]");
    }
    let cells = Cells::of(scalars(dtype, bytes), style);
    let mut numbers = scalars(dtype, bytes);
    let mut rows = Rows { out, cells, width: style.width, rank: shown.len(), line: String::new() };
    rows.print(shown, &mut numbers)
}

struct Rows<'a, W> {
    out: &'a mut W,
    cells: Cells,
    width: usize,
    rank: usize,
    line: String,
}

impl<W: Write> Rows<'_, W> {
    /// Prints what is in the outermost of these dims, in brackets.
    fn print(&mut self, shown: &[Shown], numbers: &mut impl Iterator<Item = Scalar>) -> io::Result<()> {
        let Some((outer, inner)) = shown.split_first() else { return Ok(()) };
        if inner.is_empty() {
            return self.print_row(*outer, numbers);
        }
        let indent = self.rank - inner.len();
        write!(self.out, "[")?;
        for at in 0..outer.count() {
            if at > 0 {
                self.break_lines(inner.len(), indent)?;
            }
            if outer.edge == Some(at) {
                write!(self.out, "...")?;
                self.break_lines(inner.len(), indent)?;
            }
            self.print(inner, numbers)?;
        }
        write!(self.out, "]")
    }

    fn break_lines(&mut self, lines: usize, indent: usize) -> io::Result<()> {
        write!(self.out, "{}{}", "\n".repeat(lines), " ".repeat(indent))
    }

    fn print_row(&mut self, row: Shown, numbers: &mut impl Iterator<Item = Scalar>) -> io::Result<()> {
        // The brackets that may have to stand behind a line.
        let width = self.width.saturating_sub(self.rank);
        self.line.clear();
        write!(self.out, "[")?;
        for (at, number) in numbers.take(row.count()).enumerate() {
            if row.edge == Some(at) {
                self.word("...", width)?;
                self.line.push(' ');
            }
            let word = self.cells.write(number);
            self.word(&word, width)?;
            self.line.push(' ');
        }
        // Behind the last one stands no blank.
        self.line.pop();
        write!(self.out, "{}]", self.line)
    }

    /// Adds a word to the line, or begins another line with it.
    fn word(&mut self, word: &str, width: usize) -> io::Result<()> {
        if self.rank + self.line.len() + word.len() > width && !self.line.is_empty() {
            writeln!(self.out, "{}", self.line.trim_end())?;
            write!(self.out, "{}", " ".repeat(self.rank))?;
            self.line.clear();
        }
        self.line.push_str(word);
        Ok(())
    }
}

/// How the elements of a tensor are written so that they stand below each other.
enum Cells {
    Bool,
    Integer { width: usize },
    Float(Floats),
}

/// Widths as numpy's `FloatingFormat` finds them.
struct Floats {
    scientific: bool,
    precision: usize,
    /// Digits and sign before the point.
    left: usize,
    /// What stands behind the point; in scientific writing the exponent too.
    right: usize,
    exponent: usize,
}

impl Cells {
    fn of(numbers: impl Iterator<Item = Scalar> + Clone, style: &Style) -> Self {
        let floats = numbers.clone().filter_map(|number| match number {
            Scalar::Float(float) => Some(float),
            _ => None,
        });
        match numbers.clone().next() {
            Some(Scalar::Bool(_)) => Self::Bool,
            Some(Scalar::Float(_)) => Self::Float(Floats::of(floats, style.precision)),
            _ => Self::Integer { width: numbers.map(|number| number.to_string().len()).max().unwrap_or(0) },
        }
    }

    fn write(&self, number: Scalar) -> String {
        match (self, number) {
            (Self::Float(floats), Scalar::Float(float)) => floats.write(float),
            (Self::Integer { width }, number) => format!("{:>width$}", number.to_string()),
            (_, number) => format!("{:>5}", number.to_string()),
        }
    }
}

impl Floats {
    fn of(floats: impl Iterator<Item = Float> + Clone, precision: usize) -> Self {
        let finite = floats.clone().filter(|float| float.value.is_finite());
        let mut found = Self { scientific: is_wide(finite.clone()), precision, left: 0, right: 0, exponent: 0 };
        if found.scientific {
            found.precision = 0;
            for float in finite {
                let (mantissa, exponent) = float.scientific(precision);
                let point = mantissa.find('.').unwrap_or(mantissa.len());
                found.left = found.left.max(point);
                found.precision = found.precision.max(mantissa.len() - point - 1);
                found.exponent = found.exponent.max(exponent.unsigned_abs().to_string().len().max(2));
            }
            found.right = found.exponent + 2 + found.precision;
        } else {
            for float in finite {
                let text = float.positional(precision);
                let point = text.find('.').unwrap_or(text.len());
                found.left = found.left.max(point);
                found.right = found.right.max(text.len() - point - 1);
            }
        }
        for float in floats.filter(|float| !float.value.is_finite()) {
            found.left = found.left.max(float.name().len().saturating_sub(found.right + 1));
        }
        found
    }

    fn write(&self, float: Float) -> String {
        let Self { left, right, precision, exponent: digits, .. } = *self;
        if !float.value.is_finite() {
            return format!("{:>1$}", float.name(), left + right + 1);
        }
        let number = match self.scientific {
            // A column of digits that are all there: these may be more than tell the number from others.
            true => format!("{:.precision$e}", float.value),
            false => float.positional(precision),
        };
        let (number, exponent) = number.split_once('e').unwrap_or((&number, ""));
        let (before, behind) = number.split_once('.').unwrap_or((number, ""));
        let mut text = format!("{before:>left$}.");
        let written = match self.scientific {
            true => {
                let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
                write!(text, "{behind}e{sign}{exponent:0>digits$}")
            }
            false => write!(text, "{behind:<right$}"),
        };
        written.expect("a string can be written to");
        text
    }
}

/// Whether the numbers are so far apart, so large or so small that they are written with exponents.
fn is_wide(finite: impl Iterator<Item = Float>) -> bool {
    let (mut least, mut most, mut kind) = (f64::INFINITY, 0_f64, None);
    for float in finite.filter(|float| float.value != 0.0) {
        least = least.min(float.value.abs());
        most = most.max(float.value.abs());
        kind = Some(float.kind);
    }
    // numpy compares in the tensor's own dtype.
    kind.is_some_and(|kind| {
        most >= 10_f64.powi(kind.digits.min(8)) || least < kind.round(0.0001) || kind.round(most / least) > 1000.0
    })
}

#[cfg(test)]
mod tests {
    use tensorfile::{Element, Tensor};

    use super::*;

    /// Made by `write.py` beside it.
    const PRINTED: &str = include_str!("../../../tests/fixtures/numpy/printed.txt");

    #[test]
    fn prints_what_numpy_prints() {
        let mut wrong = Vec::new();
        let cases: Vec<&str> = PRINTED.split("== ").skip(1).collect();
        assert!(cases.len() > 100, "the fixture has cases");
        for case in cases {
            let (head, expected) = case.split_once('\n').unwrap();
            let [dtype, shape, values] = head.split(' ').collect::<Vec<_>>()[..] else { panic!("{head}") };
            let dtype: Dtype = dtype.parse().unwrap();
            let shape: Vec<usize> = match shape {
                "-" => Vec::new(),
                dims => dims.split('x').map(|dim| dim.parse().unwrap()).collect(),
            };
            let found = printed(dtype, &shape, &bytes(dtype, shape.iter().product(), values)) + "\n";
            if found != expected {
                wrong.push(format!("{head}: numpy prints\n{expected}but we\n{found}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    fn printed(dtype: Dtype, shape: &[usize], bytes: &[u8]) -> String {
        let style = Style::default();
        let shown = style.shown(shape);
        let mut kept: Vec<&[u8]> = bytes.chunks_exact(dtype.block_bytes()).collect();
        for (at, shown) in shown.iter().enumerate() {
            let inner: usize = shape[at + 1..].iter().product();
            let here = |index: &usize| shown.ranges().iter().any(|range| range.contains(&(index / inner % shown.dim)));
            kept = (0..kept.len()).filter(here).map(|index| kept[index]).collect();
        }
        let mut text = Vec::new();
        print(&mut text, dtype, &shown, &kept.concat(), &style).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "numpy casts these numbers so, too")]
    fn bytes(dtype: Dtype, count: usize, values: &str) -> Vec<u8> {
        fn tensor<A: Element>(numbers: &[f64], to: fn(f64) -> A) -> Vec<u8> {
            let numbers: Vec<A> = numbers.iter().map(|number| to(*number)).collect();
            Tensor::from_slice(&numbers, [numbers.len()]).unwrap().as_bytes().to_vec()
        }
        let Some((start, step)) = values.split_once('+') else {
            let digits: Vec<char> = values.chars().filter(|digit| *digit != '-').collect();
            return digits.chunks(2).map(|pair| u8::from_str_radix(&String::from_iter(pair), 16).unwrap()).collect();
        };
        let (start, step): (f64, f64) = (start.parse().unwrap(), step.parse().unwrap());
        let numbers: Vec<f64> = (0..count).map(|at| start + step * at as f64).collect();
        match dtype {
            Dtype::F32 => tensor(&numbers, |number| number as f32),
            Dtype::F64 => tensor(&numbers, |number| number),
            Dtype::I64 => tensor(&numbers, |number| number as i64),
            Dtype::U8 => tensor(&numbers, |number| number as u8),
            _ => panic!("{dtype} does not count"),
        }
    }
}
