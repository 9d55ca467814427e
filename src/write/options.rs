//! Write options shared by all formats.

use std::sync::Arc;

use indexmap::IndexMap;

use crate::error::{Error, ErrorKind, Result};
use crate::model::{COO_OF_TFRT, FileMetadata, FormatSpec, SavedValues, TypedEntry, describes_layout};

/// Write options shared by all formats. Options of a single format are in the `Options` of its module.
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
    /// Write all names into an extra tensor, in formats with no other room for names of any length: btf and ten. npy
    /// then refuses a tensor with a name. Default: where needed for a file saved by
    /// [`SaveOptions`](crate::SaveOptions), and never for [`Format::to_vec`](crate::Format::to_vec) and the like.
    pub embed_names: Option<bool>,
    /// Store dense tensors in the order of their memory, such as NHWC, if the format can. Default: `false`, in
    /// row-major order.
    pub keep_dim_order: bool,
    /// Write tensors in the order of the value, even where a format sorts them; see
    /// [`safetensors::Options::keep_order`](crate::safetensors::Options::keep_order). Default: `false`.
    pub keep_order: bool,
    /// Write sparse tensors with the layout number of TFRT's code, 1, instead of the specification's, 2. Only BTF has
    /// sparse tensors. Default: `false`; [`FileMetadata::coo_layouts`] states what a file has.
    pub tfrt_coo: bool,
    /// The alignment of payloads in the file, in bytes. Default: the format's own.
    pub alignment: Option<u64>,
    /// Write GGUF names of 64 to 127 bytes. Only builds of ggml with a raised limit read them. Default: `false`.
    pub long_names: bool,
    /// Metadata to write; see [`FileMetadata::entries`]. Default: none.
    pub metadata: IndexMap<String, String>,
    /// Write `"__metadata__": {}` into a safetensors file without metadata, which its own software tells from a file
    /// that does not speak of it. Default: `false`; [`FileMetadata::has_no_entries`] states what a file has.
    pub empty_metadata: bool,
    /// Entry types copied from source files.
    pub(crate) typed: Vec<Arc<Vec<TypedEntry>>>,
    /// What the folders of trainers have besides tensors.
    pub(crate) saved: Vec<Arc<SavedValues>>,
}

