//! Writes shards of samples.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use hashbrown::HashSet;
use tar::{Builder, EntryType, Header};
use tensorfile::digest::Digest;
use tensorfile::file::atomic::{self, NewFile};
use tensorfile::file::is_saved_to;
use tensorfile::model::{MetadataValue, TensorData, TensorRecord, TensorSink, Tensors};
use tensorfile::{Dtype, ErrorKind, Format, Layout, TensorInfo, WriteOptions, ten};

use crate::archive::{BLOCK, split};
use crate::error::{Error, Result};
use crate::role::{Kind, Member, Role, name_members};
use crate::wids::{WidsShard, wids_index};

/// Writes samples to numbered shards, which are tar archives.
///
/// Each shard is complete or does not exist: it is written under a temporary name, flushed to disk and renamed. A shard
/// for a store, such as `s3://bucket/train-{000000..}.tar`, is written to the folder for temporary files and then
/// uploaded. The same samples always make the same bytes: all modification times are 0, and all modes are `0444`.
///
/// A tensor becomes a `.ten` file, unless you set another [format](Self::format). An i64 of rank 0 becomes text in a
/// `.cls` file. A [`Blob`](tensorfile::Blob) becomes a file with its name as the extension. An entry of metadata
/// becomes a `.txt` file, or a `.json` file if it is called `json`. [`Sample`](crate::Sample#names) explains the names.
///
/// ```
/// use ndarray::{Array1, array};
/// use tensorfile::TensorFile;
/// use tensorfile_datasets::{ShardWriter, Shards};
///
/// #[derive(TensorFile)]
/// struct Row {
///     x: Array1<f32>,
///     label: i64,
/// }
///
/// # let folder = tempfile::tempdir()?;
/// let pattern = folder.path().join("rows-{000000..}.tar");
/// let mut writer = ShardWriter::new(&pattern)?.max_samples(1000).max_bytes(1 << 30).index(true);
/// for label in 0..3 {
///     writer.write(&format!("{label:06}"), &Row { x: array![0.5], label })?;
/// }
/// let shards = writer.finish()?;
/// assert_eq!((shards.len(), shards[0].samples), (1, 3));
/// assert!(shards[0].path.ends_with("rows-000000.tar"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ShardWriter {
    /// The path before and after the number.
    pattern: (String, String),
    width: usize,
    /// The number of the next shard.
    next: u64,
    max_samples: u64,
    max_bytes: u64,
    format: &'static Format,
    has_index: bool,
    wids: Option<PathBuf>,
    no_replace: bool,
    open: Option<OpenShard>,
    written: Vec<WrittenShard>,
}

/// A written shard.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WrittenShard {
    /// The path.
    pub path: PathBuf,
    /// The number of samples.
    pub samples: u64,
    /// The length in bytes.
    pub bytes: u64,
}

/// The shard being written.
struct OpenShard {
    path: PathBuf,
    tar: Builder<BufWriter<DigestedFile>>,
    bytes: u64,
    samples: u64,
    keys: HashSet<String>,
    /// The lines of the index.
    index: Vec<String>,
}

/// A file of a sample: its extension and its bytes.
type SampleFile = (String, Vec<u8>);

impl ShardWriter {
    /// Returns a writer to a pattern of paths, such as `train-{000000..}.tar`. Existing shards are replaced.
    ///
    /// The pattern has one pair of braces, around the first number and two dots.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Message`] if the pattern has no such braces, and [`ErrorKind::Unsupported`] if its extension is one
    /// of compressed shards.
    pub fn new(pattern: impl AsRef<Path>) -> Result<Self> {
        let pattern = pattern.as_ref();
        let text = pattern
            .to_str()
            .ok_or_else(|| ErrorKind::Message(format!("the pattern {} is not UTF-8", pattern.display())))?;
        let parts = text.split_once('{').and_then(|(before, rest)| {
            let (first, after) = rest.split_once("..}")?;
            Some((before, first, first.parse().ok()?, after))
        });
        let Some((before, first, next, after)) = parts else {
            let message = format!("the pattern `{text}` has no number such as {{000000..}}");
            return Err(ErrorKind::Message(message).into());
        };
        if after.contains(".tar.") || [".tgz", ".gz", ".zst"].iter().any(|end| after.ends_with(end)) {
            let what = format!("write compressed shards such as `{text}`");
            return Err(ErrorKind::Unsupported { what, instead: "write .tar, and compress it".to_owned() }.into());
        }
        Ok(Self::numbered((before.to_owned(), after.to_owned()), first.len(), next))
    }

