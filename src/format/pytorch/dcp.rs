//! Folders of `torch.distributed.checkpoint`, which trainers save: `.metadata`, and the items in `__0_0.distcp`, ….
//!
//! ```text
//! .metadata      pickle of Metadata: the shape, the dtype and the chunks of each tensor, and the item of each chunk
//! __R_N.distcp   item*, of process R; an item is an archive of `torch.save`, with offsets from its own start
//!
//! Metadata              state_dict_metadata: {name: TensorStorageMetadata | BytesStorageMetadata}
//!                       storage_data: {MetadataIndex: _StorageInfo} | planner_data | storage_meta | version
//! TensorStorageMetadata properties: TensorProperties | size: torch.Size | chunks: [ChunkStorageMetadata]
//! TensorProperties      (dtype, layout, requires_grad, memory_format, pin_memory, strides): a tuple as its state
//! ChunkStorageMetadata  offsets: torch.Size | sizes: torch.Size
//! MetadataIndex         fqn: str | offset: torch.Size | index: int
//! _StorageInfo          relative_path: str | offset: int | length: int | transform_descriptors: [str]
//!
//! Only the dtype of TensorProperties is used. Older versions have no strides. These classes are not used:
//! BytesStorageMetadata  nothing
//! StorageMeta           checkpoint_id: str | save_id: str | load_id: str | modules: [str]
//! _MEM_FORMAT_ENCODING  TORCH_CONTIGUOUS_FORMAT | TORCH_CHANNELS_LAST | TORCH_PRESERVE_FORMAT
//! ```
//!
//! A tensor in one chunk is the tensor of its item, with its memory order. Several chunks are put together. An item of
//! bytes is any value, read as a file of `torch.save` is.
//!
//! Megatron-Core adds attributes and classes of its own, such as the plans of all processes. Only what is listed here
//! is read.
//!
//! # Specification
//!
//! `metadata.py`, `filesystem.py` and `planner_helpers.py` in `torch/distributed/checkpoint` of PyTorch 1.13 to 2.15,
//! the first of which has them in `torch/distributed/_shard/checkpoint`.
//!
//! # Deviations
//!
//! - A global in place of one that is listed here is an error, which names it. PyTorch would run it. Any other is left
//!   out, with a [warning](crate::report::WarningKind::LeftOut), unless it is a class of PyTorch or Megatron-Core.
//! - Chunks with the same place are copies of one; the first that is stored is read. Any other overlap is an error, and
//!   so is a part of a tensor that no chunk has.
//! - Items that are compressed or changed by an extension (`transform_descriptors`) are of
//!   [unknown](crate::Layout::Unknown) dtype.
//! - Items that `torch.save` did not write are [blobs](crate::Blob).
//! - Names are joined by dots. The planner's data, which restore nested names, are kept for another folder only.

use std::ops::Range;

use hashbrown::{HashMap, HashSet};
use indexmap::IndexMap;

use super::collect::Checkpoint;
use super::de::{ZIP, read_archive};
use super::header::Tag;
use super::pickle::{Input, malformed, read};
use super::value::{Heap, PickleValue};
use crate::error::{Error, ErrorKind, Result, Short, Warning, WarningKind};
use crate::limits::Limits;
use crate::model::PathPart;
use crate::read::{Codec, Entry};
use crate::storage::{ReadAt, Section};
use crate::tensor::{Dtype, Layout, Shape, TensorInfo};

/// The contents of a folder, as its metadata lists them.
#[derive(Debug, Default)]
pub(crate) struct SavedFolder {
    pub(crate) version: Option<String>,
    /// The parts of the metadata left out.
    pub(crate) warning: Option<Warning>,
    /// The names of the files with items.
    pub(crate) files: Vec<String>,
    /// In the order of the metadata, by name.
    pub(crate) entries: IndexMap<String, Saved>,
    /// The paths of values in the nested value that was saved, by name.
    pub(crate) paths: IndexMap<String, Vec<PathPart>>,
}

/// A value of a folder.
#[derive(Debug)]
pub(crate) enum Saved {
    Tensor(SavedTensor),
    /// A number, a text, or any other value.
    Object(Item),
}

/// A dtype of PyTorch.
#[derive(Debug)]
enum SavedDtype {
    Known(&'static Tag),
    /// A dtype that is unknown, by its name.
    Other(String),
}

impl SavedDtype {
    /// Returns the name in the module `torch`.
    fn name(&self) -> &str {
        match self {
            Self::Known(tag) => tag.name,
            Self::Other(name) => name,
        }
    }

