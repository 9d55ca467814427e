//! Lists, tuples and maps.

use std::collections::HashSet;

use super::root::RootKind;
use super::{At, Finder};
use crate::error::{ErrorKind, Result};
use crate::model::{EachEntry, EachPart, KeyPart, first_segment, is_index, needs_names};
use crate::tensor::{Layout, sorted};

impl<'de> Finder<'de> {
    /// Calls `each` with the items of a list, or of a tuple of `len` items.
    pub(super) fn items(&mut self, len: Option<usize>, mut each: EachPart<'_, 'de>) -> Result<()> {
        self.settle(RootKind::List, None)?;
        self.path.check_depth()?;
        (self.item.opens_list, self.item.of_any_length) = (false, false);
        let at = self.take_place();
        if self.is_positional() {
            return self.items_by_position(len, &mut each);
        }
        if at != At::Absent && self.is_one_tensor(len)? {
            return Ok(());
        }
        let list = self.path.mark();
        let mut index = 0;
        while len != Some(index) {
            let item = self.path.go_to_item(list, index);
            let is_present = at != At::Absent && self.next_here()?.is_some();
            if !is_present && len.is_none() {
                break;
            }
            self.at = if is_present { At::Here } else { At::Absent };
            self.part(index, &mut each)?;
            self.path.back_to(item);
            index += 1;
        }
        self.path.back_to(list);
        if len.is_some() {
            return Ok(());
        }
        let has_later = at != At::Absent && self.later_items(index, &mut each)?;
        if index == 0 && !has_later && self.scope.skips_unknown { self.missing_list(&mut each) } else { Ok(()) }
    }

    /// Reports a missing list by the tensors of its first item.
    fn missing_list(&mut self, each: &mut EachPart<'_, 'de>) -> Result<()> {
        let found = self.findings.as_ref().map_or(0, |findings| findings.missing_count());
        let outer = std::mem::take(&mut self.scope.skips_unknown);
        let list = self.path.mark();
        self.path.push_index(0);
        self.at = At::Absent;
        self.part(0, each)?;
        self.path.back_to(list);
        self.scope.skips_unknown = outer;
        match &self.findings {
            Some(findings) if findings.missing_count() > found => Ok(()),
            // All tensors of an item are optional.
            _ => self.missing_parts("a list of tensors"),
        }
    }

    /// Reports a list or a map as missing.
    fn missing_parts(&mut self, expected: &str) -> Result<()> {
        match &mut self.findings {
            Some(findings) => {
                findings.missing_parts(self.path.name(), expected);
                Ok(())
            }
            None => Err(self.missing()),
        }
    }

    fn items_by_position(&mut self, len: Option<usize>, each: &mut EachPart<'_, 'de>) -> Result<()> {
        // The tensor after the list could as well be its next item.
        if len.is_none() && !self.path.is_root() && self.reader.peek()?.is_some() {
            return Err(needs_names("a list inside of another value"));
        }
        let list = self.path.mark();
        let mut index = 0;
        while len.map_or(self.reader.peek()?.is_some(), |len| index < len) {
            let item = self.path.go_to_item(list, index);
            self.item.of_any_length = len.is_none();
            self.part(index, each)?;
            self.item.of_any_length = false;
            self.path.back_to(item);
            index += 1;
        }
        self.path.back_to(list);
        Ok(())
    }

    /// Returns whether one tensor has the name of the list. Unless both are empty, this is an error: the items of the
    /// list are not the elements of a tensor.
    fn is_one_tensor(&mut self, len: Option<usize>) -> Result<bool> {
        let here = self.next_here()?;
        let Some(here) = here.filter(|here| self.path.is(self.reader.name(*here))) else { return Ok(false) };
        let info = self.reader.info(here);
        let is_empty = info.layout == Layout::RowMajor && info.shape.rank() == 1 && info.shape.elements() == Some(0);
        if !is_empty || len.is_some_and(|len| len > 0) {
            return self.wrong_layout(here, "a list of tensors").map(|()| true);
        }
        if let Some(findings) = &mut self.findings {
            findings.take(here);
            findings.fits(here, self.reader.info(here));
        }
        self.reader.skip(here);
        Ok(true)
    }

