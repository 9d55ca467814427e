use flatbuffers::{ErrorTraceDetail, Follow, InvalidFlatbuffer, Verifiable, VerifierOptions};

use super::header::{BEFORE_HEADER, Frame, HEAD, bad_number};
use super::schema::flat_tensor;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::Limits;
use crate::record::{Cursor, check_table};
use crate::storage::ReadAt;

/// The index of a file as a flatbuffer, in memory of its own.
///
/// If the file states how long the injected header is, the header is removed: the C++ writer may make it of any length,
/// and the parts of the flatbuffer are aligned only without it.
#[derive(Debug)]
pub(super) struct Flatbuffer {
    pub(super) frame: Frame,
    bytes: Vec<u8>,
}

impl Flatbuffer {
    pub(super) fn read(file: &mut dyn ReadAt) -> Result<Self> {
        let len = file.file_len();
        let mut cursor = Cursor::new(file, 0);
        let head = cursor.array::<HEAD>()?;
        let frame = Frame::parse(&head, len)?;
        let mut bytes = head.to_vec();
        cursor.append(frame.flatbuffer_end.saturating_sub(cursor.offset()), &mut bytes)?;
        let flatbuffer = Self { frame, bytes };
        flatbuffer.without_header()
    }

    /// Removes the injected header.
    fn without_header(mut self) -> Result<Self> {
        let injected = self.frame.injected;
        let root = u32::from_le_bytes(self.bytes[..4].try_into().expect("the head was read"));
        let moved = u64::from(root).checked_sub(injected).filter(|root| *root >= BEFORE_HEADER);
        let moved = moved.ok_or_else(|| {
            let expected = format!("at least {}, where the header ends", BEFORE_HEADER + injected);
            bad_number("root table offset", root, expected, 0)
        })?;
        let moved = u32::try_from(moved).expect("less than the root offset was");
        self.bytes[..4].copy_from_slice(&moved.to_le_bytes());
        let end = usize::try_from(self.frame.flatbuffer_end).expect("the flatbuffer was read");
        let header_end = usize::try_from(BEFORE_HEADER + injected).expect("the header was read");
        self.bytes.truncate(end);
        let header_start = usize::try_from(BEFORE_HEADER).expect("a few bytes");
        self.bytes.drain(header_start..header_end);
        Ok(self)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Checks that the number of tensors is within the limits.
    pub(super) fn check_count(&self, tensors: usize, limits: &Limits) -> Result<()> {
        match tensors as u64 {
            found if found > limits.tensors => {
                Err(ErrorKind::Limit { what: "number of tensors", found, limit: limits.tensors }.into())
            }
            _ => Ok(()),
        }
    }

    /// Returns the root table, after verifying all of the flatbuffer.
    pub(super) fn root<'a, T>(&'a self) -> Result<T::Inner>
    where
        T: Follow<'a> + Verifiable + 'a,
    {
        let bytes = self.bytes().len();
        // Every table and every byte counts as often as it is referenced. No writer references more than vtables and
        // perhaps strings twice. The limit bounds the time for a file that references one long string a million times.
        // The defaults are too small for 100,000 names.
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
            I::Unaligned { position, error_trace, .. } => ("an offset is not aligned", *position, error_trace),
            I::RangeOutOfBounds { range, error_trace } => ("a part lies outside of it", range.start, error_trace),
            I::SignedOffsetOutOfBounds { position, error_trace, .. } => {
                ("a table's list of fields lies outside of it", *position, error_trace)
            }
            _ => return malformed("the flatbuffer is broken: the same parts are referenced too often"),
        };
        let error = malformed(&format!("the flatbuffer is broken: {why}"));
        // A position outside is not in the file, but the reference to it is.
        let positions = std::iter::once(position).chain(trace.as_ref().iter().map(position_of));
        match positions.into_iter().find(|position| *position < self.bytes().len()) {
            Some(position) => error.at(self.frame.offset(position)),
            None => error.at(0),
        }
    }

    /// Checks what the verifier leaves out of a table.
    pub(super) fn check_table(&self, table: &flatbuffers::Table<'_>) -> Result<()> {
        check_table(table, &|position| self.frame.offset(position))
    }

    /// Refuses a version that is not among `known`.
    pub(super) fn check_version(&self, root: &flat_tensor::AnyRoot<'_>, known: &[u32], expected: &str) -> Result<u32> {
        let version = root.version();
        if known.contains(&version) {
            return Ok(version);
        }
        let at = self.place(&root._tab, flat_tensor::AnyRoot::VT_VERSION);
        Err(bad_number("schema version", version, expected.to_owned(), at))
    }

    /// Returns the offset in the file of a field of a table, or of the table if it lacks the field.
    pub(super) fn place(&self, table: &flatbuffers::Table<'_>, field: flatbuffers::VOffsetT) -> u64 {
        self.frame.offset(table.loc() + usize::from(table.vtable().get(field)))
    }
}

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
