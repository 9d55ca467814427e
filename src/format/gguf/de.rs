use super::header::{self, Beginning};
use super::metadata::{self, HeaderMetadata, bad_number, check_limit};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::Limits;
use crate::record::{
    Cursor, Entry, FileMetadata, IndexReader, MetadataChanges, Packed, Rewritten, TypedEntry, Waiting, trailing_bytes,
};
use crate::storage::ReadAt;
use crate::tensor::{InvalidTensor, Shape, TensorInfo};

/// Reads the header, then returns its tensors in the order of their data.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// The contents of the header, once it is read.
    contents: Option<FileHeader>,
}

impl IndexReader for Reader {
    fn next(&mut self, file: &mut dyn ReadAt, limits: &Limits) -> Result<Option<Entry>> {
        let contents = match &mut self.contents {
            Some(contents) => contents,
            unread => unread.insert(read(file, limits)?),
        };
        let (data, end) = (contents.data, &mut contents.end);
        let Some(mut tensor) = contents.tensors.pop() else { return Ok(None) };
        if tensor.span.0 == tensor.span.1 {
            // A stream would have to look for the place of a tensor without bytes, which may be anywhere.
            tensor.span.0 = tensor.span.0.min(*end);
        } else {
            *end = tensor.span.1.next_multiple_of(contents.alignment);
        }
        // The sums were checked when the header was read.
        let range = Cursor::new(file, data + tensor.span.0).payload(&tensor.info);
        let range = range.map_err(|error| error.in_tensor(tensor.name))?;
        tensor.span = (range.start, range.end);
        Ok(Some(tensor.into_entry()))
    }

    fn is_in_file_order(&self) -> bool {
        true
    }

    fn embeds_names(&self) -> bool {
        false
    }

    fn remaining(&self) -> usize {
        self.contents.as_ref().map_or(0, |contents| contents.tensors.len())
    }

    fn metadata(&mut self) -> Option<FileMetadata> {
        self.contents.as_mut().map(|contents| std::mem::take(&mut contents.metadata))
    }
}

/// The contents of a header.
#[derive(Debug)]
struct FileHeader {
    metadata: FileMetadata,
    /// In the order of their data. Their spans are the offsets in the header, from `data` on.
    tensors: Packed,
    /// The offset of the data.
    data: u64,
    alignment: u64,
    /// The end of the header, without the padding after it.
    header_end: u64,
    /// The end of the tensors that were returned, with their padding, from `data` on.
    end: u64,
}

/// Reads the metadata and checks the whole header.
pub(super) fn metadata(file: &mut dyn ReadAt, limits: &Limits) -> Result<FileMetadata> {
    let mut reader = Reader::default();
    while reader.next(file, limits)?.is_some() {}
    Ok(reader.metadata().unwrap_or_default())
}

/// Reads the metadata with its types. The header is one that was read before.
pub(super) fn typed_metadata(file: &mut dyn ReadAt, limits: &Limits) -> Result<Vec<TypedEntry>> {
    let mut cursor = Cursor::new(file, 0);
    let Beginning { entries, .. } = header::read_beginning(&mut cursor)?;
    metadata::MetadataReader::new(&mut cursor, limits).typed_entries(entries, limits)
}

/// Makes a header with other metadata.
pub(super) fn rewrite_metadata(file: &mut dyn ReadAt, limits: &Limits, changes: &MetadataChanges) -> Result<Rewritten> {
    let FileHeader { data, alignment, header_end, .. } = read(file, limits)?;
    let mut cursor = Cursor::new(file, 0);
    let beginning = header::read_beginning(&mut cursor)?;
    let entries = metadata::MetadataReader::new(&mut cursor, limits).typed_entries(beginning.entries, limits)?;
    let mut descriptions = Vec::new();
    let len = header_end.saturating_sub(cursor.offset());
    cursor.append(len, &mut descriptions)?;
    let entries = metadata::changed(entries, changes)?;
    let begin = header::rewrite(&beginning, &entries, &descriptions, alignment);
    let end = file.file_len().unwrap_or(data);
    Ok(Rewritten { begin, kept: data.min(end)..end, end: Vec::new() })
}

