//! What an answer says about its bytes: the range, the length of the file, and codings.

use std::ops::Range;

use ureq::http::HeaderMap;

use super::client::{Failed, items, value, values};

/// The value of a `Content-Range`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ContentRange {
    pub(super) range: Range<u64>,
    /// The length of the file. The server may not know it.
    pub(super) total: Option<u64>,
}

/// The fewest bytes that a server may send of a longer range: each answer of less would need another request.
const SHORTEST: u64 = 1 << 10;

impl ContentRange {
    pub(super) fn new(headers: &HeaderMap) -> Result<Self, Failed> {
        let found = values(headers, "content-range").unwrap_or_default();
        // Its parts would have their own ranges.
        let is_multipart = items(headers, "content-type").iter().any(|kind| kind.starts_with("multipart/"));
        Self::parse(&found).filter(|_| !is_multipart).ok_or_else(|| {
            let found: String = String::from_utf8_lossy(&found).chars().take(80).collect();
            let found = found.escape_debug();
            Failed::lasting(format!("the server sends a part of the file, but does not say which: `{found}`"))
        })
    }

    /// Parses `bytes 0-4/10`, or `bytes 0-4/*`.
    fn parse(found: &[u8]) -> Option<Self> {
        let (unit, rest) = std::str::from_utf8(found).ok()?.split_at_checked("bytes".len())?;
        let (range, total) = rest.trim_start().split_once('/')?;
        let (first, last) = range.split_once('-')?;
        let range = number(first)?..number(last)?.checked_add(1)?;
        let total = match total.trim() {
            "*" => None,
            total => Some(number(total)?),
        };
        let is_inside = range.start < range.end && total.is_none_or(|total| range.end <= total);
        (unit.eq_ignore_ascii_case("bytes") && is_inside).then_some(Self { range, total })
    }

    /// Fails unless the bytes begin where they were asked for, and are not more, or only a few.
    pub(super) fn check(&self, asked: &Range<u64>) -> Result<(), Failed> {
        let Self { range, .. } = self;
        let is_short = range.end < asked.end && range.end - range.start < SHORTEST;
        if range.start == asked.start && range.end <= asked.end && !is_short {
            return Ok(());
        }
        let (from, to, start, end) = (range.start, range.end, asked.start, asked.end);
        Err(Failed::lasting(format!("the server sends bytes {from} to {to} instead of bytes {start} to {end}")))
    }

    /// Returns the length that stands in an answer without a range: `bytes */10`.
    pub(super) fn total(headers: &HeaderMap) -> Option<u64> {
        let found = values(headers, "content-range")?;
        number(std::str::from_utf8(&found).ok()?.rsplit_once('/')?.1)
    }
}

/// Parses digits: the standard library takes a sign too.
fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

/// Returns the length of a body that states it.
pub(super) fn content_length(headers: &HeaderMap) -> Option<u64> {
    let is_chunked = headers.contains_key("transfer-encoding");
    value(headers, "content-length").filter(|_| !is_chunked).and_then(|len| number(std::str::from_utf8(len).ok()?))
}

/// Returns whether the headers say where a body ends. If not, it ends with its connection.
pub(super) fn is_framed(headers: &HeaderMap) -> bool {
    headers.contains_key("content-length") || headers.contains_key("transfer-encoding")
}

/// Fails if the body of a part states another length than its range.
pub(super) fn check_length(headers: &HeaderMap, range: &Range<u64>) -> Result<(), Failed> {
    let expected = range.end - range.start;
    match content_length(headers).filter(|len| *len != expected) {
        Some(found) => Err(Failed::lasting(format!("the server sends {found} bytes for a part of {expected}"))),
        None => Ok(()),
    }
}

/// Refuses a compressed body: the request forbids it, and its offsets would be others.
pub(super) fn check_encoding(headers: &HeaderMap) -> Result<(), Failed> {
    // Stores keep `aws-chunked` from the upload. The body is plain nevertheless.
    let is_plain = |coding: &String| matches!(&**coding, "identity" | "aws-chunked");
    let contents = items(headers, "content-encoding").into_iter().filter(|coding| !is_plain(coding));
    let transfers =
        items(headers, "transfer-encoding").into_iter().filter(|coding| coding != "chunked" && !is_plain(coding));
    match contents.chain(transfers).next() {
        None => Ok(()),
        Some(coding) => {
            let coding: String = coding.chars().take(40).collect();
            let coding = coding.escape_debug();
            Err(Failed::lasting(format!("the server sends the file compressed, as {coding}, although asked not to")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_ranges_are_parsed() {
        let parse = |found: &str| ContentRange::parse(found.as_bytes()).map(|found| (found.range, found.total));
        assert_eq!(parse("bytes 0-4/10"), Some((0..5, Some(10))));
        assert_eq!(parse("bytes  5-9/10"), Some((5..10, Some(10))));
        assert_eq!(parse("Bytes 5-9/*"), Some((5..10, None)));
        for found in [
            "",
            "bytes",
            "bytes */10",
            "0-4/10",
            "octets 0-4/10",
            "bytes 4-3/10",
            "bytes 0-10/10",
            "bytes 0-/10",
            "bytes 0-18446744073709551615/1",
            "bytes 0-18446744073709551615/*",
            "bytes -1-4/10",
            "bytes +0-+4/+10",
            "bytes 0-4/10, bytes 0-4/11",
            "bytes 0-4/ten",
            "byté 0-4/10",
        ] {
            assert_eq!(parse(found), None, "{found}");
        }
    }

    #[test]
    fn a_part_may_be_short() {
        let is_ok = |found: Range<u64>| ContentRange { range: found, total: None }.check(&(10..5000)).is_ok();
        assert!(is_ok(10..5000) && is_ok(10..1034));
        assert!(!is_ok(10..1033) && !is_ok(10..5001) && !is_ok(9..5000) && !is_ok(11..5000));
        assert!(ContentRange { range: 0..3, total: Some(3) }.check(&(0..3)).is_ok());
    }

    #[test]
    fn codings_of_a_body_are_known() {
        for (name, found, is_plain) in [
            ("content-encoding", "", true),
            ("content-encoding", "aws-chunked", true),
            ("content-encoding", "Identity, AWS-chunked,", true),
            ("content-encoding", "aws-chunked,gzip", false),
            ("content-encoding", "br", false),
            ("transfer-encoding", "Chunked", true),
            ("transfer-encoding", "gzip, chunked", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(name, found.parse().unwrap());
            assert_eq!(check_encoding(&headers).is_ok(), is_plain, "{name}: {found}");
            headers.append(name, "gzip".parse().unwrap());
            assert!(check_encoding(&headers).is_err(), "{name}: {found}");
        }
    }
}
