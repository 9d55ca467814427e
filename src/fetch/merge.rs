//! Merges ranges of a file into spans, each read with one request. These are pure functions.

use std::iter::Peekable;
use std::ops::Range;

/// The limits of merging.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Merging {
    /// The largest gap between two ranges of one span, in bytes.
    pub(crate) gap: u64,
    /// The largest share of a span that is not needed: one in this many bytes. With 1, only the gaps count.
    pub(crate) over_read: u64,
    /// The largest length of a span of several ranges, in bytes.
    pub(crate) longest: u64,
    /// The number of spans to read at once.
    pub(crate) in_flight: usize,
}

impl Merging {
    /// For a file on disk, where reading a gap of some KiB takes as long as a call. Unneeded bytes are at most a
    /// quarter of the needed ones. As many spans are read at once as there are threads.
    pub(crate) const LOCAL: Self = Self { gap: 16 << 10, over_read: 5, longest: 1 << 20, in_flight: 1 };

    /// For a server, where a request takes as long as some hundred KiB.
    pub(crate) const REMOTE: Self = Self { gap: 512 << 10, over_read: 8, longest: 8 << 20, in_flight: 8 };

    /// Returns whether a range belongs to a span with `waste` unneeded bytes.
    fn joins(&self, span: &Range<u64>, waste: u64, next: &Range<u64>) -> bool {
        let (gap, end) = (next.start.saturating_sub(span.end), next.end.min(self.end_of(span)));
        next.start >= span.start
            && gap <= self.gap
            && waste.saturating_add(gap).saturating_mul(self.over_read) <= end.saturating_sub(span.start)
    }

    /// Returns the last possible end of a span.
    fn end_of(&self, span: &Range<u64>) -> u64 {
        span.start.saturating_add(self.longest)
    }
}

/// A range of a file to read with one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) range: Range<u64>,
    /// The positions of the ranges with bytes in the span. Ranges without such bytes may be between them.
    pub(crate) parts: Range<usize>,
}

/// Merges ranges in order of their starts into spans, and cuts spans that are too long, also within a range. The ranges
/// may overlap.
pub(crate) fn merge_and_cut(ranges: &[Range<u64>], merging: &Merging) -> Vec<Span> {
    let (mut spans, mut span, mut waste) = (Vec::new(), 0..0, 0);
    for range in ranges {
        // The beginning may be in earlier ranges, too.
        let next = range.start.max(span.end)..range.end;
        if next.is_empty() {
            continue;
        }
        if !span.is_empty() && next.start < merging.end_of(&span) && merging.joins(&span, waste, &next) {
            waste += next.start - span.end;
        } else {
            spans.push(std::mem::replace(&mut span, next.start..next.start));
            waste = 0;
        }
        while next.end > merging.end_of(&span) {
            let end = merging.end_of(&span);
            spans.push(span.start..end);
            (span, waste) = (end..end, 0);
        }
        span.end = next.end;
    }
    spans.push(span);
    let mut parts = 0..0;
    let with_parts = spans.into_iter().filter(|span| !span.is_empty()).map(|range| {
        parts.start += ranges[parts.start..].iter().take_while(|part| part.end <= range.start).count();
        parts.end += ranges[parts.end..].iter().take_while(|part| part.start < range.end).count();
        Span { range, parts: parts.clone() }
    });
    with_parts.collect()
}

/// Merges ranges in order of their starts into spans, without cutting: a range too long for a span is one by itself.
/// Returns each span with the number of its ranges. The ranges may overlap.
pub(crate) fn merge<I: Iterator<Item = Range<u64>>>(ranges: I, merging: Merging) -> Merged<I> {
    Merged { ranges: ranges.peekable(), merging }
}

/// The spans of some ranges; see [`merge`].
pub(crate) struct Merged<I: Iterator> {
    ranges: Peekable<I>,
    merging: Merging,
}

impl<I: Iterator<Item = Range<u64>>> Iterator for Merged<I> {
    type Item = (Range<u64>, usize);

