use std::ops::Range;

use super::Index;
use crate::error::Result;
use crate::tensor::TensorInfo;

/// The header of a tensor that was read.
pub(crate) enum ReadHeader {
    New(TensorInfo),
    /// That of the tensor at a position in the index.
    Alike(usize),
}

impl ReadHeader {
    /// Adds the tensor to an index.
    // A part of what is done for each tensor.
    #[inline(always)]
    pub(crate) fn push(self, index: &mut Index, name: Option<&str>, payload: Range<u64>) -> Result<()> {
        match self {
            Self::New(info) => index.push_checked(name, info, payload),
            Self::Alike(i) => index.push_alike(name, i, payload),
        }
    }
}

/// The last headers that were different, as they are stored, and the positions of their tensors in the index.
///
/// Most tensors of a file have the header of one before, and the fields of a struct take turns. Such a header is not
/// parsed and checked again.
#[derive(Debug)]
pub(crate) struct LastHeaders<H> {
    headers: [Option<(H, usize)>; 2],
}

impl<H> LastHeaders<H> {
    // A part of what is done for each tensor.
    #[inline(always)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(H, usize)> {
        self.headers.iter().flatten()
    }

    /// Adds a header that is not among these.
    #[inline]
    pub(crate) fn add(&mut self, header: H, i: usize) {
        self.headers[1] = self.headers[0].replace((header, i));
    }
}

impl<H> Default for LastHeaders<H> {
    fn default() -> Self {
        Self { headers: [None, None] }
    }
}
