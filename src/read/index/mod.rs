//! The tensors of a file, found by name, by position and by the beginnings of names.

mod entry;
mod groups;
mod names;
mod unread;

use std::hash::{BuildHasher, Hasher as _};
use std::ops::Range;
use std::sync::OnceLock;

use hashbrown::{DefaultHashBuilder, HashTable};
use smallvec::SmallVec;

#[cfg(feature = "npy")]
use super::Codec;
use super::tree_order::TreeOrder;
use crate::error::{Error, ErrorKind, Result};
use crate::model::is_index;
#[cfg(any(feature = "gguf", feature = "safetensors"))]
use crate::tensor::sorted;
use crate::tensor::{HeaderTable, TensorInfo};

pub(crate) use entry::Entry;
pub(crate) use unread::{Labels, Unread};

use groups::{Groups, NameOrder};
use names::{PackedNames, Positions};

/// The tensors of a file, to which an [`IndexReader`](super::IndexReader) adds.
///
/// ```
/// use tensorfile::read::Index;
/// use tensorfile::{Dtype, TensorInfo};
///
/// let mut index = Index::default();
/// index.push(Some("weight"), TensorInfo::new(Dtype::F32, [2]), 64..72)?;
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Index {
    entries: Vec<PackedEntry>,
    infos: HeaderTable,
    /// For each header, the length of payloads that need no check, if there are any.
    any_bytes: SmallVec<[Option<usize>; 1]>,
    #[cfg(feature = "npy")]
    codecs: Vec<Codec>,
    names: PackedNames,
    /// The number of tensors that are known. Those after them were read ahead, as in a stream whose header is read at once.
    known: usize,
    /// The positions by which tensors without names are called, made when the first is asked for.
    positions: OnceLock<Positions>,
    /// The number of the first tensor: those before it were dropped.
    start: usize,
    /// The offset of the next tensor of a stream, in formats that note it.
    next_offset: u64,
    /// A known tensor begins before the one before it.
    is_backwards: bool,
    /// The number of tensors with a name.
    named: usize,
    /// The number of tensors whose names were compared with those before.
    compared: usize,
    /// The order of the names that were compared. As long as it is kept, no name repeats.
    tree_order: TreeOrder,
    /// Set when the first tensor is searched by name without a table.
    searched: OnceLock<()>,
    /// The first tensor of each name, unless there are few. As long as the names have the order of a tree, it is made when the
    /// second tensor is searched by name.
    by_name: OnceLock<HashTable<u32>>,
    /// Several tensors may have one name.
    names_may_repeat: bool,
    /// The tensors that are not in `by_name`, because another has their name; or that are called by a position that is
    /// the name of another.
    repeated: Vec<usize>,
    /// The names are those of one more tensor, not the format's own.
    embedded_names: bool,
    /// A format outside of this crate added tensors, whose payloads may end after the file.
    needs_ends_checked: bool,
    hasher: DefaultHashBuilder,
    /// The entries by name, made when a part of a name is first searched.
    sorted: OnceLock<NameOrder>,
    /// The common beginnings of names, made when a part of a name is first searched. `None` if they are too many.
    groups: OnceLock<Option<Groups>>,
}

/// A tensor: the range of its payload, and the numbers of its header and of its codec.
#[derive(Debug, Clone, Copy)]
struct PackedEntry {
    start: u64,
    end: u64,
    info: u32,
    /// One more than the number of the codec; 0 if there is none.
    #[cfg(feature = "npy")]
    codec: u32,
}

impl Index {
    /// So many tensors are compared one by one, without a table.
    const FEW: usize = 8;

    /// Adds a tensor: its name, its header, and the range of its payload in bytes from the start of the file.
    ///
    /// A tensor without a name is called by its position.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Limit`]: there are 2³² already.
    /// - [`ErrorKind::InvalidTensor`]: the payload has another length than the tensor takes, or the dim order another rank than
    ///   the shape.
    /// - [`ErrorKind::Malformed`]: the payload ends before it begins.
    ///
    /// A payload that ends after the file is an error when [`IndexReader::read_on`](super::IndexReader::read_on) returns.
    pub fn push(&mut self, name: Option<&str>, info: TensorInfo, payload: Range<u64>) -> Result<()> {
        let (start, at) = (payload.start, self.entries.len());
        let checked = check_pushed(&info, &payload);
        checked.map_err(|error| error.at(start).in_tensor(name.map_or_else(|| format!("#{at}"), str::to_owned)))?;
        self.needs_ends_checked = true;
        self.push_checked(name, info, payload)
    }

