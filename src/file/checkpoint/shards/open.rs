//! Opens the shards of an index as one file.

use std::io;
use std::path::Path;

use indexmap::IndexMap;
use serde_json::value::RawValue;

use super::index::{MAX_BYTES, ShardIndex, WEIGHT_MAP, malformed};
use super::join::join_files;
use crate::error::{Error, ErrorKind, Result, Short, Warning, WarningKind};
use crate::file::checkpoint::is_index_name;
use crate::file::place::{Place, Siblings};
use crate::file::{File, OpenOptions};
use crate::limits::Limits;
use crate::model::{FileMetadata, TOTAL};
use crate::storage::{FileStorage, ReadAt};

/// Returns whether a file is an index of shards: by its name, or else by its content if no format is given.
pub(in crate::file::checkpoint) fn is_index(
    file: &mut dyn ReadAt,
    storage: &FileStorage,
    path: &Path,
    has_format: bool,
) -> Result<bool> {
    if is_index_name(path) {
        return Ok(true);
    }
    let mut begin = [0; 64];
    let len = usize::try_from(storage.len()).map_or(begin.len(), |len| len.min(begin.len()));
    let begin = &mut begin[..len];
    file.read_at(0, begin)?;
    // A binary format may begin with a number whose first byte is a brace, but such a number has a zero byte.
    let is_json = begin.trim_ascii_start().starts_with(b"{") && !begin.contains(&0);
    if !is_json || has_format || storage.len() > MAX_BYTES {
        return Ok(false);
    }
    let key = format!("\"{WEIGHT_MAP}\"");
    Ok(read_all(storage)?.windows(key.len()).any(|found| found == key.as_bytes()))
}

impl OpenOptions {
    /// Opens the shards of an index as one file. With `only`, the returned file may have just the tensor with this
    /// name.
    ///
    /// Starts again if the index is replaced in the meantime: its shards may be gone, or their names may belong to new
    /// ones.
    pub(in crate::file::checkpoint) fn open_index(&self, mut place: Place, only: Option<&str>) -> Result<File> {
        /// The most attempts: enough even for a writer that saves continuously.
        const ATTEMPTS: u32 = 100;

        if let Some(name) = only
            && let Ok(Some(file)) = self.open_shard_of(&place, name)
        {
            return Ok(file);
        }
        let mut attempt = 0;
        loop {
            // `place` holds the old index open, so that the system gives its identity to no other file during the
            // attempt.
            let opened = self.open_shards(&place);
            attempt += 1;
            if attempt == ATTEMPTS || !place.is_replaced() {
                return opened;
            }
            place = self.find_path(&place.name)?;
        }
    }

    fn open_shards(&self, place: &Place) -> Result<File> {
        let index = read(&place.storage, &self.limits)?;
        let listed = index.shards();
        let names: Vec<&str> = listed.iter().map(|(shard, _)| *shard).collect();
        let explain = |i: usize, error: &io::Error| cannot_open(&*place.siblings, names[i], listed[i].1[0], error);
        let files = self.open_files(&*place.siblings, &names, &explain)?;
        join(index, files, &place.name, &self.limits)
    }

    /// Opens only the shard with a tensor. `None` if the index does not list the tensor, or its shard does not have it.
    fn open_shard_of(&self, place: &Place, tensor: &str) -> Result<Option<File>> {
        let index = read(&place.storage, &self.limits)?;
        let Some(shard) = index.shard_of(tensor) else { return Ok(None) };
        let explain = |_: usize, error: &io::Error| cannot_open(&*place.siblings, shard, tensor, error);
        let files = self.open_files(&*place.siblings, &[shard], &explain)?;
        let metadata = FileMetadata::default();
        let file = join_files(files, metadata, &place.name, &self.limits, &mut |_, name| name == tensor)?;
        Ok(Some(file).filter(|file| !file.is_empty()))
    }
}

/// Returns the error for a shard that cannot be opened.
fn cannot_open(siblings: &dyn Siblings, shard: &str, tensor: &str, error: &io::Error) -> Error {
    if let io::ErrorKind::InvalidInput | io::ErrorKind::IsADirectory = error.kind() {
        return malformed(format!("the index says that `{tensor}` is in `{shard}`, which {error}"));
    }
    let message = format!("{}: {error}; the index says that `{tensor}` is in it", siblings.shown(shard));
    io::Error::new(error.kind(), message).into()
}

