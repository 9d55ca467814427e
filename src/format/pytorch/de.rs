//! Reads PyTorch checkpoints: finds the pickle and the storages in a file, and adds the collected tensors to the index.

use flate2::Crc;
use hashbrown::{HashMap, HashSet};

use super::collect::{Checkpoint, collect};
use super::pickle::{Input, read};
use super::storages::Storages;
use super::tree::Root;
use super::value::{Heap, PickleValue, PickledStorage};
use crate::error::{Error, ErrorKind, Result, Short, Warning, WarningKind};
use crate::limits::Limits;
use crate::model::{FileMetadata, ValueTree};
use crate::read::{
    Cursor, Index, IndexReader, OtherArchive, ZipContents, check_crc32, check_members, open_zip, place_of,
    trailing_bytes, zip_error,
};
use crate::storage::ReadAt;

/// Reads the pickle of a checkpoint. The tensors are in the order of the pickle.
#[derive(Debug, Default)]
pub(super) struct Reader {
    is_read: bool,
    metadata: FileMetadata,
}

impl IndexReader for Reader {
    /// PyTorch itself has no joined names, so it allows keys that make the same name.
    fn names_may_repeat(&self) -> bool {
        true
    }

    fn read_on(&mut self, file: &mut dyn ReadAt, limits: &Limits, index: &mut Index) -> Result<bool> {
        if std::mem::replace(&mut self.is_read, true) {
            return Ok(false);
        }
        let (Checkpoint { tensors, metadata, warnings, .. }, version) = read_file(file, Root::Unnamed, limits)?;
        self.metadata = FileMetadata { version, entries: metadata, warnings, ..FileMetadata::default() };
        *index = tensors;
        index.let_names_repeat();
        Ok(true)
    }

    fn metadata(&mut self) -> Option<FileMetadata> {
        Some(std::mem::take(&mut self.metadata))
    }
}

/// Reads the metadata and checks the whole pickle.
pub(super) fn metadata(file: &mut dyn ReadAt, limits: &Limits) -> Result<FileMetadata> {
    let mut reader = Reader::default();
    reader.read_on(file, limits, &mut Index::default())?;
    Ok(reader.metadata().unwrap_or_default())
}

/// Reads the whole value of a checkpoint. Its tensors are positions in the index.
pub(super) fn value_tree(file: &mut dyn ReadAt, limits: &Limits) -> Result<ValueTree> {
    let (contents, _) = read_file(file, Root::Tree, limits)?;
    Ok(ValueTree::new(contents.tree))
}

/// Compares the checksums of all members except tensors.
pub(super) fn check_other_members(file: &mut dyn ReadAt, limits: &Limits, checked: &HashSet<u64>) -> Result<()> {
    let mut begin = [0; ZIP.len()];
    file.peek_at(0, &mut begin)?;
    if begin == *ZIP { check_members(file, limits, checked, true) } else { Ok(()) }
}

/// Returns whether a file is a zip archive with a pickle of PyTorch and no array of numpy.
pub(super) fn looks_like(file: &mut dyn ReadAt) -> bool {
    let mut begin = [0; ZIP.len()];
    let is_zip = file.file_len().is_some() && file.peek_at(0, &mut begin).is_ok() && begin == *ZIP;
    is_zip && has_pickle(file).unwrap_or(false)
}

fn has_pickle(file: &mut dyn ReadAt) -> Result<bool> {
    let (archive, mut buffer) = open_zip(file, &Limits::default())?;
    let mut records = archive.entries(&mut buffer);
    let mut is_found = false;
    while let Some(record) = records.next_entry().map_err(|error| zip_error(error, 0))? {
        let path = record.file_path();
        if path.as_bytes().ends_with(b".npy") {
            return Ok(false);
        }
        is_found |= folder_of_pickle(path.as_bytes()).is_some();
    }
    Ok(is_found)
}

/// The first bytes of a zip archive, and of a pickle.
pub(super) const ZIP: &[u8; 4] = b"PK\x03\x04";
const PICKLE: u8 = 0x80;

/// The name of the pickle in an archive.
const DATA: &[u8] = b"data.pkl";

/// Returns the folder of a pickle, with the slash at its end.
fn folder_of_pickle(path: &[u8]) -> Option<&[u8]> {
    path.strip_suffix(DATA).filter(|folder| folder.is_empty() || folder.ends_with(b"/"))
}