    /// Adds a tensor as [`push`](Self::push) does, whose format has checked it.
    #[inline]
    pub(crate) fn push_checked(&mut self, name: Option<&str>, info: TensorInfo, payload: Range<u64>) -> Result<()> {
        let info = self.add_info(info);
        self.push_entry(name, info, payload)
    }

    #[inline]
    fn add_info(&mut self, info: TensorInfo) -> u32 {
        let number = self.infos.add(info);
        if number as usize == self.any_bytes.len() {
            self.any_bytes.push(self.infos.get(number).any_bytes());
        }
        number
    }

    /// Adds a tensor with the header of the one at a position.
    #[inline]
    pub(crate) fn push_alike(&mut self, name: Option<&str>, alike: usize, payload: Range<u64>) -> Result<()> {
        self.push_entry(name, self.entries[alike].info, payload)
    }

    #[inline]
    fn push_entry(&mut self, name: Option<&str>, info: u32, payload: Range<u64>) -> Result<()> {
        let at = self.entries.len();
        if u32::try_from(at).is_err() {
            return Err(too_many(at));
        }
        self.entries.push(PackedEntry {
            start: payload.start,
            end: payload.end,
            info,
            #[cfg(feature = "npy")]
            codec: 0,
        });
        if let Some(name) = name {
            self.push_name(at, name);
        }
        Ok(())
    }

    /// Adds a tensor whose payload has to be decoded.
    #[cfg(feature = "npy")]
    pub(crate) fn push_coded(
        &mut self,
        name: Option<&str>,
        info: TensorInfo,
        range: Range<u64>,
        codec: Option<Codec>,
    ) -> Result<()> {
        self.push_checked(name, info, range)?;
        if let (Some(codec), Some(last)) = (codec, self.entries.last_mut()) {
            self.codecs.push(codec);
            last.codec = u32::try_from(self.codecs.len()).expect("there are no more than tensors");
        }
        Ok(())
    }

    fn push_name(&mut self, at: usize, name: &str) {
        // Most often all tensors have names, or none has.
        if self.names.ends.is_empty() {
            self.names.ends.reserve_exact(self.entries.capacity());
        }
        self.names.set_last(at, name);
        self.named += 1;
    }

    /// Checks that no payload of the tensors from `first` on ends after a file of `len` bytes.
    pub(crate) fn check_ends(&self, first: usize, len: Option<u64>) -> Result<()> {
        let Some(len) = len.filter(|_| self.needs_ends_checked) else { return Ok(()) };
        let entries = self.entries.iter().enumerate().skip(first);
        match entries.map(|(at, entry)| (at, entry.start, entry.end)).find(|(.., end)| *end > len) {
            Some((at, start, end)) => {
                let (needed, left) = (end - start, len.saturating_sub(start));
                Err(Error::new(ErrorKind::Truncated { needed, left }).at(start).in_tensor(self.label(at)))
            }
            None => Ok(()),
        }
    }

    /// Makes room for more tensors. This takes less memory than growing step by step.
    pub fn reserve(&mut self, tensors: usize) {
        self.entries.reserve_exact(tensors);
    }

    /// Adds the tensors of another file, which begins `start` bytes later, with their names there, except for those that
    /// `keeps` refuses.
    #[cfg(feature = "shards")]
    pub(crate) fn append(&mut self, other: &Self, start: u64, keeps: &mut dyn FnMut(&str) -> bool) -> Result<()> {
        self.reserve(other.len());
        for at in 0..other.len() {
            let name = other.name(at);
            if !keeps(name) {
                continue;
            }
            // As in one file, a name that is only the position is none.
            let is_position = is_index(name) && name.parse() == Ok(self.entries.len());
            self.push_from(other, at, (!is_position).then_some(name), start)?;
        }
        self.embedded_names |= other.embedded_names;
        self.compare_names().map_err(|at| self.duplicate(at))?;
        self.make_known(self.entries.len());
        Ok(())
    }

