/// Named bytes that are not a tensor.
///
/// ExecuTorch data files hold them next to their tensors. They are read and written unchanged.
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
