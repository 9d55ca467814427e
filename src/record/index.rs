use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::OnceLock;

use hashbrown::{DefaultHashBuilder, HashTable};

#[cfg(feature = "npy")]
use super::Codec;
#[cfg(feature = "npz")]
use super::Zipped;
use crate::error::{Error, ErrorKind, Result};
use crate::model::is_index;
use crate::sorted;
use crate::tensor::TensorInfo;

/// A tensor of a file: its header, and the range of its payload.
#[derive(Debug, Clone)]
pub struct Entry {
    name: Option<Box<str>>,
    tensor: Located,
}

impl Entry {
    /// A tensor whose payload is a range of the file, in bytes from its start.
    ///
    /// A tensor without a name is called by its position.
    #[must_use]
    pub fn new(name: Option<String>, info: TensorInfo, range: Range<u64>) -> Self {
        let tensor = Located {
            info,
            range,
            #[cfg(feature = "npy")]
            codec: None,
        };
        Self { name: name.map(String::into_boxed_str), tensor }
    }

    /// The same tensor with a payload that has to be decoded.
    #[cfg(feature = "npy")]
    pub(crate) fn with_codec(mut self, codec: Option<Codec>) -> Self {
        self.tensor.codec = codec;
        self
    }

    pub(crate) fn has_name(&self) -> bool {
        self.name.is_some()
    }

    /// Returns the name for messages of the tensor at position `number`: `#3` if it has none.
    pub(crate) fn label(&self, number: usize) -> String {
        self.name.as_ref().map_or_else(|| numbered(number), Box::to_string)
    }

    /// Returns the tensor without its name.
    pub(crate) fn located(&self) -> &Located {
        &self.tensor
    }

    /// Returns dtype, shape and layout.
    #[must_use]
    pub fn info(&self) -> &TensorInfo {
        &self.tensor.info
    }

    /// Returns the range of the payload, in bytes from the start of the file.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.tensor.range()
    }
}

fn numbered(number: usize) -> String {
    format!("#{number}")
}

/// A tensor of a file without its name, which an [`Index`] stores with the others.
#[derive(Debug, Clone)]
pub(crate) struct Located {
    info: TensorInfo,
    range: Range<u64>,
    #[cfg(feature = "npy")]
    codec: Option<Codec>,
}

impl Located {
    /// Returns how to decode the range to the payload; `None` if they are the same.
    #[cfg(feature = "npy")]
    pub(crate) fn codec(&self) -> Option<&Codec> {
        self.codec.as_ref().filter(|codec| codec.decodes())
    }

    /// Returns the member of an archive that stores the payload as it is.
    #[cfg(feature = "npz")]
    pub(crate) fn stored(&self) -> Option<&Zipped> {
        self.codec.as_ref()?.zipped.as_ref().filter(|zipped| !zipped.is_deflated)
    }

    /// Returns whether reading the payload compares a checksum.
    pub(crate) fn has_checksum(&self) -> bool {
        #[cfg(feature = "npz")]
        return self.stored().is_some();
        #[cfg(not(feature = "npz"))]
        false
    }

    /// Returns the offset of the first byte that reading the payload needs. A checksum can cover bytes before the payload.
    pub(crate) fn needed_from(&self) -> u64 {
        #[cfg(feature = "npz")]
        if let Some(stored) = self.stored() {
            return self.range.start.saturating_sub(stored.head.into());
        }
        self.range.start
    }

    /// Returns whether the range has to be decoded to the payload.
    pub(crate) fn has_codec(&self) -> bool {
        #[cfg(feature = "npy")]
        return self.codec().is_some();
        #[cfg(not(feature = "npy"))]
        false
    }

    /// Returns the length of the payload in bytes, decoded.
    pub(crate) fn payload_bytes(&self) -> u64 {
        #[cfg(feature = "npy")]
        if self.codec().is_some() {
            return self.info.payload_bytes().unwrap_or(usize::MAX) as u64;
        }
        self.range.end - self.range.start
    }

    /// Adds the offset in the file of what is wrong in the payload, unless it is known.
    pub(crate) fn locate(&self, error: Error) -> Error {
        let within = match error.kind() {
            ErrorKind::InvalidTensor(invalid) if !self.has_codec() => invalid.offset_in(&self.info),
            _ => 0,
        };
        error.at(self.range.start.saturating_add(within as u64))
    }

