//! Reads a file on disk through a window, because a header is read a few bytes at a time. Windows grow where reads are
//! close together.

use std::ops::Range;
use std::time::{Duration, Instant};

use super::{AccessPattern, FileStorage, ReadAt, Storage, append_range};
use crate::error::Result;

/// An open file, read by ranges. A file in memory is borrowed.
#[derive(Debug)]
pub struct FileReader<'f> {
    storage: &'f FileStorage,
    /// The bytes last read of a file on disk: headers are close together.
    window: Vec<u8>,
    window_start: u64,
    /// The number of windows read.
    windows: u32,
    /// Whether reads come from a disk, not from the system's memory.
    waits: bool,
    chunk: Vec<u8>,
    /// Whether only an index is read, so that most of the file is not needed.
    is_index: bool,
    /// Whether mapped bytes are copied. For a few bytes, this takes less time than a system call. It is set if the
    /// pages around them are needed too.
    copies_mapped: bool,
}

/// The size of the first window: a page, the least that the system reads from a disk. The first page often holds all of
/// a short index.
const FIRST_WINDOW: usize = 4 << 10;

/// The size of a later window at a new place.
const WINDOW: usize = 512;

/// The largest size of a window, reached if reads are close together.
const LARGEST_WINDOW: usize = 64 << 10;

/// The first windows are all timed, then one in this many: a look at the clock takes a tenth of the time for a window
/// in memory.
const TIMED: u32 = 8;

/// The longest time to read a window from the system's memory.
const FROM_MEMORY: Duration = Duration::from_micros(25);

/// The longest time to hint at bytes already in memory.
const IS_IN_MEMORY: Duration = Duration::from_micros(2);

/// The size of a chunk of a payload.
const CHUNK: usize = 1 << 20;

impl<'f> FileReader<'f> {
    pub(crate) fn new(storage: &'f FileStorage) -> Self {
        Self {
            storage,
            window: Vec::new(),
            window_start: 0,
            windows: 0,
            waits: false,
            chunk: Vec::new(),
            is_index: false,
            copies_mapped: false,
        }
    }

    /// Returns a reader of an index. It never accesses a mapping, because the system would then read megabytes from the
    /// disk.
    pub(crate) fn with_index(storage: &'f FileStorage) -> Self {
        storage.will_be_read(AccessPattern::Scattered);
        Self { is_index: true, ..Self::new(storage) }
    }

    /// Returns a reader of a small part of a file, if all of the part is needed.
    pub(crate) fn with_part(storage: &'f FileStorage) -> Self {
        Self { copies_mapped: true, ..Self::new(storage) }
    }

    /// Returns a reader for the metadata in an index that was read before. A source of ranges has kept the index.
    pub(crate) fn with_metadata(storage: &'f FileStorage) -> Self {
        Self { is_index: storage.slow_source().is_some(), ..Self::new(storage) }
    }

    /// Returns the size of the window at `offset`. Each consecutive window is larger.
    fn next_window(&self, offset: u64) -> usize {
        if self.windows == 0 && self.is_index {
            return FIRST_WINDOW;
        }
        let len = self.window.len();
        let is_near = offset.checked_sub(self.window_start).is_some_and(|distance| distance <= 2 * len as u64);
        if is_near && len > 0 { (2 * len).clamp(WINDOW, LARGEST_WINDOW) } else { WINDOW }
    }

    /// Fills `bytes` from `offset` on after a window miss, and moves the window if they are few.
    fn read_window(&mut self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        if self.storage.takes_requests(offset) {
            if !self.is_index {
                return self.storage.read_at(offset, bytes);
            }
            if let Some(read) = self.storage.read_index_at(offset, bytes) {
                return read;
            }
        }
        if !self.storage.is_on_disk(offset) || bytes.len() > WINDOW && !self.is_index {
            return self.storage.read_at(offset, bytes);
        }
        if bytes.len() > FIRST_WINDOW {
            return self.storage.read_positions(offset, bytes);
        }
        // The end of an archive is read at once, and its parts again.
        let len = self.next_window(offset).max(bytes.len());
        if self.is_index && len == LARGEST_WINDOW && self.window.len() < len {
            // The index is long, and in one run.
            self.storage.will_be_read(AccessPattern::InOrder);
        }
        // A window ends with the file. With fewer bytes left than are asked for, reading them gives the error.
        let left = usize::try_from(self.storage.left(offset)).unwrap_or(usize::MAX);
        self.window.resize(len.min(left).max(bytes.len()), 0);
        let is_timed = self.windows < TIMED || self.windows.is_multiple_of(TIMED);
        self.windows = self.windows.wrapping_add(1);
        let start = is_timed.then(Instant::now);
        // A mapped file is not mapped for its index.
        let read = self.storage.read_once(offset, &mut self.window);
        // Hinted bytes are in memory by now, so only `will_read` finds out that the disk is fast.
        self.waits |= start.is_some_and(|start| start.elapsed() > FROM_MEMORY);
        self.window_start = offset;
        if read.is_err() {
            // The file may have been cut after these bytes.
            self.window.clear();
            return self.storage.read_once(offset, bytes);
        }
        bytes.copy_from_slice(&self.window[..bytes.len()]);
        Ok(())
    }

