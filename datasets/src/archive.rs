//! Finds the members of a tar archive.
//!
//! The crate `tar` parses headers, one entry at a time from wherever an archive stands, so that a shard is read from any
//! header on. What it leaves open is decided here:
//!
//! - Headers before a member, with their long names and PAX blocks, are at most [`LONGEST_HEAD`]: it reads them whole.
//! - Sparse files, hard links, devices and unknown types are refused. Directories, symbolic links and pipes are skipped.
//! - Where readers disagree about a header, it is refused: malformed or repeated PAX records, a size that is not plain
//!   octal or base-256, a name with NUL, and entries without data that state a size. So nobody sees other members here than
//!   GNU tar, bsdtar and Python's `tarfile` see.

use std::io::{self, Cursor, Read, Seek, SeekFrom};

use tar::{Archive, Entry, EntryType};
use tensorfile::ErrorKind;

use crate::error::{Error, Result};

/// The most bytes of headers before the data of a member.
pub(crate) const LONGEST_HEAD: u64 = 1 << 20;

/// The message for a file of no bytes. An archive without members has blocks of zeros.
pub(crate) const EMPTY: &str = "the shard is empty";

/// The message for an archive that ends early.
pub(crate) const IN_PADDING: &str = "the shard ends inside the padding after a member";

/// The message for a key whose files are not next to each other, as of `tar -c` in the order of a folder.
pub(crate) const COMES_BACK: &str = "comes back after another; pack the files in order, as `tar --sort=name` does";

/// The size of the blocks of an archive.
pub(crate) const BLOCK: u64 = 512;

/// The headers of an entry.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// The path, if it is a file.
    pub(crate) path: Option<String>,
    /// The number of bytes of the headers.
    pub(crate) len: u64,
    /// The number of bytes of the data.
    pub(crate) size: u64,
}

impl Head {
    /// Returns the number of bytes up to the next header.
    pub(crate) fn total(&self) -> Option<u64> {
        self.len.checked_add(self.size.checked_next_multiple_of(BLOCK)?)
    }

    /// Adds the key of the sample that the member belongs to.
    pub(crate) fn blame(&self, error: Error) -> Error {
        match self.path.as_deref().and_then(split) {
            Some((key, _)) => error.in_sample(key),
            None => error,
        }
    }
}

/// Reads the headers at the beginning of bytes of an archive. Returns `None` at its end.
pub(crate) fn head_of(bytes: &[u8]) -> Result<Option<Head>> {
    head_at(Cursor::new(bytes), bytes.len() as u64)
}

/// Reads the headers at the beginning of `len` bytes of an archive, which are read there only.
pub(crate) fn head_at(reader: impl Read + Seek, len: u64) -> Result<Option<Head>> {
    let mut archive = Archive::new(Bounded { reader, offset: 0, end: len.min(LONGEST_HEAD) });
    let entry = archive.entries_with_seek()?.next();
    let found = head(entry);
    let is_cut = len > LONGEST_HEAD && archive.into_inner().is_passed();
    found.map_err(|error| explain(error, is_cut))
}

/// A reader that ends early.
struct Bounded<R> {
    reader: R,
    offset: u64,
    end: u64,
}

impl<R> Bounded<R> {
    /// Returns whether all was read, or passed over.
    fn is_passed(&self) -> bool {
        self.offset >= self.end
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = (&mut self.reader).take(self.end.saturating_sub(self.offset)).read(bytes)?;
        self.offset += read as u64;
        Ok(read)
    }
}

impl<R: Seek> Seek for Bounded<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        // The headers before the first member are not passed by: they are read.
        self.offset = self.reader.seek(to)?;
        Ok(self.offset)
    }
}

/// Reads the headers at the beginning of a stream, and leaves it at the data. The stream is not empty if it `has_begun`.
pub(crate) fn read_head(reader: &mut dyn Read, has_begun: bool) -> Result<Option<Head>> {
    let mut archive = Archive::new(reader.take(LONGEST_HEAD));
    let found = archive.entries()?.next().map_or(Ok(None), |entry| head(Some(entry)));
    let left = archive.into_inner().limit();
    if matches!(found, Ok(None)) && left == LONGEST_HEAD && !has_begun {
        return Err(Error::malformed(EMPTY));
    }
    found.map_err(|error| explain(error, left == 0))
}

/// Returns the error of the crate `tar`, which knows kinds by their messages only.
fn explain(error: Error, is_cut: bool) -> Error {
    /// The beginnings of messages about an archive that ends too early.
    const ENDS: &[&str] = &["failed to read entire block", "unexpected EOF", "members found describing a future"];

    let ErrorKind::Io(io) = error.kind() else { return error };
    if io.kind() != io::ErrorKind::Other {
        return error;
    }
    match io.to_string() {
        _ if is_cut => ErrorKind::Limit {
            what: "number of bytes of headers before a member",
            found: LONGEST_HEAD + 1,
            limit: LONGEST_HEAD,
        }
        .into(),
        message if ENDS.iter().any(|begin| message.starts_with(begin)) => {
            Error::malformed("the archive ends inside a header")
        }
        message if message.contains("checksum mismatch") || message.contains("when getting cksum") => {
            Error::malformed("the checksum of the header is wrong: the file is damaged, or not a tar archive")
        }
        message => Error::malformed(message),
    }
}

