//! Layouts that are recognized so that nothing takes their codes for numbers, and that are not decoded.
//!
//! Sources: `hqq/core/quantize.py`, `safetensors_support.py` of torchao, `qtensor.py` of quanto, `bitnet.py` and `eetq.py` of
//! transformers, `int8.py` of ComfyUI.

use super::candidate::{Candidate, Known, Recognized, module_of, said};
use crate::quant::config::Json;
use crate::quant::recipe::Recipe;
use crate::quant::{Role, Scheme};
use crate::tensor::{Dtype, TensorInfo};

/// `W_q`, with everything else in its module.
pub(super) fn hqq(tensors: &mut Candidate<'_>) -> Option<Recognized> {
    const OTHERS: &[&str] = &[
        "group_size",
        "nbits",
        "axis",
        "packing",
        "view_as_float",
        "unpack_view_dtype",
        "channel_wise",
        "compute_dtype",
        "optimize",
        "quant_scale",
        "quant_zero",
        "round_zero",
        "encoded_state_dict",
        "stores_quant_config",
        "offload_meta",
    ];
    let module = tensors.stem;
    let codes = tensors.take_own(Role::Codes);
    let has_scale = tensors.take(Role::Scale, &format!("{module}scale")).is_some();
    tensors.take(Role::Zero, &format!("{module}zero"));
    tensors.take(Role::Shape, &format!("{module}shape"));
    for leaf in OTHERS {
        tensors.take(Role::Other, &format!("{module}{leaf}"));
    }
    let name = format!("{module}weight");
    let known = match has_scale {
        true => Ok(Known::new(Scheme::Hqq, "", codes.shape.dims(), Recipe::Refused)),
        false => Err(format!("there is no `{module}scale`")),
    };
    Some(Recognized { name, known })
}

/// `_X_qdata`, with `_X_scale`: the class is in the metadata.
pub(super) fn torchao(tensors: &mut Candidate<'_>) -> Option<Recognized> {
    let stem = tensors.stem;
    let module = module_of(stem);
    let leaf = stem[module.len()..].strip_prefix('_')?;
    let name = format!("{module}{leaf}");
    let codes = tensors.take_own(Role::Codes);
    tensors.take(Role::Scale, &format!("{stem}_scale"));
    tensors.take(Role::Zero, &format!("{stem}_zero_point"));
    let class = tensors.observed.metadata(&name).and_then(|json| {
        let json = Json::parse(json.as_bytes()).ok()?;
        json.text(&["_type"]).map(str::to_owned)
    });
    Some(Recognized {
        name,
        known: Ok(Known::new(Scheme::Torchao, class.unwrap_or_default(), codes.shape.dims(), Recipe::Refused)),
    })
}

/// `X._data`, with `X._scale`.
pub(super) fn quanto(tensors: &mut Candidate<'_>) -> Option<Recognized> {
    let stem = tensors.stem;
    let name = stem.strip_suffix('.')?.to_owned();
    tensors.look(&format!("{stem}_scale"))?;
    let codes = tensors.take_own(Role::Codes);
    tensors.take(Role::Scale, &format!("{stem}_scale"));
    tensors.take(Role::Zero, &format!("{stem}_shift"));
    Some(Recognized { name, known: Ok(Known::new(Scheme::Quanto, "", codes.shape.dims(), Recipe::Refused)) })
}

/// `weight_scales`, beside `weight` of i8.
pub(super) fn eetq(tensors: &mut Candidate<'_>) -> Option<Recognized> {
    let name = format!("{}weight", tensors.stem);
    let codes = tensors.look(&name).filter(|codes| codes.dtype == Dtype::I8)?;
    tensors.take(Role::Codes, &name);
    tensors.take_own(Role::Scale);
    Some(Recognized { name, known: Ok(Known::new(Scheme::Eetq, "", codes.shape.dims(), Recipe::Refused)) })
}

/// u8 with a scale of floats: BitNet, if the configuration says so.
pub(super) fn bitnet(tensors: &Candidate<'_>, codes: &TensorInfo, scale: &TensorInfo) -> Result<Known, String> {
    match tensors.config().method().as_deref() {
        Some("bitnet") => Ok(Known::new(Scheme::Bitnet, "", codes.shape.dims(), Recipe::Refused)),
        _ => Err(format!("the codes are {codes} and the scale {scale}, which is no known layout")),
    }
}

/// i8 that ComfyUI describes.
pub(super) fn convrot(tensors: &Candidate<'_>, description: &str, codes: &TensorInfo) -> Result<Known, String> {
    let json = tensors.json(description)?;
    match (json.text(&["format"]), json.flag(&["convrot"])) {
        (Some("int8_tensorwise"), Some(true)) => {
            Ok(Known::new(Scheme::Convrot, "", codes.shape.dims(), Recipe::Refused))
        }
        (format, _) => Err(format!("`{description}` says {}, which is no known layout", said(format))),
    }
}
