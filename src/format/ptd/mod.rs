//! ExecuTorch data files (`.ptd`): named tensors and blobs behind a FlatBuffers index, some of them sharing their
//! bytes.
//!
//! ```text
//! root offset: u32 | "FT01" | header | rest of the flatbuffer | 0… | segment | 0… | segment…
//! header = "FH01" | 40: u32 | header and padding: u64 | flatbuffer: u64 | segments begin: u64 | segments: u64 | 0 up to 48
//! ```
//!
//! All numbers are little-endian. The flatbuffer is finished first, then the header is put into it behind the
//! identifier, and the root offset moved by as much. The index names tensors, with scalar type, sizes and dim order,
//! and blobs, without; each lies in a segment. Segments lie at multiples of 128, or what [`Options::alignment`] says.
//!
//! # Specification
//!
//! ExecuTorch's `extension/flat_tensor/serialize/flat_tensor.fbs`, its `flat_tensor_header.h` and `serialize.py`.
//! Before it came the RFC "Schema for data-only file", with the identifier `DT01`. There are four generations, all of
//! which are read; [`Options::version`] chooses the one to write:
//!
//! | [`Version`] | |
//! | --- | --- |
//! | `Ft01` | What ExecuTorch writes since 0.7: each tensor is a segment. |
//! | `EarlyFt01` | What 0.5 and 0.6 wrote: tensors lie at offsets in segments. Read only. It has the same identifier and version number, but a root table with more fields. |
//! | `Dt01V1`, `Dt01V2` | The RFC's two versions. A segment holds any number of tensors; see [`Segments`]. |
//!
//! # Sharing
//!
//! Several names may have one segment, as tied weights do. A [`TensorMap`](crate::TensorMap) read from memory keeps
//! that, and so do views. On write, tensors whose bytes are the same memory are stored once, such as clones of an
//! `ArcArray`; so is one that says `#[tensor(tied = "embed.weight")]`, and, with [`Options::dedup`], any whose
//! bytes are equal. Bytes are always compared before they are shared.
//!
//! # Memory order
//!
//! The index tells in which order dims lie in memory. Arrays and views read from a file have the strides that this
//! makes, without a copy. Arrays are written in row-major order, or with [`Options::keep_dim_order`] in that of their
//! memory, such as NHWC.
//!
//! # Deviations
//!
//! - No released software writes `DT01`, so its frame is ours: that of `.pte` files, to which the RFC refers. Its
//!   header is `"eh00"`, the length 32, and as u64 the flatbuffer's size with the header, where the segments begin and
//!   how long they are. A header of 24 bytes, without the last, is read too.
//! - ExecuTorch compares neither a layout with its segment nor a dim order with the rank. Both are checked, and so are
//!   segments that leave the file, overlap without being the same, or lie in the index.
//! - Of two entries of one name ExecuTorch's C++ takes the first, its Python the last. That is an error.
//! - With a segment alignment of 128, ExecuTorch 0.6 and 0.7 say that the segments begin behind the data. Such a file
//!   is refused, in these words.
//! - ExecuTorch crashes where sizes, dim orders or a list is missing. They are always written, and where one is missing
//!   it is read as empty.
//! - Flatbuffers that are not aligned in the file, as the C++ writer makes them for odd alignments, are read.
//!
//! # Limits
//!
//! Dims are below 2³¹, ranks up to 255, the index is below 2³¹ bytes. Sparse tensors cannot be stored, blobs only in
//! `FT01`. The elements of packed dtypes, such as `quint4x2`, are whole bytes, as ExecuTorch counts them.
//! [`from_reader`] holds the file in memory where its tensors are not in the order of its index, or share bytes, and
//! then copies shared ones apart.

mod de;
mod entries;
mod header;
mod metadata;
mod schema;
mod ser;

#[doc(hidden)]
pub use self::de::Walk;
pub(super) use self::entries::options;
pub use self::header::DTYPES;
pub use self::metadata::{Compatibility, Metadata, Version};
#[doc(hidden)]
pub use self::ser::Encode;
use super::{Format, Magic, face, functions};
use crate::error::Result;
use crate::limits::Limits;
use crate::source::Slice;
use crate::wire::Walk as _;

/// The format in [`FORMATS`](crate::FORMATS).
pub(super) const FORMAT: Format = Format {
    name: "ptd",
    extensions: &["ptd"],
    dtypes: DTYPES,
    max_rank: Some(ser::MAX_RANK),
    max_name: None,
    max_tensors: None,
    sparse: false,
    magics: &[Magic { offset: 4, bytes: b"FT01" }, Magic { offset: 4, bytes: b"DT01" }],
    functions: functions!(entries::metadata, entries::keeps, None),
};

face!("PTD", "ptd");

/// What a file says of itself, beside its tensors. All of its index is checked.
///
/// ```
/// use tensorfile::{TensorMap, ptd};
///
/// let model = ptd::Compatibility { model_name: "llama".to_owned(), ..Default::default() };
/// let options = ptd::Options::new().version(ptd::Version::Dt01V2).compatibility(model);
/// let metadata = ptd::metadata(&options.to_vec(&TensorMap::new())?)?;
/// assert_eq!(metadata.compatibility.unwrap().model_name, "llama");
/// assert_eq!((metadata.schema_version, metadata.tensor_alignment), (2, Some(128)));
/// # Ok::<(), tensorfile::Error>(())
/// ```
///
/// # Errors
///
/// As [`from_slice`] where the file is malformed.
pub fn metadata(file: &[u8]) -> Result<Metadata> {
    let contents = de::read(&mut Slice::new(file), &Limits::default());
    contents.map(|contents| contents.metadata).map_err(|error| error.in_format(Walk::FORMAT))
}

/// Which tensors lie in one segment of a `DT01` file, to be loaded together. In `FT01` each has its own.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub enum Segments {
    /// Each tensor has its own.
    #[default]
    PerTensor,
    /// All lie in one.
    One,
    /// Those for whose names the function returns the same. A segment ends where a tensor of another group comes, so a
    /// group that comes again has one more.
    By(fn(&str) -> String),
}

/// How files are written and read. The defaults: `FT01` as ExecuTorch writes it, row-major tensors in segments at
/// multiples of 128 bytes.
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
#[derive(Debug, Clone, Default)]
pub struct Options {
    encode: Encode,
    limits: Limits,
}

impl Options {
    /// Which generation to write.
    #[must_use]
    pub fn version(mut self, version: Version) -> Self {
        self.encode.version = version;
        self
    }

    /// What segments, and tensors within them, are aligned to, in bytes from the start of the file: a power of two.
    /// Default: 128.
    #[must_use]
    pub fn alignment(mut self, alignment: u32) -> Self {
        self.encode.alignment = alignment;
        self
    }

    /// Which tensors of a `DT01` file lie in one segment.
    #[must_use]
    pub fn segments(mut self, segments: Segments) -> Self {
        self.encode.segments = segments;
        self
    }

    /// Whether to write tensors in the order of their memory, where that is an order of their dims, and not in
    /// row-major order.
    #[must_use]
    pub fn keep_dim_order(mut self, keep: bool) -> Self {
        self.encode.keep_dim_order = keep;
        self
    }

    /// Whether to store equal bytes once, wherever they come from. Tensors of equal length are read once more for it.
    #[must_use]
    pub fn dedup(mut self, dedup: bool) -> Self {
        self.encode.dedup = dedup;
        self
    }

    /// What to say of the model, in [`Version::Dt01V2`].
    #[must_use]
    pub fn compatibility(mut self, compatibility: Compatibility) -> Self {
        self.encode.compatibility = Some(compatibility);
        self
    }
}
