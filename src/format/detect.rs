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
    for found in [
        all(&mut |format| {
            format.magics.iter().any(|magic| begin.get(magic.offset..).is_some_and(|at| at.starts_with(magic.bytes)))
        }),
        named.iter().copied().filter(|format| looks_like(format) != Some(false)).collect(),
        all(&mut |format| looks_like(format) == Some(true)),
        named.clone(),
    ] {
        match found[..] {
            [] => {}
            [format] => return Ok(format),
            // If several formats match, the extension decides.
            _ => {
                let mut both = found.iter().filter(|format| named.iter().any(|named| named.name == format.name));
                return match (both.next(), both.next()) {
                    (Some(format), None) => Ok(format),
                    _ => {
                        let formats = found.iter().map(|format| format.name).collect();
                        Err(ErrorKind::AmbiguousFormat { formats }.into())
                    }
                };
            }
        }
    }
    let formats = FORMATS.iter().map(|format| format.name).collect();
    Err(Error::new(ErrorKind::UnknownFormat { found: begin[..len.min(8)].to_vec(), formats }).at(0))
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
