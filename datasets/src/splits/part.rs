//! Writes the part of a dataset that belongs to one split.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tensorfile::digest::Digest;
use tensorfile::file::atomic::NewFile;
use tensorfile::file::{Container, shown_url};
use tensorfile::model::{MetadataValue, TensorRecord, TensorSink, Tensors};
use tensorfile::{ErrorKind, Format, SaveOptions, Tensor, TensorMap};

use super::read::in_file;
use super::{Split, refused};
use crate::error::{Error, Result};
use crate::sample::Sample;
use crate::shard::ContainerReader;
use crate::writer::{DigestedFile, ShardWriter};

/// A written part, to be passed to [`commit`](super::commit). As JSON, it is a line of a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Part {
    /// The plan of the split.
    pub plan: Arc<str>,
    /// The number of the split, from 1 on.
    pub number: usize,
    /// The number of all splits.
    pub of: usize,
    /// The format: `tar`, or the name of a format of `tensorfile`.
    pub format: String,
    /// The name of the file: `part-00007-of-00040.tar`. A part without rows has no file.
    pub file: Option<String>,
    /// The number of samples or tensors.
    pub rows: u64,
    /// The length of the file in bytes.
    pub bytes: u64,
    /// The BLAKE3 digest of the file's bytes.
    pub digest: Digest,
    /// The number of bytes of all tensors; 0 for samples.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tensor_bytes: u64,
    /// The names of tensors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tensors: Vec<String>,
    /// Warnings about [copied](PartWriter::copy) shards, for example because one may be truncated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Writes the file of a split, such as `part-00007-of-00040.tar`, to a folder on disk or in a store
/// (`s3://bucket/folder`).
///
/// The file has a temporary name first, `.part-00007-of-00040.tar.0.tmp`. [`finish`](Self::finish) flushes it to disk
/// and renames it, unless another attempt has done so. If you drop the writer, the file is removed. A file for a store
/// is in the folder for temporary files until it is uploaded.
///
/// ```
/// use tensorfile::Tensor;
/// use tensorfile_datasets::splits::{PartWriter, Planner};
///
/// # let folder = tempfile::tempdir()?;
/// let plan = Planner::by_count(1).plan_listed([("s3://bucket/a.safetensors".to_owned(), 100)])?;
/// let mut part = PartWriter::new(folder.path(), &plan[0], "safetensors")?;
/// part.tensor("weight", Tensor::from_slice(&[0.5_f32], [1])?)?;
/// let part = part.finish()?;
/// assert_eq!((part.file.as_deref(), part.rows), (Some("part-00001-of-00001.safetensors"), 1));
///
/// // The same bytes are the same part.
/// let mut again = PartWriter::new(folder.path(), &plan[0], "safetensors")?;
/// again.tensor("weight", Tensor::from_slice(&[0.5_f32], [1])?)?;
/// assert_eq!(again.finish()?, part);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PartWriter {
    /// The part so far; some fields are set at the end.
    part: Part,
    /// The path or URL of the file.
    path: PathBuf,
    rows: RowWriter,
}

