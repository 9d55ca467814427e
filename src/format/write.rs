use indexmap::IndexMap;

use crate::error::{ErrorKind, Result};

/// How a collection is written, in words that all formats share.
///
/// What a format has besides is in the `Options` of its module.
///
/// ```
/// use tensorfile::{Format, Tensor, TensorMap, WriteOptions};
///
/// let map: TensorMap = [("encoder.weight", Tensor::from_slice(&[1.0_f32, 2.0], [2])?)].into_iter().collect();
/// let btf = Format::named("btf").expect("it is always there");
/// let mut file = Vec::new();
/// btf.to_writer(&mut file, &map, &WriteOptions::new().embed_names(true))?;
/// assert_eq!(btf.from_slice(&file)?, map);
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriteOptions {
    pub(crate) embed_names: bool,
    pub(crate) alignment: Option<u64>,
    pub(crate) metadata: IndexMap<String, String>,
}

impl WriteOptions {
    /// The defaults: names as the format stores them, its own alignment, no metadata.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether to write all names into one more tensor, where the format has no room for names of any length.
    #[must_use]
    pub fn embed_names(mut self, embed: bool) -> Self {
        self.embed_names = embed;
        self
    }

    /// What payloads are aligned to in the file, in bytes.
    #[must_use]
    pub fn alignment(mut self, bytes: u64) -> Self {
        self.alignment = Some(bytes);
        self
    }

    /// What to say besides the tensors; see [`FileMetadata::entries`](super::FileMetadata::entries).
    #[must_use]
    pub fn metadata(mut self, entries: IndexMap<String, String>) -> Self {
        self.metadata = entries;
        self
    }

    /// Whether tensors keep their names in such a file.
    #[cfg(feature = "shards")]
    pub(crate) fn stores_names(&self, format: &super::Format) -> bool {
        self.embed_names || format.max_name != Some(0)
    }

    /// Refuses an alignment, for a format that has only its own.
    pub(crate) fn without_alignment(&self, format: &str, own: &str) -> Result<&Self> {
        match self.alignment {
            Some(bytes) => Err(unsupported(format!("align to {bytes} bytes"), format!("{format} aligns to {own}"))),
            None => Ok(self),
        }
    }

    /// Refuses metadata that the format cannot keep.
    pub(crate) fn only_metadata(&self, format: &str, keeps: fn(&str) -> bool) -> Result<&Self> {
        match self.metadata.keys().find(|key| !keeps(key)) {
            Some(key) => {
                Err(unsupported(format!("keep the metadata `{key}`"), format!("{format} has no place for it")))
            }
            None => Ok(self),
        }
    }
}

fn unsupported(what: String, instead: String) -> crate::error::Error {
    ErrorKind::Unsupported { what, instead }.into()
}
