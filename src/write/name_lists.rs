//! Tensors whose bytes look like the list of embedded names. As the last tensor of a file without names, one would be
//! read as the list.

use std::io::{self, Write};

use crate::error::{Error, ErrorKind, Result, cannot_store};
use crate::model::embedded_names::MAGIC;
use crate::model::{MetadataValue, TensorData, TensorRecord, TensorSink, Tensors};

/// The error for a last tensor that looks like a list of names, in a file without names.
#[cold]
pub(super) fn reads_as_names() -> ErrorKind {
    let instead = "as the last tensor of a file without names, it would be read as the names of the others; embed the \
                   names, or put another tensor last";
    cannot_store("a tensor that begins as a list of names does", instead)
}

/// Returns whether a payload begins as the list does.
#[cold]
pub(super) fn begins_as_list(data: &dyn TensorData) -> bool {
    if let Some(bytes) = data.as_bytes() {
        return bytes.starts_with(&MAGIC);
    }
    let mut first = FirstBytes { bytes: [0; MAGIC.len()], len: 0 };
    // It ends with an error when enough was written. An error of reading comes again when the file is written.
    let _ = data.write_to(&mut first);
    first.bytes == MAGIC
}

/// Takes the first bytes, and fails then.
struct FirstBytes {
    bytes: [u8; MAGIC.len()],
    len: usize,
}

impl Write for FirstBytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = &mut self.bytes[self.len..];
        let taken = room.len().min(bytes.len());
        room[..taken].copy_from_slice(&bytes[..taken]);
        self.len += taken;
        // `write_all` fails after a write of nothing.
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Refuses tensors at the given positions, in order, if they look like the list of embedded names.
pub(crate) fn refuse_lists(positions: &[usize], tensors: &dyn Tensors) -> Result<()> {
    if positions.is_empty() {
        return Ok(());
    }
    tensors.send(&mut ListFinder { positions, next: 0 })
}

struct ListFinder<'a> {
    positions: &'a [usize],
    /// The position of the next tensor.
    next: usize,
}

impl TensorSink for ListFinder<'_> {
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        let index = self.next;
        self.next += 1;
        if self.positions.binary_search(&index).is_ok() && begins_as_list(tensor.data) {
            Err(Error::new(reads_as_names()).in_tensor(tensor.name))
        } else {
            Ok(())
        }
    }

    fn metadata(&mut self, _: &str, _: &MetadataValue) -> Result<()> {
        Ok(())
    }
}
