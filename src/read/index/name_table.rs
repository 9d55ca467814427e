//! The names of tensors, and a table to find them by.

use std::hash::{BuildHasher, Hasher as _};
use std::ops::Range;
use std::sync::OnceLock;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::names::{PackedNames, Positions};
use crate::error::{ErrorKind, Result};
use crate::model::is_index;
use crate::read::tree_order::TreeOrder;

/// The names of tensors. A tensor without one is called by its position.
#[derive(Debug, Clone, Default)]
pub(crate) struct NameTable {
    packed: PackedNames,
    /// The number of tensors, including unnamed ones.
    tensors: usize,
    /// The positions of unnamed tensors, made on first use.
    positions: OnceLock<Positions>,
    /// The number of tensors with a name.
    named: usize,
    /// The number of tensors whose names were compared with all earlier ones.
    compared: usize,
    /// The tree order of the compared names. As long as it is kept, no name repeats.
    tree_order: TreeOrder,
    /// Set when the first tensor is searched by name without a table.
    searched: OnceLock<()>,
    /// The first tensor of each name, unless there are few. As long as the names have the order of a tree, it is made
    /// when the second tensor is searched by name.
    by_name: OnceLock<HashTable<u32>>,
    /// Several tensors may have one name.
    may_repeat: bool,
    /// Tensors missing from `by_name`: later duplicates, and unnamed tensors whose position equals a stored name.
    repeated: Vec<usize>,
    pub(super) hasher: DefaultHashBuilder,
}

impl NameTable {
    /// Up to this many tensors are compared one by one, without a table.
    const FEW: usize = 8;

    /// Adds a tensor. `room` is the capacity in tensors.
    #[inline]
    pub(super) fn push(&mut self, name: Option<&str>, room: usize) {
        let index = self.tensors;
        self.tensors += 1;
        if let Some(positions) = self.positions.get_mut() {
            positions.push(index);
        }
        if let Some(name) = name {
            // Most often all tensors have names, or none has.
            if self.packed.ends.is_empty() {
                self.packed.ends.reserve_exact(room);
            }
            self.set(index, name);
        }
    }

    /// Names a tensor, after all tensors before it.
    #[inline]
    fn set(&mut self, index: usize, name: &str) {
        self.packed.set_last(index, name);
        self.named += 1;
    }

    /// Removes the last tensor, which is unnamed.
    pub(super) fn pop(&mut self) {
        self.tensors -= 1;
        self.compared = self.compared.min(self.tensors);
        self.positions = OnceLock::new();
    }

    /// Removes all tensors.
    pub(super) fn clear(&mut self) {
        self.forget();
        self.tensors = 0;
        self.positions = OnceLock::new();
    }

    /// Leaves all tensors without names.
    fn forget(&mut self) {
        self.packed.clear();
        self.named = 0;
        self.forget_table();
    }

    fn forget_table(&mut self) {
        self.by_name = OnceLock::new();
        self.searched = OnceLock::new();
        self.tree_order = TreeOrder::default();
        self.compared = 0;
        self.repeated.clear();
    }

    /// Gives every tensor another name. Together they have at most `bytes` bytes.
    pub(super) fn rename(&mut self, names: &mut dyn Iterator<Item = &str>, bytes: usize) {
        self.forget();
        self.packed.reserve(self.tensors, bytes);
        names.enumerate().for_each(|(index, name)| self.set(index, name));
    }

    /// Renames tensors by a function of their positions and names. `None` keeps the current state.
    pub(super) fn rename_by(&mut self, rename: &dyn Fn(usize, &str) -> Option<String>) {
        let name = |index| rename(index, self.name(index)).or_else(|| self.get(index).map(str::to_owned));
        let names: Vec<Option<String>> = (0..self.tensors).map(name).collect();
        self.forget();
        for (index, name) in names.iter().enumerate() {
            name.iter().for_each(|name| self.set(index, name));
        }
    }

