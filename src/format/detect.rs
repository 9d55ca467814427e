//! Which format a file is of.

use std::path::Path;

use super::{FORMATS, Format};
use crate::error::{Error, ErrorKind, Result};
use crate::source::Storage;

/// The first bytes of a file, where all magics are.
const BEGIN: usize = 64;

/// Finds the format of a file: by its magic, then by the extension of its path, then by a look into it for formats without
/// a magic. The extension of such a format counts last where a look says no: other software may be laxer.
pub(crate) fn detect(storage: &Storage, path: Option<&Path>) -> Result<&'static Format> {
    let mut begin = [0; BEGIN];
    let len = storage.read_some(0, &mut begin)?;
    let begin = &begin[..len];

    let named: Vec<_> = all(|format| path.is_some_and(|path| has_extension(format, path)));
    let looks_like = |format: &Format| format.functions.looks_like.map(|looks_like| looks_like(storage));
    for found in [
        all(|format| {
            format.magics.iter().any(|magic| begin.get(magic.offset..).is_some_and(|at| at.starts_with(magic.bytes)))
        }),
        named.iter().copied().filter(|format| looks_like(format) != Some(false)).collect(),
        all(|format| looks_like(format) == Some(true)),
        named.clone(),
    ] {
        match found[..] {
            [] => {}
            [format] => return Ok(format),
            // Where the file fits several, the extension decides.
            _ => {
                let mut both = found.iter().filter(|format| named.iter().any(|named| named.name == format.name));
                return match (both.next(), both.next()) {
                    (Some(format), None) => Ok(format),
                    _ => {
                        Err(ErrorKind::AmbiguousFormat { formats: found.iter().map(|format| format.name).collect() }
                            .into())
                    }
                };
            }
        }
    }
    let formats = FORMATS.iter().map(|format| format.name).collect();
    Err(Error::new(ErrorKind::UnknownFormat { found: begin[..len.min(8)].to_vec(), formats }).at(0))
}

/// The format whose extension a path has.
pub(crate) fn by_extension(path: &Path) -> Result<&'static Format> {
    all(|format| has_extension(format, path)).first().copied().ok_or_else(|| {
        let extensions: Vec<String> =
            FORMATS.iter().flat_map(|format| format.extensions).map(|extension| format!(".{extension}")).collect();
        let found = path.extension().unwrap_or_default().to_string_lossy();
        let what = match found.is_empty() {
            true => "tell the format by the name, which has no extension".to_owned(),
            false => format!("tell the format by the extension `.{found}`"),
        };
        ErrorKind::Unsupported { what, instead: format!("those of formats are {}", extensions.join(", ")) }.into()
    })
}

fn all(is_it: impl Fn(&Format) -> bool) -> Vec<&'static Format> {
    FORMATS.iter().copied().filter(|format| is_it(format)).collect()
}

fn has_extension(format: &Format, path: &Path) -> bool {
    let extension = path.extension().unwrap_or_default();
    format.extensions.iter().any(|own| extension.eq_ignore_ascii_case(own))
}
