//! Reads BTF: the offset table, then the records in any order.

use std::ops::Range;

use smallvec::SmallVec;

use super::header;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::Limits;
use crate::model::FileMetadata;
use crate::read::{Cursor, Index, IndexReader, LastHeaders, ReadHeader, SmallIndex, trailing_bytes};
use crate::storage::ReadAt;
use crate::tensor::{Layout, TensorInfo, sorted};

/// Reads the offset table, then the header of each record.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// The offset table, once it is read. Empty again once all records of a file were read.
    offsets: Option<RecordOffsets>,
    /// The number of table entries already read.
    count: usize,
    /// The last record, from its header to the end of its payload.
    last: Option<Range<u64>>,
    /// The records read so far, if they are not in the order of the file. If they are, each begins after the one
    /// before.
    unordered: Option<Vec<Range<u64>>>,
    /// The end of the last record and its padding, or of the table.
    end: u64,
    /// Has the layout numbers of the sparse tensors so far.
    found: FileMetadata,
    /// The length of the file, if it is known.
    len: Option<u64>,
    /// Memory for the header of a tensor.
    memory: Vec<u8>,
}

impl IndexReader for Reader {
    fn read_on(&mut self, file: &mut dyn ReadAt, limits: &Limits, index: &mut Index) -> Result<bool> {
        let offsets = self.take_offsets(file, limits)?;
        if self.count == offsets.len() {
            self.offsets = Some(offsets);
            return match self.unordered.take() {
                Some(unordered) => check_overlaps(&unordered).map(|()| false),
                None => Ok(false),
            };
        }
        // In a stream, the payload of a record comes before the next record.
        let end = if self.len.is_some() { offsets.len() } else { self.count + 1 };
        let read = self.records(file, limits, &offsets, self.count..end, index);
        self.offsets = Some(offsets);
        if self.count == end && self.len.is_some() {
            // Nothing more is read, so the table makes room for the names.
            (self.offsets, self.count) = (Some(RecordOffsets::new()), 0);
        }
        read.map(|()| true)
    }

    fn count(&mut self, file: &mut dyn ReadAt, limits: &Limits) -> Result<Option<usize>> {
        let offsets = self.take_offsets(file, limits)?;
        let count = offsets.len();
        self.offsets = Some(offsets);
        // Records out of order are checked together.
        Ok((self.len.is_some() && self.unordered.is_none()).then_some(count))
    }

    fn read_one(&mut self, i: usize, file: &mut dyn ReadAt, limits: &Limits, index: &mut Index) -> Result<()> {
        let offsets = self.take_offsets(file, limits)?;
        self.last = None;
        let read = self.records(file, limits, &offsets, i..i + 1, index);
        self.offsets = Some(offsets);
        read
    }

    fn metadata(&mut self) -> Option<FileMetadata> {
        let warnings = trailing_bytes(self.end, self.len).into_iter().collect();
        Some(FileMetadata { warnings, ..std::mem::take(&mut self.found) })
    }
}

/// The offset table. A single offset needs no allocation.
type RecordOffsets = SmallVec<[u64; 1]>;

/// A header as it is stored, of a dense tensor of up to four dims.
#[derive(Debug)]
struct KnownHeader {
    words: [[u8; 8]; header::COMMON_BYTES / 8],
    /// The length of the header.
    len: usize,
    /// The length of the payload.
    payload: u64,
}

impl KnownHeader {
    /// Returns the header, unless it is too long.
    fn new(bytes: &[u8], payload: &Range<u64>) -> Option<Self> {
        let (words, _) = bytes.as_chunks();
        let mut known = Self { words: Default::default(), len: bytes.len(), payload: payload.end - payload.start };
        known.words.get_mut(..words.len())?.copy_from_slice(words);
        (known.len > 0).then_some(known)
    }

    /// Returns the payload of the record at `offset`, if it has this header and the file contains it completely.
    // Inlined into the loop over records, which mostly have the header of the last one.
    #[inline(always)]
    fn payload_at(
        &self,
        offset: u64,
        file: &mut dyn ReadAt,
        file_len: Option<u64>,
        memory: &mut Vec<u8>,
    ) -> Option<Range<u64>> {
        let start = offset.checked_add(self.len as u64)?;
        let end = start.checked_add(self.payload).filter(|end| file_len.is_some_and(|len| *end <= len))?;
        memory.clear();
        let (words, _) = file.bytes(offset..start, memory).ok()?.as_chunks::<8>();
        // Headers are too short for a comparison of slices to pay.
        words.iter().enumerate().all(|(i, word)| self.words.get(i) == Some(word)).then_some(start..end)
    }
}

/// The number of records fetched at once from a slow disk.
const AHEAD: usize = 64;

