//! A shard as one file of all its tensors, for programs that show and check files.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

use flate2::read::MultiGzDecoder;
use hashbrown::HashSet;
use tensorfile::format::{FormatSpec, Index, IndexReader, Magic, ReadAt};
use tensorfile::model::FileMetadata;
use tensorfile::report::WarningKind;
use tensorfile::{Category, Dtype, ErrorKind, Format, Limits, TensorInfo, Warning};

use crate::archive::{
    BLOCK, COMES_BACK, EMPTY, LONGEST_END, NO_END, Next, check_end, goes_on, goes_on_in, head_at, is_header, split,
};
use crate::compression::is_compressed;
use crate::error::Error;
use crate::locations::is_named_shard;
use crate::role::{Kind, Member, may_clash, name_members, repeated, tensor_name, text};

/// A read-only format that shows a shard as one file with the tensors of all samples. A tensor is called `KEY.NAME`,
/// with its [name](crate::Sample#names) in the sample. Samples and files that cannot be read are left out, with a
/// warning.
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
        || Box::new(Reader { metadata: None }),
        |_| {
            let instead = "`ShardWriter` writes samples".to_owned();
            Err(ErrorKind::Unsupported { what: "write a shard as one file".to_owned(), instead }.into())
        },
    )
    .with_metadata(metadata)
};

/// Returns whether a file begins like a shard: a tar archive, or a compressed file. Pass the first 512 bytes.
#[must_use]
pub fn is_shard(begin: &[u8]) -> bool {
    is_archive(begin) || is_compressed(begin)
}

/// Returns whether a file is a shard, by its path and its first 512 bytes.
///
/// A tar archive is one, unless PyTorch before 0.1.10 wrote it as a checkpoint. With the extension `.tar`, `.tar.gz`,
/// `.tgz` or `.tar.zst`, so is a compressed file, and a file of zeros, which is an archive without files.
///
/// ```
/// use tensorfile_datasets::is_shard_at;
///
/// assert!(is_shard_at("a.tar.gz", b"\x1f\x8b\x08") && !is_shard_at("a.json.gz", b"\x1f\x8b\x08"));
/// assert!(is_shard_at("a.tar", &[0; 512]) && !is_shard_at("a.bin", &[0; 512]));
/// ```
#[must_use]
pub fn is_shard_at(location: &str, begin: &[u8]) -> bool {
    if begin.starts_with(b"sys_info\0") {
        return false;
    }
    let is_empty = || begin.len() as u64 == BLOCK && begin.iter().all(|byte| *byte == 0);
    is_archive(begin) || is_named_shard(location) && (is_compressed(begin) || is_empty())
}

fn is_archive(begin: &[u8]) -> bool {
    // The oldest archives have no magic number.
    begin.get(257..262) == Some(b"ustar") || begin.get(..512).is_some_and(is_header)
}

/// Adds all tensors at once.
#[derive(Default)]
struct Reader {
    /// The metadata, if something was left out.
    metadata: Option<FileMetadata>,
}

impl IndexReader for Reader {
    fn read_on(&mut self, file: &mut dyn ReadAt, limits: &Limits, index: &mut Index) -> tensorfile::Result<bool> {
        let mut warnings = LeftOut::default();
        each_sample(file, limits, &mut |file, sample| {
            let NamedFiles { key, members, .. } = sample;
            let full = |name: &str| format!("{key}.{name}");
            let is_full = has_clash(file, members, limits);
            for member in members {
                let range = member.range.clone();
                match member.kind() {
                    // `open` decompresses these files.
                    Kind::Text => {}
                    _ if member.is_gzip() => push_blob(index, &full(&member.extension), range)?,
                    Kind::Tensors(format) => {
                        let pushed = index.push_file(format, file, range, limits, &mut |count, _, inner| {
                            full(&tensor_name(member, is_full, format, count, inner))
                        });
                        if let Err(error) = pushed {
                            warnings.add_file(key, member, error)?;
                        }
                    }
                    Kind::Number => index.push_number(&full(member.name()), range)?,
                    Kind::Blob => push_blob(index, &full(member.name()), range)?,
                }
            }
            Ok(())
        })?;
        if warnings.count > 0 {
            let mut metadata = metadata(file, limits)?;
            metadata.warnings.extend(warnings.into_warnings());
            self.metadata = Some(metadata);
        }
        Ok(false)
    }

