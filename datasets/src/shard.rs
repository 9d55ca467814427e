//! The samples of one shard, from a mapped file or a stream.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use tensorfile::file::{Container, shown_url};
use tensorfile::format::ReadAt;
use tensorfile::report::WarningKind;
use tensorfile::{ErrorKind, Limits, Warning};

use crate::archive::{
    BLOCK, COMES_BACK, EMPTY, Head, IN_PADDING, NO_END, Next, check_end, ends_early, goes_on, goes_on_in, head_of,
    read_head, split,
};
use crate::compression::{ShardRead, Window, decompress, is_compressed};
use crate::error::{Error, Result};
use crate::format::head_in;
use crate::role::{Member, name_members};
use crate::sample::{Sample, Source};

/// The samples of one shard, in order.
///
/// Files are grouped as by webdataset. The key of a file is its path up to the first dot of its base name, and files
/// next to each other with the same key are a sample. Hidden files, files without a dot, and names such as `__names__`
/// are skipped. You get an error for a sample with a repeated file, a file that cannot be read (such as a hard link),
/// or a key that returns after another key.
///
/// A shard ends at its first block of zeros. If it has none, it may be truncated. You find this, and other bytes after
/// the end, in [`warnings`](Self::warnings).
///
/// ```
/// use tensorfile_datasets::{Shard, ShardWriter};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("a-0.tar");
/// let mut writer = ShardWriter::new(folder.path().join("a-{0..}.tar"))?;
/// for key in ["0001", "0002", "0003"] {
///     writer.write_files(key, [("txt", key.as_bytes())])?;
/// }
/// writer.finish()?;
///
/// let path = path.to_str().expect("it is text");
/// let ranges: Vec<_> = Shard::open(path)?.map(|sample| Ok(sample?.range())).collect::<Result<_, tensorfile_datasets::Error>>()?;
/// // From the second sample on.
/// let mut shard = Shard::open(path)?.with_range(ranges[1].start..u64::MAX)?;
/// assert_eq!(shard.next().expect("there is one")?.key, "0002");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Shard {
    source: Arc<Source>,
    bytes: Bytes,
    /// The offset of the next header.
    offset: u64,
    /// The end of the range: samples whose first header is here or later are left out.
    end: u64,
    /// The first file of the next sample, whose headers were read. A stream stands at its data.
    ahead: Option<Found>,
    /// All keys so far, with the offsets of their first headers.
    keys: HashMap<String, u64>,
    warnings: Vec<Warning>,
    /// Whether the end of the archive was reached.
    is_at_end: bool,
    is_ended: bool,
}

pub(crate) enum Bytes {
    Mapped(Container),
    /// Whether only headers are read.
    Headers(HeaderReader),
    Stream {
        reader: ShardRead,
        /// The file, if it is neither compressed nor itself a stream.
        direct: Option<Container>,
        /// The bytes of the current sample, with zeros for headers.
        held: Vec<u8>,
        /// The offset of the first held byte.
        start: u64,
        /// The number of bytes held by the decoder.
        window: Window,
    },
}

/// A file of a sample.
#[derive(Debug)]
struct Found {
    key: String,
    extension: String,
    header: u64,
    data: Range<u64>,
    refused: Option<String>,
}

/// A problem of a shard.
pub(crate) enum Broken {
    /// A broken sample, after which others can be read.
    Sample(Error),
    Shard(Error),
}

impl From<Broken> for Error {
    fn from(broken: Broken) -> Self {
        let (Broken::Sample(error) | Broken::Shard(error)) = broken;
        error
    }
}

impl Shard {
    /// Opens a shard. Pass a path, `-` for standard input, or a URL with the Cargo features `http` and `cloud`.
    ///
    /// A file on disk is mapped, and must not change while it is open. A shard at a URL, or compressed with `gzip` or
    /// `zstd`, is read as a stream; one sample at a time is held in memory, up to [`Limits::held`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the shard cannot be opened, and [`ErrorKind::Unsupported`] for other compressions.
    pub fn open(location: &str) -> Result<Self> {
        Self::with_limits(location, Limits::default())
    }

