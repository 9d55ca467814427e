//! Plans for reading tensors and parts of tensors into the caller's memory.

use std::fmt;
use std::ops::Range;

use super::{File, FileTensor};
use crate::error::{Error, ErrorKind, MEMORY, Result};
use crate::fetch::{ReadPiece, read_pieces};
use crate::model::{Schema, TensorFile};
use crate::storage::{Listener, Progress, ProgressAnswer, ProgressCount};
use crate::tensor::{TensorInfo, sorted};

/// A plan to read tensors, or parts of tensors, into your own memory. It may be pinned for a device, shared with
/// another process, or an array of another library. Make a plan with [`File::read_plan`].
///
/// Each piece is row-major with little-endian elements, for any order in the file: compressed, big-endian and
/// transposed tensors are decoded into your memory. Sparse tensors, blobs and elements of unknown dtype stay as stored.
pub struct ReadPlan<'f> {
    file: &'f File,
    pieces: Vec<PlanPiece<'f>>,
    bytes: usize,
    progress: Option<Listener>,
}

/// A tensor of a [`ReadPlan`], or a part of one.
pub struct PlanPiece<'f> {
    tensor: FileTensor<'f>,
    piece: ReadPiece<'f>,
    range: Range<usize>,
}

/// Memory for a [`ReadPlan`], lent slab by slab. Implement it to reuse a few buffers, for example pinned for copies to
/// a device: while the device copies one slab, the next one is read.
///
/// A slab holds as many whole pieces as fit.
pub trait Slabs {
    /// Lends memory for the next pieces. It needs at least `bytes` bytes, the length of the first piece.
    ///
    /// # Errors
    ///
    /// Any error ends reading, and is returned.
    fn lend(&mut self, bytes: usize) -> Result<&mut [u8]>;

    /// Takes back the slab that was lent last, now filled with these pieces. To find a piece in the slab, subtract the
    /// start of the first piece's [`range`](PlanPiece::range).
    ///
    /// # Errors
    ///
    /// As [`lend`](Self::lend).
    fn complete(&mut self, pieces: &[PlanPiece<'_>]) -> Result<()>;
}

/// Chooses the pieces of a [`ReadPlan`]. In memory, they are in the order in which you add them.
pub struct ReadPlanBuilder<'f> {
    file: &'f File,
    pieces: Vec<(FileTensor<'f>, ReadPiece<'f>)>,
    align: usize,
    progress: Option<Listener>,
}

impl File {
    /// Begins a plan for reading tensors, or parts of tensors, into your own memory.
    ///
    /// ```
    /// use tensorfile::{File, Tensor, TensorMap, ten};
    ///
    /// let map: TensorMap = [
    ///     ("head", Tensor::from_slice(&[1_u8, 2], [2])?),
    ///     ("table", Tensor::from_slice(&[0_u8, 1, 2, 3, 4, 5], [2, 3])?),
    /// ]
    /// .into_iter()
    /// .collect();
    /// let file = File::from_bytes(ten::to_vec(&map)?)?;
    ///
    /// // The second and third column of `table`, and `head`.
    /// let plan = file.read_plan().slice("table", &[0..2, 1..3])?.tensor("head")?.align(8).finish()?;
    /// assert_eq!(plan.bytes(), 10);
    /// let places: Vec<_> = plan.pieces().iter().map(|piece| (piece.name(), piece.range())).collect();
    /// assert_eq!(places, [("table", 0..4), ("head", 8..10)]);
    ///
    /// let mut memory = vec![0; plan.bytes()];
    /// plan.read_into(&mut memory)?;
    /// assert_eq!(memory, [1, 2, 4, 5, 0, 0, 0, 0, 1, 2]);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn read_plan(&self) -> ReadPlanBuilder<'_> {
        let progress = self.progress.clone();
        ReadPlanBuilder { file: self, pieces: Vec::new(), align: ReadPlanBuilder::ALIGN, progress }
    }
}

