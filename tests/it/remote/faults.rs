//! Servers that misbehave.

use std::time::{Duration, Instant};

use tensorfile::{Category, ErrorKind, File, Limits, OpenOptions, TensorMap, load, save};

use super::vectors;
use crate::support::Messages;
use crate::support::server::{Fault, Object, Server};

/// A file longer than the first request.
fn long_file() -> (TensorMap, Vec<u8>) {
    let map = vectors(3, 100_000);
    let bytes = tensorfile::safetensors::to_vec(&map).unwrap();
    (map, bytes)
}

#[test]
fn passing_faults_are_repeated() {
    let (map, bytes) = long_file();
    for (fault, requests) in [
        (Fault::Cut(0), 2),
        (Fault::Cut(30_000), 2),
        (Fault::Hang, 2),
        (Fault::Status(429, Some("0")), 2),
        (Fault::Status(429, None), 2),
        (Fault::Status(503, Some("Fri, 31 Dec 1999 23:59:59 GMT")), 2),
        (Fault::Status(500, None), 2),
        (Fault::Raw(b"HTTP/1.1 "), 2),
    ] {
        let server = Server::new();
        let url = server.put("/m.safetensors", bytes.clone());
        server.change("/m.safetensors", |object| object.once = [fault.clone()].into());
        let file = File::open(&url).unwrap_or_else(|error| panic!("{fault:?}: {error}"));
        assert_eq!(server.requests(), requests, "{fault:?}, on opening");
        server.change("/m.safetensors", |object| object.once = [fault.clone(), fault.clone()].into());
        assert!(file.tensor("t2").unwrap() == map["t2"], "{fault:?}");
        assert_eq!(server.requests(), 3, "{fault:?}, in a tensor");
    }
}

#[test]
fn a_cut_body_goes_on_where_it_stopped() {
    let (map, bytes) = long_file();
    let server = Server::new();
    let file = File::open(server.put("/m.safetensors", bytes)).unwrap();
    let range = file.get("t2").unwrap().range();
    let (first, last) = (usize::try_from(range.start).unwrap(), usize::try_from(range.end).unwrap() - 1);
    server.take_seen();
    server.change("/m.safetensors", |object| object.once = [Fault::Cut(40_000), Fault::Cut(10_000)].into());
    assert!(file.tensor("t2").unwrap() == map["t2"]);
    let seen: Vec<_> =
        server.take_seen().into_iter().map(|seen| (seen.range.unwrap(), seen.headers["if-match"].clone())).collect();
    let tag = || "\"v1\"".to_owned();
    assert_eq!(seen, [((first, last), tag()), ((first + 40_000, last), tag()), ((first + 50_000, last), tag())]);
}

#[test]
fn five_attempts_are_made() {
    let (_, bytes) = long_file();
    let server = Server::new();
    let url = server.put("/m.safetensors", bytes);
    server.change("/m.safetensors", |object| object.always = Some(Fault::Status(503, Some("0"))));
    let error = File::open(&url).unwrap_err();
    assert_eq!(error.to_string(), format!("{url}: the server answers 503 Service Unavailable"));
    assert_eq!((server.requests(), error.category()), (5, Category::Io));

    // A server that wants to be left alone for longer is.
    server.change("/m.safetensors", |object| object.always = Some(Fault::Status(429, Some("3600"))));
    let error = File::open(&url).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("{url}: the server answers 429 Too Many Requests; it may be asked again in 3600 s")
    );
    assert_eq!(server.requests(), 1);

    server.change("/m.safetensors", |object| object.always = Some(Fault::Status(429, Some("1"))));
    server.change("/m.safetensors", |object| {
        object.once = [Fault::Status(429, Some("1")), Fault::Header("X-A", "b")].into()
    });
    let start = Instant::now();
    File::open(&url).unwrap();
    assert!(start.elapsed() >= Duration::from_secs(1), "it waits as it is asked to");
}