fn read_file(file: &mut dyn ReadAt, root: Root<'_>, limits: &Limits) -> Result<(Checkpoint, Option<String>)> {
    let mut begin = [0; ZIP.len()];
    file.peek_at(0, &mut begin)?;
    if begin == *ZIP {
        return read_archive(file, root, limits);
    }
    file.keep_rest(limits.most_held())?;
    let len = file.file_len().expect(KEPT);
    if begin[0] == PICKLE || begin == OLD_MAGIC_NUMBER[..begin.len()] {
        return read_legacy(file, root, len, limits);
    }
    if is_tar(file) {
        let what = "a tar archive, as PyTorch before 0.1.10 wrote them, is not read; load and save it with a newer one";
        return Err(Error::new(malformed(what)).at(0));
    }
    let what = "neither a zip archive (`PK`) nor the pickle of a number";
    Err(Error::new(ErrorKind::NotTensors { what, found: begin.to_vec() }).at(0))
}

const KEPT: &str = "the length is known, or the rest is kept";

fn is_tar(file: &mut dyn ReadAt) -> bool {
    const OFFSET: u64 = 257;
    let mut magic = [0; 5];
    file.read_at(OFFSET, &mut magic).is_ok() && magic == *b"ustar"
}

/// A member of an archive.
struct Member {
    name: String,
    range: std::ops::Range<u64>,
    is_deflated: bool,
    /// The CRC-32; `None` if PyTorch wrote zeros instead.
    crc32: Option<u32>,
}

impl Member {
    /// Refuses a compressed member.
    fn check_stored(&self) -> Result<()> {
        if self.is_deflated {
            let what = format!(
                "the member `{}` is compressed, which PyTorch does not do; unpack the archive and zip it without \
                 compression (`zip -0`)",
                Short(&self.name)
            );
            return Err(Error::new(malformed(what)).at(self.range.start));
        }
        Ok(())
    }

    /// Compares the checksum of the contents, if there is one.
    fn check_sum(&self, file: &mut dyn ReadAt) -> Result<()> {
        const PIECE: u64 = 64 << 10;
        // PyTorch can leave checksums out, and then writes zeros.
        let Some(expected) = self.crc32 else { return Ok(()) };
        let (mut crc, mut piece, mut cursor) = (Crc::new(), Vec::new(), Cursor::new(file, self.range.start));
        while cursor.offset() < self.range.end {
            piece.clear();
            cursor.append((self.range.end - cursor.offset()).min(PIECE), &mut piece)?;
            crc.update(&piece);
        }
        check_crc32(crc.sum(), expected).map_err(|error| error.in_tensor(&*self.name).at(self.range.start))
    }

    /// Returns a member of a few bytes of text.
    fn text(&self, file: &mut dyn ReadAt) -> Result<String> {
        const MOST: u64 = 64;
        self.check_stored()?;
        let mut text = Vec::new();
        Cursor::new(file, self.range.start).append((self.range.end - self.range.start).min(MOST), &mut text)?;
        Ok(String::from_utf8_lossy(&text).trim().to_owned())
    }
}

/// Reads the value of an archive. The archive may state its name.
pub(super) fn read_archive<'a>(
    file: &mut dyn ReadAt,
    name: impl Into<Root<'a>>,
    limits: &Limits,
) -> Result<(Checkpoint, Option<String>)> {
    let name = name.into();
    let (members, begin) = read_members(file, limits)?;
    let len = file.file_len().expect(KEPT);
    let mut pickles = members.iter().filter(|member| folder_of_pickle(member.name.as_bytes()).is_some());
    let Some(pickle) = pickles.next() else {
        let mut other = OtherArchive::default();
        members.iter().for_each(|member| other.look_at(member.name.as_bytes()));
        let what = format!("the archive has no `data.pkl`, so it is not a file of `torch.save`{}", other.text());
        return Err(malformed(what).into());
    };
    if let Some(other) = pickles.next() {
        let what = format!("`{}` and `{}` are both the pickle", Short(&pickle.name), Short(&other.name));
        return Err(Error::new(malformed(what)).at(other.range.start));
    }
    let folder = pickle.name.strip_suffix("data.pkl").unwrap_or_default();
    let member = |name: &str| members.iter().find(|member| member.name.strip_prefix(folder) == Some(name));
    if let Some(constants) = member("constants.pkl") {
        let what = "this is TorchScript, a program with its weights, which has `constants.pkl`; \
                    save the weights with `torch.save(torch.jit.load(path).state_dict(), …)`";
        return Err(Error::new(malformed(what)).at(constants.range.start));
    }
    pickle.check_stored()?;
    pickle.check_sum(file)?;
    let is_big_endian = match member("byteorder") {
        Some(order) => is_big_endian(order, file)?,
        None => false,
    };
    let version = member("version").or_else(|| member(".data/version"));
    let version = version.map(|version| version.text(file)).transpose()?;
    let range = pickle.range.clone();
    let (value, heap) = read(&mut Input::new(file, range.start, range.end), copies(len, limits))?;
    let data = format!("{folder}data/");
    let (mut ranges, mut checksums) = (HashMap::new(), HashMap::new());
    for member in &members {
        let Some(key) = member.name.strip_prefix(&data) else { continue };
        member.check_stored()?;
        checksums.extend(member.crc32.map(|crc32| (member.range.start, (member.range.end, crc32))));
        if ranges.insert(key.to_owned(), member.range.clone()).is_some() {
            let what = format!("two members are named `{}`", Short(&member.name));
            return Err(Error::new(malformed(what)).at(member.range.start));
        }
    }
    let mut contents = collect((value, name), &heap, &Storages { ranges, checksums, is_big_endian }, len, limits)?;
    contents.warnings.extend(without_weights(&contents));
    if begin > 0 {
        let text = format!(
            "the file holds something before the archive, up to byte {begin}, which is left out; it may be what an earlier \
             `torch.save` wrote"
        );
        contents.warnings.push(Warning::new(WarningKind::LeftOut, text).at(0));
    }
    Ok((contents, version))
}

