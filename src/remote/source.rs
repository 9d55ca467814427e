//! A remote object as a source of ranges: spans at once, and an index read ahead and kept.

use std::borrow::Cow;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::header_blocks::HeaderBlocks;
use crate::error::Error;
use crate::fetch::{Merging, Span, merge_and_cut};
use crate::storage::{AccessPattern, ReadRanges};
use crate::threads::at_once;

/// An object on a server.
pub(super) trait RemoteObject: Send + Sync {
    /// Returns the length in bytes, which may have to be found out.
    fn len(&self) -> io::Result<u64>;

    /// Returns the length, if it is known already.
    fn known_len(&self) -> Option<u64> {
        self.len().ok()
    }

    /// Returns whether bytes are read at any offset. Otherwise they pass once, in order.
    fn has_ranges(&self) -> bool {
        true
    }

    /// Returns text that is equal only for objects of equal bytes: it may have secrets.
    fn identity(&self) -> Option<String>;

    /// Returns whether a body of any length is one request.
    fn is_streamed(&self) -> bool;

    /// Begins to read a range that is not empty.
    fn body(self: Arc<Self>, range: Range<u64>) -> Box<dyn RangeBody>;

    /// Begins to read a part of an index, which is not empty.
    fn index_body(self: Arc<Self>, range: Range<u64>) -> Box<dyn RangeBody> {
        self.body(range)
    }
}

/// The bytes of a range, read in order.
pub(super) trait RangeBody: Send {
    /// Returns the bytes that were not read yet.
    fn rest(&self) -> Range<u64>;

    /// Fills `bytes`, which are no more than the rest.
    fn read_exact(&mut self, bytes: &mut [u8]) -> io::Result<()>;
}

/// Passes over bytes up to an offset, which is no later than the end.
fn skip_to(body: &mut dyn RangeBody, offset: u64) -> io::Result<()> {
    let mut piece = [0; 16 << 10];
    while body.rest().start < offset {
        let left = usize::try_from(offset - body.rest().start).unwrap_or(usize::MAX);
        body.read_exact(&mut piece[..left.min(16 << 10)])?;
    }
    Ok(())
}

/// A remote object that is read as a file: its index is read ahead and kept, and several spans at once.
pub(crate) struct RemoteSource {
    object: Arc<dyn RemoteObject>,
    /// The name for messages.
    name: String,
    headers: Mutex<HeaderBlocks>,
    /// A body that goes on while an index is read.
    ahead: Mutex<Option<Box<dyn RangeBody>>>,
}

/// The number of bytes to read where a header may be.
const HEADER: u64 = 1 << 10;

/// The number of bytes to read at a new place of an index.
const PLACE: u64 = 16 << 10;

/// The fewest and the most bytes to read at the end of the file, where some formats have their index, and the share of
/// the file. An index that begins before them takes one more request.
const TAIL: (u64, u64, u64) = (1 << 20, 4 << 20, 256);

/// A read that ends this near to the end of the file is taken for one of an index there.
const END: u64 = 64 << 10;

/// The longest gap to read through for the next header, if only this one is known.
const HEADER_GAP: u64 = 128 << 10;

/// The most bytes to ask for ahead. They are read as they are needed.
const AHEAD: u64 = 64 << 20;

/// A read of an index up to this length may be followed by others.
const SHORT: usize = 512;

/// For headers at many known offsets. Many requests at once take less time than one after the other.
const HEADERS: Merging = Merging { gap: 32 << 10, over_read: 1, longest: 8 << 20, in_flight: 32 };

impl RemoteSource {
    /// A source over an object whose first bytes are known; `name` is for messages.
    pub(super) fn new(object: Arc<dyn RemoteObject>, begin: Vec<u8>, name: String) -> Self {
        let mut headers = HeaderBlocks::default();
        headers.insert(0, begin);
        Self { object, name, headers: Mutex::new(headers), ahead: Mutex::default() }
    }

    /// Returns a reader of everything in order, which asks for the rest with one request. `None` if nothing is left, or
    /// the server is asked for a piece at a time.
    pub(crate) fn stream(&self) -> Option<impl Read + use<>> {
        let mut headers = self.headers();
        let (known, len) = (headers.missing_from(0), self.object.len().ok()?);
        if known >= len || !self.object.is_streamed() {
            return None;
        }
        let mut begin = vec![0; usize::try_from(known).ok()?];
        headers.copy(0, &mut begin);
        Some(io::Cursor::new(begin).chain(BodyReader(Arc::clone(&self.object).body(known..len))))
    }