#[derive(Debug)]
enum RowWriter {
    Samples(Box<ShardWriter>),
    /// Tensors held in memory, because the index in front of the file needs all of them.
    Tensors(&'static Format, TensorMap, NewFile),
}

impl PartWriter {
    /// Begins the part of a split. Creates the folder if needed, and removes leftovers of killed attempts at this part.
    ///
    /// The format is `tar` for samples, or a format of tensor files.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] if the format is unknown or stores no names, or the URL of the folder is not one we
    /// write to; and [`ErrorKind::Io`] if the folder cannot be written to.
    pub fn new(folder: impl AsRef<Path>, split: &Split, format: &str) -> Result<Self> {
        let folder = folder.as_ref();
        let Split { plan, number, of, .. } = split;
        let known = Format::named(format).filter(|format| format.max_name != Some(0));
        if known.is_none() && format != "tar" {
            let what = format!("write parts of the format `{format}`");
            let instead = "parts are tar, or a format that is written with names, such as safetensors".to_owned();
            return Err(ErrorKind::Unsupported { what, instead }.into());
        }
        let name = format!("part-{number:05}-of-{of:05}.{}", known.map_or("tar", |format| format.extensions[0]));
        let path = path_in(folder, &name);
        if shown_url(folder).is_none() {
            fs::create_dir_all(folder).map_err(|error| Error::with_path(error.into(), folder))?;
        }
        let file = NewFile::create(&path).map_err(|error| Error::with_path(error, &path))?;
        let rows = match known {
            Some(format) => RowWriter::Tensors(format, TensorMap::new(), file),
            None => RowWriter::Samples(Box::new(ShardWriter::with_file(&path, file))),
        };
        let part = Part {
            plan: Arc::clone(plan),
            number: *number,
            of: *of,
            format: format.to_owned(),
            file: Some(name),
            rows: 0,
            bytes: 0,
            digest: Digest([0; 32]),
            tensor_bytes: 0,
            tensors: Vec::new(),
            warnings: Vec::new(),
        };
        Ok(Self { part, path, rows })
    }

    /// Adds a tensor.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Message`] if the part has a tensor with this name already, or has samples.
    pub fn tensor(&mut self, name: &str, tensor: Tensor) -> Result<()> {
        let RowWriter::Tensors(_, tensors, _) = &mut self.rows else {
            return Err(refused(format!("tensor `{name}` is not a sample, and the part is a tar")));
        };
        if tensors.insert(name, tensor).is_some() {
            return Err(refused(format!("two tensors of the split are called `{name}`")));
        }
        self.part.rows += 1;
        Ok(())
    }

    /// Adds the tensors of a map, a file, or any other value.
    ///
    /// # Errors
    ///
    /// As [`tensor`](Self::tensor), and errors of reading them.
    pub fn tensors(&mut self, tensors: &dyn Tensors) -> Result<()> {
        self.gather("", tensors)
    }

    fn gather(&mut self, prefix: &str, tensors: &dyn Tensors) -> Result<()> {
        let mut found = Vec::new();
        tensors.send(&mut Gathered { prefix, format: &self.part.format, tensors: &mut found })?;
        found.into_iter().try_for_each(|(name, tensor)| self.tensor(&name, tensor))
    }

    /// Adds a sample. If the format is not `tar`, tensors are named after the key and their own names, and entries of
    /// metadata are an error.
    ///
    /// # Errors
    ///
    /// As [`ShardWriter::write`], and [`tensor`](Self::tensor).
    pub fn sample(&mut self, key: &str, sample: &dyn Tensors) -> Result<()> {
        let RowWriter::Samples(writer) = &mut self.rows else {
            return self.gather(&format!("{key}."), sample).map_err(|error| error.in_sample(key));
        };
        writer.write(key, sample)?;
        self.part.rows += 1;
        Ok(())
    }

    /// Adds all rows of a split. If it has several tensor files, tensors are named after the path of their file and
    /// their own name.
    ///
    /// # Errors
    ///
    /// As [`Split::read`], [`tensor`](Self::tensor) and [`sample`](Self::sample).
    pub fn copy(&mut self, split: &Split) -> Result<()> {
        if split.has_samples() {
            let warnings = split.each_sample(&mut |sample| self.sample(&sample.key, &Copied::new(&sample)?))?;
            self.part.warnings.extend(warnings.iter().map(ToString::to_string));
            return Ok(());
        }
        split.each_tensor(&mut |found| {
            let tensor = found.tensor().read().map_err(|error| in_file(error, found.path))?;
            self.tensor(&split.name_of(&found), tensor)
        })
    }

