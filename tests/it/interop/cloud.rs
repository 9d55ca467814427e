//! Stores that need signatures, all on this machine: S3 by moto, Azure by azurite, and Google by a server of the tests.

#![allow(clippy::single_range_in_vec_init, reason = "a vector is sliced by one range")]

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use ndarray::Array1;
use tensorfile::{File, SaveOptions, Tensor, TensorMap, ten};

use crate::support::child::command;
use crate::support::interop::{installed, run};
use crate::support::root;
use crate::support::server::{Object, Server};

/// The emulator of a store with an empty bucket. It is stopped when this goes out of scope.
struct Store {
    process: Child,
    provider: &'static str,
    endpoint: String,
}

impl Store {
    fn s3() -> Option<Self> {
        let mut command = Command::new(installed("cloud/bin/moto_server")?);
        let port = free_port();
        command.args(["-H", "127.0.0.1", "-p", &port]);
        Self::start("s3", command, &port)
    }

    fn azure() -> Option<Self> {
        let program = installed("azurite/node_modules/azurite/dist/src/blob/main.js")?;
        installed("cloud/bin/python")?;
        let mut command = Command::new("node");
        let port = free_port();
        command.arg(program).args(["--blobHost", "127.0.0.1", "--blobPort", &port]);
        command.args(["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent"]);
        Self::start("azure", command, &port)
    }

    fn start(provider: &'static str, mut command: Command, port: &str) -> Option<Self> {
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let store = Self { process, provider, endpoint: format!("http://127.0.0.1:{port}") };
        let start = Instant::now();
        while TcpStream::connect(format!("127.0.0.1:{port}")).is_err() {
            assert!(start.elapsed() < Duration::from_secs(60), "{provider} does not start");
            thread::sleep(Duration::from_millis(50));
        }
        store.client(&["create", "bucket"]);
        Some(store)
    }

    /// Runs the provider's own client.
    fn client(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(installed("cloud/bin/python").unwrap());
        command.arg("-B").arg(root().join("tests/interop/stores.py")).args([self.provider, &self.endpoint]);
        run(command.args(arguments))
    }