    /// Returns dtype, shape and layout.
    pub(crate) fn info(&self) -> &TensorInfo {
        &self.info
    }

    /// Returns the range of the payload, in bytes from the start of the file.
    pub(crate) fn range(&self) -> Range<u64> {
        self.range.clone()
    }
}

/// The tensors of a file.
#[derive(Debug, Clone, Default)]
pub struct Index {
    entries: Vec<Located>,
    names: NameList,
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
    sorted: OnceLock<Sorted>,
    /// The common beginnings of names, made when a part of a name is first searched. `None` if they are too many.
    groups: OnceLock<Option<Groups>>,
}

/// Tensors with a common beginning of their names, up to a dot.
#[derive(Debug, Clone)]
struct Groups {
    /// The first tensor of each group, and the length of the common beginning without the dot.
    first: HashTable<(u32, usize)>,
    /// The tensors of each group follow one another in the file, and no other tensor has the name of a group.
    are_runs: bool,
}

/// The entries in the order of their names.
#[derive(Debug, Clone)]
struct Sorted {
    order: Vec<usize>,
    /// The place of each entry in `order`.
    rank: Vec<usize>,
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
    pub(crate) fn check_unique_name(&self, name: &str) -> Result<()> {
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
        self.names = NameList::default();
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
        self.names = NameList { text: String::with_capacity(bytes), ends: Vec::with_capacity(self.len()) };
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

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

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
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.find_named(name).or_else(|| self.find_unnamed(name))
    }

    fn find_named(&self, name: &str) -> Option<usize> {
        let is_named = |at: usize| self.names.get(at) == Some(name);
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

    fn sorted(&self) -> &Sorted {
        self.sorted.get_or_init(|| {
            let order = sorted::positions(self.entries.len(), &mut |a, b| self.name(a).cmp(self.name(b)));
            let mut rank = vec![0; order.len()];
            order.iter().enumerate().for_each(|(place, &at)| rank[at] = place);
            Sorted { order, rank }
        })
    }

    /// Returns the common beginnings of names. `None` if they are too many.
    fn groups(&self) -> Option<&Groups> {
        self.groups.get_or_init(|| self.find_groups()).as_ref()
    }

    fn find_groups(&self) -> Option<Groups> {
        let mut groups = Groups { first: HashTable::new(), are_runs: self.repeated.is_empty() };
        let hash = |group: &(u32, usize)| self.hasher.hash_one(self.beginning(*group));
        let mut last = "";
        // A name of nothing but dots has beginnings that are long together.
        let mut left = self.names.text.len().saturating_mul(16);
        for at in 0..self.entries.len() {
            let name = self.name(at);
            let common = common_bytes(last, name);
            for len in dots(&name.as_bytes()[common..]).map(|dot| common + dot) {
                left = left.checked_sub(len)?;
                let beginning = &name[..len];
                let same = |group: &(u32, usize)| self.beginning(*group) == beginning;
                match groups.first.entry(self.hasher.hash_one(beginning), same, hash) {
                    hashbrown::hash_table::Entry::Occupied(_) => groups.are_runs = false,
                    hashbrown::hash_table::Entry::Vacant(vacant) => {
                        vacant.insert((u32::try_from(at).expect("that many were pushed"), len));
                        groups.are_runs &= self.position(beginning).is_none();
                    }
                }
            }
            last = name;
        }
        Some(groups)
    }

    fn beginning(&self, (at, len): (u32, usize)) -> &str {
        &self.name(at as usize)[..len]
    }

    /// Returns whether all tensors below `prefix` come before the tensor `first`. `false` if only a search can tell.
    fn all_below_are_before(&self, prefix: &str, first: usize) -> bool {
        let Some(groups) = self.groups() else { return false };
        let same = |group: &(u32, usize)| self.beginning(*group) == prefix;
        if groups.first.find(self.hasher.hash_one(prefix), same).is_none() {
            return true;
        }
        let is_below = |at: usize| self.name(at).strip_prefix(prefix).is_some_and(|rest| rest.starts_with('.'));
        groups.are_runs && first > 0 && is_below(first - 1) && !is_below(first)
    }
}

/// Returns the number of bytes that two names begin with.
fn common_bytes(one: &str, other: &str) -> usize {
    one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count()
}

fn dots(bytes: &[u8]) -> impl Iterator<Item = usize> {
    bytes.iter().enumerate().filter(|(_, byte)| **byte == b'.').map(|(at, _)| at)
}

/// The names of tensors, one after the other: each takes its length and 8 bytes.
#[derive(Debug, Clone, Default)]
struct NameList {
    text: String,
    /// The end of each name in `text`, twice, and one more if there is no name. Tensors after the last name are left out.
    ends: Vec<usize>,
}

impl NameList {
    /// Sets the name of a tensor, after those of all tensors before it.
    fn set_last(&mut self, at: usize, name: &str) {
        let unnamed = self.text.len() * 2 + 1;
        self.ends.resize(at, unnamed);
        self.text.push_str(name);
        self.ends.push(self.text.len() * 2);
    }

