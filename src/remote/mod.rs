//! Files at URLs: a location with a known scheme and `://` is opened here, and read by ranges.
//!
//! ```text
//! https://HOST/PATH, http://HOST/PATH                     a file on a web server
//! hf://[datasets/|spaces/]OWNER/NAME[@REV][/PATH]         a file of the Hugging Face hub, or its checkpoint
//! s3://BUCKET/KEY, gs://BUCKET/KEY, az://CONTAINER/KEY    an object of a store, which is also written
//! ```
//!
//! The rest of the crate sees a [`ReadRanges`](crate::storage::ReadRanges), and a way to the shards next to it.
//!
//! `http` and `cloud` need a Cargo feature each. Without it, a file of the same functions takes the place of the folder,
//! so that only the two lines below depend on features. The rest of this folder has no dependencies, and is always
//! compiled.

#[cfg_attr(not(feature = "cloud"), path = "no_cloud.rs")]
mod cloud;
mod environment;
mod header_blocks;
#[cfg_attr(not(feature = "http"), path = "no_http.rs")]
mod http;
mod location;
mod source;
mod traffic;
mod version;

pub(crate) use location::{ListedFolder, Location, RemoteFile, RemoteFolder};
pub(crate) use source::RemoteSource;
pub use traffic::{Traffic, traffic};

use crate::error::{Error, ErrorKind, Result};
use crate::limits::Limits;
use crate::storage::{refused_scheme, scheme_of};

/// Opens a URL by its scheme.
pub(crate) fn open(url: &str, limits: &Limits) -> Result<Location> {
    match scheme_of(url) {
        Some((_, "http")) => http::open(url, limits),
        Some((_, "cloud")) => cloud::open(url),
        _ => Err(cannot_open(url)),
    }
}

/// Returns the error for a URL of a scheme that is unknown or off.
pub(crate) fn cannot_open(url: &str) -> Error {
    if let Some((_, feature)) = scheme_of(url) {
        return ErrorKind::FeatureOff { format: "remote", feature }.into();
    }
    refused_scheme(url)
}

/// Returns whether a URL can be saved to.
pub(crate) fn is_saved_to(url: &str) -> bool {
    cloud::IS_ON && scheme_of(url).is_some_and(|(_, feature)| feature == "cloud")
}

/// Writes an object of `len` bytes. It is visible when it is complete, or not at all.
pub(crate) fn save(
    url: &str,
    len: u64,
    no_replace: bool,
    write: &mut dyn FnMut(&mut dyn std::io::Write) -> Result<()>,
) -> Result<()> {
    cloud::save(url, len, no_replace, write)
}

/// Returns the names and lengths of the objects in a folder of a store.
pub(crate) fn list(folder: &str) -> Result<Vec<(String, u64)>> {
    match scheme_of(folder) {
        Some((_, "cloud")) => cloud::list(folder),
        _ => Err(no_store(folder, "list")),
    }
}

/// Removes an object from a store.
pub(crate) fn remove(url: &str) -> Result<()> {
    match scheme_of(url) {
        Some((_, "cloud")) => cloud::remove(url),
        _ => Err(no_store(url, "remove")),
    }
}

fn no_store(url: &str, what: &str) -> Error {
    match scheme_of(url) {
        Some((_, "http")) => {
            let instead = "only stores can do that: s3://, gs:// and az://".to_owned();
            ErrorKind::Unsupported { what: format!("{what} files of a web server"), instead }.into()
        }
        _ => cannot_open(url),
    }
}
