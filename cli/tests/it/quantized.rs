//! Quantized weights: they are shown, never cast in silence, and decoded on request.

use std::fs;
use std::path::Path;

use tensorfile::{Dtype, File};

use super::Session;

/// Copies a case of the tests of the library to a folder `model`.
fn session(case: &str) -> Session {
    let session = Session::new();
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("tests/fixtures/quant");
    let folder = session.path("model");
    fs::create_dir(&folder).unwrap();
    for entry in fs::read_dir(cases.join(case)).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), folder.join(entry.file_name())).unwrap();
    }
    session
}

#[test]
fn weights_are_shown_and_their_codes_marked() {
    let session = session("fp8-block");
    insta::assert_snapshot!(session.transcript(&[
        "ls model",
        "ls --logical model",
        "ls --dequantize model",
        "info model",
        "stats model",
        "stats model model.layers.0.mlp.down_proj.weight",
        "diff model model",
        "diff model model --rename model.layers.0.mlp.down_proj.weight=x",
        "codegen model --cast f32",
        "codegen model --dequantize",
        "codegen model --dequantize --cast bf16 --views",
        "verify --strict model",
    ]));
}

#[test]
fn codes_are_never_cast_in_silence() {
    let session = session("fp8-block-shards");
    insta::assert_snapshot!(session.transcript(&[
        "convert model out.safetensors --dtype bf16",
        "convert model out.safetensors --dtype bf16 --filter *.weight",
        "convert model out.safetensors --dtype bf16 --filter *.weight_scale_inv",
        "convert model out.safetensors --dtype bf16 --filter *layernorm*",
        "convert model copy.safetensors",
        "convert model torn.safetensors --filter *.weight",
        "convert model out.safetensors --dtype bf16 --as-stored",
        "convert model weights.safetensors --dequantize",
        "convert model half.safetensors --dequantize --dtype bf16",
        "diff weights.safetensors half.safetensors --ignore-dtype --rtol 0.01",
        "ls half.safetensors",
    ]));
    let name = "model.layers.0.mlp.down_proj.weight";
    let weights = File::open(session.path("weights.safetensors")).unwrap();
    assert_eq!(weights.get(name).unwrap().dtype(), Dtype::F32);
    assert!(weights.position("model.layers.0.mlp.down_proj.weight_scale_inv").is_none());
    let stored = File::open(session.path("copy.safetensors")).unwrap();
    assert_eq!(stored.get(name).unwrap().dtype(), Dtype::F8E4M3Fn);
}

#[test]
fn what_fits_no_layout_is_a_warning() {
    let session = session("ambiguous-fp8-shape");
    insta::assert_snapshot!(session.transcript(&[
        "ls --logical model",
        "verify model",
        "verify --strict model",
        "convert model out.safetensors --dtype bf16",
        "convert model out.safetensors --dequantize",
    ]));
}

#[test]
fn a_configuration_may_be_named() {
    let session = session("mlx-4bit-f32");
    fs::rename(session.path("model/config.json"), session.path("other.json")).unwrap();
    insta::assert_snapshot!(session.transcript(&[
        "ls --logical model",
        "ls --logical model --config other.json",
        "show model model.layers.0.mlp.down_proj.weight --slice 0,0:4 --dequantize --config other.json",
        "ls --logical model --config none.json",
    ]));
}

#[test]
fn schemes_that_are_not_decoded_are_named() {
    let session = session("hqq-4bit");
    insta::assert_snapshot!(session.transcript(&[
        "ls --logical --json model",
        "convert model out.safetensors --dequantize",
        "convert model out.safetensors --dequantize=other*",
    ]));
}

/// A pipe is held, since scales may come after codes.
#[test]
fn a_pipe_is_decoded_as_the_file_is() {
    let session = session("nvfp4-ct");
    let file = fs::read(session.path("model/model.safetensors")).unwrap();
    let from_file = session.run(&["stats", "--json", "--dequantize", "model/model.safetensors"]);
    let from_pipe = session.run_with_input(&["stats", "--json", "--dequantize", "-"], &file);
    let tensors = |output: &[u8]| {
        let json: serde_json::Value = serde_json::from_slice(output).unwrap();
        json[0]["tensors"].clone()
    };
    assert_eq!(tensors(&from_file.stdout), tensors(&from_pipe.stdout));
    assert_eq!(tensors(&from_file.stdout)[0]["dtype"], "f32");
}

#[test]
fn a_model_in_another_folder_gets_a_configuration_that_is_true() {
    let session = session("fp8-block-shards");
    for folder in ["sharded", "single", "other", "theirs", "some"] {
        fs::create_dir(session.path(folder)).unwrap();
    }
    fs::write(session.path("theirs/config.json"), "{\"quantization\": {}}").unwrap();
    insta::assert_snapshot!(session.transcript(&[
        "convert model sharded/model.safetensors --dequantize --max-shard-size 30KB --dry-run",
        "convert model sharded/model.safetensors --dequantize --max-shard-size 30KB",
        "convert model sharded/model.safetensors --dequantize --max-shard-size 30KB",
        "convert model single/model.safetensors --dequantize",
        "convert model other/weights.safetensors --dequantize",
        "convert model theirs/model.safetensors --dequantize",
        "convert model some/model.safetensors --dequantize=none*",
        "convert model some/model.safetensors",
        "convert model model/model.safetensors --dequantize",
    ]));
    let written =
        ["sharded", "single"].map(|folder| fs::read_to_string(session.path(folder).join("config.json")).unwrap());
    assert_eq!(written, ["{\n  \"model_type\": \"deepseek_v3\"\n}\n"; 2]);
    assert_eq!(fs::read_to_string(session.path("theirs/config.json")).unwrap(), "{\"quantization\": {}}");
    assert!(!session.path("other/config.json").exists() && !session.path("some/config.json").exists());
    // What was written opens as it is.
    let file = File::open(session.path("sharded")).unwrap();
    assert!(file.quantized().unwrap().is_empty() && file.shards().len() > 1);
}
