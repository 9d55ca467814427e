//! The members of zip archives.

use std::cell::{Cell, RefCell};
use std::io::{self, Read};
use std::ops::Range;

use hashbrown::HashSet;
use rawzip::{
    CompressionMethod, MAX_CENTRAL_DIRECTORY_RECORD_SIZE, RangeReader, ReaderAt, ZipArchive, ZipFileHeaderRecord,
    ZipLocator,
};

pub(crate) use super::member::{check_crc32, not_deflated};
use crate::error::{Error, ErrorKind, Result, Short};
use crate::limits::Limits;
use crate::storage::ReadAt;

/// Finds the directory of an archive. Returns the archive, and a buffer for its records.
pub(crate) fn open_zip<'a>(file: &'a mut dyn ReadAt, limits: &Limits) -> Result<(ZipArchive<ZipFile<'a>>, Vec<u8>)> {
    file.keep_rest(limits.most_held())?;
    let len = file.file_len().expect("the length is known, or the rest is kept");
    let mut buffer = record_buffer(len);
    // A file takes no offset where hints do not pay.
    let mut takes_hints = false;
    file.will_read(&mut std::iter::from_fn(|| {
        takes_hints = true;
        None
    }));
    let archive = ZipLocator::new().locate_in_reader(ZipFile::new(file, len), &mut buffer, len);
    let archive = archive.map_err(|(_, error)| {
        let index = error.eocd_offset().unwrap_or(len);
        zip_error(error, index)
    })?;
    if takes_hints {
        let (mut records, mut offsets) = (archive.entries(&mut buffer), Vec::new());
        // An error is found again where the records are read.
        while let Ok(Some(record)) = records.next_entry() {
            offsets.push(record.local_header_offset());
        }
        *archive.get_ref().ahead.borrow_mut() = offsets;
    }
    Ok((archive, buffer))
}

/// Returns a buffer for the records of the directory, no longer than the file.
fn record_buffer(len: u64) -> Vec<u8> {
    vec![0; usize::try_from(len).unwrap_or(usize::MAX).clamp(1024, MAX_CENTRAL_DIRECTORY_RECORD_SIZE)]
}

/// Returns the error for an archive without a directory at the end of the file. `None` if it is there, or if the length
/// of the file is unknown.
pub(crate) fn cut_off(file: &mut dyn ReadAt) -> Option<Error> {
    /// The first bytes of the end of a directory, and its length without a comment.
    const END: (&[u8], u64) = (b"PK\x05\x06", 22);
    let len = file.file_len()?;
    let mut end = [0; END.0.len()];
    if let Some(start) = len.checked_sub(END.1)
        && file.read_at(start, &mut end).is_ok()
        && end == *END.0
    {
        return None;
    }
    let mut buffer = record_buffer(len);
    let located = ZipLocator::new().locate_in_reader(ZipFile::new(file, len), &mut buffer, len);
    let (_, error) = located.err()?;
    matches!(error.kind(), rawzip::ErrorKind::MissingEndOfCentralDirectory).then(|| zip_error(error, len))
}

const CUT_OFF: &str = "the zip archive is cut off: the file does not end with its directory";

/// Returns the range of a member's contents. Refuses a member whose local header contradicts the directory.
pub(crate) fn place_of(archive: &ZipArchive<ZipFile<'_>>, record: &ZipFileHeaderRecord<'_>) -> Result<Range<u64>> {
    /// Names are mostly shorter.
    const SHORT: usize = 98;
    let path = record.file_path();
    let name = path.as_bytes();
    let (mut short, mut long);
    let bytes: &mut [u8] = if name.len() <= SHORT {
        short = [0; LocalHeader::BYTES + SHORT];
        &mut short[..LocalHeader::BYTES + name.len()]
    } else {
        long = vec![0; LocalHeader::BYTES + name.len()];
        &mut long
    };
    let offset = record.local_header_offset();
    archive.get_ref().look_ahead();
    let read = archive.get_ref().read_exact_at(bytes, offset).map_err(rawzip::Error::from);
    read.map_err(|error| zip_error(error, record.central_directory_offset()))?;
    let (header, local_name) = bytes.split_at(LocalHeader::BYTES);
    let header = LocalHeader(header);
    header.check(record, name, local_name).map_err(|what| malformed(what).at(offset))?;
    let before = LocalHeader::BYTES as u64 + name.len() as u64 + u64::from(header.u16(LocalHeader::EXTRA));
    let start = offset.saturating_add(before);
    let (len, left) = (record.compressed_size_hint(), archive.directory_offset().saturating_sub(start));
    if len <= left {
        Ok(start..start + len)
    } else {
        Err(Error::new(ErrorKind::Truncated { needed: len, left }).at(start))
    }
}

