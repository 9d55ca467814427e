//! Objects in a store with the interface of S3. Without it, these tests print that they are skipped;
//! `tests/interop/setup.sh --cloud` installs it.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::{Session, plain, skipped};

/// A store with an empty bucket.
struct Store {
    process: Child,
    endpoint: String,
}

impl Store {
    fn start() -> Option<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let folder = std::env::var_os("TENSORFILE_INTEROP").unwrap_or("target/interop".into());
        let programs: PathBuf = root.join(folder).join("cloud/bin");
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
        let mut create = Command::new(programs.join("python"));
        create.arg("-B").arg(root.join("tests/interop/stores.py")).args(["s3", &store.endpoint, "create", "bucket"]);
        assert!(create.status().unwrap().success());
        Some(store)
    }

    /// Runs command lines, and returns their output and exit codes.
    fn transcript(&self, session: &Session, lines: &[&str]) -> String {
        let mut transcript = String::new();
        for line in lines {
            let mut command = session.command(&line.split(' ').collect::<Vec<_>>());
            command
                .env("AWS_ENDPOINT_URL", &self.endpoint)
                .env("AWS_ALLOW_HTTP", "true")
                .env("AWS_REGION", "us-east-1");
            command.env("AWS_ACCESS_KEY_ID", "key").env("AWS_SECRET_ACCESS_KEY", "secret");
            let output = plain(command.output().unwrap());
            let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
            assert!(!text.contains("secret"), "{text}");
            let code = output.status.code().unwrap();
            let code = if code == 0 { String::new() } else { format!("[exit code {code}]\n") };
            transcript += &format!("$ tensorfile {line}\n{text}{code}\n");
        }
        transcript
    }
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
            "append s3://bucket/models/m.tbs model.ptd",
            "edit s3://bucket/models/m.tbs --set a=b",
            "ls s3://bucket/models/none.npy",
            "ls s3://bucket",
        ]
    ));
}
