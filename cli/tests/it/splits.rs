//! `splits`, `--split`, and jobs of several processes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};

use ndarray::Array1;
use tensorfile::{File, TensorMap};
use tensorfile_datasets::{ShardWriter, Shards};

use super::{Session, weights};

/// A session with three files, and a folder of two shards.
fn session() -> Session {
    let session = Session::new();
    fs::create_dir(session.path("models")).unwrap();
    for (name, len) in [("a.safetensors", 10), ("b.safetensors", 1000), ("c.safetensors", 10)] {
        let map = TensorMap::from_iter([("w", weights(&[len])), ("bias", weights(&[len / 2]))]);
        session.write(&format!("models/{name}"), &map);
    }
    shards(&session, 2, 3);
    session
}

/// Writes shards of `samples` samples each to `data`.
fn shards(session: &Session, count: u64, samples: u64) {
    fs::create_dir(session.path("data")).unwrap();
    let mut writer = ShardWriter::new(session.path("data/in-{0..}.tar")).unwrap().max_samples(samples);
    for i in 0..count * samples {
        let sample = TensorMap::from_iter([("x", Array1::from_elem(1000, i as f32))]);
        writer.write(&format!("{i:06}"), &sample).unwrap();
    }
    writer.finish().unwrap();
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    // Nothing but files is there.
    entries.map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap())).collect()
}

#[test]
fn files_are_divided() {
    let session = session();
    insta::assert_snapshot!(session.transcript(&[
        "splits models --count 2",
        "splits models --count 2 --whole-files",
        "splits data/in-{0..1}.tar --target-size 10kB",
        "splits models/a.safetensors models/b.safetensors --count 1 --json",
        "splits models data",
        "splits missing.npy",
        "splits models --count 0",
        "splits models --count 2 --target-size 5",
        "hash models --split 1/2",
        "hash models --split 2/2",
        "hash models --split 4/4",
        "hash models --split 5/4",
        "hash --split 1/2 --check sums",
        "verify models --split 1/3",
        "stats models --split 1/2",
        "convert models out --split 1/2",
        "convert models out --split 1/2 --to safetensors --dtype f16",
        "convert models out --split 1/2 --to npy",
        "convert data out --split 2/2 --json",
        "splits --commit out sparse.btf",
        "splits --commit out missing",
    ]));
    assert!(!session.path("out/index.json").exists());
}

#[test]
fn shares_of_all_processes_are_all_files() {
    let session = session();
    let lines = |arguments: &[&str]| -> Vec<String> {
        let output = session.run(arguments);
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    };
    for command in [&["hash"][..], &["verify"], &["verify", "--payload"]] {
        let all: BTreeSet<String> = lines(&[command, &["models"]].concat()).into_iter().collect();
        for of in 1..5 {
            let split = |number: usize| lines(&[command, &["models", "--split", &format!("{number}/{of}")]].concat());
            let shares: Vec<String> = (1..=of).flat_map(split).collect();
            assert_eq!(shares.len(), all.len(), "{command:?} {of}");
            assert_eq!(shares.into_iter().collect::<BTreeSet<_>>(), all, "{command:?} {of}");
        }
    }
}

