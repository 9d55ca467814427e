use tensorfile::{FORMATS, File, Tensor, TensorMap, WriteOptions};

use super::{Session, model, weights};

fn map(session: &Session, name: &str) -> TensorMap {
    File::open(session.path(name)).unwrap().load().unwrap()
}

fn session() -> Session {
    let session = Session::new();
    let bias = |number: f32| Tensor::from_slice(&[number], [1]).unwrap();
    session.write("more.ten", &[("extra", bias(1.0)), ("more", bias(2.0))].into_iter().collect());
    session.write("again.ptd", &[("head.weight", weights(&[2, 2])), ("new", bias(3.0))].into_iter().collect());
    session
}

#[test]
fn appends_tensors() {
    let session = session();
    insta::assert_snapshot!(session.transcript(&[
        "append model.ptd more.ten again.ptd",
        "append model.ptd more.ten --dry-run --bytes",
        "append model.ptd more.ten",
        "append model.ptd again.ptd --replace",
        "ls --bytes --filter {head*,extra,more,new} model.ptd",
        "append sparse.btf more.ten",
        "ls sparse.btf",
        "append sparse.btf sparse.btf",
        "append missing.ptd more.ten",
    ]));
    assert_eq!(map(&session, "model.ptd")["embed.weight"], model()["embed.weight"]);
}

#[cfg(unix)]
#[test]
fn appends_at_once_take_turns() {
    let session = session();
    let names: Vec<String> = (0..12).map(|at| format!("new{at:02}")).collect();
    for name in &names {
        session.write(&format!("{name}.ten"), &[(name.as_str(), weights(&[1000]))].into_iter().collect());
    }
    let mut before: Vec<String> = map(&session, "model.ptd").names().map(str::to_owned).collect();
    let append = |name: &String| session.command(&["append", "model.ptd", &format!("{name}.ten")]).spawn().unwrap();
    let running: Vec<_> = names.iter().map(append).collect();
    for mut child in running {
        assert!(child.wait().unwrap().success());
    }
    before.extend(names);
    before.sort();
    let after = map(&session, "model.ptd");
    let mut after: Vec<&str> = after.names().collect();
    after.sort_unstable();
    assert_eq!(after, before);
}

#[test]
fn merges_under_prefixes() {
    let session = session();
    insta::assert_snapshot!(session.transcript(&[
        "merge more.ten again.ptd more.ten twice.ten",
        "merge one=more.ten two.=more.ten again.ptd all.ten",
        "ls all.ten --bytes",
        "merge x=more.ten x=more.ten same.ten",
        "merge x=missing.ten all.ten -f",
        "split all.ten -o part.ten --by-prefix 1 --dry-run",
    ]));
}

#[test]
fn a_single_file_says_that_the_index_of_an_earlier_save_stays() {
    let session = session();
    session.transcript(&["split model.ptd --max-shard-size 5KB"]);
    let written = session.transcript(&["convert more.ten model.ptd"]);
    let note = "model.ptd: model.ptd.index.json and its shards are of an earlier save, and stay";
    assert!(written.contains(note), "{written}");
}

#[test]
fn splits_and_merges() {
    let session = session();
    insta::assert_snapshot!(session.transcript(&[
        "split model.ptd --max-shard-size 5KB",
        "split model.ptd --max-shard-size 5KB --json",
        "split sparse.btf --max-shard-size 24 --out new.btf --dry-run",
        "ls --patterns model.ptd.index.json",
        "info model.ptd.index.json",
        "merge model.ptd.index.json whole.ptd",
        "split again.ptd --by-prefix 1",
        "ls again-head.ptd",
        "merge again-head.ptd again-new.ptd more.ten both.ten",
        "ls both.ten",
        "split again.ptd --by head.*=head.tbs",
        "split again.ptd --by head.*=head.tbs --by *=rest.ten",
        "ls rest.ten",
        "merge again.ptd again-new.ptd twice.ptd",
        "split again.ptd",
        "split sparse.btf --max-shard-size 24 --out parts/sparse.btf",
    ]));
    assert_eq!(map(&session, "whole.ptd"), model());
    assert_eq!(map(&session, "model.ptd.index.json"), model());
    assert_eq!(map(&session, "head.tbs")["head.weight"], weights(&[2, 2]));
}

