//! Folders that trainers save, which are read as one file.

use std::fs;
use std::path::Path;

use super::Session;

/// A session with copies of the folders of PyTorch.
fn session() -> Session {
    let session = Session::new();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/dcp");
    for name in ["plain", "sharded_4", "hugging_face_4", "old_2"] {
        fs::create_dir(session.path(name)).unwrap();
        for entry in fs::read_dir(fixtures.join(name)).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), session.path(name).join(entry.file_name())).unwrap();
        }
    }
    session
}

#[test]
fn a_folder_is_a_file_to_read() {
    let session = session();
    insta::assert_snapshot!(session.transcript(&[
        "ls sharded_4",
        "ls hugging_face_4",
        "ls --json old_2",
        "info sharded_4",
        "info hugging_face_4",
        "verify --payload sharded_4 hugging_face_4 old_2 plain",
        "hash --tensors sharded_4",
        "stats sharded_4 --diffable",
        "show sharded_4 blocks --slice 1:3,:",
        "codegen old_2",
    ]));
}

#[test]
fn a_folder_is_converted() {
    let session = session();
    insta::assert_snapshot!(session.transcript(&[
        "convert sharded_4 whole.safetensors --filter !complex --filter !conj",
        "diff sharded_4 whole.safetensors --filter !complex --filter !conj",
        "diff hugging_face_4 whole.safetensors",
        "convert sharded_4 parts.safetensors --filter !complex --filter !conj --max-shard-size 300B",
        "diff parts.safetensors.index.json whole.safetensors",
        "convert plain plain.ptd --filter model.* --lossy",
        "convert plain plain.safetensors",
        "diff plain plain.ptd --filter model.*",
        "convert whole.safetensors saved.pt",
    ]));
}

#[test]
fn other_files_of_a_trainer_are_next_to_the_folder() {
    let session = session();
    fs::copy(
        session.path("hugging_face_4/shard-00001-model-00001-of-00001.safetensors"),
        session.path("old_2/other.safetensors"),
    )
    .unwrap();
    fs::remove_file(session.path("sharded_4/__3_0.distcp")).unwrap();
    fs::write(session.path("plain/.metadata"), b"\x80\x04cposix\nsystem\n(X\x02\x00\x00\x00lstR.").unwrap();
    insta::assert_snapshot!(session.transcript(&["ls old_2", "ls sharded_4", "verify plain"]));
}
