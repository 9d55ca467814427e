//! Files at URLs, on a server in this process.

#[path = "../../../tests/it/support/server.rs"]
#[allow(dead_code, reason = "the tests of the library need all of it")]
mod server;

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};
use tensorfile::{SaveOptions, TensorMap};
use tensorfile_datasets::{ShardWriter, Shards};

use super::{Session, plain, weights};
use server::{Fault, Object, Server};

/// A directory, a server with the files of the directory, and a hub on it.
struct Remote {
    session: Session,
    server: Server,
    variables: Vec<(&'static str, String)>,
}

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

impl Remote {
    fn new() -> Self {
        let (session, server) = (Session::new(), Server::new());
        let map: TensorMap = [("a.weight", weights(&[300, 100])), ("b.bias", weights(&[7]))].into_iter().collect();
        session.write("model.safetensors", &map);
        for name in ["model.ptd", "model.safetensors"] {
            server.put(&format!("/{name}"), fs::read(session.path(name)).unwrap());
        }
        let home = session.path("home").display().to_string();
        let variables =
            vec![("HF_ENDPOINT", server.url("")), ("HF_HOME", home), ("HOME", session.path("").display().to_string())];
        Self { session, server, variables }
    }

    /// Puts a large file into a repository: a redirect to a store, with a signature.
    fn put_hub(&self, repository: &str, path: &str, bytes: Vec<u8>, sha256: char) {
        let stored = format!("/store/{repository}/{path}");
        self.server.put(&stored, bytes);
        self.server.change(&stored, |object| object.signature = Some("signature=secret".into()));
        let linked = format!("\"{}\"", sha256.to_string().repeat(64));
        let headers = [("X-Linked-ETag", &*linked), ("X-Repo-Commit", COMMIT)];
        let object = Object {
            headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            always: Some(Fault::Redirect(format!("{}?signature=secret", self.server.url(&stored)))),
            ..Object::default()
        };
        for revision in ["main", COMMIT] {
            self.server.put_object(&format!("/{repository}/resolve/{revision}/{path}"), object.clone());
        }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = self.session.command(arguments);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        plain(command.output().unwrap())
    }

