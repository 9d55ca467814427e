use std::borrow::Cow;
use std::ops::{Deref, DerefMut};
use std::sync::LazyLock;
use std::{fmt, io};

use hashbrown::HashSet;
use indexmap::IndexMap;

use super::payload::{
    CheckedIndices, ElementWriter, check_sum, check_value_count, read_plain, read_stream, write_chunks,
};
#[cfg(feature = "npy")]
use super::payload::{FIRST, check_stored};
use super::single::{Message, ReadMessage};
use super::small::ReadSmall;
use super::{Entry, Index, Labels, Unread};
#[cfg(feature = "npy")]
use super::{PayloadDecoder, RangeReader};
use crate::error::{Category, Error, ErrorKind, MEMORY, PAYLOADS, Result};
use crate::limits::Limits;
use crate::model::{
    Copies, FileMetadata, FilePart, FormatSpec, NamesByPosition, Payload, TensorSpec, embedded_names, is_index,
};
use crate::storage::{ProgressCount, ReadAt, Slice, Storage};
use crate::tensor::{Buffer, Dtype, Layout, TensorInfo};

/// Reads the index of a file, wherever the bytes come from.
pub trait IndexReader {
    /// Adds the next tensor to the index, or all those that the same part of the file describes. Returns `false` at the end of
    /// the file.
    ///
    /// In a stream, the payloads of all tensors are read, or passed over, before this is called again.
    ///
    /// # Errors
    ///
    /// If the file is malformed, passes a limit or cannot be read.
    fn read_on(&mut self, file: &mut dyn ReadAt, limits: &Limits, index: &mut Index) -> Result<bool>;

    /// Returns the number of tensors, if [`read_one`](Self::read_one) can find each of them. It is not asked for in a stream.
    ///
    /// # Errors
    ///
    /// As [`read_on`](Self::read_on).
    fn count(&mut self, _file: &mut dyn ReadAt, _limits: &Limits) -> Result<Option<usize>> {
        Ok(None)
    }

    /// Adds the tensor at a position to the index, without reading the headers of the others. The position is less than the
    /// [`count`](Self::count), which was asked for before.
    ///
    /// # Errors
    ///
    /// As [`read_on`](Self::read_on).
    fn read_one(&mut self, _at: usize, _file: &mut dyn ReadAt, _limits: &Limits, _index: &mut Index) -> Result<()> {
        Ok(())
    }

    /// Returns the metadata, if reading the index to its end has read it too. Otherwise the format reads it by itself.
    fn metadata(&mut self) -> Option<FileMetadata> {
        None
    }

    /// Returns the entries of [`metadata`](Self::metadata) for a value that is read, after the first tensor was returned. In a
    /// stream, this is the only way to them.
    fn metadata_entries(&mut self) -> Option<IndexMap<String, String>> {
        self.metadata().map(|metadata| metadata.entries)
    }

    /// Returns which part of a model the file is, if it states that it is one of several. The index was read before.
    fn part(&self) -> Option<FilePart> {
        None
    }

    /// Returns whether tensors come in the order of their payloads, so that a stream need not hold what was read.
    fn is_in_file_order(&self) -> bool {
        false
    }

    /// Returns whether two tensors may have the same name, as in a stream in which nothing is looked up by name. Otherwise
    /// that is an error.
    fn names_may_repeat(&self) -> bool {
        false
    }
}

/// The tensors of a file of any format in any storage.
///
/// Tensors of a stream become known one after the other. Tensors whose payload was read or skipped are *read*; searches
/// find only the others.
pub(crate) struct Reader<'de> {
    storage: ReaderStorage<'de>,
    index_reader: ReaderOfIndex,
    is_in_file_order: bool,
    embeds_names: bool,
    /// Tensors are asked for by name.
    needs_unique_names: bool,
    limits: Limits,
    index: Cow<'de, Index>,
    unread: Unread,
    /// The tensor whose payload comes next in a stream.
    pending: Option<usize>,
    /// The tensors of a stream become known one after the other.
    is_stream: bool,
    /// The length of all payloads so far, in bytes.
    payload_bytes: u64,
    /// The memory that payloads were read into.
    memory: ReadMemory,
    /// The number of messages that were passed and are not left out of the index yet.
    passed: usize,
    /// The offset at which the last of them ends.
    passed_to: u64,
    /// The bytes of payloads that were read, if a listener counts them.
    count: Option<ProgressCount<'de>>,
}