    /// Opens a shard with limits for reading.
    ///
    /// [`Limits::tensors`] is also the most samples of a shard.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn with_limits(location: &str, limits: Limits) -> Result<Self> {
        let shard = shown_url(location).unwrap_or_else(|| location.to_owned());
        let bytes = Bytes::open(location, &limits).map_err(|error| error.in_shard(&shard))?;
        let source = Arc::new(Source { shard, location: location.into(), limits });
        Ok(Self::with_bytes(source, bytes))
    }

    /// Opens an uncompressed shard to read headers only. Its samples have a [range](Sample::range) but no bytes.
    pub(crate) fn with_headers(location: &str, container: Container) -> Self {
        let shard = shown_url(location).unwrap_or_else(|| location.to_owned());
        let source = Arc::new(Source { shard, location: location.into(), limits: Limits::default() });
        let bytes =
            Bytes::Headers(HeaderReader { container, start: 0, block: Vec::new(), blocks: 0, is_costly: false });
        Self::with_bytes(source, bytes)
    }

    fn with_bytes(source: Arc<Source>, bytes: Bytes) -> Self {
        let (ahead, keys, warnings) = (None, HashMap::new(), Vec::new());
        Self { source, bytes, offset: 0, end: u64::MAX, ahead, keys, warnings, is_at_end: false, is_ended: false }
    }

    /// Returns whether reading headers ended early, because there are too many.
    pub(crate) fn is_costly(&self) -> bool {
        matches!(&self.bytes, Bytes::Headers(reader) if reader.is_costly)
    }

    /// Limits reading to samples that begin in a range of bytes of the uncompressed shard.
    ///
    /// The range must start at the first header of a [sample](Sample::range), and end at one or at the end of the
    /// shard. If the shard is compressed, it is decompressed from its start. Otherwise, nothing before the range is
    /// read.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if a stream cannot be read up to the range.
    pub fn with_range(mut self, range: Range<u64>) -> Result<Self> {
        match &mut self.bytes {
            Bytes::Stream { reader, direct: Some(container), .. } => {
                *reader = Box::new(ContainerReader::with_range(container.clone(), true, range.clone()));
            }
            Bytes::Stream { reader, direct: None, .. } => {
                let skipped = skip(reader, range.start - self.offset.min(range.start));
                skipped.map_err(|error| Error::from(error).in_shard(&self.source.shard))?;
            }
            Bytes::Mapped(_) | Bytes::Headers(_) => {}
        }
        (self.offset, self.end) = (range.start, range.end);
        Ok(self)
    }

    /// Returns the path or URL.
    #[must_use]
    pub fn location(&self) -> &str {
        &self.source.shard
    }

    /// Returns warnings about the end of the shard: it is missing, or other bytes follow. Call it after the last
    /// sample.
    ///
    /// ```
    /// use tensorfile_datasets::{Shard, ShardWriter};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("a-0.tar");
    /// # let mut writer = ShardWriter::new(folder.path().join("a-{0..}.tar"))?;
    /// writer.write_files("0001", [("txt", b"one")])?;
    /// writer.write_files("0002", [("txt", b"two")])?;
    /// writer.finish()?;
    /// // The second sample is lost.
    /// std::fs::write(&path, &std::fs::read(&path)?[..1024])?;
    ///
    /// let mut shard = Shard::open(path.to_str().expect("it is text"))?;
    /// assert_eq!(shard.by_ref().count(), 1);
    /// assert!(shard.warnings()[0].to_string().contains("it may be cut"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Returns the next sample.
    pub(crate) fn next_sample(&mut self) -> Option<Result<Sample, Broken>> {
        if self.is_ended {
            return None;
        }
        let place = |error: Error, shard: &str| error.in_shard(shard);
        match self.read_sample() {
            Ok(Some(Ok(sample))) => Some(Ok(sample)),
            Ok(Some(Err(error))) => Some(Err(Broken::Sample(place(error, &self.source.shard)))),
            Ok(None) => {
                self.is_ended = true;
                None
            }
            Err(error) => {
                self.is_ended = true;
                Some(Err(Broken::Shard(place(error, &self.source.shard))))
            }
        }
    }

    /// Returns the next sample or its error. The outer error is about the whole shard.
    fn read_sample(&mut self) -> Result<Option<Result<Sample>>> {
        let first = match self.ahead.take() {
            Some(first) => first,
            None => match self.next_file()? {
                Some(first) => first,
                None => return self.finish().map(|()| None),
            },
        };
        let (key, header) = (first.key.clone(), first.header);
        if let Bytes::Stream { start, .. } = &mut self.bytes {
            *start = header;
        }
        let mut broken = self.check_key(&key, header)?;
        let (mut members, mut file): (Vec<Member>, _) = (Vec::with_capacity(4), first);
        let end = loop {
            if let Some(before) = members.iter().find(|member| member.extension == file.extension) {
                let (extension, first) = (&file.extension, before.range.start);
                let what =
                    format!("the file `{extension}` is there twice: its bytes are at {first} and {}", file.data.start);
                broken.get_or_insert_with(|| Error::malformed(what).at(header).in_sample(&key));
            }
            let in_sample = |error: Error| error.at(file.header).in_sample(&key);
            self.bytes.take(&file.data, &self.source.limits).map_err(in_sample)?;
            if let Some(why) = file.refused {
                broken.get_or_insert_with(|| in_sample(Error::malformed(why)));
            }
            members.push(Member::new(file.extension, file.data));
            match self.next_file()? {
                Some(next) if next.key == key => file = next,
                Some(next) => {
                    let header = next.header;
                    self.ahead = Some(next);
                    break header;
                }
                None => break self.offset,
            }
        };
        if let Err(why) = name_members(&mut members) {
            broken.get_or_insert_with(|| Error::malformed(why).at(header).in_sample(&key));
        }
        let (container, start, held) = self.bytes.container();
        let source = Arc::clone(&self.source);
        let (is_full, decompressed) = (false, OnceLock::new());
        let sample = Sample { key, members, source, container, start, held, header, end, is_full, decompressed };
        Ok(Some(broken.map_or(Ok(sample), Err)))
    }

    /// Looks for bytes after the last sample, if the archive ends there.
    fn finish(&mut self) -> Result<()> {
        let end = self.offset;
        if self.is_at_end && self.bytes.goes_on(end).map_err(|error| error.at(end))? {
            self.warnings.push(Warning::new(WarningKind::LeftOut, goes_on(end)));
        }
        Ok(())
    }

    /// Adds a key, or returns an error if there is such a key already.
    fn check_key(&mut self, key: &str, header: u64) -> Result<Option<Error>> {
        let (found, limit) = (self.keys.len() as u64 + 1, self.source.limits.tensors);
        if found > limit {
            return Err(Error::from(ErrorKind::Limit { what: "number of samples in a shard", found, limit }).at(header));
        }
        Ok(match self.keys.entry(key.to_owned()) {
            Entry::Occupied(known) => {
                let what = format!("the key, which is at byte {} too, {COMES_BACK}", known.get());
                Some(Error::malformed(what).at(header).in_sample(key))
            }
            Entry::Vacant(place) => {
                place.insert(header);
                None
            }
        })
    }

    /// Returns the next file of a sample. The caller must [take](Bytes::take) its bytes next, because a stream stands
    /// there.
    fn next_file(&mut self) -> Result<Option<Found>> {
        // The end of the range may be before the end of the archive.
        while self.offset < self.end && !self.is_at_end {
            let header = self.offset;
            let head = match self.bytes.head(header).map_err(|error| error.at(header))? {
                Next::Member(head) => head,
                Next::Nothing => {
                    self.warnings.push(Warning::new(WarningKind::LeftOut, NO_END));
                    self.is_at_end = true;
                    break;
                }
                Next::End => {
                    self.is_at_end = true;
                    break;
                }
            };
            let end = head.total().and_then(|total| header.checked_add(total));
            self.offset = end.ok_or_else(|| Error::malformed("the size of a member is too large").at(header))?;
            let start = header + head.len;
            match head.path.as_deref().and_then(split) {
                Some((key, extension)) => {
                    let (key, extension) = (key.to_owned(), extension.to_lowercase());
                    let (data, refused) = (start..start + head.size, head.refused);
                    return Ok(Some(Found { key, extension, header, data, refused }));
                }
                None => self.bytes.pass(&head).map_err(|error| error.at(header))?,
            }
        }
        Ok(None)
    }
}

