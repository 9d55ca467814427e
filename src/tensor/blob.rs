/// Bytes that a file holds under a name, beside its tensors.
///
/// ExecuTorch data files have them. They are kept byte for byte, and are never taken for a tensor.
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
