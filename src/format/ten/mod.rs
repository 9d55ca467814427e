//! Tensors as a stream of chunks (`.ten`, "tenbin"): no count, no index, a name of up to 8 bytes each.
//!
//! ```text
//! tensor = chunk(header) | chunk(elements)
//! chunk  = "~TenBin~" | length: i64 | contents | 0 up to a multiple of 64 of the length
//! header = dtype: u8 × 8 | name: u8 × 8 | rank: i64 | dim: i64 × rank
//! ```
//!
//! All numbers are little-endian and elements are in row-major order. Dtype and name are text, filled up with NULs. As a
//! chunk takes a multiple of 64 bytes and 16, elements begin at multiples of 32 from the start of the stream.
//!
//! # Specification
//!
//! `webdataset.tenbin`, from which the format comes. The Go package `ten` and `tensorcom` read and write it too. In
//! WebDataset a member `name.ten` of a tar file holds a list of tensors, mostly without names.
//!
//! # Names
//!
//! A name takes up to 8 bytes. A tensor whose name is its position, as for the items of a list, is written without one.
//! If no tensor of a file has a name, values are found by position, as [in BTF](crate::btf#names).
//! [`Options::embed_names`] writes names of any length into one more tensor at the end. A file that is cut right before it
//! reads as one without names. In a file without names, the last tensor must not begin as such a list does, which is an error
//! when it is written.
//!
//! Names may repeat, as nothing in a stream is looked up by them: WebDataset writes such files. They are listed, and read
//! by position: as a list or a tuple, by [`File`](crate::File) as `#0`, or by [`Decoder`]. A struct or a map needs names
//! that differ, as does writing.
//!
//! # Deviations
//!
//! - The reference writers refuse rank 10 and above, the readers accept it. It is read, not written.
//! - Python's writer takes ASCII names only, Go's any bytes. Names that are not UTF-8 are read with escapes, `\xff`, and
//!   written as the bytes that they were. So are names that look like such escapes: their backslashes are read as `\\`.
//!   NULs inside of a name stay, those at its ends are stripped.
//! - Python cannot read or write `u4`, because of an error in its table, and Go cannot do `f2`. Both are read and
//!   written. Python cannot read rank 0.
//! - A header whose length is not `8 × (3 + rank)`, more or fewer elements than the shape has, and a dim of −1, which
//!   is a wildcard in Python, are errors.
//! - A stream that ends within a tensor is an error, and so is anything but a tensor after the last one. Padding may be
//!   any bytes, but it must be there: without it Go silently drops the last tensor.
//! - Python writes big-endian arrays as they are, labelled as little-endian. No reader can detect this.

mod de;
mod header;
mod ser;
mod stream;

use std::io::{Read, Write};
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};

pub use self::header::DTYPES;
pub use self::stream::{Decoder, Encoder};
use crate::error::Result;
use crate::format::{Format, known};
use crate::limits::Limits;
use crate::model::{FormatSpec, Store};
use crate::serde::SerdeValue;
use crate::write;
use crate::write::{Encode, WriteOptions};
pub use crate::write::{IoSlices, Plan};

/// The format: what it can store, and how it is recognized.
pub static FORMAT: Format = Format::new(SPEC, || Box::new(de::Reader::default()), encode).with_small_files(de::small);

const SPEC: FormatSpec = FormatSpec {
    max_rank: Some(header::MAX_RANK),
    max_dim: Some(header::MAX_DIM),
    max_name: Some(header::NAME),
    check_name: header::check_name,
    unknown_dtypes: Some("ten"),
    ..known::TEN.spec(DTYPES)
};

fn encode(options: &WriteOptions) -> Result<Arc<dyn Encode>> {
    options.only_alignment(&FORMAT, 32)?.only_metadata(&FORMAT)?;
    Ok(Options::new().embed_names(options.embed_names).encode())
}

/// The serializer of all formats. A [`Plan`] makes it write a ten file; [`plan`] has an example.
pub type Serializer<'s> = crate::Serializer<'s>;

