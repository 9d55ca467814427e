//! Files to read at positions: on disk, mapped, in memory, behind any source of ranges, or several joined.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::disk_file::DiskFile;
use super::headers::Headers;
use super::mapping::{LentBytes, Mapping};
use super::pool::FilePool;
use super::ranges::{AccessPattern, ReadCost, ReadRanges};
use super::seekable::{ReadSeek, SeekableReader};
use super::source_stream::SourceStream;
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::checked_io::write_all;
use crate::threads;

/// The bytes of an open file.
pub enum FileStorage {
    /// All in memory.
    Memory(Box<dyn AsRef<[u8]> + Send + Sync>),
    /// Mapped into memory.
    Mapped(Mapping),
    /// Read at positions.
    Positioned(Positioned),
    /// The headers of a stream, in memory.
    Headers(Headers),
    /// Several files as one.
    Joined(JoinedFiles),
    /// Bytes put together from the other parts of a joined file.
    Gathered(Box<dyn GatherBytes>),
}

/// Several files as one. One unused byte separates neighbours, so that an empty payload at the end of a file is not
/// also at the start of the next. Gathered bytes come after the files.
#[derive(Debug)]
pub struct JoinedFiles {
    parts: Vec<Arc<FileStorage>>,
    /// The offset of each part.
    starts: Vec<u64>,
    /// The number of parts that are files, and their total length.
    files: usize,
    len: u64,
    end: u64,
    /// Memory for chunks of gathered bytes, reused because allocating it takes long.
    chunk: Mutex<Vec<u8>>,
}

impl JoinedFiles {
    /// Joins one or more files. Returns `None` if they are too long together.
    pub(crate) fn new(parts: Vec<Arc<FileStorage>>) -> Option<Self> {
        let (files, len) = (parts.len(), parts.iter().map(|part| part.len()).fold(0, u64::saturating_add));
        let mut joined = Self {
            parts: Vec::with_capacity(files),
            starts: Vec::with_capacity(files),
            files,
            len,
            end: 0,
            chunk: Mutex::default(),
        };
        for part in parts {
            joined.push(part)?;
        }
        Some(joined)
    }

    /// Returns a file that shares the bytes of another one, at the same offsets, so that more can be gathered from them.
    /// `None` if it is too long.
    pub(crate) fn over(file: &Arc<FileStorage>) -> Option<Self> {
        let FileStorage::Joined(joined) = &**file else { return Self::new(vec![file.clone()]) };
        let Self { parts, starts, files, len, end, .. } = joined;
        let (parts, starts) = (parts.clone(), starts.clone());
        Some(Self { parts, starts, files: *files, len: *len, end: *end, chunk: Mutex::default() })
    }

    /// Adds gathered bytes, and returns their offset. `None` if there are too many.
    pub(crate) fn gather(&mut self, gather: Box<dyn GatherBytes>) -> Option<u64> {
        self.push(Arc::new(FileStorage::Gathered(gather)))
    }

    fn push(&mut self, part: Arc<FileStorage>) -> Option<u64> {
        let start = self.end;
        self.end = start.checked_add(part.len())?.checked_add(1)?;
        self.parts.push(part);
        self.starts.push(start);
        Some(start)
    }

    /// Returns the files.
    pub(crate) fn parts(&self) -> &[Arc<FileStorage>] {
        &self.parts[..self.files]
    }

    /// Returns the offset of each file.
    pub(crate) fn starts(&self) -> &[u64] {
        &self.starts
    }

    /// Returns the index of the file containing an offset, and the start of the file.
    fn part(&self, offset: u64) -> (usize, u64) {
        let index = self.starts.partition_point(|start| *start <= offset).saturating_sub(1);
        (index, self.starts[index])
    }
}

/// Some of the bytes that [`GatherBytes`] puts together.
#[derive(Debug, Clone, Copy)]
pub enum Wanted<'a> {
    /// The bytes from an offset on.
    From(u64),
    /// A range of each dim, in row-major order.
    Box(&'a [Range<usize>]),
}

/// Bytes put together from the files of a joined one, such as a tensor in chunks. They follow the files, so that a
/// reader sees one more range.
pub trait GatherBytes: Send + Sync {
    /// Returns the number of bytes.
    fn bytes(&self) -> u64;

    /// Returns the offset of one of the bytes in the files.
    fn start(&self) -> u64;

    /// Returns the ranges of the files with the bytes.
    fn places(&self) -> Vec<Range<u64>>;

