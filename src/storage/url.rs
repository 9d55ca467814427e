//! Locations that are URLs rather than paths.

use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};

/// Known schemes, each with the Cargo feature that reads it. Text with another scheme is a path.
pub(crate) const SCHEMES: [(&str, &str); 6] =
    [("https", "http"), ("http", "http"), ("hf", "http"), ("s3", "cloud"), ("gs", "cloud"), ("az", "cloud")];

/// Returns the text of a path that is a URL.
pub(crate) fn url_of(path: &Path) -> Option<&str> {
    // Most paths begin with a slash or have no colon: this is asked of every file that is opened or saved.
    let bytes = path.as_os_str().as_encoded_bytes();
    if !bytes.first()?.is_ascii_alphabetic() || !bytes.contains(&b':') {
        return None;
    }
    path.to_str().filter(|text| scheme_of(text).is_some())
}

/// Returns the scheme of a URL and its feature, if it is known.
pub(crate) fn scheme_of(url: &str) -> Option<(&'static str, &'static str)> {
    let (name, _) = url.split_once("://")?;
    SCHEMES.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name))
}

/// Returns a URL as messages show it: without its query and user, which can be secrets.
pub(crate) fn shown_url(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    // The revision of a repository follows the first slash.
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}")
}

/// Fails if a file to write is at a URL.
pub(crate) fn refuse_url(path: &Path) -> Result<()> {
    let Some(url) = url_of(path) else { return Ok(()) };
    if let Some((_, "cloud")) = scheme_of(url) {
        let error = if cfg!(feature = "cloud") {
            let instead = "load it, and save it whole".to_owned();
            ErrorKind::Unsupported { what: "change an object in a store".to_owned(), instead }
        } else {
            ErrorKind::FeatureOff { format: "remote", feature: "cloud" }
        };
        return Err(Error::from(error).in_file(&PathBuf::from(shown_url(url))));
    }
    let instead = "write a file, and upload it with the tools of its server".to_owned();
    let error = Error::from(ErrorKind::Unsupported { what: "write to a URL".to_owned(), instead });
    Err(error.in_file(&PathBuf::from(shown_url(url))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_schemes_are_urls() {
        for url in ["https://host/a.npy", "HTTP://host", "hf://o/n", "s3://bucket/a"] {
            assert_eq!(url_of(Path::new(url)), Some(url));
        }
        for path in ["C:\\x", "./s3:", "s3:/a", "https:/host", "ftp://host/a", "a/https://b", "://", "file", ""] {
            assert_eq!(url_of(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn messages_have_no_secrets() {
        for (url, expected) in [
            ("https://host/a.npy?token=secret#part", "https://host/a.npy"),
            ("https://user:secret@host:8080/a@b.npy", "https://host:8080/a@b.npy"),
            ("https://user:secret@host", "https://host"),
            ("https://host?secret", "https://host"),
            ("https://user:se@cret@host/", "https://host/"),
            ("hf://owner/name@main/a.npy", "hf://owner/name@main/a.npy"),
        ] {
            assert_eq!(shown_url(url), expected);
        }
    }
}
