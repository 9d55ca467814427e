//! The layouts of quantized weights, one file for each family. A new one is one file and a row for each name that leads to
//! it.

mod awq;
mod bitsandbytes;
mod columns;
mod ggml;
mod gptq;
mod integers;
mod microscaling;
mod mlx;
mod nvfp4;
mod packed;
mod refused;
mod scaled;

use super::config::Json;
use super::recipe::Recipe;
use super::{Config, Observed, Part, Role, Scheme};
use crate::tensor::{Dtype, Shape, TensorInfo};

/// A name that may lead to a quantized weight, and the rule that decides.
pub(super) struct NameRule {
    /// The end of the name. One that begins with a dot is a whole name below its module.
    end: &'static str,
    /// Decides about a candidate whose stem is the name without the end; but the dot stays.
    pub(super) find: fn(&mut Candidate<'_>) -> Option<Recognized>,
}

/// The rule for blocks of ggml, which have a dtype of their own.
const BLOCKS: NameRule = NameRule { end: "", find: ggml::find };

const NAME_RULES: &[NameRule] = &[
    NameRule { end: "_scale_inv", find: scaled::scale_inv },
    NameRule { end: "_scale", find: scaled::scale },
    NameRule { end: ".scale", find: scaled::scale_of_module },
    NameRule { end: ".scale_weight", find: scaled::scale_weight },
    NameRule { end: ".SCB", find: integers::scb },
    NameRule { end: "_packed", find: packed::find },
    NameRule { end: "_blocks", find: microscaling::blocks },
    NameRule { end: ".qweight", find: gptq::find },
    NameRule { end: ".qzeros", find: gptq::zeros },
    NameRule { end: ".quant_state.bitsandbytes__nf4", find: bitsandbytes::nf4 },
    NameRule { end: ".quant_state.bitsandbytes__fp4", find: bitsandbytes::fp4 },
    NameRule { end: ".absmax", find: bitsandbytes::absmax },
    NameRule { end: ".scales", find: mlx::find },
    NameRule { end: ".W_q", find: refused::hqq },
    NameRule { end: "_qdata", find: refused::torchao },
    NameRule { end: "._data", find: refused::quanto },
    NameRule { end: ".weight_scales", find: refused::eetq },
];

/// Returns the rule for a tensor, and the stem of its name.
#[inline]
pub(super) fn of<'n>(name: &'n str, info: &TensorInfo) -> Option<(&'static NameRule, &'n str)> {
    if ggml::is_block(info.dtype) {
        return Some((&BLOCKS, name));
    }
    // Few names end as one of these do.
    if !matches!(name.as_bytes().last(), Some(b'v' | b'e' | b't' | b'B' | b'd' | b's' | b'4' | b'x' | b'q' | b'a')) {
        return None;
    }
    NAME_RULES.iter().find_map(|layout| {
        let stem = match layout.end.strip_prefix('.') {
            Some(leaf) => name.strip_suffix(leaf).filter(|stem| stem.is_empty() || stem.ends_with('.')),
            None => name.strip_suffix(layout.end),
        };
        stem.map(|stem| (layout, stem))
    })
}

/// Returns a name up to its last dot, the dot included: the beginning of the names in the same module.
pub(super) fn module_of(name: &str) -> &str {
    &name[..name.rfind('.').map_or(0, |dot| dot + 1)]
}

/// The marker of ComfyUI, at the beginning of the model.
pub(super) const MARKER: &str = "scaled_fp8";

/// What a rule found: the weight, or why the tensors are none though their names say so.
pub(super) struct Recognized {
    pub(super) name: String,
    pub(super) known: Result<Known, String>,
}

/// A recognized weight.
pub(super) struct Known {
    pub(super) scheme: Scheme,
    pub(super) details: String,
    pub(super) shape: Shape,
    pub(super) recipe: Recipe,
}

impl Known {
    fn new(scheme: Scheme, details: impl Into<String>, shape: &[usize], recipe: Recipe) -> Self {
        Self { scheme, details: details.into(), shape: Shape::new(shape), recipe }
    }
}

