//! Files of safetensors with the chunks of each process, which `HuggingFaceStorageWriter` of
//! `torch.distributed.checkpoint` writes before they are consolidated.
//!
//! ```text
//! shard-00001-model-00001-of-00002.safetensors   process 1, file 1 of 2
//! __metadata__: {"DCP_SHARDING_INFO": "{\"a.weight\": {\"saved_offsets\": [4, 0]}, …}", …}
//! ```
//!
//! The files do not state the whole shape of a tensor: it ends where the last chunk ends, as in PyTorch. So a missing file is
//! noticed if it leaves a hole.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hashbrown::HashSet;
use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::chunked::{ChunkedFiles, ChunkedIndex, StoredChunk, malformed};
use super::{File, OpenOptions};
use crate::error::{Error, Result};
use crate::model::FileMetadata;
use crate::tensor::{Dtype, Shape};

/// The entry of metadata with the offsets of the tensors of a file.
const OFFSETS: &str = "DCP_SHARDING_INFO";

/// Returns the files of processes in a folder, in order.
pub(super) fn in_folder(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        if name.to_str().is_some_and(is_rank_file) && folder.join(&name).is_file() {
            paths.push(folder.join(name));
        }
    }
    paths.sort_unstable();
    Ok(paths)
}

/// Returns whether a name is `shard-00001-model-00001-of-00002.safetensors`.
fn is_rank_file(name: &str) -> bool {
    let numbers = || {
        let (rank, file) = name.strip_prefix("shard-")?.strip_suffix(".safetensors")?.split_once("-model-")?;
        let (file, count) = file.split_once("-of-")?;
        Some([rank, file, count])
    };
    let is_number = |text: &str| text.len() >= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    numbers().is_some_and(|numbers| numbers.into_iter().all(is_number))
}

impl OpenOptions {
    /// Opens the files of processes in a folder as one.
    pub(super) fn open_rank_files(&self, folder: &Path, paths: Vec<PathBuf>) -> Result<File> {
        let (mut files, pool) = (Vec::with_capacity(paths.len()), Arc::default());
        for path in &paths {
            files.push(self.open_in_pool(path, &pool)?);
        }
        let (mut tensors, mut own) = (IndexMap::<String, Vec<(usize, StoredChunk)>>::new(), Vec::new());
        for (number, (file, path)) in files.iter().zip(&paths).enumerate() {
            let mut metadata = file.metadata_in(&file.storage, file.metadata.as_ref())?;
            let chunks = chunks_of(file, &metadata).map_err(|error| error.in_shard(path, 0))?;
            for (name, chunk) in chunks {
                tensors.entry(name).or_default().push((number, chunk));
            }
            metadata.entries.shift_remove(OFFSETS);
            own.push(Some(metadata));
        }
        let format = files.first().map(|file| file.format).expect("there is a file");
        let mut index = ChunkedIndex::new(files.into_iter().map(|file| file.storage).collect())?;
        for (name, chunks) in tensors {
            let pushed = join(&chunks).and_then(|(dtype, shape)| {
                let (mut known, mut places) = (Vec::with_capacity(chunks.len()), HashSet::new());
                for (file, chunk) in chunks {
                    // Copies are read once.
                    let is_empty = chunk.info.shape.dims().contains(&0);
                    if !is_empty && places.insert((chunk.offsets.clone(), chunk.info.shape.clone())) {
                        known.push(StoredChunk { range: index.place(file, chunk.range), ..chunk });
                    }
                }
                index.push_chunks(&name, (dtype, shape), known)
            });
            pushed.map_err(|error| error.in_tensor(&*name).in_format(format.name))?;
        }
        let metadata = FileMetadata::default();
        let location = folder.to_owned();
        let files = ChunkedFiles { location, has_path: true, paths, metadata, own, archives: Vec::new() };
        let file = index.finish(format, files, &self.limits)?;
        Ok(File { progress: self.progress.clone(), ..file })
    }
}

/// Returns the chunks of a file, with their names.
fn chunks_of(file: &File, metadata: &FileMetadata) -> Result<Vec<(String, StoredChunk)>> {
    let in_format = |error: Error| error.in_format(file.format.name);
    let Some(json) = metadata.entries.get(OFFSETS) else {
        let what = format!("the metadata has no `{OFFSETS}`, which says where the tensors of a process belong");
        return Err(in_format(malformed(what)));
    };
    let offsets: Map<String, Value> = serde_json::from_str(json)
        .map_err(|error| in_format(malformed(format!("`{OFFSETS}` in the metadata is malformed: {error}"))))?;
    let chunk = |i: usize| {
        let (entry, name) = (file.index.entry(i), file.index.name(i));
        let numbers = offsets.get(name).and_then(|saved| saved.get("saved_offsets")?.as_array());
        let number = |number: &Value| number.as_u64().and_then(|number| usize::try_from(number).ok());
        let offsets: Option<Shape> = numbers.and_then(|numbers| numbers.iter().map(number).collect());
        let rank = entry.info().shape.rank();
        let Some(offsets) = offsets.filter(|offsets| offsets.rank() == rank) else {
            let what = format!("`{OFFSETS}` has no `saved_offsets` of {rank} numbers for it");
            return Err(in_format(malformed(what).in_tensor(name)));
        };
        let (info, range, codec) = (entry.info().clone(), entry.range(), entry.any_codec().cloned());
        Ok((name.to_owned(), StoredChunk { offsets, info, range, codec }))
    };
    (0..file.len()).map(chunk).collect()
}

/// Returns the dtype of chunks, and the shape that ends where the last one does.
fn join(chunks: &[(usize, StoredChunk)]) -> Result<(Dtype, Shape)> {
    let (_, first) = chunks.first().expect("a tensor has a chunk");
    let (dtype, mut ends) = (first.info.dtype, vec![0; first.info.shape.rank()]);
    for (_, StoredChunk { offsets, info, .. }) in chunks {
        if info.unknown_dtype().is_some() {
            return Err(malformed("its dtype is unknown, so its chunks cannot be put together".to_owned()));
        }
        if info.dtype != dtype || offsets.rank() != ends.len() {
            let (info, first) = (info, &first.info);
            return Err(malformed(format!("it has chunks of {first} and of {info}, which are not of one tensor")));
        }
        for ((end, offset), dim) in ends.iter_mut().zip(offsets.iter()).zip(info.shape.iter()) {
            let own = offset.checked_add(*dim).ok_or_else(|| malformed(format!("a chunk begins at {offsets}")))?;
            *end = own.max(*end);
        }
    }
    Ok((dtype, ends.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_processes_are_taken() {
        assert!(is_rank_file("shard-00001-model-00001-of-00002.safetensors"));
        for other in [
            "model-00001-of-00002.safetensors",
            "shard-00001-model-00001-of-00002.pt",
            "shard-1-model-00001-of-00002.safetensors",
            "shard-00001-model-00001-of-0000x.safetensors",
            "shard-00001.safetensors",
        ] {
            assert!(!is_rank_file(other), "{other}");
        }
    }
}
