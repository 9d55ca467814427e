//! Objects in an S3 store. Without a server for it, these tests print that they are skipped; `tests/interop/setup.sh
//! --cloud` installs one.

use std::collections::BTreeSet;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use ndarray::Array1;
use tensorfile::TensorMap;
use tensorfile_datasets::ShardWriter;

use super::{Session, plain, skipped, weights};

/// A store with an empty bucket.
struct Store {
    process: Child,
    endpoint: String,
}

impl Store {
    fn start() -> Option<Self> {
        let (_, programs) = places();
        if !programs.join("moto_server").exists() {
            skipped(format_args!("{} is missing; tests/interop/setup.sh --cloud installs it", programs.display()));
            return None;
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new(programs.join("moto_server"));
        command.args(["-H", "127.0.0.1", "-p", &port.to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
        let store = Self { process: command.spawn().unwrap(), endpoint: format!("http://127.0.0.1:{port}") };
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(start.elapsed() < Duration::from_secs(60), "the store does not start");
            thread::sleep(Duration::from_millis(50));
        }
        store.client(&["create", "bucket"]);
        Some(store)
    }

    /// Runs the provider's own client.
    fn client(&self, arguments: &[&str]) -> String {
        let (root, programs) = places();
        let mut client = Command::new(programs.join("python"));
        client.arg("-B").arg(root.join("tests/interop/stores.py")).args(["s3", &self.endpoint]);
        let output = client.args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns the program with the address of the store. Its temporary files are in the session.
    fn command(&self, session: &Session, line: &str) -> Command {
        let mut command = session.command(&line.split(' ').collect::<Vec<_>>());
        command.env("AWS_ENDPOINT_URL", &self.endpoint).env("AWS_ALLOW_HTTP", "true").env("AWS_REGION", "us-east-1");
        command.env("AWS_ACCESS_KEY_ID", "key").env("AWS_SECRET_ACCESS_KEY", "secret");
        let temporary = session.path("temporary");
        fs::create_dir_all(&temporary).unwrap();
        command.env("TMPDIR", temporary);
        command
    }

    /// Runs command lines, and returns their output and exit codes.
    fn transcript(&self, session: &Session, lines: &[&str]) -> String {
        let mut transcript = String::new();
        for line in lines {
            let output = plain(self.command(session, line).output().unwrap());
            let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
            assert!(!text.contains("secret"), "{text}");
            let code = output.status.code().unwrap();
            let code = if code == 0 { String::new() } else { format!("[exit code {code}]\n") };
            transcript += &format!("$ tensorfile {line}\n{text}{code}\n");
        }
        transcript
    }
}

/// Returns the folder of the repository, and the folder with the stores' programs.
fn places() -> (PathBuf, PathBuf) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folder = std::env::var_os("TENSORFILE_INTEROP").unwrap_or("target/interop".into());
    (root.to_owned(), root.join(folder).join("cloud/bin"))
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn objects_in_a_store_are_read_and_written() {
    let session = Session::new();
    let Some(store) = Store::start() else { return };
    insta::assert_snapshot!(store.transcript(
        &session,
        &[
            "convert model.ptd s3://bucket/models/m.tbs --filter head.* --filter embed.*",
            "ls s3://bucket/models/m.tbs -v",
            "diff s3://bucket/models/m.tbs model.ptd --filter head.*",
            "convert s3://bucket/models/m.tbs s3://bucket/models/copy.safetensors",
            "hash s3://bucket/models/copy.safetensors s3://bucket/models/m.tbs",
            "convert model.ptd s3://bucket/models/m.tbs --filter head.* --no-clobber",
            "convert s3://bucket/models/m.tbs s3://bucket/models/m.tbs --to npz",
            "verify s3://bucket/models/m.tbs",
            "convert model.ptd s3://bucket/models/parts.safetensors --filter head.* --filter embed.* --max-shard-size 1KB",
            "ls s3://bucket/models/parts.safetensors",
            "diff s3://bucket/models/parts.safetensors.index.json model.ptd --filter head.*",
            "convert model.ptd s3://bucket/sharded/model.safetensors --filter head.* --filter embed.* --max-shard-size 1KB",
            "ls s3://bucket/sharded/",
            "diff s3://bucket/sharded/ model.ptd --filter head.*",
            "report s3://bucket/sharded/ -o report.html",
            "ls s3://bucket/models/",
            "append s3://bucket/models/m.tbs model.ptd",
            "edit s3://bucket/models/m.tbs --set a=b",
            "ls s3://bucket/models/none.npy",
            "ls s3://bucket",
        ]
    ));
}

#[test]
fn folders_of_trainers_in_a_store_are_listed() {
    let session = Session::new();
    let Some(store) = Store::start() else { return };
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/dcp");
    for name in ["hugging_face_4", "sharded_4"] {
        fs::create_dir(session.path(name)).unwrap();
        for entry in fs::read_dir(fixtures.join(name)).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{name}/{}", entry.file_name().into_string().unwrap());
            fs::copy(entry.path(), session.path(&path)).unwrap();
            store.client(&["put", "bucket", &path, entry.path().to_str().unwrap()]);
        }
    }
    insta::assert_snapshot!(store.transcript(
        &session,
        &[
            "ls s3://bucket/hugging_face_4/",
            "diff s3://bucket/hugging_face_4/ hugging_face_4",
            "diff s3://bucket/sharded_4/ sharded_4",
            "ls s3://bucket/none/",
            "ls s3://bucket/",
        ]
    ));
}

/// A save with `--no-clobber` of more than 16 MiB uploads to `KEY.tmp/NUMBER` and copies. If it is killed between, any
/// later save of that object removes the temporary one, however short it is.
#[test]
fn a_save_removes_what_a_killed_one_left_in_a_store() {
    let session = Session::new();
    let Some(store) = Store::start() else { return };
    for options in ["", " --no-clobber"] {
        let key = format!("models/m{}.ptd", options.len());
        // The second one is somebody's: numbers of ours begin with the time.
        for left in ["490000000000000000000000000000000", "77", "notes.txt"] {
            let line = format!("convert model.ptd s3://bucket/{key}.tmp/{left} --to ptd --filter head.*");
            assert!(store.command(&session, &line).output().unwrap().status.success());
        }
        let line = format!("convert model.ptd s3://bucket/{key} --filter head.*{options}");
        assert!(store.command(&session, &line).output().unwrap().status.success());
        let keys: Vec<String> = store.client(&["list", "bucket"]).lines().map(str::to_owned).collect();
        let of_this = keys.iter().filter(|name| name.starts_with(&key)).map(|name| &name[key.len()..]);
        assert_eq!(of_this.collect::<Vec<_>>(), ["", ".tmp/77", ".tmp/notes.txt"], "and objects of others stay");
    }
}

/// Writes a shard to `data`. Its samples are long enough for an upload in parts.
fn shard(session: &Session, number: usize) {
    fs::create_dir_all(session.path("data")).unwrap();
    let pattern = session.path(&format!("data/in-{{{number}..}}.tar"));
    let mut writer = ShardWriter::new(pattern).unwrap();
    for i in 0..5 {
        let sample = TensorMap::from_iter([("x", Array1::from_elem(1_000_000, (number * 5 + i) as f32))]);
        writer.write(&format!("{number}{i}"), &sample).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn parts_are_written_to_a_store() {
    let session = Session::new();
    let Some(store) = Store::start() else { return };
    shard(&session, 0);
    shard(&session, 1);
    let run = |line: &str| {
        let output = store.command(&session, line).output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let commit = |folder: &str, lines: &[u8]| {
        fs::write(session.path("lines"), lines).unwrap();
        store.transcript(&session, &[&format!("splits --commit {folder} lines")])
    };
    let is_clean = || fs::read_dir(session.path("temporary")).unwrap().next().is_none();

    let parts = ["1/2", "2/2"].map(|split| run(&format!("convert data s3://bucket/jobs/out --split {split}")));
    let on_disk = ["1/2", "2/2"].map(|split| run(&format!("convert data out --split {split}")));
    assert_eq!(parts, on_disk, "the same lines, with the same digests");
    // A scheduler starts one again, and another attempt was killed in the middle of its upload.
    assert_eq!(run("convert data s3://bucket/jobs/out --split 1/2"), parts[0]);
    run("convert model.ptd s3://bucket/jobs/out/part-00001-of-00002.tar.77.tmp --to safetensors --filter head.*");
    let [first, second] = &parts;
    insta::assert_snapshot!(
        [
            commit("s3://bucket/jobs/out", first),
            commit("s3://bucket/jobs/out/", &parts.concat()),
            commit("s3://bucket/jobs/out", &[&second[..], &first[..], &second[..]].concat()),
            commit("s3://bucket/jobs", &parts.concat()),
            commit("https://127.0.0.1:1/jobs", &parts.concat()),
        ]
        .concat()
    );
    let names = ["index.json", "part-00001-of-00002.tar", "part-00002-of-00002.tar"];
    let keys: BTreeSet<String> = store.client(&["list", "bucket"]).lines().map(str::to_owned).collect();
    assert_eq!(
        keys,
        names.iter().map(|name| format!("jobs/out/{name}")).collect(),
        "and no temporary object or upload"
    );
    assert!(is_clean());
    for name in &names[1..] {
        let path = session.path("got");
        store.client(&["get", "bucket", &format!("jobs/out/{name}"), path.to_str().unwrap()]);
        assert!(fs::read(&path).unwrap() == fs::read(session.path(&format!("out/{name}"))).unwrap(), "{name}");
    }

    // Another job was there before.
    run("convert model.ptd s3://bucket/other/part-00002-of-00002.tar --to safetensors --filter head.*");
    insta::assert_snapshot!(store.transcript(
        &session,
        &[
            "convert data s3://bucket/other --split 2/2",
            "convert data hf://owner/name --split 2/2",
            "convert data s3://nowhere/other --split 2/2",
            "convert data/in-0.tar s3://bucket/folder",
        ]
    ));
    assert!(is_clean());
}

#[test]
fn parts_of_tensors_and_shards_are_written_to_a_store() {
    let session = Session::new();
    let Some(store) = Store::start() else { return };
    fs::create_dir(session.path("models")).unwrap();
    for name in ["a", "b"] {
        session.write(&format!("models/{name}.safetensors"), &TensorMap::from_iter([("w", weights(&[20]))]));
    }
    fs::create_dir(session.path("files")).unwrap();
    for i in 0..4 {
        fs::write(session.path(&format!("files/{i}.cls")), i.to_string()).unwrap();
    }
    let mut lines = Vec::new();
    for split in ["1/2", "2/2"] {
        let line = format!("convert models s3://bucket/tensors --to safetensors --split {split}");
        lines.extend(store.command(&session, &line).output().unwrap().stdout);
    }
    fs::write(session.path("lines"), lines).unwrap();
    insta::assert_snapshot!(store.transcript(
        &session,
        &[
            "splits --commit s3://bucket/tensors lines",
            "ls s3://bucket/tensors/model.safetensors.index.json",
            "convert files s3://bucket/packed/a-{00..}.tar --max-shard-size 4kB",
            "convert files s3://bucket/packed/a-{00..}.tar --no-clobber",
            "ls s3://bucket/packed/a-00.tar",
            "ls s3://bucket/packed/a-01.tar",
        ]
    ));
    assert_eq!(store.client(&["list", "bucket"]).lines().count(), 5);
}