    #[inline]
    fn get(&self, at: usize) -> Option<&str> {
        let end = self.ends.get(at).filter(|end| **end % 2 == 0)? / 2;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before] / 2);
        Some(&self.text[start..end])
    }

    fn shrink(&mut self) {
        self.text.shrink_to_fit();
    }
}

/// The numbers from 0 on, as text.
#[derive(Debug, Clone)]
struct Positions {
    /// All digits, one number after the other.
    digits: String,
}

impl Positions {
    /// The numbers below `end`.
    fn new(end: usize) -> Self {
        let mut positions = Self { digits: String::new() };
        (0..end).for_each(|number| positions.push(number));
        positions
    }

    fn push(&mut self, number: usize) {
        self.digits.push_str(itoa::Buffer::new().format(number));
    }

    fn get(&self, number: usize) -> &str {
        // The numbers of fewer digits come before.
        let (mut first, mut len, mut start) = (0, 1, 0);
        let mut next = 10;
        while number >= next {
            start += (next - first) * len;
            (first, len) = (next, len + 1);
            next *= 10;
        }
        let start = start + (number - first) * len;
        &self.digits[start..start + len]
    }
}

/// The tensors of an [`Index`] that have not been read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unread {
    read: Vec<bool>,
    /// All tensors before this one are read.
    first: usize,
    /// For each place in the order of names, the place itself or a later one such that all in between are read. Made
    /// when a part of a name is first searched.
    next: Vec<usize>,
}

impl Unread {
    /// Nothing of an index has been read.
    pub(crate) fn of(index: &Index) -> Self {
        Self { read: vec![false; index.len()], ..Self::default() }
    }

    /// A tensor was added to the index.
    pub(crate) fn push(&mut self) {
        self.read.push(false);
        self.next.clear();
    }

    /// The names of the tensors have changed.
    pub(crate) fn renamed(&mut self) {
        self.next.clear();
    }

    pub(crate) fn mark_read(&mut self, index: &Index, at: usize) {
        self.read[at] = true;
        if !self.next.is_empty() {
            let place = index.sorted().rank[at];
            self.next[place] = place + 1;
        }
    }

    pub(crate) fn is_read(&self, at: usize) -> bool {
        self.read[at]
    }

    /// Returns the first tensor in file order that is not read.
    pub(crate) fn first(&mut self) -> Option<usize> {
        while self.read.get(self.first) == Some(&true) {
            self.first += 1;
        }
        (self.first < self.read.len()).then_some(self.first)
    }

    /// Returns the number of tensors that are not read.
    pub(crate) fn count(&self) -> usize {
        self.read.iter().filter(|read| !**read).count()
    }

    /// Returns the tensor of that name.
    pub(crate) fn find(&self, index: &Index, name: &str) -> Option<usize> {
        index.position(name).filter(|at| !self.read[*at])
    }

    /// Returns the first tensor by name that is `prefix` or is below it; of all tensors if there is no prefix.
    pub(crate) fn first_under(&mut self, index: &Index, prefix: Option<&str>) -> Option<usize> {
        let first = self.first();
        let Some(prefix) = prefix.filter(|_| first.is_some()) else { return first };
        if let Some(found) = self.find(index, prefix) {
            return Some(found);
        }
        if first.is_some_and(|first| index.all_below_are_before(prefix, first)) {
            return None;
        }
        let sorted = index.sorted();
        if self.next.is_empty() {
            let next = sorted.order.iter().enumerate().map(|(place, &at)| place + usize::from(self.read[at]));
            self.next = next.collect();
        }
        let start = sorted.order.partition_point(|&at| sorts_before(index.name(at), prefix));
        let place = self.next_place(start);
        let at = *sorted.order.get(place)?;
        index.name(at).strip_prefix(prefix)?.starts_with('.').then_some(at)
    }

