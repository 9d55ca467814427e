//! The tensors of a file, found by name, by position and by the beginnings of names.

mod entry;
mod groups;
mod names;
mod unread;

use std::hash::BuildHasher;
use std::sync::OnceLock;

use hashbrown::{DefaultHashBuilder, HashTable};
use smallvec::SmallVec;

use crate::error::{Error, ErrorKind, Result};
use crate::model::is_index;

pub use entry::Entry;
pub(crate) use entry::Located;
pub(crate) use unread::Unread;

use entry::numbered;
use groups::{Groups, NameOrder};
use names::{PackedNames, Positions};

/// The tensors of a file.
#[derive(Debug, Clone, Default)]
pub struct Index {
    entries: Vec<Located>,
    names: PackedNames,
    /// The positions by which tensors without names are called, made when the first is asked for.
    positions: OnceLock<Positions>,
    /// The number of the first entry: the entries before it were dropped.
    start: usize,
    /// The number of entries that begin before the one before them.
    backwards: usize,
    /// The number of names that no tensor before has.
    named: usize,
    /// The first tensor of each name, unless there are few.
    by_name: HashTable<u32>,
    /// Several tensors may have one name.
    names_may_repeat: bool,
    /// The tensors that are not in `by_name`, because another has their name; or that are called by a position that is
    /// the name of another.
    repeated: Vec<usize>,
    /// The names are those of one more tensor, not the format's own.
    embedded_names: bool,
    hasher: DefaultHashBuilder,
    /// The entries by name, made when a part of a name is first searched.
    sorted: OnceLock<NameOrder>,
    /// The common beginnings of names, made when a part of a name is first searched. `None` if they are too many.
    groups: OnceLock<Option<Groups>>,
}

impl Index {
    /// So many tensors are compared one by one, without a table.
    const FEW: usize = 8;

    /// Adds the tensors of another file, which begins `start` bytes later, with their names there.
    #[cfg(feature = "shards")]
    pub(crate) fn append(&mut self, other: Self, start: u64) -> Result<()> {
        self.reserve(other.len());
        for (at, mut tensor) in other.entries.into_iter().enumerate() {
            let name = other.names.get(at).map_or_else(|| at.to_string(), str::to_owned);
            // As in one file, a name that is only the position is none.
            let name = (name != self.len().to_string()).then(|| name.into_boxed_str());
            tensor.range = start.saturating_add(tensor.range.start)..start.saturating_add(tensor.range.end);
            self.push(Entry { name, tensor })?;
        }
        self.embedded_names |= other.embedded_names;
        Ok(())
    }

    /// An index whose first tensor is called `start` in messages.
    pub(crate) fn starting_at(start: usize) -> Self {
        Self { start, ..Self::default() }
    }

    /// An index in which several tensors may have one name.
    pub(crate) fn with_repeated_names() -> Self {
        Self { names_may_repeat: true, ..Self::default() }
    }

    /// Makes room for more tensors. This takes less memory than growing step by step.
    pub(crate) fn reserve(&mut self, tensors: usize) {
        self.entries.reserve_exact(tensors);
    }

    /// Frees memory that was for more tensors, if it is much.
    pub(crate) fn shrink(&mut self) {
        if self.entries.capacity() - self.len() > self.len() / 8 {
            self.entries.shrink_to_fit();
        }
        self.names.shrink();
    }

    /// Adds a tensor.
    pub(crate) fn push(&mut self, entry: Entry) -> Result<()> {
        let at = self.entries.len();
        let Entry { name, tensor } = entry;
        let offset = tensor.range.start;
        if u32::try_from(at).is_err() {
            let (what, found, limit) = ("number of tensors", at as u64 + 1, 1 << 32);
            return Err(ErrorKind::Limit { what, found, limit }.into());
        }
        self.backwards += usize::from(self.entries.last().is_some_and(|before| before.range.start > offset));
        self.entries.push(tensor);
        if at == Self::FEW {
            self.fill_table();
        }
        if let Some(name) = &name {
            // Most often all tensors have names, or none has.
            if self.names.ends.is_empty() {
                self.names.ends.reserve_exact(self.entries.capacity());
            }
            self.names.set_last(at, name);
        }
        self.forget_order();
        if let Some(positions) = self.positions.get_mut() {
            positions.push(at);
        }
        if self.names_may_repeat {
            self.push_repeatable(at);
            return Ok(());
        }
        match name {
            Some(_) => self.add_name(at).map_err(|error| error.at(offset)),
            None => Ok(()),
        }
    }

