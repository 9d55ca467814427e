//! Digests of tensors, and manifests: lists of digests in the line format of `sha256sum` and `b3sum`.
//!
//! A line is `digest name`. If the name contains a backslash, characters that control a terminal, or bytes that are not
//! UTF-8, the line starts with a backslash and the name has escapes. Without escapes, any bytes are read.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tensorfile::digest::Digest;
use tensorfile::digest::{SortedDigester, TensorDigester};
use tensorfile::file::FileTensor;
use tensorfile::model::TensorData;
use tensorfile::{File, Result, TensorInfo};

use crate::args::{display_name, is_stdin, read_lines};
use crate::exit::{Failure, Outcome};
use crate::export::quoted;
use crate::output::numbers::counted;
use crate::output::tensors::is_unseen;
use crate::output::{Progress, Stdout, escape, escape_bytes};

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

/// Returns the digest of a file from the digests of its tensors.
pub fn of_file(file: &File, digests: &[Digest]) -> Digest {
    let mut by_name: Vec<usize> = (0..digests.len()).collect();
    by_name.sort_unstable_by(|a, b| (name_at(file, *a), digests[*a]).cmp(&(name_at(file, *b), digests[*b])));
    let mut collection = SortedDigester::new(by_name.len());
    by_name.into_iter().for_each(|index| collection.add(name_at(file, index), digests[index]));
    collection.finish()
}

/// Returns the names of tensors with unreadable elements. Their digests are of no elements.
pub fn unseen(file: &File) -> Vec<String> {
    file.tensors().filter(|tensor| is_unseen(file, *tensor)).map(|tensor| tensor.name().to_owned()).collect()
}

fn name_at(file: &File, index: usize) -> &str {
    file.nth(index).map_or("", |tensor| tensor.name())
}

/// Names with their digests.
pub struct Manifest(Vec<ManifestEntry>);

/// A line of a manifest.
#[derive(Debug, PartialEq)]
pub struct ManifestEntry {
    name: Vec<u8>,
    pub digest: Digest,
}

impl ManifestEntry {
    /// Returns the name as a path.
    pub fn path(&self) -> PathBuf {
        #[cfg(unix)]
        return PathBuf::from(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(&self.name));
        #[cfg(not(unix))]
        PathBuf::from(&*String::from_utf8_lossy(&self.name))
    }

    /// Returns the name as it is printed.
    pub fn text(&self) -> String {
        escape_bytes(&self.name).into_owned()
    }
}

impl Manifest {
    /// Reads a manifest; the path `-` is standard input.
    pub fn read(path: &Path) -> Outcome<Self> {
        let (name, mut entries, mut number) = (display_name(path), Vec::new(), 0_u64);
        read_lines(path, &mut |line| {
            number += 1;
            let message = || format!("line {number} is not a digest, two spaces and a name");
            entries.push(parse_line(line).ok_or_else(|| Failure::malformed(name, message()))?);
            Ok(())
        })?;
        if entries.is_empty() {
            return Err(Failure::malformed(name, "the manifest is empty, so there is nothing to check"));
        }
        Ok(Self(entries))
    }

    pub fn entries(&self) -> &[ManifestEntry] {
        &self.0
    }

    /// Compares the manifest with tensors.
    pub fn differences<'f>(&self, found: impl IntoIterator<Item = Outcome<(&'f str, Digest)>>) -> Outcome<Differences> {
        let mut left: HashMap<&[u8], Digest> = self.0.iter().map(|entry| (&*entry.name, entry.digest)).collect();
        let mut differences = Vec::new();
        for found in found {
            let (name, digest) = found?;
            match left.remove(name.as_bytes()) {
                Some(expected) if expected == digest => {}
                Some(_) => differences.push((Difference::Changed, name.to_owned())),
                None => differences.push((Difference::Added, name.to_owned())),
            }
        }
        let missing = self.0.iter().filter(|entry| left.contains_key(&*entry.name));
        let name = |entry: &ManifestEntry| String::from_utf8_lossy(&entry.name).into_owned();
        differences.extend(missing.map(|entry| (Difference::Missing, name(entry))));
        Ok(Differences(differences))
    }
}