/// Returns a warning about a file of DeepSpeed's ZeRO-3, whose tensors have no elements.
fn without_weights(contents: &Checkpoint) -> Option<Warning> {
    /// What DeepSpeed saves next to the model, and the name of that.
    const VERSION: &str = "ds_version";
    const MODEL: &str = "module.";

    let Checkpoint { tensors, metadata, .. } = contents;
    let is_model = |i: &usize| tensors.name(*i).starts_with(MODEL);
    let mut model = (0..tensors.pushed()).filter(is_model).peekable();
    let first = *model.peek().filter(|_| metadata.contains_key(VERSION))?;
    if model.any(|i| !tensors.entry(i).info().shape.dims().contains(&0)) {
        return None;
    }
    let name = tensors.name(first);
    let text = format!(
        "`{}` and all other weights have no elements: DeepSpeed's ZeRO-3 saves them in parts in the `*_optim_states.pt` files, \
         which its `zero_to_fp32.py` puts together",
        Short(name)
    );
    Some(Warning::new(WarningKind::Part, text).in_tensor(name))
}

fn is_big_endian(order: &Member, file: &mut dyn ReadAt) -> Result<bool> {
    match &*order.text(file)? {
        "big" => Ok(true),
        "little" => Ok(false),
        other => {
            let what = format!("`byteorder` is `{}`, but expected `little` or `big`", Short(other));
            Err(Error::new(malformed(what)).at(order.range.start))
        }
    }
}

/// Returns the members of an archive, and the offset of the first one.
fn read_members(file: &mut dyn ReadAt, limits: &Limits) -> Result<(Vec<Member>, u64)> {
    let (archive, mut buffer) = open_zip(file, limits)?;
    let mut records = archive.entries(&mut buffer);
    let (mut members, mut last) = (Vec::new(), archive.directory_offset());
    let mut begin = last;
    while let Some(record) = records.next_entry().map_err(|error| zip_error(error, last))? {
        last = record.central_directory_offset();
        begin = begin.min(record.local_header_offset());
        let name = record.file_path();
        let name = String::from_utf8_lossy(name.as_bytes()).into_owned();
        let member = place_of(&archive, &record).and_then(|range| {
            let contents = ZipContents::of(&record, &range)?;
            let crc32 = Some(contents.crc32).filter(|crc32| *crc32 != 0);
            Ok(Member { name: String::new(), range, is_deflated: contents.is_deflated, crc32 })
        });
        let member = member.map_err(|error: Error| error.in_tensor(&*name).at(last))?;
        members.push(Member { name, ..member });
    }
    Ok((members, begin))
}

/// Returns the maximum number of bytes copied by the functions of a pickle.
fn copies(len: u64, limits: &Limits) -> u64 {
    len.saturating_add(limits.headers())
}

/// The first pickle of the older form: the bytes of 0x1950a86a20f9469cfc6c.
pub(super) const MAGIC_NUMBER: [u8; 10] = *b"\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";

/// The first pickle in the protocols 0 and 1.
pub(super) const OLD_MAGIC_NUMBER: &[u8] = b"L119547037146038801333356L\n.";

/// The second pickle.
const PROTOCOL: i64 = 1001;

