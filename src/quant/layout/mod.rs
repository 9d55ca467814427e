//! The layouts of quantized weights, one file for each family. A new one is one file and a row for each name that leads to
//! it.

mod awq;
mod bitsandbytes;
mod candidate;
mod columns;
mod ggml;
mod gptq;
mod integers;
mod microscaling;
mod mlx;
mod name_end;
mod nvfp4;
mod packed;
mod refused;
mod scaled;

use candidate::is_float8;
pub(super) use candidate::{Candidate, Known, MARKER, Recognized, module_of};
use name_end::NameEnd;

use crate::tensor::TensorInfo;

/// Decides about a candidate.
pub(super) type FindWeight = fn(&mut Candidate<'_>) -> Option<Recognized>;

/// A name that may lead to a quantized weight, and the rule that decides.
struct NameRule {
    end: NameEnd,
    /// Decides about a candidate whose stem is the name without the end; but the dot stays.
    find: FindWeight,
}

const fn rule(end: &'static str, find: FindWeight) -> NameRule {
    NameRule { end: NameEnd::new(end), find }
}

const NAME_RULES: &[NameRule] = &[
    rule("_scale_inv", scaled::scale_inv),
    rule("_scale", scaled::scale),
    rule(".scale", scaled::scale_of_module),
    rule(".scale_weight", scaled::scale_weight),
    rule(".SCB", integers::scb),
    rule("_packed", packed::find),
    rule("_blocks", microscaling::blocks),
    rule(".qweight", gptq::find),
    rule(".qzeros", gptq::zeros),
    rule(".quant_state.bitsandbytes__nf4", bitsandbytes::nf4),
    rule(".quant_state.bitsandbytes__fp4", bitsandbytes::fp4),
    rule(".absmax", bitsandbytes::absmax),
    rule(".scales", mlx::find),
    rule(".W_q", refused::hqq),
    rule("_qdata", refused::torchao),
    rule("._data", refused::quanto),
    rule(".weight_scales", refused::eetq),
];

/// Names below the module of a weight that belong to it, but are not needed for it.
const OTHERS: &[NameEnd] = &[
    NameEnd::new(".input_scale"),
    NameEnd::new(".input_global_scale"),
    NameEnd::new(".input_zero_point"),
    NameEnd::new(".output_scale"),
    NameEnd::new(".scale_input"),
    NameEnd::new(".q_scale"),
    NameEnd::new(".k_scale"),
    NameEnd::new(".v_scale"),
    NameEnd::new(".weight_format"),
    NameEnd::new(".comfy_quant"),
    NameEnd::leaf(MARKER),
];

/// The rules of each last byte of a name, as bits.
const RULES_BY_LAST: [u32; 256] = {
    let (mut by_last, mut i) = ([0; 256], 0);
    while i < NAME_RULES.len() {
        by_last[NAME_RULES[i].end.last() as usize] |= 1 << i;
        i += 1;
    }
    by_last
};

/// The same for the names of [`OTHERS`].
const OTHERS_BY_LAST: [u32; 256] = {
    let (mut by_last, mut i) = ([0; 256], 0);
    while i < OTHERS.len() {
        by_last[OTHERS[i].last() as usize] |= 1 << i;
        i += 1;
    }
    by_last
};

/// What leads from a tensor to a quantized weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lead {
    /// A block of ggml: a dtype of its own.
    Block,
    /// A name, given by its rule.
    Name(u8),
    /// An 8-bit float that may be codes, whatever it is called: its scales may be missing.
    Float8,
}

impl Lead {
    /// Returns what leads from a tensor to a weight.
    #[inline]
    pub(super) fn of(name: &str, info: &TensorInfo) -> Option<Self> {
        if ggml::is_block(info.dtype) {
            return Some(Self::Block);
        }
        let by_name = ends_of(name, &RULES_BY_LAST).find(|i| NAME_RULES[*i].end.strip(name).is_some());
        // Scales are 8-bit floats too.
        match by_name {
            Some(i) => u8::try_from(i).ok().map(Self::Name),
            None => is_float8(info.dtype).then_some(Self::Float8),
        }
    }

    /// Returns the rule that decides about a tensor, and the stem of its name.
    pub(super) fn rule(self, name: &str) -> (FindWeight, &str) {
        match self {
            Self::Block => (ggml::find, name),
            Self::Float8 => (scaled::without_scale, name),
            Self::Name(i) => {
                let NameRule { end, find } = &NAME_RULES[usize::from(i)];
                (*find, end.strip(name).unwrap_or(name))
            }
        }
    }
}

/// Returns whether a tensor may belong to a weight that does not need it.
#[inline]
pub(super) fn is_other(name: &str) -> bool {
    ends_of(name, &OTHERS_BY_LAST).any(|i| OTHERS[i].strip(name).is_some())
}

/// Returns the numbers of the ends with the last byte of a name: most names have none.
#[inline]
fn ends_of(name: &str, by_last: &[u32; 256]) -> impl Iterator<Item = usize> {
    let mut ends = name.as_bytes().last().map_or(0, |last| by_last[usize::from(*last)]);
    std::iter::from_fn(move || {
        let first = (ends != 0).then_some(ends.trailing_zeros() as usize);
        ends &= ends.wrapping_sub(1);
        first
    })
}
