//! Writes the parts of a folder of `torch.distributed.checkpoint`, which `dcp.rs` describes: items and the metadata.

use std::cell::Cell;
use std::io::{self, Write};

use rawzip::{DataDescriptorOutput, ZipArchiveWriter};

use super::archive::{StoredIn, begin, end, put_tensor, start_storage};
use super::header;
pub(crate) use super::header::check_name;
use super::write_pickle::{PickleWriter, Protocol};
use crate::error::Result;
use crate::model::PathPart;
use crate::tensor::{Dtype, TensorInfo};
use crate::write::zip::{write_zeros, zip_write_error};

/// The bytes of an item around its payload.
#[derive(Debug)]
pub(crate) struct ItemFrame {
    pub(crate) before: Vec<u8>,
    pub(crate) after: Vec<u8>,
}

/// Returns the bytes around the payload of a tensor, whose checksum is `crc`. Their number does not depend on it.
pub(crate) fn item_frame(info: &TensorInfo, crc: u32) -> Result<ItemFrame> {
    let bytes = info.payload_bytes().unwrap_or_default();
    let tag = header::tag_of(info.dtype);
    let mut pickle = PickleWriter::new(Protocol::Two);
    let storage = StoredIn { key: 0, bytes, tag: Some(tag).filter(|tag| !tag.storage.is_empty()) };
    put_tensor(&mut pickle, info, tag, &storage);
    let is_payload = Cell::new(false);
    let mut archive = ZipArchiveWriter::new(Around { bytes: Vec::new(), is_payload: &is_payload });
    begin(&mut archive, &pickle.finish())?;
    let mut member = start_storage(&mut archive, 0)?;
    let start = usize::try_from(member.stream_offset()).expect("a header is short");
    is_payload.set(true);
    write_zeros(&mut member, bytes)?;
    is_payload.set(false);
    member.finish(DataDescriptorOutput::new(crc, bytes as u64)).map_err(zip_write_error)?;
    let mut before = end(archive)?.bytes;
    let after = before.split_off(start);
    Ok(ItemFrame { before, after })
}

/// Keeps what is written, except for payloads.
struct Around<'a> {
    bytes: Vec<u8>,
    is_payload: &'a Cell<bool>,
}

impl Write for Around<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_payload.get() {
            self.bytes.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The place of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WrittenItem {
    pub(crate) rank: usize,
    /// In the file of the rank.
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// A chunk of a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WrittenChunk {
    pub(crate) offsets: Vec<usize>,
    pub(crate) info: TensorInfo,
    pub(crate) item: WrittenItem,
}

/// The contents of a folder to be written.
pub(crate) trait WrittenFolder {
    /// Returns the number of tensors.
    fn tensors(&self) -> usize;

    fn info(&self, tensor: usize) -> &TensorInfo;

    /// Calls `take` with each chunk of a tensor.
    fn chunks(&self, tensor: usize, take: &mut dyn FnMut(&WrittenChunk));

    /// Returns the places of the values that are not tensors.
    fn objects(&self) -> &[WrittenItem];

