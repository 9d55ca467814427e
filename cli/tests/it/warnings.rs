//! Warnings about files: each command prints them once, and JSON has them.

use super::{Session, unknown};

/// A tensor of an unknown dtype, and one that is not aligned.
fn session() -> Session {
    let session = Session::new();
    unknown::write(&session, "new.safetensors", 1);
    std::fs::create_dir(session.path("folder")).unwrap();
    std::fs::copy(session.path("new.safetensors"), session.path("folder/new.safetensors")).unwrap();
    // numpy pads the header so that elements are aligned; this one is not padded.
    let head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), } \n";
    let len = u16::try_from(head.len()).unwrap().to_le_bytes();
    let file = [b"\x93NUMPY\x01\x00", &len[..], head, &1.0_f32.to_le_bytes()].concat();
    std::fs::write(session.path("odd.npy"), file).unwrap();
    session
}

const UNKNOWN: &str =
    "1 tensor cannot be read, because of an unknown dtype; the first is `a`, F99[2, 2] of unknown dtype";

#[test]
fn every_reading_command_prints_them_once() {
    let session = session();
    for line in [
        "ls new.safetensors",
        "ls --json new.safetensors",
        "ls --tree new.safetensors new.safetensors",
        "ls folder",
        "show new.safetensors b",
        "show --json new.safetensors b",
        "stats new.safetensors",
        "stats --json new.safetensors",
        "stats --long new.safetensors",
        "stats --sort std new.safetensors",
        "diff new.safetensors new.safetensors",
        "hash new.safetensors",
        "hash --json new.safetensors",
        "report --json new.safetensors",
        "codegen new.safetensors",
        "convert new.safetensors copy.npz --lossy",
        "convert new.safetensors copy.safetensors --dry-run",
        "merge new.safetensors merged.safetensors",
        "split new.safetensors --by b=b.safetensors --dry-run",
    ] {
        let arguments: Vec<&str> = line.split_whitespace().collect();
        let output = session.run(&arguments);
        let errors = String::from_utf8(output.stderr).unwrap();
        let file = if line.contains("folder") { "folder/new.safetensors" } else { "new.safetensors" };
        let warning = format!("tensorfile: {file}: warning: {UNKNOWN}\n");
        assert_eq!(errors.matches(&warning).count(), 1, "{line}: {errors}");
        assert_eq!(errors.matches("warning:").count(), 1, "{line}: {errors}");
    }
}

#[test]
fn those_about_the_arrangement_of_bytes_are_listed_by_verify_and_info_only() {
    let session = session();
    for line in ["ls odd.npy", "show odd.npy", "stats odd.npy", "hash odd.npy", "diff odd.npy odd.npy"] {
        let output = session.run(&line.split_whitespace().collect::<Vec<_>>());
        assert_eq!((output.status.code(), output.stderr), (Some(0), vec![]), "{line}");
    }
    for command in ["verify", "info"] {
        for file in ["odd.npy", "new.safetensors"] {
            let output = session.run(&[command, file]);
            let (text, errors) = (String::from_utf8(output.stdout).unwrap(), output.stderr);
            assert!(text.contains("cannot be "), "{command}: {text}");
            assert!(errors.is_empty(), "{command}");
        }
    }
}

#[test]
fn json_has_them_as_objects() {
    let session = session();
    let expected = serde_json::json!({ "kind": "unknown-dtype", "tensor": "a", "offset": null, "text": UNKNOWN });
    let mut of_file = expected.clone();
    of_file["file"] = "new.safetensors".into();
    for (line, place, expected) in [
        ("ls --json", "/0/warnings", &expected),
        ("info --json", "/0/warnings", &expected),
        ("stats --json", "/0/warnings", &expected),
        ("hash --json", "/0/warnings", &expected),
        ("verify --json", "/0/warnings", &expected),
        ("show --json -t b", "/0/warnings", &expected),
        ("codegen --json", "/0/warnings", &expected),
        ("report --json", "/files/0/info/warnings", &expected),
        ("diff --json odd.npy", "/warnings", &of_file),
    ] {
        let arguments: Vec<&str> = line.split_whitespace().chain(["new.safetensors"]).collect();
        let output = session.run(&arguments);
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let found = json.pointer(place).unwrap_or_else(|| panic!("{line}: {json}"));
        let found = found.as_array().unwrap().last();
        assert_eq!(found, Some(expected), "{line}");
    }
}

#[test]
fn verify_denies_some_kinds_or_all() {
    let session = session();
    insta::assert_snapshot!(session.transcript(&[
        "verify odd.npy new.safetensors",
        "verify --deny unknown-dtype odd.npy new.safetensors",
        "verify --deny alignment,gap odd.npy new.safetensors",
        "verify --deny part --deny left-out odd.npy new.safetensors",
        "verify --strict odd.npy new.safetensors",
        "verify --json --deny alignment odd.npy",
        "verify --deny order,age odd.npy",
    ]));
}

#[test]
fn nothing_is_said_to_be_dropped_before_an_error() {
    let session = Session::new();
    // The metadata and a tensor are dropped, and then a dtype cannot be stored.
    unknown::write(&session, "new.safetensors", 1);
    let output = session.run(&["convert", "model.ptd", "x.gguf", "--names", "index", "--lossy"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && !errors.contains("dropped"), "{errors}");
    let edit = ["edit", "new.safetensors", "--set", "a=b", "--set", "format=pt"];
    assert!(session.run(&edit).status.success());
    let output = session.run(&["convert", "new.safetensors", "missing/x.npz", "--lossy"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && !errors.contains("dropped"), "{errors}");
    let output = session.run(&["convert", "new.safetensors", "x.npz", "--lossy"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}");
    for dropped in ["the tensor `a`, whose dtype is unknown", "the metadata `a`", "the metadata `format` = `pt`"] {
        assert!(errors.contains(&format!("x.npz: dropped {dropped}")), "{errors}");
    }
}
