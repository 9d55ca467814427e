use std::fmt;
use std::io::Read;

use super::{Finder, MetadataSource};
use crate::error::Result;
use crate::limits::Limits;
use crate::model::{
    Adapt, ArraysOf, EachEntry, EachPart, FromTensors, KeyPart, LoadFrom, Loaded, MetadataKind, MetadataValue, Node,
    Source, StructDef, TensorSpec, node_of, put,
};
use crate::read::{ReadMetadata, ReadSingle, Reader, ReaderStorage, Reading};
use crate::storage::{Slice, Stream};

/// Reads a value from a tensor file.
///
/// It is the one deserializer of all formats and storages: a [`Source`] for types that map to tensors, and a
/// `serde::Deserializer` for any other type. Call [`end`](Self::end) after the value.
///
/// ```
/// use serde::Deserialize;
/// use tensorfile::{Deserializer, TensorMap, TensorView, ten};
///
/// let file = ten::to_vec(&[TensorView::from_slice(&[1.0_f32, 2.0], [2])?])?;
/// let mut deserializer = Deserializer::from_slice(&ten::FORMAT, &file);
/// let map = TensorMap::deserialize(&mut deserializer)?;
/// deserializer.end()?;
/// assert_eq!(map.len(), 1);
/// # Ok::<(), tensorfile::Error>(())
/// ```
pub struct Deserializer<'de>(DeserializerState<'de>);

#[expect(
    clippy::large_enum_variant,
    reason = "it stays where it is made, and a file of one tensor needs no allocation"
)]
enum DeserializerState<'de> {
    Whole(WholeFile<'de>),
    Finding(Finder<'de>),
}

/// A file of which nothing is known but the tensor that is all of it, if it was read.
struct WholeFile<'de> {
    storage: ReaderStorage<'de>,
    limits: Limits,
    reading: &'de Reading,
    /// Reads metadata; `None` in a stream.
    metadata: Option<ReadMetadata>,
    /// Reads a file of one tensor in one step, unless that was tried.
    single: Option<ReadSingle>,
    single_is_read: bool,
    /// The type at the root, once a value was asked for.
    root: Option<fn() -> Node>,
}

impl<'de> Deserializer<'de> {
    // In its place: a copy would take longer than to make it.
    #[inline(always)]
    pub(crate) fn of_slice(reading: &'de Reading, file: &'de [u8], limits: Limits) -> Self {
        Self::of_storage(reading, ReaderStorage::Slice(Slice::new(file)), limits, Some(reading.metadata))
    }

    pub(crate) fn of_reader(reading: &'de Reading, reader: impl Read + 'de, limits: Limits) -> Self {
        Self::of_storage(reading, ReaderStorage::Boxed(Box::new(Stream::new(reader))), limits, None)
    }

    #[inline(always)]
    fn of_storage(
        reading: &'de Reading,
        storage: ReaderStorage<'de>,
        limits: Limits,
        metadata: Option<ReadMetadata>,
    ) -> Self {
        Self(DeserializerState::Whole(WholeFile {
            storage,
            limits,
            reading,
            metadata,
            single: reading.single,
            single_is_read: false,
            root: None,
        }))
    }

    #[inline(always)]
    pub(crate) fn over(reader: Reader<'de>, format: &'static str, metadata: MetadataSource<'de>) -> Self {
        Self(DeserializerState::Finding(Finder::over(reader, format, metadata)))
    }

    /// Returns what finds tensors in the file.
    pub(crate) fn finder(&mut self) -> &mut Finder<'de> {
        if let DeserializerState::Whole(whole) = &mut self.0 {
            self.0 = DeserializerState::Finding(whole.finder());
        }
        match &mut self.0 {
            DeserializerState::Finding(finder) => finder,
            DeserializerState::Whole(_) => unreachable!("it was just replaced"),
        }
    }

    /// Loads the next value.
    pub(crate) fn load<T: FromTensors<'de>>(&mut self) -> Result<T> {
        let mut value = None;
        self.load_with(node_of::<T>, &mut |source| put(&mut value, source, &Adapt::NONE))?;
        Ok(value.expect("the value was loaded"))
    }

    /// Calls `load` for the next value, which is of the type `node`.
    pub(crate) fn load_with(&mut self, node: fn() -> Node, load: LoadFrom<'_, 'de>) -> Result<()> {
        match &mut self.0 {
            DeserializerState::Whole(whole) if whole.root.is_none() && matches!(node().inner(), Node::Tensor(_)) => {
                whole.root = Some(node);
            }
            _ => return self.finder().load_with(node(), load),
        }
        load(self).map_err(|error| self.finder().blame(error))
    }

    /// Checks that no tensor is left.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Unexpected`](crate::ErrorKind::Unexpected), [`ErrorKind::WrongCount`](crate::ErrorKind::WrongCount): the
    ///   file has tensors that the type does not have.
    /// - By [`category`](crate::Error::category): `File` or `Io` if the rest of a stream is malformed or cannot be read.
    pub fn end(mut self) -> Result<()> {
        if self.is_read() {
            return Ok(());
        }
        let finder = self.finder();
        finder.end().map_err(|error| error.in_format(finder.format))
    }

    /// Calls `read`, which reads a value of the whole file. If the file does not fit its type, the error is that of
    /// comparing them, with all differences.
    pub(crate) fn read_whole(&mut self, read: &mut dyn FnMut(&mut Self) -> Result<()>) -> Result<()> {
        match read(self) {
            Ok(()) if self.is_read() => Ok(()),
            read => self.finder().end_whole(read),
        }
    }

    /// Returns whether the only tensor of the file was read, and nothing else was asked for.
    fn is_read(&self) -> bool {
        matches!(&self.0, DeserializerState::Whole(whole) if whole.single_is_read)
    }
}

impl<'de> WholeFile<'de> {
    /// Reads the tensor that is all of the file, if there is one.
    fn read_single(&mut self, spec: &TensorSpec) -> Option<Loaded<'de>> {
        let single = self.storage.single(self.single.take()?, &self.limits, spec);
        self.single_is_read = single.is_some();
        single
    }

    #[cold]
    fn finder(&mut self) -> Finder<'de> {
        let storage = std::mem::replace(&mut self.storage, ReaderStorage::Slice(Slice::new(&[])));
        let reader = Reader::new(storage, self.reading, self.limits.clone());
        let mut finder = Finder::over(reader, self.reading.spec.name, MetadataSource::Unread(self.metadata));
        (finder.settled, finder.root) = (self.root.is_some(), self.root.map(|node| node()));
        // The index has the same tensor.
        if self.single_is_read
            && let Ok(Some(at)) = finder.reader.peek()
        {
            finder.reader.skip(at);
            finder.last = Some(at);
        }
        finder
    }
}

impl<'de> Source<'de> for Deserializer<'de> {
    fn tensor(&mut self, spec: &TensorSpec) -> Result<Loaded<'de>> {
        if let DeserializerState::Whole(whole) = &mut self.0
            && let Some(single) = whole.read_single(spec)
        {
            return Ok(single);
        }
        self.finder().tensor(spec)
    }

    fn same_bytes(&mut self) -> Option<ArraysOf<'_>> {
        match &mut self.0 {
            // A tensor that is the whole file shares its bytes with no other.
            DeserializerState::Whole(_) => None,
            DeserializerState::Finding(finder) => finder.same_bytes(),
        }
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
        match &self.0 {
            DeserializerState::Whole(whole) => f.field("format", &whole.reading.spec.name),
            DeserializerState::Finding(finder) => f.field("format", &finder.format).field("path", &finder.path),
        };
        f.finish_non_exhaustive()
    }
}
