//! PyTorch checkpoints (`.pt`, `.pth`, `.bin`), read and written without PyTorch.
//!
//! ```text
//! zip archive: name/data.pkl | name/byteorder | name/data/0 … | name/version | name/.data/serialization_id
//! older form:  pickle of 0x1950a86a20f9469cfc6c | pickle of 1001 | pickle of a dict about the machine
//!              | pickle of the value | pickle of a list of storages | (count: i64 | elements)*
//! ```
//!
//! A pickle is a program for a stack machine that makes a value. Storages, the bytes of tensors, are outside of it: it
//! refers to them as `("storage", torch.FloatStorage, key, location, count)`, and makes tensors of them with
//! `torch._utils._rebuild_tensor_v2(storage, offset, size, strides, …)`.
//!
//! # Specification
//!
//! `torch/serialization.py`, `torch/_utils.py` and `torch/_weights_only_unpickler.py` of PyTorch; `pickletools.py` of
//! Python for protocols 0 to 5.
//!
//! # Writing
//!
//! A file is a dict of the tensors, in their order, for `torch.load(weights_only=True)` of PyTorch 2.3 and later, and
//! with `mmap=True`. The dict is flat, as a `state_dict()` is: dots in names stay. Members are stored plain, with the
//! elements at multiples of 64 bytes, and their sizes and checksums follow them, as PyTorch writes them. The folder in
//! the archive is `archive`, whatever the name of the file.
//!
//! Only tensors are written: no metadata, no sparse tensors, no blobs, and no dtypes that PyTorch lacks. Dtypes newer
//! than PyTorch's classes of storages, such as `u16` and `f8_e4m3fn`, and tensors of several dtypes with the same
//! memory, are written with `_rebuild_tensor_v3`.
//!
//! Trainers save folders of many files, whose parts are archives of this form: see `dcp.rs` in this folder, and the
//! guide's chapter [from a trainer to inference](crate::guide::trainers).
//!
//! # Safety
//!
//! Nothing in a pickle is run. Values are made of the globals for tensors and containers: the ones of
//! `torch.load(weights_only=True)`, PyTorch's own tensors, arrays and scalars of numpy, and builtin types. Results of
//! any other global, such as `argparse.Namespace`, an enum, a path, a class of Lightning or DeepSpeed, or `os.system`,
//! are left out with a [warning](crate::report::WarningKind::LeftOut) that names it. Tensors in its arguments are read
//! all the same.
//!
//! # Names
//!
//! Keys of dicts and positions in lists and tuples are joined by dots: `model.layers.0.weight`. Keys with dots stay
//! unchanged, and other keys are written as the [metadata](#metadata) has them. If the whole value is one tensor, it
//! has no name. If keys make a name twice, as in `{"a.b": …, "a": {"b": …}}`, the tensors are read by position, and
//! there is a warning.
//!
//! Attributes of an object are under its name, and so are positions of its arguments. The tensors of a
//! `torch.nn.Module` pickled as a whole have their names in `state_dict()`.
//!
//! # Metadata
//!
//! Numbers, strings, `None`, dtypes, devices and lists of these are metadata entries under such names. A string is its
//! own text, and any other value is JSON: `1e-8`, `null`, `[2, 3]` and `["cpu", "a\n"]`. JSON lacks some values of
//! Python:
//!
//! | Python | JSON |
//! | --- | --- |
//! | tuples, `torch.Size`, sets, frozen sets | arrays |
//! | complex numbers | arrays of two numbers |
//! | `nan`, `inf`, `-inf` | the strings `NaN`, `Infinity` and `-Infinity` |
//! | integers of over 128 bits | strings such as `-0x1f`; of decimal digits if the pickle has these, as in protocols 0 and 1 |
//! | `bytes`, `bytearray` | strings with a character for each byte, as Latin-1 has them |
//! | lone surrogates in strings | the six characters `\ud800` |
//! | dtypes, devices, layouts | strings such as `torch.float16`, `numpy.f8` and `cuda:0` |
//!
//! A string that is a whole entry has no quotes: `NaN` and `cuda:0`. Scalars of numpy are numbers or bools.
//! [`File::value_tree`](crate::File::value_tree) tells all types of Python apart.
//!
//! Texts of over 64 KiB are left out with a warning, and so are values whose names are longer, or that are in over 100
//! containers.
//!
//! # Memory order
//!
//! Tensors can share storages, and their bytes. A tensor whose strides are a permutation of row-major ones, as with
//! `channels_last` or after `transpose`, has the corresponding dim order. A tensor with gaps, such as `x[:, ::2]`, with
//! repeated elements, as from `expand`, or with overlapping ones, as from `unfold`, is gathered piece by piece during
//! reading.
//!
//! Tensors with the same memory are written with one storage, and so are those tied by their type. With
//! [`Options::keep_dim_order`], a dim order is written as strides.
//!
//! Lazy conjugates and negatives (`x.conj()`, `x.conj().imag`) are computed as they are read, and cannot be borrowed.
//!
//! # Deviations
//!
//! - PyTorch counts the bytes of `float4_e2m1fn_x2`, two elements of which share one. Here the last dim is twice as
//!   long. Such a tensor with gaps or in another order is unknown.
//! - Dtypes unknown to this crate, such as `torch.complex32`, or one of a later PyTorch, are
//!   [unknown](crate::Layout::Unknown). If the size of an element is unknown too, the bytes are those of the whole
//!   storage, or none for a part of one. So are quantized, sparse and nested tensors, tensors of the device `meta` and
//!   subclasses of PyTorch's own, with tags such as `torch.qint8 (quantized, scale 0.5, zero point 10)` and
//!   `torch.float32 (sparse_coo)`. Their bytes go from the first element to the last one, in file order, if one storage
//!   has all of them, and are empty otherwise. A nested tensor has the shape of all its elements. Their parts are
//!   listed too, under their names, as `w.indices` and `w.values`, `w.crow_indices` or `w.scales` and `w.zero_points`.
//! - A tensor with an unknown argument that changes its values, or with a different dtype in the file than after
//!   loading, is unknown, and there is a warning.
//! - A `DTensor` is unknown; the part of it in the file is read under its name with `.1._local_tensor`. The files of
//!   DeepSpeed's ZeRO-3 have models without weights, with a warning of where they are.
//! - Other subclasses of `torch.Tensor` are read as plain tensors, with a warning, and the tensors in their attributes
//!   as well. Remaining attributes are left out, with a warning; the versions of modules, present in every
//!   `state_dict()`, without one.
//! - Arrays of numpy are tensors, and their scalars are metadata.
//! - Compressed archives, which PyTorch reads but does not write, are errors. So are TorchScript archives, and the tar
//!   archives of PyTorch before 0.1.10.
//! - Of two values in a file, as two calls of `torch.save` write them, one is read: the last archive, or the first
//!   pickle in the older form. There is a warning.
//! - Checksums of the archive are compared where a member is read in full: for the pickle, and for a storage of a
//!   single tensor. Views and slices do not compare them;
//!   [`File::check_other_checksums`](crate::File::check_other_checksums) does for all other members. Zeros count as no
//!   checksum, because PyTorch can leave them out.
//! - Any byte but 0 is a `bool` that is true.
//! - A member whose local header contradicts the directory, such as by another name, is an error.
//! - Big-endian archives are read. Without `byteorder`, files are little-endian.
//! - A storage alone is a tensor of rank 1.
//!
//! # Streams
//!
//! The directory of an archive is at its end: a file from a reader is held in memory whole before the first value is
//! made. A file is written to a stream in one pass.
//!
//! # Limits
//!
//! Tensors with shared storages can be larger together than the file; [`Limits::shared`] bounds the factor, and
//! [`Limits::memory`] the bytes read. The first also bounds the memory for names and metadata of containers used
//! several times in a pickle.
//!
//! Names to be written have up to 65,534 bytes, and tensors up to 2⁴⁸.

