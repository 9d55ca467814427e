//! Tensors in files: structs of `ndarray` arrays to named tensors and back, through serde, in the formats that other
//! software reads.
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
//! btf::to_writer(&mut file, &model)?;              // any `io::Write`; no second copy of the weights
//! let back: Mlp = btf::from_slice(&file)?;         // owned fields copy once, `ArrayView` fields borrow
//! assert_eq!(back, model);
//! # Ok::<(), tensorfile::Error>(())
//! ```
//!
//! # Where to look
//!
//! - Each format is a module with one face, as `serde_json` has it: [`btf`], [`ten`], `ptd`, `tensorbuffers`,
//!   `safetensors`, `npy` and `npz`. [`FORMATS`] is the table of them.
//! - [`TensorFile`] says what a field of a struct may be and which names it gets; the derive macro of that name lists
//!   its attributes.
//! - [`TensorMap`] holds a file that no struct describes, [`Tensor`] and [`TensorView`] one tensor whose dtype shows
//!   when the program runs.
//! - [`array`](mod@array) lets arrays into ordinary serde structs; [`Arrays`] is a list of arrays as a value of serde.
//! - [`save`] and [`load`] go by the extension and the content of a file; [`File`] opens one lazily, also a checkpoint in
//!   shards, and [`LoadReport`] compares it with a type before anything is read.
//! - [`Collection`] lets tensors go from file to file without being in memory; [`Caster`] casts them, [`Stats`] counts
//!   them, and `digest` tells whether they are the same.
//! - [`Error`] tells whose fault it was, and which tensor and byte it was about. [`Limits`] bound what a file may ask
//!   for.
//!
//! # Names
//!
//! Nested fields join with dots, a `Vec` and a tuple are indices, a map is its keys, and an `Option` is absent when
//! nothing lies under its name. A field's own name may hold dots. Derived structs refuse missing and unexpected
//! tensors, wrong dtypes and wrong shapes.
//!
//! # Any serde format
//!
//! A tensor crosses serde as a struct of dtype, shape, layout and bytes under a private name. The formats of this crate
//! know it; to all others it is that struct. So the same types go through `serde_json` or `postcard` too.

/// The examples of the README, which are tested with the others.
#[cfg(all(doctest, feature = "derive"))]
#[doc = include_str!("../README.md")]
struct Readme;

// The derive's `::tensorfile` also means this crate in its own tests.
extern crate self as tensorfile;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
pub mod array;
mod cast;
#[cfg(feature = "digest")]
pub mod digest;
mod error;
mod file;
mod format;
mod limits;
mod model;
mod report;
mod source;
mod stats;
mod tensor;
mod wire;

#[cfg(feature = "derive")]
pub use tensorfile_derive::TensorFile;

pub use array::Arrays;
pub use cast::{CastLoss, CastReport, Caster};
#[cfg(feature = "digest")]
pub use digest::Digest;
pub use error::{Category, Error, ErrorKind, Gap, LoadReport, Misfit, MissingTensor, Result, UnexpectedTensor};
pub use file::{Backend, File, FileTensor, OpenOptions, SaveOptions, load, save};
#[cfg(feature = "npy")]
pub use format::npy;
#[cfg(feature = "npz")]
pub use format::npz;
#[cfg(feature = "ptd")]
pub use format::ptd;
#[cfg(feature = "safetensors")]
pub use format::safetensors;
#[cfg(feature = "tensorbuffers")]
pub use format::tensorbuffers;
pub use format::{FORMATS, FileMetadata, Format, WriteOptions, btf, ten};
pub use limits::Limits;
pub use model::{Collection, FromTensors, Schema, SchemaEntry, Slot, TensorFile};
pub use stats::{Histogram, Stats};
pub use tensor::{
    Bits16, Blob, CooTensor, DimOrder, Dtype, Element, F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz, InvalidCast,
    InvalidTensor, Layout, Number, QInt8, QInt32, QUint2x4, QUint4x2, QUint8, Shape, Tensor, TensorInfo, TensorMap,
    TensorView, UnknownDtypeName,
};
