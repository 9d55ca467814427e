use std::io::{self, Read};
use std::num::NonZeroU8;
use std::ops::Range;

use flate2::{Decompress, FlushDecompress, Status};
use rawzip::{RangeReader, ZipArchive, ZipFileHeaderRecord};

use super::header::{MemberKind, is_array};
use crate::error::{Error, ErrorKind, Result};
use crate::format::numpy::header;
use crate::limits::Limits;
use crate::record::{
    Codec, Index, IndexReader, OtherArchive, ZipContents, ZipFile, Zipped, not_deflated, open_zip, place_of, zip_error,
};
use crate::storage::ReadAt;
use crate::tensor::TensorInfo;

/// Reads the directory of an archive and the headers of the arrays. The tensors are in the order of the directory.
#[derive(Debug, Default)]
pub(super) struct Reader {
    is_read: bool,
}

impl IndexReader for Reader {
    fn read_on(&mut self, file: &mut dyn ReadAt, limits: &Limits, index: &mut Index) -> Result<bool> {
        if std::mem::replace(&mut self.is_read, true) {
            return Ok(false);
        }
        read_index(file, limits, index).map(|()| true)
    }
}

fn read_index(file: &mut dyn ReadAt, limits: &Limits, index: &mut Index) -> Result<()> {
    let (archive, mut buffer) = open_zip(file, limits)?;
    let directory = archive.directory_offset();
    check_members(&archive, &mut buffer)?;
    let mut records = archive.entries(&mut buffer);
    let mut inflater = Inflater::default();
    let (mut ranges, mut last) = (Ranges::default(), directory);
    while let Some(record) = records.next_entry().map_err(|error| zip_error(error, last))? {
        last = record.central_directory_offset();
        let found = index.pushed() as u64 + 1;
        if found > limits.tensors {
            return Err(ErrorKind::Limit { what: "number of tensors", found, limit: limits.tensors }.into());
        }
        let member = MemberKind::of(record.file_path().as_bytes());
        ranges.push(read_member(&archive, &record, &member, &mut inflater, limits, index)?);
    }
    if archive.entries_hint() != index.pushed() as u64 {
        let (found, expected) = (archive.entries_hint().into(), index.pushed().to_string());
        return Err(Error::new(ErrorKind::BadNumber { what: "number of members", found, expected }).at(directory));
    }
    ranges.check_overlap(index)
}

/// Reads a member, and adds its tensor to the index. Returns the range of its contents.
fn read_member(
    archive: &ZipArchive<ZipFile<'_>>,
    record: &ZipFileHeaderRecord<'_>,
    member: &MemberKind,
    inflater: &mut Inflater,
    limits: &Limits,
    index: &mut Index,
) -> Result<Range<u64>> {
    let mut tensor = || {
        let range = place_of(archive, record).map_err(|error| error.at(record.central_directory_offset()))?;
        let contents = ZipContents::of(record, &range).map_err(|error| error.at(range.start))?;
        let tensor = match member {
            MemberKind::Array(_) => array(archive.get_ref(), &contents, range.clone(), inflater, limits),
            MemberKind::Blob(_) => blob(&contents, range.clone()),
        };
        let (info, payload, codec) = tensor.map_err(|error| error.at(range.start))?;
        index.push_coded(Some(member.name()), info, payload, Some(codec))?;
        Ok(range)
    };
    tensor().map_err(|error: Error| error.in_tensor(member.name()))
}

/// Returns how to read a payload after `head` bytes of the contents.
fn codec(contents: &ZipContents, big_endian: Option<NonZeroU8>, head: u32) -> Codec {
    Codec::Zipped(Zipped { big_endian, is_deflated: contents.is_deflated, head, crc32: contents.crc32 })
}

fn array(
    file: &ZipFile<'_>,
    contents: &ZipContents,
    range: Range<u64>,
    inflater: &mut Inflater,
    limits: &Limits,
) -> Result<(TensorInfo, Range<u64>, Codec)> {
    let mut reader = RangeReader::new(file, range.clone());
    let mut header = match contents.is_deflated {
        true => {
            inflater.start();
            header::read(&mut |bytes| inflater.fill(&mut reader, bytes).map_err(not_deflated), limits)
        }
        false => header::read(&mut |bytes| reader.read_exact(bytes).map_err(not_deflated), limits),
    }?;
    let head = u64::from(header.len);
    let bytes = contents.len.saturating_sub(head);
    header.info.set_unknown_bytes(bytes);
    header.info.check_payload(bytes)?;
    let start = if contents.is_deflated { range.start } else { range.start + head };
    Ok((header.info, start..range.end, codec(contents, header.big_endian, header.len)))
}

