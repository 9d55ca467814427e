//! Reads pieces into memory: local files in several threads, sources with few calls for many ranges.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::merge::Merging;
use super::piece::{Job, ReadPiece};
use super::slice::Runs;
use crate::error::{Error, Result};
use crate::storage::{FileStorage, ReadCost};
use crate::tensor::sorted;
use crate::threads;

/// The most memory for unneeded bytes between the ranges of a source.
const WINDOWS: usize = 32 << 20;

/// The most bytes, and the most ranges, to request from a source together.
const TOGETHER: (usize, usize) = (256 << 20, 4096);

/// Reads each piece into its memory. `count` is told how many bytes have arrived, and its error ends reading.
///
/// # Errors
///
/// The error of the first failed piece in file order, with its index.
pub(crate) fn read_pieces(
    storage: &FileStorage,
    mut pieces: Vec<(&ReadPiece<'_>, &mut [u8])>,
    count: &mut (dyn FnMut(usize) -> Result<()> + Send),
) -> Result<(), (usize, Error)> {
    if let [(piece, memory)] = &mut pieces[..]
        && let Some(job) = piece.single_job()
        && !storage.takes_requests(job.start)
    {
        let read = job.read(storage, true, memory).and_then(|()| count(memory.len()));
        return read.map_err(|error| (0, error));
    }
    let mut jobs = Vec::with_capacity(pieces.len());
    for (i, (piece, mut memory)) in pieces.into_iter().enumerate() {
        let mut done = 0;
        piece.jobs(&mut |job| {
            let Range { start, end } = job.within;
            let (bytes, rest) = std::mem::take(&mut memory)[start - done..].split_at_mut(end - start);
            (memory, done) = (rest, end);
            jobs.push(Some(PlacedJob { piece: i, job, bytes, copies: Vec::new() }));
        });
    }
    read_jobs(storage, jobs, count)
}

/// Reads ranges as stored, each given by its offset, into their memory.
///
/// # Errors
///
/// The error of the first failed range in file order, with its index.
pub(super) fn read_ranges<'m>(
    storage: &FileStorage,
    ranges: impl Iterator<Item = (u64, &'m mut [u8])>,
) -> Result<(), (usize, Error)> {
    let placed = |(piece, (start, bytes)): (usize, (u64, &'m mut [u8]))| {
        Some(PlacedJob { piece, job: Job::stored(start, bytes.len()), bytes, copies: Vec::new() })
    };
    read_jobs(storage, ranges.enumerate().map(placed).collect(), &mut |_| Ok(()))
}

/// Reads all jobs. None of them may be `None`.
fn read_jobs(
    storage: &FileStorage,
    mut jobs: Vec<Option<PlacedJob<'_, '_>>>,
    count: &mut (dyn FnMut(usize) -> Result<()> + Send),
) -> Result<(), (usize, Error)> {
    let total = jobs.iter().flatten().map(|placed| placed.bytes.len()).fold(0, usize::saturating_add);
    // Reading goes through the file once, whatever the order of the pieces.
    let starts: Vec<u64> = jobs.iter().flatten().map(|placed| placed.job.start).collect();
    let jobs = join_same(sorted::by_number(&starts).into_iter().filter_map(|(_, i)| jobs[i].take()));
    let failed = Failures { first: Mutex::new(None), count: Mutex::new(count) };
    let (of_sources, of_files): (Vec<_>, Vec<_>) =
        jobs.into_iter().enumerate().partition(|(_, placed)| storage.takes_requests(placed.job.start));
    if !of_sources.is_empty() {
        read_sources(storage, of_sources, &failed);
    }
    let work = |(number, mut placed): (usize, PlacedJob<'_, '_>)| {
        if !failed.has_before(number) {
            let read = placed.job.read(storage, false, placed.bytes);
            failed.end(number, &mut placed, read);
        }
    };
    let waits =
        of_files.first().is_some_and(|(_, placed)| storage.cost(placed.job.start) == Some(ReadCost::SerialCall));
    let threads = if waits { 1 } else { threads::threads_for(total).min(of_files.len()) };
    threads::for_each(threads, of_files.into_iter(), &work);
    match failed.first.into_inner().unwrap_or_else(PoisonError::into_inner) {
        None => Ok(()),
        Some((_, piece, error)) => Err((piece, error)),
    }
}

struct PlacedJob<'p, 'm> {
    piece: usize,
    job: Job<'p>,
    bytes: &'m mut [u8],
    /// More destinations for the same bytes.
    copies: Vec<&'m mut [u8]>,
}

/// Joins jobs that read the same bytes, so that tied tensors are read once. The jobs are in order of their starts.
fn join_same<'p, 'm>(jobs: impl Iterator<Item = PlacedJob<'p, 'm>>) -> Vec<PlacedJob<'p, 'm>> {
    /// The most earlier jobs to compare with. A file can have any number of tensors at one offset, with different
    /// shapes.
    const LOOKS: usize = 8;

    let mut joined: Vec<PlacedJob<'p, 'm>> = Vec::with_capacity(jobs.size_hint().1.unwrap_or_default());
    for placed in jobs {
        let mut near = joined.iter_mut().rev().take_while(|other| other.job.start == placed.job.start).take(LOOKS);
        match near.find(|other| other.job.is_same(&placed.job)) {
            Some(other) => other.copies.push(placed.bytes),
            None => joined.push(placed),
        }
    }
    joined
}

/// The first failure, and the number of bytes read.
struct Failures<'c> {
    /// The number of the job, the piece, and the error.
    first: Mutex<Option<(usize, usize, Error)>>,
    count: Mutex<&'c mut (dyn FnMut(usize) -> Result<()> + Send)>,
}

impl Failures<'_> {
    /// Returns whether a job before this one failed.
    fn has_before(&self, number: usize) -> bool {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).as_ref().is_some_and(|(first, ..)| *first < number)
    }

    fn note(&self, number: usize, piece: usize, result: Result<()>) {
        let Err(error) = result else { return };
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        if first.as_ref().is_none_or(|(first, ..)| number < *first) {
            *first = Some((number, piece, error));
        }
    }

    /// Finishes a job after reading it.
    fn end(&self, number: usize, placed: &mut PlacedJob<'_, '_>, read: Result<()>) {
        let PlacedJob { piece, bytes, copies, .. } = placed;
        let ended = read.and_then(|()| {
            copies.iter_mut().for_each(|copy| copy.copy_from_slice(bytes));
            self.count(bytes.len() * (1 + copies.len()))
        });
        self.note(number, *piece, ended);
    }

    fn count(&self, bytes: usize) -> Result<()> {
        (self.count.lock().unwrap_or_else(PoisonError::into_inner))(bytes)
    }
}

