//! The formats, and the table of them.

mod detect;
mod face;
mod functions;
mod metadata;
mod write;

pub mod btf;
#[cfg(feature = "npy")]
pub mod npy;
#[cfg(feature = "npz")]
pub mod npz;
#[cfg(feature = "ptd")]
pub mod ptd;
#[cfg(feature = "safetensors")]
pub mod safetensors;
pub mod ten;
#[cfg(feature = "tensorbuffers")]
pub mod tensorbuffers;

use std::io::{Read, Write};

use serde::Serialize;

use crate::error::Result;
use crate::tensor::{Dtype, TensorMap};

pub use metadata::FileMetadata;
pub use write::WriteOptions;

pub(crate) use detect::{by_extension, detect};
pub(crate) use face::face;
pub(crate) use functions::{Functions, functions};

/// Makes the table, and what has to be one function for each format: to write values of any type.
macro_rules! table {
    ($($(#[$attribute:meta])* $module:ident,)*) => {
        /// Every format, as a row of a table.
        ///
        /// Tests, tools and documents that are about all formats go through it, so that a new format is one folder and one row.
        ///
        /// ```
        /// use tensorfile::{FORMATS, Tensor, TensorMap, WriteOptions};
        ///
        /// let map: TensorMap = [("0", Tensor::from_slice(&[1.0_f32, 2.0], [2])?)].into_iter().collect();
        /// for format in FORMATS {
        ///     let file = format.to_vec(&map, &WriteOptions::new())?;
        ///     assert_eq!(format.from_slice(&file)?, map, "{}", format.name);
        /// }
        /// # Ok::<(), tensorfile::Error>(())
        /// ```
        pub const FORMATS: &[&Format] = &[$($(#[$attribute])* &$module::FORMAT,)*];

        impl Format {
            /// Writes a file in memory.
            ///
            /// # Errors
            ///
            /// As [`to_writer`](Self::to_writer).
            pub fn to_vec<T: Serialize + ?Sized>(&self, value: &T, options: &WriteOptions) -> Result<Vec<u8>> {
                match self.name {
                    $($(#[$attribute])* name if name == $module::FORMAT.name => {
                        $module::options(options)?.to_vec(value)
                    })*
                    _ => unreachable!("rows are made in this table only"),
                }
            }

            /// Writes a file to a stream.
            ///
            /// The value is anything that the format's own `to_writer` takes; a [`Collection`](crate::Collection) goes in as
            /// `&dyn Collection`.
            ///
            /// # Errors
            ///
            /// As the `to_writer` of the format's module; [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) also where
            /// the format has no such option or cannot keep the metadata.
            pub fn to_writer<T: Serialize + ?Sized>(
                &self,
                writer: impl Write,
                value: &T,
                options: &WriteOptions,
            ) -> Result<()> {
                match self.name {
                    $($(#[$attribute])* name if name == $module::FORMAT.name => {
                        $module::options(options)?.to_writer(writer, value)
                    })*
                    _ => unreachable!("rows are made in this table only"),
                }
            }

            /// The length in bytes of the file that [`to_writer`](Self::to_writer) would write. Checks that it could.
            ///
            /// # Errors
            ///
            /// As [`to_writer`](Self::to_writer), but for those of writing.
            pub fn file_bytes<T: Serialize + ?Sized>(&self, value: &T, options: &WriteOptions) -> Result<u64> {
                match self.name {
                    $($(#[$attribute])* name if name == $module::FORMAT.name => {
                        $module::options(options)?.plan(value).map(|plan| plan.file_bytes())
                    })*
                    _ => unreachable!("rows are made in this table only"),
                }
            }

            /// The tensors of the file that [`to_writer`](Self::to_writer) would write. Checks that each could be stored.
            #[cfg(feature = "shards")]
            pub(crate) fn outline<T: Serialize + ?Sized>(
                &self,
                value: &T,
                options: &WriteOptions,
            ) -> Result<Vec<crate::wire::Outline>> {
                match self.name {
                    $($(#[$attribute])* name if name == $module::FORMAT.name => {
                        $module::options(options)?.outline(value)
                    })*
                    _ => unreachable!("rows are made in this table only"),
                }
            }
        }
    };
}

table! {
    btf,
    ten,
    #[cfg(feature = "ptd")]
    ptd,
    #[cfg(feature = "tensorbuffers")]
    tensorbuffers,
    #[cfg(feature = "safetensors")]
    safetensors,
    #[cfg(feature = "npy")]
    npy,
    #[cfg(feature = "npz")]
    npz,
}

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
    /// Longer ones can be embedded; see [`WriteOptions::embed_names`].
    pub max_name: Option<usize>,
    /// How many tensors a file has, where that is given: each file then has as many.
    pub max_tensors: Option<usize>,
    /// Whether it can store sparse tensors.
    pub sparse: bool,
    /// What its files begin with, where they do; any one of them.
    pub(crate) magics: &'static [Magic],
    pub(crate) functions: Functions,
}

/// Bytes that tell a format.
#[derive(Debug)]
pub(crate) struct Magic {
    /// Where they stand in the file.
    pub(crate) offset: usize,
    pub(crate) bytes: &'static [u8],
}

impl Format {
    /// The format of that name, if there is one.
    ///
    /// ```
    /// use tensorfile::Format;
    ///
    /// assert_eq!(Format::named("ten").unwrap().extensions, ["ten"]);
    /// assert!(Format::named("tin").is_none());
    /// ```
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        FORMATS.iter().copied().find(|format| format.name == name)
    }

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

    /// Whether a file can keep an entry of [`FileMetadata`] of that key.
    #[must_use]
    pub fn keeps_metadata(&self, key: &str) -> bool {
        (self.functions.keeps_metadata)(key)
    }
}