    fn metadata(&mut self) -> Option<FileMetadata> {
        self.metadata.take()
    }
}

fn push_blob(index: &mut Index, name: &str, range: Range<u64>) -> tensorfile::Result<()> {
    let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
    index.push(Some(name), TensorInfo::blob(len), range)
}

/// Returns whether a tensor in a file has the name of another file or tensor of the sample.
fn has_clash(file: &mut dyn ReadAt, members: &[Member], limits: &Limits) -> bool {
    if !may_clash(members) {
        return false;
    }
    let mut names: Vec<String> = members.iter().map(|member| member.name().to_owned()).collect();
    for member in members {
        if let (Kind::Tensors(format), false) = (member.kind(), member.is_gzip()) {
            // A file that cannot be read has no names.
            let _ = Index::default().push_file(format, file, member.range.clone(), limits, &mut |count, _, inner| {
                let name = tensor_name(member, false, format, count, inner);
                if name != member.name() {
                    names.push(name.clone());
                }
                name
            });
        }
    }
    repeated(names.iter().map(String::as_str).collect()).is_some()
}

/// The warnings about files and samples left out.
#[derive(Default)]
struct LeftOut {
    warnings: Vec<Warning>,
    count: usize,
}

impl LeftOut {
    fn add(&mut self, kind: WarningKind, text: String) {
        /// The most warnings about single files. One more counts the rest.
        const MOST: usize = 100;

        self.count += 1;
        if self.count <= MOST {
            self.warnings.push(Warning::new(kind, text));
        }
    }

    /// Adds a warning about a file of tensors that cannot be read. A limit, the disk or a server as the reason is an
    /// error.
    fn add_file(&mut self, key: &str, member: &Member, error: tensorfile::Error) -> tensorfile::Result<()> {
        if error.category() != Category::File {
            return Err(error);
        }
        let (key, extension) = (key.escape_debug(), member.extension.escape_debug());
        self.add(WarningKind::Damaged, format!("sample `{key}`: `{extension}` is left out: {}", error.without_path()));
        Ok(())
    }

    fn into_warnings(mut self) -> Vec<Warning> {
        if self.count > self.warnings.len() {
            let more = self.count - self.warnings.len();
            self.warnings
                .push(Warning::new(WarningKind::LeftOut, format!("{more} more files or samples are left out")));
        }
        self.warnings
    }
}

/// Reads the files of text.
fn metadata(file: &mut dyn ReadAt, limits: &Limits) -> tensorfile::Result<FileMetadata> {
    /// The most bytes of all texts together.
    const MOST: u64 = 1 << 30;

    let (mut metadata, limit) = (FileMetadata::default(), limits.memory.unwrap_or(MOST).min(MOST));
    let (mut found, mut left_out) = (0_u64, LeftOut::default());
    let end = each_sample(file, limits, &mut |file, sample| {
        if let Some(why) = &sample.broken {
            left_out.add(WarningKind::LeftOut, format!("sample `{}` is left out: {why}", sample.key.escape_debug()));
        }
        for member in sample.members.iter().filter(|member| matches!(member.kind(), Kind::Text)) {
            let range = member.range.clone();
            let mut add = |bytes: u64| {
                found = found.saturating_add(bytes);
                if found <= limit {
                    return Ok(limit - found);
                }
                Err(tensorfile::Error::from(ErrorKind::Limit { what: "number of bytes of text", found, limit }))
            };
            let left = add(range.end - range.start)?;
            let mut memory = Vec::new();
            let mut bytes = file.bytes(range, &mut memory)?;
            let mut plain = Vec::new();
            let decompressed = if member.is_gzip() {
                let read = MultiGzDecoder::new(bytes).take(left.saturating_add(1)).read_to_end(&mut plain);
                add(plain.len() as u64)?;
                bytes = &plain;
                read.map_err(|error| ErrorKind::Malformed { what: format!("gzip: {error}") }.into())
            } else {
                Ok(0)
            };
            match decompressed.and_then(|_| text(member.name(), bytes)) {
                Ok(text) => drop(metadata.entries.insert(format!("{}.{}", sample.key, member.name()), text)),
                Err(error) => left_out.add_file(&sample.key, member, error)?,
            }
        }
        Ok(())
    })?;
    metadata.warnings = left_out.into_warnings();
    metadata.warnings.extend(end.map(|text| Warning::new(WarningKind::LeftOut, text)));
    Ok(metadata)
}