#[test]
fn a_saved_plan_is_read_by_each_process() {
    let session = session();
    let run = |line: &str| {
        let output = session.run(&line.split(' ').collect::<Vec<_>>());
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    for (name, line) in [
        ("whole.json", "splits models --count 2 --whole-files --json"),
        ("tensors.json", "splits models --count 2 --json"),
        ("data.json", "splits data --count 3 --json"),
    ] {
        fs::write(session.path(name), run(line)).unwrap();
    }
    for split in ["1/2", "2/2"] {
        for command in ["hash", "hash --json", "verify", "stats", "stats --json"] {
            let (planned, anew) = (
                run(&format!("{command} whole.json --plan --split {split}")),
                run(&format!("{command} models --split {split}")),
            );
            assert_eq!(String::from_utf8(planned).unwrap(), String::from_utf8(anew).unwrap(), "{command} {split}");
        }
        for (plan, from, to) in [("tensors.json", "models", " --to ptd"), ("data.json", "data", "")] {
            let of = if from == "data" { split.replace("/2", "/3") } else { split.to_owned() };
            let planned = run(&format!("convert {plan} planned-{from} --plan --split {of}{to}"));
            assert_eq!(planned, run(&format!("convert {from} anew-{from} --split {of}{to}")), "{plan} {split}");
        }
    }
    let by_pipe = session
        .run_with_input(&["hash", "-", "--plan", "--split", "1/2"], &fs::read(session.path("whole.json")).unwrap());
    assert_eq!(by_pipe.stdout, run("hash models --split 1/2"));

    // Files of other splits are not asked for.
    fs::remove_file(session.path("models/c.safetensors")).unwrap();
    fs::write(session.path("models/a.safetensors"), "another file").unwrap();
    fs::write(
        session.path("moved.json"),
        fs::read_to_string(session.path("whole.json")).unwrap().replace("\"number\": 2", "\"number\": 1"),
    )
    .unwrap();
    insta::assert_snapshot!(session.transcript(&[
        "hash whole.json --split 1/2",
        "hash whole.json --plan --split 1/2",
        "hash whole.json --plan --split 2/2",
        "hash whole.json --plan --split 3/3",
        "hash whole.json --plan --split 1/1",
        "hash moved.json --plan --split 2/2",
        "hash tensors.json --plan --split 1/2",
        "hash models --plan",
        "hash models whole.json --plan --split 1/2",
        "hash models/b.safetensors --plan --split 1/2",
        "hash missing.json --plan --split 1/2",
        "convert tensors.json out --plan --split 1/2 --to ptd",
        "stats whole.json --plan --split 1/2 --json",
    ]));
}

#[test]
fn files_become_one_checkpoint() {
    let session = session();
    let mut lines = Vec::new();
    for split in ["1/2", "2/2"] {
        let output = session.run(&["convert", "models", "out", "--to", "safetensors", "--split", split]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        lines.extend(output.stdout);
    }
    let output = session.run_with_input(&["splits", "--commit", "out", "-"], &lines);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.split(", ").take(2).collect::<Vec<_>>(), ["out/model.safetensors.index.json: 2 files", "6 rows"]);
    let file = File::open(session.path("out")).unwrap();
    let names: BTreeSet<_> = file.tensors().map(|tensor| tensor.name()).collect();
    assert_eq!(names, BTreeSet::from(["a.bias", "a.w", "b.bias", "b.w", "c.bias", "c.w"]));
}

/// Starts a process of a job in the folder `out`.
fn start(session: &Session, number: usize, out: &str) -> Child {
    let split = format!("{number}/4");
    let mut command = session.command(&["convert", "data", out, "--split", &split]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits for processes, and returns the lines of their parts.
fn lines(processes: Vec<Child>) -> Vec<u8> {
    let lines = processes.into_iter().map(|process| {
        let output = process.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    });
    lines.collect::<Vec<_>>().concat()
}

#[test]
fn a_killed_process_is_started_again() {
    const KILLED: usize = 3;

    let session = Session::new();
    shards(&session, 7, 600);
    let commit = |out: &str, lines: &[u8]| session.run_with_input(&["splits", "--commit", out, "-"], lines);

    let undisturbed = lines((1..=4).map(|number| start(&session, number, "undisturbed")).collect());
    assert!(commit("undisturbed", &undisturbed).status.success());

    fs::create_dir(session.path("out")).unwrap();
    let is_writing = |number: usize| {
        let name = format!(".part-{number:05}-of-00004.");
        let mut entries = fs::read_dir(session.path("out")).unwrap();
        entries.any(|entry| entry.unwrap().file_name().to_str().unwrap().starts_with(&name))
    };
    // It may be too fast to be killed.
    let mut attempts = 0..100;
    let others = loop {
        attempts.next().expect("it is too fast to be killed");
        let mut others: Vec<Child> = (1..=4).map(|number| start(&session, number, "out")).collect();
        let mut killed = others.remove(KILLED - 1);
        while killed.try_wait().unwrap().is_none() && !is_writing(KILLED) {}
        killed.kill().unwrap();
        let has_part = session.path("out/part-00003-of-00004.tar").exists();
        if !killed.wait().unwrap().success() && !has_part && is_writing(KILLED) {
            break others;
        }
        lines(others);
        fs::remove_dir_all(session.path("out")).unwrap();
        fs::create_dir(session.path("out")).unwrap();
    };
    let mut parts = lines(others);
    let output = commit("out", &parts);
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "tensorfile: out: split 3 of 4 is missing\n");
    assert!(is_writing(KILLED), "what it left is still there");

    parts.extend(lines(vec![start(&session, KILLED, "out")]));
    assert!(!is_writing(KILLED), "the next attempt removes it");
    // A scheduler may start one twice.
    parts.extend(lines(vec![start(&session, 1, "out")]));
    let output = commit("out", &parts);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found = files(&session.path("out"));
    assert_eq!(
        found.keys().map(String::as_str).collect::<Vec<_>>(),
        [
            "index.json",
            "part-00001-of-00004.tar",
            "part-00002-of-00004.tar",
            "part-00003-of-00004.tar",
            "part-00004-of-00004.tar",
        ]
    );
    assert!(found == files(&session.path("undisturbed")), "the same bytes");
    let parts = session.path("out/part-{00001..00004}-of-00004.tar");
    let keys: Vec<String> = Shards::new(parts.to_str().unwrap()).unwrap().map(|sample| sample.unwrap().key).collect();
    assert_eq!(keys, (0..4200).map(|i| format!("{i:06}")).collect::<Vec<_>>(), "every sample once");
}

/// Waits until a process writes a temporary file, and sends a signal. Returns the exit code.
#[cfg(unix)]
fn stop(mut process: Child, folder: &Path, signal: rustix::process::Signal) -> Option<i32> {
    let has_temporary = || {
        fs::read_dir(folder).is_ok_and(|mut entries| {
            entries.any(|entry| entry.unwrap().file_name().as_encoded_bytes().ends_with(b".tmp"))
        })
    };
    while process.try_wait().unwrap().is_none() && !has_temporary() {}
    // It may have ended meanwhile.
    let _ = rustix::process::kill_process(rustix::process::Pid::from_child(&process), signal);
    process.wait().unwrap().code()
}

#[cfg(unix)]
#[test]
fn a_stopped_process_leaves_nothing() {
    use rustix::process::Signal;

    let session = Session::new();
    shards(&session, 4, 1000);
    let output = session.run(&["convert", "data/in-0.tar", "files"]);
    assert!(output.status.success());
    let commands: [&[&str]; 2] =
        [&["convert", "data", "out", "--split", "1/1"], &["convert", "files", "out/a-{0..}.tar"]];
    for command in commands {
        for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
            let is_stopped = (0..100).any(|_| {
                let _ = fs::remove_dir_all(session.path("out"));
                fs::create_dir(session.path("out")).unwrap();
                let process = session.command(command).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
                stop(process, &session.path("out"), signal) == Some(code)
            });
            assert!(is_stopped, "{command:?} is too fast to be stopped");
            assert_eq!(files(&session.path("out")).into_keys().collect::<Vec<_>>(), [""; 0], "{command:?}");
        }
    }
}
