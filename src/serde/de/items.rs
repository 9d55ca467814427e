use serde::de::{DeserializeSeed, SeqAccess};

use super::number::{NumberDeserializer, wrong_length};
use crate::error::{Error, ErrorKind, Result};
use crate::find::{At, Deserializer};
use crate::model::{Loaded, first_segment, is_index, needs_names};

/// The items of a list, found by their numbers in the names.
pub(super) struct ItemsAccess<'a, 'de> {
    de: &'a mut Deserializer<'de>,
    index: usize,
    /// The number of items, if the type tells it. Items that are absent are then asked for too.
    len: Option<usize>,
    is_present: bool,
}

impl<'a, 'de> ItemsAccess<'a, 'de> {
    pub(super) fn new(de: &'a mut Deserializer<'de>, len: Option<usize>, at: At) -> Self {
        Self { de, index: 0, len, is_present: at != At::Absent }
    }

    /// Goes to the next item. Returns whether there is one.
    fn enter(&mut self) -> Result<bool> {
        if self.len.map_or(!self.is_present, |len| self.index == len) {
            return Ok(false);
        }
        let place = self.de.path.push_index(self.index);
        let is_present = self.is_present && self.de.next_here()?.is_some();
        if !is_present && self.len.is_none() {
            self.de.path.back_to(place);
            self.check_end()?;
            return Ok(false);
        }
        self.de.at = if is_present { At::Here } else { At::Absent };
        Ok(true)
    }

    /// An item after the end means that one before it is missing.
    fn check_end(&mut self) -> Result<()> {
        let Some(left) = self.de.reader.first_under(self.de.path.prefix()) else { return Ok(()) };
        let left = self.de.reader.name(left);
        if !is_index(first_segment(self.de.path.strip(left).unwrap_or_default())) {
            return Ok(());
        }
        let found = vec![left.to_owned()];
        self.de.path.push_index(self.index);
        Err(ErrorKind::Missing { name: self.de.path.name().to_owned(), found, complete: true }.into())
    }
}

impl<'de> SeqAccess<'de> for ItemsAccess<'_, 'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        let place = self.de.path.mark();
        if !self.enter()? {
            return Ok(None);
        }
        let value = self.de.value(seed)?;
        self.de.path.back_to(place);
        self.index += 1;
        Ok(Some(value))
    }
}

/// The fields of a struct that is read by position.
pub(super) struct FieldsInOrder<'a, 'de> {
    de: &'a mut Deserializer<'de>,
    left: usize,
}

impl<'a, 'de> FieldsInOrder<'a, 'de> {
    pub(super) fn new(de: &'a mut Deserializer<'de>, fields: usize) -> Self {
        Self { de, left: fields }
    }
}

impl<'de> SeqAccess<'de> for FieldsInOrder<'_, 'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        let place = self.de.path.push("");
        let value = self.de.value(seed)?;
        self.de.path.back_to(place);
        Ok(Some(value))
    }
}

/// The items of a list that is read by position, or the elements of the one tensor that it is.
pub(super) struct ItemsInOrder<'a, 'de> {
    de: &'a mut Deserializer<'de>,
    index: usize,
    /// The number of items, if the type tells it.
    len: Option<usize>,
    /// The list is the whole file. Only then may it be of any length and hold more than numbers.
    is_root: bool,
    /// The tensor that the list is. Its next element is the one numbered `index`.
    numbers: Option<Loaded<'de>>,
}

impl<'a, 'de> ItemsInOrder<'a, 'de> {
    pub(super) fn new(de: &'a mut Deserializer<'de>, len: Option<usize>) -> Self {
        let is_root = de.path.is_root();
        Self { de, index: 0, len, is_root, numbers: None }
    }

    /// Returns the next value, or `None` at the end of a list of any length.
    fn value<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        if let Some(tensor) = &self.numbers {
            let number = tensor.as_bytes().chunks_exact(tensor.info().dtype.block_bytes()).nth(self.index);
            return number.map(|number| seed.deserialize(NumberDeserializer::new(tensor.info(), number))).transpose();
        }
        if self.len.is_none() && self.de.reader.peek()?.is_none() {
            return Ok(None);
        }
        let place = self.de.path.push_index(self.index);
        (self.de.opens_list, self.de.takes_item) = (self.index == 0, self.len.is_none());
        let value = self.de.value(seed)?;
        (self.de.opens_list, self.de.takes_item) = (false, false);
        self.de.path.back_to(place);
        self.numbers = self.de.opened.take();
        // The tensor after the list in its struct could as well be its next item.
        if self.numbers.is_none() && self.len.is_none() && !self.is_root {
            return Err(needs_names("a list inside of another value"));
        }
        Ok(Some(value))
    }

    /// Checks that no element of the tensor that the list is was left.
    fn check_end(&self) -> Result<()> {
        match &self.numbers {
            Some(tensor) if self.index < tensor.info().shape[0] => Err(wrong_length(tensor.info(), self.index)),
            _ => Ok(()),
        }
    }
}

impl<'de> SeqAccess<'de> for ItemsInOrder<'_, 'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        // The first item may have been a struct whose type gave every tensor its name.
        if !self.de.positional {
            let mut items = ItemsAccess { de: &mut *self.de, index: self.index, len: self.len, is_present: true };
            let value = items.next_element_seed(seed)?;
            self.index = items.index;
            return Ok(value);
        }
        if self.len == Some(self.index) {
            return Ok(None);
        }
        let value = self.value(seed)?;
        self.index += usize::from(value.is_some());
        if self.len == Some(self.index) {
            self.check_end()?;
        }
        Ok(value)
    }
}