    /// Returns the name of a tensor, or of an object after them, and its path in the nested value.
    fn name(&self, i: usize) -> (String, Vec<PathPart>);
}

/// Returns the name of the file of a rank.
pub(crate) fn rank_file(rank: usize) -> String {
    format!("__{rank}_0.distcp")
}

/// The module of most classes.
const METADATA: &str = "torch.distributed.checkpoint.metadata";

/// Returns the metadata of a folder, for PyTorch 2.3 and later.
pub(crate) fn metadata(folder: &dyn WrittenFolder, ranks: usize) -> Vec<u8> {
    let mut pickle = PickleWriter::new(Protocol::Four);
    let mut names = Vec::with_capacity(folder.tensors());
    // The memory format and the layout of all tensors.
    let mut shared = None;
    pickle.object((METADATA, "Metadata"), &mut |pickle| {
        pickle.dict(&mut |pickle| {
            pickle.word("state_dict_metadata");
            pickle.dict(&mut |pickle| {
                for tensor in 0..folder.tensors() {
                    pickle.text(&folder.name(tensor).0);
                    names.push(pickle.remember());
                    put_tensor_metadata(pickle, folder, tensor, &mut shared);
                }
                for object in 0..folder.objects().len() {
                    pickle.text(&folder.name(folder.tensors() + object).0);
                    names.push(pickle.remember());
                    pickle.object((METADATA, "BytesStorageMetadata"), &mut |pickle| pickle.dict(&mut |_| {}));
                }
            });
            pickle.word("planner_data");
            pickle.dict(&mut |pickle| {
                for (i, name) in names.iter().enumerate() {
                    let (whole, path) = folder.name(i);
                    pickle.recall(*name);
                    pickle.tuple(&mut |pickle| {
                        path.iter().for_each(|part| match part {
                            PathPart::Key(key) if *key == whole => pickle.recall(*name),
                            PathPart::Key(key) => pickle.text(key),
                            PathPart::Position(position) => pickle.number(*position),
                        });
                    });
                }
            });
            pickle.word("storage_data");
            pickle.dict(&mut |pickle| put_storage(pickle, folder, &names, ranks));
        });
    });
    pickle.finish()
}

/// Puts a `TensorStorageMetadata` on the stack.
fn put_tensor_metadata(
    pickle: &mut PickleWriter,
    folder: &dyn WrittenFolder,
    tensor: usize,
    shared: &mut Option<(u32, u32)>,
) {
    let info = folder.info(tensor);
    pickle.object((METADATA, "TensorStorageMetadata"), &mut |pickle| {
        pickle.dict(&mut |pickle| {
            pickle.word("properties");
            pickle.object((METADATA, "TensorProperties"), &mut |pickle| {
                pickle.tuple(&mut |pickle| {
                    pickle.global(("torch", header::tag_of(info.dtype).name));
                    match *shared {
                        Some((layout, _)) => pickle.recall(layout),
                        None => {
                            let function = ("torch.serialization", "_get_layout");
                            pickle.call(function, &mut |pickle| pickle.text("torch.strided"));
                        }
                    }
                    let layout = shared.map_or_else(|| pickle.remember(), |(layout, _)| layout);
                    pickle.no();
                    match *shared {
                        Some((_, format)) => pickle.recall(format),
                        None => pickle.call((METADATA, "_MEM_FORMAT_ENCODING"), &mut |pickle| pickle.number(0)),
                    }
                    let format = shared.map_or_else(|| pickle.remember(), |(_, format)| format);
                    *shared = Some((layout, format));
                    pickle.no();
                });
            });
            pickle.word("size");
            put_size(pickle, info.dtype, &info.shape);
            pickle.word("chunks");
            pickle.list(&mut |pickle| {
                folder.chunks(tensor, &mut |chunk| {
                    pickle.object((METADATA, "ChunkStorageMetadata"), &mut |pickle| {
                        pickle.dict(&mut |pickle| {
                            pickle.word("offsets");
                            put_size(pickle, info.dtype, &chunk.offsets);
                            pickle.word("sizes");
                            put_size(pickle, info.dtype, &chunk.info.shape);
                        });
                    });
                });
            });
        });
    });
}

/// Puts the keys and values of `storage_data` on the stack.
fn put_storage(pickle: &mut PickleWriter, folder: &dyn WrittenFolder, names: &[u32], ranks: usize) {
    let mut files = vec![None; ranks];
    let (tensors, objects) = names.split_at(folder.tensors());
    for (tensor, name) in tensors.iter().enumerate() {
        let mut index = 0;
        folder.chunks(tensor, &mut |chunk| {
            put_index(pickle, *name, &mut |pickle| {
                pickle.word("offset");
                put_size(pickle, chunk.info.dtype, &chunk.offsets);
                pickle.word("index");
                pickle.number(index);
            });
            index += 1;
            put_item(pickle, chunk.item, &mut files);
        });
    }
    for (item, name) in folder.objects().iter().zip(objects) {
        put_index(pickle, *name, &mut |_| {});
        put_item(pickle, *item, &mut files);
    }
}

/// Puts a `MetadataIndex` on the stack, with the name that has this number in the memo, and other attributes.
fn put_index(pickle: &mut PickleWriter, name: u32, others: &mut dyn FnMut(&mut PickleWriter)) {
    pickle.object((METADATA, "MetadataIndex"), &mut |pickle| {
        pickle.dict(&mut |pickle| {
            pickle.word("fqn");
            pickle.recall(name);
            others(pickle);
        });
    });
}

/// Puts a `_StorageInfo` on the stack. `files` has the numbers of the names of files in the memo, by rank.
fn put_item(pickle: &mut PickleWriter, item: WrittenItem, files: &mut [Option<u32>]) {
    let WrittenItem { rank, offset, bytes } = item;
    pickle.object(("torch.distributed.checkpoint.filesystem", "_StorageInfo"), &mut |pickle| {
        pickle.dict(&mut |pickle| {
            pickle.word("relative_path");
            match files[rank] {
                Some(number) => pickle.recall(number),
                None => {
                    pickle.text(&rank_file(rank));
                    files[rank] = Some(pickle.remember());
                }
            }
            pickle.word("offset");
            pickle.number(offset);
            pickle.word("length");
            pickle.number(bytes);
        });
    });
}

/// Puts a `torch.Size` on the stack.
fn put_size(pickle: &mut PickleWriter, dtype: Dtype, dims: &[usize]) {
    let dims = header::stored_dims(dtype, dims);
    pickle.call(("torch", "Size"), &mut |pickle| pickle.numbers(&dims));
}