    /// Puts the tensors into another order, given by their positions before.
    pub(super) fn reorder(&mut self, order: &[usize]) {
        let mut names = PackedNames::default();
        names.reserve(order.len(), self.packed.text.len());
        for (index, &before) in order.iter().enumerate() {
            if let Some(name) = self.packed.get(before) {
                names.set_last(index, name);
            }
        }
        self.packed = names;
        self.forget_table();
    }

    pub(super) fn shrink(&mut self) {
        self.packed.shrink();
    }

    /// Allows several tensors with the same name. Call it before the first name is added.
    pub(crate) fn let_repeat(&mut self) {
        self.may_repeat = true;
    }

    /// Returns the tensors with repeated names.
    #[inline]
    pub(crate) fn repeated(&self) -> &[usize] {
        &self.repeated
    }

    /// Compares the names of new tensors with all earlier ones.
    ///
    /// # Errors
    ///
    /// The position of the first tensor with a repeated name, unless names may repeat.
    pub(crate) fn compare(&mut self) -> Result<(), usize> {
        let mut new = self.compared..self.tensors;
        self.compared = new.end;
        if !self.has_any() {
            return Ok(());
        }
        if self.tree_order.is_kept() {
            let start = new.start;
            new.start = self.follow_tree_order(new.clone());
            if self.by_name.get().is_some() {
                (start..new.start).for_each(|index| _ = self.insert(index));
            }
        }
        if new.is_empty() {
            return Ok(());
        }
        if self.compared > Self::FEW && self.by_name.get().is_none() {
            self.by_name = self.table(new.start).into();
        }
        if self.may_repeat {
            new.for_each(|index| self.add_repeatable(index));
            return Ok(());
        }
        new.into_iter().try_for_each(|index| if self.add_name(index) { Ok(()) } else { Err(index) })
    }

    /// Returns the first new tensor out of tree order.
    fn follow_tree_order(&mut self, new: Range<usize>) -> usize {
        if self.named < self.tensors {
            self.tree_order.give_up();
            return new.start;
        }
        let (order, text) = (&mut self.tree_order, self.packed.text.as_bytes());
        let ends = self.packed.ends.as_slice()[new.clone()].iter().map(|end| end / 2);
        ends.zip(new.clone()).find(|(end, _)| !order.go_on(text, *end)).map_or(new.end, |(_, index)| index)
    }

    /// Adds a name that may repeat, or may equal the position of an unnamed tensor.
    fn add_repeatable(&mut self, index: usize) {
        let is_known = match self.get(index) {
            Some(_) => !self.add_name(index) || self.is_position_before(index),
            None => self.has_any() && self.find_named(&index.to_string()).is_some(),
        };
        if is_known {
            self.repeated.push(index);
        }
    }

    /// Returns whether the name of a tensor is the position of one before it without a name.
    fn is_position_before(&self, index: usize) -> bool {
        let has_unnamed = self.named < self.tensors;
        has_unnamed && self.find_unnamed(self.name(index)).is_some_and(|other| other < index)
    }

    /// Adds the name of a tensor, if it has one. Returns `false` if a tensor before it has the same.
    #[inline]
    fn add_name(&mut self, index: usize) -> bool {
        if self.compared > Self::FEW {
            return self.insert(index);
        }
        let name = self.packed.bytes(index);
        name.is_none() || (0..index).all(|other| self.packed.bytes(other) != name)
    }

    /// Makes a table of the tensors before this one, with room for all.
    fn table(&self, end: usize) -> HashTable<u32> {
        let mut table = HashTable::with_capacity(self.tensors);
        for index in 0..end {
            insert(&mut table, &self.packed, &self.hasher, index);
        }
        table
    }

    /// Puts a tensor into the table, unless it has no name. Returns `false` if one of its name is there.
    #[inline]
    fn insert(&mut self, index: usize) -> bool {
        let table = self.by_name.get_mut().expect("the table is made before");
        insert(table, &self.packed, &self.hasher, index)
    }