impl<'f> ReadPlanBuilder<'f> {
    /// The default of [`align`](Self::align): a cache line, and more than any element needs.
    const ALIGN: usize = 64;

    /// Adds a tensor, by its name or its position, as [`File::get`] finds it.
    ///
    /// # Errors
    ///
    /// As [`File::get`], and an error of the [category](Error::category) `Limit` if memory cannot hold the tensor.
    pub fn tensor(mut self, name: &str) -> Result<Self> {
        self.add(self.file.get(name)?)?;
        Ok(self)
    }

    /// Adds a part of a tensor, given by a range for each dim, for example the part of one process. Whole rows, and
    /// long parts of rows, are read alone. Shorter parts are read together with the bytes between them.
    ///
    /// # Errors
    ///
    /// As [`tensor`](Self::tensor), and [`ErrorKind::Unsupported`] if the ranges do not fit the shape, or the tensor is
    /// sparse or of an unknown dtype.
    pub fn slice(mut self, name: &str, ranges: &[Range<usize>]) -> Result<Self> {
        let tensor = self.file.get(name)?;
        let piece = ReadPiece::part(tensor.entry(), ranges.to_vec().into()).map_err(|error| tensor.locate(error))?;
        self.push(tensor, piece)?;
        Ok(self)
    }

    /// Adds tensors of this file, for example all of one dtype.
    ///
    /// ```
    /// use tensorfile::{Dtype, File, Tensor, TensorMap, ten};
    ///
    /// let (a, b) = (Tensor::from_slice(&[1_u8], [1])?, Tensor::from_slice(&[2_i8], [1])?);
    /// let file = File::from_bytes(ten::to_vec(&TensorMap::from_iter([("a", a), ("b", b)]))?)?;
    /// let plan = file.read_plan().tensors(file.tensors().filter(|tensor| tensor.dtype() == Dtype::I8))?.finish()?;
    /// assert_eq!(plan.pieces()[0].name(), "b");
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`tensor`](Self::tensor), and [`ErrorKind::Unsupported`] for a tensor of another file.
    pub fn tensors(mut self, tensors: impl IntoIterator<Item = FileTensor<'f>>) -> Result<Self> {
        tensors.into_iter().try_for_each(|tensor| self.add(tensor))?;
        Ok(self)
    }

    /// Adds all tensors, in the order of the file.
    ///
    /// # Errors
    ///
    /// As [`tensor`](Self::tensor).
    pub fn all(self) -> Result<Self> {
        let tensors = self.file.tensors();
        self.tensors(tensors)
    }

    /// Adds the tensors that loading `T` reads, in that order.
    ///
    /// ```
    /// use ndarray::{Array1, array};
    /// use tensorfile::{File, TensorFile, TensorMap, ten};
    ///
    /// #[derive(TensorFile)]
    /// #[tensor(allow_unknown)]
    /// struct Model {
    ///     b: Array1<f32>,
    /// }
    ///
    /// let map = TensorMap::from_iter([("a", array![1.0_f32]), ("b", array![2.0])]);
    /// let file = File::from_bytes(ten::to_vec(&map)?)?;
    /// let plan = file.read_plan().of::<Model>()?.finish()?;
    /// assert_eq!(plan.spans(), [file.get("b")?.range()]);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`tensor`](Self::tensor), and [`ErrorKind::Load`] if the file does not fit `T`.
    pub fn of<T: TensorFile>(self) -> Result<Self> {
        self.of_schema(&T::schema())
    }

    /// Sets the alignment of each piece from the start of the memory, in bytes. The default is 64.
    #[must_use]
    pub fn align(mut self, bytes: usize) -> Self {
        self.align = bytes;
        self
    }

    /// Calls a function with the bytes read so far and in total, as often as [`OpenOptions::progress`] does. It
    /// replaces the function set there. The calls come from the threads that read, one at a time.
    ///
    /// [`OpenOptions::progress`]: super::OpenOptions::progress
    #[must_use]
    pub fn progress<A: ProgressAnswer>(mut self, listener: impl Fn(Progress) -> A + Send + Sync + 'static) -> Self {
        self.progress = Some(Listener::new(listener));
        self
    }

    /// Places the pieces in memory.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Limit`] if memory cannot hold all of them, and [`ErrorKind::Unsupported`] if the alignment is 0.
    pub fn finish(self) -> Result<ReadPlan<'f>> {
        let Self { file, pieces, align, progress } = self;
        if align == 0 {
            let (what, instead) = ("align pieces to 0 bytes", "the least alignment is 1");
            return Err(ErrorKind::Unsupported { what: what.to_owned(), instead: instead.to_owned() }.into());
        }
        let (mut placed, mut end) = (Vec::with_capacity(pieces.len()), 0_usize);
        for (tensor, piece) in pieces {
            let bytes = piece.bytes().ok_or(u64::MAX);
            let range = bytes.and_then(|bytes| {
                let start = end.checked_next_multiple_of(align).ok_or(u64::MAX)?;
                Ok(start..start.checked_add(bytes).ok_or(u64::MAX)?)
            });
            let range = range.map_err(|found| tensor.locate(limit(found, usize::MAX as u64)))?;
            end = range.end;
            placed.push(PlanPiece { tensor, piece, range });
        }
        Ok(ReadPlan { file, pieces: placed, bytes: end, progress })
    }

    fn of_schema(mut self, schema: &Schema) -> Result<Self> {
        let positions = self.file.check(schema, None)?;
        positions.into_iter().try_for_each(|position| self.add(FileTensor::new(self.file, position)))?;
        Ok(self)
    }

    fn add(&mut self, tensor: FileTensor<'f>) -> Result<()> {
        if !tensor.is_of(self.file) {
            let (what, instead) = ("read a tensor of another file", "a plan is of one file");
            return Err(tensor.locate(ErrorKind::Unsupported { what: what.to_owned(), instead: instead.to_owned() }));
        }
        let piece = ReadPiece::whole(tensor.entry()).map_err(|error| tensor.locate(error))?;
        self.push(tensor, piece)
    }

    fn push(&mut self, tensor: FileTensor<'f>, piece: ReadPiece<'f>) -> Result<()> {
        tensor.check_memory(piece.bytes().unwrap_or(usize::MAX))?;
        self.pieces.push((tensor, piece));
        Ok(())
    }
}

