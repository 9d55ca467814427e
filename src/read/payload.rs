//! Reads payloads: stored as they are or coded, with or without a checksum.

use std::io;
use std::ops::Range;

use super::Entry;
use super::checksum::Sum;
use crate::error::{Error, ErrorKind, Result};
use crate::model::Payload;
use crate::storage::{FileStorage, ReadAt, Storage};
use crate::tensor::checked_io::write_all;
use crate::tensor::{
    Buffer, InvalidTensor, Layout, TensorInfo, are_bools, check_coo_indices, coo_index_bytes, try_reserve,
};

/// The most memory allocated before the first payload byte of a stream has arrived.
pub(super) const FIRST: usize = 1 << 20;

/// Returns whether checked elements could become invalid while borrowed. Only `bool` can: a `bool` other than 0 and 1
/// is undefined behavior.
fn may_become_invalid<'de>(storage: &(dyn Storage<'de> + 'de), entry: &Entry<'_>) -> bool {
    entry.has_bools() && storage.may_change()
}

/// Reads an uncompressed payload. It is not borrowed if it `will_be_copied` and reading takes less time.
pub(super) fn read_plain<'de>(
    storage: &mut (dyn Storage<'de> + 'de),
    entry: &Entry<'_>,
    will_be_copied: bool,
) -> Result<Payload<'de>> {
    let range = entry.range();
    let is_borrowed = !(will_be_copied && storage.reads_faster(&range));
    if is_borrowed && let Some(bytes) = storage.borrow(range.clone()) {
        let bytes = bytes?;
        // Borrowed bools are 0 and 1.
        let is_copied =
            may_become_invalid(&*storage, entry) || entry.has_bools() && entry.takes_any_bool() && !are_bools(bytes);
        return Ok(if is_copied {
            Payload::Owned(Buffer::try_from_slice(entry.info().unit_bytes(), bytes)?)
        } else {
            Payload::Borrowed(bytes)
        });
    }
    if let Some(held) = storage.take_held(&range)? {
        return Ok(Payload::Owned(held));
    }
    let too_large =
        || ErrorKind::Limit { what: "payload in bytes", found: range.end - range.start, limit: usize::MAX as u64 };
    let len = usize::try_from(range.end - range.start).map_err(|_| too_large())?;
    let element = entry.info().unit_bytes();
    if storage.file_len().is_some_and(|file_len| range.end <= file_len) {
        // The bytes are there, so the memory for them may be taken at once.
        let mut buffer = Buffer::try_zeroed(element, len)?;
        storage.read_at(range.start, &mut buffer)?;
        return Ok(Payload::Owned(buffer));
    }
    read_stream(storage, range, element, len).map(Payload::Owned)
}

/// Reads a range of a stream, of `len` bytes in elements of `element` bytes.
pub(super) fn read_stream<'de>(
    storage: &mut (dyn Storage<'de> + 'de),
    range: Range<u64>,
    element: usize,
    len: usize,
) -> Result<Buffer> {
    if let Some(payload) = storage.take_at_hand(range.clone()) {
        return Ok(Buffer::try_from_slice(element, payload)?);
    }
    let mut buffer = Buffer::with_capacity(element, len.min(FIRST));
    let mut done = range.start;
    while done < range.end {
        done += storage.append_to(&mut buffer, done..range.end, len).map_err(|error| of_whole(&range, done, error))?;
    }
    Ok(buffer)
}

/// Compares the checksum of an uncompressed payload, if the file has one.
pub(crate) fn check_sum(file: &mut dyn ReadAt, entry: &Entry<'_>, payload: &[u8]) -> Result<()> {
    let mut sum = Sum::of(entry, file)?;
    sum.update(payload);
    sum.end()
}

/// As [`check_sum`], with the bytes that the checksum covers before the payload.
pub(crate) fn check_sum_after(entry: &Entry<'_>, head: &[u8], payload: &[u8]) -> Result<()> {
    let mut sum = Sum::after(entry, head);
    sum.update(payload);
    sum.end()
}

