//! The index of a file, read as far as it is needed.

use std::borrow::Cow;
use std::ops::{Deref, DerefMut};
use std::sync::LazyLock;

use super::index_reader::IndexReader;
use super::message::{Message, ReadMessage};
use super::payload::{check_value_count, read_stream};
use super::small::ReadSmall;
use super::{Entry, Index};
use crate::error::{Error, ErrorKind, PAYLOADS, Result};
use crate::limits::Limits;
use crate::model::{FileMetadata, FormatSpec, embedded_names, is_index};
use crate::storage::{ReadAt, Slice, Storage};
use crate::tensor::{Buffer, Dtype, Layout};

/// Reads the index of a file with the [`IndexReader`] of its format, and checks each addition.
///
/// The tensors of a stream become known one by one. Messages are read without an index.
pub(crate) struct IndexLoader<'de> {
    pub(super) storage: ReaderStorage<'de>,
    pub(super) index_reader: ReaderOfIndex,
    pub(super) is_in_file_order: bool,
    embeds_names: bool,
    /// Tensors are requested by name.
    pub(super) needs_unique_names: bool,
    pub(super) limits: Limits,
    pub(super) index: Cow<'de, Index>,
    /// The file is a stream: its tensors become known one by one.
    pub(super) is_stream: bool,
    /// The length of all payloads so far, in bytes.
    payload_bytes: u64,
    /// The number of messages passed but not yet omitted from the index.
    passed: usize,
    /// The end of the last passed message.
    passed_to: u64,
    /// Reading failed, and the next tensor cannot be found.
    pub(crate) is_broken: bool,
}

/// The storage of a file, for reading its tensors.
pub(crate) enum ReaderStorage<'de> {
    /// A file in memory, which needs no box.
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

/// A format's function for reading metadata.
pub(crate) type ReadMetadata = fn(&mut dyn ReadAt, &Limits) -> Result<FileMetadata>;

/// How the files of a format are read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    pub(crate) spec: FormatSpec,
    pub(crate) index_reader: fn() -> Box<dyn IndexReader>,
    pub(crate) metadata: ReadMetadata,
    /// Finds the tensors of a small file, if the format supports it.
    pub(crate) small: Option<ReadSmall>,
}

/// The index before reading begins. An index is large, and a file of one tensor may need none.
static NO_INDEX: LazyLock<Index> = LazyLock::new(Index::default);

/// The [`IndexReader`] of an [`IndexLoader`].
pub(super) enum ReaderOfIndex {
    /// The index is not requested yet.
    Unread(fn() -> Box<dyn IndexReader>),
    Reading(Box<dyn IndexReader>),
    /// The end of the index was reached, and the reader may have the metadata. `None` if a stream broke off, or if
    /// there was none.
    Ended(Option<Box<dyn IndexReader>>),
}

impl<'de> IndexLoader<'de> {
    pub(super) fn new(storage: ReaderStorage<'de>, reading: &Reading, limits: Limits) -> Self {
        let is_stream = storage.file_len().is_none();
        Self {
            storage,
            index_reader: ReaderOfIndex::Unread(reading.index_reader),
            is_in_file_order: false,
            embeds_names: reading.spec.embeds_names,
            needs_unique_names: false,
            limits,
            index: Cow::Borrowed(&NO_INDEX),
            is_stream,
            payload_bytes: 0,
            passed: 0,
            passed_to: 0,
            is_broken: false,
        }
    }

    /// A loader for a known index, with nothing to read.
    pub(super) fn with_index(storage: ReaderStorage<'de>, index: Cow<'de, Index>, limits: Limits) -> Self {
        Self {
            storage,
            index_reader: ReaderOfIndex::Ended(None),
            is_in_file_order: false,
            embeds_names: false,
            needs_unique_names: false,
            limits,
            index,
            is_stream: false,
            payload_bytes: 0,
            passed: 0,
            passed_to: 0,
            is_broken: false,
        }
    }

