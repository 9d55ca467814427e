//! Comparisons of files and types, as data.

mod display;
mod pattern;

use std::ops::Range;

pub(crate) use pattern::{fill, pattern};

use crate::tensor::TensorInfo;

/// A comparison of a file's index with a type's [`Schema`](crate::model::Schema): every mismatch, before any payload is
/// read.
///
/// `Display` gives a text with one line for findings common to many items of a list. `Serialize` is complete.
///
/// ```
/// use ndarray::{Array1, Array2};
/// use tensorfile::report::LoadReport;
/// use tensorfile::{Dtype, TensorFile, TensorInfo};
///
/// #[derive(TensorFile)]
/// struct Linear {
///     weight: Array2<f32>,
///     bias: Array1<f32>,
/// }
///
/// let (weight, bias) = (TensorInfo::new(Dtype::F32, [2, 3]), TensorInfo::new(Dtype::F32, [2]));
/// let report = LoadReport::of(&Linear::schema(), [(Some("weight"), &weight), (Some("bais"), &bias)]);
/// assert!(!report.is_ok());
/// assert_eq!(
///     report.to_string(),
///     "1 missing, 1 unexpected; 1 of 2 tensors fit\n\
///      missing:\n  `bias`  f32[_]; did you mean `bais`?\n\
///      unexpected:\n  `bais`  f32[2]"
/// );
/// ```
///
/// Some errors depend on payloads and keys, which are not compared: numbers out of range for the dtype of a `cast`,
/// bytes invalid for `bool`, bytes misaligned for a view, and keys refused by the key type of a map.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct LoadReport {
    /// The number of tensors in the file.
    pub tensors: usize,
    /// The number of matching tensors.
    pub loaded: usize,
    /// The size of the matching tensors in the file, in bytes.
    pub loaded_bytes: u64,
    /// Tensors of the type missing from the file, in type order.
    pub missing: Vec<MissingTensor>,
    /// Tensors in the file without a place in the type, in file order.
    pub unexpected: Vec<UnexpectedTensor>,
    /// Tensors with another dtype than the type, in the order of the file.
    pub wrong_dtype: Vec<Misfit>,
    /// Codes and scales of quantized weights that would have to be cast, in file order; see [`quant`](crate::quant).
    pub codes: Vec<Misfit>,
    /// Tensors with a different rank or different dims than the type, in file order.
    pub wrong_shape: Vec<Misfit>,
    /// Tensors with another layout than the type, or in the place of a struct, a map or a list, in the order of the
    /// file.
    pub wrong_layout: Vec<Misfit>,
    /// Missing items in the middle of lists.
    pub gaps: Vec<Gap>,
    /// Metadata entries of the type missing from the file, in type order.
    pub missing_metadata: Vec<MissingMetadata>,
    /// Metadata entries with values unsuitable for the type, in type order.
    pub invalid_metadata: Vec<InvalidMetadata>,
    /// The reason why the file could not be compared: it has no names and its tensors do not match by position, or a
    /// name has too many parts. Or none of its tensors fits, although all of the type's may be missing.
    pub refused: Option<String>,
}

/// A tensor of a type missing from a file.
///
/// ```
/// use ndarray::{Array1, array};
/// use tensorfile::{File, TensorFile, TensorMap, ten};
///
/// #[derive(TensorFile)]
/// struct Norm {
///     scale: Array1<f32>,
/// }
///
/// let file = File::from_bytes(ten::to_vec(&TensorMap::from_iter([("scales", array![1.0_f32])]))?)?;
/// let missing = &file.report::<Norm>().missing[0];
/// assert_eq!((missing.name.as_str(), missing.expected.as_str()), ("scale", "f32[_]"));
/// assert_eq!(missing.near, ["scales"]);
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct MissingTensor {
    /// The name.
    pub name: String,
    /// The tensor of the type, such as `f32[_, 4]`.
    pub expected: String,
    /// Unexpected tensors with similar names, the most similar first.
    pub near: Vec<String>,
}

/// A metadata entry of a type missing from a file: a field with `#[tensor(metadata)]`.
///
/// ```
/// use tensorfile::{File, TensorFile, TensorMap, safetensors};
///
/// #[derive(TensorFile)]
/// struct Run {
///     #[tensor(metadata)]
///     epochs: u32,
/// }
///
/// let file = safetensors::Options::new().metadata("epoch", "3").to_vec(&TensorMap::new())?;
/// let missing = &File::from_bytes(file)?.report::<Run>().missing_metadata[0];
/// assert_eq!((missing.key.as_str(), missing.expected.as_str()), ("epochs", "a u32"));
/// assert_eq!(missing.near, ["epoch"]);
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MissingMetadata {
    /// The key.
    pub key: String,
    /// The value of the type, such as `a u32`.
    pub expected: String,
    /// Similar keys in the file, the most similar first.
    pub near: Vec<String>,
}