    /// Returns a writer of a single shard.
    pub(crate) fn with_file(path: &Path, file: NewFile) -> Self {
        let mut writer = Self::numbered(Default::default(), 0, 0);
        (writer.max_samples, writer.max_bytes) = (u64::MAX, u64::MAX);
        writer.open = Some(OpenShard::new(path, DigestedFile { file, digest: Some(blake3::Hasher::new()) }));
        writer
    }

    /// Returns a writer of shards numbered from `next` on, with at least `width` digits.
    fn numbered(pattern: (String, String), width: usize, next: u64) -> Self {
        Self {
            pattern,
            width,
            next,
            max_samples: 100_000,
            max_bytes: 3_000_000_000,
            format: &ten::FORMAT,
            has_index: false,
            wids: None,
            no_replace: false,
            open: None,
            written: Vec::new(),
        }
    }

    /// Completes a single shard, and returns its file.
    pub(crate) fn into_part(mut self) -> io::Result<DigestedFile> {
        let shard = self.open.take().expect("it has room for all samples");
        shard.complete()
    }

    /// Sets the most samples of a shard. Default: 100,000, as in webdataset.
    #[must_use]
    pub fn max_samples(mut self, samples: u64) -> Self {
        self.max_samples = samples.max(1);
        self
    }

    /// Sets the maximum length of a shard in bytes. A larger sample has a shard to itself. Default: 3 GB, as in
    /// webdataset.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Sets the format of tensors. Default: [`ten`].
    #[must_use]
    pub fn format(mut self, format: &'static Format) -> Self {
        self.format = format;
        self
    }

    /// Writes an index for NVIDIA DALI next to each shard: `train-000000.idx`, as its `wds2idx` does.
    #[must_use]
    pub fn index(mut self, has_index: bool) -> Self {
        self.has_index = has_index;
        self
    }

