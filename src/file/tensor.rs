use std::fmt;
use std::ops::Range;
use std::path::Path;

use ndarray::{Array, Dimension};

use super::load::load_value;
use super::{File, slice};
use crate::error::{Category, Error, ErrorKind, Result};
use crate::model::FromTensors;
use crate::tensor::{
    Buffer, Dtype, Element, Layout, Shape, Tensor, TensorInfo, TensorView, bytes_in_row_major, check_coo,
};
use crate::wire::{self, Entry, Index};

/// A tensor of an opened [`File`]: what the index tells of it, and ways to its bytes.
#[derive(Clone, Copy)]
pub struct FileTensor<'f> {
    file: &'f File,
    at: usize,
}

impl<'f> FileTensor<'f> {
    pub(super) fn new(file: &'f File, at: usize) -> Self {
        Self { file, at }
    }

    /// The name, or the position where the file has none.
    #[must_use]
    pub fn name(&self) -> &'f str {
        self.file.index.name(self.at)
    }

    /// Whether the file has a name for the tensor.
    #[must_use]
    pub fn has_name(&self) -> bool {
        self.entry().has_name()
    }

    /// The position in the file, from 0.
    #[must_use]
    pub fn position(&self) -> usize {
        self.at
    }

    /// Dtype, shape and layout.
    #[must_use]
    pub fn info(&self) -> &'f TensorInfo {
        self.entry().info()
    }

    /// The element type.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        self.info().dtype
    }

    /// The logical dims.
    #[must_use]
    pub fn shape(&self) -> &'f Shape {
        &self.info().shape
    }

    /// How the elements lie in the bytes.
    #[must_use]
    pub fn layout(&self) -> &'f Layout {
        &self.info().layout
    }

    /// Where the payload lies in the file, in bytes from its start; of a shard, from the start of that. In an archive it
    /// may lie there compressed.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        let range = self.span();
        let start = self.file.shard(range.start).map_or(0, |(_, start)| start);
        range.start - start..range.end - start
    }

    /// The path of the file that the payload lies in: the [`File`]'s own or that of a shard; none for bytes in memory.
    #[must_use]
    pub fn path(&self) -> Option<&'f Path> {
        self.file.shard(self.span().start).map_or(self.file.path(), |(path, _)| Some(path))
    }

    /// The length of the payload in bytes.
    #[must_use]
    pub fn payload_bytes(&self) -> u64 {
        self.entry().payload_bytes()
    }

    /// Reads the tensor: one copy.
    ///
    /// # Errors
    ///
    /// By [`category`](Error::category): `Io` where it cannot be read, `File` where the payload is malformed or the file
    /// has become shorter.
    pub fn read(&self) -> Result<Tensor> {
        let (info, len) = (self.info().clone(), self.payload_len()?);
        if let Some(bytes) = self.bytes() {
            return TensorView::new(info, bytes?).map(|view| view.to_tensor()).map_err(|error| self.blame(error));
        }
        if self.entry().is_coded() {
            return self.load();
        }
        let mut buffer = Buffer::zeroed(len);
        self.file.storage.read_at(self.span().start, &mut buffer).map_err(|error| self.blame(error))?;
        check_coo(&info, &buffer).map_err(|error| self.blame(error))?;
        Ok(Tensor::of_checked(info, buffer))
    }

    /// Borrows the tensor from the mapped file, without reading it.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), and [`ErrorKind::Unsupported`] where the file is not in memory.
    pub fn view(&self) -> Result<TensorView<'f>> {
        match self.bytes() {
            Some(bytes) => TensorView::new(self.info().clone(), bytes?).map_err(|error| self.blame(error)),
            None if self.entry().is_coded() => Err(self.cannot_borrow("a tensor that is packed", "read the tensor")),
            None => Err(self.cannot_borrow("a file that is read at positions", "read the tensor, or map the file")),
        }
    }

    /// Reads the tensor into an array of its element type and rank: one copy.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn array<A: Element, D: Dimension>(&self) -> Result<Array<A, D>> {
        self.load()
    }

    /// Reads the tensor into a type for one tensor, such as an array, a view of the mapped file or a sparse tensor.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), and by `Mismatch` where the tensor has another dtype or shape than `T`.
    pub fn load<T: FromTensors<'f>>(&self) -> Result<T> {
        let mut index = Index::starting_at(self.at);
        index.push(self.entry().clone())?;
        self.file.read_index(index, load_value).map_err(|error| error.in_tensor(self.file.index.label(self.at)))
    }

    /// Reads a part of the tensor, a range for each dim, as a tensor in row-major order.
    ///
    /// Of the file only the bytes of the part are read, and up to 4 KiB around where they are few. A tensor that does not
    /// lie in the file as it is, in a deflated member of an archive or with its bytes in another order, is read whole.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), and [`ErrorKind::Unsupported`] where the ranges do not fit the shape or the tensor is
    /// sparse.
    pub fn slice(&self, ranges: &[Range<usize>]) -> Result<Tensor> {
        slice::read(self, ranges).map_err(|error| self.blame(error))
    }

    /// Passes the payload to `take` in pieces, in the tensor's layout: one piece where the file is in memory, pieces of up
    /// to 1 MiB where it is not.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), and those of `take`.
    pub fn pour(&self, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        // An error of `take` is about the file only if it is about the bytes that it was given.
        let mut refused = None;
        let poured = wire::pour(&self.file.storage, self.entry(), &mut |piece| {
            take(piece).map_err(|error| {
                refused = Some(error);
                ErrorKind::Message("the pieces are not wanted".to_owned()).into()
            })
        });
        match refused {
            Some(error) if error.category() == Category::File => Err(self.blame(error)),
            Some(error) => Err(error),
            None => poured.map_err(|error| self.blame(error)),
        }
    }

    /// Passes the elements to `take` in pieces, in row-major order whatever the order in the file. A tensor in another
    /// order that is not in memory is read whole. Sparse tensors come as they are stored.
    ///
    /// # Errors
    ///
    /// As [`pour`](Self::pour).
    pub fn pour_row_major(&self, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let Layout::DimOrder(order) = self.layout() else { return self.pour(take) };
        match self.bytes() {
            Some(bytes) => bytes_in_row_major(bytes?, self.shape(), order, take),
            None => bytes_in_row_major(self.read()?.as_bytes(), self.shape(), order, take),
        }
    }

    /// The payload, where the file is in memory.
    pub(super) fn bytes(&self) -> Option<Result<&'f [u8]>> {
        if self.entry().is_coded() {
            return None;
        }
        let bytes = self.file.storage.borrow(self.span().start, self.payload_bytes())?;
        Some(bytes.map_err(|error| self.blame(error)))
    }

    /// Where the payload lies in the storage.
    pub(super) fn span(&self) -> Range<u64> {
        self.entry().range()
    }

    pub(super) fn file(&self) -> &'f File {
        self.file
    }

    pub(super) fn entry(&self) -> &'f Entry {
        self.file.index.entry(self.at)
    }

    fn cannot_borrow(&self, from: &str, instead: &str) -> Error {
        let what = format!("borrow from {from}");
        self.blame(ErrorKind::Unsupported { what, instead: instead.to_owned() })
    }

    fn payload_len(&self) -> Result<usize> {
        let too_large = || ErrorKind::Unsupported {
            what: format!("read {} bytes at once", self.payload_bytes()),
            instead: "read the tensor in pieces".to_owned(),
        };
        usize::try_from(self.payload_bytes()).map_err(|_| self.blame(too_large()))
    }

    /// Says which tensor, where in the file and in which format.
    fn blame(&self, error: impl Into<Error>) -> Error {
        let label = self.file.index.label(self.at);
        let error = error.into().in_tensor(label).in_format(self.file.format.name);
        // A call that cannot be is not about the bytes.
        if error.category() == Category::Call { error } else { self.file.place(error.at(self.span().start)) }
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
