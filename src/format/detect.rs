//! The detection of a file's format.

use std::path::Path;

use super::known::{KNOWN, KnownFormat};
use super::{FORMATS, READ_FORMATS, only_read};
use crate::error::{Error, ErrorKind, Result};
use crate::format::Format;
use crate::read::foreign;
use crate::storage::ReadAt;

/// The number of bytes at the start of a file that hold all magics.
const BEGIN: usize = 64;

/// Finds the format of a file: by its magic, then by a check of its contents for formats without a magic. If several
/// formats pass the check, the extension of the path decides. If none does, the extension still counts: other software
/// may be less strict.
pub(crate) fn detect(file: &mut dyn ReadAt, path: Option<&Path>) -> Result<&'static Format> {
    let mut begin = [0; BEGIN];
    let len = file.file_len().and_then(|len| usize::try_from(len).ok()).map_or(BEGIN, |len| len.min(BEGIN));
    file.read_at(0, &mut begin[..len])?;
    let begin = &begin[..len];

    let named = all(&mut |format| path.is_some_and(|path| has_extension(format, path)));
    // To look, btf takes the first eight bytes of a file for a count, and reads as many offsets.
    // Formats are asked to look only if nothing before was decisive.
    let mut by_magic = all(&mut |format| format.magics.iter().any(|magic| magic.is_in(begin)));
    // Archives of several formats begin alike.
    if by_magic.len() > 1 {
        let looks: Vec<_> = by_magic.into_iter().map(|format| (format, look(format, file))).collect();
        let is_sure = looks.iter().any(|(_, look)| *look == Some(true));
        // The directory of an archive, which distinguishes them, is at its end.
        #[cfg(feature = "npz")]
        if !is_sure
            && looks.iter().all(|(format, _)| format.magics.iter().any(|magic| magic.bytes.starts_with(b"PK")))
            && let Some(error) = crate::read::cut_off(file)
        {
            let formats: Vec<_> = looks.iter().map(|(format, _)| *format).collect();
            return choose(&formats, &named).ok().flatten().ok_or(error);
        }
        let is_left = |look| if is_sure { look == Some(true) } else { look != Some(false) };
        by_magic = looks.into_iter().filter(|(_, look)| is_left(*look)).map(|(format, _)| format).collect();
    }
    if let Some(format) = choose(&by_magic, &named)? {
        return Ok(format);
    }
    if let Some(off) = all_off().find(|off| off.magics.iter().any(|magic| magic.is_in(begin))) {
        return Err(off.feature_off());
    }
    // A format with a magic is ruled out for a file without it, under any extension.
    let mut looks_like_named = |format: &&&Format| look(format, file).unwrap_or(format.magics.is_empty());
    let alike: Vec<_> = named.iter().filter(&mut looks_like_named).copied().collect();
    if let Some(format) = choose(&alike, &named)? {
        return Ok(format);
    }
    let by_look = all(&mut |format| look(format, file) == Some(true));
    if let Some(format) = choose(&by_look, &named)? {
        return Ok(format);
    }
    if let Some(off) = all_off().find(|off| off.name == "safetensors" && begins_with_json(begin)) {
        return Err(off.feature_off());
    }
    if let Some(error) = recognize(file) {
        return Err(error);
    }
    if let Some(format) = choose(&named, &named)? {
        return Ok(format);
    }
    if let Some(off) = path.and_then(off_by_extension) {
        return Err(off.feature_off());
    }
    Err(unknown(&begin[..len.min(8)]))
}

/// Returns whether a file has a magic of a format.
pub(crate) fn has_magic(format: &Format, file: &mut dyn ReadAt) -> bool {
    format.magics.iter().any(|magic| {
        let mut found = vec![0; magic.bytes.len()];
        file.read_at(magic.offset as u64, &mut found).is_ok() && found == magic.bytes
    })
}

