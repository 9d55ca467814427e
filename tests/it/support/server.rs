//! A web server for tests. It serves ranges from memory, counts requests, and misbehaves on demand. Objects can be
//! uploaded to it as to Google Cloud Storage.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

/// A running server on a port of this host.
pub struct Server {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    objects: Mutex<BTreeMap<String, Object>>,
    seen: Mutex<Vec<Seen>>,
    /// The parts of uploads that are not complete, by their numbers.
    uploads: Mutex<BTreeMap<String, BTreeMap<usize, Vec<u8>>>>,
    /// The number of objects and uploads so far.
    written: AtomicUsize,
    /// Answers under way, and the most at one time.
    active: AtomicUsize,
    most_active: AtomicUsize,
    /// The longest chain of requests in which each came after the answer to the previous one.
    rounds: AtomicUsize,
    /// The bytes of endless bodies.
    sent: AtomicUsize,
    stops: AtomicBool,
}

/// The object at a path.
#[derive(Clone, Default)]
pub struct Object {
    pub bytes: Arc<Vec<u8>>,
    /// With its quotes.
    pub etag: Option<String>,
    /// More headers of every answer.
    pub headers: Vec<(String, String)>,
    /// The query that a request must have, or else the answer is 403.
    pub signature: Option<String>,
    /// The `Authorization` that a request must have, or else the answer is 401. An empty one must not be there: 400.
    pub authorization: Option<String>,
    /// The faults of the next requests, one each.
    pub once: VecDeque<Fault>,
    /// The fault of all other requests.
    pub always: Option<Fault>,
    /// The time before each answer.
    pub latency: Duration,
    /// The bytes per second of each connection.
    pub rate: Option<f64>,
}