/// Reads jobs of sources. Contiguous jobs are read together, jobs in many runs with the bytes between the runs, and
/// encoded jobs one by one.
fn read_sources(storage: &FileStorage, jobs: Vec<(usize, PlacedJob<'_, '_>)>, failed: &Failures<'_>) {
    let (mut runs, mut batch, mut bytes, mut end) = (Vec::new(), Vec::new(), 0_usize, 0);
    for (number, mut placed) in jobs {
        if placed.job.is_decoded() || placed.job.is_gathered(storage) {
            let read = placed.job.read(storage, true, placed.bytes);
            failed.end(number, &mut placed, read);
            continue;
        }
        if placed.job.part().is_some() {
            runs.push((number, placed));
            continue;
        }
        // Overlapping ranges are not requested together.
        let is_full = bytes.saturating_add(placed.bytes.len()) > TOGETHER.0 || batch.len() == TOGETHER.1;
        if is_full || placed.job.start - (placed.job.head_bytes() as u64) < end {
            read_together(storage, std::mem::take(&mut batch), failed);
            bytes = 0;
        }
        bytes = bytes.saturating_add(placed.bytes.len());
        end = placed.job.start.saturating_add(placed.bytes.len() as u64);
        batch.push((number, placed));
    }
    read_together(storage, batch, failed);
    read_runs(storage, runs, failed);
}

/// Reads contiguous jobs with one call.
fn read_together(storage: &FileStorage, mut jobs: Vec<(usize, PlacedJob<'_, '_>)>, failed: &Failures<'_>) {
    if jobs.first().is_none_or(|(number, _)| failed.has_before(*number)) {
        return;
    }
    let mut heads: Vec<Vec<u8>> = jobs.iter().map(|(_, placed)| vec![0; placed.job.head_bytes()]).collect();
    let mut ranges = Vec::<(u64, &mut [u8])>::with_capacity(jobs.len());
    for ((_, placed), head) in jobs.iter_mut().zip(&mut heads) {
        if !head.is_empty() {
            ranges.push((placed.job.start - head.len() as u64, head));
        }
        ranges.push((placed.job.start, placed.bytes));
    }
    match storage.read_many(&mut ranges) {
        Ok(()) => {
            for ((number, mut placed), head) in jobs.into_iter().zip(heads) {
                let finished = placed.job.finish(storage, Some(&head), placed.bytes);
                failed.end(number, &mut placed, finished);
            }
        }
        Err(error) => note_of_range(error, &jobs, failed),
    }
}

