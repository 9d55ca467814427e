//! All kinds of answers of servers. A file at a URL has the same tensors as the file on disk, or is an error.

use tensorfile::{ErrorKind, File, TensorMap, WriteOptions, load};

use super::vectors;
use crate::support::server::{Fault, Server};
use crate::support::{format, multi_tensor_formats};

/// Makes the bytes of an answer of the range that was asked for, and of the whole file.
type Answer = fn(usize, usize, &[u8]) -> Vec<u8>;

/// Returns an answer with a part of a file.
fn part(first: usize, last: usize, file: &[u8], headers: &str) -> Vec<u8> {
    let Some(body) = file.get(first..file.len().min(last.saturating_add(1))).filter(|body| !body.is_empty()) else {
        return outside(file);
    };
    let (end, len) = (first + body.len() - 1, file.len());
    answer(206, &format!("Content-Range: bytes {first}-{end}/{len}\r\n{headers}"), body)
}

fn outside(file: &[u8]) -> Vec<u8> {
    answer(416, &format!("Content-Range: bytes */{}\r\n", file.len()), b"")
}

fn answer(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    unframed(status, &format!("Content-Length: {}\r\n{headers}", body.len()), body)
}

fn unframed(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    [format!("HTTP/1.1 {status} X\r\n{headers}\r\n").as_bytes(), body].concat()
}

fn in_chunks(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    let mut chunks = Vec::new();
    for chunk in body.chunks(5000) {
        chunks.extend(format!("{:x};extension\r\n", chunk.len()).into_bytes());
        chunks.extend([chunk, b"\r\n"].concat());
    }
    chunks.extend(b"0\r\nTrailer: a\r\n\r\n");
    unframed(status, &format!("Transfer-Encoding: chunked\r\n{headers}"), &chunks)
}

/// Returns the part that was asked for, with another `Content-Range`.
fn with_range(first: usize, last: usize, file: &[u8], range: impl Fn(usize, usize, usize) -> String) -> Vec<u8> {
    let last = last.min(file.len() - 1);
    if first > last {
        return outside(file);
    }
    let range = format!("Content-Range: {}\r\n", range(first, last, file.len()));
    answer(206, &range, &file[first..=last])
}

