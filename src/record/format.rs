use std::fmt;
use std::sync::Arc;

use hashbrown::HashSet;
use indexmap::IndexMap;

use super::{
    COO_OF_TFRT, Encode, FileMetadata, IndexReader, MetadataChanges, ReadSingle, Rewritten, TypedEntry, cannot_store,
};
use crate::error::{Error, ErrorKind, Result, Warning, WarningKind};
use crate::limits::Limits;
use crate::storage::ReadAt;
use crate::tensor::{Dtype, Layout, TensorInfo, UnknownDtype};

/// A file format: its name, what it can store, and how to read and write it.
///
/// The formats of this crate are in [`FORMATS`](crate::FORMATS). A format of your own is a `static` made with
/// [`Format::new`], to be passed to [`OpenOptions::format`](crate::OpenOptions::format) and
/// [`SaveOptions::format`](crate::SaveOptions::format); `examples/own_format.rs` is one.
///
/// ```
/// use tensorfile::{Dtype, FORMATS, Format, TensorMap, WriteOptions};
///
/// let sparse: Vec<&str> = FORMATS.iter().filter(|format| format.sparse).map(|format| format.name).collect();
/// assert_eq!(sparse, ["btf"]);
///
/// let ten = Format::named("ten").expect("it is always there");
/// assert!(ten.dtypes.contains(&Dtype::F16) && ten.stores_name("weight") && !ten.stores_name("encoder.weight"));
/// let file = ten.to_vec(&TensorMap::from_iter([("weight", ndarray::array![1.0_f32])]), &WriteOptions::new())?;
/// # Ok::<(), tensorfile::Error>(())
/// ```
pub struct Format {
    /// The name. For formats of this crate it is that of the module.
    pub name: &'static str,
    /// File name extensions, without the dot.
    pub extensions: &'static [&'static str],
    /// The dtypes that it can store.
    pub dtypes: &'static [Dtype],
    /// The highest rank that it can store, if there is one.
    pub max_rank: Option<usize>,
    /// The largest dim that it can store, if there is one.
    pub max_dim: Option<u64>,
    /// The longest name in bytes: 0 if it stores no names, `None` if names may have any length.
    ///
    /// Longer names can be embedded; see [`WriteOptions::embed_names`].
    pub max_name: Option<usize>,
    /// The number of tensors in a file, if it is fixed.
    pub max_tensors: Option<usize>,
    /// Sparse tensors can be stored.
    pub sparse: bool,
    /// Blobs can be stored.
    pub blobs: bool,
    /// Files can be read, but not written. What the format can store is then what is read.
    pub read_only: bool,
    /// The bytes that files begin with, if they do; any one of them.
    pub magics: &'static [Magic],
    pub(crate) index_reader: fn() -> Box<dyn IndexReader>,
    pub(crate) encode: fn(&WriteOptions) -> Result<Arc<dyn Encode>>,
    pub(crate) metadata: fn(&mut dyn ReadAt, &Limits) -> Result<FileMetadata>,
    pub(crate) typed_metadata: Option<ReadTyped>,
    pub(crate) rewrite_metadata: Option<Rewrite>,
    pub(crate) keeps_metadata: fn(&str) -> bool,
    pub(crate) read_single: Option<ReadSingle>,
    pub(crate) looks_like: Option<fn(&mut dyn ReadAt) -> bool>,
    pub(crate) check_name: fn(&str) -> Result<(), ErrorKind>,
    /// The name under which unknown dtypes are remembered that can be written again.
    pub(crate) unknown_dtypes: Option<&'static str>,
    pub(crate) check_others: Option<CheckOthers>,
}

/// A format's function that reads metadata with its types.
pub(crate) type ReadTyped = fn(&mut dyn ReadAt, &Limits) -> Result<Vec<TypedEntry>>;

/// A format's function that compares the checksums of all that is not a tensor: what begins at other offsets than these.
pub(crate) type CheckOthers = fn(&mut dyn ReadAt, &Limits, &HashSet<u64>) -> Result<()>;

