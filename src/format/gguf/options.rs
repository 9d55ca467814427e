use super::metadata::TypedValue;
use super::ser::Encode;
use crate::format;

/// Options for reading and writing GGUF files.
///
/// ```
/// use std::collections::BTreeMap;
/// use tensorfile::{TensorView, gguf};
///
/// let bias = TensorView::from_slice(&[0.5_f32], [1])?;
/// let options = gguf::Options::new().metadata("general.name", "tiny").alignment(64);
/// let file = options.to_vec(&BTreeMap::from([("bias", bias)]))?;
/// assert_eq!(gguf::metadata(&file)?["general.name"], "tiny");
/// # Ok::<(), tensorfile::Error>(())
/// ```
pub type Options = format::Options<Encode>;

impl Options {
    /// Adds a string to the metadata, or replaces the entry with this key.
    ///
    /// A key has 1 to 65535 bytes of ASCII. `general.alignment` is not written as a string, but sets the alignment.
    #[must_use]
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.encode.metadata.insert(key.into(), TypedValue::text(&value.into()));
        self
    }

    /// Sets the alignment of payloads in the file, in bytes: a power of two below 2³². Default: 32.
    #[must_use]
    pub fn alignment(mut self, bytes: u64) -> Self {
        self.encode.alignment = Some(bytes);
        self
    }

    /// Sets whether names of 64 to 127 bytes are written too. Only builds of ggml with a raised limit read them, such
    /// as stable-diffusion.cpp. Default: `false`, and a name longer than 63 bytes is an error.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    /// use tensorfile::{TensorView, gguf};
    ///
    /// let tensors = BTreeMap::from([("n".repeat(77), TensorView::from_slice(&[1.0_f32], [1])?)]);
    /// assert!(gguf::to_vec(&tensors).is_err());
    /// let file = gguf::Options::new().long_names(true).to_vec(&tensors)?;
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn long_names(mut self, long: bool) -> Self {
        self.encode.long_names = long;
        self
    }
}