    /// Returns an index of a single tensor, given by a name or by a position, which becomes its name. `None` if there
    /// is no such tensor, or if the format must read other headers to find it.
    pub(crate) fn into_index_of(mut self, name: &str) -> Result<Option<Index>> {
        let ReaderOfIndex::Unread(index_reader) = self.index_reader else { return Ok(None) };
        self.begin(index_reader());
        let ReaderOfIndex::Reading(index_reader) = &mut self.index_reader else { return Ok(None) };
        let Some(count) = index_reader.count(&mut *self.storage, &self.limits)? else { return Ok(None) };
        let Some(last) = count.checked_sub(1) else { return Ok(None) };
        let has_names = self.read_one(last)? && self.may_be_names(0)?;
        let i = if has_names {
            self.position_in_names(name, last)?
        } else {
            let number = name.strip_prefix('#').or_else(|| is_index(name).then_some(name));
            number.and_then(|number| number.parse().ok()).filter(|i| *i < count)
        };
        match i {
            Some(i) if self.read_one(i)? => {}
            _ => return Ok(None),
        }
        let mut index = self.index.into_owned();
        // A position is that of the whole file, and no longer of the tensor here.
        index.rename(&mut std::iter::once(name), name.len())?;
        Ok(Some(index))
    }

    /// Returns the position of a name in the list of `count` names, the only known tensor. `None` if it is missing or
    /// repeated.
    fn position_in_names(&mut self, name: &str, count: usize) -> Result<Option<usize>> {
        let mut memory = Vec::new();
        let bytes = embedded_names(&mut *self.storage, &self.index.entry(0), &mut memory)?;
        let mut same =
            embedded_names::parse(bytes, count)?.enumerate().filter(|(_, other)| *other == name).map(|(i, _)| i);
        Ok(same.next().filter(|_| same.next().is_none()))
    }

    /// Makes only the tensor at a position known. Returns `false` if the format does not add it.
    fn read_one(&mut self, i: usize) -> Result<bool> {
        let ReaderOfIndex::Reading(index_reader) = &mut self.index_reader else { return Ok(false) };
        let mut index = Index::default();
        index.left_out.tensors = i;
        index_reader.read_one(i, &mut *self.storage, &self.limits, &mut index)?;
        index.complete()?;
        self.index = Cow::Owned(index);
        self.check_pushed(0)?;
        Ok(self.index.len() == 1)
    }

    /// Treats a list of names as an ordinary tensor.
    pub(crate) fn ignore_embedded_names(&mut self) {
        self.embeds_names = false;
    }

    /// Refuses tensors with equal names, now and later.
    pub(crate) fn require_unique_names(&mut self) -> Result<()> {
        self.needs_unique_names = true;
        self.index.check_unique()
    }

    /// Reads the header of the next tensor of a stream without an index. Returns `false` if it is uncommon, if another
    /// tensor is known, and at the end. The tensor remains the next one until its [payload](Self::message_payload) is
    /// read.
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
                self.is_broken = error.is_some();
                return error.map_or(Ok(false), |error| Err(error.in_tensor(self.last_label())));
            }
        };
        Ok(read(at_hand, &self.limits, message).is_some() && message.needs_no_index(&self.limits))
    }

    /// Reads the payload of the next [message](Self::message).
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
            self.is_broken = true;
        }
        payload
    }

    /// Returns the position of the last passed tensor of a stream, for error messages.
    pub(crate) fn last_label(&self) -> String {
        format!("#{}", (self.index.count() + self.passed).saturating_sub(1))
    }

    /// Returns the offset of the next tensor of a stream, as far as it is known.
    pub(crate) fn next_offset(&self) -> u64 {
        self.index.left_out.next_offset.max(self.passed_to)
    }

    /// Returns whether every tensor is known.
    pub(crate) fn is_drained(&self) -> bool {
        matches!(self.index_reader, ReaderOfIndex::Ended(_))
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
    pub(super) fn read_index(&mut self) -> Result<bool> {
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
        index.compare_names().map_err(|i| index.duplicate(i))?;
        self.check_pushed(first).map(|()| true)
    }

    /// Checks the tensors from `first` on.
    fn check_pushed(&mut self, first: usize) -> Result<()> {
        let (index, len) = (&self.index, self.storage.file_len());
        index.check_ends(first, len)?;
        self.payload_bytes = check_limits(index, first, len, self.payload_bytes, &self.limits)?;
        if index.entries().has_coo() {
            for i in first..index.pushed() {
                let checked = check_counts(&mut *self.storage, &index.entry(i));
                checked.map_err(|error| error.in_tensor(index.label(i)))?;
            }
        }
        Ok(())
    }

    pub(super) fn check_names(&self) -> Result<()> {
        if self.needs_unique_names { self.index.check_unique() } else { Ok(()) }
    }

    /// Returns whether a tensor begins like the list of the names of all tensors before it.
    pub(super) fn may_be_names(&mut self, i: usize) -> Result<bool> {
        if !self.embeds_names || self.index.has_names() {
            return Ok(false);
        }
        let entry = self.index.entry(i);
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

    /// Names all tensors by the list in the last one, which is removed.
    pub(super) fn take_names(&mut self, i: usize) -> Result<()> {
        let (start, mut memory) = (self.index.entry(i).start(), Vec::new());
        let bytes = embedded_names(&mut *self.storage, &self.index.entry(i), &mut memory)?;
        let index = self.index.to_mut();
        index.pop();
        let embedded = embedded_names::parse(bytes, i).and_then(|mut names| index.embed(&mut names, bytes.len()));
        embedded.map_err(|error| error.at(start))
    }
}

/// Returns the payload of the list of names.
fn embedded_names<'a>(file: &'a mut dyn ReadAt, entry: &Entry<'_>, memory: &'a mut Vec<u8>) -> Result<&'a [u8]> {
    let (range, found) = (entry.range(), entry.payload_bytes());
    let start = range.start;
    if found > embedded_names::LONGEST {
        let what = "the length of the list of names";
        return Err(Error::new(ErrorKind::Limit { what, found, limit: embedded_names::LONGEST }).at(start));
    }
    file.bytes(range, memory).map_err(|error| error.at(start))
}

