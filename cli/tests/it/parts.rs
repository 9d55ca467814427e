//! Models in several files, and unusual files that people have, in all commands.

use std::fs;
use std::path::Path;

use tensorfile::{File, TensorMap};

use super::Session;

/// Copies files that somebody has to the folder of a session.
fn with_case(session: &Session, case: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/cases").join(case);
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), session.path(entry.file_name().to_str().unwrap())).unwrap();
    }
}

#[test]
fn parts_of_gguf_are_one_model() {
    let session = Session::new();
    with_case(&session, "gguf-split");
    fs::create_dir(session.path("dir")).unwrap();
    for part in ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"] {
        fs::copy(session.path(part), session.path("dir").join(part)).unwrap();
    }
    fs::copy(session.path("m-00002-of-00002.gguf"), session.path("alone.gguf")).unwrap();
    insta::assert_snapshot!(session.transcript(&[
        "ls m-00001-of-00002.gguf",
        "ls m-00002-of-00002.gguf",
        "ls dir",
        "ls m-00001-of-00002.gguf m-00002-of-00002.gguf",
        "info m-00001-of-00002.gguf",
        "verify --strict m-00001-of-00002.gguf",
        "verify --strict alone.gguf",
        "convert alone.gguf copy.gguf",
        "verify --strict copy.gguf",
        "convert m-00002-of-00002.gguf whole.gguf",
        "merge m-00001-of-00002.gguf m-00002-of-00002.gguf merged.gguf",
        "diff --metadata whole.gguf merged.gguf",
        "split whole.gguf --max-shard-size 16 --out s.gguf",
        "ls s.gguf",
        "verify --strict s-00002-of-00002.gguf",
        "append m-00001-of-00002.gguf alone.gguf",
        "edit m-00001-of-00002.gguf --set general.name=x",
    ]));
    let bytes = fs::read(session.path("merged.gguf")).unwrap();
    assert!(!bytes.windows(6).any(|bytes| bytes == b"split."));
}

#[test]
fn long_names_of_gguf_are_written_on_request() {
    let session = Session::new();
    with_case(&session, "gguf-long-name");
    insta::assert_snapshot!(session.transcript(&[
        "convert name77.gguf copy.gguf",
        "convert name77.gguf copy.gguf --long-names",
        "merge copy.gguf --output merged.gguf",
        "merge copy.gguf --output merged.gguf --long-names",
        "diff name77.gguf merged.gguf",
        "verify name77.gguf",
    ]));
}

#[test]
fn arrays_in_metadata_are_whole_except_on_the_screen() {
    let session = Session::new();
    with_case(&session, "gguf-array-metadata");
    let bytes = fs::read(session.path("tokens40.gguf")).unwrap();
    let at = bytes.windows(3).position(|bytes| bytes == b"t39").unwrap();
    fs::write(session.path("other.gguf"), [&bytes[..at], b"x39", &bytes[at + 3..]].concat()).unwrap();
    insta::assert_snapshot!(session.transcript(&[
        "info tokens40.gguf",
        "convert tokens40.gguf a.safetensors",
        "diff --metadata tokens40.gguf other.gguf",
        "diff --metadata tokens40.gguf model.ptd --no-values --quiet",
    ]));
    let tokens: Vec<String> = (0..40).map(|at| format!("\"t{at}\"")).collect();
    let tokens = format!("[{}]", tokens.join(", "));
    let json = session.run(&["info", "--json", "tokens40.gguf"]).stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json[0]["metadata"]["tokenizer.ggml.tokens"], tokens);
    let converted = File::open(session.path("a.safetensors")).unwrap().metadata().unwrap();
    assert_eq!(converted.entries["tokenizer.ggml.tokens"], tokens);
}

#[test]
fn a_list_of_names_as_a_tensor_is_kept_or_refused() {
    let session = Session::new();
    with_case(&session, "names-record-as-tensor");
    insta::assert_snapshot!(session.transcript(&[
        "ls a.safetensors",
        "convert a.safetensors x.btf --names index",
        "convert a.safetensors x.ten --names index",
        "convert a.safetensors x.btf",
        "ls x.btf",
    ]));
    let map = |name: &str| File::open(session.path(name)).unwrap().load::<TensorMap>().unwrap();
    assert_eq!(map("x.btf"), map("a.safetensors"));
}

#[test]
fn the_index_decides_and_metadata_may_be_null() {
    let session = Session::new();
    with_case(&session, "index-lists-a-part/more-in-shard");
    with_case(&session, "st-null-metadata");
    insta::assert_snapshot!(session.transcript(&[
        "ls model.safetensors.index.json",
        "verify --strict model.safetensors.index.json",
        "verify --strict model-00001-of-00002.safetensors",
        "info null.safetensors",
        "verify --strict null.safetensors",
    ]));
}

#[test]
fn shards_replace_a_single_file_but_not_that_which_is_split() {
    let session = Session::new();
    session.run(&["convert", "model.ptd", "one.ptd"]);
    insta::assert_snapshot!(session.transcript(&[
        "convert model.ptd one.ptd --max-shard-size 5KB --no-clobber",
        "convert model.ptd one.ptd --max-shard-size 5KB --filter {head*,embed*}",
        "ls one.ptd",
        "split model.ptd --max-shard-size 5KB",
    ]));
    assert!(!session.path("one.ptd").exists() && session.path("model.ptd").exists());
}