    /// Fills `bytes`.
    ///
    /// # Errors
    ///
    /// As [`ReadAt::read_at`](super::ReadAt::read_at), with offsets in the files.
    fn read(&self, files: &FileStorage, wanted: Wanted<'_>, bytes: &mut [u8]) -> Result<()>;

    /// Calls `each` with the ranges of the files that [`read`](Self::read) reads for `len` bytes.
    fn spans(&self, files: &FileStorage, wanted: Wanted<'_>, len: usize, each: &mut dyn FnMut(Range<u64>));
}

/// A file read at positions.
pub struct Positioned {
    source: PositionedSource,
    len: u64,
    /// Memory for chunks of payloads, reused because allocating it takes long.
    chunk: Mutex<Vec<u8>>,
    /// The state of a source that is read as a stream.
    stream: Mutex<SourceStream>,
}

impl Positioned {
    fn new(source: PositionedSource, len: u64) -> Self {
        Self { source, len, chunk: Mutex::default(), stream: Mutex::default() }
    }
}

/// A source to read at positions. A file on disk can be put into a pool, or mapped.
enum PositionedSource {
    Disk(DiskFile),
    Other(Arc<dyn ReadRanges>),
}

impl PositionedSource {
    fn as_ranges(&self) -> &dyn ReadRanges {
        match self {
            Self::Disk(file) => file,
            Self::Other(source) => &**source,
        }
    }
}

/// From this size on, a mapping is read by a system call instead of copying from its pages, which takes longer.
const WORTH_A_CALL: usize = 64 << 10;

impl FileStorage {
    /// The chunk size for writing payloads: large enough for several threads to read one, and small enough for the
    /// processor's caches.
    pub(crate) const CHUNK: usize = 8 << 20;

    /// The chunk size for copying payloads to a file: the chunks that are read while one is written stay in the
    /// processor's caches until they are written too.
    // Chunks of 8 MiB that several threads read came from the memory when they were written: 256 KiB in one thread took
    // half as long.
    const COPY_CHUNK: usize = 256 << 10;

    /// A file of `len` bytes, mapped when its bytes are first borrowed. If mapping fails, it is read at positions.
    pub(crate) fn mapped(file: File, len: u64) -> Self {
        Self::Mapped(Mapping::new(file.into(), len))
    }

    /// Lets a file on disk, which was just opened, be closed until it is read or mapped.
    pub(crate) fn pooled(self, pool: &Arc<FilePool>, path: &Path, metadata: &fs::Metadata) -> Self {
        match self {
            Self::Mapped(mapping) => {
                let len = mapping.len();
                Self::Mapped(Mapping::new(mapping.into_file().pooled(pool, path, metadata), len))
            }
            Self::Positioned(Positioned { source: PositionedSource::Disk(file), len, .. }) => {
                Self::Positioned(Positioned::new(PositionedSource::Disk(file.pooled(pool, path, metadata)), len))
            }
            other => other,
        }
    }

    /// Reads a file of `len` bytes at positions.
    pub(crate) fn positioned(file: File, len: u64) -> Self {
        Self::Positioned(Positioned::new(PositionedSource::Disk(file.into()), len))
    }

    /// Reads from a reader at positions, up to its end.
    pub(crate) fn reader(reader: Box<dyn ReadSeek + Send>) -> io::Result<Self> {
        Self::ranges(Arc::new(SeekableReader(Mutex::new(reader))))
    }

    /// Reads from a source of ranges.
    pub(crate) fn ranges(source: Arc<dyn ReadRanges>) -> io::Result<Self> {
        let len = source.len()?;
        Ok(Self::Positioned(Positioned::new(PositionedSource::Other(source), len)))
    }

    /// The length in bytes.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Memory(bytes) => (**bytes).as_ref().len() as u64,
            Self::Mapped(mapping) => mapping.len(),
            Self::Positioned(positioned) => positioned.len,
            Self::Headers(headers) => headers.file_len(),
            Self::Joined(joined) => joined.len,
            Self::Gathered(gather) => gather.bytes(),
        }
    }

    /// Returns the end of the last offset. Gathered bytes come after the length.
    pub(super) fn end(&self) -> u64 {
        match self {
            Self::Joined(joined) => joined.end,
            _ => self.len(),
        }
    }

    /// Returns the gathered bytes at `offset`, if there are any.
    pub(crate) fn gathered(&self, offset: u64) -> Option<&dyn GatherBytes> {
        match self.file(offset) {
            (Self::Gathered(gather), _) => Some(&**gather),
            _ => None,
        }
    }

