//! Directories of checkpoints, shards, and files whose names promise another format.

use std::fs;

use tensorfile::{SaveOptions, TensorMap, save};

use super::{Session, weights};

fn map() -> TensorMap {
    [("bias", weights(&[2])), ("scale", weights(&[1, 3]))].into_iter().collect()
}

/// A session with three checkpoints: `hub` in shards, `single` in one file next to another, and `pickle` of PyTorch.
fn session() -> Session {
    let session = Session::new();
    for folder in ["hub", "single", "pickle", "none"] {
        fs::create_dir(session.path(folder)).unwrap();
        fs::write(session.path(folder).join("config.json"), "{}").unwrap();
    }
    SaveOptions::new().max_shard_bytes(8).save(session.path("hub/model.safetensors"), &map()).unwrap();
    save(session.path("single/model.safetensors"), &map()).unwrap();
    save(session.path("single/extra.ten"), &map()).unwrap();
    let fixtures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/pytorch");
    fs::copy(fixtures.join("tensor.pt"), session.path("pickle/pytorch_model.bin")).unwrap();
    fs::write(session.path("none/weights.bin"), "").unwrap();
    session.write("more.ten", &[("shift", weights(&[2]))].into_iter().collect());
    session
}

#[test]
fn shards_in_a_directory_are_one_file() {
    let session = session();
    insta::assert_snapshot!(session.transcript(&[
        "ls hub",
        "ls --json hub pickle",
        "ls hub/model.safetensors",
        "stats single",
        "show hub bias --format csv",
        "show pickle 0",
        "hash hub single",
        "verify hub pickle none",
    ]));
}

#[test]
fn a_directory_is_a_file_to_read() {
    let session = session();
    insta::assert_snapshot!(session.transcript(&[
        "diff hub single",
        "diff hub single/model.safetensors --json",
        "convert hub joined.ptd",
        "diff joined.ptd hub",
        "merge hub joined.ten",
        "split single --by-prefix 1",
        "ls --diffable single/model-bias.safetensors",
        "split hub --max-shard-size 1GB --dry-run",
        "append hub model.ptd",
        "append single more.ten",
        "ls --diffable single/model.safetensors",
        "codegen hub",
        "convert none x.ptd",
        "convert hub none",
        "append none model.ptd",
    ]));
}

#[test]
fn the_file_of_a_directory_is_named_where_it_is_at_fault() {
    let session = session();
    fs::write(session.path("single/model.safetensors"), [0; 4]).unwrap();
    fs::remove_file(session.path("hub/model-00002-of-00002.safetensors")).unwrap();
    insta::assert_snapshot!(session.transcript(&[
        "convert single x.ptd",
        "convert hub x.ptd",
        "convert hub x.ptd --json",
        "ls hub",
        "verify --json hub",
    ]));
}

#[test]
fn every_command_says_what_a_file_is_instead() {
    let session = Session::new();
    let archive: TensorMap = [("x-1.dist-info/RE", weights(&[2]))].into_iter().collect();
    let mut wheel = tensorfile::npz::to_vec(&archive).unwrap();
    while let Some(at) = wheel.windows(4).position(|text| text == b".npy") {
        wheel[at..at + 4].copy_from_slice(b"CORD");
    }
    for (name, bytes, expected) in [
        ("model.whl", wheel, "npz: this zip archive is not npz; it looks like a Python wheel"),
        (
            "model.safetensors",
            b"version https://git-lfs.github.com/spec/v1\noid".to_vec(),
            "the file is a pointer of Git LFS",
        ),
        (
            "page.safetensors",
            b"<!DOCTYPE html><html><head><title>404</title></head></html>".to_vec(),
            "the file is a web page; it begins with `<!DOCTYPE html><html><head><title>404</title></head></html>`",
        ),
        (
            "error.npz",
            b"<?xml version=\"1.0\"?><Error>".to_vec(),
            "the file is XML, such as the error of a server; it begins",
        ),
        ("zeros.pt", vec![0; 100], "the file is all zeros"),
        ("model.gguf", b"\x1f\x8b\x08\0\0\0\0\0".to_vec(), "the file is compressed with gzip, which `gzip -d` undoes"),
    ] {
        fs::write(session.path(name), bytes).unwrap();
        for command in [
            &["ls", name][..],
            &["info", name],
            &["show", name, "a"],
            &["stats", name],
            &["diff", name, "model.ptd"],
            &["diff", "model.ptd", name],
            &["verify", name],
            &["hash", name],
            &["codegen", name],
            &["convert", name, "x.ptd"],
            &["append", name, "model.ptd"],
            &["append", "model.ptd", name],
            &["split", name, "--by", "*=x.ptd"],
            &["merge", name, "x.ptd"],
        ] {
            let output = session.run(command);
            let said =
                format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert_eq!(output.status.code(), Some(4), "{command:?}: {said}");
            assert!(said.contains(name) && said.contains(expected), "{command:?}: {said}");
        }
        assert!(!session.path("x.ptd").exists());
    }
}
