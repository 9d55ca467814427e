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
//! [`Options::keep_dim_order`] in Fortran order if that is their order in memory.
//!
//! # Deviations
//!
//! - Big-endian elements (`>f4`) are byte-swapped as they are read. From a stream such a file is held in memory. Files
//!   are written little-endian.
//! - numpy has no bfloat16 and no 8-bit floats. Arrays whose header names one, as `ml_dtypes` does (`bfloat16`,
//!   `float8_e4m3fn`), are read. numpy saves them as raw bytes (`<V2`), which are
//!   [unknown](crate::Layout::Unknown), and so are text, dates, records, objects and long doubles. Such an array can be
//!   read as a [`Tensor`](crate::Tensor) and written again. Objects are pickled, and nothing in them is run; as their
//!   header does not tell how long they are, they are an error in a stream, and so are records.
//! - Any byte but 0 is a `bool` that is true. Those that are written are 0 and 1.
//! - Bytes after the array, and another array there, are left out with a warning. numpy leaves them unread too.
//! - The dict has each of its three keys once. numpy lets Python parse it, which takes the last of duplicates, and
//!   escapes in all strings. Here only names of fields have them.
//! - dtypes may have any name that numpy takes: `f4`, `=f4`, `?`, `float32`. Names of C types whose size depends on the
//!   machine, such as `int` and `l`, are unknown.
//! - Headers have up to 10,000 bytes, numpy's default limit.

mod de;
mod ser;

use std::io::{Read, Write};
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};

use super::header;
use crate::error::Result;
use crate::format::{Format, known};
use crate::limits::Limits;
use crate::model::{FormatSpec, Store};
use crate::serde::SerdeValue;
use crate::tensor::Dtype;
use crate::write;
use crate::write::{Encode, WriteOptions};
pub use crate::write::{IoSlices, Plan};

/// The dtypes that the format can store.
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

fn encode(options: &WriteOptions) -> Result<Arc<dyn Encode>> {
    options.only_alignment(&FORMAT, 64)?.only_metadata(&FORMAT)?;
    let mut npy = Options::new().keep_dim_order(options.keep_dim_order);
    Arc::make_mut(&mut npy.encode).refuse_names = options.embed_names;
    Ok(npy.encode())
}

/// The serializer of all formats. A [`Plan`] makes it write an npy file; [`plan`] has an example.
pub type Serializer<'s> = crate::Serializer<'s>;

/// The deserializer of all formats. [`Options::slice_deserializer`] and [`Options::stream_deserializer`] make one that
/// reads an npy file.
pub type Deserializer<'de> = crate::Deserializer<'de>;

/// Serializes a value into an npy file in memory.
///
/// The file is allocated once, at its length, and each element is copied into it once.
///
/// ```
/// use tensorfile::{TensorView, npy};
///
/// let file = npy::to_vec(&TensorView::from_slice(&[1.0_f32, 2.0], [2])?)?;
/// assert!(file.starts_with(b"\x93NUMPY"));
/// # Ok::<(), tensorfile::Error>(())
/// ```
///
/// # Errors
///
/// - [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported): the value has no tensor or several, or one that the
///   format cannot store.
/// - [`ErrorKind::NotATensor`](crate::ErrorKind::NotATensor): part of the value is not a tensor, such as a string.
/// - [`ErrorKind::Changed`](crate::ErrorKind::Changed): the value, which is serialized twice, was different the second
///   time.
pub fn to_vec<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>> {
    write::to_vec(&SerdeValue(value), Options::defaults().encode())
}

/// Serializes a value to a writer as an npy file.
///
/// The value is serialized twice: first for dtypes and shapes, then for the elements. Only the header is held, and the
/// writer need not seek. Small writes are gathered, large ones are passed on as they are.
///
/// ```
/// use tensorfile::{TensorView, npy};
///
/// let value = &TensorView::from_slice(&[1.0_f32, 2.0], [2])?;
/// let mut file = Vec::new();
/// npy::to_writer(&mut file, value)?;
/// assert_eq!(file, npy::to_vec(value)?);
/// # Ok::<(), tensorfile::Error>(())
/// ```
///
/// # Errors
///
/// As [`to_vec`], with nothing written except after `Changed`, and [`ErrorKind::Io`](crate::ErrorKind::Io) if writing
/// fails.
pub fn to_writer<T: Serialize + ?Sized>(mut writer: impl Write, value: &T) -> Result<()> {
    write::to_writer(&mut writer, &SerdeValue(value), Options::defaults().encode())
}

