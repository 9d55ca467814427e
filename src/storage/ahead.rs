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
    /// Long payloads of a source that several tensors have. The last one takes over the bytes that were read for the first.
    tied: Vec<Held>,
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

impl Held {
    /// Counts a use, and returns whether it was the last one.
    fn count_use(&mut self) -> bool {
        self.uses = self.uses.saturating_sub(1);
        self.uses == 0
    }
}

/// Returns whether a range is read alone.
fn is_long(range: &Range<u64>) -> bool {
    range.end - range.start > AHEAD as u64
}

/// A payload, or a part of one.
#[derive(Debug)]
struct Announced {
    /// The offset of bytes before it that its checksum covers.
    head: u64,
    range: Range<u64>,
    /// The size of an element.
    element: usize,
    is_taken_over: bool,
}

impl Announced {
    fn contains(&self, offset: u64) -> bool {
        (self.head..self.range.end).contains(&offset)
    }
}

impl Ahead {
    /// Announces a payload with elements of `element` bytes, and the offset of bytes before it that are needed. A payload
    /// `in_parts` is not asked for with one read. The bytes of another one may be taken over as memory of their own.
    pub(super) fn announce(
        &mut self,
        head: u64,
        range: Range<u64>,
        element: usize,
        (in_parts, is_taken_over): (bool, bool),
    ) {
        let most = if in_parts { AHEAD as u64 } else { u64::MAX };
        let (mut head, mut start) = (head, range.start);
        while start < range.end {
            let end = range.end.min(start.saturating_add(most));
            self.ranges.push_back(Announced { head, range: start..end, element, is_taken_over });
            (head, start) = (end, end);
        }
    }

    /// Takes a range that was read ahead, or is read now, with the ranges after it.
    pub(super) fn take(&mut self, storage: &FileStorage, range: &Range<u64>) -> Result<Option<Buffer>> {
        let Some(held) = self.find(storage, range.start)?.filter(|held| held.range == *range) else { return Ok(None) };
        Ok(if held.count_use() { held.bytes.take() } else { held.bytes.clone() })
    }

    /// Fills the beginning of `bytes` with bytes that were read ahead, or are read now, and returns their number.
    pub(super) fn read(&mut self, storage: &FileStorage, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        let Some(held) = self.find(storage, offset)? else { return Ok(0) };
        let start = usize::try_from(offset - held.range.start).unwrap_or(usize::MAX);
        let found = held.bytes.as_ref().and_then(|held| held.get(start..)).unwrap_or_default();
        let now = found.len().min(bytes.len());
        bytes[..now].copy_from_slice(&found[..now]);
        if now == found.len() && is_long(&held.range) && held.count_use() {
            // It is not taken over, such as by an array of another dtype.
            held.bytes = None;
        }
        Ok(now)
    }

    /// Returns the held range with an offset. If it comes next, or later, it is read with the ranges after it.
    fn find(&mut self, storage: &FileStorage, offset: u64) -> Result<Option<&mut Held>> {
        let mut place = self.place(offset);
        if place.is_none() {
            self.read_next(storage, offset)?;
            place = self.place(offset);
        }
        Ok(place.map(|(is_tied, i)| if is_tied { &mut self.tied[i] } else { &mut self.held[i] }))
    }

    /// Returns whether the held range with an offset is a tied one, and its position.
    fn place(&self, offset: u64) -> Option<(bool, usize)> {
        let has = |held: &Held| held.range.contains(&offset) && held.bytes.is_some();
        if let Some(i) = self.tied.iter().position(has) {
            return Some((true, i));
        }
        let i = self.held.partition_point(|held| held.range.end <= offset);
        self.held.get(i).is_some_and(has).then_some((false, i))
    }

    /// Reads the announced range with an offset, and the ranges after it. If reading these fails, and not for this one, it
    /// has to be read alone, and so has a long one.
    fn read_next(&mut self, storage: &FileStorage, offset: u64) -> Result<()> {
        let Some(next) = self.ranges.iter().position(|next| next.contains(offset)) else { return Ok(()) };
        self.ranges.drain(..next);
        let wanted = self.ranges.front().map_or(0..0, |next| next.head..next.range.end);
        self.held.clear();
        if self.read_tied(storage)? {
            return Ok(());
        }
        let (mut bytes, mut end) = (0, 0);
        let mut now = Vec::<(Range<u64>, usize, usize)>::new();
        while let Some(Announced { head, range, element, .. }) = self.ranges.front() {
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
            let is_full = bytes > AHEAD as u64 || now.len() >= RANGES;
            if is_long(range) || is_full && !now.is_empty() || overlaps_one {
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
            Ok(()) => Ok(()),
            Err(error) => {
                self.held.clear();
                let is_its_own = error.offset().is_some_and(|offset| wanted.contains(&offset));
                if is_its_own { Err(error) } else { Ok(()) }
            }
        }
    }

    /// Reads the next range if it is a long one of a source, and announced again for another tensor. It takes no more memory
    /// than the tensors do: the last one takes over the bytes.
    fn read_tied(&mut self, storage: &FileStorage) -> Result<bool> {
        let is_alone = |next: &Announced| is_long(&next.range) && next.head == next.range.start;
        let Some(next) = self.ranges.front().filter(|next| next.is_taken_over && is_alone(next)) else {
            return Ok(false);
        };
        let is_same = |other: &&Announced| other.range == next.range && other.element == next.element;
        let uses = self.ranges.iter().filter(is_same).count();
        if uses == 1 || !storage.is_source(next.range.start) {
            return Ok(false);
        }
        let range = next.range.clone();
        let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let mut bytes = Buffer::try_zeroed(next.element, len)?;
        storage.read_at(range.start, &mut bytes)?;
        self.tied.push(Held { range, bytes: Some(bytes), uses });
        self.ranges.pop_front();
        Ok(true)
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
        ranges.iter().for_each(|range| ahead.announce(range.start, range.clone(), 1, (false, false)));
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
        ranges.iter().for_each(|range| ahead.announce(range.start, range.clone(), 1, (false, false)));
        assert!(ahead.take(&storage, &ranges[0]).unwrap().is_none(), "it is read alone");
        ranges[1..].iter().for_each(|range| ahead.announce(range.start, range.clone(), 1, (false, false)));
        let error = ahead.take(&storage, &ranges[1]).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Truncated { needed: 6, left: 5 }), "{error}");
        assert_eq!(error.offset(), Some(95));
    }
}