/// The index before reading begins. An index is large, and a file of one tensor may need none.
static NO_INDEX: LazyLock<Index> = LazyLock::new(Index::default);

/// The [`IndexReader`] of a [`Reader`].
enum ReaderOfIndex {
    /// The index was not asked for yet.
    Unread(fn() -> Box<dyn IndexReader>),
    Reading(Box<dyn IndexReader>),
    /// It came to the end of the index, and may have the metadata. `None` if a stream broke off, or if there was none.
    Ended(Option<Box<dyn IndexReader>>),
}

/// The storage of a [`Reader`].
pub(crate) enum ReaderStorage<'de> {
    /// A file in memory, which needs no allocation.
    Slice(Slice<'de>),
    Boxed(Box<dyn Storage<'de> + 'de>),
}

impl<'de> Deref for ReaderStorage<'de> {
    type Target = dyn Storage<'de> + 'de;

    #[inline]
    fn deref(&self) -> &Self::Target {
        match self {
            Self::Slice(slice) => slice,
            Self::Boxed(storage) => &**storage,
        }
    }
}

impl DerefMut for ReaderStorage<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Self::Slice(slice) => slice,
            Self::Boxed(storage) => &mut **storage,
        }
    }
}

/// A format's function that reads metadata.
pub(crate) type ReadMetadata = fn(&mut dyn ReadAt, &Limits) -> Result<FileMetadata>;

/// How the files of a format are read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    pub(crate) spec: FormatSpec,
    pub(crate) index_reader: fn() -> Box<dyn IndexReader>,
    pub(crate) metadata: ReadMetadata,
    /// Finds the tensors of a small file, if the format has a way to.
    pub(crate) small: Option<ReadSmall>,
}

impl<'de> Reader<'de> {
    #[inline(always)]
    pub(crate) fn new(storage: ReaderStorage<'de>, reading: &Reading, limits: Limits) -> Self {
        let is_stream = storage.file_len().is_none();
        Self {
            storage,
            index_reader: ReaderOfIndex::Unread(reading.index_reader),
            is_in_file_order: false,
            embeds_names: reading.spec.embeds_names,
            needs_unique_names: false,
            limits,
            index: Cow::Borrowed(&NO_INDEX),
            unread: Unread::default(),
            pending: None,
            is_stream,
            payload_bytes: 0,
            memory: ReadMemory::default(),
            passed: 0,
            passed_to: 0,
            count: None,
        }
    }

    /// A reader of a file whose index is known.
    pub(crate) fn with_index(storage: ReaderStorage<'de>, index: Cow<'de, Index>, limits: Limits) -> Self {
        Self {
            storage,
            index_reader: ReaderOfIndex::Ended(None),
            is_in_file_order: false,
            embeds_names: false,
            needs_unique_names: false,
            limits,
            unread: Unread::of(&index),
            index,
            pending: None,
            is_stream: false,
            payload_bytes: 0,
            memory: ReadMemory::default(),
            passed: 0,
            passed_to: 0,
            count: None,
        }
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
        let mut index = self.index.into_owned();
        index.shrink();
        let (metadata, part) = match self.index_reader {
            ReaderOfIndex::Ended(Some(mut reader)) => (reader.metadata(), reader.part()),
            _ => (None, None),
        };
        Ok((index, metadata, part))
    }

