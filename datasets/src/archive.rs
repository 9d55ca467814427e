//! Finds the members of a tar archive.
//!
//! The crate `tar` parses one entry at a time, so that we can start at any header of a shard. We decide the rest:
//!
//! - Headers before a member, with their long names and PAX blocks, have at most [`LONGEST_HEAD`] bytes, because `tar`
//!   reads them into memory.
//! - Sparse files, hard links, devices and unknown types are refused. So are names that are not UTF-8, and names that
//!   readers take differently. We still find the next header. Directories, symbolic links, pipes and the labels of
//!   volumes are skipped.
//! - If readers disagree about the place of the next header, we refuse the archive: for malformed or repeated PAX
//!   records, a size that is not plain octal or base-256, and an entry without data that states a size. So we never see
//!   other members than GNU tar, bsdtar and Python's `tarfile` do.
//! - Checksums of signed bytes are accepted, as written by Solaris and old versions of GNU tar. So are labels without a
//!   size.
//! - An archive ends at its first block of zeros. Bytes after it are left out, with a warning.

use std::io::{self, BufRead as _, Cursor, Read, Seek, SeekFrom};

use tar::{Archive, Entry, EntryType, Header};
use tensorfile::ErrorKind;

use crate::error::{Error, Result};

/// The most bytes of headers before the data of a member.
pub(crate) const LONGEST_HEAD: u64 = 1 << 20;

/// The message for an empty file. It is not an archive: one without members has blocks of zeros.
pub(crate) const EMPTY: &str = "the shard is empty";

/// The message for an archive that ends early.
pub(crate) const IN_PADDING: &str = "the shard ends inside the padding after a member";

/// The message for a key whose files are not next to each other. `tar -c` writes them in the order of the folder.
pub(crate) const COMES_BACK: &str = "comes back after another; pack the files in order, as `tar --sort=name` does";

/// The warning about an archive without an end.
pub(crate) const NO_END: &str =
    "the archive has no blocks of zeros at its end: it may be cut, so that samples are missing";

/// Returns the warning about bytes after the end of an archive.
pub(crate) fn goes_on(end: u64) -> String {
    format!(
        "the archive ends at byte {end}, and bytes after that are left out; archives that `cat` joined are unpacked by \
         `tar --ignore-zeros`"
    )
}

/// The most bytes after the end of an archive to compare with zeros. Programs pad archives to 10 KiB, and some to a
/// megabyte.
pub(crate) const LONGEST_END: u64 = 16 << 20;

/// Returns whether there are bytes other than zeros, or more than any program pads with.
pub(crate) fn goes_on_in(reader: impl Read) -> Result<bool> {
    let mut reader = io::BufReader::with_capacity(64 << 10, reader);
    let mut found = 0;
    loop {
        let bytes = reader.fill_buf()?;
        if bytes.is_empty() {
            return Ok(false);
        }
        found += bytes.len() as u64;
        if found > LONGEST_END || bytes.iter().any(|byte| *byte != 0) {
            return Ok(true);
        }
        let len = bytes.len();
        reader.consume(len);
    }
}

/// The size of the blocks of an archive.
pub(crate) const BLOCK: u64 = 512;

/// The headers of an entry.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// The path, if it is a file.
    pub(crate) path: Option<String>,
    /// The reason to refuse the file.
    pub(crate) refused: Option<String>,
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

/// The item at an offset of an archive.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Member(Head),
    /// A block of zeros.
    End,
    /// The end of the file.
    Nothing,
}

/// Reads the headers at the beginning of bytes of an archive.
pub(crate) fn head_of(bytes: &[u8]) -> Result<Next> {
    head_at(Cursor::new(bytes), bytes.len() as u64)
}

/// Reads the headers at the beginning of `len` bytes of an archive. Nothing else is read.
pub(crate) fn head_at(reader: impl Read + Seek, len: u64) -> Result<Next> {
    let mut archive = Archive::new(Blocks::new(reader, len.min(LONGEST_HEAD)));
    let entry = archive.entries_with_seek()?.next();
    let found = head(entry);
    let blocks = archive.into_inner();
    let is_cut = len > LONGEST_HEAD && blocks.offset >= blocks.end;
    found.map(|head| blocks.next(head)).map_err(|error| explain(error, is_cut))
}

/// Reads the headers at the beginning of a stream, and leaves it at the data. The stream is not empty if it
/// `has_begun`.
pub(crate) fn read_head(reader: &mut dyn Read, has_begun: bool) -> Result<Next> {
    let mut archive = Archive::new(Blocks::new(reader, LONGEST_HEAD));
    let found = archive.entries()?.next().map_or(Ok(None), |entry| head(Some(entry)));
    let blocks = archive.into_inner();
    if matches!(found, Ok(None)) && blocks.offset == 0 && !has_begun {
        return Err(Error::malformed(EMPTY));
    }
    let is_cut = blocks.offset >= blocks.end;
    found.map(|head| blocks.next(head)).map_err(|error| explain(error, is_cut))
}

