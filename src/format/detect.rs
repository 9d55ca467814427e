//! The detection of a file's format.

use std::path::Path;

use super::FORMATS;
use crate::error::{Error, ErrorKind, Result};
use crate::record::Format;
use crate::storage::ReadAt;

/// The number of bytes at the start of a file in which all magics are.
const BEGIN: usize = 64;

/// Finds the format of a file: by its magic, then by the extension of its path, then by a check of its contents for
/// formats without a magic. If that check fails, the extension still counts last: other software may be less strict.
pub(crate) fn detect(file: &mut dyn ReadAt, path: Option<&Path>) -> Result<&'static Format> {
    let mut begin = [0; BEGIN];
    let len = file.file_len().and_then(|len| usize::try_from(len).ok()).map_or(BEGIN, |len| len.min(BEGIN));
    file.read_at(0, &mut begin[..len])?;
    let begin = &begin[..len];

    let named = all(&mut |format| path.is_some_and(|path| has_extension(format, path)));
    let mut looks_like = |format: &Format| format.looks_like.map(|looks_like| looks_like(file));
    // Formats are asked to look only if nothing before was decisive.
    let by_magic = all(&mut |format| {
        format.magics.iter().any(|magic| begin.get(magic.offset..).is_some_and(|at| at.starts_with(magic.bytes)))
    });
    if let Some(format) = choose(&by_magic, &named)? {
        return Ok(format);
    }
    let alike: Vec<_> = named.iter().copied().filter(|format| looks_like(format) != Some(false)).collect();
    if let Some(format) = choose(&alike, &named)? {
        return Ok(format);
    }
    let by_look = all(&mut |format| looks_like(format) == Some(true));
    if let Some(format) = choose(&by_look, &named)? {
        return Ok(format);
    }
    if let Some(format) = choose(&named, &named)? {
        return Ok(format);
    }
    let formats = FORMATS.iter().map(|format| format.name).collect();
    Err(Error::new(ErrorKind::UnknownFormat { found: begin[..len.min(8)].to_vec(), formats }).at(0))
}

/// Returns the only one of the candidates. If there are several, that of the extension.
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

/// Returns the format whose extension a path has.
pub(crate) fn by_extension(path: &Path) -> Result<&'static Format> {
    all(&mut |format| has_extension(format, path)).first().copied().ok_or_else(|| {
        let extensions: Vec<String> =
            FORMATS.iter().flat_map(|format| format.extensions).map(|extension| format!(".{extension}")).collect();
        let found = path.extension().unwrap_or_default().to_string_lossy();
        let what = match found.is_empty() {
            true => "find the format by the file name, which has no extension".to_owned(),
            false => format!("find the format by the extension `.{found}`"),
        };
        ErrorKind::Unsupported { what, instead: format!("known extensions are {}", extensions.join(", ")) }.into()
    })
}

fn all(matches: &mut dyn FnMut(&Format) -> bool) -> Vec<&'static Format> {
    FORMATS.iter().copied().filter(|format| matches(format)).collect()
}

fn has_extension(format: &Format, path: &Path) -> bool {
    let extension = path.extension().unwrap_or_default();
    format.extensions.iter().any(|own| extension.eq_ignore_ascii_case(own))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{btf, ten};
    use crate::tensor::{Tensor, TensorMap};

    /// Counts the bytes that are read.
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
        let many: TensorMap = (0..100_000).map(|at: u32| (at.to_string(), tensor())).collect();
        for (file, name, path, most) in [
            (ten::to_vec(&many).unwrap(), "ten", None, BEGIN),
            (ten::to_vec(&many).unwrap(), "ten", Some("a.btf"), BEGIN),
            // Other formats without a magic look at a few bytes.
            (btf::to_vec(&many).unwrap(), "btf", None, BEGIN + 8 + 4096 + 16),
            (btf::to_vec(&many).unwrap(), "btf", Some("a.btf"), BEGIN + 8 + 4096),
        ] {
            let mut counted = Counted { file: &file, read: 0 };
            assert_eq!(detect(&mut counted, path.map(Path::new)).unwrap().name, name);
            assert!(counted.read <= most, "{name}: {} bytes", counted.read);
        }
    }
}
