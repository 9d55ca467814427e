//! One sample: the files of a shard with the same key.

use std::io::Read as _;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use flate2::read::MultiGzDecoder;
use serde::de::DeserializeOwned;
use tensorfile::file::{Container, Embedded};
use tensorfile::model::FromTensors;
use tensorfile::{ErrorKind, File, Limits};

use crate::error::{Error, Result};
use crate::format::TAR;
use crate::role::{Kind, may_clash, repeated, tensor_name, text};

pub use crate::role::Member;

/// A sample of a shard: files next to each other with the same key.
///
/// ```
/// use ndarray::{Array1, Array2, array};
/// use tensorfile::TensorFile;
/// use tensorfile_datasets::{ShardWriter, Shards};
///
/// #[derive(TensorFile)]
/// struct Digit {
///     image: Array2<u8>,
///     label: i64,
///     #[tensor(metadata)]
///     caption: String,
/// }
///
/// # let folder = tempfile::tempdir()?;
/// # let shard = folder.path().join("digits-000000.tar");
/// # let pattern = folder.path().join("digits-{000000..}.tar");
/// let mut writer = ShardWriter::new(&pattern)?;
/// writer.write("7/0001", &Digit { image: array![[0, 9], [9, 0]], label: 7, caption: "seven".to_owned() })?;
/// writer.finish()?;
///
/// for sample in Shards::new(shard.to_str().expect("it is text"))? {
///     let sample = sample?;
///     let digit: Digit = sample.load()?;
///     println!("{}: {} of {} files", sample.key, digit.label, sample.members.len());
///     # assert_eq!((digit.image[[0, 1]], &*digit.caption), (9, "seven"));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Names
///
/// The extension of a file decides its kind and its name. It is everything after the first dot of the base name, in
/// lower case.
///
/// | Extension | In a struct |
/// | --- | --- |
/// | `x.ten`, `x.npy`, `x.btf` | the tensor `x`; several are `x.0`, `x.1`, or `x.` and their names |
/// | `x.npz`, `x.safetensors`, `x.pt`, `x.pth`, `x.gguf`, `x.ptd`, `x.tbs` | `x.` and the names of its tensors |
/// | `x.cls`, `x.cls2`, `x.index`, `x.inx`, `x.id` | `x`, an i64 of its decimal text |
/// | `x.txt`, `x.text`, `x.transcript`, `x.json`, `x.jsn` | `x`, an entry of metadata: a field with `#[tensor(metadata)]` |
/// | any other, such as `jpg` or `x.jpg` | the extension, a [`Blob`](tensorfile::Blob) |
///
/// If there is no `x`, the extension is the name: `0001.cls` is the field `cls`. `.tenbin` and `.tb` mean `.ten`. A
/// `.pt` is decoded and never run; `.pickle` and `.pyd` are blobs. With `.gz` appended, as in `x.json.gz`, these files
/// are decompressed.
///
/// No file hides another. If two files would have the same name, or one the extension of the other, both are called by
/// their whole extension: `0001.x.npy` and `0001.x.json` are `x.npy` and `x.json`, and `0001.jpg` and `0001.jpg.cls`
/// are `jpg` and `jpg.cls`. If a tensor in a file still has the name of something else, the names of such tensors begin
/// with the extension of their file: `x.npz.y` instead of `x.y`. No file can be called `__key__`, `__url__` or
/// `__split__`.
#[derive(Debug, Clone)]
pub struct Sample {
    /// The path of its files up to the first dot of the base name.
    pub key: String,
    /// Its files, in the order of the shard.
    pub members: Vec<Member>,
    pub(crate) source: Arc<Source>,
    /// The container of the files: the mapped shard, or this sample's bytes of a stream.
    pub(crate) container: Container,
    /// The offset of the container in the shard.
    pub(crate) start: u64,
    /// The number of bytes that the container holds in memory for this sample alone.
    pub(crate) held: u64,
    /// The offset of the first header in the shard.
    pub(crate) header: u64,
    /// The offset in the shard of the next header after this sample.
    pub(crate) end: u64,
    /// Whether the names of tensors in files always begin with the whole extension of their file.
    pub(crate) is_full: bool,
    /// The decompressed files, if some are compressed.
    pub(crate) decompressed: OnceLock<Decompressed>,
}