/// The output was once the first argument.
#[test]
fn merge_does_not_replace_what_may_be_an_input() {
    let session = session();
    let before = std::fs::read(session.path("more.ten")).unwrap();
    insta::assert_snapshot!(session.transcript(&[
        "merge again.ptd more.ten",
        "merge missing.ptd again.ptd more.ten",
        "merge model.ptd again.ptd more.ten",
        "merge - more.ten",
        "merge more.ten",
        "merge",
        "merge more.ten again.ptd more.ten -n",
        "merge more.ten again.ptd -o more.ten -n",
        "merge more.ten again.ptd new.ten --force -n",
    ]));
    assert_eq!(std::fs::read(session.path("more.ten")).unwrap(), before);
    let written = |arguments: &[&str], name: &str| {
        let output = session.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        map(&session, name).len()
    };
    assert_eq!(written(&["merge", "more.ten", "again.ptd", "new.ten"], "new.ten"), 4);
    assert_eq!(written(&["merge", "more.ten", "new.ten", "--force"], "new.ten"), 2);
    assert_eq!(written(&["merge", "-o", "new.ten", "more.ten", "again.ptd"], "new.ten"), 4);
    // Onto an input, which is obviously meant.
    assert_eq!(written(&["merge", "more.ten", "again.ptd", "-o", "more.ten"], "more.ten"), 4);
    let output = session.run(&["merge", "more.ten", "-", "--to", "npz"]);
    assert!(output.status.success() && output.stdout.starts_with(b"PK"), "{}", String::from_utf8_lossy(&output.stderr));
    #[cfg(unix)]
    assert!(session.run(&["merge", "more.ten", "/dev/stdout", "--to", "ten"]).stdout.starts_with(b"~TenBin~"));
}

#[test]
fn no_clobber_keeps_files() {
    let session = session();
    std::fs::write(session.path("chart.svg"), "old").unwrap();
    let lines = [
        "convert model.ptd again.ptd --no-clobber",
        "convert model.ptd new.ptd -n",
        "split model.ptd --by *=new.ptd -n",
        "split model.ptd --max-shard-size 5KB -n",
        "split model.ptd --max-shard-size 5KB -n",
        "stats model.ptd --plot chart.svg -n",
        "man --out pages -n",
        "man --out pages -n",
    ];
    insta::assert_snapshot!(session.transcript(&lines));
    assert_eq!(map(&session, "again.ptd").len(), 2);
    assert_eq!(map(&session, "new.ptd"), model());
    assert_eq!(std::fs::read(session.path("chart.svg")).unwrap(), b"old");
    // A shard without an index is a file too.
    std::fs::remove_file(session.path("model.ptd.index.json")).unwrap();
    assert_eq!(session.run(&["split", "model.ptd", "--max-shard-size", "5KB", "-n"]).status.code(), Some(3));
}

#[test]
fn splits_and_merges_every_format() {
    let session = Session::new();
    let tensors: TensorMap = (0..6).map(|at| (format!("layers.{at}.weight"), weights(&[3, 4]))).collect();
    let options = WriteOptions::new().embed_names(true);
    for format in FORMATS.iter().filter(|format| format.to_vec(&tensors, &options).is_ok()) {
        let extension = format.extensions[0];
        let [file, index, again] = ["", ".index.json", ".again"].map(|end| match end {
            ".again" => format!("again.{extension}"),
            end => format!("layers.{extension}{end}"),
        });
        session.write(&file, &tensors);
        let output = session.run(&["split", &file, "--max-shard-size", "100"]);
        assert!(output.status.success(), "{}: {}", format.name, String::from_utf8_lossy(&output.stderr));
        assert_eq!(File::open(session.path(&index)).unwrap().shards().len(), 3, "{}", format.name);
        let output = session.run(&["merge", &index, &again]);
        assert!(output.status.success(), "{}: {}", format.name, String::from_utf8_lossy(&output.stderr));
        assert_eq!(map(&session, &again), tensors, "{}", format.name);
    }
}

