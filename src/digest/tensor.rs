//! The digest of one tensor.

use std::io;

use super::tree::{ReadPart, TreeHasher};
use super::{Digest, MAGIC};
use crate::tensor::{DimOrder, InvalidTensor, Layout, TensorInfo, TensorView, coo_parts, grow, write_row_major};

impl Digest {
    /// Computes the digest of a tensor in memory: of large ones with several threads, see
    /// [`set_max_threads`](crate::threads::set_max_threads).
    ///
    /// ```
    /// use tensorfile::digest::Digest;
    /// use tensorfile::{File, TensorMap, btf, ten};
    ///
    /// // The same tensor has the same digest in every format.
    /// let map = TensorMap::from_iter([("0", ndarray::array![1.0_f32, 2.0])]);
    /// let (one, other) = (File::from_bytes(ten::to_vec(&map)?)?, File::from_bytes(btf::to_vec(&map)?)?);
    /// assert_eq!(Digest::new(&one.view("#0")?), Digest::new(&other.view("#0")?));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn new(tensor: &TensorView<'_>) -> Self {
        let info = tensor.info();
        let mut hasher = head(info);
        match &info.layout {
            Layout::RowMajor | Layout::Blob | Layout::Unknown(_) => {
                hasher.update(tensor.as_bytes());
            }
            Layout::DimOrder(order) => in_row_major(&mut hasher, tensor, order),
            Layout::Coo { .. } => in_order_of_coordinates(&mut hasher, tensor),
        }
        hasher.finish()
    }
}

/// Computes the digest of a tensor from its payload in pieces. [`FileTensor::digest`](crate::file::FileTensor::digest)
/// is the digest of a tensor in an open file.
///
/// Row-major tensors and blobs are hashed as they arrive. Tensors in a dim order or in COO layout are buffered: they
/// are hashed in another order.
///
/// Large pieces are hashed with several threads; see [`set_max_threads`](crate::threads::set_max_threads).
///
/// The payload can be passed to [`update`](Self::update), or written: [`TensorDigester`] is an [`io::Write`].
///
/// ```
/// use tensorfile::digest::{Digest, TensorDigester};
/// use tensorfile::Tensor;
///
/// let tensor = Tensor::from_slice(&[1.0_f32, 2.0], [2])?;
/// let mut digester = TensorDigester::new(tensor.info());
/// tensor.as_bytes().chunks(3).for_each(|piece| digester.update(piece));
/// assert_eq!(digester.finish()?, Digest::new(&tensor.as_view()));
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct TensorDigester {
    info: TensorInfo,
    /// The number of bytes received.
    found: u64,
    state: DigestState,
}

#[derive(Debug, Clone)]
enum DigestState {
    Hashing(Box<TreeHasher>),
    Buffering(Vec<u8>),
    /// Memory ran out for the bytes to be buffered.
    Failed(InvalidTensor),
}

impl TensorDigester {
    /// Creates a digester for a tensor with this dtype, shape and layout.
    #[must_use]
    pub fn new(info: &TensorInfo) -> Self {
        let state = match info.layout {
            Layout::RowMajor | Layout::Blob | Layout::Unknown(_) => DigestState::Hashing(Box::new(head(info))),
            Layout::DimOrder(_) | Layout::Coo { .. } => DigestState::Buffering(Vec::new()),
        };
        Self { info: info.clone(), found: 0, state }
    }

    /// Adds the next bytes of the payload, in the tensor's layout.
    pub fn update(&mut self, piece: &[u8]) {
        self.found += piece.len() as u64;
        match &mut self.state {
            DigestState::Hashing(hasher) => {
                hasher.update(piece);
            }
            DigestState::Failed(_) => {}
            DigestState::Buffering(bytes) => {
                let expected = self.info.payload_bytes().unwrap_or(0);
                // A payload beyond the expected length is an error in `finish`, and not buffered.
                if self.found <= expected as u64 {
                    match grow(bytes, piece.len(), expected) {
                        Ok(()) => bytes.extend_from_slice(piece),
                        Err(error) => self.state = DigestState::Failed(error),
                    }
                }
            }
        }
    }