/// Compares the checksum of a byte-swapped, uncompressed payload, if the file has one.
pub(crate) fn check_stored<'de>(storage: &mut (dyn Storage<'de> + 'de), entry: &Entry<'_>) -> Result<()> {
    if !entry.has_checksum() {
        return Ok(());
    }
    let mut sum = Sum::of(entry, &mut *storage)?;
    let range = entry.range();
    let mut done = range.start;
    while done < range.end {
        let piece = chunk(storage, &range, done)?;
        done += piece.len() as u64;
        sum.update(piece);
    }
    sum.end()
}

/// Compares the number of values in the payload of a sparse tensor with the number of its coordinates.
pub(crate) fn check_value_count(file: &mut dyn ReadAt, entry: &Entry<'_>) -> Result<()> {
    let Layout::Coo { entries } = entry.info().layout else { return Ok(()) };
    if entry.has_codec() {
        return Ok(());
    }
    let index = entry.value_count_offset();
    let mut values = [0; size_of::<u64>()];
    file.peek_at(index, &mut values)?;
    match u64::from_le_bytes(values) {
        values if values == entries as u64 => Ok(()),
        values => Err(Error::from(InvalidTensor::CoordinateCount { coordinates: entries as u64, values }).at(index)),
    }
}

/// Writes a range to `out`, in chunks as large as the chunks of a file. The inner error is an error of `out`.
pub(super) fn write_chunks<'de>(
    storage: &mut (dyn Storage<'de> + 'de),
    range: Range<u64>,
    out: &mut dyn io::Write,
) -> Result<io::Result<()>> {
    let most = usize::try_from(range.end - range.start).unwrap_or(usize::MAX).min(FileStorage::CHUNK);
    let (mut held, mut done) = (Vec::new(), range.start);
    try_reserve(&mut held, most.min(FIRST))?;
    while done < range.end {
        let mut piece = chunk(storage, &range, done)?;
        done += piece.len() as u64;
        while !piece.is_empty() {
            let (now, later) = piece.split_at(piece.len().min(most - held.len()));
            if now.len() > held.capacity() - held.len() {
                let room = most - held.len();
                try_reserve(&mut held, room)?;
            }
            held.extend_from_slice(now);
            if held.len() == most {
                if let Err(error) = write_all(out, &held) {
                    return Ok(Err(error));
                }
                held.clear();
            }
            piece = later;
        }
    }
    Ok(write_all(out, &held))
}

/// Returns the next part of a range, after the first `done` bytes. An error is about the whole range.
fn chunk<'a, 'de>(storage: &'a mut (dyn Storage<'de> + 'de), range: &Range<u64>, done: u64) -> Result<&'a [u8]> {
    storage.chunk(done..range.end).map_err(|error| of_whole(range, done, error))
}

/// The payload of the next tensor of a stream, as a reader. Storage that keeps what `read_at` reads passes over chunks.
pub(super) struct NextPayload<'a, 'de> {
    storage: &'a mut (dyn Storage<'de> + 'de),
    range: Range<u64>,
    /// The offset of the next byte.
    done: u64,
}

impl<'a, 'de> NextPayload<'a, 'de> {
    pub(super) fn new(storage: &'a mut (dyn Storage<'de> + 'de), range: Range<u64>) -> Self {
        Self { storage, done: range.start, range }
    }
}

impl io::Read for NextPayload<'_, '_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let end = self.range.end.min(self.done.saturating_add(bytes.len() as u64));
        if self.done >= end {
            return Ok(0);
        }
        let chunk = self.storage.chunk(self.done..end).map_err(|error| of_whole(&self.range, self.done, error))?;
        let now = chunk.len().min(bytes.len());
        bytes[..now].copy_from_slice(&chunk[..now]);
        self.done += now as u64;
        Ok(now)
    }
}

