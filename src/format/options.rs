//! The options of all formats: an encoder, limits, and the functions for writing and reading with both.

use std::io::{Read, Write};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Format;
use crate::error::Result;
use crate::find::Deserializer;
use crate::limits::Limits;
use crate::model::Store;
use crate::serde::SerdeValue;
use crate::write::{self, Encode, IoSlices, LentEncode, Plan};

/// The writing half of a format of this crate.
pub trait HasFormat: Clone + Default {
    /// Returns the format.
    fn format() -> &'static Format;
}

/// A format of this crate that is also written.
pub trait WritesFormat: HasFormat {
    /// Returns the writing half as a trait object.
    // A method of each format, as a conversion here would make its table of functions in the crates of users: for one
    // more format, rustc took 0.08 of the time for serde_json instead of 0.02.
    fn lent(&self) -> &dyn LentEncode;
}

/// Options for reading and writing files of one format.
///
/// Each format's module has an alias, such as [`btf::Options`](crate::btf::Options), with setters of its own.
///
/// ```
/// use std::collections::BTreeMap;
/// use tensorfile::{Limits, TensorMap, TensorView, btf};
///
/// let bias = TensorView::from_slice(&[0.5_f32], [1])?;
/// let options = btf::Options::new().embed_names(true).limits(Limits::new().tensors(10));
/// let file = options.to_vec(&BTreeMap::from([("bias", bias)]))?;
/// assert!(options.from_slice::<TensorMap>(&file)?.contains("bias"));
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Options<E> {
    pub(super) encode: E,
    pub(super) limits: Limits,
}

impl<E: HasFormat> Options<E> {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the limits for reading.
    ///
    /// ```
    /// use ndarray::array;
    /// use tensorfile::{Limits, TensorMap, btf};
    ///
    /// let file = btf::to_vec(&TensorMap::from_iter([("weight", array![[1.0_f32, 2.0]])]))?;
    /// let error = btf::Options::new().limits(Limits::new().rank(1)).from_slice::<TensorMap>(&file).unwrap_err();
    /// assert!(error.to_string().contains("rank is 2, but the limit is 1"));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Deserializes a value from a file in memory.
    ///
    /// Views in `T` borrow from `file`, if their elements lie there as in memory: aligned, in one piece, in the byte
    /// order of the machine and not compressed. Owned arrays are copied once. The whole index is checked before the
    /// first value is made. If a file stores no names, structs are filled by position.
    ///
    /// # Errors
    ///
    /// The format's `from_slice` lists its own. Those of every format are:
    ///
    /// - [`ErrorKind::Truncated`](crate::ErrorKind::Truncated): the file ends inside its index or a tensor.
    /// - [`ErrorKind::InvalidTensor`](crate::ErrorKind::InvalidTensor): a tensor is larger than can be addressed, or
    ///   has more or fewer bytes than its dtype and shape take.
    /// - [`ErrorKind::Overlap`](crate::ErrorKind::Overlap): two tensors share some of their bytes.
    /// - [`ErrorKind::DuplicateName`](crate::ErrorKind::DuplicateName): two tensors have the same name.
    /// - [`ErrorKind::AmbiguousName`](crate::ErrorKind::AmbiguousName): so they have in a format whose own software
    ///   takes it, and `T` is a map or a struct, read by name.
    /// - [`ErrorKind::Limit`](crate::ErrorKind::Limit): the file exceeds the [`limits`](Self::limits).
    /// - [`Category::Mismatch`](crate::Category::Mismatch): the file does not fit `T`. For types that map to tensors,
    ///   [`ErrorKind::Load`](crate::ErrorKind::Load) lists all differences.
    pub fn from_slice<'de, T: Deserialize<'de>>(&self, file: &'de [u8]) -> Result<T> {
        crate::serde::from_slice(&E::format().reading, file, &self.limits)
    }

    /// Deserializes a value from a reader.
    ///
    /// Elements are copied from the reader's buffer into their arrays. Tensors out of `T`'s order are held in memory
    /// until they are needed. The reader is read up to 256 KiB past the last tensor. A file whose index is at its end
    /// is held in memory whole before the first value is made.
    ///
    /// ```
    /// use tensorfile::{Tensor, TensorView, btf};
    ///
    /// let file = btf::to_vec(&[TensorView::from_slice(&[1.0_f32, 2.0], [2])?])?;
    /// let tensors: Vec<Tensor> = btf::Options::new().from_reader(&file[..])?;
    /// assert_eq!(*tensors[0].shape(), [2]);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`from_slice`](Self::from_slice), and [`ErrorKind::Io`](crate::ErrorKind::Io) if reading fails.
    pub fn from_reader<T: for<'de> Deserialize<'de>>(&self, reader: impl Read) -> Result<T> {
        crate::serde::from_reader(&E::format().reading, reader, &self.limits)
    }

    /// A deserializer of a file in memory. Call [`end`](Deserializer::end) after the value.
    ///
    /// ```
    /// use serde::Deserialize;
    /// use tensorfile::{TensorMap, TensorView, ten};
    ///
    /// let file = ten::to_vec(&[TensorView::from_slice(&[1.0_f32, 2.0], [2])?])?;
    /// let mut deserializer = ten::Options::new().slice_deserializer(&file);
    /// let map = TensorMap::deserialize(&mut deserializer)?;
    /// deserializer.end()?;
    /// assert_eq!(map.len(), 1);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn slice_deserializer<'de>(&self, file: &'de [u8]) -> Deserializer<'de> {
        Deserializer::with_slice(&E::format().reading, file, self.limits.clone())
    }

    /// A deserializer of a stream. Call [`end`](Deserializer::end) after the value.
    pub fn stream_deserializer<'de>(&self, reader: impl Read + 'de) -> Deserializer<'de> {
        Deserializer::with_reader(&E::format().reading, reader, self.limits.clone())
    }
}