    fn forget_order(&mut self) {
        self.sorted = OnceLock::new();
        self.groups = OnceLock::new();
    }

    /// Adds a name that others may have, or that may be the position by which a tensor without a name is called.
    fn push_repeatable(&mut self, at: usize) {
        let is_known = match self.has_name(at) {
            true => self.add_name(at).is_err() || self.find_unnamed(self.name(at)).is_some(),
            false => self.has_names() && self.find_named(&at.to_string()).is_some(),
        };
        if is_known {
            self.repeated.push(at);
        }
    }

    fn add_name(&mut self, at: usize) -> Result<()> {
        let is_new = match self.entries.len() > Self::FEW {
            true => self.insert(at),
            false => (0..at).all(|other| self.names.get(other) != self.names.get(at)),
        };
        if !is_new {
            return Err(ErrorKind::DuplicateName { name: self.name(at).to_owned() }.into());
        }
        self.named += 1;
        Ok(())
    }

    /// Puts the tensors before the last one into the table.
    fn fill_table(&mut self) {
        for at in 0..self.names.ends.len() {
            if self.has_name(at) {
                self.insert(at);
            }
        }
    }

    /// Puts a tensor into the table, unless one of its name is there. Returns whether it did.
    #[inline]
    fn insert(&mut self, at: usize) -> bool {
        let (names, hasher) = (&self.names, &self.hasher);
        let name_of = |at: &u32| names.get(*at as usize).expect("only names are in the table");
        let hash = |at: &u32| hasher.hash_one(name_of(at));
        if self.by_name.is_empty() {
            self.by_name.reserve(self.entries.capacity(), hash);
        }
        let at = u32::try_from(at).expect("that many were pushed");
        let name = name_of(&at);
        match self.by_name.entry(hasher.hash_one(name), |other| name_of(other) == name, hash) {
            hashbrown::hash_table::Entry::Occupied(_) => false,
            hashbrown::hash_table::Entry::Vacant(vacant) => {
                vacant.insert(at);
                true
            }
        }
    }

    /// Checks that no tensor is named like the position of a tensor without a name.
    pub(crate) fn complete(&self) -> Result<()> {
        let is_mixed = !self.names_may_repeat && self.has_names() && self.named < self.entries.len();
        let unnamed = (0..self.entries.len()).filter(|&at| is_mixed && !self.has_name(at));
        match unnamed.map(|at| self.name(at)).find(|name| self.find_named(name).is_some()) {
            Some(name) => Err(ErrorKind::DuplicateName { name: name.to_owned() }.into()),
            None => Ok(()),
        }
    }

    /// Refuses names that several tensors have.
    pub(crate) fn check_unique(&self) -> Result<()> {
        match self.repeated.first() {
            Some(&at) => Err(self.ambiguous(at)),
            None => Ok(()),
        }
    }

    /// Refuses a name that several tensors have.
    #[inline]
    pub(crate) fn check_unique_name(&self, name: &str) -> Result<()> {
        if self.repeated.is_empty() {
            return Ok(());
        }
        match self.repeated.iter().find(|at| self.name(**at) == name) {
            Some(&at) => Err(self.ambiguous(at)),
            None => Ok(()),
        }
    }

    fn ambiguous(&self, at: usize) -> Error {
        let kind = ErrorKind::AmbiguousName { name: self.name(at).to_owned() };
        Error::new(kind).at(self.entries[at].range.start)
    }

    /// Returns whether a name belongs to several tensors.
    pub(crate) fn has_repeated_names(&self) -> bool {
        !self.repeated.is_empty()
    }

    /// Drops all tensors. Later ones are numbered on.
    pub(crate) fn clear(&mut self) {
        self.start += self.entries.len();
        self.entries.clear();
        self.names = PackedNames::default();
        self.by_name.clear();
        self.named = 0;
        self.repeated.clear();
        self.forget_order();
        self.positions = OnceLock::new();
    }