    /// Runs command lines, in which `URL` is the server, and returns their output and exit codes.
    fn transcript(&self, lines: &[&str]) -> String {
        let mut transcript = String::new();
        for line in lines {
            let url = self.server.url("");
            let arguments: Vec<String> = line.split(' ').map(|argument| argument.replace("URL", &url)).collect();
            let output = self.run(&arguments.iter().map(|argument| &**argument).collect::<Vec<_>>());
            let text = [output.stdout, output.stderr].concat();
            let text = String::from_utf8(text).unwrap().replace(&url, "URL");
            let text = text.replace(&self.session.folder.path().display().to_string(), "FOLDER");
            assert!(!text.contains("secret"), "{text}");
            let code = output.status.code().unwrap();
            let code = if code == 0 { String::new() } else { format!("[exit code {code}]\n") };
            transcript += &format!("$ tensorfile {line}\n{text}{code}\n");
        }
        transcript
    }
}

#[test]
fn commands_read_urls() {
    let remote = Remote::new();
    insta::assert_snapshot!(remote.transcript(&[
        "ls URL/model.safetensors?signature=secret",
        "ls --json URL/model.safetensors?signature=secret",
        "show URL/model.safetensors?signature=secret b.bias",
        "info URL/model.safetensors?signature=secret URL/model.ptd?signature=secret",
        "stats URL/model.safetensors?signature=secret",
        "hash URL/model.safetensors?signature=secret",
        "hash --json URL/model.safetensors?signature=secret --from safetensors",
        "verify URL/model.safetensors?signature=secret",
        "diff URL/model.safetensors?signature=secret model.safetensors",
        "diff --json URL/model.safetensors?signature=secret model.ptd --no-values",
        "codegen URL/model.safetensors?signature=secret",
        "convert URL/model.safetensors?signature=secret copy.ptd",
        "diff copy.ptd model.safetensors",
        "merge URL/model.safetensors?signature=secret -o merged.ptd",
        "split URL/model.safetensors?signature=secret --out m.safetensors --max-shard-size 100000",
        "report URL/model.safetensors?signature=secret -o report.html",
    ]));
    assert!(!fs::read_to_string(remote.session.path("report.html")).unwrap().contains("secret"));
}

#[test]
fn failures_have_no_secrets() {
    let remote = Remote::new();
    remote.server.put("/forbidden.npy", Vec::new());
    remote.server.change("/forbidden.npy", |object| object.always = Some(Fault::Status(403, None)));
    remote.server.put("/page.npy", "<!DOCTYPE html><html></html>");
    insta::assert_snapshot!(remote.transcript(&[
        "ls URL/none.npy?signature=secret",
        "ls --json URL/none.npy?signature=secret",
        "stats URL/forbidden.npy?signature=secret",
        "diff URL/page.npy?signature=secret model.ptd",
        "diff --json URL/page.npy?signature=secret model.ptd",
        "show URL/model.safetensors?signature=secret none",
        "convert URL/model.safetensors?signature=secret a.npy",
        "report URL/forbidden.npy?signature=secret -o report.html",
        "verify URL/forbidden.npy?signature=secret",
        "hash URL/forbidden.npy?signature=secret",
        "ls ftp://host/a.npy",
        "ls https://",
    ]));
}

#[test]
fn urls_are_not_written() {
    let remote = Remote::new();
    insta::assert_snapshot!(remote.transcript(&[
        "convert model.ptd URL/new.ptd?signature=secret",
        "merge model.ptd -o URL/new.ptd?signature=secret",
        "merge model.ptd URL/model.ptd?signature=secret",
        "split model.ptd --out URL/new.ptd?signature=secret --max-shard-size 1000",
        "split URL/model.ptd?signature=secret --max-shard-size 1000",
        "stats model.ptd --plot URL/chart?signature=secret",
        "report model.ptd -o URL/new.html?signature=secret",
        "edit URL/model.ptd?signature=secret --set a=b",
        "edit hf://o/n/model.ptd --set a=b",
        "append URL/model.ptd?signature=secret model.safetensors",
        "append --dry-run URL/model.ptd?signature=secret model.safetensors",
    ]));
    assert_eq!(remote.server.requests(), 2, "`split` and `append --dry-run` read the index");
}

#[test]
fn requests_are_counted() {
    let remote = Remote::new();
    insta::assert_snapshot!(remote.transcript(&[
        "--verbose ls URL/model.safetensors",
        "show --verbose URL/model.safetensors b.bias",
        "ls -v model.ptd",
    ]));
    assert_eq!(remote.server.requests(), 3);
}

#[test]
fn files_of_one_digest_are_equal_without_a_look() {
    let remote = Remote::new();
    let bytes = fs::read(remote.session.path("model.safetensors")).unwrap();
    for (repository, digest) in [("o/one", 'a'), ("o/two", 'a'), ("o/three", 'b')] {
        remote.put_hub(repository, "model.safetensors", bytes.clone(), digest);
    }
    insta::assert_snapshot!(remote.transcript(&[
        "diff --verbose hf://o/one hf://o/two",
        "diff --verbose hf://o/one hf://o/three",
        "diff --verbose URL/model.safetensors?signature=secret URL/model.safetensors?signature=secret",
        "diff --verbose URL/model.safetensors hf://o/one",
        "diff --no-values hf://o/one hf://o/two",
        "diff --json hf://o/one hf://o/two",
        "diff hf://o/one hf://o/two --rename a.weight=a",
        "diff hf://o/one hf://o/two --filter none",
    ]));
}

#[test]
fn a_repository_is_opened_by_its_name() {
    let remote = Remote::new();
    let bytes = fs::read(remote.session.path("model.safetensors")).unwrap();
    remote.put_hub("o/n", "model.safetensors", bytes.clone(), 'a');
    remote.put_hub("datasets/o/n", "data/model.ptd", fs::read(remote.session.path("model.ptd")).unwrap(), 'b');
    remote.put_hub("o/one", "weights.safetensors", bytes.clone(), 'a');
    let tree = |names: &[&str]| -> Vec<u8> {
        let files: Vec<Value> = names.iter().map(|name| json!({"type": "file", "path": name, "size": 1})).collect();
        serde_json::to_vec(&files).unwrap()
    };
    remote.server.put("/api/models/o/one/tree/main", tree(&["README.md", "weights.safetensors", "training_args.bin"]));
    let many: Vec<String> = (0..12).map(|i| format!("m{i:02}.gguf")).collect();
    let many: Vec<&str> = many.iter().map(|name| &**name).collect();
    remote.server.put("/api/models/o/many/tree/main", tree(&many));
    remote.server.put("/api/models/o/empty/tree/main", tree(&["README.md"]));
    remote.server.put("/api/models/o/odd/tree/main", "{}");
    insta::assert_snapshot!(remote.transcript(&[
        "--verbose ls hf://o/n",
        "ls hf://o/n@main/model.safetensors",
        "info hf://datasets/o/n/data/model.ptd",
        "--verbose ls hf://o/one",
        "ls hf://o/many",
        "ls hf://o/empty",
        "ls hf://o/odd",
        "ls hf://o/none",
        "ls hf://o/n/none.safetensors",
        "ls hf://o",
    ]));
}

#[test]
fn shards_of_a_repository_are_of_one_commit() {
    let remote = Remote::new();
    let map: TensorMap = (0..6).map(|i| (format!("layer{i}"), weights(&[40, 50]))).collect();
    let folder = remote.session.path("shards");
    fs::create_dir(&folder).unwrap();
    SaveOptions::new().max_shard_bytes(16_000).save(folder.join("model.safetensors"), &map).unwrap();
    for entry in fs::read_dir(&folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        remote.put_hub("o/n", &format!("sub/{name}"), fs::read(entry.path()).unwrap(), 'a');
        remote.put_hub("o/n", &name, fs::read(entry.path()).unwrap(), 'a');
    }
    remote.server.take_seen();
    insta::assert_snapshot!(remote.transcript(&["--verbose ls hf://o/n"]));
    let seen = remote.server.take_seen();
    assert_eq!(seen.len(), 3 + 2 * 3, "a file that is not there, the index, and the shards");
    let shards = seen.iter().filter(|seen| seen.target.contains("-of-") && seen.target.contains("/resolve/"));
    assert!(shards.clone().count() == 3 && shards.clone().all(|seen| seen.target.contains(COMMIT)), "{seen:#?}");

    let output = remote.run(&["hash", "hf://o/n/sub/model.safetensors.index.json"]);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn folders_of_a_repository_are_listed() {
    let remote = Remote::new();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/dcp");
    let mut pages: Vec<Value> = Vec::new();
    for name in ["hugging_face_4", "sharded_4"] {
        let mut tree = Vec::new();
        fs::create_dir(remote.session.path(name)).unwrap();
        for entry in fs::read_dir(fixtures.join(name)).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{name}/{}", entry.file_name().into_string().unwrap());
            fs::copy(entry.path(), remote.session.path(&path)).unwrap();
            remote.put_hub("o/n", &path, fs::read(entry.path()).unwrap(), 'a');
            tree.push(json!({"type": "file", "path": path, "size": 1}));
        }
        pages.push(tree.into());
    }
    let tree = |folder: &str| format!("/api/models/o/n/tree/{COMMIT}/{folder}");
    remote.server.put("/api/models/o/n/revision/main", format!(r#"{{"sha": "{COMMIT}"}}"#));
    remote.server.put(&tree("sharded_4"), pages[1].to_string());
    // A list of two pages.
    let [first, rest @ ..] = &pages[0].as_array().unwrap()[..] else { panic!() };
    let next = format!("<{}>; rel=\"next\"", remote.server.put(&tree("more"), json!(rest).to_string()));
    let headers = vec![("Link".to_owned(), next)];
    let bytes = json!([first]).to_string().into_bytes().into();
    remote.server.put_object(&tree("hugging_face_4"), Object { bytes, headers, ..Object::default() });
    remote.server.put(
        &tree("text"),
        json!([{"type": "file", "path": "text/a.npz"}, {"type": "file", "path": "text/b"}]).to_string(),
    );
    insta::assert_snapshot!(remote.transcript(&[
        "ls hf://o/n/hugging_face_4/",
        "diff hf://o/n/hugging_face_4/ hugging_face_4",
        "verify hf://o/n/hugging_face_4/",
        "diff hf://o/n/sharded_4/ sharded_4",
        "show hf://o/n/sharded_4/ columns --slice 0:2,:",
        "ls hf://o/n/text/",
        "ls hf://o/n/none/",
    ]));
    let seen = remote.server.take_seen();
    assert!(seen.iter().all(|seen| !seen.target.contains("/resolve/main/")), "all files are of one commit: {seen:#?}");
}

#[test]
fn a_token_is_sent_to_the_hub_only() {
    let mut remote = Remote::new();
    let bytes = fs::read(remote.session.path("model.safetensors")).unwrap();
    remote.put_hub("o/n", "model.safetensors", bytes, 'a');
    remote.server.change("/o/n/resolve/main/model.safetensors", |object| {
        object.authorization = Some("Bearer hf_secret".into());
    });
    // The store is another server.
    let store = Server::new();
    store.put("/signed", fs::read(remote.session.path("model.safetensors")).unwrap());
    store.change("/signed", |object| object.authorization = Some(String::new()));
    remote.server.change("/o/n/resolve/main/model.safetensors", |object| {
        object.always = Some(Fault::Redirect(store.url("/signed")));
    });

    let mut text = remote.transcript(&["ls hf://o/n"]);
    remote.variables.push(("HF_TOKEN", "hf_other_secret".to_owned()));
    text += &remote.transcript(&["ls hf://o/n"]);
    remote.variables.pop();
    insta::assert_snapshot!(text);

    let home = remote.session.path("home");
    fs::create_dir(&home).unwrap();
    fs::write(home.join("token"), "hf_secret\n").unwrap();
    assert!(remote.run(&["ls", "hf://o/n"]).status.success(), "the token of HF_HOME");
    fs::write(home.join("token"), "none").unwrap();
    fs::write(remote.session.path("token"), "hf_secret").unwrap();
    remote.variables.push(("HF_TOKEN_PATH", remote.session.path("token").display().to_string()));
    assert!(remote.run(&["ls", "hf://o/n"]).status.success(), "the token of HF_TOKEN_PATH");
    remote.variables.push(("HF_TOKEN", "hf_secret".to_owned()));
    fs::write(remote.session.path("token"), "none").unwrap();
    assert!(remote.run(&["ls", "hf://o/n"]).status.success(), "the token of HF_TOKEN");
    assert!(store.requests() >= 3);

    // A file that is not of the hub gets none.
    remote.server.take_seen();
    remote.run(&["ls", &remote.server.url("/model.ptd")]);
    assert!(!remote.server.take_seen()[0].headers.contains_key("authorization"));
}

#[test]
fn the_cache_is_read_without_a_request() {
    let mut remote = Remote::new();
    let folder = remote.session.path("home/hub/models--o--n");
    let snapshot = folder.join("snapshots").join(COMMIT);
    fs::create_dir_all(&snapshot).unwrap();
    fs::create_dir_all(folder.join("refs/refs/pr")).unwrap();
    fs::write(folder.join("refs/main"), COMMIT).unwrap();
    fs::write(folder.join("refs/refs/pr/1"), COMMIT).unwrap();
    fs::copy(remote.session.path("model.safetensors"), snapshot.join("model.safetensors")).unwrap();
    let commit = format!("ls hf://o/n@{COMMIT}/model.safetensors");
    let mut text = remote.transcript(&[
        "ls hf://o/n",
        "ls hf://o/n/model.safetensors",
        "ls hf://o/n@refs/pr/1",
        &commit,
        "edit hf://o/n/model.safetensors --set a=b",
    ]);
    assert_eq!(remote.server.requests(), 0);

    // An index without its shards is no checkpoint.
    fs::remove_file(snapshot.join("model.safetensors")).unwrap();
    let index = r#"{"weight_map": {"a": "model-00001-of-00001.safetensors"}}"#;
    fs::write(snapshot.join("model.safetensors.index.json"), index).unwrap();
    remote.variables.push(("HF_HUB_OFFLINE", "1".to_owned()));
    text += &remote.transcript(&["ls hf://o/n", "ls hf://o/n/other.safetensors", "ls hf://o/other"]);
    assert_eq!(remote.server.requests(), 0);
    remote.variables.pop();
    assert!(!remote.run(&["ls", "hf://o/n"]).status.success());
    assert!(remote.server.requests() > 0);
    insta::assert_snapshot!(text);
}

#[test]
fn a_public_server_cannot_lead_to_a_private_one() {
    let mut remote = Remote::new();
    // The proxy answers for all hosts.
    remote.variables.push(("HTTP_PROXY", remote.server.url("")));
    remote.server.put("/redirect", Vec::new());
    let mut text = String::new();
    for target in ["http://127.0.0.1:1/", "http://169.254.169.254/latest", "http://[::1]:1/", "http://10.0.0.1/"] {
        remote.server.change("/redirect", |object| object.always = Some(Fault::Redirect(target.to_owned())));
        text += &remote.transcript(&["ls http://8.8.8.8/redirect"]);
    }
    text += &remote.transcript(&["ls http://8.8.8.8/model.safetensors"]);
    insta::assert_snapshot!(text);
}

#[test]
fn a_proxy_is_used_unless_it_is_not_for_the_host() {
    let mut remote = Remote::new();
    let other = Server::new();
    let url = other.put("/other.safetensors", fs::read(remote.session.path("model.safetensors")).unwrap());
    let proxy = remote.server.url("").replace("http://", "http://user:pass@");
    for (variable, is_used) in [
        ("HTTP_PROXY", true),
        ("http_proxy", true),
        ("ALL_PROXY", true),
        ("all_proxy", true),
        ("HTTPS_PROXY", false),
        ("https_proxy", false),
    ] {
        remote.variables.push((variable, proxy.clone()));
        // The proxy does not have the file.
        assert_eq!(remote.run(&["ls", &url]).status.success(), !is_used, "{variable}");
        let seen = remote.server.take_seen();
        assert_eq!((seen.len(), other.requests()), if is_used { (1, 0) } else { (0, 1) }, "{variable}");
        if let [seen] = &seen[..] {
            let header = |name: &str| seen.headers.get(name).map(String::as_str);
            assert_eq!(header("via-proxy"), Some(&*url), "the whole URL is asked for");
            assert_eq!(header("proxy-authorization"), Some("Basic dXNlcjpwYXNz"));
            assert_eq!(header("host"), url.split('/').nth(2));
        }
        remote.variables.push(("NO_PROXY", "host, 127.0.0.1".to_owned()));
        assert!(remote.run(&["ls", &url]).status.success(), "{variable}");
        assert_eq!((remote.server.requests(), other.requests()), (0, 1), "{variable}");
        remote.variables.truncate(remote.variables.len() - 2);
    }
    // A tunnel is for https.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://user:pass@{}", listener.local_addr().unwrap());
    let asked = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut request, mut piece) = (Vec::new(), [0; 1024]);
        while !request.ends_with(b"\r\n\r\n") {
            let read = stream.read(&mut piece).unwrap();
            request.extend_from_slice(&piece[..read]);
        }
        stream.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n").unwrap();
        String::from_utf8(request).unwrap()
    });
    remote.variables.push(("https_proxy", address.clone()));
    let error = String::from_utf8(remote.run(&["ls", "https://host.example/a.npy?secret"]).stderr).unwrap();
    let shown = format!("{}/", address.replace("user:pass@", ""));
    let expected = format!("the proxy refuses the connection: it answers 403; the proxy is {shown}, of https_proxy");
    assert_eq!(error.trim_end(), format!("tensorfile: https://host.example/a.npy: {expected}"));
    let asked = asked.join().unwrap();
    assert!(
        asked.starts_with("CONNECT host.example:443 HTTP/1.1\r\n") && asked.contains("Basic dXNlcjpwYXNz"),
        "{asked}"
    );
    remote.variables.pop();
    // What cannot be used is not left out.
    for (variable, scheme) in [("ALL_PROXY", "socks5"), ("http_proxy", "socks4"), ("HTTP_PROXY", "nonsense")] {
        remote.variables.push((variable, proxy.replace("http://", &format!("{scheme}://"))));
        let output = remote.run(&["ls", &url]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{error}");
        assert!(
            error.contains(&format!("the proxy of {variable} begins with `{scheme}://`, which is not supported")),
            "{error}"
        );
        assert!(!error.contains("pass"), "{error}");
        #[cfg(feature = "cloud")]
        {
            let variables = [("AWS_ENDPOINT_URL", other.url("")), ("AWS_ALLOW_HTTP", "true".to_owned())];
            let keys = [("AWS_ACCESS_KEY_ID", "a".to_owned()), ("AWS_SECRET_ACCESS_KEY", "b".to_owned())];
            remote.variables.extend(variables.into_iter().chain(keys));
            let error = String::from_utf8(remote.run(&["ls", "s3://other/a.npy"]).stderr).unwrap();
            assert!(error.contains(&format!("the proxy of {variable} begins with `{scheme}://`")), "{error}");
            remote.variables.truncate(remote.variables.len() - 4);
        }
        assert_eq!((remote.server.requests(), other.requests()), (0, 0), "{variable}");
        remote.variables.pop();
    }
}

#[test]
fn a_server_without_ranges_is_read_as_a_stream() {
    let remote = Remote::new();
    remote.server.change("/model.safetensors", |object| object.always = Some(Fault::Chunked));
    insta::assert_snapshot!(remote.transcript(&[
        "ls URL/model.safetensors?signature=secret",
        "hash URL/model.safetensors model.safetensors",
        "ls --max-memory 100000 URL/model.safetensors",
    ]));
}

#[test]
fn the_hub_says_why_it_refuses() {
    let mut remote = Remote::new();
    let page = "<html>a page of the hub</html>";
    for (repository, status, header, value) in [
        ("gated", 403, "X-Error-Code", "GatedRepo"),
        ("datasets/o/gated", 401, "X-Error-Code", "GatedRepo"),
        ("private", 401, "X-Error-Code", "RepoNotFound"),
        ("disabled", 403, "X-Error-Message", "Access to this resource is disabled."),
        ("token", 401, "X-Error-Message", "Invalid credentials in Authorization header"),
        ("revision", 404, "X-Error-Code", "RevisionNotFound"),
        ("file", 404, "X-Error-Code", "EntryNotFound"),
        ("other", 403, "X-Error-Code", page),
    ] {
        let repository = if repository.contains('/') { repository.to_owned() } else { format!("o/{repository}") };
        let object = Object {
            headers: vec![(header.to_owned(), value.to_owned())],
            always: Some(Fault::Status(status, None)),
            ..Object::default()
        };
        for file in ["model.safetensors", "model.safetensors.index.json"] {
            remote.server.put_object(&format!("/{repository}/resolve/main/{file}"), object.clone());
        }
        remote.server.put_object(&format!("/api/models/{repository}/tree/main"), object);
    }
    let lines = [
        "ls hf://o/gated/model.safetensors",
        "ls hf://o/gated",
        "ls hf://datasets/o/gated",
        "ls hf://o/private",
        "ls hf://o/disabled",
        "ls hf://o/token",
        "ls hf://o/revision",
        "ls hf://o/file/model.safetensors",
        "ls hf://o/file",
        "ls hf://o/other",
    ];
    let mut text = remote.transcript(&lines);
    remote.variables.push(("HF_TOKEN", "hf_secret".to_owned()));
    text += &remote.transcript(&lines[..4]);
    assert!(!text.contains("page of"), "{text}");
    remote.server.take_seen();
    remote.transcript(&["ls hf://o/revision"]);
    assert_eq!(remote.server.requests(), 1, "no other file is looked for");
    insta::assert_snapshot!(text);
}

#[cfg(unix)]
#[test]
fn paths_and_links_of_a_repository_show_nothing_else() {
    let remote = Remote::new();
    let text = "something that only the user knows";
    fs::write(remote.session.path("private.txt"), text).unwrap();
    let cache = remote.session.path("home/hub/models--o--n");
    let snapshot = cache.join("snapshots").join(COMMIT);
    fs::create_dir_all(&snapshot).unwrap();
    fs::create_dir_all(cache.join("refs")).unwrap();
    fs::write(cache.join("refs/main"), COMMIT).unwrap();
    std::os::unix::fs::symlink(remote.session.path("private.txt"), snapshot.join("link.npy")).unwrap();
    let transcript = remote.transcript(&[
        "ls hf://o/n/link.npy",
        "show hf://o/n/link.npy a",
        "convert hf://o/n/link.npy a.ptd",
        "ls hf://o/n//etc/passwd",
        "ls hf://o/n@main//etc/passwd",
        "ls hf://o/n/a/../../b.npy",
    ]);
    assert!(!transcript.contains("something"), "{transcript}");
    insta::assert_snapshot!(transcript);
    assert_eq!(remote.server.requests(), 0);
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_waiting_at_once() {
    use std::time::{Duration, Instant};

    use rustix::process::{Pid, Signal, kill_process};

    let remote = Remote::new();
    remote.server.change("/model.ptd", |object| object.latency = Duration::from_secs(60));
    let url = remote.server.url("/model.ptd");
    let mut child = remote.session.command(&["ls", &url]).spawn().unwrap();
    while remote.server.requests() == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let start = Instant::now();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(start.elapsed() < Duration::from_secs(10));
}

/// Puts shards of one file for each sample on the server.
fn put_shard(remote: &Remote, name: &str, samples: u16, bytes: usize) {
    let mut writer = ShardWriter::new(remote.session.path("shard-{0..}.tar")).unwrap();
    for i in 0..samples {
        writer.write_files(&format!("{i:04}"), [("bin", vec![i.to_le_bytes()[0]; bytes])]).unwrap();
    }
    writer.finish().unwrap();
    remote.server.put(&format!("/{name}.tar"), fs::read(remote.session.path("shard-0.tar")).unwrap());
}

#[test]
fn shards_at_urls_are_divided_by_their_headers() {
    let remote = Remote::new();
    put_shard(&remote, "long", 12, 3 << 20);
    put_shard(&remote, "small", 4000, 3000);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&fs::read(remote.session.path("shard-0.tar")).unwrap()).unwrap();
    remote.server.put("/small.tar.gz", gzip.finish().unwrap());
    insta::assert_snapshot!(remote.transcript(&[
        "splits URL/long.tar?signature=secret --count 3 -v",
        "splits URL/small.tar?signature=secret --count 3 -v",
        "splits URL/small.tar.gz?signature=secret --count 3 -v",
        "convert URL/small.tar.gz?signature=secret out --split 2/3",
    ]));
    let list = |url: String| remote.run(&["ls", &url]).stdout;
    let long = remote.server.url("/long.tar");
    assert_eq!(list(format!("{long}?X-Amz-Signature=secret&x=y.z")), list(long));
    // The plan in its line has the address of the server.
    let convert = |name: &str, split: &str| -> Value {
        let output = remote.run(&["convert", &remote.server.url(name), "out", "--split", split]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    for name in ["/small.tar", "/small.tar.gz"] {
        let part = convert(name, "1/3");
        assert_eq!((&part["rows"], &part["of"]), (&json!(4000), &json!(1)), "{name}");
    }
    remote.server.take_seen();
    assert_eq!(convert("/long.tar", "2/3")["rows"], 4);
    let seen = remote.server.take_seen();
    let long: Vec<_> = seen.iter().filter(|seen| seen.len() > 100_000).filter_map(|seen| seen.range).collect();
    assert_eq!((long[0].0, long.last().unwrap().1), (12_584_960, 25_169_919), "only its range is read: {long:?}");
    assert_eq!(long.iter().map(|(first, last)| last + 1 - first).sum::<usize>(), 12_584_960, "once");
    let part = Shards::new(remote.session.path("out/part-00002-of-00003.tar").to_str().unwrap()).unwrap();
    for (sample, i) in part.zip(4..) {
        assert!(sample.unwrap().bytes("bin").unwrap() == vec![i; 3 << 20]);
    }
}

#[test]
fn a_shard_may_have_a_signature_after_its_name() {
    let remote = Remote::new();
    let mut writer = ShardWriter::new(remote.session.path("a-{0..}.tar")).unwrap();
    writer.write_files("0001", [("txt", "one"), ("cls", "7")]).unwrap();
    let path = writer.finish().unwrap().pop().unwrap().path;
    for (name, bytes) in [("a.tar", fs::read(&path).unwrap()), ("a.tar.gz", gzip(&fs::read(&path).unwrap()))] {
        remote.server.put(&format!("/{name}"), bytes);
        remote.server.change(&format!("/{name}"), |object| object.signature = Some("signature=secret".into()));
        let url = format!("{}?signature=secret", remote.server.url(&format!("/{name}")));
        let output = remote.run(&["show", &url, "0001.cls"]);
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_eq!((text.lines().last(), output.status.code()), (Some("7"), Some(0)), "{text}");
        let output = remote.run(&["convert", &url, "unpacked"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(fs::read_to_string(remote.session.path("unpacked/0001.txt")).unwrap(), "one");
        fs::remove_dir_all(remote.session.path("unpacked")).unwrap();
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}