/// A format's function that makes a file with other metadata.
pub(crate) type Rewrite = fn(&mut dyn ReadAt, &Limits, &MetadataChanges) -> Result<Rewritten>;

/// Bytes that identify a format.
///
/// ```
/// use tensorfile::Format;
///
/// let ten = Format::named("ten").expect("it is always there");
/// assert_eq!((ten.magics[0].offset, ten.magics[0].bytes), (0, &b"~TenBin~"[..]));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Magic {
    /// The offset in the file.
    pub offset: usize,
    /// The bytes.
    pub bytes: &'static [u8],
}

impl Magic {
    /// Returns whether a file that begins with these bytes has the magic.
    pub(crate) fn is_in(&self, begin: &[u8]) -> bool {
        begin.get(self.offset..).is_some_and(|begin| begin.starts_with(self.bytes))
    }
}

impl Format {
    /// Returns whether a file that begins with these bytes has one of the magics.
    pub(crate) fn has_magic(&self, begin: &[u8]) -> bool {
        self.magics.iter().any(|magic| magic.is_in(begin))
    }

    /// A format that stores the given dtypes in dense tensors with names of any length. Set the fields of the result to
    /// change that.
    ///
    /// `index_reader` makes a reader of a file's index. `encode` makes a writer with the given options, and refuses
    /// those that the format does not have.
    #[must_use]
    pub const fn new(
        name: &'static str,
        dtypes: &'static [Dtype],
        index_reader: fn() -> Box<dyn IndexReader>,
        encode: fn(&WriteOptions) -> Result<Arc<dyn Encode>>,
    ) -> Self {
        Self {
            name,
            extensions: &[],
            dtypes,
            max_rank: None,
            max_dim: None,
            max_name: None,
            max_tensors: None,
            sparse: false,
            blobs: false,
            read_only: false,
            magics: &[],
            index_reader,
            encode,
            metadata: |_, _| {
                Ok(FileMetadata {
                    version: None,
                    entries: IndexMap::new(),
                    coo_layouts: Vec::new(),
                    warnings: Vec::new(),
                    typed: None,
                })
            },
            typed_metadata: None,
            rewrite_metadata: None,
            keeps_metadata: |_| false,
            read_single: None,
            looks_like: None,
            check_name: |_| Ok(()),
            unknown_dtypes: None,
            check_others: None,
        }
    }

    /// The same format with metadata: a function that reads it, and one that returns whether a key can be stored.
    #[must_use]
    pub const fn with_metadata(
        mut self,
        read: fn(&mut dyn ReadAt, &Limits) -> Result<FileMetadata>,
        keeps: fn(&str) -> bool,
    ) -> Self {
        self.metadata = read;
        self.keeps_metadata = keeps;
        self
    }

    /// The same format with a function that reads metadata with its types.
    #[cfg(feature = "gguf")]
    pub(crate) const fn with_typed_metadata(mut self, read: ReadTyped) -> Self {
        self.typed_metadata = Some(read);
        self
    }

    /// The same format with a function that makes a file with other metadata.
    #[cfg(any(feature = "gguf", feature = "safetensors", feature = "tensorbuffers"))]
    pub(crate) const fn with_metadata_edits(mut self, rewrite: Rewrite) -> Self {
        self.rewrite_metadata = Some(rewrite);
        self
    }

    /// The same format with a function that compares checksums of what is not a tensor.
    #[cfg(feature = "npz")]
    pub(crate) const fn with_checksums(mut self, check: CheckOthers) -> Self {
        self.check_others = Some(check);
        self
    }

    /// The same format with a function that reads a file of one tensor in one step.
    pub(crate) const fn with_single(mut self, read: ReadSingle) -> Self {
        self.read_single = Some(read);
        self
    }

