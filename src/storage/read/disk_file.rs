//! A file on disk, open or in a pool. Long ranges of an open one are read past the page cache.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io;
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;
#[cfg(target_os = "linux")]
use std::sync::OnceLock;

#[cfg(target_os = "linux")]
use super::once::get_or_make;
use super::pool::{FilePool, PooledFile};
use super::ranges::{AccessPattern, ReadCost, ReadRanges, check_all_read, read_calls};

/// The number of bytes to hint at an offset. A header usually fits.
#[cfg(target_os = "linux")]
const HEADER: u64 = 512;

/// A file on disk.
#[derive(Debug)]
pub(super) struct DiskFile {
    handle: Handle,
    /// `None` if the system refuses to read past the page cache.
    #[cfg(target_os = "linux")]
    uncached: OnceLock<Option<Uncached>>,
}

#[derive(Debug)]
enum Handle {
    Open(File),
    /// A file that may be closed between reads.
    Pooled(PooledFile),
}

/// Two more handles of the same file.
#[cfg(target_os = "linux")]
#[derive(Debug)]
struct Uncached {
    /// A handle for reading past the page cache.
    direct: File,
    /// A handle for asking which pages are in the cache. Asking for a page lets the system read it. Without the advice
    /// `Random`, the system also read what follows, 8 MiB on some machines, so these bytes came from the disk twice.
    probe: File,
}

impl From<File> for DiskFile {
    fn from(file: File) -> Self {
        Self::new(Handle::Open(file))
    }
}

/// A file that is open as long as this is held.
pub(super) enum OpenFile<'a> {
    Own(&'a File),
    Pooled(Arc<File>),
}

impl Deref for OpenFile<'_> {
    type Target = File;

    fn deref(&self) -> &File {
        match self {
            Self::Own(file) => file,
            Self::Pooled(file) => file,
        }
    }
}

impl DiskFile {
    fn new(handle: Handle) -> Self {
        Self {
            handle,
            #[cfg(target_os = "linux")]
            uncached: OnceLock::new(),
        }
    }

    /// Lets the file, which was just opened, be closed until it is read or mapped.
    pub(super) fn pooled(self, pool: &Arc<FilePool>, path: &Path, metadata: &fs::Metadata) -> Self {
        match self.handle {
            Handle::Open(file) => Self::new(Handle::Pooled(pool.add(file, path, metadata))),
            Handle::Pooled(_) => self,
        }
    }

    /// Returns the open file.
    ///
    /// # Errors
    ///
    /// As [`PooledFile::open`].
    pub(super) fn open(&self) -> io::Result<OpenFile<'_>> {
        match &self.handle {
            Handle::Open(file) => Ok(OpenFile::Own(file)),
            Handle::Pooled(file) => file.open().map(OpenFile::Pooled),
        }
    }

    /// Fills the long middle of `bytes` from the disk, without the page cache. Returns its range: an empty one if the
    /// file is in the cache, or the memory does not begin at the same place in a block as the bytes on disk.
    ///
    /// Through the cache, each page is taken from the system, filled and copied, which keeps two processors from
    /// reading a fast disk at its speed.
    // Reading past the cache took 0.6 of the time, measured with plans of long tensors.
    #[cfg(target_os = "linux")]
    pub(super) fn read_directly(&self, offset: u64, bytes: &mut [u8]) -> Range<usize> {
        /// The length of a block, and of a page.
        const BLOCK: usize = 4096;
        /// Shorter reads are faster through the cache, where the system reads ahead.
        const LONG: usize = 4 << 20;

        // Reading past the cache would hold three handles of a file that the pool should be able to close.
        let Handle::Open(file) = &self.handle else { return 0..0 };
        if bytes.len() < LONG {
            return 0..0;
        }
        let first = bytes.as_ptr().align_offset(BLOCK);
        let blocks = bytes.len().saturating_sub(first) / BLOCK * BLOCK;
        let start = offset.saturating_add(first as u64);
        if !start.is_multiple_of(BLOCK as u64) || blocks == 0 {
            return 0..0;
        }
        let Some(uncached) = get_or_make(&self.uncached, &|| Uncached::open(file).ok()) else { return 0..0 };
        if uncached.is_cached(start) {
            return 0..0;
        }
        let mut done = 0;
        while done < blocks {
            let rest = &mut bytes[first + done..first + blocks];
            match std::os::unix::fs::FileExt::read_at(&uncached.direct, rest, start + done as u64) {
                Ok(read) if read > 0 && read.is_multiple_of(BLOCK) => done += read,
                // The rest is read through the cache, which returns the error.
                _ => break,
            }
        }
        first..first + done
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn read_directly(&self, _: u64, _: &mut [u8]) -> Range<usize> {
        0..0
    }
}

