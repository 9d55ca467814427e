//! `--rename` in all commands with that option, and names made of positions.

use tensorfile::{File, Tensor, TensorMap};

use super::{Session, weights};

fn names(session: &Session, name: &str) -> Vec<String> {
    let file = File::open(session.path(name)).unwrap();
    file.tensors().map(|tensor| tensor.name().to_owned()).collect()
}

/// A session with a model that has the names of llama.cpp, `llama.gguf`, and `.npy` files.
fn session() -> Session {
    let session = Session::new();
    let mut llama = TensorMap::new();
    llama.insert("token_embd.weight", weights(&[8, 4]));
    for layer in 0..3 {
        for (at, name) in ["attn_q", "attn_k", "ffn_up"].into_iter().enumerate() {
            llama.insert(format!("blk.{layer}.{name}.weight"), weights(&[4, 4 + at]));
        }
    }
    session.write("llama.gguf", &llama);
    session.write("small.ptd", &[("a", weights(&[2])), ("b", weights(&[3]))].into_iter().collect());
    for (name, len) in [("weight.npy", 2), ("bias.npy", 3)] {
        session.write(name, &[("0", weights(&[len]))].into_iter().collect());
    }
    std::fs::create_dir(session.path("more")).unwrap();
    session.write("more/weight.npy", &[("0", weights(&[4]))].into_iter().collect());
    session.write("more/scale.npy", &[("0", weights(&[5]))].into_iter().collect());
    session
}

