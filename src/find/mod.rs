//! Finds the tensors of a type in a file, by name or by position.
//!
//! There are two ways through a file. By *name*, each segment of the path narrows the candidates. By *position*, for
//! files without names and for lists of all tensors of a file, each request takes the next tensor. The type at the root
//! decides between the two.
//!
//! From a stream, tensors are taken as they come, as long as file and type have the same order. Tensors passed on the
//! way are kept until they are requested.
//!
//! [`Finder`] is all of it. Types and serde's visitors drive it through [`Source`] while they load, and a
//! [`LoadReport`](crate::report::LoadReport) is made by driving it with the type's schema: it then reads no payload,
//! and collects what does not fit instead of stopping there.

mod codes;
mod collection;
mod compare;
mod declared;
mod deserializer;
mod fields;
mod findings;
mod matched;
mod metadata;
mod near;
mod parts;
mod root;
mod small;

use std::borrow::Cow;
use std::fmt;

pub(crate) use codes::asked_weights;
pub(crate) use compare::{Comparison, compare, compare_like};
pub use deserializer::Deserializer;
pub(crate) use fields::{FieldKey, Fields, FieldsWalk, RequiredField};
pub(crate) use metadata::{HasMetadata, MetadataSource};
pub(crate) use root::RootKind;

use self::codes::Codes;
use self::findings::Findings;
use crate::error::{Category, Error, ErrorKind, Result};
use crate::limits::Limits;
use crate::model::{
    ArraysOf, EachEntry, EachPart, KeyPart, LoadFrom, Loaded, MetadataKind, MetadataValue, Node, Path, Payload, Schema,
    SharedArrays, Source, StructDef, TensorSpec,
};
use crate::read::{Index, Labels, Reader, ReaderStorage};
use crate::storage::Slice;

/// Finds what a value asks for in a tensor file. Call [`end`](Self::end) after the value.
pub(crate) struct Finder<'de> {
    pub(crate) reader: Reader<'de>,
    /// The format for messages; `""` if it is added by the caller.
    format: &'static str,
    pub(crate) path: Path,
    pub(crate) at: At,
    /// The type at the root, if it maps to tensors.
    root: Option<Node>,
    /// By name or by position, decided by the type at the root.
    way: Way,
    /// The tensor found last, for errors of the type that reads it.
    pub(crate) last: Option<usize>,
    pub(crate) scope: Scope,
    pub(crate) item: NextItem<'de>,
    /// The differences found so far, while a report is made.
    findings: Option<Box<Findings>>,
    /// Fields of plain serde structs to give as absent; see [`RequiredField`].
    pub(crate) absent: Vec<RequiredField>,
    /// The field found missing by the `Deserialize` impl of a plain serde struct.
    pub(crate) required: Option<RequiredField>,
    /// Arrays already read whose memory can be shared.
    shared: SharedArrays,
    metadata: MetadataSource<'de>,
    codes: Codes,
}

/// How tensors are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The type at the root is not known yet.
    Open,
    ByName,
    /// By the names given by the type. No tensor is skipped.
    ByNamesOfType,
    ByPosition,
}

/// The struct around the current place, and what was passed on the way to it.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    /// The number of enclosing structs flattened into each other.
    pub(crate) flattened: usize,
    /// The file has tensors or metadata of the flattened field here.
    pub(crate) has_flattened: bool,
    /// The enclosing struct skips unknown tensors. A list or map without tensors is then missing instead of empty,
    /// because its tensors may be among the skipped ones. Elsewhere they would be errors.
    pub(crate) skips_unknown: bool,
    /// The number of skipped tensors.
    pub(crate) skipped: usize,
    /// An entry of metadata was read.
    has_read_metadata: bool,
    /// The next struct is a map entry, and entries with longer keys may be below it.
    leaves_deeper: bool,
}

/// The next item of a list read by position.
#[derive(Default)]
pub(crate) struct NextItem<'de> {
    /// The item is the first one. A number then opens a list stored as one tensor. Only types without schema need it.
    pub(crate) opens_list: bool,
    /// It belongs to a list of any length.
    pub(crate) of_any_length: bool,
    /// The tensor that holds the whole list.
    pub(crate) opened: Option<Loaded<'de>>,
}

