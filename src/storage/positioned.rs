//! Reads a file on disk through a window, because a header is read a few bytes at a time. Windows grow where reads are
//! close together.

use std::ops::Range;
use std::time::{Duration, Instant};

use super::ahead::Ahead;
use super::{AccessPattern, FileStorage, ReadAt, Storage, append_range};
use crate::error::Result;
use crate::tensor::Buffer;

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
    /// The announced payloads of a source.
    ahead: Ahead,
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
            ahead: Ahead::default(),
        }
    }

    /// Announces a payload that will be read, and what its checksum covers before it. A source is asked for it with the
    /// ones announced after it. So is a file on disk, which several threads read, if the payload `is_taken_over` as
    /// memory of its own.
    pub(crate) fn announce(
        &mut self,
        needed_from: u64,
        payload: Range<u64>,
        element: usize,
        is_coded: bool,
        is_taken_over: bool,
    ) {
        let storage = self.storage;
        if storage.is_source(payload.start) || is_taken_over && storage.is_positioned(payload.start) {
            self.ahead.announce(needed_from, payload, element, (is_coded, is_taken_over));
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
        Self { is_index: storage.source().is_some(), ..Self::new(storage) }
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
        if self.storage.is_source(offset) {
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
        self.window.resize(len, 0);
        let is_timed = self.windows < TIMED || self.windows.is_multiple_of(TIMED);
        self.windows = self.windows.wrapping_add(1);
        let start = is_timed.then(Instant::now);
        let read = self.storage.read_some(offset, &mut self.window);
        // Hinted bytes are in memory by now, so only `will_read` finds out that the disk is fast.
        self.waits |= start.is_some_and(|start| start.elapsed() > FROM_MEMORY);
        // After an error, the window holds nothing.
        self.window.truncate(*read.as_ref().unwrap_or(&0));
        read?;
        self.window_start = offset;
        match self.in_window(offset, bytes.len()) {
            Some(found) => bytes.copy_from_slice(found),
            // The file ends here. Reading exactly these bytes gives the right error.
            None => self.storage.read_at(offset, bytes)?,
        }
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
        let (mut offset, mut bytes) = (offset, bytes);
        loop {
            let now = self.ahead.read(self.storage, offset, bytes)?;
            (offset, bytes) = (offset + now as u64, &mut bytes[now..]);
            match now {
                0 => return self.read_window(offset, bytes),
                _ if bytes.is_empty() => return Ok(()),
                _ => {}
            }
        }
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

    fn waits(&self) -> bool {
        self.waits || self.storage.source().is_some()
    }

    fn will_read(&mut self, offsets: &mut dyn Iterator<Item = u64>) {
        if let Some(source) = self.storage.source() {
            return source.will_read(&offsets.collect::<Vec<_>>());
        }
        if !self.waits {
            return;
        }
        let (mut last, mut count, start) = (self.window_start, 0, Instant::now());
        for offset in offsets {
            // Near offsets are in one window.
            if offset.saturating_sub(last) >= LARGEST_WINDOW as u64 {
                self.storage.prefetch(offset, WINDOW as u64);
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

    fn take_held(&mut self, range: &Range<u64>) -> Result<Option<Buffer>> {
        self.ahead.take(self.storage, range)
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
