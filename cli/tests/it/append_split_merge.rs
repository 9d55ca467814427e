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
    assert_eq!(session.run(&["merge", "more.ten", "/dev/stdout", "--to", "ten"]).status.code(), Some(3));
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
