//! The 4-bit codes of bitsandbytes, which describe themselves.
//!
//! Source: `functional.py` of bitsandbytes, `QuantState`.

use super::candidate::{Candidate, Known, Recognized, said};
use crate::quant::recipe::{CodebookRecipe, Recipe};
use crate::quant::{Role, Scheme};
use crate::tensor::{Dtype, TensorInfo};

/// The end of the name of the description, after that of the weight.
const STATE: &str = ".quant_state.bitsandbytes__";

pub(super) fn nf4(tensors: &mut Candidate<'_>) -> Option<Recognized> {
    Some(state(tensors, Scheme::Nf4))
}

pub(super) fn fp4(tensors: &mut Candidate<'_>) -> Option<Recognized> {
    Some(state(tensors, Scheme::Fp4))
}

/// `absmax` without a description.
pub(super) fn absmax(tensors: &mut Candidate<'_>) -> Option<Recognized> {
    let name = tensors.stem.strip_suffix('.')?.to_owned();
    let has_state = ["nf4", "fp4"].iter().any(|kind| tensors.look(&format!("{name}{STATE}{kind}")).is_some());
    if has_state || tensors.look(&name).is_some_and(|info| info.dtype.is_float()) {
        return None;
    }
    tensors.take(Role::Codes, &name);
    tensors.take_own(Role::Scale);
    Some(Recognized { known: Err(format!("there is no `{name}{STATE}nf4` or `fp4`, which describes it")), name })
}

fn state(tensors: &mut Candidate<'_>, scheme: Scheme) -> Recognized {
    // The stem ends with a dot, which stands before `quant_state`.
    let name = tensors.stem.trim_end_matches('.').to_owned();
    let description = tensors.observed.tensor(tensors.at).0.to_owned();
    tensors.take_own(Role::Other);
    let codes = tensors.need(Role::Codes, &name);
    let absmax = tensors.need(Role::Scale, &format!("{name}.absmax"));
    let map = tensors.need(Role::Map, &format!("{name}.quant_map"));
    let nested = tensors.take(Role::SecondScale, &format!("{name}.nested_absmax"));
    let nested_map = tensors.take(Role::Map, &format!("{name}.nested_quant_map"));
    let known = codes.and_then(|codes| {
        let state = QuantState::read(tensors, &description, scheme)?;
        state.check(&name, [codes, absmax?, map?], [nested, nested_map])?;
        let details = match state.nested {
            Some(_) => format!("blocks of {}, nested", state.block),
            None => format!("blocks of {}", state.block),
        };
        let recipe = CodebookRecipe { block: state.block, nested: state.nested.map(|block| (block, state.offset)) };
        Ok(Known::new(scheme, details, &state.shape, Recipe::Codebook(recipe)))
    });
    Recognized { name, known }
}

/// What a description says.
struct QuantState {
    shape: Vec<usize>,
    block: usize,
    /// The block of the scales of scales.
    nested: Option<usize>,
    /// What is added to scales that were themselves decoded.
    offset: f32,
}

impl QuantState {
    fn read(tensors: &Candidate<'_>, name: &str, scheme: Scheme) -> Result<Self, String> {
        let json = tensors.json(name)?;
        if json.text(&["quant_type"]) != Some(scheme.name()) {
            return Err(format!("`{name}` says {} for its type", said(json.text(&["quant_type"]))));
        }
        let size = |key: &str| json.number(&[key]).and_then(|size| usize::try_from(size).ok()).filter(|size| *size > 0);
        let shape = json.numbers(&["shape"]).unwrap_or_default();
        let shape: Option<Vec<usize>> = shape.into_iter().map(|dim| usize::try_from(dim).ok()).collect();
        let (Some(block), Some(shape)) = (size("blocksize"), shape.filter(|shape| !shape.is_empty())) else {
            return Err(format!("`{name}` states no shape and block size"));
        };
        let nested = size("nested_blocksize");
        if nested.is_some() && json.float(&["nested_offset"]).is_none() {
            return Err(format!("`{name}` states no `nested_offset`"));
        }
        #[expect(clippy::cast_possible_truncation, reason = "bitsandbytes writes the digits of a f32")]
        let offset = json.float(&["nested_offset"]).unwrap_or_default() as f32;
        // A block begins with a byte.
        if !block.is_multiple_of(2) {
            return Err(format!("`{name}` states blocks of {block}, which begin within a byte"));
        }
        Ok(Self { shape, block, nested, offset })
    }

    fn check(
        &self,
        name: &str,
        [codes, absmax, map]: [&TensorInfo; 3],
        [nested, nested_map]: [Option<&TensorInfo>; 2],
    ) -> Result<(), String> {
        // A block of another rank would be in several places.
        let is = |info: &TensorInfo, dtype, elements| {
            let is_flat = info.shape.iter().filter(|dim| **dim != 1).count() <= 1;
            is_flat && info.dtype == dtype && info.shape.elements() == Some(elements)
        };
        let elements = self.shape.iter().try_fold(1_usize, |all, dim| all.checked_mul(*dim));
        let elements =
            elements.filter(|elements| elements.checked_mul(4).is_some()).ok_or("the shape exceeds memory")?;
        if !is(codes, Dtype::U8, elements.div_ceil(2)) {
            return Err(format!("`{name}` is {codes}, but expected u8 for {:?}, two to a byte", self.shape));
        }
        if !is(map, Dtype::F32, 16) {
            return Err(format!("`{name}.quant_map` is {map}, but expected f32[16]"));
        }
        let blocks = elements.div_ceil(self.block);
        let Some(nested_block) = self.nested else {
            return match is(absmax, Dtype::F32, blocks) {
                true => Ok(()),
                false => Err(format!("`{name}.absmax` is {absmax}, but expected f32[{blocks}]")),
            };
        };
        if !is(absmax, Dtype::U8, blocks) {
            return Err(format!("`{name}.absmax` is {absmax}, but expected u8[{blocks}]"));
        }
        let (Some(nested), Some(nested_map)) = (nested, nested_map) else {
            return Err(format!("there is no `{name}.nested_absmax` or `{name}.nested_quant_map`"));
        };
        let nested_blocks = blocks.div_ceil(nested_block);
        if !is(nested, Dtype::F32, nested_blocks) || !is(nested_map, Dtype::F32, 256) {
            return Err(format!(
                "the nested scales are {nested} and {nested_map}, but expected f32[{nested_blocks}] and f32[256]"
            ));
        }
        Ok(())
    }
}