/// A metadata entry with a value unsuitable for the type.
///
/// ```
/// use tensorfile::{File, TensorFile, TensorMap, safetensors};
///
/// #[derive(TensorFile)]
/// struct Run {
///     #[tensor(metadata)]
///     epochs: u32,
/// }
///
/// let file = safetensors::Options::new().metadata("epochs", "many").to_vec(&TensorMap::new())?;
/// let invalid = &File::from_bytes(file)?.report::<Run>().invalid_metadata[0];
/// assert_eq!((invalid.key.as_str(), invalid.what.as_str()), ("epochs", "found `many`, but expected a u32"));
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InvalidMetadata {
    /// The key.
    pub key: String,
    /// The value found and the values expected.
    pub what: String,
}

/// A tensor in a file without a place in the type.
///
/// ```
/// use ndarray::{Array1, array};
/// use tensorfile::{File, TensorFile, TensorMap, ten};
///
/// #[derive(TensorFile)]
/// struct Norm {
///     scale: Array1<f32>,
/// }
///
/// let map = TensorMap::from_iter([("scale", array![1.0_f32]), ("step", array![2.0])]);
/// let report = File::from_bytes(ten::to_vec(&map)?)?.report::<Norm>();
/// assert_eq!((report.unexpected[0].name.as_str(), report.unexpected[0].info.to_string()), ("step", "f32[1]".into()));
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct UnexpectedTensor {
    /// The name, or the position such as `#3`.
    pub name: String,
    /// Dtype, shape and layout.
    pub info: TensorInfo,
    /// Similar names of the type, missing or optional.
    pub near: Vec<String>,
}

/// A tensor in a file that does not match the type.
///
/// ```
/// use ndarray::{Array1, array};
/// use tensorfile::{File, TensorFile, TensorMap, ten};
///
/// #[derive(TensorFile)]
/// struct Norm {
///     scale: Array1<f32>,
/// }
///
/// let file = File::from_bytes(ten::to_vec(&TensorMap::from_iter([("scale", array![1.0_f64])]))?)?;
/// let misfit = &file.report::<Norm>().wrong_dtype[0];
/// assert_eq!((misfit.found.to_string(), misfit.expected.as_str()), ("f64[1]".into(), "f32"));
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Misfit {
    /// The name, or the position such as `#3`.
    pub name: String,
    /// The tensor in the file.
    pub found: TensorInfo,
    /// The dtype, shape, rank or layout of the type, such as `f32`, `[2, _]` or `rank 2`.
    pub expected: String,
}

/// Missing items of a list with later items.
///
/// ```
/// use ndarray::{Array1, array};
/// use tensorfile::{File, TensorFile, TensorMap, ten};
///
/// #[derive(TensorFile)]
/// struct Model {
///     h: Vec<Array1<f32>>,
/// }
///
/// let map = TensorMap::from_iter([("h.0", array![1.0_f32]), ("h.3", array![2.0])]);
/// let report = File::from_bytes(ten::to_vec(&map)?)?.report::<Model>();
/// assert_eq!((report.gaps[0].list.as_str(), report.gaps[0].missing.clone()), ("h", 1..3));
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gap {
    /// The name of the list; empty if it is the whole file.
    pub list: String,
    /// The indices of the missing items.
    pub missing: Range<usize>,
}

impl LoadReport {
    /// Returns `true` if the type can be read from the file. It is `false` if the type takes nothing of a non-empty
    /// file.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.count() == 0
    }

    /// Returns the number of findings. Each one keeps the type from being read.
    #[must_use]
    pub fn count(&self) -> usize {
        let misfits = self.wrong_dtype.len() + self.codes.len() + self.wrong_shape.len() + self.wrong_layout.len();
        let metadata = self.missing_metadata.len() + self.invalid_metadata.len();
        let tensors = self.missing.len() + self.unexpected.len() + misfits + self.gaps.len();
        tensors + metadata + usize::from(self.refused.is_some())
    }
}

impl MissingTensor {
    pub(crate) fn new(name: String, expected: String) -> Self {
        Self { name, expected, near: Vec::new() }
    }
}

impl MissingMetadata {
    pub(crate) fn new(key: String, expected: String, near: Vec<String>) -> Self {
        Self { key, expected, near }
    }
}

impl InvalidMetadata {
    pub(crate) fn new(key: String, what: String) -> Self {
        Self { key, what }
    }
}

impl UnexpectedTensor {
    pub(crate) fn new(name: String, info: TensorInfo) -> Self {
        Self { name, info, near: Vec::new() }
    }
}

impl Misfit {
    pub(crate) fn new(name: String, found: TensorInfo, expected: String) -> Self {
        Self { name, found, expected }
    }
}

impl Gap {
    pub(crate) fn new(list: String, missing: Range<usize>) -> Self {
        Self { list, missing }
    }
}
