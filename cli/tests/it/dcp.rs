//! Folders that trainers save, which are read as one file.

use std::fs;
use std::path::Path;

use tensorfile::{TensorMap, safetensors};

use super::{Session, weights};

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
    fs::create_dir(session.path("unfinished")).unwrap();
    fs::copy(session.path("sharded_4/__1_0.distcp"), session.path("unfinished/__1_0.distcp")).unwrap();
    fs::create_dir(session.path("empty")).unwrap();
    fs::write(session.path("empty/.metadata"), "").unwrap();
    insta::assert_snapshot!(session.transcript(&[
        "ls old_2",
        "ls sharded_4",
        "verify plain",
        "ls empty",
        "ls unfinished",
        "convert unfinished a.safetensors",
        "ls plain/__0_0.distcp",
    ]));
}

#[test]
fn missing_files_of_processes_are_named() {
    let session = session();
    let name = |process: usize| format!("shard-{process:05}-model-00001-of-00001.safetensors");
    // The tensors that it has a part of leave a hole.
    fs::remove_file(session.path("hugging_face_4").join(name(2))).unwrap();
    // It has whole tensors only.
    let folder = session.path("stages");
    fs::create_dir(&folder).unwrap();
    for process in [1, 3] {
        let map = TensorMap::from_iter([(format!("layer.{process}"), weights(&[2]))]);
        let offsets = format!("{{\"layer.{process}\": {{\"saved_offsets\": [0]}}}}");
        let options = safetensors::Options::new().metadata("DCP_SHARDING_INFO", offsets);
        fs::write(folder.join(name(process)), options.to_vec(&map).unwrap()).unwrap();
    }
    insta::assert_snapshot!(session.transcript(&[
        "ls hugging_face_4",
        "verify hugging_face_4",
        "merge hugging_face_4 -o whole.safetensors",
        "splits hugging_face_4",
        "ls stages",
        "verify stages",
        "verify --strict stages",
        "convert stages whole.safetensors",
    ]));
    fs::copy(folder.join(name(1)), folder.join("shard-00002-model-00001-of-00002.safetensors")).unwrap();
    insta::assert_snapshot!("two_saves", session.transcript(&["ls stages"]));
}