fn head<R: Read>(entry: Option<io::Result<Entry<'_, R>>>) -> Result<Option<Head>> {
    let Some(mut entry) = entry.transpose()? else { return Ok(None) };
    let (kind, len, size) = (entry.header().entry_type(), entry.raw_file_position(), entry.size());
    check_header(&entry)?;
    check_records(&mut entry)?;
    let path = String::from_utf8(entry.path_bytes().into_owned())
        .map_err(|error| Error::malformed(format!("the name `{}` is not UTF-8", error.as_bytes().escape_ascii())))?;
    let refuse = |what: &str| Err(Error::malformed(format!("`{}` is {what}", path.escape_debug())));
    if path.contains('\0') {
        return refuse("a name with NUL, which readers take for different names");
    }
    let is_file = match kind {
        EntryType::Regular | EntryType::Continuous => !path.ends_with('/'),
        EntryType::Directory | EntryType::Symlink | EntryType::Fifo | EntryType::XGlobalHeader => false,
        EntryType::Link => return refuse("a hard link, which is not read"),
        EntryType::Char | EntryType::Block => return refuse("a device, which is not read"),
        EntryType::GNUSparse => return refuse("a sparse file, which is not read"),
        other => return refuse(&format!("of the type `{}`, which is not read", other.as_byte().escape_ascii())),
    };
    if !is_file && kind != EntryType::XGlobalHeader && size > 0 {
        return refuse(&format!("not a file, but states {size} bytes of data"));
    }
    Ok(Some(Head { path: is_file.then_some(path), len, size }))
}

/// Refuses fields that readers parse in different ways.
fn check_header<R: Read>(entry: &Entry<'_, R>) -> Result<()> {
    let header = entry.header();
    let size = &header.as_old().size;
    let is_octal = size.iter().all(|byte| matches!(byte, b'0'..=b'7' | b' ' | 0));
    let is_binary = size.starts_with(&[0x80, 0, 0, 0]);
    if !is_octal && !is_binary {
        return Err(Error::malformed(format!("the size `{}` is neither octal nor base-256", size.escape_ascii())));
    }
    // Python reads a prefix of the name there, whatever the header says it is.
    let is_ustar = header.as_ustar().is_some();
    if !is_ustar && header.entry_type().is_file() && header.as_bytes()[345] != 0 {
        return Err(Error::malformed(
            "a header that is not ustar has a prefix, which readers take for different names",
        ));
    }
    Ok(())
}

/// Refuses PAX records that readers parse in different ways, or that describe a sparse file.
fn check_records<R: Read>(entry: &mut Entry<'_, R>) -> Result<()> {
    let is_global = entry.header().entry_type().is_pax_global_extensions();
    let (size, path) = (entry.size(), entry.path_bytes().into_owned());
    let Some(records) = entry.pax_extensions()? else { return Ok(()) };
    let mut found: Vec<&[u8]> = Vec::new();
    for record in records {
        let record = record?;
        let (key, value) = (record.key_bytes(), record.value_bytes());
        if key.starts_with(b"GNU.sparse.") {
            return Err(Error::malformed("a sparse file is not read"));
        }
        if !matches!(key, b"path" | b"size" | b"linkpath") {
            continue;
        }
        let name = key.escape_ascii();
        if is_global {
            return Err(Error::malformed(format!("a PAX record sets the `{name}` of all members")));
        }
        if found.contains(&key) {
            return Err(Error::malformed(format!("two PAX records set the `{name}` of a member")));
        }
        let is_same = match key {
            b"path" => value == path,
            b"size" => str::from_utf8(value).ok().and_then(|size| size.parse().ok()) == Some(size),
            _ => true,
        };
        if !is_same {
            let value = value.escape_ascii();
            return Err(Error::malformed(format!(
                "the PAX record `{name}` is `{value}`, but the header says otherwise"
            )));
        }
        found.push(key);
    }
    Ok(())
}

/// Refuses a member that ends after the `len` bytes from its header on, as its padding may.
pub(crate) fn check_end(head: &Head, len: u64) -> Result<()> {
    let left = len.saturating_sub(head.len);
    if head.size > left {
        return Err(head.blame(ends_early(head.size, left)));
    }
    let is_whole = head.total().is_some_and(|total| total <= len);
    if is_whole { Ok(()) } else { Err(head.blame(Error::malformed(IN_PADDING))) }
}

pub(crate) fn ends_early(size: u64, left: u64) -> Error {
    Error::malformed(format!("the member takes {size} bytes, but the shard ends after {left}"))
}

/// Splits a path into the key and the extension. `None` for a file that belongs to no sample.
pub(crate) fn split(path: &str) -> Option<(&str, &str)> {
    let first = path.split('/').next().unwrap_or_default();
    if first.len() >= 4 && first.starts_with("__") && first.ends_with("__") {
        return None;
    }
    let name = path.rfind('/').map_or(0, |slash| slash + 1);
    let dot = name + path[name..].find('.')?;
    (dot > name).then(|| (&path[..dot], &path[dot + 1..]))
}
