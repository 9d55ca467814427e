//! An object on a web server that sends ranges: its length and version, and requests for ranges of it.
//!
//! Every answer is compared with the answer on opening. An object that is replaced in the meantime is
//! [`ErrorKind::SourceChanged`](crate::ErrorKind::SourceChanged), never a mix of two.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ureq::BodyReader;

use super::client::{Failed, Get, Linked, Reply, Retries, failed_status, get, read_body};
use super::content_range::{ContentRange, check_encoding, check_length, content_length, is_framed};
use super::object_name::{ObjectName, changed, cut_after, version_of};
use super::url::WebUrl;
use super::whole::WholeObject;
use crate::limits::Limits;
use crate::remote::source::{RangeBody, RemoteObject};

/// The number of bytes of the first request, which also finds out the length.
const FIRST: u64 = 64 << 10;

/// More bytes than any file has, and a number that all servers can read.
const BEHIND: u64 = (1 << 53) - 2;

/// An object on a web server.
pub(super) struct WebObject {
    name: ObjectName,
    len: u64,
    place: Mutex<ObjectPlace>,
    /// The server does not know the tag that it sends.
    refuses_tag: AtomicBool,
}

/// The target of redirects. A signature in its URL expires.
#[derive(Clone)]
struct ObjectPlace {
    url: WebUrl,
    is_public: bool,
    /// How often it was looked up.
    lookups: u32,
}

/// An opened object, and the bytes at its beginning.
pub(super) struct Opened {
    pub(super) object: Arc<dyn RemoteObject>,
    /// All bytes of an object of up to [`FIRST`] bytes.
    pub(super) begin: Vec<u8>,
    pub(super) linked: Linked,
}

/// Opens an object with one request, or a few if the server does not say how long it is.
pub(super) fn open(url: &WebUrl, token: Option<&str>, limits: &Limits) -> io::Result<Opened> {
    let mut retries = Retries::new();
    loop {
        match try_open(url, token, limits) {
            Ok(opened) => return Ok(opened),
            // On opening, a refused connection means a wrong URL. Later it could be a server that restarts.
            Err(Failed::Passing(error, _)) if error.kind() == io::ErrorKind::ConnectionRefused => return Err(error),
            Err(failed) => retries.wait(failed)?,
        }
    }
}

fn try_open(url: &WebUrl, token: Option<&str>, limits: &Limits) -> Result<Opened, Failed> {
    let range = Some((0, FIRST - 1));
    let mut reply = get(&Get { url, range, if_match: None, token, is_public: false })?;
    let found = |reply: &Reply| ObjectName {
        url: url.clone(),
        token: token.map(str::to_owned),
        version: version_of(&reply.headers),
        linked: reply.linked.clone(),
    };
    let (len, begin) = match reply.status.as_u16() {
        206 => {
            check_encoding(&reply.headers)?;
            let found = ContentRange::new(&reply.headers)?;
            // Where the length is unknown, this may be all.
            found.check(&(0..found.total.unwrap_or(found.range.end).min(FIRST)))?;
            check_length(&reply.headers, &found.range)?;
            let mut begin = vec![0; usize::try_from(found.range.end).unwrap_or(usize::MAX)];
            fill(&mut reply, &mut begin)?;
            (found.total, begin)
        }
        200 => {
            check_encoding(&reply.headers)?;
            return open_whole(found(&reply), reply, limits);
        }
        416 if ContentRange::total(&reply.headers) == Some(0) => (Some(0), Vec::new()),
        _ => return Err(failed_status(reply.status, &reply.headers)),
    };
    let name = found(&reply);
    let place = ObjectPlace { url: reply.url, is_public: reply.is_public, lookups: 0 };
    let mut object =
        WebObject { name, len: len.unwrap_or(0), place: Mutex::new(place), refuses_tag: AtomicBool::new(false) };
    if len.is_none() {
        object.len = object.measure(begin.len() as u64)?;
    }
    let linked = object.name.linked.clone();
    Ok(Opened { object: Arc::new(object), begin, linked })
}

