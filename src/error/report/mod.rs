//! What a file and a type have in common, as data; `crate::report` finds it out.

mod display;
mod pattern;
mod serialize;

use std::ops::Range;

pub(crate) use pattern::{fill, pattern};

use crate::tensor::TensorInfo;

/// What a file and a type have in common, told from the file's index and the type's [`Schema`](crate::Schema): before
/// any payload is read, and all of it at once.
///
/// Printed, it is a text for people, in which what many items of a list have alike is one line. Serialized, it is all
/// of it for programs.
///
/// ```
/// use ndarray::{Array1, Array2};
/// use tensorfile::{Dtype, LoadReport, TensorFile, TensorInfo};
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
/// What only payloads and keys tell is not in it: numbers that the dtype of a `cast` cannot hold, bytes that are no
/// `bool`, bytes that are not aligned for a view, and keys of a map that its key type refuses.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct LoadReport {
    /// The number of tensors in the file.
    pub tensors: usize,
    /// How many of them fit a place in the type.
    pub loaded: usize,
    /// The bytes that these take in the file.
    pub loaded_bytes: u64,
    /// What the type wants and the file does not have, in the order of the type.
    pub missing: Vec<MissingTensor>,
    /// What the file has and the type does not want, in the order of the file.
    pub unexpected: Vec<UnexpectedTensor>,
    /// Tensors of other dtypes, in the order of the file.
    pub wrong_dtype: Vec<Misfit>,
    /// Tensors of other ranks or with other dims, in the order of the file.
    pub wrong_shape: Vec<Misfit>,
    /// Tensors of other layouts, or where the type has a struct, a map or a list; in the order of the file.
    pub wrong_layout: Vec<Misfit>,
    /// Items that lists lack before their last.
    pub gaps: Vec<Gap>,
    /// Why the file's tensors could not be told from each other at all: it has no names and they do not fit by
    /// position, or a name has more parts than can be followed.
    pub refused: Option<String>,
}

/// A tensor that a type wants and a file does not have.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct MissingTensor {
    /// The name.
    pub name: String,
    /// What the type wants, such as `f32[_, 4]`.
    pub expected: String,
    /// Unexpected tensors that may be meant, the likeliest first.
    pub near: Vec<String>,
}

/// A tensor that a file has and a type does not want.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct UnexpectedTensor {
    /// The name, or the position such as `#3`.
    pub name: String,
    /// Dtype, shape and layout.
    pub info: TensorInfo,
    /// Names of the type, missing or optional, that may be meant.
    pub near: Vec<String>,
}

/// A tensor that a type wants otherwise.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Misfit {
    /// The name, or the position such as `#3`.
    pub name: String,
    /// What the file has.
    pub found: TensorInfo,
    /// What the type wants, such as `f32`, `[2, _]` or `rank 2`.
    pub expected: String,
}

/// Items that a list lacks, though it has later ones.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gap {
    /// The name of the list; empty where it is the whole file.
    pub list: String,
    /// The indices that are not there.
    pub missing: Range<usize>,
}

impl LoadReport {
    /// Whether the type can be read from the file.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.count() == 0
    }

    /// The number of findings, each of which keeps the type from being read.
    #[must_use]
    pub fn count(&self) -> usize {
        let misfits = self.wrong_dtype.len() + self.wrong_shape.len() + self.wrong_layout.len();
        self.missing.len() + self.unexpected.len() + misfits + self.gaps.len() + usize::from(self.refused.is_some())
    }
}

impl MissingTensor {
    pub(crate) fn new(name: String, expected: String) -> Self {
        Self { name, expected, near: Vec::new() }
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