/// Decodes the beginnings of members, one after the other. Its memory, which is larger than a header, is reused.
#[derive(Default)]
struct Inflater {
    state: Option<Decompress>,
    input: Vec<u8>,
    /// The bytes of `input` that were decoded.
    done: usize,
}

impl Inflater {
    /// More than the deflated header of an array takes.
    const INPUT: u64 = 512;

    /// Starts with the next member.
    fn start(&mut self) {
        self.state.get_or_insert_with(|| Decompress::new(false)).reset(false);
        self.input.clear();
        self.done = 0;
    }

    /// Fills `bytes` with what comes next in the member that `reader` is in.
    fn fill(&mut self, reader: &mut impl Read, mut bytes: &mut [u8]) -> io::Result<()> {
        let state = self.state.get_or_insert_with(|| Decompress::new(false));
        while !bytes.is_empty() {
            if self.done == self.input.len() {
                self.input.clear();
                self.done = 0;
                reader.by_ref().take(Self::INPUT).read_to_end(&mut self.input)?;
            }
            let input = &self.input[self.done..];
            let (read, written) = (state.total_in(), state.total_out());
            let status = state.decompress(input, bytes, FlushDecompress::None);
            // The conversion of the crate gives an error of another kind than its reader does.
            let status = status.map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
            let [read, written] = [state.total_in() - read, state.total_out() - written]
                .map(|now| usize::try_from(now).expect("no more than the buffers hold"));
            self.done += read;
            bytes = &mut bytes[written..];
            let is_at_end = status == Status::StreamEnd || self.input.is_empty() || (read == 0 && written == 0);
            if is_at_end && !bytes.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }
}

fn blob(contents: &ZipContents, range: Range<u64>) -> Result<(TensorInfo, Range<u64>, Codec)> {
    let Ok(len) = usize::try_from(contents.len) else {
        return Err(malformed(format!("a blob of {} bytes is more than can be addressed", contents.len)));
    };
    Ok((TensorInfo::blob(len), range, codec(contents, None, 0)))
}

/// The ranges of the contents of members.
#[derive(Default)]
struct Ranges {
    ranges: Vec<Range<u64>>,
    /// The end of those so far.
    end: u64,
    /// One begins before the end of another.
    may_overlap: bool,
}

impl Ranges {
    fn push(&mut self, range: Range<u64>) {
        self.may_overlap |= range.start < self.end;
        self.end = self.end.max(range.end);
        self.ranges.push(range);
    }

    /// Refuses members that share bytes, which could make a small archive decode to a large one.
    fn check_overlap(self, index: &Index) -> Result<()> {
        if !self.may_overlap {
            return Ok(());
        }
        let ranges = self.ranges.into_iter().zip(0..).filter(|(range, _)| !range.is_empty());
        let mut ranges: Vec<(u64, u64, usize)> = ranges.map(|(range, at)| (range.start, range.end, at)).collect();
        ranges.sort_unstable();
        match ranges.windows(2).find(|pair| pair[0].1 > pair[1].0) {
            Some(&[(other_start, other_end, other), (start, _, at)]) => {
                let kind = ErrorKind::Overlap { other: index.label(other), range: other_start..other_end };
                Err(Error::new(kind).in_tensor(index.label(at)).at(start))
            }
            _ => Ok(()),
        }
    }
}

/// Refuses an archive of another kind: one that has members but no array, or a program with arrays among its files.
fn check_members(archive: &ZipArchive<ZipFile<'_>>, buffer: &mut [u8]) -> Result<()> {
    let directory = archive.directory_offset();
    let (mut is_empty, mut has_array, mut other, mut last) = (true, false, OtherArchive::default(), directory);
    let mut records = archive.entries(buffer);
    while let Some(record) = records.next_entry().map_err(|error| zip_error(error, last))? {
        last = record.central_directory_offset();
        let path = record.file_path();
        let path = path.as_bytes();
        is_empty = false;
        match is_array(path) {
            true => has_array = true,
            false => other.look_at(path),
        }
    }
    let what = match has_array {
        true if other.is_sure() => "this zip archive is not npz",
        false if !is_empty => "a zip archive without .npy members is not npz",
        _ => return Ok(()),
    };
    Err(malformed(format!("{what}{}", other.text())).at(directory))
}

fn malformed(what: String) -> Error {
    ErrorKind::Malformed { what }.into()
}
