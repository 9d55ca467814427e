use serde::Serialize;

use super::ser::Payload;
use crate::error::Result;
use crate::tensor::TensorInfo;

/// Where the tensors of a value go: into a plan or into a file.
pub trait TensorSink {
    /// Whether a dense tensor is stored in the order of its memory; where not, it comes in row-major order.
    fn keeps_dim_order(&self) -> bool;

    /// Takes the next tensor.
    fn tensor<P: Serialize + ?Sized>(&mut self, name: &str, info: TensorInfo, payload: Payload<'_, P>) -> Result<()>;
}
