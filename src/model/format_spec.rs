//! What a format can store, as data.

use std::fmt;

use crate::error::{ErrorKind, cannot_store};
use crate::tensor::{Dtype, Layout, TensorInfo, UnknownDtype};

/// What a format can store, and how its files are recognized.
///
/// A [`Format`](crate::Format) dereferences to it.
///
/// ```
/// use tensorfile::{Dtype, FORMATS};
///
/// let names: Vec<&str> = FORMATS.iter().filter(|format| format.sparse).map(|format| format.name).collect();
/// assert_eq!(names, ["btf"]);
/// assert!(FORMATS.iter().all(|format| format.dtypes.contains(&Dtype::F32)));
/// ```
#[derive(Clone, Copy)]
pub struct FormatSpec {
    /// The name. For formats of this crate it is the name of the module.
    pub name: &'static str,
    /// File name extensions, without the dot.
    pub extensions: &'static [&'static str],
    /// The supported dtypes.
    pub dtypes: &'static [Dtype],
    /// The highest rank, if there is one.
    pub max_rank: Option<usize>,
    /// The largest dim, if there is one.
    pub max_dim: Option<u64>,
    /// The longest name in bytes: 0 if no names are stored, `None` if names may have any length.
    ///
    /// Longer names can be embedded; see [`WriteOptions::embed_names`](crate::WriteOptions::embed_names).
    pub max_name: Option<usize>,
    /// The number of tensors in a file, if it is fixed.
    pub max_tensors: Option<usize>,
    /// Sparse tensors can be stored.
    pub sparse: bool,
    /// Blobs can be stored.
    pub blobs: bool,
    /// Files can be read, but not written. The remaining fields then describe reading.
    pub read_only: bool,
    /// The bytes at the beginning of files, any one of them.
    pub magics: &'static [Magic],
    /// Returns whether a file can store a metadata entry of a key.
    pub keeps_metadata: fn(&str) -> bool,
    /// Refuses names for any reason except their length.
    pub check_name: fn(&str) -> Result<(), ErrorKind>,
    /// The last tensor may be a list of names.
    pub embeds_names: bool,
    /// The only dtype of floats of rank 1 that the format's own software takes, if there is one.
    pub vector_dtype: Option<Dtype>,
    /// The name that marks unknown dtypes of this format, if it can write them back.
    pub(crate) unknown_dtypes: Option<&'static str>,
    /// The formats to use instead. This module cannot see the others.
    pub(crate) advice: FormatAdvice,
}

/// The ends of errors about what a format cannot store: the formats that can.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FormatAdvice {
    pub(crate) metadata: &'static str,
    pub(crate) sparse: &'static str,
    pub(crate) blobs: &'static str,
    /// For dtypes with as many elements in a block as those of ggml.
    pub(crate) blocks: &'static str,
}

impl FormatAdvice {
    /// For formats outside of this crate.
    const NONE: Self = Self { metadata: "", sparse: "", blobs: "", blocks: "" };
}

/// What to do about a dtype that a format does not store. The program and the Python package have another way.
const CAST_ADVICE: &str = "; `view::CastView` casts";

/// The number of elements in the shortest block of ggml.
const LEAST_BLOCK: usize = 32;

/// The magic bytes of a format.
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
    /// Returns whether `begin` starts with the magic.
    pub(crate) fn is_in(&self, begin: &[u8]) -> bool {
        begin.get(self.offset..).is_some_and(|begin| begin.starts_with(self.bytes))
    }
}

