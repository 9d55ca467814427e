//! Files at URLs: a location with a known scheme and `://` is opened here, and read by ranges.
//!
//! ```text
//! https://HOST/PATH, http://HOST/PATH                     a file on a web server
//! hf://[datasets/|spaces/]OWNER/NAME[@REV][/PATH]         a file of the Hugging Face hub, or its checkpoint
//! ```
//!
//! The rest of the crate sees a [`ReadRanges`](crate::storage::ReadRanges), and a way to the shards next to it.

#[cfg(feature = "http")]
mod address;
#[cfg(feature = "http")]
mod client;
#[cfg(feature = "http")]
mod header_blocks;
#[cfg(feature = "http")]
mod hub;
#[cfg(feature = "http")]
mod location;
#[cfg(feature = "http")]
mod object;
#[cfg(feature = "http")]
mod source;
#[cfg(feature = "http")]
mod traffic;
#[cfg(feature = "http")]
mod url;

#[cfg(feature = "http")]
pub(crate) use location::{Location, RemoteFile};
#[cfg(feature = "http")]
pub use traffic::{Traffic, traffic};

#[cfg(feature = "http")]
use crate::error::Result;
use crate::error::{Error, ErrorKind};
#[cfg(feature = "http")]
use crate::limits::Limits;
use crate::storage::{SCHEMES, scheme_of, shown_url};

/// Opens a URL by its scheme.
#[cfg(feature = "http")]
pub(crate) fn open(url: &str, limits: &Limits) -> Result<Location> {
    match scheme_of(url) {
        Some(("https" | "http", _)) => source::open(url, limits),
        Some(("hf", _)) => hub::open(url, limits),
        _ => Err(cannot_open(url)),
    }
}

/// Returns the error for a URL of a scheme that is unknown or off.
pub(crate) fn cannot_open(url: &str) -> Error {
    if let Some((_, feature)) = scheme_of(url) {
        return ErrorKind::FeatureOff { format: "remote", feature }.into();
    }
    let known: Vec<String> = SCHEMES.iter().map(|(name, _)| format!("{name}://")).collect();
    let what = format!("open `{}` as a URL", shown_url(url));
    ErrorKind::Unsupported { what, instead: format!("known are {}", known.join(", ")) }.into()
}
