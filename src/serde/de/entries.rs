use std::cell::Cell;

use crate::error::Result;
use crate::find::{At, Finder};
use crate::model::{KeyPart, Mark};

/// The entries of a map.
///
/// `a.b` is the key `a.b` of a map of tensors, but the key `a` of a map of structs. The type of the values shows only
/// during deserialization. So if both are requested at once, the value is read before its key; a key requested alone is
/// the whole name, unless the type names the part it wants.
pub(super) struct MapEntries<'a, 'de> {
    de: &'a mut Finder<'de>,
    /// The place of the map.
    place: Mark,
    is_present: bool,
    /// If there are no entries, all of the map is missing.
    must_find: bool,
    /// The part of the name used as key.
    part: Cell<KeyPart>,
    /// The first tensor of the entry.
    first: Option<usize>,
}

impl<'a, 'de> MapEntries<'a, 'de> {
    pub(super) fn new(de: &'a mut Finder<'de>, at: At) -> Self {
        let (place, is_present) = (de.path.mark(), at != At::Absent);
        let must_find = de.scope.skips_unknown && at != At::Shared;
        Self { de, place, is_present, must_find, part: Cell::new(KeyPart::Whole), first: None }
    }

    /// Goes to the value of the next entry. Returns whether there is one.
    pub(super) fn go_to_value_before_key(&mut self) -> Result<bool> {
        self.find_next()?;
        if let Some(first) = self.first {
            self.de.at = At::Entry(first);
        }
        Ok(self.first.is_some())
    }

    /// Returns the key of the last value, and the cell for the requested part of it.
    pub(super) fn key(&mut self) -> (&str, &Cell<KeyPart>) {
        self.de.last = None;
        self.part.set(KeyPart::Whole);
        (self.de.path.since(self.place), &self.part)
    }

    /// Goes to the next key, and returns what [`key`](Self::key) does.
    pub(super) fn go_to_key(&mut self) -> Result<Option<(&str, &Cell<KeyPart>)>> {
        self.find_next()?;
        let Some(first) = self.first else { return Ok(None) };
        let name = self.de.reader.name(first);
        self.part.set(KeyPart::Whole);
        Ok(Some((self.de.path.strip(name).unwrap_or(name), &self.part)))
    }

    /// Goes to the value of the key.
    pub(super) fn go_to_value(&mut self) -> Result<()> {
        self.find_next()?;
        if let Some(first) = self.first {
            self.de.enter_entry(first, self.part.get());
        }
        self.de.at = At::Here;
        Ok(())
    }

    pub(super) fn deserializer(&mut self) -> &mut Finder<'de> {
        self.de
    }

    /// Returns to the map. An entry with an unread first tensor must not come again.
    pub(super) fn end_value(&mut self) -> Result<()> {
        self.de.end_part(self.place);
        match self.first {
            Some(first) if !self.de.reader.is_read(first) => self.de.unexpected(first),
            _ => Ok(()),
        }
    }

    /// Finds the next entry. A tensor with the name of the map is not an entry of it.
    fn find_next(&mut self) -> Result<()> {
        self.first = None;
        let must_find = std::mem::take(&mut self.must_find);
        if self.is_present {
            let next = self.de.next_here()?;
            self.first = next.filter(|at| self.de.path.is_root() || !self.de.path.is(self.de.reader.name(*at)));
        }
        if must_find && self.first.is_none() { Err(self.de.missing()) } else { Ok(()) }
    }
}
