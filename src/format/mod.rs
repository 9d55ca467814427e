//! The formats, and the table of them.

mod face;

pub mod btf;
#[cfg(feature = "npy")]
pub mod npy;
#[cfg(feature = "npz")]
pub mod npz;
#[cfg(feature = "ptd")]
pub mod ptd;
pub mod ten;
#[cfg(feature = "tensorbuffers")]
pub mod tensorbuffers;

use std::io::{Read, Write};

use crate::error::Result;
use crate::tensor::{Dtype, TensorMap};

/// Every format, as a row of a table.
///
/// Tests, tools and documents that are about all formats go through it, so that a new format is one folder and one row.
///
/// ```
/// use tensorfile::{FORMATS, Tensor, TensorMap};
///
/// let map: TensorMap = [("0", Tensor::from_slice(&[1.0_f32, 2.0], [2])?)].into_iter().collect();
/// for format in FORMATS {
///     let file = format.to_vec(&map)?;
///     assert_eq!(format.from_slice(&file)?, map, "{}", format.name);
/// }
/// # Ok::<(), tensorfile::Error>(())
/// ```
pub const FORMATS: &[&Format] = &[
    &btf::FORMAT,
    &ten::FORMAT,
    #[cfg(feature = "ptd")]
    &ptd::FORMAT,
    #[cfg(feature = "tensorbuffers")]
    &tensorbuffers::FORMAT,
    #[cfg(feature = "npy")]
    &npy::FORMAT,
    #[cfg(feature = "npz")]
    &npz::FORMAT,
];

/// What a format is called, what it can hold, and how to read and write collections in it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Format {
    /// The name, which is that of its module.
    pub name: &'static str,
    /// What file names end with, without the dot.
    pub extensions: &'static [&'static str],
    /// The dtypes that it can store.
    pub dtypes: &'static [Dtype],
    /// The highest rank that it can store, where there is one.
    pub max_rank: Option<usize>,
    /// How long names may be in bytes: 0 where it stores none, `None` where they may be of any length.
    ///
    /// Longer ones can be embedded; see [`to_vec_with_names`](Self::to_vec_with_names).
    pub max_name: Option<usize>,
    /// How many tensors a file has, where that is given: each file then has as many.
    pub max_tensors: Option<usize>,
    /// Whether it can store sparse tensors.
    pub sparse: bool,
    pub(crate) functions: Functions,
}

/// The entry points of a format's module, for collections.
#[derive(Debug)]
pub(crate) struct Functions {
    pub(crate) from_slice: fn(&[u8]) -> Result<TensorMap>,
    pub(crate) from_reader: fn(&mut dyn Read) -> Result<TensorMap>,
    pub(crate) to_vec: fn(&TensorMap, bool) -> Result<Vec<u8>>,
    pub(crate) to_writer: fn(&mut dyn Write, &TensorMap, bool) -> Result<()>,
}

impl Format {
    /// Reads a file in memory.
    ///
    /// # Errors
    ///
    /// As the `from_slice` of the format's module.
    pub fn from_slice(&self, file: &[u8]) -> Result<TensorMap> {
        (self.functions.from_slice)(file)
    }

    /// Reads a file from a stream.
    ///
    /// # Errors
    ///
    /// As the `from_reader` of the format's module.
    pub fn from_reader(&self, mut reader: impl Read) -> Result<TensorMap> {
        (self.functions.from_reader)(&mut reader)
    }

    /// Writes a file in memory, with the names that the format can store.
    ///
    /// # Errors
    ///
    /// As the `to_vec` of the format's module.
    pub fn to_vec(&self, map: &TensorMap) -> Result<Vec<u8>> {
        (self.functions.to_vec)(map, false)
    }

    /// Writes a file in memory with every name, in a tensor of its own where the format could not store them.
    ///
    /// # Errors
    ///
    /// As the `to_vec` of the format's module.
    pub fn to_vec_with_names(&self, map: &TensorMap) -> Result<Vec<u8>> {
        (self.functions.to_vec)(map, true)
    }

    /// Writes a file to a stream, with the names that the format can store.
    ///
    /// # Errors
    ///
    /// As the `to_writer` of the format's module.
    pub fn to_writer(&self, mut writer: impl Write, map: &TensorMap) -> Result<()> {
        (self.functions.to_writer)(&mut writer, map, false)
    }

    /// Writes a file to a stream with every name, in a tensor of its own where the format could not store them.
    ///
    /// # Errors
    ///
    /// As the `to_writer` of the format's module.
    pub fn to_writer_with_names(&self, mut writer: impl Write, map: &TensorMap) -> Result<()> {
        (self.functions.to_writer)(&mut writer, map, true)
    }
}

/// The [`Functions`] of a format whose module has the usual face. The closure makes the `Options` to write a
/// [`TensorMap`] with, as it is: with every name where its argument says so.
macro_rules! functions {
    ($options:expr) => {
        crate::format::Functions {
            from_slice: |file| from_slice(file),
            from_reader: |reader| from_reader(reader),
            to_vec: |map, names| {
                let options: fn(bool) -> Options = $options;
                options(names).to_vec(map)
            },
            to_writer: |writer, map, names| {
                let options: fn(bool) -> Options = $options;
                options(names).to_writer(writer, map)
            },
        }
    };
}

pub(crate) use face::face;
pub(crate) use functions;
