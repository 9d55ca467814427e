//! The deserializer of all formats, and its reading of a whole file as one value.

use std::cell::Cell;
use std::fmt;
use std::io::Read;

use super::{Finder, MetadataSource, RequiredField, small};
use crate::error::Result;
use crate::limits::Limits;
use crate::model::{
    ArraysOf, EachEntry, EachPart, FieldAttrs, FromTensors, KeyPart, LoadFrom, Loaded, MetadataKind, MetadataValue,
    Node, Source, StructDef, TensorSpec, node_of, put,
};
use crate::read::{ReadMetadata, ReadSmall, Reader, ReaderStorage, Reading};
use crate::storage::{Slice, Stream};

/// Reads a value from a tensor file.
///
/// It is the one deserializer of all formats and storages: a [`Source`] for types that map to tensors, and a
/// `serde::Deserializer` for any other type. Call [`end`](Self::end) after the value.
///
/// A list or map of a plain serde struct that has no tensor is missing here, unless it has `#[serde(default)]`. The
/// functions of the formats read such a value again, with an empty list.
///
/// ```
/// use serde::Deserialize;
/// use tensorfile::format::Deserializer;
/// use tensorfile::{TensorMap, TensorView, ten};
///
/// let file = ten::to_vec(&[TensorView::from_slice(&[1.0_f32, 2.0], [2])?])?;
/// let mut deserializer = Deserializer::from_slice(&ten::FORMAT, &file);
/// let map = TensorMap::deserialize(&mut deserializer)?;
/// deserializer.end()?;
/// assert_eq!(map.len(), 1);
/// # Ok::<(), tensorfile::Error>(())
/// ```
pub struct Deserializer<'de> {
    state: DeserializerState<'de>,
    /// Told when a plain serde value begins to read.
    for_serde: Option<&'de Cell<bool>>,
}

enum DeserializerState<'de> {
    Unread(UnreadFile<'de>),
    // Most files need none, and it is large.
    Finding(Box<Finder<'de>>),
}

/// A file that is unread, or was read as one value.
struct UnreadFile<'de> {
    storage: ReaderStorage<'de>,
    limits: Limits,
    reading: &'de Reading,
    /// Reads metadata; `None` in a stream.
    metadata: Option<ReadMetadata>,
    /// Finds the tensors if it is a small file, until it was tried.
    small: Option<ReadSmall>,
    /// The type of the value read from the whole file.
    is_read_as: Option<fn() -> Node>,
}

impl<'de> Deserializer<'de> {
    // In its place: a copy would take longer than to make it.
    #[inline(always)]
    pub(crate) fn with_slice(reading: &'de Reading, file: &'de [u8], limits: Limits) -> Self {
        Self::with_storage(reading, ReaderStorage::Slice(Slice::new(file)), limits, Some(reading.metadata))
    }

    pub(crate) fn with_reader(reading: &'de Reading, reader: impl Read + 'de, limits: Limits) -> Self {
        Self::with_storage(reading, ReaderStorage::Boxed(Box::new(Stream::new(reader))), limits, None)
    }

    // Inlined: one more move of the deserializer took 6 % more instructions for a small message.
    #[inline(always)]
    fn with_storage(
        reading: &'de Reading,
        storage: ReaderStorage<'de>,
        limits: Limits,
        metadata: Option<ReadMetadata>,
    ) -> Self {
        let unread = UnreadFile { storage, limits, reading, metadata, small: reading.small, is_read_as: None };
        Self { state: DeserializerState::Unread(unread), for_serde: None }
    }

    pub(crate) fn over(reader: Reader<'de>, format: &'static str, metadata: MetadataSource<'de>) -> Self {
        let finder = Box::new(Finder::over(reader, format, metadata));
        Self { state: DeserializerState::Finding(finder), for_serde: None }
    }

    /// Sets a flag when a plain serde value begins to read, before it reads anything.
    pub(crate) fn telling(mut self, for_serde: &'de Cell<bool>) -> Self {
        self.for_serde = Some(for_serde);
        self
    }

