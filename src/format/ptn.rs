//! PTN (`.ptn`): a package of ExecuTorch's native programs, which is read, not written.
//!
//! ```text
//! zip archive, not compressed:
//!   program.ptg           the program; not read
//!   program.safetensors   the tensors, each content once; left out if there are none
//!   aliases.json          {"NAME": "NAME OF THE SAME CONTENT", …}; left out if there are none
//! ```
//!
//! An alias is a tensor with the bytes of another.
//!
//! # Specification
//!
//! `exir/_serialize/_ptn.py` of [ExecuTorch](https://github.com/pytorch/executorch) 1.5.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use hashbrown::HashSet;

use super::safetensors;
use crate::error::{Error, ErrorKind, Result, Short};
use crate::format::Format;
use crate::limits::Limits;
use crate::model::{FileMetadata, FormatSpec, Magic};
use crate::read::{Index, IndexReader, ZipContents, check_members, open_zip, place_of, unsupported_member, zip_error};
use crate::storage::ReadAt;
use crate::write::{Encode, WriteOptions};

/// The format as a value, for choosing one at run time.
pub static FORMAT: Format = Format::new(SPEC, || Box::new(PackageReader::default()), encode)
    .with_metadata(metadata)
    .with_checksums(check_members_but_tensors)
    .with_detection(looks_like);

const SPEC: FormatSpec = FormatSpec {
    extensions: &["ptn"],
    magics: &[Magic { offset: 0, bytes: b"PK\x03\x04" }],
    read_only: true,
    embeds_names: false,
    ..FormatSpec::new("ptn", safetensors::DTYPES)
};

const PROGRAM: &str = "program.ptg";
const TENSORS: &str = "program.safetensors";
const ALIASES: &str = "aliases.json";

fn encode(_: &WriteOptions) -> Result<Arc<dyn Encode>> {
    Err(super::only_read(FORMAT.name))
}

/// Returns whether the first member is the program.
fn looks_like(file: &mut dyn ReadAt) -> bool {
    /// The length of the header before the name of the first member, and the place of the name's length in it.
    const HEADER: usize = 30;
    const NAME_LENGTH: usize = 26;

    // Few files are archives, and all are looked at.
    let mut zip = [0; 2];
    let is_zip = file.file_len().is_some() && file.peek_at(0, &mut zip).is_ok() && zip == *b"PK";
    let mut begin = [0; HEADER + PROGRAM.len()];
    is_zip
        && file.peek_at(0, &mut begin).is_ok()
        && begin.ends_with(PROGRAM.as_bytes())
        && usize::from(begin[NAME_LENGTH]) == PROGRAM.len()
}

#[derive(Debug, Default)]
struct PackageReader {
    is_read: bool,
    metadata: FileMetadata,
}

impl IndexReader for PackageReader {
    fn read_on(&mut self, file: &mut dyn ReadAt, limits: &Limits, index: &mut Index) -> Result<bool> {
        if std::mem::replace(&mut self.is_read, true) {
            return Ok(false);
        }
        self.metadata = read(file, limits, index)?;
        Ok(true)
    }

    fn metadata(&mut self) -> Option<FileMetadata> {
        Some(std::mem::take(&mut self.metadata))
    }
}

fn metadata(file: &mut dyn ReadAt, limits: &Limits) -> Result<FileMetadata> {
    read(file, limits, &mut Index::default())
}

/// Checksums are of members, so that the one of all tensors is compared even if tensors were read.
fn check_members_but_tensors(file: &mut dyn ReadAt, limits: &Limits, _: &HashSet<u64>) -> Result<()> {
    check_members(file, limits, &HashSet::new(), false)
}

