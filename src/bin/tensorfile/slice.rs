//! Parts of a tensor in numpy's words: `0:8, :, ::-1, ..., 3`.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use crate::failure::{Failure, Outcome};
use crate::size::counted;

/// What `--slice` says, before it is known of which tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscript(Vec<Part>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Index(i64),
    Slice { start: Option<i64>, stop: Option<i64>, step: i64 },
    Ellipsis,
}

/// The indices `start, start + step, …` of a dim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Axis {
    pub start: usize,
    pub step: isize,
    pub count: usize,
    /// Whether a single index was asked for, which leaves no dim.
    pub drop: bool,
}

impl FromStr for Subscript {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<Part> = match text.trim() {
            "" => Vec::new(),
            text => text.split(',').map(|part| parse(part.trim())).collect::<Result<_, _>>()?,
        };
        match parts.iter().filter(|part| **part == Part::Ellipsis).count() {
            0 | 1 => Ok(Self(parts)),
            _ => Err("`...` can stand once only".to_owned()),
        }
    }
}

fn parse(text: &str) -> Result<Part, String> {
    if text == "..." {
        return Ok(Part::Ellipsis);
    }
    let number = |text: &str| {
        text.trim().parse::<i64>().map_err(|_| format!("`{text}` is not an index; expected `3`, `0:8`, `::2` or `...`"))
    };
    let bound = |text: &str| if text.trim().is_empty() { Ok(None) } else { number(text).map(Some) };
    let bounds: Vec<&str> = text.split(':').collect();
    match bounds[..] {
        [index] => number(index).map(Part::Index),
        [start, stop] => Ok(Part::Slice { start: bound(start)?, stop: bound(stop)?, step: 1 }),
        [start, stop, step] => match bound(step)?.unwrap_or(1) {
            0 => Err("the step of a slice cannot be 0".to_owned()),
            step => Ok(Part::Slice { start: bound(start)?, stop: bound(stop)?, step }),
        },
        _ => Err(format!("`{text}` has more colons than `start:stop:step`")),
    }
}

impl Subscript {
    /// Every element.
    pub fn all() -> Self {
        Self(Vec::new())
    }

    /// The part of a tensor of that shape that is meant: an axis for each of its dims.
    pub fn of(&self, shape: &[usize]) -> Outcome<Vec<Axis>> {
        let named = self.0.iter().filter(|part| **part != Part::Ellipsis).count();
        let Some(unnamed) = shape.len().checked_sub(named) else {
            let (indices, dims) = (counted(named as u64, "dim"), shape.len());
            return Err(Failure::usage(format_args!("--slice `{self}` is for {indices}, but the tensor has {dims}")));
        };
        let full = Part::Slice { start: None, stop: None, step: 1 };
        let ellipsis = self.0.iter().position(|part| *part == Part::Ellipsis).unwrap_or(self.0.len());
        let before = self.0.iter().take(ellipsis);
        let after = self.0.iter().skip(ellipsis + 1);
        let parts = before.copied().chain(std::iter::repeat_n(full, unnamed)).chain(after.copied());
        parts.zip(shape).enumerate().map(|(at, (part, &dim))| part.of(at, dim)).collect()
    }
}

impl Part {
    fn of(self, at: usize, dim: usize) -> Outcome<Axis> {
        match self {
            Self::Index(index) => {
                let found = if index < 0 { i128::from(index) + wide(dim) } else { index.into() };
                let found = usize::try_from(found).ok().filter(|&found| found < dim);
                let start = found.ok_or_else(|| {
                    Failure::usage(format_args!("--slice: index {index} is outside dim {at}, which is {dim}"))
                })?;
                Ok(Axis { start, step: 1, count: 1, drop: true })
            }
            Self::Slice { start, stop, step } => Ok(slice(start, stop, step, dim)),
            Self::Ellipsis => Ok(Axis::full(dim)),
        }
    }
}

/// As `slice.indices` of Python: bounds beyond the ends are the ends.
fn slice(start: Option<i64>, stop: Option<i64>, step: i64, dim: usize) -> Axis {
    let dim = wide(dim);
    let (low, high) = if step > 0 { (0, dim) } else { (-1, dim - 1) };
    let clamp = |bound: i64| {
        let bound = i128::from(bound);
        (if bound < 0 { bound + dim } else { bound }).clamp(low, high)
    };
    let start = start.map_or(if step > 0 { low } else { high }, clamp);
    let stop = stop.map_or(if step > 0 { high } else { low }, clamp);
    let distance = if step > 0 { stop - start } else { start - stop };
    let count = if distance > 0 { (distance - 1) / i128::from(step).abs() + 1 } else { 0 };
    // All of these lie within the dim, so that nothing is changed here but the type.
    let narrow = |number: i128| usize::try_from(number).unwrap_or(0);
    let step = if count > 1 { isize::try_from(step).unwrap_or(1) } else { 1 };
    Axis { start: narrow(if count == 0 { 0 } else { start }), step, count: narrow(count), drop: false }
}