impl Iterator for Shard {
    type Item = Result<Sample>;

    /// Returns the next sample. After the error of a sample, the iterator continues with the next one.
    fn next(&mut self) -> Option<Self::Item> {
        self.next_sample().map(|sample| sample.map_err(Error::from))
    }
}

impl Bytes {
    pub(crate) fn open(location: &str, limits: &Limits) -> Result<Self> {
        if location == "-" {
            return Self::stream(Box::new(io::stdin()), limits);
        }
        let is_url = shown_url(location).is_some();
        if !is_url && is_special(Path::new(location))? {
            return Self::stream(Box::new(File::open(location)?), limits);
        }
        let container = Container::open(location).map_err(without_path)?;
        let mut begin = [0; 8];
        let len = usize::try_from(container.len()).unwrap_or(usize::MAX).min(begin.len());
        container.read_at(0, &mut begin[..len])?;
        if len == 0 {
            return Err(Error::malformed(EMPTY).at(0));
        }
        if is_compressed(&begin) {
            return Self::stream(Box::new(ContainerReader::new(container, is_url)), limits);
        }
        if container.as_bytes().is_some() {
            return Ok(Self::Mapped(container));
        }
        let reader = Box::new(ContainerReader::new(container.clone(), is_url));
        Ok(Self::Stream { reader, direct: Some(container), held: Vec::new(), start: 0, window: Window::default() })
    }