    /// Writes the index of Python's `wids` to a path or URL at the end: the number of samples of each shard.
    ///
    /// ```
    /// use tensorfile_datasets::ShardWriter;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// let index = folder.path().join("train.json");
    /// let mut writer = ShardWriter::new(folder.path().join("train-{000000..}.tar"))?.wids(&index);
    /// writer.write_files("0001", [("txt", b"seven")])?;
    /// writer.finish()?;
    /// let json: serde_json::Value = serde_json::from_slice(&std::fs::read(index)?)?;
    /// assert_eq!(json["shardlist"][0]["url"], "train-000000.tar");
    /// assert_eq!(json["shardlist"][0]["nsamples"], 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn wids(mut self, index: impl Into<PathBuf>) -> Self {
        self.wids = Some(index.into());
        self
    }

    /// Makes an existing shard an error, instead of replacing it.
    #[must_use]
    pub fn no_replace(mut self, no_replace: bool) -> Self {
        self.no_replace = no_replace;
        self
    }

    /// Writes a sample: a struct, a map, a file or a view.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Unsupported`]: the format cannot store a tensor, a name would be read back as another one, or the
    ///   key has a dot in its base name.
    /// - [`ErrorKind::Message`]: the shard has the key already.
    /// - [`ErrorKind::Io`]: writing failed.
    pub fn write(&mut self, key: &str, sample: &dyn Tensors) -> Result<()> {
        let mut files = SampleFiles { format: self.format, files: Vec::new(), names: Vec::new() };
        let sent = sample.send(&mut files).and_then(|()| files.check_names());
        sent.map_err(|error| Error::from(error).in_sample(key))?;
        let files = files.files;
        self.write_encoded(key, &mut files.iter().map(|(extension, bytes)| (extension.as_str(), bytes.as_slice())))
    }

    /// Writes a sample of files, each with its extension.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub fn write_files<'f>(
        &mut self,
        key: &str,
        files: impl IntoIterator<Item = (&'f str, impl AsRef<[u8]>)>,
    ) -> Result<()> {
        let files: Vec<_> = files.into_iter().collect();
        self.write_encoded(key, &mut files.iter().map(|(extension, bytes)| (*extension, bytes.as_ref())))
    }

    /// Writes the last shard, and returns all shards. If you do not call this, you lose the last shard.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`]: writing failed.
    pub fn finish(mut self) -> Result<Vec<WrittenShard>> {
        self.close()?;
        if let Some(path) = &self.wids {
            self.write_wids(path).map_err(|error| Error::with_path(error, path))?;
        }
        Ok(std::mem::take(&mut self.written))
    }

    fn write_wids(&self, path: &Path) -> tensorfile::Result<()> {
        // Usually index and shard are in the same folder. Otherwise the index has the whole path of the shard.
        let url = |shard: &WrittenShard| match shard.path.file_name() {
            Some(name) if shard.path.parent() == path.parent() => Ok(PathBuf::from(name)),
            _ if is_saved_to(&shard.path) => Ok(shard.path.clone()),
            _ => std::path::absolute(&shard.path),
        };
        let urls = self.written.iter().map(|shard| Ok(url(shard)?.to_string_lossy().into_owned()));
        let urls = urls.collect::<io::Result<Vec<String>>>()?;
        let shards = self.written.iter().zip(&urls).map(|(shard, url)| WidsShard {
            url,
            nsamples: shard.samples,
            filesize: shard.bytes,
            blake3: None,
        });
        let mut file = NewFile::create(path)?;
        file.write_all(&wids_index(shards))?;
        file.put(self.no_replace)
    }

    fn write_encoded(&mut self, key: &str, files: &mut dyn Iterator<Item = (&str, &[u8])>) -> Result<()> {
        let files: Vec<(String, &[u8])> =
            files.map(|(extension, bytes)| (format!("{key}.{extension}"), bytes)).collect();
        let refuse = |kind: ErrorKind| Err(Error::from(kind).in_sample(key));
        let mut paths = HashSet::new();
        for (path, _) in &files {
            let what = || format!("store a file called `{}`", path.escape_debug());
            let is_relative = key.split('/').all(|part| !matches!(part, "" | "." | ".."));
            let is_read = split(path).is_some_and(|(found, rest)| found == key && rest.to_lowercase() == rest);
            if path.contains('\0') || !is_relative || !is_read {
                let instead = "keys are relative paths without `..` and without a dot in the base name, and extensions are in lower case";
                return refuse(ErrorKind::Unsupported { what: what(), instead: instead.to_owned() });
            }
            if !paths.insert(path.as_str()) {
                return refuse(ErrorKind::Message(format!("the sample has two files called `{path}`")));
            }
        }
        if files.is_empty() {
            return refuse(ErrorKind::Message("a sample without files cannot be stored".to_owned()));
        }
        let sizes = files.iter().map(|(path, bytes)| entry_bytes(path, bytes.len() as u64));
        let sizes = sizes.collect::<Result<Vec<_>>>().map_err(|error| error.in_sample(key))?;
        let total = sizes.iter().sum::<u64>();
        let is_full = self
            .open
            .as_ref()
            .is_some_and(|open| open.samples >= self.max_samples || open.bytes + total + END > self.max_bytes);
        if is_full {
            self.close()?;
        }
        let shard = match &mut self.open {
            Some(shard) => shard,
            None => {
                let (before, after) = &self.pattern;
                let path = PathBuf::from(format!("{before}{:0width$}{after}", self.next, width = self.width));
                self.next += 1;
                let file = NewFile::create(&path).map_err(|error| Error::with_path(error, &path))?;
                self.open.insert(OpenShard::new(&path, DigestedFile { file, digest: None }))
            }
        };
        if !shard.keys.insert(key.to_owned()) {
            return refuse(ErrorKind::Message("the shard has a sample with this key already".to_owned()));
        }
        let written = shard.write(key, &files, &sizes);
        written.map_err(|error| Error::from(error).in_sample(key).in_shard(&shard.path.to_string_lossy()))
    }

    fn close(&mut self) -> Result<()> {
        let Some(shard) = self.open.take() else { return Ok(()) };
        let path = shard.path.clone();
        let written =
            shard.finish(self.has_index, self.no_replace).map_err(|error| error.in_shard(&path.to_string_lossy()))?;
        self.written.push(written);
        Ok(())
    }
}