/// The deserializer of all formats. [`Options::slice_deserializer`] and [`Options::stream_deserializer`] make one that
/// reads a ten file.
pub type Deserializer<'de> = crate::Deserializer<'de>;

/// Serializes a value into a ten file in memory.
///
/// The file is allocated once, at its length, and each element is copied into it once. A file of up to 32 tensors and
/// 64 KiB is made in one pass, in which its memory may grow.
///
/// ```
/// use tensorfile::{TensorView, ten};
///
/// let file = ten::to_vec(&[TensorView::from_slice(&[1.0_f32, 2.0], [2])?])?;
/// assert_eq!(file.len(), (16 + 64) + (16 + 64));
/// # Ok::<(), tensorfile::Error>(())
/// ```
///
/// # Errors
///
/// - [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported): the format cannot store one of the tensors.
/// - [`ErrorKind::RepeatedName`](crate::ErrorKind::RepeatedName): two tensors have the same name.
/// - [`ErrorKind::NotATensor`](crate::ErrorKind::NotATensor): part of the value is not a tensor, such as a string.
/// - [`ErrorKind::Changed`](crate::ErrorKind::Changed): the value, which is serialized twice, was different the second
///   time.
pub fn to_vec<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>> {
    write::to_vec(&SerdeValue(value), Options::defaults().encode())
}

/// Serializes a value to a writer as a ten file.
///
/// The value is serialized twice: first for dtypes and shapes, then for the elements. A file of up to 32 tensors and 64
/// KiB is made in memory in one pass, and then written. Otherwise, only the headers of the tensors are held, and the
/// writer need not seek. Small writes are gathered, large ones are passed on as they are.
///
/// ```
/// use tensorfile::{TensorView, ten};
///
/// let value = &[TensorView::from_slice(&[1.0_f32, 2.0], [2])?];
/// let mut file = Vec::new();
/// ten::to_writer(&mut file, value)?;
/// assert_eq!(file, ten::to_vec(value)?);
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

/// Serializes a value into a ten file in memory that is reused, so that nothing is allocated if it is large enough.
///
/// `file` is replaced by the file. After an error it is empty.
///
/// ```
/// use tensorfile::{TensorView, ten};
///
/// let value = &[TensorView::from_slice(&[1.0_f32, 2.0], [2])?];
/// let mut file = Vec::new();
/// ten::to_vec_into(&mut file, value)?;
/// ten::to_vec_into(&mut file, value)?;
/// assert_eq!(file, ten::to_vec(value)?);
/// # Ok::<(), tensorfile::Error>(())
/// ```
///
/// # Errors
///
/// As [`to_vec`].
pub fn to_vec_into<T: Serialize + ?Sized>(file: &mut Vec<u8>, value: &T) -> Result<()> {
    write::to_vec_into(file, &SerdeValue(value), Options::defaults().encode())
}

/// Serializes a value into a ten file in slices, for a socket or another writer that takes several at once.
///
/// Payloads are borrowed from the value, and all other bytes are in one buffer. So are payloads of fewer than 512 bytes,
/// and those that are not in memory as they are stored: arrays with gaps or in another order, and all numbers on big-endian
/// hosts. serde passes no payload on for longer than a call, so the value is one that implements [`Store`], such as a
/// derived struct, an array, or a container of them.
///
/// ```
/// use tensorfile::{TensorView, ten};
///
/// let tensor = TensorView::from_slice(&[1.5_f32; 1000], [1000])?;
/// let file = ten::to_io_slices(&tensor)?;
/// assert!(file.file_bytes() > 4000 && file.copied_bytes() < 1000);
/// let bytes: Vec<u8> = file.as_slices().iter().flat_map(|slice| slice.to_vec()).collect();
/// assert_eq!(bytes, ten::to_vec(&tensor)?);
/// # Ok::<(), tensorfile::Error>(())
/// ```
///
/// # Errors
///
/// As [`to_vec`].
pub fn to_io_slices<T: Store + ?Sized>(value: &T) -> Result<IoSlices<'_>> {
    write::to_io_slices(value, Options::defaults().encode())
}

