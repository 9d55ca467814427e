use serde::de::{DeserializeSeed, SeqAccess};

use super::number::{NumberDeserializer, wrong_length};
use super::{At, Deserializer};
use crate::error::{Error, ErrorKind, Result};
use crate::model::TensorSource;
use crate::model::path::{first_segment, is_index};
use crate::model::positional::needs_names;
use crate::tensor::Tensor;

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
        let Some(left) = self.de.source.first_under(self.de.path.prefix()) else { return Ok(()) };
        let rest = self.de.path.strip(self.de.source.name(left)).unwrap_or_default();
        if !is_index(first_segment(rest)) {
            return Ok(());
        }
        self.de.path.push_index(self.index);
        let (name, found) = (self.de.path.name().to_owned(), vec![self.de.source.name(left).to_owned()]);
        Err(ErrorKind::Missing { name, found, complete: true }.into())
    }
}

impl<'de, S: TensorSource<'de>> SeqAccess<'de> for ItemsAccess<'_, S> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        if self.len.map_or(self.absent, |len| self.index == len) {
            return Ok(None);
        }
        let place = self.de.path.push_index(self.index);
        let present = !self.absent && self.de.is_present()?;
        if !present && self.len.is_none() {
            self.de.path.back_to(place);
            return self.check_end().map(|()| None);
        }
        self.de.at = if present { At::Here } else { At::Absent };
        let value = seed.deserialize(&mut *self.de)?;
        self.de.path.back_to(place);
        self.index += 1;
        Ok(Some(value))
    }
}

/// The fields of a struct that is read by position.
pub(super) struct PositionalFields<'a, S> {
    de: &'a mut Deserializer<S>,
    left: usize,
}

impl<'a, S> PositionalFields<'a, S> {
    pub(super) fn new(de: &'a mut Deserializer<S>, fields: usize) -> Self {
        Self { de, left: fields }
    }
}

impl<'de, S: TensorSource<'de>> SeqAccess<'de> for PositionalFields<'_, S> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        let place = self.de.path.push("");
        let value = seed.deserialize(&mut *self.de)?;
        self.de.path.back_to(place);
        Ok(Some(value))
    }
}

/// The items of a list that is read by position, or the elements of the one tensor that it is.
pub(super) struct PositionalItems<'a, S> {
    de: &'a mut Deserializer<S>,
    index: usize,
    /// How many items there are, where the type tells.
    len: Option<usize>,
    /// Whether the list is the whole file; only then may it be of any length and hold more than numbers.
    is_root: bool,
    /// The tensor that the list is, of which the next element is the `index`-th.
    numbers: Option<Tensor>,
}

impl<'a, 'de, S: TensorSource<'de>> PositionalItems<'a, S> {
    pub(super) fn new(de: &'a mut Deserializer<S>, len: Option<usize>) -> Self {
        let is_root = de.path.is_root();
        Self { de, index: 0, len, is_root, numbers: None }
    }

    /// The next value; `None` where a list of any length ends.
    fn value<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        if let Some(tensor) = &self.numbers {
            let size = tensor.dtype().block_bytes();
            let number = tensor.as_bytes().chunks_exact(size).nth(self.index);
            return number.map(|number| seed.deserialize(NumberDeserializer::new(tensor.info(), number))).transpose();
        }
        if self.len.is_none() && self.de.source.peek()?.is_none() {
            return Ok(None);
        }
        let place = self.de.path.push_index(self.index);
        (self.de.opens_list, self.de.takes_item) = (self.index == 0, self.len.is_none());
        let value = seed.deserialize(&mut *self.de)?;
        (self.de.opens_list, self.de.takes_item) = (false, false);
        self.de.path.back_to(place);
        self.numbers = self.de.opened.take();
        // What follows the list in its struct could as well be its next item.
        if self.numbers.is_none() && self.len.is_none() && !self.is_root {
            return Err(needs_names("a list inside of another value"));
        }
        Ok(Some(value))
    }

    /// Checks that no element of the tensor that the list is was left.
    fn check_end(&self) -> Result<()> {
        match &self.numbers {
            Some(tensor) if self.index < tensor.shape()[0] => Err(wrong_length(tensor.info(), self.index)),
            _ => Ok(()),
        }
    }
}

impl<'de, S: TensorSource<'de>> SeqAccess<'de> for PositionalItems<'_, S> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        // The first item may have been a struct whose schema gave every tensor its name.
        if !self.de.positional {
            let mut items = ItemsAccess { de: &mut *self.de, index: self.index, len: self.len, absent: false };
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
