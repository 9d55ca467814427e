//! Files whose quantized weights are decoded as they are read.

use std::fmt;
use std::sync::Arc;

use super::File;
use crate::error::{Error, ErrorKind, Result};
use crate::quant::{DecodedTensor, LogicalTensor, Role, Verdict};
use crate::read::Index;
use crate::storage::{FileStorage, JoinedFiles};
use crate::tensor::{Dtype, TensorInfo};

/// Which quantized weights are decoded, and to which dtype.
///
/// ```
/// use tensorfile::{Dequantize, Dtype, OpenOptions, Tensor, TensorInfo, TensorMap, safetensors};
///
/// let mut map = TensorMap::new();
/// map.insert("up.weight", Tensor::new(TensorInfo::new(Dtype::F8E4M3Fn, [2, 2]), &[0x38, 0x40, 0xb8, 0])?);
/// map.insert("up.weight_scale", ndarray::array![[0.5_f32], [2.0]]);
/// let options = OpenOptions::new().dequantize(Dequantize::to(Dtype::F32));
/// let file = options.from_bytes(safetensors::to_vec(&map)?)?;
/// assert_eq!(file.len(), 1);
/// assert_eq!(file.array::<f32, _>("up.weight")?, ndarray::array![[0.5, 1.0], [-2.0, 0.0]]);
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Clone)]
pub struct Dequantize {
    to: Dtype,
    /// The weights to decode; all of them by default.
    only: Option<Arc<OnlyNames>>,
}

/// Returns whether the weight of a name is decoded.
type OnlyNames = dyn Fn(&str) -> bool + Send + Sync;

impl Dequantize {
    /// Decodes all quantized weights to a dtype: f32, bf16 or f16. The numbers are those of f32; the others are rounded once,
    /// to the nearest, ties to even.
    #[must_use]
    pub fn to(dtype: Dtype) -> Self {
        Self { to: dtype, only: None }
    }

    /// Decodes only the weights whose names pass.
    #[must_use]
    pub fn only(mut self, names: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.only = Some(Arc::new(names));
        self
    }

    fn takes(&self, weight: &LogicalTensor) -> bool {
        self.only.as_ref().is_none_or(|only| only(weight.name()))
    }
}

impl fmt::Debug for Dequantize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dequantize").field("to", &self.to).finish_non_exhaustive()
    }
}

impl File {
    /// Returns the file with weights in the places of their codes, and without the other parts.
    pub(super) fn dequantized(mut self, dequantize: &Dequantize) -> Result<Self> {
        let to = dequantize.to;
        if !matches!(to, Dtype::F32 | Dtype::Bf16 | Dtype::F16) {
            let instead = "weights are decoded to f32, bf16 or f16".to_owned();
            return Err(ErrorKind::Unsupported { what: format!("dequantize to {to}"), instead }.into());
        }
        let quantized = self.quantized()?.clone();
        let mut chosen = quantized.tensors().iter().filter(|weight| dequantize.takes(weight));
        if let Some(refused) = chosen.clone().find(|weight| !weight.can_be_decoded()) {
            let what = format!("dequantize {refused}");
            let instead = "this scheme is recognized, but not decoded; leave the weight out".to_owned();
            return Err(self.place(Error::from(ErrorKind::Unsupported { what, instead }).in_tensor(refused.name())));
        }
        if chosen.next().is_none() {
            return Ok(self);
        }
        let placeholder = FileStorage::Memory(Box::new([]));
        let (storage, own) = (std::mem::replace(&mut self.storage, placeholder), std::mem::take(&mut self.index));
        let is_single = !matches!(storage, FileStorage::Joined(_));
        let mut joined = match storage {
            FileStorage::Joined(joined) => joined,
            single => JoinedFiles::new(vec![single]).ok_or_else(too_long)?,
        };
        let stored = Arc::new(own);
        let mut index = Index::default();
        if stored.has_repeated_names() {
            index.let_names_repeat();
        }
        let mut moved = vec![None; stored.len()];
        for (i, place) in moved.iter_mut().enumerate() {
            let entry = stored.entry(i);
            match quantized.verdict(i) {
                Verdict::Part(weight, Role::Codes) if dequantize.takes(weight) => {
                    let info = TensorInfo::new(to, weight.shape().clone());
                    let decoded = DecodedTensor::new(weight.clone(), to, stored.clone()).ok_or_else(too_long)?;
                    let bytes = info.payload_bytes().ok_or_else(too_long)? as u64;
                    let start = joined.gather(Box::new(decoded)).ok_or_else(too_long)?;
                    index.push_named(weight.name(), info, start..start + bytes, None)?;
                }
                Verdict::Part(weight, _) if dequantize.takes(weight) => {}
                _ => {
                    *place = Some(index.pushed());
                    let codec = entry.any_codec().cloned();
                    index.push_named(stored.name(i), entry.info().clone(), entry.range(), codec)?;
                }
            }
        }
        index.complete()?;
        let left = quantized.moved(&|position| moved[position]);
        Ok(Self { storage: FileStorage::Joined(joined), index, ..self }.with_recognized(left, is_single))
    }
}

fn too_long() -> Error {
    ErrorKind::Unsupported {
        what: "decode weights that take more bytes than can be addressed".to_owned(),
        instead: "decode some of them".to_owned(),
    }
    .into()
}
