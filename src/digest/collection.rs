use super::{Digest, MAGIC};

/// Computes the digest of a collection from the digests of its tensors, added in any order.
///
/// ```
/// use tensorfile::digest::{CollectionDigester, Digest};
/// use tensorfile::{Tensor, TensorMap};
///
/// let map = TensorMap::from_iter([
///     ("weight", Tensor::from_slice(&[1.0_f32, 2.0], [1, 2])?),
///     ("bias", Tensor::from_slice(&[0.5_f32], [1])?),
/// ]);
/// let tensors = map.iter().map(|(name, tensor)| (name.as_str(), Digest::of(&tensor.as_view())));
/// let digest = tensors.clone().collect::<CollectionDigester>().finish();
/// assert_eq!(digest, tensors.rev().collect::<CollectionDigester>().finish());
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct CollectionDigester(Vec<(String, Digest)>);

impl CollectionDigester {
    /// Creates a digester without tensors.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the digest of a tensor, with its name, or its position if it has none.
    pub fn add(&mut self, name: impl Into<String>, digest: Digest) {
        self.0.push((name.into(), digest));
    }

    /// Returns the digest of all tensors.
    #[must_use]
    pub fn finish(mut self) -> Digest {
        self.0.sort_unstable();
        let mut hasher = blake3::Hasher::new();
        hasher.update(MAGIC).update(b"collection\0").update(&(self.0.len() as u64).to_le_bytes());
        for (name, digest) in &self.0 {
            hasher.update(&(name.len() as u64).to_le_bytes()).update(name.as_bytes()).update(&digest.0);
        }
        hasher.finalize().into()
    }
}

impl<N: Into<String>> Extend<(N, Digest)> for CollectionDigester {
    fn extend<I: IntoIterator<Item = (N, Digest)>>(&mut self, tensors: I) {
        self.0.extend(tensors.into_iter().map(|(name, digest)| (name.into(), digest)));
    }
}

impl<N: Into<String>> FromIterator<(N, Digest)> for CollectionDigester {
    fn from_iter<I: IntoIterator<Item = (N, Digest)>>(tensors: I) -> Self {
        let mut digester = Self::new();
        digester.extend(tensors);
        digester
    }
}
