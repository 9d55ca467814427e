//! The arrays of numpy (`.npy`): one dense tensor in a file, without a name.
//!
//! ```text
//! "\x93NUMPY" | major: u8 | minor: u8 | length: u16, or u32 from version 2 on | dict… | 0x20… | "\n" | elements
//! dict = {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
//! ```
//!
//! The dict is a literal of Python, padded so that the elements begin at a multiple of 64.
//!
//! # Specification
//!
//! `numpy.lib.format`. Versions 1.0, 2.0 and 3.0 are read, 1.0 is written, byte for byte as numpy does.
//!
//! # Names
//!
//! There are none: a file holds the tensor `0`. Reading and writing a struct of one array is by position.
//!
//! # Memory order
//!
//! Arrays in Fortran order are read as they are: their strides tell. Arrays are written in row-major order, or with
//! [`Options::keep_dim_order`] in Fortran order where they lie so in memory.
//!
//! # Deviations
//!
//! - Elements of the other byte order (`>f4`) are turned around as they are read. From a stream such a file is held in
//!   memory. Files are written little-endian.
//! - numpy has no bfloat16 and no 8-bit floats. What `ml_dtypes` adds is saved as bytes without a meaning (`<V2`),
//!   which is refused, and so are complex numbers, text, dates, records and objects.
//! - What stands behind the array is an error; numpy leaves it unread.
//! - Headers are of up to 10,000 bytes, as numpy reads them by default.

mod de;
mod header;
mod ser;

#[doc(hidden)]
pub use self::de::Walk;
pub use self::header::DTYPES;
#[doc(hidden)]
pub use self::ser::Encode;
use super::{FileMetadata, Format, Magic, WriteOptions, face, functions};
use crate::error::Result;
use crate::limits::Limits;

/// The format in [`FORMATS`](crate::FORMATS).
pub(super) const FORMAT: Format = Format {
    name: "npy",
    extensions: &["npy"],
    dtypes: DTYPES,
    max_rank: Some(header::MAX_RANK),
    max_name: Some(0),
    max_tensors: Some(1),
    sparse: false,
    magics: &[Magic { offset: 0, bytes: b"\x93NUMPY" }],
    functions: functions!(|_, _| Ok(FileMetadata::default()), |_| false, None),
};

face!("npy", "npy");

pub(super) fn options(options: &WriteOptions) -> Result<Options> {
    options.without_alignment("npy", "64 bytes")?.only_metadata("npy", FORMAT.functions.keeps_metadata)?;
    Ok(Options::new().refuse_names(options.embed_names))
}

/// How files are written and read.
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
#[derive(Debug, Clone, Default)]
pub struct Options {
    encode: Encode,
    limits: Limits,
}

impl Options {
    /// Whether to write an array that lies in Fortran order in memory in that order, and not in row-major order.
    ///
    /// Arrays in still other orders of their dims are then refused.
    #[must_use]
    pub fn keep_dim_order(mut self, keep: bool) -> Self {
        self.encode.keep_dim_order = keep;
        self
    }

    /// Whether to refuse a tensor with a name, which would be left out.
    fn refuse_names(mut self, refuse: bool) -> Self {
        self.encode.refuse_names = refuse;
        self
    }
}