    fn dtype(&self) -> Option<Dtype> {
        match self {
            Self::Known(tag) => tag.dtype,
            Self::Other(_) => None,
        }
    }
}

/// A tensor of a folder.
#[derive(Debug)]
pub(crate) struct SavedTensor {
    saved_dtype: SavedDtype,
    pub(crate) shape: Shape,
    /// The chunks, without empty ones and copies.
    pub(crate) chunks: Vec<SavedChunk>,
}

/// A chunk of a tensor.
#[derive(Debug)]
pub(crate) struct SavedChunk {
    /// The first element in each dim.
    pub(crate) offsets: Shape,
    pub(crate) shape: Shape,
    pub(crate) item: Item,
}

/// A part of a file.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    /// The number of the file.
    pub(crate) file: usize,
    pub(crate) range: Range<u64>,
    /// The extensions that changed its bytes.
    pub(crate) transforms: Option<String>,
}

/// The contents of an item, other than a tensor of the metadata.
pub(crate) enum ItemContents {
    Values(ItemValues),
    Opaque,
}

/// The values in an item.
#[derive(Debug, Default)]
pub(crate) struct ItemValues {
    /// With the ranges in the file.
    pub(crate) tensors: Vec<ItemTensor>,
    /// As Python prints them.
    pub(crate) texts: IndexMap<String, String>,
    pub(crate) warnings: Vec<Warning>,
}

/// A tensor in an item.
#[derive(Debug)]
pub(crate) struct ItemTensor {
    pub(crate) name: String,
    pub(crate) info: TensorInfo,
    pub(crate) range: Range<u64>,
    pub(crate) codec: Option<Codec>,
}

impl SavedTensor {
    /// Returns the dtype, if it is known.
    pub(crate) fn dtype(&self) -> Option<Dtype> {
        self.saved_dtype.dtype()
    }

    /// Describes the tensor by the name of its dtype, with the extensions that changed its bytes.
    pub(crate) fn unknown(&self, transforms: Option<&str>, bytes: u64) -> TensorInfo {
        let changed = transforms.map_or(String::new(), |transforms| format!(" ({transforms})"));
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        TensorInfo::unknown(&format!("torch.{}{changed}", self.saved_dtype.name()), self.shape.clone(), bytes)
    }
}

/// Returns whether a global is a class of metadata that is read.
fn is_read(name: &str) -> bool {
    const MODULES: [&str; 5] = [
        "torch.distributed.checkpoint.metadata",
        "torch.distributed._shard.checkpoint.metadata",
        "torch.distributed._shard.sharded_tensor.metadata",
        "torch.distributed.checkpoint.filesystem",
        "torch.distributed._shard.checkpoint.filesystem",
    ];
    name.rsplit_once('.').is_some_and(|(module, _)| MODULES.contains(&module))
}

/// Returns whether a global is a class that such metadata has and that is not read, such as that of a path or of a
/// plan.
fn is_usual(name: &str) -> bool {
    let Some((module, class)) = name.rsplit_once('.') else { return false };
    let is_class = class.trim_start_matches('_').starts_with(|first: char| first.is_ascii_uppercase());
    let is_package = |package: &str| module.strip_prefix(package).is_some_and(|rest| rest.starts_with('.'));
    is_class && (matches!(module, "pathlib" | "pathlib._local") || ["torch", "megatron"].into_iter().any(is_package))
}

/// Reads the metadata of a folder.
pub(crate) fn read_metadata(file: &mut dyn ReadAt, limits: &Limits) -> Result<SavedFolder> {
    let len = file.file_len().unwrap_or_default();
    let most = limits.headers();
    if len > most {
        return Err(ErrorKind::Limit { what: "length of the metadata in bytes", found: len, limit: most }.into());
    }
    let (value, heap) = read(&mut Input::new(file, 0, len), len)?;
    let budget = len.saturating_mul(64).saturating_add(1 << 20);
    let mut reader = FolderReader { heap: &heap, limits, left: budget, files: IndexMap::new(), dtypes: HashSet::new() };
    let mut folder = reader.folder(value)?;
    folder.warning = reader.left_out();
    folder.files = reader.files.into_keys().map(str::to_owned).collect();
    // Files that only have copies are not needed.
    folder.retain(&|_| true);
    check_apart(&folder)?;
    Ok(folder)
}

