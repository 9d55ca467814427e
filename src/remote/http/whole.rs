//! An object on a web server that sends no ranges: its bytes pass once, in order.
//!
//! Its beginning is kept. Bytes after it are passed on as long as they are read forwards, so that the index of a long
//! file, or all of it in order, takes no memory. The first payload may lie before the end of the index: then the file
//! is asked for again. The next read backwards asks for it too, and from then on all bytes are held, up to
//! [`Limits::held`].

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use ureq::BodyReader;

use super::client::{Failed, Get, Reply, Retries, failed_status, get, read_body};
use super::content_range::{check_encoding, content_length};
use super::object_name::{ObjectName, changed, cut_after};
use crate::error::{Error, ErrorKind};
use crate::limits::Limits;
use crate::remote::source::{RangeBody, RemoteObject};

/// The bytes at the beginning that are kept in any case.
const KEPT: u64 = 64 << 20;

/// The most bytes to read at a time.
const PIECE: usize = 64 << 10;

/// An object that comes as a whole.
pub(super) struct WholeObject {
    name: ObjectName,
    /// Unknown until its end was seen, if the server does not say it.
    len: OnceLock<u64>,
    /// The most bytes to hold, and to look for the end of an object of unknown length.
    limit: u64,
    state: Mutex<WholeState>,
    process: u32,
    /// The object of a process made by `fork`, which shares neither the connection nor a locked state.
    of_child: OnceLock<Box<WholeObject>>,
}

struct WholeState {
    /// The bytes from the beginning on.
    held: Vec<u8>,
    /// The rest of an answer.
    body: Option<WholeAnswer>,
    /// More than the index was read.
    has_payloads: bool,
    /// The object was read backwards.
    holds_all: bool,
}

struct WholeAnswer {
    body: BodyReader<'static>,
    /// The offset of the next byte.
    position: u64,
}

impl WholeObject {
    /// An object whose first bytes were read.
    pub(super) fn new(
        name: ObjectName,
        len: Option<u64>,
        begin: Vec<u8>,
        body: BodyReader<'static>,
        limits: &Limits,
    ) -> Self {
        let position = begin.len() as u64;
        let body = Some(WholeAnswer { body, position }).filter(|rest| len.is_none_or(|len| rest.position < len));
        let state = WholeState { held: begin, body, has_payloads: false, holds_all: false };
        let len = len.map_or_else(OnceLock::new, OnceLock::from);
        Self::with_state(name, len, limits.most_held(), state)
    }

    fn with_state(name: ObjectName, len: OnceLock<u64>, limit: u64, state: WholeState) -> Self {
        Self { name, len, limit, state: Mutex::new(state), process: std::process::id(), of_child: OnceLock::new() }
    }

    /// Returns the object of this process.
    fn here(&self) -> &Self {
        if self.process == std::process::id() {
            return self;
        }
        let child = self.of_child.get_or_init(|| {
            let state = WholeState { held: Vec::new(), body: None, has_payloads: false, holds_all: false };
            Box::new(Self::with_state(self.name.clone(), self.len.clone(), self.limit, state))
        });
        // A child process may have forked, too.
        child.here()
    }

    fn state(&self) -> MutexGuard<'_, WholeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for the object again.
    fn ask(&self) -> Result<WholeAnswer, Failed> {
        let ObjectName { url, token, .. } = &self.name;
        let get = get(&Get { url, range: None, if_match: None, token: token.as_deref(), is_public: false });
        let Reply { status, headers, body, linked, .. } = get?;
        if status.as_u16() != 200 {
            return Err(failed_status(status, &headers));
        }
        check_encoding(&headers)?;
        if let Some(what) = self.name.difference(&headers, &linked) {
            return Err(changed(what));
        }
        match (self.len.get(), content_length(&headers)) {
            (Some(len), Some(now)) if *len != now => Err(changed(format!("its length was {len} bytes, and is {now}"))),
            _ => Ok(WholeAnswer { body, position: 0 }),
        }
    }