/// The header before the contents of a member, without its name.
struct LocalHeader<'a>(&'a [u8]);

impl LocalHeader<'_> {
    const BYTES: usize = 30;
    const MAGIC: u32 = 0x0403_4b50;

    // The offsets of fields.
    const FLAGS: usize = 6;
    const METHOD: usize = 8;
    const CRC32: usize = 14;
    const PACKED: usize = 18;
    const LEN: usize = 22;
    const NAME: usize = 26;
    const EXTRA: usize = 28;

    /// The flags of an encrypted member, and of a member with its sizes after the contents.
    const ENCRYPTED: u16 = 1;
    const SIZES_FOLLOW: u16 = 8;

    fn u16(&self, index: usize) -> u16 {
        u16::from_le_bytes(self.0[index..index + 2].try_into().expect("two bytes"))
    }

    fn u32(&self, index: usize) -> u32 {
        u32::from_le_bytes(self.0[index..index + 4].try_into().expect("four bytes"))
    }

    /// Compares the header with the directory. If they differed, a reader of headers and a reader of the directory
    /// would see two files.
    fn check(&self, record: &ZipFileHeaderRecord<'_>, name: &[u8], local_name: &[u8]) -> Result<(), String> {
        let magic = self.u32(0);
        if magic != Self::MAGIC {
            let expected = Self::MAGIC;
            return Err(format!(
                "the zip archive is damaged: a record begins with {magic:08x}, but expected {expected:08x}"
            ));
        }
        // numpy and unzip refuse another name, too. That of sizes, checksums and methods goes further than they do.
        if usize::from(self.u16(Self::NAME)) != name.len() || local_name != name {
            let most = local_name.len().min(self.u16(Self::NAME).into());
            let [local, name] = [&local_name[..most], name].map(|name| name.escape_ascii().to_string());
            return Err(disagrees("is named", &format!("`{}`", Short(&local)), &format!("`{}`", Short(&name))));
        }
        let (method, expected) = (self.u16(Self::METHOD), record.compression_method().as_u16());
        if method != expected {
            return Err(disagrees("has the compression method", &method.to_string(), &expected.to_string()));
        }
        let is_encrypted = self.u16(Self::FLAGS) & Self::ENCRYPTED != 0;
        if is_encrypted != record.flags().is_encrypted() {
            let text = |is_encrypted| if is_encrypted { "encrypted" } else { "not encrypted" };
            return Err(disagrees("is", text(is_encrypted), text(record.flags().is_encrypted())));
        }
        if self.u16(Self::FLAGS) & Self::SIZES_FOLLOW == 0 {
            return self.check_sizes(record);
        }
        Ok(())
    }

    fn check_sizes(&self, record: &ZipFileHeaderRecord<'_>) -> Result<(), String> {
        let numbers = [
            ("compressed bytes", Self::PACKED, record.compressed_size_hint()),
            ("bytes", Self::LEN, record.uncompressed_size_hint()),
            ("as its CRC-32", Self::CRC32, record.crc32().into()),
        ];
        for (what, index, expected) in numbers {
            // Some writers leave them out, and sizes of 64 bits are elsewhere.
            let found = self.u32(index);
            if found != 0 && (found != u32::MAX || index == Self::CRC32) && u64::from(found) != expected {
                return Err(disagrees("has", &format!("{found} {what}"), &expected.to_string()));
            }
        }
        Ok(())
    }
}