    /// Adds the whole payload of `len` bytes, if it can be hashed in parts, in parallel with `read`.
    pub(crate) fn update_from<E: Send>(
        &mut self,
        len: usize,
        read: ReadPart<'_, E>,
        progress: &mut dyn FnMut(u64),
    ) -> Option<Result<(), E>> {
        let DigestState::Hashing(hasher) = &mut self.state else { return None };
        self.found += len as u64;
        Some(hasher.update_from(len, read, progress))
    }

    /// Returns the digest.
    ///
    /// ```
    /// use tensorfile::digest::TensorDigester;
    /// use tensorfile::{Dtype, TensorInfo};
    ///
    /// let mut digester = TensorDigester::new(&TensorInfo::new(Dtype::U8, [3]));
    /// digester.update(&[1, 2]);
    /// assert_eq!(digester.finish().unwrap_err().to_string(), "payload is 2 bytes, but u8[3] takes 3");
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidTensor`]: the payload has another size than the tensor takes, or a dim order or coordinate is invalid.
    pub fn finish(self) -> Result<Digest, InvalidTensor> {
        self.info.check_payload(self.found)?;
        match self.state {
            DigestState::Hashing(hasher) => Ok(hasher.finish()),
            DigestState::Buffering(bytes) => Ok(Digest::new(&TensorView::new(self.info, &bytes)?)),
            DigestState::Failed(error) => Err(error),
        }
    }
}

/// Writing adds to the payload.
///
/// ```
/// use std::io::Write;
/// use tensorfile::digest::{Digest, TensorDigester};
/// use tensorfile::Tensor;
///
/// let tensor = Tensor::from_slice(&[1.0_f32, 2.0], [2])?;
/// let mut digester = TensorDigester::new(tensor.info());
/// digester.write_all(tensor.as_bytes())?;
/// assert_eq!(digester.finish()?, Digest::new(&tensor.as_view()));
/// # Ok::<(), tensorfile::Error>(())
/// ```
impl io::Write for TensorDigester {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.update(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Hashes everything before the elements.
fn head(info: &TensorInfo) -> TreeHasher {
    let mut hasher = TreeHasher::new();
    hasher.update(MAGIC);
    let kind: &[u8] = match info.layout {
        Layout::RowMajor | Layout::DimOrder(_) => b"dense\0",
        Layout::Coo { .. } => b"coo\0",
        Layout::Blob => {
            hasher.update(b"blob\0");
            return hasher;
        }
        Layout::Unknown(_) => b"unknown\0",
    };
    let dtype = info.unknown_dtype().unwrap_or_else(|| info.dtype.name());
    hasher.update(kind).update(dtype.as_bytes()).update(b"\0");
    hasher.update(&(info.shape.rank() as u64).to_le_bytes());
    for &dim in &info.shape {
        hasher.update(&(dim as u64).to_le_bytes());
    }
    hasher
}

fn in_row_major(hasher: &mut TreeHasher, tensor: &TensorView<'_>, order: &DimOrder) {
    write_row_major(tensor.as_bytes(), tensor.dtype().block_bytes(), tensor.shape(), order, hasher)
        .expect("hashing does not fail");
}

fn in_order_of_coordinates(hasher: &mut TreeHasher, tensor: &TensorView<'_>) {
    let (indices, values) = coo_parts(tensor.info(), tensor.as_bytes());
    let rank = tensor.shape().rank();
    let row = |entry: usize| &indices[entry * rank * 8..][..rank * 8];
    let value = |entry: usize| &values[entry * tensor.dtype().block_bytes()..][..tensor.dtype().block_bytes()];
    let key = |entry: usize| row(entry).chunks_exact(8).map(|index| u64::from_le(bytemuck::pod_read_unaligned(index)));

    let mut entries: Vec<usize> = (0..values.len() / tensor.dtype().block_bytes()).collect();
    // Of equal coordinates, the last entry is sorted first, and the rest are removed.
    entries.sort_by(|&a, &b| key(a).cmp(key(b)).then(b.cmp(&a)));
    entries.dedup_by(|later, first| row(*later) == row(*first));

    for &entry in &entries {
        hasher.update(row(entry));
    }
    hasher.update(&(entries.len() as u64).to_le_bytes());
    for &entry in &entries {
        hasher.update(value(entry));
    }
}
