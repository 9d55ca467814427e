//! Slices in numpy's notation, such as `0:8, :, ::-1, ..., 3`.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use crate::exit::{Failure, Outcome};
use crate::output::numbers::counted;

/// The value of `--slice`: a part of a tensor in numpy's notation, `0:8, :, ::-1, ..., 3`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice(Vec<SliceItem>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SliceItem {
    Index(i64),
    Range { start: Option<i64>, stop: Option<i64>, step: i64 },
    Ellipsis,
}

/// The indices `start, start + step, …` of a dim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Axis {
    /// The first index.
    pub start: usize,
    /// The distance to the next index.
    pub step: isize,
    /// The number of indices.
    pub count: usize,
    /// Set for a single index, which removes the dim.
    pub drop: bool,
}

impl FromStr for Slice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let items: Vec<SliceItem> = match text.trim() {
            "" => Vec::new(),
            text => text.split(',').map(|item| item.trim().parse()).collect::<Result<_, _>>()?,
        };
        match items.iter().filter(|item| **item == SliceItem::Ellipsis).count() {
            0 | 1 => Ok(Self(items)),
            _ => Err("`...` may occur only once".to_owned()),
        }
    }
}

impl FromStr for SliceItem {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "..." {
            return Ok(Self::Ellipsis);
        }
        let number = |text: &str| {
            let number = text.trim().parse::<i64>();
            number.map_err(|_| format!("`{text}` is not an index; expected `3`, `0:8`, `::2` or `...`"))
        };
        let bound = |text: &str| if text.trim().is_empty() { Ok(None) } else { number(text).map(Some) };
        let bounds: Vec<&str> = text.split(':').collect();
        match bounds[..] {
            [index] => number(index).map(Self::Index),
            [start, stop] => Ok(Self::Range { start: bound(start)?, stop: bound(stop)?, step: 1 }),
            [start, stop, step] => match bound(step)?.unwrap_or(1) {
                0 => Err("the step of a slice cannot be 0".to_owned()),
                step => Ok(Self::Range { start: bound(start)?, stop: bound(stop)?, step }),
            },
            _ => Err(format!("`{text}` has more colons than `start:stop:step`")),
        }
    }
}

impl Slice {
    /// Returns a slice with every element.
    pub fn all() -> Self {
        Self(Vec::new())
    }

    /// Applies the slice to a tensor of this shape; returns an axis for each dim.
    pub fn axes(&self, shape: &[usize]) -> Outcome<Vec<Axis>> {
        let given = self.0.iter().filter(|item| **item != SliceItem::Ellipsis).count();
        let Some(missing) = shape.len().checked_sub(given) else {
            let (given, rank) = (counted(given, "dim"), shape.len());
            return Err(Failure::usage(format_args!("--slice `{self}` has {given}, but the tensor has {rank}")));
        };
        let full = SliceItem::Range { start: None, stop: None, step: 1 };
        let ellipsis = self.0.iter().position(|item| *item == SliceItem::Ellipsis).unwrap_or(self.0.len());
        let before = self.0.iter().take(ellipsis);
        let after = self.0.iter().skip(ellipsis + 1);
        let items = before.copied().chain(std::iter::repeat_n(full, missing)).chain(after.copied());
        items.zip(shape).enumerate().map(|(i, (item, &len))| item.axis(i, len)).collect()
    }
}

impl SliceItem {
    /// Applies the item to a dim with `len` indices.
    fn axis(self, i: usize, len: usize) -> Outcome<Axis> {
        match self {
            Self::Index(index) => {
                let found = if index < 0 { i128::from(index) + wide(len) } else { index.into() };
                let found = usize::try_from(found).ok().filter(|&found| found < len);
                let start = found.ok_or_else(|| {
                    Failure::usage(format_args!("--slice: index {index} is out of bounds for dim {i} of length {len}"))
                })?;
                Ok(Axis { start, step: 1, count: 1, drop: true })
            }
            Self::Range { start, stop, step } => Ok(range(start, stop, step, len)),
            Self::Ellipsis => Ok(Axis::full(len)),
        }
    }
}