impl SavedFolder {
    /// Keeps some of the values, and their files.
    pub(crate) fn retain(&mut self, keeps: &dyn Fn(&str) -> bool) {
        self.entries.retain(|name, _| keeps(name));
        let (files, mut numbers) = (std::mem::take(&mut self.files), HashMap::new());
        for item in self.entries.values_mut().flat_map(Saved::items_mut) {
            let count = numbers.len();
            item.file = *numbers.entry(item.file).or_insert_with_key(|file| {
                self.files.push(files[*file].clone());
                count
            });
        }
    }

    /// Returns all items.
    pub(crate) fn items(&self) -> impl Iterator<Item = &Item> {
        self.entries.values().flat_map(Saved::items)
    }

    /// Returns the name of a value in a file.
    pub(crate) fn first_in(&self, file: usize) -> &str {
        let is_in = |saved: &Saved| saved.items().any(|item| item.file == file);
        self.entries.iter().find(|(_, saved)| is_in(saved)).map_or("", |(name, _)| name)
    }
}

impl Saved {
    fn items(&self) -> impl Iterator<Item = &Item> {
        let (object, chunks) = match self {
            Self::Object(item) => (Some(item), &[][..]),
            Self::Tensor(tensor) => (None, &tensor.chunks[..]),
        };
        object.into_iter().chain(chunks.iter().map(|chunk| &chunk.item))
    }

    fn items_mut(&mut self) -> impl Iterator<Item = &mut Item> {
        let (object, chunks) = match self {
            Self::Object(item) => (Some(item), &mut [][..]),
            Self::Tensor(tensor) => (None, &mut tensor.chunks[..]),
        };
        object.into_iter().chain(chunks.iter_mut().map(|chunk| &mut chunk.item))
    }
}

struct FolderReader<'h> {
    heap: &'h Heap,
    limits: &'h Limits,
    /// The remaining steps: a few bytes of a pickle can name a long value again.
    left: u64,
    /// The names of the files with items.
    files: IndexMap<&'h str, ()>,
    /// The globals that are taken for dtypes.
    dtypes: HashSet<u32>,
}

impl<'h> FolderReader<'h> {
    /// The most attributes of an object.
    const ATTRIBUTES: usize = 64;

    fn folder(&mut self, value: PickleValue) -> Result<SavedFolder> {
        // Megatron-Core has another class for it, with more attributes.
        if !matches!(value, PickleValue::Object(_)) || self.attribute(value, "state_dict_metadata")?.is_none() {
            self.expect(value, "Metadata")?;
        }
        let mut items: HashMap<(&str, Option<Shape>), Item> = HashMap::new();
        if let Some(storage) = self.attribute(value, "storage_data")? {
            for pair in self.dict("storage_data", storage)?.chunks_exact(2) {
                self.expect(pair[0], "MetadataIndex")?;
                let name = self.text_of(pair[0], "fqn")?;
                let offset = match self.attribute(pair[0], "offset")? {
                    Some(offset) => Some(self.size(offset)?),
                    None => None,
                };
                let item = self.item(pair[1]).map_err(|error| error.in_tensor(name))?;
                items.insert((name, offset), item);
            }
        }
        let Some(saved) = self.attribute(value, "state_dict_metadata")? else {
            return Err(malformed("the metadata has no `state_dict_metadata`"));
        };
        let mut entries = IndexMap::new();
        let (mut count, most) = (0, self.limits.tensors);
        for pair in self.dict("state_dict_metadata", saved)?.chunks_exact(2) {
            let PickleValue::Text(name) = pair[0] else {
                return Err(malformed(format!("a name is {}, but expected a string", pair[0].kind())));
            };
            let name = self.heap.text(name);
            self.spend(name.len() as u64)?;
            let class = self.class(pair[1]).filter(|class| is_read(class)).and_then(|class| class.rsplit('.').next());
            let entry = match class {
                Some("TensorStorageMetadata") => {
                    let tensor = self.tensor(name, pair[1], &mut items);
                    let tensor = tensor.map_err(|error| error.in_tensor(name))?;
                    count += tensor.chunks.len() as u64;
                    Saved::Tensor(tensor)
                }
                Some("BytesStorageMetadata") => match items.remove(&(name, None)) {
                    Some(item) => Saved::Object(item),
                    None => return Err(malformed("the metadata does not say where it is stored").in_tensor(name)),
                },
                _ => {
                    let found = self.class(pair[1]).map_or_else(|| pair[1].kind().to_owned(), run_by_pytorch);
                    let what = format!("its metadata is {found}, but expected that of a tensor or of bytes");
                    return Err(malformed(what).in_tensor(name));
                }
            };
            count += 1;
            if count > most {
                return Err(ErrorKind::Limit { what: "number of tensors", found: count, limit: most }.into());
            }
            if entries.insert(name.to_owned(), entry).is_some() {
                return Err(ErrorKind::DuplicateName { name: name.to_owned() }.into());
            }
        }
        let version = match self.attribute(value, "version")? {
            Some(PickleValue::Text(version)) => Some(self.heap.text(version).to_owned()),
            _ => None,
        };
        let paths = match self.attribute(value, "planner_data")? {
            Some(PickleValue::Dict(paths)) => self.paths(paths)?,
            _ => IndexMap::new(),
        };
        Ok(SavedFolder { version, entries, paths, ..SavedFolder::default() })
    }

