use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::OnceLock;

use hashbrown::{DefaultHashBuilder, HashTable};

#[cfg(feature = "npy")]
use super::Coding;
use crate::error::{Error, ErrorKind, Result};
use crate::model::is_index;
use crate::tensor::TensorInfo;

/// A tensor of a file: what it is and where its bytes are.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The name that the file has for it, or the position once it was asked for.
    name: OnceLock<Box<str>>,
    has_name: bool,
    info: TensorInfo,
    range: Range<u64>,
    #[cfg(feature = "npy")]
    coding: Option<Box<Coding>>,
}

impl Entry {
    pub(crate) fn new(name: Option<String>, info: TensorInfo, range: Range<u64>) -> Self {
        let has_name = name.is_some();
        let name = name.map(|name| OnceLock::from(name.into_boxed_str())).unwrap_or_default();
        Self {
            name,
            has_name,
            info,
            range,
            #[cfg(feature = "npy")]
            coding: None,
        }
    }

    /// The same, with a payload that does not lie in its range as it is.
    #[cfg(feature = "npy")]
    pub(crate) fn coded(self, coding: Option<Coding>) -> Self {
        Self { coding: coding.map(Box::new), ..self }
    }

    /// How the payload lies in its range; `None` where it is that range.
    #[cfg(feature = "npy")]
    pub(crate) fn coding(&self) -> Option<&Coding> {
        self.coding.as_deref()
    }

    /// Whether the payload does not lie in its range as it is.
    pub(crate) fn is_coded(&self) -> bool {
        #[cfg(feature = "npy")]
        return self.coding.is_some();
        #[cfg(not(feature = "npy"))]
        false
    }

    /// The bytes of the payload, as it is passed on.
    pub(crate) fn payload_bytes(&self) -> u64 {
        #[cfg(feature = "npy")]
        if self.coding.is_some() {
            return self.info.payload_bytes().unwrap_or(usize::MAX) as u64;
        }
        self.range.end - self.range.start
    }

    pub(crate) fn has_name(&self) -> bool {
        self.has_name
    }

    /// What messages call the tensor that is the `number`-th of its file.
    pub(crate) fn label(&self, number: usize) -> String {
        match self.name.get() {
            Some(name) if self.has_name => name.to_string(),
            _ => format!("#{number}"),
        }
    }

    /// Dtype, shape and layout.
    #[must_use]
    pub fn info(&self) -> &TensorInfo {
        &self.info
    }

    /// Where the payload lies, in bytes from the start of the file; its bytes may be packed there.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }
}

/// The tensors of a file, and which of them have been read.
#[derive(Debug, Clone, Default)]
pub struct Index {
    entries: Vec<Entry>,
    /// The number of the first entry: those before are forgotten.
    start: usize,
    read: Vec<bool>,
    /// All before this one are read.
    first: usize,
    /// The number of entries that begin before the one before them.
    backwards: usize,
    by_name: HashTable<usize>,
    /// Whether the names are those of one more tensor, not the format's own.
    embedded_names: bool,
    hasher: DefaultHashBuilder,
    /// Made when a part of a name is looked for, once every tensor is known.
    sorted: Option<Sorted>,
}

/// The tensors in the order of their names.
#[derive(Debug, Clone)]
struct Sorted {
    order: Vec<usize>,
    /// Where each tensor stands in `order`.
    rank: Vec<usize>,
    /// For each place, itself or a later one such that all between are read.
    next: Vec<usize>,
}

impl Index {
    /// Adds the tensors of another file, which begins `start` bytes later, by their names there.
    #[cfg(feature = "shards")]
    pub(crate) fn append(&mut self, other: Self, start: u64) -> Result<()> {
        for (at, mut entry) in other.entries.into_iter().enumerate() {
            let name = entry.name.into_inner().unwrap_or_else(|| at.to_string().into_boxed_str());
            // As it would be in one file, a name that only says the position is none.
            entry.has_name = *name != *self.len().to_string();
            entry.name = OnceLock::from(name);
            entry.range = start.saturating_add(entry.range.start)..start.saturating_add(entry.range.end);
            self.push(entry)?;
        }
        self.embedded_names |= other.embedded_names;
        Ok(())
    }

