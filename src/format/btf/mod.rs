//! Binary Tensor Format (`.btf`): unnamed dense or sparse tensors after an offset table.
//!
//! ```text
//! count: u64 | offset: u64 × count | record…
//! record = rank: u64 | dtype: u8 | layout: u8 | 0: u8 × 6 | payload | 0 up to a multiple of 8
//! payload = dim: u64 × rank | elements                                                                (dense)
//!         | dim: u64 × rank | n: u64 | rank: u64 | index: u64 × rank × n | n: u64 | element × n       (COO)
//! ```
//!
//! All numbers are little-endian, elements are in row-major order, and offsets count from the start of the file.
//!
//! # Specification
//!
//! `documents/binary_tensor_format.md` of the TensorFlow Runtime (TFRT), and its `include/tfrt/tensor/btf.h`.
//!
//! # Names
//!
//! The format stores no names. A value is written depth first in the order of its fields, and read back by position:
//! dtypes and shapes are checked at every step, and decide which `Option`s are present and how long lists are. If they
//! leave a choice, the result is [`ErrorKind::Ambiguous`](crate::ErrorKind::Ambiguous), not a guess.
//! [`Options::embed_names`] adds a last tensor of bytes that holds all names. Other readers see it as a tensor, this
//! crate takes the names from it. In a file without names, the last tensor must not begin as such a list does, which is an
//! error when it is written.
//!
//! # Deviations
//!
//! - The document lists the dtypes 0 to 5. TFRT's code also has 6 to 9, unsigned integers. All ten are read and written.
//! - The document gives COO the layout number 2, TFRT's code 1. Both are read. 2 is written, or 1 with
//!   [`Options::tfrt_coo`]. TFRT's code skips tensors with the number 2.
//! - The document does not mention the order of records. They are read in any order, with gaps between them and with
//!   offsets that two tensors share, as TFRT does. They are written in order and adjacent, the last one padded too, as
//!   TFRT does.
//! - Bytes that belong to no record, between the records or after the last one, are ignored, as TFRT does.
//! - Old writers left garbage in the six reserved bytes. Any value is read, zeros are written.
//! - TFRT crashes on, or misreads, dims that overflow and offsets outside of the file. These are errors, and so are
//!   records that overlap, offsets into the offset table, and dims above 2⁶³ − 1, which TFRT reads as negative.
//! - TFRT's inspector does not compare COO indices with the dims. An index outside is an error.

mod de;
mod header;
mod ser;

use std::io::{Read, Write};
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};

pub use self::header::DTYPES;
use crate::error::Result;
use crate::format::{Format, known};
use crate::limits::Limits;
use crate::model::{FormatSpec, Store};
use crate::serde::SerdeValue;
use crate::write;
use crate::write::{Encode, WriteOptions};
pub use crate::write::{IoSlices, Plan};

/// The format: what it can store, and how it is recognized.
pub static FORMAT: Format = Format::new(SPEC, || Box::new(de::Reader::default()), encode)
    .with_small_files(de::small)
    .with_detection(de::looks_like)
    .with_metadata(de::metadata);

const SPEC: FormatSpec = FormatSpec {
    max_dim: Some(header::MAX_DIM),
    max_name: Some(0),
    sparse: true,
    unknown_dtypes: Some("btf"),
    ..known::BTF.spec(DTYPES)
};

fn encode(options: &WriteOptions) -> Result<Arc<dyn Encode>> {
    options.only_alignment(&FORMAT, 8)?.only_metadata(&FORMAT)?;
    Ok(Options::new().embed_names(options.embed_names).tfrt_coo(options.tfrt_coo).encode())
}

/// The serializer of all formats. A [`Plan`] makes it write a BTF file; [`plan`] has an example.
pub type Serializer<'s> = crate::Serializer<'s>;

/// The deserializer of all formats. [`Options::slice_deserializer`] and [`Options::stream_deserializer`] make one that
/// reads a BTF file.
pub type Deserializer<'de> = crate::Deserializer<'de>;

/// Serializes a value into a BTF file in memory.
///
/// The file is allocated once, at its length, and each element is copied into it once. A file of up to 32 tensors and
/// 64 KiB is made in one pass, in which its memory may grow.
///
/// ```
/// use tensorfile::{TensorView, btf};
///
/// let file = btf::to_vec(&[TensorView::from_slice(&[1.0_f32, 2.0], [2])?])?;
/// assert_eq!(file.len(), 8 + 8 + (16 + 8) + 8);
/// # Ok::<(), tensorfile::Error>(())
/// ```
///
/// # Errors
///
/// - [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported): the format cannot store one of the tensors.
/// - [`ErrorKind::NotATensor`](crate::ErrorKind::NotATensor): part of the value is not a tensor, such as a string.
/// - [`ErrorKind::Changed`](crate::ErrorKind::Changed): the value, which is serialized twice, was different the second
///   time.
pub fn to_vec<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>> {
    write::to_vec(&SerdeValue(value), Options::defaults().encode())
}

