//! Reads the payloads of a file or stream in any order, each at most once, and keeps track of the unread tensors.

use std::borrow::Cow;
use std::{fmt, io};

use hashbrown::HashSet;
use indexmap::IndexMap;

use super::index_loader::{IndexLoader, ReadMetadata, ReaderOfIndex, ReaderStorage, Reading};
use super::payload::{
    CheckedIndices, ElementWriter, FIRST, NextPayload, check_stored, check_sum, check_value_count, read_plain,
    write_chunks,
};
use super::{Entry, Index, Labels, PayloadDecoder, RangeReader, Unread};
use crate::error::{Category, Error, ErrorKind, MEMORY, Result};
use crate::limits::Limits;
use crate::model::{Copies, FileMetadata, FilePart, NamesByPosition, Payload, TensorSpec};
use crate::storage::ProgressCount;
use crate::tensor::checked_io::write_all;
use crate::tensor::{Buffer, Layout, TensorInfo};

/// The tensors of a file of any format in any storage.
///
/// The tensors of a stream become known one by one. After reading or skipping its payload, a tensor is *read*; searches
/// find only unread tensors.
pub(crate) struct Reader<'de> {
    pub(crate) loader: IndexLoader<'de>,
    unread: Unread,
    /// The tensor with the next payload of a stream.
    pending: Option<usize>,
    /// The number of tensors not yet known, if a fixed number is read as one value.
    left: Option<usize>,
    /// The memory of payloads read so far.
    memory: ReadMemory,
    /// The number of payload bytes read, for a listener.
    count: Option<ProgressCount<'de>>,
}

impl<'de> Reader<'de> {
    pub(crate) fn new(storage: ReaderStorage<'de>, reading: &Reading, limits: Limits) -> Self {
        Self::with_loader(IndexLoader::new(storage, reading, limits))
    }

    /// A reader for a file with a known index.
    pub(crate) fn with_index(storage: ReaderStorage<'de>, index: Cow<'de, Index>, limits: Limits) -> Self {
        Self::with_loader(IndexLoader::with_index(storage, index, limits))
    }

    fn with_loader(loader: IndexLoader<'de>) -> Self {
        let unread = Unread::new(&loader.index);
        Self { loader, unread, pending: None, left: None, memory: ReadMemory::default(), count: None }
    }

    /// Counts the bytes of payloads.
    pub(crate) fn counting(self, count: Option<ProgressCount<'de>>) -> Self {
        Self { count, ..self }
    }

    /// Reports the end to the listener, also if tensors were skipped.
    pub(crate) fn end_count(&mut self) -> Result<()> {
        self.count.take().map_or(Ok(()), ProgressCount::finish)
    }

    /// Reads the index of the whole file, and the metadata if it comes with the index.
    pub(crate) fn into_index(mut self) -> Result<(Index, Option<FileMetadata>, Option<FilePart>)> {
        self.drain()?;
        let mut index = self.loader.index.into_owned();
        index.shrink();
        let (metadata, part) = match self.loader.index_reader {
            ReaderOfIndex::Ended(Some(mut reader)) => (reader.metadata(), reader.part()),
            _ => (None, None),
        };
        Ok((index, metadata, part))
    }

    /// Returns the metadata entries, from the index or else by `read`.
    pub(crate) fn metadata_entries(&mut self, read: Option<ReadMetadata>) -> Result<IndexMap<String, String>> {
        // In a stream, the header is read with the first tensor.
        if self.loader.index.len() == 0 {
            self.peek()?;
        }
        let known = match &mut self.loader.index_reader {
            ReaderOfIndex::Reading(reader) | ReaderOfIndex::Ended(Some(reader)) => reader.metadata_entries(),
            _ => None,
        };
        match (known, read) {
            (Some(known), _) => Ok(known),
            (None, Some(read)) => read(&mut *self.loader.storage, &self.loader.limits).map(|metadata| metadata.entries),
            (None, None) => Ok(IndexMap::new()),
        }
    }

