//! The small-file writer of a format: headers while payloads are copied, and the index at the end.

use std::fmt;

use smallvec::SmallVec;

use super::planned::{PlannedIter, PlannedTensor};
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::TensorInfo;

/// A writer for files of a few small tensors. The bytes equal the planned file.
pub trait SmallFormat {
    /// Returns the length of what comes before the first record or payload, if `tensors` tensors come. It may be a
    /// guess.
    fn front_bytes(&self, tensors: usize) -> usize;

    /// Returns the alignment of the padding after each payload, after the last one only if
    /// [`pads_last`](Self::pads_last).
    fn alignment(&self) -> u64;

    /// Returns whether there is padding after the last payload.
    fn pads_last(&self) -> bool {
        true
    }

    /// Appends the header before a payload. By default, there is none.
    fn write_header(&self, _name: &str, _info: &TensorInfo, _payload_bytes: usize, _file: &mut Vec<u8>) {}

    /// Writes everything else, into zeros before the first record, or after the last one.
    ///
    /// # Errors
    ///
    /// Any error makes the caller plan the file. Planning then reports the reason.
    fn finish(&self, tensors: &SmallTensors, file: &mut SmallFile<'_>) -> Result<()>;
}

/// The tensors of a small file.
#[derive(Debug, Default)]
pub struct SmallTensors {
    /// All names, concatenated, unless the format omits them. An allocation takes longer than to check that it is text.
    pub(super) names: SmallVec<[u8; 64]>,
    pub(super) infos: SmallVec<[TensorInfo; 2]>,
    /// The length of a payload with each info.
    pub(super) payload_bytes: SmallVec<[usize; 2]>,
    pub(super) tensors: SmallVec<[PlannedTensor; 8]>,
}

impl SmallTensors {
    pub(crate) fn len(&self) -> usize {
        self.tensors.len()
    }

    /// Returns each tensor, as a plan does.
    pub fn iter(&self) -> PlannedIter<'_> {
        let names = str::from_utf8(&self.names).expect("names are added one by one");
        PlannedIter::new(names, &self.infos, &self.payload_bytes, &self.tensors)
    }

    /// Returns the number of an info, if it is there.
    #[inline]
    pub(super) fn find_info(&self, info: &TensorInfo) -> Option<usize> {
        self.infos.as_slice().iter().rposition(|known| known == info)
    }

    /// Returns whether a name is there.
    pub(super) fn has_name(&self, name: &str) -> bool {
        let mut start = 0;
        self.tensors.as_slice().iter().any(|tensor| {
            let known = start..tensor.name_end;
            start = tensor.name_end;
            known.len() == name.len() && self.names.as_slice()[known] == *name.as_bytes()
        })
    }
}

/// A small file under construction.
pub struct SmallFile<'f> {
    pub(super) bytes: &'f mut Vec<u8>,
    /// The length of what comes before the first record.
    pub(super) front: usize,
}

impl SmallFile<'_> {
    /// Makes what comes before the first record `len` bytes long, and returns it.
    pub fn set_front(&mut self, len: usize) -> Result<&mut [u8]> {
        let (bytes, before) = (&mut *self.bytes, self.front);
        let end = bytes.len();
        if len > before {
            bytes.try_reserve(len - before).map_err(|_| not_small())?;
            bytes.resize(end + (len - before), 0);
        }
        if len != before {
            bytes.copy_within(before..end, len);
            bytes.truncate(len + (end - before));
            self.front = len;
        }
        Ok(&mut bytes[..len])
    }

    /// Returns everything from the first record on.
    pub fn records(&mut self) -> &mut [u8] {
        &mut self.bytes[self.front..]
    }

    /// Returns the file so far, to append to.
    pub fn bytes(&mut self) -> &mut Vec<u8> {
        self.bytes
    }
}

impl fmt::Debug for SmallFile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SmallFile").field("bytes", &self.bytes.len()).field("front", &self.front).finish()
    }
}

/// Returns the error that ends the first pass over a value. No user sees it.
#[cold]
pub(super) fn not_small() -> Error {
    ErrorKind::Message(String::new()).into()
}