/// Serializes a value to a writer as a BTF file.
///
/// The value is serialized twice: first for dtypes and shapes, then for the elements. A file of up to 32 tensors and 64
/// KiB is made in memory in one pass, and then written. Otherwise, only the headers of the records are held, and the
/// writer need not seek. Small writes are gathered, large ones are passed on as they are.
///
/// ```
/// use tensorfile::{TensorView, btf};
///
/// let value = &[TensorView::from_slice(&[1.0_f32, 2.0], [2])?];
/// let mut file = Vec::new();
/// btf::to_writer(&mut file, value)?;
/// assert_eq!(file, btf::to_vec(value)?);
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

/// Serializes a value into a BTF file in memory that is reused, so that nothing is allocated if it is large enough.
///
/// `file` is replaced by the file. After an error it is empty.
///
/// ```
/// use tensorfile::{TensorView, btf};
///
/// let value = &[TensorView::from_slice(&[1.0_f32, 2.0], [2])?];
/// let mut file = Vec::new();
/// btf::to_vec_into(&mut file, value)?;
/// btf::to_vec_into(&mut file, value)?;
/// assert_eq!(file, btf::to_vec(value)?);
/// # Ok::<(), tensorfile::Error>(())
/// ```
///
/// # Errors
///
/// As [`to_vec`].
pub fn to_vec_into<T: Serialize + ?Sized>(file: &mut Vec<u8>, value: &T) -> Result<()> {
    write::to_vec_into(file, &SerdeValue(value), Options::defaults().encode())
}

/// Serializes a value into a BTF file in slices, for a socket or another writer that takes several at once.
///
/// Payloads are borrowed from the value, and all other bytes are in one buffer. So are payloads of fewer than 512 bytes,
/// and those that are not in memory as they are stored: arrays with gaps or in another order, and all numbers on big-endian
/// hosts. serde passes no payload on for longer than a call, so the value is one that implements [`Store`], such as a
/// derived struct, an array, or a container of them.
///
/// ```
/// use tensorfile::{TensorView, btf};
///
/// let tensor = TensorView::from_slice(&[1.5_f32; 1000], [1000])?;
/// let file = btf::to_io_slices(&tensor)?;
/// assert!(file.file_bytes() > 4000 && file.copied_bytes() < 1000);
/// let bytes: Vec<u8> = file.as_slices().iter().flat_map(|slice| slice.to_vec()).collect();
/// assert_eq!(bytes, btf::to_vec(&tensor)?);
/// # Ok::<(), tensorfile::Error>(())
/// ```
///
/// # Errors
///
/// As [`to_vec`].
pub fn to_io_slices<T: Store + ?Sized>(value: &T) -> Result<IoSlices<'_>> {
    write::to_io_slices(value, Options::defaults().encode())
}

/// Deserializes a value from a BTF file in memory.
///
/// Views in `T` borrow from `file`; owned arrays are copied once. BTF stores no names, so structs are filled by
/// position. The whole index is checked before the first value is made.
///
/// ```
/// use tensorfile::{TensorView, btf};
///
/// let file = btf::to_vec(&[TensorView::from_slice(&[1.0_f32, 2.0], [2])?])?;
/// let tensors: Vec<TensorView> = btf::from_slice(&file)?;
/// assert_eq!(*tensors[0].shape(), [2]);
/// # Ok::<(), tensorfile::Error>(())
/// ```
///
/// # Errors
///
/// - [`ErrorKind::Truncated`](crate::ErrorKind::Truncated): the file ends inside a record, or a stream inside the
///   offset table.
/// - [`ErrorKind::BadNumber`](crate::ErrorKind::BadNumber): the offset table is longer than the file, an offset is not
///   a multiple of 8 or points into the table, or a dim is above 2⁶³ − 1.
/// - [`ErrorKind::UnknownDtype`](crate::ErrorKind::UnknownDtype): a dtype is unknown, and where the record ends is not
///   known: it is the last one of a stream, or records are not in order.
/// - [`ErrorKind::UnknownLayout`](crate::ErrorKind::UnknownLayout): a layout is neither dense nor COO.
/// - [`ErrorKind::InvalidTensor`](crate::ErrorKind::InvalidTensor): a tensor is larger than can be addressed, or the
///   coordinates of a sparse tensor do not fit its shape or its values.
/// - [`ErrorKind::Overlap`](crate::ErrorKind::Overlap): two records share some of their bytes.
/// - [`ErrorKind::Malformed`](crate::ErrorKind::Malformed): the list of embedded names is broken.
/// - [`ErrorKind::DuplicateName`](crate::ErrorKind::DuplicateName): two embedded names are the same.
/// - [`ErrorKind::Limit`](crate::ErrorKind::Limit): the file exceeds the default [`Limits`](crate::Limits).
/// - [`Category::Mismatch`](crate::Category::Mismatch): the file does not hold what `T` expects. For types that map to
///   tensors, [`ErrorKind::Load`](crate::ErrorKind::Load) lists all differences.
pub fn from_slice<'de, T: Deserialize<'de>>(file: &'de [u8]) -> Result<T> {
    crate::serde::from_slice(&FORMAT.reading, file, &Options::defaults().limits)
}