    /// Skips the tensors known so far and drops them. The numbers of later tensors continue.
    pub(crate) fn clear(&mut self) {
        self.pending = None;
        self.loader.index.to_mut().clear();
        self.unread = Unread::default();
    }

    /// Limits reading to a number of tensors, including known ones, until [`leave`](Self::leave) is called.
    pub(crate) fn enter(&mut self, tensors: usize) {
        self.left = Some(tensors.saturating_sub(self.loader.index.len()));
    }

    /// Skips and drops the rest after [`enter`](Self::enter). Returns the number of tensors missing from the stream.
    pub(crate) fn leave(&mut self) -> usize {
        let ended = self.drain_headers();
        let left = self.left.take().unwrap_or_default();
        self.loader.needs_unique_names = false;
        let next = self.loader.next_offset();
        self.loader.storage.release(next);
        self.clear();
        if ended.is_ok() && self.loader.is_drained() { left } else { 0 }
    }

    /// Returns the next tensor in file order, reading on in a stream.
    pub(crate) fn peek(&mut self) -> Result<Option<usize>> {
        if let Some(i) = self.unread.first() {
            return Ok(Some(i));
        }
        self.read_on()?;
        // Once a stream is completely buffered, read its whole index, so that consumed bytes can be freed.
        if self.loader.storage.file_len().is_some() {
            self.drain()?;
        }
        Ok(self.unread.first())
    }

    /// Makes every tensor known.
    pub(crate) fn drain(&mut self) -> Result<()> {
        while self.read_on()? {}
        Ok(())
    }

    /// Makes every tensor known. Unread payloads of a stream are lost.
    pub(crate) fn drain_headers(&mut self) -> Result<()> {
        while self.next_in_order()?.is_some() {}
        Ok(())
    }

    /// Returns the next tensor of a stream. Unread payloads before it are lost.
    pub(crate) fn next_in_order(&mut self) -> Result<Option<usize>> {
        if let Some(pending) = self.pending.filter(|pending| !self.is_read(*pending)) {
            self.skip(pending);
        }
        Ok(self.read_on()?.then(|| self.loader.index.len() - 1))
    }

    /// Writes the payload of the [next tensor](Self::next_in_order) to `out`, in chunks. The inner error is an error of
    /// `out` or a wrong coordinate, and the stream can continue after it.
    pub(crate) fn write_next_to(&mut self, i: usize, out: &mut dyn io::Write) -> Result<io::Result<()>> {
        self.skip(i);
        let entry = self.loader.index.entry(i);
        if let Some(codec) = entry.codec() {
            self.pending = None;
            let payload = NextPayload::new(&mut *self.loader.storage, entry.range());
            let mut decoder = PayloadDecoder::new(payload, &entry.coded(codec));
            while let Some(piece) = decoder.piece()? {
                if let Err(error) = write_all(out, piece) {
                    return Ok(Err(error));
                }
            }
            return Ok(Ok(()));
        }
        let ([indices, count, elements], storage) = (entry.parts(), &mut *self.loader.storage);
        if let Err(error) = write_chunks(storage, indices, &mut CheckedIndices::new(entry.info(), out))? {
            return Ok(Err(error));
        }
        // It cannot be checked later, once the tensor has been passed.
        check_value_count(storage, &entry).map_err(|error| error.in_tensor(self.loader.index.label(i)))?;
        self.pending = None;
        match write_chunks(storage, count, out)? {
            Ok(()) if entry.has_bools() => write_chunks(storage, elements, &mut ElementWriter::new(entry, out)),
            Ok(()) => write_chunks(storage, elements, out),
            written => Ok(written),
        }
    }

    pub(crate) fn index(&self) -> &Index {
        &self.loader.index
    }

    pub(crate) fn name(&self, i: usize) -> &str {
        self.loader.index.name(i)
    }

    pub(crate) fn info(&self, i: usize) -> &TensorInfo {
        self.loader.index.entry(i).info()
    }

