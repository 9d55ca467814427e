//! The members of zip archives.

use std::cell::RefCell;
use std::io;
use std::ops::Range;

use rawzip::{
    CompressionMethod, MAX_CENTRAL_DIRECTORY_RECORD_SIZE, ReaderAt, ZipArchive, ZipFileHeaderRecord, ZipLocator,
};

use crate::error::{Error, ErrorKind, Result};
use crate::limits::Limits;
use crate::storage::ReadAt;

/// Finds the directory of an archive. Returns the archive, and a buffer for its records.
pub(crate) fn open_zip<'a>(file: &'a mut dyn ReadAt, limits: &Limits) -> Result<(ZipArchive<ZipFile<'a>>, Vec<u8>)> {
    file.keep_rest(limits.most_held())?;
    let len = file.file_len().expect("the length is known, or the rest is kept");
    let mut buffer = record_buffer(len);
    let file = ZipFile { file: RefCell::new(file), len };
    let archive = ZipLocator::new().locate_in_reader(file, &mut buffer, len);
    let archive = archive.map_err(|(_, error)| {
        let at = error.eocd_offset().unwrap_or(len);
        zip_error(error, at)
    })?;
    Ok((archive, buffer))
}

/// Returns a buffer for the records of the directory, of which none is longer than the file.
fn record_buffer(len: u64) -> Vec<u8> {
    vec![0; usize::try_from(len).unwrap_or(usize::MAX).clamp(1024, MAX_CENTRAL_DIRECTORY_RECORD_SIZE)]
}

/// Returns the error for an archive whose directory is not at the end of the file. `None` if it is there, or if the length of
/// the file is not known.
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
    let located = ZipLocator::new().locate_in_reader(ZipFile { file: RefCell::new(file), len }, &mut buffer, len);
    let (_, error) = located.err()?;
    matches!(error.kind(), rawzip::ErrorKind::MissingEndOfCentralDirectory).then(|| zip_error(error, len))
}

const CUT_OFF: &str = "the zip archive is cut off: the file does not end with its directory";

/// Returns the range of the contents of a member.
pub(crate) fn place_of(archive: &ZipArchive<ZipFile<'_>>, record: &ZipFileHeaderRecord<'_>) -> Result<Range<u64>> {
    let entry = archive.get_entry(record.wayfinder());
    let entry = entry.map_err(|error| zip_error(error, record.central_directory_offset()))?;
    let (start, end) = entry.compressed_data_range();
    let left = archive.directory_offset().saturating_sub(start);
    match end - start <= left {
        true => Ok(start..end),
        false => Err(Error::new(ErrorKind::Truncated { needed: end - start, left }).at(start)),
    }
}

/// The contents of a member.
pub(crate) struct ZipContents {
    /// The decoded length in bytes.
    pub(crate) len: u64,
    pub(crate) crc32: u32,
    pub(crate) is_deflated: bool,
}

impl ZipContents {
    /// Reads what the directory says of a member. Refuses encrypted ones, and those that cannot be decoded.
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

/// A kind of archive that is of no format.
struct Other {
    /// The name of a member, or the end of its path.
    member: &'static str,
    what: &'static str,
    place: MemberPlace,
}

/// The place of the member by which a kind is recognized.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MemberPlace {
    /// In any folder. Any other archive may have a file of this name too.
    Anywhere,
    /// At the root, where only archives of the kind have it. They are programs, with arrays among their files perhaps.
    Root,
    /// As `Root`, in a folder at the root. The name is that of a folder, or of a file without its extension.
    Folder,
}

/// The kinds. The first one that is found counts.
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

    /// Returns whether an archive without arrays that has a member of this path may be of the kind.
    fn is_likely(&self, path: &[u8]) -> bool {
        let folder = path.strip_suffix(self.member.as_bytes());
        let is_name = |folder: &[u8]| folder.is_empty() || folder.ends_with(b"/") || self.member.starts_with('.');
        folder.is_some_and(is_name)
    }

    /// Returns whether any archive that has a member of this path is of the kind.
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

/// Returns the kind of an archive that has a member of this path, if that alone decides.
pub(crate) fn sure_kind(path: &[u8]) -> Option<&'static str> {
    OTHERS.iter().find(|other| other.is_sure(path)).map(|other| other.what)
}

/// Recognizes an archive that is of no format, by its members.
#[derive(Debug, Default)]
pub(crate) struct OtherArchive {
    /// Positions in [`OTHERS`].
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

    /// Returns the end of a message: that it looks like another archive.
    pub(crate) fn text(&self) -> String {
        let found = self.sure.or(self.likely).and_then(|at| OTHERS.get(at));
        found.map_or_else(String::new, |other| format!("; it looks like {}: it has `{}`", other.what, other.member))
    }
}

/// A file that the zip reader reads.
pub(crate) struct ZipFile<'a> {
    file: RefCell<&'a mut dyn ReadAt>,
    len: u64,
}

impl ReaderAt for ZipFile<'_> {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let left = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let now = left.min(bytes.len());
        self.file.borrow_mut().read_at(offset, &mut bytes[..now])?;
        Ok(now)
    }
}

/// Converts an error of the zip reader. `at` is the offset of what it was reading.
pub(crate) fn zip_error(error: rawzip::Error, at: u64) -> Error {
    use rawzip::ErrorKind as Kind;
    let what = match error.into_kind() {
        Kind::IO(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Error::from(error).at(at),
        // The directory is looked for from the end of the file.
        Kind::MissingEndOfCentralDirectory if at == 0 => "the file is empty".to_owned(),
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
    malformed(what).at(at)
}

fn malformed(what: String) -> Error {
    ErrorKind::Malformed { what }.into()
}
