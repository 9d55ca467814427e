//! Folders of stores, for programs that write several objects to one.

use std::path::PathBuf;

use crate::error::Result;
use crate::remote;
use crate::storage::shown_url;

/// An object in a folder of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedObject {
    /// The name in the folder.
    pub name: String,
    /// The length in bytes.
    pub bytes: u64,
}

/// Lists the objects in a folder of a store, such as `s3://BUCKET/FOLDER`, but not those in its subfolders. A request
/// returns a thousand objects or more.
///
/// ```no_run
/// use tensorfile::file::list_objects;
///
/// let bytes: u64 = list_objects("s3://bucket/checkpoints")?.iter().map(|object| object.bytes).sum();
/// # Ok::<(), tensorfile::Error>(())
/// ```
///
/// # Errors
///
/// - [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported): the folder is not the URL of a store.
/// - [`ErrorKind::FeatureOff`](crate::ErrorKind::FeatureOff): the Cargo feature `cloud` is off.
/// - [`ErrorKind::Io`](crate::ErrorKind::Io): the store refuses or does not answer.
pub fn list_objects(folder: &str) -> Result<Vec<ListedObject>> {
    let listed = remote::list(folder).map_err(|error| error.in_file(&PathBuf::from(shown_url(folder))))?;
    Ok(listed.into_iter().map(|(name, bytes)| ListedObject { name, bytes }).collect())
}

/// Removes an object from a store.
///
/// # Errors
///
/// As [`list_objects`].
pub fn remove_object(url: &str) -> Result<()> {
    remote::remove(url).map_err(|error| error.in_file(&PathBuf::from(shown_url(url))))
}
