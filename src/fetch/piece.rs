//! A tensor, or a part of one, to be read into memory: the places of its bytes, and their decoding.

use std::borrow::Cow;
use std::ops::Range;

use super::merge::Merging;
use super::slice::{Run, Runs, TensorSlice};
use crate::error::{Error, Result};
use crate::read::{Entry, check_sum, check_sum_after};
use crate::storage::{FileReader, FileStorage, Wanted};
use crate::tensor::{InvalidTensor, Layout, TensorInfo};

/// A tensor, or a part of one, in row-major order and with little-endian elements. Sparse tensors, blobs and elements
/// of unknown dtype stay as stored.
#[derive(Debug, Clone)]
pub(crate) struct ReadPiece<'f> {
    entry: Entry<'f>,
    /// The dtype and the shape of the piece.
    info: Cow<'f, TensorInfo>,
    elements: PieceElements<'f>,
    /// Whether the piece is all of the tensor, so that a checksum can be compared.
    is_whole: bool,
}

/// The elements of a piece in the payload of its tensor.
#[derive(Debug, Clone)]
enum PieceElements<'f> {
    /// The elements from an offset on, in one run.
    Run(usize),
    Runs(TensorSlice<'f>),
}

impl<'f> PieceElements<'f> {
    fn from_part(part: TensorSlice<'f>) -> Self {
        match part.runs().single() {
            Some(run) => Self::Run(run.from),
            None => Self::Runs(part),
        }
    }
}

/// The length of a part of a piece that a thread reads.
const CUT: usize = 8 << 20;

impl<'f> ReadPiece<'f> {
    pub(crate) fn whole(entry: Entry<'f>) -> Result<Self> {
        let info = entry.info();
        if !matches!(info.layout, Layout::DimOrder(_)) {
            return Ok(Self { entry, info: Cow::Borrowed(info), elements: PieceElements::Run(0), is_whole: true });
        }
        Ok(Self { is_whole: true, ..Self::with_elements(entry, TensorSlice::whole(info)?) })
    }

    /// A part of a tensor, given by a range for each dim.
    pub(crate) fn part(entry: Entry<'f>, ranges: Cow<'f, [Range<usize>]>) -> Result<Self> {
        entry.check_known()?;
        let piece = Self::with_elements(entry, TensorSlice::new(entry.info(), ranges)?);
        // A tensor decoded to its end is checked there. Otherwise, a checksum would not be compared.
        if entry.has_codec() && piece.info.shape == entry.info().shape { Self::whole(entry) } else { Ok(piece) }
    }

    fn with_elements(entry: Entry<'f>, part: TensorSlice<'f>) -> Self {
        let info = Cow::Owned(TensorInfo::new(entry.info().dtype, part.shape()));
        Self { entry, info, elements: PieceElements::from_part(part), is_whole: false }
    }

    pub(crate) fn info(&self) -> &TensorInfo {
        &self.info
    }

    /// Returns whether the piece is all of its tensor.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Returns the length in memory. `None` if memory cannot have it.
    pub(crate) fn bytes(&self) -> Option<usize> {
        if self.is_whole { usize::try_from(self.entry.payload_bytes()).ok() } else { self.info.payload_bytes() }
    }

    /// Returns whether the stored bytes have to be read in order, because they are compressed, have gaps, or have a
    /// checksum in another order than that of the piece.
    pub(super) fn is_decoded(&self) -> bool {
        self.entry.codec().is_some_and(|codec| codec.moves_elements())
            || self.is_whole && self.entry.has_checksum() && matches!(self.elements, PieceElements::Runs(_))
    }

    /// Returns the offset of the first byte to read.
    fn start(&self) -> u64 {
        let first = match &self.elements {
            _ if self.is_decoded() => 0,
            PieceElements::Run(from) => *from,
            PieceElements::Runs(part) => part.runs().first().map_or(0, |run| run.from),
        };
        self.entry.start().saturating_add(first as u64)
    }