#[test]
fn splitting_never_replaces_the_file() {
    let session = session();
    let before = std::fs::read(session.path("model.ptd")).unwrap();
    let output = session.run(&["split", "model.ptd", "--max-shard-size", "1GB"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{message}");
    assert!(message.contains("one file is enough, so nothing is written"), "{message}");

    for arguments in
        [&["--by", "*=model.ptd"][..], &["--by", "*=./model.ptd"], &["--max-shard-size", "1GB", "--out", "model.ptd"]]
    {
        let output = session.run(&[&["split", "model.ptd"], arguments].concat());
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && message.contains("would be replaced"), "{arguments:?}: {message}");
    }
    assert!(std::fs::read(session.path("model.ptd")).unwrap() == before);

    assert!(session.run(&["split", "model.ptd", "--max-shard-size", "1GB", "--out", "one.ptd"]).status.success());
    assert!(session.path("one.ptd").exists());
}

/// Two spellings of one path, and links: nothing is written, as the later file would replace the earlier one.
#[cfg(unix)]
#[test]
fn outputs_that_are_one_file_are_refused() {
    use std::os::unix::fs::symlink;

    let session = Session::new();
    let layers = (0..4).map(|layer| (format!("layers.{layer}"), weights(&[2]))).collect();
    session.write("a.ptd", &layers);
    std::fs::create_dir(session.path("d")).unwrap();
    std::fs::write(session.path("old.ptd"), "old").unwrap();
    std::fs::hard_link(session.path("old.ptd"), session.path("hard.ptd")).unwrap();
    for (link, target) in [("link.ptd", "old.ptd"), ("dangling.ptd", "new.ptd"), ("folder", "d")] {
        symlink(target, session.path(link)).unwrap();
    }
    let count =
        || std::fs::read_dir(session.path("")).unwrap().count() + std::fs::read_dir(session.path("d")).unwrap().count();
    let before = count();
    for (one, other) in [
        ("p.ptd", "./p.ptd"),
        ("p.ptd", "d/../p.ptd"),
        ("old.ptd", "link.ptd"),
        ("old.ptd", "hard.ptd"),
        ("new.ptd", "dangling.ptd"),
        ("d/p.ptd", "folder/p.ptd"),
    ] {
        for json in [&[][..], &["--json"], &["--dry-run"]] {
            let (first, second) = (format!("layers.0*={one}"), format!("*={other}"));
            let output = session.run(&[&["split", "a.ptd", "--by", &first, "--by", &second], json].concat());
            let message = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{one} {other}: {message}");
            let expected = format!("tensorfile: {other}: is the same file as `{one}`, which is written too\n");
            assert_eq!(message, expected);
        }
    }
    assert_eq!((count(), std::fs::read_to_string(session.path("old.ptd")).unwrap().as_str()), (before, "old"));
    // Nor is an input replaced under another name.
    symlink("a.ptd", session.path("input.ptd")).unwrap();
    std::fs::hard_link(session.path("a.ptd"), session.path("same.ptd")).unwrap();
    for out in ["./a.ptd", "input.ptd", "same.ptd"] {
        let by = format!("*={out}");
        let output = session.run(&["split", "a.ptd", "--by", "layers.0=p.ptd", "--by", &by]);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            (output.status.code(), message),
            (Some(2), format!("tensorfile: {out}: the file that is split would be replaced\n"))
        );
    }
}

/// The time grows with the tensors, not with the tensors times the files.
#[test]
fn splits_into_many_files() {
    const FILES: usize = 3000;

    let session = Session::new();
    session.write("many.ten", &(0..FILES).map(|at| (format!("p{at}.w"), weights(&[1]))).collect());
    let run = |files: usize| {
        session.write("many.ten", &(0..files).map(|at| (format!("p{at}.w"), weights(&[1]))).collect());
        let start = std::time::Instant::now();
        let output = session.run(&["split", "many.ten", "--by-prefix", "1", "--dry-run"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8(output.stdout).unwrap().matches("1 tensor").count(), files);
        start.elapsed()
    };
    let (few, many) = (run(FILES), run(4 * FILES));
    assert!(many < 10 * few + std::time::Duration::from_secs(1), "{few:?} for {FILES}, {many:?} for 4 times as many");
}

#[test]
fn sizes_that_are_too_large_say_so() {
    let session = Session::new();
    for command in ["split model.ptd", "convert model.ptd out.ptd"] {
        for size in
            ["99999999999GB", "18446744073709551616", "99999999999999999999999999", "18446745TB", "17179869184GiB"]
        {
            let line = format!("{command} --max-shard-size {size}");
            let output = session.run(&line.split_whitespace().collect::<Vec<_>>());
            let message = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{line}: {message}");
            assert!(
                message.contains(&format!("'{size}'")) && message.contains(": too large: the largest size is"),
                "{message}"
            );
        }
        let line = format!("{command} --max-shard-size 18446744073709551615 --dry-run");
        let output = session.run(&line.split_whitespace().collect::<Vec<_>>());
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