/// Tensors that may be a quantized weight, while a rule looks at them.
pub(super) struct Candidate<'o> {
    observed: &'o dyn Observed,
    /// The position of the tensor whose name led here.
    at: usize,
    stem: &'o str,
    parts: Vec<Part>,
}

impl<'o> Candidate<'o> {
    pub(super) fn new(observed: &'o dyn Observed, at: usize, stem: &'o str) -> Self {
        Self { observed, at, stem, parts: Vec::new() }
    }

    pub(super) fn into_parts(self) -> Vec<Part> {
        self.parts
    }

    /// Returns the header of a tensor with a name, without taking it.
    fn look(&self, name: &str) -> Option<&'o TensorInfo> {
        self.observed.position(name).map(|position| self.observed.tensor(position).1)
    }

    /// Takes a tensor as a part, if it is there.
    fn take(&mut self, role: Role, name: &str) -> Option<&'o TensorInfo> {
        let position = self.observed.position(name)?;
        Some(self.take_at(role, position))
    }

    /// Takes the tensor whose name led here.
    fn take_own(&mut self, role: Role) -> &'o TensorInfo {
        self.take_at(role, self.at)
    }

    fn take_at(&mut self, role: Role, position: usize) -> &'o TensorInfo {
        let (name, info) = self.observed.tensor(position);
        self.parts.push(Part { role, name: name.to_owned(), position, dtype: info.dtype });
        info
    }

    /// Takes a tensor that must be there.
    fn need(&mut self, role: Role, name: &str) -> Result<&'o TensorInfo, String> {
        self.take(role, name).ok_or_else(|| format!("there is no `{name}`"))
    }

    /// Takes a tensor that must be there, with one of these dtypes and with a shape.
    fn need_shape(
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
    fn description(&self, name: &str) -> Result<Vec<u8>, String> {
        let position = self.observed.position(name).ok_or_else(|| format!("there is no `{name}`"))?;
        self.observed.description(position).ok_or_else(|| format!("`{name}`, which describes it, cannot be read here"))
    }

    /// Returns the JSON in a small tensor.
    fn json(&self, name: &str) -> Result<Json, String> {
        Json::parse(&self.description(name)?).map_err(|problem| format!("`{name}`: {problem}"))
    }

    fn config(&self) -> &'o Config {
        self.observed.config()
    }
}

/// The dtypes of scales that are numbers by themselves.
const FLOATS: &[Dtype] = &[Dtype::F32, Dtype::Bf16, Dtype::F16];

/// Returns whether a dtype is one of the 8-bit floats that codes have.
fn is_float8(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::F8E4M3Fn | Dtype::F8E5M2 | Dtype::F8E4M3Fnuz | Dtype::F8E5M2Fnuz)
}

/// Returns what a description says, for messages.
fn said(value: Option<impl std::fmt::Display>) -> String {
    value.map_or_else(|| "nothing".to_owned(), |value| format!("`{value}`"))
}

/// Returns the blocks of groups of columns: each row has its own.
fn group_blocks(shape: &[usize], group: usize) -> Vec<usize> {
    let mut blocks = vec![1; shape.len()];
    blocks.last_mut().into_iter().for_each(|last| *last = group);
    blocks
}

/// Returns a shape with the last dim multiplied.
fn widened(dims: &[usize], factor: usize) -> Result<Vec<usize>, String> {
    let mut dims = dims.to_vec();
    let last = dims.last_mut().ok_or("the codes have no dims")?;
    *last = last.checked_mul(factor).ok_or("the shape exceeds memory")?;
    Ok(dims)
}

/// Returns a shape with the last dim divided; `None` if it is not a multiple.
fn narrowed(dims: &[usize], divisor: usize) -> Option<Vec<usize>> {
    let mut dims = dims.to_vec();
    let last = dims.last_mut()?;
    if !last.is_multiple_of(divisor) {
        return None;
    }
    *last /= divisor;
    Some(dims)
}
