//! The serializer of all formats: names the tensors of a value and sends them to a sink.

use super::node::FieldDef;
use super::path::{Mark, Path};
use super::{Entries, FieldAttrs, List, MetadataValue, Sink, Store, StructDef, TensorData, TensorRecord, TensorSink};
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::{Dtype, Shape, TensorInfo};

/// Turns a value into named tensors for a [`TensorSink`].
///
/// It is the one serializer of all formats: a [`Sink`] for types that map to tensors, and a `serde::Serializer` for any
/// other type. Call [`end`](Self::end) after the value.
///
/// ```
/// use serde::Serialize;
/// use tensorfile::format::Serializer;
/// use tensorfile::{TensorView, btf};
///
/// let tensors = [TensorView::from_slice(&[1.0_f32, 2.0], [2])?];
/// let plan = btf::Options::new().plan(&tensors)?;
/// let mut file = Vec::new();
/// let mut writer = plan.writer(&mut file);
/// let mut serializer = Serializer::new(&mut writer);
/// tensors.serialize(&mut serializer)?;
/// serializer.end()?;
/// writer.finish()?;
/// assert_eq!(file, btf::to_vec(&tensors)?);
/// # Ok::<(), tensorfile::Error>(())
/// ```
pub struct Serializer<'s> {
    sink: &'s mut dyn TensorSink,
    pub(crate) path: Path,
    /// A tensor was refused, so the result cannot be used.
    failed: bool,
    /// The number of tensors sent.
    pub(crate) sent: usize,
    /// The number of entries of metadata sent.
    metadata_sent: usize,
    /// The name of a value that stored nothing and would be missing, instead of empty, in a file with other tensors.
    missed: Option<Box<str>>,
    /// The path of the last tensor.
    pub(crate) last: Mark,
    /// The last completed struct: its path, the number of tensors sent before it, and its definition.
    last_struct: Option<(Mark, usize, &'static StructDef)>,
    /// The name of a tensor equal to the value here.
    pub(crate) tied: Option<&'static str>,
    /// State between serde's calls.
    pub(crate) serde: SerdeState,
}

/// The numbers of tensors and entries of metadata sent, to tell whether a value stored anything.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SentCounts {
    pub(crate) tensors: usize,
    metadata: usize,
}

/// State between serde's calls.
#[derive(Debug, Default)]
pub(crate) struct SerdeState {
    /// The path of the value around, for a flattened field.
    pub(crate) parent: Mark,
    /// The numbers of a list that may continue with the next value.
    pub(crate) numbers: Option<Numbers>,
    /// The dims of the next list, which ndarray's own representation sends first.
    pub(crate) dims: Option<Shape>,
    /// The header of a tensor received field by field.
    pub(crate) header: Option<HeaderField>,
    /// The header of a tensor, before its payload.
    pub(crate) payload: Option<TensorInfo>,
    /// The item of a list of any length here, which must hold a tensor.
    pub(crate) item: Option<Mark>,
    /// The entry of a flattened map here, which serde reads without asking for a type.
    pub(crate) flattened: Option<Mark>,
}

/// The numbers of a list, received one by one, as a payload.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    pub(crate) dtype: Option<Dtype>,
    pub(crate) len: usize,
    pub(crate) bytes: Vec<u8>,
}

/// A field of a tensor's header.
#[derive(Debug, Default)]
pub(crate) struct HeaderField {
    pub(crate) dtype: Option<Dtype>,
    pub(crate) numbers: Shape,
    pub(crate) variant: Option<&'static str>,
}

impl<'s> Serializer<'s> {
    /// A serializer for `sink`.
    pub fn new(sink: &'s mut dyn TensorSink) -> Self {
        Self::named(sink, "")
    }

    /// A serializer for a value called `name`.
    pub(crate) fn named(sink: &'s mut dyn TensorSink, name: &str) -> Self {
        let mut path = Path::default();
        if !name.is_empty() {
            path.push(name);
        }
        Self {
            sink,
            path,
            failed: false,
            sent: 0,
            metadata_sent: 0,
            missed: None,
            last: Mark::default(),
            last_struct: None,
            tied: None,
            serde: SerdeState::default(),
        }
    }

