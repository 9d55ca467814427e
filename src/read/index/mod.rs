//! The tensors of a file, found by name, by position and by the beginnings of names.

mod entry;
mod entry_table;
mod groups;
mod name_table;
mod names;
mod unread;

use std::ops::Range;

use super::Codec;
use crate::error::{Error, ErrorKind, Result};
use crate::model::is_index;
use crate::tensor::{Dtype, Shape, TensorInfo};

pub(crate) use entry::Entry;
pub(crate) use unread::{Labels, Unread};

use entry_table::EntryTable;
use groups::{NameGroups, NameSearch};
use name_table::NameTable;

/// The tensors of a file, added by an [`IndexReader`](super::IndexReader).
///
/// ```
/// use tensorfile::format::Index;
/// use tensorfile::{Dtype, TensorInfo};
///
/// let mut index = Index::default();
/// index.push(Some("weight"), TensorInfo::new(Dtype::F32, [2]), 64..72)?;
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Index {
    entries: EntryTable,
    names: NameTable,
    groups: NameGroups,
    /// The number of known tensors. Later ones were read ahead, as in a stream with a single header.
    known: usize,
    /// The tensors before the first one.
    pub(crate) left_out: LeftOut,
    /// A known tensor begins before the one before it.
    is_backwards: bool,
    /// The names come from an extra tensor, not from the format.
    pub(crate) has_embedded_names: bool,
    /// A format outside of this crate added tensors. Their payloads may end after the file.
    needs_ends_checked: bool,
}

/// The number of dropped or omitted tensors of a stream. Later tensors keep their numbers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LeftOut {
    pub(crate) tensors: usize,
    /// The offset of the next tensor of the stream, in formats that record it.
    pub(crate) next_offset: u64,
}

impl Index {
    /// Adds a tensor: its name, its header, and the range of its payload in bytes from the start of the file.
    ///
    /// A tensor without a name is called by its position.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Limit`]: there are 2³² already.
    /// - [`ErrorKind::InvalidTensor`]: the payload has another length than the tensor takes, or the dim order another
    ///   rank than the shape.
    /// - [`ErrorKind::Malformed`]: the payload ends before it begins.
    ///
    /// [`IndexReader::read_on`](super::IndexReader::read_on) fails later if a payload ends after the file.
    pub fn push(&mut self, name: Option<&str>, info: TensorInfo, payload: Range<u64>) -> Result<()> {
        let (start, i) = (payload.start, self.entries.len());
        let checked = check_pushed(&info, &payload);
        checked.map_err(|error| error.at(start).in_tensor(name.map_or_else(|| format!("#{i}"), str::to_owned)))?;
        self.needs_ends_checked = true;
        self.push_checked(name, info, payload)
    }