/// Returns the message about a member whose local header contradicts the directory. `what` is a verb,
/// such as "has".
#[cold]
fn disagrees(what: &str, local: &str, directory: &str) -> String {
    format!("the member {what} {local} in its local header, but {directory} in the directory of the archive")
}

/// The contents of a member.
pub(crate) struct ZipContents {
    /// The decoded length in bytes.
    pub(crate) len: u64,
    pub(crate) crc32: u32,
    pub(crate) is_deflated: bool,
}

/// Returns why a member cannot be decoded, although it may be well-formed.
pub(crate) fn unsupported_member(record: &ZipFileHeaderRecord<'_>) -> Option<String> {
    /// The names of compression methods in other programs, by number.
    const METHODS: &[(u16, &str)] = &[
        (1, "shrink"),
        (6, "implode"),
        (9, "deflate64"),
        (12, "bzip2"),
        (14, "lzma"),
        (93, "zstd"),
        (95, "xz"),
        (98, "ppmd"),
    ];
    let flags = record.flags();
    if flags.is_encrypted() || flags.has_strong_encryption() || flags.is_masked() {
        return Some("encrypted".to_owned());
    }
    match record.compression_method() {
        CompressionMethod::STORE | CompressionMethod::DEFLATE => None,
        method => {
            let name = METHODS.iter().find(|(number, _)| *number == method.as_u16()).map(|(_, name)| *name);
            Some(name.map_or_else(|| format!("method {}", method.as_u16()), str::to_owned))
        }
    }
}

impl ZipContents {
    /// Reads a member's record in the directory. Refuses encrypted members and unsupported methods.
    pub(crate) fn of(record: &ZipFileHeaderRecord<'_>, range: &Range<u64>) -> Result<Self> {
        let flags = record.flags();
        if flags.is_encrypted() || flags.has_strong_encryption() || flags.is_masked() {
            return Err(malformed("the member is encrypted".to_owned()));
        }
        let (len, packed) = (record.uncompressed_size_hint(), range.end - range.start);
        let is_deflated = match record.compression_method() {
            CompressionMethod::STORE if len == packed => false,
            CompressionMethod::STORE => {
                return Err(malformed(format!("the member is stored in {packed} bytes, but has {len}")));
            }
            CompressionMethod::DEFLATE => true,
            method => {
                let expected = "0 (stored) or 8 (deflated)".to_owned();
                let found = method.as_u16().into();
                return Err(ErrorKind::BadNumber { what: "compression method", found, expected }.into());
            }
        };
        Ok(Self { len, crc32: record.crc32(), is_deflated })
    }
}

/// Compares the checksums of all members except the given content offsets. PyTorch may write zeros in place of a
/// checksum.
pub(crate) fn check_members(
    file: &mut dyn ReadAt,
    limits: &Limits,
    checked: &HashSet<u64>,
    zero_is_none: bool,
) -> Result<()> {
    let (archive, mut buffer) = open_zip(file, limits)?;
    let mut records = archive.entries(&mut buffer);
    let mut last = archive.directory_offset();
    while let Some(record) = records.next_entry().map_err(|error| zip_error(error, last))? {
        last = record.central_directory_offset();
        let path = record.file_path();
        let name = path.as_bytes().escape_ascii().to_string();
        let blame = |error: Error| error.in_tensor(&*name);
        let range = place_of(&archive, &record).map_err(blame)?;
        if checked.contains(&range.start)
            || unsupported_member(&record).is_some()
            || zero_is_none && record.crc32() == 0
        {
            continue;
        }
        let start = range.start;
        let contents = ZipContents::of(&record, &range).map_err(blame)?;
        let sum = member_sum(archive.get_ref(), &contents, range);
        sum.and_then(|sum| check_crc32(sum, contents.crc32)).map_err(|error| blame(error).at(start))?;
    }
    Ok(())
}