impl Reader {
    /// Reads the offset table, once.
    fn take_offsets(&mut self, file: &mut dyn ReadAt, limits: &Limits) -> Result<RecordOffsets> {
        if let Some(offsets) = self.offsets.take() {
            return Ok(offsets);
        }
        let offsets = read_table(file, limits)?;
        self.len = file.file_len();
        self.end = header::table_bytes(offsets.len() as u64);
        self.unordered = (!is_sorted(&offsets)).then(Vec::new);
        Ok(offsets)
    }

    /// Adds the tensors of some records to the index.
    fn records(
        &mut self,
        file: &mut dyn ReadAt,
        limits: &Limits,
        offsets: &[u64],
        mut records: Range<usize>,
        index: &mut Index,
    ) -> Result<()> {
        let (mut last, end) = (LastHeaders::default(), records.end);
        records.try_for_each(|i| {
            // A file with only offsets takes no memory for tensors.
            if i == 1 {
                index.reserve(end - i);
            }
            self.record(file, limits, offsets, i, &mut last, index).map_err(|error| error.in_tensor(format!("#{i}")))
        })
    }

    /// Adds the tensor of a record to the index.
    fn record(
        &mut self,
        file: &mut dyn ReadAt,
        limits: &Limits,
        offsets: &[u64],
        i: usize,
        last: &mut LastHeaders<KnownHeader>,
        index: &mut Index,
    ) -> Result<()> {
        let offset = offsets[i];
        // With records out of order, the next one would have to be searched.
        let end = match (&self.unordered, offsets.get(i + 1)) {
            (Some(_), _) => None,
            (None, Some(next)) => Some(*next),
            (None, None) => self.len,
        };
        check_offset(offset, i, offsets.len())?;
        self.check_start(offset)?;
        let is_alike =
            |(known, i): &(KnownHeader, usize)| Some((*i, known.payload_at(offset, file, self.len, &mut self.memory)?));
        let alike = last.iter().find_map(is_alike);
        let (header, payload) = match alike {
            Some((alike, payload)) => (ReadHeader::Alike(alike), payload),
            None => {
                let mut cursor = Cursor::new(file, offset);
                let (info, layout, payload) = read_header(&mut cursor, limits, end)?;
                if let Layout::Coo { .. } = info.layout {
                    self.found.add_coo_layout(layout);
                }
                // The header of a tensor with an unknown dtype does not determine its length.
                if info.layout == Layout::RowMajor
                    && i + 1 < offsets.len()
                    && let Some(known) = KnownHeader::new(cursor.passed(), &payload)
                {
                    last.add(known, i);
                }
                (ReadHeader::New(info), payload)
            }
        };
        let record = offset..payload.end;
        self.end = self.end.max(record.end.checked_next_multiple_of(header::ALIGNMENT).unwrap_or(0));
        if let Some(unordered) = &mut self.unordered {
            unordered.push(record.clone());
        }
        self.last = Some(record);
        self.count += 1;
        // The first records show whether it pays.
        if i % AHEAD == 1 {
            file.will_read(&mut offsets.iter().copied().skip(i + 1).take(AHEAD));
        }
        header.push(index, None, payload)
    }

    /// Checks that a record does not begin within the previous one, which would move a stream backwards.
    fn check_start(&self, offset: u64) -> Result<()> {
        match &self.last {
            Some(before) if before.contains(&offset) && before.start != offset => {
                Err(overlaps(self.count - 1, before.clone(), offset))
            }
            _ => Ok(()),
        }
    }
}

/// Reads the header of a record. Returns also the layout number, and the range of the payload.
// Inlined into the loop over records.
#[inline(always)]
fn read_header(cursor: &mut Cursor<'_>, limits: &Limits, end: Option<u64>) -> Result<(TensorInfo, u8, Range<u64>)> {
    cursor.read_ahead(header::COMMON_BYTES);
    let (info, layout) = header::read(cursor, end, limits)?;
    cursor.catch_up()?;
    let payload = cursor.payload(&info)?;
    Ok((info, layout, payload))
}

/// Finds the tensors of a small file with contiguous records.
pub(super) fn small<'f>(file: &'f [u8], limits: &Limits, index: &mut SmallIndex<'f>) -> Option<()> {
    let (count, offsets) = file.as_chunks::<8>().0.split_first()?;
    let count = usize::try_from(u64::from_le_bytes(*count)).ok().filter(|count| *count <= SmallIndex::MOST)?;
    let offsets = offsets.get(..count)?;
    let mut end = 0;
    for (i, offset) in offsets.iter().enumerate() {
        let offset = u64::from_le_bytes(*offset);
        check_offset(offset, i, count).ok().filter(|()| offset >= end)?;
        let record = file.get(usize::try_from(offset).ok()?..)?;
        let (info, header) = header::read_dense(record, limits)?;
        let payload = record[header..].get(..info.payload_bytes()?)?;
        end = offset + (header + payload.len()) as u64;
        index.push(None, info, payload)?;
    }
    Some(())
}