#[test]
fn nobody_is_not_waited_for() {
    // A port that was just free.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let start = Instant::now();
    let error = File::open(format!("http://127.0.0.1:{port}/m.npy")).unwrap_err();
    assert!(error.to_string().contains("refused"), "{error}");
    // The retries take longer.
    assert!(cfg!(windows) || start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
}

#[test]
fn messages_have_the_status_but_no_secrets_and_no_page() {
    let (_, bytes) = long_file();
    let mut messages = Messages::default();
    let server = Server::new();
    let shown = server.put("/m.safetensors", bytes);
    let secret = shown.replace("http://", "http://user:password@") + "?signature=secret#secret";
    let port = server.port();
    for (fault, message) in [
        (Fault::Status(403, None), "the server answers 403 Forbidden"),
        (Fault::Status(404, None), "the server answers 404 Not Found"),
        (Fault::Status(451, None), "the server answers 451 Unavailable For Legal Reasons"),
        (Fault::Status(299, None), "the server answers 299"),
        (Fault::ContentRange(None), "the server sends a part of the file, but does not say which: ``"),
        (
            Fault::ContentRange(Some("bytes 0-65535/*")),
            "the server sends parts of the file, but does not say how long it is",
        ),
        (
            Fault::ContentRange(Some("bytes 1-65535/300000")),
            "the server sends bytes 1 to 65536 instead of bytes 0 to 65536",
        ),
        (Fault::ContentRange(Some("bytes 0-9/300000")), "the server sends bytes 0 to 10 instead of bytes 0 to 65536"),
        (
            Fault::Header("Content-Encoding", "gzip"),
            "the server sends the file compressed, as gzip, although asked not to",
        ),
        (Fault::Redirect("ftp://host/secret".into()), "it redirects to a bad URL: `ftp` is not `http` or `https`"),
        (Fault::Redirect(String::new()), "it redirects more than 10 times"),
    ] {
        server.change("/m.safetensors", |object| object.always = Some(fault.clone()));
        messages.compare(format_args!("{fault:?}"), File::open(&secret), &format!("{shown}: {message}"));
    }
    server.change("/m.safetensors", |object| object.always = None);
    let redirect = server.put("/r", Vec::new());
    server.change("/r", |object| {
        object.always = Some(Fault::Redirect(format!("http://u:secret@localhost:{port}/x?secret")))
    });
    messages.compare(
        "the target is missing",
        File::open(&redirect),
        &format!("{redirect}: the server answers 404 Not Found"),
    );
    messages.end();
    let missing = File::open(server.url("/none")).unwrap_err();
    assert!(missing.is_not_found(), "{missing:?}");

    let seen = server.take_seen();
    let authorization =
        |path: &str| seen.iter().rev().find(|seen| seen.target.starts_with(path)).unwrap().headers.get("authorization");
    assert_eq!(authorization("/m.safetensors").map(String::as_str), Some("Basic dXNlcjpwYXNzd29yZA=="));
    assert_eq!(authorization("/x"), None, "the user of a redirect to another origin is not sent");
}

#[test]
fn a_failure_later_names_the_tensor() {
    let (_, bytes) = long_file();
    let mut messages = Messages::default();
    let server = Server::new();
    let url = server.put("/m.safetensors", bytes.clone());
    let file = File::open(&url).unwrap();
    let start = file.get("t2").unwrap().range().start;
    let prefix = format!("{url}: safetensors: tensor `t2`: ");
    let changed =
        |what: &str| format!("{prefix}the file changed while it was read: {what}; open it again (at byte {start})");
    let range = file.get("t2").unwrap().range();
    let bytes_asked = format!("bytes {} to {}", range.start, range.end);
    for (fault, message) in [
        (Fault::Whole, format!("{prefix}the server sends the whole file instead of {bytes_asked} (at byte {start})")),
        (
            Fault::ContentRange(Some("bytes 0-99999/300280")),
            format!("{prefix}the server sends bytes 0 to 100000 instead of {bytes_asked} (at byte {start})"),
        ),
        (
            Fault::ContentRange(Some("bytes 0-99999/300281")),
            changed(&format!("its length was {} bytes, and is 300281", bytes.len())),
        ),
        (Fault::Status(412, None), changed("its entity tag is another one")),
    ] {
        let fault = match fault {
            Fault::ContentRange(Some("bytes 0-99999/300280")) => {
                Fault::ContentRange(Some(Box::leak(format!("bytes 0-99999/{}", bytes.len()).into_boxed_str())))
            }
            fault => fault,
        };
        server.change("/m.safetensors", |object| object.always = Some(fault.clone()));
        messages.compare(format_args!("{fault:?}"), file.tensor("t2"), &message);
    }
    messages.end();
}

#[test]
fn a_file_that_changes_is_an_error_of_its_own() {
    let (map, bytes) = long_file();
    for (old, new, what) in [
        (Some("\"v1\""), Some("\"v2\""), "its entity tag was `\"v1\"`, and is `\"v2\"`"),
        (Some("W/\"v1\""), Some("W/\"v2\""), "its entity tag was `W/\"v1\"`, and is `W/\"v2\"`"),
        (Some("W/\"v1\""), None, "its entity tag was `W/\"v1\"`, and an answer has none"),
    ] {
        let server = Server::new();
        let url = server.put("/m.safetensors", bytes.clone());
        server.change("/m.safetensors", |object| object.etag = old.map(str::to_owned));
        let file = File::open(&url).unwrap();
        assert!(file.tensor("t1").unwrap() == map["t1"]);
        server.change("/m.safetensors", |object| object.etag = new.map(str::to_owned));
        let error = file.tensor("t2").unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::SourceChanged { what: found } if found == what), "{error}");
        assert_eq!(error.category(), Category::Io);
    }

    // Without a tag, the time and the length are compared.
    let server = Server::new();
    let url = server.put_object("/m.safetensors", Object { bytes: bytes.clone().into(), ..Object::default() });
    let modified = |time: &str| vec![("Last-Modified".to_owned(), time.to_owned())];
    server.change("/m.safetensors", |object| object.headers = modified("yesterday"));
    let file = File::open(&url).unwrap();
    server.change("/m.safetensors", |object| object.headers = modified("today"));
    let error = file.tensor("t2").unwrap_err();
    assert!(error.to_string().contains("it was modified at `yesterday`, and then at `today`"), "{error}");
    server.change("/m.safetensors", |object| object.headers.clear());
    let error = file.tensor("t2").unwrap_err();
    assert!(error.to_string().contains("`yesterday`, and an answer does not say when"), "{error}");

    // Without both, only the length is.
    let file = File::open(&url).unwrap();
    assert!(file.tensor("t2").unwrap() == map["t2"]);
    server.change("/m.safetensors", |object| object.bytes = bytes[..200_000].to_vec().into());
    let error = file.tensor("t2").unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::SourceChanged { .. }), "{error}");
    assert!(error.to_string().contains("and is 200000"), "{error}");
    server.change("/m.safetensors", |object| object.bytes = Vec::new().into());
    let error = file.tensor("t2").unwrap_err();
    assert!(error.to_string().contains("and is 0"), "{error}");
}