/// Answers that are the file.
const GOOD: &[(&str, Answer)] = &[
    ("as usual", |first, last, file| part(first, last, file, "ETag: \"a\"\r\n")),
    ("nothing more", |first, last, file| part(first, last, file, "")),
    ("hints before", |first, last, file| {
        [b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", &*part(first, last, file, "")].concat()
    }),
    ("100 and 102 before", |first, last, file| {
        let before = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n";
        [before, &*part(first, last, file, "")].concat()
    }),
    ("half of it", |first, last, file| part(first, last.min(first + 40_000), file, "ETag: \"a\"\r\n")),
    ("an unknown length", |first, last, file| {
        with_range(first, last, file, |first, last, _| format!("bytes {first}-{last}/*"))
    }),
    ("an unknown length, and half of it", |first, last, file| {
        // The longest range finds out the length.
        let last = if last > 1 << 40 { last } else { last.min(first + 40_000) };
        with_range(first, last, file, |first, last, _| format!("bytes {first}-{last}/*"))
    }),
    ("capitals", |first, last, file| {
        with_range(first, last, file, |first, last, len| format!("Bytes  {first}-{last}/{len}"))
    }),
    ("the coding of the upload", |first, last, file| part(first, last, file, "Content-Encoding: aws-chunked\r\n")),
    ("chunks", |first, last, file| {
        let last = last.min(file.len() - 1);
        if first > last {
            return outside(file);
        }
        let range = format!("Content-Range: bytes {first}-{last}/{}\r\n", file.len());
        in_chunks(206, &range, &file[first..=last])
    }),
    // The connection stays open.
    ("no length of the part", |first, last, file| {
        let last = last.min(file.len() - 1);
        if first > last {
            return outside(file);
        }
        unframed(206, &format!("Content-Range: bytes {first}-{last}/{}\r\n", file.len()), &file[first..=last])
    }),
    ("a weak tag next to a strong one", |first, last, file| {
        part(first, last, file, if first == 0 { "ETag: \"a\"\r\n" } else { "ETag: W/\"a\"\r\n" })
    }),
    ("the tag of the compressed form", |first, last, file| {
        part(first, last, file, if first == 0 { "ETag: \"a-gzip\"\r\n" } else { "ETag: \"a\"\r\n" })
    }),
    ("a tag once, and the same time", |first, last, file| {
        let tag = if first == 0 { "ETag: \"a\"\r\n" } else { "" };
        part(first, last, file, &format!("{tag}Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\n"))
    }),
    ("tags that are not ASCII", |first, last, file| part(first, last, file, "ETag: \"é\"\r\n")),
    ("everything", |_, _, file| answer(200, "ETag: \"a\"\r\n", file)),
    ("everything in chunks", |_, _, file| in_chunks(200, "", file)),
    ("everything up to the end of the connection", |_, _, file| unframed(200, "Connection: close\r\n", file)),
];

/// Answers that are not, and a part of the message.
const BAD: &[(&str, Answer, &str)] = &[
    (
        "another tag",
        |first, last, file| part(first, last, file, if first == 0 { "ETag: \"a\"\r\n" } else { "ETag: \"b\"\r\n" }),
        "its entity tag was `\"a\"`, and is `\"b\"`",
    ),
    (
        "another tag that is not ASCII",
        |first, last, file| part(first, last, file, if first == 0 { "ETag: \"é\"\r\n" } else { "ETag: \"è\"\r\n" }),
        "its entity tag was `\"\\xc3\\xa9\"`, and is `\"\\xc3\\xa8\"`",
    ),
    (
        "no tag, and another time",
        |first, last, file| {
            let version = if first == 0 { "ETag: \"a\"\r\nLast-Modified: 1\r\n" } else { "Last-Modified: 2\r\n" };
            part(first, last, file, version)
        },
        "it was modified at `1`, and then at `2`",
    ),
    (
        "a weak tag, and another time",
        |first, last, file| {
            let version = if first == 0 {
                "ETag: \"a\"\r\nLast-Modified: 1\r\n"
            } else {
                "ETag: W/\"a\"\r\nLast-Modified: 2\r\n"
            };
            part(first, last, file, version)
        },
        "its entity tag was `\"a\"`, and is `W/\"a\"`",
    ),
    (
        "no tag any more",
        |first, last, file| part(first, last, file, if first == 0 { "ETag: \"a\"\r\n" } else { "" }),
        "its entity tag was `\"a\"`, and an answer has none",
    ),
    (
        "two tags",
        |first, last, file| {
            part(first, last, file, if first == 0 { "ETag: \"a\"\r\n" } else { "ETag: \"a\"\r\nETag: \"b\"\r\n" })
        },
        "and is `\"a\", \"b\"`",
    ),
    (
        "another length",
        |first, last, file| {
            with_range(first, last, file, |first, last, len| format!("bytes {first}-{last}/{}", len + 4 * first.min(1)))
        },
        "its length was",
    ),
    (
        "two ranges",
        |first, last, file| {
            with_range(first, last, file, |first, last, len| {
                format!("bytes {first}-{last}/{len}\r\nContent-Range: bytes {first}-{last}/{}", len + 5)
            })
        },
        "does not say which",
    ),
    (
        "a sign",
        |first, last, file| with_range(first, last, file, |first, last, len| format!("bytes +{first}-+{last}/+{len}")),
        "does not say which",
    ),
    (
        "parts of parts",
        |first, last, file| part(first, last, file, "Content-Type: multipart/byteranges; boundary=B\r\n"),
        "does not say which",
    ),
    (
        "fewer bytes than the range",
        |first, last, file| {
            let last = last.min(file.len() - 1);
            let body = &file[first..last];
            answer(206, &format!("Content-Range: bytes {first}-{last}/{}\r\n", file.len()), body)
        },
        "bytes for a part of",
    ),
    ("compressed", |first, last, file| part(first, last, file, "Content-Encoding: gzip\r\n"), "compressed, as gzip"),
    (
        "compressed, in the second header",
        |first, last, file| part(first, last, file, "Content-Encoding: identity\r\nContent-Encoding: gzip\r\n"),
        "compressed, as gzip",
    ),
    (
        "compressed on the way",
        |_, _, file| unframed(200, "Transfer-Encoding: gzip, chunked\r\nConnection: close\r\n", &file[..100]),
        "compressed, as gzip",
    ),
    (
        "long headers",
        |first, last, file| part(first, last, file, &format!("X-A: {}\r\n", "a".repeat(1 << 20))),
        "the headers of the answer take more than 128 KiB",
    ),
];

/// Returns files of all formats with several tensors, each longer than the first request.
fn files() -> Vec<(String, Vec<u8>)> {
    let map = vectors(5, 40_000);
    let mut files: Vec<(String, Vec<u8>)> = multi_tensor_formats()
        .map(|format| {
            let bytes = format.to_vec(&map, &WriteOptions::new().embed_names(true)).unwrap();
            (format!("m.{}", format.extensions[0]), bytes)
        })
        .collect();
    #[cfg(feature = "pytorch")]
    files.push(("m.pt".to_owned(), crate::formats::pytorch::checkpoint(5, 40_000)));
    files.push(("m.npy".to_owned(), tensorfile::npy::to_vec(&vectors(1, 200_000)["t0"]).unwrap()));
    files
}

#[test]
fn files_of_servers_are_those_on_disk() {
    let files = files();
    assert!(files.len() >= 6, "{}", files.len());
    for (what, answer) in GOOD {
        for (name, bytes) in &files {
            let map: TensorMap = File::from_bytes(bytes.clone()).unwrap().load().unwrap();
            let server = Server::new();
            let path = format!("/{name}");
            let url = server.put(&path, bytes.clone());
            server.change(&path, |object| object.always = Some(Fault::Answer(*answer)));
            let about = format!("{name}: {what}");
            let file = File::open(&url).unwrap_or_else(|error| panic!("{about}: {error}"));
            assert_eq!(file.file_bytes(), bytes.len() as u64, "{about}");
            // Backwards, and then all.
            for (tensor, expected) in map.iter().collect::<Vec<_>>().into_iter().rev() {
                let found = file.tensor(tensor).unwrap_or_else(|error| panic!("{about}: {error}"));
                assert!(found == *expected, "{about}: {tensor}");
            }
            assert!(file.load::<TensorMap>().unwrap() == map, "{about}");
            assert!(load::<TensorMap>(&url).unwrap() == map, "{about}");
        }
    }
}

#[test]
fn other_answers_are_errors() {
    let (name, format) = ("m.safetensors", format("safetensors"));
    let map = vectors(5, 40_000);
    let bytes = format.to_vec(&map, &WriteOptions::new()).unwrap();
    for (what, answer, expected) in BAD {
        let server = Server::new();
        let path = format!("/{name}");
        let url = server.put(&path, bytes.clone());
        server.change(&path, |object| object.always = Some(Fault::Answer(*answer)));
        let read = File::open(&url).and_then(|file| file.load::<TensorMap>());
        let error = read.map(drop).expect_err(what);
        assert!(error.to_string().contains(expected), "{what}: {error}");
        let is_change = expected.contains("its ") || expected.contains("modified") || expected.contains("and is");
        assert_eq!(matches!(error.kind(), ErrorKind::SourceChanged { .. }), is_change, "{what}: {error}");
    }
}

#[test]
fn a_file_that_comes_as_a_whole_is_compared_with_the_first_time() {
    // Longer than the part that is kept.
    let map = vectors(3, 30 << 20);
    let mut bytes = tensorfile::safetensors::to_vec(&map).unwrap();
    let server = Server::new();
    let url = server.put("/m.safetensors", bytes.clone());
    let whole: Fault = Fault::Whole;
    let change = |bytes: &[u8], etag: Option<&str>| {
        server.change("/m.safetensors", |object| {
            object.bytes = bytes.to_vec().into();
            object.etag = etag.map(str::to_owned);
            object.always = Some(whole.clone());
        });
    };
    change(&bytes, None);
    let open = || {
        let file = File::open(&url).unwrap();
        assert!(file.tensor("t2").unwrap() == map["t2"]);
        file
    };
    let file = open();
    server.requests();
    assert!(file.tensor("t0").unwrap() == map["t0"]);
    assert_eq!(server.requests(), 0, "it is kept");
    assert!(file.tensor("t2").unwrap() == map["t2"]);
    assert!(file.tensor("t1").unwrap() == map["t1"] && file.tensor("t2").unwrap() == map["t2"]);
    assert_eq!(server.requests(), 1, "it is asked for again, and held");

    let changed = |file: &File, expected: &str| {
        let error = file.tensor("t2").unwrap_err();
        let ErrorKind::SourceChanged { what } = error.kind() else { panic!("{error}") };
        assert!(what.contains(expected), "{what}");
    };
    let file = open();
    bytes[1000] ^= 1;
    change(&bytes, None);
    changed(&file, "its first bytes are others");
    bytes[1000] ^= 1;
    change(&bytes, None);
    let file = open();
    change(&bytes[..bytes.len() - 1], None);
    changed(&file, "its length was");
    change(&bytes, Some("\"v1\""));
    let file = open();
    change(&bytes, Some("\"v2\""));
    changed(&file, "its entity tag was `\"v1\"`, and is `\"v2\"`");
}
