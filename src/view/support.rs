//! Tensors with ties, and a sink that records tensors, for the tests of views.

use std::io;

use crate::error::Result;
use crate::model::{TensorData, TensorRecord, TensorSink, Tensors};
use crate::tensor::{Dtype, Tensor, TensorInfo};

/// Tensors with one element, some tied to others.
#[derive(Debug)]
pub struct Tied(Vec<(String, Tensor, Option<String>)>);

/// Returns tensors with these names and ties.
pub fn tied(names: &[(&str, Option<&str>)]) -> Tied {
    let tensor = || Tensor::from_slice(&[1.5_f32], [1]).unwrap();
    Tied(names.iter().map(|(name, tied)| ((*name).to_owned(), tensor(), tied.map(str::to_owned))).collect())
}

impl Tensors for Tied {
    fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
        self.0.iter().try_for_each(|(name, tensor, tied)| {
            sink.tensor(&TensorRecord { name, info: tensor.info(), data: &tensor.as_bytes(), tied: tied.as_deref() })
        })
    }
}

/// A tensor of bytes whose storage has an id.
#[derive(Debug)]
pub struct Stored {
    pub info: TensorInfo,
    pub bytes: Vec<u8>,
    pub storage_id: u64,
}

impl Stored {
    pub fn new(dtype: Dtype, bytes: &[u8], storage_id: u64) -> Self {
        let info = TensorInfo::new(dtype, [bytes.len() / dtype.block_bytes()]);
        Self { info, bytes: bytes.to_vec(), storage_id }
    }
}

impl TensorData for Stored {
    fn write_to(&self, out: &mut dyn io::Write) -> io::Result<()> {
        // In pieces that cut elements in two.
        self.bytes.chunks(3).try_for_each(|piece| out.write_all(piece))
    }

    fn storage_id(&self) -> Option<u64> {
        Some(self.storage_id)
    }
}

impl Tensors for Vec<(&str, Stored)> {
    fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
        self.iter().try_for_each(|(name, stored)| {
            sink.tensor(&TensorRecord { name, info: &stored.info, data: stored, tied: None })
        })
    }
}

/// A sink that keeps the tensors it receives.
#[derive(Debug, Default)]
pub struct Sent(pub Vec<SentTensor>);

#[derive(Debug)]
pub struct SentTensor {
    pub name: String,
    pub info: TensorInfo,
    pub bytes: Vec<u8>,
    pub tied: Option<String>,
    pub storage_id: Option<u64>,
}

impl Sent {
    pub fn by(tensors: &dyn Tensors) -> Self {
        let mut sent = Self::default();
        tensors.send(&mut sent).unwrap();
        sent
    }

    pub fn names(&self) -> Vec<&str> {
        self.0.iter().map(|tensor| tensor.name.as_str()).collect()
    }

    pub fn ties(&self) -> Vec<Option<&str>> {
        self.0.iter().map(|tensor| tensor.tied.as_deref()).collect()
    }
}

impl TensorSink for Sent {
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        let mut bytes = Vec::new();
        tensor.data.write_to(&mut bytes)?;
        self.0.push(SentTensor {
            name: tensor.name.to_owned(),
            info: tensor.info.clone(),
            bytes,
            tied: tensor.tied.map(str::to_owned),
            storage_id: tensor.data.storage_id(),
        });
        Ok(())
    }
}