    /// Adds an i64 without dims. `text` is the range of the file with the number in decimal, as UTF-8.
    ///
    /// ```
    /// use tensorfile::format::Index;
    ///
    /// // The file has `207` there.
    /// Index::default().push_number("label", 512..515)?;
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Limit`]: there are 2³² tensors already. Reading the number is an error if the text is not one.
    pub fn push_number(&mut self, name: &str, text: Range<u64>) -> Result<()> {
        self.needs_ends_checked = true;
        let info = TensorInfo::new(Dtype::I64, Shape::default());
        self.push_coded(self.unless_position(name), info, text, Some(Codec::Decimal))
    }

    /// Returns the name for the next tensor to be stored: none, if it is its position.
    fn unless_position<'n>(&self, name: &'n str) -> Option<&'n str> {
        let is_position = is_index(name) && name.parse() == Ok(self.entries.len());
        (!is_position).then_some(name)
    }

    /// Adds a tensor of another file, placed `start` bytes later, under another name.
    pub(crate) fn push_nested(&mut self, other: &Self, i: usize, name: &str, start: u64) -> Result<()> {
        self.push_from(other, i, self.unless_position(name), start)
    }

    /// Adds a tensor as [`push`](Self::push) does. Its format has checked it.
    #[inline]
    pub(crate) fn push_checked(&mut self, name: Option<&str>, info: TensorInfo, payload: Range<u64>) -> Result<()> {
        let info = self.entries.add_info(info);
        self.push_entry(name, info, payload)
    }

    /// Adds a tensor with the header of the one at a position.
    #[inline]
    pub(crate) fn push_alike(&mut self, name: Option<&str>, alike: usize, payload: Range<u64>) -> Result<()> {
        self.push_entry(name, self.entries.info_number(alike), payload)
    }

    #[inline]
    fn push_entry(&mut self, name: Option<&str>, info: u32, payload: Range<u64>) -> Result<()> {
        let i = self.entries.len();
        if u32::try_from(i).is_err() {
            return Err(too_many(i));
        }
        self.entries.push(info, payload);
        self.names.push(name, self.entries.capacity());
        Ok(())
    }

    /// Adds a tensor whose payload needs decoding.
    pub(crate) fn push_coded(
        &mut self,
        name: Option<&str>,
        info: TensorInfo,
        range: Range<u64>,
        codec: Option<Codec>,
    ) -> Result<()> {
        self.push_checked(name, info, range)?;
        if let Some(codec) = codec {
            self.entries.set_codec(self.entries.len() - 1, codec);
        }
        Ok(())
    }

    /// Checks that all payloads, from tensor `first` on, end within a file of `len` bytes.
    pub(crate) fn check_ends(&self, first: usize, len: Option<u64>) -> Result<()> {
        let Some(len) = len.filter(|_| self.needs_ends_checked) else { return Ok(()) };
        match self.entries.ending_after(len, first) {
            Some(i) => {
                let Range { start, end } = self.entries.get(i).range();
                let (needed, left) = (end - start, len.saturating_sub(start));
                Err(Error::new(ErrorKind::Truncated { needed, left }).at(start).in_tensor(self.label(i)))
            }
            None => Ok(()),
        }
    }

    /// Makes room for more tensors. This takes less memory than growing step by step.
    pub fn reserve(&mut self, tensors: usize) {
        self.entries.reserve(tensors);
    }

    /// Adds the tensors of another file, placed `start` bytes later, under their names. Tensors refused by `keeps` are
    /// left out.
    pub(crate) fn append(&mut self, other: &Self, start: u64, keeps: &mut dyn FnMut(&str) -> bool) -> Result<()> {
        self.reserve(other.len());
        for i in 0..other.len() {
            let name = other.name(i);
            if !keeps(name) {
                continue;
            }
            // As in a single file, a name equal to the position is not stored.
            self.push_nested(other, i, name, start)?;
        }
        self.has_embedded_names |= other.has_embedded_names;
        self.compare_names().map_err(|i| self.duplicate(i))?;
        self.make_known(self.entries.len());
        Ok(())
    }

    /// An index of a tensor of another one, with the same number in messages.
    pub(crate) fn from_one(other: &Self, i: usize) -> Result<Self> {
        let left_out = LeftOut { tensors: i, next_offset: 0 };
        let mut index = Self { left_out, ..Self::default() };
        index.push_from(other, i, other.names.get(i), 0)?;
        index.complete()?;
        Ok(index)
    }

    fn push_from(&mut self, other: &Self, i: usize, name: Option<&str>, start: u64) -> Result<()> {
        let entry = other.entry(i);
        let range = start.saturating_add(entry.start)..start.saturating_add(entry.end);
        self.push_coded(name, entry.info.clone(), range, entry.codec.cloned())
    }

    /// Adds a tensor of several files. As in a single file, a name equal to the position is not stored.
    pub(crate) fn push_named(
        &mut self,
        name: &str,
        info: TensorInfo,
        range: Range<u64>,
        codec: Option<Codec>,
    ) -> Result<()> {
        self.push_coded(self.unless_position(name), info, range, codec)
    }

    /// Frees spare capacity, if it is large.
    pub(crate) fn shrink(&mut self) {
        self.entries.shrink();
        self.names.shrink();
    }

    /// Returns the number of tensors, including tensors read ahead.
    #[inline]
    pub(crate) fn pushed(&self) -> usize {
        self.entries.len()
    }

    /// Makes the first `known` tensors known.
    pub(crate) fn make_known(&mut self, known: usize) {
        let first = self.known.saturating_sub(1);
        self.is_backwards |= !self.entries.are_in_order(first..known);
        self.known = known;
        self.groups = NameGroups::default();
    }

    /// Makes all tensors known.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::DuplicateName`].
    pub(crate) fn complete(&mut self) -> Result<()> {
        self.compare_names().map_err(|i| self.duplicate(i))?;
        self.make_known(self.entries.len());
        self.names.check_positions(self.known)
    }

    /// Compares the names of new tensors with all earlier ones.
    ///
    /// # Errors
    ///
    /// The position of the first tensor with a repeated name, unless names may repeat.
    pub(crate) fn compare_names(&mut self) -> Result<(), usize> {
        self.names.compare()
    }

    /// The error for a tensor with a repeated name.
    pub(crate) fn duplicate(&self, i: usize) -> Error {
        Error::new(ErrorKind::DuplicateName { name: self.name(i).to_owned() }).at(self.entries.get(i).start())
    }

    /// Refuses repeated names.
    pub(crate) fn check_unique(&self) -> Result<()> {
        match self.names.repeated().first() {
            Some(&i) => Err(self.ambiguous(i)),
            None => Ok(()),
        }
    }

    /// Refuses a name if it is repeated.
    pub(crate) fn check_unique_name(&self, name: &str) -> Result<()> {
        match self.names.repeated().iter().find(|i| self.name(**i) == name) {
            Some(&i) => Err(self.ambiguous(i)),
            None => Ok(()),
        }
    }

    fn ambiguous(&self, i: usize) -> Error {
        let kind = ErrorKind::AmbiguousName { name: self.name(i).to_owned() };
        Error::new(kind).at(self.entries.get(i).start())
    }

    /// Returns whether a name belongs to several tensors.
    #[inline]
    pub(crate) fn has_repeated_names(&self) -> bool {
        !self.names.repeated().is_empty()
    }

    /// Drops all tensors. The numbers of later tensors continue.
    pub(crate) fn clear(&mut self) {
        self.left_out.tensors += self.entries.len();
        self.entries.clear();
        self.names.clear();
        self.groups = NameGroups::default();
        self.known = 0;
    }

    /// Returns the number of all tensors so far, including dropped ones.
    pub(crate) fn count(&self) -> usize {
        self.left_out.tensors + self.entries.len()
    }

    /// Removes the last tensor, which is unnamed.
    pub(crate) fn pop(&mut self) {
        self.entries.pop();
        self.names.pop();
    }

    /// Names the tensors by the list in the extra tensor. The names together have at most `bytes` bytes.
    pub(crate) fn embed(&mut self, names: &mut dyn Iterator<Item = &str>, bytes: usize) -> Result<()> {
        self.has_embedded_names = true;
        self.rename(names, bytes)
    }

    /// Gives every tensor another name. Together they have at most `bytes` bytes.
    pub(crate) fn rename(&mut self, names: &mut dyn Iterator<Item = &str>, bytes: usize) -> Result<()> {
        self.names.rename(names, bytes);
        self.groups = NameGroups::default();
        self.compare_names().map_err(|i| ErrorKind::DuplicateName { name: self.name(i).to_owned() }.into())
    }

    /// Renames tensors by a function of their positions and names. `None` keeps the current state.
    pub(crate) fn rename_by(&mut self, rename: &dyn Fn(usize, &str) -> Option<String>) -> Result<()> {
        self.names.rename_by(rename);
        self.groups = NameGroups::default();
        self.has_embedded_names = false;
        self.complete()
    }

    /// Sorts the tensors by the start and end of their payloads, before any is known. Returns their old positions, if
    /// the order changes.
    pub(crate) fn sort(&mut self) -> Option<Vec<usize>> {
        let order = self.entries.sort()?;
        self.names.reorder(&order);
        Some(order)
    }

    /// Returns whether the payloads are in the order of the tensors.
    pub(crate) fn is_in_file_order(&self) -> bool {
        !self.is_backwards
    }

    /// Returns whether any tensor so far has a name.
    pub(crate) fn has_names(&self) -> bool {
        self.names.has_any()
    }

    /// Returns the number of known tensors.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.known
    }

    #[inline]
    pub(crate) fn entry(&self, i: usize) -> Entry<'_> {
        self.entries.get(i)
    }

    /// Returns headers and ranges as they are stored.
    #[inline]
    pub(crate) fn entries(&self) -> &EntryTable {
        &self.entries
    }

    pub(crate) fn entries_mut(&mut self) -> &mut EntryTable {
        &mut self.entries
    }

    pub(crate) fn names(&self) -> &NameTable {
        &self.names
    }

    /// Allows several tensors with the same name. Call it before the first tensor is added.
    pub(crate) fn let_names_repeat(&mut self) {
        self.names.let_repeat();
    }

    /// Returns what finds tensors by the beginnings of their names.
    #[inline]
    pub(crate) fn search(&self) -> NameSearch<'_> {
        NameSearch::new(self)
    }

    pub(crate) fn has_name(&self, i: usize) -> bool {
        self.names.get(i).is_some()
    }

    /// Returns the name, or the position if there is none.
    #[inline]
    pub(crate) fn name(&self, i: usize) -> &str {
        self.names.name(i)
    }

    /// Returns the name for messages.
    pub(crate) fn label(&self, i: usize) -> String {
        self.names.get(i).map_or_else(|| format!("#{}", self.left_out.tensors + i), str::to_owned)
    }

    /// Returns the position of the tensor called `name`.
    #[inline]
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.names.find(name).filter(|i| *i < self.known)
    }
}

