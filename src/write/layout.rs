//! The layout of a file: its headers, and the offset of each payload.

use std::ops::Range;

use smallvec::SmallVec;

use crate::error::{Result, cannot_store};

/// All bytes of a file except the payloads, and the offsets of everything. Gaps are filled with zeros.
///
/// The file is written from start to end, so payloads are in tensor order, each after its header, unless the format
/// sorts tensors. A tensor that shares the bytes of an earlier one has the same offset. Planning refuses any other
/// layout.
///
/// ```
/// use tensorfile::format::{FileLayout, PlannedTensors};
/// use tensorfile::{Result, TensorMap, ten};
///
/// /// A magic, then each tensor after its length.
/// fn lay_out(plan: &PlannedTensors) -> Result<FileLayout> {
///     let mut layout = plan.stack(8, 8, &mut |_, info, header| {
///         header.extend((info.payload_bytes().unwrap_or_default() as u64).to_le_bytes());
///     })?;
///     layout.begin = b"LENGTHS1".to_vec();
///     Ok(layout)
/// }
///
/// let map = TensorMap::from_iter([("a", ndarray::array![1.0_f64]), ("b", ndarray::array![2.0])]);
/// let plan = ten::Options::new().plan(&map)?;
/// let layout = lay_out(&plan)?;
/// assert!(layout.payloads().eq([16, 32]));
/// assert_eq!(layout.end_offset, 40);
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct FileLayout {
    /// The bytes at the start.
    pub begin: Vec<u8>,
    /// The offset of the bytes at the end, after the last payload and its padding.
    pub end_offset: u64,
    /// The bytes at the end.
    pub end: Vec<u8>,
    /// Omit names equal to the position of their tensor from headers.
    pub(super) omits_positions: bool,
    /// The order of the payloads, unless it is the order of the plan.
    order: Option<FileOrder>,
    /// All headers, concatenated.
    headers: Vec<u8>,
    /// Messages are often of one tensor.
    tensors: SmallVec<[PlacedTensor; 1]>,
}

#[derive(Debug)]
struct FileOrder {
    /// The position in the plan, by place in the file.
    tensors: Vec<usize>,
    /// The place in the file, by position in the plan.
    places: Vec<usize>,
}

#[derive(Debug)]
struct PlacedTensor {
    /// The range of the header within the headers. Tensors with equal headers may share one.
    header: Range<usize>,
    /// The offset of the payload.
    payload: u64,
}

impl FileLayout {
    /// Returns a layout without tensors, with room for `tensors`.
    pub(crate) fn with_capacity(tensors: usize) -> Self {
        Self { tensors: SmallVec::with_capacity(tensors), ..Self::default() }
    }

    /// Adds a tensor: the header written right before its payload, and the offset of the payload.
    ///
    /// ```
    /// use tensorfile::format::FileLayout;
    ///
    /// let mut layout = FileLayout::default();
    /// layout.push(b"first", 8);
    /// layout.push(b"", 16);
    /// assert!(layout.payloads().eq([8, 16]));
    /// ```
    pub fn push(&mut self, header: &[u8], payload: u64) {
        let place = self.add_header(&mut |headers| headers.extend_from_slice(header));
        self.place(place, payload);
    }

    /// Returns the offset of each payload.
    pub fn payloads(&self) -> impl ExactSizeIterator<Item = u64> + DoubleEndedIterator + Clone {
        self.tensors.as_slice().iter().map(|tensor| tensor.payload)
    }

    /// Sets [`begin`](Self::begin). All offsets so far count from its end, because a header with offsets in it has no
    /// length until they are known.
    ///
    /// ```
    /// use tensorfile::format::FileLayout;
    ///
    /// let mut layout = FileLayout::default();
    /// layout.push(b"", 0);
    /// layout.put_before(b"header, padded  ".to_vec())?;
    /// assert!(layout.payloads().eq([16]));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if the file would end past 2⁶⁴.
    pub fn put_before(&mut self, begin: Vec<u8>) -> Result<()> {
        let bytes = begin.len() as u64;
        let end_offset = self.end_offset.checked_add(bytes);
        self.end_offset =
            end_offset.ok_or_else(|| cannot_store("this much data", "a file has less than 2^64 bytes"))?;
        for tensor in self.tensors.as_mut_slice() {
            // One beyond the end is refused with the layout.
            tensor.payload = tensor.payload.saturating_add(bytes);
        }
        self.begin = begin;
        Ok(())
    }

    /// Sorts payloads without headers and gaps. `order` is the position in the plan of each tensor of the file.
    pub(crate) fn reorder(&mut self, order: Vec<usize>, payload_bytes: &mut dyn FnMut(usize) -> usize) {
        let (mut places, mut end) = (vec![0; order.len()], self.begin.len() as u64);
        for (place, index) in order.iter().enumerate() {
            places[*index] = place;
            self.tensors[*index].payload = end;
            end += payload_bytes(*index) as u64;
        }
        self.order = Some(FileOrder { tensors: order, places });
    }

    /// Returns whether the order of the file is not the order of the plan.
    pub(super) fn is_reordered(&self) -> bool {
        self.order.is_some()
    }

    /// Returns the position in the plan of the tensor at a place in the file.
    #[inline]
    pub(super) fn tensor_at(&self, place: usize) -> usize {
        self.order.as_ref().map_or(place, |order| order.tensors[place])
    }

    /// Returns the place in the file of a tensor of the plan.
    #[inline]
    pub(super) fn place_of(&self, index: usize) -> usize {
        self.order.as_ref().map_or(index, |order| order.places[index])
    }

    /// Adds a header and returns its place.
    pub(super) fn add_header(&mut self, add: &mut dyn FnMut(&mut Vec<u8>)) -> Range<usize> {
        let start = self.headers.len();
        add(&mut self.headers);
        start..self.headers.len()
    }

    /// Adds the next tensor, without a header.
    #[inline]
    pub(crate) fn push_payload(&mut self, payload: u64) {
        self.place(0..0, payload);
    }

    /// Adds the next tensor, with a header that [`add_header`](Self::add_header) returned.
    #[inline]
    pub(super) fn place(&mut self, header: Range<usize>, payload: u64) {
        self.tensors.push(PlacedTensor { header, payload });
    }

    /// Returns the header of each tensor, and the offset of its payload.
    pub(crate) fn placed(&self) -> impl ExactSizeIterator<Item = (&[u8], u64)> + DoubleEndedIterator {
        self.tensors.as_slice().iter().map(|tensor| (&self.headers[tensor.header.clone()], tensor.payload))
    }

    /// Returns the header of the tensor at a position.
    #[inline]
    pub(crate) fn header(&self, index: usize) -> &[u8] {
        &self.headers[self.tensors.as_slice()[index].header.clone()]
    }

    /// Returns the offset of the payload of the tensor at a position.
    #[inline]
    pub(crate) fn payload(&self, index: usize) -> u64 {
        self.tensors.as_slice()[index].payload
    }
}

/// Appends dims as `u64`.
pub(crate) fn put_dims(dims: &[usize], out: &mut Vec<u8>) {
    const AT_ONCE: usize = 4;

    for dims in dims.chunks(AT_ONCE) {
        let mut bytes = [[0; 8]; AT_ONCE];
        bytes.iter_mut().zip(dims).for_each(|(bytes, dim)| *bytes = (*dim as u64).to_le_bytes());
        out.extend_from_slice(bytes[..dims.len()].as_flattened());
    }
}
