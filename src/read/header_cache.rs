use std::ops::Range;

use super::Index;
use crate::error::Result;
use crate::tensor::TensorInfo;

/// A tensor header, new or cached.
pub(crate) enum ReadHeader {
    New(TensorInfo),
    /// Equal to the header of the tensor at this position in the index.
    Alike(usize),
}

impl ReadHeader {
    /// Adds the tensor to an index.
    // Inlined into the index readers, which call it for each tensor.
    #[inline(always)]
    pub(crate) fn push(self, index: &mut Index, name: Option<&str>, payload: Range<u64>) -> Result<()> {
        match self {
            Self::New(info) => index.push_checked(name, info, payload),
            Self::Alike(i) => index.push_alike(name, i, payload),
        }
    }
}

/// The most recent distinct headers, as stored, and the positions of their tensors in the index.
///
/// Most tensors of a file have the header of one before, and the fields of a struct take turns. Such a header is not
/// parsed and checked again.
#[derive(Debug)]
pub(crate) struct LastHeaders<H> {
    headers: [Option<(H, usize)>; 2],
}

impl<H> LastHeaders<H> {
    // Inlined into the index readers, which call it for each tensor.
    #[inline(always)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(H, usize)> {
        self.headers.iter().flatten()
    }

    /// Adds a header not yet in the cache.
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
