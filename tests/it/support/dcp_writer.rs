//! Writes folders like `torch.distributed.checkpoint`, for tests of large folders, and of folders that PyTorch would
//! not write.
//!
//! These folders are no evidence for our reader. Folders of PyTorch itself are in `tests/fixtures/dcp`.

#![allow(dead_code, reason = "benchmarks and fuzz targets use a part of it")]

use std::collections::HashMap;

/// A pickle of protocol 4, or a part of one.
#[derive(Debug, Clone)]
pub struct Pickle(pub Vec<u8>, Option<HashMap<String, u32>>);

impl Pickle {
    pub fn new() -> Self {
        Self::from_ops(b"\x80\x04")
    }

    /// A part that remembers nothing, so that it can be put anywhere.
    pub fn from_ops(ops: &[u8]) -> Self {
        Self(ops.to_vec(), None)
    }

    /// A pickle that names a global or an attribute once, and the number of it from then on, as Python does. The first
    /// numbers are for parts of it.
    fn with_memo() -> Self {
        let mut pickle = Self(Self::new().0, Some(HashMap::new()));
        pickle.op(b"N").op(&[0x94; Self::OWN as usize]).op(b"0");
        pickle
    }

    /// The numbers that are kept for parts.
    const OWN: u32 = 4;

    /// Writes a value, or the number of it.
    fn remembered(&mut self, key: &str, write: impl FnOnce(&mut Self)) -> &mut Self {
        if let Some(number) = self.1.as_ref().and_then(|memo| memo.get(key)).copied() {
            return self.op(b"j").op(&number.to_le_bytes());
        }
        write(self);
        if let Some(memo) = &mut self.1 {
            memo.insert(key.to_owned(), Self::OWN + u32::try_from(memo.len()).unwrap());
            self.op(&[0x94]);
        }
        self
    }

    /// The name of an attribute, of a module or of a class.
    pub fn name(&mut self, name: &str) -> &mut Self {
        self.remembered(name, |pickle| _ = pickle.text(name))
    }

    pub fn op(&mut self, op: &[u8]) -> &mut Self {
        self.0.extend_from_slice(op);
        self
    }

    pub fn text(&mut self, text: &str) -> &mut Self {
        self.op(b"X").op(&u32::try_from(text.len()).unwrap().to_le_bytes()).op(text.as_bytes())
    }

    pub fn int(&mut self, number: i64) -> &mut Self {
        self.op(b"\x8a\x08").op(&number.to_le_bytes())
    }

    pub fn size(&mut self, dims: &[u64]) -> &mut Self {
        self.global("torch", "Size").op(b"((");
        dims.iter().for_each(|dim| _ = self.int(dim.cast_signed()));
        self.op(b"ttR")
    }

    pub fn global(&mut self, module: &str, name: &str) -> &mut Self {
        self.remembered(&format!("{module}.{name}"), |pickle| _ = pickle.name(module).name(name).op(b"\x93"))
    }

    /// Begins an object, whose attributes follow.
    pub fn object(&mut self, module: &str, name: &str) -> &mut Self {
        self.global(module, name).op(b")\x81}(")
    }

    /// Ends the attributes of an object.
    pub fn built(&mut self) -> &mut Self {
        self.op(b"ub")
    }
}

/// The module of most classes.
pub const METADATA: &str = "torch.distributed.checkpoint.metadata";

/// A chunk, and the item that has it.
#[derive(Debug, Clone)]
pub struct Chunk {
    pub offsets: Vec<u64>,
    pub sizes: Vec<u64>,
    pub item: Item,
}

/// A part of a file.
#[derive(Debug, Clone)]
pub struct Item {
    pub path: String,
    pub offset: u64,
    pub length: u64,
    pub transforms: Vec<String>,
}