    /// Returns the first bytes of an object, before its length or a limit for it is known.
    pub(crate) fn begin_of_endless(&self) -> Option<Vec<u8>> {
        if self.object.known_len().is_some() {
            return None;
        }
        let mut headers = self.headers();
        let mut begin = vec![0; usize::try_from(headers.missing_from(0)).ok()?];
        headers.copy(0, &mut begin);
        Some(begin)
    }

    fn headers(&self) -> MutexGuard<'_, HeaderBlocks> {
        self.headers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ahead(&self) -> MutexGuard<'_, Option<Box<dyn RangeBody>>> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the bytes of an index at `missing`. A read needs the ones before `end`.
    fn read_ahead(&self, missing: u64, end: u64) -> io::Result<()> {
        let len = self.object.len()?;
        let tail = len.saturating_sub((len / TAIL.2).clamp(TAIL.0, TAIL.1));
        let is_in_tail = missing >= tail && len.saturating_sub(end) <= END;
        let mut ahead = self.ahead();
        let goes_on = |body: &dyn RangeBody| {
            let rest = body.rest();
            rest.start <= missing && missing - rest.start <= HEADER_GAP && end <= rest.end
        };
        if ahead.as_ref().is_none_or(|body| !goes_on(&**body)) {
            *ahead = None;
            let headers = self.headers();
            let (before, next) = (headers.end_before(missing), headers.next_after(missing));
            drop(headers);
            let len = next.map_or(len, |next| next.min(len));
            let is_near = before.is_some_and(|before| missing - before <= HEADER_GAP);
            let end = if end - missing > SHORT as u64 {
                // The file states the length of a long read, and may lie.
                end.min(len)
            } else if is_in_tail {
                len
            } else if is_near {
                missing.saturating_add(AHEAD).min(len)
            } else {
                missing.saturating_add(PLACE).min(len)
            };
            // Directories are read from their end.
            let start = if is_in_tail { before.unwrap_or_default().max(tail) } else { missing };
            *ahead = Some(Arc::clone(&self.object).index_body(start..end));
        }
        let body = ahead.as_mut().expect("it was just made");
        // Bytes after the next block are there already.
        let end = end.min(body.rest().end);
        while body.rest().start < end {
            let rest = body.rest();
            let mut piece = vec![0; usize::try_from(rest.end - rest.start).unwrap_or(usize::MAX).min(64 << 10)];
            body.read_exact(&mut piece)?;
            self.headers().insert(rest.start, piece);
        }
        if body.rest().is_empty() {
            *ahead = None;
        }
        Ok(())
    }

    /// Reads spans, several at once.
    fn read_spans(&self, ranges: &mut [(u64, &mut [u8])], merging: &Merging) -> io::Result<()> {
        let asked: Vec<Range<u64>> =
            ranges.iter().map(|(start, bytes)| *start..start.saturating_add(bytes.len() as u64)).collect();
        let spans = merge_and_cut(&asked, merging);
        // Each span gets the parts of the destinations that it fills.
        let mut jobs: Vec<SpanJob<'_>> = Vec::with_capacity(spans.len());
        let mut rest = ranges.iter_mut().map(|(start, bytes)| (*start, &mut **bytes)).peekable();
        for Span { range, .. } in spans {
            let mut parts = Vec::new();
            while let Some(part) = rest.next_if(|(start, _)| *start < range.end) {
                parts.push(part);
            }
            jobs.push((range, parts));
        }
        cut_parts(&mut jobs);
        let in_flight = if self.object.has_ranges() { merging.in_flight } else { 1 };
        self.run(jobs, in_flight)
    }

    /// Reads spans into their parts, several at once.
    fn run(&self, jobs: Vec<SpanJob<'_>>, in_flight: usize) -> io::Result<()> {
        let (count, stops) = (jobs.len(), AtomicBool::new(false));
        let jobs: Vec<Mutex<Option<SpanJob<'_>>>> = jobs.into_iter().map(|job| Mutex::new(Some(job))).collect();
        at_once(count, in_flight, &|number| {
            let (range, parts) =
                jobs[number].lock().expect("no thread panics with it").take().expect("it is taken once");
            self.read_span(range, parts, &stops).inspect_err(|_| stops.store(true, Ordering::Relaxed))
        })
    }

