//! A tensor of an index: its header, payload range and codec.

use std::ops::Range;

use crate::error::{Category, Error, ErrorKind};
use crate::read::{Codec, CodedPayload, Zipped};
use crate::tensor::{Dtype, InvalidTensor, TensorInfo, check_bools, to_bools};

/// A tensor of an [`Index`](super::Index): its header, and the range of its payload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a> {
    pub(super) info: &'a TensorInfo,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) codec: Option<&'a Codec>,
}

impl<'a> Entry<'a> {
    /// Refuses to read elements of an unknown dtype, or of a damaged tensor.
    #[inline]
    pub(crate) fn check_known(&self) -> Result<(), ErrorKind> {
        match self.info.unknown_dtype() {
            None => Ok(()),
            Some(_) if self.info.is_damaged() => {
                let info = Box::new(TensorInfo::new(self.info.dtype, self.info.shape.clone()));
                Err(ErrorKind::InvalidTensor(InvalidTensor::Length { found: self.payload_bytes(), info }))
            }
            Some(tag) => Err(ErrorKind::Unsupported {
                what: format!("read elements of dtype {tag}"),
                instead: "it is unknown; `Tensor` and `TensorMap` hold the bytes".to_owned(),
            }),
        }
    }

    /// Returns how to decode the range to the payload; `None` if they are the same.
    #[inline]
    pub(crate) fn codec(&self) -> Option<&'a Codec> {
        self.codec.filter(|codec| codec.decodes())
    }

    /// Returns the codec, also if the range is the payload.
    pub(crate) fn any_codec(&self) -> Option<&'a Codec> {
        self.codec
    }

    /// Returns the payload, to be decoded.
    pub(crate) fn coded<'c>(&self, codec: &'c Codec) -> CodedPayload<'c> {
        CodedPayload::new(codec, &self.range(), self.payload_bytes(), self.has_bools())
    }

    /// Returns the archive member that stores the payload uncompressed.
    #[inline]
    pub(crate) fn stored(&self) -> Option<&'a Zipped> {
        match self.codec {
            Some(Codec::Zipped(zipped)) if !zipped.is_deflated() => Some(zipped),
            _ => None,
        }
    }

    /// Returns whether reading the payload compares a checksum.
    #[inline]
    pub(crate) fn has_checksum(&self) -> bool {
        self.stored().is_some()
    }

    /// Returns the offset of the first byte needed to read the payload. A checksum can cover bytes before it.
    pub(crate) fn needed_from(&self) -> u64 {
        if let Some(stored) = self.stored() {
            return self.start.saturating_sub(stored.head().into());
        }
        self.start
    }

    /// Returns whether the elements are bools stored as arbitrary bytes.
    #[inline]
    pub(crate) fn has_bools(&self) -> bool {
        self.info.dtype == Dtype::Bool
    }

    /// Returns whether every byte except 0 is true, if the elements are bools. Otherwise bytes other than 0 and 1 are
    /// an error.
    pub(crate) fn takes_any_bool(&self) -> bool {
        !self.is_plain()
    }

    /// Normalizes bools to 0 or 1. Other elements stay unchanged.
    ///
    /// # Errors
    ///
    /// [`InvalidTensor::Value`] for any other byte in a strict format. `first` is the number of the first element.
    #[inline]
    pub(crate) fn normalize(&self, elements: &mut [u8], first: usize) -> Result<(), InvalidTensor> {
        if self.has_bools() { self.normalize_bools(elements, first) } else { Ok(()) }
    }

    #[cold]
    fn normalize_bools(&self, bools: &mut [u8], first: usize) -> Result<(), InvalidTensor> {
        if self.takes_any_bool() {
            to_bools(bools);
            return Ok(());
        }
        check_bools(bools).map_err(|invalid| match invalid {
            InvalidTensor::Value { dtype, element, found } => {
                InvalidTensor::Value { dtype, element: first + element, found }
            }
            other => other,
        })
    }

    /// Returns whether the range has to be decoded to the payload.
    #[inline]
    pub(crate) fn has_codec(&self) -> bool {
        self.codec().is_some()
    }

    /// Returns whether the payload is stored as it is, without a checksum.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.codec.is_none()
    }

    /// Returns whether the payload is compressed in the range.
    pub(crate) fn is_compressed(&self) -> bool {
        matches!(self.codec, Some(Codec::Zipped(zipped)) if zipped.is_deflated())
    }

    /// Returns whether the elements are big-endian in the range.
    pub(crate) fn is_big_endian(&self) -> bool {
        self.codec.is_some_and(|codec| codec.big_endian().is_some())
    }

    /// Returns the length of the payload in bytes, decoded.
    #[inline]
    pub(crate) fn payload_bytes(&self) -> u64 {
        if self.codec().is_some() {
            return self.info.payload_bytes().unwrap_or(usize::MAX) as u64;
        }
        self.end - self.start
    }

    /// Adds the offset of the problem in the file, unless it is known.
    pub(crate) fn locate(&self, error: Error) -> Error {
        // An unknown dtype, or a listener that stopped the read, is not an error at any offset.
        let is_unknown = self.info.unknown_dtype().is_some() && error.category() == Category::Call;
        if is_unknown || matches!(error.kind(), ErrorKind::Cancelled) {
            return error;
        }
        let within = match error.kind() {
            ErrorKind::InvalidTensor(invalid) if !self.has_codec() => invalid.offset_in(self.info),
            _ => 0,
        };
        error.at(self.start.saturating_add(within as u64))
    }

    /// Returns dtype, shape and layout.
    #[inline]
    pub(crate) fn info(&self) -> &'a TensorInfo {
        self.info
    }

    /// Returns the offset of the payload, in bytes from the start of the file.
    #[inline]
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Returns the range of the payload, in bytes from the start of the file.
    #[inline]
    pub(crate) fn range(&self) -> Range<u64> {
        self.start..self.end
    }
}
