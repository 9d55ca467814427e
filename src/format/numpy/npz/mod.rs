//! An archive of numpy's arrays (`.npz`): named dense tensors, each an `.npy` file in a zip archive.
//!
//! ```text
//! member… | directory
//! member  = local header | name | extra fields | array, or its deflate stream | data descriptor
//! ```
//!
//! [`npy`](crate::npy) describes the arrays. The directory at the end has the offsets of the members.
//!
//! # Specification
//!
//! `numpy.lib.format` and `numpy.savez`; PKWARE's APPNOTE.TXT for zip, with its 64-bit extensions.
//!
//! # Names
//!
//! Any name without NUL, of up to 65,531 bytes, is stored. The name of the member is followed by `.npy`. Slashes and
//! all other characters stay unchanged. Member names outside of UTF-8 are read with escapes, `\xff`.
//!
//! # Compression
//!
//! Members are stored plain, with their elements at multiples of 64 bytes, or deflated with [`Options::compress`].
//! Plain members are read without a copy. Deflated ones are decoded piece by piece during reading. Checksums are
//! compared where a payload is read in full, but not for borrowed payloads, such as by
//! [`FileTensor::view`](crate::file::FileTensor::view), and not by [`slice`](crate::file::FileTensor::slice).
//! [`File::check_other_checksums`](crate::File::check_other_checksums) compares the checksums of all members except
//! tensors.
//!
//! # Memory order
//!
//! As in [`npy`](crate::npy#memory-order).
//!
//! # Deviations
//!
//! - A member is an array if its content begins like one, under any name; `.npy` is removed from the name. Any other is
//!   a blob named after its member, as numpy returns its bytes. So is a folder, of no bytes. Blobs are written as such
//!   members.
//! - Of several members of one name, the last is read, as numpy does, with a warning. If members are named `a` and
//!   `a.npy`, the second keeps its ending.
//! - An encrypted member, a member compressed by another method than deflate, or a header not readable by numpy either
//!   is [unknown](crate::Layout::Unknown), with a warning; the remaining members are read. Files in `__MACOSX/`, added
//!   by macOS, are left out, with a warning.
//! - Any byte but 0 is a `true` `bool`. We write 0 and 1.
//! - An archive with members but no array is refused. So is a program, which may have arrays among its files: an
//!   archive with `NAME.dist-info/RECORD` (a Python wheel), `META-INF/MANIFEST.MF` (Java), `AndroidManifest.xml`,
//!   `MAR-INF/MANIFEST.json` (TorchServe) or `NAME/code/__torch__…` (TorchScript). Blobs of these names, and blobs
//!   alone, cannot be written.
//! - Members with shared bytes, sizes that contradict the array, and local headers that contradict the directory, such
//!   as by another name, are errors.
//! - Sizes and checksums are after the members and in the directory, not before the members, as the writer need not
//!   seek.
//! - Members are marked as made by Unix, with permissions 644, so that Info-ZIP takes their names as UTF-8.
//! - A name that is not ASCII and not a plain relative path, such as `/ä`, is written without the flag for UTF-8. Names
//!   are always read as UTF-8 if valid.
//!
//! # Streams
//!
//! The directory is at the end: a file from a reader is held in memory whole before the first value is made.
//!
//! # Limits
//!
//! A deflated tensor can be a thousand times larger than in the file. It counts when it is read into memory, bounded by
//! [`Limits::memory`](crate::Limits::memory). Tensors to be written have up to 2⁴⁸ bytes.

mod de;
mod header;
mod ser;

use std::io::{Read, Write};
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::format::{self, Format, HasFormat, WritesFormat, known};
use crate::model::FormatSpec;
use crate::tensor::Dtype;
use crate::write::{Encode, LentEncode, WriteOptions};

/// The supported dtypes.
pub const DTYPES: &[Dtype] = super::header::DTYPES;

/// The format: what it can store, and how it is recognized.
pub static FORMAT: Format = Format::new(SPEC, || Box::new(de::Reader::default()), encode)
    .with_metadata(de::metadata)
    .with_checksums(de::check_other_members);