    pub(crate) fn offset(&self, i: usize) -> u64 {
        self.loader.index.entry(i).range().start
    }

    /// Adds the offset of a tensor's problem in the file, unless it is known.
    pub(crate) fn locate(&self, i: usize, error: Error) -> Error {
        self.loader.index.entry(i).locate(error)
    }

    /// Returns the unread tensor called `name`.
    pub(crate) fn find(&mut self, name: &str) -> Option<usize> {
        self.unread.find(&self.loader.index, name)
    }

    /// Returns the first unread tensor at or below `prefix`, or of all tensors without a prefix.
    pub(crate) fn first_under(&mut self, prefix: Option<&str>) -> Option<usize> {
        self.unread.first_under(&self.loader.index, prefix)
    }

    pub(crate) fn is_read(&self, i: usize) -> bool {
        self.unread.is_read(i)
    }

    pub(crate) fn unread_count(&self) -> usize {
        self.unread.count()
    }

    /// Returns names for a message.
    pub(crate) fn labels(&self) -> Labels {
        self.unread.labels(&self.loader.index)
    }

    /// Gives every tensor another name.
    pub(crate) fn rename(&mut self, names: &NamesByPosition) -> Result<()> {
        self.unread.renamed();
        self.loader.index.to_mut().rename(&mut names.iter(), names.bytes())
    }

    /// Skips a tensor.
    #[inline]
    pub(crate) fn skip(&mut self, i: usize) {
        self.unread.mark_read(&self.loader.index, i);
    }

    /// Reads a tensor of a file in memory in one step, if its header is as expected, its payload is stored as it is and
    /// any bytes are valid. This takes a third of the instructions of [`payload`](Self::payload) and its checks.
    // Inlined into the search for each field.
    #[inline(always)]
    pub(crate) fn read_plain(&mut self, i: usize, spec: &TensorSpec) -> Option<(&TensorInfo, &'de [u8])> {
        let ReaderStorage::Slice(file) = &self.loader.storage else { return None };
        let index = &*self.loader.index;
        let entry = index.entry(i);
        let bytes = file.get(&entry.range()).filter(|bytes| index.entries().takes_any(i, bytes.len()))?;
        // Bytes read are counted if a limit is set for them.
        let is_counted = self.count.is_some() || self.loader.limits.memory.is_some();
        if !entry.is_plain() || is_counted || !spec.takes_plain(entry.info()) {
            return None;
        }
        self.unread.mark_read(index, i);
        Some((entry.info(), bytes))
    }

    /// Reads a payload into memory, if the tensor has this shape, and the stored bytes are valid elements without
    /// conversion. Returns whether it was read.
    pub(crate) fn read_into(&mut self, i: usize, spec: &TensorSpec, shape: &[usize], bytes: &mut [u8]) -> Result<bool> {
        let entry = self.loader.index.entry(i);
        let (info, start) = (entry.info(), entry.start());
        let is_alike = info.layout == Layout::RowMajor && info.shape == *shape && spec.takes_plain(info);
        if self.loader.is_stream
            || !is_alike
            || !entry.is_plain()
            || !self.loader.index.entries().takes_any(i, bytes.len())
        {
            return Ok(false);
        }
        self.unread.mark_read(&self.loader.index, i);
        if let Err(error) = self.loader.storage.read_at(start, bytes) {
            return Err(self.broke_off(i, error));
        }
        if let Some(count) = &mut self.count {
            count.add(bytes.len() as u64)?;
        }
        Ok(true)
    }

