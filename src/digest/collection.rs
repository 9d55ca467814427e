//! The digest of named tensors.

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
/// let tensors = map.iter().map(|(name, tensor)| (name.as_str(), Digest::new(&tensor.as_view())));
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
    ///
    /// ```
    /// use tensorfile::digest::{CollectionDigester, Digest};
    ///
    /// let mut digester = CollectionDigester::new();
    /// digester.add("weight", Digest([1; 32]));
    /// digester.add("bias", Digest([2; 32]));
    /// println!("{}", digester.finish());
    /// ```
    pub fn add(&mut self, name: impl Into<String>, digest: Digest) {
        self.0.push((name.into(), digest));
    }

    /// Returns the digest of all tensors.
    #[must_use]
    pub fn finish(mut self) -> Digest {
        self.0.sort_unstable();
        let mut sorted = SortedDigester::new(self.0.len());
        self.0.iter().for_each(|(name, digest)| sorted.add(name, *digest));
        sorted.finish()
    }
}

/// Computes the digest of a collection from tensors added in order, without holding any of them.
///
/// ```
/// use tensorfile::digest::{CollectionDigester, Digest, SortedDigester};
///
/// let (a, b) = (Digest([1; 32]), Digest([2; 32]));
/// let mut sorted = SortedDigester::new(2);
/// sorted.add("bias", a);
/// sorted.add("weight", b);
/// assert_eq!(sorted.finish(), CollectionDigester::from_iter([("weight", b), ("bias", a)]).finish());
/// ```
#[derive(Debug, Clone)]
pub struct SortedDigester(blake3::Hasher);

impl SortedDigester {
    /// Creates a digester for a number of tensors.
    #[must_use]
    pub fn new(tensors: usize) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(MAGIC).update(b"collection\0").update(&(tensors as u64).to_le_bytes());
        Self(hasher)
    }

    /// Adds the next tensor in the order of the bytes of names, or of digests for tensors of one name.
    pub fn add(&mut self, name: &str, digest: Digest) {
        self.0.update(&(name.len() as u64).to_le_bytes()).update(name.as_bytes()).update(&digest.0);
    }

    /// Returns the digest of all tensors. It equals the one of [`CollectionDigester`], if the tensors were added in
    /// order and in the announced number.
    #[must_use]
    pub fn finish(self) -> Digest {
        self.0.finalize().into()
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