    /// The same format with a function that recognizes files without a magic, or with a weak one.
    #[must_use]
    pub const fn with_detection(mut self, looks_like: fn(&mut dyn ReadAt) -> bool) -> Self {
        self.looks_like = Some(looks_like);
        self
    }

    /// The same format without the names that a function refuses, for a reason other than their length.
    #[must_use]
    pub const fn with_name_check(mut self, check: fn(&str) -> Result<(), ErrorKind>) -> Self {
        self.check_name = check;
        self
    }

    /// The same format, which writes unknown dtypes as they were read. `name` is that of the format, or one that it shares
    /// with another format that has the same dtypes.
    pub(crate) const fn with_unknown_dtypes(mut self, name: &'static str) -> Self {
        self.unknown_dtypes = Some(name);
        self
    }

    /// Returns whether tensors of a dtype that this crate does not know can be stored: if they come from a file of the same
    /// format, or from `npy` and `npz` one from the other.
    ///
    /// ```
    /// use tensorfile::{File, Format, Layout, btf, ten};
    ///
    /// let file = ten::to_vec(&[tensorfile::TensorView::from_slice(&[1.0_f32], [1])?])?;
    /// let at = file.windows(2).position(|dtype| dtype == b"f4").expect("the dtype is there");
    /// let file = File::from_bytes([&file[..at], b"e4", &file[at + 2..]].concat())?;
    /// let tensor = file.nth(0).expect("there is a tensor");
    /// let Layout::Unknown(dtype) = tensor.layout() else { panic!("e4 is not known") };
    /// assert!(ten::FORMAT.stores_unknown(dtype) && !btf::FORMAT.stores_unknown(dtype));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn stores_unknown(&self, dtype: &UnknownDtype) -> bool {
        self.unknown_dtypes.is_some_and(|name| dtype.stored_in(name).is_some())
    }

    /// Returns whether a file can store a metadata entry of that key; see [`FileMetadata`].
    ///
    /// ```
    /// use tensorfile::{safetensors, ten};
    ///
    /// assert!(safetensors::FORMAT.keeps_metadata("format"));
    /// assert!(!ten::FORMAT.keeps_metadata("format"));
    /// ```
    #[must_use]
    pub fn keeps_metadata(&self, key: &str) -> bool {
        (self.keeps_metadata)(key)
    }

    /// Returns whether the metadata of a file can be changed by a [`MetadataEdit`](crate::MetadataEdit).
    ///
    /// ```
    /// use tensorfile::{safetensors, ten};
    ///
    /// assert!(safetensors::FORMAT.edits_metadata());
    /// assert!(!ten::FORMAT.edits_metadata());
    /// ```
    #[must_use]
    pub fn edits_metadata(&self) -> bool {
        self.rewrite_metadata.is_some()
    }

    /// Returns whether a tensor's name can be stored, if it is not just a position.
    ///
    /// ```
    /// use tensorfile::Format;
    ///
    /// let ten = Format::named("ten").expect("it is always there");
    /// assert!(ten.stores_name("weight"));
    /// assert!(!ten.stores_name("encoder.weight"));
    /// ```
    #[must_use]
    pub fn stores_name(&self, name: &str) -> bool {
        self.has_room_for(name) && (self.check_name)(name).is_ok()
    }

    /// Returns whether a name is short enough, so that it need not be embedded. Room for no bytes is no room for an empty
    /// name, and in other formats an empty name may mean none.
    pub(crate) fn has_room_for(&self, name: &str) -> bool {
        let Some(most) = self.max_name else { return true };
        // A name can be stored in fewer bytes than it has here.
        let stored = || (self.encode)(&WriteOptions::new()).is_ok_and(|encode| encode.name_bytes(name) <= most);
        match name.len() {
            0 => most > 0 && (self.check_name)("").is_ok(),
            len => len <= most || most > 0 && stored(),
        }
    }

    /// Refuses a tensor that the format cannot store, whatever its name.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`].
    pub(crate) fn check(&self, info: &TensorInfo) -> Result<(), ErrorKind> {
        let format = self.name;
        match &info.layout {
            Layout::Blob if self.blobs => {}
            Layout::Unknown(dtype) if self.stores_unknown(dtype) => {}
            Layout::Unknown(_) => return Err(cannot_store(info.to_string(), "leave the tensor out")),
            _ if !self.dtypes.contains(&info.dtype) => {
                let dtypes: Vec<&str> = self.dtypes.iter().map(|dtype| dtype.name()).collect();
                return Err(cannot_store(info.dtype.name(), format!("{format} stores {}", dtypes.join(", "))));
            }
            Layout::Coo { .. } if !self.sparse => {
                return Err(cannot_store("a sparse tensor", format!("{format} stores dense tensors")));
            }
            Layout::Blob => return Err(cannot_store("a blob", format!("{format} stores tensors"))),
            _ => {}
        }
        info.check_blocks().map_err(ErrorKind::InvalidTensor)?;
        let rank = info.shape.rank();
        if let Some(most) = self.max_rank.filter(|most| rank > *most) {
            return Err(cannot_store(format!("rank {rank}"), format!("{format} stores ranks up to {most}")));
        }
        if let Some(most) = self.max_dim
            && info.layout != Layout::Blob
            && let Some(dim) = info.shape.iter().find(|dim| **dim as u64 > most)
        {
            let bits = 64 - most.leading_zeros();
            return Err(cannot_store(format!("a dim of {dim}"), format!("{format} stores dims below 2^{bits}")));
        }
        Ok(())
    }

    /// Refuses a name that the format cannot store.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`].
    #[inline]
    pub(crate) fn check_stored_name(&self, name: &str, encode: &dyn Encode) -> Result<(), ErrorKind> {
        if let Some(most) = self.max_name.filter(|most| name.len() > *most) {
            let (bytes, longest) = (encode.name_bytes(name), encode.longest_name().unwrap_or(most));
            if bytes > longest {
                return Err(self.name_too_long(bytes, longest, encode.longer_names()));
            }
        }
        (self.check_name)(name)
    }

    #[cold]
    fn name_too_long(&self, bytes: usize, most: usize, longer: Option<usize>) -> ErrorKind {
        let way_out = match longer.filter(|longer| bytes <= *longer) {
            Some(longer) => format!(", or allow long names, of up to {longer}"),
            // The list of embedded names is a tensor of `u8`.
            None if self.dtypes.contains(&Dtype::U8) => ", or embed the names".to_owned(),
            None => String::new(),
        };
        let instead = format!("{} stores up to {most}; rename the tensor{way_out}", self.name);
        cannot_store(format!("a name of {bytes} bytes"), instead)
    }
}

