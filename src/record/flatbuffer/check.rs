use flatbuffers::Table;

use crate::error::{Error, ErrorKind, Result};

/// The length of the shortest list of fields: its own length and that of the table.
const SHORTEST: usize = 4;

/// Checks the list of fields of a table that the verifier accepted.
///
/// The verifier also accepts lists that are too short for their own header. No field is found in them, so the table
/// would be read as empty. `place` returns the offset in the file of a position in the flatbuffer.
pub(crate) fn check_table(table: &Table<'_>, place: &dyn Fn(usize) -> u64) -> Result<()> {
    let found = table.vtable().num_bytes();
    if found >= SHORTEST {
        return Ok(());
    }
    // A table begins with the distance to its list of fields, which may be before or after it.
    let distance =
        table.buf().get(table.loc()..).and_then(|rest| rest.first_chunk()).map_or(0, |&it| i32::from_le_bytes(it));
    let at = i64::try_from(table.loc()).ok().and_then(|loc| loc.checked_sub(distance.into()));
    let (what, expected) = ("length of a table's list of fields", format!("at least {SHORTEST}"));
    let wrong = ErrorKind::BadNumber { what, found: found as i128, expected };
    Err(Error::new(wrong).at(place(at.and_then(|at| usize::try_from(at).ok()).unwrap_or(table.loc()))))
}
