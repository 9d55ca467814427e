use super::{Session, model};

#[test]
fn prints_and_checks_digests() {
    let session = Session::new();
    std::fs::write(session.path("junk.ptd"), "FT01").unwrap();
    let lines = session.run(&["hash", "model.ptd", "sparse.btf"]).stdout;
    std::fs::write(session.path("digests"), &lines).unwrap();
    let tensors = session.run(&["hash", "--tensors", "model.ptd"]).stdout;
    std::fs::write(session.path("tensors"), &tensors).unwrap();
    let mut changed = model();
    changed.remove("halves");
    changed.insert("steps", super::weights(&[]));
    changed.insert("other", super::weights(&[]));
    session.write("changed.ptd", &changed);
    std::fs::write(session.path("wrong"), String::from_utf8(lines).unwrap().replace("sparse.btf", "changed.ptd"))
        .unwrap();
    std::fs::write(session.path("none"), "3 blind mice\n").unwrap();
    insta::assert_snapshot!(session.transcript(&[
        "hash model.ptd missing.ptd junk.ptd sparse.btf",
        "hash --tensors sparse.btf",
        "hash --json sparse.btf",
        "hash --check digests",
        "hash --check wrong",
        "hash --check none",
        "hash --check model.ptd",
        "hash --tensors --check tensors model.ptd",
        "hash --tensors --check tensors changed.ptd",
        "hash --tensors model.ptd sparse.btf",
        "hash --check digests model.ptd",
        "hash",
    ]));
}

#[test]
fn names_are_escaped_and_read_back() {
    let session = Session::new();
    let map = [("a\u{1b}[31m\n\\b", super::weights(&[2])), ("c\\d", super::weights(&[3]))].into_iter().collect();
    session.write("names.ptd", &map);
    let lines = session.run(&["hash", "--tensors", "names.ptd"]).stdout;
    assert!(!lines.contains(&0x1b));
    let output = session.run_with_input(&["hash", "--tensors", "--check", "-", "names.ptd"], &lines);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "names.ptd: ok\n");
}

/// File names that are not UTF-8, or have line feeds and backslashes.
#[cfg(unix)]
#[test]
fn any_file_names_are_hashed_and_checked() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let session = Session::new();
    let folder = session.path("d");
    std::fs::create_dir(&folder).unwrap();
    let names: [&[u8]; 6] =
        [b"a\xff.ptd", b"b\\.ptd", b"c\n\n.ptd", b"\\d.ptd", b"e\r.ptd", "f\u{202e}\t.ptd".as_bytes()];
    for name in names {
        std::fs::copy(session.path("model.ptd"), folder.join(OsStr::from_bytes(name))).unwrap();
    }
    let mut lines = session.run(&["hash", "d"]).stdout;
    let text = String::from_utf8(lines.clone()).unwrap();
    let digest = &text.trim_start_matches('\\')[..64];
    let expected: String = ["\\\\d", "a\\xff", "b\\\\", "c\\n\\n", "e\\r", "f\\u{202e}\\t"]
        .map(|name| format!("\\{digest}  d/{name}.ptd\n"))
        .concat();
    assert_eq!(text, expected);
    // Others print them as they are.
    lines.extend([digest.as_bytes(), b"  d/a\xff.ptd\n"].concat());
    let output = session.run_with_input(&["hash", "--check", "-"], &lines);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!((output.status.code(), text.matches(": ok\n").count()), (Some(0), 7), "{text}");
}

#[test]
fn an_empty_manifest_checks_nothing() {
    let session = Session::new();
    std::fs::write(session.path("empty"), "").unwrap();
    for line in [
        "hash --check empty",
        "hash --tensors --check empty model.ptd",
        "verify --manifest empty model.ptd",
        "hash --check -",
    ] {
        let output = session.run(&line.split_whitespace().collect::<Vec<_>>());
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(4), "{line}: {message}");
        assert!(message.ends_with(": the manifest is empty, so there is nothing to check\n"), "{line}: {message}");
    }
}
