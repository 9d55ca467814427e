//! Opens folders of `torch.distributed.checkpoint` as one file. `format::pytorch::dcp` describes their bytes.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use indexmap::IndexMap;

use super::chunked::{ChunkedIndex, StoredChunk, malformed};
use super::directory::{METADATA, PICKLE};
use super::shards::is_file_name;
use crate::error::{Error, ErrorKind, Result, Short, Warning, WarningKind};
use crate::file::file::Shards;
use crate::file::place::Place;
use crate::file::{File, OpenOptions};
use crate::format::pytorch::FORMAT;
use crate::format::pytorch::dcp::{
    self, Item, ItemContents, ItemTensor, ItemValues, Saved, SavedChunk, SavedFolder, SavedTensor,
};
use crate::model::{FileMetadata, SavedValues};
use crate::storage::{FileReader, FileStorage, ReadAt};
use crate::tensor::TensorInfo;
use crate::threads;

/// The most warnings of items.
const WARNINGS: usize = 16;

/// Returns whether a file is the metadata of a folder.
pub(super) fn is_metadata(file: &mut dyn ReadAt, storage: &FileStorage, path: &Path) -> Result<bool> {
    let mut begin = [0];
    if path.file_name().is_none_or(|name| name != METADATA) || storage.len() == 0 {
        return Ok(false);
    }
    file.read_at(0, &mut begin)?;
    Ok(begin == [PICKLE])
}

impl OpenOptions {
    /// Opens the folder of a metadata file. With `only`, the file may have just the tensor of this name.
    pub(super) fn open_saved_folder(&self, place: &Place, only: Option<&str>) -> Result<File> {
        if let Some(name) = only
            && let Ok(file) = self.open_saved(place, only)
            && file.position(name).is_some()
        {
            return Ok(file);
        }
        // Opening the whole folder gives the error: it knows all names.
        self.open_saved(place, None)
    }

    fn open_saved(&self, place: &Place, only: Option<&str>) -> Result<File> {
        let folder = self.saved_folder(&place.storage, only)?;
        let names: Vec<&str> = folder.files.iter().map(String::as_str).collect();
        let explain = |i: usize, error: &io::Error| absent(&folder, names[i], error);
        let opened = place.siblings.open_each(&names, &explain, &|storage, path| Ok((storage, path)))?;
        let (files, paths) = opened.into_iter().unzip();
        self.join_saved(folder, files, &place.name, paths)
    }

    /// Reads metadata, and checks the names in it.
    fn saved_folder(&self, metadata: &FileStorage, only: Option<&str>) -> Result<SavedFolder> {
        let read = dcp::read_metadata(&mut FileReader::with_index(metadata), &self.limits);
        let mut folder = read.map_err(|error| error.in_format(FORMAT.name))?;
        if let Some(only) = only {
            // The tensor may be in a value that was saved as a whole.
            let is_in =
                |name: &str| only.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
            folder.retain(&is_in);
        }
        for (number, name) in folder.files.iter().enumerate() {
            if !is_file_name(name) {
                let tensor = folder.first_in(number);
                let name = name.escape_debug();
                let what =
                    format!("it is said to be in `{name}`, which is not the name of a file next to the metadata");
                return Err(malformed(what).in_tensor(tensor).in_format(FORMAT.name));
            }
        }
        Ok(folder)
    }

    /// Joins the files of a folder, in the order of its list.
    fn join_saved(
        &self,
        folder: SavedFolder,
        files: Vec<FileStorage>,
        location: &Path,
        paths: Vec<PathBuf>,
    ) -> Result<File> {
        let mut contents = FileMetadata { version: folder.version.clone(), ..FileMetadata::default() };
        contents.warnings.extend(folder.warning.clone());
        let mut entries = Vec::with_capacity(folder.entries.len());
        self.read_items(&folder, &files, &paths, &mut |run, warnings| {
            entries.extend(run);
            contents.warnings.extend(warnings);
        })?;
        contents.saved = Some(Arc::new(saved_values(&folder, &entries, &files)?));
        let mut index = ChunkedIndex::new(files.into_iter().map(Arc::new).collect())?;
        // Names joined by dots may be equal, as in a file of `torch.save`.
        index.let_names_repeat();
        let mut archives = Vec::new();
        for item in folder.items().filter(|item| item.transforms.is_none()) {
            archives.push(index.place(item.file, item.range.clone()));
        }
        archives.sort_unstable_by_key(|archive: &Range<u64>| archive.start);
        for (entry, (name, saved)) in entries.into_iter().zip(folder.entries) {
            let name = &*name;
            let pushed = match (entry, &saved) {
                (ReadEntry::Values(file, ItemValues { tensors, texts, warnings: _ }), _) => {
                    for (name, text) in texts {
                        if let Some(warning) = replaced(&mut contents, &name, text) {
                            contents.warnings.push(warning);
                        }
                    }
                    tensors.into_iter().try_for_each(|ItemTensor { name, info, range, codec }| {
                        let range = index.place(file, range);
                        index.push(&name, info, range, codec)
                    })
                }
                (ReadEntry::Whole(info, item), _) => {
                    let place = item.map_or(0..0, |item| index.place(item.file, item.range));
                    index.push(name, info, place, None)
                }
                (ReadEntry::Chunks(chunks), Saved::Tensor(tensor)) => {
                    let chunks = chunks
                        .into_iter()
                        .map(|(file, chunk)| StoredChunk { range: index.place(file, chunk.range), ..chunk });
                    let chunks = chunks.collect();
                    match tensor.dtype() {
                        Some(dtype) => index.push_chunks(name, (dtype, tensor.shape.clone()), chunks),
                        None => push_unknown(&mut index, name, tensor, chunks),
                    }
                }
                (ReadEntry::Chunks(_), Saved::Object(_)) => unreachable!("an object has no chunks"),
            };
            pushed.map_err(|error| error.in_tensor(name).in_format(FORMAT.name))?;
        }
        contents.warnings.truncate(WARNINGS);
        let (found, limit) = (index.pushed() as u64, self.limits.tensors);
        if found > limit {
            return Err(ErrorKind::Limit { what: "number of tensors", found, limit }.into());
        }
        let own = paths.iter().map(|_| Some(FileMetadata::default())).collect();
        index.finish(&FORMAT, location, Shards { paths, metadata: contents, own, archives }, &self.limits)
    }