/// Checks a payload range against the tensor.
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
fn too_many(i: usize) -> Error {
    ErrorKind::Limit { what: "number of tensors", found: i as u64 + 1, limit: 1 << 32 }.into()
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
    fn refuses_two_tensors_of_one_name() {
        // Many tensors are found by a table.
        for count in 1..20 {
            let names: Vec<String> = (0..count).map(|i| format!("t{i}")).collect();
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
            for i in 0..count {
                // Every third has no name, and two have the same.
                let name = (i % 3 > 0).then(|| format!("t{}", i % 10));
                index.push(name.as_deref(), TensorInfo::new(Dtype::U8, []), 0..1).unwrap();
            }
            index.complete().unwrap();
            for i in 0..count {
                let name = index.name(i).to_owned();
                let first = (0..count).find(|i| index.name(*i) == name);
                assert_eq!(index.position(&name), first, "{name} of {count}");
            }
            assert_eq!((index.position("t0"), index.has_names()), ((count > 10).then_some(10), count > 1));
            let names: Vec<String> = (0..count).rev().map(|i| i.to_string()).collect();
            index.rename(&mut names.iter().map(String::as_str), 0).unwrap();
            assert!((0..count).all(|i| index.position(&i.to_string()) == Some(count - 1 - i)));
        }
    }

    #[test]
    fn tensors_that_were_read_ahead_are_not_found() {
        for count in [3, 20] {
            let names: Vec<String> = (0..count).map(|i| format!("t{i}")).collect();
            let mut index = Index::default();
            for (name, i) in names.iter().zip(0..) {
                index.push(Some(name), TensorInfo::new(Dtype::U8, []), i..i + 1).unwrap();
            }
            index.compare_names().unwrap();
            for known in 0..count {
                index.make_known(known);
                let found: Vec<_> = names.iter().filter_map(|name| index.position(name)).collect();
                assert_eq!(found, (0..known).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn sorting_keeps_names_and_headers() {
        let mut index = Index::default();
        for i in 0..20 {
            let name = (i % 4 > 0).then(|| format!("t{i}"));
            let start = 100 - i as u64;
            index.push_checked(name.as_deref(), TensorInfo::new(Dtype::U8, [100 - i]), start..start).unwrap();
        }
        index.compare_names().unwrap();
        assert_eq!(index.sort(), Some((0..20).rev().collect()));
        index.complete().unwrap();
        for i in 0..20 {
            let before = 19 - i;
            let name = if before % 4 > 0 { format!("t{before}") } else { i.to_string() };
            assert_eq!((index.name(i), index.position(&name)), (&*name, Some(i)));
            assert_eq!(index.entry(i).info().shape, [100 - before]);
        }
        assert_eq!(index.sort(), None);
    }
}
