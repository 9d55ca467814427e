//! Reads npz: the members of a zip archive, each an array or a blob.

use std::io::{self, Read};
use std::num::NonZeroU8;
use std::ops::Range;

use flate2::{Decompress, FlushDecompress, Status};
use hashbrown::{HashMap, HashSet};
use indexmap::IndexSet;
use rawzip::{RangeReader, ZipArchive, ZipFileHeaderRecord};

use super::header::{ENDING, MemberName};
use crate::error::{Error, ErrorKind, Result, Short, Warning, WarningKind};
use crate::format::numpy::header;
use crate::limits::Limits;
use crate::model::FileMetadata;
use crate::read::{
    Codec, Index, IndexReader, OtherArchive, ZipContents, ZipFile, Zipped, check_members, not_deflated, open_zip,
    place_of, unsupported_member, zip_error,
};
use crate::storage::ReadAt;
use crate::tensor::TensorInfo;

/// Reads the directory of an archive and the headers of the arrays. The tensors are in the order of the directory.
#[derive(Debug, Default)]
pub(super) struct Reader {
    is_read: bool,
    warnings: Vec<Warning>,
}

impl IndexReader for Reader {
    fn read_on(&mut self, file: &mut dyn ReadAt, limits: &Limits, index: &mut Index) -> Result<bool> {
        if std::mem::replace(&mut self.is_read, true) {
            return Ok(false);
        }
        read_index(file, limits, index, &mut self.warnings).map(|()| true)
    }

    fn metadata(&mut self) -> Option<FileMetadata> {
        Some(FileMetadata { warnings: std::mem::take(&mut self.warnings), ..FileMetadata::default() })
    }
}

/// Reads the index again, for the warnings.
pub(super) fn metadata(file: &mut dyn ReadAt, limits: &Limits) -> Result<FileMetadata> {
    let mut reader = Reader::default();
    reader.read_on(file, limits, &mut Index::default())?;
    Ok(reader.metadata().unwrap_or_default())
}

/// Compares the checksums of all members except tensors.
pub(super) fn check_other_members(file: &mut dyn ReadAt, limits: &Limits, checked: &HashSet<u64>) -> Result<()> {
    check_members(file, limits, checked, false)
}

/// The folder in which macOS stores attributes of members.
const MACOS: &[u8] = b"__MACOSX/";

fn read_index(file: &mut dyn ReadAt, limits: &Limits, index: &mut Index, warnings: &mut Vec<Warning>) -> Result<()> {
    read_named(file, limits, None, index, warnings)?;
    if index.compare_names().is_err() {
        // Rarely, so names are looked at for it only now.
        let names = MemberNames::read(file, limits)?;
        *index = Index::default();
        warnings.clear();
        read_named(file, limits, Some(&names), index, warnings)?;
        warnings.extend(names.warnings);
    }
    Ok(())
}

/// Reads the members, under alternative names if names are repeated.
fn read_named(
    file: &mut dyn ReadAt,
    limits: &Limits,
    names: Option<&MemberNames>,
    index: &mut Index,
    warnings: &mut Vec<Warning>,
) -> Result<()> {
    let (archive, mut buffer) = open_zip(file, limits)?;
    let directory = archive.directory_offset();
    let mut records = archive.entries(&mut buffer);
    let mut reader = MemberReader { archive: &archive, inflater: Inflater::default(), limits, warnings };
    let (mut ranges, mut last, mut other) = (Ranges::default(), directory, OtherArchive::default());
    let (mut count, mut has_array) = (0_usize, false);
    while let Some(record) = records.next_entry().map_err(|error| zip_error(error, last))? {
        last = record.central_directory_offset();
        let path = record.file_path();
        let path = path.as_bytes();
        count += 1;
        let found = count as u64;
        if found > limits.tensors {
            return Err(ErrorKind::Limit { what: "number of tensors", found, limit: limits.tensors }.into());
        }
        let name = MemberName::new(path);
        let is_known = names.is_none_or(|names| names.keeps(&name, count - 1));
        if !is_known || path.starts_with(MACOS) {
            if is_known {
                reader.warn(
                    WarningKind::LeftOut,
                    name.text(),
                    format!("`{}` is left out: macOS made it", Short(name.text())),
                );
            }
            ranges.push(reader.place(&record, &name)?, None);
            continue;
        }
        let full = names.is_some_and(|names| names.needs_full(&name));
        let (range, is_array) = reader.read(&record, &name, full, index)?;
        ranges.push(range, index.pushed().checked_sub(1));
        has_array |= is_array;
        if name.array().is_none() || !is_array {
            other.look_at(path);
        }
    }
    if archive.entries_hint() != count as u64 {
        let (found, expected) = (archive.entries_hint().into(), count.to_string());
        return Err(Error::new(ErrorKind::BadNumber { what: "number of members", found, expected }).at(directory));
    }
    check_kind(&other, count == 0, has_array).map_err(|error| error.at(directory))?;
    ranges.check_overlap(index)
}