    /// An index of a tensor of another one, with the same number in messages.
    pub(crate) fn of_one(other: &Self, at: usize) -> Result<Self> {
        let mut index = Self { start: at, ..Self::default() };
        index.push_from(other, at, other.names.get(at), 0)?;
        index.complete()?;
        Ok(index)
    }

    fn push_from(&mut self, other: &Self, at: usize, name: Option<&str>, start: u64) -> Result<()> {
        let entry = other.entry(at);
        let range = start.saturating_add(entry.start)..start.saturating_add(entry.end);
        #[cfg(feature = "npy")]
        return self.push_coded(name, entry.info.clone(), range, entry.codec.cloned());
        #[cfg(not(feature = "npy"))]
        self.push_checked(name, entry.info.clone(), range)
    }

    /// Lets several tensors have one name. There is none yet.
    pub(crate) fn let_names_repeat(&mut self) {
        self.names_may_repeat = true;
    }

    /// Frees memory that was for more tensors, if it is much.
    pub(crate) fn shrink(&mut self) {
        if self.entries.capacity() - self.entries.len() > self.entries.len() / 8 {
            self.entries.shrink_to_fit();
        }
        self.infos.shrink();
        self.names.shrink();
    }

    /// Returns the number of tensors, those that were read ahead included.
    #[inline]
    pub(crate) fn pushed(&self) -> usize {
        self.entries.len()
    }

    /// Returns the memory for the headers of all tensors, in bytes.
    pub(crate) fn header_bytes(&self) -> usize {
        self.entries.len() * size_of::<PackedEntry>() + self.infos.bytes()
    }

    pub(crate) fn has_coo(&self) -> bool {
        self.infos.has_coo
    }

    /// Makes the first `known` tensors known.
    pub(crate) fn make_known(&mut self, known: usize) {
        let first = self.known.saturating_sub(1);
        self.is_backwards |= !self.entries[first..known].is_sorted_by_key(|entry| entry.start);
        if let Some(positions) = self.positions.get_mut() {
            (self.known..known).for_each(|at| positions.push(at));
        }
        self.known = known;
        self.sorted = OnceLock::new();
        self.groups = OnceLock::new();
    }

    /// Makes all tensors known.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::DuplicateName`].
    pub(crate) fn complete(&mut self) -> Result<()> {
        self.compare_names().map_err(|at| self.duplicate(at))?;
        self.make_known(self.entries.len());
        self.check_positions()
    }

    /// Compares the names of tensors that were not compared yet with all before them.
    ///
    /// # Errors
    ///
    /// The position of the first tensor that has the name of another, unless several may.
    pub(crate) fn compare_names(&mut self) -> Result<(), usize> {
        let mut new = self.compared..self.entries.len();
        self.compared = new.end;
        if !self.has_names() {
            return Ok(());
        }
        if self.tree_order.is_kept() {
            let start = new.start;
            new.start = self.follow_tree_order(new.clone());
            if self.by_name.get().is_some() {
                (start..new.start).for_each(|at| _ = self.insert(at));
            }
        }
        if new.is_empty() {
            return Ok(());
        }
        if self.compared > Self::FEW && self.by_name.get().is_none() {
            self.by_name = self.table(new.start).into();
        }
        if self.names_may_repeat {
            new.for_each(|at| self.add_repeatable(at));
            return Ok(());
        }
        new.into_iter().try_for_each(|at| if self.add_name(at) { Ok(()) } else { Err(at) })
    }

    /// Returns the first of some new tensors whose name is not in the order of a tree.
    fn follow_tree_order(&mut self, new: Range<usize>) -> usize {
        if self.named < self.entries.len() {
            self.tree_order.give_up();
            return new.start;
        }
        let (order, text) = (&mut self.tree_order, self.names.text.as_bytes());
        let ends = self.names.ends.as_slice()[new.clone()].iter().map(|end| end / 2);
        ends.zip(new.clone()).find(|(end, _)| !order.go_on(text, *end)).map_or(new.end, |(_, at)| at)
    }

