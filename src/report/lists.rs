//! Lists, arrays, tuples and maps by name, as `model::de::items` and `model::de::entries` find their parts.

use std::collections::{BTreeSet, HashSet};

use super::walk::{At, Walk};
use crate::model::{Node, Slot, first_segment, is_index, list_key};
use crate::tensor::Layout;

impl Walk {
    /// A list of as many items as there are.
    pub(super) fn list(&mut self, item: &Node, at: At) {
        if at == At::Absent || !self.enter_list(at, 0) {
            return;
        }
        let mut len = 0;
        while self.item(item, len, At::Here) {
            len += 1;
        }
        self.later_items(item, len);
    }

    /// The items of an array or a tuple.
    pub(super) fn items(&mut self, at: At, items: &[&Node]) {
        if at != At::Absent && !self.enter_list(at, items.len()) {
            return;
        }
        for (index, item) in items.iter().enumerate() {
            if at == At::Absent || !self.item(item, index, At::Here) {
                self.absent_item(item, index);
            }
        }
    }

    /// Goes to the list; whether it is one of items. Where one tensor has its name, the list is that tensor's elements,
    /// and none of our types is such an element.
    fn enter_list(&mut self, at: At, len: usize) -> bool {
        if let At::Entry(first) = at {
            self.enter_entry(first, list_key);
        }
        let Some(here) = self.next_under().filter(|here| self.path.is(self.index.name(*here))) else { return true };
        let info = self.index.entry(here).info();
        let is_empty = info.layout == Layout::RowMajor && info.shape.rank() == 1 && info.shape.elements() == Some(0);
        if is_empty && len == 0 {
            self.take(here, &Slot::ANY);
        } else {
            self.take_instead(here, "a list of tensors");
        }
        false
    }

    /// Compares an item; whether it is there.
    fn item(&mut self, item: &Node, index: usize, at: At) -> bool {
        let place = self.path.push_index(index);
        let present = self.next_under().is_some();
        if present {
            self.trail.push(index);
            self.node(item, at);
            self.trail.pop();
        }
        self.path.back_to(place);
        present
    }

    fn absent_item(&mut self, item: &Node, index: usize) {
        let place = self.path.push_index(index);
        self.trail.push(index);
        self.node(item, At::Absent);
        self.trail.pop();
        self.path.back_to(place);
    }

    /// An item past the end means that one before it is missing.
    fn later_items(&mut self, item: &Node, len: usize) {
        let mut later = BTreeSet::new();
        while let Some(left) = self.index.first_under(self.path.prefix()) {
            let name = self.index.name(left);
            let segment = first_segment(self.path.strip(name).unwrap_or(name));
            if !is_index(segment) {
                break;
            }
            match segment.parse() {
                Ok(index) if index > len && later.insert(index) => _ = self.item(item, index, At::Here),
                // What the items themselves have left.
                _ => self.unexpected(left),
            }
        }
        let mut next = len;
        for index in later {
            if index > next {
                self.found.gap(self.path.prefix().unwrap_or_default(), next..index, &self.trail);
            }
            next = index + 1;
        }
    }

    pub(super) fn map(&mut self, value: &Node, at: At) {
        if at == At::Absent {
            return;
        }
        if let At::Entry(first) = at {
            self.enter_entry(first, first_segment);
        }
        self.take_no_parts(at, "a map");
        let place = self.path.mark();
        let mut keys = HashSet::new();
        // A tensor that has the name of the map is no entry of it.
        while let Some(next) = self.next_under()
            && (self.path.is_root() || !self.path.is(self.index.name(next)))
        {
            self.trail.push(keys.len());
            self.node(value, At::Entry(next));
            self.trail.pop();
            let is_new = keys.insert(self.path.since(place).to_owned());
            self.path.back_to(place);
            // Where an entry does not take its own tensors, or another one has its key, the map has the key twice.
            if !is_new || !self.index.is_read(next) {
                self.unexpected(next);
            }
        }
    }
}
