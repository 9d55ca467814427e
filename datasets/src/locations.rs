//! Patterns of paths and URLs: braces and globs.

use std::path::Path;

use tensorfile::file::shown_url;
use tensorfile::{Error as FileError, ErrorKind};

use crate::error::{Error, Result};

/// The most locations of one pattern.
const MOST: usize = 1 << 22;

/// Returns the paths and URLs that match a pattern, in order.
///
/// `{000..123}` counts, with as many digits as its first number, and `{a,b}` lists. You can repeat and nest both. `*`,
/// `?`, `[…]` and `**` match files, sorted by path. `-` is standard input. A path that exists is not a pattern.
///
/// ```
/// use tensorfile_datasets::locations;
///
/// let shards = locations("s3://bucket/{train,val}-{08..10}.tar")?;
/// assert_eq!(shards.len(), 6);
/// assert_eq!(shards[2], "s3://bucket/train-10.tar");
/// # Ok::<(), tensorfile_datasets::Error>(())
/// ```
///
/// # Errors
///
/// [`ErrorKind::Io`] if no file matches a glob, [`ErrorKind::Limit`] for more than four million locations, and
/// [`ErrorKind::Message`] if a glob is malformed.
pub fn locations(pattern: &str) -> Result<Vec<String>> {
    let is_url = |location: &str| shown_url(location).is_some();
    if pattern == "-" || !is_url(pattern) && Path::new(pattern).exists() {
        return Ok(vec![pattern.to_owned()]);
    }
    let mut found = Vec::new();
    expand(pattern, &mut String::new(), &mut found)?;
    let mut all = Vec::with_capacity(found.len());
    for location in found {
        if is_url(&location) || !location.contains(['*', '?', '[']) || Path::new(&location).exists() {
            all.push(location);
            continue;
        }
        let matches = glob::glob(&location).map_err(|error| ErrorKind::Message(format!("{location}: {error}")))?;
        let before = all.len();
        for path in matches {
            let path = path.map_err(|error| Error::from(FileError::from(std::io::Error::from(error))))?;
            let text = path.into_os_string().into_string();
            let text = text.map_err(|path| ErrorKind::Message(format!("the path {} is not UTF-8", path.display())))?;
            push(&mut all, text)?;
        }
        if all.len() == before {
            let message = format!("no file matches {location}");
            return Err(std::io::Error::new(std::io::ErrorKind::NotFound, message).into());
        }
    }
    Ok(all)
}

/// Returns whether a path or a URL has the name of a shard.
pub(crate) fn is_named_shard(location: &str) -> bool {
    // The query of a URL, often a signature, is not part of the name.
    let is_url = shown_url(location).is_some();
    let name = location.split(['?', '#']).next().filter(|_| is_url).unwrap_or(location).to_ascii_lowercase();
    [".tar", ".tar.gz", ".tar.zst", ".tgz"].iter().any(|end| name.ends_with(end))
}

fn push(found: &mut Vec<String>, location: String) -> Result<()> {
    check_count(found.len() as u64 + 1)?;
    found.push(location);
    Ok(())
}

fn check_count(found: u64) -> Result<()> {
    let limit = MOST as u64;
    if found > limit {
        return Err(ErrorKind::Limit { what: "number of locations", found, limit }.into());
    }
    Ok(())
}

/// Adds the texts of `begin` and an expansion of `pattern`.
fn expand(pattern: &str, begin: &mut String, found: &mut Vec<String>) -> Result<()> {
    let Some((start, end)) = braces(pattern) else { return push(found, format!("{begin}{pattern}")) };
    let (before, inner, after) = (&pattern[..start], &pattern[start + 1..end], &pattern[end + 1..]);
    let len = begin.len();
    begin.push_str(before);
    let mut each = |choice: &str| -> Result<()> {
        // A choice may itself contain braces.
        let mut choices = Vec::new();
        expand(choice, &mut String::new(), &mut choices)?;
        for choice in choices {
            let len = begin.len();
            begin.push_str(&choice);
            expand(after, begin, found)?;
            begin.truncate(len);
        }
        Ok(())
    };
    if let Some((first, last, _)) = numbers(inner) {
        check_count(first.abs_diff(last).saturating_add(1))?;
    }
    match numbers(inner) {
        Some((first, last, width)) if first <= last => {
            (first..=last).try_for_each(|number| each(&format!("{number:0width$}")))?;
        }
        Some((first, last, width)) => {
            (last..=first).rev().try_for_each(|number| each(&format!("{number:0width$}")))?;
        }
        None => parts(inner).into_iter().try_for_each(each)?,
    }
    begin.truncate(len);
    Ok(())
}

/// Returns the range of the first pair of braces around a list or a range. Other braces are ordinary characters.
fn braces(pattern: &str) -> Option<(usize, usize)> {
    pattern.match_indices('{').find_map(|(start, _)| {
        let mut depth = 0;
        let end = pattern[start..].char_indices().find_map(|(i, character)| {
            depth += i32::from(character == '{') - i32::from(character == '}');
            (depth == 0).then_some(start + i)
        })?;
        let inner = &pattern[start + 1..end];
        (numbers(inner).is_some() || parts(inner).len() > 1).then_some((start, end))
    })
}

/// Parses `first..last`, and returns both and the number of digits.
fn numbers(inner: &str) -> Option<(u64, u64, usize)> {
    let (first, last) = inner.split_once("..")?;
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?;
    let width = if first.starts_with('0') { first.len() } else { 0 };
    Some((number(first)?, number(last)?, width))
}

/// Splits at commas outside of braces.
fn parts(inner: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found) = (0, 0, Vec::new());
    for (i, character) in inner.char_indices() {
        depth += i32::from(character == '{') - i32::from(character == '}');
        if character == ',' && depth == 0 {
            found.push(&inner[start..i]);
            start = i + 1;
        }
    }
    found.push(&inner[start..]);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_expand_as_in_a_shell() {
        for (pattern, expected) in [
            ("a.tar", &["a.tar"][..]),
            ("a{1..3}", &["a1", "a2", "a3"]),
            ("a{3..1}", &["a3", "a2", "a1"]),
            ("{09..11}.tar", &["09.tar", "10.tar", "11.tar"]),
            ("{9..11}", &["9", "10", "11"]),
            ("{a,b}{1..2}", &["a1", "a2", "b1", "b2"]),
            ("{a,b{1..2}}x", &["ax", "b1x", "b2x"]),
            ("{a}", &["{a}"]),
            ("{}{1..2}", &["{}1", "{}2"]),
            ("a{1..}", &["a{1..}"]),
            ("a{b", &["a{b"]),
            ("{,x}y", &["y", "xy"]),
        ] {
            assert_eq!(locations(pattern).unwrap(), expected, "{pattern}");
        }
    }

    #[test]
    fn too_many_locations_are_a_limit() {
        let error = locations("{0..18446744073709551615}").unwrap_err();
        assert_eq!(error.to_string(), "number of locations is 18446744073709551615, but the limit is 4194304");
        let error = locations("nothing-here-*.tar").unwrap_err();
        assert_eq!(error.to_string(), "no file matches nothing-here-*.tar");
    }
}