    /// Adds a name that others may have, or that may be the position by which a tensor without a name is called.
    fn add_repeatable(&mut self, at: usize) {
        let is_known = match self.has_name(at) {
            true => !self.add_name(at) || self.is_position_before(at),
            false => self.has_names() && self.find_named(&at.to_string()).is_some(),
        };
        if is_known {
            self.repeated.push(at);
        }
    }

    /// Returns whether the name of a tensor is the position of one before it without a name.
    fn is_position_before(&self, at: usize) -> bool {
        let has_unnamed = self.named < self.entries.len();
        has_unnamed && self.find_unnamed(self.name(at)).is_some_and(|other| other < at)
    }

    /// Adds the name of a tensor, if it has one. Returns `false` if a tensor before it has the same.
    #[inline]
    fn add_name(&mut self, at: usize) -> bool {
        if self.compared > Self::FEW {
            return self.insert(at);
        }
        let name = self.names.bytes(at);
        name.is_none() || (0..at).all(|other| self.names.bytes(other) != name)
    }

    /// Makes a table of the tensors before this one, with room for all.
    fn table(&self, end: usize) -> HashTable<u32> {
        let mut table = HashTable::with_capacity(self.entries.len());
        for at in 0..end {
            insert(&mut table, &self.names, &self.hasher, at);
        }
        table
    }

    /// Puts a tensor into the table, unless it has no name. Returns `false` if one of its name is there.
    #[inline]
    fn insert(&mut self, at: usize) -> bool {
        let table = self.by_name.get_mut().expect("the table is made before");
        insert(table, &self.names, &self.hasher, at)
    }

    /// Checks that no tensor is named like the position of a tensor without a name.
    pub(crate) fn check_positions(&self) -> Result<()> {
        if self.names_may_repeat || !self.has_names() || self.named == self.entries.len() {
            return Ok(());
        }
        let unnamed = (0..self.len()).filter(|&at| !self.has_name(at));
        match unnamed.map(|at| self.name(at)).find(|name| self.find_named(name).is_some()) {
            Some(name) => Err(ErrorKind::DuplicateName { name: name.to_owned() }.into()),
            None => Ok(()),
        }
    }

    /// The error for a tensor that has the name of another.
    pub(crate) fn duplicate(&self, at: usize) -> Error {
        Error::new(ErrorKind::DuplicateName { name: self.name(at).to_owned() }).at(self.entries[at].start)
    }

    /// Refuses names that several tensors have.
    pub(crate) fn check_unique(&self) -> Result<()> {
        match self.repeated.first() {
            Some(&at) => Err(self.ambiguous(at)),
            None => Ok(()),
        }
    }

    /// Refuses a name that several tensors have.
    pub(crate) fn check_unique_name(&self, name: &str) -> Result<()> {
        match self.repeated.iter().find(|at| self.name(**at) == name) {
            Some(&at) => Err(self.ambiguous(at)),
            None => Ok(()),
        }
    }

    fn ambiguous(&self, at: usize) -> Error {
        let kind = ErrorKind::AmbiguousName { name: self.name(at).to_owned() };
        Error::new(kind).at(self.entries[at].start)
    }

    /// Returns whether a name belongs to several tensors.
    #[inline]
    pub(crate) fn has_repeated_names(&self) -> bool {
        !self.repeated.is_empty()
    }

    /// Drops all tensors. Later ones are numbered on.
    pub(crate) fn clear(&mut self) {
        self.start += self.entries.len();
        self.entries.clear();
        self.infos.clear();
        self.any_bytes.clear();
        #[cfg(feature = "npy")]
        self.codecs.clear();
        self.known = 0;
        self.forget_names();
        self.positions = OnceLock::new();
    }

    /// Leaves out tensors of a stream, before any is there. Later ones are numbered on, and begin at `next_offset`.
    pub(crate) fn leave_out(&mut self, tensors: usize, next_offset: u64) {
        self.start += tensors;
        self.next_offset = next_offset;
    }

