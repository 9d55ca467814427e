//! Files as slices for vectored writes, without copies of large payloads.

use std::fmt;
use std::io::{self, IoSlice, Write};
use std::ops::Range;
use std::sync::Arc;

use super::file_writer::write_slices;
use super::{Encode, Output, Plan};
use crate::error::Result;
use crate::model::{BorrowedPayloads, Store, Tensors};

/// A file as slices for vectored writes: payloads are borrowed from the value, and all other bytes are in one buffer.
///
/// ```
/// use tensorfile::{TensorView, btf};
///
/// let tensor = TensorView::from_slice(&[1.5_f32; 1000], [1000])?;
/// let file = btf::Options::new().to_io_slices(&tensor)?;
/// assert_eq!((file.as_slices().len(), file.copied_bytes()), (2, 40));
///
/// let mut socket = Vec::new();
/// file.write_to(&mut socket)?;
/// assert_eq!(socket, btf::to_vec(&tensor)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct IoSlices<'a> {
    copied: Vec<u8>,
    pieces: Vec<Piece<'a>>,
    bytes: u64,
}

/// A piece of the file.
enum Piece<'a> {
    /// A range of the buffer.
    Copied(Range<usize>),
    Borrowed(&'a [u8]),
}

/// Smaller payloads are copied, which takes less time than a separate slice.
const WORTH_A_SLICE: usize = 512;

impl IoSlices<'_> {
    /// Returns the length of the file in bytes.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of copied bytes: headers, padding, and payloads that are small or had to be converted.
    #[must_use]
    pub fn copied_bytes(&self) -> usize {
        self.copied.len()
    }

    /// Returns the slices, in the order of the file. None is empty.
    ///
    /// ```
    /// use tensorfile::{TensorView, btf};
    ///
    /// let tensor = TensorView::from_slice(&[1.5_f32; 1000], [1000])?;
    /// let file = btf::Options::new().to_io_slices(&tensor)?;
    /// let bytes: usize = file.as_slices().iter().map(|slice| slice.len()).sum();
    /// assert_eq!(bytes as u64, file.file_bytes());
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn as_slices(&self) -> Vec<IoSlice<'_>> {
        let pieces = self.pieces.iter().map(|piece| match piece {
            Piece::Copied(range) => &self.copied[range.clone()],
            Piece::Borrowed(bytes) => bytes,
        });
        pieces.map(IoSlice::new).collect()
    }

    /// Writes the file with as few calls of `write_vectored` as it takes. Does not flush.
    ///
    /// # Errors
    ///
    /// Errors of the writer, and [`io::ErrorKind::WriteZero`] if it takes no more bytes.
    pub fn write_to(&self, mut writer: impl Write) -> io::Result<()> {
        write_slices(&mut self.as_slices(), &mut writer)
    }
}

impl fmt::Debug for IoSlices<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IoSlices")
            .field("pieces", &self.pieces.len())
            .field("file_bytes", &self.bytes)
            .field("copied_bytes", &self.copied.len())
            .finish()
    }
}

/// Writes a value to slices.
pub(crate) fn to_io_slices<'a, T: Store + ?Sized>(value: &'a T, encode: Arc<dyn Encode>) -> Result<IoSlices<'a>> {
    let mut payloads = BorrowedPayloads::default();
    value.borrow_payloads(&mut payloads);
    from_tensors(&value, payloads, encode)
}

/// Writes tensors to slices, borrowing the payloads in `payloads`.
fn from_tensors<'a>(
    tensors: &dyn Tensors,
    mut payloads: BorrowedPayloads<'a>,
    encode: Arc<dyn Encode>,
) -> Result<IoSlices<'a>> {
    payloads.sort();
    let plan = Plan::new(tensors, encode)?;
    let mut gather = Gather { payloads, copied: Vec::new(), pieces: Vec::new(), start: 0, bytes: 0 };
    plan.write(tensors, Output::pieces(&mut gather, WORTH_A_SLICE))?;
    gather.cut();
    Ok(IoSlices { copied: gather.copied, pieces: gather.pieces, bytes: gather.bytes })
}

/// Collects the bytes of a file, without a copy of borrowed payloads.
struct Gather<'a> {
    payloads: BorrowedPayloads<'a>,
    copied: Vec<u8>,
    pieces: Vec<Piece<'a>>,
    /// The start of the copied bytes not yet in a piece.
    start: usize,
    bytes: u64,
}

impl Gather<'_> {
    /// Makes the copied bytes a piece.
    fn cut(&mut self) {
        if self.start < self.copied.len() {
            self.pieces.push(Piece::Copied(self.start..self.copied.len()));
            self.start = self.copied.len();
        }
    }
}

impl Write for Gather<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes += bytes.len() as u64;
        match self.payloads.find(bytes).filter(|bytes| bytes.len() >= WORTH_A_SLICE) {
            Some(payload) => {
                self.cut();
                self.pieces.push(Piece::Borrowed(payload));
            }
            None => self.copied.extend_from_slice(bytes),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
