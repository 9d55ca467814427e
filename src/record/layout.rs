/// All bytes of a file except the payloads, and the offsets of everything. The gaps are zeros.
///
/// The file is written from start to end, so the payloads are in the order of the tensors, each after its header. A tensor
/// that shares the bytes of an earlier one has the same offset. Another layout is an error when the file is planned.
///
/// ```
/// use tensorfile::record::{FileLayout, Plan};
/// use tensorfile::{Result, TensorMap, ten};
///
/// /// A magic, then each tensor after its length.
/// fn lay_out(plan: &Plan) -> Result<FileLayout> {
///     let layout = plan.stack(8, 8, &mut |at, header| {
///         header.extend((plan.payload_bytes(at) as u64).to_le_bytes());
///     })?;
///     Ok(FileLayout { begin: b"LENGTHS1".to_vec(), ..layout })
/// }
///
/// let map = TensorMap::from_iter([("a", ndarray::array![1.0_f64]), ("b", ndarray::array![2.0])]);
/// let layout = lay_out(&ten::plan(&map)?)?;
/// assert_eq!((layout.payloads, layout.end_offset), (vec![16, 32], 40));
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct FileLayout {
    /// The bytes at the start.
    pub begin: Vec<u8>,
    /// The headers of the tensors, one after the other. Each is written right before its payload.
    pub headers: Vec<u8>,
    /// The end of each header in `headers`; empty if tensors have no headers of their own.
    pub header_ends: Vec<usize>,
    /// The offset of each payload.
    pub payloads: Vec<u64>,
    /// The offset of the bytes at the end, after the last payload and its padding.
    pub end_offset: u64,
    /// The bytes at the end.
    pub end: Vec<u8>,
}

impl FileLayout {
    /// Returns the header of the tensor at a position.
    pub(crate) fn header(&self, at: usize) -> &[u8] {
        let Some(&end) = self.header_ends.get(at) else { return &[] };
        let start = at.checked_sub(1).map_or(0, |before| self.header_ends[before]);
        &self.headers[start..end]
    }
}