impl io::Seek for NextPayload<'_, '_> {
    /// No format that is read in order has gaps between elements.
    fn seek(&mut self, _: io::SeekFrom) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Makes an error about a range from `done` on one about the whole range.
#[cold]
fn of_whole(range: &Range<u64>, done: u64, error: Error) -> Error {
    // Bytes gathered from several files end in one of them.
    let is_within = error.offset().is_none_or(|offset| (range.start..=range.end).contains(&offset));
    match error.kind() {
        ErrorKind::Truncated { left, .. } if is_within => {
            let left = done - range.start + left;
            Error::new(ErrorKind::Truncated { needed: range.end - range.start, left }).at(range.start)
        }
        _ => error.at(range.start),
    }
}

impl Entry<'_> {
    /// Makes an error about bytes of the payload from an offset of the file on one about the whole payload.
    #[cold]
    pub(crate) fn of_whole(&self, offset: u64, error: Error) -> Error {
        of_whole(&self.range(), offset, error)
    }

    /// Fills `bytes` with the payload from `offset` on, if it is stored as it is. An error is about the whole payload.
    pub(crate) fn read_at(&self, storage: &FileStorage, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let range = self.range();
        let index = range.start + offset;
        storage.read_at(index, bytes).map_err(|error| of_whole(&range, index, error))?;
        Ok(self.normalize(bytes, usize::try_from(offset).unwrap_or(usize::MAX))?)
    }

    /// Returns the offset of the number of values in the payload of a sparse tensor.
    pub(super) fn value_count_offset(&self) -> u64 {
        self.range().start.saturating_add(coo_index_bytes(self.info()) as u64)
    }

    /// Returns the ranges of the indices, the number of values and the elements. Only sparse tensors have the first
    /// two.
    pub(crate) fn parts(&self) -> [Range<u64>; 3] {
        let Range { start, end } = self.range();
        let Layout::Coo { .. } = self.info().layout else { return [start..start, start..start, start..end] };
        let count = self.value_count_offset().min(end);
        let elements = count.saturating_add(size_of::<u64>() as u64).min(end);
        [start..count, count..elements, elements..end]
    }
}

/// Passes on elements of an entry. Bools become 0 or 1, or are an error.
pub(crate) struct ElementWriter<'a> {
    entry: Entry<'a>,
    out: &'a mut dyn io::Write,
    /// The number of bytes passed on.
    written: usize,
}

impl<'a> ElementWriter<'a> {
    /// The most bools inspected again after a byte other than 0 and 1.
    const PIECE: usize = 1 << 20;

    pub(crate) fn new(entry: Entry<'a>, out: &'a mut dyn io::Write) -> Self {
        Self { entry, out, written: 0 }
    }
}

impl io::Write for ElementWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.entry.has_bools() {
            return self.out.write(bytes);
        }
        let piece = &bytes[..bytes.len().min(Self::PIECE)];
        if are_bools(piece) {
            write_all(self.out, piece)?;
        } else {
            let mut piece = piece.to_vec();
            self.entry.normalize(&mut piece, self.written).map_err(Error::from)?;
            write_all(self.out, &piece)?;
        }
        self.written += piece.len();
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Passes on the indices of a sparse tensor, and checks them against its shape. Each write holds whole indices.
pub(crate) struct CheckedIndices<'a> {
    info: &'a TensorInfo,
    out: &'a mut dyn io::Write,
    /// The number of checked indices.
    checked: usize,
}

impl<'a> CheckedIndices<'a> {
    pub(crate) fn new(info: &'a TensorInfo, out: &'a mut dyn io::Write) -> Self {
        Self { info, out, checked: 0 }
    }
}

impl io::Write for CheckedIndices<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (indices, _) = bytes.split_at(bytes.len() - bytes.len() % size_of::<u64>());
        check_coo_indices(&self.info.shape, self.checked, indices).map_err(Error::from)?;
        write_all(self.out, indices)?;
        self.checked += indices.len() / size_of::<u64>();
        Ok(indices.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