/// Deserializes a value from a reader of a BTF file.
///
/// Elements are copied from the reader's buffer into their arrays. Tensors that `T` reads in another order than the
/// file are held in memory until then. The reader is read up to 256 KiB past the last tensor.
///
/// ```
/// use tensorfile::{Tensor, TensorView, btf};
///
/// let file = btf::to_vec(&[TensorView::from_slice(&[1.0_f32, 2.0], [2])?])?;
/// let tensors: Vec<Tensor> = btf::from_reader(&file[..])?;
/// assert_eq!(*tensors[0].shape(), [2]);
/// # Ok::<(), tensorfile::Error>(())
/// ```
///
/// # Errors
///
/// As [`from_slice`], and [`ErrorKind::Io`](crate::ErrorKind::Io) if reading fails.
pub fn from_reader<T: for<'de> Deserialize<'de>>(reader: impl Read) -> Result<T> {
    crate::serde::from_reader(&FORMAT.reading, reader, &Options::defaults().limits)
}

/// Plans a BTF file: its length, and the offset of everything in it.
///
/// The value is serialized once, without its elements. The plan's writer then takes its tensors.
///
/// ```
/// use serde::Serialize;
/// use tensorfile::{TensorView, btf};
///
/// let value = &[TensorView::from_slice(&[1.0_f32, 2.0], [2])?];
/// let plan = btf::plan(value)?;
/// let mut file = Vec::new();
/// let mut writer = plan.writer(&mut file);
/// let mut serializer = btf::Serializer::new(&mut writer);
/// value.serialize(&mut serializer)?;
/// serializer.end()?;
/// writer.finish()?;
/// assert_eq!(file, btf::to_vec(value)?);
/// # Ok::<(), tensorfile::Error>(())
/// ```
///
/// # Errors
///
/// As [`to_vec`].
pub fn plan<T: Serialize + ?Sized>(value: &T) -> Result<Plan> {
    Plan::new(&SerdeValue(value), Options::defaults().encode())
}

