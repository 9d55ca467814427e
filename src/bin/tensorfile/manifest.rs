//! Lists of digests and what they are of, in the lines that `sha256sum` and `b3sum` have.
//!
//! A line is `digest  name`. Where the name holds characters that would break the line or steer a terminal, it begins
//! with a backslash, and these are escapes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::path::Path;

use tensorfile::Digest;

use crate::failure::{At, Failure, Outcome};
use crate::input::{is_stdin, name_of};
use crate::out::{Out, plain};

/// Names with their digests, in the order of the list.
pub type Manifest = Vec<(String, Digest)>;

/// Writes a line.
pub fn write_line(out: &mut Out, name: &str, digest: Digest) -> io::Result<()> {
    match plain(name) {
        Cow::Borrowed(name) => writeln!(out, "{digest}  {name}"),
        Cow::Owned(_) => writeln!(out, "\\{digest}  {}", plain(&name.replace('\\', "\\\\"))),
    }
}

/// Reads a list; `-` is standard input.
pub fn read(path: &Path) -> Outcome<Manifest> {
    let (mut bytes, name) = (Vec::new(), name_of(path));
    let read = match is_stdin(path) {
        true => io::stdin().lock().read_to_end(&mut bytes),
        false => std::fs::File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)),
    };
    read.at(name)?;
    let text = str::from_utf8(&bytes).map_err(|_| Failure::malformed(name, "not UTF-8"))?;
    let entries = text.lines().enumerate().map(|(at, line)| {
        let message = || format!("line {} is not a digest, two blanks and a name", at + 1);
        parse(line).ok_or_else(|| Failure::malformed(name, message()))
    });
    entries.collect()
}

fn parse(line: &str) -> Option<(String, Digest)> {
    let escaped = line.strip_prefix('\\');
    let (digest, name) = escaped.unwrap_or(line).split_at_checked(64)?;
    // A star says that a file was read as bytes.
    let name = name.strip_prefix("  ").or_else(|| name.strip_prefix(" *"))?;
    let name = if escaped.is_some() { unescape(name)? } else { name.to_owned() };
    Some((name, digest.parse().ok()?))
}

fn unescape(text: &str) -> Option<String> {
    let mut name = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, escape)) = rest.split_once('\\') {
        name.push_str(before);
        let kind = escape.chars().next()?;
        rest = &escape[kind.len_utf8()..];
        name.push(match kind {
            '\\' => '\\',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let (digits, behind) = rest.strip_prefix('{')?.split_once('}')?;
                rest = behind;
                char::from_u32(u32::from_str_radix(digits, 16).ok()?)?
            }
            _ => return None,
        });
    }
    Some(name + rest)
}

/// What the digests of tensors have not in common with a list of them, each a sentence.
pub fn differences(found: &[(&str, Digest)], manifest: &Manifest) -> Vec<String> {
    let mut listed: HashMap<&str, Digest> = manifest.iter().map(|(name, digest)| (name.as_str(), *digest)).collect();
    let mut differences = Vec::new();
    for (name, digest) in found {
        match listed.remove(name) {
            Some(expected) if expected == *digest => {}
            Some(_) => differences.push(format!("tensor `{name}` has another digest than in the manifest")),
            None => differences.push(format!("tensor `{name}` is not in the manifest")),
        }
    }
    let missing = manifest.iter().filter(|(name, _)| listed.contains_key(name.as_str()));
    differences.extend(missing.map(|(name, _)| format!("tensor `{name}` of the manifest is missing")));
    differences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_names_are_read_back() {
        for name in ["a", "", " a  b ", "a\\b", "a\n\\\u{1b}[31m\u{202e}\r", "ä"] {
            let line = match plain(name) {
                Cow::Borrowed(name) => format!("{}  {name}", Digest([7; 32])),
                Cow::Owned(_) => format!("\\{}  {}", Digest([7; 32]), plain(&name.replace('\\', "\\\\"))),
            };
            assert_eq!(parse(&line), Some((name.to_owned(), Digest([7; 32]))), "{line}");
        }
    }

    #[test]
    fn other_lines_are_none() {
        let digest = Digest([7; 32]);
        for line in ["", "# digests", &format!("{digest}"), &format!("{digest} a"), &format!("\\{digest}  a\\x")] {
            assert_eq!(parse(line), None, "{line}");
        }
        assert_eq!(parse(&format!("{digest} *a")), Some(("a".to_owned(), digest)));
    }
}