fn read_legacy(
    file: &mut dyn ReadAt,
    root: Root<'_>,
    len: u64,
    limits: &Limits,
) -> Result<(Checkpoint, Option<String>)> {
    let mut input = Input::new(file, 0, len);
    let pickle = |input: &mut Input<'_>| -> Result<(PickleValue, Heap, u64)> {
        let place = input.offset();
        let (value, heap) = read(input, copies(len, limits))?;
        Ok((value, heap, place))
    };
    let (value, heap, place) = pickle(&mut input)?;
    let is_magic = match value {
        PickleValue::Long(span) => *heap.bytes(span) == MAGIC_NUMBER,
        PickleValue::Digits(span) => OLD_MAGIC_NUMBER[1..].starts_with(heap.bytes(span)) && span.len == 24,
        _ => false,
    };
    if !is_magic {
        let what = "the pickle is not of `torch.save`, whose older form begins with the number 0x1950a86a20f9469cfc6c";
        return Err(Error::new(malformed(what)).at(place));
    }
    let (value, _, place) = pickle(&mut input)?;
    match value {
        PickleValue::Int(PROTOCOL) => {}
        PickleValue::Int(found) => {
            let (found, expected) = (found.into(), PROTOCOL.to_string());
            return Err(Error::new(ErrorKind::BadNumber { what: "protocol", found, expected }).at(place));
        }
        other => {
            let what = format!("the protocol is {}, but expected {PROTOCOL}", other.kind());
            return Err(Error::new(malformed(what)).at(place));
        }
    }
    // Sizes of types, which do not matter, and the byte order of the machine. Storages are always little-endian.
    pickle(&mut input)?;
    let (value, heap, _) = pickle(&mut input)?;
    let (keys, key_heap, place) = pickle(&mut input)?;
    let PickleValue::List(keys) = keys else {
        let what = format!("the list of storages is {}", keys.kind());
        return Err(Error::new(malformed(what)).at(place));
    };
    let size = |storage: &PickledStorage| (heap.text(storage.key), (storage.tag.bytes, storage.class));
    let sizes: HashMap<&str, (u64, Option<u32>)> = heap.storages.iter().map(size).collect();
    let mut ranges = HashMap::new();
    let mut offset = input.offset();
    for key in key_heap.values(keys) {
        let PickleValue::Text(key) = key else {
            let what = format!("the name of a storage is {}, but expected a string", key.kind());
            return Err(Error::new(malformed(what)).at(place));
        };
        let key = key_heap.text(*key);
        let Some((size, class)) = sizes.get(key) else {
            let what = format!("the pickle does not have the storage `{}` of the list", Short(key));
            return Err(Error::new(malformed(what)).at(place));
        };
        if let Some(class) = class {
            // The next storage begins after it.
            let class = Short(heap.global_name(*class));
            let what =
                format!("the storage `{}` is of an unknown type, `{class}`, so its length is not known", Short(key));
            return Err(Error::new(malformed(what)).at(place));
        }
        let range = legacy_storage(file, offset, *size)
            .map_err(|error| error.in_tensor(format!("storage {}", Short(key))).at(offset))?;
        offset = range.end;
        if ranges.insert(key.to_owned(), range).is_some() {
            let what = format!("the storage `{}` is in the list twice", Short(key));
            return Err(Error::new(malformed(what)).at(place));
        }
    }
    let mut contents = collect(
        (value, root),
        &heap,
        &Storages { ranges, checksums: HashMap::new(), is_big_endian: false },
        len,
        limits,
    )?;
    if begins_another(file, offset) {
        let text =
            format!("the file holds another value after the first one, from byte {offset} on, which is left out");
        contents.warnings.push(Warning::new(WarningKind::LeftOut, text).at(offset));
    } else {
        contents.warnings.extend(trailing_bytes(offset, Some(len)));
    }
    Ok((contents, Some(PROTOCOL.to_string())))
}

/// Returns whether what `torch.save` writes begins at an offset.
// Two calls of `torch.save` to one file leave two values. `torch.load` reads one of them and does not say so; our
// warning does.
fn begins_another(file: &mut dyn ReadAt, offset: u64) -> bool {
    // The header of a frame can come before the number.
    let mut begin = [0; 24];
    file.read_at(offset, &mut begin).is_ok()
        && (begin.starts_with(ZIP)
            || begin == OLD_MAGIC_NUMBER[..begin.len()]
            || begin.windows(MAGIC_NUMBER.len()).any(|bytes| bytes == MAGIC_NUMBER))
}

/// Reads the length of a storage, and returns the range of its bytes.
fn legacy_storage(file: &mut dyn ReadAt, offset: u64, size: u64) -> Result<std::ops::Range<u64>> {
    let mut cursor = Cursor::new(file, offset);
    let count = cursor.i64()?;
    let Some(needed) = u64::try_from(count).ok().and_then(|count| count.checked_mul(size)) else {
        let (what, expected) = ("length of a storage", "one that fits into the file".to_owned());
        return Err(ErrorKind::BadNumber { what, found: count.into(), expected }.into());
    };
    let (start, left) = (cursor.offset(), cursor.left().unwrap_or(0));
    if needed > left {
        Err(Error::new(ErrorKind::Truncated { needed, left }).at(start))
    } else {
        Ok(start..start + needed)
    }
}

fn malformed(what: impl Into<String>) -> ErrorKind {
    ErrorKind::Malformed { what: what.into() }
}