/// Returns the dtypes of a format's table of tags. `N` is the length of the table.
pub(crate) const fn dtypes<T, const N: usize>(tags: &[(T, Dtype)]) -> [Dtype; N] {
    let mut dtypes = [Dtype::U8; N];
    let mut at = 0;
    while at < N {
        dtypes[at] = tags[at].1;
        at += 1;
    }
    dtypes
}

/// Returns the tag of each dtype that a format's table of tags has.
pub(crate) const fn tags_of<T: Copy>(tags: &[(T, Dtype)]) -> [Option<T>; Dtype::ALL.len()] {
    let mut of = [None; Dtype::ALL.len()];
    let mut at = 0;
    while at < tags.len() {
        of[tags[at].1 as usize] = Some(tags[at].0);
        at += 1;
    }
    of
}

/// Appends dims as `u64`.
pub(crate) fn put_dims(dims: &[usize], out: &mut Vec<u8>) {
    const AT_ONCE: usize = 4;

    for dims in dims.chunks(AT_ONCE) {
        let mut bytes = [[0; 8]; AT_ONCE];
        bytes.iter_mut().zip(dims).for_each(|(bytes, dim)| *bytes = (*dim as u64).to_le_bytes());
        out.extend_from_slice(bytes[..dims.len()].as_flattened());
    }
}

