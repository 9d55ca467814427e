//! WebDataset shards as typed samples: tar archives of tensor files, labels and text.
//!
//! A shard holds the files of many samples: `0001.image.ten`, `0001.label.cls`, `0002.image.ten`, …. Iterate over the
//! samples with [`Shards`], and fill a struct with `#[derive(TensorFile)]` by [`Sample::load`]. With [`ShardWriter`]
//! you write shards that webdataset, GNU tar and NVIDIA DALI read.
//!
//! ```
//! use ndarray::{Array2, array};
//! use tensorfile::TensorFile;
//! use tensorfile_datasets::{ShardWriter, Shards};
//!
//! #[derive(TensorFile)]
//! struct Digit {
//!     image: Array2<u8>,
//!     label: i64,
//! }
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = |name: &str| folder.path().join(name).to_str().expect("it is text").to_owned();
//! let mut writer = ShardWriter::new(path("train-{000000..}.tar"))?.max_samples(1000);
//! writer.write("0001", &Digit { image: array![[0, 9], [9, 0]], label: 7 })?;
//! writer.finish()?;
//!
//! for digit in Shards::new(&path("train-{000000..000000}.tar"))?.load::<Digit>() {
//!     let digit = digit?;
//!     assert_eq!((digit.image[[0, 1]], digit.label), (9, 7));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Limits
//!
//! You can read shards that you do not trust. If one exceeds a limit, you get an error:
//!
//! - The headers before a file have at most 1 MiB, and a shard at most [`Limits::tensors`] samples.
//! - A sample of a stream has at most [`Limits::held`] bytes. So do all samples of streams in the buffer of a
//!   [`Shuffle`] or in a [`Batch`] together.
//! - [`Limits::memory`] and [`Limits::shared`] bound the memory that the tensors of a sample take besides.
//!
//! A broken file is an [`Error`] with shard, key and offset. Nothing in a shard is ever run.
//!
//! [`Limits::held`]: tensorfile::Limits::held
//! [`Limits::memory`]: tensorfile::Limits::memory
//! [`Limits::shared`]: tensorfile::Limits::shared
//! [`Limits::tensors`]: tensorfile::Limits::tensors

mod archive;
mod batches;
mod buffer;
mod compression;
mod error;
mod folder;
mod format;
mod loader;
mod locations;
mod open;
mod resume;
mod role;
mod sample;
mod shard;
mod shards;
mod shuffle;
pub mod splits;
mod wids;
mod writer;

pub use batches::{Batch, Batches, Column};
pub use error::{Error, Result};
pub use folder::{Packed, Unpacked, pack, unpack};
pub use format::{TAR, is_shard, is_shard_at};
pub use loader::Loader;
pub use locations::locations;
pub use open::open;
pub use resume::{Resume, State};
pub use sample::{Member, Sample};
pub use shard::Shard;
pub use shards::{Loaded, OnError, Position, ShardWarning, Shards, Skipped};
pub use shuffle::Shuffle;
pub use writer::{ShardWriter, WrittenShard};
