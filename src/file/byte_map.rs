//! Counts the bytes of a file by their use.

use std::collections::HashMap;
use std::ops::Range;

use super::{File, FileTensor};
use crate::tensor::{Layout, sorted};

/// Counts of the bytes of a file: payloads, and the bytes before, between and after them.
///
/// `payload + before + between + after` is the length of the file.
///
/// ```
/// use tensorfile::view::ByteMap;
///
/// // Two payloads in a file of 32 bytes.
/// let map = ByteMap::new([8..16, 20..24], 32);
/// assert_eq!((map.payload, map.before, map.between, map.after), (12, 8, 4, 8));
/// assert_eq!(map.alignment, Some(4));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ByteMap {
    /// Bytes of at least one payload.
    pub payload: u64,
    /// Shared bytes: each counts once for every payload after the first.
    pub shared: u64,
    /// Bytes before the first payload.
    pub before: u64,
    /// Bytes between payloads: padding, record headers, and unused bytes.
    pub between: u64,
    /// The number of gaps counted in `between`.
    pub gaps: u64,
    /// The length of the longest gap.
    pub largest_gap: u64,
    /// Bytes after the last payload.
    pub after: u64,
    /// The largest power of two dividing the offset of every payload; `None` without payloads.
    pub alignment: Option<u64>,
}

impl ByteMap {
    /// Counts the bytes of an open file. Nothing is read.
    ///
    /// In a checkpoint with several shards, bytes after the last payload of a shard count as [`after`](Self::after). A tensor
    /// in several [places](super::FileTensor::places) has the bytes of all of them, and shares none.
    ///
    /// ```
    /// use tensorfile::view::ByteMap;
    /// use tensorfile::{File, TensorMap, ten};
    ///
    /// let file = File::from_bytes(ten::to_vec(&TensorMap::from_iter([("a", ndarray::array![1.0_f32])]))?)?;
    /// let map = ByteMap::from_file(&file);
    /// assert_eq!(map.payload, 4);
    /// assert_eq!(map.payload + map.before + map.between + map.after, file.file_bytes());
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn from_file(file: &File) -> Self {
        if file.storage.part(0).is_none() {
            let payloads = || file.tensors().map(|tensor| tensor.range()).filter(|payload| !payload.is_empty());
            // There may be millions of payloads, and most files have them in order.
            return if payloads().is_sorted_by_key(|payload| (payload.start, payload.end)) {
                Self::in_order(payloads(), file.file_bytes())
            } else {
                Self::new(payloads(), file.file_bytes())
            };
        }
        // Offsets count from the start of each shard. Places of tensors in several may have others between their elements.
        let mut shards: HashMap<_, [Vec<Range<u64>>; 2]> = HashMap::new();
        for tensor in file.tensors() {
            let is_gathered = file.storage.gathered(tensor.entry().start()).is_some();
            for (path, range) in tensor.places() {
                shards.entry(path).or_default()[usize::from(is_gathered)].push(range);
            }
        }
        let mut map = Self::default();
        for [whole, gathered] in shards.into_values() {
            let end = whole.iter().chain(&gathered).map(|payload| payload.end).max().unwrap_or_default();
            let shared = Self::new(whole.iter().cloned(), end).shared;
            map.add(&Self { shared, ..Self::new([whole, gathered].concat(), end) });
        }
        map.after = file.file_bytes().saturating_sub(map.payload + map.before + map.between);
        map
    }

    /// Counts the bytes of a file of `file_bytes` bytes with these payloads. Empty ranges are ignored.
    #[must_use]
    pub fn new(payloads: impl IntoIterator<Item = Range<u64>>, file_bytes: u64) -> Self {
        let payloads = payloads.into_iter().filter(|payload| !payload.is_empty()).collect();
        let place = |payload: &Range<u64>| (payload.start, payload.end);
        Self::in_order(sorted::values(payloads, &mut |one, other| place(one).cmp(&place(other))), file_bytes)
    }

    /// Counts the bytes around non-empty payloads, in offset order.
    fn in_order(payloads: impl IntoIterator<Item = Range<u64>>, file_bytes: u64) -> Self {
        let mut payloads = payloads.into_iter().peekable();
        let Some(start) = payloads.peek().map(|first| first.start) else {
            return Self { before: file_bytes, ..Self::default() };
        };
        let mut map = Self { before: start, ..Self::default() };
        let (mut end, mut offsets) = (start, 0);
        for payload in payloads {
            offsets |= payload.start;
            if let Some(gap) = payload.start.checked_sub(end).filter(|gap| *gap > 0) {
                map.between += gap;
                map.gaps += 1;
                map.largest_gap = map.largest_gap.max(gap);
            }
            let new = payload.end.saturating_sub(payload.start.max(end));
            map.payload += new;
            map.shared = map.shared.saturating_add(payload.end - payload.start - new);
            end = end.max(payload.end);
        }
        map.alignment = 1_u64.checked_shl(offsets.trailing_zeros());
        map.after = file_bytes.saturating_sub(end);
        map
    }

    fn add(&mut self, shard: &Self) {
        self.payload += shard.payload;
        self.shared = self.shared.saturating_add(shard.shared);
        self.before += shard.before;
        self.between += shard.between;
        self.gaps += shard.gaps;
        self.largest_gap = self.largest_gap.max(shard.largest_gap);
        self.alignment = [self.alignment, shard.alignment].into_iter().flatten().min();
    }
}

/// Returns whether the payload of a tensor starts at a multiple of the alignment of its elements in the file.
///
/// Otherwise, arrays cannot borrow it from a mapped file. Empty, sparse and compressed tensors and blobs, which arrays
/// never borrow, count as aligned.
///
/// ```
/// use tensorfile::view::is_aligned;
/// use tensorfile::{File, TensorMap, ten};
///
/// let file = File::from_bytes(ten::to_vec(&TensorMap::from_iter([("a", ndarray::array![1.0_f32])]))?)?;
/// assert!(file.tensors().all(|tensor| is_aligned(&tensor)));
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[must_use]
pub fn is_aligned(tensor: &FileTensor<'_>) -> bool {
    let range = tensor.range();
    let is_compressed = range.end - range.start != tensor.payload_bytes();
    let is_dense = matches!(tensor.layout(), Layout::RowMajor | Layout::DimOrder(_));
    let alignment = tensor.dtype().unit_bytes() as u64;
    !is_dense || is_compressed || range.is_empty() || range.start.is_multiple_of(alignment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_every_byte() {
        let payloads = [64..72, 16..32, 48..64, 48..64, 20..24, 7..7];
        let map = ByteMap::new(payloads, 80);
        let expected = ByteMap {
            payload: 40,
            shared: 20,
            before: 16,
            between: 16,
            gaps: 1,
            largest_gap: 16,
            after: 8,
            alignment: Some(4),
        };
        assert_eq!(map, expected);
        assert_eq!(map.before + map.payload + map.between + map.after, 80);
    }

    #[test]
    fn a_file_without_payload_is_all_before() {
        assert_eq!(ByteMap::new(std::iter::once(8..8), 24), ByteMap { before: 24, ..ByteMap::default() });
    }

    #[test]
    fn alignment_is_that_of_every_offset() {
        assert_eq!(ByteMap::new(std::iter::once(0..4), 4).alignment, None);
        assert_eq!(ByteMap::new([0..4, 32..36], 36).alignment, Some(32));
    }
}
