//! Reads GGUF: the header, and the places of the tensors in the data.

use std::num::NonZeroU8;
use std::ops::Range;

use indexmap::IndexMap;

use super::header::{self, Beginning};
use super::metadata::{self, HeaderMetadata, bad_number, check_limit};
use crate::error::{Error, ErrorKind, Result, Short, Warning, WarningKind};
use crate::limits::Limits;
use crate::model::{FileMetadata, FilePart, MetadataChanges, Rewritten, TypedEntry};
use crate::read::{Codec, Cursor, Index, IndexReader, trailing_bytes};
use crate::storage::ReadAt;
use crate::tensor::{InvalidTensor, Shape, TensorInfo};

/// Reads the header. The tensors are in the order of their data.
#[derive(Debug, Default)]
pub(super) struct Reader {
    is_read: bool,
    /// The metadata, if all of it was read.
    metadata: Option<FileMetadata>,
    part: Option<FilePart>,
}

impl IndexReader for Reader {
    fn read_on(&mut self, file: &mut dyn ReadAt, limits: &Limits, index: &mut Index) -> Result<bool> {
        if std::mem::replace(&mut self.is_read, true) {
            return Ok(false);
        }
        // A stream cannot be read again.
        let skips_long = file.file_len().is_some();
        let FileHeader { metadata, is_whole, part, data, alignment, is_big_endian, .. } =
            read(file, skips_long, limits, index)?;
        self.part = part;
        self.metadata = Some(metadata).filter(|_| is_whole);
        let mut end = 0;
        for i in 0..index.pushed() {
            let Range { mut start, end: stop } = index.entry(i).range();
            if start == stop {
                // For a stream, an empty tensor counts at the end of the last one: its offset may be anywhere.
                start = start.min(end);
            } else {
                end = stop.next_multiple_of(alignment);
            }
            // The sums were checked when the header was read.
            let range = Cursor::new(file, data + start).payload(index.entry(i).info());
            let range = range.map_err(|error| error.in_tensor(index.label(i)))?;
            index.entries_mut().set_range(i, &range);
            if is_big_endian {
                set_big_endian(index, i);
            }
        }
        Ok(true)
    }

    fn is_in_file_order(&self) -> bool {
        true
    }

    fn metadata(&mut self) -> Option<FileMetadata> {
        self.metadata.take()
    }

    fn part(&self) -> Option<FilePart> {
        self.part
    }
}

/// Has the elements of a tensor swapped when it is read.
fn set_big_endian(index: &mut Index, i: usize) {
    let info = index.entry(i).info().clone();
    if info.dtype.block_elements() > 1 || info.unknown_dtype().is_some() {
        index.entries_mut().set_info(i, header::big_endian_blocks(&info));
        return;
    }
    if let Some(bytes) = u8::try_from(info.dtype.block_bytes()).ok().filter(|bytes| *bytes > 1).and_then(NonZeroU8::new)
    {
        index.entries_mut().set_codec(i, Codec::BigEndian(bytes));
    }
}

/// The contents of a header.
#[derive(Debug)]
struct FileHeader {
    metadata: FileMetadata,
    /// All arrays of the metadata were read.
    is_whole: bool,
    part: Option<FilePart>,
    is_big_endian: bool,
    /// The offset of the data.
    data: u64,
    alignment: u64,
    /// The end of the header, without the padding after it.
    header_end: u64,
}

/// Reads the metadata and checks the whole header.
pub(super) fn metadata(file: &mut dyn ReadAt, limits: &Limits) -> Result<FileMetadata> {
    Ok(read(file, false, limits, &mut Index::default())?.metadata)
}

/// Reads all entries as text, including the ones about the file. The whole header is checked.
pub(super) fn entries(file: &mut dyn ReadAt, limits: &Limits) -> Result<IndexMap<String, String>> {
    read(file, false, limits, &mut Index::default())?;
    let mut cursor = Cursor::new(file, 0);
    let Beginning { entries, is_big_endian, .. } = header::read_beginning(&mut cursor)?;
    Ok(metadata::MetadataReader::new(&mut cursor, is_big_endian, limits).entries(entries, limits)?.entries)
}

/// Reads the typed metadata of a header that was checked before.
pub(super) fn typed_metadata(file: &mut dyn ReadAt, limits: &Limits) -> Result<Vec<TypedEntry>> {
    let mut cursor = Cursor::new(file, 0);
    let Beginning { entries, is_big_endian, .. } = header::read_beginning(&mut cursor)?;
    let mut entries =
        metadata::MetadataReader::new(&mut cursor, is_big_endian, limits).typed_entries(entries, limits)?;
    entries.retain(|entry| !metadata::PART_KEYS.contains(&entry.key.as_str()));
    Ok(entries)
}