impl WriteOptions {
    /// The defaults: names as the format stores them, row-major order, its own alignment, no metadata.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether to write all names into an extra tensor. It is the last one, so a ten file cut right before it
    /// reads as a file without names.
    ///
    /// ```
    /// use tensorfile::{TensorMap, WriteOptions, btf};
    ///
    /// let map = TensorMap::from_iter([("weight", ndarray::array![1.0_f32])]);
    /// let file = btf::FORMAT.to_vec(&map, &WriteOptions::new().embed_names(true))?;
    /// assert!(btf::from_slice::<TensorMap>(&file)?.contains("weight"));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn embed_names(mut self, embed: bool) -> Self {
        self.embed_names = Some(embed);
        self
    }

    pub(crate) fn embeds_names(&self) -> bool {
        self.embed_names.unwrap_or(false)
    }

    /// Sets whether to store dense tensors in memory order, in formats with a field for the dim order.
    #[must_use]
    pub fn keep_dim_order(mut self, keep: bool) -> Self {
        self.keep_dim_order = keep;
        self
    }

    /// Sets whether to write tensors in the order of the value, even where a format sorts them.
    #[must_use]
    pub fn keep_order(mut self, keep: bool) -> Self {
        self.keep_order = keep;
        self
    }

    /// Sets whether to write sparse tensors with the layout number of TFRT's code.
    #[must_use]
    pub fn tfrt_coo(mut self, tfrt: bool) -> Self {
        self.tfrt_coo = tfrt;
        self
    }

    /// Sets whether to write GGUF names of 64 to 127 bytes; see
    /// [`gguf::Options::long_names`](crate::gguf::Options::long_names).
    #[must_use]
    pub fn long_names(mut self, long: bool) -> Self {
        self.long_names = long;
        self
    }

    /// Sets the alignment of payloads in the file, in bytes.
    ///
    /// ```
    /// use tensorfile::{File, TensorMap, WriteOptions, ptd, ten};
    ///
    /// let map = TensorMap::from_iter([("weight", ndarray::array![1.0_f32])]);
    /// let options = WriteOptions::new().alignment(4096);
    /// let file = File::from_bytes(ptd::FORMAT.to_vec(&map, &options)?)?;
    /// assert_eq!(file.get("weight")?.range().start % 4096, 0);
    /// assert!(ten::FORMAT.to_vec(&map, &options).is_err());       // the format has its own
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn alignment(mut self, bytes: u64) -> Self {
        self.alignment = Some(bytes);
        self
    }

    /// Sets the metadata to write. A field of the value with `#[tensor(metadata)]` replaces an entry of the same key.
    ///
    /// [`keep_metadata`](Self::keep_metadata) also keeps the types of entries.
    ///
    /// ```
    /// use tensorfile::{File, TensorMap, WriteOptions, safetensors};
    ///
    /// // Keeps the metadata of a file that is written again.
    /// let old = safetensors::Options::new().metadata("format", "pt").to_vec(&TensorMap::new())?;
    /// let old = File::from_bytes(old)?;
    /// let options = WriteOptions::new().metadata(old.metadata()?.entries);
    /// let new = safetensors::FORMAT.to_vec(&old, &options)?;
    /// assert_eq!(safetensors::metadata(&new)?["format"], "pt");
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn metadata(mut self, entries: IndexMap<String, String>) -> Self {
        self.metadata = entries;
        self
    }

    /// Sets whether to write `"__metadata__": {}` into a safetensors file without metadata.
    ///
    /// ```
    /// use tensorfile::{TensorMap, WriteOptions, safetensors};
    ///
    /// let file = safetensors::FORMAT.to_vec(&TensorMap::new(), &WriteOptions::new().empty_metadata(true))?;
    /// assert!(file[8..].starts_with(br#"{"__metadata__":{}}"#));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn empty_metadata(mut self, empty: bool) -> Self {
        self.empty_metadata = empty;
        self
    }

    /// Adds the metadata of a file. Of two entries with the same key, the first one stays.
    ///
    /// Entries that describe the layout of that file are left out: see
    /// [`describes_layout`](crate::model::describes_layout).
    ///
    /// Between two BTF files, sparse tensors keep their layout number: see [`tfrt_coo`](Self::tfrt_coo).
    ///
    /// Between two GGUF files, entries keep their types; formats without types get them as text. The field
    /// [`metadata`](field@Self::metadata) may be changed afterwards: changed entries are written as text.
    ///
    /// ```
    /// use tensorfile::{File, TensorFile, TensorMap, WriteOptions, gguf};
    ///
    /// #[derive(TensorFile)]
    /// struct Settings {
    ///     #[tensor(metadata)]
    ///     epochs: u32,
    /// }
    ///
    /// let old = gguf::to_vec(&Settings { epochs: 3 })?;
    /// let file = File::from_bytes(old.clone())?;
    /// let new = gguf::FORMAT.to_vec(&file, &WriteOptions::new().keep_metadata(&file.metadata()?))?;
    /// assert_eq!(new, old);       // still a number, not a string
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn keep_metadata(mut self, file: &FileMetadata) -> Self {
        for (key, value) in file.entries.iter().filter(|(key, _)| !describes_layout(key)) {
            self.metadata.entry(key.clone()).or_insert_with(|| value.clone());
        }
        self.typed.extend(file.typed.clone());
        self.saved.extend(file.saved.clone());
        self.empty_metadata |= file.has_no_entries;
        self.tfrt_coo |= file.coo_layouts.contains(&COO_OF_TFRT);
        self
    }

    /// Refuses an alignment, for a format with a fixed alignment, described by `own`, such as "8 bytes".
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] if an alignment is set.
    pub fn without_alignment(&self, format: &FormatSpec, own: &str) -> Result<&Self> {
        match self.alignment {
            Some(bytes) => {
                Err(unsupported(format!("align to {bytes} bytes"), format!("{} aligns to {own}", format.name)))
            }
            None => Ok(self),
        }
    }

    /// Refuses an alignment unless it divides `own`, the fixed alignment of the format.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] if another alignment is set.
    pub fn only_alignment(&self, format: &FormatSpec, own: u64) -> Result<&Self> {
        match self.alignment {
            Some(bytes) if bytes > 0 && own.is_multiple_of(bytes) => Ok(self),
            _ => self.without_alignment(format, &format!("{own} bytes")),
        }
    }

    /// Refuses metadata if the format cannot store it, by
    /// [`FormatSpec::keeps_metadata`](crate::format::FormatSpec::keeps_metadata).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`], with the first such key.
    pub fn only_metadata(&self, format: &FormatSpec) -> Result<&Self> {
        match self.metadata.keys().find(|key| !format.keeps_metadata(key)) {
            Some(key) => {
                Err(unsupported(format!("keep the metadata `{key}`"), format!("{} has no place for it", format.name)))
            }
            None => Ok(self),
        }
    }
}

fn unsupported(what: String, instead: String) -> Error {
    ErrorKind::Unsupported { what, instead }.into()
}
