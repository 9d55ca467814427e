//! One sample: the files of a shard that have one key.

use std::ops::Range;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use tensorfile::file::{Container, Embedded};
use tensorfile::model::FromTensors;
use tensorfile::{ErrorKind, File, Limits};

use crate::error::{Error, Result};
use crate::format::TAR;
use crate::role::{Role, text};

/// A sample of a shard: the files with one key, next to each other.
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
/// Files of a sample are told apart by their extension: all after the first dot of the base name, in lower case. It decides
/// what they are.
///
/// | Extension | In a struct |
/// | --- | --- |
/// | `x.ten`, `x.npy`, `x.btf` | the tensor `x`; several are `x.0`, `x.1`, or `x.` and their names |
/// | `x.npz`, `x.safetensors`, `x.pt`, `x.pth`, `x.gguf`, `x.ptd`, `x.tbs` | `x.` and the names of its tensors |
/// | `x.cls`, `x.cls2`, `x.index`, `x.inx`, `x.id` | `x`, an i64 of its decimal text |
/// | `x.txt`, `x.text`, `x.transcript`, `x.json`, `x.jsn` | `x`, an entry of metadata: a field with `#[tensor(metadata)]` |
/// | any other, such as `jpg` or `x.jpg` | the extension, a [`Blob`](tensorfile::Blob) |
///
/// Without an `x`, the extension itself takes its place: `0001.cls` is the field `cls`. `.tenbin` and `.tb` mean `.ten`. A
/// `.pt` is decoded and never run; `.pickle` and `.pyd` are blobs.
#[derive(Debug, Clone)]
pub struct Sample {
    /// The path of its files up to the first dot of the base name.
    pub key: String,
    /// Its files, in the order of the shard.
    pub members: Vec<Member>,
    pub(crate) source: Arc<Source>,
    /// The bytes with the files: the mapped shard, or the bytes of this sample in a stream.
    pub(crate) container: Container,
    /// The offset of the container in the shard.
    pub(crate) start: u64,
    /// The offset of the first header in the shard.
    pub(crate) header: u64,
    /// The offset of the next header after this sample in the shard.
    pub(crate) end: u64,
}

/// The shard of samples.
#[derive(Debug)]
pub(crate) struct Source {
    /// The path, or the URL without secrets.
    pub(crate) shard: String,
    /// The path or URL to open it.
    pub(crate) location: Arc<str>,
    pub(crate) limits: Limits,
}

/// A file of a [`Sample`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The extension, in lower case.
    pub extension: String,
    /// The range of its bytes in the shard, uncompressed.
    pub range: Range<u64>,
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

    /// Returns the bytes of the file with an extension.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Missing`] if there is none.
    pub fn bytes(&self, extension: &str) -> Result<&[u8]> {
        match self.members.iter().find(|member| member.extension == extension) {
            Some(member) => Ok(self.member_bytes(member)),
            None => {
                let found = self.members.iter().map(|member| member.extension.clone()).collect();
                let name = extension.to_owned();
                Err(self.place(ErrorKind::Missing { name, found, others: 0, complete: true }.into()))
            }
        }
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
    /// As [`bytes`](Self::bytes), and [`ErrorKind::Malformed`] if it is not UTF-8.
    pub fn text(&self, extension: &str) -> Result<String> {
        // Mapped bytes are checked after they are copied.
        text(extension, self.bytes(extension)?).map_err(|error| self.place(error))
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
        serde_json::from_str(&text).map_err(|error| {
            let what = format!("`{extension}`: {error}");
            self.place(ErrorKind::Malformed { what }.into())
        })
    }

    /// Loads the sample into a type, by the names [above](Self#names). Views borrow from the sample.
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
    /// [`ErrorKind::Load`] with all differences if the files do not fit the type, and errors of reading the files. All of
    /// them name the shard, the key, and an offset.
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

    /// Returns the metadata: the text of each file that is text or JSON, by its name in a struct.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Malformed`] if one is not UTF-8.
    pub fn metadata(&self) -> Result<Vec<(String, String)>> {
        let texts = self.members.iter().filter_map(|member| match Role::of(&member.extension) {
            Role::Text(name) => Some(text(name, self.member_bytes(member)).map(|text| (name.to_owned(), text))),
            _ => None,
        });
        texts.collect::<tensorfile::Result<_>>().map_err(|error| self.place(error))
    }

    fn embedded(&self) -> tensorfile::Result<Embedded<'_>> {
        let mut embedded = Embedded::new(&self.container, self.limits());
        for member in &self.members {
            let range = self.inner(member);
            match Role::of(&member.extension) {
                Role::Tensors(format, name) => embedded
                    .add_file(format, range, &mut |count, _, inner| Role::tensor_name(format, name, count, inner))?,
                Role::Number(name) => embedded.add_number(name, range)?,
                Role::Text(name) => embedded.add_metadata(name, text(name, self.member_bytes(member))?),
                Role::Blob(name) => embedded.add_blob(name, range)?,
            }
        }
        Ok(embedded)
    }

    /// Returns the limits for this sample: the container may be a shard, which is longer.
    fn limits(&self) -> Limits {
        /// The default of [`Limits::shared`], and how many times the length of the file it is at least.
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
        Error::from(error.nested_at(self.start)).at(self.header).in_sample(&self.key).in_shard(self.shard())
    }
}