/// Options for reading and writing BTF files.
///
/// ```
/// use std::collections::BTreeMap;
/// use tensorfile::{TensorMap, TensorView, btf};
///
/// let bias = TensorView::from_slice(&[0.5_f32], [1])?;
/// let file = btf::Options::new().embed_names(true).to_vec(&BTreeMap::from([("bias", bias)]))?;
/// let map: TensorMap = btf::from_slice(&file)?;
/// assert!(map.get("bias").is_some());
/// # Ok::<(), tensorfile::Error>(())
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
    /// use ndarray::array;
    /// use tensorfile::{Limits, TensorMap, btf};
    ///
    /// let map = TensorMap::from_iter([("weight", array![[1.0_f32, 2.0]])]);
    /// let file = btf::to_vec(&map)?;
    /// let options = btf::Options::new().limits(Limits::new().rank(1));
    /// let error = options.from_slice::<TensorMap>(&file).unwrap_err();
    /// assert!(error.to_string().contains("rank is 2, but the limit is 1"));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Writes all names into one more tensor at the end.
    ///
    /// It is a vector of `u8`: `tensorfile.names.v1`, NUL, then the names in the order of the tensors, each followed by
    /// a NUL.
    ///
    /// ```
    /// use ndarray::array;
    /// use tensorfile::{TensorMap, btf};
    ///
    /// let map = TensorMap::from_iter([("encoder.weight", array![1.0_f32])]);
    /// let file = btf::Options::new().embed_names(true).to_vec(&map)?;
    /// assert!(btf::from_slice::<TensorMap>(&file)?.contains("encoder.weight"));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn embed_names(mut self, embed: bool) -> Self {
        Arc::make_mut(&mut self.encode).embed_names = embed;
        self
    }

    /// Writes sparse tensors with the layout number of TFRT's code, 1, instead of the specification's, 2.
    ///
    /// ```
    /// use tensorfile::{CooTensor, btf};
    ///
    /// let sparse = CooTensor::new([2], vec![1], vec![1.0_f32])?;
    /// let file = btf::Options::new().tfrt_coo(true).to_vec(&sparse)?;
    /// assert_eq!(file[16 + 9], 1);            // the layout number of the first record
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn tfrt_coo(mut self, tfrt: bool) -> Self {
        Arc::make_mut(&mut self.encode).tfrt_coo = tfrt;
        self
    }

    /// As [`plan`], with these options.
    ///
    /// ```
    /// use ndarray::array;
    /// use tensorfile::{TensorMap, btf};
    ///
    /// let map = TensorMap::from_iter([("weight", array![[1.0_f32, 2.0]])]);
    /// let options = btf::Options::new().embed_names(true);
    /// assert_eq!(options.plan(&map)?.file_bytes(), options.to_vec(&map)?.len() as u64);
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
    /// use ndarray::array;
    /// use tensorfile::{TensorMap, btf};
    ///
    /// let map = TensorMap::from_iter([("weight", array![[1.0_f32, 2.0]])]);
    /// let file = btf::Options::new().embed_names(true).to_vec(&map)?;
    /// assert_eq!(btf::from_slice::<TensorMap>(&file)?, map);
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
    /// use tensorfile::{TensorMap, btf};
    ///
    /// let map = TensorMap::from_iter([("weight", array![[1.0_f32, 2.0]])]);
    /// let options = btf::Options::new().embed_names(true);
    /// let mut file = Vec::new();
    /// options.to_writer(&mut file, &map)?;
    /// assert_eq!(file, options.to_vec(&map)?);
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
    /// use tensorfile::{TensorMap, btf};
    ///
    /// let map = TensorMap::from_iter([("weight", array![[1.0_f32, 2.0]])]);
    /// let options = btf::Options::new().embed_names(true);
    /// let mut file = Vec::new();
    /// for _ in 0..3 {
    ///     options.to_vec_into(&mut file, &map)?;      // the memory is reused
    /// }
    /// assert_eq!(file, options.to_vec(&map)?);
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
    /// use tensorfile::{TensorMap, btf};
    ///
    /// let map = TensorMap::from_iter([("weight", array![[1.0_f32, 2.0]])]);
    /// let options = btf::Options::new().embed_names(true);
    /// let mut file = Vec::new();
    /// options.to_io_slices(&map)?.write_to(&mut file)?;
    /// assert_eq!(file, options.to_vec(&map)?);
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
    /// use ndarray::array;
    /// use tensorfile::{Limits, TensorMap, btf};
    ///
    /// let map = TensorMap::from_iter([("weight", array![[1.0_f32, 2.0]])]);
    /// let file = btf::Options::new().embed_names(true).to_vec(&map)?;
    /// let options = btf::Options::new().limits(Limits::new().tensors(10));
    /// assert_eq!(options.from_slice::<TensorMap>(&file)?, map);
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
    /// use ndarray::array;
    /// use tensorfile::{Limits, TensorMap, btf};
    ///
    /// let map = TensorMap::from_iter([("weight", array![[1.0_f32, 2.0]])]);
    /// let file = btf::Options::new().embed_names(true).to_vec(&map)?;
    /// let options = btf::Options::new().limits(Limits::new().payload(1 << 20));
    /// assert_eq!(options.from_reader::<TensorMap>(&file[..])?, map);
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
    /// use tensorfile::{Limits, TensorMap, TensorView, btf};
    ///
    /// let file = btf::to_vec(&[TensorView::from_slice(&[1.0_f32, 2.0], [2])?])?;
    /// let options = btf::Options::new().limits(Limits::new().tensors(10));
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
    /// use ndarray::array;
    /// use serde::Deserialize;
    /// use tensorfile::{TensorMap, btf};
    ///
    /// let map = TensorMap::from_iter([("weight", array![[1.0_f32, 2.0]])]);
    /// let file = btf::Options::new().embed_names(true).to_vec(&map)?;
    /// let mut deserializer = btf::Options::new().stream_deserializer(&file[..]);
    /// let read = TensorMap::deserialize(&mut deserializer)?;
    /// deserializer.end()?;
    /// assert_eq!(read, map);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    pub fn stream_deserializer<'de>(&self, reader: impl Read + 'de) -> Deserializer<'de> {
        Deserializer::of_reader(&FORMAT.reading, reader, self.limits.clone())
    }

    fn encode(&self) -> Arc<dyn Encode> {
        self.encode.clone()
    }
}