    /// Returns an index of only the tensor with a name, or at a position. `None` if there is none, or if the format has to read
    /// the headers of others to find it.
    pub(crate) fn into_index_of(mut self, name: &str) -> Result<Option<Index>> {
        let ReaderOfIndex::Unread(index_reader) = self.index_reader else { return Ok(None) };
        self.begin(index_reader());
        let ReaderOfIndex::Reading(index_reader) = &mut self.index_reader else { return Ok(None) };
        let Some(count) = index_reader.count(&mut *self.storage, &self.limits)? else { return Ok(None) };
        let Some(last) = count.checked_sub(1) else { return Ok(None) };
        let has_names = self.read_one(last)? && self.may_be_names(0)?;
        let at = if has_names {
            self.position_in_names(name, last)?
        } else {
            let number = name.strip_prefix('#').or_else(|| is_index(name).then_some(name));
            number.and_then(|number| number.parse().ok()).filter(|at| *at < count)
        };
        match at {
            Some(at) if self.read_one(at)? => {}
            _ => return Ok(None),
        }
        let mut index = self.index.into_owned();
        if has_names {
            index.rename(&mut std::iter::once(name), name.len())?;
        }
        Ok(Some(index))
    }

    /// Returns the position of a name in the list of `count` names, which is the only tensor known. `None` if it is not there
    /// once.
    fn position_in_names(&mut self, name: &str, count: usize) -> Result<Option<usize>> {
        let mut memory = Vec::new();
        let bytes = embedded_names(&mut *self.storage, &self.index.entry(0), &mut memory)?;
        let mut same =
            embedded_names::parse(bytes, count)?.enumerate().filter(|(_, other)| *other == name).map(|(at, _)| at);
        Ok(same.next().filter(|_| same.next().is_none()))
    }

    /// Makes only the tensor at a position known. Returns `false` if the format does not add it.
    fn read_one(&mut self, at: usize) -> Result<bool> {
        let ReaderOfIndex::Reading(index_reader) = &mut self.index_reader else { return Ok(false) };
        let mut index = Index::default();
        index.left_out.tensors = at;
        index_reader.read_one(at, &mut *self.storage, &self.limits, &mut index)?;
        index.complete()?;
        self.index = Cow::Owned(index);
        self.check_pushed(0)?;
        Ok(self.index.len() == 1)
    }

    /// Returns the entries of metadata: as the index has them, or else those that `read` reads.
    pub(crate) fn metadata_entries(&mut self, read: Option<ReadMetadata>) -> Result<IndexMap<String, String>> {
        // In a stream, the header is read with the first tensor.
        if self.index.len() == 0 {
            self.peek()?;
        }
        let known = match &mut self.index_reader {
            ReaderOfIndex::Reading(reader) | ReaderOfIndex::Ended(Some(reader)) => reader.metadata_entries(),
            _ => None,
        };
        match (known, read) {
            (Some(known), _) => Ok(known),
            (None, Some(read)) => read(&mut *self.storage, &self.limits).map(|metadata| metadata.entries),
            (None, None) => Ok(IndexMap::new()),
        }
    }

    /// Treats a list of names as the tensor that it is.
    pub(crate) fn without_embedded_names(mut self) -> Self {
        self.embeds_names = false;
        self
    }

    /// Refuses tensors of one name, those known so far and later ones.
    pub(crate) fn require_unique_names(&mut self) -> Result<()> {
        self.needs_unique_names = true;
        self.index.check_unique()
    }

    /// Skips the tensors known so far and drops them. Later ones are numbered on.
    pub(crate) fn clear(&mut self) {
        self.pending = None;
        self.index.to_mut().clear();
        self.unread = Unread::default();
    }

    /// Reads the header of the next tensor of a stream without an index. Returns `false` if it is not like most, if another
    /// tensor is known, and at the end. It remains the next until its [payload](Self::message_payload) is read.
    pub(crate) fn message(&mut self, read: ReadMessage, header_bytes: usize, message: &mut Message) -> Result<bool> {
        if self.index.pushed() > 0 || self.is_drained() {
            return Ok(false);
        }
        let offset = self.next_offset();
        let at_hand = match self.storage.ready(offset, header_bytes) {
            Ok(at_hand) if !at_hand.is_empty() => at_hand,
            ended => {
                let error = ended.err();
                self.index_reader = ReaderOfIndex::Ended(None);
                return error.map_or(Ok(false), |error| Err(error.in_tensor(self.last_label())));
            }
        };
        Ok(read(at_hand, &self.limits, message).is_some() && message.needs_no_index(&self.limits))
    }

