//! Elements at strides in memory, passed on in row-major order.

use std::io;

/// The most bytes that are gathered, unless a run is longer.
const PIECE: usize = 256 << 10;

/// Passes on elements of `item` bytes in row-major order: for [`TensorData`](super::TensorData) in the memory of another
/// library. Runs of elements without gaps are passed on as they are; others are gathered in pieces of up to 256 KiB.
///
/// Strides are in bytes, and may be negative or 0. `run` returns so many bytes, at a distance in bytes from the element
/// at index 0 of each dim.
///
/// ```
/// use tensorfile::model::in_rows;
///
/// // Two rows of three columns, stored column by column.
/// let memory = [1_u8, 4, 2, 5, 3, 6];
/// let run = |start: isize, len: usize| &memory[start.unsigned_abs()..][..len];
/// let mut rows = Vec::new();
/// in_rows(1, &[2, 3], &[1, 2], &run, &mut |piece| {
///     rows.extend_from_slice(piece);
///     Ok(())
/// })?;
/// assert_eq!(rows, [1, 2, 3, 4, 5, 6]);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// Errors of `piece`.
///
/// # Panics
///
/// If there are not as many strides as dims.
pub fn in_rows<'a>(
    item: usize,
    dims: &[usize],
    strides: &[isize],
    run: &dyn Fn(isize, usize) -> &'a [u8],
    piece: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    assert_eq!(dims.len(), strides.len(), "a stride for each dim");
    if dims.contains(&0) {
        return Ok(());
    }
    let (mut outer, mut len) = (dims.len(), item);
    while outer > 0 && (dims[outer - 1] == 1 || strides[outer - 1] == len.cast_signed()) {
        outer -= 1;
        len *= dims[outer];
    }
    let mut rows = RowsAtStrides { outer: &dims[..outer], strides, len, run, gathered: Vec::new(), piece };
    rows.visit(0, 0)?;
    (rows.piece)(&rows.gathered)
}

struct RowsAtStrides<'r, 'a> {
    /// The dims around the runs.
    outer: &'r [usize],
    strides: &'r [isize],
    /// The length of a run in bytes.
    len: usize,
    run: &'r dyn Fn(isize, usize) -> &'a [u8],
    gathered: Vec<u8>,
    piece: &'r mut dyn FnMut(&[u8]) -> io::Result<()>,
}

impl RowsAtStrides<'_, '_> {
    /// Visits the runs in the dims from `dim` on.
    fn visit(&mut self, dim: usize, mut start: isize) -> io::Result<()> {
        let Some(&count) = self.outer.get(dim) else { return self.add(start) };
        let stride = self.strides[dim];
        for _ in 0..count {
            self.visit(dim + 1, start)?;
            start = start.wrapping_add(stride);
        }
        Ok(())
    }

    fn add(&mut self, start: isize) -> io::Result<()> {
        let run = (self.run)(start, self.len);
        if self.gathered.len() + run.len() > PIECE && !self.gathered.is_empty() {
            (self.piece)(&self.gathered)?;
            self.gathered.clear();
        }
        if run.len() > PIECE {
            return (self.piece)(run);
        }
        self.gathered.extend_from_slice(run);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(item: usize, dims: &[usize], strides: &[isize], first: usize, memory: &[u8]) -> (Vec<u8>, usize) {
        let (mut rows, mut pieces) = (Vec::new(), 0);
        let run = |start: isize, len: usize| &memory[first.checked_add_signed(start).unwrap()..][..len];
        in_rows(item, dims, strides, &run, &mut |piece| {
            rows.extend_from_slice(piece);
            pieces += usize::from(!piece.is_empty());
            Ok(())
        })
        .unwrap();
        (rows, pieces)
    }

    #[test]
    fn strides_of_any_sign() {
        let memory: Vec<u8> = (0..12).collect();
        assert_eq!(rows(2, &[6], &[2], 0, &memory), (memory.clone(), 1));
        assert_eq!(rows(1, &[3], &[-1], 2, &memory).0, [2, 1, 0]);
        assert_eq!(rows(2, &[2, 2], &[0, 2], 4, &memory).0, [4, 5, 6, 7, 4, 5, 6, 7]);
        assert_eq!(rows(1, &[2, 1, 2], &[6, 99, 1], 0, &memory).0, [0, 1, 6, 7]);
        assert_eq!(rows(4, &[], &[], 8, &memory).0, [8, 9, 10, 11]);
        assert_eq!(rows(4, &[3, 0], &[4, 4], 0, &memory).0, [0; 0]);
    }

    #[test]
    fn long_runs_are_passed_on_between_gathered_ones() {
        let memory = vec![7; 3 * PIECE];
        assert_eq!(rows(1, &[3 * PIECE], &[1], 0, &memory).1, 1);
        let (elements, pieces) = rows(1, &[2, PIECE], &[1, 2], 0, &memory);
        assert_eq!((elements.len(), pieces), (2 * PIECE, 2));
        let (elements, pieces) = rows(1, &[2, PIECE + 1], &[PIECE.cast_signed(), 1], 0, &memory);
        assert_eq!((elements.len(), pieces), (2 * PIECE + 2, 2));
    }
}