/// Deserializes a value from a ten file in memory.
///
/// Views in `T` borrow from `file`; owned arrays are copied once. If no tensor has a name, structs are filled by
/// position. The whole index is checked before the first value is made.
///
/// ```
/// use tensorfile::{TensorView, ten};
///
/// let file = ten::to_vec(&[TensorView::from_slice(&[1.0_f32, 2.0], [2])?])?;
/// let tensors: Vec<TensorView> = ten::from_slice(&file)?;
/// assert_eq!(*tensors[0].shape(), [2]);
/// # Ok::<(), tensorfile::Error>(())
/// ```
///
/// # Errors
///
/// - [`ErrorKind::Truncated`](crate::ErrorKind::Truncated): the file ends inside a tensor or its padding.
/// - [`ErrorKind::BadMagic`](crate::ErrorKind::BadMagic): a chunk does not begin with `~TenBin~`.
/// - [`ErrorKind::BadNumber`](crate::ErrorKind::BadNumber): a length, a rank or a dim is negative, or a header's length
///   does not fit its rank.
/// - [`ErrorKind::InvalidTensor`](crate::ErrorKind::InvalidTensor): a tensor has more or fewer bytes than its dtype and
///   shape take.
/// - [`ErrorKind::Malformed`](crate::ErrorKind::Malformed): the list of embedded names is broken.
/// - [`ErrorKind::AmbiguousName`](crate::ErrorKind::AmbiguousName): two tensors have the same name, and `T` is a map or
///   a struct, which asks by name.
/// - [`ErrorKind::Limit`](crate::ErrorKind::Limit): the file exceeds the default [`Limits`](crate::Limits).
/// - [`Category::Mismatch`](crate::Category::Mismatch): the file does not hold what `T` expects. For types that map to
///   tensors, [`ErrorKind::Load`](crate::ErrorKind::Load) lists all differences.
pub fn from_slice<'de, T: Deserialize<'de>>(file: &'de [u8]) -> Result<T> {
    crate::serde::from_slice(&FORMAT.reading, file, &Options::defaults().limits)
}

/// Deserializes a value from a reader of a ten file.
///
/// A stream does not say how many tensors it has, so this reads to its end. On a socket or a pipe that stays open, it waits
/// until the other side closes it: read one tensor at a time with a [`Decoder`] there.
///
/// Elements are copied from the reader's buffer into their arrays. Tensors that `T` reads in another order than the
/// file are held in memory until then. The reader is read up to 256 KiB past the last tensor.
///
/// ```
/// use tensorfile::{Tensor, TensorView, ten};
///
/// let file = ten::to_vec(&[TensorView::from_slice(&[1.0_f32, 2.0], [2])?])?;
/// let tensors: Vec<Tensor> = ten::from_reader(&file[..])?;
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

/// Plans a ten file: its length, and the offset of everything in it.
///
/// The value is serialized once, without its elements. The plan's writer then takes its tensors.
///
/// ```
/// use serde::Serialize;
/// use tensorfile::{TensorView, ten};
///
/// let value = &[TensorView::from_slice(&[1.0_f32, 2.0], [2])?];
/// let plan = ten::plan(value)?;
/// let mut file = Vec::new();
/// let mut writer = plan.writer(&mut file);
/// let mut serializer = ten::Serializer::new(&mut writer);
/// value.serialize(&mut serializer)?;
/// serializer.end()?;
/// writer.finish()?;
/// assert_eq!(file, ten::to_vec(value)?);
/// # Ok::<(), tensorfile::Error>(())
/// ```
///
/// # Errors
///
/// As [`to_vec`].
pub fn plan<T: Serialize + ?Sized>(value: &T) -> Result<Plan> {
    Plan::new(&SerdeValue(value), Options::defaults().encode())
}