    #[inline]
    fn in_window(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let index = usize::try_from(offset.checked_sub(self.window_start)?).ok()?;
        self.window.get(index..index.checked_add(len)?)
    }
}

impl ReadAt for FileReader<'_> {
    fn file_len(&self) -> Option<u64> {
        Some(self.storage.end())
    }

    fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        if self.copies_mapped
            && let Some(found) = self.storage.borrow(offset, bytes.len() as u64)
        {
            bytes.copy_from_slice(found?);
            return Ok(());
        }
        // Most headers are in the window, which is empty unless the file is on disk.
        if let Some(found) = self.in_window(offset, bytes.len()) {
            bytes.copy_from_slice(found);
            return Ok(());
        }
        self.read_window(offset, bytes)
    }

    fn bytes<'a>(&'a mut self, range: Range<u64>, memory: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        let len = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
        if self.in_window(range.start, len).is_some() {
            return Ok(self.in_window(range.start, len).expect("it is there"));
        }
        // Mapped bytes could change after a check, such as text that was UTF-8.
        if !self.storage.is_on_disk(range.start)
            && let Some(found) = self.storage.borrow(range.start, range.end.saturating_sub(range.start))
        {
            return found;
        }
        append_range(self, range, memory)?;
        Ok(memory)
    }

    fn will_read(&mut self, offsets: &mut dyn Iterator<Item = u64>) {
        if let Some(source) = self.storage.slow_source() {
            let offsets: Vec<u64> = offsets.collect();
            if !offsets.is_empty() {
                source.will_read(&offsets);
            }
            return;
        }
        if !self.waits {
            return;
        }
        let (mut last, mut count, start) = (self.window_start, 0, Instant::now());
        for offset in offsets {
            // Near offsets are in one window.
            if offset.saturating_sub(last) >= LARGEST_WINDOW as u64 {
                self.storage.prefetch(offset);
                (last, count) = (offset, count + 1);
            }
        }
        self.waits = start.elapsed() > count * IS_IN_MEMORY;
    }
}

impl<'f> Storage<'f> for FileReader<'f> {
    fn borrow(&self, range: Range<u64>) -> Option<Result<&'f [u8]>> {
        if self.is_index && self.storage.is_on_disk(range.start) {
            return None;
        }
        self.storage.borrow(range.start, range.end - range.start)
    }

    fn may_change(&self) -> bool {
        self.storage.may_change()
    }

    fn reads_faster(&self, range: &Range<u64>) -> bool {
        self.storage.reads_faster(range.start, range.end - range.start)
    }

    fn chunk(&mut self, range: Range<u64>) -> Result<&[u8]> {
        if let Some(bytes) = self.borrow(range.clone()) {
            return bytes;
        }
        let len = usize::try_from(range.end - range.start).unwrap_or(CHUNK).min(CHUNK);
        self.chunk.resize(len, 0);
        self.storage.read_at(range.start, &mut self.chunk)?;
        Ok(&self.chunk)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_mapped_file_is_not_mapped_for_its_index() {
        let stored: Vec<u8> = (0..=250).cycle().take(100_000).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&stored).unwrap();
        let storage = FileStorage::mapped(file, stored.len() as u64);
        let mut reader = FileReader::with_index(&storage);
        for (offset, len) in [(0, 8), (5000, 100), (50_000, 5000), (99_000, 1000), (99_999, 1), (99_990, 11)] {
            let mut found = vec![0; len];
            let read = reader.read_at(offset as u64, &mut found);
            match stored.get(offset..offset + len) {
                Some(bytes) => assert_eq!((read.is_ok(), &found[..]), (true, bytes)),
                None => assert!(read.is_err()),
            }
        }
        assert!(matches!(&storage, FileStorage::Mapped(mapping) if !mapping.is_mapped()));
    }
}
