//! Digests of tensors, and manifests: lists of digests in the line format of `sha256sum` and `b3sum`.
//!
//! A line is `digest  name`. If the name contains a backslash or control characters together with them, the line starts
//! with a backslash and the name has escapes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;

use tensorfile::digest::{CollectionDigester, TensorDigester};
use tensorfile::{Digest, Error, File, TensorData};

use crate::args::{display_name, read};
use crate::exit::{At, Failure, Outcome};
use crate::output::{Progress, Stdout, escape};
use crate::pieces::Pieces;

/// Returns the digest of each tensor with its name, or with its position if the file has no names.
pub fn of_tensors<'f>(file: &'f File, path: &Path) -> Outcome<Vec<(&'f str, Digest)>> {
    let mut progress = Progress::bytes(file.tensors().map(|tensor| tensor.payload_bytes()).sum());
    let mut digests = Vec::with_capacity(file.len());
    for tensor in file.tensors() {
        let mut digester = TensorDigester::new(tensor.info());
        let mut pieces = Pieces(|piece: &[u8]| {
            digester.update(piece);
            progress.advance(piece.len());
            Ok(())
        });
        tensor.write_to(&mut pieces).map_err(Error::from).at(path)?;
        digests.push((tensor.name(), digester.finish().map_err(Error::from).at(path)?));
    }
    Ok(digests)
}

/// Returns the digest of a file from those of its tensors.
pub fn of_file(tensors: &[(&str, Digest)]) -> Digest {
    tensors.iter().copied().collect::<CollectionDigester>().finish()
}

/// Names with their digests.
pub struct Manifest(Vec<(String, Digest)>);

impl Manifest {
    /// Reads a manifest; the path `-` is standard input.
    pub fn read(path: &Path) -> Outcome<Self> {
        let name = display_name(path);
        let bytes = read(path)?;
        let text = str::from_utf8(&bytes).map_err(|_| Failure::malformed(name, "not UTF-8"))?;
        let entries = text.lines().enumerate().map(|(at, line)| {
            let message = || format!("line {} is not a digest, two spaces and a name", at + 1);
            parse_line(line).ok_or_else(|| Failure::malformed(name, message()))
        });
        entries.collect::<Outcome<_>>().map(Self)
    }

    pub fn entries(&self) -> &[(String, Digest)] {
        &self.0
    }

    /// Returns a message for each tensor that differs from the manifest, is not in it, or is missing.
    pub fn differences(&self, found: &[(&str, Digest)]) -> Vec<String> {
        let mut left: HashMap<&str, Digest> = self.0.iter().map(|(name, digest)| (name.as_str(), *digest)).collect();
        let mut differences = Vec::new();
        for (name, digest) in found {
            match left.remove(name) {
                Some(expected) if expected == *digest => {}
                Some(_) => differences.push(format!("tensor `{name}` differs from the manifest")),
                None => differences.push(format!("tensor `{name}` is not in the manifest")),
            }
        }
        let missing = self.0.iter().filter(|(name, _)| left.contains_key(name.as_str()));
        differences.extend(missing.map(|(name, _)| format!("missing tensor `{name}`, which is in the manifest")));
        differences
    }
}

/// Writes a line of a manifest.
pub fn write_line(out: &mut Stdout, name: &str, digest: Digest) -> io::Result<()> {
    writeln!(out, "{}", line(name, digest))
}

fn line(name: &str, digest: Digest) -> String {
    match escape(name) {
        Cow::Borrowed(name) => format!("{digest}  {name}"),
        Cow::Owned(_) => format!("\\{digest}  {}", escape(&name.replace('\\', "\\\\"))),
    }
}

fn parse_line(line: &str) -> Option<(String, Digest)> {
    let escaped = line.strip_prefix('\\');
    let (digest, name) = escaped.unwrap_or(line).split_at_checked(64)?;
    // `sha256sum` marks files that it read in binary mode with a star.
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
                let (digits, after) = rest.strip_prefix('{')?.split_once('}')?;
                rest = after;
                char::from_u32(u32::from_str_radix(digits, 16).ok()?)?
            }
            _ => return None,
        });
    }
    Some(name + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: Digest = Digest([7; 32]);

    #[test]
    fn escaped_names_are_read_back() {
        for name in ["a", "", " a  b ", "a\\b", "a\n\\\u{1b}[31m\u{202e}\r", "ä"] {
            let line = line(name, DIGEST);
            assert_eq!(parse_line(&line), Some((name.to_owned(), DIGEST)), "{line}");
        }
    }

    #[test]
    fn rejects_other_lines() {
        for line in ["", "# digests", &format!("{DIGEST}"), &format!("{DIGEST} a"), &format!("\\{DIGEST}  a\\x")] {
            assert_eq!(parse_line(line), None, "{line}");
        }
        assert_eq!(parse_line(&format!("{DIGEST} *a")), Some(("a".to_owned(), DIGEST)));
    }
}
