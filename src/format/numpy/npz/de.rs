use std::cell::RefCell;
use std::io::{self, Read};
use std::ops::Range;

use rawzip::{
    CompressionMethod, MAX_CENTRAL_DIRECTORY_RECORD_SIZE, RangeReader, ReaderAt, ZipArchive, ZipFileHeaderRecord,
    ZipLocator,
};

use super::header::Member;
use crate::error::{Error, ErrorKind, Result};
use crate::format::numpy::header;
use crate::limits::Limits;
use crate::record::{Codec, Deflated, Entry, IndexReader, inflate, not_deflated};
use crate::storage::ReadAt;
use crate::tensor::TensorInfo;

/// Reads the directory of an archive and the headers of the arrays, then returns the tensors in the order of the
/// directory.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// The tensors that are still to come, once the directory is read.
    entries: Option<std::vec::IntoIter<Entry>>,
}

impl IndexReader for Reader {
    fn next(&mut self, file: &mut dyn ReadAt, limits: &Limits) -> Result<Option<Entry>> {
        let entries = match &mut self.entries {
            Some(entries) => entries,
            unread => unread.insert(read_index(file, limits)?.into_iter()),
        };
        Ok(entries.next())
    }
}

fn read_index(file: &mut dyn ReadAt, limits: &Limits) -> Result<Vec<Entry>> {
    file.keep_rest(limits.payload)?;
    let len = file.file_len().expect("the length is known, or the rest is kept");
    // A record of the directory is no longer than the file.
    let buffer = usize::try_from(len).unwrap_or(usize::MAX).clamp(1024, MAX_CENTRAL_DIRECTORY_RECORD_SIZE);
    let mut buffer = vec![0; buffer];
    let file = File { file: RefCell::new(file), len };
    let archive = ZipLocator::new().locate_in_reader(file, &mut buffer, len);
    let archive = archive.map_err(|(_, error)| read_error(error))?;
    let mut records = archive.entries(&mut buffer);
    let (mut entries, mut ranges) = (Vec::new(), Vec::new());
    while let Some(record) = records.next_entry().map_err(read_error)? {
        let found = entries.len() as u64 + 1;
        if found > limits.tensors {
            return Err(ErrorKind::Limit { what: "number of tensors", found, limit: limits.tensors }.into());
        }
        let (entry, range) = read_member(&archive, &record, limits)?;
        ranges.push((range.start, range.end, entries.len()));
        entries.push(entry);
    }
    if archive.entries_hint() != entries.len() as u64 {
        let (found, expected) = (archive.entries_hint().into(), entries.len().to_string());
        return Err(ErrorKind::BadNumber { what: "number of members", found, expected }.into());
    }
    check_overlap(ranges, &entries)?;
    Ok(entries)
}

/// Reads a member. Returns its tensor and the range of its contents.
fn read_member(
    archive: &ZipArchive<File<'_>>,
    record: &ZipFileHeaderRecord<'_>,
    limits: &Limits,
) -> Result<(Entry, Range<u64>)> {
    let member = Member::of(record.file_path().as_bytes());
    let place = || {
        let entry = archive.get_entry(record.wayfinder()).map_err(read_error)?;
        let (start, end) = entry.compressed_data_range();
        let left = archive.directory_offset().saturating_sub(start);
        match end - start <= left {
            true => Ok(start..end),
            false => Err(Error::new(ErrorKind::Truncated { needed: end - start, left }).at(start)),
        }
    };
    let tensor = || {
        let range = place().map_err(|error| error.at(record.central_directory_offset()))?;
        let contents = Contents::of(record, &range).map_err(|error| error.at(range.start))?;
        let entry = match &member {
            Member::Array(name) => array(archive.get_ref(), name, &contents, range.clone(), limits),
            Member::Blob(name) => blob(name, &contents, range.clone()),
        };
        Ok((entry.map_err(|error| error.at(range.start))?, range))
    };
    tensor().map_err(|error: Error| error.in_tensor(member.name()))
}

/// The contents of a member of either kind.
struct Contents {
    /// The decoded length in bytes.
    len: u64,
    deflated: Option<Deflated>,
}

