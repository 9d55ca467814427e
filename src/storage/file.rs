//! Files to read at positions: on disk, mapped, in memory, behind any seekable reader, or several joined.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::disk_file::DiskFile;
use super::headers::Headers;
use super::mapping::{LentBytes, MappedFile, Mapping};
use super::pool::{FilePool, PooledFile};
use super::ranges::ReadRanges;
use super::source_stream::SourceStream;
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::checked_io::{check_read, write_all};
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
    /// Bytes that other files have too.
    Shared(Arc<FileStorage>),
    /// Bytes put together from the other parts of a joined file.
    Gathered(Box<dyn GatherBytes>),
}

/// Several files as one. One unused byte separates neighbours, so that an empty payload at the end of a file is not
/// also at the start of the next. What is put together from the files follows them.
#[derive(Debug)]
pub struct JoinedFiles {
    parts: Vec<FileStorage>,
    /// The offset of each.
    starts: Vec<u64>,
    /// The number of parts that are files, and their length together.
    files: usize,
    len: u64,
    end: u64,
    /// Memory for chunks of what is put together, reused because allocating it takes long.
    chunk: Mutex<Vec<u8>>,
}

impl JoinedFiles {
    /// Joins one or more files. Returns `None` if they are too long together.
    pub(crate) fn new(parts: Vec<FileStorage>) -> Option<Self> {
        let (files, len) = (parts.len(), parts.iter().map(FileStorage::len).fold(0, u64::saturating_add));
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

    /// Adds bytes that are put together from the files, and returns their offset. `None` if there are too many.
    pub(crate) fn gather(&mut self, gather: Box<dyn GatherBytes>) -> Option<u64> {
        self.push(FileStorage::Gathered(gather))
    }

    fn push(&mut self, part: FileStorage) -> Option<u64> {
        let start = self.end;
        self.end = start.checked_add(part.len())?.checked_add(1)?;
        self.parts.push(part);
        self.starts.push(start);
        Some(start)
    }

    /// Returns the files.
    pub(crate) fn parts(&self) -> &[FileStorage] {
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

/// Bytes put together from the files of a joined one, such as a tensor in chunks. They follow the files, so that a reader
/// sees one more range.
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
    origin: Origin,
    len: u64,
    /// Memory for chunks of payloads, reused because allocating it takes long.
    chunk: Mutex<Vec<u8>>,
    /// Of a source that is read as a stream.
    stream: Mutex<SourceStream>,
}

impl Positioned {
    fn new(origin: Origin, len: u64) -> Self {
        Self { origin, len, chunk: Mutex::default(), stream: Mutex::default() }
    }
}

enum Origin {
    File(DiskFile),
    /// A file that may be closed between reads.
    Pooled(PooledFile),
    /// One thread at a time moves it to a position and reads.
    Reader(Mutex<Box<dyn ReadSeek + Send>>),
    Ranges(Arc<dyn ReadRanges>),
}

/// A seekable reader.
pub trait ReadSeek: Read + Seek {}

impl<R: Read + Seek> ReadSeek for R {}

/// A file or reader, as it is read at positions.
#[derive(Clone, Copy)]
enum OriginRef<'a> {
    File(&'a DiskFile),
    Pooled(&'a PooledFile),
    Reader(&'a Mutex<Box<dyn ReadSeek + Send>>),
    Ranges(&'a dyn ReadRanges),
}

impl OriginRef<'_> {
    /// Reads some bytes from `offset` on; none at the end. All of them lie before the length that was found on opening.
    fn read_at(self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            OriginRef::File(file) => read_file_at(file, offset, bytes),
            OriginRef::Pooled(file) => read_file_at(&*file.open()?, offset, bytes),
            OriginRef::Reader(reader) => {
                // The lock may be poisoned by a panic, but every read begins with a seek.
                let mut reader = reader.lock().unwrap_or_else(PoisonError::into_inner);
                reader.seek(SeekFrom::Start(offset))?;
                check_read(reader.read(bytes)?, bytes.len())
            }
            OriginRef::Ranges(ranges) => ranges.read_at(offset, bytes).map(|()| bytes.len()),
        }
    }
}

impl OriginRef<'_> {
    /// Fills as much of `bytes` as there is from `offset` on, and returns the number of bytes.
    fn read_all(self, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.read_at(offset.saturating_add(filled as u64), &mut bytes[filled..]) {
                Ok(0) => break,
                Ok(now) => filled += now,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(filled)
    }
}

/// The access pattern of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AccessPattern {
    /// A few bytes here and there.
    Scattered,
    /// Mostly long ranges.
    InOrder,
}

impl AccessPattern {
    #[cfg(target_os = "linux")]
    fn advise(self, file: &File) {
        let advice = match self {
            Self::Scattered => rustix::fs::Advice::Random,
            Self::InOrder => rustix::fs::Advice::Normal,
        };
        // Advice may fail: more is read than needed then.
        let _ = rustix::fs::fadvise(file, 0, None, advice);
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
        Self::Mapped(Mapping::new(MappedFile::Open(file.into()), len))
    }

    /// Lets a file on disk be closed until it is read or mapped. It was just opened.
    pub(crate) fn pooled(self, pool: &Arc<FilePool>, path: &Path, metadata: &fs::Metadata) -> Self {
        match self {
            Self::Mapped(mapping) => {
                let len = mapping.len();
                match mapping.into_file() {
                    MappedFile::Open(file) => {
                        let file = pool.add(file.into_file(), path, metadata);
                        Self::Mapped(Mapping::new(MappedFile::Pooled(file), len))
                    }
                    pooled @ MappedFile::Pooled(_) => Self::Mapped(Mapping::new(pooled, len)),
                }
            }
            Self::Positioned(Positioned { origin: Origin::File(file), len, .. }) => {
                Self::Positioned(Positioned::new(Origin::Pooled(pool.add(file.into_file(), path, metadata)), len))
            }
            other => other,
        }
    }

    /// Reads a file of `len` bytes at positions.
    pub(crate) fn positioned(file: File, len: u64) -> Self {
        Self::Positioned(Positioned::new(Origin::File(file.into()), len))
    }

    /// Reads from a reader at positions, up to its end.
    pub(crate) fn reader(mut reader: Box<dyn ReadSeek + Send>) -> io::Result<Self> {
        let len = reader.seek(SeekFrom::End(0))?;
        Ok(Self::Positioned(Positioned::new(Origin::Reader(Mutex::new(reader)), len)))
    }

    /// Reads from a source of ranges.
    pub(crate) fn ranges(ranges: Arc<dyn ReadRanges>) -> io::Result<Self> {
        let len = ranges.len()?;
        Ok(Self::Positioned(Positioned::new(Origin::Ranges(ranges), len)))
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
            Self::Shared(shared) => shared.len(),
        }
    }

    /// Returns the end of the last offset: after the length, if bytes are put together from files.
    pub(super) fn end(&self) -> u64 {
        match self {
            Self::Joined(joined) => joined.end,
            Self::Shared(shared) => shared.end(),
            _ => self.len(),
        }
    }

    /// Returns what puts the bytes at `offset` together, if they are in several places.
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
            Self::Joined(joined) => joined.parts.iter().any(Self::may_change),
            Self::Shared(shared) => shared.may_change(),
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
            Self::Shared(shared) => shared.file(offset),
            _ => (self, offset),
        }
    }

    /// Returns whether reading bytes into memory of their own takes less time than a copy of borrowed ones.
    pub(crate) fn reads_faster(&self, offset: u64, len: u64) -> bool {
        matches!(self.file(offset), (Self::Mapped(_), _)) && len >= WORTH_A_CALL as u64
    }

    /// Returns whether bytes at `offset` are read from a file.
    pub(super) fn is_on_disk(&self, offset: u64) -> bool {
        self.positions(offset).is_some()
    }

    /// Returns what is read at positions for bytes at `offset`, its length, and the offset within it.
    fn positions(&self, offset: u64) -> Option<(OriginRef<'_>, u64, u64)> {
        match self.file(offset) {
            (Self::Positioned(Positioned { origin: Origin::File(file), len, .. }), start) => {
                Some((OriginRef::File(file), *len, start))
            }
            (Self::Positioned(Positioned { origin: Origin::Pooled(file), len, .. }), start) => {
                Some((OriginRef::Pooled(file), *len, start))
            }
            (Self::Positioned(Positioned { origin: Origin::Reader(reader), len, .. }), start) => {
                Some((OriginRef::Reader(reader), *len, start))
            }
            (Self::Positioned(Positioned { origin: Origin::Ranges(ranges), len, .. }), start) => {
                Some((OriginRef::Ranges(&**ranges), *len, start))
            }
            (Self::Mapped(mapping), start) => {
                let origin = match mapping.file() {
                    MappedFile::Open(file) => OriginRef::File(file),
                    MappedFile::Pooled(file) => OriginRef::Pooled(file),
                };
                Some((origin, mapping.len(), start))
            }
            _ => None,
        }
    }

    /// Fills `bytes` of an index from `offset` on, if a source of ranges reads ahead by itself.
    pub(super) fn read_index_at(&self, offset: u64, bytes: &mut [u8]) -> Option<Result<()>> {
        let is_inside = offset.checked_add(bytes.len() as u64).is_some_and(|end| end <= self.len());
        let read = self.source().filter(|_| is_inside)?.read_index_at(offset, bytes)?;
        Some(read.map_err(|error| Error::from(error).at(offset)))
    }

    /// Returns text that is equal for two files only if their bytes are.
    pub(crate) fn identity(&self) -> Option<String> {
        match self {
            Self::Joined(joined) => {
                let parts: Option<Vec<String>> = joined.parts().iter().map(Self::identity).collect();
                Some(parts?.join("\n"))
            }
            Self::Shared(shared) => shared.identity(),
            _ => self.source()?.identity().map(Into::into),
        }
    }

    /// Returns whether bytes pass in order.
    pub(crate) fn is_sequential(&self) -> bool {
        match self {
            Self::Joined(joined) => joined.parts().iter().any(Self::is_sequential),
            Self::Shared(shared) => shared.is_sequential(),
            _ => self.source().is_some_and(ReadRanges::is_sequential),
        }
    }

    /// Returns whether the bytes are those of a source of ranges.
    pub(crate) fn is_remote(&self) -> bool {
        self.source().is_some()
    }

    /// Returns the source of a file that is read by ranges.
    pub(super) fn source(&self) -> Option<&dyn ReadRanges> {
        match self {
            Self::Positioned(Positioned { origin: Origin::Ranges(ranges), .. }) => Some(&**ranges),
            Self::Shared(shared) => shared.source(),
            _ => None,
        }
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
        let read = self.read_some(offset, bytes)?;
        if read == bytes.len() { Ok(()) } else { Err(truncated(offset, needed, read as u64)) }
    }

    /// Fills several ranges, in order of their offsets and without overlaps. A source is asked for those of a file
    /// together; several threads read those of a file on disk.
    pub(crate) fn read_many(&self, ranges: &mut [(u64, &mut [u8])]) -> Result<()> {
        let mut rest = ranges;
        while let Some((first, _)) = rest.first() {
            let (first, part) = (*first, self.part(*first));
            let end = rest.partition_point(|(offset, _)| self.part(*offset) == part);
            let (now, later) = rest.split_at_mut(end);
            let (file, start) = (self.file(first).0, part.map_or(0, |(_, start)| start));
            match file.source() {
                Some(source) => {
                    for (offset, bytes) in &mut *now {
                        *offset -= start;
                        let (needed, left) = (bytes.len() as u64, file.len().saturating_sub(*offset));
                        if needed > left {
                            return Err(truncated(*offset + start, needed, left));
                        }
                    }
                    let read = source.read_many(now).map_err(|error| Error::from(error).moved_by(start));
                    match read.map_err(|error| if now.len() == 1 { error.at(first) } else { error }) {
                        // The source does not say which of them it could not read.
                        Err(error) if error.offset().is_none() && matches!(error.kind(), ErrorKind::Io(_)) => {
                            for (offset, bytes) in now {
                                let read = source.read_at(*offset, bytes).map_err(Error::from);
                                read.map_err(|error| error.at(*offset).moved_by(start))?;
                            }
                        }
                        read => read.map_err(|error| error.at(first))?,
                    }
                }
                None => self.read_at_once(now)?,
            }
            rest = later;
        }
        Ok(())
    }

    /// Fills ranges of a file on disk. Returns the error of the first one that failed.
    fn read_at_once(&self, ranges: &mut [(u64, &mut [u8])]) -> Result<()> {
        let total = ranges.iter().map(|(_, bytes)| bytes.len()).fold(0, usize::saturating_add);
        let failed = Mutex::new(None::<(u64, Error)>);
        threads::for_each(self.reading_threads(total), ranges.iter_mut(), &|(offset, bytes)| {
            if let Err(error) = self.read_alone(*offset, bytes) {
                let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                if failed.as_ref().is_none_or(|(first, _)| *offset < *first) {
                    *failed = Some((*offset, error));
                }
            }
        });
        failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), |(_, error)| Err(error))
    }

    /// Returns whether bytes at `offset` are in a file on disk that is not mapped.
    pub(crate) fn is_positioned(&self, offset: u64) -> bool {
        matches!(self.file(offset).0, Self::Positioned(Positioned { origin: Origin::File(_) | Origin::Pooled(_), .. }))
    }

    /// Returns whether bytes at `offset` are in a source of ranges.
    pub(crate) fn is_source(&self, offset: u64) -> bool {
        match self.file(offset).0 {
            Self::Gathered(gather) => self.is_source(gather.start()),
            file => file.source().is_some(),
        }
    }

    /// Returns the number of threads that can read `bytes` bytes at once.
    pub(crate) fn reading_threads(&self, bytes: usize) -> usize {
        match self {
            Self::Positioned(Positioned { origin: Origin::Reader(_), .. }) => 1,
            _ => threads::threads_for(bytes),
        }
    }

    /// Fills `bytes` from `offset` on, with calls of the system if the file is on disk.
    pub(super) fn read_positions(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let needed = bytes.len() as u64;
        let read = |start: usize, part: &mut [u8]| {
            let read = self.read_some(offset.saturating_add(start as u64), part)?;
            if read == part.len() { Ok(()) } else { Err(truncated(offset, needed, (start + read) as u64)) }
        };
        if let Some((OriginRef::Ranges(_), ..)) = self.positions(offset) {
            // The source knows best how many requests it takes.
            return read(0, bytes);
        }
        threads::fill(bytes, &read)
    }

    /// Hints to the system whether to read ahead in a file on disk.
    pub(crate) fn will_be_read(&self, _access: AccessPattern) {
        if let (Some(source), AccessPattern::InOrder) = (self.source(), _access) {
            source.will_read(&[]);
        }
        #[cfg(target_os = "linux")]
        if let Self::Positioned(Positioned { origin: Origin::File(file), .. }) = self {
            _access.advise(file);
        }
        #[cfg(target_os = "linux")]
        if let Self::Mapped(mapping) = self
            && let MappedFile::Open(file) = mapping.file()
        {
            _access.advise(file);
        }
    }

    /// Makes the system read bytes of a file on disk without waiting for them. Nothing happens where it cannot.
    pub(super) fn prefetch(&self, _offset: u64, _len: u64) {
        #[cfg(target_os = "linux")]
        if let Some((origin, len, start)) = self.positions(_offset)
            && start < len
        {
            // Advice may fail: the bytes are then read when they are asked for.
            let advise = |file: &File| {
                let advice = rustix::fs::Advice::WillNeed;
                let _ = rustix::fs::fadvise(file, start, std::num::NonZeroU64::new(_len), advice);
            };
            match origin {
                OriginRef::File(file) => advise(file),
                OriginRef::Pooled(file) => {
                    let _ = file.open().map(|file| advise(&file));
                }
                OriginRef::Reader(_) | OriginRef::Ranges(_) => {}
            }
        }
    }

    /// Fills as much of `bytes` as the file has from `offset` on, and returns the number of bytes.
    pub(crate) fn read_some(&self, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        if let (Self::Gathered(gather), start) = self.file(offset) {
            let left = usize::try_from(gather.bytes().saturating_sub(start)).unwrap_or(usize::MAX);
            let now = bytes.len().min(left);
            gather.read(self, Wanted::From(start), &mut bytes[..now])?;
            return Ok(now);
        }
        let Some((place, len, start)) = self.positions(offset) else {
            let rest = self.rest(offset).unwrap_or_default();
            let now = rest.len().min(bytes.len());
            bytes[..now].copy_from_slice(&rest[..now]);
            return Ok(now);
        };
        // Systems refuse offsets from 2^63 on with errors of their own.
        if start >= len {
            return Ok(0);
        }
        let mut bytes = bytes;
        if let (OriginRef::Ranges(_), Ok(left)) = (place, usize::try_from(len - start))
            && left < bytes.len()
        {
            bytes = &mut bytes[..left];
        }
        let direct = match place {
            OriginRef::File(file) => file.read_directly(start, bytes),
            _ => 0..0,
        };
        let (head, rest) = bytes.split_at_mut(direct.start);
        let read = place.read_all(start, head).map_err(|error| error.at(offset))?;
        if read < direct.start {
            return Ok(read);
        }
        let tail = place.read_all(start.saturating_add(direct.end as u64), &mut rest[direct.len()..]);
        Ok(direct.end + tail.map_err(|error| error.at(offset))?)
    }

    /// Writes a range to `out`, in one call if it is in memory.
    pub(crate) fn write_to(&self, offset: u64, len: u64, out: &mut dyn io::Write) -> io::Result<()> {
        if let Some(bytes) = self.borrow(offset, len) {
            return write_all(out, bytes?);
        }
        if let (Self::Positioned(Positioned { origin: Origin::Ranges(source), len: file_len, stream, .. }), start) =
            self.file(offset)
        {
            let left = file_len.saturating_sub(start);
            if len > left {
                return Err(truncated(offset, len, left).into());
            }
            // A stream in use by another thread is not waited for.
            let mut own = SourceStream::default();
            return match stream.try_lock() {
                Ok(mut stream) => stream.write_to(&**source, *file_len, start..start + len, out),
                Err(_) => own.write_to(&**source, *file_len, start..start + len, out),
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

    /// Writes a range to `out`, which is a file: in one call if it is in memory, else in short chunks, of which the next
    /// ones are read while one is written.
    pub(crate) fn copy_to(&self, offset: u64, len: u64, out: &mut dyn io::Write) -> io::Result<()> {
        const CHUNK: u64 = FileStorage::COPY_CHUNK as u64;

        let (Ok(bytes), Ok(chunks)) = (usize::try_from(len), usize::try_from(len.div_ceil(CHUNK))) else {
            return self.write_to(offset, len, out);
        };
        let first = match self.file(offset).0 {
            Self::Gathered(gather) => gather.start(),
            _ => offset,
        };
        if chunks <= 1 || !self.is_positioned(first) {
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
        // What is put together from several files ends in one of them.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(all(target_os = "linux", feature = "mmap"))]
    #[test]
    fn a_file_that_cannot_be_mapped_is_read_at_positions() {
        let begin = b"Linux version";
        // The kernel makes it up, and does not map it.
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
        // In the folder of the package, as temporary files are often in memory.
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
            assert_eq!(storage.read_some(offset as u64, bytes).unwrap(), LEN - offset);
            assert!(bytes[..LEN - offset] == stored[offset..], "{place}, {offset}");
        }
    }
}
