//! Safetensors files with the chunks of each process, as `HuggingFaceStorageWriter` of `torch.distributed.checkpoint`
//! writes them before they are consolidated.
//!
//! ```text
//! shard-00001-model-00001-of-00002.safetensors   process 1, file 1 of 2
//! __metadata__: {"DCP_SHARDING_INFO": "{\"a.weight\": {\"saved_offsets\": [4, 0], \"global_shape\": [8, 3]}, …}", …}
//! ```
//!
//! Only newer files state the whole shape of a tensor. In others, it ends where the last chunk ends, as in PyTorch, so that a
//! missing file is noticed only if it leaves a hole in a tensor, or a gap in the numbers of the files.
//!
//! A gap is only a warning, because a process writes no file if it has nothing to save, or no part of the tensors of a
//! file. The number of processes is not stated either, so nobody notices if the files of the last ones are missing.

use std::fs;
use std::path::{Path, PathBuf};

use hashbrown::HashSet;
use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::chunked::{ChunkedIndex, StoredChunk, malformed};
use crate::error::{Error, ErrorKind, Result, Warning, WarningKind};
use crate::file::file::Shards;
use crate::file::place::Place;
use crate::file::{File, OpenOptions};
use crate::model::{FileMetadata, SHARDING_INFO as OFFSETS, describes_layout};
use crate::tensor::{Dtype, Shape};

/// The key of a whole shape, beside `saved_offsets`.
const GLOBAL_SHAPE: &str = "global_shape";

/// Returns the names of the files of processes in a folder, in order.
pub(super) fn in_folder(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        if let Ok(name) = entry?.file_name().into_string()
            && RankFile::parse(Path::new(&name)).is_some()
            && folder.join(&name).is_file()
        {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Returns whether a file belongs to one process, by its name.
pub(in crate::file) fn is_one(path: &Path) -> bool {
    RankFile::parse(path).is_some()
}

/// The numbers in the name of a file: `shard-00002-model-00001-of-00003.safetensors`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RankFile {
    /// The number of the process, from 1.
    process: u64,
    /// The number of the file, from 1 to `count`. A tensor has the same number in all processes.
    number: u64,
    count: u64,
}

impl RankFile {
    fn parse(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let (process, file) = name.strip_prefix("shard-")?.strip_suffix(".safetensors")?.split_once("-model-")?;
        let (number, count) = file.split_once("-of-")?;
        let parse = |text: &str| {
            let is_number = text.len() >= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| text.parse().ok())?
        };
        Some(Self { process: parse(process)?, number: parse(number)?, count: parse(count)? })
    }
}

/// Files that seem to be missing, because there is a gap in the numbers.
struct Missing {
    /// The name of the first missing file, with `*` for an unknown number.
    name: String,
    /// The harmless reason for the gap.
    unless: String,
}

impl Missing {
    /// Looks for processes without files between those with files, and for numbers that no process has.
    fn of(files: &[RankFile]) -> Vec<Self> {
        let Some(count) = files.first().map(|file| file.count) else { return Vec::new() };
        let last = files.iter().map(|file| file.process).max().unwrap_or_default();
        let process = first_gap(files.iter().map(|file| file.process), last).map(|(process, gaps)| {
            let number = if count == 1 { "00001" } else { "*" };
            let others = if gaps == 1 { String::new() } else { format!(", and {} others,", gaps - 1) };
            Self {
                name: format!("shard-{process:05}-model-{number}-of-{count:05}.safetensors"),
                unless: format!("process {process}{others} had nothing to save"),
            }
        });
        let number = first_gap(files.iter().map(|file| file.number), count).map(|(number, gaps)| {
            let others = if gaps == 1 { String::new() } else { format!(", nor to {} other numbers", gaps - 1) };
            Self {
                name: format!("shard-*-model-{number:05}-of-{count:05}.safetensors"),
                unless: format!("no tensor belongs to number {number}{others}"),
            }
        });
        process.into_iter().chain(number).collect()
    }
}