    /// Reads all items, many of them in several threads. Calls `take` with the entries and the warnings of each run of
    /// entries, in order.
    fn read_items(
        &self,
        folder: &SavedFolder,
        files: &[FileStorage],
        paths: &[PathBuf],
        take: &mut dyn FnMut(Vec<ReadEntry>, Vec<Warning>),
    ) -> Result<()> {
        /// The fewest entries in a run, and the most runs.
        const RUN: (usize, usize) = (256, 64);
        /// The number of payload bytes that take about as long to read as an item.
        const ITEM: usize = 4 << 10;

        announce(folder, files);
        let entries = folder.entries.as_slice();
        let len = entries.len().div_ceil(RUN.1).max(RUN.0);
        let work = |number: usize, run: &mut Option<Result<(Vec<ReadEntry>, Vec<Warning>)>>| {
            let mut readers: Vec<FileReader<'_>> = files.iter().map(FileReader::with_index).collect();
            let mut warnings = Vec::new();
            let start = number * len;
            let entries = entries.get_range(start..(start + len).min(entries.len())).expect("it is in the folder");
            let read = entries.iter().map(|(name, saved)| {
                let entry = match saved {
                    Saved::Object(item) => self.read_object(name, item, &mut readers, &mut warnings),
                    Saved::Tensor(tensor) => self.read_chunks(name, tensor, &mut readers, &mut warnings),
                };
                entry.map_err(|(file, error)| error.in_tensor(name).in_format(FORMAT.name).in_shard(&paths[file], 0))
            });
            *run = Some(read.collect::<Result<_>>().map(|read| (read, warnings)));
        };
        // Servers were already asked for all items.
        let bytes = if files.iter().any(|file| file.takes_requests(0)) {
            0
        } else {
            ITEM.saturating_mul(folder.items().count())
        };
        threads::in_order(&mut Vec::new(), entries.len().div_ceil(len), bytes, &work, &mut |run| {
            let (entries, warnings) = run.take().expect("each run is read")?;
            take(entries, warnings);
            Ok(())
        })
    }