#[test]
fn a_server_without_ranges_sends_everything() {
    let (map, bytes) = long_file();
    for fault in [Fault::Whole, Fault::Chunked] {
        let server = Server::new();
        let url = server.put("/m.safetensors", bytes.clone());
        server.change("/m.safetensors", |object| object.always = Some(fault.clone()));
        assert!(load::<TensorMap>(&url).unwrap() == map);
        assert_eq!(server.requests(), 1, "{fault:?}");
        let file = File::open(&url).unwrap();
        assert!(file.is_sequential() && file.tensor("t2").unwrap() == map["t2"]);
        assert!(file.tensor("t0").unwrap() == map["t0"]);
        assert_eq!(server.requests(), 1, "{fault:?}: the beginning is kept");
    }

    // No longer than asked for.
    let short = tensorfile::ten::to_vec(&vectors(1, 100)).unwrap();
    let server = Server::new();
    let url = server.put("/m.ten", short);
    server.change("/m.ten", |object| object.always = Some(Fault::Whole));
    assert_eq!(load::<TensorMap>(&url).unwrap().len(), 1);
    assert_eq!(server.requests(), 1);
}

#[test]
fn what_is_held_of_a_server_without_ranges_is_limited() {
    let (map, bytes) = long_file();
    let server = Server::new();
    let url = server.put("/m.safetensors", bytes.clone());
    let check = |error: tensorfile::Error| {
        let ErrorKind::Limit { what, limit, .. } = error.kind() else { panic!("{error}") };
        assert_eq!((*what, *limit), ("the length of a file from a server that has no ranges", 250_000));
        assert!(error.to_string().contains("; `Limits::held` raises it"), "{error}");
        assert_eq!(error.category(), Category::Limit);
    };
    let held = || OpenOptions::new().limits(Limits::new().held(250_000));
    server.change("/m.safetensors", |object| object.always = Some(Fault::Whole));
    // Forwards, nothing is held.
    assert!(held().open(&url).unwrap().load::<TensorMap>().unwrap() == map);
    server.requests();
    let memory = || OpenOptions::new().limits(Limits::new().memory(250_000));
    for options in [held(), memory()] {
        let file = options.open(&url).unwrap();
        assert!(file.tensor("t2").unwrap() == map["t2"]);
        assert!(file.tensor("t0").unwrap() == map["t0"] && file.tensor("t1").unwrap() == map["t1"]);
        assert_eq!(server.requests(), 1, "the beginning is kept");
        check(file.tensor("t2").unwrap_err());
        assert_eq!(server.requests(), 1, "it is asked for again, and held");
    }
    // The end is looked for.
    server.change("/m.safetensors", |object| object.always = Some(Fault::Chunked));
    check(held().open(&url).unwrap_err());
    // A length that is not true allocates nothing.
    server.change("/m.safetensors", |object| {
        object.always = Some(Fault::Answer(|_, _, bytes| {
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 9000000000000000000\r\nConnection: close\r\n\r\n";
            [head.as_bytes(), bytes].concat()
        }));
    });
    let error = File::open(&url).unwrap_err();
    assert!(error.to_string().contains("the file continues after the data of its last tensor"), "{error}");
}