    /// Returns whether borrowed bytes can change.
    #[inline]
    pub(crate) fn may_change(&self) -> bool {
        match self {
            Self::Mapped(_) => true,
            Self::Joined(joined) => joined.parts.iter().any(|part| part.may_change()),
            _ => false,
        }
    }

    /// Returns the index of the file containing an offset, and the start of the file.
    pub(crate) fn part(&self, offset: u64) -> Option<(usize, u64)> {
        match self {
            Self::Joined(joined) => Some(joined.part(offset)),
            _ => None,
        }
    }

    /// Returns the file containing an offset, and the offset within it.
    #[inline]
    fn file(&self, offset: u64) -> (&Self, u64) {
        match self {
            Self::Joined(joined) => {
                let (index, start) = joined.part(offset);
                (&joined.parts[index], offset - start)
            }
            _ => (self, offset),
        }
    }

    /// Returns whether reading bytes into memory of their own takes less time than a copy of borrowed ones.
    pub(crate) fn reads_faster(&self, offset: u64, len: u64) -> bool {
        matches!(self.file(offset), (Self::Mapped(_), _)) && len >= WORTH_A_CALL as u64
    }

    /// Returns whether bytes at `offset` are read from a file.
    pub(super) fn is_on_disk(&self, offset: u64) -> bool {
        self.file(offset).0.source().is_some()
    }

    /// Returns the source of a file that is read at positions.
    fn source(&self) -> Option<&dyn ReadRanges> {
        match self {
            Self::Positioned(positioned) => Some(positioned.source.as_ranges()),
            Self::Mapped(mapping) => Some(mapping.file()),
            _ => None,
        }
    }

    /// Returns what reading bytes at `offset` costs, unless they are in memory or mapped.
    pub(crate) fn cost(&self, offset: u64) -> Option<ReadCost> {
        match self.file(offset).0 {
            Self::Positioned(Positioned { source, .. }) => Some(source.as_ranges().cost()),
            Self::Gathered(gather) => self.cost(gather.start()),
            _ => None,
        }
    }

    /// Returns whether bytes at `offset` are asked for by requests, which take long to answer.
    pub(crate) fn takes_requests(&self, offset: u64) -> bool {
        self.cost(offset) == Some(ReadCost::Request)
    }

    /// Returns the number of bytes from `offset` to the end of its file.
    pub(super) fn left(&self, offset: u64) -> u64 {
        let (file, start) = self.file(offset);
        file.len().saturating_sub(start)
    }

    /// Fills `bytes` of an index from `offset` on, if a source of ranges reads ahead by itself.
    pub(super) fn read_index_at(&self, offset: u64, bytes: &mut [u8]) -> Option<Result<()>> {
        let is_inside = offset.checked_add(bytes.len() as u64).is_some_and(|end| end <= self.len());
        let read = self.slow_source().filter(|_| is_inside)?.read_index_at(offset, bytes)?;
        Some(read.map_err(|error| Error::from(error).at(offset)))
    }

    /// Returns text that is equal for two files only if their bytes are.
    pub(crate) fn identity(&self) -> Option<String> {
        match self {
            Self::Joined(joined) => {
                let parts: Option<Vec<String>> = joined.parts().iter().map(|part| part.identity()).collect();
                Some(parts?.join("\n"))
            }
            _ => self.source()?.identity().map(Into::into),
        }
    }

    /// Returns whether bytes pass in order.
    pub(crate) fn is_sequential(&self) -> bool {
        match self {
            Self::Joined(joined) => joined.parts().iter().any(|part| part.is_sequential()),
            _ => self.source().is_some_and(ReadRanges::is_sequential),
        }
    }

    /// Returns whether all bytes are those of one source that takes requests.
    pub(crate) fn is_remote(&self) -> bool {
        self.slow_source().is_some()
    }

    /// Returns the source of a file, if it takes requests.
    pub(super) fn slow_source(&self) -> Option<&dyn ReadRanges> {
        self.source().filter(|source| source.cost() == ReadCost::Request)
    }

    /// Returns the bytes from `offset` to the end of its file, if they are in memory.
    #[inline]
    fn rest(&self, offset: u64) -> Option<&[u8]> {
        let (file, offset) = self.file(offset);
        let bytes: &[u8] = match file {
            Self::Memory(bytes) => (**bytes).as_ref(),
            Self::Mapped(mapping) => mapping.bytes()?,
            _ => return None,
        };
        Some(usize::try_from(offset).ok().and_then(|index| bytes.get(index..)).unwrap_or_default())
    }

