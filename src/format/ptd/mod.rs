//! ExecuTorch data files (`.ptd`): named tensors and blobs after a FlatBuffers index, some of them sharing their bytes.
//!
//! ```text
//! root offset: u32 | "FT01" | header | rest of the flatbuffer | 0… | segment | 0… | segment…
//! header = "FH01" | 40: u32 | header and padding: u64 | flatbuffer: u64 | segments begin: u64 | segments: u64 | 0 up to 48
//! ```
//!
//! All numbers are little-endian. The flatbuffer is finished first. Then the header is inserted after the identifier,
//! and the root offset is increased by its length. The index holds tensors, with scalar type, sizes and dim order, and
//! blobs, without; each has the number of its segment. Segments begin at multiples of 128, or of
//! [`Options::alignment`].
//!
//! # Specification
//!
//! ExecuTorch's `extension/flat_tensor/serialize/flat_tensor.fbs`, its `flat_tensor_header.h` and `serialize.py`.
//! Before it came the RFC "Schema for data-only file", with the identifier `DT01`. There are four generations. All are
//! read, and [`Options::version`] chooses the one to write:
//!
//! | [`Version`] | |
//! | --- | --- |
//! | `Ft01` | Written by ExecuTorch since 0.7: each tensor is a segment. |
//! | `EarlyFt01` | Written by 0.5 and 0.6: tensors are at offsets in segments. Read only. It has the same identifier and version number, but a root table with more fields. |
//! | `Dt01V1`, `Dt01V2` | The RFC's two versions. A segment holds any number of tensors; see [`Segments`]. |
//!
//! # Names
//!
//! Any name without NUL is stored. In ExecuTorch's C++ a name ends at a NUL, so it cannot find a name with a NUL: files
//! with one are read, and the metadata has a warning.
//!
//! # Sharing
//!
//! Several names may share one segment, as tied weights do. A [`TensorMap`](crate::TensorMap) read from memory keeps
//! the sharing, and so do views. On write, tensors with the same memory are stored once, such as clones of an
//! `ArcArray`. So are tensors with `#[tensor(tied = "embed.weight")]`, and, with [`Options::dedup`], all tensors with
//! equal bytes. Bytes are always compared before they are shared.
//!
//! # Memory order
//!
//! The index states the order of the dims in memory. Arrays and views read from a file get the corresponding strides,
//! without a copy. Arrays are written in row-major order. With [`Options::keep_dim_order`], or
//! [`WriteOptions::keep_dim_order`](crate::WriteOptions::keep_dim_order), they are written in memory order, such as
//! NHWC.
//!
//! # Deviations
//!
//! - No released software writes `DT01`, so we chose the frame: the one of `.pte` files, to which the RFC refers. Its
//!   header is `"eh00"`, the length 32, and as u64 the flatbuffer's size with the header, the offset of the segments
//!   and their size. A header of 24 bytes, without the last, is read too.
//! - ExecuTorch compares neither a layout with its segment nor a dim order with the rank. Both are checked, and so are
//!   segments that leave the file, overlap partially, or lie in the index. A tensor whose length differs from its
//!   segment's is [unknown](crate::Layout::Unknown), with a warning; the remaining tensors are read.
//! - Of two entries with one name, ExecuTorch's C++ takes the first, its Python the last. Here it is an error.
//! - With a segment alignment of 128, ExecuTorch 0.6 and 0.7 write an offset of the segments past the data. Such a file
//!   is refused with an explanation.
//! - ExecuTorch crashes if sizes, dim orders or a list is missing. They are always written. If one is missing, it is
//!   read as empty.
//! - ExecuTorch writes a layout for each tensor. Here, all tensors of the same scalar type, sizes and dim order share
//!   one in `FT01`, and sizes and dim order in `DT01`, as flatbuffers allow.
//! - Flatbuffers misaligned in the file, as the C++ writer makes them for odd alignments, are read.
//!
//! # Limits
//!
//! Dims are below 2³¹, ranks up to 255, the index is below 2³¹ bytes. Sparse tensors cannot be stored, blobs only in
//! `FT01`. The elements of packed dtypes, such as `quint4x2`, are whole bytes, as ExecuTorch counts them.
//! [`from_reader`] holds the file in memory if its tensors are not in the order of its index, or share bytes. Shared
//! tensors then get copies of their own.

mod de;
mod entries;
mod flatbuffer;
mod header;
mod metadata;
mod options;
mod schema;
mod ser;

use std::io::{Read, Write};
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