    /// An index whose first tensor has that number in messages.
    pub(crate) fn starting_at(start: usize) -> Self {
        Self { start, ..Self::default() }
    }

    /// Adds a tensor.
    pub(crate) fn push(&mut self, entry: Entry) -> Result<()> {
        let at = self.entries.len();
        let offset = entry.range.start;
        self.backwards += usize::from(self.entries.last().is_some_and(|before| before.range.start > offset));
        self.entries.push(entry);
        self.read.push(false);
        self.sorted = None;
        if self.entries[at].has_name {
            self.add_name(at).map_err(|error| error.at(offset))?;
        }
        Ok(())
    }

    fn add_name(&mut self, at: usize) -> Result<()> {
        let hash = |at: &usize| self.hasher.hash_one(name_of(&self.entries, *at));
        let name = name_of(&self.entries, at);
        let same = |other: &usize| name_of(&self.entries, *other) == name;
        match self.by_name.entry(hash(&at), same, hash) {
            hashbrown::hash_table::Entry::Occupied(_) => {
                Err(Error::new(ErrorKind::DuplicateName { name: name.to_owned() }))
            }
            hashbrown::hash_table::Entry::Vacant(vacant) => {
                vacant.insert(at);
                Ok(())
            }
        }
    }

    /// Checks that no tensor's name is the position of one that has none.
    pub(crate) fn complete(&self) -> Result<()> {
        let is_mixed = !self.by_name.is_empty() && self.by_name.len() < self.entries.len();
        let unnamed = (0..self.entries.len()).filter(|&at| is_mixed && !self.entries[at].has_name);
        match unnamed.map(|at| self.name(at)).find(|name| self.find_named(name).is_some()) {
            Some(name) => Err(ErrorKind::DuplicateName { name: name.to_owned() }.into()),
            None => Ok(()),
        }
    }

    /// Lets go of all tensors.
    pub(crate) fn forget(&mut self) {
        self.start += self.entries.len();
        self.entries.clear();
        self.read.clear();
        self.by_name.clear();
        self.first = 0;
        self.sorted = None;
    }

    /// Calls the tensors by the names that one more tensor holds.
    pub(crate) fn embed(&mut self, names: Vec<String>) -> Result<()> {
        self.embedded_names = true;
        self.rename(names)
    }

    pub(crate) fn has_embedded_names(&self) -> bool {
        self.embedded_names
    }

    /// Calls the tensors by other names.
    pub(crate) fn rename(&mut self, names: Vec<String>) -> Result<()> {
        self.by_name.clear();
        self.sorted = None;
        for (at, name) in names.into_iter().enumerate() {
            self.entries[at].name = OnceLock::from(name.into_boxed_str());
            self.entries[at].has_name = true;
            self.add_name(at)?;
        }
        Ok(())
    }

    /// Whether the tensors lie in the file in the order of their numbers.
    pub(crate) fn is_in_file_order(&self) -> bool {
        self.backwards == 0
    }

    /// Whether any tensor so far has a name.
    pub(crate) fn has_names(&self) -> bool {
        !self.by_name.is_empty()
    }

