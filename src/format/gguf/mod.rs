//! GGUF (`.gguf`): named tensors after typed metadata, as llama.cpp stores models.
//!
//! ```text
//! "GGUF" | version: u32 | tensors: u64 | entries: u64 | entry* | tensor* | 0 up to the alignment | data
//! entry  = key: string | type: u32 | value
//! tensor = name: string | rank: u32 | dim: u64 × rank | type: u32 | offset: u64
//! string = length: u64 | UTF-8
//! array  = type: u32 | count: u64 | value × count
//! ```
//!
//! All numbers are little-endian. Dims are innermost first in the file; shapes here are row-major, with the innermost
//! dim last. Offsets count from the start of the data, and are multiples of the alignment: the entry
//! `general.alignment`, or 32.
//!
//! # Specification
//!
//! [`docs/gguf.md`](https://github.com/ggml-org/ggml/blob/master/docs/gguf.md) of ggml, and its `src/gguf.cpp`.
//! Versions 2 and 3, which have the same bytes, are read, and version 3 is written.
//!
//! # Dtypes
//!
//! Quantized types such as [`Q4_0`](crate::Dtype::Q4_0) are opaque: blocks of bytes, each with the weights of a part of
//! a row and their scales. Such tensors are read, listed and written whole, but not computed. The innermost dim is a
//! multiple of the block. Unknown types are [listed as unknown](crate::Layout::Unknown), up to the start of the next
//! tensor, including the padding before it. They can be written again, to a file of the same or a larger alignment.
//!
//! # Metadata
//!
//! [`metadata`] returns every entry as text: strings as they are, numbers in decimal, arrays in brackets with strings
//! in quotes. Arrays are whole, however long they are.
//!
//! Entries given as text are written as strings. Programs that expect a number there, as llama.cpp does for most keys,
//! refuse such a file. `general.alignment` is the exception: it sets the alignment. Fields with `#[tensor(metadata)]`
//! are written with their own types, and entries of another GGUF file keep their types, including arrays, with
//! [`WriteOptions::keep_metadata`](crate::WriteOptions::keep_metadata).
//!
//! # Names
//!
//! Names have up to 63 bytes on write, because ggml needs a NUL after them, and up to 65,535 on read.
//! [`Options::long_names`] writes up to 127 bytes, for builds of ggml with a raised limit. A name with a NUL is not
//! written. Names cannot be embedded, because the format has no `u8`.
//!
//! # Deviations
//!
//! - The specification lets names have 64 bytes; ggml reads 63.
//! - ggml requires tensors in the order of their data, without gaps but for padding. Any order and gaps are read, and
//!   tensors come in the order of their data. The padding after the last one may be missing.
//! - ggml refuses a file with an unknown type. Here only the tensor itself is unreadable. In a stream, whose end is
//!   unknown, it must not be the last one.
//! - ggml takes any `bool` but 0 for true. The specification calls values other than 0 and 1 invalid, and they are
//!   errors here.
//! - The specification wants an alignment divisible by 8, and keys of lower-case words. As in ggml, an alignment is any
//!   power of two, and a key anything but empty. Keys are written if they are ASCII.
//! - The specification has arrays in arrays, and ggml does not read them. They are read here up to a depth of 4.
//! - Strings outside of UTF-8, as some tokenizers have, are read with replacement characters.
//! - `q8_1` has blocks of 36 bytes in ggml, and of 40 in the Python package `gguf`. Files do not hold it. It is ggml's
//!   here.
//! - Big-endian files are read, except for tensors in blocks, which are listed as unknown. They need the feature `npy`.
//!   They are not written.
//!
//! # Models in several files
//!
//! llama.cpp splits a model into files with names such as `m-00001-of-00002.gguf`, which state their number in
//! `split.no`, `split.count` and `split.tensors.count`. [`File::open`](crate::File::open) opens all of them as one, by
//! any of their names, if they are next to each other. Otherwise, and in memory and streams, a file is opened alone,
//! with a [warning](crate::report::WarningKind::Part). These entries describe the file and not the model: they are not
//! among [`FileMetadata::entries`](crate::model::FileMetadata::entries), so that copies do not claim to be a part.
//! [Saved shards](crate::SaveOptions::max_shard_bytes) have them.
//!
//! # Shapes of the model
//!
//! ComfyUI-GGUF stores tensors whose rows are not whole blocks in another shape, and states that of the model in
//! `comfy.gguf.orig_shape.NAME`. Such a tensor has the shape of the model, as in ComfyUI. If it cannot have it, because
//! the number of elements differs or rows would not be whole blocks, it keeps the stored shape, with a
//! [warning](crate::report::WarningKind::Metadata).
//!
//! # Limits
//!
//! Ranks up to 4 are written, and any are read. Tensors cannot share bytes: tied ones are stored once for each name.
//! Sparse tensors and blobs cannot be stored, nor `bool`, unsigned integers and floats of 8 bits.

mod de;
mod header;
mod metadata;
mod options;
mod ser;

use std::io::{Read, Write};
use std::sync::{Arc, LazyLock};

use hashbrown::HashMap;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

