//! A reader for untrusted FlatBuffers. The crate `flatbuffers` builds ours.
//!
//! We do not read with the crate: its accessors are `unsafe`, or generated around `unsafe`, and need a verifier to run
//! first. The verifier wants parts aligned in memory, which files of real software do not guarantee, and its errors
//! have no offset. Our reader is safe, checks each part when it is read, and reports where a file is broken. Tests
//! compare both.
//!
//! # Specification
//!
//! The [FlatBuffers internals](https://flatbuffers.dev/internals/).

use std::cell::Cell;
use std::ops::Range;

use crate::error::{Error, ErrorKind, Result};

/// Reads an untrusted flatbuffer.
///
/// Each part is checked when it is read, as by the verifier of the crate `flatbuffers`: it lies within the flatbuffer
/// and is aligned, and strings are UTF-8 and end with a NUL. Unlike the verifier, we also refuse field lists shorter
/// than their own header, because all fields would seem absent, and field lists before the first byte, where the
/// verifier mistakes the file identifier for one.
#[derive(Debug)]
pub(crate) struct FlatbufferReader<'a> {
    bytes: &'a [u8],
    /// The offset of the bytes in the file.
    start: u64,
    /// The number of bytes that may still be read. Without this budget, repeated references would make the time for a
    /// file independent of its length.
    left: Cell<usize>,
    /// A cache of checked field lists and their positions. Most tables share a list with an earlier table.
    lists: [Cell<(usize, FieldOffsets<'a>)>; LISTS],
}

/// The distance of each field from its table; 0 if the table lacks it.
type FieldOffsets<'a> = &'a [[u8; 2]];

/// The size of an offset, and of the length of a vector.
const OFFSET: usize = 4;

/// The number of cached field lists.
const LISTS: usize = 8;

/// The cost of a table, in bytes read.
const TABLE: usize = 16;

/// The shortest field list: its own length and the length of the table.
const SHORTEST_LIST: usize = 4;

impl<'a> FlatbufferReader<'a> {
    /// A reader of the bytes from `start` on in a file.
    pub(crate) fn new(bytes: &'a [u8], start: u64) -> Self {
        // No writer references more than lists of fields and perhaps strings twice.
        let most = bytes.len().saturating_mul(32).saturating_add(1 << 16);
        Self { bytes, start, left: Cell::new(most), lists: Default::default() }
    }

    /// Reads the root table from the offset at the start.
    pub(crate) fn root(&'a self) -> Result<Table<'a>> {
        self.table(0, 0)
    }

    /// Reads the table referred to by the offset at `from`, in the part at `owner`.
    // Inlined, as the functions of tables below: a table was moved several times through memory before its fields were
    // read.
    #[inline(always)]
    fn table(&'a self, from: usize, owner: usize) -> Result<Table<'a>> {
        self.table_at(self.follow(from, owner)?, from)
    }

    /// Reads the table at a position. `from` is the position of the reference to it.
    // This and what it calls is done for each tensor, and a table is too large to be returned in registers.
    #[inline(always)]
    pub(crate) fn table_at(&'a self, position: usize, from: usize) -> Result<Table<'a>> {
        let distance = i32::from_le_bytes(self.array(position, from)?);
        let distance = isize::try_from(-i64::from(distance)).unwrap_or(isize::MAX);
        // On wrap-around, this is not the position of a checked list.
        let list = position.wrapping_add_signed(distance);
        let (known, mut fields) = self.known_list(list).get();
        if known != list || fields.is_empty() {
            fields = self.check_list(position, distance)?;
        }
        // The few numbers of the table are included in its cost.
        self.spend(TABLE + SHORTEST_LIST + size_of_val(fields))?;
        Ok(Table { buffer: self, position, fields })
    }

    fn known_list(&self, list: usize) -> &Cell<(usize, FieldOffsets<'a>)> {
        &self.lists[list / OFFSET % LISTS]
    }

    /// Reads the list of fields at a distance from a table.
    #[cold]
    fn check_list(&self, table: usize, distance: isize) -> Result<FieldOffsets<'a>> {
        let list = table.checked_add_signed(distance);
        let list = list.ok_or_else(|| self.broken("a table's list of fields lies before its first part", table))?;
        if list >= self.bytes.len() {
            return Err(self.broken("a table's list of fields lies outside of it", table));
        }
        let list_bytes = usize::from(u16::from_le_bytes(self.array(list, table)?));
        if list_bytes < SHORTEST_LIST {
            let (what, expected) = ("length of a table's list of fields", format!("at least {SHORTEST_LIST}"));
            let wrong = ErrorKind::BadNumber { what, found: list_bytes as i128, expected };
            return Err(Error::new(wrong).at(self.offset(list)));
        }
        if !list_bytes.is_multiple_of(size_of::<u16>()) {
            return Err(self.broken("an offset is not aligned", list));
        }
        let (fields, _) = self.run(list, list_bytes, list)?[SHORTEST_LIST..].as_chunks();
        self.known_list(list).set((list, fields));
        Ok(fields)
    }

    /// Returns the position referred to by the offset at `from`. It may lie outside.
    #[inline]
    fn follow(&self, from: usize, owner: usize) -> Result<usize> {
        let offset = u32::from_le_bytes(self.array(from, owner)?);
        Ok(usize::try_from(offset).map_or(usize::MAX, |offset| from.saturating_add(offset)))
    }

    /// Returns a number, which must be aligned to its size. `from` is the position of the reference to it.
    #[inline]
    fn array<const N: usize>(&self, position: usize, from: usize) -> Result<[u8; N]> {
        if !position.is_multiple_of(N) {
            return Err(self.misplaced("an offset is not aligned", position, from));
        }
        let bytes = self.run(position, N, from)?;
        Ok(*bytes.first_chunk().expect("this many bytes were asked for"))
    }

    /// Returns some bytes. `from` is the position of the reference to them.
    #[inline]
    fn run(&self, position: usize, len: usize, from: usize) -> Result<&'a [u8]> {
        let run = position.checked_add(len).and_then(|end| self.bytes.get(position..end));
        run.ok_or_else(|| self.misplaced("a part lies outside of it", position, from))
    }

    /// Charges for bytes, except single numbers.
    #[inline]
    fn spend(&self, len: usize) -> Result<()> {
        let left = self.left.get().checked_sub(len);
        self.left.set(left.ok_or_else(|| self.broken("its parts are referenced too often", 0))?);
        Ok(())
    }

    /// Reads the vector referred to by the offset at `from`.
    #[inline]
    fn vector<const N: usize>(&self, from: usize, owner: usize) -> Result<Vector<'a, N>> {
        let position = self.follow(from, owner)?;
        let len = u32::from_le_bytes(self.array(position, from)?);
        let start = position + OFFSET;
        if !start.is_multiple_of(N) {
            return Err(self.misplaced("an offset is not aligned", start, position));
        }
        let bytes = usize::try_from(len).ok().and_then(|len| len.checked_mul(N)).unwrap_or(usize::MAX);
        let run = self.run(start, bytes, position)?;
        self.spend(OFFSET + bytes)?;
        Ok(Vector { start, elements: run.as_chunks().0 })
    }

    /// Reads the string referred to by the offset at `from`.
    #[inline]
    fn string(&self, from: usize, owner: usize) -> Result<&'a str> {
        let Vector { start, elements } = self.vector::<1>(from, owner)?;
        let (bytes, end) = (elements.as_flattened(), start + elements.len());
        let text = std::str::from_utf8(bytes).map_err(|_| self.broken("a string is not UTF-8", start))?;
        match self.bytes.get(end) {
            Some(0) => Ok(text),
            _ => Err(self.misplaced("a string does not end with a NUL", end, from)),
        }
    }

    /// The error for a wrong part: at its position, or at the reference to it if it lies outside.
    #[cold]
    fn misplaced(&self, why: &str, position: usize, from: usize) -> Error {
        self.broken(why, if position < self.bytes.len() { position } else { from })
    }

    #[cold]
    fn broken(&self, why: &str, position: usize) -> Error {
        let what = format!("the flatbuffer is broken: {why}");
        Error::new(ErrorKind::Malformed { what }).at(self.offset(position))
    }

    /// Returns the offset of a position in the file.
    fn offset(&self, position: usize) -> u64 {
        self.start + position as u64
    }
}