/// The names of tensors different from a manifest.
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

    /// Returns a message for all tensors with the same difference.
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
        let (subject, differ, are) = if is_one {
            (format!("tensor {list}"), "differs", "is")
        } else {
            (format!("{} ({list})", counted(names.len(), "tensor")), "differ", "are")
        };
        match self {
            Self::Changed => format!("{subject} {differ} from the manifest"),
            Self::Added => format!("{subject} {are} not in the manifest"),
            Self::Missing if is_one => format!("missing tensor {list}, which is in the manifest"),
            Self::Missing => format!("missing {subject}, which are in the manifest"),
        }
    }
}

/// Returns the name of a file as bytes of a manifest, a URL without its secrets.
pub fn path_bytes(path: &Path) -> &[u8] {
    let name = if is_stdin(path) { path } else { display_name(path) };
    name.as_os_str().as_encoded_bytes()
}

/// Writes a line of a manifest.
pub fn write_line(out: &mut Stdout, name: &[u8], digest: Digest) -> io::Result<()> {
    writeln!(out, "{}", line(name, digest))
}

fn line(name: &[u8], digest: Digest) -> String {
    match str::from_utf8(name) {
        Ok(name) if !name.contains('\\') && escape(name) == name => format!("{digest}  {name}"),
        _ => {
            let parts: Vec<_> = name.split(|byte| *byte == b'\\').map(escape_bytes).collect();
            format!("\\{digest}  {}", parts.join("\\\\"))
        }
    }
}

fn parse_line(line: &[u8]) -> Option<ManifestEntry> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let escaped = line.strip_prefix(b"\\");
    let (digest, name) = escaped.unwrap_or(line).split_at_checked(64)?;
    // `sha256sum` marks files read in binary mode with a star.
    let name = name.strip_prefix(b"  ").or_else(|| name.strip_prefix(b" *"))?;
    let name = if escaped.is_some() { unescape(name)? } else { name.to_owned() };
    Some(ManifestEntry { name, digest: str::from_utf8(digest).ok()?.parse().ok()? })
}

fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let mut name = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.iter().position(|byte| *byte == b'\\') {
        name.extend_from_slice(&rest[..start]);
        let (kind, after) = rest[start + 1..].split_first()?;
        rest = after;
        match kind {
            b'\\' => name.push(b'\\'),
            b'n' => name.push(b'\n'),
            b'r' => name.push(b'\r'),
            b't' => name.push(b'\t'),
            b'x' => {
                let (digits, after) = rest.split_at_checked(2)?;
                rest = after;
                name.push(u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?);
            }
            b'u' => {
                let end = rest.iter().position(|byte| *byte == b'}')?;
                let digits = str::from_utf8(rest[..end].strip_prefix(b"{")?).ok()?;
                rest = &rest[end + 1..];
                let c = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
                name.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
            _ => return None,
        }
    }
    name.extend_from_slice(rest);
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: Digest = Digest([7; 32]);

    fn parsed(line: &str) -> Option<(Vec<u8>, Digest)> {
        parse_line(line.as_bytes()).map(|entry| (entry.name, entry.digest))
    }

    #[test]
    fn escaped_names_are_read_back() {
        let utf8 = ["a", "", " a  b ", "a\\b", "a\n\\\u{1b}[31m\u{202e}\r", "ä", "\\x41", "a\r"];
        for name in utf8.map(str::as_bytes).into_iter().chain([&b"a\xff\\\n"[..], b"\xc3", b"\xe2\x80\xae\x80"]) {
            let line = line(name, DIGEST);
            assert_eq!(parsed(&line), Some((name.to_owned(), DIGEST)), "{line}");
        }
        assert_eq!(line(b"a\\b\nc", DIGEST), format!("\\{DIGEST}  a\\\\b\\nc"), "as `sha256sum` has it");
        let raw = [format!("{DIGEST}  ").as_bytes(), b"a\xff"].concat();
        assert_eq!(parse_line(&raw).unwrap().name, b"a\xff");
    }

    #[test]
    fn rejects_other_lines() {
        for line in ["", "# digests", &format!("{DIGEST}"), &format!("{DIGEST} a"), &format!("\\{DIGEST}  a\\z")] {
            assert_eq!(parsed(line), None, "{line}");
        }
        assert_eq!(parsed(&format!("{DIGEST} *a")), Some((b"a".to_vec(), DIGEST)));
    }
}
