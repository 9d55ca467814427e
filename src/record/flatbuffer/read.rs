use std::cell::Cell;

use crate::error::{Error, ErrorKind, Result};

/// Reads a flatbuffer that anyone may have written.
///
/// Each part is checked when it is read, as the verifier of the crate `flatbuffers` does: it lies within the flatbuffer and
/// is aligned, and strings are UTF-8 and end with a NUL. Lists of fields that are too short for their own header are
/// refused too, as all fields of their tables would seem to be absent.
#[derive(Debug)]
pub(crate) struct FlatbufferReader<'a> {
    bytes: &'a [u8],
    origin: FlatbufferOrigin,
    /// The number of bytes that may still be read. Parts may be referenced any number of times, so the time for a file
    /// would not be bounded by its length.
    left: Cell<usize>,
    /// The position and the length of the list of fields that was checked last. Most tables share one with the table before.
    list: Cell<(usize, usize)>,
}

/// The offset in the file of the bytes of a flatbuffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FlatbufferOrigin {
    /// The number of bytes that have their own position as their offset.
    pub(crate) unmoved: usize,
    /// The distance from the position of all others to their offset.
    pub(crate) distance: u64,
}

impl FlatbufferOrigin {
    pub(crate) fn offset(self, position: usize) -> u64 {
        position as u64 + if position < self.unmoved { 0 } else { self.distance }
    }
}

/// The size of an offset, and of the length of a vector.
const OFFSET: usize = 4;

/// The length of the shortest list of fields: its own length and that of the table.
const SHORTEST_LIST: usize = 4;

impl<'a> FlatbufferReader<'a> {
    pub(crate) fn new(bytes: &'a [u8], origin: FlatbufferOrigin) -> Self {
        // No writer references more than lists of fields and perhaps strings twice.
        let most = bytes.len().saturating_mul(32).saturating_add(1 << 16);
        Self { bytes, origin, left: Cell::new(most), list: Cell::new((0, 0)) }
    }

    /// Reads the root table.
    pub(crate) fn root(&'a self) -> Result<Table<'a>> {
        self.table(0, 0)
    }

    /// Reads the table that the offset at `from` refers to, which is in the part at `owner`.
    #[inline]
    fn table(&'a self, from: usize, owner: usize) -> Result<Table<'a>> {
        let position = self.follow(from, owner)?;
        let distance = i32::from_le_bytes(self.array(position, from)?);
        let list = i64::try_from(position).ok().and_then(|position| position.checked_sub(distance.into()));
        let list = list.and_then(|list| usize::try_from(list).ok()).filter(|list| *list < self.bytes.len());
        let list = list.ok_or_else(|| self.broken("a table's list of fields lies outside of it", position))?;
        let (known, list_bytes) = self.list.get();
        if list == known && list_bytes > 0 {
            self.spend(size_of::<u16>() + list_bytes)?;
            return Ok(Table { buffer: self, position, list, list_bytes });
        }
        let list_bytes = usize::from(u16::from_le_bytes(self.array(list, position)?));
        if list_bytes < SHORTEST_LIST {
            let (what, expected) = ("length of a table's list of fields", format!("at least {SHORTEST_LIST}"));
            let wrong = ErrorKind::BadNumber { what, found: list_bytes as i128, expected };
            return Err(Error::new(wrong).at(self.origin.offset(list)));
        }
        if !list_bytes.is_multiple_of(size_of::<u16>()) {
            return Err(self.broken("an offset is not aligned", list));
        }
        self.run(list, list_bytes, list)?;
        self.list.set((list, list_bytes));
        Ok(Table { buffer: self, position, list, list_bytes })
    }

    /// Returns the position that the offset at `from` refers to, which may lie outside.
    #[inline]
    fn follow(&self, from: usize, owner: usize) -> Result<usize> {
        let offset = u32::from_le_bytes(self.array(from, owner)?);
        Ok(usize::try_from(offset).map_or(usize::MAX, |offset| from.saturating_add(offset)))
    }

    /// Returns a number, which lies at a multiple of its size. `from` is the position of the reference to it.
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
        let run = run.ok_or_else(|| self.misplaced("a part lies outside of it", position, from))?;
        self.spend(len)?;
        Ok(run)
    }

    /// Counts bytes that are read.
    #[inline]
    fn spend(&self, len: usize) -> Result<()> {
        let left = self.left.get().checked_sub(len);
        self.left.set(left.ok_or_else(|| self.broken("its parts are referenced too often", 0))?);
        Ok(())
    }

    /// Reads the vector that the offset at `from` refers to.
    #[inline]
    fn vector(&self, from: usize, owner: usize, element: usize) -> Result<Vector<'a>> {
        let position = self.follow(from, owner)?;
        let len = u32::from_le_bytes(self.array(position, from)?);
        let start = position + OFFSET;
        if !start.is_multiple_of(element) {
            return Err(self.misplaced("an offset is not aligned", start, position));
        }
        let bytes = usize::try_from(len).ok().and_then(|len| len.checked_mul(element)).unwrap_or(usize::MAX);
        Ok(Vector { start, len: bytes / element, bytes: self.run(start, bytes, position)? })
    }