    /// Returns a range, if it is in memory.
    #[inline]
    pub(crate) fn in_memory(&self, range: &Range<u64>) -> Option<&[u8]> {
        self.rest(range.start)?.get(..usize::try_from(range.end - range.start).ok()?)
    }

    /// Returns `len` bytes from `offset` on, if the file is in memory.
    #[inline]
    pub(crate) fn borrow(&self, offset: u64, len: u64) -> Option<Result<&[u8]>> {
        if let Self::Headers(headers) = self {
            return Some(headers.get(offset, len));
        }
        let rest = self.rest(offset)?;
        let found = usize::try_from(len).ok().and_then(|len| rest.get(..len));
        Some(found.ok_or_else(|| truncated(offset, len, rest.len() as u64)))
    }

    /// Lends a range to another library, if it is in a mapped file.
    pub(crate) fn lend(&self, range: &Range<u64>) -> Option<LentBytes> {
        match self.file(range.start) {
            (Self::Mapped(mapping), start) => mapping.lend(start, range.end.checked_sub(range.start)?),
            _ => None,
        }
    }

    /// Fills `bytes` from `offset` on.
    pub(crate) fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        if !self.reads_faster(offset, bytes.len() as u64)
            && let Some(found) = self.borrow(offset, bytes.len() as u64)
        {
            bytes.copy_from_slice(found?);
            return Ok(());
        }
        self.read_positions(offset, bytes)
    }

    /// As [`read_at`](Self::read_at), without other threads.
    pub(crate) fn read_alone(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let needed = bytes.len() as u64;
        if !self.reads_faster(offset, needed)
            && let Some(found) = self.borrow(offset, needed)
        {
            bytes.copy_from_slice(found?);
            return Ok(());
        }
        self.read_once(offset, bytes)
    }

    /// Fills several ranges, in order of their offsets and without overlaps. A source is asked for those of a file
    /// together.
    pub(crate) fn read_many(&self, ranges: &mut [(u64, &mut [u8])]) -> Result<()> {
        let mut rest = ranges;
        while let Some((first, _)) = rest.first() {
            let (first, part) = (*first, self.part(*first));
            let end = rest.partition_point(|(offset, _)| self.part(*offset) == part);
            let (now, later) = rest.split_at_mut(end);
            rest = later;
            let (file, start) = (self.file(first).0, part.map_or(0, |(_, start)| start));
            let Some(source) = file.slow_source() else {
                now.iter_mut().try_for_each(|(offset, bytes)| self.read_alone(*offset, bytes))?;
                continue;
            };
            for (offset, bytes) in &mut *now {
                *offset -= start;
                let (needed, left) = (bytes.len() as u64, file.len().saturating_sub(*offset));
                if needed > left {
                    return Err(truncated(*offset + start, needed, left));
                }
            }
            let read = source.read_many(now).map_err(|error| Error::from(error).moved_by(start));
            match read.map_err(|error| if now.len() == 1 { error.at(first) } else { error }) {
                // The error does not say which of the ranges could not be read.
                Err(error) if error.offset().is_none() && matches!(error.kind(), ErrorKind::Io(_)) => {
                    for (offset, bytes) in now {
                        let read = source.read_at(*offset, bytes).map_err(Error::from);
                        read.map_err(|error| error.at(*offset).moved_by(start))?;
                    }
                }
                read => read.map_err(|error| error.at(first))?,
            }
        }
        Ok(())
    }

    /// Fills `bytes` from `offset` on, with calls of the system if the file is on disk.
    pub(super) fn read_positions(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        if matches!(self.file(offset).0, Self::Positioned(_)) && self.cost(offset) != Some(ReadCost::Call) {
            // The source knows best how many requests it takes.
            return self.read_once(offset, bytes);
        }
        let needed = bytes.len() as u64;
        threads::fill(bytes, &|start, part| {
            self.read_once(offset.saturating_add(start as u64), part).map_err(|error| match error.kind() {
                // Gathered bytes are in other files, so the error is where one of them ends.
                ErrorKind::Truncated { left, .. } if error.offset() == Some(offset.saturating_add(start as u64)) => {
                    truncated(offset, needed, start as u64 + left)
                }
                _ => error,
            })
        })
    }

    /// Hints how a file will be read.
    pub(crate) fn will_be_read(&self, access: AccessPattern) {
        // Readers of other parts of the same file on disk have patterns of their own.
        if let Some(source) = self.source() {
            source.will_be_read(access);
        }
    }

    /// Hints that a header at `offset` will be read.
    pub(super) fn prefetch(&self, offset: u64) {
        let (file, start) = self.file(offset);
        if let Some(source) = file.source()
            && start < file.len()
        {
            source.will_read(&[start]);
        }
    }

    /// Fills `bytes` from `offset` on with a single call.
    pub(super) fn read_once(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let (file, start) = self.file(offset);
        let (needed, left) = (bytes.len() as u64, file.len().saturating_sub(start));
        // Systems refuse offsets from 2^63 on with errors of their own.
        if needed > left {
            return Err(truncated(offset, needed, left));
        }
        if bytes.is_empty() {
            return Ok(());
        }
        if let Self::Gathered(gather) = file {
            return gather.read(self, Wanted::From(start), bytes);
        }
        let Some(source) = file.source() else {
            bytes.copy_from_slice(self.borrow(offset, needed).ok_or_else(|| truncated(offset, needed, 0))??);
            return Ok(());
        };
        loop {
            match source.read_at(start, bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read.map_err(|error| Error::from(error).moved_by(offset - start).at(offset)),
            }
        }
    }

    /// Writes a range to `out`, in one call if it is in memory.
    pub(crate) fn write_to(&self, offset: u64, len: u64, out: &mut dyn io::Write) -> io::Result<()> {
        if let Some(bytes) = self.borrow(offset, len) {
            return write_all(out, bytes?);
        }
        if let (Self::Positioned(Positioned { source, len: file_len, stream, .. }), start) = self.file(offset)
            && source.as_ranges().cost() == ReadCost::Request
        {
            let source = source.as_ranges();
            let left = file_len.saturating_sub(start);
            if len > left {
                return Err(truncated(offset, len, left).into());
            }
            // A stream in use by another thread is not waited for.
            let mut own = SourceStream::default();
            return match stream.try_lock() {
                Ok(mut stream) => stream.write_to(source, *file_len, start..start + len, out),
                Err(_) => own.write_to(source, *file_len, start..start + len, out),
            };
        }
        let spare = match (self, self.file(offset).0) {
            (_, Self::Positioned(positioned)) => Some(&positioned.chunk),
            (Self::Joined(joined), Self::Gathered(_)) => Some(&joined.chunk),
            _ => None,
        };
        // A chunk in use by another thread is not waited for.
        let mut chunk = spare.and_then(|spare| Some(std::mem::take(&mut *spare.try_lock().ok()?))).unwrap_or_default();
        chunk.resize(usize::try_from(len).unwrap_or(Self::CHUNK).min(Self::CHUNK).max(chunk.len()), 0);
        let written = self.write_in_chunks(offset, len, &mut chunk, out);
        if let Some(Ok(mut spare)) = spare.map(Mutex::try_lock) {
            *spare = chunk;
        }
        written
    }

    fn write_in_chunks(&self, offset: u64, len: u64, chunk: &mut [u8], out: &mut dyn io::Write) -> io::Result<()> {
        let mut done = 0;
        while done < len {
            let now = usize::try_from(len - done).unwrap_or(Self::CHUNK).min(chunk.len());
            self.read_chunk((offset, len), done, &mut chunk[..now])?;
            write_all(out, &chunk[..now])?;
            done += now as u64;
        }
        Ok(())
    }

    /// Writes a range to the file `out`. Bytes in memory are written in one call. Other bytes are written in short
    /// chunks, and the next ones are read meanwhile.
    pub(crate) fn copy_to(&self, offset: u64, len: u64, out: &mut dyn io::Write) -> io::Result<()> {
        const CHUNK: u64 = FileStorage::COPY_CHUNK as u64;

        let (Ok(bytes), Ok(chunks)) = (usize::try_from(len), usize::try_from(len.div_ceil(CHUNK))) else {
            return self.write_to(offset, len, out);
        };
        if chunks <= 1 || self.cost(offset) != Some(ReadCost::Call) {
            return self.write_to(offset, len, out);
        }
        let read = |number: usize, (chunk, failed): &mut (Vec<u8>, Option<Error>)| {
            let done = number as u64 * CHUNK;
            chunk.resize(Self::COPY_CHUNK.min(usize::try_from(len - done).unwrap_or(Self::COPY_CHUNK)), 0);
            *failed = self.read_chunk((offset, len), done, chunk).err();
        };
        threads::in_order(&mut Vec::new(), chunks, bytes, &read, &mut |(chunk, failed)| match failed.take() {
            Some(error) => Err(error.into()),
            None => write_all(out, chunk),
        })
    }

    /// Fills a chunk of a range, given by its offset and length, of which `done` bytes come before.
    fn read_chunk(&self, (offset, len): (u64, u64), done: u64, chunk: &mut [u8]) -> Result<()> {
        // The error for gathered bytes is at an offset in one of their files.
        let is_within = |error: &Error| error.offset().is_none_or(|end| end >= offset && end - offset <= len);
        self.read_at(offset + done, chunk).map_err(|error| match error.kind() {
            ErrorKind::Truncated { left, .. } if is_within(&error) => truncated(offset, len, done + left),
            _ => error,
        })
    }
}