    /// Completes the file and gives it its name. If there are no rows, there is no file.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Message`]: the folder has this part already, but with other bytes.
    /// - [`ErrorKind::Unsupported`]: the format cannot store a tensor.
    /// - [`ErrorKind::Io`]: writing failed.
    pub fn finish(self) -> Result<Part> {
        let Self { mut part, path, rows } = self;
        if part.rows == 0 {
            (part.file, part.digest) = (None, Digest(*blake3::hash(&[]).as_bytes()));
            return Ok(part);
        }
        let in_file = |error| Error::with_path(error, &path);
        let written = match rows {
            RowWriter::Samples(writer) => writer.into_part().map_err(|error| in_file(error.into()))?,
            RowWriter::Tensors(format, tensors, file) => {
                part.tensor_bytes = tensors.iter().map(|(_, tensor)| tensor.as_bytes().len() as u64).sum();
                part.tensors = tensors.keys().map(str::to_owned).collect();
                let plan = SaveOptions::new().format(format).plan(&path, &tensors).map_err(in_file)?;
                let mut written = DigestedFile { file, digest: Some(blake3::Hasher::new()) };
                plan.to_writer(&mut written, &tensors).map_err(in_file)?;
                written
            }
        };
        (part.bytes, part.digest) = written.digest();
        if let Err(error) = written.file.put(true) {
            compare(&part, &path, in_file(error))?;
        }
        Ok(part)
    }
}

/// Compares a part with the file that another attempt put in its place.
fn compare(part: &Part, path: &Path, error: Error) -> Result<()> {
    match digest_of(path, part.bytes) {
        Ok(Some(digest)) if digest == part.digest => Ok(()),
        Ok(_) if error.is_existing() => {
            let message =
                "an earlier attempt or another job wrote other bytes; remove the file if it is of another job";
            Err(refused(message.to_owned()).in_shard(&path.to_string_lossy()))
        }
        _ => Err(error),
    }
}

/// Returns the digest of a file's or an object's bytes, if it has this length.
pub(super) fn digest_of(path: &Path, bytes: u64) -> Result<Option<Digest>> {
    let container = Container::open(path)?;
    if container.len() != bytes {
        return Ok(None);
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(ContainerReader::new(container, shown_url(path).is_some()))?;
    Ok(Some(Digest(*hasher.finalize().as_bytes())))
}

/// Returns whether the file in its place has the bytes of the part.
pub(super) fn has_bytes(part: &Part, folder: &Path) -> Result<bool> {
    let Some(file) = &part.file else { return Ok(true) };
    let path = path_in(folder, file);
    let found = digest_of(&path, part.bytes).map_err(|error| error.in_shard(&path.to_string_lossy()))?;
    Ok(found == Some(part.digest))
}

/// Returns the path or URL of a file in a folder.
pub(super) fn path_in(folder: &Path, name: &str) -> PathBuf {
    match folder.to_str().filter(|_| shown_url(folder).is_some()) {
        // A second slash would be part of the key.
        Some(url) => PathBuf::from(format!("{}/{name}", url.strip_suffix('/').unwrap_or(url))),
        None => folder.join(name),
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The decoded files of a sample, and its text.
struct Copied {
    tensors: TensorMap,
    metadata: Vec<(String, String)>,
}

impl Copied {
    fn new(sample: &Sample) -> Result<Self> {
        Ok(Self { tensors: sample.load()?, metadata: sample.metadata()? })
    }
}

impl Tensors for Copied {
    fn send(&self, sink: &mut dyn TensorSink) -> tensorfile::Result<()> {
        self.tensors.send(sink)?;
        self.metadata.iter().try_for_each(|(name, text)| sink.metadata(name, &MetadataValue::Text(text.clone())))
    }
}

/// Copies of tensors.
struct Gathered<'a> {
    prefix: &'a str,
    format: &'a str,
    tensors: &'a mut Vec<(String, Tensor)>,
}

impl TensorSink for Gathered<'_> {
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> tensorfile::Result<()> {
        let mut bytes = Vec::new();
        tensor.data.write_to(&mut bytes)?;
        let name = format!("{}{}", self.prefix, tensor.name);
        self.tensors.push((name, Tensor::new(tensor.info.clone(), &bytes)?));
        Ok(())
    }

    fn metadata(&mut self, key: &str, _: &MetadataValue) -> tensorfile::Result<()> {
        let what = format!("store the text `{key}` of a sample in {}", self.format);
        let instead = "write tar, or leave the column out".to_owned();
        Err(ErrorKind::Unsupported { what, instead }.into())
    }
}
