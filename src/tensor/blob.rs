/// Named bytes that are not a tensor.
///
/// ExecuTorch data files and npz archives hold them next to their tensors. They are read and written unchanged.
///
/// ```
/// use tensorfile::{Blob, TensorFile, ptd};
///
/// #[derive(TensorFile)]
/// struct Model {
///     weight: ndarray::Array1<f32>,
///     tokenizer: Blob,
/// }
///
/// let model = Model { weight: ndarray::array![1.0], tokenizer: Blob(b"{}".to_vec()) };
/// let read: Model = ptd::from_slice(&ptd::to_vec(&model)?)?;
/// assert_eq!(read.tokenizer.as_ref(), b"{}");
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Blob(pub Vec<u8>);

impl From<Vec<u8>> for Blob {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl AsRef<[u8]> for Blob {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
