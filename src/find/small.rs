//! Loads a value from a file of a few tensors.

use crate::error::{ErrorKind, Result};
use crate::limits::Limits;
use crate::model::{
    EachEntry, EachPart, FieldDef, KeyPart, LoadFrom, Loaded, Node, Payload, Source, StructDef, TensorSpec, strip,
};
use crate::read::{ReadSmall, ReaderStorage, SmallIndex};
use crate::tensor::{Buffer, TensorInfo};

/// Loads a value from a small file, and returns whether it took all tensors as a [`Finder`](super::Finder) would have.
/// If not, the value is to be loaded again.
pub(super) fn load<'de>(
    storage: &mut ReaderStorage<'de>,
    read: ReadSmall,
    limits: &Limits,
    load: LoadFrom<'_, 'de>,
) -> bool {
    match storage {
        ReaderStorage::Slice(file) => {
            load_file(file.as_bytes(), read, limits, |_, bytes| Payload::Borrowed(bytes), load)
        }
        ReaderStorage::Boxed(storage) => storage.short_file().is_some_and(|file| {
            // The file is short, so copies of its payloads take little memory.
            let copy = |info: &TensorInfo, bytes: &[u8]| Payload::Owned(Buffer::from_slice(info.unit_bytes(), bytes));
            load_file(file, read, limits, copy, load)
        }),
    }
}

fn load_file<'f, 'de>(
    file: &'f [u8],
    read: ReadSmall,
    limits: &Limits,
    payload: fn(&TensorInfo, &'f [u8]) -> Payload<'de>,
    load: LoadFrom<'_, 'de>,
) -> bool {
    let mut index = SmallIndex::default();
    if index.read(read, file, limits).is_none() {
        return false;
    }
    let mut source = SmallSource { index: &mut index, payload, place: None, depth: 0 };
    load(&mut source).is_ok() && index.next().is_none()
}

/// Gives the tensors of a small file as a [`Finder`](super::Finder) does: by name, in file order as far as the type has
/// the same order, or by position if there are no names.
///
/// Any uncertainty is an internal [error](gives_up): missing or leftover tensors, and parts that need more than names,
/// such as flattened ones.
struct SmallSource<'a, 'f, 'de> {
    index: &'a mut SmallIndex<'f>,
    payload: fn(&TensorInfo, &'f [u8]) -> Payload<'de>,
    /// The name of this place, as a tensor begins with it; `None` at the root, and if there are no names.
    place: Option<&'f str>,
    /// The number of parts around this one.
    depth: usize,
}

impl<'f, 'de> SmallSource<'_, 'f, 'de> {
    /// Returns the rest of a tensor's name below this place.
    #[inline]
    fn rest(&self, index: usize) -> Option<&'f str> {
        let name = self.index.name(index);
        self.place.map_or(Some(name), |place| strip(name, place))
    }

    /// Returns the first unread tensor at a part of this place, or below it unless `exact`.
    fn find(&self, part: &str, exact: bool) -> Option<usize> {
        let is_there = |rest: &str| rest == part || !exact && strip(rest, part).is_some();
        self.index.unread().map(|(tensor, _)| tensor).find(|tensor| self.rest(*tensor).is_some_and(is_there))
    }

    /// Calls `each` at the part of this place with a name of `len` bytes, at or above a tensor.
    #[inline]
    fn enter(&mut self, tensor: usize, len: usize, each: &mut dyn FnMut(&mut Self) -> Result<()>) -> Result<()> {
        let outer = self.place;
        let start = outer.map_or(0, |place| place.len() + 1);
        self.place = Some(&self.index.name(tensor)[..start + len]);
        let loaded = self.deeper(each);
        self.place = outer;
        loaded
    }

    /// Calls `each` at a part of this place.
    #[inline]
    fn deeper(&mut self, each: &mut dyn FnMut(&mut Self) -> Result<()>) -> Result<()> {
        /// A recursive type may follow names until the stack overflows.
        const DEEPEST: usize = 64;
        if self.depth == DEEPEST {
            return gives_up();
        }
        self.depth += 1;
        let loaded = each(self);
        self.depth -= 1;
        loaded
    }

    /// Takes the fields of a struct in the order of the type, as the tensors have no names.
    fn fields_by_position(&mut self, def: &'static StructDef, each: &mut EachPart<'_, 'de>) -> Result<()> {
        // Such a field may match the file in several ways, or only by name.
        let needs_more = |field: &FieldDef| field.optional || needs_finder(field) || field.name.contains('.');
        if def.fields.iter().any(needs_more) {
            return gives_up();
        }
        (0..def.fields.len()).try_for_each(|number| self.deeper(&mut |source| each(number, source)))
    }

    /// Returns the unread field of a struct for a tensor, and the length of its name. Of two matches, the longer name
    /// wins.
    fn longest_fit(def: &'static StructDef, given: u64, rest: &str) -> Option<(usize, usize)> {
        let open = def.fields.iter().enumerate().filter(|(number, _)| given >> number & 1 == 0);
        let fits = open.flat_map(|(number, field)| field.names().map(move |name| (number, name)));
        let fits = fits.filter(|(_, name)| strip(rest, name).is_some());
        fits.map(|(number, name)| (number, name.len())).max_by_key(|(_, len)| *len)
    }

    /// Calls `each` with the fields that are missing, or come in a different order than the file's.
    fn remaining_fields(&mut self, def: &'static StructDef, given: u64, each: &mut EachPart<'_, 'de>) -> Result<()> {
        for (number, field) in def.fields.iter().enumerate().filter(|(number, _)| given >> number & 1 == 0) {
            let exact = is_tensor(field);
            let found = field.names().find_map(|name| Some((self.find(name, exact)?, name.len())));
            match found {
                Some((tensor, len)) => self.enter(tensor, len, &mut |source| each(number, source))?,
                None if field.optional => {}
                None => return gives_up(),
            }
        }
        Ok(())
    }

    /// Calls `each` with the items of a list, or of a tuple of `len` items.
    fn items(&mut self, len: Option<usize>, each: &mut EachPart<'_, 'de>) -> Result<()> {
        let mut index = 0;
        while len != Some(index) {
            if self.index.has_names() {
                let mut text = itoa::Buffer::new();
                let text = text.format(index);
                match self.find(text, false) {
                    // The root may be read by position.
                    Some(item) if self.place.is_some() => {
                        self.enter(item, text.len(), &mut |source| each(index, source))?
                    }
                    None if len.is_none() && index > 0 => return Ok(()),
                    // An empty list may be a missing one.
                    _ => return gives_up(),
                }
            } else {
                let next = self.index.next();
                if len.is_none() && (self.depth > 0 || next.is_none()) {
                    return if self.depth > 0 { gives_up() } else { Ok(()) };
                }
                self.deeper(&mut |source| each(index, source))?;
                // An item of nothing could be repeated.
                if len.is_none() && self.index.next() == next {
                    return gives_up();
                }
            }
            index += 1;
        }
        Ok(())
    }
}

