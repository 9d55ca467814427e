use std::fmt;

use super::write::{FileWriter, LayoutWriter, Output};
use super::{Format, Plan};
use crate::error::{ErrorKind, Result};
use crate::tensor::TensorInfo;

/// The writing half of a format: the bytes around the payloads.
///
/// The [`Format`] lists the dtypes, ranks and names that can be stored, and is checked first.
pub trait Encode: fmt::Debug + Send + Sync {
    /// Returns the format.
    fn format(&self) -> &'static Format;

    /// Returns what happens to the tensors' names.
    fn names(&self) -> Names;

    /// Returns whether dense tensors are stored in the order of their memory. Otherwise they are written in row-major
    /// order.
    fn keeps_dim_order(&self) -> bool {
        false
    }

    /// Returns which tensors are stored once for several names.
    fn sharing(&self) -> Sharing {
        Sharing::Never
    }

    /// Refuses a tensor for a reason that is not in the [`Format`], before anything is written.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`], made by [`cannot_store`].
    fn check(&self, _name: &str, _info: &TensorInfo) -> Result<(), ErrorKind> {
        Ok(())
    }

    /// Decides where everything goes, and makes all bytes that are not payload.
    ///
    /// # Errors
    ///
    /// If the file as a whole is more than the format can address.
    fn lay_out(&self, plan: &Plan) -> Result<FileLayout>;

    /// Returns the writer of the file. Formats whose bytes are all in the layout need none of their own.
    #[doc(hidden)]
    fn writer<'w>(&self, plan: &'w Plan, out: Output<'w>) -> Box<dyn FileWriter<'w> + 'w> {
        Box::new(LayoutWriter::new(plan, out))
    }
}

/// The treatment of the names of a file's tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// They are left out.
    Omitted,
    /// They are stored as the format stores names.
    Stored,
    /// They are stored in one more tensor, at the end.
    Embedded,
}

/// Which tensors are stored once for several names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// None.
    Never,
    /// Tensors whose bytes are the same memory, and tensors that their type ties to another.
    SameMemory,
    /// Tensors whose bytes are equal, and tensors that their type ties to another.
    EqualBytes,
}

/// All bytes of a file but the payloads, and where everything goes. The gaps are zeros.
#[derive(Debug, Default)]
pub struct FileLayout {
    /// The bytes at the start.
    pub begin: Vec<u8>,
    /// The headers of the tensors, one after the other. Each is written right before its payload.
    pub headers: Vec<u8>,
    /// The end of each header in `headers`; empty if tensors have no headers of their own.
    pub header_ends: Vec<usize>,
    /// The offset of each payload.
    pub payloads: Vec<u64>,
    /// The offset of the bytes at the end, after the last payload and its padding.
    pub end_offset: u64,
    /// The bytes at the end.
    pub end: Vec<u8>,
}

impl FileLayout {
    /// Returns the header of the tensor at a position.
    pub(crate) fn header(&self, at: usize) -> &[u8] {
        let Some(&end) = self.header_ends.get(at) else { return &[] };
        let start = at.checked_sub(1).map_or(0, |before| self.header_ends[before]);
        &self.headers[start..end]
    }
}

/// The error for a tensor that a format cannot store: `what` it is, and what could be done `instead`.
pub fn cannot_store(what: impl Into<String>, instead: impl Into<String>) -> ErrorKind {
    ErrorKind::Unsupported { what: format!("store {}", what.into()), instead: instead.into() }
}
