//! New files on disk: their space is allocated first, and they are flushed step by step while they are written.

use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::ops::Range;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use crate::threads;

/// Allocates the space for a new file and sets its length.
///
/// The system finds the blocks at once instead of write by write, and a full disk is noticed before the first byte.
/// Where the system or the file system cannot do so, nothing happens.
#[cfg_attr(not(target_os = "linux"), expect(clippy::unnecessary_wraps, reason = "it can fail on Linux"))]
pub(crate) fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;

        /// Smaller files are not worth a call.
        const LEAST: u64 = 1 << 20;

        if bytes >= LEAST
            && let Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) =
                fallocate(file, FallocateFlags::empty(), 0, bytes)
        {
            return Err(error.into());
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, bytes);
    Ok(())
}

/// Writes a new file from its start. If it is to be flushed, the system begins to flush it meanwhile. Otherwise the
/// disk is idle until all is written.
pub(crate) struct WriteBehind<'f> {
    file: &'f mut File,
    is_flushed: bool,
    written: u64,
    /// The number of bytes whose flush has begun.
    begun: u64,
    /// Begins the flushes of a long file, which takes a tenth of the time of writing it.
    thread: Option<FlushThread>,
}

/// A thread that begins to flush ranges of a file.
struct FlushThread {
    ranges: mpsc::Sender<Range<u64>>,
    thread: JoinHandle<()>,
}

impl FlushThread {
    fn start(file: &File) -> io::Result<Self> {
        let file = file.try_clone()?;
        let (ranges, received) = mpsc::channel();
        let work = move || received.into_iter().for_each(|range| begin_flush(&file, range));
        Ok(Self { ranges, thread: thread::Builder::new().spawn(work)? })
    }
}

/// The number of bytes to flush together.
const STEP: u64 = 8 << 20;

/// The most bytes of one call. The page cache of ext4 on Linux 6.18 took 0.5 to 0.7 s for 2 GiB, rarely more, with 256
/// KiB to 1 MiB at once, and 0.5 to 5 s with 2 MiB and more, as the state of the memory was.
const AT_ONCE: usize = 1 << 20;

/// The bytes from which on a file is worth a thread.
// Beginning to flush took a tenth of the time of writing. For a shorter file a thread costs more than it saves.
const LONG: u64 = 8 * STEP;

impl<'f> WriteBehind<'f> {
    /// A writer of an empty file.
    pub(crate) fn new(file: &'f mut File, is_flushed: bool) -> Self {
        Self { file, is_flushed, written: 0, begun: 0, thread: None }
    }

    fn add(&mut self, bytes: usize) {
        self.written += bytes as u64;
        // Whole steps, so that no page is modified during its flush.
        let end = self.written - self.written % STEP;
        if !self.is_flushed || end == self.begun {
            return;
        }
        let range = std::mem::replace(&mut self.begun, end)..end;
        if range.start == LONG && threads::max_threads() > 1 {
            self.thread = FlushThread::start(self.file).ok();
        }
        match &self.thread {
            // It is received: the thread ends after the sender.
            Some(thread) => drop(thread.ranges.send(range)),
            None => begin_flush(self.file, range),
        }
    }
}

impl Write for WriteBehind<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(&bytes[..bytes.len().min(AT_ONCE)])?;
        self.add(written);
        Ok(written)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if slices.iter().map(|slice| slice.len()).fold(0, usize::saturating_add) > AT_ONCE {
            return self.write(slices.iter().find(|slice| !slice.is_empty()).map_or(&[], |slice| slice));
        }
        let written = self.file.write_vectored(slices)?;
        self.add(written);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for WriteBehind<'_> {
    fn drop(&mut self) {
        if let Some(FlushThread { ranges, thread }) = self.thread.take() {
            drop(ranges);
            // The thread returns nothing, so only a panic could be lost.
            let _ = thread.join();
        }
    }
}

/// Begins to flush a range, if the system can, without waiting for the disk.
fn begin_flush(_file: &File, _range: Range<u64>) {
    #[cfg(target_os = "linux")]
    {
        // The advice starts writing pages, and frees clean ones. None of these is clean yet.
        let len = std::num::NonZeroU64::new(_range.end - _range.start);
        let _ = rustix::fs::fadvise(_file, _range.start, len, rustix::fs::Advice::DontNeed);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use super::*;

    #[test]
    fn writes_every_byte_once() {
        let step = usize::try_from(STEP).unwrap();
        let long = usize::try_from(LONG).unwrap();
        let bytes: Vec<u8> = (0..=250).cycle().take(long + 4 * step + 7).collect();
        let mut file = tempfile::tempfile().unwrap();
        let mut writer = WriteBehind::new(&mut file, true);
        let mut left = &bytes[..];
        for len in [1, 100, step - 101, step + 1, 2 * step] {
            let (now, after) = left.split_at(len);
            let (first, second) = now.split_at(len / 2);
            let written = writer.write_vectored(&[IoSlice::new(first), IoSlice::new(second)]).unwrap();
            writer.write_all(&now[written..]).unwrap();
            left = after;
        }
        writer.write_all(left).unwrap();
        assert_eq!((writer.written, writer.begun), (bytes.len() as u64, LONG + 4 * STEP));
        drop(writer);
        let mut found = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut found).unwrap();
        assert!(found == bytes);
    }
}