/// Opens an object whose server sends all of it, and looks at its beginning.
fn open_whole(name: ObjectName, mut reply: Reply, limits: &Limits) -> Result<Opened, Failed> {
    let stated = content_length(&reply.headers);
    let most = stated.map_or(FIRST, |len| len.min(FIRST));
    let mut begin = vec![0; usize::try_from(most).unwrap_or(usize::MAX)];
    let mut filled = 0;
    let mut is_ended = false;
    while filled < begin.len() && !is_ended {
        match read_body(&mut reply.body, &mut begin[filled..]) {
            Ok(0) => is_ended = true,
            Ok(read) => filled += read,
            Err(error) => return Err(cut_after(error, filled as u64, stated)),
        }
    }
    begin.truncate(filled);
    if stated == Some(filled as u64) {
        finish(&mut reply.body);
    }
    let len = match stated {
        Some(len) if is_ended => return Err(Failed::cut_off(filled as u64, len)),
        Some(len) => Some(len),
        None => is_ended.then_some(filled as u64),
    };
    let linked = name.linked.clone();
    let object = WholeObject::new(name, len, begin.clone(), reply.body, limits);
    Ok(Opened { object: Arc::new(object), begin, linked })
}

impl WebObject {
    /// Returns the length of an object whose server does not say it with a part, of which the part before `known` is
    /// here.
    fn measure(&self, known: u64) -> Result<u64, Failed> {
        let ask = |range: Range<u64>| {
            let reply = self.ask(&range, None)?;
            match self.name.difference(&reply.headers, &reply.linked).filter(|_| reply.status.is_success()) {
                Some(what) => Err(changed(what)),
                None => Ok(reply),
            }
        };
        let reply = ask(known..BEHIND + 1)?;
        let len = match reply.status.as_u16() {
            206 => {
                let found = ContentRange::new(&reply.headers)?;
                if found.range.start != known {
                    return Err(unknown_length());
                }
                match found.total {
                    Some(total) => return Ok(total),
                    // All of the rest, or a part of it.
                    None => found.range.end,
                }
            }
            416 => return Ok(ContentRange::total(&reply.headers).unwrap_or(known)),
            _ => return Err(failed_status(reply.status, &reply.headers)),
        };
        drop(reply);
        let reply = ask(len..len + 1)?;
        match reply.status.as_u16() {
            416 if ContentRange::total(&reply.headers).is_none_or(|total| total == len) => Ok(len),
            206 if ContentRange::new(&reply.headers).is_err() => Ok(len),
            _ => Err(unknown_length()),
        }
    }

    /// Asks for a range that is not empty, and again at the first URL if the place does not know it any more.
    fn ask(&self, range: &Range<u64>, if_match: Option<&[u8]>) -> Result<Reply, Failed> {
        let name = &self.name;
        let get_at = |url: &WebUrl, is_public| {
            let token = name.token.as_deref().filter(|_| url.has_origin_of(&name.url));
            get(&Get { url, range: Some((range.start, range.end - 1)), if_match, token, is_public })
        };
        let lock = || self.place.lock().unwrap_or_else(PoisonError::into_inner);
        let place = lock().clone();
        let reply = get_at(&place.url, place.is_public)?;
        // Stores differ in what they answer to a signature that expired.
        if place.url == name.url || !matches!(reply.status.as_u16(), 400 | 401 | 403 | 404 | 410) {
            return Ok(reply);
        }
        // One thread looks for the place again.
        let mut now = lock();
        if now.lookups != place.lookups {
            let place = now.clone();
            drop(now);
            return get_at(&place.url, place.is_public);
        }
        let reply = get_at(&name.url, false)?;
        *now = ObjectPlace { url: reply.url.clone(), is_public: reply.is_public, lookups: place.lookups + 1 };
        Ok(reply)
    }

    /// Asks for a range that is not empty. Returns the answer, and the end of its bytes: the server may send less.
    fn get_range(&self, range: &Range<u64>) -> Result<(Reply, u64), Failed> {
        let tag = self.name.version.strong_tag().filter(|_| !self.refuses_tag.load(Ordering::Relaxed));
        let reply = self.ask(range, tag)?;
        if reply.status.as_u16() != 412 || tag.is_none() {
            return self.check(reply, range);
        }
        // Either the file changed, or the server compares the tag of another encoding. The headers say which.
        drop(reply);
        let checked = self.check(self.ask(range, None)?, range)?;
        self.refuses_tag.store(true, Ordering::Relaxed);
        Ok(checked)
    }