/// Serializes a value into an npy file in memory that is reused, so that nothing is allocated if it is large enough.
///
/// `file` is replaced by the file. After an error it is empty.
///
/// ```
/// use tensorfile::{TensorView, npy};
///
/// let value = &TensorView::from_slice(&[1.0_f32, 2.0], [2])?;
/// let mut file = Vec::new();
/// npy::to_vec_into(&mut file, value)?;
/// npy::to_vec_into(&mut file, value)?;
/// assert_eq!(file, npy::to_vec(value)?);
/// # Ok::<(), tensorfile::Error>(())
/// ```
///
/// # Errors
///
/// As [`to_vec`].
pub fn to_vec_into<T: Serialize + ?Sized>(file: &mut Vec<u8>, value: &T) -> Result<()> {
    write::to_vec_into(file, &SerdeValue(value), Options::defaults().encode())
}

/// Serializes a value into an npy file in slices, for a socket or another writer that takes several at once.
///
/// Payloads are borrowed from the value, and all other bytes are in one buffer. So are payloads of fewer than 512 bytes,
/// and those that are not in memory as they are stored: arrays with gaps or in another order, and all numbers on big-endian
/// hosts. serde passes no payload on for longer than a call, so the value is one that implements [`Store`], such as a
/// derived struct, an array, or a container of them.
///
/// ```
/// use tensorfile::{TensorView, npy};
///
/// let tensor = TensorView::from_slice(&[1.5_f32; 1000], [1000])?;
/// let file = npy::to_io_slices(&tensor)?;
/// assert!(file.file_bytes() > 4000 && file.copied_bytes() < 1000);
/// let bytes: Vec<u8> = file.as_slices().iter().flat_map(|slice| slice.to_vec()).collect();
/// assert_eq!(bytes, npy::to_vec(&tensor)?);
/// # Ok::<(), tensorfile::Error>(())
/// ```
///
/// # Errors
///
/// As [`to_vec`].
pub fn to_io_slices<T: Store + ?Sized>(value: &T) -> Result<IoSlices<'_>> {
    write::to_io_slices(value, Options::defaults().encode())
}

/// Deserializes a value from an npy file in memory.
///
/// A view borrows from `file`, if the elements are little-endian; an owned array is copied once. The whole index is
/// checked before the first value is made.
///
/// ```
/// use tensorfile::{TensorView, npy};
///
/// let file = npy::to_vec(&TensorView::from_slice(&[1.0_f32, 2.0], [2])?)?;
/// let tensor: TensorView = npy::from_slice(&file)?;
/// assert_eq!(*tensor.shape(), [2]);
/// # Ok::<(), tensorfile::Error>(())
/// ```
///
/// # Errors
///
/// - [`ErrorKind::Truncated`](crate::ErrorKind::Truncated): the file ends inside the header or the array.
/// - [`ErrorKind::BadMagic`](crate::ErrorKind::BadMagic): the file does not begin with `\x93NUMPY`.
/// - [`ErrorKind::BadNumber`](crate::ErrorKind::BadNumber): the version is unknown, or the header is too long.
/// - [`ErrorKind::Malformed`](crate::ErrorKind::Malformed): the header is not a dict of `descr`, `fortran_order` and
///   `shape`.
/// - [`ErrorKind::InvalidTensor`](crate::ErrorKind::InvalidTensor): the array is larger than can be addressed.
/// - [`ErrorKind::UnknownDtype`](crate::ErrorKind::UnknownDtype): a dtype is unknown and does not tell the size of
///   elements, in a stream.
/// - [`ErrorKind::Limit`](crate::ErrorKind::Limit): the file exceeds the default [`Limits`](crate::Limits).
/// - [`Category::Mismatch`](crate::Category::Mismatch): the file does not hold what `T` expects. For types that map to
///   tensors, [`ErrorKind::Load`](crate::ErrorKind::Load) lists all differences.
pub fn from_slice<'de, T: Deserialize<'de>>(file: &'de [u8]) -> Result<T> {
    crate::serde::from_slice(&FORMAT.reading, file, &Options::defaults().limits)
}

/// Deserializes a value from a reader of an npy file.
///
/// Elements are copied from the reader's buffer into their array. A file with big-endian elements is held in memory.
///
/// ```
/// use tensorfile::{Tensor, TensorView, npy};
///
/// let file = npy::to_vec(&TensorView::from_slice(&[1.0_f32, 2.0], [2])?)?;
/// let tensor: Tensor = npy::from_reader(&file[..])?;
/// assert_eq!(*tensor.shape(), [2]);
/// # Ok::<(), tensorfile::Error>(())
/// ```
///
/// # Errors
///
/// As [`from_slice`], and [`ErrorKind::Io`](crate::ErrorKind::Io) if reading fails.
pub fn from_reader<T: for<'de> Deserialize<'de>>(reader: impl Read) -> Result<T> {
    crate::serde::from_reader(&FORMAT.reading, reader, &Options::defaults().limits)
}

