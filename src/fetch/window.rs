//! Reads ahead for loading: payloads are read together, before they are taken one by one.

use std::collections::VecDeque;
use std::ops::Range;

use super::read::read_ranges;
use crate::error::Result;
use crate::read::Entry;
use crate::storage::{FileReader, FileStorage, ReadAt, ReadCost, Storage};
use crate::tensor::Buffer;

/// The most bytes that are read ahead.
const AHEAD: usize = 32 << 20;

/// The most ranges that are read together.
const RANGES: usize = 4096;

/// A file of which payloads will be read in a known order, and the bytes of the next ones.
#[derive(Debug)]
pub(crate) struct LoadWindow<'f> {
    file: FileReader<'f>,
    storage: &'f FileStorage,
    announced: VecDeque<Announced>,
    /// In the announced order.
    held: Vec<Held>,
    /// The position of the range that was found last.
    last: usize,
}

/// A range that was read ahead.
#[derive(Debug)]
struct Held {
    range: Range<u64>,
    /// The bytes; `None` once they were taken.
    bytes: Option<Buffer>,
    /// The number of tensors that will take it.
    uses: usize,
}

impl Held {
    /// Takes the bytes. Before the last tensor, the others get copies.
    fn take(&mut self) -> Option<Buffer> {
        self.uses = self.uses.saturating_sub(1);
        if self.uses == 0 { self.bytes.take() } else { self.bytes.clone() }
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

impl<'f> LoadWindow<'f> {
    pub(crate) fn new(storage: &'f FileStorage) -> Self {
        let (announced, held) = Default::default();
        Self { file: FileReader::new(storage), storage, announced, held, last: 0 }
    }

    /// A window for one payload, read in order.
    pub(super) fn with_payload(storage: &'f FileStorage, entry: &Entry<'_>) -> Self {
        let mut window = Self::new(storage);
        window.announce(entry, false);
        window
    }

    /// Announces a payload that will be read. It is read with the ones announced after it: by requests, or by several
    /// threads from a file on disk if the payload `is_taken_over` as memory of its own.
    pub(crate) fn announce(&mut self, entry: &Entry<'_>, is_taken_over: bool) {
        let is_taken_over = is_taken_over && !entry.has_codec();
        let is_read_ahead = match self.storage.cost(entry.start()) {
            Some(ReadCost::Request) => true,
            Some(ReadCost::Call) => is_taken_over,
            _ => false,
        };
        if !is_read_ahead {
            return;
        }
        // Encoded payloads are read in parts.
        let most = if entry.has_codec() { AHEAD as u64 } else { u64::MAX };
        let (mut head, Range { mut start, end }, element) =
            (entry.needed_from(), entry.range(), entry.info().unit_bytes());
        while start < end {
            let range = start..end.min(start.saturating_add(most));
            start = range.end;
            self.announced.push_back(Announced { head, range, element, is_taken_over });
            head = start;
        }
    }

    /// Returns the position of the held range with an offset. If it comes next, or later, it is read with the ranges
    /// after it.
    fn find(&mut self, offset: u64) -> Result<Option<usize>> {
        let mut found = self.place(offset);
        if found.is_none() {
            self.read_next(offset)?;
            found = self.place(offset);
        }
        Ok(found)
    }

    fn place(&mut self, offset: u64) -> Option<usize> {
        // Ranges are mostly taken in order.
        let last = self.last.min(self.held.len());
        let has = |i: &usize| self.held[*i].range.contains(&offset) && self.held[*i].bytes.is_some();
        let found = (last..self.held.len()).chain(0..last).find(has)?;
        self.last = found;
        Some(found)
    }

    /// Reads the announced range with an offset, and the ranges after it. If reading fails for one of the others, this
    /// range has to be read alone. A long range is read alone, too.
    fn read_next(&mut self, offset: u64) -> Result<()> {
        let Some(next) = self.announced.iter().position(|next| next.contains(offset)) else { return Ok(()) };
        self.announced.drain(..next);
        let wanted = self.announced.front().map_or(0..0, |next| next.head..next.range.end);
        // A long range is held for the other tensors that have it.
        self.held.retain(|held| is_long(&held.range) && held.bytes.is_some());
        let kept = self.held.len();
        self.last = kept;
        if !self.hold_tied()? {
            self.hold_next()?;
        }
        let now = self.held[kept..].iter_mut();
        let ranges = now.filter_map(|held| Some((held.range.start, &mut held.bytes.as_mut()?[..])));
        let Err((failed, error)) = read_ranges(self.storage, ranges) else { return Ok(()) };
        let is_its_own = wanted.contains(&self.held[kept + failed].range.start);
        self.held.truncate(kept);
        if is_its_own { Err(error) } else { Ok(()) }
    }

    /// Allocates memory for a range that `uses` tensors will take.
    fn hold(&mut self, range: Range<u64>, element: usize, uses: usize) -> Result<()> {
        let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        self.held.push(Held { range, bytes: Some(Buffer::try_zeroed(element, len)?), uses });
        Ok(())
    }

    /// Makes memory for the next ranges, as many as are read together.
    fn hold_next(&mut self) -> Result<()> {
        let (mut bytes, mut count) = (0, 0);
        while let Some(Announced { head, range, element, .. }) = self.announced.front() {
            bytes += range.end - head;
            let is_full = bytes > AHEAD as u64 || count >= RANGES;
            if is_long(range) || is_full && count > 0 {
                break;
            }
            let (head, range, element) = (*head..range.start, range.clone(), *element);
            if !head.is_empty() {
                self.hold(head, 1, 1)?;
            }
            self.hold(range, element, 1)?;
            count += 1;
            self.announced.pop_front();
        }
        Ok(())
    }

    /// Allocates memory for the next range if it is long, takes requests, and is announced again for other tensors.
    /// This takes no more memory than the tensors do, because the last one takes over the bytes.
    fn hold_tied(&mut self) -> Result<bool> {
        let Some(next) = self.announced.front() else { return Ok(false) };
        let is_alone = next.is_taken_over && is_long(&next.range) && next.head == next.range.start;
        let (range, element) = (next.range.clone(), next.element);
        let is_same = |other: &Announced| other.range == range && other.element == element;
        let uses = self.announced.iter().filter(|other| is_same(other)).count();
        if !is_alone || uses == 1 || !self.storage.takes_requests(range.start) {
            return Ok(false);
        }
        self.announced.retain(|other| !is_same(other));
        self.hold(range, element, uses)?;
        Ok(true)
    }

    /// Fills the beginning of `bytes` with bytes that were read ahead, or are read now, and returns their number.
    fn read_held(&mut self, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        let Some(i) = self.find(offset)? else { return Ok(0) };
        let held = &mut self.held[i];
        let start = usize::try_from(offset - held.range.start).unwrap_or(usize::MAX);
        let found = held.bytes.as_ref().and_then(|held| held.get(start..)).unwrap_or_default();
        let now = found.len().min(bytes.len());
        bytes[..now].copy_from_slice(&found[..now]);
        if now == found.len() && is_long(&held.range) {
            // The tensor does not take over the bytes, for example because its array has another dtype.
            held.uses = held.uses.saturating_sub(1);
            if held.uses == 0 {
                held.bytes = None;
            }
        }
        Ok(now)
    }
}

impl ReadAt for LoadWindow<'_> {
    fn file_len(&self) -> Option<u64> {
        self.file.file_len()
    }

    fn read_at(&mut self, mut offset: u64, mut bytes: &mut [u8]) -> Result<()> {
        while !self.announced.is_empty() || !self.held.is_empty() {
            match self.read_held(offset, bytes)? {
                0 => break,
                now => (offset, bytes) = (offset + now as u64, &mut bytes[now..]),
            }
            if bytes.is_empty() {
                return Ok(());
            }
        }
        self.file.read_at(offset, bytes)
    }
}

impl<'f> Storage<'f> for LoadWindow<'f> {
    fn borrow(&self, range: Range<u64>) -> Option<Result<&'f [u8]>> {
        self.file.borrow(range)
    }

    fn may_change(&self) -> bool {
        self.file.may_change()
    }

    fn reads_faster(&self, range: &Range<u64>) -> bool {
        self.file.reads_faster(range)
    }

    fn take_held(&mut self, range: &Range<u64>) -> Result<Option<Buffer>> {
        let found = self.find(range.start)?.filter(|i| self.held[*i].range == *range);
        Ok(found.and_then(|i| self.held[i].take()))
    }

    fn chunk(&mut self, range: Range<u64>) -> Result<&[u8]> {
        self.file.chunk(range)
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::io::{self, Write};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::error::ErrorKind;
    use crate::storage::ReadRanges;

    /// A file of 100 bytes that are their offsets, read at positions.
    fn file() -> FileStorage {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&(0..100).collect::<Vec<u8>>()).unwrap();
        FileStorage::positioned(file, 200)
    }

    fn window<'f>(storage: &'f FileStorage, ranges: &[Range<u64>]) -> LoadWindow<'f> {
        let mut window = LoadWindow::new(storage);
        for range in ranges {
            let (head, range) = (range.start, range.clone());
            window.announced.push_back(Announced { head, range, element: 1, is_taken_over: true });
        }
        window
    }

    #[test]
    fn ranges_of_a_file_are_read_together() {
        let storage = file();
        // Two tensors have the first range, and two others share a byte.
        let ranges = [40..50, 10..20, 40..50, 60..63, 64..70, 62..65];
        let mut window = window(&storage, &ranges);
        let stored: Vec<u8> = (0..100).collect();
        let bytes = |range: &Range<u64>| {
            stored[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()].to_vec()
        };
        assert_eq!(window.take_held(&ranges[0]).unwrap().unwrap()[..], bytes(&ranges[0]));
        assert!(window.announced.is_empty() && window.held.len() == ranges.len(), "{window:?}");
        // The second range may be left out.
        for range in &ranges[2..] {
            assert_eq!(window.take_held(range).unwrap().unwrap()[..], bytes(range));
        }
        assert!(window.held.iter().filter(|held| held.bytes.is_some()).count() == 1, "{window:?}");
        assert!(window.take_held(&ranges[0]).unwrap().is_none());
    }

    #[test]
    fn an_error_is_that_of_the_range_that_is_wanted() {
        let storage = file();
        let ranges = [90..95, 95..101, 150..160];
        assert!(window(&storage, &ranges).take_held(&ranges[0]).unwrap().is_none(), "it is read alone");
        let error = window(&storage, &ranges[1..]).take_held(&ranges[1]).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Truncated { needed: 6, left: 5 }), "{error}");
        assert_eq!(error.offset(), Some(95));
    }

    /// A server with zeros, and the number of requests that it got.
    struct Zeros(AtomicUsize);

    impl ReadRanges for Zeros {
        fn len(&self) -> io::Result<u64> {
            Ok(100 << 20)
        }

        fn read_at(&self, _: u64, _: &mut [u8]) -> io::Result<()> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }

        fn name(&self) -> Cow<'_, str> {
            "zeros".into()
        }
    }

    #[test]
    fn a_long_range_of_several_tensors_is_held_once() {
        let zeros = Arc::new(Zeros(AtomicUsize::new(0)));
        let storage = FileStorage::ranges(Arc::clone(&zeros) as Arc<dyn ReadRanges>).unwrap();
        let (short, long) = (0..10, 10..AHEAD as u64 + 20);
        let mut window = window(&storage, &[long.clone(), short.clone(), long.clone(), long.clone()]);
        for (range, held) in [(&long, Some(1)), (&short, None), (&long, None), (&long, None)] {
            let taken = window.take_held(range).unwrap().unwrap();
            assert_eq!(taken.len() as u64, range.end - range.start);
            assert!(held.is_none_or(|held| window.held.len() == held), "{:?}", window.held.len());
        }
        assert!(window.held.iter().all(|held| held.bytes.is_none()));
        assert_eq!(zeros.0.load(Ordering::Relaxed), 2);
    }
}
