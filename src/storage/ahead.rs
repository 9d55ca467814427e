//! Reads ahead: payloads of a source of ranges are asked for together, and those of a file on disk read by several
//! threads, before they are needed one by one.

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
    /// In file order.
    held: Vec<Held>,
}

/// A range that was read ahead.
#[derive(Debug)]
struct Held {
    range: Range<u64>,
    /// `None` once it was taken.
    bytes: Option<Buffer>,
    /// The number of times that it will be read: by each of several tensors.
    uses: usize,
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
    pub(super) fn take(&mut self, storage: &FileStorage, range: &Range<u64>) -> Result<Option<Buffer>> {
        let Some(i) = self.find(storage, range.start)? else { return Ok(None) };
        let held = &mut self.held[i];
        if held.range != *range {
            return Ok(None);
        }
        held.uses = held.uses.saturating_sub(1);
        Ok(if held.uses == 0 { held.bytes.take() } else { held.bytes.clone() })
    }

    /// Fills the beginning of `bytes` with bytes that were read ahead, or are read now, and returns their number.
    pub(super) fn read(&mut self, storage: &FileStorage, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        let Some(i) = self.find(storage, offset)? else { return Ok(0) };
        let Held { range, bytes: Some(held), .. } = &self.held[i] else { return Ok(0) };
        let start = usize::try_from(offset - range.start).unwrap_or(usize::MAX);
        let found = held.get(start..).unwrap_or_default();
        let now = found.len().min(bytes.len());
        bytes[..now].copy_from_slice(&found[..now]);
        Ok(now)
    }

    /// Returns the position of the held range with an offset. If it comes next, or later, it is read with the ranges
    /// after it. If reading these fails, and not for this one, it has to be read alone.
    fn find(&mut self, storage: &FileStorage, offset: u64) -> Result<Option<usize>> {
        let position = |held: &[Held]| {
            let i = held.partition_point(|held| held.range.end <= offset);
            held.get(i).is_some_and(|held| held.range.contains(&offset) && held.bytes.is_some()).then_some(i)
        };
        if let Some(i) = position(&self.held) {
            return Ok(Some(i));
        }
        let Some(next) = self.ranges.iter().position(|next| next.contains(offset)) else { return Ok(None) };
        self.ranges.drain(..next);
        let wanted = self.ranges.front().map_or(0..0, |next| next.head..next.range.end);
        self.held.clear();
        let (mut bytes, mut end) = (0, 0);
        let mut now = Vec::<(Range<u64>, usize, usize)>::new();
        while let Some(Announced { head, range, element }) = self.ranges.front() {
            let is_asked_for = *head < end;
            // Tensors may be tied.
            let same = |(other, size, _): &&mut (Range<u64>, usize, usize)| other == range && size == element;
            if is_asked_for && let Some((.., uses)) = now.iter_mut().find(same) {
                *uses += 1;
                self.ranges.pop_front();
                continue;
            }
            bytes += range.end - head;
            let overlaps = |other: &Range<u64>| other.start < range.end && *head < other.end;
            let overlaps_one = is_asked_for && now.iter().any(|(other, ..)| overlaps(other));
            let is_long = range.end - range.start > AHEAD as u64;
            let is_full = bytes > AHEAD as u64 || now.len() >= RANGES;
            if is_long || is_full && !now.is_empty() || overlaps_one {
                break;
            }
            end = end.max(range.end);
            if *head < range.start {
                now.push((*head..range.start, 1, 1));
            }
            now.push((range.clone(), *element, 1));
            self.ranges.pop_front();
        }
        now.sort_by_key(|(range, ..)| range.start);
        for (range, element, uses) in now {
            let len = usize::try_from(range.end - range.start).expect("it is short");
            self.held.push(Held { range, bytes: Some(Buffer::try_zeroed(element, len)?), uses });
        }
        let reads = self.held.iter_mut();
        let mut reads: Vec<(u64, &mut [u8])> =
            reads.filter_map(|held| Some((held.range.start, &mut held.bytes.as_mut()?[..]))).collect();
        match storage.read_many(&mut reads) {
            Ok(()) => Ok(position(&self.held)),
            Err(error) => {
                self.held.clear();
                let is_its_own = error.offset().is_some_and(|offset| wanted.contains(&offset));
                if is_its_own { Err(error) } else { Ok(None) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::error::ErrorKind;

    /// A file of 100 bytes that are their offsets, read at positions.
    fn file() -> FileStorage {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&(0..100).collect::<Vec<u8>>()).unwrap();
        FileStorage::positioned(file, 200)
    }

    #[test]
    fn ranges_of_a_file_are_read_together() {
        let (storage, mut ahead) = (file(), Ahead::default());
        // Two tensors have the first range.
        let ranges = [40..50, 10..20, 40..50, 60..63, 64..70];
        ranges.iter().for_each(|range| ahead.announce(range.start, range.clone(), 1, false));
        let stored: Vec<u8> = (0..100).collect();
        let bytes = |range: &Range<u64>| {
            stored[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()].to_vec()
        };
        assert_eq!(ahead.take(&storage, &ranges[0]).unwrap().unwrap()[..], bytes(&ranges[0]));
        assert!(ahead.ranges.is_empty() && ahead.held.len() == 4, "{ahead:?}");
        // One may be left out.
        for range in &ranges[2..] {
            assert_eq!(ahead.take(&storage, range).unwrap().unwrap()[..], bytes(range));
        }
        assert!(ahead.held.iter().filter(|held| held.bytes.is_some()).count() == 1, "{ahead:?}");
        assert!(ahead.take(&storage, &ranges[0]).unwrap().is_none());
    }

    #[test]
    fn an_error_is_that_of_the_range_that_is_wanted() {
        let (storage, mut ahead) = (file(), Ahead::default());
        let ranges = [90..95, 95..101, 150..160];
        ranges.iter().for_each(|range| ahead.announce(range.start, range.clone(), 1, false));
        assert!(ahead.take(&storage, &ranges[0]).unwrap().is_none(), "it is read alone");
        ranges[1..].iter().for_each(|range| ahead.announce(range.start, range.clone(), 1, false));
        let error = ahead.take(&storage, &ranges[1]).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Truncated { needed: 6, left: 5 }), "{error}");
        assert_eq!(error.offset(), Some(95));
    }
}