/// Reads an index of shards.
pub(super) fn read(storage: &FileStorage, limits: &Limits) -> Result<ShardIndex> {
    if storage.len() > MAX_BYTES {
        let what = "the length of the index of shards";
        return Err(ErrorKind::Limit { what, found: storage.len(), limit: MAX_BYTES }.into());
    }
    ShardIndex::parse(&read_all(storage)?, limits)
}

fn read_all(storage: &FileStorage) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    storage.write_to(0, storage.len(), &mut bytes)?;
    Ok(bytes)
}

/// Joins the files of an index, opened in the order of [`ShardIndex::shards`], after checking them against it.
fn join(index: ShardIndex, files: Vec<File>, path: &Path, limits: &Limits) -> Result<File> {
    let mut warnings = Vec::new();
    let shards: Vec<String> = index.shards().into_iter().map(|(shard, _)| shard.to_owned()).collect();
    for ((shard, tensors), file) in index.shards().iter().zip(&files) {
        check(file, shard, tensors)?;
        warnings.extend(left_out(file, shard, &index));
    }
    let mut metadata = metadata_of(index.metadata, &index.weight_map, &shards, &files);
    metadata.warnings.extend(warnings);
    join_files(files, metadata, path, limits, &mut |i, name| {
        index.weight_map.get(name).is_some_and(|shard| *shard == shards[i])
    })
}

/// Checks a shard against the tensors that the index lists for it.
fn check(file: &File, shard: &str, tensors: &[&str]) -> Result<()> {
    if let Some(tensor) = tensors.iter().find(|tensor| file.index.position(tensor).is_none()) {
        return Err(malformed(format!("the index says that `{tensor}` is in `{shard}`, which does not have it")));
    }
    Ok(())
}

/// Returns warnings about tensors of a shard that are left out, because the index does not list them, or in another
/// shard.
fn left_out(file: &File, shard: &str, index: &ShardIndex) -> Vec<Warning> {
    let (mut unlisted, mut elsewhere) = ((0, None), (0, None));
    for tensor in file.tensors() {
        let (count, first) = match index.weight_map.get(tensor.name()) {
            Some(other) if other == shard => continue,
            Some(_) => &mut elsewhere,
            None => &mut unlisted,
        };
        *count += 1;
        first.get_or_insert(tensor.name());
    }
    let warning = |(count, first): (usize, Option<&str>), does: &str| {
        let first = first?;
        let tensors = if count == 1 { "a tensor" } else { &format!("{count} tensors") };
        let which = if count == 1 { "" } else { ", the first of them," };
        let text = format!("`{shard}` has {tensors} that the index {does}: `{}`{which} is left out", Short(first));
        Some(Warning::new(WarningKind::Index, text).in_tensor(first))
    };
    let warnings = [warning(unlisted, "does not list"), warning(elsewhere, "lists in another shard")];
    warnings.into_iter().flatten().collect()
}

/// Returns the metadata of the index, after comparing its total length with the listed tensors.
fn metadata_of(
    entries: IndexMap<String, Box<RawValue>>,
    weight_map: &IndexMap<String, String>,
    shards: &[String],
    files: &[File],
) -> FileMetadata {
    let listed = files
        .iter()
        .zip(shards)
        .flat_map(|(file, shard)| file.tensors().filter(move |tensor| weight_map.get(tensor.name()) == Some(shard)));
    let total = listed.map(|tensor| tensor.payload_bytes()).fold(0, u64::saturating_add);
    let mut metadata = FileMetadata::default();
    for (key, value) in entries {
        if key != TOTAL {
            metadata.entries.insert(key, text(&value));
        } else if value.get().parse::<u64>().is_ok_and(|stated| stated > total) {
            // A smaller number is fine: most writers count shared bytes once.
            let text = format!("the index states {value} bytes, but the tensors have {total}");
            metadata.warnings.push(Warning::new(WarningKind::Index, text));
        }
    }
    metadata
}

/// Converts a JSON value to an entry of metadata.
fn text(value: &RawValue) -> String {
    serde_json::from_str(value.get()).unwrap_or_else(|_| value.get().to_owned())
}
