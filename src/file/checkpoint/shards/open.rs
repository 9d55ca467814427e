//! Opens the shards of an index, or the numbered files of a model, as one file.

use std::path::Path;

use indexmap::IndexMap;
use serde_json::value::RawValue;

use super::index::{MAX_BYTES, ShardIndex, WEIGHT_MAP, malformed};
use super::parts::count_warning;
use crate::error::{ErrorKind, Result, Short, Warning, WarningKind};
use crate::file::File;
use crate::file::checkpoint::is_index_name;
use crate::file::file::Shards;
use crate::limits::Limits;
use crate::model::{FileMetadata, TOTAL, describes_layout};
use crate::read::Index;
use crate::storage::{FileStorage, JoinedFiles, ReadAt};

/// Returns whether a file is an index of shards: by its name, or by its content if no format is given.
pub(in crate::file) fn is_index(
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

/// Reads an index of shards.
pub(in crate::file) fn read(storage: &FileStorage, limits: &Limits) -> Result<ShardIndex> {
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
pub(in crate::file) fn join(index: ShardIndex, files: Vec<File>, path: &Path, limits: &Limits) -> Result<File> {
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

/// Joins the numbered files of a model, in order.
pub(in crate::file) fn join_parts(files: Vec<File>, path: &Path, limits: &Limits) -> Result<File> {
    let metadata = FileMetadata { warnings: count_warning(&files).into_iter().collect(), ..FileMetadata::default() };
    join_files(files, metadata, path, limits, &mut |_, _| true)
}

/// Joins checked files. Takes the tensors for which `keeps` returns `true`.
fn join_files(
    files: Vec<File>,
    metadata: FileMetadata,
    path: &Path,
    limits: &Limits,
    keeps: &mut dyn FnMut(usize, &str) -> bool,
) -> Result<File> {
    let first = files.first().expect("an index lists a shard");
    let (format, has_path) = (first.format, first.has_path);
    if let Some(other) = files.iter().find(|file| file.format.name != format.name) {
        let (one, two) = (format.name, other.format.name);
        return Err(malformed(format!("the shards are of two formats, {one} and {two}")));
    }
    let (mut parts, mut indexes, mut paths, mut owns) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for file in files {
        parts.push(file.storage);
        indexes.push(file.index);
        owns.push(file.metadata);
        paths.extend(file.location);
    }
    let joined = JoinedFiles::new(parts).ok_or_else(|| malformed("the shards are too long together".to_owned()))?;
    let mut index = Index::default();
    for (i, ((own, &start), path)) in indexes.into_iter().zip(joined.starts()).zip(&paths).enumerate() {
        let appended = index.append(&own, start, &mut |name| keeps(i, name));
        appended.map_err(|error| error.in_shard(path, start))?;
    }
    index.complete()?;
    let (storage, shards) = (FileStorage::Joined(joined), Shards { paths, metadata, own: owns, archives: Vec::new() });
    Ok(File {
        location: Some(path.to_owned()),
        has_path,
        format,
        storage,
        index,
        metadata: None,
        part: None,
        limits: limits.clone(),
        progress: None,
        shards,
    })
}

/// Checks a shard against the tensors that the index lists for it.
fn check(file: &File, shard: &str, tensors: &[&str]) -> Result<()> {
    if let Some(tensor) = tensors.iter().find(|tensor| file.index.position(tensor).is_none()) {
        return Err(malformed(format!("the index says that `{tensor}` is in `{shard}`, which does not have it")));
    }
    Ok(())
}

/// Returns warnings about the omitted tensors of a shard: the index does not list them, or in another shard.
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
            // Less is fine: most writers count shared bytes once.
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

/// Merges the metadata of the index and of all shards. The first value of a key counts.
pub(in crate::file) fn metadata(file: &File, parts: &[FileStorage]) -> Result<FileMetadata> {
    let mut metadata = file.shards.metadata.clone();
    for ((part, path), known) in parts.iter().zip(file.shards()).zip(&file.shards.own) {
        let own = file.metadata_in(part, known.as_ref()).map_err(|error| error.in_shard(path, 0))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        metadata.version = metadata.version.or(own.version);
        own.coo_layouts.into_iter().for_each(|layout| metadata.add_coo_layout(layout));
        // All parts are here.
        let warnings = own.warnings.into_iter().filter(|warning| warning.kind != WarningKind::Part);
        metadata.warnings.extend(warnings.map(|warning| {
            let text = format!("{name}: {warning}");
            Warning { text, ..warning }
        }));
        // What describes the layout of a shard differs, and is not true of all of them.
        for (key, value) in own.entries.into_iter().filter(|(key, _)| !describes_layout(key)) {
            match metadata.entries.get(&key) {
                None => drop(metadata.entries.insert(key, value)),
                Some(kept) if *kept == value => {}
                Some(_) => {
                    let text = format!("{name}: its `{key}` differs and is ignored");
                    metadata.warnings.push(Warning::new(WarningKind::Metadata, text));
                }
            }
        }
    }
    Ok(metadata)
}
