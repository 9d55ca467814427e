use indexmap::IndexMap;

use super::Format;
use crate::error::{ErrorKind, Result};

/// Options for writing that all formats share. Others are in the `Options` of a format's module.
///
/// ```
/// use tensorfile::{Format, Tensor, TensorMap, WriteOptions};
///
/// let map: TensorMap = [("encoder.weight", Tensor::from_slice(&[1.0_f32, 2.0], [2])?)].into_iter().collect();
/// let btf = Format::named("btf").expect("the format is always there");
/// let mut file = Vec::new();
/// btf.to_writer(&mut file, &map, &WriteOptions::new().embed_names(true))?;
/// assert_eq!(btf.from_slice(&file)?, map);
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteOptions {
    /// Write all names into one more tensor, if the format has no room for names of any length. Default: `false`.
    pub embed_names: bool,
    /// The alignment of payloads in the file, in bytes. Default: that of the format.
    pub alignment: Option<u64>,
    /// Metadata to write; see [`FileMetadata::entries`](super::FileMetadata::entries). Default: none.
    pub metadata: IndexMap<String, String>,
}

impl WriteOptions {
    /// The defaults: names as the format stores them, its own alignment, no metadata.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether to write all names into one more tensor.
    #[must_use]
    pub fn embed_names(mut self, embed: bool) -> Self {
        self.embed_names = embed;
        self
    }

    /// Sets the alignment of payloads in the file, in bytes.
    #[must_use]
    pub fn alignment(mut self, bytes: u64) -> Self {
        self.alignment = Some(bytes);
        self
    }

    /// Sets the metadata to write.
    #[must_use]
    pub fn metadata(mut self, entries: IndexMap<String, String>) -> Self {
        self.metadata = entries;
        self
    }

    /// Refuses an alignment, for a format that always aligns to `own`, such as "8 bytes".
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] if an alignment is set.
    pub fn without_alignment(&self, format: &Format, own: &str) -> Result<&Self> {
        match self.alignment {
            Some(bytes) => {
                Err(unsupported(format!("align to {bytes} bytes"), format!("{} aligns to {own}", format.name)))
            }
            None => Ok(self),
        }
    }

    /// Refuses metadata that the format cannot store, by [`Format::keeps_metadata`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`], with the first such key.
    pub fn only_metadata(&self, format: &Format) -> Result<&Self> {
        match self.metadata.keys().find(|key| !format.keeps_metadata(key)) {
            Some(key) => {
                Err(unsupported(format!("keep the metadata `{key}`"), format!("{} has no place for it", format.name)))
            }
            None => Ok(self),
        }
    }
}

fn unsupported(what: String, instead: String) -> crate::error::Error {
    ErrorKind::Unsupported { what, instead }.into()
}