    /// Returns the first unread place from `place` on, or the number of places.
    ///
    /// The links that were followed are shortened, so a long run of read tensors is walked only once.
    fn next_place(&mut self, place: usize) -> usize {
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

    /// Returns names for a message: of the unread tensors, or of all if there are none.
    pub(crate) fn labels(&self, index: &Index) -> Vec<String> {
        const ENOUGH: usize = 1000;
        let any = self.count() > 0;
        let shown = (0..index.len()).filter(|&at| !any || !self.read[at]);
        shown.take(ENOUGH).map(|at| index.label(at)).collect()
    }
}

/// Returns whether a name sorts before all names below `prefix`, which begin with it and a dot.
fn sorts_before(name: &str, prefix: &str) -> bool {
    match name.strip_prefix(prefix) {
        Some(rest) => rest.as_bytes() < b".".as_slice(),
        None => name < prefix,
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
    fn finds_tensors_under_a_prefix_until_they_are_read() {
        let index = index(&["b.x", "a-1", "a.y", "ab", "a.x"]);
        let mut unread = Unread::of(&index);
        assert_eq!(unread.first_under(&index, Some("a")), Some(4));
        unread.mark_read(&index, 4);
        assert_eq!(unread.first_under(&index, Some("a")), Some(2));
        unread.mark_read(&index, 2);
        assert_eq!(unread.first_under(&index, Some("a")), None);
        assert_eq!(unread.first_under(&index, Some("b")), Some(0));
    }

    #[test]
    fn finds_the_end_of_a_group_without_a_search() {
        for (names, are_runs) in [
            (&["a.b.x", "a.b.y", "a.x", "b.a", "c"][..], true),
            (&["a.b.x", "a.x", "a.b.y"], false),
            (&["a", "b", "a.x"], false),
            (&["a.x", "b", "a"], false),
        ] {
            let index = index(names);
            assert_eq!(index.groups().unwrap().are_runs, are_runs, "{names:?}");
            // The answer is that of a search.
            for read in 0..1 << names.len() {
                let mut unread = Unread::of(&index);
                (0..names.len()).filter(|at| read >> at & 1 == 1).for_each(|at| unread.mark_read(&index, at));
                for prefix in ["a", "a.b", "a.b.x", "b", "c", "d"] {
                    let found = unread.first_under(&index, Some(prefix));
                    let is_under = |at: &usize| names[*at] == prefix || names[*at].starts_with(&format!("{prefix}."));
                    let any = (0..names.len()).filter(|at| read >> at & 1 == 0).find(is_under);
                    assert_eq!(found.is_some(), any.is_some(), "{prefix} of {names:?}");
                    assert!(found.is_none_or(|at| is_under(&at) && !unread.is_read(at)));
                }
            }
        }
    }

    #[test]
    fn gives_up_on_names_of_dots() {
        assert!(index(&[&".".repeat(1 << 10)]).groups().is_none());
        assert!(index(&["a.b.c.d.e.f.g"]).groups().is_some());
    }

    #[test]
    fn positions_are_numbers_in_decimal() {
        let positions = Positions::new(1201);
        (0..1201).for_each(|number| assert_eq!(positions.get(number), number.to_string()));
    }

    #[test]
    fn an_entry_is_small() {
        // Entries of a large index take most of the memory for it.
        assert!(size_of::<Located>() <= 104, "{} bytes", size_of::<Located>());
    }

    #[test]
    fn a_list_of_names_has_gaps() {
        let mut names = NameList::default();
        names.set_last(1, "a");
        names.set_last(2, "");
        names.set_last(5, "bc");
        let found: Vec<_> = (0..7).map(|at| names.get(at)).collect();
        assert_eq!(found, [None, Some("a"), Some(""), None, None, Some("bc"), None]);
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
