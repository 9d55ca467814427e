//! Makes the parts of all splits one dataset.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use serde::Serialize;
use tensorfile::Format;
use tensorfile::file::{atomic, list_objects, remove_object, shown_url};

use super::part::{has_bytes, path_in};
use super::{Part, refused};
use crate::error::{Error, Result};
use crate::wids::{WidsShard, wids_index};

/// A finished job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Committed {
    /// The path or URL of the index.
    pub index: PathBuf,
    /// The names of the parts' files, in order. Splits without rows have none.
    pub files: Vec<String>,
    /// The number of rows.
    pub rows: u64,
    /// The length of all files in bytes.
    pub bytes: u64,
}

/// Checks that every split has its part, and writes the index of all parts.
///
/// For tensors, the index is `model.FORMAT.index.json`, which you open as one file with
/// [`File::open`](tensorfile::File::open). For samples, it is `index.json`, in the format of Python's `wids`; in Rust,
/// pass the [files](Committed::files) to [`Shards::from_locations`](crate::Shards::from_locations).
///
/// All files are read, and their lengths and digests are compared with `parts`. A file that was truncated or changed
/// since it was written is an error.
///
/// The order of `parts` does not matter, and you may pass a part twice, as two attempts return it. The files of lost
/// attempts are removed at the end. You can call it again with the same result. The folder may be in a store, such as
/// `s3://bucket/folder`.
///
/// ```
/// use tensorfile::Tensor;
/// use tensorfile_datasets::splits::{PartWriter, Planner, commit};
///
/// # let folder = tempfile::tempdir()?;
/// let listed = [("s3://b/a.npy".to_owned(), 100), ("s3://b/b.npy".to_owned(), 100)];
/// let plan = Planner::by_count(2).plan_listed(listed)?;
/// let mut parts = Vec::new();
/// for split in &plan {
///     let mut part = PartWriter::new(folder.path(), split, "safetensors")?;
///     part.tensor(&format!("layers.{}", split.number), Tensor::from_slice(&[1.0_f32], [1])?)?;
///     parts.push(part.finish()?);
/// }
/// let error = commit(folder.path(), parts[..1].iter().cloned()).unwrap_err();
/// assert!(error.to_string().ends_with("split 2 of 2 is missing"));
/// assert_eq!(commit(folder.path(), parts)?.rows, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// - [`ErrorKind::Message`](tensorfile::ErrorKind::Message), and no index is written: a split is missing, has two parts
///   with different digests, or belongs to another plan; a file is missing or was changed; the folder has a file of
///   another job; or two parts have a tensor of the same name.
/// - [`ErrorKind::Io`](tensorfile::ErrorKind::Io): reading or writing the folder failed.
pub fn commit(folder: impl AsRef<Path>, parts: impl IntoIterator<Item = Part>) -> Result<Committed> {
    commit_parts(folder.as_ref(), parts.into_iter().collect(), true)
}

/// Writes the index of all parts as [`commit`] does, but compares only the lengths of files. No file is read: a listing
/// of the folder has the lengths. Use it if the files are too large to be read by one process.
///
/// # Errors
///
/// As [`commit`].
pub fn commit_by_length(folder: impl AsRef<Path>, parts: impl IntoIterator<Item = Part>) -> Result<Committed> {
    commit_parts(folder.as_ref(), parts.into_iter().collect(), false)
}

fn commit_parts(folder: &Path, parts: Vec<Part>, has_digests: bool) -> Result<Committed> {
    let in_folder = |error: Error| error.in_shard(&folder.to_string_lossy());
    let parts = complete(parts).map_err(in_folder)?;
    let Listing { files, attempts } = Listing::read(folder).map_err(in_folder)?;
    check(&parts, files).map_err(in_folder)?;
    if has_digests {
        check_bytes_of(&parts, folder).map_err(in_folder)?;
    }

    let (name, json) = index(&parts).map_err(in_folder)?;
    let path = path_in(folder, &name);
    atomic::write(&path, &json).map_err(|error| Error::with_path(error, &path))?;
    for attempt in attempts {
        // An attempt that still runs will find the part in its place, and agree with it.
        let path = path_in(folder, &attempt);
        let _ = match path.to_str().filter(|url| shown_url(url).is_some()) {
            Some(url) => remove_object(url).map_err(Error::from),
            None => fs::remove_file(path).map_err(Error::from),
        };
    }
    let (rows, bytes) = (parts.iter().map(|part| part.rows).sum(), parts.iter().map(|part| part.bytes).sum());
    Ok(Committed { index: path, files: parts.into_iter().filter_map(|part| part.file).collect(), rows, bytes })
}

/// Returns the parts in order, each once.
fn complete(mut parts: Vec<Part>) -> Result<Vec<Part>> {
    parts.sort_by_key(|part| part.number);
    let Some(first) = parts.first().cloned() else { return Err(refused("there are no parts".to_owned())) };
    let of = first.of;
    let split = |part: &Part| format!("split {} of {}", part.number, part.of);
    for part in &parts {
        if (&part.plan, part.of, &part.format) != (&first.plan, of, &first.format) {
            let (one, two) = (split(&first), split(part));
            return Err(refused(format!("{one} and {two} are of different plans: {} and {}", first.plan, part.plan)));
        }
    }
    let mut expected = 1;
    for i in 0..parts.len() {
        let part = &parts[i];
        if i > 0 && part.number == parts[i - 1].number {
            if (part.digest, &part.file) != (parts[i - 1].digest, &parts[i - 1].file) {
                return Err(refused(format!("{} was written twice, with different digests", split(part))));
            }
            continue;
        }
        if part.number != expected {
            return Err(refused(format!("split {expected} of {of} is missing")));
        }
        expected += 1;
    }
    match expected - 1 {
        found if found < of => Err(refused(format!("split {expected} of {of} is missing"))),
        found if found > of => Err(refused(format!("there are {found} parts of {of}"))),
        _ => {
            parts.dedup_by_key(|part| part.number);
            Ok(parts)
        }
    }
}