    /// Returns the paths of values whose names alone do not state them.
    fn paths(&mut self, dict: u32) -> Result<IndexMap<String, Vec<PathPart>>> {
        let heap = self.heap;
        let mut paths = IndexMap::new();
        for pair in heap.values(dict).chunks_exact(2) {
            let (PickleValue::Text(name), PickleValue::Tuple(path)) = (pair[0], pair[1]) else { continue };
            self.spend(heap.values(path).len() as u64)?;
            let part = |part: &PickleValue| match *part {
                PickleValue::Text(key) => Some(PathPart::Key(heap.text(key).to_owned())),
                PickleValue::Int(position) => u64::try_from(position).ok().map(PathPart::Position),
                _ => None,
            };
            for part in heap.values(path) {
                if let PickleValue::Text(key) = *part {
                    self.spend(heap.text(key).len() as u64)?;
                }
            }
            let path: Option<Vec<PathPart>> = heap.values(path).iter().map(part).collect();
            let name = heap.text(name);
            if let Some(path) = path.filter(|path| !matches!(&path[..], [PathPart::Key(key)] if key == name)) {
                self.spend(name.len() as u64)?;
                paths.insert(name.to_owned(), path);
            }
        }
        Ok(paths)
    }

    /// Returns a tensor, and takes its items.
    fn tensor(
        &mut self,
        name: &'h str,
        value: PickleValue,
        items: &mut HashMap<(&'h str, Option<Shape>), Item>,
    ) -> Result<SavedTensor> {
        let Some(properties) = self.attribute(value, "properties")? else {
            return Err(malformed("the metadata has no `properties`"));
        };
        let saved_dtype = self.dtype(properties)?;
        let packed = saved_dtype.dtype().map_or(1, Dtype::block_elements);
        let Some(size) = self.attribute(value, "size")? else { return Err(malformed("the metadata has no `size`")) };
        let shape = unpacked(self.size(size)?, packed)?;
        let Some(PickleValue::List(chunks)) = self.attribute(value, "chunks")? else {
            return Err(malformed("the metadata has no list of `chunks`"));
        };
        let heap = self.heap;
        let (mut found, mut places) = (Vec::new(), HashMap::new());
        for &chunk in heap.values(chunks) {
            self.spend(1)?;
            self.expect(chunk, "ChunkStorageMetadata")?;
            let [Some(offsets), Some(sizes)] = [self.attribute(chunk, "offsets")?, self.attribute(chunk, "sizes")?]
            else {
                return Err(malformed("a chunk has no `offsets` and `sizes`"));
            };
            let (offsets, sizes) = (self.size(offsets)?, unpacked(self.size(sizes)?, packed)?);
            if sizes.dims().contains(&0) {
                continue;
            }
            let key = (name, Some(offsets));
            let item = match items.remove(&key) {
                Some(item) => item,
                // A copy of a chunk that was found.
                None if places.get(&key.1) == Some(&sizes) => continue,
                // Not all versions write the offset of a tensor in one chunk.
                None => match items.remove(&(name, None)) {
                    Some(item) => item,
                    None => {
                        let offsets = key.1.unwrap_or_default();
                        return Err(malformed(format!(
                            "the metadata does not say where the chunk at {offsets} is stored"
                        )));
                    }
                },
            };
            let (_, Some(offsets)) = key else { continue };
            places.insert(Some(offsets.clone()), sizes.clone());
            let offsets = unpacked(offsets, packed)?;
            found.push(SavedChunk { offsets, shape: sizes, item });
        }
        Ok(SavedTensor { saved_dtype, shape, chunks: found })
    }

    fn dtype(&mut self, properties: PickleValue) -> Result<SavedDtype> {
        self.expect(properties, "TensorProperties")?;
        let parts = self.parts(properties);
        let dtype = match parts.last() {
            Some(PickleValue::Tuple(state)) => self.heap.values(*state).first().copied(),
            _ => self.attribute(properties, "dtype")?,
        };
        match dtype {
            Some(PickleValue::Dtype(tag)) => Ok(SavedDtype::Known(tag)),
            Some(PickleValue::Global(global)) if self.heap.global_name(global).starts_with("torch.") => {
                self.dtypes.insert(global);
                let name = self.heap.global_name(global);
                self.spend(name.len() as u64)?;
                Ok(SavedDtype::Other(name.trim_start_matches("torch.").to_owned()))
            }
            other => Err(malformed(format!("the dtype is {}", other.map_or("missing", PickleValue::kind)))),
        }
    }

    fn item(&mut self, value: PickleValue) -> Result<Item> {
        self.expect(value, "_StorageInfo")?;
        let path = self.text_of(value, "relative_path")?;
        let file = match self.files.get_index_of(path) {
            Some(file) => file,
            None => self.files.insert_full(path, ()).0,
        };
        let [offset, length] = [self.number(value, "offset")?, self.number(value, "length")?];
        let Some(end) = offset.checked_add(length) else {
            return Err(malformed(format!("its item of {length} bytes at byte {offset} is longer than any file")));
        };
        let transforms = match self.attribute(value, "transform_descriptors")? {
            None | Some(PickleValue::None) => None,
            Some(list) => {
                let names = list.container().map_or(&[][..], |i| self.heap.values(i));
                self.spend(names.len() as u64)?;
                let name = |name: &PickleValue| match *name {
                    PickleValue::Text(name) => Short(self.heap.text(name)).to_string(),
                    other => other.kind().to_owned(),
                };
                Some(names.iter().take(8).map(name).collect::<Vec<_>>().join(", ")).filter(|names| !names.is_empty())
            }
        };
        Ok(Item { file, range: offset..end, transforms })
    }

    /// Returns the parts of an object: its arguments and its state.
    fn parts(&self, object: PickleValue) -> &'h [PickleValue] {
        match object {
            PickleValue::Object(i) => self.heap.values(self.heap.objects[i as usize].parts),
            _ => &[],
        }
    }