/// A way to misbehave, or to answer in another way than with the range that was asked for.
#[derive(Debug, Clone)]
pub enum Fault {
    /// The body ends after some bytes, and with it the connection.
    Cut(usize),
    /// A body ends before an offset of the object, and with it the connection. From there on, the answer is 403.
    Before(usize),
    /// The connection is closed without an answer.
    Hang,
    /// Another `Content-Range`, or none.
    ContentRange(Option<&'static str>),
    /// Everything, with status 200.
    Whole,
    /// Everything, with status 200 and without a length.
    Chunked,
    /// Zeros without an end after the bytes of the object, with status 200.
    Endless,
    /// Bytes to send as they are, made of the first and the last byte that were asked for, and of all bytes.
    Answer(fn(usize, usize, &[u8]) -> Vec<u8>),
    /// A page of HTML with a status, and a `Retry-After`.
    Status(u16, Option<&'static str>),
    /// A redirect.
    Redirect(String),
    /// A header more.
    Header(&'static str, &'static str),
    /// Bytes that are no answer.
    Raw(&'static [u8]),
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub method: String,
    /// The path and the query.
    pub target: String,
    /// The first and the last byte.
    pub range: Option<(usize, usize)>,
    pub headers: BTreeMap<String, String>,
}

impl Seen {
    /// Returns the number of bytes asked for.
    pub fn len(&self) -> usize {
        self.range.map_or(0, |(first, last)| last + 1 - first)
    }
}

impl Server {
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, state) = (listener.local_addr().unwrap(), Arc::<State>::default());
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if shared.stops.load(Ordering::Relaxed) {
                    break;
                }
                let (Ok(stream), state) = (stream, Arc::clone(&shared)) else { continue };
                // An error means that the client left.
                thread::spawn(move || drop(state.serve(&stream)));
            }
        });
        Self { address, state }
    }

    /// Returns the URL of a path, which begins with a slash.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Serves bytes with a strong entity tag, and returns their URL.
    pub fn put(&self, path: &str, bytes: impl Into<Vec<u8>>) -> String {
        let (bytes, etag) = (Arc::new(bytes.into()), Some("\"v1\"".to_owned()));
        self.put_object(path, Object { bytes, etag, ..Object::default() })
    }

    pub fn put_object(&self, path: &str, object: Object) -> String {
        self.state.objects().insert(path.to_owned(), object);
        self.url(path)
    }

    /// Changes an object.
    pub fn change(&self, path: &str, change: impl FnOnce(&mut Object)) {
        change(self.state.objects().get_mut(path).unwrap());
    }

    /// Returns the requests so far, and forgets them.
    pub fn take_seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.state.seen.lock().unwrap())
    }

    /// Returns the paths of all objects, and the number of uploads that are not complete.
    pub fn stored(&self) -> (Vec<String>, usize) {
        (self.state.objects().keys().cloned().collect(), self.state.uploads.lock().unwrap().len())
    }

    /// Returns the number of requests so far, and forgets them.
    pub fn requests(&self) -> usize {
        self.take_seen().len()
    }

    /// Returns the number of round trips so far, and forgets them: the longest chain of requests, each of which came
    /// after the answer to the one before it.
    pub fn round_trips(&self) -> usize {
        self.state.rounds.swap(0, Ordering::SeqCst)
    }

    /// Returns the number of bytes of endless bodies so far.
    pub fn sent(&self) -> usize {
        self.state.sent.load(Ordering::SeqCst)
    }

    /// Returns the most requests that were answered at one time.
    pub fn most_at_once(&self) -> usize {
        self.state.most_active.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.state.stops.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

impl State {
    fn objects(&self) -> MutexGuard<'_, BTreeMap<String, Object>> {
        self.objects.lock().unwrap()
    }

    /// Answers the requests of a connection.
    fn serve(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream);
        loop {
            let Some((seen, body)) = read_request(&mut reader)? else { return Ok(()) };
            let round = self.rounds.load(Ordering::SeqCst) + 1;
            self.seen.lock().unwrap().push(seen.clone());
            let active = self.active.fetch_add(1, Ordering::SeqCst) + 1;
            self.most_active.fetch_max(active, Ordering::SeqCst);
            let goes_on = match &*seen.method {
                "PUT" | "POST" | "DELETE" => self.write(&seen, body, stream),
                _ => self.answer(&seen, round, stream),
            };
            self.active.fetch_sub(1, Ordering::SeqCst);
            if !goes_on? {
                return Ok(());
            }
        }
    }

    /// Sends an answer. Returns whether the connection stays open.
    fn answer(&self, seen: &Seen, round: usize, out: &TcpStream) -> io::Result<bool> {
        let (path, query) = seen.target.split_once('?').unwrap_or((&seen.target, ""));
        let found = self.objects().get_mut(path).map(|object| {
            let fault = object.once.pop_front().or_else(|| object.always.clone());
            (object.clone(), fault)
        });
        let Some((object, fault)) = found else {
            // A body would be taken for the next answer.
            let is_head = seen.method == "HEAD";
            return if is_head { send_head(out, 404, &[]).map(|()| true) } else { send_status(out, 404, &[]) };
        };
        thread::sleep(object.latency);
        self.rounds.fetch_max(round, Ordering::SeqCst);
        let header = |name: &str| seen.headers.get(name).map(String::as_str);
        match (object.authorization.as_deref(), header("authorization")) {
            (Some(""), Some(_)) => return send_status(out, 400, &[]),
            (Some(expected), found) if !expected.is_empty() && found != Some(expected) => {
                return send_status(out, 401, &[]);
            }
            _ => {}
        }
        if object.signature.as_ref().is_some_and(|signature| signature != query) {
            return send_status(out, 403, &[]);
        }
        let mut headers = object.headers.clone();
        let mut add = |name: &str, value: &str| headers.push((name.to_owned(), value.to_owned()));
        match &fault {
            Some(Fault::Hang) => return Ok(false),
            Some(Fault::Raw(bytes)) => return (&*out).write_all(bytes).map(|()| false),
            Some(Fault::Status(status, retry)) => {
                retry.iter().for_each(|retry| add("Retry-After", retry));
                return send_status(out, *status, &headers);
            }
            Some(Fault::Redirect(target)) => {
                add("Location", target);
                return send_status(out, 302, &headers);
            }
            Some(Fault::Header(name, value)) => add(name, value),
            _ => {}
        }
        if let Some(etag) = &object.etag {
            headers.push(("ETag".to_owned(), etag.clone()));
        }
        if header("if-match").is_some_and(|tag| object.etag.as_deref() != Some(tag)) {
            return send_status(out, 412, &headers);
        }
        let total = object.bytes.len();
        if seen.method == "HEAD" {
            headers.push(("Content-Length".to_owned(), total.to_string()));
            return send_head(out, 200, &headers).map(|()| true);
        }
        if let Some(Fault::Answer(answer)) = &fault {
            let (first, last) = seen.range.unwrap_or((0, usize::MAX));
            let bytes = answer(first, last, &object.bytes);
            (&*out).write_all(&bytes)?;
            const CLOSE: &[u8] = b"Connection: close\r\n";
            return Ok(!bytes.windows(CLOSE.len()).take(1 << 10).any(|found| found == CLOSE));
        }
        let range = seen.range.filter(|_| !matches!(fault, Some(Fault::Whole | Fault::Chunked | Fault::Endless)));
        if let Some(Fault::Endless) = &fault {
            send_head(out, 200, &headers)?;
            (&*out).write_all(&object.bytes)?;
            while (&*out).write_all(&[0; 64 << 10]).is_ok() {
                self.sent.fetch_add(64 << 10, Ordering::SeqCst);
            }
            return Ok(false);
        }
        let Some((first, last)) = range else {
            let body = Body { bytes: &object.bytes, rate: object.rate };
            return send(out, 200, &headers, body, matches!(fault, Some(Fault::Chunked)));
        };
        if first >= total {
            headers.push(("Content-Range".to_owned(), format!("bytes */{total}")));
            return send_status(out, 416, &headers);
        }
        let last = last.min(total - 1);
        match &fault {
            Some(Fault::ContentRange(None)) => {}
            Some(Fault::ContentRange(Some(value))) => headers.push(("Content-Range".to_owned(), (*value).to_owned())),
            _ => headers.push(("Content-Range".to_owned(), format!("bytes {first}-{last}/{total}"))),
        }
        let body = Body { bytes: &object.bytes[first..=last], rate: object.rate };
        let cut = match fault {
            Some(Fault::Cut(len)) => Some(len),
            Some(Fault::Before(offset)) if offset == first => return send_status(out, 403, &[]),
            Some(Fault::Before(offset)) if (first..=last).contains(&offset) => Some(offset - first),
            _ => None,
        };
        if let Some(len) = cut {
            headers.push(("Content-Length".to_owned(), body.bytes.len().to_string()));
            send_head(out, 206, &headers)?;
            return (&*out).write_all(&body.bytes[..len.min(body.bytes.len())]).map(|()| false);
        }
        send(out, 206, &headers, body, false)
    }
}