#[test]
fn an_endless_answer_ends_soon() {
    let server = Server::new();
    for (name, begin) in [("page.npy", "<!DOCTYPE html><html>"), ("zeros.ten", ""), ("text", "no tensors are in here")]
    {
        let path = format!("/{name}");
        let url = server.put(&path, begin);
        server.change(&path, |object| object.always = Some(Fault::Endless));
        let before = server.sent();
        for opened in [
            File::open(&url).map(drop),
            load::<TensorMap>(&url).map(drop),
            tensorfile::file::load_tensor(&url, "a").map(drop),
        ] {
            let error = opened.unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::NotTensors { .. } | ErrorKind::UnknownFormat { .. }), "{error}");
        }
        // The bytes that the system took before the connection was closed.
        assert!(server.sent() - before < 64 << 20, "{name}: {} bytes", server.sent() - before);
    }
    // A file that begins as one of tensors is looked at up to a limit.
    let url = server.put("/m.ten", tensorfile::ten::to_vec(&vectors(1, 100_000)).unwrap());
    server.change("/m.ten", |object| object.always = Some(Fault::Endless));
    let error = OpenOptions::new().limits(Limits::new().held(10 << 20)).open(&url).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Limit { limit: 10_485_760, .. }), "{error}");
}

#[test]
fn a_cut_answer_says_how_far_it_came() {
    let (_, bytes) = long_file();
    let len = bytes.len();
    let server = Server::new();
    let url = server.put("/m.safetensors", bytes);
    let cut = Fault::Answer(|_, _, bytes| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", bytes.len());
        [head.as_bytes(), &bytes[..150_000]].concat()
    });
    server.change("/m.safetensors", |object| object.always = Some(cut));
    let file = File::open(&url).unwrap();
    let error = file.tensor("t2").unwrap_err();
    assert!(error.to_string().contains(&format!("the connection ended after 150000 of {len} bytes")), "{error}");
    assert_eq!(error.category(), Category::Io);
}