/// Records an error of reading ranges for the job it is about, or for the first job. An error between two jobs is about
/// the second one.
#[cold]
fn note_of_range(error: Error, jobs: &[(usize, PlacedJob<'_, '_>)], failed: &Failures<'_>) {
    let offset = error.offset();
    let found = jobs.iter().find(|(_, placed)| offset.is_some_and(|offset| offset < placed.job.end()));
    if let Some((number, placed)) = found.or(jobs.first()) {
        let offset = offset.unwrap_or(placed.job.start);
        failed.note(*number, placed.piece, Err(placed.job.of_whole(offset, error)));
    }
}

/// A span of a job in several runs.
struct Window {
    /// The position of the job.
    job: usize,
    /// The offset of the span in the payload.
    from: usize,
    bytes: Vec<u8>,
    /// The runs in the span, and the remaining ones.
    runs: Runs,
    count: usize,
}

/// Reads jobs in several runs. Each call reads as many spans as memory allows.
fn read_runs(storage: &FileStorage, mut jobs: Vec<(usize, PlacedJob<'_, '_>)>, failed: &Failures<'_>) {
    let (mut windows, mut held) = (Vec::new(), 0_usize);
    for i in 0..jobs.len() {
        let (number, placed) = &mut jobs[i];
        let Some(part) = placed.job.part().filter(|_| !failed.has_before(*number)) else { continue };
        let (mut runs, start) = (part.runs(), placed.job.payload_start());
        for (span, count) in part.spans(&Merging::REMOTE) {
            let now = runs.clone();
            let Some(first) = (&mut runs).take(count).next() else { break };
            runs.by_ref().take(count - 1).for_each(drop);
            if count == 1 && span.len() > WINDOWS / 8 {
                let offset = start.saturating_add(span.start as u64);
                let bytes = &mut jobs[i].1.bytes[first.to..first.to + span.len()];
                if let Err(error) = storage.read_many(&mut [(offset, bytes)]) {
                    note_of_range(error, &jobs[i..=i], failed);
                    return;
                }
                continue;
            }
            if held.saturating_add(span.len()) > WINDOWS {
                if let Err(()) = read_windows(storage, std::mem::take(&mut windows), &mut jobs, failed) {
                    return;
                }
                held = 0;
            }
            held = held.saturating_add(span.len());
            windows.push(Window { job: i, from: span.start, bytes: vec![0; span.len()], runs: now, count });
        }
    }
    if read_windows(storage, windows, &mut jobs, failed).is_err() {
        return;
    }
    for (number, mut placed) in jobs {
        let finished = placed.job.finish(storage, None, placed.bytes);
        failed.end(number, &mut placed, finished);
    }
}

fn read_windows(
    storage: &FileStorage,
    mut windows: Vec<Window>,
    jobs: &mut [(usize, PlacedJob<'_, '_>)],
    failed: &Failures<'_>,
) -> Result<(), ()> {
    let offset = |jobs: &[(usize, PlacedJob<'_, '_>)], window: &Window| {
        jobs[window.job].1.job.payload_start().saturating_add(window.from as u64)
    };
    // The runs of parts of one tensor may be interleaved.
    windows.sort_by_key(|window| offset(jobs, window));
    let mut rest = &mut windows[..];
    while let Some(first) = rest.first() {
        // Take windows that do not overlap, at least the first one.
        let mut end = offset(jobs, first);
        let apart = rest.iter().take_while(|window| {
            let start = offset(jobs, window);
            let is_apart = start >= end;
            end = start.saturating_add(window.bytes.len() as u64);
            is_apart
        });
        let apart = apart.count();
        let (now, later) = std::mem::take(&mut rest).split_at_mut(apart);
        let mut ranges: Vec<(u64, &mut [u8])> =
            now.iter_mut().map(|window| (offset(jobs, window), &mut *window.bytes)).collect();
        if let Err(error) = storage.read_many(&mut ranges) {
            note_of_range(error, jobs, failed);
            return Err(());
        }
        rest = later;
    }
    for Window { job, from, bytes, mut runs, count } in windows {
        runs.copy(count, from, &bytes, jobs[job].1.bytes);
    }
    Ok(())
}