fn read(file: &mut dyn ReadAt, limits: &Limits, index: &mut Index) -> Result<FileMetadata> {
    let members = PackageMembers::find(file, limits)?;
    let Some(tensors) = members.tensors else {
        return match members.aliases {
            None => Ok(FileMetadata::default()),
            Some(aliases) => Err(malformed(format!("it has `{ALIASES}`, but no `{TENSORS}`")).at(aliases.start)),
        };
    };
    let (start, mut own) = (tensors.start, Index::default());
    let mut member = PackageMember { file: &mut *file, range: tensors };
    let (metadata, end) = safetensors::read_index(&mut member, limits, &mut own).map_err(|e| e.moved_by(start))?;
    own.complete()?;
    let len = member.range.end - start;
    if end != len {
        return Err(malformed(format!("`{TENSORS}` continues after its last tensor")).at(start + end));
    }
    index.append(&own, start, &mut |_| true)?;
    if let Some(place) = members.aliases {
        add_aliases(file, limits, &place, &own, (start, index)).map_err(|error| error.at(place.start))?;
    }
    Ok(metadata)
}

/// Adds the tensors that have the bytes of others, which begin at `start`.
fn add_aliases(
    file: &mut dyn ReadAt,
    limits: &Limits,
    place: &Range<u64>,
    own: &Index,
    (start, index): (u64, &mut Index),
) -> Result<()> {
    let mut memory = Vec::new();
    let json = file.bytes(place.clone(), &mut memory)?;
    let aliases: BTreeMap<String, String> =
        serde_json::from_slice(json).map_err(|error| malformed(format!("`{ALIASES}` is malformed: {error}")))?;
    let found = (own.pushed() + aliases.len()) as u64;
    if found > limits.tensors {
        return Err(ErrorKind::Limit { what: "number of tensors", found, limit: limits.tensors }.into());
    }
    for (alias, owner) in &aliases {
        let wrong = |what: &str| malformed(format!("{what} `{}`", Short(owner))).in_tensor(alias.as_str());
        let at = own.position(owner).ok_or_else(|| wrong("it is an alias of a tensor that is not there,"))?;
        if own.position(alias).is_some() {
            return Err(wrong("it is stored, and is also an alias of"));
        }
        index.push_nested(own, at, alias, start)?;
    }
    Ok(())
}

/// The places of the members.
#[derive(Default)]
struct PackageMembers {
    tensors: Option<Range<u64>>,
    aliases: Option<Range<u64>>,
}

impl PackageMembers {
    fn find(file: &mut dyn ReadAt, limits: &Limits) -> Result<Self> {
        let (archive, mut buffer) = open_zip(file, limits)?;
        let mut records = archive.entries(&mut buffer);
        let (mut found, mut last) = (Self::default(), archive.directory_offset());
        while let Some(record) = records.next_entry().map_err(|error| zip_error(error, last))? {
            last = record.central_directory_offset();
            let path = record.file_path();
            let (name, member) = match path.as_bytes() {
                path if path == TENSORS.as_bytes() => (TENSORS, &mut found.tensors),
                path if path == ALIASES.as_bytes() => (ALIASES, &mut found.aliases),
                _ => continue,
            };
            let range = place_of(&archive, &record)?;
            let refused = match unsupported_member(&record) {
                Some(reason) => Some(format!("`{name}` is {reason}")),
                None if ZipContents::of(&record, &range)?.is_deflated => Some(format!("`{name}` is compressed")),
                None => None,
            };
            if let Some(what) = refused {
                let instead = "ExecuTorch stores it as it is".to_owned();
                return Err(ErrorKind::Unsupported { what: format!("read a package: {what}"), instead }.into());
            }
            if member.replace(range).is_some() {
                return Err(malformed(format!("two members are named `{name}`")).at(last));
            }
        }
        Ok(found)
    }
}

/// A member of an archive, as a file of its own.
struct PackageMember<'a> {
    file: &'a mut dyn ReadAt,
    range: Range<u64>,
}

impl ReadAt for PackageMember<'_> {
    fn file_len(&self) -> Option<u64> {
        Some(self.range.end - self.range.start)
    }

    fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let (len, needed) = (self.range.end - self.range.start, bytes.len() as u64);
        match offset.checked_add(needed) {
            Some(end) if end <= len => self.file.read_at(self.range.start + offset, bytes),
            _ => Err(Error::new(ErrorKind::Truncated { needed, left: len.saturating_sub(offset) }).at(offset)),
        }
    }
}

fn malformed(what: String) -> Error {
    ErrorKind::Malformed { what }.into()
}
