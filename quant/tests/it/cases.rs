//! Files as other programs write them, with the weights that they load.
//!
//! Each file is decoded with a recipe that says by hand which tensors are its parts.

use std::path::Path;

use half::{bf16, f16};
use tensorfile_quant::gptq::Version;
use tensorfile_quant::packed::Packing;
use tensorfile_quant::{Columns, Float, Float4, Float8, affine, awq, codebook, float4, float32, gptq, int8, packed};

use crate::support::{Tensor, Tensors, block, read_folder, read_safetensors};

/// The parts of the quantized weight of a case, by what follows the name of its layer.
pub struct Parts(Tensors);

impl Parts {
    pub fn new(tensors: Tensors, layer: &str) -> Self {
        let tensors = tensors.into_iter();
        Self(tensors.filter_map(|(name, tensor)| Some((name.strip_prefix(layer)?.to_owned(), tensor))).collect())
    }

    fn get(&self, suffix: &str) -> &Tensor {
        self.0.get(suffix).unwrap_or_else(|| panic!("no tensor ends with {suffix}"))
    }

    fn floats(&self, suffix: &str) -> Vec<f32> {
        self.get(suffix).floats()
    }
}

/// Decodes the weight of a case.
pub fn decode<F: Float>(case: &str, parts: &Parts, out: &mut [F]) {
    match case {
        "fp8-block" | "fp8-block-shards" => fp8_blocks(parts.get(".weight"), &parts.floats(".weight_scale_inv"), out),
        "deepseek-v4-fp8" => fp8_blocks(parts.get(".weight"), &parts.floats(".scale"), out),
        "fp8-tensor-ct" => fp8(parts.get(".weight"), &parts.floats(".weight_scale"), out),
        "fp8-channel-ct" => fp8(parts.get(".weight"), &parts.floats(".weight_scale"), out),
        "fp8-tensor-modelopt" => fp8(parts.get(".weight"), &parts.floats(".weight_scale"), out),
        "fp8-comfy-old" => fp8(parts.get(".weight"), &parts.floats(".scale_weight"), out),
        "nvfp4-ct" => {
            let [global] = parts.floats(".weight_global_scale")[..] else { panic!("one scale") };
            let scales: Vec<_> = parts.floats(".weight_scale").iter().map(|scale| scale / global).collect();
            Float4::Ocp.decode(&parts.get(".weight_packed").bytes, &scales, 16, out);
        }
        "nvfp4-modelopt" => {
            let [second] = parts.floats(".weight_scale_2")[..] else { panic!("one scale") };
            let scales: Vec<_> = parts.floats(".weight_scale").iter().map(|scale| scale * second).collect();
            Float4::ModelOpt.decode(&parts.get(".weight").bytes, &scales, 16, out);
        }
        "nvfp4-comfy" => {
            let [second] = parts.floats(".weight_scale_2")[..] else { panic!("one scale") };
            let stored = parts.floats(".weight_scale");
            let weight = parts.get(".weight");
            let groups = 2 * weight.shape[1] / 16;
            let scale = |row, group| stored[float4::tile_index(row, group, groups)] * second;
            let scales: Vec<_> =
                (0..weight.shape[0]).flat_map(|row| (0..groups).map(move |group| scale(row, group))).collect();
            Float4::HighFirst.decode(&weight.bytes, &scales, 16, out);
        }
        "mxfp4-gptoss" => {
            let blocks = parts.get("_blocks");
            let (rows, columns) = (blocks.shape[1], blocks.shape[2] * 32);
            let mut weights = vec![F::default(); out.len()];
            Float4::Ocp.decode(&blocks.bytes, &powers(parts.get("_scales")), 32, &mut weights);
            let experts = weights.chunks(rows * columns).zip(out.chunks_mut(rows * columns));
            experts.for_each(|(weights, out)| tensorfile_quant::transpose(weights, columns, out, rows));
        }
        "mxfp4-ct" => {
            let scales = powers(parts.get(".weight_scale"));
            Float4::Ocp.decode(&parts.get(".weight_packed").bytes, &scales, 32, out);
        }
        "gptq-4bit-v1" | "gptq-4bit-act" => decode_gptq(parts, 4, Version::V1, out),
        "gptq-4bit-v2" => decode_gptq(parts, 4, Version::V2, out),
        "awq-gemm" => {
            let (scales, columns, rows) = (parts.floats(".scales"), 32, 64);
            let mut zeros = vec![0; scales.len()];
            awq::unpack_zeros(&parts.get(".qzeros").bytes, &mut zeros);
            let groups: Vec<_> = (0..rows).map(|row| row / 32).collect();
            let columns = Columns { count: columns, zeros: &zeros, scales: &scales, groups: &groups };
            awq::decode(&parts.get(".qweight").bytes, &columns, out, groups.len());
        }
        "bnb-nf4" | "bnb-fp4" => {
            let absmax = parts.floats(".weight.absmax");
            codebook::decode(&parts.get(".weight").bytes, &map(parts.floats(".weight.quant_map")), &absmax, 64, out);
        }
        "bnb-nf4-nested" => {
            let codes = &parts.get(".weight.absmax").bytes;
            let mut absmax = vec![0.0; codes.len()];
            let nested_map = map(parts.floats(".weight.nested_quant_map"));
            let nested_absmax = parts.floats(".weight.nested_absmax");
            codebook::decode_absmax(codes, &nested_map, &nested_absmax, 256, 0.031_234_5, &mut absmax);
            codebook::decode(&parts.get(".weight").bytes, &map(parts.floats(".weight.quant_map")), &absmax, 64, out);
        }
        "bnb-int8" => int8::decode_llm(&parts.get(".weight").bytes, &parts.floats(".SCB"), 64, out),
        "ct-int8" => int8::decode(&parts.get(".weight").bytes, &parts.floats(".weight_scale"), 48, out),
        "ct-int4-group" => {
            let scales = parts.floats(".weight_scale");
            packed::decode(
                &parts.get(".weight_packed").bytes,
                4,
                Packing::Padded,
                &vec![8; scales.len()],
                &scales,
                32,
                out,
            );
        }
        "ct-int4-zero" => {
            let (scales, stored) = (parts.floats(".weight_scale"), parts.get(".weight_zero_point"));
            let mut zeros = vec![0; scales.len()];
            for (row, zeros) in zeros.chunks_mut(2).enumerate() {
                packed::unpack_row(&stored.bytes, 4, Packing::Padded, row, zeros);
            }
            packed::decode(&parts.get(".weight_packed").bytes, 4, Packing::Padded, &zeros, &scales, 64, out);
        }
        "mlx-4bit-f32" => decode_affine(parts, 4, 64, out),
        "mlx-4bit-bf16" => decode_affine(parts, 4, 32, out),
        "mlx-3bit-f32" => decode_affine(parts, 3, 64, out),
        "mlx-8bit-f16" => decode_affine(parts, 8, 128, out),
        "mlx-nvfp4" => {
            let codes = &parts.get(".scales").bytes;
            let mut scales = vec![0.0; codes.len()];
            Float8::E4m3Fn.widen_bytes(codes, &mut scales);
            Float4::Ocp.decode(&parts.get(".weight").bytes, &scales, 16, out);
        }
        "gguf-nvfp4-scale" => {
            let mut weights = vec![0.0; out.len()];
            decode_blocks(parts.get(".weight"), &mut weights);
            float32::decode(&weights, &parts.floats(".scale"), out.len(), out);
        }
        _ => decode_blocks(parts.get(".weight"), out),
    }
}

