//! Facts about an object on a web server from its first answer, compared with later answers.

use ureq::http::HeaderMap;

use super::client::{Failed, Linked, values};
use super::url::WebUrl;
use crate::error::{Error, ErrorKind};
use crate::remote::version::ObjectVersion;

/// The URL of an object, and what its first answer said about it.
#[derive(Clone)]
pub(super) struct ObjectName {
    pub(super) url: WebUrl,
    pub(super) token: Option<String>,
    pub(super) version: ObjectVersion,
    pub(super) linked: Linked,
}

impl ObjectName {
    /// Returns the difference to another answer.
    pub(super) fn difference(&self, headers: &HeaderMap, linked: &Linked) -> Option<String> {
        let (old, new) = (&self.linked.sha256, &linked.sha256);
        match (old, new) {
            (Some(old), Some(new)) if old != new => Some(format!("its SHA-256 was {old}, and is {new}")),
            _ => self.version.difference(&version_of(headers)),
        }
    }

    pub(super) fn identity(&self) -> Option<String> {
        match &self.linked.sha256 {
            Some(sha256) => Some(format!("sha256:{sha256}")),
            None => {
                let tag = std::str::from_utf8(self.version.strong_tag()?).ok()?;
                Some(format!("{tag} {}", self.url.uri().ok()?))
            }
        }
    }
}

pub(super) fn version_of(headers: &HeaderMap) -> ObjectVersion {
    ObjectVersion { tag: values(headers, "etag"), modified: values(headers, "last-modified") }
}

pub(super) fn changed(what: String) -> Failed {
    Failed::Lasting(Error::from(ErrorKind::SourceChanged { what }).into())
}

/// Adds how far a body came to an error that it ended.
pub(super) fn cut_after(error: Failed, found: u64, expected: Option<u64>) -> Failed {
    match expected {
        Some(expected) if error.is_cut_off() => Failed::cut_off(found, expected),
        _ => error,
    }
}
