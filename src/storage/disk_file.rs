//! An open file on disk, of which long ranges are read past the page cache.

use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
#[cfg(target_os = "linux")]
use std::sync::OnceLock;

#[cfg(target_os = "linux")]
use super::once::get_or_make;

/// An open file on disk.
#[derive(Debug)]
pub(super) struct DiskFile {
    file: File,
    /// `None` where reading past the page cache is refused.
    #[cfg(target_os = "linux")]
    uncached: OnceLock<Option<Uncached>>,
}

/// The same file, opened twice more.
#[cfg(target_os = "linux")]
#[derive(Debug)]
struct Uncached {
    /// For reading past the page cache.
    direct: File,
    /// For asking what is in the cache. Asking for a page lets the system read it, and without the advice
    /// `Random` also what follows: 8 MiB on some machines, which then came from the disk twice.
    probe: File,
}

impl From<File> for DiskFile {
    fn from(file: File) -> Self {
        Self {
            file,
            #[cfg(target_os = "linux")]
            uncached: OnceLock::new(),
        }
    }
}

impl Deref for DiskFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl DiskFile {
    pub(super) fn into_file(self) -> File {
        self.file
    }

    /// Fills the long middle of `bytes` from the disk, without the page cache. Returns its range: an empty one if the file
    /// is in the cache, or the memory does not begin at the same place in a block as the bytes on disk.
    ///
    /// Through the cache, each page is taken from the system, filled and copied, which keeps two processors from reading a
    /// fast disk at its speed.
    // Reading past the cache took 0.6 of the time, measured with plans of long tensors.
    #[cfg(target_os = "linux")]
    pub(super) fn read_directly(&self, offset: u64, bytes: &mut [u8]) -> Range<usize> {
        /// The length of a block, and of a page.
        const BLOCK: usize = 4096;
        /// Shorter reads are faster through the cache, where the system reads ahead.
        const LONG: usize = 4 << 20;

        if bytes.len() < LONG {
            return 0..0;
        }
        let first = bytes.as_ptr().align_offset(BLOCK);
        let blocks = bytes.len().saturating_sub(first) / BLOCK * BLOCK;
        let start = offset.saturating_add(first as u64);
        if !start.is_multiple_of(BLOCK as u64) || blocks == 0 {
            return 0..0;
        }
        let Some(uncached) = get_or_make(&self.uncached, &|| Uncached::open(&self.file).ok()) else { return 0..0 };
        if uncached.is_cached(start) {
            return 0..0;
        }
        let mut done = 0;
        while done < blocks {
            let rest = &mut bytes[first + done..first + blocks];
            match std::os::unix::fs::FileExt::read_at(&uncached.direct, rest, start + done as u64) {
                Ok(read) if read > 0 && read.is_multiple_of(BLOCK) => done += read,
                // The rest is read through the cache, which says what is wrong.
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

#[cfg(target_os = "linux")]
impl Uncached {
    /// Opens a file again. Its path may lead to another one by now.
    fn open(file: &File) -> io::Result<Self> {
        use std::os::fd::AsRawFd;
        use std::os::unix::fs::OpenOptionsExt;

        use rustix::fs::{Advice, OFlags, fadvise};

        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let open =
            |flags: OFlags| std::fs::OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(&path);
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

    /// Reads with both at the same place in a block, or at another.
    #[test]
    fn blocks_are_read_where_memory_and_disk_agree() {
        // In the folder of the build, as temporary files are often in memory.
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