    fn next(&mut self) -> Option<(Range<u64>, usize)> {
        let (mut span, mut count, mut waste, merging) = (self.ranges.next()?, 1, 0, self.merging);
        let joins = |span: &Range<u64>, waste, next: &Range<u64>| {
            next.end <= merging.end_of(span) && merging.joins(span, waste, next)
        };
        while let Some(next) = self.ranges.next_if(|next| joins(&span, waste, next)) {
            waste += next.start.saturating_sub(span.end);
            (span.end, count) = (span.end.max(next.end), count + 1);
        }
        Some((span, count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Merging = Merging { gap: 10, over_read: 4, longest: 100, in_flight: 1 };

    fn merged(ranges: &[Range<u64>], merging: Merging) -> Vec<(Range<u64>, usize)> {
        merge(ranges.iter().cloned(), merging).collect()
    }

    fn cut(ranges: &[Range<u64>]) -> Vec<(Range<u64>, Range<usize>)> {
        merge_and_cut(ranges, &SMALL).into_iter().map(|span| (span.range, span.parts)).collect()
    }

    #[test]
    fn near_ranges_are_one_span() {
        assert_eq!(merged(&[], SMALL), []);
        assert_eq!(merged(&[0..40, 50..60], SMALL), [(0..60, 2)]);
        assert_eq!(merged(&[0..40, 51..60], SMALL), [(0..40, 1), (51..60, 1)], "a long gap");
        assert_eq!(merged(&[0..10, 20..25], SMALL), [(0..10, 1), (20..25, 1)], "a gap of 10 of 25 bytes");
        assert_eq!(merged(&[0..10, 20..40], SMALL), [(0..40, 2)], "a gap of 10 of 40 bytes");
        assert_eq!(merged(&[0..10, 20..40, 50..51], SMALL), [(0..40, 2), (50..51, 1)], "gaps of 20 of 51 bytes");
        assert_eq!(merged(&[0..60, 60..100, 100..101], SMALL), [(0..100, 2), (100..101, 1)], "a long span");
        assert_eq!(merged(&[0..500, 500..501], SMALL), [(0..500, 1), (500..501, 1)], "a long range");
        let all = Merging { over_read: 1, ..SMALL };
        assert_eq!(merged(&[0..1, 11..12, 22..23], all), [(0..23, 3)], "only the gap counts");
    }

    #[test]
    fn ranges_may_overlap_and_be_empty() {
        assert_eq!(merged(&[0..40, 0..40, 10..20, 30..50], SMALL), [(0..50, 4)]);
        assert_eq!(merged(&[5..5, 5..9], SMALL), [(5..9, 2)]);
        assert_eq!(merged(&[50..60, 0..10], SMALL), [(50..60, 1), (0..10, 1)], "not in order");
        assert_eq!(cut(&[0..40, 0..40, 10..20, 30..50]), [(0..50, 0..4)]);
        assert_eq!(cut(&[5..5, 5..9, 9..9]), [(5..9, 1..2)]);
        assert_eq!(cut(&[]), []);
        assert_eq!(cut(&[0..150, 10..20, 120..130]), [(0..100, 0..2), (100..150, 0..3)]);
        let end = u64::MAX;
        assert_eq!(merged(&[0..1, end - 1..end], SMALL), [(0..1, 1), (end - 1..end, 1)]);
        assert_eq!(cut(&[0..1, end - 1..end]), [(0..1, 0..1), (end - 1..end, 1..2)]);
    }

    #[test]
    fn long_spans_are_cut_within_ranges() {
        let long = 0..250;
        assert_eq!(cut(&[long]), [(0..100, 0..1), (100..200, 0..1), (200..250, 0..1)]);
        assert_eq!(cut(&[0..90, 90..180, 180..270]), [(0..100, 0..2), (100..200, 1..3), (200..270, 2..3)]);
        assert_eq!(cut(&[0..95, 100..120]), [(0..95, 0..1), (100..120, 1..2)], "no span ends with a gap");
        assert_eq!(cut(&[0..95, 98..120]), [(0..100, 0..2), (100..120, 1..2)]);
        assert_eq!(cut(&[0..100, 100..101]), [(0..100, 0..1), (100..101, 1..2)]);
    }

    /// Checks the promises for ranges of many lengths and gaps.
    #[test]
    fn every_byte_is_in_one_span_and_limits_hold() {
        let mut seed = 1_u64;
        let mut number = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for _ in 0..2000 {
            let (mut ranges, mut start) = (Vec::new(), 0);
            for _ in 0..number(12) {
                start += number(30);
                let longest = if number(4) == 0 { 300 } else { 20 };
                let end = start + number(longest);
                ranges.push(start..end);
                start = if number(3) == 0 { start } else { end };
            }
            let asked = |byte: u64| ranges.iter().any(|range| range.contains(&byte));
            let spans = merge_and_cut(&ranges, &SMALL);
            let last = ranges.iter().map(|range| range.end).max().unwrap_or_default();
            for byte in 0..last {
                let count = spans.iter().filter(|span| span.range.contains(&byte)).count();
                assert!(if asked(byte) { count == 1 } else { count <= 1 }, "{byte} of {ranges:?} in {spans:?}");
            }
            for span in &spans {
                let len = span.range.end - span.range.start;
                let waste = span.range.clone().filter(|byte| !asked(*byte)).count() as u64;
                assert!(len <= SMALL.longest && waste * SMALL.over_read <= len, "{span:?} of {ranges:?}");
                assert!(asked(span.range.start) && asked(span.range.end - 1), "{span:?} of {ranges:?}");
                for (i, range) in ranges.iter().enumerate() {
                    let has_bytes = range.start.max(span.range.start) < range.end.min(span.range.end);
                    assert!(!has_bytes || span.parts.contains(&i), "{i} of {ranges:?} in {spans:?}");
                }
            }
            let merged = merged(&ranges, SMALL);
            assert_eq!(merged.iter().map(|(_, count)| count).sum::<usize>(), ranges.len());
        }
    }
}
