use std::convert::Infallible;

use blake3::Hasher;

use super::{Digest, MAGIC};
use crate::tensor::{DimOrder, InvalidTensor, Layout, TensorInfo, TensorView, bytes_in_row_major, coo_parts, grow};

impl Digest {
    /// The digest of a tensor in memory.
    #[must_use]
    pub fn of(tensor: &TensorView<'_>) -> Self {
        let info = tensor.info();
        let mut hasher = head(info);
        match &info.layout {
            Layout::RowMajor | Layout::Blob => {
                hasher.update(tensor.as_bytes());
            }
            Layout::DimOrder(order) => in_row_major(&mut hasher, tensor, order),
            Layout::Coo { .. } => in_order_of_coordinates(&mut hasher, tensor),
        }
        hasher.finalize().into()
    }
}

/// Computes the digest of a tensor whose payload comes in pieces.
///
/// A row-major tensor or a blob is hashed as it comes. One in a dim order or in COO layout is held in memory whole:
/// its order is another than the digest's.
///
/// ```
/// use tensorfile::digest::{Digest, TensorDigester};
/// use tensorfile::Tensor;
///
/// let tensor = Tensor::from_slice(&[1.0_f32, 2.0], [2])?;
/// let mut digester = TensorDigester::new(tensor.info());
/// tensor.as_bytes().chunks(3).for_each(|piece| digester.update(piece));
/// assert_eq!(digester.finish()?, Digest::of(&tensor.as_view()));
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct TensorDigester {
    info: TensorInfo,
    /// The bytes that came.
    found: u64,
    way: Way,
}

#[derive(Debug, Clone)]
enum Way {
    /// Hashed as they come.
    Straight(Box<Hasher>),
    /// Gathered, to be put in order.
    Gathered(Vec<u8>),
}

impl TensorDigester {
    /// A digester of a tensor with this dtype, shape and layout.
    #[must_use]
    pub fn new(info: &TensorInfo) -> Self {
        let way = match info.layout {
            Layout::RowMajor | Layout::Blob => Way::Straight(Box::new(head(info))),
            Layout::DimOrder(_) | Layout::Coo { .. } => Way::Gathered(Vec::new()),
        };
        Self { info: info.clone(), found: 0, way }
    }

    /// Takes the next bytes of the payload, in the tensor's layout.
    pub fn update(&mut self, piece: &[u8]) {
        self.found += piece.len() as u64;
        match &mut self.way {
            Way::Straight(hasher) => {
                hasher.update(piece);
            }
            Way::Gathered(bytes) => {
                let expected = self.info.payload_bytes().unwrap_or(0);
                // What is too much is told at the end, and not gathered.
                if self.found <= expected as u64 {
                    grow(bytes, piece.len(), expected);
                    bytes.extend_from_slice(piece);
                }
            }
        }
    }

    /// The digest.
    ///
    /// # Errors
    ///
    /// [`InvalidTensor`] where the bytes were not as many as the tensor takes, or a dim order or coordinate is wrong.
    pub fn finish(self) -> Result<Digest, InvalidTensor> {
        self.info.check_payload(self.found)?;
        match self.way {
            Way::Straight(hasher) => Ok(hasher.finalize().into()),
            Way::Gathered(bytes) => Ok(Digest::of(&TensorView::new(self.info, &bytes)?)),
        }
    }
}

/// A hasher of all that comes before the elements.
fn head(info: &TensorInfo) -> Hasher {
    let mut hasher = Hasher::new();
    hasher.update(MAGIC);
    let kind: &[u8] = match info.layout {
        Layout::RowMajor | Layout::DimOrder(_) => b"dense\0",
        Layout::Coo { .. } => b"coo\0",
        Layout::Blob => {
            hasher.update(b"blob\0");
            return hasher;
        }
    };
    hasher.update(kind).update(info.dtype.name().as_bytes()).update(b"\0");
    hasher.update(&(info.shape.rank() as u64).to_le_bytes());
    for &dim in &info.shape {
        hasher.update(&(dim as u64).to_le_bytes());
    }
    hasher
}

fn in_row_major(hasher: &mut Hasher, tensor: &TensorView<'_>, order: &DimOrder) {
    let hash = |batch: &[u8]| {
        hasher.update(batch);
        Ok::<(), Infallible>(())
    };
    let Ok(()) = bytes_in_row_major(tensor.as_bytes(), tensor.shape(), order, hash);
}

fn in_order_of_coordinates(hasher: &mut Hasher, tensor: &TensorView<'_>) {
    let (indices, values) = coo_parts(tensor.info(), tensor.as_bytes());
    let rank = tensor.shape().rank();
    let row = |entry: usize| &indices[entry * rank * 8..][..rank * 8];
    let value = |entry: usize| &values[entry * tensor.dtype().block_bytes()..][..tensor.dtype().block_bytes()];
    let key = |entry: usize| row(entry).chunks_exact(8).map(|index| u64::from_le(bytemuck::pod_read_unaligned(index)));

    let mut entries: Vec<usize> = (0..values.len() / tensor.dtype().block_bytes()).collect();
    // Of equal coordinates the last one given comes first, and stays.
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