    /// The command that runs a test with this store.
    fn command(&self, test: &str) -> Command {
        let mut command = command(test, &[]);
        if self.provider == "azure" {
            command.env("AZURE_STORAGE_USE_EMULATOR", "true").env("AZURITE_BLOB_STORAGE_URL", &self.endpoint);
            command.env("STORE", "az://bucket");
        } else {
            command.env("AWS_ENDPOINT_URL", &self.endpoint).env("AWS_ALLOW_HTTP", "true").env("STORE", "s3://bucket");
            command.env("AWS_ACCESS_KEY_ID", "key").env("AWS_SECRET_ACCESS_KEY", "secret");
            command.env("AWS_REGION", "us-east-1");
        }
        command
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_port() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}

/// A small tensor, and one that is uploaded in three parts.
fn map() -> TensorMap {
    let large = Array1::from_shape_fn(5_000_000, |i| i as f32);
    TensorMap::from_iter([
        ("small", Tensor::from_array(&ndarray::array![[1.0_f32, 2.0], [3.0, 4.0]])),
        ("large", Tensor::from_array(&large)),
    ])
}

fn check(store: &Store) {
    run(&mut store.command("interop::cloud::saves_and_loads"));
    let left = store.client(&["list", "bucket"]);
    assert!(left.lines().any(|key| key == "models/large.safetensors"), "{left}");
    assert!(!left.contains(".tmp"), "temporary objects are deleted: {left}");
    assert!(!left.contains("unfinished"), "failed uploads are aborted: {left}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new.ten");
    store.client(&["get", "bucket", "models/new.ten", path.to_str().unwrap()]);
    assert!(fs::read(&path).unwrap() == ten::to_vec(&map()).unwrap(), "its own client reads other bytes");
}

#[test]
fn files_are_saved_to_and_loaded_from_s3() {
    let Some(store) = Store::s3() else { return };
    check(&store);
}

#[test]
fn files_are_saved_to_and_loaded_from_azure() {
    let Some(store) = Store::azure() else { return };
    check(&store);
}

#[test]
#[ignore = "run by other tests, with the address of a store"]
fn saves_and_loads() {
    let store = env::var("STORE").unwrap();
    let (map, small) = (map(), TensorMap::from_iter([("a", ndarray::array![1_i32, 2, 3])]));
    for format in tensorfile::FORMATS.iter().filter(|format| format.name != "npy") {
        let url = format!("{store}/small/a.{}", format.extensions[0]);
        SaveOptions::new().save(&url, &small).unwrap();
        let file = File::open(&url).unwrap();
        assert_eq!((file.format().name, file.location().as_deref(), file.path()), (format.name, Some(&*url), None));
        assert_eq!(file.load::<TensorMap>().unwrap(), small, "{url}");
    }

    let url = &format!("{store}/models/large.safetensors");
    // The next save of a name removes the leftovers of a killed save with `no_replace`.
    let ten = tensorfile::Format::named("ten").unwrap();
    SaveOptions::new().format(ten).save(format!("{url}.tmp/490000000000000000000000000000000"), &small).unwrap();
    tensorfile::save(url, &map).unwrap();
    let file = File::open(url).unwrap();
    assert_eq!(file.load::<TensorMap>().unwrap(), map);
    let part = file.slice("large", &[4_000_000..4_000_002]).unwrap();
    assert_eq!(part.array::<f32>().unwrap(), ndarray::array![4_000_000.0, 4_000_001.0].into_dyn());

    // An existing object stays, whether the new one is short or long, and whether it was there first or comes
    // meanwhile.
    let new = SaveOptions::new().no_replace(true);
    for value in [&map, &small] {
        let error = new.save(url, value).unwrap_err();
        assert_eq!(error.to_string(), format!("{url}: the object exists"));
    }
    new.save(format!("{store}/models/new.ten"), &map).unwrap();
    assert_eq!(tensorfile::load::<TensorMap>(format!("{store}/models/new.ten")).unwrap(), map);
    let late = format!("{store}/models/late.ten");
    let other = late.clone();
    let saves_late = new.clone().progress(move |_| {
        if File::open(&other).is_err() {
            tensorfile::save(&other, &TensorMap::new()).unwrap();
        }
    });
    let error = saves_late.save(&late, &map).unwrap_err();
    assert_eq!(error.to_string(), format!("{late}: the object exists"));
    assert_eq!(tensorfile::load::<TensorMap>(&late).unwrap(), TensorMap::new());

    // A save that is stopped leaves the old object.
    let stopped = SaveOptions::new().progress(|_| std::ops::ControlFlow::Break(()));
    let error = stopped.save(url, &map).unwrap_err();
    assert_eq!(error.to_string(), format!("{url}: safetensors: cancelled by the progress listener"));
    assert_eq!(tensorfile::load::<TensorMap>(url).unwrap(), map);

    // An object that is replaced while it is read.
    let other = TensorMap::from_iter([("large", Array1::<f32>::zeros(4_000_000))]);
    tensorfile::save(url, &other).unwrap();
    let error = file.tensor("large").unwrap_err();
    assert!(matches!(error.kind(), tensorfile::ErrorKind::SourceChanged { .. }), "{error}");

    if !store.starts_with("gs://") {
        saves_shards(&store);
    }
    let appended = tensorfile::tensorbuffers::append(format!("{store}/small/a.tbs"), &small).unwrap_err();
    assert!(
        appended.to_string().ends_with("cannot change an object in a store; load it, and save it whole"),
        "{appended}"
    );

    let error = File::open(format!("{store}/nothing.npy")).unwrap_err();
    assert!(error.is_not_found(), "{error}");
    if store.starts_with("s3://") {
        let error = File::open("s3://other/nothing.npy").unwrap_err();
        assert_eq!(
            error.to_string(),
            "s3://other/nothing.npy: 404 Not Found: NoSuchBucket: The specified bucket does not exist"
        );
    }
}

/// Two sets of names take turns, and the index names a whole set at any time.
fn saves_shards(store: &str) {
    let folder = format!("{store}/sharded");
    let url = &format!("{folder}/model.ten");
    let maps =
        [1, 2, 3].map(|number| TensorMap::from_iter(["a", "b", "c"].map(|name| (name, ndarray::array![number]))));
    let names = || -> Vec<String> {
        let listed = tensorfile::file::list_objects(&folder).unwrap();
        listed.into_iter().map(|object| object.name).collect()
    };
    let shards = SaveOptions::new().max_shard_bytes(8);
    // A single object would be opened instead.
    tensorfile::save(url, &maps[0]).unwrap();
    let error = shards.clone().no_replace(true).save(url, &maps[0]).unwrap_err();
    assert_eq!(error.to_string(), format!("{url}: the object exists"));
    for (map, set) in maps.iter().zip(["", "-2", ""]) {
        let plan = shards.plan(url, map).unwrap();
        assert_eq!(plan.files(), 2);
        plan.save(map).unwrap();
        let of = |number: u8| format!("model-0000{number}-of-00002{set}.ten");
        assert_eq!(names(), [of(1), of(2), "model.ten.index.json".to_owned()]);
        // By the path that was saved to, by the index, and for a single tensor.
        for url in [url, &format!("{url}.index.json")] {
            let file = File::open(url).unwrap();
            assert_eq!((file.load::<TensorMap>().unwrap(), file.shards().len()), (map.clone(), 2));
            assert_eq!(tensorfile::file::load_tensor(url, "c").unwrap(), map["c"]);
        }
    }
    let error = shards.clone().no_replace(true).save(url, &maps[0]).unwrap_err();
    assert_eq!(error.to_string(), format!("{url}: the object exists"));
    // A save that is stopped leaves the old set, and none of its own.
    let before = names();
    let stopped = shards.clone().progress(|_| std::ops::ControlFlow::Break(()));
    stopped.save(url, &maps[0]).unwrap_err();
    assert_eq!(names(), before);
    assert_eq!(tensorfile::load::<TensorMap>(url).unwrap(), maps[2]);
}

#[test]
fn stores_work_in_a_runtime_and_with_a_profile() {
    let Some(store) = Store::s3() else { return };
    run(&mut store.command("interop::cloud::within_a_runtime"));

    let folder = tempfile::tempdir().unwrap();
    let (credentials, config) = (folder.path().join("credentials"), folder.path().join("config"));
    fs::write(&credentials, "[work]\naws_access_key_id = key\naws_secret_access_key = secret\n").unwrap();
    fs::write(&config, format!("[profile work]\nregion = us-east-1\nendpoint_url = {}\n", store.endpoint)).unwrap();
    let mut with_profile = store.command("interop::cloud::within_a_runtime");
    for variable in ["AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"] {
        with_profile.env_remove(variable);
    }
    with_profile.env("AWS_SHARED_CREDENTIALS_FILE", credentials).env("AWS_CONFIG_FILE", config);
    run(with_profile.env("AWS_PROFILE", "work"));
}

/// Calls work inside of the caller's runtime, and block one of its threads.
#[test]
#[ignore = "run by `stores_work_in_a_runtime_and_with_a_profile`, with the address of a store"]
fn within_a_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let map = TensorMap::from_iter([("a", ndarray::array![1_i32, 2, 3])]);
        tensorfile::save("s3://bucket/runtime.ten", &map).unwrap();
        assert_eq!(tensorfile::load::<TensorMap>("s3://bucket/runtime.ten").unwrap(), map);
    });
}