// TFRT takes records in any order, with gaps, and two tensors of one record. Other overlaps are damage.
fn check_overlaps(records: &[Range<u64>]) -> Result<()> {
    let order = sorted::positions(records.len(), &mut |one, other| records[one].start.cmp(&records[other].start));
    for pair in order.windows(2) {
        let (before, after) = (&records[pair[0]], &records[pair[1]]);
        if overlap(before, after) {
            return Err(overlaps(pair[0], before.clone(), after.start).in_tensor(format!("#{}", pair[1])));
        }
    }
    Ok(())
}

/// Returns whether two records share some bytes. Two tensors may also be the same record.
fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start != b.start && a.start < b.end && b.start < a.end
}

fn overlaps(other: usize, range: Range<u64>, offset: u64) -> Error {
    Error::new(ErrorKind::Overlap { other: format!("#{other}"), range }).at(offset)
}

/// Returns whether each record begins after the one before.
fn is_sorted(offsets: &[u64]) -> bool {
    offsets.is_sorted_by(|a, b| a < b)
}

fn read_table(file: &mut dyn ReadAt, limits: &Limits) -> Result<RecordOffsets> {
    let mut cursor = Cursor::new(file, 0);
    let count = cursor.u64()?;
    if let Some(left) = cursor.left()
        && count > left / 8
    {
        let expected = format!("at most {}, as the file has {left} bytes left", left / 8);
        return Err(Error::new(ErrorKind::BadNumber { what: "number of tensors", found: count.into(), expected }).at(0));
    }
    if count > limits.tensors {
        return Err(
            Error::new(ErrorKind::Limit { what: "number of tensors", found: count, limit: limits.tensors }).at(0)
        );
    }
    let offsets = match count {
        1 => RecordOffsets::from([cursor.u64()?]),
        _ => cursor.u64s(count)?.into(),
    };
    if !is_sorted(&offsets) {
        file.keep_rest(limits.most_held())?;
    }
    Ok(offsets)
}

// TFRT crashes on such an offset, or takes the table for a tensor.
fn check_offset(offset: u64, i: usize, tensors: usize) -> Result<()> {
    let table = header::table_bytes(tensors as u64);
    let expected = if !offset.is_multiple_of(header::ALIGNMENT) {
        format!("a multiple of {}", header::ALIGNMENT)
    } else if offset < table {
        format!("at least {table}, where the offset table ends")
    } else {
        return Ok(());
    };
    let wrong = ErrorKind::BadNumber { what: "record offset", found: offset.into(), expected };
    Err(Error::new(wrong).at(header::table_bytes(i as u64)))
}

/// Reads the index for oddities of the file.
pub(super) fn metadata(file: &mut dyn ReadAt, limits: &Limits) -> Result<FileMetadata> {
    let (mut reader, mut index) = (Reader::default(), Index::default());
    while reader.read_on(file, limits, &mut index)? {}
    Ok(reader.metadata().unwrap_or_default())
}

/// Returns whether a file has a plausible offset table: the first record right after it, all within the file. Only the
/// beginning of a long table is checked.
///
/// TFRT and this crate write records in order. A file in another order is recognized only by its extension.
pub(super) fn looks_like(file: &mut dyn ReadAt) -> bool {
    /// The number of offsets inspected.
    const ENOUGH: u64 = 512;
    let Some(len) = file.file_len() else { return false };
    let mut cursor = Cursor::new(file, 0);
    let Ok(count) = cursor.u64() else { return false };
    if cursor.left().is_none_or(|left| count > left / 8) {
        return false;
    }
    let table = header::table_bytes(count);
    let Ok(offsets) = cursor.u64s(count.min(ENOUGH)) else { return false };
    match offsets.first() {
        Some(&first) => {
            first == table && offsets.iter().all(|offset| offset.is_multiple_of(header::ALIGNMENT) && *offset < len)
        }
        None => len == table,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Slice;
    use crate::tensor::Tensor;

    #[test]
    fn every_record_but_the_first_two_is_looked_for_once() {
        /// Remembers the hinted offsets.
        struct Told<'a>(Slice<'a>, Vec<u64>);

        impl ReadAt for Told<'_> {
            fn file_len(&self) -> Option<u64> {
                self.0.file_len()
            }

            fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> Result<()> {
                self.0.read_at(offset, bytes)
            }

            fn will_read(&mut self, offsets: &mut dyn Iterator<Item = u64>) {
                self.1.extend(offsets);
            }
        }

        let tensors = vec![Tensor::from_slice(&[1_u8], [1]).unwrap(); 300];
        let file = super::super::FORMAT.to_vec(&tensors, &crate::write::WriteOptions::new()).unwrap();
        let mut told = Told(Slice::new(&file), Vec::new());
        let (mut reader, mut index) = (Reader::default(), Index::default());
        while reader.read_on(&mut told, &Limits::default(), &mut index).unwrap() {}
        let offsets: Vec<u64> =
            file[8..].chunks_exact(8).map(|bytes| u64::from_le_bytes(*bytes.first_chunk().unwrap())).collect();
        assert_eq!(told.1, offsets[2..300]);
    }
}