    /// Returns an attribute of an object. `None` if it is missing or is `None`.
    fn attribute(&mut self, object: PickleValue, name: &str) -> Result<Option<PickleValue>> {
        for state in self.parts(object).iter().skip(1).step_by(2).rev() {
            let PickleValue::Dict(state) = state else { continue };
            let pairs = self.heap.values(*state);
            if pairs.len() > 2 * Self::ATTRIBUTES {
                return Err(malformed("an object of the metadata has too many attributes"));
            }
            let is_named =
                |pair: &&[PickleValue]| matches!(pair[0], PickleValue::Text(key) if self.heap.text(key) == name);
            if let Some(pair) = pairs.chunks_exact(2).rfind(is_named) {
                return Ok(Some(pair[1]).filter(|value| !matches!(value, PickleValue::None)));
            }
        }
        Ok(None)
    }

    /// Returns the class of an object.
    fn class(&self, value: PickleValue) -> Option<&'h str> {
        let PickleValue::Object(i) = value else { return None };
        Some(self.heap.global_name(self.heap.objects[i as usize].class))
    }

    /// Checks the class of an object.
    fn expect(&mut self, value: PickleValue, class: &str) -> Result<()> {
        self.spend(1)?;
        let found = self.class(value);
        if found.is_some_and(|found| is_read(found) && found.rsplit('.').next() == Some(class)) {
            return Ok(());
        }
        let found = found.map_or_else(|| value.kind().to_owned(), run_by_pytorch);
        Err(malformed(format!("the metadata has {found}, but expected `{class}`")))
    }

    /// Returns a warning about unread globals, if any are not from PyTorch or Megatron-Core.
    fn left_out(&self) -> Option<Warning> {
        let mut names: Vec<&str> = Vec::new();
        for (i, global) in (0..).zip(&self.heap.globals) {
            let name = self.heap.text(global.name);
            if global.function.is_none() && !is_read(name) && !is_usual(name) && !self.dtypes.contains(&i) {
                names.push(name);
            }
        }
        names.sort_unstable();
        names.dedup();
        let (first, others) = names.split_first()?;
        let others = match others.len() {
            0 => String::new(),
            1 => " and another global".to_owned(),
            others => format!(" and {others} other globals"),
        };
        let text = format!("the metadata names {}{others}; it is left out, and nothing is run", run_by_pytorch(first));
        Some(Warning::new(WarningKind::LeftOut, text))
    }

    fn dict(&self, name: &str, value: PickleValue) -> Result<&'h [PickleValue]> {
        match value {
            PickleValue::Dict(i) => Ok(self.heap.values(i)),
            other => Err(malformed(format!("`{name}` is {}, but expected a dict", other.kind()))),
        }
    }

    fn text_of(&mut self, object: PickleValue, name: &str) -> Result<&'h str> {
        match self.attribute(object, name)? {
            Some(PickleValue::Text(text)) => {
                let text = self.heap.text(text);
                self.spend(text.len() as u64)?;
                Ok(text)
            }
            other => {
                let found = other.map_or("missing", PickleValue::kind);
                Err(malformed(format!("`{name}` is {found}, but expected a string")))
            }
        }
    }

    fn number(&mut self, object: PickleValue, name: &'static str) -> Result<u64> {
        match self.attribute(object, name)? {
            Some(PickleValue::Int(number)) => u64::try_from(number).map_err(|_| {
                let expected = "0 or more".to_owned();
                ErrorKind::BadNumber { what: name, found: number.into(), expected }.into()
            }),
            other => {
                let found = other.map_or("missing", PickleValue::kind);
                Err(malformed(format!("`{name}` is {found}, but expected an integer")))
            }
        }
    }

    /// Returns the dims of a `torch.Size`.
    fn size(&mut self, value: PickleValue) -> Result<Shape> {
        let Some(dims) = value.container().filter(|_| !matches!(value, PickleValue::Dict(_))) else {
            return Err(malformed(format!("a size is {}, but expected a tuple", value.kind())));
        };
        let dims = self.heap.values(dims);
        self.spend(dims.len() as u64)?;
        if dims.len() as u64 > self.limits.rank {
            let (found, limit) = (dims.len() as u64, self.limits.rank);
            return Err(ErrorKind::Limit { what: "rank", found, limit }.into());
        }
        let dim = |dim: &PickleValue| match *dim {
            PickleValue::Int(dim) => usize::try_from(dim).map_err(|_| {
                let expected = "0 or more".to_owned();
                Error::new(ErrorKind::BadNumber { what: "dim", found: dim.into(), expected })
            }),
            other => Err(malformed(format!("a dim is {}, but expected an integer", other.kind()))),
        };
        dims.iter().map(dim).collect()
    }

    fn spend(&mut self, steps: u64) -> Result<()> {
        let left = self.left.checked_sub(steps);
        self.left = left.ok_or_else(|| malformed("the metadata names long values too often"))?;
        Ok(())
    }
}

