//! Checks that the chunks of a tensor hold each of its elements once.

use std::ops::Range;

use crate::error::{ErrorKind, Result};
use crate::tensor::Shape;

/// A range of each dim.
type Region = Vec<Range<usize>>;

/// Checks that non-empty boxes, given by their offsets and shapes, cover a shape without overlaps.
///
/// The shape is cut in two at an edge of a box, and the halves again, until one box covers each part. The cut is the
/// median edge of the dim with the most edges, so that a grid of boxes takes as many steps as sorting them.
///
/// # Errors
///
/// [`ErrorKind::Malformed`] with the first hole or overlap found, and [`ErrorKind::Limit`] if boxes overlap in too many
/// ways.
pub(crate) fn check_tiling(shape: &Shape, boxes: &[(&Shape, &Shape)]) -> Result<()> {
    for (offsets, dims) in boxes {
        let ends = offsets.iter().zip(dims.iter()).map(|(offset, dim)| offset.checked_add(*dim));
        if offsets.rank() != shape.rank()
            || dims.rank() != shape.rank()
            || !ends.zip(shape.iter()).all(|(end, dim)| end.is_some_and(|end| end <= *dim))
        {
            return malformed(format!("a chunk of {dims} at {offsets} is not within the shape {shape}"));
        }
    }
    let whole: Region = shape.iter().map(|dim| 0..*dim).collect();
    if whole.iter().any(Range::is_empty) {
        return Ok(());
    }
    let regions: Vec<Region> = boxes
        .iter()
        .map(|(offsets, dims)| offsets.iter().zip(dims.iter()).map(|(offset, dim)| *offset..offset + dim).collect())
        .collect();
    let limit = 1024_u64.saturating_add(64 * regions.len() as u64);
    let mut steps = 0;
    let mut left = vec![(whole, (0..regions.len()).collect::<Vec<_>>())];
    while let Some((region, inside)) = left.pop() {
        // Each step takes longer with more dims.
        steps += 1 + (inside.len() * (1 + shape.rank() / 8)) as u64;
        if steps > limit {
            return Err(ErrorKind::Limit { what: "steps for comparing the chunks", found: steps, limit }.into());
        }
        let covers = |number: &usize| {
            regions[*number].iter().zip(&region).all(|(own, whole)| own.start <= whole.start && whole.end <= own.end)
        };
        let Some(first) = inside.first() else {
            return malformed(format!("no chunk has the elements {}", shown(&region)));
        };
        if let Some(covering) = inside.iter().find(|number| covers(number)) {
            if let Some(other) = inside.iter().find(|number| *number != covering) {
                let ranges = regions[*other].iter().zip(&region);
                let both = ranges.map(|(own, whole)| own.start.max(whole.start)..own.end.min(whole.end)).collect();
                return malformed(format!("two chunks have the elements {}", shown(&both)));
            }
            continue;
        }
        let edges = |dim: usize| {
            let whole = &region[dim];
            let edges = inside.iter().flat_map(|number| [regions[*number][dim].start, regions[*number][dim].end]);
            let mut edges: Vec<usize> = edges.filter(|edge| whole.start < *edge && *edge < whole.end).collect();
            edges.sort_unstable();
            edges.dedup();
            edges
        };
        let (dim, edges) = (0..region.len())
            .map(|dim| (dim, edges(dim)))
            .max_by_key(|(_, edges)| edges.len())
            .unwrap_or_else(|| unreachable!("box {first} of a scalar covers it"));
        let cut = edges[edges.len() / 2];
        for half in [region[dim].start..cut, cut..region[dim].end] {
            let within = inside.iter().copied().filter(|number| {
                let own = &regions[*number][dim];
                own.start < half.end && half.start < own.end
            });
            let within = within.collect();
            let mut region = region.clone();
            region[dim] = half;
            left.push((region, within));
        }
    }
    Ok(())
}

fn shown(region: &Region) -> String {
    let ranges: Vec<String> = region.iter().map(|range| format!("{range:?}")).collect();
    format!("[{}]", ranges.join(", "))
}