/// Refuses an archive of another kind: one with members but no array, or a program with arrays among its files.
fn check_kind(other: &OtherArchive, is_empty: bool, has_array: bool) -> Result<()> {
    let what = match has_array {
        true if other.is_sure() => "this zip archive is not npz",
        false if !is_empty => "a zip archive without arrays is not npz",
        _ => return Ok(()),
    };
    Err(malformed(format!("{what}{}", other.text())))
}

/// The names of an archive in which array names could be repeated.
#[derive(Default)]
struct MemberNames {
    /// The position of the last member of each name.
    last: HashMap<String, usize>,
    warnings: Vec<Warning>,
}

impl MemberNames {
    fn read(file: &mut dyn ReadAt, limits: &Limits) -> Result<Self> {
        let (archive, mut buffer) = open_zip(file, limits)?;
        let mut records = archive.entries(&mut buffer);
        let (mut names, mut i, mut repeated) = (Self::default(), 0, IndexSet::new());
        while let Some(record) = records.next_entry().map_err(|error| zip_error(error, 0))? {
            let name = MemberName::new(record.file_path().as_bytes()).into_text();
            if names.last.insert(name.clone(), i).is_some() {
                repeated.insert(name);
            }
            i += 1;
        }
        let warning = |name: &String| {
            let text = format!("several members are named `{}`; the last one is read, as numpy does", Short(name));
            Warning::new(WarningKind::DuplicateName, text).in_tensor(name.strip_suffix(ENDING).unwrap_or(name))
        };
        names.warnings = repeated.iter().map(warning).collect();
        Ok(names)
    }

    /// Returns whether a member is the last one of its name.
    // Python's zipfile, and so numpy, finds members by a dict of their names, in which the last one stays.
    fn keeps(&self, name: &MemberName, i: usize) -> bool {
        self.last.get(name.text()) == Some(&i)
    }

    /// Returns whether an array needs the name of its member, with its ending, because another member has the name
    /// without it.
    fn needs_full(&self, name: &MemberName) -> bool {
        name.array().is_some_and(|array| self.last.contains_key(array))
    }
}

/// Reads members in order.
struct MemberReader<'a, 'f> {
    archive: &'a ZipArchive<ZipFile<'f>>,
    inflater: Inflater,
    limits: &'a Limits,
    warnings: &'a mut Vec<Warning>,
}

/// A tensor of a member: its header, its range and how it is stored.
type MemberTensor = (TensorInfo, Range<u64>, Option<Codec>);

impl MemberReader<'_, '_> {
    /// Returns the range of the contents of a member.
    fn place(&self, record: &ZipFileHeaderRecord<'_>, name: &MemberName) -> Result<Range<u64>> {
        let place = place_of(self.archive, record);
        place.map_err(|error| error.in_tensor(name.tensor()).at(record.central_directory_offset()))
    }

    /// Adds the tensor of a member to the index, by its `full` name or the usual one. Returns the range of the
    /// contents, and whether they are an array.
    fn read(
        &mut self,
        record: &ZipFileHeaderRecord<'_>,
        name: &MemberName,
        full: bool,
        index: &mut Index,
    ) -> Result<(Range<u64>, bool)> {
        let range = self.place(record, name)?;
        let place = range.clone();
        let mut member = || {
            if let Some(reason) = unsupported_member(record) {
                let label = if full { name.text() } else { name.tensor() };
                let how = if record.flags().is_encrypted() { "" } else { "compressed with " };
                let text = format!("the elements of `{}` cannot be read: the member is {how}{reason}", Short(label));
                self.warn(WarningKind::LeftOut, label, text);
                index.push(Some(label), unread(&reason, &range), range.clone())?;
                return Ok(name.array().is_some());
            }
            let contents = ZipContents::of(record, &range)?;
            let array = self.array(&contents, range.clone(), if full { name.text() } else { name.tensor() })?;
            let is_array = array.is_some();
            let label = if full || !is_array { name.text() } else { name.tensor() };
            let (info, payload, codec) = array.map_or_else(|| blob(&contents, range.clone()), Ok)?;
            index.push_coded(Some(label), info, payload, codec)?;
            Ok(is_array)
        };
        let is_array = member().map_err(|error: Error| error.in_tensor(name.tensor()).at(place.start))?;
        Ok((place, is_array))
    }