    /// Calls `each` with the ranges of the file that are read, in order.
    pub(crate) fn spans(&self, storage: &FileStorage, each: &mut dyn FnMut(Range<u64>)) {
        let start = self.entry.start();
        if let Some(gather) = storage.gathered(start) {
            let (whole, bytes) = (self.entry.payload_bytes(), self.bytes().unwrap_or_default());
            return match &self.elements {
                _ if self.is_decoded() => {
                    gather.spans(storage, Wanted::From(0), usize::try_from(whole).unwrap_or(usize::MAX), each);
                }
                PieceElements::Run(from) => gather.spans(storage, Wanted::From(*from as u64), bytes, each),
                PieceElements::Runs(part) => gather.spans(storage, Wanted::Box(part.ranges()), bytes, each),
            };
        }
        let merging = merging(storage, start);
        let range =
            |range: Range<usize>| start.saturating_add(range.start as u64)..start.saturating_add(range.end as u64);
        match &self.elements {
            _ if self.is_whole && (self.is_decoded() || self.entry.has_checksum()) => {
                each(self.entry.needed_from()..self.entry.range().end);
            }
            // A part is decoded from the start on, up to an offset that only decoding finds.
            _ if self.is_decoded() => each(self.entry.range()),
            PieceElements::Run(from) => each(range(*from..from.saturating_add(self.bytes().unwrap_or_default()))),
            PieceElements::Runs(part) => part.spans(&merging).for_each(|(span, _)| each(range(span))),
        }
    }

    /// Returns the piece as one job, if no second thread helps.
    pub(super) fn single_job(&self) -> Option<Job<'_>> {
        let needs_all = self.is_decoded()
            || self.is_whole && (self.entry.has_checksum() || matches!(self.info.layout, Layout::Coo { .. }));
        let bytes = self.bytes().unwrap_or_default();
        let is_single = needs_all || bytes < 2 * CUT;
        is_single.then(|| Job { start: self.start(), within: 0..bytes, piece: JobPiece::All(self) })
    }

    /// Calls `each` with the parts of the piece that can be read by different threads, in order.
    pub(super) fn jobs<'p>(&'p self, each: &mut dyn FnMut(Job<'p>)) {
        if let Some(job) = self.single_job() {
            return each(job);
        }
        let bytes = self.bytes().unwrap_or_default();
        let part = |within, elements| {
            let piece = Box::new(Self { elements, is_whole: false, ..self.clone() });
            Job { start: piece.start(), within, piece: JobPiece::Part(piece) }
        };
        match &self.elements {
            PieceElements::Run(from) => (0..bytes)
                .step_by(CUT)
                .for_each(|start| each(part(start..bytes.min(start + CUT), PieceElements::Run(from + start)))),
            PieceElements::Runs(all) => {
                all.clone()
                    .cut(CUT)
                    .into_iter()
                    .for_each(|(within, cut)| each(part(within, PieceElements::from_part(cut))));
            }
        }
    }
}

/// A piece, or a part of a large one, for one thread.
pub(super) struct Job<'p> {
    /// The offset of the first byte to read.
    pub(super) start: u64,
    /// The place in the memory of the whole piece.
    pub(super) within: Range<usize>,
    piece: JobPiece<'p>,
}

/// The piece of a job. There may be many small ones, so copying each would take longer than copying its bytes.
enum JobPiece<'p> {
    All(&'p ReadPiece<'p>),
    Part(Box<ReadPiece<'p>>),
    /// Bytes to read as stored.
    Stored,
}

impl<'p> Job<'p> {
    /// Reads `len` bytes from `start` on, as they are stored.
    pub(super) fn stored(start: u64, len: usize) -> Self {
        Self { start, within: 0..len, piece: JobPiece::Stored }
    }