/// The place of the next request in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum At {
    /// Something has the name of the path, or is below it.
    #[default]
    Here,
    /// The next tensor, named by the path.
    Tensor(usize),
    /// No tensor belongs to the value.
    Absent,
    /// The place of the enclosing struct, shared with a flattened field.
    Shared,
    /// A map entry, starting with this tensor. The requested type decides whether its key is the whole name or one
    /// segment of it. Only maps without schema need it.
    Entry(usize),
    /// An entry of metadata has the name of the path as its key, or none has.
    Metadata,
}

impl<'de> Finder<'de> {
    pub(crate) fn over(reader: Reader<'de>, format: &'static str, metadata: MetadataSource<'de>) -> Self {
        Self {
            reader,
            format,
            path: Path::default(),
            at: At::Here,
            root: None,
            way: Way::Open,
            last: None,
            scope: Scope::default(),
            item: NextItem::default(),
            findings: None,
            absent: Vec::new(),
            required: None,
            shared: SharedArrays::default(),
            metadata,
            codes: Codes::default(),
        }
    }

    /// A finder that gives the next tensor for each value, without any search by name.
    pub(crate) fn one_by_one(reader: Reader<'de>, format: &'static str) -> Self {
        Self { way: Way::ByPosition, ..Self::over(reader, format, MetadataSource::Unknown) }
    }

    /// Returns whether tensors are found by position.
    #[inline]
    pub(crate) fn is_positional(&self) -> bool {
        self.way == Way::ByPosition
    }

    /// Reads the next `tensors` tensors of a stream as if they were a file.
    pub(crate) fn load_next(&mut self, node: Node, tensors: usize, load: LoadFrom<'_, 'de>) -> Result<()> {
        self.reader.enter(tensors);
        let mut finder = Finder::over(self.take_reader(), self.format, MetadataSource::Unknown);
        let loaded = finder.load_with(node, load);
        let loaded = finder.end_whole(loaded);
        self.reader = finder.take_reader();
        match (self.reader.leave(), loaded) {
            (lacking @ 1.., Err(error)) if matches!(error.category(), Category::Mismatch | Category::Call) => {
                self.reader.loader.is_broken = true;
                let what = format!("the stream ends after {} of the {tensors} tensors of a value", tensors - lacking);
                Err(Error::new(ErrorKind::Malformed { what }).at(self.reader.loader.next_offset()))
            }
            (_, loaded) => loaded,
        }
    }