/// Returns the first missing number from 1 to `last`, and how many are missing.
fn first_gap(numbers: impl Iterator<Item = u64>, last: u64) -> Option<(u64, u64)> {
    let known: HashSet<u64> = numbers.filter(|number| (1..=last).contains(number)).collect();
    let gaps = last - known.len() as u64;
    (1..=last).find(|number| !known.contains(number)).map(|first| (first, gaps))
}

/// Refuses files of two saves. A folder can have both, because a save with other numbers does not overwrite the older
/// files.
fn check_counts(names: &[&str], files: &[RankFile]) -> Result<()> {
    let mut both = names.iter().zip(files);
    let Some((first, RankFile { count, .. })) = both.next() else { return Ok(()) };
    let Some((other, _)) = both.find(|(_, file)| file.count != *count) else { return Ok(()) };
    Err(malformed(format!(
        "`{first}` and `{other}` are not of one save, as their counts differ; remove the files of the older save"
    )))
}

impl OpenOptions {
    /// Opens the files of processes in a folder as one.
    pub(super) fn open_rank_files(&self, place: &Place) -> Result<File> {
        let names: Vec<&str> = place.rank_files.iter().map(String::as_str).collect();
        let numbers: Vec<RankFile> = names.iter().filter_map(|name| RankFile::parse(Path::new(name))).collect();
        check_counts(&names, &numbers)?;
        let missing = Missing::of(&numbers);
        let files =
            self.open_files(&*place.siblings, &names, &|i, error| place.siblings.cannot_open(names[i], error))?;
        let paths: Vec<PathBuf> = files.iter().filter_map(|file| file.location.clone()).collect();
        let (mut tensors, mut own) = (IndexMap::<String, Vec<FoundChunk>>::new(), Vec::new());
        for (number, (file, path)) in files.iter().zip(&paths).enumerate() {
            let mut metadata = file.metadata_in(&file.storage, file.metadata.as_ref())?;
            let chunks = chunks_of(file, &metadata).map_err(|error| error.in_shard(path, 0))?;
            for (name, chunk, whole) in chunks {
                tensors.entry(name).or_default().push(FoundChunk { file: number, chunk, whole });
            }
            metadata.entries.retain(|key, _| !describes_layout(key));
            own.push(Some(metadata));
        }
        let format = files.first().map(|file| file.format).expect("there is a file");
        let mut index = ChunkedIndex::new(files.into_iter().map(|file| file.storage).collect())?;
        for (name, chunks) in tensors {
            let pushed = join(&chunks).and_then(|(dtype, shape)| {
                let (mut known, mut places) = (Vec::with_capacity(chunks.len()), HashSet::new());
                for FoundChunk { file, chunk, .. } in chunks {
                    // A chunk stored by several processes is read once.
                    let is_empty = chunk.info.shape.dims().contains(&0);
                    if !is_empty && places.insert((chunk.offsets.clone(), chunk.info.shape.clone())) {
                        known.push(StoredChunk { range: index.place(file, chunk.range), ..chunk });
                    }
                }
                index.push_chunks(&name, (dtype, shape), known)
            });
            let pushed = pushed.map_err(|error| match (error.kind(), missing.first()) {
                (ErrorKind::Malformed { what }, Some(Missing { name, .. })) => {
                    malformed(format!("{what}; the folder has no `{name}`"))
                }
                _ => error,
            });
            pushed.map_err(|error| error.in_tensor(&*name).in_format(format.name))?;
        }
        let mut metadata = FileMetadata::default();
        for Missing { name, unless } in missing {
            let text = format!("the folder has no `{name}`; it is missing, unless {unless}");
            metadata.warnings.push(Warning::new(WarningKind::Part, text));
        }
        let files = Shards { paths, metadata, own, archives: Vec::new() };
        index.finish(format, &place.name, files, &self.limits)
    }
}

/// A chunk in one of the files.
struct FoundChunk {
    file: usize,
    chunk: StoredChunk,
    /// The shape of the whole tensor, if the file states it.
    whole: Option<Shape>,
}

