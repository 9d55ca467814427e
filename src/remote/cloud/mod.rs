//! Objects in stores that need signatures: S3, Google Cloud Storage and Azure.
//!
//! ```text
//! s3://BUCKET/KEY          Amazon S3, and other software with its interface (AWS_ENDPOINT_URL)
//! gs://BUCKET/KEY          Google Cloud Storage
//! az://CONTAINER/KEY       Azure Blob Storage, of the account AZURE_STORAGE_ACCOUNT_NAME
//! ```

mod object;
mod profile;
mod runtime;
mod store;
mod upload;

use std::io::{self, Write};
use std::sync::Arc;

use object_store::path::Path;
use store::Object;

use super::location::{ListedFolder, Location, RemoteFile, RemoteFolder};
use super::source::RemoteSource;
use super::traffic;
use crate::error::Result;
use crate::limits::Limits;

/// The feature is on.
pub(super) const IS_ON: bool = true;

/// Opens an object, or lists a folder: its URL ends with a slash.
pub(super) fn open(url: &str) -> Result<Location> {
    if url.ends_with('/') {
        return open_folder(url);
    }
    let object = Object::parse(url)?;
    let siblings = Box::new(StoreFolder(object.with_key(object.key.as_ref())?));
    Ok(Location::Ranges(RemoteFile { source: Arc::new(object::open(object)?), folder: siblings }))
}

/// The objects next to an object.
struct StoreFolder(Object);

impl RemoteFolder for StoreFolder {
    fn open(&self, name: &str, _: &Limits) -> Result<Arc<RemoteSource>> {
        Ok(Arc::new(object::open(self.0.sibling(name)?)?))
    }
}

/// Writes an object of `len` bytes. It is visible when it is complete, or not at all.
pub(super) fn save(
    url: &str,
    len: u64,
    no_replace: bool,
    write: &mut dyn FnMut(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    upload::upload(&Object::parse(url)?, len, no_replace, write)
}

fn open_folder(url: &str) -> Result<Location> {
    let object = any_in(url)?;
    let listed = list_next_to(&object)?;
    if listed.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the store has no objects in this folder").into());
    }
    let mut names: Vec<String> = listed.into_iter().map(|(name, _)| name).collect();
    names.sort_unstable();
    let folder = Box::new(StoreFolder(object));
    Ok(Location::Folder(ListedFolder { name: url.to_owned(), folder, names, error: None }))
}

/// Returns the names and lengths of the objects in a folder, and not in folders of it.
pub(super) fn list(folder: &str) -> Result<Vec<(String, u64)>> {
    list_next_to(&any_in(folder)?)
}

/// Returns an object in a folder. Its name does not matter, because we ask about the folder.
fn any_in(folder: &str) -> Result<Object> {
    Object::parse(&format!("{}/any", folder.strip_suffix('/').unwrap_or(folder)))
}

fn list_next_to(object: &Object) -> Result<Vec<(String, u64)>> {
    let prefix = object.key.as_ref().rsplit_once('/').and_then(|(folder, _)| Path::parse(folder).ok());
    let store = object.store()?;
    traffic::add_request();
    let listed = runtime::run(async move { store.list_with_delimiter(prefix.as_ref()).await })?;
    let listed = listed.map_err(|error| explain(object, error))?.objects.into_iter();
    Ok(listed.filter_map(|meta| Some((meta.location.filename()?.to_owned(), meta.size))).collect())
}

/// Removes an object.
pub(super) fn remove(url: &str) -> Result<()> {
    Ok(upload::delete(&Object::parse(url)?)?)
}

/// Returns what went wrong with an object, without secrets and pages of XML.
fn explain(object: &Object, error: object_store::Error) -> io::Error {
    use object_store::Error;

    let message = message(&error);
    let (kind, message) = match error {
        Error::NotFound { .. } => (io::ErrorKind::NotFound, message),
        Error::AlreadyExists { .. } => (io::ErrorKind::AlreadyExists, "the object exists".to_owned()),
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            (io::ErrorKind::PermissionDenied, format!("{message}; {}", object.advice()))
        }
        // `object_store` has no kind for errors about credentials.
        Error::Generic { .. } if is_about_credentials(&message) => {
            (io::ErrorKind::PermissionDenied, format!("{message}; {}", object.advice()))
        }
        Error::NotSupported { .. } | Error::NotImplemented { .. } => (io::ErrorKind::Unsupported, message),
        _ => (io::ErrorKind::Other, message),
    };
    io::Error::new(kind, message)
}