    /// The number of tensors.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn entry(&self, at: usize) -> &Entry {
        &self.entries[at]
    }

    /// The name, or the position where there is none.
    pub(crate) fn name(&self, at: usize) -> &str {
        name_of(&self.entries, at)
    }

    /// The name in a message.
    pub(crate) fn label(&self, at: usize) -> String {
        self.entries[at].label(self.start + at)
    }

    /// The number of the entry that will be added next.
    pub(crate) fn next_number(&self) -> usize {
        self.start + self.entries.len()
    }

    pub(crate) fn mark_read(&mut self, at: usize) {
        self.read[at] = true;
        if let Some(sorted) = &mut self.sorted {
            let place = sorted.rank[at];
            sorted.next[place] = place + 1;
        }
    }

    pub(crate) fn is_read(&self, at: usize) -> bool {
        self.read[at]
    }

    /// The first tensor in file order that is not read.
    pub(crate) fn first_unread(&mut self) -> Option<usize> {
        while self.read.get(self.first) == Some(&true) {
            self.first += 1;
        }
        (self.first < self.entries.len()).then_some(self.first)
    }

    /// Names to show: of the tensors that are not read, or of all where there are none.
    pub(crate) fn names_to_show(&self) -> Vec<String> {
        const ENOUGH: usize = 1000;
        let any_unread = self.unread_count() > 0;
        let shown = (0..self.entries.len()).filter(|&at| !any_unread || !self.read[at]);
        shown.take(ENOUGH).map(|at| self.label(at)).collect()
    }

    pub(crate) fn unread_count(&self) -> usize {
        self.read.iter().filter(|read| !**read).count()
    }

    /// Where the tensor of that name stands, read or not.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.find_named(name).or_else(|| self.find_unnamed(name))
    }

    /// The tensor of that name, if it is not read.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        let at = self.position(name)?;
        (!self.read[at]).then_some(at)
    }

    fn find_named(&self, name: &str) -> Option<usize> {
        self.by_name.find(self.hasher.hash_one(name), |&at| self.name(at) == name).copied()
    }

    /// A tensor without a name is called by its position.
    fn find_unnamed(&self, name: &str) -> Option<usize> {
        let at: usize = name.parse().ok().filter(|_| is_index(name))?;
        self.entries.get(at).filter(|entry| !entry.has_name).map(|_| at)
    }

    /// The first tensor, by name, that is `prefix` or lies under it and is not read.
    pub(crate) fn first_under(&mut self, prefix: Option<&str>) -> Option<usize> {
        let Some(prefix) = prefix else { return self.first_unread() };
        if let Some(found) = self.find(prefix) {
            return Some(found);
        }
        let below = format!("{prefix}.");
        let sorted = self.sorted.get_or_insert_with(|| Sorted::new(&self.entries, &self.read));
        let start = sorted.order.partition_point(|&at| name_of(&self.entries, at) < below.as_str());
        let place = sorted.next_unread(start);
        let at = *sorted.order.get(place)?;
        name_of(&self.entries, at).starts_with(&below).then_some(at)
    }
}

fn name_of(entries: &[Entry], at: usize) -> &str {
    entries[at].name.get_or_init(|| at.to_string().into_boxed_str())
}

impl Sorted {
    fn new(entries: &[Entry], read: &[bool]) -> Self {
        let mut order: Vec<usize> = (0..entries.len()).collect();
        order.sort_unstable_by(|&a, &b| name_of(entries, a).cmp(name_of(entries, b)));
        let mut rank = vec![0; order.len()];
        let mut next = Vec::with_capacity(order.len());
        for (place, &at) in order.iter().enumerate() {
            rank[at] = place;
            next.push(if read[at] { place + 1 } else { place });
        }
        Self { order, rank, next }
    }

    /// The first place from `place` on that is not read, or the number of places.
    ///
    /// The ways walked are shortened, so that a long run of read tensors is walked once only.
    fn next_unread(&mut self, place: usize) -> usize {
        let mut end = place;
        while end < self.next.len() && self.next[end] != end {
            end = self.next[end];
        }
        let mut at = place;
        while at < end {
            at = std::mem::replace(&mut self.next[at], end);
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Dtype;

    fn index(names: &[&str]) -> Index {
        let mut index = Index::default();
        for name in names {
            index.push(Entry::new(Some((*name).to_owned()), TensorInfo::new(Dtype::U8, []), 0..1)).unwrap();
        }
        index
    }

    #[test]
    fn finds_what_lies_under_a_prefix_until_it_is_read() {
        let mut index = index(&["b.x", "a-1", "a.y", "ab", "a.x"]);
        assert_eq!(index.first_under(Some("a")), Some(4));
        index.mark_read(4);
        assert_eq!(index.first_under(Some("a")), Some(2));
        index.mark_read(2);
        assert_eq!(index.first_under(Some("a")), None);
        assert_eq!(index.first_under(Some("b")), Some(0));
    }

    #[test]
    fn refuses_a_name_twice() {
        let mut index = index(&["a"]);
        let again = Entry::new(Some("a".to_owned()), TensorInfo::new(Dtype::U8, []), 8..9);
        assert_eq!(index.push(again).unwrap_err().to_string(), "two tensors are named `a` (at byte 8)");
    }
}
