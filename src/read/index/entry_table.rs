//! The entries of an index, packed: tensors with equal headers share one.

use std::ops::Range;

use smallvec::SmallVec;

use super::Entry;
use crate::read::Codec;
use crate::tensor::sorted;
use crate::tensor::{HeaderTable, TensorInfo};

/// The headers of tensors, and the ranges of their payloads.
#[derive(Debug, Clone, Default)]
pub(crate) struct EntryTable {
    list: Vec<PackedEntry>,
    headers: HeaderTable,
    /// For each header, the payload length if no element needs a check.
    any_bytes: SmallVec<[Option<usize>; 1]>,
    codecs: Vec<Codec>,
}

/// A tensor: the range of its payload, and the numbers of its header and of its codec.
#[derive(Debug, Clone, Copy)]
struct PackedEntry {
    start: u64,
    end: u64,
    info: u32,
    /// One more than the number of the codec; 0 if there is none.
    codec: u32,
}

impl EntryTable {
    #[inline]
    pub(super) fn push(&mut self, info: u32, payload: Range<u64>) {
        self.list.push(PackedEntry { start: payload.start, end: payload.end, info, codec: 0 });
    }

    /// Adds a header, and returns its number.
    #[inline]
    pub(super) fn add_info(&mut self, info: TensorInfo) -> u32 {
        let number = self.headers.add(info);
        if number as usize == self.any_bytes.len() {
            self.any_bytes.push(self.headers.get(number).any_bytes());
        }
        number
    }

    pub(super) fn pop(&mut self) {
        self.list.pop();
    }

    pub(super) fn clear(&mut self) {
        self.list.clear();
        self.headers.clear();
        self.any_bytes.clear();
        self.codecs.clear();
    }

    pub(super) fn reserve(&mut self, tensors: usize) {
        self.list.reserve_exact(tensors);
    }

    pub(super) fn capacity(&self) -> usize {
        self.list.capacity()
    }

    /// Frees spare capacity, if it is large.
    pub(super) fn shrink(&mut self) {
        if self.list.capacity() - self.list.len() > self.list.len() / 8 {
            self.list.shrink_to_fit();
        }
        self.headers.shrink();
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    #[inline]
    pub(super) fn get(&self, index: usize) -> Entry<'_> {
        let entry = &self.list[index];
        Entry {
            info: self.headers.get(entry.info),
            start: entry.start,
            end: entry.end,
            codec: if entry.codec == 0 { None } else { self.codecs.get(entry.codec as usize - 1) },
        }
    }

    /// Returns whether any `bytes` bytes are a payload of a tensor, as [`TensorInfo::takes_any`] does.
    #[inline]
    pub(crate) fn takes_any(&self, index: usize, bytes: usize) -> bool {
        self.any_bytes.as_slice()[self.list[index].info as usize] == Some(bytes)
    }

    /// Returns the number of the header of a tensor. Tensors with one number have one header.
    #[inline]
    pub(crate) fn info_number(&self, index: usize) -> u32 {
        self.list[index].info
    }

    /// Returns the memory of the table in bytes, without codecs.
    pub(crate) fn bytes(&self) -> usize {
        self.list.len() * size_of::<PackedEntry>() + self.headers.bytes()
    }

    pub(crate) fn has_coo(&self) -> bool {
        self.headers.has_coo
    }

    /// Returns the first tensor, from `first` on, whose payload ends after `len`.
    pub(super) fn ending_after(&self, len: u64, first: usize) -> Option<usize> {
        (first..self.list.len()).find(|index| self.list[*index].end > len)
    }

    /// Returns whether the payloads of some tensors start in ascending order.
    pub(super) fn are_in_order(&self, tensors: Range<usize>) -> bool {
        self.list[tensors].is_sorted_by_key(|entry| entry.start)
    }

    /// Sorts the tensors by the start and end of their payloads. Returns their old positions, if the order changes.
    pub(super) fn sort(&mut self) -> Option<Vec<usize>> {
        let (list, key) = (&self.list, |entry: &PackedEntry| (entry.start, entry.end));
        if list.is_sorted_by_key(key) {
            return None;
        }
        let order = sorted::positions(list.len(), &mut |one, other| key(&list[one]).cmp(&key(&list[other])));
        self.list = order.iter().map(|&index| list[index]).collect();
        Some(order)
    }

    /// Sets the range of a tensor.
    pub(crate) fn set_range(&mut self, index: usize, range: &Range<u64>) {
        let entry = &mut self.list[index];
        (entry.start, entry.end) = (range.start, range.end);
    }

    /// Sets the header of a tensor.
    pub(crate) fn set_info(&mut self, index: usize, info: TensorInfo) {
        self.list[index].info = self.add_info(info);
    }

    /// Sets the codec of a tensor without one.
    pub(crate) fn set_codec(&mut self, index: usize, codec: Codec) {
        self.codecs.push(codec);
        self.list[index].codec = u32::try_from(self.codecs.len()).expect("there are no more than tensors");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tensor_takes_little_memory() {
        // The entries of a large index take most of the memory for it.
        assert_eq!(size_of::<PackedEntry>(), 24);
    }
}