/// Plans an npy file: its length, and the offset of everything in it.
///
/// The value is serialized once, without its elements. The plan's writer then takes its tensors.
///
/// ```
/// use serde::Serialize;
/// use tensorfile::{TensorView, npy};
///
/// let value = &TensorView::from_slice(&[1.0_f32, 2.0], [2])?;
/// let plan = npy::plan(value)?;
/// let mut file = Vec::new();
/// let mut writer = plan.writer(&mut file);
/// let mut serializer = npy::Serializer::new(&mut writer);
/// value.serialize(&mut serializer)?;
/// serializer.end()?;
/// writer.finish()?;
/// assert_eq!(file, npy::to_vec(value)?);
/// # Ok::<(), tensorfile::Error>(())
/// ```
///
/// # Errors
///
/// As [`to_vec`].
pub fn plan<T: Serialize + ?Sized>(value: &T) -> Result<Plan> {
    Plan::new(&SerdeValue(value), Options::defaults().encode())
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
#[derive(Debug, Clone, Default)]
pub struct Options {
    encode: Arc<ser::Encode>,
    limits: Limits,
}

impl Options {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    // Borrowed by the functions of this module, so that the crates of users do not compile how options are dropped.
    fn defaults() -> &'static Self {
        static DEFAULTS: LazyLock<Options> = LazyLock::new(Options::new);
        &DEFAULTS
    }

    /// Sets the limits for reading.
    ///
    /// ```
    /// use ndarray::{Array2, array};
    /// use tensorfile::{Arrays, Limits, npy};
    ///
    /// let array = Arrays(array![[1.0_f32, 2.0]]);
    /// let file = npy::to_vec(&array)?;
    /// let options = npy::Options::new().limits(Limits::new().rank(1));
    /// let error = options.from_slice::<Arrays<Array2<f32>>>(&file).unwrap_err();
    /// assert!(error.to_string().contains("rank is 2, but the limit is 1"));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Writes an array in Fortran order, if that is its order in memory, instead of in row-major order.
    ///
    /// Arrays in any other order of their dims are then refused.
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
        Arc::make_mut(&mut self.encode).keep_dim_order = keep;
        self
    }

    /// As [`plan`], with these options.
    ///
    /// ```
    /// use ndarray::array;
    /// use tensorfile::{Arrays, npy};
    ///
    /// let array = Arrays(array![[1.0_f32, 2.0]]);
    /// let options = npy::Options::new().keep_dim_order(true);
    /// assert_eq!(options.plan(&array)?.file_bytes(), options.to_vec(&array)?.len() as u64);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`plan`].
    pub fn plan<T: Serialize + ?Sized>(&self, value: &T) -> Result<Plan> {
        Plan::new(&SerdeValue(value), self.encode())
    }

    /// As [`to_vec`], with these options.
    ///
    /// ```
    /// use ndarray::{Array2, array};
    /// use tensorfile::{Arrays, npy};
    ///
    /// let array = Arrays(array![[1.0_f32, 2.0]]);
    /// let file = npy::Options::new().keep_dim_order(true).to_vec(&array)?;
    /// assert_eq!(npy::from_slice::<Arrays<Array2<f32>>>(&file)?, array);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`to_vec`].
    pub fn to_vec<T: Serialize + ?Sized>(&self, value: &T) -> Result<Vec<u8>> {
        write::to_vec(&SerdeValue(value), self.encode())
    }

    /// As [`to_writer`], with these options.
    ///
    /// ```
    /// use ndarray::array;
    /// use tensorfile::{Arrays, npy};
    ///
    /// let array = Arrays(array![[1.0_f32, 2.0]]);
    /// let options = npy::Options::new().keep_dim_order(true);
    /// let mut file = Vec::new();
    /// options.to_writer(&mut file, &array)?;
    /// assert_eq!(file, options.to_vec(&array)?);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`to_writer`].
    pub fn to_writer<T: Serialize + ?Sized>(&self, mut writer: impl Write, value: &T) -> Result<()> {
        write::to_writer(&mut writer, &SerdeValue(value), self.encode())
    }

    /// As [`to_vec_into`], with these options.
    ///
    /// ```
    /// use ndarray::array;
    /// use tensorfile::{Arrays, npy};
    ///
    /// let array = Arrays(array![[1.0_f32, 2.0]]);
    /// let options = npy::Options::new().keep_dim_order(true);
    /// let mut file = Vec::new();
    /// for _ in 0..3 {
    ///     options.to_vec_into(&mut file, &array)?;      // the memory is reused
    /// }
    /// assert_eq!(file, options.to_vec(&array)?);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`to_vec`].
    pub fn to_vec_into<T: Serialize + ?Sized>(&self, file: &mut Vec<u8>, value: &T) -> Result<()> {
        write::to_vec_into(file, &SerdeValue(value), self.encode())
    }

    /// As [`to_io_slices`], with these options.
    ///
    /// ```
    /// use ndarray::array;
    /// use tensorfile::{Arrays, npy};
    ///
    /// let array = array![[1.0_f32, 2.0]];
    /// let options = npy::Options::new().keep_dim_order(true);
    /// let mut file = Vec::new();
    /// options.to_io_slices(&array)?.write_to(&mut file)?;
    /// assert_eq!(file, options.to_vec(&Arrays(&array))?);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`to_vec`].
    pub fn to_io_slices<'a, T: Store + ?Sized>(&self, value: &'a T) -> Result<IoSlices<'a>> {
        write::to_io_slices(value, self.encode())
    }

    /// As [`from_slice`], with these options.
    ///
    /// ```
    /// use ndarray::{Array2, array};
    /// use tensorfile::{Arrays, Limits, npy};
    ///
    /// let array = Arrays(array![[1.0_f32, 2.0]]);
    /// let file = npy::to_vec(&array)?;
    /// let options = npy::Options::new().limits(Limits::new().tensors(10));
    /// assert_eq!(options.from_slice::<Arrays<Array2<f32>>>(&file)?, array);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`from_slice`].
    pub fn from_slice<'de, T: Deserialize<'de>>(&self, file: &'de [u8]) -> Result<T> {
        crate::serde::from_slice(&FORMAT.reading, file, &self.limits)
    }

    /// As [`from_reader`], with these options.
    ///
    /// ```
    /// use ndarray::{Array2, array};
    /// use tensorfile::{Arrays, Limits, npy};
    ///
    /// let array = Arrays(array![[1.0_f32, 2.0]]);
    /// let file = npy::to_vec(&array)?;
    /// let options = npy::Options::new().limits(Limits::new().payload(1 << 20));
    /// assert_eq!(options.from_reader::<Arrays<Array2<f32>>>(&file[..])?, array);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`from_reader`].
    pub fn from_reader<T: for<'de> Deserialize<'de>>(&self, reader: impl Read) -> Result<T> {
        crate::serde::from_reader(&FORMAT.reading, reader, &self.limits)
    }

    /// A deserializer of a file in memory. Call [`end`](crate::Deserializer::end) after the value.
    ///
    /// ```
    /// use serde::Deserialize;
    /// use tensorfile::{Limits, TensorMap, TensorView, npy};
    ///
    /// let file = npy::to_vec(&TensorView::from_slice(&[1.0_f32, 2.0], [2])?)?;
    /// let options = npy::Options::new().limits(Limits::new().tensors(10));
    /// let mut deserializer = options.slice_deserializer(&file);
    /// let map = TensorMap::deserialize(&mut deserializer)?;
    /// deserializer.end()?;
    /// assert_eq!(map.len(), 1);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn slice_deserializer<'de>(&self, file: &'de [u8]) -> Deserializer<'de> {
        Deserializer::of_slice(&FORMAT.reading, file, self.limits.clone())
    }

    /// A deserializer of a stream. Call [`end`](crate::Deserializer::end) after the value.
    ///
    /// ```
    /// use ndarray::{Array2, array};
    /// use serde::Deserialize;
    /// use tensorfile::{Arrays, npy};
    ///
    /// let array = Arrays(array![[1.0_f32, 2.0]]);
    /// let file = npy::to_vec(&array)?;
    /// let mut deserializer = npy::Options::new().stream_deserializer(&file[..]);
    /// let read = Arrays::<Array2<f32>>::deserialize(&mut deserializer)?;
    /// deserializer.end()?;
    /// assert_eq!(read, array);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    pub fn stream_deserializer<'de>(&self, reader: impl Read + 'de) -> Deserializer<'de> {
        Deserializer::of_reader(&FORMAT.reading, reader, self.limits.clone())
    }

    fn encode(&self) -> Arc<dyn Encode> {
        self.encode.clone()
    }
}