/// The bytes of a sample, followed by the decompressed bytes of its compressed files.
#[derive(Debug, Clone)]
pub(crate) struct Decompressed {
    container: Container,
    /// The range of each file in these bytes.
    ranges: Vec<Range<u64>>,
}

/// The shard that samples belong to.
#[derive(Debug)]
pub(crate) struct Source {
    /// The path, or the URL without secrets.
    pub(crate) shard: String,
    /// The path or URL to open the shard with.
    pub(crate) location: Arc<str>,
    pub(crate) limits: Limits,
}

impl Sample {
    /// Returns the path or URL of the shard.
    #[must_use]
    pub fn shard(&self) -> &str {
        &self.source.shard
    }

    /// Returns the range of the sample in the shard, uncompressed: from its first header to the next sample's.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.header..self.end
    }

    /// Returns the bytes of the file with an extension. They are not decompressed, such as for `x.json.gz`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Missing`] if there is no such file.
    pub fn bytes(&self, extension: &str) -> Result<&[u8]> {
        Ok(self.member_bytes(&self.members[self.find(extension)?]))
    }

    /// Returns the number of the file with an extension.
    fn find(&self, extension: &str) -> Result<usize> {
        self.members.iter().position(|member| member.extension == extension).ok_or_else(|| {
            let found = self.members.iter().map(|member| member.extension.clone()).collect();
            let name = extension.to_owned();
            self.place(ErrorKind::Missing { name, found, others: 0, complete: true }.into())
        })
    }

    fn member_bytes(&self, member: &Member) -> &[u8] {
        let Range { start, end } = self.inner(member);
        let place = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        let bytes = place.and_then(|(start, end)| self.container.as_bytes()?.get(start..end));
        bytes.expect("the range was checked, and its bytes are in memory")
    }

    /// Returns the range of a file in the container.
    fn inner(&self, member: &Member) -> Range<u64> {
        member.range.start - self.start..member.range.end - self.start
    }

    /// Returns the text of the file with an extension.
    ///
    /// # Errors
    ///
    /// As [`bytes`](Self::bytes), and [`ErrorKind::Malformed`] if the text is not UTF-8.
    pub fn text(&self, extension: &str) -> Result<String> {
        let file = self.find(extension)?;
        // Mapped bytes could change between the check and the copy, so the copy is checked.
        self.plain_bytes(file).and_then(|bytes| text(extension, bytes)).map_err(|error| self.place(error))
    }

    /// Parses the JSON of the file with an extension.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    /// use tensorfile_datasets::{ShardWriter, Shards};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let shard = folder.path().join("a-0.tar");
    /// let mut writer = ShardWriter::new(folder.path().join("a-{0..}.tar"))?;
    /// writer.write_files("0001", [("json", br#"{"width": 32}"#)])?;
    /// writer.finish()?;
    ///
    /// let sample = Shards::new(shard.to_str().expect("it is text"))?.next().expect("one sample")?;
    /// let json: BTreeMap<String, u32> = sample.json("json")?;
    /// assert_eq!(json["width"], 32);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`text`](Self::text), and [`ErrorKind::Malformed`] if it is not JSON of the type.
    pub fn json<T: DeserializeOwned>(&self, extension: &str) -> Result<T> {
        let text = self.text(extension)?;
        serde_json::from_str(text.strip_prefix('\u{feff}').unwrap_or(&text)).map_err(|error| {
            let what = format!("`{extension}`: {error}");
            self.place(ErrorKind::Malformed { what }.into())
        })
    }

    /// Loads the sample into a type, with the names [above](Self#names). Views borrow from the sample.
    ///
    /// ```
    /// use ndarray::{ArrayView1, array};
    /// use tensorfile::{TensorFile, TensorMap};
    /// use tensorfile_datasets::{ShardWriter, Shards};
    ///
    /// #[derive(TensorFile)]
    /// struct Pair<'a> {
    ///     left: ArrayView1<'a, f32>,
    ///     right: ArrayView1<'a, f32>,
    /// }
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let shard = folder.path().join("a-0.tar");
    /// let mut writer = ShardWriter::new(folder.path().join("a-{0..}.tar"))?;
    /// writer.write("0001", &TensorMap::from_iter([("left", array![0.5_f32]), ("right", array![1.0])]))?;
    /// writer.finish()?;
    ///
    /// let sample = Shards::new(shard.to_str().expect("it is text"))?.next().expect("one sample")?;
    /// let pair: Pair = sample.load()?;
    /// assert_eq!(pair.right[0], 1.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Load`] with all differences if the files do not fit the type, and errors of reading the files.
    /// Every error has the shard, the key, and an offset.
    pub fn load<'s, T: FromTensors<'s>>(&'s self) -> Result<T> {
        self.embedded().and_then(Embedded::load).map_err(|error| self.place(error))
    }

    /// Opens the sample as a file, whose tensors have the names [above](Self#names).
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load), except for mismatches.
    pub fn open(&self) -> Result<File> {
        self.embedded().and_then(|embedded| embedded.into_file(&TAR)).map_err(|error| self.place(error))
    }

    /// Returns the metadata: the content of each text or JSON file, by its name in a struct.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Malformed`] if a file is not UTF-8.
    pub fn metadata(&self) -> Result<Vec<(String, String)>> {
        let texts = self.members.iter().enumerate().filter(|(_, member)| matches!(member.kind(), Kind::Text));
        let texts = texts.map(|(i, member)| Ok((member.name().to_owned(), text(member.name(), self.plain_bytes(i)?)?)));
        texts.collect::<tensorfile::Result<_>>().map_err(|error| self.place(error))
    }

    fn embedded(&self) -> tensorfile::Result<Embedded<'_>> {
        if !may_clash(&self.members) {
            return self.embed(self.is_full, &mut Vec::new());
        }
        let is_full = self.has_clash()?;
        let mut inner = Vec::new();
        let embedded = self.embed(is_full, &mut inner)?;
        match self.clashing(&inner) {
            Some(name) => Err(ErrorKind::DuplicateName { name: name.to_owned() }.into()),
            None => Ok(embedded),
        }
    }

    /// Keeps only some files. Their tensors keep their names.
    pub(crate) fn keep(&mut self, is_full: bool, keeps: &dyn Fn(&Member) -> bool) {
        self.members.retain(keeps);
        (self.is_full, self.decompressed) = (is_full, OnceLock::new());
    }

    /// Returns whether a tensor in a file has the name of another file or tensor.
    pub(crate) fn has_clash(&self) -> tensorfile::Result<bool> {
        if self.is_full || !may_clash(&self.members) {
            return Ok(self.is_full);
        }
        let mut inner = Vec::new();
        self.embed(false, &mut inner)?;
        Ok(self.clashing(&inner).is_some())
    }

    /// Returns the name of a tensor in a file, if another file or tensor has it too.
    fn clashing<'n>(&'n self, inner: &'n [String]) -> Option<&'n str> {
        let others = self.members.iter().map(Member::name);
        repeated(inner.iter().map(String::as_str).chain(others).collect())
    }

    /// Adds all files. The names of tensors in files are added to `inner`.
    fn embed(&self, is_full: bool, inner: &mut Vec<String>) -> tensorfile::Result<Embedded<'_>> {
        let decompressed = self.decompressed()?;
        let container = decompressed.map_or(&self.container, |decompressed| &decompressed.container);
        let mut embedded = Embedded::new(container, self.limits());
        for (i, member) in self.members.iter().enumerate() {
            let range = decompressed.map_or_else(|| self.inner(member), |decompressed| decompressed.ranges[i].clone());
            match member.kind() {
                Kind::Tensors(format) => {
                    let added = embedded.add_file(format, range, &mut |count, _, name| {
                        let name = tensor_name(member, is_full, format, count, name);
                        if name != member.name() {
                            inner.push(name.clone());
                        }
                        name
                    });
                    added.map_err(|error| if member.is_gzip() { in_gzip(member, &error) } else { error })?;
                }
                Kind::Number => embedded.add_number(member.name(), range)?,
                Kind::Text => embedded.add_metadata(member.name(), text(member.name(), self.plain_bytes(i)?)?),
                Kind::Blob => embedded.add_blob(member.name(), range)?,
            }
        }
        Ok(embedded)
    }

    /// Returns the bytes of a file, decompressed.
    fn plain_bytes(&self, i: usize) -> tensorfile::Result<&[u8]> {
        let member = &self.members[i];
        let Some(decompressed) = self.decompressed()?.filter(|_| member.is_gzip()) else {
            return Ok(self.member_bytes(member));
        };
        let Range { start, end } = &decompressed.ranges[i];
        let range = usize::try_from(*start).ok().zip(usize::try_from(*end).ok());
        let bytes = range.and_then(|(start, end)| decompressed.container.as_bytes()?.get(start..end));
        Ok(bytes.expect("the bytes were put there"))
    }

    /// Decompresses files, if some are compressed.
    fn decompressed(&self) -> tensorfile::Result<Option<&Decompressed>> {
        if !self.members.iter().any(Member::is_gzip) {
            return Ok(None);
        }
        if let Some(found) = self.decompressed.get() {
            return Ok(Some(found));
        }
        let limit = self.source.limits.held.min(self.source.limits.payload);
        let sample = self.header - self.start..self.end - self.start;
        let place = usize::try_from(sample.start).ok().zip(usize::try_from(sample.end).ok());
        let bytes = self.container.as_bytes().zip(place).map(|(bytes, (start, end))| {
            // The container does not hold the last padding of a stream.
            &bytes[start.min(bytes.len())..end.min(bytes.len())]
        });
        let mut all = bytes.unwrap_or_default().to_vec();
        let mut ranges = Vec::with_capacity(self.members.len());
        for member in &self.members {
            if !member.is_gzip() {
                ranges.push(member.range.start - self.header..member.range.end - self.header);
                continue;
            }
            let start = all.len() as u64;
            let left = limit.saturating_sub(start);
            let read =
                MultiGzDecoder::new(self.member_bytes(member)).take(left.saturating_add(1)).read_to_end(&mut all);
            let found = read.map_err(|error| in_gzip(member, &error))? as u64;
            if found > left {
                let (what, found) = ("number of bytes of a sample", limit.saturating_add(1));
                return Err(ErrorKind::Limit { what, found, limit }.into());
            }
            ranges.push(start..start + found);
        }
        Ok(Some(self.decompressed.get_or_init(|| Decompressed { container: Container::from_bytes(all), ranges })))
    }

    /// Returns the limits for this sample. The container may be the whole shard, and limits must not grow with it.
    fn limits(&self) -> Limits {
        /// The default of [`Limits::shared`]: this many bytes, or this many times the file's length if that is more.
        const SHARED: (u64, u64) = (1 << 34, 64);

        let mut limits = self.source.limits.clone();
        let len = self.end - self.header;
        let shared = limits.shared.unwrap_or_else(|| SHARED.0.max(len.saturating_mul(SHARED.1)));
        limits.memory.get_or_insert(len.saturating_add(shared));
        limits
    }

    /// Adds the place in the shard to an error of the [open](Self::open) sample.
    #[must_use]
    pub fn place(&self, error: tensorfile::Error) -> Error {
        let start = if self.decompressed.get().is_some() { self.header } else { self.start };
        Error::from(error.nested_at(start)).at(self.header).in_sample(&self.key).in_shard(self.shard())
    }
}

/// Converts the error of a compressed file, and drops its offset, which is not one of the shard.
fn in_gzip(member: &Member, error: &dyn std::fmt::Display) -> tensorfile::Error {
    ErrorKind::Malformed { what: format!("`{}`, decompressed: {error}", member.extension) }.into()
}
