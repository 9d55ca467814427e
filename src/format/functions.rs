//! The entry points of a format's module, for reading files that no type describes.

use std::io::Read;

use super::FileMetadata;
use crate::error::Result;
use crate::limits::Limits;
use crate::source::Storage;
use crate::tensor::TensorMap;
use crate::wire::Index;

#[derive(Debug)]
pub(crate) struct Functions {
    pub(crate) from_slice: fn(&[u8]) -> Result<TensorMap>,
    pub(crate) from_reader: fn(&mut dyn Read) -> Result<TensorMap>,
    pub(crate) index: fn(&Storage, &Limits) -> Result<Index>,
    pub(crate) metadata: fn(&Storage, &Limits) -> Result<FileMetadata>,
    pub(crate) keeps_metadata: fn(&str) -> bool,
    /// Whether a file without a magic may be of this format. For formats whose magic is missing or weak.
    pub(crate) looks_like: Option<fn(&Storage) -> bool>,
}

/// The [`Functions`] of a format whose module has the usual face, with the functions of the last fields.
macro_rules! functions {
    ($metadata:expr, $keeps_metadata:expr, $looks_like:expr) => {
        crate::format::Functions {
            from_slice: |file| from_slice(file),
            from_reader: |reader| from_reader(reader),
            index: |storage, limits| crate::wire::index(storage, Walk::default(), limits.clone()),
            metadata: $metadata,
            keeps_metadata: $keeps_metadata,
            looks_like: $looks_like,
        }
    };
}

pub(crate) use functions;
