//! Reads and writes tensor files: safetensors, GGUF, PyTorch, ExecuTorch `.ptd`, `.npy`, `.npz`, BTF, `.ten` and
//! TensorBuffers. In Rust they are structs of `ndarray` arrays, in Python arrays of numpy and torch, with names, dtypes
//! and shapes checked. A program lists, compares and converts them.
//!
//! ```
//! use ndarray::{Array1, Array2, array};
//! use tensorfile::{TensorFile, btf};
//!
//! #[derive(TensorFile, Debug, PartialEq)]
//! struct Linear {
//!     weight: Array2<f32>,
//!     bias: Option<Array1<f32>>,
//! }
//!
//! #[derive(TensorFile, Debug, PartialEq)]
//! struct Mlp {
//!     embed: Linear,
//!     layers: Vec<Linear>,                         // layers.0.weight, layers.0.bias, layers.1.weight, …
//!     #[tensor(rename = "lm_head.weight")]
//!     head: Array2<f64>,
//! }
//!
//! let linear = || Linear { weight: array![[1.0, 2.0]], bias: Some(array![0.5]) };
//! let model = Mlp { embed: linear(), layers: vec![linear(), linear()], head: array![[3.0]] };
//!
//! let mut file = Vec::new();
//! btf::to_writer(&mut file, &model)?;              // any `io::Write`; large arrays are not copied
//! let back: Mlp = btf::from_slice(&file)?;         // owned arrays are copied once, `ArrayView`s borrow
//! assert_eq!(back, model);
//! # Ok::<(), tensorfile::Error>(())
//! ```
//!
//! The [guide] explains all of it in chapters.
//!
//! # Overview
//!
//! | Task | Items |
//! | --- | --- |
//! | Load and save files by path | [`load`], [`save`], [`SaveOptions`] |
//! | Map a struct to named tensors | `#[derive(TensorFile)]`; its docs list the attributes, [`TensorFile`](trait@TensorFile) the types of fields |
//! | Work with tensors of any dtype | [`TensorMap`], [`Tensor`], [`TensorView`], [`CooTensor`], [`Blob`] |
//! | Open a file, read single tensors or slices; replace any file whole | [`File`], [`OpenOptions`], [`mod@file`] |
//! | Compare a file with a type | [`File::report`], [`report`] |
//! | Read and write bytes and streams | the modules of the formats: [`btf`], [`ten`], `ptd`, `tensorbuffers`, `safetensors`, `npy`, `npz`, `gguf`, `pytorch` |
//! | Choose a format at run time, or implement one | [`FORMATS`], [`Format`], [`mod@format`] |
//! | Copy tensors from file to file; rename, filter, cast and print them on the way | [`Tensors`], [`view`] |
//! | Put arrays into plain serde structs | [`mod@array`], [`Arrays`]; save them with [`SerdeValue`] |
//! | Cast, count and digest elements | [`cast`], [`stats`], `digest` |
//! | Find quantized weights, and decode them | [`quant`], [`File::quantized`], `Dequantize` |
//! | Bound memory and threads | [`Limits`], [`threads`] |
//! | Implement a type that holds tensors | [`model`] |
//!
//! # Formats
//!
//! | Module | Dtypes |
//! | --- | --- |
//! | `btf` | i8 i16 i32 i64 f32 f64 u8 u16 u32 u64 |
//! | `ten` | f16 f32 f64 i8 i16 i32 i64 u8 u16 u32 u64 |
//! | `ptd` | u8 i8 i16 i32 i64 f16 f32 f64 bool qint8 quint8 qint32 bf16 quint4x2 quint2x4 bits16 f8_e5m2 f8_e4m3fn f8_e5m2fnuz f8_e4m3fnuz u16 u32 u64 |
//! | `tensorbuffers` | f32 f64 i8 i16 i32 i64 u8 u16 u32 u64 |
//! | `safetensors` | bool f4 f6_e2m3 f6_e3m2 u8 i8 f8_e5m2 f8_e4m3fn f8_e8m0 f8_e4m3fnuz f8_e5m2fnuz i16 u16 f16 bf16 i32 u32 f32 c64 f64 i64 u64 |
//! | `npy` | bool i8 u8 i16 u16 i32 u32 i64 u64 f16 f32 f64 c64 c128 |
//! | `npz` | bool i8 u8 i16 u16 i32 u32 i64 u64 f16 f32 f64 c64 c128 |
//! | `pytorch` | bool i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 f8_e5m2 f8_e4m3fn f8_e5m2fnuz f8_e4m3fnuz f8_e8m0 f4 c64 c128 |
//! | `gguf` | f32 f16 q4_0 q4_1 q5_0 q5_1 q8_0 q8_1 q2_k q3_k q4_k q5_k q6_k q8_k iq2_xxs iq2_xs iq3_xxs iq1_s iq4_nl iq3_s iq2_s iq4_xs i8 i16 i32 i64 f64 iq1_m bf16 tq1_0 tq2_0 mxfp4 nvfp4 q1_0 q2_0 |
//!
//! Each module describes the bytes of its format, and the disagreements between its specification and other software.
//! [`Format`] lists the supported names, ranks and layouts. Unsupported tensors are an error before the first byte is
//! written.
//!
//! # Names
//!
//! Names of nested fields are joined with dots. Items of a `Vec`, an array or a tuple are named by index, entries of a
//! map by key, and an `Option` is `None` if the file has no tensor of its name or under it. Names may contain dots.
//! Derived structs reject missing and unexpected tensors, wrong dtypes and wrong shapes.
//!
//! Formats without names are read by position, depth first.
//!
//! # serde
//!
//! Types with `#[derive(TensorFile)]` implement serde's `Serialize` and `Deserialize`, so you can also send them
//! through `serde_json` or `postcard`: a tensor is then a struct of dtype, shape, layout and bytes. In the other
//! direction, plain serde types go into tensor files: see [`mod@array`]. [`load`], [`save`] and [`File`] do not use
//! serde.
//!
//! One [`format::Serializer`] and one [`format::Deserializer`] serve all formats, so that serde compiles each of your
//! types once instead of once for every format. A serializer of one format could also not write an index in front in
//! the single pass that serde makes, unless it held all payloads; our functions make two passes over the value, to plan
//! and to write.
//!
//! # Versions
//!
//! Arrays are those of ndarray 0.17, 16-bit floats those of half 2. [`tensorfile::ndarray`] and [`tensorfile::half`]
//! are these crates. If a program depends on another version of ndarray, rustc reports that the array types do not
//! implement this crate's traits.
//!
//! # Features
//!
//! `derive`, `mmap`, `npy`, `npz`, `ptd`, `safetensors` and `tensorbuffers` are on by default. `digest`, `gguf`, `pytorch`
//! and `quant`, which decodes quantized weights, are not; `full` is all of them. `http` reads files at URLs, and `cloud` reads and writes
//! objects in stores; neither is in `full`. [`btf`] and [`ten`] need no feature.