    /// Checks that none of the first `known` names equals the position of an unnamed tensor.
    pub(crate) fn check_positions(&self, known: usize) -> Result<()> {
        if self.may_repeat || !self.has_any() || self.named == self.tensors {
            return Ok(());
        }
        let unnamed = (0..known).filter(|&index| self.get(index).is_none());
        match unnamed.map(|index| self.name(index)).find(|name| self.find_named(name).is_some()) {
            Some(name) => Err(ErrorKind::DuplicateName { name: name.to_owned() }.into()),
            None => Ok(()),
        }
    }

    /// Returns whether any tensor so far has a name.
    #[inline]
    pub(crate) fn has_any(&self) -> bool {
        self.named > 0
    }

    /// Returns whether all tensors have names, known to be in the order of a tree.
    #[inline]
    pub(super) fn has_tree_order(&self) -> bool {
        self.has_any() && self.tree_order.is_kept()
    }

    /// Returns the length of all names in bytes.
    pub(super) fn text_bytes(&self) -> usize {
        self.packed.text.len()
    }

    /// Returns the first name containing a byte.
    pub(crate) fn find_byte(&self, byte: u8) -> Option<&str> {
        let is_any = self.packed.text.as_bytes().contains(&byte);
        let mut names = (0..self.tensors).filter(|_| is_any).filter_map(|index| self.get(index));
        names.find(|name| name.as_bytes().contains(&byte))
    }

    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<&str> {
        self.packed.get(index)
    }

    /// Returns the name, or the position if there is none.
    #[inline]
    pub(super) fn name(&self, index: usize) -> &str {
        match self.packed.get(index) {
            Some(name) => name,
            None => self.position_as_text(index),
        }
    }

    fn position_as_text(&self, index: usize) -> &str {
        self.positions.get_or_init(|| Positions::new(self.tensors)).get(index)
    }

    /// Returns the first tensor called `name`.
    #[inline]
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.find_named(name).or_else(|| self.find_unnamed(name))
    }

    // One function, so that the comparison of names is inlined.
    #[inline(never)]
    fn find_named(&self, name: &str) -> Option<usize> {
        let name = name.as_bytes();
        let table = match self.by_name.get() {
            Some(table) => table,
            None if !self.has_any() => return None,
            // To make a table for one search would take longer than to go through all names.
            None if self.compared <= Self::FEW || self.searched.set(()).is_ok() => {
                return (0..self.compared).find(|index| self.packed.is(*index, name));
            }
            None => self.by_name.get_or_init(|| self.table(self.compared)),
        };
        table
            .find(hash_of(&self.hasher, name), |index| self.packed.is(*index as usize, name))
            .map(|index| *index as usize)
    }

    /// A tensor without a name is called by its position.
    fn find_unnamed(&self, name: &str) -> Option<usize> {
        let index: usize = name.parse().ok().filter(|_| is_index(name))?;
        (index < self.tensors && self.get(index).is_none()).then_some(index)
    }
}

/// Puts a tensor into a table, unless it has no name. Returns `false` if one of its name is there.
#[inline]
fn insert(table: &mut HashTable<u32>, names: &PackedNames, hasher: &DefaultHashBuilder, index: usize) -> bool {
    let Some(name) = names.bytes(index) else { return true };
    let hash = |index: &u32| hash_of(hasher, names.bytes(*index as usize).expect("only names are in the table"));
    let is_same = |other: &u32| names.bytes(*other as usize) == Some(name);
    match table.entry(hash_of(hasher, name), is_same, hash) {
        hashbrown::hash_table::Entry::Occupied(_) => false,
        hashbrown::hash_table::Entry::Vacant(vacant) => {
            vacant.insert(u32::try_from(index).expect("that many were pushed"));
            true
        }
    }
}

/// Returns the hash of a name, which a file cannot predict.
#[inline]
fn hash_of(hasher: &DefaultHashBuilder, name: &[u8]) -> u64 {
    let mut state = hasher.build_hasher();
    state.write(name);
    state.finish()
}
