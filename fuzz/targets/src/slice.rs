//! Compares the program's slices with Python's rules.

use tensorfile_cli::{Axis, Slice};

use crate::budget::bounded;
use crate::input::Input;

pub fn run(input: &[u8]) {
    let mut input = Input(input);
    let shape: Vec<usize> = (0..input.below(5)).map(|_| input.below(12)).collect();
    let Ok(text) = std::str::from_utf8(input.0) else { return };
    let Ok(slice) = bounded("parsing", text.len(), || text.parse::<Slice>()) else { return };
    assert_eq!(slice.to_string().parse::<Slice>().as_ref(), Ok(&slice), "{text} is printed as {slice}");
    let huge = [usize::MAX; 3];
    for shape in [&shape[..], &[], &[5], &[3, 0], &huge] {
        let Ok(axes) = bounded("a slice of a shape", text.len(), || slice.axes(shape)) else { continue };
        assert_eq!(axes.len(), shape.len());
        for (&len, axis) in shape.iter().zip(&axes) {
            check(text, *axis, len);
        }
        if text.trim().split(',').count() == shape.len() && !text.contains("...") && !text.trim().is_empty() {
            for ((item, axis), &len) in text.split(',').zip(&axes).zip(shape) {
                if len < 20 {
                    let found: Vec<usize> = (0..axis.count).map(|at| axis.index(at)).collect();
                    assert_eq!(Some(found), indices(item, len), "`{item}` of {len}");
                }
            }
        }
    }
}

/// Checks that the indices are within the dim.
fn check(text: &str, axis: Axis, len: usize) {
    let bounds = axis.bounds();
    assert!(bounds.end <= len && bounds.start <= bounds.end, "`{text}` of {len}: {axis:?}");
    assert_eq!(bounds.is_empty(), axis.count == 0, "`{text}` of {len}: {axis:?}");
    for at in [0, axis.count / 2, axis.count.saturating_sub(1)] {
        assert!(axis.count == 0 || bounds.contains(&axis.index(at)), "`{text}` of {len}: {axis:?}");
    }
    let half = axis.narrow(axis.count / 3..axis.count / 2);
    assert!(half.count == 0 || half.index(0) == axis.index(axis.count / 3), "`{text}` of {len}: {axis:?}");
}

/// Returns the indices selected by Python, one after the other; `None` if an index is out of range.
fn indices(item: &str, len: usize) -> Option<Vec<usize>> {
    let len = i128::try_from(len).unwrap();
    let parts: Vec<Option<i128>> = item.split(':').map(|part| part.trim().parse().ok()).collect();
    let in_dim = |at: i128| (0..len).contains(&at).then(|| usize::try_from(at).unwrap());
    if let [index] = parts[..] {
        let index = index?;
        return Some(vec![in_dim(if index < 0 { index + len } else { index })?]);
    }
    let step = parts.get(2).copied().flatten().unwrap_or(1);
    let from_end = |bound: i128| if bound < 0 { bound + len } else { bound };
    let (low, high) = if step > 0 { (0, len) } else { (-1, len - 1) };
    let start = parts[0].map_or(if step > 0 { low } else { high }, |bound| from_end(bound).clamp(low, high));
    let stop = parts[1].map_or(if step > 0 { high } else { low }, |bound| from_end(bound).clamp(low, high));
    let mut found = Vec::new();
    let mut at = start;
    while if step > 0 { at < stop } else { at > stop } {
        found.push(in_dim(at)?);
        at += step;
    }
    Some(found)
}

/// A rank, its dims, and a slice.
pub fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        "",
        ":",
        "3",
        "-1",
        "0:8, :",
        "::-1, 3",
        "..., 2:",
        ":5:2",
        "1:-1:3",
        "-9223372036854775808::-9223372036854775808",
    ];
    let dims = [&[0][..], &[1, 7], &[2, 3, 9], &[3, 2, 0, 11]];
    dims.iter().flat_map(|dims| texts.map(|text| [dims, text.as_bytes()].concat())).collect()
}