    /// Looks for items after the end of a list: one would mean a missing item.
    ///
    /// Returns whether there is one, in a report.
    fn later_items(&mut self, len: usize, each: &mut EachPart<'_, 'de>) -> Result<bool> {
        let mut later = HashSet::new();
        while let Some(left) = self.reader.first_under(self.path.prefix()) {
            let name = self.reader.name(left);
            let segment = first_segment(self.path.strip(name).unwrap_or(name));
            if !is_index(segment) {
                break;
            }
            let Some(findings) = &mut self.findings else {
                let found = vec![name.to_owned()];
                self.path.push_index(len);
                return Err(
                    ErrorKind::Missing { name: self.path.name().to_owned(), found, others: 0, complete: true }.into()
                );
            };
            match segment.parse() {
                Ok(index) if index > len && later.insert(index) => {
                    let place = self.path.push_index(index);
                    self.part(index, each)?;
                    self.path.back_to(place);
                }
                // A tensor left unread by the items.
                _ => {
                    findings.unexpected(left, self.reader.index().label(left), self.reader.info(left));
                    self.reader.skip(left);
                }
            }
        }
        let has_later = !later.is_empty();
        let mut next = len;
        for index in sorted::values(later.into_iter().collect(), &mut |one: &usize, other| one.cmp(other)) {
            if let Some(findings) = &mut self.findings
                && index > next
            {
                findings.gap(self.path.prefix().unwrap_or_default(), next..index);
            }
            next = index + 1;
        }
        Ok(has_later)
    }

    /// Calls `each` with the entries of a map.
    pub(super) fn entries(&mut self, key: KeyPart, each: EachEntry<'_, 'de>) -> Result<()> {
        self.settle(RootKind::Map, None)?;
        self.path.check_depth()?;
        let at = self.take_place();
        if self.is_positional() {
            return Err(needs_names("a map"));
        }
        // A flattened map takes the remaining tensors, possibly none.
        let must_find = self.scope.skips_unknown && at != At::Shared;
        if at == At::Absent {
            return if must_find { self.missing_parts("a map of tensors") } else { Ok(()) };
        }
        self.check_has_parts(at, "a map")?;
        let place = self.path.mark();
        // Reuse one string for all keys.
        let (mut keys, mut text) = (HashSet::new(), String::new());
        let mut number = 0;
        // A tensor with the name of the map is not an entry of it.
        while let Some(next) = self.next_here()?
            && !self.path.is(self.reader.name(next))
        {
            self.enter_entry(next, key);
            text.clear();
            text.push_str(self.path.since(place));
            let is_new = self.findings.is_none() || keys.insert(text.clone());
            self.last = None;
            if let Some(findings) = &mut self.findings {
                findings.trail.push(number);
            }
            each(&text, self).map_err(|error| self.blame(error))?;
            if let Some(findings) = &mut self.findings {
                findings.trail.pop();
            }
            self.last = None;
            // An entry that does not read its own tensors, or has a repeated key, must not come again.
            if !is_new || !self.reader.is_read(next) {
                self.unexpected(next)?;
            }
            self.path.back_to(place);
            number += 1;
        }
        if number == 0 && must_find { self.missing_parts("a map of tensors") } else { Ok(()) }
    }

    /// Reports a tensor without a place in the type.
    pub(crate) fn unexpected(&mut self, tensor: usize) -> Result<()> {
        let name = self.reader.index().label(tensor);
        match &mut self.findings {
            Some(findings) => {
                findings.unexpected(tensor, name, self.reader.info(tensor));
                self.reader.skip(tensor);
                Ok(())
            }
            None => {
                let kind = ErrorKind::Unexpected { name, expected: Vec::new(), complete: true };
                Err(self.about(tensor, kind.into()))
            }
        }
    }
}