#[test]
fn an_empty_object_is_an_empty_file() {
    let server = Server::new();
    let url = server.put("/empty.ten", Vec::new());
    assert_eq!(File::open(&url).unwrap().len(), 0);
    let url = server.put("/empty.safetensors", Vec::new());
    assert_eq!(File::open(&url).unwrap_err().to_string(), format!("{url}: the file is empty (at byte 0)"));
    server.change("/empty.safetensors", |object| object.always = Some(Fault::Status(416, None)));
    let message = File::open(&url).unwrap_err().to_string();
    assert_eq!(message, format!("{url}: the server answers 416 Range Not Satisfiable"));
}

#[test]
fn redirects_are_followed_and_kept() {
    let (map, bytes) = long_file();
    let (server, store) = (Server::new(), Server::new());
    let url = server.put("/m.safetensors", Vec::new());
    let target = store.put("/signed", bytes);
    let sign = |signature: &str| {
        store.change("/signed", |object| object.signature = Some(signature.to_owned()));
        let target = Fault::Redirect(format!("{target}?{signature}"));
        server.change("/m.safetensors", |object| object.always = Some(target));
    };
    sign("one");
    store.change("/signed", |object| object.authorization = Some(String::new()));
    let secret = url.replace("http://", "http://user:password@");
    let file = File::open(&secret).unwrap();
    assert_eq!((server.requests(), store.requests()), (1, 1));
    assert!(file.tensor("t1").unwrap() == map["t1"]);
    assert!(file.tensor("t2").unwrap() == map["t2"]);
    assert_eq!((server.requests(), store.requests()), (0, 2), "the target is kept");

    // The signature expires, and the file is asked for once more.
    sign("two");
    assert!(file.tensor("t2").unwrap() == map["t2"]);
    assert_eq!((server.requests(), store.requests()), (1, 2));
    assert!(file.load::<TensorMap>().unwrap() == map);
    assert_eq!(server.requests(), 0);

    // Google answers 400.
    store.requests();
    store.change("/signed", |object| object.once = [Fault::Status(400, None)].into());
    assert!(file.tensor("t2").unwrap() == map["t2"]);
    assert_eq!((server.requests(), store.requests()), (1, 2));

    // If it is refused again, that is the answer.
    store.change("/signed", |object| object.signature = Some("three".to_owned()));
    let error = file.tensor("t2").unwrap_err();
    assert!(error.to_string().contains("the server answers 403 Forbidden"), "{error}");
    assert!(!error.to_string().contains("two") && error.to_string().starts_with(&url), "{error}");
    assert_eq!(server.requests(), 1);
}

#[test]
fn targets_of_redirects_are_resolved() {
    let (map, bytes) = long_file();
    let server = Server::new();
    let url = server.put("/a/b/m.safetensors", Vec::new());
    server.put("/a/c%C3%A9%20d.safetensors", bytes);
    for target in ["../cé d.safetensors", "./.././c%C3%A9 d.safetensors", "/x/../a/cé%20d.safetensors?#"] {
        server.change("/a/b/m.safetensors", |object| object.always = Some(Fault::Redirect(target.to_owned())));
        assert!(load::<TensorMap>(&url).unwrap() == map, "{target}");
    }
}