    /// Reads a span. An error has the offset where it stopped, which says which of the parts it is about.
    fn read_span(&self, range: Range<u64>, parts: Vec<(u64, &mut [u8])>, stops: &AtomicBool) -> io::Result<()> {
        let mut body = Arc::clone(&self.object).body(range);
        let read = || {
            for (start, bytes) in parts {
                skip_to(&mut *body, start)?;
                for piece in bytes.chunks_mut(256 << 10) {
                    if stops.load(Ordering::Relaxed) {
                        // Another span failed, and its error is the one that counts.
                        return Ok(());
                    }
                    body.read_exact(piece)?;
                }
            }
            Ok(())
        };
        let read: io::Result<()> = read();
        read.map_err(|error| Error::from(error).at(body.rest().start).into())
    }
}

/// Reads a body to its end.
struct BodyReader(Box<dyn RangeBody>);

impl Read for BodyReader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let rest = self.0.rest();
        let now = usize::try_from(rest.end - rest.start).unwrap_or(usize::MAX).min(bytes.len());
        self.0.read_exact(&mut bytes[..now]).map(|()| now)
    }
}

/// A span, and the destinations of its bytes.
type SpanJob<'a> = (Range<u64>, Vec<(u64, &'a mut [u8])>);

/// Moves the ends of parts that reach over a span into the next one.
fn cut_parts(jobs: &mut [SpanJob<'_>]) {
    for number in 0..jobs.len() {
        let end = jobs[number].0.end;
        let parts = &mut jobs[number].1;
        let Some((start, bytes)) = parts.pop_if(|(start, bytes)| *start + bytes.len() as u64 > end) else { continue };
        let (own, after) = bytes.split_at_mut(usize::try_from(end - start).unwrap_or(usize::MAX));
        parts.push((start, own));
        if let Some((_, next)) = jobs.get_mut(number + 1) {
            next.insert(0, (end, after));
        }
    }
}

impl ReadRanges for RemoteSource {
    fn len(&self) -> io::Result<u64> {
        self.object.len()
    }

    fn is_sequential(&self) -> bool {
        !self.object.has_ranges()
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.read_many(&mut [(offset, bytes)])
    }

    fn read_many(&self, ranges: &mut [(u64, &mut [u8])]) -> io::Result<()> {
        // The index is read.
        *self.ahead() = None;
        let mut missing: Vec<(u64, &mut [u8])> = Vec::with_capacity(ranges.len());
        let mut headers = self.headers();
        for (start, bytes) in ranges {
            let known = headers.copy(*start, bytes);
            if known < bytes.len() {
                missing.push((*start + known as u64, &mut bytes[known..]));
            }
        }
        drop(headers);
        self.read_spans(&mut missing, &Merging::REMOTE)
    }

    fn read_index_at(&self, offset: u64, bytes: &mut [u8]) -> Option<io::Result<()>> {
        let end = offset.saturating_add(bytes.len() as u64);
        loop {
            let known = self.headers().copy(offset, bytes);
            if known == bytes.len() {
                return Some(Ok(()));
            }
            if let Err(error) = self.read_ahead(offset + known as u64, end) {
                return Some(Err(error));
            }
        }
    }

    fn will_read(&self, offsets: &[u64]) {
        // A body that goes on is not waited for any more.
        *self.ahead() = None;
        // Other headers between them would be passed over.
        let Some(len) = self.object.known_len().filter(|_| self.object.has_ranges()) else { return };
        let headers = self.headers();
        let mut ranges: Vec<Range<u64>> = offsets
            .iter()
            .map(|offset| headers.missing_from(*offset)..offset.saturating_add(HEADER).min(len))
            .filter(|range| range.start < range.end)
            .collect();
        drop(headers);
        ranges.sort_unstable_by_key(|range| range.start);
        let spans = merge_and_cut(&ranges, &HEADERS);
        let mut bytes: Vec<Vec<u8>> = Vec::new();
        for Span { range, .. } in &spans {
            bytes.push(vec![0; usize::try_from(range.end - range.start).unwrap_or_default()]);
        }
        let parts = spans
            .iter()
            .zip(&mut bytes)
            .map(|(span, bytes)| (span.range.clone(), vec![(span.range.start, &mut bytes[..])]));
        // An error is found again where the bytes are asked for.
        if self.run(parts.collect(), HEADERS.in_flight).is_ok() {
            let mut headers = self.headers();
            spans.into_iter().zip(bytes).for_each(|(span, bytes)| headers.insert(span.range.start, bytes));
        }
    }

    fn will_be_read(&self, access: AccessPattern) {
        if access == AccessPattern::InOrder {
            // A body of the index that goes on is not waited for any more.
            *self.ahead() = None;
        }
    }

    fn identity(&self) -> Option<Cow<'_, str>> {
        self.object.identity().map(Cow::Owned)
    }

    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.name)
    }
}