    /// Reads the payload of the [message](Self::message) that comes next.
    // Each call would copy the payload's struct once more.
    #[inline]
    pub(crate) fn message_payload(&mut self, message: &Message) -> Result<Buffer> {
        let start = self.next_offset() + message.header_bytes as u64;
        let end = start + message.payload_bytes as u64;
        let payload = read_stream(&mut *self.storage, start..end, message.info.unit_bytes(), message.payload_bytes);
        self.passed_to = end + message.padding as u64;
        self.passed += 1;
        if payload.is_err() {
            self.index_reader = ReaderOfIndex::Ended(None);
        }
        payload
    }

    /// Returns the position of the last tensor of a stream that was passed, for messages.
    pub(crate) fn last_label(&self) -> String {
        format!("#{}", (self.index.count() + self.passed).saturating_sub(1))
    }

    /// Returns the offset of the next tensor of a stream, as far as it is known.
    pub(crate) fn next_offset(&self) -> u64 {
        self.index.left_out.next_offset.max(self.passed_to)
    }

    /// Returns the next tensor in file order, reading on in a stream.
    pub(crate) fn peek(&mut self) -> Result<Option<usize>> {
        if let Some(at) = self.unread.first() {
            return Ok(Some(at));
        }
        self.read_on()?;
        // If all of a stream is in reach now, read all of its index, so that what was read can be freed.
        if self.storage.file_len().is_some() {
            self.drain()?;
        }
        Ok(self.unread.first())
    }

    /// Makes every tensor known.
    pub(crate) fn drain(&mut self) -> Result<()> {
        while self.read_on()? {}
        Ok(())
    }

    /// Makes every tensor known. The payloads that were not read are lost if they come from a stream.
    pub(crate) fn drain_headers(&mut self) -> Result<()> {
        while self.next_in_order()?.is_some() {}
        Ok(())
    }

    /// Returns the next tensor of a stream. Payloads before it that were not read are lost.
    pub(crate) fn next_in_order(&mut self) -> Result<Option<usize>> {
        if let Some(pending) = self.pending.filter(|pending| !self.is_read(*pending)) {
            self.skip(pending);
        }
        Ok(self.read_on()?.then(|| self.index.len() - 1))
    }

    /// Writes the payload of the [next tensor](Self::next_in_order) to `out`, in chunks. The inner error is that of `out` or
    /// of wrong coordinates, after which the stream goes on.
    pub(crate) fn write_next_to(&mut self, at: usize, out: &mut dyn io::Write) -> Result<io::Result<()>> {
        self.skip(at);
        let entry = self.index.entry(at);
        let ([indices, count, elements], storage) = (entry.parts(), &mut *self.storage);
        if let Err(error) = write_chunks(storage, indices, &mut CheckedIndices::new(entry.info(), out))? {
            return Ok(Err(error));
        }
        // It cannot be checked any more when the tensor is left behind.
        check_value_count(storage, &entry).map_err(|error| error.in_tensor(self.index.label(at)))?;
        self.pending = None;
        match write_chunks(storage, count, out)? {
            Ok(()) if entry.has_bools() => write_chunks(storage, elements, &mut ElementWriter::new(entry, out)),
            Ok(()) => write_chunks(storage, elements, out),
            written => Ok(written),
        }
    }

    /// Returns whether every tensor is known.
    pub(crate) fn is_drained(&self) -> bool {
        matches!(self.index_reader, ReaderOfIndex::Ended(_))
    }

    pub(crate) fn index(&self) -> &Index {
        &self.index
    }

    pub(crate) fn name(&self, at: usize) -> &str {
        self.index.name(at)
    }

    pub(crate) fn info(&self, at: usize) -> &TensorInfo {
        self.index.entry(at).info()
    }

    pub(crate) fn offset(&self, at: usize) -> u64 {
        self.index.entry(at).range().start
    }

    /// Adds the offset in the file of what is wrong with a tensor, unless it is known.
    pub(crate) fn locate(&self, at: usize, error: Error) -> Error {
        self.index.entry(at).locate(error)
    }

    /// Returns the unread tensor of that name.
    pub(crate) fn find(&mut self, name: &str) -> Option<usize> {
        self.unread.find(&self.index, name)
    }