    /// Compares an answer with the question and with the object. Returns the end of its bytes too.
    fn check(&self, reply: Reply, range: &Range<u64>) -> Result<(Reply, u64), Failed> {
        let status = reply.status.as_u16();
        let is_success = reply.status.is_success();
        if let Some(what) = self.name.difference(&reply.headers, &reply.linked).filter(|_| is_success) {
            return Err(changed(what));
        }
        match status {
            206 => {
                check_encoding(&reply.headers)?;
                let found = ContentRange::new(&reply.headers)?;
                if let Some(total) = found.total.filter(|total| *total != self.len) {
                    return Err(self.changed_length(total));
                }
                found.check(range)?;
                check_length(&reply.headers, &found.range)?;
                Ok((reply, found.range.end))
            }
            200 if *range == (0..self.len) => {
                check_encoding(&reply.headers)?;
                check_length(&reply.headers, range)?;
                Ok((reply, range.end))
            }
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

    fn changed_length(&self, now: u64) -> Failed {
        changed(format!("its length was {} bytes, and is {now}", self.len))
    }
}

fn unknown_length() -> Failed {
    Failed::lasting("the server sends parts of the file, but does not say how long it is")
}

fn fill(reply: &mut Reply, bytes: &mut [u8]) -> Result<(), Failed> {
    let (mut filled, len) = (0, bytes.len() as u64);
    while filled < bytes.len() {
        match read_body(&mut reply.body, &mut bytes[filled..]) {
            Ok(0) => return Err(Failed::cut_off(filled as u64, len)),
            Ok(read) => filled += read,
            Err(error) => return Err(cut_after(error, filled as u64, Some(len))),
        }
    }
    if is_framed(&reply.headers) {
        finish(&mut reply.body);
    }
    Ok(())
}

/// Reads the end of a body, so that the connection can be used again. A body whose end is that of the connection would
/// be waited for.
fn finish(body: &mut BodyReader<'static>) {
    // If there is more, the connection is closed.
    let _ = read_body(body, &mut [0]);
}

impl RemoteObject for WebObject {
    fn len(&self) -> io::Result<u64> {
        Ok(self.len)
    }

    fn identity(&self) -> Option<String> {
        self.name.identity()
    }

    fn is_streamed(&self) -> bool {
        true
    }

    fn body(self: Arc<Self>, range: Range<u64>) -> Box<dyn RangeBody> {
        Box::new(WebBody { object: self, rest: range, part: None, retries: Retries::new() })
    }
}

/// The bytes of a range. A request that fails is repeated from where it stopped.
struct WebBody {
    object: Arc<WebObject>,
    rest: Range<u64>,
    part: Option<BodyPart>,
    retries: Retries,
}

/// The body of an answer.
struct BodyPart {
    body: BodyReader<'static>,
    start: u64,
    end: u64,
    is_framed: bool,
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
                    self.part = None;
                    self.retries.wait(failed)?;
                }
            }
        }
        Ok(())
    }
}

impl WebBody {
    fn try_read(&mut self, bytes: &mut [u8]) -> Result<usize, Failed> {
        let part = match &mut self.part {
            Some(part) => part,
            None => {
                let (reply, end) = self.object.get_range(&self.rest)?;
                let is_framed = is_framed(&reply.headers);
                self.part.insert(BodyPart { body: reply.body, start: self.rest.start, end, is_framed })
            }
        };
        let left = part.end - self.rest.start;
        let most = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
        let (found, expected) = (self.rest.start - part.start, part.end - part.start);
        let read = match read_body(&mut part.body, &mut bytes[..most]) {
            Ok(0) => return Err(Failed::cut_off(found, expected)),
            Ok(read) => read,
            Err(error) => return Err(cut_after(error, found, Some(expected))),
        };
        self.rest.start += read as u64;
        if self.rest.start == part.end {
            if part.is_framed {
                finish(&mut part.body);
            }
            self.part = None;
        }
        Ok(read)
    }
}
