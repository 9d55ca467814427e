//! Lays out the files of `HuggingFaceStorageWriter`, which `checkpoint/rank_files.rs` describes: each begins with the index of
//! its chunks.

use std::io;

use flate2::Crc;
use serde_json::{Value, json};

use crate::error::{Error, ErrorKind, Result};
use crate::format::pytorch::write_dcp::WrittenFolder;
use crate::model::{MetadataValue, SHARDING_INFO, TensorData, TensorRecord, TensorSink, Tensors};
use crate::tensor::TensorInfo;
use crate::write::{Encode, Plan};

/// The version of the metadata.
const VERSION: [&str; 2] = ["DCP_VERSION", "1.0"];

/// The layout of a folder.
pub(super) struct ShardLayout {
    /// The bytes before the first payload of each file.
    pub(super) begins: Vec<Vec<u8>>,
    /// The lengths of the files.
    pub(super) file_bytes: Vec<u64>,
    /// The offsets of all chunks in their files, tensor by tensor.
    pub(super) offsets: Vec<u64>,
}

/// The chunks of a file.
#[derive(Default)]
struct FileChunks {
    /// The numbers of their tensors, and their infos.
    tensors: Vec<(usize, TensorInfo)>,
    /// Their numbers among all chunks.
    numbers: Vec<usize>,
    /// The members of a JSON object that says where they belong.
    sharding: String,
}

/// Lays out the files of a folder, given the ranks of its chunks.
pub(super) fn lay_out(folder: &dyn WrittenFolder, ranks: usize, encode: &dyn Encode) -> Result<ShardLayout> {
    let mut files: Vec<FileChunks> = (0..ranks).map(|_| FileChunks::default()).collect();
    let mut chunks = 0;
    for tensor in 0..folder.tensors() {
        let name = Value::String(folder.name(tensor).0).to_string();
        let whole = folder.info(tensor).shape.dims();
        folder.chunks(tensor, &mut |chunk| {
            let file = &mut files[chunk.item.rank];
            let comma = if file.sharding.is_empty() { "" } else { "," };
            let value = json!({"saved_offsets": chunk.offsets, "global_shape": whole});
            file.sharding += &format!("{comma}{name}:{value}");
            file.tensors.push((tensor, chunk.info.clone()));
            file.numbers.push(chunks);
            chunks += 1;
        });
    }
    let mut layout = ShardLayout { begins: Vec::new(), file_bytes: Vec::new(), offsets: vec![0; chunks] };
    for (rank, FileChunks { tensors, numbers, sharding }) in files.into_iter().enumerate() {
        // A folder without a file would not open, so the first one is there for no tensors too.
        if numbers.is_empty() && rank > 0 {
            layout.begins.push(Vec::new());
            layout.file_bytes.push(0);
            continue;
        }
        let entry = |key: &str, value: String| (key.to_owned(), MetadataValue::Text(value));
        let entries = [
            entry(SHARDING_INFO, format!("{{{sharding}}}")),
            entry(VERSION[0], VERSION[1].to_owned()),
            entry("format", "pt".to_owned()),
        ];
        let mut plan = Plan::empty(encode.with_metadata(&entries)?);
        plan.fill(&WithoutPayloads { folder, tensors })?;
        for (at, number) in numbers.into_iter().enumerate() {
            layout.offsets[number] = plan.layout().payload(at);
        }
        layout.begins.push(plan.layout().begin.clone());
        layout.file_bytes.push(plan.file_bytes());
    }
    Ok(layout)
}

impl ShardLayout {
    /// Returns a line for each file, by which two saves are compared.
    pub(super) fn summary(&self) -> Vec<u8> {
        let line = |(begin, bytes): (&Vec<u8>, &u64)| {
            let mut crc = Crc::new();
            crc.update(begin);
            format!("{bytes} bytes, the first {} with the CRC-32 {:08x}\n", begin.len(), crc.sum())
        };
        self.begins.iter().zip(&self.file_bytes).map(line).collect::<String>().into_bytes()
    }
}

/// Tensors of a folder without their bytes.
struct WithoutPayloads<'a> {
    folder: &'a dyn WrittenFolder,
    tensors: Vec<(usize, TensorInfo)>,
}

impl Tensors for WithoutPayloads<'_> {
    fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
        self.tensors.iter().try_for_each(|(tensor, info)| {
            let (name, _) = self.folder.name(*tensor);
            sink.tensor(&TensorRecord { name: &name, info, data: &NoPayload, tied: None })
        })
    }
}

struct NoPayload;

impl TensorData for NoPayload {
    fn write_to(&self, _: &mut dyn io::Write) -> io::Result<()> {
        Err(Error::from(ErrorKind::Message("the index of a file has no payloads".to_owned())).into())
    }
}
