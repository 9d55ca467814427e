//! Opens URLs on a web server with arbitrary answers to the first requests. It answers all later ones with 404.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::thread;

use tensorfile::{OpenOptions, Tensor, TensorMap, safetensors};

use crate::budget::{bounded_stream, limits};

/// The most answers. Each can make the reader wait and ask again.
const ANSWERS: usize = 3;

/// In the input, lines of a head end with a single line feed, and `\x01` stands for the length of the body.
pub fn run(input: &[u8]) {
    let answers: Vec<Vec<u8>> = input.split(|byte| *byte == 0).take(ANSWERS).map(answer).collect();
    let len: usize = answers.iter().map(Vec::len).sum();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = move || {
        let mut answers = answers.into_iter();
        for mut stream in listener.incoming().flatten() {
            // One request for each connection.
            let mut head = String::new();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            while reader.read_line(&mut head).is_ok_and(|read| read > 2) {}
            if head == "stop" {
                break;
            }
            let answer = answers.next().unwrap_or_else(|| b"HTTP/1.1 404 None\r\nContent-Length: 0\r\n\r\n".into());
            // The reader may have left.
            let _ = stream.write_all(&answer);
        }
    };
    let server = thread::spawn(serve);
    let url = format!("http://user:secret@{address}/model?secret");
    let options = OpenOptions::new().limits(limits(len).memory(1 << 16).held(1 << 18));
    let read = || {
        let file = options.open(&url)?;
        let _ = file.metadata();
        file.load::<TensorMap>()
    };
    match bounded_stream("a file at a URL", len, read) {
        Ok(map) => assert!(map.infos().all(|(_, info)| info.payload_bytes().is_some())),
        Err(error) => assert!(!error.to_string().contains("secret"), "{error}"),
    }
    std::net::TcpStream::connect(address).unwrap().write_all(b"stop").unwrap();
    server.join().unwrap();
}

/// Returns the bytes to send for an answer.
fn answer(text: &[u8]) -> Vec<u8> {
    let end = text.windows(2).position(|end| end == b"\n\n").map_or(text.len(), |end| end + 2);
    let (head, body) = text.split_at(end);
    let mut sent = Vec::new();
    for byte in head {
        match byte {
            b'\n' => sent.extend(b"\r\n"),
            1 => sent.extend(body.len().to_string().bytes()),
            _ => sent.push(*byte),
        }
    }
    sent.extend(body);
    sent
}

/// Whole files, parts of one, redirects, and refusals.
pub fn seeds() -> Vec<Vec<u8>> {
    let map = TensorMap::from_iter([("t", Tensor::from_slice(&[1_i8; 9], [9]).unwrap())]);
    // A NUL would end the answer.
    let npy = b"\x93NUMPY\x01";
    let file = safetensors::to_vec(&map).unwrap();
    let json: Vec<u8> = file.iter().copied().filter(|byte| *byte != 0).collect();
    let answer = |head: &str, body: &[u8]| [b"HTTP/1.1 ", head.as_bytes(), b"\n\n", body].concat();
    let heads = [
        "200 OK\nContent-Length: \x01",
        "200 OK",
        "200 OK\nTransfer-Encoding: chunked",
        "206 Part\nContent-Length: \x01\nContent-Range: bytes 0-8/9\nETag: \"a\"",
        "206 Part\nContent-Length: \x01\nContent-Range: bytes 0-65535/99999999999999",
        "206 Part\nContent-Range: bytes 0-18446744073709551615/18446744073709551615",
        "206 Part\nContent-Encoding: gzip",
        "302 Found\nLocation: /other?a",
        "302 Found\nLocation: ?b\nX-Linked-ETag: \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"",
        "302 Found\nLocation: file:///etc/passwd",
        "404 None\nContent-Length: \x01",
        "416 Range\nContent-Range: bytes */0",
        "429 Later\nRetry-After: 0",
        "429 Later\nRetry-After: 99999999999",
    ];
    let two = [answer(heads[7], b""), answer(heads[3], b"~TenBin~ ")].join(&0);
    let chunks = answer(heads[2], b"3\r\nabc\r\n0\r\n\r\n");
    let whole = heads.iter().flat_map(|head| [answer(head, npy), answer(head, &json)]);
    whole.chain([two, chunks, Vec::new(), b"HTTP/1.1".to_vec()]).collect()
}
