//! Options for tensorbuffers files.

use std::path::Path;

use serde::Serialize;

use super::ser::Encode;
use super::{Metadata, Operation, append};
use crate::error::Result;
use crate::format;
use crate::serde::SerdeValue;

/// Options for reading and writing TensorBuffers files.
///
/// ```
/// use std::collections::BTreeMap;
/// use tensorfile::{TensorView, tensorbuffers};
///
/// let bias = TensorView::from_slice(&[0.5_f32], [1])?;
/// let file = tensorbuffers::Options::new().alignment(1).to_vec(&BTreeMap::from([("bias", bias)]))?;
/// assert_eq!(file[4..8], 0.5_f32.to_le_bytes());
/// # Ok::<(), tensorfile::Error>(())
/// ```
pub type Options = format::Options<Encode>;

impl Options {
    /// Aligns tensors and the metadata to a number of bytes, a power of two. Default: 64.
    ///
    /// With 1 tensors are packed, as the reference packs them. Most of them then cannot be borrowed from the file, as
    /// their elements are not aligned.
    ///
    /// ```
    /// use tensorfile::{File, TensorMap, tensorbuffers};
    ///
    /// let map = TensorMap::from_iter([("a", ndarray::array![1.0_f32]), ("b", ndarray::array![2.0])]);
    /// let packed = File::from_bytes(tensorbuffers::Options::new().alignment(1).to_vec(&map)?)?;
    /// let mut starts: Vec<u64> = packed.tensors().map(|tensor| tensor.range().start).collect();
    /// starts.sort_unstable();
    /// assert_eq!(starts, [4, 8]);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn alignment(mut self, bytes: u64) -> Self {
        self.encode.alignment = bytes;
        self
    }

    /// Sets the name of the model. Default: none, or the one in the file to append to.
    ///
    /// ```
    /// use tensorfile::{TensorMap, tensorbuffers};
    ///
    /// let file = tensorbuffers::Options::new().model("MiniLM").to_vec(&TensorMap::new())?;
    /// assert_eq!(tensorbuffers::metadata(&file)?.model.as_deref(), Some("MiniLM"));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.encode.model = Some(model.into());
        self
    }

    /// Sets the graph of operations. Default: none, or the one in the file to append to.
    ///
    /// It is written sorted by id, because the reference looks operations up by id.
    #[must_use]
    pub fn operations(mut self, operations: impl Into<Vec<Operation>>) -> Self {
        self.encode.operations = Some(operations.into());
        self
    }

    /// Takes the model and the operations from another file, so that reading and writing a file keeps them.
    ///
    /// ```
    /// use tensorfile::{TensorMap, tensorbuffers};
    ///
    /// let file = tensorbuffers::Options::new().model("MiniLM").to_vec(&TensorMap::new())?;
    /// let map: TensorMap = tensorbuffers::from_slice(&file)?;
    /// let options = tensorbuffers::Options::new().keep(&tensorbuffers::metadata(&file)?);
    /// assert_eq!(options.to_vec(&map)?, file);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn keep(mut self, metadata: &Metadata) -> Self {
        self.encode.model.clone_from(&metadata.model);
        self.operations(metadata.operations.clone())
    }

    /// As [`append`](fn@append), with these options.
    ///
    /// ```
    /// use tensorfile::{TensorMap, tensorbuffers};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.tbs");
    /// tensorfile::save(&path, &TensorMap::from_iter([("a", ndarray::array![1.0_f32])]))?;
    /// let named = tensorbuffers::Options::new().model("MiniLM");
    /// named.append(&path, &TensorMap::from_iter([("b", ndarray::array![2.0_f32])]))?;
    /// assert_eq!(tensorfile::load::<TensorMap>(&path)?.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`append`](fn@append).
    pub fn append<T: Serialize + ?Sized>(&self, path: impl AsRef<Path>, value: &T) -> Result<()> {
        append::append(path.as_ref(), &SerdeValue(value), &self.encode, &self.limits)
    }
}