    /// Reads the string that the offset at `from` refers to.
    #[inline]
    fn string(&self, from: usize, owner: usize) -> Result<&'a str> {
        let Vector { start, len, bytes } = self.vector(from, owner, 1)?;
        let text = std::str::from_utf8(bytes).map_err(|_| self.broken("a string is not UTF-8", start))?;
        match self.bytes.get(start + len) {
            Some(0) => Ok(text),
            _ => Err(self.misplaced("a string does not end with a NUL", start + len, from)),
        }
    }

    /// The error for a part that is wrong: at its position, or at the reference to it if it lies outside.
    #[cold]
    fn misplaced(&self, why: &str, position: usize, from: usize) -> Error {
        self.broken(why, if position < self.bytes.len() { position } else { from })
    }

    #[cold]
    fn broken(&self, why: &str, position: usize) -> Error {
        let what = format!("the flatbuffer is broken: {why}");
        Error::new(ErrorKind::Malformed { what }).at(self.origin.offset(position))
    }
}

/// The elements of a vector.
struct Vector<'a> {
    /// The position of the first.
    start: usize,
    len: usize,
    bytes: &'a [u8],
}

/// A table. Its fields are called by their numbers in the schema, from 0 on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Table<'a> {
    buffer: &'a FlatbufferReader<'a>,
    position: usize,
    /// The position of its list of fields.
    list: usize,
    list_bytes: usize,
}

impl<'a> Table<'a> {
    /// Returns the offset of the table in the file.
    pub(crate) fn offset(&self) -> u64 {
        self.buffer.origin.offset(self.position)
    }

    /// Returns the offset of a field in the file, or of the table if it lacks the field or the field lies outside.
    #[cfg(feature = "ptd")]
    pub(crate) fn field_offset(&self, field: usize) -> u64 {
        let position = self.find(field).filter(|position| *position < self.buffer.bytes.len());
        self.buffer.origin.offset(position.unwrap_or(self.position))
    }

    /// Returns whether the table has a field.
    pub(crate) fn has(&self, field: usize) -> bool {
        self.find(field).is_some()
    }

    /// Returns the position of a field, which may lie outside.
    #[inline]
    fn find(&self, field: usize) -> Option<usize> {
        let entry = SHORTEST_LIST + size_of::<u16>() * field;
        let list = &self.buffer.bytes[self.list..self.list + self.list_bytes];
        let offset = u16::from_le_bytes(*list.get(entry..)?.first_chunk()?);
        (offset > 0).then(|| self.position + usize::from(offset))
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
        Ok(self.buffer.vector(from, self.position, N)?.bytes.as_chunks().0)
    }

    /// Returns a table, if this one has the field.
    #[cfg(feature = "ptd")]
    pub(crate) fn table(&self, field: usize) -> Result<Option<Table<'a>>> {
        self.find(field).map(|from| self.buffer.table(from, self.position)).transpose()
    }

    /// Returns a vector of tables. There are none if the table lacks the field.
    pub(crate) fn tables(&self, field: usize) -> Result<Tables<'a>> {
        let Some(from) = self.find(field) else { return Ok(Tables { buffer: self.buffer, start: 0, len: 0 }) };
        let Vector { start, len, .. } = self.buffer.vector(from, self.position, OFFSET)?;
        Ok(Tables { buffer: self.buffer, start, len })
    }
}

/// A vector of tables.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tables<'a> {
    buffer: &'a FlatbufferReader<'a>,
    /// The position of the first offset.
    start: usize,
    len: usize,
}

impl<'a> Tables<'a> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, at: usize) -> Result<Table<'a>> {
        let from = self.start + OFFSET * at;
        self.buffer.table(from, from)
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = Result<Table<'a>>> {
        (0..self.len).map(move |at| self.get(at))
    }
}