/// The elements of a vector, each of `N` bytes.
struct Vector<'a, const N: usize> {
    /// The position of the first.
    start: usize,
    elements: &'a [[u8; N]],
}

/// A table. Its fields are called by their numbers in the schema, from 0 on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Table<'a> {
    buffer: &'a FlatbufferReader<'a>,
    position: usize,
    fields: FieldOffsets<'a>,
}

impl<'a> Table<'a> {
    /// Returns the offset of the table in the file.
    pub(crate) fn offset(&self) -> u64 {
        self.buffer.offset(self.position)
    }

    /// Returns the offset of a field in the file, or of the table if it lacks the field or the field lies outside.
    pub(crate) fn field_offset(&self, field: usize) -> u64 {
        let position = self.find(field).filter(|position| *position < self.buffer.bytes.len());
        self.buffer.offset(position.unwrap_or(self.position))
    }

    /// Returns whether the table has a field.
    pub(crate) fn has(&self, field: usize) -> bool {
        self.find(field).is_some()
    }

    /// Returns the position of a field. It may lie outside.
    #[inline]
    fn find(&self, field: usize) -> Option<usize> {
        let distance = u16::from_le_bytes(*self.fields.get(field)?);
        (distance > 0).then(|| self.position + usize::from(distance))
    }