/// Returns the error for a file recognized as something else than tensors, after all formats refused it.
pub(crate) fn recognize(file: &mut dyn ReadAt) -> Option<Error> {
    let mut begin = [0; foreign::BEGIN];
    let (begin, is_whole) = foreign::begin_of(file, &mut begin)?;
    recognize_begin(begin, is_whole)
}

/// As [`recognize`], of the beginning of a file.
pub(crate) fn recognize_begin(begin: &[u8], is_whole: bool) -> Option<Error> {
    let has_magic = FORMATS.iter().chain(READ_FORMATS).any(|format| format.has_magic(begin));
    if has_magic { None } else { foreign::recognize(begin, is_whole) }
}

/// Returns the error for a file of an unknown format, which starts with `begin`.
pub(crate) fn unknown(begin: &[u8]) -> Error {
    // None is tried for an empty file.
    let tried = if begin.is_empty() { &[][..] } else { FORMATS };
    let formats = tried.iter().map(|format| format.name).collect();
    Error::new(ErrorKind::UnknownFormat { found: begin.to_vec(), formats }).at(0)
}

/// Returns whether a file looks like a format, if the format has a check.
fn look(format: &Format, file: &mut dyn ReadAt) -> Option<bool> {
    format.looks_like.map(|looks_like| looks_like(file))
}

/// Returns the only candidate. If there are several, the extension decides.
fn choose(found: &[&'static Format], named: &[&'static Format]) -> Result<Option<&'static Format>> {
    if let [] | [_] = found {
        return Ok(found.first().copied());
    }
    let mut both = found.iter().filter(|format| named.iter().any(|named| named.name == format.name));
    match (both.next(), both.next()) {
        (Some(format), None) => Ok(Some(format)),
        _ => Err(ErrorKind::AmbiguousFormat { formats: found.iter().map(|format| format.name).collect() }.into()),
    }
}

/// Returns whether a path has the extension of a format, even of one with its feature off.
pub(crate) fn has_known_extension(path: &Path) -> bool {
    FORMATS.iter().chain(READ_FORMATS).any(|format| has_extension(format, path)) || off_by_extension(path).is_some()
}

/// Returns the format of a path's extension, if it differs from `found`, the format of the file.
pub(crate) fn misnamed_as(path: &Path, found: &Format) -> Option<&'static Format> {
    let named = all(&mut |format| has_extension(format, path));
    let is_found = has_extension(found, path) || named.iter().any(|format| format.name == found.name);
    named.first().copied().filter(|_| !is_found)
}

/// Returns the format of new files at a path, by the extension.
pub(crate) fn by_extension(path: &Path) -> Result<&'static Format> {
    let is_written = |known: &&&KnownFormat| {
        is_extension(known.extensions, path) || is_extension(known.written_extension.as_slice(), path)
    };
    if let Some(known) = KNOWN.iter().find(is_written) {
        return Format::named(known.name).ok_or_else(|| known.feature_off());
    }
    if let Some(read) = READ_FORMATS.iter().find(|format| has_extension(format, path)) {
        return Err(only_read(read.name));
    }
    let extensions: Vec<String> =
        FORMATS.iter().flat_map(|format| format.extensions).map(|extension| format!(".{extension}")).collect();
    let found = path.extension().unwrap_or_default().to_string_lossy();
    let what = if found.is_empty() {
        "find the format by the file name, which has no extension".to_owned()
    } else {
        format!("find the format by the extension `.{found}`")
    };
    Err(ErrorKind::Unsupported { what, instead: format!("known extensions are {}", extensions.join(", ")) }.into())
}

fn all(matches: &mut dyn FnMut(&Format) -> bool) -> Vec<&'static Format> {
    FORMATS.iter().chain(READ_FORMATS).copied().filter(|format| matches(format)).collect()
}

fn has_extension(format: &Format, path: &Path) -> bool {
    is_extension(format.extensions, path)
}

fn is_extension(extensions: &[&str], path: &Path) -> bool {
    let extension = path.extension().unwrap_or_default();
    extensions.iter().any(|own| extension.eq_ignore_ascii_case(own))
}