impl FormatSpec {
    /// A format of dense tensors with names of any length. Set fields of the result to change it.
    #[must_use]
    pub const fn new(name: &'static str, dtypes: &'static [Dtype]) -> Self {
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
            keeps_metadata: |_| false,
            check_name: |_| Ok(()),
            embeds_names: true,
            vector_dtype: None,
            unknown_dtypes: None,
            advice: FormatAdvice::NONE,
        }
    }

    /// The error for metadata that the format cannot store.
    pub(crate) fn no_place_for_metadata(&self, key: &str) -> ErrorKind {
        let what = format!("{} has no place for it{}", self.name, self.advice.metadata);
        ErrorKind::UnsupportedMetadata { key: key.to_owned(), what }
    }

    /// Returns whether `begin` starts with one of the magics.
    pub(crate) fn has_magic(&self, begin: &[u8]) -> bool {
        self.magics.iter().any(|magic| magic.is_in(begin))
    }

    /// Returns whether tensors of an unknown dtype can be stored: if they come from the same format, or if both formats
    /// are `npy` or `npz`.
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

    /// Returns the dtype to cast a tensor to if floats are to become `to`: another one for floats of rank 1 where the
    /// format's own software takes no others.
    ///
    /// ```
    /// # #[cfg(feature = "gguf")] {
    /// use tensorfile::{Dtype, TensorInfo, gguf, safetensors};
    ///
    /// // llama.cpp multiplies rows by norms of f32 only.
    /// let norm = TensorInfo::new(Dtype::F32, [64]);
    /// assert_eq!(gguf::FORMAT.usual_dtype(&norm, Dtype::F16), Dtype::F32);
    /// assert_eq!(safetensors::FORMAT.usual_dtype(&norm, Dtype::F16), Dtype::F16);
    /// # }
    /// ```
    #[must_use]
    pub fn usual_dtype(&self, info: &TensorInfo, to: Dtype) -> Dtype {
        let is_vector = info.shape.rank() == 1 && info.dtype.is_float() && to.is_float();
        self.vector_dtype.filter(|_| is_vector).unwrap_or(to)
    }

    /// Returns whether a tensor of this layout can be stored, as far as it is opaque: a blob, or of an unknown dtype.
    /// `true` for all other tensors.
    ///
    /// ```
    /// use tensorfile::{Layout, ptd, safetensors};
    ///
    /// assert!(ptd::FORMAT.stores_opaque(&Layout::Blob) && !safetensors::FORMAT.stores_opaque(&Layout::Blob));
    /// assert!(safetensors::FORMAT.stores_opaque(&Layout::RowMajor));
    /// ```
    #[must_use]
    pub fn stores_opaque(&self, layout: &Layout) -> bool {
        match layout {
            Layout::Unknown(dtype) => self.stores_unknown(dtype),
            Layout::Blob => self.blobs,
            _ => true,
        }
    }

    /// Returns whether a file can store a metadata entry with this key; see
    /// [`FileMetadata`](crate::model::FileMetadata).
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

    /// Refuses a tensor that the format cannot store under any name.
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
            _ if !self.dtypes.contains(&info.dtype) => return Err(self.cannot_store_dtype(info)),
            Layout::Coo { .. } if !self.sparse => {
                let instead = format!("{format} stores dense tensors{}", self.advice.sparse);
                return Err(cannot_store("a sparse tensor", instead));
            }
            Layout::Blob => {
                return Err(cannot_store("a blob", format!("{format} stores tensors{}", self.advice.blobs)));
            }
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

    #[cold]
    fn cannot_store_dtype(&self, info: &TensorInfo) -> ErrorKind {
        let dtypes: Vec<&str> = self.dtypes.iter().map(|dtype| dtype.name()).collect();
        let is_alike = |to: &Dtype| info.can_cast_to(*to) && to.is_float() == info.dtype.is_float();
        let advice = if self.dtypes.iter().any(is_alike) {
            CAST_ADVICE
        } else if info.dtype.block_elements() >= LEAST_BLOCK {
            self.advice.blocks
        } else {
            ""
        };
        cannot_store(info.dtype.name(), format!("{} stores {}{advice}", self.name, dtypes.join(", ")))
    }
}

impl fmt::Debug for FormatSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FormatSpec").field("name", &self.name).finish_non_exhaustive()
    }
}