fn malformed(what: String) -> Result<()> {
    Err(ErrorKind::Malformed { what }.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(shape: &[usize], boxes: &[(&[usize], &[usize])]) -> String {
        let boxes: Vec<(Shape, Shape)> =
            boxes.iter().map(|(offsets, dims)| (Shape::new(offsets), Shape::new(dims))).collect();
        let boxes: Vec<(&Shape, &Shape)> = boxes.iter().map(|(offsets, dims)| (offsets, dims)).collect();
        check_tiling(&Shape::new(shape), &boxes).map_or_else(|error| error.to_string(), |()| "tiled".to_owned())
    }

    #[test]
    fn holes_and_overlaps_are_named() {
        for (shape, boxes, expected) in [
            (&[7, 5][..], &[(&[0, 0][..], &[4, 5][..]), (&[4, 0], &[3, 5])][..], "tiled"),
            (&[7, 5], &[(&[0, 0], &[7, 3]), (&[0, 3], &[7, 2])], "tiled"),
            (&[], &[(&[], &[])], "tiled"),
            (&[0, 3], &[], "tiled"),
            (&[2, 2], &[(&[0, 0], &[1, 1]), (&[0, 1], &[1, 1]), (&[1, 0], &[1, 1]), (&[1, 1], &[1, 1])], "tiled"),
            // A pinwheel, which no cut divides.
            (
                &[3, 3],
                &[(&[0, 0], &[1, 2]), (&[0, 2], &[2, 1]), (&[2, 1], &[1, 2]), (&[1, 0], &[2, 1]), (&[1, 1], &[1, 1])],
                "tiled",
            ),
            (&[7, 5], &[(&[0, 0], &[4, 5])], "no chunk has the elements [4..7, 0..5]"),
            (&[7, 5], &[(&[0, 0], &[4, 5]), (&[3, 0], &[4, 5])], "two chunks have the elements [3..4, 0..5]"),
            (&[7, 5], &[(&[0, 0], &[7, 5]), (&[1, 1], &[1, 1])], "two chunks have the elements [1..2, 1..2]"),
            (&[7, 5], &[(&[4, 0], &[4, 5])], "a chunk of [4, 5] at [4, 0] is not within the shape [7, 5]"),
            (
                &[7, 5],
                &[(&[usize::MAX, 0], &[4, 5])],
                &format!("a chunk of [4, 5] at [{}, 0] is not within the shape [7, 5]", usize::MAX),
            ),
            (&[7, 5], &[(&[0], &[7])], "a chunk of [7] at [0] is not within the shape [7, 5]"),
            (&[], &[], "no chunk has the elements []"),
            (&[3], &[], "no chunk has the elements [0..3]"),
        ] {
            assert_eq!(message(shape, boxes), expected, "{shape:?} {boxes:?}");
        }
    }

    #[test]
    fn many_chunks_take_few_steps() {
        const SIDE: usize = 100;
        let at = |i: usize| (Shape::new(&[i / SIDE, i % SIDE]), Shape::new(&[1, 1]));
        let mut boxes: Vec<(Shape, Shape)> = (0..SIDE * SIDE).map(at).collect();
        let check = |boxes: &[(Shape, Shape)]| {
            let boxes: Vec<(&Shape, &Shape)> = boxes.iter().map(|(offsets, dims)| (offsets, dims)).collect();
            check_tiling(&Shape::new(&[SIDE, SIDE]), &boxes).map_err(|error| error.to_string())
        };
        assert_eq!(check(&boxes), Ok(()));
        boxes.remove(4242);
        assert_eq!(check(&boxes), Err("no chunk has the elements [42..43, 42..43]".to_owned()));
        // All boxes cross each other.
        let crossed = (0..SIDE).flat_map(|i| {
            [(Shape::new(&[i, 0]), Shape::new(&[1, SIDE])), (Shape::new(&[0, i]), Shape::new(&[SIDE, 1]))]
        });
        assert!(check(&crossed.collect::<Vec<_>>()).is_err());
    }
}