    fn take_reader(&mut self) -> Reader<'de> {
        let empty =
            Reader::with_index(ReaderStorage::Slice(Slice::new(&[])), Cow::Owned(Index::default()), Limits::default());
        std::mem::replace(&mut self.reader, empty)
    }

    pub(crate) fn reader(&mut self) -> &mut Reader<'de> {
        &mut self.reader
    }

    /// Calls `load` for the next value, of type `node`.
    pub(crate) fn load_with(&mut self, node: Node, load: LoadFrom<'_, 'de>) -> Result<()> {
        let loaded = self.begin(node).and_then(|matched| {
            if let Some(matched) = matched {
                return self.load_matched(&matched, load);
            }
            if let At::Entry(first) = self.at {
                self.enter_entry(first, node.key_part());
                self.at = At::Here;
            }
            load(self)
        });
        loaded.map_err(|error| self.blame(error))
    }

    /// Skips all tensors of the file, which belong to a value of type `node`.
    fn skip_value(&mut self, node: Node) {
        // Both calls succeeded before, for the value itself.
        _ = self.begin(node);
        while let Ok(Some(next)) = self.reader.peek() {
            self.reader.skip(next);
        }
    }

    /// Checks that no tensors are left.
    fn end(&mut self) -> Result<()> {
        self.reader.drain()?;
        if let Some(root) = self.root.filter(|root| root.dequantizes()) {
            self.codes.check_decoded(&Schema::new(root), self.reader.index(), &self.metadata)?;
        }
        let Some(left) = self.reader.peek()? else {
            self.reader.end_count()?;
            return self.check_any_fits();
        };
        if self.is_positional() {
            return Err(self.wrong_count());
        }
        let name = self.reader.index().label(left);
        let kind = ErrorKind::Unexpected { name, expected: Vec::new(), complete: true };
        Err(self.about(left, kind.into()))
    }

    /// Ends reading a value from the whole file. If the file does not fit its type, the error lists all differences.
    fn end_whole(&mut self, read: Result<()>) -> Result<()> {
        read.and_then(|()| self.end()).map_err(|error| self.with_report(error))
    }

    /// Refuses a file without anything for a type whose parts are all optional and which skips the rest: it is the
    /// wrong file.
    fn check_any_fits(&self) -> Result<()> {
        if self.scope.skipped == 0 || self.scope.skipped < self.reader.index().len() || self.scope.has_read_metadata {
            return Ok(());
        }
        let schema = self.root.map(Schema::new);
        let expected = schema.iter().flat_map(|schema| schema.entries()).map(|entry| entry.name).collect();
        Err(ErrorKind::Unexpected { name: self.reader.index().label(0), expected, complete: true }.into())
    }

    /// Returns the report of comparing the type at the root with the file, if it may find more than the error does.
    ///
    /// For this, the rest of a stream is read, but not held.
    fn with_report(&mut self, error: Error) -> Error {
        let may_find_more = match error.kind() {
            // In a report, one of the two tensors is unexpected or has another layout.
            ErrorKind::RepeatedField { .. } | ErrorKind::Cancelled => false,
            _ => matches!(error.category(), Category::Mismatch | Category::Call),
        };
        let Some(root) = self.root.filter(|_| may_find_more) else { return error };
        if self.reader.drain_headers().is_err() {
            return error;
        }
        if self.metadata_entries().is_err() {
            return error;
        }
        let report = compare(&Schema::new(root), self.reader.index(), self.metadata.clone()).report;
        // Reading refused the file as a whole too, and its error has the right kind.
        let is_refused_only = report.refused.is_some() && report.count() == 1;
        if report.is_ok() || is_refused_only { error } else { ErrorKind::Load(Box::new(report)).into() }
    }

    fn wrong_count(&self) -> Error {
        let found = self.reader.index().len();
        let read = found - self.reader.unread_count();
        ErrorKind::WrongCount { found: found as u64, expected: read.to_string() }.into()
    }

    /// Returns the tensor at this place.
    pub(crate) fn locate(&mut self) -> Result<usize> {
        match std::mem::take(&mut self.at) {
            At::Absent | At::Metadata => return Err(self.missing()),
            At::Entry(at) => {
                self.enter_entry(at, KeyPart::Whole);
                return Ok(at);
            }
            At::Tensor(at) => return Ok(at),
            At::Here | At::Shared => {}
        }
        let next = self.reader.peek()?;
        if self.is_positional() {
            return next.ok_or_else(|| self.no_more_tensors());
        }
        // A value of one tensor takes the only tensor of a file, under any name.
        let is_next = |at: &usize| self.path.is_root() || self.path.is(self.reader.name(*at));
        if let Some(at) = next.filter(is_next) {
            return Ok(at);
        }
        self.reader.drain()?;
        self.reader.find(self.path.name()).ok_or_else(|| self.missing())
    }

    /// Returns the place of the next request, for a value with parts.
    pub(crate) fn take_place(&mut self) -> At {
        match std::mem::take(&mut self.at) {
            At::Tensor(_) => At::Here,
            at => at,
        }
    }

    /// Returns the next unread tensor at or below the path, in file order if possible.
    pub(crate) fn next_here(&mut self) -> Result<Option<usize>> {
        let next = self.reader.peek()?;
        if next.is_some_and(|next| self.path.strip(self.reader.name(next)).is_some()) {
            return Ok(next);
        }
        self.reader.drain()?;
        Ok(self.reader.first_under(self.path.prefix()))
    }

    /// Returns the unread tensor named by the path.
    pub(crate) fn exactly_here(&mut self) -> Result<Option<usize>> {
        if self.path.is_root() {
            return Ok(None);
        }
        if let Some(next) = self.reader.peek()?
            && let Some(rest) = self.path.strip(self.reader.name(next))
        {
            if rest.is_empty() && self.path.is(self.reader.name(next)) {
                return Ok(Some(next));
            }
            if self.reader.index().search().has_runs_only() {
                return Ok(None);
            }
        }
        Ok(self.reader.find(self.path.name()))
    }

    /// Returns whether a tensor has the name of the path.
    pub(crate) fn has_exactly_here(&mut self) -> Result<bool> {
        let next = self.reader.peek()?;
        if next.is_some_and(|next| self.path.is(self.reader.name(next))) {
            return Ok(true);
        }
        self.reader.drain()?;
        Ok(self.reader.find(self.path.name()).is_some())
    }

    /// Goes to the value of a map entry, starting with tensor `at`.
    pub(crate) fn enter_entry(&mut self, at: usize, key: KeyPart) {
        self.scope.leaves_deeper = key == KeyPart::BeforeLast;
        let name = self.reader.name(at);
        let rest = self.path.strip(name).unwrap_or(name);
        self.path.push(key.of(rest));
    }

    /// Refuses a tensor at a place that should have parts.
    pub(crate) fn check_has_parts(&mut self, at: At, expected: &'static str) -> Result<()> {
        if at != At::Here {
            return Ok(());
        }
        match self.exactly_here()? {
            Some(tensor) => self.wrong_layout(tensor, expected),
            None => Ok(()),
        }
    }

    /// Reports a tensor in place of something else.
    fn wrong_layout(&mut self, tensor: usize, expected: &'static str) -> Result<()> {
        let kind = ErrorKind::WrongLayout { found: self.reader.info(tensor).clone(), expected };
        match &mut self.findings {
            Some(findings) => {
                findings.take(tensor);
                findings.misfit(tensor, self.reader.index().label(tensor), kind);
                self.reader.skip(tensor);
                Ok(())
            }
            None => Err(self.about(tensor, kind.into())),
        }
    }

    /// Returns whether an optional value is here.
    pub(crate) fn is_some(&mut self) -> Result<bool> {
        match self.at {
            At::Absent => Ok(false),
            At::Shared if !self.is_positional() => Ok(self.scope.has_flattened),
            At::Entry(_) => Ok(true),
            At::Metadata => self.has_entry_here(),
            // A file without tensors is not a value.
            At::Here | At::Shared if self.path.is_root() => Ok(self.reader.peek()?.is_some()),
            // An item of a list is there, or the list would be shorter.
            At::Here | At::Shared if self.is_positional() && self.item.of_any_length => Ok(true),
            At::Here | At::Shared if self.is_positional() => Err(crate::model::needs_names("an `Option`")),
            At::Here | At::Tensor(_) | At::Shared => Ok(true),
        }
    }

    /// Adds the tensor and its offset to an error, unless they are known.
    pub(crate) fn about(&self, at: usize, error: Error) -> Error {
        self.reader.locate(at, error.in_tensor(self.reader.index().label(at)))
    }

    /// Adds the last read tensor to an error of the type that reads it.
    pub(crate) fn blame(&mut self, error: Error) -> Error {
        match self.last {
            Some(at) if error.kind().is_about_one_tensor() => self.about(at, error),
            _ => error,
        }
    }

    /// Calls `each` with a part.
    fn part(&mut self, number: usize, each: &mut EachPart<'_, 'de>) -> Result<()> {
        self.last = None;
        if let Some(findings) = &mut self.findings {
            findings.trail.push(number);
        }
        if let Err(error) = each(number, self) {
            return Err(self.blame(error));
        }
        if let Some(findings) = &mut self.findings {
            findings.trail.pop();
        }
        self.last = None;
        Ok(())
    }

    /// Reads a tensor after its header was compared with `spec`, and checks it.
    #[inline(never)]
    fn read(&mut self, at: usize, spec: &TensorSpec) -> Result<Loaded<'de>> {
        if spec.needs_numbers(self.reader.info(at)) {
            self.check_numbers(at)?;
        }
        let info = self.reader.info(at);
        spec.check(info)?;
        let copies = spec.copies(info);
        let payload = self.reader.payload(at, copies)?;
        Loaded::new(self.reader.info(at).clone(), payload)
    }

    /// Checks that a tensor about to be cast or decoded holds numbers.
    fn check_numbers(&mut self, at: usize) -> Result<()> {
        self.codes.check_numbers(self.reader.index(), &self.metadata, at)
    }

    /// The error if a value asks for one more tensor by position.
    pub(crate) fn no_more_tensors(&self) -> Error {
        let found = self.reader.index().len();
        ErrorKind::WrongCount { found: found as u64, expected: format!("at least {}", found + 1) }.into()
    }

    pub(crate) fn missing(&self) -> Error {
        let name = self.path.name().to_owned();
        let Labels { names: found, others } = self.reader.labels();
        ErrorKind::Missing { name, found, others, complete: true }.into()
    }

    /// Compares the tensor here with `spec`, for a report.
    fn compare_tensor(&mut self, spec: &TensorSpec) -> Result<Loaded<'de>> {
        let at = match self.locate() {
            Ok(at) => at,
            Err(error) if matches!(error.kind(), ErrorKind::Missing { .. }) => {
                if let Some(findings) = &mut self.findings {
                    findings.missing(self.path.name(), spec);
                }
                return Ok(Loaded::without_payload(spec.example()));
            }
            Err(error) => return Err(error),
        };
        let info = self.reader.info(at).clone();
        self.reader.skip(at);
        if let Some(findings) = &mut self.findings {
            findings.take(at);
            let (reader, metadata, codes) = (&self.reader, &self.metadata, &mut self.codes);
            findings.checked(at, self.path.name(), reader.index().label(at), &info, spec, &mut |at| {
                codes.check_numbers(reader.index(), metadata, at).is_err()
            });
        }
        Ok(Loaded::without_payload(info))
    }
}

