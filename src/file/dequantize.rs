//! Files whose quantized weights are decoded as they are read.

use std::fmt;
use std::sync::{Arc, OnceLock};

use hashbrown::HashMap;

use super::File;
use crate::error::{Error, ErrorKind, Result};
use crate::quant::{DecodedTensor, LogicalTensor, Part, Quantized, Role, Verdict};
use crate::read::Index;
use crate::storage::JoinedFiles;
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

    pub(super) fn check(&self) -> Result<()> {
        if matches!(self.to, Dtype::F32 | Dtype::Bf16 | Dtype::F16) {
            return Ok(());
        }
        let instead = "weights are decoded to f32, bf16 or f16".to_owned();
        Err(ErrorKind::Unsupported { what: format!("dequantize to {}", self.to), instead }.into())
    }

    /// Returns the dtype to decode a weight to; `None` if it stays as it is.
    pub(super) fn dtype_of(&self, weight: &LogicalTensor) -> Option<Dtype> {
        self.takes(weight).then_some(self.to)
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

/// A file for each choice of decoded weights that types have asked for. It is a list, so that a file in it can be lent.
#[derive(Default)]
pub(super) struct DecodedFiles(OnceLock<Box<DecodedFile>>);

struct DecodedFile {
    file: File,
    /// The positions of the codes, and the dtypes they are decoded to.
    weights: Vec<(usize, Dtype)>,
    others: DecodedFiles,
}

impl DecodedFiles {
    /// Returns the file with these weights decoded, which `decode` makes if no type has asked for them before.
    fn get(&self, weights: &[(usize, Dtype)], decode: &dyn Fn() -> Result<File>) -> Result<&File> {
        let mut list = self;
        loop {
            let decoded = match list.0.get() {
                Some(decoded) => decoded,
                None => {
                    let decoded = DecodedFile { file: decode()?, weights: weights.to_vec(), others: Self::default() };
                    list.0.get_or_init(|| Box::new(decoded))
                }
            };
            if decoded.weights == weights {
                return Ok(&decoded.file);
            }
            list = &decoded.others;
        }
    }
}

impl File {
    /// Returns a file with weights in the places of their codes, and without their other parts. Both files read the same
    /// bytes, which are not copied, and weights are decoded as they are read. See also
    /// [`OpenOptions::dequantize`](super::OpenOptions::dequantize).
    ///
    /// ```
    /// use tensorfile::{Dequantize, Dtype, File, Tensor, TensorInfo, TensorMap, safetensors};
    ///
    /// let mut map = TensorMap::new();
    /// map.insert("up.weight", Tensor::new(TensorInfo::new(Dtype::F8E4M3Fn, [2, 2]), &[0x38, 0x40, 0xb8, 0])?);
    /// map.insert("up.weight_scale", ndarray::array![[0.5_f32], [2.0]]);
    /// let codes = File::from_bytes(safetensors::to_vec(&map)?)?;
    /// let weights = codes.dequantize(&Dequantize::to(Dtype::F32))?;
    /// assert_eq!((codes.len(), weights.len()), (2, 1));
    /// assert_eq!(weights.array::<f32, _>("up.weight")?, ndarray::array![[0.5, 1.0], [-2.0, 0.0]]);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] for a weight that is recognized but not decoded, and for a dtype other than f32, bf16 and
    /// f16. Errors of [`quantized`](Self::quantized).
    pub fn dequantize(&self, dequantize: &Dequantize) -> Result<Self> {
        dequantize.check()?;
        self.decode_weights(&|weight| dequantize.dtype_of(weight))
    }

    /// As [`dequantize`](Self::dequantize), but a file without quantized weights stays as it is.
    pub(super) fn dequantized(self, dequantize: &Dequantize) -> Result<Self> {
        dequantize.check()?;
        let has_any = self.quantized()?.tensors().iter().any(|weight| dequantize.takes(weight));
        if has_any { self.dequantize(dequantize) } else { Ok(self) }
    }

    /// Returns the file with these weights decoded. Both have the same bytes, which are not copied.
    pub(super) fn with_decoded(&self, weights: &[(&LogicalTensor, Dtype)]) -> Result<&Self> {
        let of = |weight: &LogicalTensor| weight.part(Role::Codes).map(Part::position);
        let chosen: Vec<(usize, Dtype)> = weights.iter().filter_map(|(weight, to)| Some((of(weight)?, *to))).collect();
        self.quantization.decoded.get(&chosen, &|| {
            let dtypes: HashMap<usize, Dtype> = chosen.iter().copied().collect();
            self.decode_weights(&|weight| dtypes.get(&of(weight)?).copied())
        })
    }

    /// Makes a file with the weights decoded for which `to` returns a dtype.
    fn decode_weights(&self, to: &dyn Fn(&LogicalTensor) -> Option<Dtype>) -> Result<Self> {
        let joined = JoinedFiles::over(&self.storage).ok_or_else(too_long)?;
        let decoded = decode_weights(joined, &self.index, self.quantized()?, to);
        let (joined, index, left) = decoded.map_err(|error| self.place(error))?;
        Ok(self.with_tensors(joined, index, Some(left)))
    }
}

/// Adds the weights for which `to` returns a dtype to the files that have their parts. Returns them with the index of all
/// tensors then, and with what they are.
pub(super) fn decode_weights(
    mut joined: JoinedFiles,
    stored: &Arc<Index>,
    quantized: &Quantized,
    to: &dyn Fn(&LogicalTensor) -> Option<Dtype>,
) -> Result<(JoinedFiles, Index, Quantized)> {
    let chosen: HashMap<usize, Dtype> = quantized
        .tensors()
        .iter()
        .filter_map(|weight| Some((weight.part(Role::Codes)?.position(), to(weight)?)))
        .collect();
    let dtype = |weight: &LogicalTensor| chosen.get(&weight.part(Role::Codes)?.position()).copied();
    let refused = |weight: &&LogicalTensor| !weight.can_be_decoded() && dtype(weight).is_some();
    if let Some(refused) = quantized.tensors().iter().find(refused) {
        let what = format!("dequantize {refused}");
        let instead = "this scheme is recognized, but not decoded; leave the weight out".to_owned();
        return Err(Error::from(ErrorKind::Unsupported { what, instead }).in_tensor(refused.name()));
    }
    let mut index = Index::default();
    if stored.has_repeated_names() {
        index.let_names_repeat();
    }
    let mut moved = vec![None; stored.len()];
    for (i, place) in moved.iter_mut().enumerate() {
        let entry = stored.entry(i);
        match quantized.verdict(i) {
            Verdict::Part(weight, role) if let Some(to) = dtype(weight) => {
                if role == Role::Codes {
                    let info = TensorInfo::new(to, weight.shape().clone());
                    let decoded = DecodedTensor::new(weight.clone(), to, stored.clone()).ok_or_else(too_long)?;
                    let bytes = info.payload_bytes().ok_or_else(too_long)? as u64;
                    let start = joined.gather(Box::new(decoded)).ok_or_else(too_long)?;
                    *place = Some(index.pushed());
                    index.push_named(weight.name(), info, start..start + bytes, None)?;
                }
            }
            _ => {
                *place = Some(index.pushed());
                let codec = entry.any_codec().cloned();
                index.push_named(stored.name(i), entry.info().clone(), entry.range(), codec)?;
            }
        }
    }
    index.complete()?;
    let left = quantized.with_decoded(&|position| moved[position], &|weight| dtype(weight).is_some());
    Ok((joined, index, left))
}

pub(super) fn too_long() -> Error {
    ErrorKind::Unsupported {
        what: "decode weights that take more bytes than can be addressed".to_owned(),
        instead: "decode some of them".to_owned(),
    }
    .into()
}
