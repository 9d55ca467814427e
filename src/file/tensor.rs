//! A tensor of an open file: its header, and the ways to read or borrow its payload.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;
use std::ptr;

use ndarray::{Array, Dimension};

use super::File;
use crate::error::{Category, Error, ErrorKind, MEMORY, Result};
use crate::fetch::{ReadPiece, TensorSlice, read_pieces};
use crate::model::{FieldAttrs, FromTensors, LoadFrom, Meaning, Node, TensorData, WithinRange, node_of, put};
use crate::quant::Verdict;
use crate::read::{Entry, Index, check_sum};
use crate::storage::{FileReader, LentBytes};
use crate::tensor::{
    Buffer, Dtype, Element, Layout, Shape, Tensor, TensorInfo, TensorView, are_bools, check_payload, write_row_major,
};

/// A tensor of an open [`File`]: its entry in the index, and access to its bytes.
///
/// ```
/// use ndarray::{Array1, array};
/// use tensorfile::{File, TensorMap, ten};
///
/// let map = TensorMap::from_iter([("a", array![1.0_f32, 2.0]), ("b", array![3.0])]);
/// let file = File::from_bytes(ten::to_vec(&map)?)?;
/// for tensor in file.tensors() {
///     println!("{} {} at {:?}", tensor.name(), tensor.info(), tensor.range());
/// }
/// let a: Array1<f32> = file.get("a")?.load()?;
/// assert_eq!(a, array![1.0, 2.0]);
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct FileTensor<'f> {
    pub(super) file: &'f File,
    i: usize,
}

impl<'f> FileTensor<'f> {
    pub(super) fn new(file: &'f File, i: usize) -> Self {
        Self { file, i }
    }