/// An entry of a folder: a tensor with its dtype, its shape and its chunks, or another value.
#[derive(Debug, Clone)]
pub enum Entry {
    Tensor(&'static str, Vec<u64>, Vec<Chunk>),
    Object(Item),
}

/// Returns the file `.metadata`. `planner_data` is what a planner keeps: a pickled value.
pub fn metadata(entries: &[(String, Entry)], planner_data: &[u8]) -> Vec<u8> {
    let mut pickle = Pickle::with_memo();
    pickle.object(METADATA, "Metadata").name("state_dict_metadata").op(b"}(");
    for (name, entry) in entries {
        pickle.text(name);
        match entry {
            Entry::Object(_) => _ = pickle.global(METADATA, "BytesStorageMetadata").op(b")\x81"),
            Entry::Tensor(dtype, shape, chunks) => {
                pickle.object(METADATA, "TensorStorageMetadata").name("properties");
                pickle.global(METADATA, "TensorProperties").op(b")\x81(").global("torch", dtype);
                pickle.op(b"N\x89N\x89tb").name("size").size(shape).name("chunks").op(b"](");
                for chunk in chunks {
                    pickle.object(METADATA, "ChunkStorageMetadata");
                    pickle.name("offsets").size(&chunk.offsets).name("sizes").size(&chunk.sizes).built();
                }
                pickle.op(b"e").built();
            }
        }
    }
    pickle.op(b"u").name("planner_data").op(planner_data).name("storage_data").op(b"}(");
    for (name, entry) in entries {
        let (object, chunks) = match entry {
            Entry::Object(item) => (Some((None, item)), &[][..]),
            Entry::Tensor(_, _, chunks) => (None, &chunks[..]),
        };
        for (offset, item) in object.into_iter().chain(chunks.iter().map(|chunk| (Some(&chunk.offsets), &chunk.item))) {
            pickle.object(METADATA, "MetadataIndex").name("fqn").text(name);
            if let Some(offset) = offset {
                pickle.name("offset").size(offset);
            }
            pickle.built().object("torch.distributed.checkpoint.filesystem", "_StorageInfo");
            pickle.name("relative_path").text(&item.path).name("offset").int(item.offset.cast_signed());
            pickle.name("length").int(item.length.cast_signed());
            if !item.transforms.is_empty() {
                pickle.name("transform_descriptors").op(b"](");
                item.transforms.iter().for_each(|name| _ = pickle.text(name));
                pickle.op(b"e");
            }
            pickle.built();
        }
    }
    pickle.op(b"u").built().op(b".");
    pickle.0
}

/// Returns what `torch.save` writes of a tensor before its elements, and after them. `storage` is the type of its
/// storage, as `FloatStorage`, whose elements have `size` bytes. Checksums are left out, as PyTorch can.
pub fn tensor_item(storage: &str, size: u64, shape: &[u64], strides: &[u64]) -> (Vec<u8>, Vec<u8>) {
    let elements = shape.iter().product::<u64>();
    let mut pickle = Pickle::from_ops(b"\x80\x02");
    pickle.op(b"ctorch._utils\n_rebuild_tensor_v2\n((").text("storage");
    pickle
        .op(format!("ctorch\n{storage}\n").as_bytes())
        .text("0")
        .text("cpu")
        .int(elements.cast_signed())
        .op(b"tQK\0(");
    shape.iter().for_each(|dim| _ = pickle.int(dim.cast_signed()));
    pickle.op(b"t(");
    strides.iter().for_each(|stride| _ = pickle.int(stride.cast_signed()));
    pickle.op(b"t\x89ccollections\nOrderedDict\n)RtR.");
    archive(&pickle.0, elements * size)
}

/// Returns what `torch.save` writes of a number.
pub fn number_item(number: i64) -> Vec<u8> {
    let mut pickle = Pickle::from_ops(b"\x80\x02");
    pickle.int(number).op(b".");
    let (mut before, after) = archive(&pickle.0, 0);
    before.extend(after);
    before
}

/// Returns an archive of a pickle and of a storage of `len` bytes, less than 4 GiB: what is before the storage, and
/// what is after it.
pub fn archive(pickle: &[u8], len: u64) -> (Vec<u8>, Vec<u8>) {
    let len = u32::try_from(len).unwrap();
    let own = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap();
    let members =
        [("archive/data.pkl", pickle, own(pickle)), ("archive/version", b"3\n", 2), ("archive/data/0", &[], len)];
    let (mut before, mut directory) = (Vec::new(), Vec::new());
    for (name, contents, len) in members {
        let (offset, len) = (own(&before).to_le_bytes(), len.to_le_bytes());
        let name_bytes = u16::try_from(name.len()).unwrap().to_le_bytes();
        // The version, flags, the method, the time and the checksum.
        let both = [&b"\x14\0\0\0\0\0\0\0\0\0\0\0\0\0"[..], &len, &len, &name_bytes].concat();
        before.extend([b"PK\x03\x04", &both[..], &[0; 2], name.as_bytes(), contents].concat());
        directory.extend([b"PK\x01\x02\0\0", &both[..], &[0; 12], &offset, name.as_bytes()].concat());
    }
    let (start, bytes) = (own(&before) + len, own(&directory));
    let end = [&b"PK\x05\x06\0\0\0\0\x03\0\x03\0"[..], &bytes.to_le_bytes(), &start.to_le_bytes(), &[0; 2]].concat();
    directory.extend(end);
    (before, directory)
}