/// Options for reading and writing ten files.
///
/// ```
/// use std::collections::BTreeMap;
/// use tensorfile::{TensorMap, TensorView, ten};
///
/// let bias = TensorView::from_slice(&[0.5_f32], [1])?;
/// let file = ten::Options::new().embed_names(true).to_vec(&BTreeMap::from([("decoder.bias", bias)]))?;
/// let map: TensorMap = ten::from_slice(&file)?;
/// assert!(map.get("decoder.bias").is_some());
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
    /// use tensorfile::{Limits, TensorMap, ten};
    ///
    /// let map = TensorMap::from_iter([("weight", array![[1.0_f32, 2.0]])]);
    /// let file = ten::to_vec(&map)?;
    /// let options = ten::Options::new().limits(Limits::new().rank(1));
    /// let error = options.from_slice::<TensorMap>(&file).unwrap_err();
    /// assert!(error.to_string().contains("rank is 2, but the limit is 1"));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Writes all names, of any length, into one more tensor at the end. The others are then written without names.
    ///
    /// It is a vector of `u8`: `tensorfile.names.v1`, NUL, then the names in the order of the tensors, each followed by
    /// a NUL. As a stream does not say how many tensors it has, one that is cut right before the names is a valid stream
    /// without names.
    ///
    /// ```
    /// use ndarray::array;
    /// use tensorfile::{TensorMap, ten};
    ///
    /// let map = TensorMap::from_iter([("encoder.weight", array![1.0_f32])]);
    /// let file = ten::Options::new().embed_names(true).to_vec(&map)?;
    /// assert!(ten::from_slice::<TensorMap>(&file)?.contains("encoder.weight"));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn embed_names(mut self, embed: bool) -> Self {
        Arc::make_mut(&mut self.encode).embed_names = embed;
        self
    }

    /// As [`plan`], with these options.
    ///
    /// ```
    /// use ndarray::array;
    /// use tensorfile::{TensorMap, ten};
    ///
    /// let map = TensorMap::from_iter([("weight", array![[1.0_f32, 2.0]])]);
    /// let options = ten::Options::new().embed_names(true);
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
    /// use tensorfile::{TensorMap, ten};
    ///
    /// let map = TensorMap::from_iter([("weight", array![[1.0_f32, 2.0]])]);
    /// let file = ten::Options::new().embed_names(true).to_vec(&map)?;
    /// assert_eq!(ten::from_slice::<TensorMap>(&file)?, map);
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
    /// use tensorfile::{TensorMap, ten};
    ///
    /// let map = TensorMap::from_iter([("weight", array![[1.0_f32, 2.0]])]);
    /// let options = ten::Options::new().embed_names(true);
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
    /// use tensorfile::{TensorMap, ten};
    ///
    /// let map = TensorMap::from_iter([("weight", array![[1.0_f32, 2.0]])]);
    /// let options = ten::Options::new().embed_names(true);
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
    /// use tensorfile::{TensorMap, ten};
    ///
    /// let map = TensorMap::from_iter([("weight", array![[1.0_f32, 2.0]])]);
    /// let options = ten::Options::new().embed_names(true);
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
    /// use tensorfile::{Limits, TensorMap, ten};
    ///
    /// let map = TensorMap::from_iter([("weight", array![[1.0_f32, 2.0]])]);
    /// let file = ten::to_vec(&map)?;
    /// let options = ten::Options::new().limits(Limits::new().tensors(10));
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
    /// use tensorfile::{Limits, TensorMap, ten};
    ///
    /// let map = TensorMap::from_iter([("weight", array![[1.0_f32, 2.0]])]);
    /// let file = ten::to_vec(&map)?;
    /// let options = ten::Options::new().limits(Limits::new().payload(1 << 20));
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
    /// use tensorfile::{Limits, TensorMap, TensorView, ten};
    ///
    /// let file = ten::to_vec(&[TensorView::from_slice(&[1.0_f32, 2.0], [2])?])?;
    /// let options = ten::Options::new().limits(Limits::new().tensors(10));
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
    /// use tensorfile::{TensorMap, ten};
    ///
    /// let map = TensorMap::from_iter([("weight", array![[1.0_f32, 2.0]])]);
    /// let file = ten::to_vec(&map)?;
    /// let mut deserializer = ten::Options::new().stream_deserializer(&file[..]);
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