impl<E: WritesFormat> Options<E> {
    /// Serializes a value into a file in memory.
    ///
    /// The file is allocated once, at its final length without compression, and each element is copied once. A file of
    /// up to 32 tensors and 64 KiB is made in one pass instead, and its memory may grow; gguf, npy and npz do not have
    /// this way.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported): the format cannot store one of the tensors.
    /// - [`ErrorKind::RepeatedName`](crate::ErrorKind::RepeatedName): two tensors have the same name.
    /// - [`ErrorKind::NotATensor`](crate::ErrorKind::NotATensor): part of the value is not a tensor, such as a string.
    /// - [`ErrorKind::Changed`](crate::ErrorKind::Changed): the value is serialized twice, and the results differed.
    pub fn to_vec<T: Serialize + ?Sized>(&self, value: &T) -> Result<Vec<u8>> {
        write::to_vec(&SerdeValue(value), self.encode.lent())
    }

    /// Serializes a value into a file in memory, reusing its allocation if it is large enough.
    ///
    /// `file` is replaced by the file. After an error it is empty.
    ///
    /// ```
    /// use tensorfile::{TensorView, btf};
    ///
    /// let value = &[TensorView::from_slice(&[1.0_f32, 2.0], [2])?];
    /// let (options, mut file) = (btf::Options::new(), Vec::new());
    /// for _ in 0..3 {
    ///     options.to_vec_into(&mut file, value)?;
    /// }
    /// assert_eq!(file, btf::to_vec(value)?);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`to_vec`](Self::to_vec).
    pub fn to_vec_into<T: Serialize + ?Sized>(&self, file: &mut Vec<u8>, value: &T) -> Result<()> {
        write::to_vec_into(file, &SerdeValue(value), self.encode.lent())
    }

    /// Serializes a value to a writer. It need not seek.
    ///
    /// The value is serialized twice: first for dtypes and shapes, then for the elements. Only the headers are held.
    /// Small writes are gathered, large ones are passed on as they are. A file that [`to_vec`](Self::to_vec) makes in
    /// one pass is made in memory, and then written.
    ///
    /// ```
    /// use tensorfile::{TensorView, btf};
    ///
    /// let value = &[TensorView::from_slice(&[1.0_f32, 2.0], [2])?];
    /// let mut file = Vec::new();
    /// btf::Options::new().to_writer(&mut file, value)?;
    /// assert_eq!(file, btf::to_vec(value)?);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`to_vec`](Self::to_vec), with nothing written except after
    /// [`ErrorKind::Changed`](crate::ErrorKind::Changed), and [`ErrorKind::Io`](crate::ErrorKind::Io) if writing fails.
    pub fn to_writer<T: Serialize + ?Sized>(&self, mut writer: impl Write, value: &T) -> Result<()> {
        write::to_writer(&mut writer, &SerdeValue(value), self.encode.lent())
    }

    /// Serializes a value into a file in slices, for a socket or another writer with vectored writes.
    ///
    /// Payloads are borrowed from the value, and all other bytes are in one buffer, with copies of payloads of fewer
    /// than 512 bytes and of payloads that need conversion: arrays with gaps or in another order, and all numbers on
    /// big-endian hosts. serde passes a payload on only during a call, so the value implements
    /// [`Store`]: a derived struct, an array, or a container of them.
    ///
    /// ```
    /// use tensorfile::{TensorView, btf};
    ///
    /// let tensor = TensorView::from_slice(&[1.5_f32; 1000], [1000])?;
    /// let file = btf::Options::new().to_io_slices(&tensor)?;
    /// assert!(file.file_bytes() > 4000 && file.copied_bytes() < 1000);
    /// let bytes: Vec<u8> = file.as_slices().iter().flat_map(|slice| slice.to_vec()).collect();
    /// assert_eq!(bytes, btf::to_vec(&tensor)?);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`to_vec`](Self::to_vec).
    pub fn to_io_slices<'a, T: Store + ?Sized>(&self, value: &'a T) -> Result<IoSlices<'a>> {
        write::to_io_slices(value, self.shared_encode())
    }

    /// Plans a file: its length, and the offset of everything in it.
    ///
    /// The value is serialized once, without its elements. The plan's writer then takes its tensors.
    ///
    /// ```
    /// use serde::Serialize;
    /// use tensorfile::format::Serializer;
    /// use tensorfile::{TensorView, btf};
    ///
    /// let value = &[TensorView::from_slice(&[1.0_f32, 2.0], [2])?];
    /// let plan = btf::Options::new().plan(value)?;
    /// let mut file = Vec::new();
    /// let mut writer = plan.writer(&mut file);
    /// let mut serializer = Serializer::new(&mut writer);
    /// value.serialize(&mut serializer)?;
    /// serializer.end()?;
    /// writer.finish()?;
    /// assert_eq!(file, btf::to_vec(value)?);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`to_vec`](Self::to_vec).
    pub fn plan<T: Serialize + ?Sized>(&self, value: &T) -> Result<Plan> {
        Plan::new(&SerdeValue(value), self.shared_encode())
    }

    pub(crate) fn shared_encode(&self) -> Arc<dyn Encode> {
        self.encode.lent().shared()
    }
}