    /// Reads the payload of a tensor: borrowed from a file in memory, otherwise into its own memory. A payload to be
    /// copied later is also read into its own memory if this takes less time.
    pub(crate) fn payload(&mut self, i: usize, copies: Copies) -> Result<Payload<'de>> {
        self.unread.mark_read(&self.loader.index, i);
        if self.pending == Some(i) {
            self.pending = None;
        }
        let payload = self.read_payload(i, copies);
        if self.loader.is_stream {
            self.release_read(i);
        }
        if let Some(count) = &mut self.count {
            let range = self.loader.index.entry(i).range();
            count.add(range.end - range.start)?;
        }
        match payload {
            Ok(payload) => Ok(payload),
            Err(error) => Err(self.broke_off(i, error)),
        }
    }

    /// Records a failure to read a payload.
    #[cold]
    fn broke_off(&mut self, i: usize, error: Error) -> Error {
        // A stream that failed within a payload has no next tensor.
        if matches!(error.category(), Category::File | Category::Io) && !self.loader.is_drained() {
            self.loader.index_reader = ReaderOfIndex::Ended(None);
            self.loader.is_broken = true;
        }
        // An unsupported tensor is not an error at any offset.
        if error.category() == Category::Call { error } else { error.at(self.offset(i)) }
    }

    /// Reads on to the next tensor. Returns whether there is one.
    ///
    /// There is none after an error, because it is not known where the next one begins.
    #[inline]
    fn read_on(&mut self) -> Result<bool> {
        if self.loader.is_drained() || self.left == Some(0) {
            return Ok(false);
        }
        let read = self.read_next()?;
        self.left = self.left.map(|left| left - usize::from(read));
        Ok(read)
    }

    fn read_next(&mut self) -> Result<bool> {
        let read = self.try_read_on();
        self.loader.is_broken |= read.is_err();
        if !self.loader.is_stream || !matches!(read, Ok(true)) {
            let ended = std::mem::replace(&mut self.loader.index_reader, ReaderOfIndex::Ended(None));
            if let ReaderOfIndex::Reading(reader) = ended {
                self.loader.index_reader = ReaderOfIndex::Ended(Some(reader));
            }
        }
        read
    }

    fn try_read_on(&mut self) -> Result<bool> {
        if !self.loader.is_stream {
            return self.read_all();
        }
        if let Some(pending) = self.pending.take() {
            self.pass(pending).map_err(|error| error.in_tensor(self.loader.index.label(pending)))?;
        }
        let i = self.loader.index.len();
        while self.loader.index.pushed() == i {
            if !self.loader.read_index()? {
                self.loader.index.names().check_positions(self.loader.index.len())?;
                return Ok(false);
            }
        }
        // The list of names is the last tensor. An earlier look-alike is an ordinary tensor.
        if self.loader.index.pushed() == i + 1 && self.loader.may_be_names(i)? {
            self.loader.storage.keep(self.loader.index.entry(i).range())?;
            while self.loader.index.pushed() == i + 1 {
                if !self.loader.read_index()? {
                    self.loader.take_names(i)?;
                    self.unread.renamed();
                    return Ok(false);
                }
            }
        }
        self.pending = Some(i);
        self.unread.grow(i + 1);
        self.loader.index.to_mut().make_known(i + 1);
        self.loader.check_names().map(|()| true)
    }

    /// Makes every tensor of a file known, unless it is a stream. Returns whether there is one.
    fn read_all(&mut self) -> Result<bool> {
        while self.loader.read_index()? {}
        if let Some(last) = self.loader.index.pushed().checked_sub(1)
            && self.loader.may_be_names(last)?
        {
            self.loader.take_names(last)?;
            self.unread.renamed();
        }
        self.loader.index.to_mut().complete()?;
        self.unread.grow(self.loader.index.len());
        self.loader.check_names().map(|()| self.loader.index.len() > 0)
    }

    /// Passes a tensor of a stream with an unread payload. It is kept, unless it was skipped.
    fn pass(&mut self, i: usize) -> Result<()> {
        let entry = self.loader.index.entry(i);
        if !self.unread.is_read(i) {
            self.loader.storage.keep(entry.range())?;
        }
        match self.loader.storage.file_len() {
            // The counts of all tensors were checked with their headers.
            Some(_) => Ok(()),
            None => check_value_count(&mut *self.loader.storage, &entry),
        }
    }

    fn read_payload(&mut self, i: usize, copies: Copies) -> Result<Payload<'de>> {
        let entry = self.loader.index.entry(i);
        let is_lent = copies != Copies::All
            && !entry.has_codec()
            && self.loader.storage.borrow(entry.start()..entry.start()).is_some();
        if !is_lent || copies != Copies::None {
            let len = self.loader.storage.file_len();
            // A stream has no length. Each payload is checked against the limit instead.
            let most =
                len.map_or(self.loader.limits.memory.unwrap_or(u64::MAX), |len| self.loader.limits.most_read(len));
            self.memory.bytes = self.memory.bytes.saturating_add(entry.payload_bytes());
            if self.memory.bytes > most || is_lent && self.memory.bytes > len.unwrap_or(u64::MAX) {
                self.memory.check(&entry, is_lent, most, &self.loader.index, &self.unread)?;
            }
        }
        if let Some(codec) = entry.codec() {
            let len = usize::try_from(entry.payload_bytes()).unwrap_or(usize::MAX);
            check_stored(&mut *self.loader.storage, &entry)?;
            let mut buffer = Buffer::with_capacity(entry.info().unit_bytes(), len.min(FIRST));
            let reader = RangeReader::new(&mut *self.loader.storage, entry.range());
            let mut decoder = PayloadDecoder::new(reader, &entry.coded(codec));
            while let Some(piece) = decoder.piece()? {
                buffer.append(piece, len)?;
            }
            return Ok(Payload::Owned(buffer));
        }
        let mut payload = read_plain(&mut *self.loader.storage, &entry, copies == Copies::All)?;
        if entry.has_checksum() && copies != Copies::None {
            check_sum(&mut *self.loader.storage, &entry, payload.bytes())?;
        }
        if let Payload::Owned(buffer) = &mut payload
            && entry.takes_any_bool()
        {
            entry.normalize(buffer, 0)?;
        }
        Ok(payload)
    }

    /// Frees held bytes of a stream that are no longer needed.
    fn release_read(&mut self, i: usize) {
        let start = self.offset(i);
        if self.loader.is_in_file_order || self.loader.is_drained() && self.loader.index.is_in_file_order() {
            // The next tensor may be in the same place.
            let next = self.unread.first().map_or(start, |next| self.loader.index.entry(next).needed_from());
            self.loader.storage.release(next);
        }
    }
}

