use serde::de::{DeserializeSeed, SeqAccess};

use super::number::{NumberDeserializer, wrong_length};
use super::{At, Deserializer, first_segment};
use crate::error::{Error, ErrorKind, Result};
use crate::model::TensorSource;
use crate::model::path::is_index;
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

/// The next values of a file that is read by position.
pub(super) struct PositionalAccess<'a, S> {
    de: &'a mut Deserializer<S>,
    left: Option<usize>,
    /// Whether the next value is the first item of a list.
    opens_list: bool,
    /// The tensor that the list is, and how many of its elements are given.
    numbers: Option<(Tensor, usize)>,
}

impl<'a, S> PositionalAccess<'a, S> {
    pub(super) fn fields(de: &'a mut Deserializer<S>, len: usize) -> Self {
        Self { de, left: Some(len), opens_list: false, numbers: None }
    }

    pub(super) fn items(de: &'a mut Deserializer<S>, len: Option<usize>) -> Self {
        Self { de, left: len, opens_list: true, numbers: None }
    }

    /// The next number of a list that is a tensor; the type must take them all.
    fn next_number<'de, T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        let Some((tensor, given)) = &mut self.numbers else { return Ok(None) };
        let size = tensor.dtype().block_bytes();
        let rest = tensor.as_bytes().get(*given * size..).unwrap_or_default();
        *given += 1;
        match rest.get(..size) {
            Some(number) => seed.deserialize(NumberDeserializer::new(tensor.info(), number)).map(Some),
            None => Ok(None),
        }
    }

    fn check_all_given(&self) -> Result<()> {
        match &self.numbers {
            Some((tensor, given)) if *given < tensor.shape()[0] => Err(wrong_length(tensor.info(), *given)),
            _ => Ok(()),
        }
    }
}

impl<'de, S: TensorSource<'de>> SeqAccess<'de> for PositionalAccess<'_, S> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        if let Some(left) = &mut self.left {
            if *left == 0 {
                return Ok(None);
            }
            *left -= 1;
        }
        if self.numbers.is_some() {
            let number = self.next_number(seed)?;
            if self.left == Some(0) {
                self.check_all_given()?;
            }
            return Ok(number);
        }
        if self.left.is_none() && self.de.source.peek()?.is_none() {
            return Ok(None);
        }
        self.de.opens_list = std::mem::take(&mut self.opens_list);
        let value = seed.deserialize(&mut *self.de)?;
        self.de.opens_list = false;
        self.numbers = self.de.opened.take().map(|tensor| (tensor, 1));
        if self.left == Some(0) {
            self.check_all_given()?;
        }
        Ok(Some(value))
    }
}
