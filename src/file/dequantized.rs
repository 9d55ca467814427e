//! Maps in memory whose quantized weights are decoded as they are sent.

use std::sync::Arc;
use std::{fmt, io};

use super::dequantize::{Dequantize, decode_weights, too_long};
use super::quantized::MAX_DESCRIPTION;
use crate::error::Result;
use crate::model::{FromTensors, Meaning, TensorData, TensorRecord, TensorSink, Tensors};
use crate::quant::{Observed, Quantized, recognize};
use crate::read::Index;
use crate::storage::{FileStorage, JoinedFiles};
use crate::tensor::{Tensor, TensorInfo, TensorMap};

/// The tensors of a map, with quantized weights decoded as they are sent. The map is shared, not copied.
///
/// Weights take the places of their codes, and their other parts are gone. They are recognized by names and headers. A layout
/// that needs the model's configuration is recognized in a [`File`](crate::File) only, and its tensors stay as they are here.
///
/// ```
/// use tensorfile::view::Dequantized;
/// use tensorfile::{Dequantize, Dtype, Tensor, TensorInfo, TensorMap};
///
/// let mut map = TensorMap::new();
/// map.insert("up.weight", Tensor::new(TensorInfo::new(Dtype::F8E4M3Fn, [2, 2]), &[0x38, 0x40, 0xb8, 0])?);
/// map.insert("up.weight_scale", ndarray::array![[0.5_f32], [2.0]]);
/// map.insert("norm", ndarray::array![1.0_f32]);
/// let weights: TensorMap = Dequantized::new(&map, &Dequantize::to(Dtype::F32))?.load()?;
/// assert_eq!(weights.keys().collect::<Vec<_>>(), ["up.weight", "norm"]);
/// assert_eq!(weights["up.weight"], ndarray::array![[0.5_f32, 1.0], [-2.0, 0.0]].into());
/// # Ok::<(), tensorfile::Error>(())
/// ```
pub struct Dequantized {
    storage: FileStorage,
    index: Index,
    quantized: Quantized,
}

impl Dequantized {
    /// Recognizes and decodes the weights of a map.
    ///
    /// # Errors
    ///
    /// As [`File::dequantize`](crate::File::dequantize).
    pub fn new(map: &TensorMap, dequantize: &Dequantize) -> Result<Self> {
        dequantize.check()?;
        let part = |tensor: &Tensor| Arc::new(FileStorage::Memory(Box::new(TensorBytes(tensor.clone()))));
        let mut parts: Vec<Arc<FileStorage>> = map.iter().map(|(_, tensor)| part(tensor)).collect();
        if parts.is_empty() {
            parts.push(Arc::new(FileStorage::Memory(Box::new([]))));
        }
        let joined = JoinedFiles::new(parts).ok_or_else(too_long)?;
        let mut stored = Index::default();
        for ((name, tensor), start) in map.iter().zip(joined.starts()) {
            let range = *start..*start + tensor.as_bytes().len() as u64;
            stored.push_named(name, tensor.info().clone(), range, None)?;
        }
        stored.complete()?;
        let quantized = recognize(&MapTensors { index: &stored, map });
        let (joined, index, quantized) =
            decode_weights(joined, &Arc::new(stored), &quantized, &|weight| dequantize.dtype_of(weight))?;
        Ok(Self { storage: FileStorage::Joined(joined), index, quantized })
    }

    /// Loads the tensors into a type. Each is decoded or copied once.
    ///
    /// # Errors
    ///
    /// As [`TensorMap::load`].
    pub fn load<T: for<'t> FromTensors<'t>>(&self) -> Result<T> {
        (self as &dyn Tensors).load()
    }
}

impl Tensors for Dequantized {
    fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
        for at in 0..self.index.len() {
            let (name, info) = (self.index.name(at), self.index.entry(at).info());
            let data = DequantizedTensor { tensors: self, at };
            sink.tensor(&TensorRecord { name, info, data: &data, tied: None })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Dequantized {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dequantized").field("tensors", &self.index.len()).finish_non_exhaustive()
    }
}

struct DequantizedTensor<'d> {
    tensors: &'d Dequantized,
    at: usize,
}

impl TensorData for DequantizedTensor<'_> {
    fn as_bytes(&self) -> Option<&[u8]> {
        self.tensors.storage.in_memory(&self.tensors.index.entry(self.at).range())
    }

    fn write_to(&self, out: &mut dyn io::Write) -> io::Result<()> {
        self.tensors.index.entry(self.at).write_to(&self.tensors.storage, out)
    }

    fn meaning(&self) -> Result<Meaning> {
        Ok(self.tensors.quantized.refusal(self.at).map_or(Meaning::Numbers, Meaning::Codes))
    }
}

/// The bytes of a tensor, which its clones share.
struct TensorBytes(Tensor);

impl AsRef<[u8]> for TensorBytes {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// The tensors of a map. Its index has them in the same order.
struct MapTensors<'m> {
    index: &'m Index,
    map: &'m TensorMap,
}

impl Observed for MapTensors<'_> {
    fn len(&self) -> usize {
        self.index.len()
    }

    fn tensor(&self, position: usize) -> (&str, &TensorInfo) {
        (self.index.name(position), self.index.entry(position).info())
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.index.position(name)
    }

    fn description(&self, position: usize) -> Option<Vec<u8>> {
        let bytes = self.map.get(self.index.name(position))?.as_bytes();
        (bytes.len() as u64 <= MAX_DESCRIPTION).then(|| bytes.to_vec())
    }
}