    fn piece(&self) -> Option<&ReadPiece<'p>> {
        match &self.piece {
            JobPiece::All(piece) => Some(piece),
            JobPiece::Part(piece) => Some(piece),
            JobPiece::Stored => None,
        }
    }

    pub(super) fn is_decoded(&self) -> bool {
        self.piece().is_some_and(ReadPiece::is_decoded)
    }

    /// Returns whether the bytes are in several places, each of which is read alone.
    pub(super) fn is_gathered(&self, storage: &FileStorage) -> bool {
        storage.gathered(self.start).is_some()
    }

    /// Returns the elements that are in several runs.
    pub(super) fn part(&self) -> Option<&TensorSlice<'p>> {
        match &self.piece()?.elements {
            PieceElements::Run(_) => None,
            PieceElements::Runs(part) => Some(part),
        }
    }

    /// Returns the offset of the payload of the whole tensor.
    pub(super) fn payload_start(&self) -> u64 {
        self.piece().map_or(self.start, |piece| piece.entry.start())
    }

    /// Reads the bytes from a file; one run with several threads, unless other jobs have threads of their own.
    pub(super) fn read(&self, storage: &FileStorage, is_alone: bool, bytes: &mut [u8]) -> Result<()> {
        if let Some(piece) = self.piece().filter(|piece| piece.is_decoded()) {
            return piece.decode(storage, bytes);
        }
        match self.part() {
            None => {
                let read = if is_alone { FileStorage::read_at } else { FileStorage::read_alone };
                read(storage, self.start, bytes).map_err(|error| self.of_whole(self.start, error))
            }
            Some(part) => {
                let start = self.payload_start();
                match storage.gathered(start) {
                    Some(gather) => gather.read(storage, Wanted::Box(part.ranges()), bytes),
                    None => read_part(storage, start, part, bytes)
                        .map_err(|error| self.of_whole(error.offset().unwrap_or(start), error)),
                }
            }
        }?;
        self.finish(storage, None, bytes)
    }

    /// Returns the offset after the last byte to read.
    pub(super) fn end(&self) -> u64 {
        match self.part() {
            _ if self.is_decoded() => self.piece().map_or(self.start, |piece| piece.entry.range().end),
            Some(part) => self.payload_start().saturating_add(part.bounds().end as u64),
            None => self.start.saturating_add(self.within.len() as u64),
        }
    }

    /// Returns whether both jobs read the same bytes to memory in the same way, as for tied tensors. A tensor and its
    /// conjugate differ only in their codecs.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let (Some(one), Some(two)) = (self.piece(), other.piece()) else {
            return self.piece().is_none() && other.piece().is_none() && self.within == other.within;
        };
        let same_elements = match (&one.elements, &two.elements) {
            (PieceElements::Run(one), PieceElements::Run(two)) => one == two,
            _ => one.is_whole && two.is_whole,
        };
        same_elements
            && (self.start, &self.within, one.is_whole) == (other.start, &other.within, two.is_whole)
            && one.entry.range() == two.entry.range()
            && one.entry.info() == two.entry.info()
            && one.entry.any_codec() == two.entry.any_codec()
    }

    /// Returns the number of bytes before the payload that its checksum covers.
    pub(super) fn head_bytes(&self) -> usize {
        let Some(ReadPiece { entry, is_whole, .. }) = self.piece() else { return 0 };
        let before = if *is_whole { entry.start() - entry.needed_from() } else { 0 };
        usize::try_from(before).unwrap_or_default()
    }

    /// Converts the offset in an error to an offset in the payload.
    #[cold]
    pub(super) fn of_whole(&self, offset: u64, error: Error) -> Error {
        match self.piece() {
            Some(piece) => piece.entry.of_whole(offset, error),
            None => error,
        }
    }

    /// Checks the bytes, and makes them little-endian elements. Reads the bytes before the payload that the checksum
    /// covers, unless `head` has them.
    pub(super) fn finish(&self, storage: &FileStorage, head: Option<&[u8]>, bytes: &mut [u8]) -> Result<()> {
        let Some(piece) = self.piece() else { return Ok(()) };
        let ReadPiece { entry, is_whole, .. } = *piece;
        if is_whole && entry.has_checksum() {
            match head {
                Some(head) => check_sum_after(&entry, head, bytes),
                None => check_sum(&mut FileReader::new(storage), &entry, bytes),
            }?;
        }
        if let Some(codec) = entry.codec() {
            codec.swap(bytes);
        }
        if let Err(invalid) = entry.normalize(bytes, 0) {
            return Err(piece.in_tensor(invalid).into());
        }
        if let (true, Layout::Coo { .. }) = (is_whole, &entry.info().layout) {
            entry.info().check_bytes(bytes)?;
        }
        Ok(())
    }
}