impl Contents {
    fn of(record: &ZipFileHeaderRecord<'_>, range: &Range<u64>) -> Result<Self> {
        let flags = record.flags();
        if flags.is_encrypted() || flags.has_strong_encryption() || flags.is_masked() {
            return Err(malformed("the member is encrypted".to_owned()));
        }
        let (len, packed) = (record.uncompressed_size_hint(), range.end - range.start);
        let deflated = match record.compression_method() {
            CompressionMethod::STORE if len == packed => None,
            CompressionMethod::STORE => {
                return Err(malformed(format!("the member is stored in {packed} bytes, but has {len}")));
            }
            CompressionMethod::DEFLATE => Some(Deflated { len: packed, head: 0, crc32: record.crc32() }),
            method => {
                let expected = "0 (stored) or 8 (deflated)".to_owned();
                let found = method.as_u16().into();
                return Err(ErrorKind::BadNumber { what: "compression method", found, expected }.into());
            }
        };
        Ok(Self { len, deflated })
    }
}

fn array(file: &File<'_>, name: &str, contents: &Contents, range: Range<u64>, limits: &Limits) -> Result<Entry> {
    let reader = RangeReader::new(file, range.clone());
    let mut reader: Box<dyn Read + '_> = match &contents.deflated {
        Some(_) => Box::new(inflate(reader)),
        None => Box::new(reader),
    };
    let header = header::read(&mut |bytes| reader.read_exact(bytes).map_err(not_deflated), limits)?;
    let payload = contents.len.saturating_sub(header.len);
    header.info.check_payload(payload)?;
    let deflated = contents.deflated.clone().map(|deflated| Deflated { head: header.len, ..deflated });
    let start = if deflated.is_some() { range.start } else { range.start + header.len };
    let is_coded = deflated.is_some() || header.big_endian.is_some();
    let codec = is_coded.then_some(Codec { big_endian: header.big_endian, deflated });
    Ok(Entry::new(Some(name.to_owned()), header.info, start..range.end).with_codec(codec))
}

fn blob(name: &str, contents: &Contents, range: Range<u64>) -> Result<Entry> {
    let Ok(len) = usize::try_from(contents.len) else {
        return Err(malformed(format!("a blob of {} bytes is more than can be addressed", contents.len)));
    };
    let codec = contents.deflated.clone().map(|deflated| Codec { big_endian: None, deflated: Some(deflated) });
    Ok(Entry::new(Some(name.to_owned()), TensorInfo::blob(len), range).with_codec(codec))
}

/// Refuses members that share bytes, which could make a small archive decode to a large one.
fn check_overlap(mut ranges: Vec<(u64, u64, usize)>, entries: &[Entry]) -> Result<()> {
    ranges.retain(|(start, end, _)| start < end);
    ranges.sort_unstable();
    match ranges.windows(2).find(|pair| pair[0].1 > pair[1].0) {
        Some(&[(other_start, other_end, other), (start, _, at)]) => {
            let kind = ErrorKind::Overlap { other: entries[other].label(other), range: other_start..other_end };
            Err(Error::new(kind).in_tensor(entries[at].label(at)).at(start))
        }
        _ => Ok(()),
    }
}

/// A file that the zip reader reads.
struct File<'a> {
    file: RefCell<&'a mut dyn ReadAt>,
    len: u64,
}

impl ReaderAt for File<'_> {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let left = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let now = left.min(bytes.len());
        self.file.borrow_mut().read_at(offset, &mut bytes[..now])?;
        Ok(now)
    }
}

fn read_error(error: rawzip::Error) -> Error {
    match error.into_kind() {
        rawzip::ErrorKind::IO(error) if error.kind() != io::ErrorKind::UnexpectedEof => error.into(),
        rawzip::ErrorKind::MissingEndOfCentralDirectory => {
            malformed("the file does not end with the directory of a zip archive".to_owned())
        }
        other => malformed(format!("the zip archive is damaged: {}", other.to_string().to_lowercase())),
    }
}

fn malformed(what: String) -> Error {
    ErrorKind::Malformed { what }.into()
}