    /// Checks that no tensor was refused, and that the value can be read again.
    ///
    /// # Errors
    ///
    /// If a value went on after an error, or if a list or map of a struct with `#[tensor(allow_unknown)]` is empty.
    pub fn end(&self) -> Result<()> {
        // A file without any tensor has none to skip.
        if let Some(name) = self.missed.as_ref().filter(|_| self.sent > 0) {
            let what = "store an empty list or map in a struct with `#[tensor(allow_unknown)]`".to_owned();
            let instead =
                "it would be missing, as its tensors may be unknown ones; `#[tensor(default)]` reads it as empty";
            let kind = ErrorKind::Unsupported { what, instead: instead.to_owned() };
            return Err(Error::new(kind).in_tensor(&**name));
        }
        if self.failed {
            let what = "a tensor was refused, and the value ignored the error".to_owned();
            return Err(ErrorKind::Message(what).into());
        }
        Ok(())
    }

    /// Adds the path to an error raised by a part of the value.
    #[cold]
    pub(crate) fn in_part(&self, error: Error) -> Error {
        error.in_tensor(self.path.name())
    }

    /// Adds the key to the error of a metadata field with an unsuitable value.
    #[cold]
    fn in_metadata(&self, error: Error) -> Error {
        match error.kind() {
            ErrorKind::Message(what) => {
                ErrorKind::UnsupportedMetadata { key: self.path.name().to_owned(), what: what.clone() }.into()
            }
            _ => error,
        }
    }

    /// Returns the numbers of tensors and entries of metadata sent so far.
    #[inline]
    pub(crate) fn sent_so_far(&self) -> SentCounts {
        SentCounts { tensors: self.sent, metadata: self.metadata_sent }
    }

    /// Notes a field that stored nothing, if it would be missing instead of empty.
    #[cold]
    fn note_missed(&mut self, field: &FieldDef) {
        if field.is_missing_without_tensors() && !self.omits_names() {
            self.missed.get_or_insert_with(|| self.path.name().into());
        }
    }

    /// Returns whether the names of tensors are lost, so that places are told by positions.
    pub(crate) fn omits_names(&self) -> bool {
        self.sink.omits_names()
    }

    /// Notes that the value is only read again with the names of its tensors.
    pub(crate) fn need_names(&mut self) {
        self.sink.needs_names();
    }

    /// Checks a serialized map entry: it must hold a tensor, and by name, it must be distinguishable from a nested map.
    /// The key of a struct of tensors is all but the last segment: keys such as `layers.0.weight` name the state of an
    /// optimizer.
    pub(crate) fn check_entry(&self, map: Mark, before: SentCounts) -> Result<()> {
        self.check_metadata(before)?;
        if self.sent == before.tensors {
            return Err(
                self.no_tensor("a map with an entry that holds no tensor", "its key would be lost; leave it out")
            );
        }
        let sent_before = before.tensors;
        let is_tensor = self.last == self.path.mark();
        let key = self.path.since(map);
        let is_flat = |(place, sent, def): (Mark, usize, &StructDef)| {
            (place, sent) == (self.path.mark(), sent_before) && def.is_flat()
        };
        let may_have_dots = || self.last_struct.is_some_and(is_flat);
        if !is_tensor && (key.is_empty() || key.contains('.') && !may_have_dots()) {
            let what = format!("store a map with the key `{key}` for more than one tensor");
            let instead =
                "names could not tell it from a map in a map; use keys without dots, maps of single tensors, or a \
                           derived struct that has only tensors"
                    .to_owned();
            return Err(Error::new(ErrorKind::Unsupported { what, instead }).in_tensor(self.path.name()));
        }
        Ok(())
    }

    /// Checks a serialized item or entry: with metadata but without a tensor, it could not be found.
    #[inline]
    pub(crate) fn check_metadata(&self, before: SentCounts) -> Result<()> {
        if self.sent > before.tensors || self.metadata_sent == before.metadata {
            return Ok(());
        }
        Err(self.no_tensor("an item or an entry that holds metadata but no tensor", "make it a field"))
    }

    /// Checks a serialized list item: without a tensor, the length of the list would be lost.
    #[inline]
    pub(crate) fn check_item(&self, before: SentCounts) -> Result<()> {
        if self.sent > before.tensors {
            return Ok(());
        }
        Err(self.no_tensor("a list with an item that holds no tensor", "its length could not be told"))
    }

    /// Checks the value of an `Option`: without anything stored, it would be absent.
    #[inline]
    pub(crate) fn check_some(&self, before: SentCounts) -> Result<()> {
        if self.sent > before.tensors || self.metadata_sent > before.metadata {
            return Ok(());
        }
        Err(self.no_tensor("a `Some` that holds no tensor", "it would be read as `None`"))
    }

