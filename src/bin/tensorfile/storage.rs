//! How the payloads lie in a file.

use std::ops::Range;

use serde::Serialize;

/// What the ranges of payloads tell of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Storage {
    /// Bytes that are part of some payload, each counted once.
    pub payload: u64,
    /// Bytes that are part of more than one payload, counted once for each one after the first.
    pub shared: u64,
    /// Bytes before the first payload.
    pub before: u64,
    /// Bytes between payloads: padding, heads of records, holes.
    pub between: u64,
    /// In how many places they are.
    pub gaps: u64,
    /// The most of them in one place.
    pub largest_gap: u64,
    /// Bytes behind the last payload.
    pub after: u64,
    /// The largest power of two that every payload's offset is a multiple of; none where there is no payload.
    pub alignment: Option<u64>,
}

impl Storage {
    /// Looks at the payloads of a file of so many bytes; empty ones lie nowhere.
    pub fn of(payloads: impl IntoIterator<Item = Range<u64>>, file: u64) -> Self {
        let mut payloads: Vec<Range<u64>> = payloads.into_iter().filter(|payload| !payload.is_empty()).collect();
        payloads.sort_unstable_by_key(|payload| (payload.start, payload.end));
        let Some(first) = payloads.first() else { return Self { before: file, ..Self::default() } };

        let mut storage = Self { before: first.start, ..Self::default() };
        let offsets = payloads.iter().fold(0, |offsets, payload| offsets | payload.start);
        storage.alignment = 1_u64.checked_shl(offsets.trailing_zeros());
        let mut end = first.start;
        for payload in payloads {
            if let Some(gap) = payload.start.checked_sub(end).filter(|gap| *gap > 0) {
                storage.between += gap;
                storage.gaps += 1;
                storage.largest_gap = storage.largest_gap.max(gap);
            }
            let new = payload.end.saturating_sub(payload.start.max(end));
            storage.payload += new;
            storage.shared = storage.shared.saturating_add(payload.end - payload.start - new);
            end = end.max(payload.end);
        }
        storage.after = file.saturating_sub(end);
        storage
    }

    /// Looks at the payloads of several files, which are of so many bytes together.
    pub fn of_all(files: impl IntoIterator<Item = Vec<Range<u64>>>, bytes: u64) -> Self {
        let mut all = Self::default();
        for payloads in files {
            let end = payloads.iter().map(|payload| payload.end).max().unwrap_or_default();
            let one = Self::of(payloads, end);
            all.payload += one.payload;
            all.shared = all.shared.saturating_add(one.shared);
            all.before += one.before;
            all.between += one.between;
            all.gaps += one.gaps;
            all.largest_gap = all.largest_gap.max(one.largest_gap);
            all.alignment = [all.alignment, one.alignment].into_iter().flatten().min();
        }
        all.after = bytes.saturating_sub(all.payload + all.before + all.between);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_counted() {
        let payloads = [64..72, 16..32, 48..64, 48..64, 20..24, 7..7];
        let storage = Storage::of(payloads, 80);
        let expected = Storage {
            payload: 40,
            shared: 20,
            before: 16,
            between: 16,
            gaps: 1,
            largest_gap: 16,
            after: 8,
            alignment: Some(4),
        };
        assert_eq!(storage, expected);
        assert_eq!(storage.before + storage.payload + storage.between + storage.after, 80);
    }

    #[test]
    fn a_file_may_have_no_payload() {
        assert_eq!(Storage::of(std::iter::once(8..8), 24), Storage { before: 24, ..Storage::default() });
        assert_eq!(Storage::of(std::iter::once(0..4), 4).alignment, None);
        assert_eq!(Storage::of([0..4, 32..36], 36).alignment, Some(32));
    }
}