const SPEC: FormatSpec = FormatSpec {
    max_rank: Some(super::header::MAX_RANK),
    blobs: true,
    check_name: header::check_name,
    unknown_dtypes: Some(super::header::UNKNOWN_DTYPES),
    ..known::NPZ.spec(DTYPES)
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

fn encode(options: &WriteOptions) -> Result<Arc<dyn Encode>> {
    options.only_alignment(&FORMAT, 64)?.only_metadata(&FORMAT)?;
    Ok(Options::new().keep_dim_order(options.keep_dim_order).shared_encode())
}

/// Serializes a value into an npz file in memory, as [`Options::to_vec`] does.
///
/// ```
/// use std::collections::BTreeMap;
/// use tensorfile::{TensorView, npz};
///
/// let file = npz::to_vec(&BTreeMap::from([("bias", TensorView::from_slice(&[1.0_f32, 2.0], [2])?)]))?;
/// assert!(file.starts_with(b"PK\x03\x04"));
/// let tensors: BTreeMap<String, TensorView> = npz::from_slice(&file)?;
/// assert_eq!(*tensors["bias"].shape(), [2]);
/// # Ok::<(), tensorfile::Error>(())
/// ```
pub fn to_vec<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>> {
    defaults().to_vec(value)
}

/// Serializes a value to a writer as an npz file, as [`Options::to_writer`] does.
pub fn to_writer<T: Serialize + ?Sized>(writer: impl Write, value: &T) -> Result<()> {
    defaults().to_writer(writer, value)
}

/// Deserializes a value from an npz file in memory, as [`Options::from_slice`] does.
///
/// # Errors
///
/// Besides those of every format:
///
/// - [`ErrorKind::Truncated`](crate::ErrorKind::Truncated): a member ends inside its array.
/// - [`ErrorKind::BadNumber`](crate::ErrorKind::BadNumber): a compression method or a version is unknown, or a number
///   of the directory is wrong.
/// - [`ErrorKind::Malformed`](crate::ErrorKind::Malformed): the zip archive is damaged or of another format, or a
///   member is encrypted.
/// - [`ErrorKind::InvalidTensor`](crate::ErrorKind::InvalidTensor): a member has more or fewer bytes than its array.
/// - [`ErrorKind::Overlap`](crate::ErrorKind::Overlap): two members share some of their bytes.
/// - [`ErrorKind::Limit`](crate::ErrorKind::Limit): a compressed tensor is larger than the default
///   [`Limits`](crate::Limits) allow.
pub fn from_slice<'de, T: Deserialize<'de>>(file: &'de [u8]) -> Result<T> {
    defaults().from_slice(file)
}

/// Deserializes a value from a reader of an npz file, as [`Options::from_reader`] does.
pub fn from_reader<T: for<'de> Deserialize<'de>>(reader: impl Read) -> Result<T> {
    defaults().from_reader(reader)
}

/// Options for reading and writing npz files.
///
/// ```
/// use std::collections::BTreeMap;
/// use tensorfile::{TensorView, npz};
///
/// let zeros = BTreeMap::from([("bias", TensorView::from_slice(&[0.0_f32; 1000], [1000])?)]);
/// let file = npz::Options::new().compress(true).to_vec(&zeros)?;
/// assert!(file.len() < 400);
/// # Ok::<(), tensorfile::Error>(())
/// ```
pub type Options = format::Options<ser::Encode>;

impl Options {
    /// Compresses the members with deflate. The length of the file is then not known in advance: a
    /// [`Plan`](crate::format::Plan) has the
    /// length without compression.
    ///
    /// ```
    /// use tensorfile::{TensorMap, npz};
    ///
    /// let zeros = TensorMap::from_iter([("zeros", ndarray::Array1::<f32>::zeros(1000))]);
    /// let file = npz::Options::new().compress(true).to_vec(&zeros)?;
    /// assert!(file.len() < 1000);
    /// assert_eq!(npz::from_slice::<TensorMap>(&file)?, zeros);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn compress(mut self, compress: bool) -> Self {
        self.encode.compress = compress;
        self
    }

    /// Writes an array in Fortran order instead of row-major order, if it has it in memory. Arrays in other orders are
    /// written in row-major order.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    /// use ndarray::{Array2, ShapeBuilder};
    /// use tensorfile::{Arrays, npz};
    ///
    /// let columns = Arrays(BTreeMap::from([("a", Array2::<f32>::zeros((2, 3).f()))]));
    /// let file = npz::Options::new().keep_dim_order(true).to_vec(&columns)?;
    /// let Arrays(read): Arrays<BTreeMap<String, Array2<f32>>> = npz::from_slice(&file)?;
    /// assert_eq!(read["a"].strides(), [1, 2]);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn keep_dim_order(mut self, keep: bool) -> Self {
        self.encode.keep_dim_order = keep;
        self
    }
}