    /// Returns the name, or the position if the file has no name for the tensor.
    #[must_use]
    pub fn name(&self) -> &'f str {
        self.file.index.name(self.i)
    }

    /// Returns whether the file stores a name for the tensor.
    #[must_use]
    pub fn has_name(&self) -> bool {
        self.file.index.has_name(self.i)
    }

    /// Returns the position in the file, from 0.
    #[must_use]
    pub fn position(&self) -> usize {
        self.i
    }

    /// Returns dtype, shape and layout.
    #[must_use]
    pub fn info(&self) -> &'f TensorInfo {
        self.entry().info()
    }

    /// Returns the dtype.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        self.info().dtype
    }

    /// Returns the dims.
    #[must_use]
    pub fn shape(&self) -> &'f Shape {
        &self.info().shape
    }

    /// Returns the layout of the elements in the payload.
    #[must_use]
    pub fn layout(&self) -> &'f Layout {
        &self.info().layout
    }

    /// Returns the byte range of the payload in its file, which may be a shard. In an archive it may be compressed. If
    /// the tensor is in [several places](Self::places), the range begins at 0.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        let range = self.span();
        let start = self.file.storage.part(range.start).map_or(0, |(_, start)| start);
        range.start - start..range.end - start
    }

    /// Returns the places of the payload: the path of each file, `None` for bytes in memory, and the byte range in it.
    /// A tensor that a trainer saved in several chunks has several places.
    ///
    /// ```
    /// use tensorfile::{File, TensorMap, ten};
    ///
    /// let file = File::from_bytes(ten::to_vec(&TensorMap::from_iter([("a", ndarray::array![1.0_f32])]))?)?;
    /// let tensor = file.get("a")?;
    /// assert_eq!(tensor.places(), [(None, tensor.range())]);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn places(&self) -> Vec<(Option<&'f Path>, Range<u64>)> {
        let Some(gather) = self.file.storage.gathered(self.span().start) else {
            return vec![(self.path(), self.range())];
        };
        let place = |place: Range<u64>| match self.file.shard(place.start) {
            Some((path, start)) => (Some(path), place.start - start..place.end - start),
            None => (self.file.path(), place),
        };
        gather.places().into_iter().map(place).collect()
    }

    /// Returns the path of the file with the payload: the [`File`] or a shard. `None` for bytes in memory. If the
    /// tensor is in [several places](Self::places), this is the path of the [`File`].
    #[must_use]
    pub fn path(&self) -> Option<&'f Path> {
        self.file.shard(self.span().start).map_or(self.file.path(), |(path, _)| Some(path))
    }

    /// Returns whether the payload is compressed in the file, as in an archive. Its [`range`](Self::range) then spans
    /// the compressed bytes.
    #[must_use]
    pub fn is_compressed(&self) -> bool {
        self.entry().is_compressed()
    }

    /// Returns whether the elements are big-endian in the file, as numpy and PyTorch allow. They are swapped during
    /// reading.
    #[must_use]
    pub fn is_big_endian(&self) -> bool {
        self.entry().is_big_endian()
    }

    /// Returns whether the payload is decoded during reading, so that it cannot be borrowed. Compressed and big-endian
    /// payloads are decoded, and so are PyTorch tensors with gaps between elements.
    #[must_use]
    pub fn is_encoded(&self) -> bool {
        self.entry().has_codec()
    }

    /// Returns the length of the payload in bytes, decoded.
    #[must_use]
    pub fn payload_bytes(&self) -> u64 {
        self.entry().payload_bytes()
    }

    /// Reads the tensor into memory: one copy.
    ///
    /// ```
    /// use ndarray::array;
    /// use tensorfile::{File, TensorMap, ten};
    ///
    /// let map = TensorMap::from_iter([("a", array![1.0_f32, 2.0]), ("b", array![3.0])]);
    /// let file = File::from_bytes(ten::to_vec(&map)?)?;
    /// assert_eq!(file.get("a")?.read()?, map["a"]);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// By [`category`](Error::category): `Io` if it cannot be read, and `File` if the payload is malformed or the file
    /// became shorter.
    pub fn read(&self) -> Result<Tensor> {
        let (info, range) = (self.info(), self.span());
        // The first access to a page of a mapping takes longer, and the system reads far past it.
        let is_read = self.file.storage.reads_faster(range.start, range.end - range.start);
        if !is_read && let Some(bytes) = self.bytes() {
            let bytes = bytes?;
            self.check_memory(bytes.len())?;
            let buffer = Buffer::try_from_slice(info.unit_bytes(), bytes).map_err(|invalid| self.locate(invalid))?;
            return self.checked(buffer);
        }
        if self.entry().has_codec() {
            return self.load();
        }
        let mut buffer = self.zeros(info, self.payload_len()?)?;
        self.file.storage.read_at(range.start, &mut buffer).map_err(|error| self.locate(error))?;
        self.checked(buffer)
    }

    /// Returns memory of `len` bytes for reading this tensor or a part of it.
    fn zeros(&self, info: &TensorInfo, len: usize) -> Result<Buffer> {
        self.check_memory(len)?;
        Buffer::try_zeroed(info.unit_bytes(), len).map_err(|invalid| self.locate(invalid))
    }

    /// Refuses to read more bytes than the limit.
    pub(super) fn check_memory(&self, len: usize) -> Result<()> {
        let (what, found, limit) = (MEMORY, len as u64, self.file.limits.most_read(self.file.file_bytes()));
        if found <= limit { Ok(()) } else { Err(self.locate(ErrorKind::Limit { what, found, limit })) }
    }

    /// Refuses to read elements of an unknown dtype.
    #[inline]
    fn check_known(&self) -> Result<()> {
        match self.info().unknown_dtype() {
            None => Ok(()),
            Some(_) => self.entry().check_known().map_err(|unknown| self.locate(unknown)),
        }
    }

    /// Checks the payload, and its checksum if there is one, and returns the tensor.
    fn checked(&self, mut payload: Buffer) -> Result<Tensor> {
        let entry = self.entry();
        if entry.has_checksum() {
            let checked = check_sum(&mut FileReader::new(&self.file.storage), &entry, &payload);
            checked.map_err(|error| self.locate(error))?;
        }
        if entry.has_bools() && entry.takes_any_bool() {
            entry.normalize(&mut payload, 0).map_err(|invalid| self.locate(invalid))?;
        }
        entry.info().check_bytes(&payload).map_err(|invalid| self.locate(invalid))?;
        Ok(Tensor::from_checked(entry.info().clone(), payload))
    }

    /// Borrows the tensor from the mapped file, without reading it. A checksum, as in npz, is not compared.
    ///
    /// ```
    /// use ndarray::array;
    /// use tensorfile::{File, TensorMap, ten};
    ///
    /// let map = TensorMap::from_iter([("a", array![1.0_f32, 2.0]), ("b", array![3.0])]);
    /// let file = File::from_bytes(ten::to_vec(&map)?)?;
    /// let a = file.get("a")?.view()?;
    /// assert_eq!(a.array::<f32>()?.sum(), 3.0);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), and [`ErrorKind::Unsupported`] if the file is not in memory, if the payload needs
    /// decoding, or if the elements are `bool` and the file is mapped: another process could change them to an invalid
    /// `bool`.
    pub fn view(&self) -> Result<TensorView<'f>> {
        self.plain_view().map_or_else(|| self.check_view(), Ok)
    }

    /// Lends the payload to another library, such as numpy or torch, which may change it: without a copy, in the
    /// tensor's layout.
    ///
    /// The bytes are in a private mapping of the file, made by the first call. Changes stay in this process. They never
    /// reach the file, or what this crate reads and borrows, but other tensors lent by the same [`File`] share them.
    /// The memory stays valid when the [`File`] is dropped, and when the file is deleted or [saved](crate::save) over.
    /// If another program truncates the file, access past its new end kills the process, as for any mapped file.
    ///
    /// ```
    /// use ndarray::array;
    /// use tensorfile::{File, TensorMap};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.ten");
    /// tensorfile::save(&path, &TensorMap::from_iter([("a", array![1.0_f32, 2.0])]))?;
    /// let lent = File::open(&path)?.get("a")?.lend()?;
    /// assert_eq!(lent.len(), 8);
    /// // SAFETY: nobody else has the address.
    /// unsafe { lent.as_mut_ptr().write(7) };
    /// assert_eq!(tensorfile::load::<TensorMap>(&path)?["a"].array::<f32>()?, array![1.0, 2.0].into_dyn());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`view`](Self::view), and [`ErrorKind::Unsupported`] if the file is in memory, because other owners may read
    /// its bytes.
    pub fn lend(&self) -> Result<LentBytes> {
        self.view()?;
        let lent = self.file.storage.lend(&self.span());
        lent.ok_or_else(|| self.cannot_borrow("for others from a file in memory", "read the tensor"))
    }

    /// Borrows a tensor in memory whose bytes are valid by any value.
    // Inlined into each view: a call would take longer.
    #[inline(always)]
    pub(super) fn plain_view(&self) -> Option<TensorView<'f>> {
        let entry = self.entry();
        let bytes = self.file.storage.in_memory(&entry.range())?;
        let is_plain = self.file.index.entries().takes_any(self.i, bytes.len()) && !entry.has_codec();
        is_plain.then(|| TensorView::from_checked(Cow::Borrowed(entry.info()), bytes))
    }

    /// Borrows a tensor with a possibly invalid payload, or reports why it cannot be borrowed.
    #[cold]
    fn check_view(&self) -> Result<TensorView<'f>> {
        match self.bytes() {
            // Safe code would have an invalid bool, and could read out of bounds with it as an index. A copy is checked
            // after it is made.
            Some(_) if self.may_become_invalid() => {
                Err(self
                    .cannot_borrow("bools of a mapped file, which another process could change", "use an owned array"))
            }
            Some(Ok(bytes)) if self.entry().takes_any_bool() && self.entry().has_bools() && !are_bools(bytes) => {
                Err(self.cannot_borrow("bools of other bytes than 0 and 1", "read the tensor, in which they are true"))
            }
            Some(bytes) => {
                let (info, bytes) = (self.info(), bytes?);
                info.check_bytes(bytes).map_err(|invalid| self.locate(invalid))?;
                Ok(TensorView::from_checked(Cow::Borrowed(info), bytes))
            }
            None if self.file.storage.gathered(self.span().start).is_some() => {
                Err(self.cannot_borrow("from a tensor that is in several chunks", "read the tensor"))
            }
            None if self.entry().has_codec() => {
                Err(self.cannot_borrow("from a tensor that is packed", "read the tensor"))
            }
            None => {
                Err(self.cannot_borrow("from a file that is read at positions", "read the tensor, or map the file"))
            }
        }
    }

    /// Reads the tensor into an array of its element type and rank: one copy.
    ///
    /// ```
    /// use ndarray::{Ix1, array};
    /// use tensorfile::{File, TensorMap, ten};
    ///
    /// let map = TensorMap::from_iter([("a", array![1.0_f32, 2.0])]);
    /// let file = File::from_bytes(ten::to_vec(&map)?)?;
    /// assert_eq!(file.get("a")?.array::<f32, Ix1>()?, array![1.0, 2.0]);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn array<A: Element, D: Dimension>(&self) -> Result<Array<A, D>> {
        self.load()
    }

    /// Reads the tensor into a type for one tensor, such as an array, a view of the mapped file or a sparse tensor.
    ///
    /// ```
    /// use ndarray::{ArrayView1, array};
    /// use tensorfile::{File, TensorMap, ten};
    ///
    /// let map = TensorMap::from_iter([("a", array![1.0_f32, 2.0])]);
    /// let file = File::from_bytes(ten::to_vec(&map)?)?;
    /// let a: ArrayView1<f32> = file.get("a")?.load()?;            // borrows from `file`
    /// let numbers: Vec<f32> = file.get("a")?.load()?;
    /// assert_eq!(a.to_vec(), numbers);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), by category `Mismatch` if the tensor has another dtype or shape than `T`, and
    /// [`ErrorKind::Unsupported`] if the dtype is [unknown](Layout::Unknown) and `T` is not a [`Tensor`] or
    /// [`TensorView`].
    pub fn load<T: FromTensors<'f>>(&self) -> Result<T> {
        self.check_elements(node_of::<T>)?;
        let mut value = None;
        self.load_with(node_of::<T>, &mut |source| put(&mut value, source, &FieldAttrs::NONE))?;
        Ok(value.expect("the value was loaded"))
    }

    /// Refuses to read elements of an unknown dtype into a type other than bytes.
    #[inline]
    fn check_elements(&self, node: fn() -> Node) -> Result<()> {
        match self.info().unknown_dtype() {
            Some(_) if matches!(node(), Node::Tensor(spec) if !spec.takes_bytes()) => self.check_known(),
            _ => Ok(()),
        }
    }

    fn load_with(&self, node: fn() -> Node, load: LoadFrom<'_, 'f>) -> Result<()> {
        let index = Index::from_one(&self.file.index, self.i)?;
        let loaded = self.file.load_index(Cow::Owned(index), None, false, node, load);
        loaded.map_err(|error| error.in_tensor(self.file.index.label(self.i)))
    }

    /// Fills `bytes` with the payload from `offset` on, in the tensor's layout.
    ///
    /// Several threads can read parts of one tensor.
    ///
    /// ```
    /// use tensorfile::{Tensor, ten};
    ///
    /// let map = tensorfile::TensorMap::from_iter([("x", Tensor::from_slice(&[1_u8, 2, 3, 4], [2, 2])?)]);
    /// let file = tensorfile::OpenOptions::new().from_bytes(ten::to_vec(&map)?)?;
    /// let mut bytes = [0; 2];
    /// file.get("x")?.read_at(1, &mut bytes)?;
    /// assert_eq!(bytes, [2, 3]);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), [`ErrorKind::Truncated`] if the payload has fewer bytes after the offset, and
    /// [`ErrorKind::Unsupported`] if it needs decoding or has a checksum, which covers the whole payload.
    pub fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        if self.entry().has_codec() || self.entry().has_checksum() {
            let what = "read a part of a payload that is packed or has a checksum".to_owned();
            return Err(self.locate(ErrorKind::Unsupported { what, instead: "read the tensor".to_owned() }));
        }
        let (start, left) = (self.span().start, self.payload_bytes().saturating_sub(offset));
        let needed = bytes.len() as u64;
        if needed > left {
            return Err(self.locate(Error::new(ErrorKind::Truncated { needed, left }).at(start.saturating_add(offset))));
        }
        self.file.storage.read_at(start + offset, bytes).map_err(|error| self.locate(error))?;
        // Sparse tensors, whose payload does not begin with an element, are never bools.
        let first = usize::try_from(offset).unwrap_or(usize::MAX);
        self.entry().normalize(bytes, first).map_err(|invalid| self.locate(invalid))
    }

    /// Returns whether the elements are what they seem, or the codes or scales of a quantized weight, as
    /// [`File::quantized`] finds it.
    ///
    /// ```
    /// use tensorfile::quant::Verdict;
    /// use tensorfile::{File, TensorMap, safetensors};
    ///
    /// let file = File::from_bytes(safetensors::to_vec(&TensorMap::from_iter([("a", ndarray::array![1.0_f32])]))?)?;
    /// assert!(matches!(file.get("a")?.verdict()?, Verdict::Plain));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`File::quantized`].
    pub fn verdict(&self) -> Result<Verdict<'f>> {
        Ok(self.file.quantized()?.verdict(self.i))
    }

    /// Reads a part of the tensor, a range for each dim, as a tensor in row-major order.
    ///
    /// Only the bytes of the part are read, or up to twice the bytes of the touched rows if this saves calls. A
    /// compressed tensor is decoded up to the last byte of the part; its checksum covers the whole payload, and is
    /// compared only if the part is the whole tensor.
    ///
    /// ```
    /// use ndarray::array;
    /// use tensorfile::{File, TensorMap, ten};
    ///
    /// let map = TensorMap::from_iter([("a", array![1.0_f32, 2.0]), ("b", array![3.0])]);
    /// let file = File::from_bytes(ten::to_vec(&map)?)?;
    /// let last = file.get("a")?.slice(&[1..2])?;
    /// assert_eq!(last.array::<f32>()?, array![2.0].into_dyn());
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), and [`ErrorKind::Unsupported`] if the ranges do not fit the shape, or the tensor is
    /// sparse or of an [unknown](Layout::Unknown) dtype.
    pub fn slice(&self, ranges: &[Range<usize>]) -> Result<Tensor> {
        self.read_part(ranges).map_err(|error| self.locate(error))
    }

    /// Reads a part of the tensor into memory of the caller. Otherwise as [`slice`](Self::slice).
    ///
    /// ```
    /// use tensorfile::{File, TensorMap, ten};
    ///
    /// let file = File::from_bytes(ten::to_vec(&TensorMap::from_iter([("a", ndarray::array![1_u8, 2, 3])]))?)?;
    /// let mut bytes = [0; 2];
    /// file.get("a")?.slice_into(&[1..3], &mut bytes)?;
    /// assert_eq!(bytes, [2, 3]);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`slice`](Self::slice), and [`ErrorKind::Unsupported`] if the memory is not as long as the part; nothing is
    /// read then.
    pub fn slice_into(&self, ranges: &[Range<usize>], bytes: &mut [u8]) -> Result<()> {
        let piece = ReadPiece::part(self.entry(), Cow::Borrowed(ranges)).map_err(|error| self.locate(error))?;
        let needed = piece.bytes().expect("a part is no larger than the whole");
        if needed != bytes.len() {
            let what = format!("read {needed} bytes into memory of {}", bytes.len());
            let instead = "the memory is as long as the part".to_owned();
            return Err(self.locate(ErrorKind::Unsupported { what, instead }));
        }
        self.check_memory(needed)?;
        let read = read_pieces(&self.file.storage, vec![(&piece, bytes)], &mut |_| Ok(()));
        read.map_err(|(_, error)| self.locate(error))
    }

    /// Writes the elements to `out` in row-major order, from any stored order. Sparse tensors are written as stored.
    ///
    /// A tensor in another order, if not in memory, is read whole.
    ///
    /// ```
    /// use ndarray::{Array2, ShapeBuilder};
    /// use tensorfile::{File, Layout, npy};
    ///
    /// let columns = Array2::from_shape_vec((2, 2).f(), vec![1_u8, 3, 2, 4])?;
    /// let file = npy::Options::new().keep_dim_order(true).to_vec(&tensorfile::Arrays(&columns))?;
    /// let file = File::from_bytes(file)?;
    /// let tensor = file.get("#0")?;
    /// assert_ne!(*tensor.layout(), Layout::RowMajor);
    /// let mut elements = Vec::new();
    /// tensor.write_row_major_to(&mut elements)?;
    /// assert_eq!(elements, [1, 2, 3, 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Errors of `out`, and of [`read`](Self::read) as [`io::Error`].
    pub fn write_row_major_to(&self, out: &mut dyn Write) -> io::Result<()> {
        let Layout::DimOrder(order) = self.layout() else { return self.write_to(out) };
        let element = self.dtype().block_bytes();
        match self.bytes().filter(|_| !self.entry().has_bools()) {
            Some(bytes) => write_row_major(bytes?, element, self.shape(), order, out),
            None => write_row_major(self.read()?.as_bytes(), element, self.shape(), order, out),
        }
    }

    /// Adds the name of the tensor, its place in the file, the format and the path to an error about its elements.
    /// Errors from reading have them already.
    ///
    /// ```
    /// use tensorfile::report::InvalidTensor;
    /// use tensorfile::{Dtype, File, TensorMap, ten};
    ///
    /// let file = File::from_bytes(ten::to_vec(&TensorMap::from_iter([("mask", ndarray::array![1_u8, 7])]))?)?;
    /// let mask = file.get("mask")?;
    /// let error = mask.locate(InvalidTensor::Value { dtype: Dtype::Bool, element: 1, found: 7 });
    /// assert_eq!((error.tensor(), error.offset()), (Some("mask"), Some(mask.range().start + 1)));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[cold]
    #[must_use]
    pub fn locate(&self, error: impl Into<Error>) -> Error {
        let error = error.into().in_tensor(self.file.index.label(self.i));
        // An invalid call has no offset in the file.
        self.file.place(if error.category() == Category::Call { error } else { self.entry().locate(error) })
    }

    /// Returns the payload, if the file is in memory.
    pub(super) fn bytes(&self) -> Option<Result<&'f [u8]>> {
        let entry = self.entry();
        if entry.has_codec() {
            return None;
        }
        let Range { start, end } = entry.range();
        let bytes = self.file.storage.borrow(start, end - start)?;
        Some(bytes.map_err(|error| self.locate(error)))
    }

    /// Returns the range of the payload in the storage.
    #[inline]
    pub(super) fn span(&self) -> Range<u64> {
        self.entry().range()
    }

    pub(super) fn is_of(&self, file: &File) -> bool {
        ptr::eq(self.file, file)
    }

    #[inline]
    pub(super) fn entry(&self) -> Entry<'f> {
        self.file.index.entry(self.i)
    }

    fn read_part(&self, ranges: &[Range<usize>]) -> Result<Tensor> {
        let piece = ReadPiece::part(self.entry(), Cow::Borrowed(ranges))?;
        if piece.is_whole() && !matches!(self.layout(), Layout::DimOrder(_)) {
            return self.read();
        }
        let len = piece.bytes().expect("a part is no larger than the whole");
        if self.entry().codec().is_some_and(|codec| codec.moves_elements()) && !piece.is_whole() {
            // Memory for the part is allocated only after this many bytes were decoded.
            let part = TensorSlice::new(self.info(), Cow::Borrowed(ranges))?;
            let bounds = part.bounds();
            self.check_memory(bounds.len().saturating_add(len))?;
            let decoded = self.entry().decode(&self.file.storage, bounds.start as u64..bounds.end as u64)?;
            let mut buffer = self.zeros(piece.info(), len)?;
            part.copy_from(&decoded, bounds.start, &mut buffer);
            return Ok(Tensor::from_checked(piece.info().clone(), buffer));
        }
        let mut buffer = self.zeros(piece.info(), len)?;
        let read = read_pieces(&self.file.storage, vec![(&piece, &mut buffer[..])], &mut |_| Ok(()));
        read.map_err(|(_, error)| error)?;
        Ok(Tensor::from_checked(piece.info().clone(), buffer))
    }

    /// Returns whether elements could become invalid after they were checked: only bytes of `bool` can.
    fn may_become_invalid(&self) -> bool {
        self.dtype() == Dtype::Bool && self.file.storage.may_change()
    }

    fn cannot_borrow(&self, from: &str, instead: &str) -> Error {
        let what = format!("borrow {from}");
        self.locate(ErrorKind::Unsupported { what, instead: instead.to_owned() })
    }

    /// Locates an error of writing the payload. If `out` rejects the bytes, the file is malformed.
    fn locate_written(&self, error: io::Error) -> io::Error {
        match Error::from(error) {
            error if error.category() == Category::File => self.locate(error).into(),
            error => error.into(),
        }
    }

    fn payload_len(&self) -> Result<usize> {
        let too_large = || ErrorKind::Unsupported {
            what: format!("read {} bytes at once", self.payload_bytes()),
            instead: "read the tensor in pieces".to_owned(),
        };
        usize::try_from(self.payload_bytes()).map_err(|_| self.locate(too_large()))
    }
}