/// The length of the end of an archive.
const END: u64 = 2 * BLOCK;

/// Returns the number of bytes that a file takes in an archive.
fn entry_bytes(path: &str, size: u64) -> Result<u64> {
    let mut counted = Builder::new(Vec::new());
    // A name too long for a header is an additional entry.
    append(&mut counted, path, &[])?;
    Ok(counted.get_ref().len() as u64 + size.next_multiple_of(BLOCK))
}

/// Adds a file. Everything in its header but name and size is fixed.
pub(crate) fn append(tar: &mut Builder<impl Write>, path: &str, bytes: &[u8]) -> io::Result<()> {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o444);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(bytes.len() as u64);
    tar.append_data(&mut header, path, bytes)
}

impl OpenShard {
    fn new(path: &Path, file: DigestedFile) -> Self {
        let tar = Builder::new(BufWriter::with_capacity(1 << 20, file));
        let (keys, index) = (HashSet::new(), Vec::new());
        Self { path: path.to_owned(), tar, bytes: 0, samples: 0, keys, index }
    }

    fn write(&mut self, key: &str, files: &[(String, &[u8])], sizes: &[u64]) -> io::Result<()> {
        let mut line = Vec::new();
        for ((path, bytes), size) in files.iter().zip(sizes) {
            append(&mut self.tar, path, bytes)?;
            self.bytes += size;
            let len = bytes.len() as u64;
            let (extension, data) = (&path[key.len() + 1..], self.bytes - len.next_multiple_of(BLOCK));
            line.push(format!("{extension} {data} {len} {path}"));
        }
        self.index.push(line.join(" "));
        self.samples += 1;
        Ok(())
    }

    /// Writes the end of the archive.
    fn complete(self) -> io::Result<DigestedFile> {
        self.tar.into_inner()?.into_inner().map_err(io::IntoInnerError::into_error)
    }

    fn finish(mut self, has_index: bool, no_replace: bool) -> Result<WrittenShard> {
        let (path, samples, bytes) = (self.path.clone(), self.samples, self.bytes + END);
        let index = std::mem::take(&mut self.index);
        self.complete()?.file.put(no_replace).map_err(|error| Error::with_path(error, &path))?;
        if has_index {
            let (index, path) = (format!("v1.2 {}\n{}\n", index.len(), index.join("\n")), index_path(&path));
            atomic::write(&path, index.as_bytes()).map_err(|error| Error::with_path(error, &path))?;
        }
        Ok(WrittenShard { path, samples, bytes })
    }
}

/// A new file, and the digest of its bytes if asked for.
pub(crate) struct DigestedFile {
    pub(crate) file: NewFile,
    pub(crate) digest: Option<blake3::Hasher>,
}

impl DigestedFile {
    /// Returns the length and the digest.
    pub(crate) fn digest(&self) -> (u64, Digest) {
        let hasher = self.digest.as_ref().expect("a part is digested");
        (hasher.count(), Digest(*hasher.finalize().as_bytes()))
    }
}

impl Write for DigestedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        if let Some(hasher) = &mut self.digest {
            hasher.update(&bytes[..written]);
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl std::fmt::Debug for OpenShard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shard = f.debug_struct("OpenShard");
        shard.field("path", &self.path).field("samples", &self.samples).finish_non_exhaustive()
    }
}

/// Returns the path of the index of a shard: its name up to the first dot, and `.idx`.
fn index_path(shard: &Path) -> PathBuf {
    let name = shard.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.find('.').filter(|dot| *dot > 0).map_or(&*name, |dot| &name[..dot]);
    shard.with_file_name(format!("{stem}.idx"))
}