/// Clamps a range to a dim as Python's `slice.indices` does.
fn range(start: Option<i64>, stop: Option<i64>, step: i64, len: usize) -> Axis {
    let len = wide(len);
    let (low, high) = if step > 0 { (0, len) } else { (-1, len - 1) };
    let clamp = |bound: i64| {
        let bound = i128::from(bound);
        (if bound < 0 { bound + len } else { bound }).clamp(low, high)
    };
    let start = start.map_or(if step > 0 { low } else { high }, clamp);
    let stop = stop.map_or(if step > 0 { high } else { low }, clamp);
    let distance = if step > 0 { stop - start } else { start - stop };
    let count = if distance > 0 { (distance - 1) / i128::from(step).abs() + 1 } else { 0 };
    // Both numbers are between 0 and `len`, so the conversion does not fail.
    let narrow = |number: i128| usize::try_from(number).unwrap_or(0);
    let step = if count > 1 { isize::try_from(step).unwrap_or(1) } else { 1 };
    Axis { start: narrow(if count == 0 { 0 } else { start }), step, count: narrow(count), drop: false }
}

fn wide(len: usize) -> i128 {
    i128::try_from(len).unwrap_or(i128::MAX)
}

impl Axis {
    /// Returns every index of a dim.
    pub fn full(len: usize) -> Self {
        Self { start: 0, step: 1, count: len, drop: false }
    }

    /// Converts a position in the slice to an index of the dim.
    pub fn index(self, i: usize) -> usize {
        self.start.wrapping_add_signed(self.step.wrapping_mul(i.cast_signed()))
    }

    /// Returns the indices at a range of positions in the slice.
    pub fn narrow(self, range: Range<usize>) -> Self {
        Self { start: self.index(range.start), count: range.len(), ..self }
    }

    /// Returns the range from the smallest index to the largest.
    pub fn bounds(self) -> Range<usize> {
        let Some(last) = self.count.checked_sub(1) else { return self.start..self.start };
        let (one, other) = (self.start, self.index(last));
        one.min(other)..one.max(other) + 1
    }
}

impl fmt::Display for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, item) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            match item {
                SliceItem::Index(index) => index.fmt(f)?,
                SliceItem::Ellipsis => f.write_str("...")?,
                SliceItem::Range { start, stop, step } => {
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

    /// Returns the indices of a dim selected by a slice.
    fn indices(text: &str, dim: usize) -> Vec<usize> {
        let axis = text.parse::<Slice>().unwrap().axes(&[dim]).unwrap()[0];
        let indices: Vec<usize> = (0..axis.count).map(|i| axis.index(i)).collect();
        assert!(indices.iter().all(|index| axis.bounds().contains(index)), "{text} of {dim}: {axis:?}");
        assert_eq!(axis.bounds().is_empty(), indices.is_empty());
        indices
    }

    /// Expects `list(range(dim))[text]` of Python.
    #[test]
    fn bounds_are_those_of_python() {
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
    fn ellipsis_fills_the_remaining_dims() {
        let axes = |text: &str| -> Vec<(Range<usize>, bool)> {
            let axes = text.parse::<Slice>().unwrap().axes(&[2, 3, 4]).unwrap();
            axes.iter().map(|axis| (axis.bounds(), axis.drop)).collect()
        };
        assert_eq!(axes(""), [(0..2, false), (0..3, false), (0..4, false)]);
        assert_eq!(axes("1"), [(1..2, true), (0..3, false), (0..4, false)]);
        assert_eq!(axes("..., -1"), [(0..2, false), (0..3, false), (3..4, true)]);
        assert_eq!(axes("0, ..., 1:3"), [(0..1, true), (0..3, false), (1..3, false)]);
        assert_eq!(axes("0, 1, ..., 2"), [(0..1, true), (1..2, true), (2..3, true)]);
    }

    #[test]
    fn rejects_invalid_slices() {
        for (text, message) in [
            ("a", "`a` is not an index; expected `3`, `0:8`, `::2` or `...`"),
            ("1,,2", "`` is not an index; expected `3`, `0:8`, `::2` or `...`"),
            ("..., ...", "`...` may occur only once"),
            ("::0", "the step of a slice cannot be 0"),
            ("1:2:3:4", "`1:2:3:4` has more colons than `start:stop:step`"),
        ] {
            assert_eq!(text.parse::<Slice>(), Err(message.to_owned()), "{text}");
        }
        for text in ["0, 0, 0", "2", "-3"] {
            assert!(text.parse::<Slice>().unwrap().axes(&[2, 3]).is_err(), "{text}");
        }
    }

    #[test]
    fn displays_the_parsed_text() {
        for text in ["0:8, :", "::-1, 3", "..., 2:", ":5:2"] {
            assert_eq!(text.parse::<Slice>().unwrap().to_string(), text);
        }
    }
}
