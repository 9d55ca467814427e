//! Several files, directories, and JSON about files that cannot be read.

use serde_json::Value;
use tensorfile::TensorMap;

use super::{Session, weights};

/// A session with three files in a directory, one of them broken, and an empty directory.
fn session() -> Session {
    let session = Session::new();
    let map: TensorMap = [("bias", weights(&[2])), ("scale", weights(&[1, 3]))].into_iter().collect();
    std::fs::create_dir(session.path("models")).unwrap();
    std::fs::create_dir(session.path("empty")).unwrap();
    for name in ["models/b.ten", "models/a.safetensors"] {
        session.write(name, &map);
    }
    std::fs::write(session.path("models/c.ptd"), "broken").unwrap();
    std::fs::write(session.path("models/notes.txt"), "not a tensor file").unwrap();
    session
}

#[test]
fn lists_files_and_directories() {
    let session = session();
    insta::assert_snapshot!(session.transcript(&[
        "ls models sparse.btf missing.ptd",
        "ls --diffable models/b.ten sparse.btf",
        "info models/b.ten sparse.btf",
        "stats models",
        "stats models/b.ten models/a.safetensors bias",
        "stats models/b.ten missing.ptd --tensor bias",
        "stats models/b.ten sparse.btf --plot x.svg",
        "show models/b.ten models/a.safetensors bias scale",
        "show models/b.ten sparse.btf -t bias",
        "show models/b.ten models/a.safetensors bias --format csv",
        "show models/b.ten",
        "hash models",
        "verify models empty",
        "ls empty models/a.safetensors --filter nothing",
    ]));
}

/// Patterns as a shell passes them on: if they are quoted, or on Windows.
#[test]
fn patterns_stand_for_files() {
    let session = session();
    std::fs::create_dir(session.path("more")).unwrap();
    session.write("more/{d}.ten", &[("d", weights(&[1]))].into_iter().collect());
    insta::assert_snapshot!(session.transcript(&[
        "ls models/{b.ten,a.safetensors} --filter bias",
        "hash models/[ab].* more/{d}.ten",
        "verify m*",
        "stats models/*.ten bias",
        "show models/a.safetensors models/b.* bias",
        "info models/{b,x}.ten",
        "ls models/x*.ten models/b.ten",
        "hash --json models/x-{00..01}*.ten",
        "merge models/?.ten more/* out.ptd",
        "ls out.ptd",
        "append out.ptd sparse.bt?",
    ]));
}

#[test]
fn files_of_one_tensor_are_rows_of_a_table() {
    let session = session();
    std::fs::create_dir(session.path("arrays")).unwrap();
    for (name, shape) in [("b", &[2, 3][..]), ("a", &[4]), ("c", &[1])] {
        session.write(&format!("arrays/{name}.npy"), &[("0", weights(shape))].into_iter().collect());
    }
    let nan = tensorfile::Tensor::from_slice(&[1.0_f32, f32::NAN], [2]).unwrap();
    session.write("arrays/n.npy", &[("0", nan)].into_iter().collect());
    insta::assert_snapshot!(session.transcript(&[
        "ls arrays",
        "ls --sort bytes --reverse arrays",
        "ls arrays/b.npy models/b.ten arrays/a.npy arrays/c.npy",
        "ls --tree arrays/b.npy arrays/c.npy",
        "ls --diffable arrays/b.npy arrays/c.npy",
        "ls arrays/b.npy missing.npy arrays/c.npy",
        "ls arrays/b.npy",
        "stats arrays",
        "stats --sort max --fail-on nan arrays",
        "stats arrays/b.npy models/b.ten arrays/a.npy",
        "hash arrays",
    ]));
}