/// Makes a header with different metadata.
pub(super) fn rewrite_metadata(file: &mut dyn ReadAt, limits: &Limits, changes: &MetadataChanges) -> Result<Rewritten> {
    let FileHeader { data, alignment, header_end, is_big_endian, .. } =
        read(file, true, limits, &mut Index::default())?;
    if is_big_endian {
        let (what, instead) = ("change the metadata of a big-endian file", "convert it to a new file first");
        return Err(ErrorKind::Unsupported { what: what.to_owned(), instead: instead.to_owned() }.into());
    }
    let mut cursor = Cursor::new(file, 0);
    let beginning = header::read_beginning(&mut cursor)?;
    let entries = metadata::MetadataReader::new(&mut cursor, false, limits).typed_entries(beginning.entries, limits)?;
    let mut descriptions = Vec::new();
    let len = header_end.saturating_sub(cursor.offset());
    cursor.append(len, &mut descriptions)?;
    let entries = metadata::changed(entries, changes)?;
    let begin = header::rewrite(&beginning, &entries, &descriptions, alignment);
    let end = file.file_len().unwrap_or(data);
    Ok(Rewritten { begin, kept: data.min(end)..end, end: Vec::new() })
}

/// Reads a header, and adds its tensors to the index, in the order of their data. Their ranges count from the offset of
/// the data on.
fn read(file: &mut dyn ReadAt, skips_long: bool, limits: &Limits, index: &mut Index) -> Result<FileHeader> {
    /// The length of the shortest description of a tensor: no name, rank 0, the type and the offset.
    const SHORTEST: u64 = 8 + 4 + 4 + 8;
    let len = file.file_len();
    let mut cursor = Cursor::new(file, 0);
    let Beginning { is_big_endian, version, tensors: count, entries } = header::read_beginning(&mut cursor)?;
    check_limit("number of tensors", count, limits.tensors).map_err(|error| error.at(8))?;
    let mut reader = metadata::MetadataReader::new(&mut cursor, is_big_endian, limits);
    reader.skip_long(skips_long);
    let mut found = reader.entries(entries, limits)?;
    let part = found.take_part();
    let HeaderMetadata { entries, alignment, is_whole } = found;
    reader.check_fits(count, SHORTEST)?;
    let mut places = Vec::new();
    let mut has_unknown = false;
    for number in 0..count {
        let in_tensor = |error: Error| error.in_tensor(format!("#{number}"));
        let name = reader.name("length of a name").map_err(in_tensor)?;
        let tensor = tensor(&mut reader, alignment, limits).map_err(|error| error.in_tensor(&*name))?;
        let (info, range, place) = tensor;
        has_unknown |= info.unknown_dtype().is_some();
        index.push_checked(Some(&name), info, range)?;
        places.push(place);
    }
    if let Err(i) = index.compare_names() {
        return Err(Error::new(ErrorKind::DuplicateName { name: index.label(i) }).at(places[i]));
    }
    let header_end = cursor.offset();
    let Some(data) = header_end.checked_next_multiple_of(alignment) else {
        return Err(ErrorKind::Truncated { needed: alignment, left: 0 }.into());
    };
    // Tensors without bytes come before a tensor at the same offset.
    if let Some(order) = index.sort() {
        places = order.into_iter().map(|i| places[i]).collect();
    }
    if has_unknown {
        set_unknown_ends(index, &places, len.map(|len| len.saturating_sub(data)))?;
    }
    let end = check(index, &places, data)?;
    let mut warnings = Vec::new();
    if let Some(part) = &part {
        warnings.push(part_warning(part, index.pushed()));
    }
    warnings.extend(set_model_shapes(index, &entries));
    let trailing = trailing_bytes(end.max(data), len);
    warnings.extend(trailing.filter(|_| padded(end, alignment).is_none_or(|end| len > Some(end))));
    let version = if is_big_endian { format!("{version}, big-endian") } else { version.to_string() };
    let metadata = FileMetadata { version: Some(version), entries, warnings, ..FileMetadata::default() };
    Ok(FileHeader { metadata, is_whole, part, is_big_endian, data, alignment, header_end })
}

/// Gives tensors the shapes of the model, where the metadata states others than those stored. ComfyUI's converter folds
/// tensors whose rows are not whole blocks, and its loader unfolds them. Returns a warning about the first that cannot
/// have the stated shape.
fn set_model_shapes(index: &mut Index, entries: &IndexMap<String, String>) -> Option<Warning> {
    if !entries.keys().any(|key| key.starts_with(header::MODEL_SHAPE)) {
        return None;
    }
    let mut warning = None;
    for i in 0..index.pushed() {
        let name = index.name(i);
        let Some(text) = entries.get(&format!("{}{name}", header::MODEL_SHAPE)) else { continue };
        let stored = index.entry(i).info();
        let dims = text.trim().strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        let shape: Option<Shape> = dims.and_then(|dims| dims.split(',').map(|dim| dim.trim().parse().ok()).collect());
        let stated = shape.map(|shape| TensorInfo { shape, ..stored.clone() }).filter(|stated| {
            let is_same = stated.shape.elements() == stored.shape.elements();
            // Another shape could not be written again.
            is_same && stated.shape.rank() <= header::MAX_RANK && header::has_whole_rows(stated)
        });
        match stated {
            Some(stated) => index.entries_mut().set_info(i, stated),
            None if warning.is_none() => {
                let text = format!(
                    "`{}` is stored as {stored}, but the metadata says that the shape of the model is {}",
                    Short(name),
                    Short(text)
                );
                warning = Some(Warning::new(WarningKind::Metadata, text).in_tensor(name));
            }
            None => {}
        }
    }
    warning
}