impl TensorData for FileTensor<'_> {
    /// Returns the payload, if it is in memory. Sparse tensors with wrong coordinates, payloads with a checksum, and
    /// bools other than 0 and 1 are left to [`write_to`](Self::write_to), which checks them and reports errors.
    fn as_bytes(&self) -> Option<&[u8]> {
        if self.entry().has_checksum() || self.may_become_invalid() {
            return None;
        }
        let bytes = self.bytes()?.ok()?;
        check_payload(self.info(), bytes).is_ok().then_some(bytes)
    }

    /// Writes the payload in the tensor's layout: in one call if the file is in memory, in chunks of up to 8 MiB if
    /// not. The coordinates of sparse tensors are checked, and written by themselves.
    fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        let written = self.entry().write_to(&self.file.storage, out);
        written.map_err(|error| self.locate_written(error))
    }

    fn copy_to(&self, out: &mut dyn Write) -> io::Result<()> {
        let copied = self.entry().copy_to(&self.file.storage, out);
        copied.map_err(|error| self.locate_written(error))
    }

    fn copy_range_to(&self, range: Range<u64>, out: &mut dyn Write) -> io::Result<()> {
        let Some(stored) = self.entry().stored_range(&range) else {
            return self.copy_to(&mut WithinRange::new(out, range));
        };
        let copied = self.file.storage.copy_to(stored.start, stored.end - stored.start, out);
        copied.map_err(|error| self.locate_written(error))
    }

    fn meaning(&self) -> Result<Meaning> {
        Ok(self.file.quantized()?.refusal(self.i).map_or(Meaning::Numbers, Meaning::Codes))
    }

    fn storage_id(&self) -> Option<u64> {
        Some(self.span().start)
    }
}

impl fmt::Debug for FileTensor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tensor = f.debug_struct("FileTensor");
        tensor
            .field("name", &self.name())
            .field("info", self.info())
            .field("range", &self.range())
            .finish_non_exhaustive()
    }
}