/// The contents of a job's folder.
#[derive(Default)]
struct Listing {
    /// The lengths of parts, by name.
    files: HashMap<String, u64>,
    /// The names of unfinished files.
    attempts: Vec<String>,
}

impl Listing {
    /// Lists the folder once. Asking for each of a million files would take longer.
    fn read(folder: &Path) -> Result<Self> {
        let mut listing = Self::default();
        if let Some(url) = folder.to_str().filter(|url| shown_url(url).is_some()) {
            list_objects(url)
                .map_err(|error| Error::with_path(error, folder))?
                .into_iter()
                .for_each(|object| listing.add(object.name, object.bytes));
            return Ok(listing);
        }
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if let Ok(name) = entry.file_name().into_string() {
                // The length of a link is that of its file.
                let len = fs::metadata(entry.path()).map_or(0, |metadata| metadata.len());
                listing.add(name, len);
            }
        }
        Ok(listing)
    }

    /// Adds a name. Temporary files on disk are hidden files; temporary objects of stores are not.
    fn add(&mut self, name: String, len: u64) {
        if name.strip_prefix('.').unwrap_or(&name).starts_with("part-") && name.ends_with(".tmp") {
            self.attempts.push(name);
        } else if name.starts_with("part-") {
            self.files.insert(name, len);
        }
    }
}

/// Checks that the folder has the files of all parts, with their lengths, and no others.
fn check(parts: &[Part], mut files: HashMap<String, u64>) -> Result<()> {
    for part in parts {
        let Some(file) = &part.file else { continue };
        match files.remove(file) {
            Some(len) if len == part.bytes => {}
            Some(len) => return Err(changed(part, &format!("it has {len} bytes instead of {}", part.bytes))),
            None => {
                let message = format!("the file `{}` of split {} is missing", file.escape_debug(), part.number);
                return Err(refused(message));
            }
        }
    }
    match files.into_keys().min() {
        Some(other) => Err(refused(format!("the file `{}` is not of this job; remove it", other.escape_debug()))),
        None => Ok(()),
    }
}

/// Returns the error for a file that was changed.
fn changed(part: &Part, found: &str) -> Error {
    let file = part.file.as_deref().unwrap_or_default().escape_debug();
    let (number, advice) = (part.number, "remove it, and write the split again");
    refused(format!("the file `{file}` of split {number} changed after it was written: {found}; {advice}"))
}

/// Checks in threads that no file was changed. Returns the error of the first changed file.
fn check_bytes_of(parts: &[Part], folder: &Path) -> Result<()> {
    /// The most threads. More would only wait for the server or the disk.
    const MOST: usize = 8;

    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(MOST);
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(None::<(usize, Error)>));
    let work = || {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(part) = parts.get(i) else { return };
            let checked = has_bytes(part, folder);
            let checked = checked.and_then(|same| if same { Ok(()) } else { Err(changed(part, "it has other bytes")) });
            if let Err(error) = checked {
                let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                if failed.as_ref().is_none_or(|(first, _)| i < *first) {
                    *failed = Some((i, error));
                }
                // Other threads already check the files before this one.
                next.store(parts.len(), Ordering::Relaxed);
            }
        }
    };
    thread::scope(|scope| (0..threads.min(parts.len())).for_each(|_| drop(scope.spawn(work))));
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some((_, error)) => Err(error),
        None => Ok(()),
    }
}

/// Returns the name of the index and its JSON.
fn index<'p>(parts: &'p [Part]) -> Result<(String, Vec<u8>)> {
    let format = &parts[0].format;
    let Some(format) = Format::named(format) else {
        let shard = |part: &'p Part| {
            let (nsamples, filesize, blake3) = (part.rows, part.bytes, Some(part.digest.to_string()));
            Some(WidsShard { url: part.file.as_deref()?, nsamples, filesize, blake3 })
        };
        return Ok(("index.json".to_owned(), wids_index(parts.iter().filter_map(shard))));
    };
    let mut json = serde_json::to_vec(&TensorIndex::new(parts)?).expect("maps of strings and numbers are JSON");
    json.push(b'\n');
    Ok((format!("model.{}.index.json", format.extensions[0]), json))
}

/// The index of a checkpoint in shards.
#[derive(Serialize)]
struct TensorIndex<'p> {
    metadata: Totals,
    weight_map: BTreeMap<&'p str, &'p str>,
}

#[derive(Serialize)]
struct Totals {
    total_size: u64,
}

impl<'p> TensorIndex<'p> {
    fn new(parts: &'p [Part]) -> Result<Self> {
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        let mut weight_map = BTreeMap::new();
        for part in parts {
            for tensor in &part.tensors {
                if let Some(other) = numbers.insert(tensor, part.number) {
                    let (tensor, own) = (tensor.escape_debug(), part.number);
                    return Err(refused(format!("tensor `{tensor}` is in the parts of the splits {other} and {own}")));
                }
                weight_map.insert(tensor.as_str(), part.file.as_deref().unwrap_or_default());
            }
        }
        let total_size = parts.iter().map(|part| part.tensor_bytes).sum();
        Ok(Self { metadata: Totals { total_size }, weight_map })
    }
}