/// Describes a global that is not read.
fn run_by_pytorch(name: &str) -> String {
    format!("`{}`, which PyTorch would run", Short(name))
}

/// Returns a shape or offsets in elements. PyTorch counts the bytes along the last dim if elements share them.
fn unpacked(shape: Shape, packed: usize) -> Result<Shape> {
    if packed == 1 {
        return Ok(shape);
    }
    let mut dims = shape.dims().to_vec();
    if let Some(last) = dims.last_mut() {
        *last = last.checked_mul(packed).ok_or_else(|| malformed(format!("a size is {shape}")))?;
    }
    Ok(dims.into())
}

/// Checks that no two items share bytes, so that reading all of them takes no longer than reading the files.
fn check_apart(folder: &SavedFolder) -> Result<()> {
    let mut items: Vec<(&Item, &str)> = Vec::new();
    for (name, saved) in &folder.entries {
        items.extend(saved.items().map(|item| (item, &**name)));
    }
    items.sort_unstable_by_key(|(item, _)| (item.file, item.range.start, item.range.end));
    for pair in items.windows(2) {
        let ((one, first), (two, second)) = (pair[0], pair[1]);
        if one.file == two.file && two.range.start < one.range.end {
            let (first, file) = (Short(first), Short(&folder.files[one.file]));
            let what = format!("its item at byte {} of `{file}` is also a part of `{first}`", two.range.start);
            return Err(malformed(what).in_tensor(second));
        }
    }
    Ok(())
}