/// Returns a warning about the bytes between the end of what a file uses and its own end.
pub(crate) fn trailing_bytes(end: u64, len: Option<u64>) -> Option<Warning> {
    let bytes = len?.checked_sub(end).filter(|bytes| *bytes > 0)?;
    let noun = if bytes == 1 { "byte" } else { "bytes" };
    let text = format!("{bytes} {noun} at the end, from byte {end} on, belong to no tensor");
    Some(Warning::new(WarningKind::TrailingBytes, text).at(end))
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Format").field("name", &self.name).finish_non_exhaustive()
    }
}

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
    /// Write all names into one more tensor, if the format has no room for names of any length but for a tensor of `u8` more:
    /// btf and ten. npy then refuses a tensor with a name. Default: `false`.
    pub embed_names: bool,
    /// Store dense tensors in the order of their memory, such as NHWC, if the format can. Default: `false`, in row-major
    /// order.
    pub keep_dim_order: bool,
    /// Write sparse tensors with the layout number of TFRT's code, 1, instead of the specification's, 2. Only BTF has sparse
    /// tensors. Default: `false`; [`FileMetadata::coo_layouts`] states what a file has.
    pub tfrt_coo: bool,
    /// The alignment of payloads in the file, in bytes. Default: that of the format.
    pub alignment: Option<u64>,
    /// Write GGUF names of 64 to 127 bytes, which only builds of ggml with a higher limit read. Default: `false`.
    pub long_names: bool,
    /// Metadata to write; see [`FileMetadata::entries`]. Default: none.
    pub metadata: IndexMap<String, String>,
    /// The types of entries of other files.
    pub(crate) typed: Vec<Arc<Vec<TypedEntry>>>,
}

impl WriteOptions {
    /// The defaults: names as the format stores them, row-major order, its own alignment, no metadata.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether to write all names into one more tensor. It is the last one: a ten file that is cut right before it reads
    /// as one without names.
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
        self.embed_names = embed;
        self
    }

    /// Sets whether to store dense tensors in the order of their memory, in formats that state the order.
    #[must_use]
    pub fn keep_dim_order(mut self, keep: bool) -> Self {
        self.keep_dim_order = keep;
        self
    }

    /// Sets whether to write sparse tensors with the layout number of TFRT's code.
    #[must_use]
    pub fn tfrt_coo(mut self, tfrt: bool) -> Self {
        self.tfrt_coo = tfrt;
        self
    }

    /// Sets whether to write GGUF names of 64 to 127 bytes; see [`gguf::Options::long_names`](crate::gguf::Options::long_names).
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
    /// [`keep_metadata`](Self::keep_metadata) also keeps the types that entries have in a file.
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

    /// Adds the metadata of a file. Of two entries with the same key, the first one stays.
    ///
    /// Between two BTF files, sparse tensors keep their layout number: see [`tfrt_coo`](Self::tfrt_coo).
    ///
    /// Between two GGUF files, entries keep their types; formats without types get them as text. The field
    /// [`metadata`](field@Self::metadata) may then be changed: entries that differ from the file are text.
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
        for (key, value) in &file.entries {
            self.metadata.entry(key.clone()).or_insert_with(|| value.clone());
        }
        self.typed.extend(file.typed.clone());
        self.tfrt_coo |= file.coo_layouts.contains(&COO_OF_TFRT);
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

    /// Refuses an alignment that is not that of the format, which always aligns to `own` bytes and so to their divisors.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] if another alignment is set.
    pub fn only_alignment(&self, format: &Format, own: u64) -> Result<&Self> {
        match self.alignment {
            Some(bytes) if bytes > 0 && own.is_multiple_of(bytes) => Ok(self),
            _ => self.without_alignment(format, &format!("{own} bytes")),
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

fn unsupported(what: String, instead: String) -> Error {
    ErrorKind::Unsupported { what, instead }.into()
}
