//! Options for PTD files.

use super::ser::Encode;
use super::{Compatibility, Version};
use crate::format;

/// Which tensors share a segment of a `DT01` file, to be loaded together. In `FT01` each tensor has its own segment.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub enum Segments {
    /// Each tensor has its own segment.
    #[default]
    PerTensor,
    /// All tensors are in one segment.
    One,
    /// Tensors whose names have the same function result share a segment. A segment ends before the first tensor of
    /// another group, so a returning group gets another segment.
    By(fn(&str) -> String),
}

/// Options for reading and writing PTD files. The defaults: `FT01`, which ExecuTorch reads, and row-major tensors in
/// segments at multiples of 128 bytes.
///
/// ```
/// use std::collections::BTreeMap;
/// use tensorfile::{TensorView, ptd};
///
/// let bias = TensorView::from_slice(&[0.5_f32], [1])?;
/// let layers = BTreeMap::from([("0.bias", bias.clone()), ("0.scale", bias.clone()), ("1.bias", bias)]);
/// let by_layer = ptd::Segments::By(|name| name.split('.').next().unwrap_or_default().to_owned());
/// let options = ptd::Options::new().version(ptd::Version::Dt01V1).segments(by_layer).alignment(16);
/// assert_eq!(ptd::metadata(&options.to_vec(&layers)?)?.segments, 1); // all three are the same slice
/// # Ok::<(), tensorfile::Error>(())
/// ```
pub type Options = format::Options<Encode>;

impl Options {
    /// Sets the generation to write. Default: [`Version::Dt01V2`] if the value has metadata, otherwise
    /// [`Version::Ft01`].
    ///
    /// Other versions refuse metadata, and so does this one if it is set explicitly.
    ///
    /// ```
    /// use tensorfile::{TensorMap, ptd};
    ///
    /// let map = TensorMap::from_iter([("a", ndarray::array![1.0_f32])]);
    /// let file = ptd::Options::new().version(ptd::Version::Dt01V1).to_vec(&map)?;
    /// assert_eq!(file[4..8], *b"DT01");
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn version(mut self, version: Version) -> Self {
        self.encode.version = Some(version);
        self
    }

    /// Aligns segments, and tensors within them, to a number of bytes from the start of the file: a power of two.
    /// Default: 128.
    ///
    /// ```
    /// use tensorfile::{File, TensorMap, ptd};
    ///
    /// let map = TensorMap::from_iter([("a", ndarray::array![1.0_f32]), ("b", ndarray::array![2.0])]);
    /// let file = File::from_bytes(ptd::Options::new().alignment(4096).to_vec(&map)?)?;
    /// assert!(file.tensors().all(|tensor| tensor.range().start % 4096 == 0));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn alignment(mut self, alignment: u32) -> Self {
        self.encode.alignment = alignment;
        self
    }

    /// Sets which tensors of a `DT01` file share a segment.
    ///
    /// ```
    /// use tensorfile::{TensorMap, ptd};
    ///
    /// let map = TensorMap::from_iter([("a", ndarray::array![1.0_f32]), ("b", ndarray::array![2.0])]);
    /// let options = ptd::Options::new().version(ptd::Version::Dt01V1).segments(ptd::Segments::One);
    /// assert_eq!(ptd::metadata(&options.to_vec(&map)?)?.segments, 1);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn segments(mut self, segments: Segments) -> Self {
        self.encode.segments = segments;
        self
    }

    /// Writes tensors in memory order instead of row-major order, if it is a permutation of their dims.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    /// use ndarray::Array4;
    /// use tensorfile::{Arrays, ptd};
    ///
    /// // An image in NHWC memory, with the axes of NCHW.
    /// let image = Array4::<u8>::zeros((1, 2, 2, 3)).permuted_axes([0, 3, 1, 2]);
    /// let file = ptd::Options::new().keep_dim_order(true).to_vec(&Arrays(BTreeMap::from([("image", &image)])))?;
    /// let Arrays(read): Arrays<BTreeMap<String, Array4<u8>>> = ptd::from_slice(&file)?;
    /// assert_eq!(read["image"].strides(), image.strides());
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn keep_dim_order(mut self, keep: bool) -> Self {
        self.encode.keep_dim_order = keep;
        self
    }

    /// Stores equal bytes once, wherever they are in memory. This takes another pass over tensors of equal length.
    ///
    /// ```
    /// use tensorfile::{TensorMap, ptd};
    ///
    /// let zeros = ndarray::Array1::<f32>::zeros(1000);
    /// let map = TensorMap::from_iter([("a", zeros.clone()), ("b", zeros)]);
    /// let file = ptd::Options::new().dedup(true).to_vec(&map)?;
    /// assert_eq!(ptd::metadata(&file)?.segments, 1);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn dedup(mut self, dedup: bool) -> Self {
        self.encode.dedup = dedup;
        self
    }

    /// Describes the model, in [`Version::Dt01V2`].
    ///
    /// ```
    /// use tensorfile::{TensorMap, ptd};
    ///
    /// let llama = ptd::Compatibility { model_name: "llama".to_owned(), ..ptd::Compatibility::default() };
    /// let options = ptd::Options::new().version(ptd::Version::Dt01V2).compatibility(llama.clone());
    /// let file = options.to_vec(&TensorMap::from_iter([("a", ndarray::array![1.0_f32])]))?;
    /// assert_eq!(ptd::metadata(&file)?.compatibility, Some(llama));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn compatibility(mut self, compatibility: Compatibility) -> Self {
        self.encode.compatibility = Some(compatibility);
        self
    }
}
