//! The tensors of a small file in memory, found without an [`Index`](super::Index).
//!
//! A message or a small struct is read once. To make an `Index`, a `Reader` and a `Finder` of it, and to move and drop
//! them, took three quarters of the time for a struct of one array. A [`SmallIndex`] has names, headers and payloads of
//! a few tensors on the stack, and allocates nothing.
//!
//! A format fills it with a function that gives up on anything unusual or wrong, and so does the loaded value. The file
//! is then read by the index reader, which reports the errors: there are two paths and no third.

use smallvec::SmallVec;

use super::ReadHeader;
use crate::limits::Limits;
use crate::model::{TensorSpec, embedded_names};
use crate::tensor::{Dtype, Layout, TensorInfo, are_bools};

/// A format's function that finds the tensors of a file in memory, in the order of an [`Index`](super::Index).
///
/// It makes all checks of an index reader, except the ones in [`SmallIndex`]. `None` for many tensors, a malformed
/// file, or unusual features: metadata, shared bytes, or a mix of named and unnamed tensors.
pub(crate) type ReadSmall = for<'f> fn(&'f [u8], &Limits, &mut SmallIndex<'f>) -> Option<()>;

/// The tensors of a small file. They are *unread* until they are [taken](Self::take).
#[derive(Default)]
pub(crate) struct SmallIndex<'f> {
    tensors: SmallVec<[SmallTensor<'f>; 4]>,
    /// A bit for each tensor.
    unread: u32,
    has_names: bool,
}

struct SmallTensor<'f> {
    name: &'f str,
    info: TensorInfo,
    payload: &'f [u8],
}

impl<'f> SmallIndex<'f> {
    /// The most tensors of a small file: each name is compared with all others.
    pub(crate) const MOST: usize = 32;

    /// Reads a file.
    #[inline]
    pub(crate) fn read(&mut self, read: ReadSmall, file: &'f [u8], limits: &Limits) -> Option<()> {
        read(file, limits, self)?;
        if !self.has_names {
            self.take_names()?;
        }
        self.unread = u32::MAX.checked_shr(Self::MOST.checked_sub(self.len())?.try_into().ok()?)?;
        self.is_within(limits).then_some(())
    }

    /// Adds a tensor with a payload after all earlier payloads. `None` if there are too many, or if it is unusual.
    // Inlined into the small-file reader of each format.
    #[inline(always)]
    pub(crate) fn push(&mut self, name: Option<&'f str>, info: TensorInfo, payload: &'f [u8]) -> Option<()> {
        let is_dense = match info.layout {
            Layout::RowMajor => info.takes_any(payload.len()) || info.check_payload(payload.len() as u64).is_ok(),
            Layout::DimOrder(_) => info.check_payload(payload.len() as u64).is_ok(),
            Layout::Coo { .. } | Layout::Blob | Layout::Unknown(_) => false,
        };
        let is_next = self.tensors.last().is_none_or(|last| {
            self.has_names == name.is_some() && last.payload.as_ptr_range().end.addr() <= payload.as_ptr().addr()
        });
        // A place without a name is not one with an empty name.
        if !is_dense || !is_next || name == Some("") || self.len() == Self::MOST {
            return None;
        }
        self.has_names = name.is_some();
        self.tensors.push(SmallTensor { name: name.unwrap_or_default(), info, payload });
        Some(())
    }

    /// Adds a tensor, possibly with the header of an earlier one.
    // Inlined for the same reason.
    #[inline(always)]
    pub(crate) fn push_read(&mut self, name: &'f str, header: ReadHeader, payload: &'f [u8]) -> Option<()> {
        let info = match header {
            ReadHeader::New(info) => info,
            ReadHeader::Alike(alike) => self.tensors.get(alike)?.info.clone(),
        };
        self.push(Some(name), info, payload)
    }

    /// Returns a part of the file with the lifetime of the file. A text read from a flatbuffer only has the lifetime of
    /// its reader.
    pub(crate) fn part_of_file(file: &'f [u8], text: &str) -> Option<&'f str> {
        let start = text.as_ptr().addr().checked_sub(file.as_ptr().addr())?;
        str::from_utf8(file.get(start..start + text.len())?).ok()
    }

    /// Gives all tensors the names in the last one, if it is a list of names.
    fn take_names(&mut self) -> Option<()> {
        let Some(SmallTensor { info, payload, .. }) = self.tensors.last() else { return Some(()) };
        let is_list = info.dtype == Dtype::U8 && info.shape.rank() == 1 && info.layout == Layout::RowMajor;
        let payload = *payload;
        if !is_list || !payload.starts_with(&embedded_names::MAGIC) {
            return Some(());
        }
        self.tensors.pop();
        let names = embedded_names::parse(payload, self.len()).ok()?;
        self.tensors.iter_mut().zip(names).for_each(|(tensor, name)| tensor.name = name);
        self.has_names = true;
        Some(())
    }

    /// Returns whether an [`Index`](super::Index) of the file would be within the limits.
    fn is_within(&self, limits: &Limits) -> bool {
        // More than the memory of an index of this size, without dims.
        const INDEX: usize = 1 << 12;
        let (mut headers, mut payloads) = (INDEX, 0);
        for SmallTensor { info, payload, .. } in &self.tensors {
            if payload.len() as u64 > limits.payload {
                return false;
            }
            headers += size_of_val(info.shape.dims());
            payloads += payload.len() as u64;
        }
        self.len() as u64 <= limits.tensors
            && headers as u64 <= limits.headers()
            && limits.memory.is_none_or(|memory| payloads <= memory)
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.tensors.len()
    }

    /// Returns whether the tensors have names. Either all have one or none.
    #[inline]
    pub(crate) fn has_names(&self) -> bool {
        self.has_names
    }

    /// Returns whether two tensors have one name.
    pub(crate) fn has_repeated_names(&self) -> bool {
        let names = |tensors: &[SmallTensor<'f>], name| tensors.iter().any(|tensor| tensor.name == name);
        let tensors = self.tensors.as_slice();
        tensors.iter().enumerate().any(|(index, tensor)| names(&tensors[..index], tensor.name))
    }

    #[inline]
    pub(crate) fn name(&self, index: usize) -> &'f str {
        self.tensors.as_slice()[index].name
    }

    /// Returns the first unread tensor in file order.
    #[inline]
    pub(crate) fn next(&self) -> Option<usize> {
        (self.unread != 0).then(|| self.unread.trailing_zeros() as usize)
    }

    /// Returns the unread tensors in file order, and their names.
    pub(crate) fn unread(&self) -> impl Iterator<Item = (usize, &'f str)> {
        let names = self.tensors.as_slice().iter().map(|tensor| tensor.name);
        names.enumerate().filter(|(index, _)| self.is_unread(*index))
    }

    #[inline]
    pub(crate) fn is_unread(&self, index: usize) -> bool {
        self.unread >> index & 1 == 1
    }

    /// Reads a tensor. `None` if it does not fit, or if its bytes may be no elements.
    #[inline]
    pub(crate) fn take(&mut self, index: usize, spec: &TensorSpec) -> Option<(&TensorInfo, &'f [u8])> {
        let SmallTensor { info, payload, .. } = &self.tensors.as_slice()[index];
        // Other bools are true or an error, depending on the format.
        if !spec.passes_as_stored(info) || info.dtype == Dtype::Bool && !are_bools(payload) {
            return None;
        }
        self.unread &= !(1 << index);
        Some((info, payload))
    }
}