fn part_warning(part: &FilePart, tensors: usize) -> Warning {
    let FilePart { index, count, tensors: all } = part;
    let of = all.map_or(String::new(), |all| format!(" of {all}"));
    let noun = if all.unwrap_or(tensors as u64) == 1 { "tensor" } else { "tensors" };
    let text = format!(
        "the file is part {} of {count} of a model in several files; it has {tensors}{of} {noun}",
        index.saturating_add(1)
    );
    Warning::new(WarningKind::Part, text)
}

fn padded(end: u64, alignment: u64) -> Option<u64> {
    end.checked_next_multiple_of(alignment)
}

/// Reads the description of a tensor after its name. Returns also the offset of its last part.
fn tensor(
    reader: &mut metadata::MetadataReader<'_, '_>,
    alignment: u64,
    limits: &Limits,
) -> Result<(TensorInfo, Range<u64>, u64)> {
    let place = reader.cursor.offset();
    let rank = u64::from(reader.u32()?);
    check_limit("rank", rank, limits.rank).map_err(|error| error.at(place))?;
    let dims_at = reader.cursor.offset();
    let mut dims = Vec::new();
    for _ in 0..rank {
        let offset = reader.cursor.offset();
        let dim = reader.u64()?;
        let expected = || bad_number("dim", dim, "less than 2^63".to_owned()).at(offset);
        dims.push(usize::try_from(dim).ok().filter(|_| dim <= header::MAX_DIM).ok_or_else(expected)?);
    }
    // The innermost dim comes first.
    dims.reverse();
    let tag = reader.u32()?;
    let place = reader.cursor.offset();
    let start = reader.u64()?;
    if !start.is_multiple_of(alignment) {
        return Err(bad_number("offset", start, format!("a multiple of the alignment, {alignment}")).at(place));
    }
    let shape = Shape::from(&dims[..]);
    let info = match header::dtype(tag) {
        Some(dtype) => TensorInfo::new(dtype, shape),
        None => header::unknown(tag, alignment, shape),
    };
    if !header::has_whole_rows(&info) {
        let (dtype, row) = (info.dtype, dims.last().copied().unwrap_or(1));
        let expected = format!("a multiple of {}, as {dtype} stores blocks", dtype.block_elements());
        return Err(bad_number("innermost dim", row as u64, expected).at(dims_at));
    }
    let bytes = match info.payload_bytes() {
        Some(bytes) => bytes as u64,
        None => {
            let kind = InvalidTensor::TooLarge { dtype: info.dtype, shape: info.shape };
            return Err(Error::from(kind).at(dims_at));
        }
    };
    // An end past 2⁶³ is after the end of any file, and this is below it with the length of a header too.
    let end = start.checked_add(bytes).filter(|end| *end <= header::MAX_DIM);
    let end = end.ok_or_else(|| bad_number("offset", start, "a tensor that ends below 2^63".to_owned()).at(place))?;
    Ok((info, start..end, place))
}

/// Extends each tensor of an unknown dtype to the start of the next tensor, or to the end of the file, where `left` is
/// the number of data bytes.
fn set_unknown_ends(index: &mut Index, places: &[u64], left: Option<u64>) -> Result<()> {
    for (i, place) in places.iter().enumerate() {
        let entry = index.entry(i);
        let Some(tag) = entry.info().unknown_dtype() else { continue };
        let next = if i + 1 < places.len() { Some(index.entry(i + 1).range().start) } else { left };
        let Some(end) = next else {
            let kind = ErrorKind::UnknownDtype { tag: tag.to_owned() };
            return Err(Error::new(kind).at(*place).in_tensor(index.label(i)));
        };
        let (start, mut info) = (entry.range().start, entry.info().clone());
        let end = end.max(start);
        info.set_unknown_bytes(end - start);
        index.entries_mut().set_info(i, info);
        index.entries_mut().set_range(i, &(start..end));
    }
    Ok(())
}

/// Checks that no two tensors overlap. Returns the end of the last one in the file.
fn check(index: &Index, places: &[u64], data: u64) -> Result<u64> {
    let range = |i: usize| index.entry(i).range();
    let mut last: Option<usize> = None;
    for (i, place) in places.iter().enumerate().filter(|(i, _)| !range(*i).is_empty()) {
        if let Some(before) = last.filter(|before| range(i).start < range(*before).end) {
            let (start, end) = (range(before).start, range(before).end);
            let range = data.saturating_add(start)..data.saturating_add(end);
            let kind = ErrorKind::Overlap { other: index.label(before), range };
            return Err(Error::new(kind).at(*place).in_tensor(index.label(i)));
        }
        last = Some(i);
    }
    Ok(data.saturating_add(last.map_or(0, |last| range(last).end)))
}