impl<'de> Source<'de> for Finder<'de> {
    fn tensor(&mut self, spec: &TensorSpec) -> Result<Loaded<'de>> {
        if self.findings.is_some() {
            return self.compare_tensor(spec);
        }
        let at = self.locate()?;
        self.last = Some(at);
        if let Some((info, bytes)) = self.reader.read_plain(at, spec) {
            return Ok(Loaded::from_checked(info.clone(), Payload::Borrowed(bytes)));
        }
        self.read(at, spec).map_err(|error| self.about(at, error))
    }

    fn tensor_into(&mut self, spec: &TensorSpec, shape: &[usize], bytes: &mut [u8]) -> Result<bool> {
        let at = self.locate()?;
        let read = self.reader.read_into(at, spec, shape, bytes).map_err(|error| self.about(at, error))?;
        if !read {
            self.at = At::Tensor(at);
        }
        Ok(read)
    }

    fn same_bytes(&mut self) -> Option<ArraysOf<'_>> {
        let at = self.last.filter(|_| self.findings.is_none())?;
        Some(self.shared.of(&self.reader.index().entry(at).range()))
    }

    fn fields(&mut self, def: &'static StructDef, each: EachPart<'_, 'de>) -> Result<()> {
        if matches!(self.way, Way::Open | Way::ByPosition) {
            self.settle(RootKind::Struct, Some(Node::Struct(def)))?;
        }
        self.struct_fields(def, each)
    }

    fn list(&mut self, each: EachPart<'_, 'de>) -> Result<()> {
        self.items(None, each)
    }

    fn tuple(&mut self, len: usize, each: EachPart<'_, 'de>) -> Result<()> {
        self.items(Some(len), each)
    }

    fn map(&mut self, key: KeyPart, each: EachEntry<'_, 'de>) -> Result<()> {
        self.entries(key, each)
    }

    fn expected_entries(&self) -> usize {
        // Elsewhere, they may belong to other places.
        if self.path.depth() == 1 { self.reader.unread_count() } else { 0 }
    }

    fn option(&mut self, some: EachPart<'_, 'de>) -> Result<()> {
        if self.is_some()? {
            return some(0, self);
        }
        self.at = At::Here;
        Ok(())
    }

    fn metadata(&mut self, kind: MetadataKind) -> Result<MetadataValue> {
        self.entry_here(kind)
    }
}

impl fmt::Debug for Finder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Finder").field("format", &self.format).field("path", &self.path).finish_non_exhaustive()
    }
}
