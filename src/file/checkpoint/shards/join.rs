//! Joins several files of one model.

use std::path::Path;
use std::sync::Arc;

use super::index::malformed;
use crate::error::{Result, Warning, WarningKind};
use crate::file::File;
use crate::file::file::Shards;
use crate::limits::Limits;
use crate::model::{FileMetadata, describes_layout};
use crate::read::Index;
use crate::storage::{FileStorage, JoinedFiles};

/// Joins files that were checked. Keeps the tensors for which `keeps` returns `true`.
pub(super) fn join_files(
    files: Vec<File>,
    metadata: FileMetadata,
    path: &Path,
    limits: &Limits,
    keeps: &mut dyn FnMut(usize, &str) -> bool,
) -> Result<File> {
    let first = files.first().expect("an index lists a shard");
    let format = first.format;
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
    let shards = Shards { paths, metadata, own: owns, archives: Vec::new() };
    Ok(File::of_shards(format, path, (FileStorage::Joined(joined), index), shards, limits))
}

/// Merges the metadata of the index and of all shards. The first value of a key counts.
pub(in crate::file) fn metadata(file: &File, parts: &[Arc<FileStorage>]) -> Result<FileMetadata> {
    let mut metadata = file.shards.metadata.clone();
    for ((part, path), known) in parts.iter().zip(file.shards()).zip(&file.shards.own) {
        let own = file.metadata_in(part, known.as_ref()).map_err(|error| error.in_shard(path, 0))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        metadata.version = metadata.version.or(own.version);
        own.coo_layouts.into_iter().for_each(|layout| metadata.add_coo_layout(layout));
        // The warning about a single part does not apply, because all parts are open.
        let warnings = own.warnings.into_iter().filter(|warning| warning.kind != WarningKind::Part);
        metadata.warnings.extend(warnings.map(|warning| {
            let text = format!("{name}: {warning}");
            Warning { text, ..warning }
        }));
        // Entries about the layout of one shard do not describe the joined file.
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
