use serde::Serialize;

use crate::error::Result;
use crate::tensor::TensorInfo;

/// Where the tensors of a value go: into a plan or into a file.
pub trait TensorSink {
    /// Whether a dense tensor is stored in the order of its memory; where not, it comes in row-major order.
    fn keeps_dim_order(&self) -> bool;

    /// Takes the next tensor. `payload` serializes itself as bytes or as a list of bytes; see [`super::ser::pour`].
    fn tensor<P: Serialize + ?Sized>(&mut self, name: &str, info: TensorInfo, payload: &P) -> Result<()>;
}