    /// Reads the next bytes of the object into `bytes`, and holds them if they are to be. Returns their number: 0 at
    /// its end.
    fn read_next(&self, state: &mut WholeState, bytes: &mut [u8]) -> Result<usize, Failed> {
        let WholeState { held, body, holds_all, .. } = state;
        let rest = match body {
            Some(rest) => rest,
            None => body.insert(self.ask()?),
        };
        let read = match read_body(&mut rest.body, bytes) {
            Ok(read) => read,
            Err(error) => return Err(cut_after(error, rest.position, self.len.get().copied())),
        };
        let start = rest.position;
        rest.position = start.saturating_add(read as u64);
        let bytes = bytes.get(..read).unwrap_or_default();
        match self.len.get() {
            Some(len) if read == 0 && start < *len => return Err(Failed::cut_off(start, *len)),
            Some(len) if rest.position > *len => return Err(changed_length(*len, rest.position)),
            None if read == 0 => {
                // Nobody else sets it while the state is locked.
                let _ = self.len.set(start);
            }
            None if rest.position > self.limit => return Err(self.too_long(rest.position)),
            _ => {}
        }
        let known = usize::try_from(start).ok().and_then(|start| held.get(start..)).unwrap_or_default();
        let known = known.get(..read).unwrap_or(known);
        if !bytes.starts_with(known) {
            return Err(changed("its first bytes are others".to_owned()));
        }
        let (new, end) = (bytes.get(known.len()..).unwrap_or_default(), held.len() as u64);
        if start.saturating_add(known.len() as u64) == end && (*holds_all || rest.position <= KEPT.min(self.limit)) {
            if *holds_all && rest.position > self.limit {
                return Err(self.too_long(self.len.get().copied().unwrap_or(rest.position)));
            }
            let no_memory = |_| Failed::Lasting(Error::from(ErrorKind::OutOfMemory { bytes: rest.position }).into());
            held.try_reserve(new.len()).map_err(no_memory)?;
            held.extend_from_slice(new);
        }
        Ok(read)
    }

    fn too_long(&self, found: u64) -> Failed {
        Failed::Lasting(Error::from(ErrorKind::Limit { what: crate::error::HELD, found, limit: self.limit }).into())
    }

    /// Reads some bytes at an offset, which lie inside of the object.
    fn try_read_at(
        &self,
        state: &mut WholeState,
        offset: u64,
        bytes: &mut [u8],
        is_index: bool,
    ) -> Result<usize, Failed> {
        let held = usize::try_from(offset).ok().and_then(|offset| state.held.get(offset..)).unwrap_or_default();
        if !held.is_empty() {
            let len = held.len().min(bytes.len());
            bytes[..len].copy_from_slice(&held[..len]);
            return Ok(len);
        }
        if let Some(rest) = &state.body
            && rest.position > offset
        {
            state.body = None;
            state.holds_all |= is_index || state.has_payloads;
        }
        state.has_payloads |= !is_index;
        let mut piece = vec![0; PIECE];
        loop {
            let position = state.body.as_ref().map_or(0, |rest| rest.position);
            let skipped = match offset.checked_sub(position) {
                Some(0) => break,
                Some(before) => usize::try_from(before).unwrap_or(PIECE).min(PIECE),
                // It was skipped and not held.
                None => return Err(Failed::lasting("the server sends the file, but not in order")),
            };
            if self.read_next(state, &mut piece[..skipped])? == 0 {
                return Err(Failed::cut_off(position, offset));
            }
        }
        match self.read_next(state, bytes)? {
            0 => Err(Failed::cut_off(offset, offset.saturating_add(bytes.len() as u64))),
            read => Ok(read),
        }
    }

    fn read_at(&self, mut offset: u64, mut bytes: &mut [u8], is_index: bool) -> io::Result<()> {
        let (mut state, mut retries) = (self.state(), Retries::new());
        while !bytes.is_empty() {
            match self.try_read_at(&mut state, offset, bytes, is_index) {
                Ok(read) => {
                    offset += read as u64;
                    bytes = &mut bytes[read..];
                }
                Err(failed) => {
                    state.body = None;
                    retries.wait(failed)?;
                }
            }
        }
        Ok(())
    }
}

fn changed_length(before: u64, now: u64) -> Failed {
    changed(format!("its length was {before} bytes, and is {now} or more"))
}

impl RemoteObject for WholeObject {
    fn len(&self) -> io::Result<u64> {
        let this = self.here();
        let (mut state, mut retries) = (this.state(), Retries::new());
        let mut piece = vec![0; PIECE];
        loop {
            if let Some(len) = this.len.get() {
                return Ok(*len);
            }
            if let Err(failed) = this.read_next(&mut state, &mut piece) {
                state.body = None;
                retries.wait(failed)?;
            }
        }
    }

    fn known_len(&self) -> Option<u64> {
        self.here().len.get().copied()
    }

    fn has_ranges(&self) -> bool {
        false
    }

    fn identity(&self) -> Option<String> {
        self.name.identity()
    }

    fn is_streamed(&self) -> bool {
        true
    }

    fn body(self: Arc<Self>, range: Range<u64>) -> Box<dyn RangeBody> {
        Box::new(WholeBody { object: self, rest: range, is_index: false })
    }

    fn index_body(self: Arc<Self>, range: Range<u64>) -> Box<dyn RangeBody> {
        Box::new(WholeBody { object: self, rest: range, is_index: true })
    }
}

/// The bytes of a range.
struct WholeBody {
    object: Arc<WholeObject>,
    rest: Range<u64>,
    is_index: bool,
}

impl RangeBody for WholeBody {
    fn rest(&self) -> Range<u64> {
        self.rest.clone()
    }

    fn read_exact(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.object.here().read_at(self.rest.start, bytes, self.is_index)?;
        self.rest.start += bytes.len() as u64;
        Ok(())
    }
}