/// The memory of payloads read so far, bounded by [`Limits::memory`].
#[derive(Default)]
struct ReadMemory {
    bytes: u64,
    /// The ranges of payloads copied once for several tensors. Recorded only once payloads have more bytes than the
    /// file, which takes sharing.
    shared: Option<HashSet<(u64, u64)>>,
}

impl ReadMemory {
    /// Refuses a counted payload beyond the limit. A payload that `is_shared` is copied once for all its tensors.
    #[cold]
    fn check(&mut self, entry: &Entry<'_>, is_shared: bool, most: u64, index: &Index, unread: &Unread) -> Result<()> {
        let range = |entry: &Entry<'_>| (entry.range().start, entry.range().end);
        if is_shared {
            let shared = self.shared.get_or_insert_with(|| {
                // The current tensor is among the read ones.
                let mut read: Vec<_> = (0..index.len()).filter(|i| unread.is_read(*i)).collect();
                let this = read.iter().position(|i| range(&index.entry(*i)) == range(entry));
                this.into_iter().for_each(|i| _ = read.swap_remove(i));
                read.into_iter().map(|i| range(&index.entry(i))).collect()
            });
            if !shared.insert(range(entry)) {
                self.bytes -= entry.payload_bytes();
            }
        }
        if self.bytes <= most {
            return Ok(());
        }
        Err(ErrorKind::Limit { what: MEMORY, found: self.bytes, limit: most }.into())
    }
}

impl fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("index", &self.loader.index).finish_non_exhaustive()
    }
}
