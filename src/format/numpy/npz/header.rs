//! Names and alignment of members.

use crate::error::{ErrorKind, cannot_store};
use crate::read::sure_kind;
use crate::tensor::{Layout, TensorInfo};
use crate::write::zip::{ALIGNMENT, PaddingField};

/// The ending of the names of arrays.
pub(super) const ENDING: &str = ".npy";

/// The extra field for the alignment and its padding.
pub(super) const PADDING: PaddingField = PaddingField { id: 0xa11e, begin: &ALIGNMENT.to_le_bytes(), padding: 0 };

/// The length of the longest name of a member.
const MAX_NAME: usize = u16::MAX as usize;

/// The name of a member, with escapes if it is not UTF-8.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MemberName(String);

impl MemberName {
    pub(super) fn new(name: &[u8]) -> Self {
        Self(str::from_utf8(name).map_or_else(|_| name.escape_ascii().to_string(), str::to_owned))
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }

    /// Returns the name of the array, if the member name has the ending of arrays.
    pub(super) fn array(&self) -> Option<&str> {
        self.0.strip_suffix(ENDING)
    }

    /// Returns the name of the tensor, if the member is an array.
    pub(super) fn tensor(&self) -> &str {
        self.array().unwrap_or(&self.0)
    }
}

/// Returns whether a member may be an array by its name, if it has no array name of its own.
fn is_array(name: &[u8]) -> bool {
    name.ends_with(ENDING.as_bytes())
}

/// Returns the name of the member for a tensor.
pub(super) fn member_name(name: &str, info: &TensorInfo) -> String {
    match info.layout {
        Layout::Blob => name.to_owned(),
        _ => format!("{name}{ENDING}"),
    }
}

/// Refuses a name that would be read as another one, or is too long.
pub(super) fn check_name(name: &str) -> Result<(), ErrorKind> {
    const LONGEST: usize = MAX_NAME - ENDING.len();
    if name.contains('\0') {
        return Err(cannot_store("a name with NUL in it", "readers of zip archives end the name there"));
    }
    if name.len() > LONGEST {
        let what = format!("a name of {} bytes", name.len());
        return Err(cannot_store(what, format!("npz stores names of up to {LONGEST}")));
    }
    Ok(())
}

/// Refuses a blob name that would be read as an array, or would make the archive another kind of file.
pub(super) fn check_blob(name: &str, info: &TensorInfo) -> Result<(), ErrorKind> {
    const WHAT: &str = "a blob of this name";
    if info.layout != Layout::Blob {
        return Ok(());
    }
    if is_array(name.as_bytes()) {
        return Err(cannot_store(WHAT, "members of npz that end in .npy are those of arrays"));
    }
    match sure_kind(name.as_bytes()) {
        Some(kind) => Err(cannot_store(WHAT, format!("an archive that has it is taken for {kind}"))),
        None => Ok(()),
    }
}