#[test]
fn json_has_every_file() {
    let session = session();
    insta::assert_snapshot!(session.transcript(&[
        "ls --json models/a.safetensors missing.ptd",
        "stats --json models/b.ten models/c.ptd bias",
        "show --json models bias",
        "show --json sparse.btf 0 1",
        "show --json models/b.ten scale --slice :,1:",
        "diff --json models/a.safetensors missing.ptd",
        "convert --json models/a.safetensors half.ten --dtype f16",
        "convert --json missing.ptd half.ten",
        "merge --json models/b.ten half.ten new.ten",
        "split --json models/b.ten --by bias=bias.ten --by *=rest.ten --dry-run",
        "codegen --json missing.ptd",
    ]));
}

#[test]
fn every_command_has_json() {
    let session = session();
    for (arguments, error) in [
        (&["ls", "models"][..], true),
        (&["info", "models"], true),
        (&["stats", "models"], true),
        (&["show", "models", "bias"], true),
        (&["hash", "models"], true),
        (&["verify", "models", "missing.ptd"], true),
        (&["diff", "models/a.safetensors", "models/c.ptd"], true),
        (&["report", "models"], true),
        (&["codegen", "models/c.ptd"], true),
        (&["codegen", "models/a.safetensors"], false),
        (&["append", "models/c.ptd", "models/a.safetensors"], true),
        (&["append", "models/b.ten", "sparse.btf", "--dry-run"], true),
        (&["edit", "models/a.safetensors", "--set", "a=b", "--dry-run"], false),
        (&["edit", "models/c.ptd", "--set", "a=b"], true),
        (&["split", "models/c.ptd", "--by-prefix", "1"], true),
        (&["merge", "models/a.safetensors", "x.ten"], false),
        (&["merge", "models/a.safetensors"], true),
        (&["merge", "sparse.btf", "models/a.safetensors"], true),
        (&["convert", "models/a.safetensors", "x.xyz"], true),
        (&["convert", "models/a.safetensors", "models"], true),
        (&["convert", "models/a.safetensors", "x.unknown"], true),
        (&["convert", "sparse.btf", "x.npy"], true),
        (&["split", "models/b.ten", "--max-shard-size", "8"], false),
        (&["append", "models/b.index.json", "sparse.btf"], true),
    ] {
        let output = session.run(&[arguments, &["--json"]].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        let json: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {text}"));
        // `diff` and `report` print an object, all others a list.
        let is_object = ["diff", "report"].contains(&arguments[0]);
        let items = if is_object { std::slice::from_ref(&json) } else { json.as_array().unwrap() };
        assert!(
            items.iter().all(|item| !item["file"].as_str().unwrap_or_default().is_empty()),
            "{arguments:?}: {json}"
        );
        let has_error = |item: &Value| item.get("error").is_some() || item["malformed"] == true;
        assert_eq!(items.iter().any(has_error), error, "{arguments:?}: {json}");
        assert_eq!(output.status.success(), !error, "{arguments:?}");
    }
}

#[test]
fn names_of_tensors_are_told_from_files() {
    let session = session();
    std::fs::write(session.path("bias"), "a file that is called as a tensor").unwrap();
    let output = session.run(&["show", "models/b.ten", "--tensor", "bias"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "bias: f32[2]\n[-1.         0.9080919]\n");
    // The tensor is meant, and the message says what else could be.
    let output = session.run(&["show", "models/b.ten", "bias"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "bias: f32[2]\n[-1.         0.9080919]\n");
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(message, "tensorfile: `bias` is a tensor of models/b.ten; the file of that name is `./bias`\n");
    for (name, expected) in [("./bias", "./bias: the file is text"), ("x.npy", "x.npy: No such file")] {
        let output = session.run(&["show", "models/b.ten", name]);
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn help_is_a_command() {
    let session = Session::new();
    for command in ["ls", "merge"] {
        assert_eq!(session.run(&["help", command]).stdout, session.run(&[command, "--help"]).stdout);
    }
    let output = session.run(&["help"]);
    assert!(output.status.success());
    assert_eq!(output.stdout, session.run(&["--help"]).stdout);
    assert!(session.run(&["man", "--out", "pages"]).status.success());
    assert!(!session.path("pages/tensorfile-help.1").exists());
}