/// Returns the checksum of the contents of a member.
fn member_sum(file: &ZipFile<'_>, contents: &ZipContents, range: Range<u64>) -> Result<u32> {
    const PIECE: usize = 64 << 10;
    let reader = io::BufReader::with_capacity(4096, RangeReader::new(file, range));
    let mut reader: Box<dyn Read> =
        if contents.is_deflated { Box::new(flate2::bufread::DeflateDecoder::new(reader)) } else { Box::new(reader) };
    // No longer than what there is to read, as most members are small.
    let len = usize::try_from(contents.len).unwrap_or(PIECE).clamp(1, PIECE);
    let (mut crc, mut piece) = (flate2::Crc::new(), vec![0; len]);
    loop {
        match reader.read(&mut piece).map_err(not_deflated)? {
            0 => return Ok(crc.sum()),
            len => crc.update(&piece[..len]),
        }
    }
}

/// A kind of archive that is not a tensor format.
struct Other {
    /// The name of a member, or the end of its path.
    member: &'static str,
    what: &'static str,
    place: MemberPlace,
}

/// The place of the member that identifies a kind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MemberPlace {
    /// The file may be in any folder. Any other archive may have a file of this name too.
    Anywhere,
    /// The file is at the root, where only archives of the kind have it. These archives are programs, with arrays among
    /// their files perhaps.
    Root,
    /// As `Root`, in a folder at the root. The name belongs to a folder, or to a file without its extension.
    Folder,
}

/// The known kinds of archives. The first match counts.
const OTHERS: &[Other] = &[
    Other::new("code/__torch__", "a TorchScript archive, a program with its weights", MemberPlace::Folder),
    Other::new("constants.pkl", "a TorchScript archive, a program with its weights", MemberPlace::Anywhere),
    Other::new("data.pkl", "a checkpoint of PyTorch, which the feature `pytorch` reads", MemberPlace::Anywhere),
    Other::new("archive_format", "a program that `torch.export` saved", MemberPlace::Anywhere),
    Other::new("serialized_exported_program.json", "a program that `torch.export` saved", MemberPlace::Anywhere),
    Other::new("model.weights.h5", "a model of Keras", MemberPlace::Anywhere),
    Other::new("MAR-INF/MANIFEST.json", "a model archive of TorchServe", MemberPlace::Root),
    Other::new("zarr.json", "a zarr store", MemberPlace::Anywhere),
    Other::new(".zgroup", "a zarr store", MemberPlace::Anywhere),
    Other::new(".zarray", "a zarr store", MemberPlace::Anywhere),
    Other::new(".dist-info/RECORD", "a Python wheel", MemberPlace::Root),
    Other::new("[Content_Types].xml", "an Office document", MemberPlace::Anywhere),
    Other::new("AndroidManifest.xml", "an Android app", MemberPlace::Root),
    Other::new("META-INF/MANIFEST.MF", "a Java archive", MemberPlace::Root),
    Other::new("mimetype", "an OpenDocument or EPUB file", MemberPlace::Anywhere),
];

impl Other {
    const fn new(member: &'static str, what: &'static str, place: MemberPlace) -> Self {
        Self { member, what, place }
    }

    /// Returns whether an archive without arrays is likely of this kind, given a member path.
    fn is_likely(&self, path: &[u8]) -> bool {
        let folder = path.strip_suffix(self.member.as_bytes());
        let is_name = |folder: &[u8]| folder.is_empty() || folder.ends_with(b"/") || self.member.starts_with('.');
        folder.is_some_and(is_name)
    }

    /// Returns whether any archive is of this kind, given a member path.
    fn is_sure(&self, path: &[u8]) -> bool {
        let member = self.member.as_bytes();
        match self.place {
            MemberPlace::Anywhere => false,
            MemberPlace::Root => {
                let slashes = |path: &[u8]| path.iter().filter(|byte| **byte == b'/').count();
                self.is_likely(path) && slashes(path) == slashes(member)
            }
            MemberPlace::Folder => {
                let below = path.iter().position(|byte| *byte == b'/').and_then(|slash| path.get(slash + 1..));
                let rest = below.and_then(|path| path.strip_prefix(member));
                matches!(rest, Some([] | [b'.' | b'/', ..]))
            }
        }
    }
}

