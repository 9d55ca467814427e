//! An array of numpy (`.npy`): one dense tensor in a file, without a name.
//!
//! ```text
//! "\x93NUMPY" | major: u8 | minor: u8 | length: u16, or u32 from version 2 on | dict… | 0x20… | "\n" | elements
//! dict = {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
//! ```
//!
//! The dict is a Python literal, padded so that the elements begin at a multiple of 64.
//!
//! # Specification
//!
//! `numpy.lib.format`. Versions 1.0, 2.0 and 3.0 are read, 1.0 is written, byte for byte as numpy does.
//!
//! # Names
//!
//! The format stores none: a file holds the tensor `0`. A struct of one array is read and written by position.
//!
//! # Memory order
//!
//! Arrays in Fortran order are read without a copy, as strides. Arrays are written in row-major order, or with
//! [`Options::keep_dim_order`] in Fortran order if they have it in memory.
//!
//! # Deviations
//!
//! - Big-endian elements (`>f4`) are byte-swapped as they are read. From a stream such a file is held in memory. Files
//!   are written little-endian.
//! - numpy has no bfloat16 and no 8-bit floats. Arrays with their names from `ml_dtypes` (`bfloat16`, `float8_e4m3fn`)
//!   are read. numpy saves them as raw bytes (`<V2`), which are [unknown](crate::Layout::Unknown), and so are text,
//!   dates, records, objects and long doubles. Such an array can be read as a [`Tensor`](crate::Tensor) and written
//!   again. Objects are pickled, and nothing in them is run; their header does not state their length, so they are an
//!   error in a stream, and so are records.
//! - Any byte but 0 is a `true` `bool`. We write 0 and 1.
//! - Bytes after the array, and another array there, are left out with a warning. numpy leaves them unread too.
//! - The dict has each of its three keys once. numpy has Python parse it, which takes the last of duplicates, and
//!   escapes in all strings. Here only field names have escapes.
//! - All numpy names of dtypes are accepted: `f4`, `=f4`, `?`, `float32`. Names of C types with machine-dependent
//!   sizes, such as `int` and `l`, are unknown.
//! - Headers have up to 10,000 bytes, numpy's default limit.

mod de;
mod ser;

use std::io::{Read, Write};
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};

use super::header;
use crate::error::Result;
use crate::format::{self, Format, HasFormat, WritesFormat, known};
use crate::model::FormatSpec;
use crate::tensor::Dtype;
use crate::write::{Encode, LentEncode, WriteOptions};

/// The supported dtypes.
pub const DTYPES: &[Dtype] = header::DTYPES;

/// The format: what it can store, and how it is recognized.
pub static FORMAT: Format = Format::new(SPEC, || Box::new(de::Reader::default()), encode).with_metadata(de::metadata);

const SPEC: FormatSpec = FormatSpec {
    max_rank: Some(header::MAX_RANK),
    max_name: Some(0),
    max_tensors: Some(1),
    embeds_names: false,
    unknown_dtypes: Some(header::UNKNOWN_DTYPES),
    ..known::NPY.spec(DTYPES)
};

impl HasFormat for ser::Encode {
    fn format() -> &'static Format {
        &FORMAT
    }
}

impl WritesFormat for ser::Encode {
    fn lent(&self) -> &dyn LentEncode {
        self
    }
}

// Borrowed, so that the crates of users do not compile the drop code of options.
fn defaults() -> &'static Options {
    static DEFAULTS: LazyLock<Options> = LazyLock::new(Options::new);
    &DEFAULTS
}

fn encode(options: &WriteOptions) -> Result<Arc<dyn Encode>> {
    options.only_alignment(&FORMAT, 64)?.only_metadata(&FORMAT)?;
    let mut npy = Options::new().keep_dim_order(options.keep_dim_order);
    npy.encode.refuse_names = options.embeds_names();
    Ok(npy.shared_encode())
}

/// Serializes a value into an npy file in memory, as [`Options::to_vec`] does.
///
/// ```
/// use tensorfile::{TensorView, npy};
///
/// let file = npy::to_vec(&TensorView::from_slice(&[1.0_f32, 2.0], [2])?)?;
/// assert!(file.starts_with(b"\x93NUMPY"));
/// let tensor: TensorView = npy::from_slice(&file)?;
/// assert_eq!(*tensor.shape(), [2]);
/// # Ok::<(), tensorfile::Error>(())
/// ```
///
/// # Errors
///
/// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if the value has no tensor, or several.
pub fn to_vec<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>> {
    defaults().to_vec(value)
}

/// Serializes a value to a writer as an npy file, as [`Options::to_writer`] does.
pub fn to_writer<T: Serialize + ?Sized>(writer: impl Write, value: &T) -> Result<()> {
    defaults().to_writer(writer, value)
}

/// Deserializes a value from an npy file in memory, as [`Options::from_slice`] does.
///
/// # Errors
///
/// Besides those of every format:
///
/// - [`ErrorKind::Truncated`](crate::ErrorKind::Truncated): the file ends inside the header or the array.
/// - [`ErrorKind::BadMagic`](crate::ErrorKind::BadMagic): the file does not begin with `\x93NUMPY`.
/// - [`ErrorKind::BadNumber`](crate::ErrorKind::BadNumber): the version is unknown, or the header is too long.
/// - [`ErrorKind::Malformed`](crate::ErrorKind::Malformed): the header is not a dict of `descr`, `fortran_order` and
///   `shape`.
/// - [`ErrorKind::UnknownDtype`](crate::ErrorKind::UnknownDtype): a dtype is unknown and has no element size, in a
///   stream.
pub fn from_slice<'de, T: Deserialize<'de>>(file: &'de [u8]) -> Result<T> {
    defaults().from_slice(file)
}

/// Deserializes a value from a reader of an npy file, as [`Options::from_reader`] does.
pub fn from_reader<T: for<'de> Deserialize<'de>>(reader: impl Read) -> Result<T> {
    defaults().from_reader(reader)
}

/// Options for reading and writing npy files.
///
/// ```
/// use ndarray::{ArrayView2, ShapeBuilder};
/// use tensorfile::{Arrays, npy};
///
/// let columns = ArrayView2::from_shape((2, 3).f(), &[1_u8, 2, 3, 4, 5, 6])?;
/// let file = npy::Options::new().keep_dim_order(true).to_vec(&Arrays(columns))?;
/// let Arrays(read): Arrays<ArrayView2<u8>> = npy::from_slice(&file)?;
/// assert_eq!((read, read.strides()), (columns, &[1, 2][..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type Options = format::Options<ser::Encode>;

impl Options {
    /// Writes an array in Fortran order instead of row-major order, if it has it in memory. Arrays in other orders are
    /// written in row-major order.
    ///
    /// ```
    /// use ndarray::{Array2, ShapeBuilder};
    /// use tensorfile::{Arrays, npy};
    ///
    /// let columns = Arrays(Array2::<f32>::zeros((2, 3).f()));
    /// let file = npy::Options::new().keep_dim_order(true).to_vec(&columns)?;
    /// assert!(String::from_utf8_lossy(&file).contains("'fortran_order': True"));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn keep_dim_order(mut self, keep: bool) -> Self {
        self.encode.keep_dim_order = keep;
        self
    }
}