impl ReadPiece<'_> {
    /// Converts an error about an element of the bytes to one about an element of the whole tensor. Only bools can be
    /// invalid, and each takes one byte.
    #[cold]
    fn in_tensor(&self, invalid: InvalidTensor) -> InvalidTensor {
        let InvalidTensor::Value { dtype, element, found } = invalid else { return invalid };
        let element = match &self.elements {
            PieceElements::Run(from) => from + element,
            PieceElements::Runs(part) => part.place_in_payload(element),
        };
        InvalidTensor::Value { dtype, element, found }
    }

    /// Reads the payload in order, and puts the elements in their places.
    fn decode(&self, storage: &FileStorage, bytes: &mut [u8]) -> Result<()> {
        let Self { entry, elements, is_whole, .. } = self;
        let (runs, end) = match elements {
            PieceElements::Run(from) => (None, from + bytes.len()),
            PieceElements::Runs(part) => (Some(part.runs()), part.bounds().end),
        };
        let first = if let PieceElements::Run(from) = elements { *from } else { 0 };
        let mut scatter = match runs {
            Some(runs) => Scatter { run: runs.first(), len: runs.len, runs: Some(runs), payload: 0, done: 0, bytes },
            None => {
                let run = Some(Run { from: first, to: 0 }).filter(|_| !bytes.is_empty());
                Scatter { run, len: bytes.len(), runs: None, payload: 0, done: 0, bytes }
            }
        };
        if *is_whole {
            return Ok(entry.write_to(storage, &mut scatter)?);
        }
        entry.decode_to(storage, end as u64, &mut |piece| {
            scatter.add(piece);
            Ok(())
        })
    }
}

/// Returns the limits of merging for bytes at an offset.
pub(super) fn merging(storage: &FileStorage, offset: u64) -> Merging {
    if storage.takes_requests(offset) { Merging::REMOTE } else { Merging::LOCAL }
}

/// Reads a part of the payload that begins at `start`.
pub(super) fn read_part(storage: &FileStorage, start: u64, part: &TensorSlice<'_>, bytes: &mut [u8]) -> Result<()> {
    let bounds = part.bounds();
    let (first, len) = (start.saturating_add(bounds.start as u64), bounds.len() as u64);
    if !storage.reads_faster(first, len)
        && let Some(found) = storage.borrow(first, len)
    {
        part.copy_from(found?, bounds.start, bytes);
        return Ok(());
    }
    let mut read = |from: usize, bytes: &mut [u8]| storage.read_alone(start.saturating_add(from as u64), bytes);
    part.read(&merging(storage, start), &mut read, bytes)
}

/// Receives a payload in order, and copies the runs of a part to their places.
struct Scatter<'a> {
    /// The current run, and its length.
    run: Option<Run>,
    len: usize,
    /// The current run and the runs after it. `None` if it is the only one.
    runs: Option<Runs>,
    /// The number of bytes of the payload so far.
    payload: usize,
    /// The number of bytes of the current run so far.
    done: usize,
    bytes: &'a mut [u8],
}

impl Scatter<'_> {
    fn add(&mut self, mut piece: &[u8]) {
        let end = self.payload.saturating_add(piece.len());
        while let Some(run) = self.run {
            let skipped = (run.from + self.done).saturating_sub(self.payload);
            if skipped >= piece.len() {
                break;
            }
            let now = (self.len - self.done).min(piece.len() - skipped);
            self.bytes[run.to + self.done..][..now].copy_from_slice(&piece[skipped..skipped + now]);
            piece = &piece[skipped + now..];
            self.payload += skipped + now;
            self.done += now;
            if self.done == self.len {
                self.done = 0;
                self.run = self.runs.as_mut().and_then(|runs| {
                    runs.next();
                    runs.first()
                });
            }
        }
        self.payload = end;
    }
}

impl std::io::Write for Scatter<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.add(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
