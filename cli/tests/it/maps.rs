//! Layout maps: files are read and written in another layout, with a receipt and a proof.

use std::fs;
use std::path::Path;

use tensorfile::{File, TensorMap};

use super::Session;

/// Copies a case of the tests of the library: `left.safetensors`, `right.safetensors` and `config.json`.
fn session(case: &str) -> Session {
    let session = Session::new();
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("tests/fixtures/maps").join(case);
    for entry in fs::read_dir(cases).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), session.path(entry.file_name().to_str().unwrap())).unwrap();
    }
    session
}

#[test]
fn every_command_reads_another_layout() {
    let session = session("cases/qwen3_moe");
    insta::assert_snapshot!(session.transcript(&[
        "ls left.safetensors --map qwen3-moe",
        "diff left.safetensors right.safetensors --map qwen3-moe",
        "diff right.safetensors left.safetensors --map qwen3-moe --invert --quiet",
        "hash left.safetensors --map qwen3-moe",
        "hash right.safetensors",
        "verify --payload left.safetensors --map qwen3-moe",
        "show left.safetensors model.layers.0.mlp.experts.down_proj --map qwen3-moe --slice 1,0",
        "codegen left.safetensors --map qwen3-moe --filter *.experts.*",
        "stats left.safetensors --map qwen3-moe --filter *.experts.*",
    ]));
    assert!(session.run(&["info", "left.safetensors", "--map", "qwen3-moe"]).status.success());
}

#[test]
fn a_conversion_is_proved() {
    let session = session("cases/llama_gguf");
    insta::assert_snapshot!(session.transcript(&[
        "convert left.safetensors out.safetensors --map llama-gguf --dry-run",
        "convert left.safetensors out.safetensors --map llama-gguf --prove --receipt receipt.json",
        "diff out.safetensors right.safetensors",
        "convert out.safetensors back.safetensors --map llama-gguf --invert --config config.json --prove",
        "diff back.safetensors left.safetensors",
        "convert left.safetensors half.npz --map llama-gguf --filter blk.0.* --rename blk.0.*=* --dtype f16",
        "ls half.npz",
        "convert left.safetensors out.safetensors --map llama-gguf --prove --dtype f16",
        "convert left.safetensors - --map llama-gguf --to safetensors --receipt -",
    ]));
    let receipt: serde_json::Value = serde_json::from_slice(&fs::read(session.path("receipt.json")).unwrap()).unwrap();
    assert_eq!(receipt["proved"], serde_json::json!({ "tensors": 21, "differences": [] }));
    assert_eq!(receipt["source"]["elements"], receipt["target"]["elements"]);
    let digest = String::from_utf8(session.run(&["hash", "right.safetensors"]).stdout).unwrap();
    assert!(digest.starts_with(receipt["target"]["digest"].as_str().unwrap()), "{digest}");
}

#[test]
fn what_does_not_fit_leaves_no_file() {
    let session = session("bad/expert_hole");
    session.write("none.safetensors", &TensorMap::from_iter([("a", ndarray::array![1.0_f32])]));
    session.write("small.safetensors", &TensorMap::from_iter([("b", ndarray::array![1.0_f32])]));
    fs::write(session.path("typo.map"), "let x = 2\na.{x} [h] = b [x h\n").unwrap();
    fs::write(session.path("pad.map"), "let pad = 1\na [v+pad] = b [v]\n").unwrap();
    insta::assert_snapshot!(session.transcript(&[
        "convert in.safetensors out.safetensors --map map.map",
        "convert in.safetensors out.safetensors --map ./typo.map",
        "convert in.safetensors out.safetensors --map qwen",
        "convert in.safetensors out.safetensors --map qwen3-moe --set x=3",
        "convert in.safetensors out.safetensors --map qwen3-moe --set e",
        "convert in.safetensors out.safetensors --invert",
        "convert none.safetensors out.safetensors --map pad.map --set pad=0",
        "convert small.safetensors padded.safetensors --map pad.map --invert --prove",
        "ls in.safetensors --map qwen3-moe --config missing.json",
    ]));
    assert!(File::open(session.path("padded.safetensors")).unwrap().get("a").is_ok());
}