impl<'de> Source<'de> for SmallSource<'_, '_, 'de> {
    fn tensor(&mut self, spec: &TensorSpec) -> Result<Loaded<'de>> {
        let tensor = match self.place {
            None => self.index.next(),
            Some(place) => self.index.unread().find(|(_, name)| *name == place).map(|(tensor, _)| tensor),
        };
        // One struct, made in its place: to move it takes longer than to find it.
        match tensor.and_then(|tensor| self.index.take(tensor, spec)) {
            Some((info, bytes)) => Ok(Loaded::from_checked(info.clone(), (self.payload)(info, bytes))),
            None => gives_up(),
        }
    }

    fn fields(&mut self, def: &'static StructDef, mut each: EachPart<'_, 'de>) -> Result<()> {
        if !self.index.has_names() {
            return self.fields_by_position(def, &mut each);
        }
        if def.allow_unknown || def.fields.len() > 64 || def.fields.iter().any(needs_finder) {
            return gives_up();
        }
        let (mut given, mut likely) = (0, 0);
        while let Some(next) = self.index.next()
            && let Some(rest) = self.rest(next)
        {
            let is_likely = |field: &&FieldDef| given >> likely & 1 == 0 && field.name == rest;
            let (field, len) = match def.fields.get(likely).filter(is_likely) {
                Some(field) => (likely, field.name.len()),
                None => match Self::longest_fit(def, given, rest) {
                    // A name below the name of a tensor belongs to another tensor.
                    Some((field, len)) if len == rest.len() || !is_tensor(&def.fields[field]) => (field, len),
                    _ => break,
                },
            };
            given |= 1 << field;
            likely = field + 1;
            self.enter(next, len, &mut |source| each(field, source))?;
        }
        self.remaining_fields(def, given, &mut each)
    }

    fn list(&mut self, mut each: EachPart<'_, 'de>) -> Result<()> {
        self.items(None, &mut each)
    }

    fn tuple(&mut self, len: usize, mut each: EachPart<'_, 'de>) -> Result<()> {
        self.items(Some(len), &mut each)
    }

    fn map(&mut self, key: KeyPart, each: EachEntry<'_, 'de>) -> Result<()> {
        let has_names = self.index.has_names();
        let is_known =
            if has_names { !self.index.has_repeated_names() } else { self.depth == 0 && key == KeyPart::Whole };
        let first = self.index.next();
        while let Some(next) = self.index.next().filter(|_| is_known) {
            if has_names {
                // Below a name, further tensors come in name order. A tensor at this very place is not an entry.
                let Some(rest) = self.rest(next).filter(|rest| !rest.is_empty()) else { break };
                let key = key.of(rest);
                self.enter(next, key.len(), &mut |source| each(key, source))?;
            } else {
                self.deeper(&mut |source| each(itoa::Buffer::new().format(next), source))?;
            }
            if self.index.is_unread(next) {
                return gives_up();
            }
        }
        let has_others = has_names && self.index.unread().any(|(tensor, _)| self.rest(tensor).is_some());
        if first == self.index.next() || has_others { gives_up() } else { Ok(()) }
    }

    fn expected_entries(&self) -> usize {
        if self.depth == 1 { self.index.len() } else { 0 }
    }

    fn option(&mut self, some: EachPart<'_, 'de>) -> Result<()> {
        // What has a name was found, and a file without tensors is not a small one.
        if self.index.has_names() || self.depth == 0 { self.deeper(&mut |source| some(0, source)) } else { gives_up() }
    }
}

/// Returns whether a field is one tensor.
fn is_tensor(field: &FieldDef) -> bool {
    matches!((field.node)().inner(), Node::Tensor(_))
}

/// Returns whether a field needs more than the names of tensors.
fn needs_finder(field: &FieldDef) -> bool {
    field.flatten || field.metadata || field.name.is_empty()
}

/// The error that makes a [`Finder`](super::Finder) load the value again. No user sees it.
#[cold]
fn gives_up<T>() -> Result<T> {
    Err(ErrorKind::Message(String::new()).into())
}
