//! Tensors that may be a quantized weight, and what a rule finds out about them.

use std::borrow::Cow;

use crate::quant::config::Json;
use crate::quant::recipe::Recipe;
use crate::quant::{Config, Observed, Part, Role, Scheme};
use crate::tensor::{Dtype, Shape, TensorInfo};

/// Returns a name up to its last dot, the dot included: the beginning of the names in the same module.
pub(in crate::quant) fn module_of(name: &str) -> &str {
    &name[..name.rfind('.').map_or(0, |dot| dot + 1)]
}

/// The marker of ComfyUI, at the beginning of the model.
pub(in crate::quant) const MARKER: &str = "scaled_fp8";

/// What a rule found: the weight, or why the tensors are none though their names say so.
pub(in crate::quant) struct Recognized {
    pub(in crate::quant) name: String,
    pub(in crate::quant) known: Result<Known, String>,
}

/// A recognized weight.
pub(in crate::quant) struct Known {
    pub(in crate::quant) scheme: Scheme,
    pub(in crate::quant) details: Cow<'static, str>,
    pub(in crate::quant) shape: Shape,
    pub(in crate::quant) recipe: Recipe,
}

impl Known {
    pub(super) fn new(scheme: Scheme, details: impl Into<Cow<'static, str>>, shape: &[usize], recipe: Recipe) -> Self {
        Self { scheme, details: details.into(), shape: Shape::new(shape), recipe }
    }
}

/// Tensors that may be a quantized weight, while a rule looks at them.
pub(in crate::quant) struct Candidate<'o> {
    pub(super) observed: &'o dyn Observed,
    /// The position of the tensor whose name led here.
    pub(super) at: usize,
    pub(super) stem: &'o str,
    /// The file has tensors called `X_packed`.
    pub(super) may_be_packed: bool,
    parts: Vec<Part>,
}

impl<'o> Candidate<'o> {
    pub(in crate::quant) fn new(observed: &'o dyn Observed, at: usize, stem: &'o str, may_be_packed: bool) -> Self {
        // Most weights have two.
        Self { observed, at, stem, may_be_packed, parts: Vec::with_capacity(2) }
    }

    pub(in crate::quant) fn into_parts(self) -> Vec<Part> {
        self.parts
    }

    /// Returns the header of a tensor with a name, without taking it.
    pub(super) fn look(&self, name: &str) -> Option<&'o TensorInfo> {
        self.observed.position(name).map(|position| self.observed.tensor(position).1)
    }

    /// Takes a tensor as a part, if it is there.
    pub(super) fn take(&mut self, role: Role, name: &str) -> Option<&'o TensorInfo> {
        let position = self.observed.position(name)?;
        Some(self.take_at(role, position))
    }

    /// Takes the tensor whose name led here.
    pub(super) fn take_own(&mut self, role: Role) -> &'o TensorInfo {
        self.take_at(role, self.at)
    }

    pub(super) fn take_at(&mut self, role: Role, position: usize) -> &'o TensorInfo {
        let (name, info) = self.observed.tensor(position);
        self.parts.push(Part { role, name: name.to_owned(), position, dtype: info.dtype });
        info
    }

    /// Takes a tensor that must be there.
    pub(super) fn need(&mut self, role: Role, name: &str) -> Result<&'o TensorInfo, String> {
        self.take(role, name).ok_or_else(|| format!("there is no `{name}`"))
    }

    /// Takes a tensor that must be there, with one of these dtypes and with a shape.
    pub(super) fn need_shape(
        &mut self,
        role: Role,
        name: &str,
        dtypes: &[Dtype],
        shape: &[usize],
    ) -> Result<&'o TensorInfo, String> {
        let info = self.need(role, name)?;
        if dtypes.contains(&info.dtype) && info.shape.dims() == shape {
            return Ok(info);
        }
        let expected = TensorInfo::new(dtypes[0], shape);
        Err(format!("`{name}` is {info}, but expected {expected}"))
    }

    /// Returns the description in a small tensor.
    pub(super) fn description(&self, name: &str) -> Result<Vec<u8>, String> {
        let position = self.observed.position(name).ok_or_else(|| format!("there is no `{name}`"))?;
        self.observed.description(position).ok_or_else(|| format!("`{name}`, which describes it, cannot be read here"))
    }

    /// Returns the JSON in a small tensor.
    pub(super) fn json(&self, name: &str) -> Result<Json, String> {
        Json::parse(&self.description(name)?).map_err(|problem| format!("`{name}`: {problem}"))
    }

    pub(super) fn config(&self) -> &'o Config {
        self.observed.config()
    }
}

/// The dtypes of scales that are numbers by themselves.
pub(super) const FLOATS: &[Dtype] = &[Dtype::F32, Dtype::Bf16, Dtype::F16];

/// Returns whether a dtype is one of the 8-bit floats that codes have.
pub(super) fn is_float8(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::F8E4M3Fn | Dtype::F8E5M2 | Dtype::F8E4M3Fnuz | Dtype::F8E5M2Fnuz)
}

/// Returns what a description says, for messages.
pub(super) fn said(value: Option<impl std::fmt::Display>) -> String {
    value.map_or_else(|| "nothing".to_owned(), |value| format!("`{value}`"))
}

/// Returns the blocks of groups of columns: each row has its own.
pub(super) fn group_blocks(shape: &[usize], group: usize) -> Vec<usize> {
    let mut blocks = vec![1; shape.len()];
    blocks.last_mut().into_iter().for_each(|last| *last = group);
    blocks
}

/// Returns a shape with the last dim multiplied.
pub(super) fn widened(dims: &[usize], factor: usize) -> Result<Vec<usize>, String> {
    let mut dims = dims.to_vec();
    let last = dims.last_mut().ok_or("the codes have no dims")?;
    *last = last.checked_mul(factor).ok_or("the shape exceeds memory")?;
    Ok(dims)
}

/// Returns a shape with the last dim divided; `None` if it is not a multiple.
pub(super) fn narrowed(dims: &[usize], divisor: usize) -> Option<Vec<usize>> {
    let mut dims = dims.to_vec();
    let last = dims.last_mut()?;
    if !last.is_multiple_of(divisor) {
        return None;
    }
    *last /= divisor;
    Some(dims)
}