    /// Returns the number of all tensors so far, those that were dropped included.
    pub(crate) fn count(&self) -> usize {
        self.start + self.entries.len()
    }

    /// Returns where the next tensor of a stream begins, if the format [notes](Self::set_next_offset) it.
    pub(crate) fn next_offset(&self) -> u64 {
        self.next_offset
    }

    pub(crate) fn set_next_offset(&mut self, offset: u64) {
        self.next_offset = offset;
    }

    /// Removes the last tensor, which has no name.
    pub(crate) fn pop(&mut self) {
        self.entries.pop();
        self.compared = self.compared.min(self.entries.len());
    }

    fn forget_names(&mut self) {
        self.names.clear();
        self.named = 0;
        self.forget_table();
        self.sorted = OnceLock::new();
        self.groups = OnceLock::new();
    }

    fn forget_table(&mut self) {
        self.by_name = OnceLock::new();
        self.searched = OnceLock::new();
        self.tree_order = TreeOrder::default();
        self.compared = 0;
        self.repeated.clear();
    }

    /// Names the tensors by the list that one more tensor holds. Together the names have at most `bytes` bytes.
    pub(crate) fn embed(&mut self, names: &mut dyn Iterator<Item = &str>, bytes: usize) -> Result<()> {
        self.embedded_names = true;
        self.rename(names, bytes)
    }

    pub(crate) fn has_embedded_names(&self) -> bool {
        self.embedded_names
    }

    /// Gives every tensor another name. Together they have at most `bytes` bytes.
    pub(crate) fn rename(&mut self, names: &mut dyn Iterator<Item = &str>, bytes: usize) -> Result<()> {
        self.forget_names();
        self.names.reserve(self.entries.len(), bytes);
        for (at, name) in names.enumerate() {
            self.push_name(at, name);
        }
        self.compare_names().map_err(|at| ErrorKind::DuplicateName { name: self.name(at).to_owned() }.into())
    }

    /// Gives tensors the names that `rename` returns for their positions and names; `None` keeps a name, or none.
    pub(crate) fn rename_by(&mut self, rename: &dyn Fn(usize, &str) -> Option<String>) -> Result<()> {
        let name = |at| rename(at, self.name(at)).or_else(|| self.names.get(at).map(str::to_owned));
        let names: Vec<Option<String>> = (0..self.len()).map(name).collect();
        self.forget_names();
        for (at, name) in names.iter().enumerate() {
            name.iter().for_each(|name| self.push_name(at, name));
        }
        self.embedded_names = false;
        self.complete()
    }

    /// Sorts the tensors by the start and the end of their payloads, before any is known. Returns their positions before, if
    /// these change.
    #[cfg(any(feature = "gguf", feature = "safetensors"))]
    pub(crate) fn sort(&mut self) -> Option<Vec<usize>> {
        let key = |entry: &PackedEntry| (entry.start, entry.end);
        if self.entries.is_sorted_by_key(key) {
            return None;
        }
        let order = sorted::positions(self.entries.len(), &mut |one, other| {
            key(&self.entries[one]).cmp(&key(&self.entries[other]))
        });
        let entries = order.iter().map(|&at| self.entries[at]).collect();
        let mut names = PackedNames::default();
        names.reserve(self.entries.len(), self.names.text.len());
        for (at, &before) in order.iter().enumerate() {
            if let Some(name) = self.names.get(before) {
                names.set_last(at, name);
            }
        }
        (self.entries, self.names) = (entries, names);
        self.forget_table();
        Some(order)
    }

    /// Sets the range of a tensor.
    #[cfg(any(feature = "gguf", feature = "safetensors"))]
    pub(crate) fn set_range(&mut self, at: usize, range: &Range<u64>) {
        let entry = &mut self.entries[at];
        (entry.start, entry.end) = (range.start, range.end);
    }

    /// Sets the header of a tensor.
    #[cfg(feature = "gguf")]
    pub(crate) fn set_info(&mut self, at: usize, info: TensorInfo) {
        self.entries[at].info = self.add_info(info);
    }

