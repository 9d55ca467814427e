//! The items of a list: found by name or by position, or the elements of one tensor.

use crate::error::{Error, ErrorKind, Result};
use crate::find::{At, Finder};
use crate::model::{Loaded, Mark, first_segment, is_index, needs_names};
use crate::tensor::TensorInfo;

/// The items of a list.
pub(super) struct ListItems<'a, 'de> {
    de: &'a mut Finder<'de>,
    /// The place of the list.
    place: Mark,
    /// The number of the next item.
    next: usize,
    /// The number of items, if fixed by the type. Absent items are then requested too.
    len: Option<usize>,
    order: Order<'de>,
}

enum Order<'de> {
    /// Items are found by their numbers in the names.
    ByName { is_present: bool },
    /// The list is missing. Its first item is requested, so that the message lists its tensors.
    Missing,
    /// Each item begins with the next tensor.
    ByPosition,
    /// The list is one tensor, as its first item has shown.
    Elements(Box<Loaded<'de>>),
}

impl<'a, 'de> ListItems<'a, 'de> {
    pub(super) fn by_name(de: &'a mut Finder<'de>, len: Option<usize>, is_present: bool) -> Self {
        Self { place: de.path.mark(), de, next: 0, len, order: Order::ByName { is_present } }
    }

    pub(super) fn by_position(de: &'a mut Finder<'de>, len: Option<usize>) -> Self {
        Self { place: de.path.mark(), de, next: 0, len, order: Order::ByPosition }
    }

    /// Goes to the next item. Returns whether there is one.
    pub(super) fn go_to_item(&mut self) -> Result<bool> {
        // The first item may have been a struct whose type named every tensor.
        if matches!(self.order, Order::ByPosition) && !self.de.is_positional() {
            self.order = Order::ByName { is_present: true };
        }
        match self.order {
            Order::Elements(ref tensor) => {
                Ok(self.len != Some(self.next) && tensor.info().shape.dims().first() > Some(&self.next))
            }
            Order::ByName { is_present } => self.next_by_name(is_present),
            Order::Missing => Err(self.de.missing()),
            Order::ByPosition => self.next_by_position(),
        }
    }

    /// Returns the tensor that holds the list, and the index of its next element.
    pub(super) fn elements(&self) -> Option<(&Loaded<'de>, usize)> {
        match &self.order {
            Order::Elements(tensor) => Some((tensor, self.next)),
            _ => None,
        }
    }

    pub(super) fn deserializer(&mut self) -> &mut Finder<'de> {
        self.de
    }

    fn next_by_name(&mut self, is_present: bool) -> Result<bool> {
        if self.len == Some(self.next) {
            return Ok(false);
        }
        self.de.path.push_index(self.next);
        let is_item = is_present && self.de.next_here()?.is_some();
        if !is_item && self.len.is_none() {
            self.de.path.back_to(self.place);
            if is_present {
                self.check_end()?;
            }
            if self.next > 0 || !self.de.scope.skips_unknown {
                return Ok(false);
            }
            self.order = Order::Missing;
            self.de.scope.skips_unknown = false;
            self.de.path.push_index(0);
        }
        // A list of numbers that is the whole value is one tensor, called by its position.
        self.de.item.opens_list = is_item && self.next == 0 && self.place.is_root();
        let is_present = is_item;
        self.de.at = if is_present { At::Here } else { At::Absent };
        Ok(true)
    }

    fn next_by_position(&mut self) -> Result<bool> {
        let ends = match self.len {
            Some(len) => self.next == len,
            None => self.de.reader.peek()?.is_none(),
        };
        if ends {
            // A list without tensors is refused on writing, unless it is the whole value.
            let is_missing = self.len.is_none() && self.next == 0 && !self.place.is_root();
            return if is_missing { Err(self.de.no_more_tensors()) } else { Ok(false) };
        }
        self.de.path.push_index(self.next);
        (self.de.item.opens_list, self.de.item.of_any_length) = (self.next == 0, self.len.is_none());
        Ok(true)
    }

    /// Goes back from an item.
    pub(super) fn end_item(&mut self) -> Result<()> {
        self.next += 1;
        if !matches!(self.order, Order::Elements(_)) {
            (self.de.item.opens_list, self.de.item.of_any_length) = (false, false);
            self.de.end_part(self.place);
        }
        match (self.de.item.opened.take(), &self.order) {
            (Some(tensor), _) => self.order = Order::Elements(Box::new(tensor)),
            // The tensor after the list in its struct could as well be its next item.
            (None, Order::ByPosition) if self.len.is_none() && !self.place.is_root() => {
                return Err(needs_names("a list inside of another value"));
            }
            (None, _) => {}
        }
        match &self.order {
            Order::Elements(tensor) if self.len == Some(self.next) => check_all_taken(tensor.info(), self.next),
            _ => Ok(()),
        }
    }

    /// An item after the end means a missing one before it.
    fn check_end(&mut self) -> Result<()> {
        let Some(left) = self.de.reader.first_under(self.de.path.prefix()) else { return Ok(()) };
        let left = self.de.reader.name(left);
        if !is_index(first_segment(self.de.path.strip(left).unwrap_or_default())) {
            return Ok(());
        }
        let found = vec![left.to_owned()];
        self.de.path.push_index(self.next);
        Err(ErrorKind::Missing { name: self.de.path.name().to_owned(), found, others: 0, complete: true }.into())
    }
}

/// Checks that a type took all elements of a list.
pub(super) fn check_all_taken(info: &TensorInfo, taken: usize) -> Result<()> {
    if info.shape.elements() == Some(taken) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::WrongShape { found: info.clone(), expected: format!("[{taken}]") }))
}
