//! Divides files into splits.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use tensorfile::file::{Container, shown_url};
use tensorfile::{File, OpenOptions};

use super::{Extent, Piece, Split, is_shard, refused};
use crate::compression::is_compressed;
use crate::error::{Error, Result};
use crate::locations::locations;
use crate::shard::Shard;

/// Divides shards of samples, or tensor files, into splits of up to `target_bytes`.
///
/// A longer file is divided between its tensors or samples. A single tensor or sample is never divided; if it is
/// longer, it is a split of its own. Compressed shards are not divided. Neither are shards at a URL whose files have
/// less than 1 MiB on average, because each header is a request.
///
/// Only lengths are read, and the headers of longer files. The result does not depend on the order of `locations`.
///
/// # Errors
///
/// As [`Planner::plan`].
pub fn splits(locations: &[String], target_bytes: u64) -> Result<Vec<Split>> {
    Planner::by_bytes(target_bytes).plan(locations)
}

/// Expands patterns and folders into files, for [`splits`].
///
/// Patterns are those of [`locations`]. A folder becomes its checkpoint, such as `model.safetensors.index.json`; if it
/// has none, its shards and tensor files.
///
/// ```
/// use tensorfile_datasets::splits::files;
///
/// # let folder = tempfile::tempdir()?;
/// # let path = |name: &str| folder.path().join(name).to_str().expect("it is text").to_owned();
/// for name in ["b.tar", "a.tar", "readme.md"] {
///     std::fs::write(path(name), "")?;
/// }
/// assert_eq!(files(&[path("")])?, [path("a.tar"), path("b.tar")]);
/// assert_eq!(files(&["s3://bucket/{0..9}.npy".to_owned()])?.len(), 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// As [`locations`]. [`ErrorKind::Io`](tensorfile::ErrorKind::Io) if a folder cannot be read or has no such files, and
/// the error of opening a checkpoint.
pub fn files(patterns: &[String]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for pattern in patterns {
        for location in locations(pattern)? {
            match Path::new(&location).is_dir().then(|| File::open(&location)) {
                Some(Err(error)) if error.is_without_checkpoint() => {
                    found.extend(files_in(&location).map_err(|error| error.in_shard(&location))?);
                }
                // A folder with a damaged checkpoint is an error, not a folder of files.
                Some(Err(error)) => return Err(error.into()),
                _ => found.push(location),
            }
        }
    }
    Ok(found)
}

fn files_in(folder: &str) -> Result<Vec<String>> {
    let files = OpenOptions::new().tensor_files(folder)?;
    let shards = files.left_out.iter().filter_map(|path| path.to_str()).filter(|path| is_shard(path));
    let mut found: Vec<String> =
        files.files.iter().filter_map(|path| path.to_str()).chain(shards).map(str::to_owned).collect();
    found.sort_unstable();
    if found.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "is a folder without shards and tensor files").into());
    }
    Ok(found)
}

/// Divides files into splits, by their size or their number.
///
/// ```
/// use tensorfile_datasets::splits::Planner;
///
/// // From a listing of a store. Files are not opened, because they stay whole.
/// let listed = (0..10).map(|i| (format!("s3://bucket/{i}.safetensors"), 1 << 30));
/// let plan = Planner::by_count(4).whole_files(true).plan_listed(listed)?;
/// let files: Vec<_> = plan.iter().map(|split| split.pieces.len()).collect();
/// assert_eq!(files, [2, 3, 2, 3]);
/// # Ok::<(), tensorfile_datasets::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Planner {
    by: By,
    whole_files: bool,
}

#[derive(Debug, Clone, Copy)]
enum By {
    Bytes(u64),
    Count(usize),
}

impl Planner {
    /// Plans splits of up to this many bytes.
    #[must_use]
    pub fn by_bytes(target: u64) -> Self {
        Self { by: By::Bytes(target.max(1)), whole_files: false }
    }

    /// Plans this many splits of about the same size, or fewer if there is too little to divide.
    #[must_use]
    pub fn by_count(count: usize) -> Self {
        Self { by: By::Count(count.max(1)), whole_files: false }
    }