    /// Sets the codec of a tensor that has none.
    #[cfg(all(feature = "gguf", feature = "npy"))]
    pub(crate) fn set_codec(&mut self, at: usize, codec: Codec) {
        self.codecs.push(codec);
        self.entries[at].codec = u32::try_from(self.codecs.len()).expect("there are no more than tensors");
    }

    /// Returns whether the payloads are in the order of the tensors.
    pub(crate) fn is_in_file_order(&self) -> bool {
        !self.is_backwards
    }

    /// Returns whether all tensors have names, known to be in the order of a tree.
    #[inline]
    fn has_tree_order(&self) -> bool {
        self.has_names() && self.tree_order.is_kept()
    }

    /// Returns whether any tensor so far has a name.
    pub(crate) fn has_names(&self) -> bool {
        self.named > 0
    }

    /// Returns the number of known tensors.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.known
    }

    #[inline]
    pub(crate) fn entry(&self, at: usize) -> Entry<'_> {
        let entry = &self.entries[at];
        Entry {
            info: self.infos.get(entry.info),
            start: entry.start,
            end: entry.end,
            #[cfg(feature = "npy")]
            codec: if entry.codec == 0 { None } else { self.codecs.get(entry.codec as usize - 1) },
        }
    }

    /// Returns whether any `bytes` bytes are a payload of a tensor, as [`TensorInfo::takes_any`] does.
    #[inline]
    pub(crate) fn takes_any(&self, at: usize, bytes: usize) -> bool {
        self.any_bytes.as_slice()[self.entries[at].info as usize] == Some(bytes)
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
        self.positions.get_or_init(|| Positions::new(self.known)).get(at)
    }

    /// Returns the number of the header of a tensor. Tensors with one number have one header.
    #[cfg(feature = "safetensors")]
    pub(crate) fn info_number(&self, at: usize) -> u32 {
        self.entries[at].info
    }

    /// Returns the first name in which there is a byte.
    #[cfg(feature = "ptd")]
    pub(crate) fn name_with(&self, byte: u8) -> Option<&str> {
        let is_any = self.names.text.as_bytes().contains(&byte);
        let mut names = (0..self.pushed()).filter(|_| is_any).filter_map(|at| self.names.get(at));
        names.find(|name| name.as_bytes().contains(&byte))
    }

    /// Returns the name for messages.
    pub(crate) fn label(&self, at: usize) -> String {
        self.names.get(at).map_or_else(|| format!("#{}", self.start + at), str::to_owned)
    }

    /// Returns the position of the tensor of that name.
    #[inline]
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.find_named(name).or_else(|| self.find_unnamed(name)).filter(|at| *at < self.known)
    }

    // One function, so that comparing names is a part of it and not called by it.
    #[inline(never)]
    fn find_named(&self, name: &str) -> Option<usize> {
        let name = name.as_bytes();
        let table = match self.by_name.get() {
            Some(table) => table,
            None if !self.has_names() => return None,
            // To make a table for one search would take longer than to go through all names.
            None if self.compared <= Self::FEW || self.searched.set(()).is_ok() => {
                return (0..self.compared).find(|at| self.names.is(*at, name));
            }
            None => self.by_name.get_or_init(|| self.table(self.compared)),
        };
        table.find(hash_of(&self.hasher, name), |at| self.names.is(*at as usize, name)).map(|at| *at as usize)
    }

    /// A tensor without a name is called by its position.
    fn find_unnamed(&self, name: &str) -> Option<usize> {
        let at: usize = name.parse().ok().filter(|_| is_index(name))?;
        (at < self.entries.len() && !self.has_name(at)).then_some(at)
    }
}

/// Puts a tensor into a table, unless it has no name. Returns `false` if one of its name is there.
#[inline]
fn insert(table: &mut HashTable<u32>, names: &PackedNames, hasher: &DefaultHashBuilder, at: usize) -> bool {
    let Some(name) = names.bytes(at) else { return true };
    let hash = |at: &u32| hash_of(hasher, names.bytes(*at as usize).expect("only names are in the table"));
    let is_same = |other: &u32| names.bytes(*other as usize) == Some(name);
    match table.entry(hash_of(hasher, name), is_same, hash) {
        hashbrown::hash_table::Entry::Occupied(_) => false,
        hashbrown::hash_table::Entry::Vacant(vacant) => {
            vacant.insert(u32::try_from(at).expect("that many were pushed"));
            true
        }
    }
}