    /// Returns the first unread tensor that is `prefix` or is below it; of all tensors if there is no prefix.
    pub(crate) fn first_under(&mut self, prefix: Option<&str>) -> Option<usize> {
        self.unread.first_under(&self.index, prefix)
    }

    pub(crate) fn is_read(&self, at: usize) -> bool {
        self.unread.is_read(at)
    }

    pub(crate) fn unread_count(&self) -> usize {
        self.unread.count()
    }

    /// Returns names for a message.
    pub(crate) fn labels(&self) -> Labels {
        self.unread.labels(&self.index)
    }

    /// Gives every tensor another name.
    pub(crate) fn rename(&mut self, names: &NamesByPosition) -> Result<()> {
        self.unread.renamed();
        self.index.to_mut().rename(&mut names.iter(), names.bytes())
    }

    /// Skips a tensor.
    #[inline]
    pub(crate) fn skip(&mut self, at: usize) {
        self.unread.mark_read(&self.index, at);
    }

    /// Reads a tensor of a file in memory in one step, if its header is as expected, its payload is stored as it is and any
    /// bytes are valid. This takes a third of the instructions of [`payload`](Self::payload) and its checks.
    // A part of what is done for each tensor.
    #[inline(always)]
    pub(crate) fn read_plain(&mut self, at: usize, spec: &TensorSpec) -> Option<(&TensorInfo, &'de [u8])> {
        let ReaderStorage::Slice(file) = &self.storage else { return None };
        let index = &*self.index;
        let entry = index.entry(at);
        let bytes = file.get(&entry.range()).filter(|bytes| index.entries().takes_any(at, bytes.len()))?;
        // What is read is counted if it has a limit of its own.
        let is_counted = self.count.is_some() || self.limits.memory.is_some();
        if !entry.is_plain() || is_counted || !spec.takes_plain(entry.info()) {
            return None;
        }
        self.unread.mark_read(index, at);
        Some((entry.info(), bytes))
    }

    /// Reads a payload into memory, if the tensor has the shape, and its payload is stored as these bytes are, of which any are
    /// elements. Returns whether it was read.
    pub(crate) fn read_into(
        &mut self,
        at: usize,
        spec: &TensorSpec,
        shape: &[usize],
        bytes: &mut [u8],
    ) -> Result<bool> {
        let entry = self.index.entry(at);
        let (info, start) = (entry.info(), entry.start());
        let is_alike = info.layout == Layout::RowMajor && info.shape == *shape && spec.takes_plain(info);
        if self.is_stream || !is_alike || !entry.is_plain() || !self.index.entries().takes_any(at, bytes.len()) {
            return Ok(false);
        }
        self.unread.mark_read(&self.index, at);
        if let Err(error) = self.storage.read_at(start, bytes) {
            return Err(self.broke_off(at, error));
        }
        if let Some(count) = &mut self.count {
            count.add(bytes.len() as u64)?;
        }
        Ok(true)
    }

