//! Jobs divided into splits, for processes and machines that any engine starts.
//!
//! 1. Plan with [`splits`]. A split has whole files, tensors of a large file, or samples of a large shard.
//! 2. Send each [`Split`] to a process, as JSON. The process [reads](Split::read) it, and writes one file with a
//!    [`PartWriter`].
//! 3. When all parts are written, [`commit`] turns them into one dataset.
//!
//! ```
//! use ndarray::array;
//! use tensorfile::{File, TensorMap};
//! use tensorfile_datasets::splits::{Part, PartWriter, Split, commit, splits};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = |name: &str| folder.path().join(name).to_str().expect("it is text").to_owned();
//! # std::fs::create_dir(path("out"))?;
//! for name in ["a.npy", "b.npy", "c.npy"] {
//!     tensorfile::save(path(name), &TensorMap::from_iter([("0", array![1.0_f32, 2.0])]))?;
//! }
//! // One process plans.
//! let plan = splits(&[path("c.npy"), path("a.npy"), path("b.npy")], 300)?;
//! let sent: Vec<String> = plan.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
//!
//! // Any process, on any machine: a split that fails is tried again.
//! let work = |json: &str| -> Result<Part, Box<dyn std::error::Error>> {
//!     let split: Split = serde_json::from_str(json)?;
//!     let mut part = PartWriter::new(path("out"), &split, "safetensors")?;
//!     part.copy(&split)?;
//!     Ok(part.finish()?)
//! };
//! let parts = sent.iter().map(|json| work(json)).collect::<Result<Vec<_>, _>>()?;
//!
//! // One process again, at the end.
//! let committed = commit(path("out"), parts)?;
//! let file = File::open(&committed.index)?;
//! assert_eq!((plan.len(), file.len()), (2, 3));
//! assert_eq!(file.array::<f32, ndarray::Ix1>("b")?, array![1.0, 2.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Exactly once
//!
//! Engines run a split again if a process or a machine is lost, and sometimes while the first attempt still runs. You
//! need not care: each attempt writes its own temporary file, flushes it to disk, and renames it unless another attempt
//! was faster. The same input makes the same bytes, so the digests of both attempts agree. [`commit`] refuses parts
//! that are missing, differ, or belong to another plan, and removes the files of lost attempts.

mod commit;
mod part;
mod plan;
mod ranks;
mod read;

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tensorfile::ErrorKind;

use crate::error::{Error, Result};
use crate::locations::is_named_shard;

pub use commit::{Committed, commit, commit_by_length};
pub use part::{Part, PartWriter};
pub use plan::{Planner, files, splits};
use plan::{length_of, shown};
pub use ranks::{RankFile, RankPart, commit_ranks};
pub use read::{Rows, TensorRow};

/// A part of a job: some files, or ranges of large ones.
///
/// ```
/// use tensorfile_datasets::splits::{Planner, Split};
///
/// let plan = Planner::by_count(2).plan_listed([("b.tar".to_owned(), 1024), ("a.tar".to_owned(), 1024)])?;
/// assert_eq!(plan[0].pieces[0].location, "a.tar");
/// let json = serde_json::to_string(&plan[1])?;
/// let pieces = r#""pieces":[{"location":"b.tar","bytes":1024,"extent":"all"}]"#;
/// assert_eq!(json, format!(r#"{{"plan":"{}","number":2,"of":2,{pieces}}}"#, plan[1].plan));
/// assert_eq!(serde_json::from_str::<Split>(&json)?, plan[1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// A digest of the plan: the same for all splits of the same files, divided in the same way.
    pub plan: Arc<str>,
    /// The number of the split, from 1 on.
    pub number: usize,
    /// The number of all splits.
    pub of: usize,
    /// The folder of the files, if there are several. Names of tensors begin with the rest of their file's path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<Arc<str>>,
    /// The files and ranges to read, in this order.
    pub pieces: Vec<Piece>,
}

/// A file or a range of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// The path or URL.
    pub location: String,
    /// The length of the file. If it has changed when the file is read, you get an error.
    pub bytes: u64,
    /// The part of the file to read.
    pub extent: Extent,
}

impl Piece {
    /// Checks that the file has the length of the plan.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Message`] if it has another length, and [`ErrorKind::Io`] if the length cannot be found.
    pub fn check(&self) -> Result<()> {
        if length_of(&self.location)? == self.bytes { Ok(()) } else { Err(self.changed()) }
    }

    fn changed(&self) -> Error {
        refused("the file changed after the job was planned".to_owned()).in_shard(&shown(&self.location))
    }
}

/// The part of a file that a split reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// The whole file.
    All,
    /// The tensors at these positions.
    Tensors(Range<usize>),
    /// The samples that begin in this range of bytes of a shard.
    Bytes(Range<u64>),
}

/// Returns whether a file is a shard of samples rather than a tensor file, by its name.
#[must_use]
pub fn is_shard(location: &str) -> bool {
    is_named_shard(location)
}

fn refused(message: String) -> Error {
    ErrorKind::Message(message).into()
}