mod archive;
mod call;
mod collect;
pub(crate) mod dcp;
mod de;
mod header;
mod json;
mod opcode;
mod pickle;
mod ser;
mod storages;
mod strides;
mod tree;
mod value;
pub(crate) mod write_dcp;
mod write_pickle;

use std::io::{Read, Write};
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::format::{self, Format, HasFormat, WritesFormat, known};
use crate::limits::Limits;
use crate::model::{FileMetadata, FormatSpec};
use crate::storage::{ReadAt, Slice};
use crate::tensor::Dtype;
use crate::write::{Encode, LentEncode, WriteOptions};

/// The supported dtypes.
pub const DTYPES: &[Dtype] = &header::DTYPES;

/// The format: what it can store, and how it is recognized.
pub static FORMAT: Format = Format::new(SPEC, || Box::new(de::Reader::default()), encode)
    .with_metadata(de::metadata)
    .with_checksums(de::check_other_members)
    .with_value_tree(de::value_tree)
    .with_detection(de::looks_like);

const SPEC: FormatSpec =
    FormatSpec { embeds_names: false, check_name: header::check_name, ..known::PYTORCH.spec(DTYPES) };

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

/// Returns a writing half for the tensors of a folder, in which each has its own bytes.
pub(crate) fn encode_copies(options: &WriteOptions) -> Result<Arc<dyn Encode>> {
    options.only_alignment(&FORMAT, 64)?.only_metadata(&FORMAT)?;
    Ok(Arc::new(ser::Encode { stores_copies: true, ..ser::Encode::default() }))
}