impl State {
    /// Answers a request to write.
    fn write(&self, seen: &Seen, body: Vec<u8>, out: &TcpStream) -> io::Result<bool> {
        let (path, query) = seen.target.split_once('?').unwrap_or((&seen.target, ""));
        let argument = |name: &str| query.split('&').find_map(|argument| argument.strip_prefix(name));
        let (upload, part) = (argument("uploadId="), argument("partNumber="));
        let number = self.written.fetch_add(1, Ordering::SeqCst);
        let etag = format!("\"v{number}\"");
        let headers = [("ETag".to_owned(), etag.clone())];
        let put = |bytes: Vec<u8>| {
            let headers = vec![("Last-Modified".to_owned(), "Thu, 26 Nov 2026 10:00:00 GMT".to_owned())];
            let object = Object { bytes: bytes.into(), etag: Some(etag.clone()), headers, ..Object::default() };
            self.objects().insert(path.to_owned(), object);
        };
        let mut uploads = self.uploads.lock().unwrap();
        let (status, text) = match (&*seen.method, upload) {
            ("DELETE", Some(upload)) => (if uploads.remove(upload).is_some() { 204 } else { 404 }, String::new()),
            ("DELETE", None) => (if self.objects().remove(path).is_some() { 204 } else { 404 }, String::new()),
            ("POST", Some(upload)) => {
                let parts = uploads.remove(upload).unwrap_or_default();
                put(parts.into_values().flatten().collect());
                (200, format!("<CompleteMultipartUploadResult><ETag>{etag}</ETag></CompleteMultipartUploadResult>"))
            }
            ("POST", None) => {
                uploads.insert(number.to_string(), BTreeMap::new());
                let id = format!("<UploadId>{number}</UploadId>");
                (200, format!("<InitiateMultipartUploadResult>{id}</InitiateMultipartUploadResult>"))
            }
            (_, Some(upload)) => {
                let part = part.and_then(|part| part.parse().ok()).unwrap_or_default();
                uploads.entry(upload.to_owned()).or_default().insert(part, body);
                (200, String::new())
            }
            (_, None) => {
                let is_new = seen.headers.get("x-goog-if-generation-match").is_some_and(|version| version == "0");
                if is_new && self.objects().contains_key(path) {
                    return send_status(out, 412, &[]);
                }
                let source = seen.headers.get("x-goog-copy-source");
                let copied = source.map(|source| self.objects()[&format!("/{source}")].bytes.to_vec());
                put(copied.unwrap_or(body));
                (200, String::new())
            }
        };
        send(out, status, &headers, Body { bytes: text.as_bytes(), rate: None }, false)
    }
}