/// One scale for all weights, or for each row.
fn fp8<F: Float>(weight: &Tensor, scales: &[f32], out: &mut [F]) {
    Float8::E4m3Fn.decode(&weight.bytes, scales, out.len() / scales.len(), out);
}

/// One scale for 128 rows and columns.
fn fp8_blocks<F: Float>(weight: &Tensor, scales: &[f32], out: &mut [F]) {
    let columns = weight.shape[1];
    let groups = columns.div_ceil(128);
    for (row, (codes, out)) in weight.bytes.chunks(columns).zip(out.chunks_mut(columns)).enumerate() {
        Float8::E4m3Fn.decode(codes, &scales[row / 128 * groups..][..groups], 128, out);
    }
}

fn decode_gptq<F: Float>(parts: &Parts, bits: u32, version: Version, out: &mut [F]) {
    let (qweight, qzeros, scales) = (parts.get(".qweight"), parts.get(".qzeros"), parts.floats(".scales"));
    let columns = qweight.shape[1];
    let mut zeros = vec![0; scales.len()];
    for (words, zeros) in qzeros.bytes.chunks(4 * qzeros.shape[1]).zip(zeros.chunks_mut(columns)) {
        gptq::unpack_zeros(words, bits, version, zeros);
    }
    let (groups, _) = parts.get(".g_idx").bytes.as_chunks();
    let groups: Vec<_> = groups.iter().map(|group| u32::from_le_bytes(*group)).collect();
    let columns = Columns { count: columns, zeros: &zeros, scales: &scales, groups: &groups };
    gptq::decode(&qweight.bytes, bits, &columns, out, groups.len());
}