/// Returns the hash of a name, which a file cannot foresee.
#[inline]
fn hash_of(hasher: &DefaultHashBuilder, name: &[u8]) -> u64 {
    let mut state = hasher.build_hasher();
    state.write(name);
    state.finish()
}

/// Checks that a range can be that of the payload of a tensor.
fn check_pushed(info: &TensorInfo, payload: &Range<u64>) -> Result<()> {
    match payload.end.checked_sub(payload.start) {
        Some(len) => Ok(info.check_payload(len)?),
        None => {
            let Range { start, end } = payload;
            Err(ErrorKind::Malformed { what: format!("the payload ends at byte {end}, before it begins at {start}") }
                .into())
        }
    }
}

#[cold]
fn too_many(at: usize) -> Error {
    ErrorKind::Limit { what: "number of tensors", found: at as u64 + 1, limit: 1 << 32 }.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Dtype;

    pub(super) fn index(names: &[&str]) -> Index {
        let mut index = Index::default();
        for name in names {
            index.push(Some(name), TensorInfo::new(Dtype::U8, []), 0..1).unwrap();
        }
        index.complete().unwrap();
        index
    }

    #[test]
    fn a_tensor_takes_little_memory() {
        // The entries of a large index take most of the memory for it.
        assert_eq!(size_of::<PackedEntry>(), 24);
    }

    #[test]
    fn refuses_two_tensors_of_one_name() {
        // Many tensors are found by a table.
        for count in 1..20 {
            let names: Vec<String> = (0..count).map(|at| format!("t{at}")).collect();
            let mut index = index(&names.iter().map(String::as_str).collect::<Vec<_>>());
            index.push(Some("t0"), TensorInfo::new(Dtype::U8, []), 8..9).unwrap();
            assert_eq!(index.complete().unwrap_err().to_string(), "two tensors are named `t0` (at byte 8)");
        }
    }

    #[test]
    fn finds_few_and_many_tensors_by_name() {
        for count in 0..20 {
            let mut index = Index::default();
            index.let_names_repeat();
            for at in 0..count {
                // Every third has no name, and two have the same.
                let name = (at % 3 > 0).then(|| format!("t{}", at % 10));
                index.push(name.as_deref(), TensorInfo::new(Dtype::U8, []), 0..1).unwrap();
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

    #[test]
    fn tensors_that_were_read_ahead_are_not_found() {
        for count in [3, 20] {
            let names: Vec<String> = (0..count).map(|at| format!("t{at}")).collect();
            let mut index = Index::default();
            for (name, at) in names.iter().zip(0..) {
                index.push(Some(name), TensorInfo::new(Dtype::U8, []), at..at + 1).unwrap();
            }
            index.compare_names().unwrap();
            for known in 0..count {
                index.make_known(known);
                let found: Vec<_> = names.iter().filter_map(|name| index.position(name)).collect();
                assert_eq!(found, (0..known).collect::<Vec<_>>());
            }
        }
    }

    #[cfg(any(feature = "gguf", feature = "safetensors"))]
    #[test]
    fn sorting_keeps_names_and_headers() {
        let mut index = Index::default();
        for at in 0..20 {
            let name = (at % 4 > 0).then(|| format!("t{at}"));
            let start = 100 - at as u64;
            index.push_checked(name.as_deref(), TensorInfo::new(Dtype::U8, [100 - at]), start..start).unwrap();
        }
        index.compare_names().unwrap();
        assert_eq!(index.sort(), Some((0..20).rev().collect()));
        index.complete().unwrap();
        for at in 0..20 {
            let before = 19 - at;
            let name = if before % 4 > 0 { format!("t{before}") } else { at.to_string() };
            assert_eq!((index.name(at), index.position(&name)), (&*name, Some(at)));
            assert_eq!(index.entry(at).info().shape, [100 - before]);
        }
        assert_eq!(index.sort(), None);
    }
}
