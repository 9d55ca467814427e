use std::process::Output;

use tensorfile::{FORMATS, File, Tensor, TensorMap, WriteOptions};

use super::{Session, weights};

/// A session with a file of each format whose metadata can be edited, and the names of these files.
fn session() -> (Session, Vec<String>) {
    let session = Session::new();
    let map: TensorMap = [("head.weight", weights(&[4, 16])), ("steps", Tensor::from_slice(&[1234_i32], []).unwrap())]
        .into_iter()
        .collect();
    let editable = FORMATS.iter().filter(|format| format.edits_metadata());
    let write = |format: &&tensorfile::Format| {
        let name = format!("edit.{}", format.extensions[0]);
        let entries = [("model", "tiny"), ("author", "me")].into_iter().filter(|(key, _)| format.keeps_metadata(key));
        let entries = entries.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let file = format.to_vec(&map, &WriteOptions::new().metadata(entries)).unwrap();
        std::fs::write(session.path(&name), file).unwrap();
        name
    };
    let names = editable.map(write).collect();
    (session, names)
}

fn message(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn changes_metadata_and_nothing_else() {
    let (session, names) = session();
    assert_eq!(names.len(), 3);
    for name in &names {
        let hash = session.run(&["hash", name]).stdout;
        let list = session.run(&["ls", "--json", name]).stdout;
        let output = session.run(&["edit", name, "--set", "model=a=b c"]);
        assert!(output.status.success() && output.stdout.is_empty(), "{name}: {}", message(&output));
        assert_eq!(File::open(session.path(name)).unwrap().metadata().unwrap().entries["model"], "a=b c");
        assert_eq!(session.run(&["hash", name]).stdout, hash, "{name}");

        assert!(session.run(&["edit", name, "--set", "model=tiny"]).status.success());
        assert_eq!(session.run(&["ls", "--json", name]).stdout, list, "{name}");
        let output = session.run(&["verify", name]);
        assert!(output.status.success(), "{name}: {}", message(&output));
    }
}

#[test]
fn prints_what_it_does() {
    let (session, _) = session();
    insta::assert_snapshot!(session.transcript(&[
        "edit edit.safetensors --set epochs=3 --unset author --dry-run",
        "edit edit.safetensors --set epochs=3 --unset author --json",
        "edit edit.gguf --set epochs=4 -o new.gguf --json",
        "edit edit.gguf --unset author --dry-run --json",
        "edit edit.safetensors --unset autor",
        "edit edit.safetensors --set epochs=3 --set epochs=4",
        "edit edit.safetensors --set epochs=3 --unset epochs",
        "edit edit.safetensors --set epochs",
        "edit edit.safetensors --set =3",
        "edit edit.safetensors",
        "edit edit.tbs --set epochs=3",
        "edit model.ptd --set epochs=3",
        "edit sparse.btf --set epochs=3",
        "edit edit.gguf --set a=b -o edit.safetensors",
        "edit edit.gguf --set a=b -o new.gguf --no-clobber",
        "edit edit.gguf --set a=b --no-clobber",
        "edit edit.gguf --set general.alignment=64",
        "edit - --set a=b",
        "edit missing.gguf --set a=b",
        "info edit.safetensors",
    ]));
}

#[test]
fn the_old_file_stays_if_a_change_cannot_be_made() {
    let (session, names) = session();
    for name in &names {
        let old = std::fs::read(session.path(name)).unwrap();
        assert!(!session.run(&["edit", name, "--unset", "nothing", "--set", "model=x"]).status.success(), "{name}");
        assert!(session.run(&["edit", name, "--set", "model=x", "--dry-run"]).status.success());
        assert_eq!(std::fs::read(session.path(name)).unwrap(), old, "{name}");
    }
    assert_eq!(std::fs::read_dir(session.path("")).unwrap().count(), 2 + names.len(), "nothing is left behind");
}

#[test]
fn writes_to_standard_output_and_reads_standard_input() {
    let (session, names) = session();
    for name in &names {
        let old = std::fs::read(session.path(name)).unwrap();
        let output = session.run_with_input(&["edit", "-", "--set", "model=x", "-o", "-"], &old);
        assert!(output.status.success(), "{}", message(&output));
        assert!(session.run(&["edit", name, "--set", "model=x"]).status.success());
        assert_eq!(output.stdout, std::fs::read(session.path(name)).unwrap(), "{name}");
    }
    let output = session.run(&["edit", &names[0], "--set", "model=x", "-o", "-", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
}

#[cfg(unix)]
#[test]
fn edits_at_once_take_turns() {
    let (session, names) = session();
    let keys: Vec<String> = (0..12).map(|at| format!("key{at}=1")).collect();
    let edit = |key: &String| session.command(&["edit", "edit.safetensors", "--set", key]).spawn().unwrap();
    let running: Vec<_> = keys.iter().map(edit).collect();
    for mut child in running {
        assert!(child.wait().unwrap().success());
    }
    let entries = File::open(session.path("edit.safetensors")).unwrap().metadata().unwrap().entries;
    assert_eq!(entries.len(), 2 + keys.len(), "{names:?}");
}

/// Entries of gguf are numbers and arrays, which other programs expect.
#[test]
fn other_commands_keep_the_types_of_gguf() {
    let session = Session::new();
    let entry = |key: &str, kind: u32, value: &[u8]| {
        [&(key.len() as u64).to_le_bytes()[..], key.as_bytes(), &kind.to_le_bytes(), value].concat()
    };
    let array = [&4_u32.to_le_bytes()[..], &100_u64.to_le_bytes(), &[7; 400]].concat();
    let (number, list) = (entry("llama.block_count", 4, &[1, 0, 0, 0]), entry("tokens", 9, &array));
    let mut file = [&b"GGUF"[..], &3_u32.to_le_bytes(), &0_u64.to_le_bytes(), &2_u64.to_le_bytes()].concat();
    file.extend([&number[..], &list].concat());
    file.resize(file.len().next_multiple_of(32), 0);
    std::fs::write(session.path("old.gguf"), file).unwrap();
    let has = |name: &str| {
        let file = std::fs::read(session.path(name)).unwrap();
        [&number, &list].map(|entry| file.windows(entry.len()).any(|window| window == *entry))
    };
    for command in [
        &["convert", "old.gguf", "new.gguf"][..],
        &["convert", "old.gguf", "new.gguf", "--align", "64"],
        &["merge", "old.gguf", "edit.gguf", "-o", "new.gguf"],
        &["merge", "edit.gguf", "old.gguf", "-o", "new.gguf"],
        &["edit", "old.gguf", "--set", "a=b", "-o", "new.gguf"],
    ] {
        let empty = FORMATS.iter().find(|format| format.name == "gguf").unwrap();
        std::fs::write(session.path("edit.gguf"), empty.to_vec(&TensorMap::new(), &WriteOptions::new()).unwrap())
            .unwrap();
        let output = session.run(command);
        assert!(output.status.success(), "{command:?}: {}", message(&output));
        assert_eq!(has("new.gguf"), [true, true], "{command:?}");
        std::fs::remove_file(session.path("new.gguf")).unwrap();
    }
}

#[test]
fn the_model_of_a_directory_is_edited() {
    let session = Session::new();
    std::fs::create_dir(session.path("model")).unwrap();
    session.write("model/model.safetensors", &TensorMap::from_iter([("a", ndarray::array![1.0_f32])]));
    let output = session.run(&["edit", "model", "--set", "author=me"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let file = File::open(session.path("model/model.safetensors")).unwrap();
    assert_eq!(file.metadata().unwrap().entries["author"], "me");
}