#[test]
fn refusals_say_what_to_do() {
    let server = Server::new();
    let url = server.put("/m.npy", Vec::new());
    server.change("/m.npy", |object| object.always = Some(Fault::Status(401, None)));
    let error = File::open(&url).unwrap_err();
    assert!(error.to_string().contains("401 Unauthorized: it wants a user and a password, which stand in"), "{error}");
    let with_user = url.replace("http://", "http://user:secret@");
    let error = File::open(with_user).unwrap_err();
    assert!(
        error.to_string().ends_with("401 Unauthorized: it does not take the user and the password of the URL"),
        "{error}"
    );
    // A port of the other scheme.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};

        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let error = File::open(format!("https://127.0.0.1:{port}/m.npy")).unwrap_err();
    assert!(error.to_string().ends_with("does not speak TLS; its URL may begin with `http://`"), "{error}");
    server.change("/m.npy", |object| object.always = Some(Fault::Raw(b"\x15\x03\x01\x00\x02\x02\x46")));
    let error = File::open(&url).unwrap_err();
    assert!(error.to_string().ends_with("if it is a server for https, the URL begins with `https://`"), "{error}");
    for (path, expected) in [
        (
            "htp://host/a.npy?secret",
            "htp://host/a.npy: cannot open `htp://host/a.npy` as a URL; did you mean `http://host/a.npy`?",
        ),
        (
            "file:///tmp/none.npy",
            "file:///tmp/none.npy: cannot open `file:///tmp/none.npy` as a URL; a file is opened by its path",
        ),
    ] {
        let error = File::open(path).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
        let error = save(path, &vectors(1, 1)).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
        let error = tensorfile::file::load_tensor(path, "a").unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn urls_are_only_read() {
    let map = vectors(1, 10);
    let mut messages = Messages::default();
    let path = "https://user:secret@host/m.safetensors?secret";
    let message =
        "https://host/m.safetensors: cannot write to a URL; write a file, and upload it with the tools of its server";
    messages.compare("save", save(path, &map), message);
    messages.compare("plan", tensorfile::SaveOptions::new().plan(path, &map).map(drop), message);
    messages.compare("write", tensorfile::file::atomic::write(path, b""), message);
    let in_format = message.replace(": cannot", ": tensorbuffers: cannot");
    messages.compare("append", tensorfile::tensorbuffers::append(path, &map), &in_format);
    messages.compare(
        "unknown",
        OpenOptions::new().open_url("ftp://host/a").map(drop),
        "ftp://host/a: cannot open `ftp://host/a` as a URL; known are https://, http://, hf://, s3://, gs://, az://",
    );
    messages.compare(
        "malformed",
        File::open("https:///a").map(drop),
        "https:///a: cannot open the URL: it has no host; a URL is `https://HOST/PATH`",
    );
    messages.end();
}

#[test]
fn names_of_shards_stay_in_the_folder() {
    let server = Server::new();
    let url = server.put("/m/model.safetensors.index.json", Vec::new());
    for name in ["../secret.safetensors", "http://host/a", "a/b", "..", "/a"] {
        let json = format!(r#"{{"weight_map": {{"a": "{name}"}}}}"#);
        server.put("/m/model.safetensors.index.json", json);
        let error = File::open(&url).unwrap_err();
        assert!(error.to_string().contains("which is not the name of a file next to the index"), "{error}");
        assert_eq!(server.requests(), 1);
    }
    server.put("/m/model.safetensors.index.json", r#"{"weight_map": {"a": "b ?.safetensors"}}"#);
    let error = File::open(&url).unwrap_err();
    let expected = "the server answers 404 Not Found; the index says that `a` is in it";
    assert_eq!(error.to_string(), format!("{url}: b ?.safetensors: {expected}"));
    assert_eq!(server.take_seen()[1].target, "/m/b%20%3F.safetensors");
}

#[test]
fn a_page_is_not_a_file_of_tensors() {
    let server = Server::new();
    let url = server.put("/m.safetensors", "<!DOCTYPE html><html><head></head></html>");
    let error = File::open(&url).unwrap_err();
    assert_eq!(error.to_string(), format!("{url}: the file is a web page (at byte 0)"));
    let binary: Vec<u8> = (0..200).map(|i| 200 - i).collect();
    let url = server.put("/binary", binary);
    let error = File::open(&url).unwrap_err();
    assert!(
        error.to_string().starts_with(&format!("{url}: the file's format was not recognized; the formats are ")),
        "{error}"
    );
}
