//! Reads ahead in sources of ranges: payloads are asked for together, before they are needed one by one.

use std::collections::VecDeque;
use std::ops::Range;

use super::FileStorage;
use crate::error::Result;
use crate::tensor::Buffer;

/// The most bytes that are read ahead.
const AHEAD: usize = 32 << 20;

/// The most ranges that are asked for together.
const RANGES: usize = 4096;

/// Ranges that will be read in this order, and the bytes of the next ones.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    ranges: VecDeque<Announced>,
    /// In file order; without the bytes of those that were taken.
    held: Vec<(Range<u64>, Option<Buffer>)>,
}

/// A payload, or a part of one.
#[derive(Debug)]
struct Announced {
    /// The offset of bytes before it that its checksum covers.
    head: u64,
    range: Range<u64>,
    /// The size of an element.
    element: usize,
}

impl Announced {
    fn contains(&self, offset: u64) -> bool {
        (self.head..self.range.end).contains(&offset)
    }
}

impl Ahead {
    /// Announces a payload with elements of `element` bytes, and the offset of bytes before it that are needed. A payload
    /// `in_parts` is not asked for with one read.
    pub(super) fn announce(&mut self, head: u64, range: Range<u64>, element: usize, in_parts: bool) {
        let most = if in_parts { AHEAD as u64 } else { u64::MAX };
        let (mut head, mut start) = (head, range.start);
        while start < range.end {
            let end = range.end.min(start.saturating_add(most));
            self.ranges.push_back(Announced { head, range: start..end, element });
            (head, start) = (end, end);
        }
    }

    /// Takes a range that was read ahead, or is read now, with the ranges after it.
    pub(super) fn take(&mut self, storage: &FileStorage, range: &Range<u64>) -> Option<Buffer> {
        let i = self.find(storage, range.start).ok()??;
        let (found, buffer) = &mut self.held[i];
        if found == range { buffer.take() } else { None }
    }

    /// Fills the beginning of `bytes` with bytes that were read ahead, or are read now, and returns their number.
    pub(super) fn read(&mut self, storage: &FileStorage, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        let Some(i) = self.find(storage, offset)? else { return Ok(0) };
        let (range, Some(held)) = &self.held[i] else { return Ok(0) };
        let start = usize::try_from(offset - range.start).unwrap_or(usize::MAX);
        let found = held.get(start..).unwrap_or_default();
        let now = found.len().min(bytes.len());
        bytes[..now].copy_from_slice(&found[..now]);
        Ok(now)
    }

    /// Returns the position of the held range with an offset. If it comes next, or later, it is read with the ranges
    /// after it.
    fn find(&mut self, storage: &FileStorage, offset: u64) -> Result<Option<usize>> {
        let position = |held: &[(Range<u64>, Option<Buffer>)]| {
            let i = held.partition_point(|(range, _)| range.end <= offset);
            held.get(i).is_some_and(|(range, buffer)| range.contains(&offset) && buffer.is_some()).then_some(i)
        };
        if let Some(i) = position(&self.held) {
            return Ok(Some(i));
        }
        let Some(next) = self.ranges.iter().position(|next| next.contains(offset)) else { return Ok(None) };
        self.ranges.drain(..next);
        self.held.clear();
        let (mut bytes, mut end, mut now) = (0, 0, Vec::<(Range<u64>, usize)>::new());
        while let Some(Announced { head, range, element }) = self.ranges.front() {
            bytes += range.end - head;
            let overlaps = |other: &Range<u64>| other.start < range.end && *head < other.end;
            let is_asked_for = *head < end && now.iter().any(|(other, _)| overlaps(other));
            let is_long = range.end - range.start > AHEAD as u64;
            let is_full = bytes > AHEAD as u64 || now.len() >= RANGES;
            if is_long || is_full && !now.is_empty() || is_asked_for {
                break;
            }
            end = end.max(range.end);
            if *head < range.start {
                now.push((*head..range.start, 1));
            }
            now.push((range.clone(), *element));
            self.ranges.pop_front();
        }
        now.sort_by_key(|(range, _)| range.start);
        for (range, element) in now {
            let len = usize::try_from(range.end - range.start).expect("it is short");
            self.held.push((range, Some(Buffer::try_zeroed(element, len)?)));
        }
        let reads = self.held.iter_mut();
        let mut reads: Vec<(u64, &mut [u8])> =
            reads.filter_map(|(range, buffer)| Some((range.start, &mut buffer.as_mut()?[..]))).collect();
        if let Err(error) = storage.read_many(&mut reads) {
            self.held.clear();
            return Err(error);
        }
        Ok(position(&self.held))
    }
}