    #[inline]
    fn number<const N: usize>(&self, field: usize) -> Result<[u8; N]> {
        match self.find(field) {
            Some(position) => self.buffer.array(position, self.position),
            None => Ok([0; N]),
        }
    }

    /// Returns a number, or 0 if the table lacks the field.
    pub(crate) fn i8(&self, field: usize) -> Result<i8> {
        self.number(field).map(i8::from_le_bytes)
    }

    /// As [`i8`](Self::i8).
    pub(crate) fn u32(&self, field: usize) -> Result<u32> {
        self.number(field).map(u32::from_le_bytes)
    }

    /// As [`i8`](Self::i8).
    pub(crate) fn u64(&self, field: usize) -> Result<u64> {
        self.number(field).map(u64::from_le_bytes)
    }

    /// Returns a string, if the table has the field.
    pub(crate) fn string(&self, field: usize) -> Result<Option<&'a str>> {
        self.find(field).map(|from| self.buffer.string(from, self.position)).transpose()
    }

    /// Returns the bytes of a vector of numbers of `N` bytes. There are none if the table lacks the field.
    pub(crate) fn numbers<const N: usize>(&self, field: usize) -> Result<&'a [[u8; N]]> {
        let Some(from) = self.find(field) else { return Ok(&[]) };
        Ok(self.buffer.vector(from, self.position)?.elements)
    }

    /// Returns the place in the file of a vector of bytes, if the table has the field.
    pub(crate) fn bytes(&self, field: usize) -> Result<Option<Range<u64>>> {
        let Some(from) = self.find(field) else { return Ok(None) };
        let Vector { start, elements } = self.buffer.vector::<1>(from, self.position)?;
        let start = self.buffer.offset(start);
        Ok(Some(start..start + elements.len() as u64))
    }

    /// Returns a table, if this one has the field.
    #[inline(always)]
    pub(crate) fn table(&self, field: usize) -> Result<Option<Table<'a>>> {
        self.find(field).map(|from| self.buffer.table(from, self.position)).transpose()
    }

    /// Returns a vector of tables. There are none if the table lacks the field.
    pub(crate) fn tables(&self, field: usize) -> Result<Tables<'a>> {
        let Some(from) = self.find(field) else { return Ok(Tables { buffer: self.buffer, start: 0, offsets: &[] }) };
        let Vector { start, elements } = self.buffer.vector(from, self.position)?;
        Ok(Tables { buffer: self.buffer, start, offsets: elements })
    }
}

/// A vector of tables.
#[derive(Debug, Clone)]
pub(crate) struct Tables<'a> {
    buffer: &'a FlatbufferReader<'a>,
    /// The position of the first offset.
    start: usize,
    offsets: &'a [[u8; OFFSET]],
}

impl<'a> Tables<'a> {
    pub(crate) fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Returns the offset of a table in the file, which may lie outside. The table is not read.
    pub(crate) fn offset(&self, index: usize) -> u64 {
        let from = self.buffer.offset(self.start + OFFSET * index);
        from + u64::from(u32::from_le_bytes(self.offsets[index]))
    }

    #[inline(always)]
    pub(crate) fn get(&self, index: usize) -> Result<Table<'a>> {
        let from = self.start + OFFSET * index;
        self.buffer.table(from, from)
    }
}

impl<'a> Iterator for Tables<'a> {
    type Item = Result<Table<'a>>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let (_, rest) = self.offsets.split_first()?;
        let table = self.get(0);
        (self.start, self.offsets) = (self.start + OFFSET, rest);
        Some(table)
    }
}