impl ReadRanges for DiskFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.open()?.metadata()?.len())
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let needed = bytes.len();
        let direct = self.read_directly(offset, bytes);
        let (head, rest) = bytes.split_at_mut(direct.start);
        let read_some = |start: usize, bytes: &mut [u8]| {
            read_calls(bytes, &mut |filled, rest| {
                read_file_at(&*self.open()?, offset.saturating_add((start + filled) as u64), rest)
            })
        };
        let mut read = read_some(0, head)?;
        if read == direct.start {
            read = direct.end + read_some(direct.end, &mut rest[direct.len()..])?;
        }
        check_all_read(read, needed)
    }

    /// Makes the system read these pages, if it can, without waiting for them.
    fn will_read(&self, _offsets: &[u64]) {
        #[cfg(target_os = "linux")]
        if let Ok(file) = self.open() {
            for offset in _offsets {
                // Advice may fail: the bytes are then read when they are asked for.
                let advice = rustix::fs::Advice::WillNeed;
                let _ = rustix::fs::fadvise(&*file, *offset, std::num::NonZeroU64::new(HEADER), advice);
            }
        }
    }

    /// Tells the system whether to read ahead.
    fn will_be_read(&self, _access: AccessPattern) {
        // The advice of a file of a pool would be lost when it is closed.
        #[cfg(target_os = "linux")]
        if let Handle::Open(file) = &self.handle {
            let advice = match _access {
                AccessPattern::Scattered => rustix::fs::Advice::Random,
                AccessPattern::InOrder => rustix::fs::Advice::Normal,
            };
            // Advice may fail: more is read than needed then.
            let _ = rustix::fs::fadvise(file, 0, None, advice);
        }
    }

    fn cost(&self) -> ReadCost {
        ReadCost::Call
    }

    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }
}

#[cfg(unix)]
fn read_file_at(file: &File, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, bytes, offset)
}

#[cfg(windows)]
fn read_file_at(file: &File, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, bytes, offset)
}

#[cfg(not(any(unix, windows)))]
fn read_file_at(_: &File, _: u64, _: &mut [u8]) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(target_os = "linux")]
impl Uncached {
    /// Opens the same file again, through `/proc`, because its path may lead to another file by now.
    fn open(file: &File) -> io::Result<Self> {
        use std::os::fd::AsRawFd;
        use std::os::unix::fs::OpenOptionsExt;

        use rustix::fs::{Advice, OFlags, fadvise};

        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let open =
            |flags: OFlags| fs::OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(&path);
        let probe = open(OFlags::empty())?;
        fadvise(&probe, 0, None, Advice::Random)?;
        Ok(Self { direct: open(OFlags::DIRECT)?, probe })
    }

    /// Returns whether the byte at an offset is in the page cache, as far as the system says.
    fn is_cached(&self, offset: u64) -> bool {
        use rustix::io::{Errno, ReadWriteFlags, preadv2};

        let read = preadv2(&self.probe, &mut [io::IoSliceMut::new(&mut [0])], offset, ReadWriteFlags::NOWAIT);
        read != Err(Errno::AGAIN)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::Write;

    use super::*;

    const LEN: usize = (9 << 20) + 1000;

    fn bytes() -> Vec<u8> {
        (0..=250).cycle().take(LEN).collect()
    }

    /// Reads into memory aligned as the file is, and into memory that is not.
    #[test]
    fn blocks_are_read_where_memory_and_disk_agree() {
        // We use the package's folder, because temporary files are often in memory.
        let mut file = tempfile::tempfile_in(".").or_else(|_| tempfile::tempfile()).unwrap();
        let stored = bytes();
        file.write_all(&stored).unwrap();
        file.sync_all().unwrap();
        let forget = || rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let disk = DiskFile::from(file.try_clone().unwrap());
        let mut memory = vec![7; LEN + 8192];
        let aligned = memory.as_ptr().align_offset(4096);
        for (place, offset, agrees) in [(0, 0, true), (48, 48, true), (100, 4196, true), (16, 0, false)] {
            forget();
            let bytes = &mut memory[aligned + place..][..LEN - offset];
            bytes.fill(7);
            let range = disk.read_directly(offset as u64, bytes);
            assert!(bytes[range.clone()] == stored[offset..][range.clone()]);
            assert!(bytes[..range.start].iter().chain(&bytes[range.end..]).all(|byte| *byte == 7));
            // A file system without a disk has all of it in memory.
            let is_read = !range.is_empty();
            assert!(agrees || !is_read, "{place}, {offset}: {range:?}");
            assert!(!is_read || range.start < 4096 && bytes.len() - range.end < 4096, "{place}, {offset}: {range:?}");
        }
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut memory[..LEN], 0).unwrap();
        assert_eq!(disk.read_directly(0, &mut memory[aligned..][..LEN]), 0..0, "it is in the cache");
        assert_eq!(disk.read_directly(0, &mut memory[aligned..][..1 << 20]), 0..0, "it is short");
    }
}