/// The files of a sample, with their names. A broken sample has no files.
#[derive(Default)]
struct NamedFiles {
    key: String,
    members: Vec<Member>,
    broken: Option<String>,
}

/// A closure called with the file and a sample.
type EachSample<'x> = &'x mut dyn FnMut(&mut dyn ReadAt, &NamedFiles) -> tensorfile::Result<()>;

/// Calls `each` with all samples. Returns a warning if something is wrong with the end of the archive.
fn each_sample(file: &mut dyn ReadAt, limits: &Limits, each: EachSample<'_>) -> tensorfile::Result<Option<String>> {
    let Some(len) = file.file_len() else {
        let (what, instead) = ("read a shard from a stream".to_owned(), "hold the stream".to_owned());
        return Err(ErrorKind::Unsupported { what, instead }.into());
    };
    if len == 0 {
        return Err(ErrorKind::Malformed { what: EMPTY.to_owned() }.into());
    }
    let (mut offset, mut keys, mut sample) = (0, HashSet::new(), NamedFiles::default());
    let end = loop {
        let head = match head_in(file, offset, len)? {
            Next::Member(head) => head,
            Next::Nothing => break Some(NO_END.to_owned()),
            Next::End => break goes_on_at(file, offset, len)?.then(|| goes_on(offset)),
        };
        let (start, end) = (offset + head.len, (offset + head.len).saturating_add(head.size));
        check_end(&head, len - offset).map_err(|error| error.at(offset).into_tensorfile())?;
        let header = offset;
        offset = head.total().and_then(|total| offset.checked_add(total)).unwrap_or(u64::MAX);
        let Some((key, extension)) = head.path.as_deref().and_then(split) else { continue };
        if key != sample.key || keys.is_empty() {
            send(file, &mut sample, each)?;
            key.clone_into(&mut sample.key);
            if !keys.insert(key.to_owned()) {
                sample.broken = Some(format!("the key {COMES_BACK} (at byte {header})"));
            }
            if keys.len() as u64 > limits.tensors {
                let (what, found) = ("number of samples in a shard", keys.len() as u64);
                return Err(ErrorKind::Limit { what, found, limit: limits.tensors }.into());
            }
        }
        let extension = extension.to_lowercase();
        if sample.members.iter().any(|member| member.extension == extension) {
            sample.broken.get_or_insert_with(|| format!("the file `{extension}` is there twice (at byte {header})"));
        }
        if let Some(why) = head.refused {
            sample.broken.get_or_insert_with(|| format!("{why} (at byte {header})"));
        }
        sample.members.push(Member::new(extension, start..end));
    };
    send(file, &mut sample, each)?;
    Ok(end)
}

/// Calls `each` with a sample, if there is one, and empties it.
fn send(file: &mut dyn ReadAt, sample: &mut NamedFiles, each: EachSample<'_>) -> tensorfile::Result<()> {
    if sample.members.is_empty() {
        return Ok(());
    }
    if let Err(why) = name_members(&mut sample.members) {
        sample.broken.get_or_insert(why);
    }
    if sample.broken.is_some() {
        sample.members.clear();
    }
    each(file, sample)?;
    *sample = NamedFiles::default();
    Ok(())
}

/// Returns whether bytes other than zeros follow the end of an archive of `len` bytes.
fn goes_on_at(file: &mut dyn ReadAt, end: u64, len: u64) -> tensorfile::Result<bool> {
    if len - end > LONGEST_END {
        return Ok(true);
    }
    goes_on_in(FileReader { file, start: end, offset: end, end: len }).map_err(Error::into_tensorfile)
}

/// Reads the headers at an offset of a file of `len` bytes.
pub(crate) fn head_in(file: &mut dyn ReadAt, offset: u64, len: u64) -> tensorfile::Result<Next> {
    if offset >= len {
        return Ok(Next::Nothing);
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
