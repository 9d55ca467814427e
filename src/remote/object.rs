//! An object on a web server: its length and version, and requests for ranges of it.
//!
//! Every answer is compared with what was found on opening. An object that is replaced in the meantime is
//! [`ErrorKind::SourceChanged`], never a mix of two.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use ureq::BodyReader;
use ureq::http::HeaderMap;

use super::client::{Failed, Get, Linked, Reply, Retries, failed_status, get, read_body, text};
use super::source::{RangeBody, RemoteObject};
use super::url::WebUrl;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::Limits;

/// The number of bytes of the first request, which also finds out the length.
const FIRST: u64 = 64 << 10;

/// An object on a web server.
pub(super) struct WebObject {
    url: WebUrl,
    token: Option<String>,
    len: u64,
    version: ObjectVersion,
    linked: Linked,
    place: Mutex<ObjectPlace>,
}

/// The place to which redirects led. A signature in its URL expires.
#[derive(Clone)]
struct ObjectPlace {
    url: WebUrl,
    is_public: bool,
    /// How often it was looked up.
    lookups: u32,
}

/// The headers that name a version of an object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct ObjectVersion {
    tag: Option<String>,
    modified: Option<String>,
}

impl ObjectVersion {
    fn new(headers: &HeaderMap) -> Self {
        let owned = |name| text(headers, name).map(str::to_owned);
        Self { tag: owned("etag"), modified: owned("last-modified") }
    }

    /// Returns the entity tag, if equal tags mean equal bytes.
    fn strong_tag(&self) -> Option<&str> {
        self.tag.as_deref().filter(|tag| tag.starts_with('"'))
    }

    /// Returns the difference to another answer. A header that is missing there says nothing.
    fn difference(&self, other: &Self) -> Option<String> {
        let differ = |one: &Option<String>, other: &Option<String>| match (one, other) {
            (Some(one), Some(other)) if one != other => {
                Some((one.escape_debug().to_string(), other.escape_debug().to_string()))
            }
            _ => None,
        };
        if let Some((one, other)) = differ(&self.tag, &other.tag) {
            return Some(format!("its entity tag was {one}, and is {other}"));
        }
        // Servers of one object may have different times.
        let (one, other) = differ(&self.modified, &other.modified).filter(|_| self.tag.is_none())?;
        Some(format!("it was modified at {one}, and then at {other}"))
    }
}

/// An opened object, and the bytes at its beginning.
pub(super) struct Opened {
    pub(super) object: WebObject,
    /// All bytes of an object of up to [`FIRST`] bytes, or from a server without ranges.
    pub(super) begin: Vec<u8>,
}