struct Body<'a> {
    bytes: &'a [u8],
    rate: Option<f64>,
}

fn read_request(reader: &mut BufReader<&TcpStream>) -> io::Result<Option<(Seen, Vec<u8>)>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    // A proxy for all hosts, which are this one.
    if line.starts_with("CONNECT ") {
        while reader.read_line(&mut line)? > 2 {}
        (&**reader.get_ref()).write_all(b"HTTP/1.1 200 Connected\r\n\r\n")?;
        return read_request(reader);
    }
    let mut words = line.split(' ').map(str::to_owned);
    let (method, mut target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = BTreeMap::new();
    // Of a proxy, a whole URL is asked for.
    if let Some((_, path)) = target.strip_prefix("http://").and_then(|target| target.split_once('/')) {
        headers.insert("via-proxy".to_owned(), target.clone());
        target = format!("/{path}");
    }
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) => headers.insert(name.to_ascii_lowercase(), value.to_owned()),
            None => break,
        };
    }
    let range = headers.get("range").and_then(|range| {
        let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
        Some((first.parse().ok()?, last.parse().ok()?))
    });
    let mut body = vec![0; headers.get("content-length").and_then(|len| len.parse().ok()).unwrap_or_default()];
    reader.read_exact(&mut body)?;
    Ok(Some((Seen { method, target, range, headers }, body)))
}

fn send_head(mut out: &TcpStream, status: u16, headers: &[(String, String)]) -> io::Result<()> {
    let mut head = format!("HTTP/1.1 {status} Whatever\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    out.write_all((head + "\r\n").as_bytes())
}

/// Sends a page that must not be in messages.
fn send_status(out: &TcpStream, status: u16, headers: &[(String, String)]) -> io::Result<bool> {
    send(out, status, headers, Body { bytes: b"<html>a page of the server</html>", rate: None }, false)
}

fn send(
    mut out: &TcpStream,
    status: u16,
    headers: &[(String, String)],
    body: Body<'_>,
    is_chunked: bool,
) -> io::Result<bool> {
    let length = match is_chunked {
        true => ("Transfer-Encoding".to_owned(), "chunked".to_owned()),
        false => ("Content-Length".to_owned(), body.bytes.len().to_string()),
    };
    send_head(out, status, &[headers, &[length]].concat())?;
    let (start, mut sent) = (Instant::now(), 0);
    for piece in body.bytes.chunks(256 << 10) {
        if is_chunked {
            out.write_all(format!("{:x}\r\n", piece.len()).as_bytes())?;
        }
        out.write_all(piece)?;
        if is_chunked {
            out.write_all(b"\r\n")?;
        }
        sent += piece.len();
        if let Some(rate) = body.rate {
            thread::sleep(Duration::from_secs_f64(sent as f64 / rate).saturating_sub(start.elapsed()));
        }
    }
    if is_chunked {
        out.write_all(b"0\r\n\r\n")?;
    }
    Ok(true)
}