    /// Leaves files whole. By default, files longer than a split are divided.
    #[must_use]
    pub fn whole_files(mut self, whole: bool) -> Self {
        self.whole_files = whole;
        self
    }

    /// Divides files, which are shards or tensor files.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Message`](tensorfile::ErrorKind::Message) if there are no files, if a file is given twice, or if
    /// only some files are shards; and errors of reading headers.
    pub fn plan(&self, locations: &[String]) -> Result<Vec<Split>> {
        let listed = locations.iter().map(|location| Ok((location.clone(), length_of(location)?)));
        self.plan_listed(listed.collect::<Result<Vec<_>>>()?)
    }

    /// Divides files of known lengths, for example from a listing.
    ///
    /// # Errors
    ///
    /// As [`plan`](Self::plan).
    pub fn plan_listed(&self, listed: impl IntoIterator<Item = (String, u64)>) -> Result<Vec<Split>> {
        let mut files: Vec<(String, u64)> = listed.into_iter().collect();
        files.sort_unstable();
        if let Some(twice) = files.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(refused(format!("the file {} is there twice", shown(&twice[0].0))));
        }
        let Some((first, _)) = files.first() else { return Err(refused("there are no files to split".to_owned())) };
        if let Some((other, _)) = files.iter().find(|(location, _)| is_shard(location) != is_shard(first)) {
            let (one, two) = if is_shard(first) { (first, other) } else { (other, first) };
            let (one, two) = (shown(one), shown(two));
            return Err(refused(format!(
                "{one} is a shard of samples and {two} is not, so they are jobs of their own"
            )));
        }
        let root = (files.len() > 1 && !is_shard(first)).then(|| root_of(&files));
        let total = files.iter().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
        let target = match self.by {
            By::Bytes(target) => target,
            By::Count(count) => total.div_ceil(count as u64).max(1),
        };
        let mut units = Vec::with_capacity(files.len());
        for (location, bytes) in files {
            match self.divided(&location, bytes, target)? {
                Some(extents) => units.extend(
                    extents.into_iter().map(|(extent, len)| (Piece { location: location.clone(), bytes, extent }, len)),
                ),
                None => units.push((Piece { location, bytes, extent: Extent::All }, bytes)),
            }
        }
        Ok(self.group(units, root.as_deref()))
    }

    /// Returns the extents of a file that is too long for one split, each with its length.
    fn divided(&self, location: &str, bytes: u64, target: u64) -> Result<Option<Vec<(Extent, u64)>>> {
        if self.whole_files || bytes <= target {
            return Ok(None);
        }
        if is_shard(location) { divide_shard(location, target) } else { divide_file(location, target) }
    }

    fn group(&self, units: Vec<(Piece, u64)>, root: Option<&str>) -> Vec<Split> {
        let total = units.iter().fold(0_u64, |sum, (_, len)| sum.saturating_add(*len));
        let mut groups: Vec<Vec<Piece>> = Vec::new();
        let (mut before, mut in_group, mut last) = (0_u64, 0_u64, None);
        for (piece, len) in units {
            let group = match self.by {
                By::Bytes(target) => {
                    let is_full = in_group > 0 && in_group.saturating_add(len) > target;
                    if is_full {
                        in_group = 0;
                    }
                    usize::from(is_full) + last.unwrap_or(0)
                }
                // Assign a piece by its middle, so that all splits are within half a piece of the same size.
                By::Count(count) => {
                    let middle = u128::from(before) * 2 + u128::from(len);
                    let group = middle * count as u128 / (u128::from(total) * 2).max(1);
                    usize::try_from(group).unwrap_or(usize::MAX).min(count - 1)
                }
            };
            (before, in_group) = (before.saturating_add(len), in_group.saturating_add(len));
            match groups.last_mut() {
                Some(pieces) if last == Some(group) => pieces.push(piece),
                _ => groups.push(vec![piece]),
            }
            last = Some(group);
        }
        let plan: Arc<str> = identity(&groups).into();
        let root: Option<Arc<str>> = root.map(Into::into);
        let of = groups.len();
        let split = |(i, pieces)| Split { plan: Arc::clone(&plan), number: i + 1, of, root: root.clone(), pieces };
        groups.into_iter().enumerate().map(split).collect()
    }
}