/// Returns the chunks of a file, with their names and the shapes of the whole tensors.
fn chunks_of(file: &File, metadata: &FileMetadata) -> Result<Vec<(String, StoredChunk, Option<Shape>)>> {
    let in_format = |error: Error| error.in_format(file.format.name);
    let Some(json) = metadata.entries.get(OFFSETS) else {
        let what = format!("the metadata has no `{OFFSETS}`, which says where the tensors of a process belong");
        return Err(in_format(malformed(what)));
    };
    let offsets: Map<String, Value> = serde_json::from_str(json)
        .map_err(|error| in_format(malformed(format!("`{OFFSETS}` in the metadata is malformed: {error}"))))?;
    let chunk = |i: usize| {
        let (entry, name) = (file.index.entry(i), file.index.name(i));
        let (saved, rank) = (offsets.get(name), entry.info().shape.rank());
        let number = |number: &Value| number.as_u64().and_then(|number| usize::try_from(number).ok());
        let numbers = |key: &str| {
            let numbers = saved.and_then(|saved| saved.get(key)?.as_array());
            let numbers: Option<Shape> = numbers.and_then(|numbers| numbers.iter().map(number).collect());
            let numbers = numbers.filter(|numbers| numbers.rank() == rank);
            numbers.ok_or_else(|| {
                let what = format!("`{OFFSETS}` has no `{key}` of {rank} numbers for it");
                in_format(malformed(what).in_tensor(name))
            })
        };
        let offsets = numbers("saved_offsets")?;
        let states_whole = saved.is_some_and(|saved| saved.get(GLOBAL_SHAPE).is_some());
        let whole = states_whole.then(|| numbers(GLOBAL_SHAPE)).transpose()?;
        let (info, range, codec) = (entry.info().clone(), entry.range(), entry.any_codec().cloned());
        Ok((name.to_owned(), StoredChunk { offsets, info, range, codec }, whole))
    };
    (0..file.len()).map(chunk).collect()
}

/// Returns the dtype of the chunks, and the shape of the whole tensor: the stated one, or the one that contains all of them.
fn join(chunks: &[FoundChunk]) -> Result<(Dtype, Shape)> {
    let first = &chunks.first().expect("a tensor has a chunk").chunk;
    let stated = chunks.iter().find_map(|found| found.whole.as_ref());
    let (dtype, mut ends) = (first.info.dtype, vec![0; first.info.shape.rank()]);
    for FoundChunk { chunk: StoredChunk { offsets, info, .. }, whole, .. } in chunks {
        if let (Some(one), Some(other)) = (stated, whole)
            && one != other
        {
            return Err(malformed(format!("its chunks state the shapes {one} and {other}")));
        }
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
    let ends: Shape = ends.into();
    match stated {
        Some(whole) if ends.iter().zip(whole.iter()).any(|(end, dim)| end > dim) => {
            Err(malformed(format!("its chunks end at {ends}, beyond the stated shape {whole}")))
        }
        Some(whole) => Ok((dtype, whole.clone())),
        None => Ok((dtype, ends)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_processes_are_taken() {
        let name = "shard-00012-model-00001-of-100002.safetensors";
        let expected = RankFile { process: 12, number: 1, count: 100_002 };
        assert_eq!(RankFile::parse(Path::new(name)), Some(expected));
        for other in [
            "model-00001-of-00002.safetensors",
            "shard-00001-model-00001-of-00002.pt",
            "shard-1-model-00001-of-00002.safetensors",
            "shard-00001-model-00001-of-0000x.safetensors",
            "shard-00001-model-00001-of-99999999999999999999.safetensors",
            "shard-00001.safetensors",
        ] {
            assert_eq!(RankFile::parse(Path::new(other)), None, "{other}");
        }
    }

    #[test]
    fn gaps_are_found_at_once() {
        for (numbers, last, expected) in [
            (&[1, 2, 3][..], 3, None),
            (&[3, 3, 1], 3, Some((2, 1))),
            (&[0, 9], 1, Some((1, 1))),
            (&[u64::MAX], u64::MAX, Some((1, u64::MAX - 1))),
            (&[], 0, None),
        ] {
            assert_eq!(first_gap(numbers.iter().copied(), last), expected, "{numbers:?} of {last}");
        }
    }
}