/// Reads a header.
fn read(file: &mut dyn ReadAt, limits: &Limits) -> Result<FileHeader> {
    /// The length of the shortest description of a tensor: no name, rank 0, the type and the offset.
    const SHORTEST: u64 = 8 + 4 + 4 + 8;
    let len = file.file_len();
    let mut cursor = Cursor::new(file, 0);
    let Beginning { version, tensors: count, entries } = header::read_beginning(&mut cursor)?;
    check_limit("number of tensors", count, limits.tensors).map_err(|error| error.at(8))?;
    let mut reader = metadata::MetadataReader::new(&mut cursor, limits);
    let HeaderMetadata { entries, alignment } = reader.entries(entries, limits)?;
    reader.check_fits(count, SHORTEST)?;
    let mut tensors = Packed::default();
    let mut has_unknown = false;
    for number in 0..count {
        let in_tensor = |error: Error| error.in_tensor(format!("#{number}"));
        let name = reader.name("length of a name").map_err(in_tensor)?;
        let tensor = tensor(reader.cursor, &name, alignment, limits).map_err(|error| error.in_tensor(&name))?;
        has_unknown |= tensor.info.unknown_dtype().is_some();
        tensors.push(&tensor);
    }
    if let Some(tensor) = tensors.find_duplicate() {
        return Err(Error::new(ErrorKind::DuplicateName { name: tensor.name.to_owned() }).at(tensor.place));
    }
    let header_end = cursor.offset();
    let Some(data) = header_end.checked_next_multiple_of(alignment) else {
        return Err(ErrorKind::Truncated { needed: alignment, left: 0 }.into());
    };
    // Tensors without bytes come before one that begins at the same offset.
    tensors.sort();
    if has_unknown {
        tensors = with_unknown_ends(&tensors, len.map(|len| len.saturating_sub(data)))?;
    }
    let end = check(&tensors, data)?;
    let warnings =
        trailing_bytes(end.max(data), len).filter(|_| padded(end, alignment).is_none_or(|end| len > Some(end)));
    let metadata = FileMetadata {
        version: Some(version.to_string()),
        entries,
        warnings: warnings.into_iter().collect(),
        ..FileMetadata::default()
    };
    Ok(FileHeader { metadata, tensors, data, alignment, header_end, end: 0 })
}

fn padded(end: u64, alignment: u64) -> Option<u64> {
    end.checked_next_multiple_of(alignment)
}

/// Reads the description of a tensor after its name.
fn tensor<'n>(cursor: &mut Cursor<'_>, name: &'n str, alignment: u64, limits: &Limits) -> Result<Waiting<'n>> {
    let place = cursor.offset();
    let rank = u64::from(cursor.u32()?);
    check_limit("rank", rank, limits.rank).map_err(|error| error.at(place))?;
    let dims_at = cursor.offset();
    let mut dims = Vec::new();
    for _ in 0..rank {
        let offset = cursor.offset();
        let dim = cursor.u64()?;
        let expected = || bad_number("dim", dim, "less than 2^63".to_owned()).at(offset);
        dims.push(usize::try_from(dim).ok().filter(|_| dim <= header::MAX_DIM).ok_or_else(expected)?);
    }
    // The innermost dim comes first.
    dims.reverse();
    let tag = cursor.u32()?;
    let place = cursor.offset();
    let start = cursor.u64()?;
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
    Ok(Waiting { place, span: (start, end), ..Waiting::new(name, info, &(0..0)) })
}

/// Returns the same tensors, with those of an unknown dtype up to where the next one begins, or up to the end of the
/// file, of which `left` bytes are data.
fn with_unknown_ends(tensors: &Packed, left: Option<u64>) -> Result<Packed> {
    let mut resolved = Packed::default();
    let mut next = tensors.iter();
    next.next();
    for mut tensor in tensors.iter() {
        let next = next.next().map(|next| next.span.0).or(left);
        if let Some(tag) = tensor.info.unknown_dtype() {
            let Some(end) = next else {
                let kind = ErrorKind::UnknownDtype { tag: tag.to_owned() };
                return Err(Error::new(kind).at(tensor.place).in_tensor(tensor.name));
            };
            let end = end.max(tensor.span.0);
            tensor.info.set_unknown_bytes(end - tensor.span.0);
            tensor.span.1 = end;
        }
        resolved.push(&tensor);
    }
    Ok(resolved)
}

/// Checks that no two tensors overlap. Returns the end of the last one in the file.
fn check(tensors: &Packed, data: u64) -> Result<u64> {
    let mut last: Option<Waiting<'_>> = None;
    for tensor in tensors.iter().filter(|tensor| tensor.span.0 < tensor.span.1) {
        if let Some(before) = last.filter(|before| tensor.span.0 < before.span.1) {
            let range = data.saturating_add(before.span.0)..data.saturating_add(before.span.1);
            let kind = ErrorKind::Overlap { other: before.name.to_owned(), range };
            return Err(Error::new(kind).at(tensor.place).in_tensor(tensor.name));
        }
        last = Some(tensor);
    }
    Ok(data.saturating_add(last.map_or(0, |last| last.span.1)))
}