pub use self::header::DTYPES;
pub(super) use self::header::{MAX_FLATBUFFER, bad_number, dtype};
pub use self::metadata::{Compatibility, Metadata, Version};
pub use self::options::{Options, Segments};
use crate::error::Result;
use crate::format::{Format, HasFormat, WritesFormat, known};
use crate::limits::Limits;
use crate::model::FormatSpec;
use crate::read::Index;
use crate::storage::Slice;
use crate::write::LentEncode;

/// The format: what it can store, and how it is recognized.
pub static FORMAT: Format =
    Format::new(SPEC, || Box::new(de::Reader::default()), |options| Ok(entries::options(options)?.shared_encode()))
        .with_small_files(de::small)
        .with_metadata(entries::metadata);

const SPEC: FormatSpec = FormatSpec {
    max_rank: Some(ser::MAX_RANK),
    max_dim: Some(header::MAX_DIM),
    blobs: true,
    keeps_metadata: entries::keeps,
    check_name: header::check_name,
    unknown_dtypes: Some("ptd"),
    ..known::PTD.spec(DTYPES)
};

impl HasFormat for ser::Encode {
    fn format() -> &'static Format {
        &FORMAT
    }
}

impl WritesFormat for ser::Encode {
    fn lent(&self) -> &dyn LentEncode {
        self
    }
}

// Borrowed, so that the crates of users do not compile the drop code of options.
fn defaults() -> &'static Options {
    static DEFAULTS: LazyLock<Options> = LazyLock::new(Options::new);
    &DEFAULTS
}

/// Serializes a value into a PTD file in memory, as [`Options::to_vec`] does.
///
/// ```
/// use std::collections::BTreeMap;
/// use tensorfile::{TensorView, ptd};
///
/// let file = ptd::to_vec(&BTreeMap::from([("bias", TensorView::from_slice(&[1.0_f32, 2.0], [2])?)]))?;
/// assert_eq!(&file[4..8], b"FT01");
/// let tensors: BTreeMap<String, TensorView> = ptd::from_slice(&file)?;
/// assert_eq!(*tensors["bias"].shape(), [2]);
/// # Ok::<(), tensorfile::Error>(())
/// ```
pub fn to_vec<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>> {
    defaults().to_vec(value)
}

/// Serializes a value to a writer as a PTD file, as [`Options::to_writer`] does.
pub fn to_writer<T: Serialize + ?Sized>(writer: impl Write, value: &T) -> Result<()> {
    defaults().to_writer(writer, value)
}

/// Deserializes a value from a PTD file in memory, as [`Options::from_slice`] does.
///
/// # Errors
///
/// Besides those of every format:
///
/// - [`ErrorKind::Truncated`](crate::ErrorKind::Truncated): the file ends before the end of its index or of its
///   segments.
/// - [`ErrorKind::BadMagic`](crate::ErrorKind::BadMagic): the file does not begin as `FT01` or `DT01`.
/// - [`ErrorKind::BadNumber`](crate::ErrorKind::BadNumber): a version, a size or an offset is not one of the format.
/// - [`ErrorKind::Malformed`](crate::ErrorKind::Malformed): the flatbuffer is broken, or a segment lies outside of the
///   range of all segments.
/// - [`ErrorKind::InvalidTensor`](crate::ErrorKind::InvalidTensor): a tensor has more or fewer bytes than its dtype and
///   shape take, or its dim order is not one of its rank.
/// - [`ErrorKind::UnknownDtype`](crate::ErrorKind::UnknownDtype): a dtype is unknown, in a file of ExecuTorch 0.5 or
///   0.6 without stated sizes.
pub fn from_slice<'de, T: Deserialize<'de>>(file: &'de [u8]) -> Result<T> {
    defaults().from_slice(file)
}

/// Deserializes a value from a reader of a PTD file, as [`Options::from_reader`] does.
///
/// If tensors do not lie in the order of the index, or share bytes, the whole file is held in memory.
pub fn from_reader<T: for<'de> Deserialize<'de>>(reader: impl Read) -> Result<T> {
    defaults().from_reader(reader)
}

/// Reads the information in a file besides its tensors. The whole index is checked.
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
/// As [`from_slice`], if the file is malformed.
pub fn metadata(file: &[u8]) -> Result<Metadata> {
    let contents = de::read(&mut Slice::new(file), &Limits::default(), &mut Index::default());
    contents.map(|contents| contents.metadata).map_err(|error| error.in_format(FORMAT.name))
}