    /// Reads the items of a tensor. An error comes with the number of its file.
    fn read_chunks(
        &self,
        name: &str,
        tensor: &SavedTensor,
        readers: &mut [FileReader<'_>],
        warnings: &mut Vec<Warning>,
    ) -> Result<ReadEntry, (usize, Error)> {
        for SavedChunk { item, .. } in &tensor.chunks {
            check_range(item, readers).map_err(|error| (item.file, error))?;
        }
        if let Some(changed) = tensor.chunks.iter().find_map(|chunk| chunk.item.transforms.as_deref()) {
            // Several chunks have no range of their own in one file.
            let item = match &tensor.chunks[..] {
                [chunk] => Some(chunk.item.clone()),
                _ => None,
            };
            let bytes = item.as_ref().map_or(0, |item| item.range.end - item.range.start);
            return Ok(ReadEntry::Whole(tensor.unknown(Some(changed), bytes), item));
        }
        let mut chunks = Vec::with_capacity(tensor.chunks.len());
        for chunk in &tensor.chunks {
            let file = chunk.item.file;
            let read = dcp::read_tensor(&mut readers[file], (name, tensor, chunk), &self.limits, warnings);
            let (info, range, codec) = read.map_err(|error| (file, error))?;
            chunks.push((file, StoredChunk { offsets: chunk.offsets.clone(), info, range, codec }));
        }
        Ok(ReadEntry::Chunks(chunks))
    }

    /// Reads an item other than a tensor.
    fn read_object(
        &self,
        name: &str,
        item: &Item,
        readers: &mut [FileReader<'_>],
        warnings: &mut Vec<Warning>,
    ) -> Result<ReadEntry, (usize, Error)> {
        let read = check_range(item, readers)
            .and_then(|()| dcp::read_object(&mut readers[item.file], name, item, &self.limits));
        match read.map_err(|error| (item.file, error))? {
            ItemContents::Values(mut values) => {
                warnings.append(&mut values.warnings);
                Ok(ReadEntry::Values(item.file, values))
            }
            ItemContents::Opaque => {
                let bytes = usize::try_from(item.range.end - item.range.start).unwrap_or(usize::MAX);
                Ok(ReadEntry::Whole(TensorInfo::blob(bytes), Some(item.clone())))
            }
        }
    }
}

/// An entry of a folder after reading its items.
enum ReadEntry {
    /// The values of an item, with the number of its file.
    Values(usize, ItemValues),
    /// An item as uninterpreted bytes; `None` for a tensor in several chunks.
    Whole(TensorInfo, Option<Item>),
    /// The chunks of a tensor, each with the number of its file.
    Chunks(Vec<(usize, StoredChunk)>),
}

/// Returns what another folder can have of this one besides tensors: the paths of names, and objects without tensors.
/// Long ones are left out.
fn saved_values(folder: &SavedFolder, entries: &[ReadEntry], files: &[FileStorage]) -> Result<SavedValues> {
    /// The most bytes of an object, and of all of them.
    const MOST: (u64, u64) = (1 << 20, 64 << 20);

    let mut saved = SavedValues { paths: folder.paths.clone(), objects: IndexMap::new() };
    let mut left = MOST.1;
    for (entry, (name, value)) in entries.iter().zip(&folder.entries) {
        let (ReadEntry::Values(_, values), Saved::Object(item)) = (entry, value) else { continue };
        let len = item.range.end - item.range.start;
        let Some(rest) = left.checked_sub(len).filter(|_| values.tensors.is_empty() && len <= MOST.0) else { continue };
        left = rest;
        let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
        FileReader::with_index(&files[item.file]).read_at(item.range.start, &mut bytes)?;
        saved.objects.insert(name.clone(), bytes);
    }
    Ok(saved)
}

/// Adds a text to the metadata. Returns a warning if it replaces a text of the same name.
fn replaced(contents: &mut FileMetadata, name: &str, text: String) -> Option<Warning> {
    contents.entries.insert(name.to_owned(), text)?;
    let text = format!("two values are named `{}`; the last one is kept", Short(name));
    Some(Warning::new(WarningKind::Metadata, text).in_tensor(name))
}

/// Adds a tensor of unknown dtype. Several chunks are not put together, so the tensor has no bytes then.
fn push_unknown(index: &mut ChunkedIndex, name: &str, tensor: &SavedTensor, chunks: Vec<StoredChunk>) -> Result<()> {
    let mut chunks = chunks.into_iter();
    match (chunks.next(), chunks.next()) {
        (Some(StoredChunk { info, range, codec, .. }), None) if info.shape == tensor.shape => {
            index.push(name, info, range, codec)
        }
        _ => index.push(name, tensor.unknown(None, 0), 0..0, None),
    }
}

/// Announces the beginnings and the ends of all items, which the reader of an archive needs first.
fn announce(folder: &SavedFolder, files: &[FileStorage]) {
    /// At least the length of the directory of an archive with one tensor.
    const END: u64 = 1 << 10;

    let mut offsets = vec![Vec::new(); files.len()];
    for Item { file, range, .. } in folder.items() {
        offsets[*file].extend([range.start, range.end.saturating_sub(END).max(range.start)]);
    }
    for (mut offsets, file) in offsets.into_iter().zip(files) {
        offsets.sort_unstable();
        FileReader::with_index(file).will_read(&mut offsets.into_iter());
    }
}

/// Checks that an item is within its file.
fn check_range(item: &Item, readers: &[FileReader<'_>]) -> Result<()> {
    let len = readers[item.file].file_len().unwrap_or_default();
    let (start, needed) = (item.range.start, item.range.end - item.range.start);
    let left = len.saturating_sub(start);
    if needed <= left {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Truncated { needed, left }).at(start))
}

/// Returns the error for a file that cannot be opened. A missing file is usually from a process that did not finish.
fn absent(folder: &SavedFolder, name: &str, error: &io::Error) -> Error {
    let number = folder.files.iter().position(|file| file == name).unwrap_or_default();
    let tensor = folder.first_in(number);
    let end = match error.kind() {
        io::ErrorKind::NotFound => "; the process that saves it did not finish, or it was not copied",
        _ => "",
    };
    let message = format!("{name}: {error}; the metadata says that `{}` is in it{end}", Short(tensor));
    io::Error::new(error.kind(), message).into()
}
