//! A tensor read from a file, and its conversion into elements.

use std::fmt;

use crate::cast::cast;
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::{Buffer, Dtype, Element, Layout, TensorInfo};

/// A tensor on its way from a [`Source`](super::Source) into a value. Its header has been checked.
///
/// ```
/// use std::num::NonZeroU32;
/// use tensorfile::model::{Source, TensorSpec};
/// use tensorfile::{Dtype, ErrorKind, Result};
///
/// /// Reads a number that is not zero.
/// fn load(source: &mut dyn Source<'_>) -> Result<NonZeroU32> {
///     let loaded = source.tensor(&TensorSpec::dense(Dtype::U32, Some(&[])))?;
///     let numbers = loaded.into_vec::<u32>()?;
///     NonZeroU32::new(numbers[0]).ok_or_else(|| ErrorKind::Message("found 0".to_owned()).into())
/// }
/// # Ok::<(), tensorfile::Error>(())
/// ```
pub struct Loaded<'de> {
    info: TensorInfo,
    payload: Payload<'de>,
}

/// The bytes of a tensor just read.
pub(crate) enum Payload<'de> {
    /// Bytes with the lifetime of the file.
    Borrowed(&'de [u8]),
    /// Bytes in their own memory, to be taken over by an array.
    Owned(Buffer),
}

impl Payload<'_> {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Owned(buffer) => buffer,
        }
    }

    /// Returns the elements, stored as `dtype`.
    #[inline]
    pub(crate) fn into_vec<A: Element>(self, dtype: Dtype) -> Result<Vec<A>> {
        Ok(match self {
            payload if dtype != A::DTYPE => A::from_buffer(cast(dtype, A::DTYPE, payload.bytes())?)?,
            Self::Borrowed(bytes) => A::from_le_bytes(bytes)?,
            Self::Owned(buffer) => A::from_buffer(buffer)?,
        })
    }
}

impl<'de> Loaded<'de> {
    /// Checks the payload against the header.
    pub(crate) fn new(info: TensorInfo, payload: Payload<'de>) -> Result<Self> {
        info.check_bytes(payload.bytes())?;
        Ok(Self::from_checked(info, payload))
    }

    /// A tensor with a checked payload.
    #[inline]
    pub(crate) fn from_checked(info: TensorInfo, payload: Payload<'de>) -> Self {
        Self { info, payload }
    }

    /// A tensor whose payload is never used.
    pub(crate) fn without_payload(info: TensorInfo) -> Self {
        Self { info, payload: Payload::Borrowed(&[]) }
    }

    /// Returns dtype, shape and layout.
    #[must_use]
    pub fn info(&self) -> &TensorInfo {
        &self.info
    }

    /// Returns the payload: little-endian, in the layout of [`info`](Self::info).
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.payload.bytes()
    }

    /// Returns the elements in memory of their own, in the order of their bytes: one copy at most. Elements of another
    /// numeric dtype are cast.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Cast`]: a number out of range for `A`.
    /// - [`ErrorKind::InvalidTensor`]: a byte other than 0 and 1 for a `bool`.
    /// - [`ErrorKind::WrongDtype`]: the dtype is [unknown](crate::Layout::Unknown).
    pub fn into_vec<A: Element>(self) -> Result<Vec<A>> {
        self.check_known(A::DTYPE)?;
        self.payload.into_vec(self.info.dtype)
    }

    /// Returns whether [`as_slice_of_file`](Self::as_slice_of_file) gives elements, except for invalid ones.
    #[must_use]
    pub fn can_be_borrowed_as<A: Element>(&self) -> bool {
        let is_aligned =
            |bytes: &[u8]| cfg!(target_endian = "little") && bytes.as_ptr().addr().is_multiple_of(align_of::<A>());
        self.info.dtype == A::DTYPE
            && self.info.unknown_dtype().is_none()
            && matches!(self.payload, Payload::Borrowed(bytes) if is_aligned(bytes))
    }

    /// Returns the elements without a copy, in the order of their bytes.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Unsupported`]: the elements would have to be cast, or nothing can be borrowed: the file is a
    ///   stream or read at positions, the payload was decoded, or the elements are `bool` and the file is mapped or has
    ///   bytes other than 0 and 1.
    /// - [`ErrorKind::Misaligned`]: the bytes do not start at a multiple of the element's alignment.
    /// - [`ErrorKind::InvalidTensor`]: a byte other than 0 and 1 for a `bool`.
    /// - [`ErrorKind::WrongDtype`]: the dtype is [unknown](crate::Layout::Unknown).
    pub fn as_slice_of_file<A: Element>(&self) -> Result<&'de [A]> {
        self.check_known(A::DTYPE)?;
        if self.info.dtype != A::DTYPE {
            let what = format!("borrow {} as {}, which is a cast", self.info.dtype, A::DTYPE);
            return Err(
                ErrorKind::Unsupported { what, instead: "use an owned array or a `CowArray`".to_owned() }.into()
            );
        }
        let Payload::Borrowed(bytes) = self.payload else { return Err(cannot_borrow(A::DTYPE, "an owned array")) };
        Ok(A::view_le_bytes(bytes).ok_or_else(|| misaligned(A::DTYPE, align_of::<A>()))??)
    }

    /// Refuses elements of an unknown dtype, which are only accessible as bytes.
    #[inline]
    fn check_known(&self, expected: Dtype) -> Result<()> {
        match self.info.layout {
            Layout::Unknown(_) => Err(self.is_unknown(expected)),
            _ => Ok(()),
        }
    }

    #[cold]
    fn is_unknown(&self, expected: Dtype) -> Error {
        ErrorKind::WrongDtype { found: self.info.clone(), expected }.into()
    }

    pub(crate) fn into_parts(self) -> (TensorInfo, Payload<'de>) {
        (self.info, self.payload)
    }
}

impl fmt::Debug for Loaded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loaded").field("info", &self.info).finish_non_exhaustive()
    }
}

/// The error for elements at a misaligned address.
#[cold]
pub(crate) fn misaligned(dtype: Dtype, alignment: usize) -> Error {
    ErrorKind::Misaligned { dtype, alignment }.into()
}

/// The error for a borrowed tensor without bytes to borrow. Bools of a mapped file are never borrowed: another process
/// could change them to an invalid `bool`.
#[cold]
pub(crate) fn cannot_borrow(dtype: Dtype, owned: &str) -> Error {
    let (what, instead) = match dtype {
        Dtype::Bool => (
            "borrow bools from a stream, of other bytes than 0 and 1, or from a mapped file, which another process could \
             change",
            format!("use {owned}"),
        ),
        _ => (
            "borrow from a stream, from a file that is read at positions, or from a tensor that is packed",
            format!("use {owned}, or `File::view` of a file in memory"),
        ),
    };
    ErrorKind::Unsupported { what: what.to_owned(), instead }.into()
}