/// Returns the formats whose features are off.
fn all_off() -> impl Iterator<Item = &'static KnownFormat> {
    KNOWN.iter().copied().filter(|known| FORMATS.iter().all(|format| format.name != known.name))
}

fn off_by_extension(path: &Path) -> Option<&'static KnownFormat> {
    all_off().find(|off| is_extension(off.extensions, path))
}

/// Returns whether a file begins like safetensors: with the length of the header, then JSON.
fn begins_with_json(begin: &[u8]) -> bool {
    begin.get(6..).is_some_and(|begin| begin.starts_with(b"\0\0{\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{btf, ten};
    use crate::tensor::{Tensor, TensorMap};

    /// Counts the bytes read.
    struct Counted<'a> {
        file: &'a [u8],
        read: usize,
    }

    impl ReadAt for Counted<'_> {
        fn file_len(&self) -> Option<u64> {
            Some(self.file.len() as u64)
        }

        fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> Result<()> {
            self.read += bytes.len();
            bytes.copy_from_slice(&self.file[usize::try_from(offset).unwrap()..][..bytes.len()]);
            Ok(())
        }
    }

    #[test]
    fn a_magic_decides_alone_and_a_look_is_short() {
        let tensor = || Tensor::from_slice(&[1_u8], [1]).unwrap();
        let many: TensorMap = (0..100_000).map(|index: u32| (index.to_string(), tensor())).collect();
        for (file, name, path, most) in [
            (ten::to_vec(&many).unwrap(), "ten", None, BEGIN),
            (ten::to_vec(&many).unwrap(), "ten", Some("a.btf"), BEGIN),
            // Other formats without a magic inspect a few bytes.
            (btf::to_vec(&many).unwrap(), "btf", None, BEGIN + 8 + 4096 + 16),
            (btf::to_vec(&many).unwrap(), "btf", Some("a.btf"), BEGIN + 8 + 4096),
        ] {
            let mut counted = Counted { file: &file, read: 0 };
            assert_eq!(detect(&mut counted, path.map(Path::new)).unwrap().name, name);
            assert!(counted.read <= most, "{name}: {} bytes", counted.read);
        }
    }

    /// Runs with each set of features: a format is found, or its feature is named.
    #[test]
    fn names_the_feature_of_a_format_that_is_off() {
        let json = *b"\x28\0\0\0\0\0\0\0{\"a\":";
        for (name, begin) in [
            ("ptd", &b"\x10\0\0\0FT01"[..]),
            ("tensorbuffers", b"TBS1"),
            ("npy", b"\x93NUMPY"),
            ("npz", b"PK\x03\x04"),
            ("gguf", b"GGUF"),
            ("safetensors", &json),
        ] {
            let mut file = begin.to_vec();
            file.resize(100, b' ');
            // Otherwise the archive is cut off.
            file.extend(b"PK\x05\x06".iter().chain(&[0; 18]));
            let found = |path: Option<&str>| detect(&mut Counted { file: &file, read: 0 }, path.map(Path::new));
            let optional = KNOWN.iter().find(|optional| optional.name == name).unwrap();
            let own = format!("model.{}", optional.extensions[0]);
            let missing = format!("{name} files need the Cargo feature `{name}`");
            for path in [None, Some("model.ten"), Some("model.bin"), Some(own.as_str())] {
                match found(path) {
                    Ok(format) => assert_eq!(format.name, name, "{path:?}"),
                    Err(error) => {
                        assert!(all_off().any(|off| off.name == name), "{path:?}: {error}");
                        assert_eq!(error.to_string(), missing, "{path:?}");
                    }
                }
            }
            // Content that is binary and means nothing.
            let by_name = detect(&mut Counted { file: &[0x81; 80], read: 0 }, Some(Path::new(&own)));
            let saved = by_extension(Path::new(&own));
            if all_off().any(|off| off.name == name) {
                [by_name, saved].map(|result| assert_eq!(result.unwrap_err().to_string(), missing))
            } else {
                [by_name, saved].map(|result| assert_eq!(result.unwrap().name, name))
            };
        }
    }
}