// The features of items are shown on docs.rs.
#![cfg_attr(docsrs, feature(doc_cfg))]
// A function of one format or place is compiled without its feature too, unless it needs a dependency: a gate for each
// would hide more than it saves. All features together find what nothing uses.
#![cfg_attr(
    not(all(feature = "full", feature = "http", feature = "cloud")),
    allow(dead_code, unused_imports, reason = "formats and places that are left out use it")
)]

/// Tests the examples of the README.
#[cfg(all(doctest, feature = "derive"))]
#[doc = include_str!("../README.md")]
struct Readme;

// The derive's `::tensorfile` also means this crate in its own tests.
extern crate self as tensorfile;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
pub mod array;
pub mod cast;
#[cfg(feature = "digest")]
pub mod digest;
mod error;
mod fetch;
pub mod file;
mod find;
pub mod format;
// Only docs.rs and tests read it.
#[cfg(all(
    any(doc, doctest),
    feature = "derive",
    feature = "npz",
    feature = "ptd",
    feature = "safetensors",
    feature = "tensorbuffers"
))]
pub mod guide;
mod limits;
mod map;
pub mod model;
pub mod quant;
mod read;
mod remote;
mod serde;
pub mod stats;
mod storage;
mod tensor;
pub mod threads;
pub mod view;
mod write;

pub use {half, ndarray, num_complex};

#[cfg(feature = "derive")]
pub use tensorfile_derive::TensorFile;

pub use self::serde::SerdeValue;
pub use array::Arrays;
pub use error::{Category, Error, ErrorKind, Result, Warning};
#[cfg(feature = "quant")]
pub use file::Dequantize;
pub use file::{File, OpenOptions, SaveOptions, load, save};
#[cfg(feature = "gguf")]
pub use format::gguf;
#[cfg(feature = "npy")]
pub use format::npy;
#[cfg(feature = "npz")]
pub use format::npz;
#[cfg(feature = "ptd")]
pub use format::ptd;
#[cfg(feature = "pytorch")]
pub use format::pytorch;
#[cfg(feature = "safetensors")]
pub use format::safetensors;
#[cfg(feature = "tensorbuffers")]
pub use format::tensorbuffers;
pub use format::{FORMATS, Format, WriteOptions, btf, ten};
pub use limits::Limits;
pub use map::{LayoutMap, Receipt};
pub use model::{TensorFile, Tensors};
pub use storage::Progress;
pub use tensor::{Blob, CooTensor, DimOrder, Dtype, Element, Layout, Shape, Tensor, TensorInfo, TensorMap, TensorView};

/// Reports of mismatches, and errors with fields.
pub mod report {
    pub use crate::error::{
        Gap, InvalidCast, InvalidMetadata, LoadReport, Misfit, MissingMetadata, MissingTensor, UnexpectedTensor,
        UnknownWarningKind, WarningKind,
    };
    pub use crate::map::{LeftElements, MadeElements, ReceiptTotals, RuleReceipt};
    pub use crate::tensor::InvalidTensor;
}

/// Elements of dtypes missing in Rust, and unknown dtypes.
pub mod scalar {
    pub use crate::tensor::{
        Bits16, F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz, F8E8M0, QInt8, QInt32, QUint2x4, QUint4x2, QUint8,
        UnknownDtype, UnknownDtypeName,
    };
}