fn wide(dim: usize) -> i128 {
    i128::try_from(dim).unwrap_or(i128::MAX)
}

impl Axis {
    /// All of a dim.
    pub fn full(dim: usize) -> Self {
        Self { start: 0, step: 1, count: dim, drop: false }
    }

    /// The index in the dim of what is `at` in the slice.
    pub fn index(self, at: usize) -> usize {
        self.start.wrapping_add_signed(self.step.wrapping_mul(at.cast_signed()))
    }

    /// What is in `range` of the slice.
    pub fn part(self, range: Range<usize>) -> Self {
        Self { start: self.index(range.start), count: range.len(), ..self }
    }

    /// From the least index to the greatest, with all between.
    pub fn hull(self) -> Range<usize> {
        let Some(last) = self.count.checked_sub(1) else { return self.start..self.start };
        let (one, other) = (self.start, self.index(last));
        one.min(other)..one.max(other) + 1
    }
}

impl fmt::Display for Subscript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, part) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(", ")?;
            }
            match part {
                Part::Index(index) => index.fmt(f)?,
                Part::Ellipsis => f.write_str("...")?,
                Part::Slice { start, stop, step } => {
                    start.map_or(Ok(()), |start| start.fmt(f))?;
                    f.write_str(":")?;
                    stop.map_or(Ok(()), |stop| stop.fmt(f))?;
                    if *step != 1 {
                        write!(f, ":{step}")?;
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The indices that a slice of a dim has.
    fn indices(text: &str, dim: usize) -> Vec<usize> {
        let axis = text.parse::<Subscript>().unwrap().of(&[dim]).unwrap()[0];
        let indices: Vec<usize> = (0..axis.count).map(|at| axis.index(at)).collect();
        assert!(indices.iter().all(|index| axis.hull().contains(index)), "{text} of {dim}: {axis:?}");
        assert_eq!(axis.hull().is_empty(), indices.is_empty());
        indices
    }

    /// What `list(range(dim))[text]` is in Python.
    #[test]
    fn bounds_mean_what_they_mean_in_python() {
        for (text, dim, expected) in [
            (":", 3, &[0, 1, 2][..]),
            ("1:", 3, &[1, 2]),
            (":-1", 3, &[0, 1]),
            ("-2:", 3, &[1, 2]),
            ("0:100", 3, &[0, 1, 2]),
            ("-100:1", 3, &[0]),
            ("2:1", 3, &[]),
            ("5:9", 3, &[]),
            ("::2", 5, &[0, 2, 4]),
            ("1::2", 5, &[1, 3]),
            ("::-1", 3, &[2, 1, 0]),
            ("3:0:-2", 5, &[3, 1]),
            ("0:3:-1", 5, &[]),
            ("-1:-4:-1", 5, &[4, 3, 2]),
            ("100::-3", 5, &[4, 1]),
            ("::9223372036854775807", 5, &[0]),
            ("::-9223372036854775808", 5, &[4]),
            (":", 0, &[]),
            ("::-1", 0, &[]),
        ] {
            assert_eq!(indices(text, dim), expected, "{text} of {dim}");
        }
    }

    #[test]
    fn an_ellipsis_stands_for_the_other_dims() {
        let axes = |text: &str| -> Vec<(Range<usize>, bool)> {
            let axes = text.parse::<Subscript>().unwrap().of(&[2, 3, 4]).unwrap();
            axes.iter().map(|axis| (axis.hull(), axis.drop)).collect()
        };
        assert_eq!(axes(""), [(0..2, false), (0..3, false), (0..4, false)]);
        assert_eq!(axes("1"), [(1..2, true), (0..3, false), (0..4, false)]);
        assert_eq!(axes("..., -1"), [(0..2, false), (0..3, false), (3..4, true)]);
        assert_eq!(axes("0, ..., 1:3"), [(0..1, true), (0..3, false), (1..3, false)]);
        assert_eq!(axes("0, 1, ..., 2"), [(0..1, true), (1..2, true), (2..3, true)]);
    }

    #[test]
    fn what_is_no_slice_is_told() {
        for (text, message) in [
            ("a", "`a` is not an index; expected `3`, `0:8`, `::2` or `...`"),
            ("1,,2", "`` is not an index; expected `3`, `0:8`, `::2` or `...`"),
            ("..., ...", "`...` can stand once only"),
            ("::0", "the step of a slice cannot be 0"),
            ("1:2:3:4", "`1:2:3:4` has more colons than `start:stop:step`"),
        ] {
            assert_eq!(text.parse::<Subscript>(), Err(message.to_owned()), "{text}");
        }
        for text in ["0, 0, 0", "2", "-3"] {
            assert!(text.parse::<Subscript>().unwrap().of(&[2, 3]).is_err(), "{text}");
        }
    }

    #[test]
    fn a_slice_is_written_as_it_was_read() {
        for text in ["0:8, :", "::-1, 3", "..., 2:", ":5:2"] {
            assert_eq!(text.parse::<Subscript>().unwrap().to_string(), text);
        }
    }
}