/// Returns a digest of all pieces and their grouping.
fn identity(groups: &[Vec<Piece>]) -> String {
    let mut hasher = blake3::Hasher::new();
    for pieces in groups {
        serde_json::to_writer(&mut hasher, pieces).expect("a hasher takes all bytes, and pieces are JSON");
    }
    hasher.finalize().to_hex()[..16].to_owned()
}

/// Returns the length of a file, or of all files of a checkpoint.
pub(super) fn length_of(location: &str) -> Result<u64> {
    let path = Path::new(location);
    let in_file = |error: tensorfile::Error| Error::from(error).in_shard(&shown(location));
    if shown_url(location).is_some() {
        return Container::open(location).map(|container| container.len()).map_err(in_file);
    }
    let metadata = path.metadata().map_err(|error| Error::from(error).in_shard(location))?;
    if metadata.is_dir() || location.ends_with(".json") {
        return File::open(path).map(|file| file.file_bytes()).map_err(Error::from);
    }
    Ok(metadata.len())
}

pub(super) fn shown(location: &str) -> String {
    shown_url(location).unwrap_or_else(|| location.to_owned())
}

/// Returns the folder that all files are in.
fn root_of(files: &[(String, u64)]) -> String {
    // The paths are sorted, so the common prefix of the first and the last is common to all.
    let (first, last) = (files[0].0.as_bytes(), files[files.len() - 1].0.as_bytes());
    let common = first.iter().zip(last).take_while(|(a, b)| a == b).count();
    let end = first[..common].iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    files[0].0[..end].to_owned()
}

fn divide_file(location: &str, target: u64) -> Result<Option<Vec<(Extent, u64)>>> {
    let file = File::open(location)?;
    let lengths = file.tensors().enumerate().map(|(i, tensor)| (i..i + 1, tensor.payload_bytes()));
    Ok(Some(join(lengths, target).into_iter().map(|(range, len)| (Extent::Tensors(range), len)).collect()))
}

fn divide_shard(location: &str, target: u64) -> Result<Option<Vec<(Extent, u64)>>> {
    let in_shard = |error: tensorfile::Error| Error::from(error).in_shard(&shown(location));
    let container = Container::open(location).map_err(in_shard)?;
    let mut begin = [0; 8];
    if container.len() < begin.len() as u64 {
        return Ok(None);
    }
    container.read_at(0, &mut begin).map_err(in_shard)?;
    // Finding the headers of a compressed shard would mean reading all of it.
    if is_compressed(&begin) {
        return Ok(None);
    }
    let mut shard = match container.as_bytes() {
        Some(_) => Shard::open(location)?,
        None => Shard::with_headers(location, container),
    };
    let ranges = shard.by_ref().map(|sample| sample.map(|sample| sample.range())).collect::<Result<Vec<_>>>();
    if shard.is_costly() {
        return Ok(None);
    }
    let lengths = ranges?.into_iter().map(|range| (range.clone(), range.end - range.start));
    Ok(Some(join(lengths, target).into_iter().map(|(range, len)| (Extent::Bytes(range), len)).collect()))
}

/// Joins ranges next to each other while they are no longer than `target` together.
fn join<N: Copy>(ranges: impl Iterator<Item = (Range<N>, u64)>, target: u64) -> Vec<(Range<N>, u64)> {
    let mut joined: Vec<(Range<N>, u64)> = Vec::new();
    for (range, len) in ranges {
        match joined.last_mut() {
            Some((last, sum)) if sum.saturating_add(len) <= target => (last.end, *sum) = (range.end, *sum + len),
            _ => joined.push((range, len)),
        }
    }
    joined
}
