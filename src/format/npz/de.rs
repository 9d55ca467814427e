use std::cell::RefCell;
use std::io::{self, Read};
use std::marker::PhantomData;
use std::ops::Range;

use rawzip::{
    CompressionMethod, MAX_CENTRAL_DIRECTORY_RECORD_SIZE, RangeReader, ReaderAt, ZipArchive, ZipFileHeaderRecord,
    ZipLocator,
};

use super::header::{self, Member};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::Limits;
use crate::source::ByteSource;
use crate::tensor::TensorInfo;
use crate::wire::{Coding, Deflated, Entry, inflate, not_deflated};

/// Reads the directory of an archive, and the heads of the arrays.
#[derive(Debug, Default)]
pub struct Walk {
    /// The tensors that are not walked to yet, once the directory is read.
    entries: Option<std::vec::IntoIter<Entry>>,
}

impl crate::wire::Walk for Walk {
    const FORMAT: &'static str = "npz";

    fn next<'de, B: ByteSource<'de>>(&mut self, source: &mut B, limits: &Limits) -> Result<Option<Entry>> {
        let entries = match &mut self.entries {
            Some(entries) => entries,
            unread => unread.insert(read_index(source, limits)?.into_iter()),
        };
        Ok(entries.next())
    }
}

/// Reads all tensors, in the order of the directory.
fn read_index<'de, B: ByteSource<'de>>(source: &mut B, limits: &Limits) -> Result<Vec<Entry>> {
    source.keep_rest(limits.payload)?;
    let len = source.len().expect("all of it is held");
    // A record of the directory is no longer than the file.
    let buffer = usize::try_from(len).unwrap_or(usize::MAX).clamp(1024, MAX_CENTRAL_DIRECTORY_RECORD_SIZE);
    let mut buffer = vec![0; buffer];
    let file = File { source: RefCell::new(source), len, life: PhantomData };
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

/// Reads what a member is, and where its contents lie.
fn read_member<'de, B: ByteSource<'de>>(
    archive: &ZipArchive<File<'_, 'de, B>>,
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

/// What a member is before it is known what is in it.
struct Contents {
    /// The bytes, decoded.
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

fn array<'de, B: ByteSource<'de>>(
    file: &File<'_, 'de, B>,
    name: &str,
    contents: &Contents,
    range: Range<u64>,
    limits: &Limits,
) -> Result<Entry> {
    let reader = RangeReader::new(file, range.clone());
    let mut reader: Box<dyn Read + '_> = match &contents.deflated {
        Some(_) => Box::new(inflate(reader)),
        None => Box::new(reader),
    };
    let head = header::read(|bytes| reader.read_exact(bytes).map_err(not_deflated), limits)?;
    let payload = contents.len.saturating_sub(head.len);
    head.info.check_payload(payload)?;
    let deflated = contents.deflated.clone().map(|deflated| Deflated { head: head.len, ..deflated });
    let start = if deflated.is_some() { range.start } else { range.start + head.len };
    let coding =
        (deflated.is_some() || head.big_endian.is_some()).then_some(Coding { big_endian: head.big_endian, deflated });
    Ok(Entry::new(Some(name.to_owned()), head.info, start..range.end).coded(coding))
}

fn blob(name: &str, contents: &Contents, range: Range<u64>) -> Result<Entry> {
    let Ok(len) = usize::try_from(contents.len) else {
        return Err(malformed(format!("a blob of {} bytes is more than can be addressed", contents.len)));
    };
    let coding = contents.deflated.clone().map(|deflated| Coding { big_endian: None, deflated: Some(deflated) });
    Ok(Entry::new(Some(name.to_owned()), TensorInfo::blob(len), range).coded(coding))
}

/// Refuses members that share bytes, with which a small archive can be a large one.
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

/// A file as the archive wants it.
struct File<'a, 'de, B> {
    source: RefCell<&'a mut B>,
    len: u64,
    life: PhantomData<&'de [u8]>,
}

impl<'de, B: ByteSource<'de>> ReaderAt for File<'_, 'de, B> {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let left = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let now = left.min(bytes.len());
        self.source.borrow_mut().read_at(offset, &mut bytes[..now])?;
        Ok(now)
    }
}

fn read_error(error: rawzip::Error) -> Error {
    match error.into_kind() {
        rawzip::ErrorKind::IO(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
            error.downcast::<Error>().unwrap_or_else(Error::from)
        }
        rawzip::ErrorKind::MissingEndOfCentralDirectory => {
            malformed("the file does not end with the directory of a zip archive".to_owned())
        }
        other => malformed(format!("the zip archive is damaged: {}", other.to_string().to_lowercase())),
    }
}

fn malformed(what: String) -> Error {
    ErrorKind::Malformed { what }.into()
}