fn decode_affine<F: Float>(parts: &Parts, bits: u32, group: usize, out: &mut [F]) {
    let (scales, biases) = (parts.floats(".scales"), parts.floats(".biases"));
    affine::decode(&parts.get(".weight").bytes, bits, &scales, &biases, group, out);
}

fn decode_blocks<F: Float>(weight: &Tensor, out: &mut [F]) {
    block(weight.dtype.parse().expect("a number of ggml")).decode(&weight.bytes, out);
}

fn powers(scales: &Tensor) -> Vec<f32> {
    let mut powers = vec![0.0; scales.bytes.len()];
    Float8::E8m0.widen_bytes(&scales.bytes, &mut powers);
    powers
}

fn map<const N: usize>(floats: Vec<f32>) -> [f32; N] {
    floats.try_into().expect("a map of all codes")
}

#[test]
fn files_of_other_programs_have_the_weights_that_they_load() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/cases/quant");
    let Ok(entries) = folder.join("_expected").read_dir() else {
        eprintln!("NOTE: {} is not there, and no files of other programs are decoded", folder.display());
        return;
    };
    let mut cases = 0;
    for entry in entries {
        let path = entry.expect("an entry").path();
        let case = path.file_stem().and_then(|name| name.to_str()).expect("the name of a case");
        let is_refused = case.starts_with("hqq") || case.starts_with("torchao");
        if path.extension().is_none_or(|extension| extension != "safetensors") || is_refused {
            continue;
        }
        let (name, expected) = read_safetensors(&path).pop_first().expect("a weight");
        let parts = Parts::new(read_folder(&folder.join(case)), name.strip_suffix(".weight").unwrap_or(&name));
        check::<f32>(case, &parts, &expected.floats(), |number| number.to_bits());
        check::<bf16>(case, &parts, &expected.floats(), |number| number.to_bits().into());
        check::<f16>(case, &parts, &expected.floats(), |number| number.to_bits().into());
        cases += 1;
    }
    assert!(cases >= 45, "{cases} cases");
    eprintln!("{cases} cases are equal");
}

/// Compares the decoded weight, rounded once. Any NaN is the same.
fn check<F: Float>(case: &str, parts: &Parts, expected: &[f32], bits: impl Fn(F) -> u32) {
    let mut out = vec![F::default(); expected.len()];
    decode(case, parts, &mut out);
    for (i, (&found, &expected)) in out.iter().zip(expected).enumerate() {
        let is_same = bits(found) == bits(F::nearest(expected)) || found.widen().is_nan() && expected.is_nan();
        assert!(is_same, "{case}: weight {i} is {}, not {expected}", found.widen());
    }
}
