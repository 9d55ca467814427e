//! Files at URLs, as the functions that open paths open them.

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

/// Returns whether a location is a URL that [`save`](super::save()) writes: an object in a store, with the Cargo feature
/// `cloud`.
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
    /// With the Cargo feature `http`, it is `https://…`, `http://…`, or `hf://OWNER/NAME[@REVISION][/PATH]` on the Hugging
    /// Face hub; with `cloud`, `s3://BUCKET/KEY`, `gs://BUCKET/KEY` or `az://CONTAINER/KEY`, with the credentials of the
    /// environment.
    ///
    /// A URL with a slash at its end is a folder, and opened as a directory is. Stores and the hub list its files; on a web
    /// server, only the `.metadata` of a trainer is looked for.
    ///
    /// Only the bytes that are asked for are read: the index now, each tensor on demand. Nothing can be borrowed. A server
    /// that has no ranges sends the whole file, which is held in memory up to a [limit](crate::Limits::held).
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
    /// As [`File::open`], and [`ErrorKind::Io`](crate::ErrorKind::Io) if the server refuses or does not answer. Later reads are
    /// [`ErrorKind::SourceChanged`](crate::ErrorKind::SourceChanged) if the file on the server is another one by then.
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
