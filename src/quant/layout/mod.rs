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
mod nvfp4;
mod packed;
mod refused;
mod scaled;

use candidate::is_float8;
pub(super) use candidate::{Candidate, Known, MARKER, Recognized, module_of};

use crate::tensor::TensorInfo;

/// A name that may lead to a quantized weight, and the rule that decides.
pub(super) struct NameRule {
    /// The end of the name. One that begins with a dot is a whole name below its module.
    end: &'static str,
    /// Decides about a candidate whose stem is the name without the end; but the dot stays.
    pub(super) find: fn(&mut Candidate<'_>) -> Option<Recognized>,
}

/// The rule for blocks of ggml, which have a dtype of their own.
const BLOCKS: NameRule = NameRule { end: "", find: ggml::find };

/// The rule for 8-bit floats, whatever they are called: their scales may be missing.
const FLOATS8: NameRule = NameRule { end: "", find: scaled::without_scale };

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
    let may_match =
        matches!(name.as_bytes().last(), Some(b'v' | b'e' | b't' | b'B' | b'd' | b's' | b'4' | b'x' | b'q' | b'a'));
    let mut rules = NAME_RULES.iter().filter(|_| may_match);
    let by_name = rules.find_map(|layout| {
        let stem = match layout.end.strip_prefix('.') {
            Some(leaf) => name.strip_suffix(leaf).filter(|stem| stem.is_empty() || stem.ends_with('.')),
            None => name.strip_suffix(layout.end),
        };
        stem.map(|stem| (layout, stem))
    });
    // Scales are 8-bit floats too.
    by_name.or_else(|| is_float8(info.dtype).then_some((&FLOATS8, name)))
}
