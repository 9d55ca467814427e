use serde::de::{DeserializeSeed, SeqAccess};

use super::{At, Deserializer, first_segment};
use crate::error::{Error, ErrorKind, Result};
use crate::model::TensorSource;
use crate::model::path::{is_index, strip};

/// The items of a list, found by their index in the name.
pub(super) struct ItemsAccess<'a, S> {
    de: &'a mut Deserializer<S>,
    index: usize,
    /// How many items there are, where the type tells; it is then asked about absent ones too.
    len: Option<usize>,
    absent: bool,
}

impl<'a, 'de, S: TensorSource<'de>> ItemsAccess<'a, S> {
    pub(super) fn new(de: &'a mut Deserializer<S>, len: Option<usize>, absent: bool) -> Self {
        Self { de, index: 0, len, absent }
    }

    /// An item past the end means that one before it is missing.
    fn check_end(&mut self) -> Result<()> {
        let Some(left) = self.de.source.first_under(self.de.path.as_str()) else { return Ok(()) };
        let rest = strip(self.de.source.name(left), self.de.path.as_str()).unwrap_or_default();
        if !is_index(first_segment(rest)) {
            return Ok(());
        }
        self.de.path.push_index(self.index);
        let (name, found) = (self.de.path.as_str().to_owned(), vec![self.de.source.name(left).to_owned()]);
        Err(ErrorKind::Missing { name, found, complete: true }.into())
    }
}

impl<'de, S: TensorSource<'de>> SeqAccess<'de> for ItemsAccess<'_, S> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        if self.len.map_or(self.absent, |len| self.index == len) {
            return Ok(None);
        }
        let path = self.de.path.push_index(self.index);
        let present = !self.absent && self.de.is_present()?;
        if !present && self.len.is_none() {
            self.de.path.truncate(path);
            return self.check_end().map(|()| None);
        }
        self.de.at = if present { At::Here } else { At::Absent };
        let value = seed.deserialize(&mut *self.de)?;
        self.de.path.truncate(path);
        self.index += 1;
        Ok(Some(value))
    }
}

/// The next values of a file that is read by position.
pub(super) struct PositionalAccess<'a, S> {
    de: &'a mut Deserializer<S>,
    left: Option<usize>,
}

impl<'a, S> PositionalAccess<'a, S> {
    pub(super) fn new(de: &'a mut Deserializer<S>, len: Option<usize>) -> Self {
        Self { de, left: len }
    }
}

impl<'de, S: TensorSource<'de>> SeqAccess<'de> for PositionalAccess<'_, S> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        match &mut self.left {
            Some(0) => return Ok(None),
            Some(left) => *left -= 1,
            None if self.de.source.peek()?.is_none() => return Ok(None),
            None => {}
        }
        seed.deserialize(&mut *self.de).map(Some)
    }
}