/// The blocks before the data of a member: headers, and the long names and PAX records that some of them have as data.
/// Headers are changed to a form that the crate `tar` reads.
struct Blocks<R> {
    reader: R,
    offset: u64,
    end: u64,
    /// The offset of the next header; `None` after the member's own header.
    header: Option<u64>,
}

impl<R> Blocks<R> {
    fn new(reader: R, end: u64) -> Self {
        Self { reader, offset: 0, end, header: Some(0) }
    }

    /// Returns what was found.
    fn next(&self, head: Option<Head>) -> Next {
        match head {
            // An old sparse file has more headers after its first one.
            Some(head) if head.len == 0 => Next::Member(Head { len: self.offset, ..head }),
            Some(head) => Next::Member(head),
            None if self.offset > 0 => Next::End,
            None => Next::Nothing,
        }
    }
}

impl<R: Read> Read for Blocks<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.offset)).unwrap_or(usize::MAX);
        let most = left.min(bytes.len());
        let bytes = &mut bytes[..most];
        let (is_header, mut read) = (self.header == Some(self.offset) && bytes.len() as u64 == BLOCK, 0);
        loop {
            match self.reader.read(&mut bytes[read..]) {
                Ok(0) => break,
                Ok(now) => read += now,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            if !is_header || read == bytes.len() {
                break;
            }
        }
        self.offset += read as u64;
        if is_header && read == bytes.len() {
            mend(bytes);
            self.header = after_extension(bytes).and_then(|len| self.offset.checked_add(len));
        }
        Ok(read)
    }
}

impl<R: Seek> Seek for Blocks<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        // `tar` reads the headers before the first member, and does not seek past them.
        self.offset = self.reader.seek(to)?;
        Ok(self.offset)
    }
}

/// Returns the length of the data of a header that describes the next member.
fn after_extension(block: &[u8]) -> Option<u64> {
    let header = Header::from_byte_slice(block);
    let kind = header.entry_type();
    let is_extension = kind.is_gnu_longname() || kind.is_gnu_longlink() || kind.is_pax_local_extensions();
    is_extension.then(|| header.entry_size().ok()?.checked_next_multiple_of(BLOCK)).flatten()
}

/// Returns whether a block is a header, by its checksum.
pub(crate) fn is_header(block: &[u8]) -> bool {
    block.len() as u64 == BLOCK && {
        let (stored, unsigned, signed) = sums(block);
        stored.is_some_and(|stored| stored == unsigned || stored == signed)
    }
}

/// Changes two kinds of headers to a form that the crate `tar` reads: checksums of signed bytes, and labels without a
/// size.
fn mend(block: &mut [u8]) {
    let (stored, unsigned, signed) = sums(block);
    let is_label = block[156] == LABEL && block[124..136].iter().all(|byte| matches!(byte, 0 | b' '));
    let is_valid = stored.is_some_and(|stored| stored == unsigned || stored == signed);
    if !is_valid || !is_label && stored == Some(unsigned) {
        return;
    }
    if is_label {
        block[124..136].copy_from_slice(b"00000000000\0");
    }
    let (_, sum, _) = sums(block);
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

/// Returns the checksum of a header, and its sums of bytes, unsigned and signed.
fn sums(block: &[u8]) -> (Option<i64>, i64, i64) {
    let stored = Header::from_byte_slice(block).cksum().ok().map(i64::from);
    let spaces = 8 * i64::from(b' ');
    let bytes = || block[..148].iter().chain(&block[156..]);
    let unsigned = bytes().map(|byte| i64::from(*byte)).sum::<i64>() + spaces;
    let signed = bytes().map(|byte| i64::from(byte.cast_signed())).sum::<i64>() + spaces;
    (stored, unsigned, signed)
}

/// The types of a volume's label, and of a folder with the names of its files.
const LABEL: u8 = b'V';
const LISTED_FOLDER: u8 = b'D';

/// Converts an error of the crate `tar`, whose kinds are told apart by their messages only.
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
    let (kind, size) = (entry.header().entry_type(), entry.size());
    check_size(&entry)?;
    let records = check_records(&mut entry)?;
    let bytes = records.path.unwrap_or_else(|| entry.path_bytes().into_owned());
    let (path, not_utf8) = match String::from_utf8(bytes) {
        Ok(path) => (path, None),
        Err(error) => {
            let path = error.as_bytes().escape_ascii().to_string();
            (path.clone(), Some(format!("the name `{path}` is not UTF-8")))
        }
    };
    let is = |what: &str| format!("`{}` is {what}", path.escape_debug());
    let (is_file, wrong) = match (kind, kind.as_byte()) {
        (EntryType::Regular | EntryType::Continuous, _) => (!path.ends_with('/'), None),
        (EntryType::Directory | EntryType::Symlink | EntryType::Fifo | EntryType::XGlobalHeader, _) => (false, None),
        (_, LABEL | LISTED_FOLDER) => (false, None),
        (EntryType::Link, _) => (true, Some(is("a hard link, which is not read"))),
        (EntryType::Char | EntryType::Block, _) => (true, Some(is("a device, which is not read"))),
        (EntryType::GNUSparse, _) => (true, Some(is("a sparse file, which is not read"))),
        (_, other) => (true, Some(is(&format!("of the type `{}`, which is not read", [other].escape_ascii())))),
    };
    // Readers disagree whether entries of these types have data.
    let has_no_data = match kind {
        EntryType::XGlobalHeader => false,
        EntryType::Link | EntryType::Char | EntryType::Block => true,
        other => !is_file && other.as_byte() != LISTED_FOLDER,
    };
    if has_no_data && size > 0 {
        return Err(Error::malformed(is(&format!("not a file, but states {size} bytes of data"))));
    }
    let nul = path.contains('\0').then(|| is("a name with NUL, which readers take for different names"));
    let refused = wrong.or(not_utf8).or(nul).or(records.refused).or_else(|| prefix_of(&entry).map(str::to_owned));
    let (len, size) = match kind {
        // `tar` returns the size of the file with its holes, and an offset before the additional headers.
        EntryType::GNUSparse => (0, entry.header().entry_size()?),
        _ => (entry.raw_file_position(), size),
    };
    Ok(Some(Head { refused: refused.filter(|_| is_file), path: is_file.then_some(path), len, size }))
}