impl fmt::Debug for FileStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileStorage").field("len", &self.len()).finish_non_exhaustive()
    }
}

fn truncated(offset: u64, needed: u64, left: u64) -> Error {
    Error::new(ErrorKind::Truncated { needed, left }).at(offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(all(target_os = "linux", feature = "mmap"))]
    #[test]
    fn a_file_that_cannot_be_mapped_is_read_at_positions() {
        let begin = b"Linux version";
        // The kernel generates this file, and does not map it.
        let open = || File::open("/proc/version").expect("Linux has it");
        let storage = FileStorage::mapped(open(), begin.len() as u64);
        let mut read = vec![0; begin.len()];
        storage.read_at(0, &mut read).unwrap();
        let mut written = Vec::new();
        storage.write_to(6, 7, &mut written).unwrap();
        assert_eq!((&*read, &*written, storage.borrow(0, 5).is_none()), (&begin[..], &b"version"[..], true));
    }

    #[test]
    fn copies_are_what_is_written() {
        let len = 5 * FileStorage::COPY_CHUNK + 1000;
        let stored: Vec<u8> = (0..=250).cycle().take(len).collect();
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, &stored).unwrap();
        let storage = FileStorage::positioned(file, len as u64);
        let chunk = FileStorage::COPY_CHUNK;
        for range in [0..len, 7..len - 1, 100..100, 9..9 + chunk, 9..10 + chunk, 0..len + 1, len - 5..len + 3 * chunk] {
            let (mut copied, mut written) = (Vec::new(), Vec::new());
            let (offset, len) = (range.start as u64, range.len() as u64);
            let copy = storage.copy_to(offset, len, &mut copied).map_err(|error| error.to_string());
            let write = storage.write_to(offset, len, &mut written).map_err(|error| error.to_string());
            assert_eq!(copy, write);
            assert_eq!(copy.is_ok(), range.end <= stored.len(), "{range:?}");
            assert!(copy.is_err() || copied == stored[range.clone()] && copied == written, "{range:?}");
        }
        let mut full = &mut [0; 1000][..];
        assert_eq!(storage.copy_to(0, len as u64, &mut full).unwrap_err().kind(), io::ErrorKind::WriteZero);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn long_reads_have_what_is_around_their_blocks() {
        const LEN: usize = (9 << 20) + 1000;
        let stored: Vec<u8> = (0..=250).cycle().take(LEN).collect();
        // We use the package's folder, because temporary files are often in memory.
        let mut file = tempfile::tempfile_in(".").or_else(|_| tempfile::tempfile()).unwrap();
        io::Write::write_all(&mut file, &stored).unwrap();
        file.sync_all().unwrap();
        let storage = FileStorage::positioned(file.try_clone().unwrap(), LEN as u64);
        let mut memory = vec![7; LEN + 8192];
        let aligned = memory.as_ptr().align_offset(4096);
        for (place, offset) in [(0, 0), (48, 48), (100, 4196), (16, 0), (4000, 4000)] {
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
            let bytes = &mut memory[aligned + place..][..LEN];
            bytes.fill(7);
            storage.read_alone(offset as u64, &mut bytes[..LEN - offset]).unwrap();
            assert!(bytes[..LEN - offset] == stored[offset..], "{place}, {offset}");
            let error = storage.read_alone(offset as u64, bytes).err();
            assert_eq!(error.is_some(), offset > 0, "{place}, {offset}: {error:?}");
        }
    }
}