/// Serializes a value into a checkpoint in memory, as [`Options::to_vec`] does.
///
/// ```
/// use std::collections::BTreeMap;
/// use tensorfile::{TensorView, pytorch};
///
/// let bias = TensorView::from_slice(&[1.0_f32, 2.0], [2])?;
/// let file = pytorch::to_vec(&BTreeMap::from([("fc.bias", bias)]))?;
/// let tensors: BTreeMap<String, TensorView> = pytorch::from_slice(&file)?;
/// assert_eq!(*tensors["fc.bias"].shape(), [2]);
/// # Ok::<(), tensorfile::Error>(())
/// ```
pub fn to_vec<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>> {
    defaults().to_vec(value)
}

/// Serializes a value to a writer as a checkpoint, as [`Options::to_writer`] does.
pub fn to_writer<T: Serialize + ?Sized>(writer: impl Write, value: &T) -> Result<()> {
    defaults().to_writer(writer, value)
}

/// Deserializes a value from a checkpoint in memory, as [`Options::from_slice`] does.
///
/// ```
/// use tensorfile::{TensorMap, pytorch};
///
/// // What `torch.save({"lr": 0.5}, …)` writes in the older form.
/// let file = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}q\x00.\
///     \x80\x02}q\x00X\x02\x00\x00\x00lrq\x01G?\xe0\x00\x00\x00\x00\x00\x00s.\x80\x02]q\x00.";
/// let tensors: TensorMap = pytorch::from_slice(file)?;
/// assert!(tensors.is_empty());
/// assert_eq!(pytorch::metadata(file)?.entries["lr"], "0.5");
/// # Ok::<(), tensorfile::Error>(())
/// ```
///
/// # Errors
///
/// Besides those of every format:
///
/// - [`ErrorKind::Truncated`](crate::ErrorKind::Truncated): the file ends inside a pickle or a storage.
/// - [`ErrorKind::BadNumber`](crate::ErrorKind::BadNumber): a protocol, a count or an offset is not one of the format.
/// - [`ErrorKind::Malformed`](crate::ErrorKind::Malformed): the archive or the pickle is damaged.
/// - [`ErrorKind::NotTensors`](crate::ErrorKind::NotTensors): the file is another pickle, or a recognized file of
///   another kind.
/// - [`ErrorKind::Limit`](crate::ErrorKind::Limit): shared tensors or containers exceed the default [`Limits`].
pub fn from_slice<'de, T: Deserialize<'de>>(file: &'de [u8]) -> Result<T> {
    defaults().from_slice(file)
}

/// Deserializes a value from a reader of a checkpoint, as [`Options::from_reader`] does.
pub fn from_reader<T: for<'de> Deserialize<'de>>(reader: impl Read) -> Result<T> {
    defaults().from_reader(reader)
}

/// Reads the metadata of a checkpoint in memory: everything but its tensors, as text.
///
/// # Errors
///
/// As [`from_slice`].
pub fn metadata(file: &[u8]) -> Result<FileMetadata> {
    fn inner(file: &mut dyn ReadAt) -> Result<FileMetadata> {
        de::metadata(file, &Limits::default()).map_err(|error| error.in_format(FORMAT.name))
    }
    inner(&mut Slice::new(file))
}

/// Options for reading and writing checkpoints.
///
/// ```
/// use tensorfile::{ErrorKind, Limits, TensorMap, pytorch};
///
/// let options = pytorch::Options::new().limits(Limits::new().tensors(10));
/// let error = options.from_slice::<TensorMap>(b"GIF89a").unwrap_err();
/// assert!(matches!(error.kind(), ErrorKind::NotTensors { .. }));
/// ```
pub type Options = format::Options<ser::Encode>;

impl Options {
    /// Writes tensors in the order of their memory instead of row-major order, such as `channels_last`.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    /// use ndarray::{Array2, ShapeBuilder};
    /// use tensorfile::{Arrays, pytorch};
    ///
    /// let columns = Arrays(BTreeMap::from([("a", Array2::<f32>::zeros((2, 3).f()))]));
    /// let file = pytorch::Options::new().keep_dim_order(true).to_vec(&columns)?;
    /// let Arrays(read): Arrays<BTreeMap<String, Array2<f32>>> = pytorch::from_slice(&file)?;
    /// assert_eq!(read["a"].strides(), [1, 2]);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn keep_dim_order(mut self, keep: bool) -> Self {
        self.encode.keep_dim_order = keep;
        self
    }
}