impl WebObject {
    /// Opens an object with one request.
    pub(super) fn open(url: WebUrl, token: Option<String>, limits: &Limits) -> Result<Opened> {
        let mut retries = Retries::new();
        loop {
            match Self::try_open(&url, token.as_deref(), limits) {
                Ok(opened) => return Ok(opened),
                // Later, the server may be starting again. Now, the URL is wrong.
                Err(Failed::Passing(error, _)) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    return Err(error.into());
                }
                Err(failed) => retries.wait(failed)?,
            }
        }
    }

    fn try_open(url: &WebUrl, token: Option<&str>, limits: &Limits) -> Result<Opened, Failed> {
        let range = Some((0, FIRST - 1));
        let mut reply = get(&Get { url, range, if_match: None, token, is_public: false })?;
        let (len, begin) = match reply.status.as_u16() {
            206 => {
                check_encoding(&reply.headers)?;
                let found = ContentRange::new(&reply.headers)?;
                let expected = 0..FIRST.min(found.total);
                if found.range != expected {
                    return Err(wrong_range(&found.range, &expected));
                }
                let mut begin = vec![0; usize::try_from(expected.end).unwrap_or(usize::MAX)];
                fill(&mut reply.body, &mut begin)?;
                (found.total, begin)
            }
            200 => {
                check_encoding(&reply.headers)?;
                let begin = read_whole(&mut reply, limits)?;
                (begin.len() as u64, begin)
            }
            416 if text(&reply.headers, "content-range").is_some_and(|range| range.ends_with("/0")) => (0, Vec::new()),
            _ => return Err(failed_status(reply.status, &reply.headers)),
        };
        let Reply { headers, url: place, is_public, linked, .. } = reply;
        let object = Self {
            url: url.clone(),
            token: token.map(str::to_owned),
            len,
            version: ObjectVersion::new(&headers),
            linked,
            place: Mutex::new(ObjectPlace { url: place, is_public, lookups: 0 }),
        };
        Ok(Opened { object, begin })
    }

    pub(super) fn linked(&self) -> &Linked {
        &self.linked
    }

    /// Asks for a range that is not empty.
    fn get_range(&self, range: &Range<u64>) -> Result<Reply, Failed> {
        let get_at = |url: &WebUrl, is_public| {
            let token = self.token.as_deref().filter(|_| url.has_origin_of(&self.url));
            let bytes = Some((range.start, range.end - 1));
            get(&Get { url, range: bytes, if_match: self.version.strong_tag(), token, is_public })
        };
        let lock = || self.place.lock().unwrap_or_else(PoisonError::into_inner);
        let place = lock().clone();
        let reply = get_at(&place.url, place.is_public)?;
        if place.url == self.url || !matches!(reply.status.as_u16(), 401 | 403 | 404 | 410) {
            return self.check(reply, range);
        }
        // The signature expired. One thread looks for the place again.
        let mut now = lock();
        if now.lookups != place.lookups {
            let place = now.clone();
            drop(now);
            return self.check(get_at(&place.url, place.is_public)?, range);
        }
        let reply = get_at(&self.url, false)?;
        *now = ObjectPlace { url: reply.url.clone(), is_public: reply.is_public, lookups: place.lookups + 1 };
        drop(now);
        self.check(reply, range)
    }

    /// Compares an answer with the question and with the object.
    fn check(&self, reply: Reply, range: &Range<u64>) -> Result<Reply, Failed> {
        let status = reply.status.as_u16();
        if let Some(what) = self.difference(&reply) {
            return Err(changed(what));
        }
        match status {
            206 => {
                check_encoding(&reply.headers)?;
                let found = ContentRange::new(&reply.headers)?;
                if found.total != self.len {
                    return Err(self.changed_length(found.total));
                }
                if found.range == *range { Ok(reply) } else { Err(wrong_range(&found.range, range)) }
            }
            200 if *range == (0..self.len) => check_encoding(&reply.headers).map(|()| reply),
            200 => Err(Failed::lasting(format!(
                "the server sends the whole file instead of bytes {} to {}",
                range.start, range.end
            ))),
            412 => Err(changed("its entity tag is another one".to_owned())),
            416 => match ContentRange::total(&reply.headers) {
                Some(total) if total != self.len => Err(self.changed_length(total)),
                _ => Err(failed_status(reply.status, &reply.headers)),
            },
            _ => Err(failed_status(reply.status, &reply.headers)),
        }
    }

    fn difference(&self, reply: &Reply) -> Option<String> {
        if !reply.status.is_success() {
            return None;
        }
        let (old, new) = (&self.linked.sha256, &reply.linked.sha256);
        match (old, new) {
            (Some(old), Some(new)) if old != new => Some(format!("its SHA-256 was {old}, and is {new}")),
            _ => self.version.difference(&ObjectVersion::new(&reply.headers)),
        }
    }

    fn changed_length(&self, now: u64) -> Failed {
        changed(format!("its length was {} bytes, and is {now}", self.len))
    }
}

fn changed(what: String) -> Failed {
    Failed::Lasting(Error::from(ErrorKind::SourceChanged { what }).into())
}

fn wrong_range(found: &Range<u64>, expected: &Range<u64>) -> Failed {
    let (from, to, start, end) = (found.start, found.end, expected.start, expected.end);
    Failed::lasting(format!("the server sends bytes {from} to {to} instead of bytes {start} to {end}"))
}

/// Refuses a compressed body: the request forbids it, and its offsets would be others.
fn check_encoding(headers: &HeaderMap) -> Result<(), Failed> {
    match text(headers, "content-encoding") {
        None | Some("identity" | "") => Ok(()),
        Some(encoding) => {
            let encoding = encoding.escape_debug();
            Err(Failed::lasting(format!("the server sends the file compressed, as {encoding}, although asked not to")))
        }
    }
}

/// The value of a `Content-Range`.
struct ContentRange {
    range: Range<u64>,
    total: u64,
}

impl ContentRange {
    fn new(headers: &HeaderMap) -> Result<Self, Failed> {
        let value = text(headers, "content-range").unwrap_or_default();
        Self::parse(value).ok_or_else(|| {
            let value = value.escape_debug();
            Failed::lasting(format!("the server sends a part of the file, but does not say which: `{value}`"))
        })
    }

    /// Parses `bytes 0-4/10`.
    fn parse(value: &str) -> Option<Self> {
        let (range, total) = value.strip_prefix("bytes")?.trim_start().split_once('/')?;
        let (first, last) = range.split_once('-')?;
        let [first, last, total] = [first, last, total].map(|number| number.trim().parse::<u64>().ok());
        let range = first?..last?.checked_add(1)?;
        let total = total?;
        (range.start < range.end && range.end <= total).then_some(Self { range, total })
    }

    /// Returns the length that stands in an answer without a range: `bytes */10`.
    fn total(headers: &HeaderMap) -> Option<u64> {
        text(headers, "content-range")?.rsplit_once('/')?.1.trim().parse().ok()
    }
}

