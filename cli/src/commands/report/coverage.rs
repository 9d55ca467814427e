//! The parts of a file that payloads cover.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use serde::Serialize;
use tensorfile::File;

/// The most runs of all files together.
const RUNS: usize = 4000;

/// A file with payloads: the file itself, or a shard of it.
#[derive(Debug, Serialize)]
pub struct Coverage {
    /// The name of the shard.
    #[serde(skip_serializing_if = "Option::is_none")]
    shard: Option<String>,
    bytes: u64,
    /// In the order of the file, without gaps between them.
    runs: Vec<Run>,
    /// A run is of one kind only. If there are too many, they are joined, and each has the sums.
    exact: bool,
}

/// A part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
struct Run {
    start: u64,
    end: u64,
    /// Bytes that belong to one payload.
    payload: u64,
    /// Bytes that belong to several payloads.
    shared: u64,
}

impl Coverage {
    /// Returns the file, or its shards.
    pub fn of_file(file: &File) -> Vec<Self> {
        let most = RUNS / file.shards().len().max(1);
        if file.shards().is_empty() {
            let payloads = file.tensors().map(|tensor| tensor.range()).collect();
            return vec![Self::new(None, payloads, file.file_bytes(), most)];
        }
        let mut payloads = vec![Vec::new(); file.shards().len()];
        let numbers = shard_numbers(file);
        for (path, range) in file.tensors().flat_map(|tensor| tensor.places()) {
            let number = path.and_then(|path| numbers.get(path)).copied().unwrap_or_default();
            payloads[number].push(range);
        }
        let shards = file.shards().iter().zip(payloads);
        shards
            .map(|(path, payloads)| {
                let end = payloads.iter().map(|payload| payload.end).max().unwrap_or_default();
                let bytes = std::fs::metadata(path).map_or(end, |metadata| metadata.len().max(end));
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                Self::new(Some(name), payloads, bytes, most)
            })
            .collect()
    }

    fn new(shard: Option<String>, mut payloads: Vec<Range<u64>>, bytes: u64, most: usize) -> Self {
        payloads.sort_unstable_by_key(|payload| (payload.start, payload.end));
        let mut count = 0;
        for_each_run(&payloads, bytes, &mut |_| count += 1);
        let (mut runs, exact) = (Vec::new(), count <= most);
        for_each_run(&payloads, bytes, &mut |run| {
            if exact { runs.push(run) } else { join(run, bytes, most, &mut runs) }
        });
        Self { shard, bytes, runs, exact }
    }
}

/// Returns the number of each shard.
pub fn shard_numbers(file: &File) -> HashMap<&Path, usize> {
    file.shards().iter().enumerate().map(|(number, path)| (path.as_path(), number)).collect()
}

/// Calls `each` with the runs of a file of `bytes` bytes, which has payloads in the order of their starts.
///
/// There may be millions, so they are not held.
fn for_each_run(payloads: &[Range<u64>], bytes: u64, each: &mut dyn FnMut(Run)) {
    // A run goes on as long as its kind is the same.
    let mut last: Option<Run> = None;
    let mut push = |start: u64, end: u64, payloads: u64| {
        if start >= end {
            return;
        }
        let sum = |is_so: bool| if is_so { end - start } else { 0 };
        let run = Run { start, end, payload: sum(payloads == 1), shared: sum(payloads > 1) };
        match &mut last {
            Some(last) if (last.payload > 0, last.shared > 0) == (run.payload > 0, run.shared > 0) => {
                last.end = end;
                last.payload += run.payload;
                last.shared += run.shared;
            }
            _ => last.replace(run).into_iter().for_each(&mut *each),
        }
    };
    // Up to `done` all is known. From there to `twice` there are several payloads, and from there to `once` there is
    // one.
    let (mut done, mut twice, mut once) = (0, 0, 0);
    let end = payloads.iter().map(|payload| payload.end).fold(bytes, u64::max);
    for payload in payloads.iter().filter(|payload| payload.start < payload.end).chain([&(end..end)]) {
        for (known, payloads) in [(twice, 2), (once, 1), (payload.start, 0)] {
            let known = known.min(payload.start);
            push(done, known, payloads);
            done = done.max(known);
        }
        twice = twice.max(payload.end.min(once));
        once = once.max(payload.end);
    }
    last.into_iter().for_each(each);
}

/// Adds a run to at most `most` of equal length.
fn join(run: Run, bytes: u64, most: usize, joined: &mut Vec<Run>) {
    let length = bytes.div_ceil(most.max(1) as u64).max(1);
    let mut start = run.start;
    while start < run.end {
        let first = start / length * length;
        let end = run.end.min(first.saturating_add(length));
        if joined.last().is_none_or(|last| last.start != first) {
            joined.push(Run { start: first, end, payload: 0, shared: 0 });
        }
        if let Some(last) = joined.last_mut() {
            last.end = end;
            last.payload += if run.payload > 0 { end - start } else { 0 };
            last.shared += if run.shared > 0 { end - start } else { 0 };
        }
        start = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(payloads: &[Range<u64>], bytes: u64) -> String {
        let mut payloads = payloads.to_vec();
        payloads.sort_unstable_by_key(|payload| (payload.start, payload.end));
        let mut runs = Vec::new();
        for_each_run(&payloads, bytes, &mut |run| runs.push(run));
        assert!(runs.windows(2).all(|runs| runs[0].end == runs[1].start), "{runs:?}");
        let letter = |run: &Run| {
            if run.shared > 0 {
                's'
            } else if run.payload > 0 {
                'p'
            } else {
                '.'
            }
        };
        runs.iter()
            .flat_map(|run| std::iter::repeat_n(letter(run), usize::try_from(run.end - run.start).unwrap()))
            .collect()
    }

    #[test]
    fn finds_what_payloads_cover() {
        assert_eq!(kinds(&[], 3), "...");
        assert_eq!(kinds(&[], 0), "");
        assert_eq!(kinds(&[2..4, 4..5, 6..7], 8), "..ppp.p.");
        assert_eq!(kinds(&[1..9, 2..4, 3..5, 7..8, 7..8], 10), ".psssppsp.");
        assert_eq!(kinds(&[0..4, 0..4, 2..6], 6), "sssspp");
        assert_eq!(kinds(&[0..2, 1..6, 4..8], 4), "psppsspp");
    }

    /// Compares with a count for each byte.
    #[test]
    fn agrees_with_counting_bytes() {
        let mut seed = 7_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for _ in 0..300 {
            let payloads: Vec<Range<u64>> = (0..random(6))
                .map(|_| {
                    let start = random(20);
                    start..start + random(8)
                })
                .collect();
            let counted: String = (0..30)
                .map(|index| match payloads.iter().filter(|payload| payload.contains(&index)).count() {
                    0 => '.',
                    1 => 'p',
                    _ => 's',
                })
                .collect();
            assert_eq!(kinds(&payloads, 30), counted, "{payloads:?}");
        }
    }

    #[test]
    fn joined_runs_keep_the_sums() {
        let payloads: Vec<Range<u64>> = (0..1000).map(|index| index * 10 + 3..index * 10 + 9).collect();
        let joined = Coverage::new(None, payloads, 10_001, 64).runs;
        assert!(joined.len() <= 64 && joined.windows(2).all(|runs| runs[0].end == runs[1].start));
        assert_eq!((joined[0].start, joined.last().unwrap().end), (0, 10_001));
        assert_eq!(joined.iter().map(|run| run.payload).sum::<u64>(), 6000);
    }
}