    #[cold]
    pub(crate) fn no_tensor(&self, what: &str, instead: &str) -> Error {
        let kind = ErrorKind::Unsupported { what: format!("store {what}"), instead: instead.to_owned() };
        Error::new(kind).in_tensor(self.path.name())
    }

    fn items(&mut self, items: &dyn List, attrs: &FieldAttrs, has_fixed_len: bool) -> Result<()> {
        let list = self.path.mark();
        self.expect(items.len())?;
        for index in 0..items.len() {
            let item = self.path.go_to_item(list, index);
            let before = self.sent_so_far();
            items.item(index).store(self, attrs).map_err(|error| self.in_part(error))?;
            if !has_fixed_len {
                self.check_item(before)?;
            }
            self.check_metadata(before)?;
            self.path.back_to(item);
        }
        self.path.back_to(list);
        Ok(())
    }

    /// Announces the parts of a value, with probably one tensor each, before the first tensor.
    #[inline]
    fn expect(&mut self, parts: usize) -> Result<()> {
        if self.sent == 0 && parts > 1 { self.sink.expect(parts) } else { Ok(()) }
    }
}

impl Sink for Serializer<'_> {
    fn takes_dim_order(&self) -> bool {
        true
    }

    fn tensor(&mut self, info: &TensorInfo, data: &dyn TensorData) -> Result<()> {
        let name = self.path.name();
        self.sent += 1;
        self.last = self.path.mark();
        let tensor = TensorRecord { name, info, data, tied: self.tied };
        let sent = self.sink.tensor(&tensor);
        self.failed |= sent.is_err();
        sent.map_err(|error| error.in_tensor(name))
    }

    fn fields(&mut self, def: &'static StructDef, values: &[&dyn Store]) -> Result<()> {
        self.expect(values.len())?;
        let sent = self.sent;
        for (field, value) in def.fields.iter().zip(values) {
            let mark = if field.flatten { self.path.mark() } else { self.path.push(field.name) };
            let outer = self.tied;
            self.tied = field.attrs.tied.or(outer);
            let before = self.sent;
            (**value).store(self, &field.attrs).map_err(|error| {
                let error = self.in_part(error);
                if field.metadata { self.in_metadata(error) } else { error }
            })?;
            if def.allow_unknown && self.sent == before {
                self.note_missed(field);
            }
            self.tied = outer;
            self.path.back_to(mark);
        }
        self.last_struct = Some((self.path.mark(), sent, def));
        Ok(())
    }

    fn list(&mut self, items: &dyn List, attrs: &FieldAttrs) -> Result<()> {
        self.items(items, attrs, false)
    }

    fn tuple(&mut self, items: &dyn List, attrs: &FieldAttrs) -> Result<()> {
        self.items(items, attrs, true)
    }

    fn map(&mut self, entries: &dyn Entries, attrs: &FieldAttrs) -> Result<()> {
        let map = self.path.mark();
        self.expect(entries.len())?;
        let stored = entries.for_each(&mut |key, value| {
            self.path.push(key);
            let before = self.sent_so_far();
            value.store(self, attrs).map_err(|error| self.in_part(error))?;
            self.check_entry(map, before)?;
            self.path.back_to(map);
            Ok(())
        });
        stored.map_err(|error| error.in_tensor(self.path.name()))
    }

    fn option(&mut self, value: Option<&dyn Store>, attrs: &FieldAttrs) -> Result<()> {
        let Some(value) = value else { return Ok(()) };
        let before = self.sent_so_far();
        value.store(self, attrs)?;
        self.check_some(before)
    }

    fn drops_empty_values(&self) -> bool {
        true
    }

    fn metadata(&mut self, value: &MetadataValue) -> Result<()> {
        self.metadata_sent += 1;
        let sent = self.sink.metadata(self.path.name(), value);
        self.failed |= sent.is_err();
        sent
    }
}

/// The error for a payload other than bytes.
pub(crate) fn not_bytes() -> Error {
    ErrorKind::NotATensor { found: "a payload that is not bytes", instead: "expected bytes or a list of bytes" }.into()
}

impl std::fmt::Debug for Serializer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Serializer").field("path", &self.path).field("sent", &self.sent).finish_non_exhaustive()
    }
}

/// Any value that maps to tensors.
impl<T: Store + ?Sized> super::Tensors for T {
    fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
        let mut serializer = Serializer::new(sink);
        self.store(&mut serializer, &FieldAttrs::NONE)?;
        serializer.end()
    }
}