/// Returns whether a message is about credentials. Words in URLs do not count: they are names of objects.
fn is_about_credentials(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    let words: Vec<&str> = message.split_whitespace().filter(|word| !word.contains("://")).collect();
    let words = words.join(" ");
    // The address at which machines of a cloud ask for their credentials.
    message.contains("://169.254.169.254")
        || ["credential", "token", "301 moved", "403 forbidden", "401 unauthorized"]
            .into_iter()
            .any(|said| words.contains(said))
}

/// Returns the innermost message that says something, with the code and the message of an XML body instead of the body,
/// and URLs without their queries.
fn message(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let more = inner.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = inner.source();
    }
    let text = match text.find("<?xml").or_else(|| text.find("<Error")) {
        Some(start) => {
            let (before, xml) = text.split_at(start);
            let said: Vec<&str> = ["Code", "Message"].into_iter().filter_map(|name| element(xml, name)).collect();
            format!("{} {}", before.trim_end(), said.join(": "))
        }
        None => text,
    };
    // The message already contains the request.
    let said = text.rsplit_once("non-2xx status code: ").map_or(&*text, |(_, said)| said);
    without_queries(said)
}

fn element<'x>(xml: &'x str, name: &str) -> Option<&'x str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    rest.split_once('<').map(|(content, _)| content.trim().trim_end_matches('.'))
}

/// Removes queries of URLs, which can hold signatures.
fn without_queries(text: &str) -> String {
    let ends = |character: char| character.is_whitespace() || "()\"'<>`,".contains(character);
    let mut kept = String::with_capacity(text.len());
    for word in text.split_inclusive(ends) {
        match word.split_once('?') {
            Some((url, query)) if url.contains("://") => {
                kept.push_str(url);
                kept.extend(query.chars().last().filter(|last| ends(*last)));
            }
            _ => kept.push_str(word),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_no_secrets_and_no_pages() {
        let source = "error sending request for url (https://a.blob.core.windows.net/c/k?sv=1&sig=secret): refused";
        let error = object_store::Error::Generic { store: "Azure", source: source.into() };
        assert_eq!(
            message(&error),
            "Generic Azure error: error sending request for url (https://a.blob.core.windows.net/c/k): refused"
        );
        let source = "Server returned non-2xx status code: 403 Forbidden: <?xml version=\"1.0\"?>\n<Error>\
                      <Code>AccessDenied</Code><Message>Access Denied</Message><HostId>x</HostId></Error>";
        let error = object_store::Error::PermissionDenied { path: "k".to_owned(), source: source.into() };
        assert_eq!(message(&error), "403 Forbidden: AccessDenied: Access Denied");
    }

    #[test]
    fn names_of_objects_are_not_about_credentials() {
        let failed = "Error performing GET http://host/bucket/tokenizer.npy in 5ms - HTTP error: connection refused";
        assert!(!is_about_credentials(failed));
        assert!(is_about_credentials("Error performing GET http://169.254.169.254/latest in 1s - HTTP error"));
        assert!(is_about_credentials("Generic S3 error: the credentials have expired"));
    }

    #[test]
    fn urls_of_objects_have_a_bucket_and_a_key() {
        for url in ["s3://bucket/a/b.npy", "gs://b/k?x#y", "az://container/model.safetensors"] {
            assert_eq!(Object::parse(url).unwrap().url(), url);
        }
        for (url, expected) in [
            ("s3://bucket", "cannot open `s3://bucket` as a URL; the form is s3://BUCKET/KEY"),
            ("s3:///key", "cannot open `s3:///key` as a URL; the form is s3://BUCKET/KEY"),
            ("az://c/", "cannot open `az://c/` as a URL; the form is az://CONTAINER/KEY"),
        ] {
            assert_eq!(Object::parse(url).unwrap_err().to_string(), expected);
        }
        for url in ["s3://b/a//c", "s3://b//c", "gs://b//c", "az://c//k", "s3://b///c", "s3://b//", "s3://b/c//"] {
            assert!(Object::parse(url).is_err(), "{url}");
        }
        let object = Object::parse("s3://b/folder/index.json").unwrap();
        assert_eq!(object.sibling("a.npy").unwrap().url(), "s3://b/folder/a.npy");
        assert!(object.with_key("/a").is_err() && object.sibling("a/").is_err());
    }
}