/// Checks the tensors of an index, from `first` on, against the limits of a file of `len` bytes, or of a stream.
/// Returns the length of all payloads, `payload_bytes` of it from earlier tensors.
fn check_limits(index: &Index, first: usize, len: Option<u64>, mut payload_bytes: u64, limits: &Limits) -> Result<u64> {
    let limit =
        |what, found, limit, i| Err(Error::new(ErrorKind::Limit { what, found, limit }).in_tensor(index.label(i)));
    let end = usize::try_from(limits.tensors).unwrap_or(usize::MAX).min(index.pushed());
    // Many small entries can refer to one large record. Compressed members are counted when they are read, and the
    // memory for tensors is taken as they are read; the memory for headers was taken now.
    let most = len.map(|len| limits.most_shared(len));
    for i in first..end {
        let entry = index.entry(i);
        let payload = if entry.is_compressed() { entry.range().end - entry.start() } else { entry.payload_bytes() };
        payload_bytes = payload_bytes.saturating_add(payload);
        match most {
            Some(most) if payload_bytes > most => return limit(PAYLOADS, payload_bytes, most, i),
            None if payload > limits.payload => return limit("payload in bytes", payload, limits.payload, i),
            _ => {}
        }
    }
    let most = len.map(|len| len.saturating_add(limits.headers()));
    if let Some(most) = most.filter(|most| index.entries().bytes() as u64 > *most) {
        return limit("memory for the heads in bytes", index.entries().bytes() as u64, most, end.saturating_sub(1));
    }
    if end < index.pushed() {
        limit("number of tensors", end as u64 + 1, limits.tensors, end)
    } else {
        Ok(payload_bytes)
    }
}

/// Checks the number of values of a sparse tensor. In a stream, the number in the payload is checked as the tensor is
/// read or passed.
fn check_counts(file: &mut dyn ReadAt, entry: &Entry<'_>) -> Result<()> {
    let Layout::Coo { entries } = entry.info().layout else { return Ok(()) };
    if entry.has_codec() {
        return Ok(());
    }
    let i = entry.value_count_offset();
    let shape = &entry.info().shape;
    if entries > 0 && shape.dims().contains(&0) {
        let expected = format!("0, as the shape {shape} has no elements");
        return Err(
            Error::new(ErrorKind::BadNumber { what: "number of values", found: entries as i128, expected }).at(i)
        );
    }
    if file.file_len().is_none() {
        return Ok(());
    }
    check_value_count(file, entry)
}