    /// Names the tensors by the list that one more tensor holds.
    pub(crate) fn embed<'a>(&mut self, mut names: impl Iterator<Item = &'a str> + Clone) -> Result<()> {
        self.embedded_names = true;
        let bytes = names.clone().map(str::len).sum();
        self.rename(&mut names, bytes)
    }

    pub(crate) fn has_embedded_names(&self) -> bool {
        self.embedded_names
    }

    /// Gives every tensor another name. Together they have `bytes` bytes.
    pub(crate) fn rename(&mut self, names: &mut dyn Iterator<Item = &str>, bytes: usize) -> Result<()> {
        self.by_name.clear();
        self.named = 0;
        self.repeated.clear();
        self.names = PackedNames { text: String::with_capacity(bytes), ends: SmallVec::with_capacity(self.len()) };
        self.forget_order();
        for (at, name) in names.enumerate() {
            self.names.set_last(at, name);
            self.add_name(at)?;
        }
        Ok(())
    }

    /// Returns whether the payloads are in the order of the tensors.
    pub(crate) fn is_in_file_order(&self) -> bool {
        self.backwards == 0
    }

    /// Returns whether any tensor so far has a name.
    pub(crate) fn has_names(&self) -> bool {
        !self.names.ends.is_empty()
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    #[inline]
    pub(crate) fn entry(&self, at: usize) -> &Located {
        &self.entries[at]
    }

    /// Returns a tensor with its name.
    pub(crate) fn named_entry(&self, at: usize) -> Entry {
        Entry { name: self.names.get(at).map(Box::from), tensor: self.entries[at].clone() }
    }

    pub(crate) fn has_name(&self, at: usize) -> bool {
        self.names.get(at).is_some()
    }

    /// Returns the name, or the position if there is none.
    #[inline]
    pub(crate) fn name(&self, at: usize) -> &str {
        match self.names.get(at) {
            Some(name) => name,
            None => self.position_as_text(at),
        }
    }

    fn position_as_text(&self, at: usize) -> &str {
        self.positions.get_or_init(|| Positions::new(self.entries.len())).get(at)
    }

    /// Returns the name for messages.
    pub(crate) fn label(&self, at: usize) -> String {
        self.names.get(at).map_or_else(|| numbered(self.start + at), str::to_owned)
    }

    /// Returns the number of the entry that is added next.
    pub(crate) fn next_number(&self) -> usize {
        self.start + self.entries.len()
    }

    /// Returns the position of the tensor of that name.
    #[inline]
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.find_named(name).or_else(|| self.find_unnamed(name))
    }

    #[inline]
    fn find_named(&self, name: &str) -> Option<usize> {
        let is_named = |at: usize| self.names.is(at, name);
        if self.entries.len() <= Self::FEW {
            return (0..self.entries.len()).find(|at| is_named(*at));
        }
        self.by_name.find(self.hasher.hash_one(name), |at| is_named(*at as usize)).map(|at| *at as usize)
    }

    /// A tensor without a name is called by its position.
    fn find_unnamed(&self, name: &str) -> Option<usize> {
        let at: usize = name.parse().ok().filter(|_| is_index(name))?;
        (at < self.len() && !self.has_name(at)).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::{Dtype, TensorInfo};

    pub(super) fn index(names: &[&str]) -> Index {
        let mut index = Index::default();
        for name in names {
            index.push(Entry::new(Some((*name).to_owned()), TensorInfo::new(Dtype::U8, []), 0..1)).unwrap();
        }
        index
    }

    #[test]
    fn refuses_two_tensors_of_one_name() {
        // Many tensors are found by a table.
        for count in 1..20 {
            let names: Vec<String> = (0..count).map(|at| format!("t{at}")).collect();
            let mut index = index(&names.iter().map(String::as_str).collect::<Vec<_>>());
            let again = Entry::new(Some("t0".to_owned()), TensorInfo::new(Dtype::U8, []), 8..9);
            assert_eq!(index.push(again).unwrap_err().to_string(), "two tensors are named `t0` (at byte 8)");
        }
    }

    #[test]
    fn finds_few_and_many_tensors_by_name() {
        for count in 0..20 {
            let mut index = Index::with_repeated_names();
            for at in 0..count {
                // Every third has no name, and two have the same.
                let name = (at % 3 > 0).then(|| format!("t{}", at % 10));
                index.push(Entry::new(name, TensorInfo::new(Dtype::U8, []), 0..1)).unwrap();
            }
            index.complete().unwrap();
            for at in 0..count {
                let name = index.name(at).to_owned();
                let first = (0..count).find(|at| index.name(*at) == name);
                assert_eq!(index.position(&name), first, "{name} of {count}");
            }
            assert_eq!((index.position("t0"), index.has_names()), ((count > 10).then_some(10), count > 1));
            let names: Vec<String> = (0..count).rev().map(|at| at.to_string()).collect();
            index.rename(&mut names.iter().map(String::as_str), 0).unwrap();
            assert!((0..count).all(|at| index.position(&at.to_string()) == Some(count - 1 - at)));
        }
    }
}
