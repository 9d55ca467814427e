use std::ops::Range;

use crate::error::{Category, Error, ErrorKind};
#[cfg(feature = "npy")]
use crate::record::Codec;
#[cfg(feature = "npz")]
use crate::record::Zipped;
use crate::tensor::TensorInfo;

/// A tensor of a file: its header, and the range of its payload.
///
/// ```
/// use tensorfile::record::Entry;
/// use tensorfile::{Dtype, TensorInfo};
///
/// let entry = Entry::new(Some("weight".to_owned()), TensorInfo::new(Dtype::F32, [2]), 64..72);
/// assert_eq!((entry.info().to_string(), entry.range()), ("f32[2]".to_owned(), 64..72));
/// ```
#[derive(Debug, Clone)]
pub struct Entry {
    pub(super) name: Option<Box<str>>,
    pub(super) tensor: Located,
}

impl Entry {
    /// A tensor whose payload is a range of the file, in bytes from its start.
    ///
    /// A tensor without a name is called by its position.
    #[must_use]
    pub fn new(name: Option<String>, info: TensorInfo, range: Range<u64>) -> Self {
        let tensor = Located {
            info,
            range,
            #[cfg(feature = "npy")]
            codec: None,
        };
        Self { name: name.map(String::into_boxed_str), tensor }
    }

    /// The same tensor with a payload that has to be decoded.
    #[cfg(feature = "npy")]
    pub(crate) fn with_codec(mut self, codec: Option<Codec>) -> Self {
        self.tensor.codec = codec;
        self
    }

    pub(crate) fn has_name(&self) -> bool {
        self.name.is_some()
    }

    /// Returns the name for messages of the tensor at position `number`: `#3` if it has none.
    pub(crate) fn label(&self, number: usize) -> String {
        self.name.as_ref().map_or_else(|| numbered(number), Box::to_string)
    }

    /// Returns the tensor without its name.
    pub(crate) fn located(&self) -> &Located {
        &self.tensor
    }

    /// Returns dtype, shape and layout.
    #[must_use]
    pub fn info(&self) -> &TensorInfo {
        &self.tensor.info
    }

    /// Returns the range of the payload, in bytes from the start of the file.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.tensor.range()
    }
}

pub(super) fn numbered(number: usize) -> String {
    format!("#{number}")
}

/// A tensor of a file without its name, which an [`Index`] stores with the others.
#[derive(Debug, Clone)]
pub(crate) struct Located {
    info: TensorInfo,
    pub(super) range: Range<u64>,
    #[cfg(feature = "npy")]
    codec: Option<Codec>,
}

impl Located {
    /// Refuses to read elements of an unknown dtype.
    #[inline]
    pub(crate) fn check_known(&self) -> Result<(), ErrorKind> {
        match self.info.unknown_dtype() {
            None => Ok(()),
            Some(tag) => Err(ErrorKind::Unsupported {
                what: format!("read elements of dtype {tag}"),
                instead: "it is unknown; `Tensor` and `TensorMap` hold the bytes".to_owned(),
            }),
        }
    }

    /// Returns how to decode the range to the payload; `None` if they are the same.
    #[cfg(feature = "npy")]
    pub(crate) fn codec(&self) -> Option<&Codec> {
        self.codec.as_ref().filter(|codec| codec.decodes())
    }

    /// Returns the member of an archive that stores the payload as it is.
    #[cfg(feature = "npz")]
    pub(crate) fn stored(&self) -> Option<&Zipped> {
        match &self.codec {
            Some(Codec::Zipped(zipped)) if !zipped.is_deflated => Some(zipped),
            _ => None,
        }
    }

    /// Returns whether reading the payload compares a checksum.
    #[inline]
    pub(crate) fn has_checksum(&self) -> bool {
        #[cfg(feature = "npz")]
        return self.stored().is_some();
        #[cfg(not(feature = "npz"))]
        false
    }

    /// Returns the offset of the first byte that reading the payload needs. A checksum can cover bytes before the payload.
    pub(crate) fn needed_from(&self) -> u64 {
        #[cfg(feature = "npz")]
        if let Some(stored) = self.stored() {
            return self.range.start.saturating_sub(stored.head.into());
        }
        self.range.start
    }

    /// Returns whether the range has to be decoded to the payload.
    #[inline]
    pub(crate) fn has_codec(&self) -> bool {
        #[cfg(feature = "npy")]
        return self.codec().is_some();
        #[cfg(not(feature = "npy"))]
        false
    }

    /// Returns whether the payload is compressed in the range.
    pub(crate) fn is_compressed(&self) -> bool {
        #[cfg(feature = "npz")]
        return matches!(&self.codec, Some(Codec::Zipped(zipped)) if zipped.is_deflated);
        #[cfg(not(feature = "npz"))]
        false
    }

    /// Returns whether the elements are big-endian in the range.
    pub(crate) fn is_big_endian(&self) -> bool {
        #[cfg(feature = "npy")]
        return self.codec.as_ref().is_some_and(|codec| codec.big_endian().is_some());
        #[cfg(not(feature = "npy"))]
        false
    }

    /// Returns the length of the payload in bytes, decoded.
    #[inline]
    pub(crate) fn payload_bytes(&self) -> u64 {
        #[cfg(feature = "npy")]
        if self.codec().is_some() {
            return self.info.payload_bytes().unwrap_or(usize::MAX) as u64;
        }
        self.range.end - self.range.start
    }

    /// Adds the offset in the file of what is wrong in the payload, unless it is known.
    pub(crate) fn locate(&self, error: Error) -> Error {
        // A tensor that we cannot read is not wrong at any offset.
        if self.info.unknown_dtype().is_some() && error.category() == Category::Call {
            return error;
        }
        let within = match error.kind() {
            ErrorKind::InvalidTensor(invalid) if !self.has_codec() => invalid.offset_in(&self.info),
            _ => 0,
        };
        error.at(self.range.start.saturating_add(within as u64))
    }

    /// Returns dtype, shape and layout.
    #[inline]
    pub(crate) fn info(&self) -> &TensorInfo {
        &self.info
    }

    /// Returns the range of the payload, in bytes from the start of the file.
    #[inline]
    pub(crate) fn range(&self) -> Range<u64> {
        self.range.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_small() {
        // Entries of a large index take most of the memory for it.
        assert!(size_of::<Located>() <= 104, "{} bytes", size_of::<Located>());
    }
}
