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

/// Returns the text of a path that begins as a URL does, but with a scheme that is not known.
pub(crate) fn unknown_scheme(path: &Path) -> Option<&str> {
    let text = path.to_str()?;
    let (scheme, _) = text.split_once("://")?;
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    (is_scheme && scheme_of(text).is_none()).then_some(text)
}

/// Returns the error for a URL whose scheme is not known.
pub(crate) fn refused_scheme(url: &str) -> Error {
    let shown = shown_url(url);
    let (scheme, rest) = shown.split_once("://").unwrap_or((&shown, ""));
    let known: Vec<String> = SCHEMES.iter().map(|(name, _)| format!("{name}://")).collect();
    let near = SCHEMES.iter().map(|(name, _)| (strsim::osa_distance(&scheme.to_ascii_lowercase(), name), name)).min();
    let instead = match near {
        _ if scheme.eq_ignore_ascii_case("file") => format!("a file is opened by its path, such as `{rest}`"),
        Some((1, near)) => format!("did you mean `{near}://{rest}`? known are {}", known.join(", ")),
        _ => format!("known are {}", known.join(", ")),
    };
    let error = Error::from(ErrorKind::Unsupported { what: format!("open `{shown}` as a URL"), instead });
    error.in_file(&PathBuf::from(shown))
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
    if let Some(url) = unknown_scheme(path)
        && path.parent().is_some_and(|folder| !folder.exists())
    {
        return Err(refused_scheme(url));
    }
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
    fn other_schemes_are_named() {
        for (path, expected) in [
            (
                "htp://host/a.npy?secret",
                "did you mean `http://host/a.npy`? known are https://, http://, hf://, s3://, gs://, az://",
            ),
            (
                "HTTPSS://u:secret@host/a",
                "did you mean `https://host/a`? known are https://, http://, hf://, s3://, gs://, az://",
            ),
            ("ftp://host/a", "known are https://, http://, hf://, s3://, gs://, az://"),
            ("file:///a.npy", "a file is opened by its path, such as `/a.npy`"),
        ] {
            let url = unknown_scheme(Path::new(path)).unwrap();
            let message = refused_scheme(url).to_string();
            assert!(message.ends_with(&format!("as a URL; {expected}")) && !message.contains("secret"), "{message}");
        }
        for path in ["http://host", "S3://b/k", "a/b://c", "://", "1a://b", "C:\\x", "a"] {
            assert_eq!(unknown_scheme(Path::new(path)), None, "{path}");
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
