//! Writes the part of a dataset that one split makes.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tensorfile::digest::Digest;
use tensorfile::model::{MetadataValue, TensorRecord, TensorSink, Tensors};
use tensorfile::{ErrorKind, Format, SaveOptions, Tensor, TensorMap};

use super::read::in_file;
use super::{Split, refused};
use crate::error::{Error, Result};
use crate::sample::Sample;
use crate::writer::ShardWriter;

/// A part that was written: a line of the manifest that [`commit`](super::commit) reads.
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
    /// The name of the file: `part-00007-of-00040.tar`. There is none without rows.
    pub file: Option<String>,
    /// The number of samples or tensors.
    pub rows: u64,
    /// The length of the file in bytes.
    pub bytes: u64,
    /// The BLAKE3 digest of the file's bytes.
    pub digest: Digest,
    /// The number of bytes of all tensors, but for those of samples.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tensor_bytes: u64,
    /// The names of tensors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tensors: Vec<String>,
}

/// Writes one file of a split: `part-00007-of-00040.tar`.
///
/// The file is written in a folder of this attempt, `.part-00007-of-00040.….tmp`, flushed to disk, and given its name by
/// [`finish`](Self::finish) if no other attempt did so before. Dropping the writer removes the folder.
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
    /// The part, as far as it is known before it is written.
    part: Part,
    folder: PathBuf,
    /// The folder of this attempt.
    attempt: TempDir,
    rows: RowWriter,
}

#[derive(Debug)]
enum RowWriter {
    Samples(Box<ShardWriter>),
    /// The index of a file comes first, so tensors are held.
    Tensors(&'static Format, TensorMap),
}

impl PartWriter {
    /// Begins the part of a split in a folder, which is created. The format is `tar` for samples, or that of a tensor file.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] if the format is not one that is written with names, and [`ErrorKind::Io`] if the folder
    /// cannot be written to.
    pub fn new(folder: impl AsRef<Path>, split: &Split, format: &str) -> Result<Self> {
        let folder = folder.as_ref();
        let Split { plan, number, of, .. } = split;
        let stem = format!("part-{number:05}-of-{of:05}");
        let known = Format::named(format).filter(|format| !format.read_only && format.max_name != Some(0));
        if known.is_none() && format != "tar" {
            let what = format!("write parts of the format `{format}`");
            let instead = "parts are tar, or a format that is written with names, such as safetensors".to_owned();
            return Err(ErrorKind::Unsupported { what, instead }.into());
        }
        let created = fs::create_dir_all(folder).and_then(|()| {
            tempfile::Builder::new().prefix(&format!(".{stem}.")).suffix(super::commit::ATTEMPT).tempdir_in(folder)
        });
        let attempt = created.map_err(|error| at(folder, error))?;
        let rows = match known {
            Some(format) => RowWriter::Tensors(format, TensorMap::new()),
            None => {
                let writer = ShardWriter::new(attempt.path().join("{0..}.tar"))?;
                RowWriter::Samples(Box::new(writer.max_samples(u64::MAX).max_bytes(u64::MAX)))
            }
        };
        let extension = known.map_or("tar", |format| format.extensions[0]);
        let part = Part {
            plan: Arc::clone(plan),
            number: *number,
            of: *of,
            format: format.to_owned(),
            file: Some(format!("{stem}.{extension}")),
            rows: 0,
            bytes: 0,
            digest: Digest([0; 32]),
            tensor_bytes: 0,
            tensors: Vec::new(),
        };
        Ok(Self { part, folder: folder.to_owned(), attempt, rows })
    }

    /// Adds a tensor.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Message`] if there is one of that name, or if the part is one of samples.
    pub fn tensor(&mut self, name: &str, tensor: Tensor) -> Result<()> {
        let RowWriter::Tensors(_, tensors) = &mut self.rows else {
            return Err(refused(format!("tensor `{name}` is not a sample, and the part is a tar")));
        };
        if tensors.insert(name, tensor).is_some() {
            return Err(refused(format!("two tensors of the split are called `{name}`")));
        }
        self.part.rows += 1;
        Ok(())
    }