/// Refuses a size that readers parse differently.
fn check_size<R: Read>(entry: &Entry<'_, R>) -> Result<()> {
    let size = &entry.header().as_old().size;
    let is_octal = size.iter().all(|byte| matches!(byte, b'0'..=b'7' | b' ' | 0));
    let is_binary = size.starts_with(&[0x80, 0, 0, 0]);
    if is_octal || is_binary {
        return Ok(());
    }
    Err(Error::malformed(format!("the size `{}` is neither octal nor base-256", size.escape_ascii())))
}

/// Returns the reason to refuse a header that is not ustar but has a prefix. Python reads the prefix, others do not.
fn prefix_of<R: Read>(entry: &Entry<'_, R>) -> Option<&'static str> {
    let header = entry.header();
    let is_ustar = header.as_ustar().is_some();
    (!is_ustar && header.entry_type().is_file() && header.as_bytes()[345] != 0)
        .then_some("a header that is not ustar has a prefix, which readers take for different names")
}

/// The PAX records of a member.
#[derive(Default)]
struct Records {
    /// The name of a sparse file.
    path: Option<Vec<u8>>,
    /// The reason to refuse the file: it is sparse, or readers disagree about its name.
    refused: Option<String>,
}

/// Refuses PAX records by which readers find the next header at different places.
fn check_records<R: Read>(entry: &mut Entry<'_, R>) -> Result<Records> {
    let is_global = entry.header().entry_type().is_pax_global_extensions();
    let (size, path) = (entry.size(), entry.path_bytes().into_owned());
    let mut checked = Records::default();
    let Some(records) = entry.pax_extensions()? else { return Ok(checked) };
    let mut found: Vec<&[u8]> = Vec::new();
    for record in records {
        let record = record?;
        let (key, value) = (record.key_bytes(), record.value_bytes());
        if key.starts_with(b"GNU.sparse.") {
            checked.refused.get_or_insert_with(|| "a sparse file is not read".to_owned());
            if key == b"GNU.sparse.name" {
                checked.path = Some(value.to_owned());
            }
        }
        if !matches!(key, b"path" | b"size" | b"linkpath") {
            continue;
        }
        let name = key.escape_ascii();
        if is_global {
            return Err(Error::malformed(format!("a PAX record sets the `{name}` of all members")));
        }
        let is_same = match key {
            b"path" => value == path,
            b"size" => str::from_utf8(value).ok().and_then(|size| size.parse().ok()) == Some(size),
            _ => true,
        };
        let wrong = if found.contains(&key) {
            format!("two PAX records set the `{name}` of a member")
        } else if !is_same {
            format!("the PAX record `{name}` is `{}`, but the header says otherwise", value.escape_ascii())
        } else {
            found.push(key);
            continue;
        };
        if key == b"size" {
            return Err(Error::malformed(wrong));
        }
        checked.refused.get_or_insert(wrong);
    }
    Ok(checked)
}

/// Refuses a member whose data or padding ends after the `len` bytes from its header on.
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

/// Splits a path into the key and the extension. Returns `None` for a file that belongs to no sample.
pub(crate) fn split(path: &str) -> Option<(&str, &str)> {
    let first = path.split('/').next().unwrap_or_default();
    if first.len() >= 4 && first.starts_with("__") && first.ends_with("__") {
        return None;
    }
    let name = path.rfind('/').map_or(0, |slash| slash + 1);
    let dot = name + path[name..].find('.')?;
    (dot > name).then(|| (&path[..dot], &path[dot + 1..]))
}