/// A command with the credentials of a store of Google that this server is.
fn google(server: &Server, test: &str) -> Command {
    let account = format!(
        r#"{{"gcs_base_url": "{}", "disable_oauth": true, "client_email": "", "private_key": "", "private_key_id": ""}}"#,
        server.url("")
    );
    let mut command = command(test, &[]);
    command.env("GOOGLE_SERVICE_ACCOUNT_KEY", account).env("GOOGLE_ALLOW_HTTP", "true").env("STORE", "gs://bucket");
    command
}

#[test]
fn files_are_saved_to_and_loaded_from_google() {
    let server = Server::new();
    run(&mut google(&server, "interop::cloud::saves_and_loads"));
    let (stored, unfinished) = server.stored();
    assert!(stored.iter().any(|path| path == "/bucket/models%2Flarge%2Esafetensors"), "{stored:?}");
    assert!(!stored.iter().any(|path| path.ends_with("%2Etmp")), "temporary objects are deleted: {stored:?}");
    assert_eq!(unfinished, 0, "failed uploads are aborted");
}

#[cfg(target_os = "linux")]
#[test]
fn forked_processes_read_stores() {
    let server = Server::new();
    let map: TensorMap =
        (0..9_u8).map(|i| (format!("t{i}"), Tensor::from_slice(&[i; 70_000], [70_000]).unwrap())).collect();
    let headers = vec![("Last-Modified".to_owned(), "Thu, 26 Nov 2026 10:00:00 GMT".to_owned())];
    let (bytes, etag) = (Arc::new(ten::to_vec(&map).unwrap()), Some("\"v1\"".to_owned()));
    server.put_object("/bucket/m%2Eten", Object { bytes, etag, headers, ..Object::default() });
    run(google(&server, "fork::forks_with_open_connections").env("TENSORFILE_TEST_URL", "gs://bucket/m.ten"));
}

#[test]
fn objects_of_google_are_read() {
    let server = Server::new();
    let map = TensorMap::from_iter([("a", Array1::from_shape_fn(100_000, |i| i as f32))]);
    let headers = vec![("Last-Modified".to_owned(), "Thu, 26 Nov 2026 10:00:00 GMT".to_owned())];
    let bytes = Arc::new(ten::to_vec(&map).unwrap());
    let object = Object { bytes, etag: Some("\"v1\"".to_owned()), headers, ..Object::default() };
    server.put_object("/bucket/folder%2Fa%2Eten", object);
    run(&mut google(&server, "interop::cloud::reads_from_google"));
    let seen = server.take_seen();
    let ranges: Vec<_> = seen.iter().filter(|seen| seen.target.ends_with("a%2Eten")).map(|seen| seen.range).collect();
    assert_eq!(ranges, [Some((0, 65_535)), Some((65_536, 400_095))], "one request to open, and one for the rest");
}

#[test]
#[ignore = "run by `objects_of_google_are_read`, with the address of a server"]
fn reads_from_google() {
    let map: TensorMap = tensorfile::load("gs://bucket/folder/a.ten").unwrap();
    assert_eq!(map["a"].array::<f32>().unwrap()[99_999], 99_999.0);
    let error = File::open("gs://bucket/nothing.ten").unwrap_err();
    assert!(error.is_not_found(), "{error}");
}
