//! A shard as one file of all its tensors, for programs that show and check files.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

use hashbrown::HashSet;
use tensorfile::format::{FormatSpec, Index, IndexReader, Magic, ReadAt};
use tensorfile::model::FileMetadata;
use tensorfile::report::WarningKind;
use tensorfile::{Dtype, ErrorKind, Format, Limits, TensorInfo, Warning};

use crate::archive::{COMES_BACK, EMPTY, Head, check_end, head_at, split};
use crate::compression::is_compressed;
use crate::role::{Role, text};

/// Shards as a format that is read: the tensors of all samples, each named by the key, a dot, and its
/// [name](crate::Sample#names) in the sample.
///
/// ```
/// use ndarray::array;
/// use tensorfile::{OpenOptions, TensorMap};
/// use tensorfile_datasets::{ShardWriter, TAR};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("a-0.tar");
/// let mut writer = ShardWriter::new(folder.path().join("a-{0..}.tar"))?;
/// writer.write("0001", &TensorMap::from_iter([("x", array![0.5_f32])]))?;
/// writer.finish()?;
/// let file = OpenOptions::new().format(&TAR).open(&path)?;
/// assert_eq!(file.tensor("0001.x")?.as_view().to_array::<f32>()?, array![0.5].into_dyn());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub static TAR: Format = {
    let mut spec = FormatSpec::new("tar", Dtype::ALL);
    spec.extensions = &["tar"];
    spec.magics = &[Magic { offset: 257, bytes: b"ustar" }];
    spec.sparse = true;
    spec.blobs = true;
    spec.read_only = true;
    Format::new(
        spec,
        || Box::new(Reader),
        |_| {
            let instead = "`ShardWriter` writes samples".to_owned();
            Err(ErrorKind::Unsupported { what: "write a shard as one file".to_owned(), instead }.into())
        },
    )
    .with_metadata(metadata)
};

/// Returns whether a file begins as a shard: as a tar archive, or a compressed file. It takes the first 512 bytes.
#[must_use]
pub fn is_shard(begin: &[u8]) -> bool {
    begin.get(257..262) == Some(b"ustar") || is_compressed(begin)
}

/// Adds all tensors at once.
struct Reader;

impl IndexReader for Reader {
    fn read_on(&mut self, file: &mut dyn ReadAt, limits: &Limits, index: &mut Index) -> tensorfile::Result<bool> {
        each_file(file, limits, &mut |file, key, extension, range| {
            let full = |name: &str| format!("{key}.{name}");
            match Role::of(extension) {
                Role::Tensors(format, name) => index.push_file(format, file, range, limits, &mut |count, _, inner| {
                    full(&Role::tensor_name(format, name, count, inner))
                }),
                Role::Number(name) => index.push_number(&full(name), range),
                Role::Blob(name) => {
                    let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
                    index.push(Some(&full(name)), TensorInfo::blob(len), range)
                }
                Role::Text(_) => Ok(()),
            }
        })?;
        Ok(false)
    }
}

/// Reads the files of text.
fn metadata(file: &mut dyn ReadAt, limits: &Limits) -> tensorfile::Result<FileMetadata> {
    /// The most bytes of all of them.
    const MOST: u64 = 1 << 30;

    let (mut metadata, limit) = (FileMetadata::default(), limits.memory.unwrap_or(MOST).min(MOST));
    let mut found = 0_u64;
    let has_end = each_file(file, limits, &mut |file, key, extension, range| {
        let Role::Text(name) = Role::of(extension) else { return Ok(()) };
        found = found.saturating_add(range.end - range.start);
        if found > limit {
            return Err(ErrorKind::Limit { what: "number of bytes of text", found, limit }.into());
        }
        let mut memory = Vec::new();
        metadata.entries.insert(format!("{key}.{name}"), text(name, file.bytes(range, &mut memory)?)?);
        Ok(())
    })?;
    if !has_end {
        let text = "the archive has no blocks of zeros at its end: it may be cut, so that samples are missing";
        metadata.warnings.push(Warning::new(WarningKind::LeftOut, text));
    }
    Ok(metadata)
}

/// A closure called with the file, and the key, the extension and the range of a file of a sample.
type EachFile<'x> = &'x mut dyn FnMut(&mut dyn ReadAt, &str, &str, Range<u64>) -> tensorfile::Result<()>;

/// Calls `each` with the files of all samples. Returns whether the end of the archive is there.
fn each_file(file: &mut dyn ReadAt, limits: &Limits, each: EachFile<'_>) -> tensorfile::Result<bool> {
    let Some(len) = file.file_len() else {
        let (what, instead) = ("read a shard from a stream".to_owned(), "hold the stream".to_owned());
        return Err(ErrorKind::Unsupported { what, instead }.into());
    };
    let (mut offset, mut keys, mut last) = (0, HashSet::new(), String::new());
    let wrong = |what: String| tensorfile::Error::from(ErrorKind::Malformed { what });
    if len == 0 {
        return Err(wrong(EMPTY.to_owned()));
    }
    while let Some(head) = head_in(file, offset, len)? {
        let (start, end) = (offset + head.len, (offset + head.len).saturating_add(head.size));
        check_end(&head, len - offset).map_err(|error| error.at(offset).into_tensorfile())?;
        offset = head.total().and_then(|total| offset.checked_add(total)).unwrap_or(u64::MAX);
        let Some((key, extension)) = head.path.as_deref().and_then(split) else { continue };
        if key != last || keys.is_empty() {
            if !keys.insert(key.to_owned()) {
                return Err(wrong(format!("the key `{key}` {COMES_BACK} (at byte {start})")));
            }
            if keys.len() as u64 > limits.tensors {
                let (what, found) = ("number of samples in a shard", keys.len() as u64);
                return Err(ErrorKind::Limit { what, found, limit: limits.tensors }.into());
            }
            key.clone_into(&mut last);
        }
        each(file, key, &extension.to_lowercase(), start..end)?;
    }
    Ok(offset < len)
}

/// Reads the headers at an offset of a file of `len` bytes.
pub(crate) fn head_in(file: &mut dyn ReadAt, offset: u64, len: u64) -> tensorfile::Result<Option<Head>> {
    if offset >= len {
        return Ok(None);
    }
    let rest = FileReader { file, start: offset, offset, end: len };
    head_at(rest, len - offset).map_err(|error| error.at(offset).into_tensorfile())
}

/// The rest of a file, read in order.
struct FileReader<'a> {
    file: &'a mut dyn ReadAt,
    start: u64,
    offset: u64,
    end: u64,
}

impl Read for FileReader<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.offset)).unwrap_or(usize::MAX);
        let now = left.min(bytes.len());
        self.file.read_at(self.offset, &mut bytes[..now])?;
        self.offset += now as u64;
        Ok(now)
    }
}

impl Seek for FileReader<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let offset = match to {
            SeekFrom::Current(by) => self.offset.checked_add_signed(by),
            SeekFrom::Start(at) => self.start.checked_add(at),
            SeekFrom::End(by) => self.end.checked_add_signed(by),
        };
        self.offset = offset.filter(|offset| *offset >= self.start).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.offset - self.start)
    }
}