/// Reads the body of a server that sends everything.
fn read_whole(reply: &mut Reply, limits: &Limits) -> Result<Vec<u8>, Failed> {
    let limit = limits.most_held();
    let too_long = |found| {
        let what = "the length of a file from a server that has no ranges";
        Failed::Lasting(Error::from(ErrorKind::Limit { what, found, limit }).into())
    };
    let stated = text(&reply.headers, "content-length").and_then(|len| len.parse::<u64>().ok());
    if let Some(len) = stated.filter(|len| *len > limit) {
        return Err(too_long(len));
    }
    let (mut whole, mut piece) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        match read_body(&mut reply.body, &mut piece)? {
            0 => break,
            read => whole.extend_from_slice(&piece[..read]),
        }
        if whole.len() as u64 > limit {
            return Err(too_long(whole.len() as u64));
        }
    }
    match stated {
        Some(len) if len != whole.len() as u64 => Err(cut_off(whole.len() as u64, len)),
        _ => Ok(whole),
    }
}

fn fill(body: &mut BodyReader<'static>, bytes: &mut [u8]) -> Result<(), Failed> {
    let mut filled = 0;
    while filled < bytes.len() {
        match read_body(body, &mut bytes[filled..])? {
            0 => return Err(cut_off(filled as u64, bytes.len() as u64)),
            read => filled += read,
        }
    }
    finish(body);
    Ok(())
}

/// Reads the end of a body, so that the connection can be used again.
fn finish(body: &mut BodyReader<'static>) {
    // If there is more, the connection is closed.
    let _ = read_body(body, &mut [0]);
}

fn cut_off(found: u64, expected: u64) -> Failed {
    let message = format!("the connection ended after {found} of {expected} bytes");
    Failed::Passing(io::Error::new(io::ErrorKind::UnexpectedEof, message), None)
}

impl RemoteObject for WebObject {
    fn len(&self) -> u64 {
        self.len
    }

    fn identity(&self) -> Option<String> {
        match &self.linked.sha256 {
            Some(sha256) => Some(format!("sha256:{sha256}")),
            None => Some(format!("{} {}", self.version.strong_tag()?, self.url.uri().ok()?)),
        }
    }

    fn is_streamed(&self) -> bool {
        true
    }

    fn body(self: Arc<Self>, range: Range<u64>) -> Box<dyn RangeBody> {
        Box::new(WebBody { object: self, rest: range, body: None, retries: Retries::new() })
    }
}

/// The body of an answer. A request that fails is repeated from where it stopped.
struct WebBody {
    object: Arc<WebObject>,
    rest: Range<u64>,
    body: Option<BodyReader<'static>>,
    retries: Retries,
}

impl RangeBody for WebBody {
    fn rest(&self) -> Range<u64> {
        self.rest.clone()
    }

    fn read_exact(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.try_read(&mut bytes[filled..]) {
                Ok(read) => filled += read,
                Err(failed) => {
                    self.body = None;
                    self.retries.wait(failed)?;
                }
            }
        }
        Ok(())
    }
}

impl WebBody {
    fn try_read(&mut self, bytes: &mut [u8]) -> Result<usize, Failed> {
        let body = match &mut self.body {
            Some(body) => body,
            None => self.body.insert(self.object.get_range(&self.rest)?.body),
        };
        let left = self.rest.end - self.rest.start;
        let most = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
        let read = read_body(body, &mut bytes[..most])?;
        if read == 0 {
            return Err(cut_off(0, left));
        }
        self.rest.start += read as u64;
        if self.rest.is_empty() {
            finish(body);
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_ranges_are_parsed() {
        let parse = |value| ContentRange::parse(value).map(|found| (found.range, found.total));
        assert_eq!(parse("bytes 0-4/10"), Some((0..5, 10)));
        assert_eq!(parse("bytes  5-9/10"), Some((5..10, 10)));
        for value in [
            "",
            "bytes",
            "bytes 0-4/*",
            "bytes */10",
            "0-4/10",
            "bytes 4-3/10",
            "bytes 0-10/10",
            "bytes 0-/10",
            "bytes 0-18446744073709551615/1",
            "bytes -1-4/10",
        ] {
            assert_eq!(parse(value), None, "{value}");
        }
    }

    #[test]
    fn versions_are_compared() {
        let version = |tag: &str, modified: &str| {
            let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
            ObjectVersion { tag: some(tag), modified: some(modified) }
        };
        for (one, other, expected) in [
            (version("\"a\"", "x"), version("\"a\"", "y"), None),
            (version("\"a\"", ""), version("", "x"), None),
            (
                version("W/\"a\"", ""),
                version("W/\"b\"", ""),
                Some("its entity tag was W/\\\"a\\\", and is W/\\\"b\\\""),
            ),
            (version("", "x"), version("", "y"), Some("it was modified at x, and then at y")),
        ] {
            assert_eq!(one.difference(&other).as_deref(), expected);
        }
        assert_eq!(version("\"a\"", "").strong_tag(), Some("\"a\""));
        assert_eq!(version("W/\"a\"", "").strong_tag(), None);
    }
}