    fn stream(reader: ShardRead, limits: &Limits) -> Result<Self> {
        let window = Window::default();
        let reader = decompress(reader, limits, &window)?;
        Ok(Self::Stream { reader, direct: None, held: Vec::new(), start: 0, window })
    }

    /// Returns a reader of all bytes.
    pub(crate) fn into_reader(self) -> ShardRead {
        match self {
            Self::Mapped(container) => Box::new(ContainerReader::new(container, false)),
            Self::Headers(reader) => Box::new(ContainerReader::new(reader.container, true)),
            Self::Stream { reader, .. } => reader,
        }
    }

    /// Reads the headers at an offset. A stream stands there already.
    fn head(&mut self, offset: u64) -> Result<Next> {
        let (found, left) = match self {
            Self::Mapped(container) => {
                let bytes = container.as_bytes().unwrap_or_default();
                let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default();
                (head_of(rest)?, rest.len() as u64)
            }
            Self::Headers(reader) => {
                let len = reader.container.len();
                (head_in(reader, offset, len)?, len.saturating_sub(offset))
            }
            Self::Stream { reader, .. } => return read_head(reader, offset > 0),
        };
        if let Next::Member(head) = &found {
            check_end(head, left)?;
        }
        Ok(found)
    }

    /// Skips the data of an entry.
    fn pass(&mut self, head: &Head) -> Result<()> {
        let Self::Stream { reader, .. } = self else { return Ok(()) };
        let skipped = skip(reader, head.size)?;
        if skipped < head.size {
            return Err(ends_early(head.size, skipped));
        }
        pass_padding(reader, head.size)
    }

    /// Holds the data of a file of the current sample.
    fn take(&mut self, data: &Range<u64>, limits: &Limits) -> Result<()> {
        let Self::Stream { reader, held, start, window, .. } = self else { return Ok(()) };
        let limit = limits.held.min(limits.payload).saturating_sub(window.load(Ordering::Relaxed));
        let found = data.end - *start;
        if found > limit {
            return Err(ErrorKind::Limit { what: "number of bytes of a sample", found, limit }.into());
        }
        let (before, size) = (usize::try_from(data.start - *start).unwrap_or(usize::MAX), data.end - data.start);
        // Headers and skipped entries between the files become zeros.
        held.try_reserve(before.saturating_sub(held.len())).map_err(io::Error::from)?;
        held.resize(before, 0);
        // The memory grows with the bytes that arrive, as the length may be a lie.
        let read = reader.take(size).read_to_end(held)? as u64;
        if read < size {
            return Err(ends_early(size, read));
        }
        pass_padding(reader, size)
    }

    /// Returns the bytes of a sample, their offset in the shard, and how many are held in memory.
    fn container(&mut self) -> (Container, u64, u64) {
        match self {
            Self::Mapped(container) => (container.clone(), 0, 0),
            Self::Headers(reader) => (reader.container.clone(), 0, 0),
            Self::Stream { held, start, .. } => {
                let len = held.len() as u64;
                (Container::from_bytes(std::mem::take(held)), *start, len)
            }
        }
    }

    /// Returns whether bytes other than zeros follow the end of the archive, which is a block of zeros at an offset. A
    /// stream is read to its end, so that the decoder compares its checksums.
    fn goes_on(&mut self, end: u64) -> Result<bool> {
        match self {
            Self::Mapped(container) => {
                let bytes = container.as_bytes().unwrap_or_default();
                let rest = usize::try_from(end).ok().and_then(|end| bytes.get(end..)).unwrap_or_default();
                goes_on_in(rest)
            }
            Self::Headers(_) => Ok(false),
            Self::Stream { reader, .. } => goes_on_in(reader),
        }
    }
}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Mapped(container) => container.fmt(f),
            Self::Headers(reader) => reader.container.fmt(f),
            Self::Stream { held, .. } => f.debug_struct("Stream").field("held", &held.len()).finish_non_exhaustive(),
        }
    }
}