    /// Adds tensors: of a map, a file, or any other value.
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

    /// Adds a sample. Where the part is not a tar, its tensors are called by the key and their names, and entries of metadata
    /// are refused.
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

    /// Adds all rows of a split. Tensors of several files are called by the path of their file and their name.
    ///
    /// # Errors
    ///
    /// As [`Split::read`], [`tensor`](Self::tensor) and [`sample`](Self::sample).
    pub fn copy(&mut self, split: &Split) -> Result<()> {
        if split.has_samples() {
            return split.samples()?.try_for_each(|sample| {
                let sample = sample?;
                self.sample(&sample.key, &Copied::new(&sample)?)
            });
        }
        split.each_tensor(&mut |found| {
            let tensor = found.tensor().read().map_err(|error| in_file(error, found.path))?;
            self.tensor(&split.name_of(&found), tensor)
        })
    }

    /// Writes the file, unless there are no rows, and gives it its name.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Message`]: the folder has the part with other bytes.
    /// - [`ErrorKind::Unsupported`]: the format cannot store a tensor.
    /// - [`ErrorKind::Io`]: writing failed.
    pub fn finish(self) -> Result<Part> {
        let Self { mut part, folder, attempt, rows } = self;
        let name = part.file.take().expect("it is set by `new`");
        let written = attempt.path().join(&name);
        match rows {
            _ if part.rows == 0 => {
                part.digest = Digest(*blake3::hash(&[]).as_bytes());
                return Ok(part);
            }
            RowWriter::Samples(writer) => {
                let [shard] = &writer.finish()?[..] else { unreachable!("a shard has room for all samples") };
                fs::rename(&shard.path, &written).map_err(|error| at(&written, error))?;
            }
            RowWriter::Tensors(format, tensors) => {
                part.tensor_bytes = tensors.iter().map(|(_, tensor)| tensor.as_bytes().len() as u64).sum();
                part.tensors = tensors.keys().map(str::to_owned).collect();
                SaveOptions::new().format(format).save(&written, &tensors)?;
            }
        }
        (part.bytes, part.digest) = digest_of(&written).map_err(|error| at(&written, error))?;
        let path = folder.join(&name);
        if !publish(&written, &path).map_err(|error| at(&path, error))? {
            let (_, digest) = digest_of(&path).map_err(|error| at(&path, error))?;
            if digest != part.digest {
                let message =
                    "an earlier attempt or another job wrote other bytes; remove the file if it is of another job";
                return Err(refused(message.to_owned()).in_shard(&path.to_string_lossy()));
            }
        }
        attempt.close().map_err(|error| at(&folder, error))?;
        part.file = Some(name);
        Ok(part)
    }
}

/// Gives a file its name, unless there is a file of that name.
fn publish(written: &Path, path: &Path) -> io::Result<bool> {
    use io::ErrorKind::{AlreadyExists, PermissionDenied, Unsupported};

    // A new name for the file fails if there is one, other than `rename`.
    match fs::hard_link(written, path) {
        Ok(()) => {}
        Err(error) if error.kind() == AlreadyExists => return Ok(false),
        // File systems without hard links.
        Err(error) if matches!(error.kind(), PermissionDenied | Unsupported) => {
            if path.exists() {
                return Ok(false);
            }
            fs::rename(written, path)?;
        }
        Err(error) => return Err(error),
    }
    #[cfg(unix)]
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()?;
    Ok(true)
}

/// Returns the length and the digest of a file's bytes.
fn digest_of(path: &Path) -> io::Result<(u64, Digest)> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(path)?)?;
    Ok((hasher.count(), Digest(*hasher.finalize().as_bytes())))
}

fn at(path: &Path, error: io::Error) -> Error {
    Error::from(error).in_shard(&path.to_string_lossy())
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