fn limit(found: u64, limit: u64) -> Error {
    ErrorKind::Limit { what: MEMORY, found, limit }.into()
}

impl<'f> ReadPlan<'f> {
    /// Returns the length of the memory for all pieces, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the pieces, in the order of the memory.
    #[must_use]
    pub fn pieces(&self) -> &[PlanPiece<'f>] {
        &self.pieces
    }

    /// Returns the byte ranges to read, in order and without overlaps. Offsets count from the start of the file; in
    /// shards, from the start of the first shard.
    ///
    /// They include bytes read between short runs. In addition, reading may need headers of archive members, and bytes
    /// after a part of a compressed tensor. A [source of ranges](crate::file::ReadRanges) may read more between ranges.
    #[must_use]
    pub fn spans(&self) -> Vec<Range<u64>> {
        let mut ranges = Vec::new();
        for PlanPiece { piece, .. } in &self.pieces {
            piece.spans(&self.file.storage, &mut |range| {
                if !range.is_empty() {
                    ranges.push(range);
                }
            });
        }
        let mut spans: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
        for range in sorted::values(ranges, &mut |one: &Range<u64>, other| one.start.cmp(&other.start)) {
            match spans.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => spans.push(range),
            }
        }
        spans
    }

    /// Returns the number of bytes in all [spans](Self::spans).
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.spans().iter().map(|span| span.end - span.start).sum()
    }

    /// Reads all pieces. Several threads read local files; see
    /// [`set_max_threads`](crate::threads::set_max_threads). A [source of ranges](crate::file::ReadRanges) is asked for
    /// many ranges together.
    ///
    /// Align `memory` to 64 bytes: it is filled in up to half the time on some processors. On Linux, 4 MiB and more of
    /// a tensor can bypass the page cache, if they are not in it, in about two thirds of the time. For this, they need
    /// the same offset modulo 4096 in memory and in the file. Reading takes at most 64 MiB besides `memory`. Bytes
    /// between and after the pieces stay as they are.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`], before anything is read, if `memory` is shorter than [`bytes`](Self::bytes).
    /// Otherwise as [`FileTensor::read`]; the bytes are then undefined.
    pub fn read_into(&self, memory: &mut [u8]) -> Result<()> {
        if memory.len() < self.bytes {
            let what = format!("read {} bytes into memory of {}", self.bytes, memory.len());
            let instead = "`ReadPlan::bytes` is the length of all pieces".to_owned();
            return Err(self.file.place(ErrorKind::Unsupported { what, instead }.into()));
        }
        let mut count = self.count();
        self.read(&self.pieces, memory, &mut count)?;
        self.finish(count)
    }

    /// Reads each piece into separate memory, such as arrays of another library. Everything else is as in
    /// [`read_into`](Self::read_into).
    ///
    /// ```
    /// use tensorfile::{File, TensorMap, ten};
    ///
    /// let map = TensorMap::from_iter([("a", ndarray::array![1_u8, 2]), ("b", ndarray::array![3])]);
    /// let file = File::from_bytes(ten::to_vec(&map)?)?;
    /// let (mut a, mut b) = ([0; 2], [0; 1]);
    /// file.read_plan().all()?.finish()?.read_vectored(vec![&mut a, &mut b])?;
    /// assert_eq!((a, b), ([1, 2], [3]));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`], before anything is read, if the numbers of buffers and pieces differ, or the length
    /// of a buffer is not that of its piece. Otherwise as [`read_into`](Self::read_into).
    pub fn read_vectored(&self, buffers: Vec<&mut [u8]>) -> Result<()> {
        let unsupported = |what, instead: &str| ErrorKind::Unsupported { what, instead: instead.to_owned() };
        if buffers.len() != self.pieces.len() {
            let what = format!("read {} pieces into {} buffers", self.pieces.len(), buffers.len());
            return Err(self.file.place(unsupported(what, "each piece has a buffer").into()));
        }
        if let Some((piece, buffer)) =
            self.pieces.iter().zip(&buffers).find(|(piece, buffer)| piece.bytes() != buffer.len())
        {
            let what = format!("read {} bytes into memory of {}", piece.bytes(), buffer.len());
            return Err(piece.tensor.locate(unsupported(what, "a buffer is as long as its piece")));
        }
        let mut count = self.count();
        self.read_each(&self.pieces, buffers, &mut count)?;
        self.finish(count)
    }

    /// Reads all pieces into slabs, in the order of the pieces.
    ///
    /// ```
    /// use tensorfile::file::{PlanPiece, Slabs};
    /// use tensorfile::{File, Result, TensorMap, ten};
    ///
    /// /// A buffer, and the bytes copied from it.
    /// struct Copies {
    ///     buffer: [u8; 128],
    ///     device: Vec<u8>,
    ///     names: Vec<String>,
    /// }
    ///
    /// impl Slabs for Copies {
    ///     fn lend(&mut self, _: usize) -> Result<&mut [u8]> {
    ///         Ok(&mut self.buffer)
    ///     }
    ///
    ///     fn complete(&mut self, pieces: &[PlanPiece<'_>]) -> Result<()> {
    ///         let start = pieces[0].range().start;
    ///         for piece in pieces {
    ///             let range = piece.range();
    ///             self.device.extend_from_slice(&self.buffer[range.start - start..range.end - start]);
    ///             self.names.push(piece.name().to_owned());
    ///         }
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let map = TensorMap::from_iter([("a", ndarray::array![1_u8, 2]), ("b", ndarray::array![3]), ("c", ndarray::array![4])]);
    /// let file = File::from_bytes(ten::to_vec(&map)?)?;
    /// let mut copies = Copies { buffer: [0; 128], device: Vec::new(), names: Vec::new() };
    /// file.read_plan().all()?.finish()?.read_to(&mut copies)?;
    /// assert_eq!((copies.device, copies.names.join(" ")), (vec![1, 2, 3, 4], "a b c".to_owned()));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`read_into`](Self::read_into), and errors of `slabs`.
    pub fn read_to(&self, slabs: &mut dyn Slabs) -> Result<()> {
        let (mut left, mut count) = (&self.pieces[..], self.count());
        while let Some(first) = left.first() {
            let (start, bytes) = (first.range.start, first.range.len());
            let slab = slabs.lend(bytes)?;
            let fit = left.iter().take_while(|piece| piece.range.end - start <= slab.len()).count();
            if fit == 0 {
                let what = format!("read {bytes} bytes into a slab of {}", slab.len());
                let instead = "`Slabs::lend` is called with the least length".to_owned();
                return Err(first.tensor.locate(ErrorKind::Unsupported { what, instead }));
            }
            let (now, later) = left.split_at(fit);
            self.read(now, slab, &mut count)?;
            slabs.complete(now)?;
            left = later;
        }
        self.finish(count)
    }

    /// Begins to count the bytes of all pieces for a listener.
    fn count(&self) -> Option<ProgressCount<'_>> {
        let total = self.pieces.iter().map(|piece| piece.bytes() as u64).sum();
        self.progress.as_ref().map(|listener| listener.count(total))
    }

    fn finish(&self, count: Option<ProgressCount<'_>>) -> Result<()> {
        count.map_or(Ok(()), |count| count.finish().map_err(|error| self.file.place(error)))
    }

    /// Reads pieces to memory that begins with the first of them.
    fn read(&self, pieces: &[PlanPiece<'f>], memory: &mut [u8], count: &mut Option<ProgressCount<'_>>) -> Result<()> {
        let (mut left, mut done) = (memory, pieces.first().map_or(0, |first| first.range.start));
        let buffers = pieces.iter().map(|PlanPiece { range, .. }| {
            let (bytes, rest) = std::mem::take(&mut left)[range.start - done..].split_at_mut(range.len());
            (left, done) = (rest, range.end);
            bytes
        });
        self.read_each(pieces, buffers.collect(), count)
    }

    fn read_each(
        &self,
        pieces: &[PlanPiece<'f>],
        buffers: Vec<&mut [u8]>,
        count: &mut Option<ProgressCount<'_>>,
    ) -> Result<()> {
        let placed = pieces.iter().map(|piece| &piece.piece).zip(buffers).collect();
        let read = read_pieces(&self.file.storage, placed, &mut |bytes| match count {
            Some(count) => count.add(bytes as u64),
            None => Ok(()),
        });
        read.map_err(|(i, error)| pieces[i].tensor.locate(error))
    }
}

impl<'f> PlanPiece<'f> {
    /// Returns the name, or the position if the tensor has no name.
    #[must_use]
    pub fn name(&self) -> &'f str {
        self.tensor.name()
    }

    /// Returns the tensor to which the piece belongs.
    #[must_use]
    pub fn tensor(&self) -> FileTensor<'f> {
        self.tensor
    }

    /// Returns the dtype, shape and layout of the piece in memory.
    #[must_use]
    pub fn info(&self) -> &TensorInfo {
        self.piece.info()
    }

    /// Returns the range in memory, in bytes from its start.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    fn bytes(&self) -> usize {
        self.range.len()
    }
}

impl fmt::Debug for PlanPiece<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut piece = f.debug_struct("PlanPiece");
        piece.field("name", &self.name()).field("info", self.info()).field("range", &self.range).finish_non_exhaustive()
    }
}

impl fmt::Debug for ReadPlan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut plan = f.debug_struct("ReadPlan");
        plan.field("pieces", &self.pieces.len()).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl fmt::Debug for ReadPlanBuilder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut builder = f.debug_struct("ReadPlanBuilder");
        builder.field("pieces", &self.pieces.len()).field("align", &self.align).finish_non_exhaustive()
    }
}