/// Returns whether a path is readable but not a regular file, such as a pipe.
fn is_special(path: &Path) -> Result<bool> {
    let metadata = std::fs::metadata(path)?;
    if metadata.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory).into());
    }
    Ok(!metadata.is_file())
}

/// Drops the path from an error of opening a file, because the error of the shard has it.
fn without_path(error: tensorfile::Error) -> Error {
    match error.kind() {
        ErrorKind::Io(io) => io::Error::new(io.kind(), io.to_string()).into(),
        _ => error.into(),
    }
}

/// Reads up to `len` bytes, and returns their number.
fn skip(reader: &mut ShardRead, len: u64) -> io::Result<u64> {
    io::copy(&mut reader.take(len), &mut io::sink())
}

/// Skips the padding after data.
pub(crate) fn pass_padding(reader: &mut ShardRead, size: u64) -> Result<()> {
    let padding = size.next_multiple_of(BLOCK) - size;
    if skip(reader, padding)? < padding { Err(Error::malformed(IN_PADDING)) } else { Ok(()) }
}

/// Reads the headers of a shard, each as a separate block. At a URL, each block is a request.
pub(crate) struct HeaderReader {
    container: Container,
    /// The offset of the block.
    start: u64,
    block: Vec<u8>,
    /// The number of blocks so far.
    blocks: u64,
    /// Whether there are too many headers for reading them to be worth it.
    is_costly: bool,
}

impl ReadAt for HeaderReader {
    fn file_len(&self) -> Option<u64> {
        Some(self.container.len())
    }

    fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> tensorfile::Result<()> {
        /// The length of a header, the headers of a long name, and a short file with its header.
        const BLOCK: usize = 4 << 10;
        /// A request takes about as long as reading this many bytes.
        const REQUEST: u64 = 1 << 20;
        /// The number of blocks after which the average length of files is known well enough.
        const FIRST: u64 = 16;

        let known = |reader: &Self| {
            let from = usize::try_from(offset.checked_sub(reader.start)?).ok()?;
            Some(from..from.checked_add(bytes.len())?).filter(|range| range.end <= reader.block.len())
        };
        let range = match known(self) {
            Some(range) => range,
            None => {
                self.blocks += 1;
                self.is_costly = self.blocks > FIRST + offset / REQUEST;
                if self.is_costly {
                    return Err(io::Error::other("there are too many headers").into());
                }
                let left = usize::try_from(self.container.len().saturating_sub(offset)).unwrap_or(usize::MAX);
                self.block.resize(BLOCK.max(bytes.len()).min(left), 0);
                self.container.read_at(offset, &mut self.block)?;
                self.start = offset;
                0..bytes.len()
            }
        };
        let Some(found) = self.block.get(range) else {
            let (needed, left) = (bytes.len() as u64, self.block.len() as u64);
            return Err(ErrorKind::Truncated { needed, left }.into());
        };
        bytes.copy_from_slice(found);
        Ok(())
    }
}

/// Reads a container as a stream, in blocks.
pub(crate) struct ContainerReader {
    container: Container,
    /// The offset after the block.
    offset: u64,
    end: u64,
    block: Vec<u8>,
    done: usize,
    most: usize,
}

impl ContainerReader {
    pub(crate) fn new(container: Container, is_remote: bool) -> Self {
        Self::with_range(container, is_remote, 0..u64::MAX)
    }

    fn with_range(container: Container, is_remote: bool, range: Range<u64>) -> Self {
        // A request to a server takes as long as some megabytes.
        let most = if is_remote { 8 << 20 } else { 256 << 10 };
        let end = range.end.min(container.len());
        Self { container, offset: range.start, end, block: Vec::new(), done: 0, most }
    }
}

impl Read for ContainerReader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.done == self.block.len() {
            let left = self.end.saturating_sub(self.offset);
            self.block.resize(usize::try_from(left).unwrap_or(usize::MAX).min(self.most), 0);
            self.container.read_at(self.offset, &mut self.block)?;
            self.offset += self.block.len() as u64;
            self.done = 0;
        }
        let now = bytes.len().min(self.block.len() - self.done);
        bytes[..now].copy_from_slice(&self.block[self.done..self.done + now]);
        self.done += now;
        Ok(now)
    }
}
