//! Opens files at URLs, and shows URLs without secrets.

use std::path::Path;

use super::{File, OpenOptions};
use crate::error::Result;
use crate::remote;
use crate::storage::{self, url_of};

/// Returns the text of a URL for messages: without its query and user, which can be secrets. `None` for a path.
///
/// ```
/// use tensorfile::file::shown_url;
///
/// assert_eq!(shown_url("https://host/a.npy?signature=123").as_deref(), Some("https://host/a.npy"));
/// assert_eq!(shown_url("folder/a.npy"), None);
/// ```
#[must_use]
pub fn shown_url(location: impl AsRef<Path>) -> Option<String> {
    url_of(location.as_ref()).map(storage::shown_url)
}

/// Returns whether [`save`](super::save()) can write to a location because it is the URL of an object in a store. This
/// needs the Cargo feature `cloud`.
///
/// ```
/// use tensorfile::file::is_saved_to;
///
/// assert_eq!(is_saved_to("s3://bucket/model.safetensors"), cfg!(feature = "cloud"));
/// assert!(!is_saved_to("https://host/model.safetensors"));
/// ```
#[must_use]
pub fn is_saved_to(location: impl AsRef<Path>) -> bool {
    url_of(location.as_ref()).is_some_and(remote::is_saved_to)
}

impl OpenOptions {
    /// Opens a file at a URL. [`File::open`] and [`load`](super::load()) do the same with a path that is a URL.
    ///
    /// With the Cargo feature `http`, the URL may be `https://…`, `http://…`, or `hf://OWNER/NAME[@REVISION][/PATH]` on
    /// the Hugging Face hub. With `cloud`, it may be `s3://BUCKET/KEY`, `gs://BUCKET/KEY` or `az://CONTAINER/KEY`, with
    /// credentials from the environment.
    ///
    /// A URL with a slash at its end is a folder, and is opened as a directory is. Stores and the hub list its files.
    /// On a web server, only a trainer's `.metadata` is looked for.
    ///
    /// Only the needed bytes are read: the index now, and each tensor on demand. Nothing can be borrowed. A server
    /// without range requests sends the whole file, which is held in memory up to a [limit](crate::Limits::held).
    ///
    /// ```no_run
    /// use tensorfile::OpenOptions;
    ///
    /// let file = OpenOptions::new().open_url("hf://openai-community/gpt2")?;
    /// let weight = file.tensor("wpe.weight")?;
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`File::open`], and [`ErrorKind::Io`](crate::ErrorKind::Io) if the server refuses or does not answer. Later
    /// reads fail with [`ErrorKind::SourceChanged`](crate::ErrorKind::SourceChanged) if the file on the server was
    /// replaced.
    pub fn open_url(&self, url: &str) -> Result<File> {
        let path = Path::new(url);
        match url_of(path) {
            Some(_) => self.open(path),
            None => Err(remote::cannot_open(url)),
        }
    }
}

#[cfg(all(test, not(feature = "http")))]
mod tests {
    #[test]
    fn a_url_names_the_feature_that_is_off() {
        let error = super::File::open("https://user:pass@host/a.npy?query").unwrap_err();
        assert_eq!(error.to_string(), "https://host/a.npy: remote files need the Cargo feature `http`");
    }
}
