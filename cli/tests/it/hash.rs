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