/// Calls `take` with the header, the range in the file and the codec of the tensor in an item.
pub(crate) fn read_tensor(
    file: &mut dyn ReadAt,
    (name, tensor, chunk): (&str, &SavedTensor, &SavedChunk),
    limits: &Limits,
    warnings: &mut Vec<Warning>,
) -> Result<(TensorInfo, Range<u64>, Option<Codec>)> {
    let Item { range, .. } = &chunk.item;
    let contents = contents(file, range, name, limits)?;
    if contents.tensors.pushed() == 0 || contents.tensors.name(0) != name {
        return Err(malformed("its item is not a tensor").at(range.start));
    }
    let entry = contents.tensors.entry(0);
    check_item(&entry, tensor, chunk).map_err(|error| error.at(range.start))?;
    warnings.extend(contents.warnings.into_iter().map(|warning| Warning { offset: None, ..warning }));
    let Range { start, end } = entry.range();
    let codec = entry.any_codec().cloned();
    Ok((entry.info().clone(), range.start + start..range.start + end, codec))
}

/// Compares the tensor of an item with the metadata.
fn check_item(entry: &Entry<'_>, tensor: &SavedTensor, chunk: &SavedChunk) -> Result<()> {
    let info = entry.info();
    let is_alike = match info.unknown_dtype() {
        Some(tag) => {
            tag.strip_prefix("torch.").is_some_and(|tag| tag.split(' ').next() == Some(tensor.saved_dtype.name()))
        }
        None => Some(info.dtype) == tensor.dtype(),
    };
    if !is_alike {
        let found = TensorInfo { layout: Layout::RowMajor, ..info.clone() };
        let found = info.unknown_dtype().map_or_else(|| found.dtype.to_string(), str::to_owned);
        return Err(malformed(format!(
            "its item has the dtype {found}, but the metadata says torch.{}",
            tensor.saved_dtype.name()
        )));
    }
    if info.shape != chunk.shape {
        return Err(malformed(format!("its item has the shape {}, but the metadata says {}", info.shape, chunk.shape)));
    }
    Ok(())
}

/// Reads the value of an item, as a file of `torch.save`. What that did not write is opaque.
pub(crate) fn read_object(file: &mut dyn ReadAt, name: &str, item: &Item, limits: &Limits) -> Result<ItemContents> {
    let Item { range, transforms, .. } = item;
    let mut begin = [0; ZIP.len()];
    let is_archive = range.end - range.start >= ZIP.len() as u64 && transforms.is_none();
    if is_archive {
        file.read_at(range.start, &mut begin)?;
    }
    if begin != *ZIP {
        return Ok(ItemContents::Opaque);
    }
    let Checkpoint { tensors: index, metadata: texts, warnings, .. } = contents(file, range, name, limits)?;
    let tensor = |i: usize| {
        let (entry, codec) = (index.entry(i), index.entry(i).any_codec().cloned());
        let Range { start, end } = entry.range();
        let range = range.start + start..range.start + end;
        ItemTensor { name: index.name(i).to_owned(), info: entry.info().clone(), range, codec }
    };
    let tensors = (0..index.pushed()).map(tensor).collect();
    let warnings = warnings.into_iter().map(|warning| Warning { offset: None, ..warning }).collect();
    Ok(ItemContents::Values(ItemValues { tensors, texts, warnings }))
}

/// Reads the archive of an item.
fn contents(file: &mut dyn ReadAt, range: &Range<u64>, name: &str, limits: &Limits) -> Result<Checkpoint> {
    // A pickle of a few bytes could ask for a gigabyte, and there are many.
    let shared = (range.end - range.start).saturating_mul(64).saturating_add(4 << 10);
    let limits = limits.clone().shared(limits.headers().min(shared));
    let read = read_archive(&mut Section::new(file, range.clone()), Some(name), &limits);
    read.map(|(contents, _)| contents).map_err(|error| error.moved_by(range.start).at(range.start))
}