    /// Returns what finds tensors for a plain serde value.
    pub(crate) fn finder_for_serde(&mut self) -> &mut Finder<'de> {
        if let Some(for_serde) = self.for_serde {
            for_serde.set(true);
        }
        self.finder()
    }

    /// Returns the required field of a plain serde struct that the file does not have, if reading failed for it.
    pub(crate) fn required(&self) -> Option<RequiredField> {
        match &self.state {
            DeserializerState::Finding(finder) => finder.required,
            DeserializerState::Unread(_) => None,
        }
    }

    /// Returns what finds tensors in the file.
    pub(crate) fn finder(&mut self) -> &mut Finder<'de> {
        if let DeserializerState::Unread(file) = &mut self.state {
            self.state = DeserializerState::Finding(file.finder());
        }
        match &mut self.state {
            DeserializerState::Finding(finder) => finder,
            DeserializerState::Unread(_) => unreachable!("it was just replaced"),
        }
    }

    /// Loads the next value.
    pub(crate) fn load<T: FromTensors<'de>>(&mut self) -> Result<T> {
        let mut value = None;
        self.load_with(node_of::<T>, &mut |source| put(&mut value, source, &FieldAttrs::NONE))?;
        Ok(value.expect("the value was loaded"))
    }

    /// Calls `load` for the next value, of type `node`.
    pub(crate) fn load_with(&mut self, node: fn() -> Node, load: LoadFrom<'_, 'de>) -> Result<()> {
        if let DeserializerState::Unread(file) = &mut self.state
            && let Some(read) = file.small.take()
            && small::load(&mut file.storage, read, &file.limits, load)
        {
            file.is_read_as = Some(node);
            return Ok(());
        }
        self.finder().load_with(node(), load)
    }

    /// Checks that no tensors are left.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Unexpected`](crate::ErrorKind::Unexpected),
    ///   [`ErrorKind::WrongCount`](crate::ErrorKind::WrongCount): the file has tensors without a place in the type.
    /// - By [`category`](crate::Error::category): `File` or `Io` if the rest of a stream is malformed or cannot be
    ///   read.
    pub fn end(mut self) -> Result<()> {
        if self.is_read() {
            return Ok(());
        }
        let finder = self.finder();
        finder.end().map_err(|error| error.in_format(finder.format))
    }

    /// Calls `read`, which reads a value from the whole file. If the file does not fit its type, the error lists all
    /// differences.
    pub(crate) fn read_whole(&mut self, read: &mut dyn FnMut(&mut Self) -> Result<()>) -> Result<()> {
        match read(self) {
            Ok(()) if self.is_read() => Ok(()),
            read => self.finder().end_whole(read),
        }
    }

    /// Returns whether all of the file was read as one value, and nothing else was asked for.
    fn is_read(&self) -> bool {
        matches!(&self.state, DeserializerState::Unread(file) if file.is_read_as.is_some())
    }
}

impl<'de> UnreadFile<'de> {
    #[cold]
    fn finder(&mut self) -> Box<Finder<'de>> {
        let storage = std::mem::replace(&mut self.storage, ReaderStorage::Slice(Slice::new(&[])));
        let reader = Reader::new(storage, self.reading, self.limits.clone());
        let name = self.reading.spec.name;
        let mut finder = Box::new(Finder::over(reader, name, MetadataSource::Unread(self.metadata)));
        if let Some(node) = self.is_read_as {
            finder.skip_value(node());
        }
        finder
    }
}

impl<'de> Source<'de> for Deserializer<'de> {
    fn tensor(&mut self, spec: &TensorSpec) -> Result<Loaded<'de>> {
        self.finder().tensor(spec)
    }

    fn same_bytes(&mut self) -> Option<ArraysOf<'_>> {
        self.finder().same_bytes()
    }

    fn fields(&mut self, def: &'static StructDef, each: EachPart<'_, 'de>) -> Result<()> {
        self.finder().fields(def, each)
    }

    fn list(&mut self, each: EachPart<'_, 'de>) -> Result<()> {
        self.finder().list(each)
    }

    fn tuple(&mut self, len: usize, each: EachPart<'_, 'de>) -> Result<()> {
        self.finder().tuple(len, each)
    }

    fn map(&mut self, key: KeyPart, each: EachEntry<'_, 'de>) -> Result<()> {
        self.finder().map(key, each)
    }

    fn option(&mut self, some: EachPart<'_, 'de>) -> Result<()> {
        self.finder().option(some)
    }

    fn metadata(&mut self, kind: MetadataKind) -> Result<MetadataValue> {
        self.finder().metadata(kind)
    }
}

impl fmt::Debug for Deserializer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("Deserializer");
        match &self.state {
            DeserializerState::Unread(file) => f.field("format", &file.reading.spec.name),
            DeserializerState::Finding(finder) => f.field("format", &finder.format).field("path", &finder.path),
        };
        f.finish_non_exhaustive()
    }
}
