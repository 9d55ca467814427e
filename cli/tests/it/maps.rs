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
        "info left.safetensors --map qwen3-moe",
    ]));
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

/// Writes a model of zeros with experts one by one, in a file with holes, and its configuration.
fn write_experts(session: &Session, layers: usize, experts: usize, [inner, hidden]: [usize; 2]) {
    let (mut header, mut end) = (Vec::new(), 0);
    let mut add = |name: String, shape: &[usize]| {
        let start = end;
        end += 2 * shape.iter().product::<usize>() as u64;
        header.push(format!(r#""{name}":{{"dtype":"BF16","shape":{shape:?},"data_offsets":[{start},{end}]}}"#));
    };
    add("model.embed_tokens.weight".to_owned(), &[experts, hidden]);
    for layer in 0..layers {
        for expert in 0..experts {
            let name = |part: &str| format!("model.layers.{layer}.mlp.experts.{expert}.{part}_proj.weight");
            add(name("gate"), &[inner, hidden]);
            add(name("up"), &[inner, hidden]);
            add(name("down"), &[hidden, inner]);
        }
        add(format!("model.layers.{layer}.input_layernorm.weight"), &[hidden]);
    }
    let header = format!("{{{}}}", header.join(","));
    let path = session.path("model.safetensors");
    fs::write(&path, [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat()).unwrap();
    fs::OpenOptions::new().append(true).open(path).unwrap().set_len(8 + header.len() as u64 + end).unwrap();
    let config = serde_json::json!({ "num_experts": experts, "num_hidden_layers": layers });
    fs::write(session.path("config.json"), config.to_string()).unwrap();
}

/// `TENSORFILE_TEST_LAYERS=4` writes 4 layers of Qwen3-30B-A3B, which takes 5 GB of disk; of all, the balance is printed.
#[test]
fn experts_of_a_large_model_are_stacked_and_proved() {
    let session = Session::new();
    write_experts(&session, 48, 128, [768, 2048]);
    insta::assert_snapshot!(
        session.transcript(&["convert model.safetensors stacked.safetensors --map qwen3-moe --dry-run"])
    );
    let layers = std::env::var("TENSORFILE_TEST_LAYERS").ok().map(|layers| layers.parse().unwrap());
    let (layers, experts, shape) = layers.map_or((2, 16, [24, 64]), |layers| (layers, 128, [768, 2048]));
    write_experts(&session, layers, experts, shape);
    let start = std::time::Instant::now();
    let done = session.run(&["convert", "model.safetensors", "stacked.safetensors", "--map", "qwen3-moe", "--prove"]);
    let printed = [done.stdout, done.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    let took = start.elapsed();
    let tensors = layers * (3 * experts + 1) + 1;
    assert!(
        done.status.success() && printed.replace(',', "").contains(&format!("proved: {tensors} digests equal")),
        "{printed}"
    );
    let start = std::time::Instant::now();
    for file in ["model.safetensors", "stacked.safetensors"] {
        assert!(session.run(&["hash", file]).status.success());
    }
    println!("{layers} layers, {experts} experts: {took:.2?}; both files hashed in {:.2?}", start.elapsed());
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