pub use self::header::DTYPES;
use self::metadata::TypedValue;
pub use self::options::Options;
use crate::error::Result;
use crate::format::{Format, HasFormat, WritesFormat, known};
use crate::limits::Limits;
use crate::model::FormatSpec;
use crate::storage::Slice;
use crate::tensor::Dtype;
use crate::write::{Encode, LentEncode, WriteOptions};

/// The format: what it can store, and how it is recognized.
pub static FORMAT: Format = Format::new(SPEC, || Box::new(de::Reader::default()), encode)
    .with_metadata(de::metadata)
    .with_typed_metadata(de::typed_metadata)
    .with_metadata_edits(de::rewrite_metadata);

const SPEC: FormatSpec = FormatSpec {
    max_rank: Some(header::MAX_RANK),
    max_dim: Some(header::MAX_DIM),
    max_name: Some(header::MAX_NAME),
    keeps_metadata: metadata::keeps,
    check_name: header::check_name,
    embeds_names: false,
    vector_dtype: Some(Dtype::F32),
    unknown_dtypes: Some("gguf"),
    ..known::GGUF.spec(DTYPES)
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
    options.only_metadata(&FORMAT)?;
    let mut typed = HashMap::new();
    for entry in options.typed.iter().flat_map(|typed| &**typed) {
        typed.entry(entry.key.as_str()).or_insert(entry);
    }
    // A changed entry is text, like a new one.
    let typed = |key: &str, text: &str| typed.get(key).filter(|entry| entry.text == text);
    let stored = |(key, text): (&String, &String)| {
        let value = typed(key, text).map_or_else(|| TypedValue::text(text), |entry| TypedValue::from_typed(entry));
        (key.clone(), value)
    };
    Ok(Arc::new(ser::Encode {
        metadata: options.metadata.iter().map(stored).collect(),
        alignment: options.alignment,
        long_names: options.long_names,
        part: None,
    }))
}

/// Serializes a value into a GGUF file in memory, as [`Options::to_vec`] does.
///
/// ```
/// use std::collections::BTreeMap;
/// use tensorfile::{TensorView, gguf};
///
/// let file = gguf::to_vec(&BTreeMap::from([("bias", TensorView::from_slice(&[1.0_f32, 2.0], [2])?)]))?;
/// assert!(file.starts_with(b"GGUF\x03\0\0\0\x01\0\0\0"));
/// let tensors: BTreeMap<String, TensorView> = gguf::from_slice(&file)?;
/// assert_eq!(*tensors["bias"].shape(), [2]);
/// # Ok::<(), tensorfile::Error>(())
/// ```
pub fn to_vec<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>> {
    defaults().to_vec(value)
}

/// Serializes a value to a writer as a GGUF file, as [`Options::to_writer`] does.
pub fn to_writer<T: Serialize + ?Sized>(writer: impl Write, value: &T) -> Result<()> {
    defaults().to_writer(writer, value)
}

/// Deserializes a value from a GGUF file in memory, as [`Options::from_slice`] does.
///
/// # Errors
///
/// Besides those of every format:
///
/// - [`ErrorKind::Truncated`](crate::ErrorKind::Truncated): the file ends inside the header or a tensor.
/// - [`ErrorKind::BadMagic`](crate::ErrorKind::BadMagic): the file does not begin with `GGUF`.
/// - [`ErrorKind::BadNumber`](crate::ErrorKind::BadNumber): a version, a type of metadata, a dim or an offset is not
///   one of the format, or an offset is not aligned.
/// - [`ErrorKind::UnknownDtype`](crate::ErrorKind::UnknownDtype): a dtype is unknown, of the last tensor of a stream.
/// - [`ErrorKind::Malformed`](crate::ErrorKind::Malformed): a name is not UTF-8, or two entries of the metadata have
///   the same key.
/// - [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported): the file is big-endian or of version 1.
pub fn from_slice<'de, T: Deserialize<'de>>(file: &'de [u8]) -> Result<T> {
    defaults().from_slice(file)
}

/// Deserializes a value from a reader of a GGUF file, as [`Options::from_reader`] does.
pub fn from_reader<T: for<'de> Deserialize<'de>>(reader: impl Read) -> Result<T> {
    defaults().from_reader(reader)
}

/// Reads the metadata of a file in memory as text, in the order of the file. The whole header is checked.
///
/// The [module](self#metadata) explains the text of arrays and numbers. In a model of several files, this also includes
/// the entries about them, such as `split.count`.
///
/// ```
/// use tensorfile::{TensorMap, gguf};
///
/// let file = gguf::Options::new().metadata("general.architecture", "llama").to_vec(&TensorMap::new())?;
/// assert_eq!(gguf::metadata(&file)?["general.architecture"], "llama");
/// # Ok::<(), tensorfile::Error>(())
/// ```
///
/// # Errors
///
/// As [`from_slice`], if the file is malformed.
pub fn metadata(file: &[u8]) -> Result<IndexMap<String, String>> {
    de::entries(&mut Slice::new(file), &Limits::default()).map_err(|error| error.in_format(FORMAT.name))
}