#[test]
fn a_rule_renames_a_tensor_of_all_layers() {
    let session = session();
    let rules = [
        "blk.*.attn_q.*=model.layers.*.self_attn.q_proj.*",
        "blk.*.attn_k.*=model.layers.*.self_attn.k_proj.*",
        "blk.*.ffn_up.*=model.layers.*.mlp.up_proj.*",
        "token_embd.*=model.embed_tokens.*",
    ];
    let rules: Vec<&str> = rules.iter().flat_map(|rule| ["--rename", rule]).collect();
    let run = |arguments: &[&str]| {
        let output = session.run(&[arguments, &rules].concat());
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    run(&["convert", "llama.gguf", "model.safetensors"]);
    let renamed = names(&session, "model.safetensors");
    assert_eq!(renamed.len(), 10);
    assert_eq!(renamed[0], "model.embed_tokens.weight");
    assert_eq!(renamed[9], "model.layers.2.mlp.up_proj.weight");

    run(&["merge", "llama.gguf", "merged.safetensors"]);
    assert_eq!(names(&session, "merged.safetensors"), renamed);
    run(&["append", "small.ptd", "llama.gguf"]);
    assert_eq!(names(&session, "small.ptd")[2..], renamed);
    run(&["split", "llama.gguf", "--by", "blk.0.*=first.ptd", "--by", "*=rest.ptd"]);
    assert_eq!([names(&session, "rest.ptd"), names(&session, "first.ptd")].concat().len(), renamed.len());
    assert_eq!(names(&session, "first.ptd"), renamed[1..4]);
    assert_eq!(run(&["diff", "llama.gguf", "model.safetensors"]), "10 tensors equal\n");
}

#[test]
fn rules_that_do_not_fit_say_why() {
    let session = session();
    insta::assert_snapshot!(session.transcript(&[
        "convert llama.gguf x.ptd --rename blk.*.attn_v.weight=v.*",
        "convert llama.gguf x.ptd --rename blk.*=* --rename blk.0.attn_q.weight=q",
        "convert llama.gguf x.ptd --rename blk.*.attn_q.weight=q",
        "convert llama.gguf x.ptd --rename blk.*.attn_q.*=q.*",
        "convert llama.gguf x.ptd --rename blk.0.attn_q.weight",
        "convert llama.gguf x.ptd --rename #=a",
        "convert llama.gguf x.ptd --rename #10=a",
        r"convert llama.gguf x.ptd --rename a\\b=a",
        "convert small.ptd x.ptd --rename a=b",
        "convert small.ptd x.ptd --filter a --rename b=c",
        "convert small.ptd x.ptd --filter a --rename #1=c",
        "convert small.ptd x.ptd --filter a --rename a=b",
        "merge small.ptd llama.gguf x.ptd --rename c=d",
        "split small.ptd --by *=x.ptd --rename a=b",
        "split small.ptd --by a=x.ptd --by b=y.ptd --rename a=b --dry-run",
        "append small.ptd llama.gguf --rename a=b",
        "diff small.ptd small.ptd --rename a=b",
        "diff small.ptd small.ptd --rename a=b --rename b=a",
        "diff small.ptd small.ptd --rename a=b --by-position",
    ]));
}

#[test]
fn tensors_without_names_are_named_after_their_files() {
    let session = session();
    insta::assert_snapshot!(session.transcript(&[
        "merge weight.npy bias.npy layer.npz",
        "ls layer.npz",
        "merge weight.npy bias.npy layer.safetensors --rename *=layer.*",
        "ls layer.safetensors",
        "merge more more.npz",
        "ls more.npz",
        "merge weight.npy more x.npz",
        "merge weight.npy more x.npz --rename #1=scale --rename #2=other",
        "ls x.npz",
        "convert weight.npy w.ptd",
        "diff weight.npy w.ptd",
        "convert weight.npy w.ptd --rename 0=w",
        "convert weight.npy w.ptd --rename #0=w",
        "convert weight.npy w.ptd --rename weight=w",
        "ls w.ptd",
        "diff w.ptd weight.npy",
        "convert weight.npy w.ptd --names index",
        "ls w.ptd",
        "convert weight.npy w.btf",
        "ls w.btf",
        "convert weight.npy w.btf --names embed",
        "ls w.btf",
        "append layer.npz more --rename weight=again",
        "ls layer.npz",
        "append sparse.btf weight.npy",
        "ls sparse.btf",
        "merge sparse.btf weight.npy all.ptd",
        "ls all.ptd",
        "merge sparse.btf weight.npy all.btf",
        "ls all.btf",
        "split weight.npy --by *=one.npz",
        "ls one.npz",
        "convert sparse.btf list.ptd",
        "ls list.ptd",
        "merge weight.npy weight.npy twice.btf",
        "merge layer.npz weight.npy both.ptd",
    ]));
    let layer: TensorMap = File::open(session.path("layer.safetensors")).unwrap().load().unwrap();
    assert_eq!(layer["layer.weight"], weights(&[2]));
    assert_eq!(layer["layer.bias"], weights(&[3]));
}

#[test]
fn standard_input_is_named_as_numpy_does() {
    let session = session();
    let weight = std::fs::read(session.path("weight.npy")).unwrap();
    for arguments in [&["convert", "-", "x.npz"][..], &["merge", "-", "bias.npy", "y.npz"]] {
        let output = session.run_with_input(arguments, &weight);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(names(&session, "x.npz"), ["arr_0"]);
    assert_eq!(names(&session, "y.npz"), ["arr_0", "bias"]);
}

/// The name of the file is not in the digest.
#[test]
fn digests_do_not_depend_on_the_name_of_the_file() {
    let session = session();
    std::fs::copy(session.path("weight.npy"), session.path("other.npy")).unwrap();
    let digest = |name: &str| {
        let line = String::from_utf8(session.run(&["hash", name]).stdout).unwrap();
        line.split(' ').next().unwrap().to_owned()
    };
    assert_eq!(digest("weight.npy"), digest("other.npy"));
}

/// Tensors of one name, as in some streams, get names by their positions.
#[test]
fn tensors_of_one_name_are_told_apart_by_position() {
    let session = session();
    let mut stream = Vec::new();
    for values in [[1.0_f32, 2.0], [3.0, 4.0]] {
        let map: TensorMap = [("x", Tensor::from_slice(&values, [2]).unwrap())].into_iter().collect();
        stream.extend(tensorfile::ten::to_vec(&map).unwrap());
    }
    std::fs::write(session.path("twice.ten"), stream).unwrap();
    let output = session.run(&["convert", "twice.ten", "x.ptd", "--rename", "#1=y"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let map: TensorMap = File::open(session.path("x.ptd")).unwrap().load().unwrap();
    assert_eq!(map["x"], Tensor::from_slice(&[1.0_f32, 2.0], [2]).unwrap());
    assert_eq!(map["y"], Tensor::from_slice(&[3.0_f32, 4.0], [2]).unwrap());
}