/// Encodes the parts of a sample as files.
struct SampleFiles {
    format: &'static Format,
    files: Vec<SampleFile>,
    /// The names of the files.
    names: Vec<String>,
}

impl SampleFiles {
    /// Adds a file. If its extension would be read as another name or kind, that is an error.
    fn push(
        &mut self,
        name: &str,
        extension: String,
        bytes: Vec<u8>,
        is_read: &dyn Fn(Kind) -> bool,
    ) -> tensorfile::Result<()> {
        let role = Role::of(&extension);
        if role.name != name || role.is_gzip || !is_read(role.kind) {
            return Err(read_otherwise(name, &extension));
        }
        self.files.push((extension, bytes));
        self.names.push(name.to_owned());
        Ok(())
    }

    /// Checks that no two files have the same name, because they would be read back with other names.
    fn check_names(&self) -> tensorfile::Result<()> {
        let mut members: Vec<Member> =
            self.files.iter().map(|(extension, _)| Member::new(extension.clone(), 0..0)).collect();
        let named = name_members(&mut members);
        for ((member, name), (extension, _)) in members.iter().zip(&self.names).zip(&self.files) {
            if named.is_err() || member.name() != name {
                return Err(read_otherwise(name, extension));
            }
        }
        Ok(())
    }
}

/// Returns the error for a file that would be read back with another name or as another kind.
fn read_otherwise(name: &str, extension: &str) -> tensorfile::Error {
    let what = format!("store `{name}` in a file with the extension `{extension}`");
    let instead = "it would be read as something else; rename the field".to_owned();
    ErrorKind::Unsupported { what, instead }.into()
}

impl TensorSink for SampleFiles {
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> tensorfile::Result<()> {
        let (name, info) = (tensor.name, tensor.info);
        let mut bytes = Vec::new();
        if info.layout == Layout::Blob {
            tensor.data.write_to(&mut bytes)?;
            return self.push(name, name.to_owned(), bytes, &|kind| matches!(kind, Kind::Blob));
        }
        if info.dtype == Dtype::I64 && info.layout == Layout::RowMajor && info.shape.dims().is_empty() {
            tensor.data.write_to(&mut bytes)?;
            let number = bytes
                .try_into()
                .map(i64::from_le_bytes)
                .map_err(|_| ErrorKind::Message("an i64 has 8 bytes".to_owned()))?;
            let role = Role::of(name);
            let is_own = matches!(role.kind, Kind::Number) && role.name == name;
            let extension = if is_own { name.to_owned() } else { format!("{name}.cls") };
            return self.push(name, extension, number.to_string().into_bytes(), &|kind| matches!(kind, Kind::Number));
        }
        let bytes = self.format.to_vec(&OneTensor { info, data: tensor.data }, &WriteOptions::new());
        let bytes = bytes.map_err(|error| match error.kind() {
            // The tensor has no name in its file.
            ErrorKind::Unsupported { what, instead } => {
                ErrorKind::Unsupported { what: format!("{what} for `{name}`"), instead: instead.clone() }.into()
            }
            _ => error,
        })?;
        let extension = format!("{name}.{}", self.format.extensions[0]);
        self.push(name, extension, bytes, &|kind| matches!(kind, Kind::Tensors(_)))
    }

    fn metadata(&mut self, key: &str, value: &MetadataValue) -> tensorfile::Result<()> {
        let role = Role::of(key);
        let is_own = matches!(role.kind, Kind::Text) && role.name == key;
        let extension = if is_own { key.to_owned() } else { format!("{key}.txt") };
        self.push(key, extension, value.to_string().into_bytes(), &|kind| matches!(kind, Kind::Text))
    }
}

/// A tensor without a name.
struct OneTensor<'a> {
    info: &'a TensorInfo,
    data: &'a dyn TensorData,
}

impl Tensors for OneTensor<'_> {
    fn send(&self, sink: &mut dyn TensorSink) -> tensorfile::Result<()> {
        sink.tensor(&TensorRecord { name: "0", info: self.info, data: self.data, tied: None })
    }
}
