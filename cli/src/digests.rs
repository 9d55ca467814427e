//! Digests of tensors, and manifests: lists of digests in the line format of `sha256sum` and `b3sum`.
//!
//! A line is `digest  name`. If the name contains a backslash or control characters together with them, the line starts
//! with a backslash and the name has escapes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;

use tensorfile::digest::{SortedDigester, TensorDigester};
use tensorfile::{Digest, File, FileTensor, Result, TensorData, TensorInfo};

use crate::args::{display_name, read};
use crate::exit::{Failure, Outcome};
use crate::export::quoted;
use crate::output::numbers::counted;
use crate::output::{Progress, Stdout, escape};

/// Computes the digest of a tensor of a file.
pub fn of_tensor(tensor: FileTensor<'_>, progress: &mut Progress) -> Result<Digest> {
    tensor.digest_with(&mut |bytes| progress.advance(usize::try_from(bytes).unwrap_or(usize::MAX)))
}

/// Computes the digest of a tensor of a stream.
pub fn of_passing(info: &TensorInfo, data: &dyn TensorData) -> Result<Digest> {
    let mut digester = TensorDigester::new(info);
    data.write_to(&mut digester)?;
    Ok(digester.finish()?)
}

/// Returns the digest of a file from those of its tensors.
pub fn of_file(file: &File, digests: &[Digest]) -> Digest {
    let mut by_name: Vec<usize> = (0..digests.len()).collect();
    by_name.sort_unstable_by(|a, b| (name_at(file, *a), digests[*a]).cmp(&(name_at(file, *b), digests[*b])));
    let mut collection = SortedDigester::new(by_name.len());
    by_name.into_iter().for_each(|at| collection.add(name_at(file, at), digests[at]));
    collection.finish()
}

fn name_at(file: &File, at: usize) -> &str {
    file.nth(at).map_or("", |tensor| tensor.name())
}

/// Names with their digests.
pub struct Manifest(Vec<(String, Digest)>);

impl Manifest {
    /// Reads a manifest; the path `-` is standard input.
    pub fn read(path: &Path) -> Outcome<Self> {
        let name = display_name(path);
        let bytes = read(path)?;
        let text =
            str::from_utf8(&bytes).map_err(|_| Failure::malformed(name, "this is not a manifest: it is not UTF-8"))?;
        let entries = text.lines().enumerate().map(|(at, line)| {
            let message = || format!("line {} is not a digest, two spaces and a name", at + 1);
            parse_line(line).ok_or_else(|| Failure::malformed(name, message()))
        });
        entries.collect::<Outcome<_>>().map(Self)
    }

    pub fn entries(&self) -> &[(String, Digest)] {
        &self.0
    }

    /// Compares the manifest with tensors.
    pub fn differences<'f>(&self, found: impl IntoIterator<Item = Outcome<(&'f str, Digest)>>) -> Outcome<Differences> {
        let mut left: HashMap<&str, Digest> = self.0.iter().map(|(name, digest)| (name.as_str(), *digest)).collect();
        let mut differences = Vec::new();
        for found in found {
            let (name, digest) = found?;
            match left.remove(name) {
                Some(expected) if expected == digest => {}
                Some(_) => differences.push((Difference::Changed, name.to_owned())),
                None => differences.push((Difference::Added, name.to_owned())),
            }
        }
        let missing = self.0.iter().filter(|(name, _)| left.contains_key(name.as_str()));
        differences.extend(missing.map(|(name, _)| (Difference::Missing, name.clone())));
        Ok(Differences(differences))
    }
}

/// The names of tensors that differ from a manifest.
pub struct Differences(Vec<(Difference, String)>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Difference {
    Changed,
    Added,
    Missing,
}

impl Differences {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns a message for each tensor.
    pub fn each(&self) -> Vec<String> {
        let message = |(difference, name): &(Difference, String)| difference.message(std::slice::from_ref(name));
        self.0.iter().map(message).collect()
    }

    /// Returns a message for all tensors that differ in the same way.
    pub fn grouped(&self) -> Vec<String> {
        let message = |difference: Difference| {
            let names = self.0.iter().filter(|(own, _)| *own == difference).map(|(_, name)| name.clone());
            let names: Vec<String> = names.collect();
            (!names.is_empty()).then(|| difference.message(&names))
        };
        [Difference::Changed, Difference::Added, Difference::Missing].into_iter().filter_map(message).collect()
    }
}

impl Difference {
    fn message(self, names: &[String]) -> String {
        let (list, is_one) = (quoted(names), names.len() == 1);
        let (subject, differ, are) = match is_one {
            true => (format!("tensor {list}"), "differs", "is"),
            false => (format!("{} ({list})", counted(names.len(), "tensor")), "differ", "are"),
        };
        match self {
            Self::Changed => format!("{subject} {differ} from the manifest"),
            Self::Added => format!("{subject} {are} not in the manifest"),
            Self::Missing if is_one => format!("missing tensor {list}, which is in the manifest"),
            Self::Missing => format!("missing {subject}, which are in the manifest"),
        }
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