    /// Returns the array in a member, recognized by its first bytes.
    fn array(&mut self, contents: &ZipContents, range: Range<u64>, label: &str) -> Result<Option<MemberTensor>> {
        // numpy decides by the first bytes as well, whatever the ending of the name is.
        if contents.len < header::MAGIC.len() as u64 {
            return Ok(None);
        }
        let mut reader = RangeReader::new(self.archive.get_ref(), range.clone());
        if contents.is_deflated {
            self.inflater.start();
        }
        let mut inflater = contents.is_deflated.then_some(&mut self.inflater);
        let mut read = |bytes: &mut [u8]| {
            let filled = match &mut inflater {
                Some(inflater) => inflater.fill(&mut reader, bytes),
                None => reader.read_exact(bytes),
            };
            filled.map_err(not_deflated)
        };
        let mut magic = [0; header::MAGIC.len()];
        read(&mut magic)?;
        if magic != *header::MAGIC {
            return Ok(None);
        }
        let mut header = match header::read(&mut read, self.limits)? {
            Ok(header) => header,
            Err(error) => {
                let text = format!("the elements of `{}` cannot be read: {error}", Short(label));
                // A newer numpy may use other versions or lengths.
                let is_damaged = matches!(error, ErrorKind::Malformed { .. });
                self.warn(if is_damaged { WarningKind::Damaged } else { WarningKind::LeftOut }, label, text);
                return Ok(Some((unread("array", &range), range, None)));
            }
        };
        let head = u64::from(header.len);
        let bytes = contents.len.saturating_sub(head);
        header.info.set_unknown_bytes(bytes);
        header.info.check_payload(bytes)?;
        let start = if contents.is_deflated { range.start } else { range.start + head };
        Ok(Some((header.info, start..range.end, Some(codec(contents, header.big_endian, header.len)))))
    }

    fn warn(&mut self, kind: WarningKind, name: &str, text: String) {
        /// The most warnings.
        const MOST: usize = 16;
        if self.warnings.len() < MOST {
            self.warnings.push(Warning::new(kind, text).in_tensor(name));
        }
    }
}

/// Describes an unreadable tensor by its stored bytes.
fn unread(tag: &str, range: &Range<u64>) -> TensorInfo {
    TensorInfo::unknown(tag, [], usize::try_from(range.end - range.start).unwrap_or(usize::MAX))
}

/// Returns how to read a payload after `head` bytes of the contents.
fn codec(contents: &ZipContents, big_endian: Option<NonZeroU8>, head: u32) -> Codec {
    Codec::Zipped(Zipped { big_endian, is_deflated: contents.is_deflated, head, crc32: contents.crc32 })
}

/// Decodes the beginnings of members in turn. Its memory is larger than a header, and is reused.
#[derive(Default)]
struct Inflater {
    // A state takes 43 KB. Made anew for each member, it took two thirds of the time for opening a deflated archive of
    // 100,000 members.
    state: Option<Decompress>,
    input: Vec<u8>,
    /// The number of bytes of `input` already decoded.
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

    /// Fills `bytes` with the next bytes in the member of `reader`.
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

fn blob(contents: &ZipContents, range: Range<u64>) -> Result<MemberTensor> {
    let Ok(len) = usize::try_from(contents.len) else {
        return Err(malformed(format!("a blob of {} bytes is more than can be addressed", contents.len)));
    };
    Ok((TensorInfo::blob(len), range, Some(codec(contents, None, 0))))
}

/// The ranges of the contents of members.
#[derive(Default)]
struct Ranges {
    /// Each with the position of its tensor, unless it is left out.
    ranges: Vec<(Range<u64>, Option<usize>)>,
    /// The highest end so far.
    end: u64,
    /// One begins before the end of another.
    may_overlap: bool,
}

impl Ranges {
    fn push(&mut self, range: Range<u64>, tensor: Option<usize>) {
        self.may_overlap |= range.start < self.end;
        self.end = self.end.max(range.end);
        self.ranges.push((range, tensor));
    }

    /// Refuses members with shared bytes: a small archive could decode to a large one.
    fn check_overlap(mut self, index: &Index) -> Result<()> {
        if !self.may_overlap {
            return Ok(());
        }
        self.ranges.retain(|(range, _)| !range.is_empty());
        self.ranges.sort_unstable_by_key(|(range, tensor)| (range.start, range.end, *tensor));
        match self.ranges.windows(2).find(|pair| pair[0].0.end > pair[1].0.start) {
            Some([(other_range, other), (range, tensor)]) => {
                let label = |tensor: &Option<usize>| {
                    tensor.map_or_else(|| "a member that is left out".to_owned(), |i| index.label(i))
                };
                let kind = ErrorKind::Overlap { other: label(other), range: other_range.clone() };
                Err(Error::new(kind).in_tensor(label(tensor)).at(range.start))
            }
            _ => Ok(()),
        }
    }
}

fn malformed(what: String) -> Error {
    ErrorKind::Malformed { what }.into()
}