    /// Reads the payload of a tensor: borrowed if it is in memory, else in memory of its own. A payload that will be copied is
    /// also read into memory of its own if that takes less time.
    pub(crate) fn payload(&mut self, at: usize, copies: Copies) -> Result<Payload<'de>> {
        self.unread.mark_read(&self.index, at);
        if self.pending == Some(at) {
            self.pending = None;
        }
        let payload = self.read_payload(at, copies);
        if self.is_stream {
            self.release_read(at);
        }
        if let Some(count) = &mut self.count {
            let range = self.index.entry(at).range();
            count.add(range.end - range.start)?;
        }
        match payload {
            Ok(payload) => Ok(payload),
            Err(error) => Err(self.broke_off(at, error)),
        }
    }

    /// Notes that a payload could not be read.
    #[cold]
    fn broke_off(&mut self, at: usize, error: Error) -> Error {
        // A stream that broke off within a payload has no next tensor.
        if matches!(error.category(), Category::File | Category::Io) && !self.is_drained() {
            self.index_reader = ReaderOfIndex::Ended(None);
        }
        // A tensor that cannot be read by us is not wrong at any offset.
        if error.category() == Category::Call { error } else { error.at(self.offset(at)) }
    }

    /// Reads on to the next tensor. Returns whether there is one.
    ///
    /// There is none after an error, because it is not known where the next one begins.
    #[inline]
    fn read_on(&mut self) -> Result<bool> {
        if self.is_drained() { Ok(false) } else { self.read_next() }
    }

    fn read_next(&mut self) -> Result<bool> {
        let read = self.try_read_on();
        if !self.is_stream || !matches!(read, Ok(true)) {
            let ended = std::mem::replace(&mut self.index_reader, ReaderOfIndex::Ended(None));
            if let ReaderOfIndex::Reading(reader) = ended {
                self.index_reader = ReaderOfIndex::Ended(Some(reader));
            }
        }
        read
    }

    fn try_read_on(&mut self) -> Result<bool> {
        if !self.is_stream {
            return self.read_all();
        }
        if let Some(pending) = self.pending.take() {
            self.pass(pending).map_err(|error| error.in_tensor(self.index.label(pending)))?;
        }
        let at = self.index.len();
        while self.index.pushed() == at {
            if !self.read_index()? {
                self.index.names().check_positions(self.index.len())?;
                return Ok(false);
            }
        }
        // The list of names is the last tensor. An earlier one that begins in the same way is an ordinary tensor.
        if self.index.pushed() == at + 1 && self.may_be_names(at)? {
            self.storage.keep(self.index.entry(at).range())?;
            while self.index.pushed() == at + 1 {
                if !self.read_index()? {
                    self.take_names(at)?;
                    return Ok(false);
                }
            }
        }
        self.pending = Some(at);
        self.unread.grow(at + 1);
        self.index.to_mut().make_known(at + 1);
        self.check_names().map(|()| true)
    }

    /// Makes every tensor of a file known that is not a stream. Returns whether there is one.
    fn read_all(&mut self) -> Result<bool> {
        while self.read_index()? {}
        if let Some(last) = self.index.pushed().checked_sub(1)
            && self.may_be_names(last)?
        {
            self.take_names(last)?;
        }
        self.index.to_mut().complete()?;
        self.unread.grow(self.index.len());
        self.check_names().map(|()| self.index.len() > 0)
    }

    /// Leaves a tensor of a stream behind whose payload was not read. It is kept, unless it was skipped.
    fn pass(&mut self, at: usize) -> Result<()> {
        let entry = self.index.entry(at);
        if !self.unread.is_read(at) {
            self.storage.keep(entry.range())?;
        }
        match self.storage.file_len() {
            // The counts of all tensors were checked with their headers.
            Some(_) => Ok(()),
            None => check_value_count(&mut *self.storage, &entry),
        }
    }

    fn check_names(&self) -> Result<()> {
        if self.needs_unique_names { self.index.check_unique() } else { Ok(()) }
    }

    fn begin(&mut self, index_reader: Box<dyn IndexReader>) {
        self.is_in_file_order = index_reader.is_in_file_order();
        let mut index = Index::default();
        if index_reader.names_may_repeat() {
            index.let_names_repeat();
        }
        self.index = Cow::Owned(index);
        self.index_reader = ReaderOfIndex::Reading(index_reader);
    }

    /// Reads on in the index, and checks the tensors there. Returns `false` at the end.
    fn read_index(&mut self) -> Result<bool> {
        if let ReaderOfIndex::Unread(index_reader) = self.index_reader {
            self.begin(index_reader());
        }
        let ReaderOfIndex::Reading(index_reader) = &mut self.index_reader else { return Ok(false) };
        let index = self.index.to_mut();
        if self.passed > 0 {
            index.left_out.tensors += std::mem::take(&mut self.passed);
            index.left_out.next_offset = self.passed_to;
        }
        let first = index.pushed();
        if !index_reader.read_on(&mut *self.storage, &self.limits, index)? {
            return Ok(false);
        }
        index.compare_names().map_err(|at| index.duplicate(at))?;
        self.check_pushed(first).map(|()| true)
    }

    /// Checks the tensors from `first` on.
    fn check_pushed(&mut self, first: usize) -> Result<()> {
        let (index, len) = (&self.index, self.storage.file_len());
        index.check_ends(first, len)?;
        self.payload_bytes = check_limits(index, first, len, self.payload_bytes, &self.limits)?;
        if index.entries().has_coo() {
            for at in first..index.pushed() {
                let checked = check_counts(&mut *self.storage, &index.entry(at));
                checked.map_err(|error| error.in_tensor(index.label(at)))?;
            }
        }
        Ok(())
    }

    /// Returns whether a tensor begins like the list of the names of all tensors before it.
    fn may_be_names(&mut self, at: usize) -> Result<bool> {
        if !self.embeds_names || self.index.has_names() {
            return Ok(false);
        }
        let entry = self.index.entry(at);
        let (range, info) = (entry.range(), entry.info());
        let is_list_of_bytes = info.dtype == Dtype::U8 && info.shape.rank() == 1 && info.layout == Layout::RowMajor;
        let is_long_enough = range.end - range.start >= embedded_names::MAGIC.len() as u64;
        if !is_list_of_bytes || !is_long_enough {
            return Ok(false);
        }
        let mut magic = [0; embedded_names::MAGIC.len()];
        match self.storage.peek_at(range.start, &mut magic) {
            Ok(()) => Ok(magic == embedded_names::MAGIC),
            // Reading the payload gives the same error, with the name of the tensor.
            Err(error) if matches!(error.kind(), ErrorKind::Truncated { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Gives all tensors the names in the last one, which is none any more.
    fn take_names(&mut self, at: usize) -> Result<()> {
        let (start, mut memory) = (self.offset(at), Vec::new());
        let bytes = embedded_names(&mut *self.storage, &self.index.entry(at), &mut memory)?;
        self.unread.renamed();
        let index = self.index.to_mut();
        index.pop();
        let embedded = embedded_names::parse(bytes, at).and_then(|mut names| index.embed(&mut names, bytes.len()));
        embedded.map_err(|error| error.at(start))
    }

    fn read_payload(&mut self, at: usize, copies: Copies) -> Result<Payload<'de>> {
        let entry = self.index.entry(at);
        let is_lent =
            copies != Copies::All && !entry.has_codec() && self.storage.borrow(entry.start()..entry.start()).is_some();
        if !is_lent || copies != Copies::None {
            let len = self.storage.file_len();
            // A stream has no length. Its limit is that of each payload.
            let most = len.map_or(self.limits.memory.unwrap_or(u64::MAX), |len| self.limits.most_read(len));
            self.memory.bytes = self.memory.bytes.saturating_add(entry.payload_bytes());
            if self.memory.bytes > most || is_lent && self.memory.bytes > len.unwrap_or(u64::MAX) {
                self.memory.check(&entry, is_lent, most, &self.index, &self.unread)?;
            }
        }
        #[cfg(feature = "npy")]
        if let Some(codec) = entry.codec() {
            let len = usize::try_from(entry.payload_bytes()).unwrap_or(usize::MAX);
            check_stored(&mut *self.storage, &entry)?;
            let mut buffer = Buffer::with_capacity(entry.info().unit_bytes(), len.min(FIRST));
            let reader = RangeReader::new(&mut *self.storage, entry.range());
            let mut decoder = PayloadDecoder::new(reader, &entry.coded(codec));
            while let Some(piece) = decoder.piece()? {
                buffer.append(piece, len)?;
            }
            return Ok(Payload::Owned(buffer));
        }
        let mut payload = read_plain(&mut *self.storage, &entry, copies == Copies::All)?;
        if entry.has_checksum() && copies != Copies::None {
            check_sum(&mut *self.storage, &entry, payload.bytes())?;
        }
        if let Payload::Owned(buffer) = &mut payload
            && entry.takes_any_bool()
        {
            entry.normalize(buffer, 0)?;
        }
        Ok(payload)
    }

    /// Frees what is held of a stream and not needed any more.
    fn release_read(&mut self, at: usize) {
        let start = self.offset(at);
        if self.is_in_file_order || self.is_drained() && self.index.is_in_file_order() {
            // The next tensor may be in the same place.
            let next = self.unread.first().map_or(start, |next| self.index.entry(next).needed_from());
            self.storage.release(next);
        }
    }
}

/// The memory for the payloads that were read, which [`Limits::memory`] bounds.
#[derive(Default)]
struct ReadMemory {
    bytes: u64,
    /// The ranges of payloads that are copied once for all tensors that have them. They are only noted once payloads have more
    /// bytes than the file, which those that share nothing do not.
    shared: Option<HashSet<(u64, u64)>>,
}

impl ReadMemory {
    /// Refuses a payload that was counted and exceeds the limit. One that `is_shared` is copied once for all tensors that have
    /// it.
    #[cold]
    fn check(&mut self, entry: &Entry<'_>, is_shared: bool, most: u64, index: &Index, unread: &Unread) -> Result<()> {
        let range = |entry: &Entry<'_>| (entry.range().start, entry.range().end);
        if is_shared {
            let shared = self.shared.get_or_insert_with(|| {
                // This one is among those that were read.
                let mut read: Vec<_> = (0..index.len()).filter(|at| unread.is_read(*at)).collect();
                let this = read.iter().position(|at| range(&index.entry(*at)) == range(entry));
                this.into_iter().for_each(|at| _ = read.swap_remove(at));
                read.into_iter().map(|at| range(&index.entry(at))).collect()
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

/// Returns the payload of the tensor that is the list of names.
fn embedded_names<'a>(file: &'a mut dyn ReadAt, entry: &Entry<'_>, memory: &'a mut Vec<u8>) -> Result<&'a [u8]> {
    let (range, found) = (entry.range(), entry.payload_bytes());
    let start = range.start;
    if found > embedded_names::LONGEST {
        let what = "the length of the list of names";
        return Err(Error::new(ErrorKind::Limit { what, found, limit: embedded_names::LONGEST }).at(start));
    }
    file.bytes(range, memory).map_err(|error| error.at(start))
}

/// Checks that the tensors of an index from `first` on are within the limits of a file of `len` bytes, or of a stream. Returns
/// the length of all payloads, of which those before have `payload_bytes`.
fn check_limits(index: &Index, first: usize, len: Option<u64>, mut payload_bytes: u64, limits: &Limits) -> Result<u64> {
    let limit =
        |what, found, limit, at| Err(Error::new(ErrorKind::Limit { what, found, limit }).in_tensor(index.label(at)));
    let end = usize::try_from(limits.tensors).unwrap_or(usize::MAX).min(index.pushed());
    // Many small entries can name one large record. What a compressed member has is counted when it is read. The memory for
    // tensors is taken as they are read, that for the headers was taken now.
    let most = len.map(|len| limits.most_shared(len));
    for at in first..end {
        let entry = index.entry(at);
        let payload = if entry.is_compressed() { entry.range().end - entry.start() } else { entry.payload_bytes() };
        payload_bytes = payload_bytes.saturating_add(payload);
        match most {
            Some(most) if payload_bytes > most => return limit(PAYLOADS, payload_bytes, most, at),
            None if payload > limits.payload => return limit("payload in bytes", payload, limits.payload, at),
            _ => {}
        }
    }
    let most = len.map(|len| len.saturating_add(limits.headers()));
    if let Some(most) = most.filter(|most| index.entries().bytes() as u64 > *most) {
        return limit("memory for the heads in bytes", index.entries().bytes() as u64, most, end.saturating_sub(1));
    }
    match end < index.pushed() {
        true => limit("number of tensors", end as u64 + 1, limits.tensors, end),
        false => Ok(payload_bytes),
    }
}

/// Checks the number of values of a sparse tensor. In a stream, the number in the payload is checked as the tensor is read or
/// passed.
fn check_counts(file: &mut dyn ReadAt, entry: &Entry<'_>) -> Result<()> {
    let Layout::Coo { entries } = entry.info().layout else { return Ok(()) };
    if entry.has_codec() {
        return Ok(());
    }
    let at = entry.value_count_offset();
    let shape = &entry.info().shape;
    if entries > 0 && shape.dims().contains(&0) {
        let expected = format!("0, as the shape {shape} has no elements");
        return Err(
            Error::new(ErrorKind::BadNumber { what: "number of values", found: entries as i128, expected }).at(at)
        );
    }
    if file.file_len().is_none() {
        return Ok(());
    }
    check_value_count(file, entry)
}

impl fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("index", &self.index).finish_non_exhaustive()
    }
}