/// Returns the kind of an archive, if a member path alone decides it.
pub(crate) fn sure_kind(path: &[u8]) -> Option<&'static str> {
    OTHERS.iter().find(|other| other.is_sure(path)).map(|other| other.what)
}

/// Recognizes foreign archives by their members.
#[derive(Debug, Default)]
pub(crate) struct OtherArchive {
    /// The position of a likely kind in [`OTHERS`].
    likely: Option<usize>,
    sure: Option<usize>,
}

impl OtherArchive {
    /// Looks at the path of a member.
    pub(crate) fn look_at(&mut self, path: &[u8]) {
        let first = |found: &mut Option<usize>, now: Option<usize>| *found = found.iter().copied().chain(now).min();
        first(&mut self.likely, OTHERS.iter().position(|other| other.is_likely(path)));
        first(&mut self.sure, OTHERS.iter().position(|other| other.is_sure(path)));
    }

    /// Returns whether the archive is of another kind even if it has arrays.
    pub(crate) fn is_sure(&self) -> bool {
        self.sure.is_some()
    }

    /// Returns the end of a message: which archive it looks like.
    pub(crate) fn text(&self) -> String {
        let found = self.sure.or(self.likely).and_then(|index| OTHERS.get(index));
        found.map_or_else(String::new, |other| format!("; it looks like {}: it has `{}`", other.what, other.member))
    }
}

/// A file, as the zip reader needs it.
pub(crate) struct ZipFile<'a> {
    file: RefCell<&'a mut dyn ReadAt>,
    len: u64,
    /// The offsets of local headers that are read next, if that is worth a hint.
    ahead: RefCell<Vec<u64>>,
    /// The number of local headers that were read.
    count: Cell<usize>,
}

impl<'a> ZipFile<'a> {
    fn new(file: &'a mut dyn ReadAt, len: u64) -> Self {
        Self { file: RefCell::new(file), len, ahead: RefCell::default(), count: Cell::default() }
    }

    /// Hints at the next local headers, some at a time.
    fn look_ahead(&self) {
        const AHEAD: usize = 1 << 10;

        let (ahead, count) = (self.ahead.borrow(), self.count.get());
        self.count.set(count + 1);
        if count % AHEAD == 0
            && let Some(next) = ahead.get(count..).filter(|next| !next.is_empty())
        {
            self.file.borrow_mut().will_read(&mut next.iter().copied().take(AHEAD));
        }
    }
}

impl ReaderAt for ZipFile<'_> {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let left = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let now = left.min(bytes.len());
        self.file.borrow_mut().read_at(offset, &mut bytes[..now])?;
        Ok(now)
    }
}

/// Converts an error of the zip reader. `at` is the offset at which it was reading.
pub(crate) fn zip_error(error: rawzip::Error, index: u64) -> Error {
    use rawzip::ErrorKind as Kind;
    let what = match error.into_kind() {
        Kind::IO(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Error::from(error).at(index),
        // The directory is looked for from the end of the file.
        Kind::MissingEndOfCentralDirectory if index == 0 => "the file is empty".to_owned(),
        Kind::MissingEndOfCentralDirectory => CUT_OFF.to_owned(),
        Kind::InvalidEndOfCentralDirectory => {
            "the zip archive is damaged: the end of its directory contradicts the file".to_owned()
        }
        Kind::InvalidSignature { expected, actual } => {
            format!("the zip archive is damaged: a record begins with {actual:08x}, but expected {expected:08x}")
        }
        Kind::IO(_) | Kind::Eof => "the zip archive is damaged: it ends within a record".to_owned(),
        _ => "the zip archive is damaged: a record contradicts itself".to_owned(),
    };
    malformed(what).at(index)
}

fn malformed(what: String) -> Error {
    ErrorKind::Malformed { what }.into()
}
