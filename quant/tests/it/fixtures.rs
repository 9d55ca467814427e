//! Blocks and files that are kept here, with the weights that other programs load, as a hash. `tests/fixtures/README.md` says how
//! they were made.

use std::path::Path;

use tensorfile_quant::Block;

use crate::cases::{Parts, decode};
use crate::support::read_safetensors;

/// Two or more random blocks of each type, 512 weights, and the hash of those by ggml's `dequantize_row_*`.
const BLOCKS: [(&str, u64); 26] = [
    ("q4_0", 0x83d1_4273_47e7_54d4),
    ("q4_1", 0xe12f_c99d_11bf_6312),
    ("q5_0", 0x4e54_58aa_d3ac_fee2),
    ("q5_1", 0xaf86_3f8a_05cc_8e4d),
    ("q8_0", 0x55f0_2745_41f2_1b3b),
    ("q2_k", 0x00f4_a30a_78a2_08ca),
    ("q3_k", 0xf296_120d_2b77_7d3d),
    ("q4_k", 0x6342_01d6_b723_e22d),
    ("q5_k", 0xe825_ae86_2f4e_b1d9),
    ("q6_k", 0x523c_ba85_52f7_5e56),
    ("q8_k", 0xf026_56f7_6313_e98d),
    ("iq2_xxs", 0x535f_491f_317f_b805),
    ("iq2_xs", 0xd5e2_5e71_4cfc_53d4),
    ("iq3_xxs", 0x70fe_d4b0_ba42_d335),
    ("iq1_s", 0x48f0_1146_35b9_c6b7),
    ("iq4_nl", 0xc7f5_f872_6243_f097),
    ("iq3_s", 0x1aaa_9878_6c90_16ce),
    ("iq2_s", 0xa9a7_d727_8879_cf15),
    ("iq4_xs", 0xbda7_0f8e_a197_0b2f),
    ("iq1_m", 0xf28e_dbbc_0359_71bd),
    ("tq1_0", 0x0d76_1fe1_1408_9056),
    ("tq2_0", 0x5cf2_7eb0_aa6d_a270),
    ("mxfp4", 0x6ed4_db33_830e_55bd),
    ("nvfp4", 0x1cdf_4859_bb32_9a69),
    ("q1_0", 0x9c65_e5cf_ac71_3725),
    ("q2_0", 0xda7c_159c_fc9c_a893),
];

#[test]
fn blocks_have_the_weights_of_ggml() {
    let mut bytes = &std::fs::read(fixture("ggml.bin")).expect("a fixture")[..];
    for (block, (name, expected)) in Block::ALL.iter().zip(BLOCKS) {
        let mut weights = [0.0_f32; 512];
        let (blocks, rest) = bytes.split_at(weights.len() / block.weights() * block.bytes());
        bytes = rest;
        block.decode(blocks, &mut weights);
        assert_eq!((block.name(), hash(&weights)), (name, expected));
    }
    assert!(bytes.is_empty());
}

/// Files of safetensors: the name of the layer, the number of its weights and their hash.
const FILES: [(&str, &str, usize, u64); 10] = [
    ("awq-gemm", "model.layers.0.self_attn.o_proj", 32 * 64, 0x896e_cf73_3dcb_9bbf),
    ("bnb-int8", "model.layers.0.mlp.gate_proj", 48 * 64, 0xcdef_e0c7_16a8_cb78),
    ("bnb-nf4", "model.layers.0.mlp.gate_proj", 24 * 64, 0x9da4_bee1_19b3_70d1),
    ("ct-int4-zero", "model.layers.0.self_attn.q_proj", 20 * 128, 0x0c3e_5d1a_a092_9fee),
    ("fp8-channel-ct", "model.layers.0.mlp.up_proj", 48 * 64, 0x5405_117a_c44f_24df),
    ("gptq-4bit-act", "model.layers.0.self_attn.o_proj", 32 * 128, 0xf9b6_cb8e_cb54_c5ce),
    ("mlx-3bit-f32", "model.layers.0.mlp.down_proj", 16 * 256, 0x8f26_93f3_f7ad_a467),
    ("mxfp4-gptoss", "model.layers.0.mlp.experts.gate_up_proj", 2 * 64 * 24, 0x9fb1_4119_ec5b_bd49),
    ("nvfp4-comfy", "blocks.0.mlp.up", 32 * 96, 0x4908_7e7b_c8d4_1e77),
    ("nvfp4-ct", "model.layers.0.mlp.down_proj", 24 * 128, 0x6ffe_8a24_a6f0_10d1),
];

#[test]
fn files_have_the_weights_that_other_programs_load() {
    for (case, layer, weights, expected) in FILES {
        let parts = Parts::new(read_safetensors(&fixture(&format!("{case}.safetensors"))), layer);
        let mut out = vec![0.0_f32; weights];
        decode(case, &parts, &mut out);
        assert_eq!(hash(&out), expected, "{case}: {:#x}", hash(&out));
    }
}

fn fixture(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// Returns the FNV-1a hash of the bytes of weights, with one NaN.
fn hash(weights: &[f32]) -> u64 {
    let bits = weights.iter().map(|weight| if weight.is_nan() { 0x7fc0_0000 } else { weight.to_bits() });
    bits.flat_map(u32::to_le_bytes)
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
