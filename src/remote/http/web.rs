//! Files on web servers.

use std::sync::Arc;

use super::client::{Linked, Refusal};
use super::object::{self, Opened};
use super::url::WebUrl;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::Limits;
use crate::remote::location::{Location, RemoteFile, RemoteFolder};
use crate::remote::source::RemoteSource;

/// Opens a URL of a web server.
pub(super) fn open(url: &str, limits: &Limits) -> Result<Location> {
    let url = WebUrl::parse(url).map_err(|what| {
        let what = format!("open the URL: {what}");
        ErrorKind::Unsupported { what, instead: "a URL is `https://HOST/PATH`".to_owned() }
    })?;
    let folder = WebFolder(url.clone());
    Ok(Location::Ranges(RemoteFile { source: Arc::new(folder.open_object(url, limits)?), folder: Box::new(folder) }))
}

/// The folder of a file on a web server.
struct WebFolder(WebUrl);

impl WebFolder {
    fn open_object(&self, url: WebUrl, limits: &Limits) -> Result<RemoteSource> {
        let shown = url.to_string();
        let opened = open_object(&url, None, shown, limits);
        Ok(opened.map_err(|error| explain(&url, error))?.1)
    }
}

impl RemoteFolder for WebFolder {
    fn open(&self, name: &str, limits: &Limits) -> Result<Arc<RemoteSource>> {
        Ok(Arc::new(self.open_object(self.0.sibling(name), limits)?))
    }
}

/// Opens an object; `name` is for messages.
pub(super) fn open_object(
    url: &WebUrl,
    token: Option<&str>,
    name: String,
    limits: &Limits,
) -> Result<(Linked, RemoteSource)> {
    let Opened { object, begin, linked } = object::open(url, token, limits)?;
    Ok((linked, RemoteSource::new(object, begin, name)))
}

/// Adds what to do about a refusal.
fn explain(url: &WebUrl, error: Error) -> Error {
    let Some(refusal) = Refusal::of(&error) else { return error };
    let why = match refusal.status.as_u16() {
        401 if url.user().is_some() => "it does not take the user and the password of the URL",
        401 if url.host() == "huggingface.co" => {
            "a token is sent for `hf://OWNER/NAME/PATH`, which is another form of this URL"
        }
        401 => {
            "it wants a user and a password, which stand in the URL as in `https://USER:PASSWORD@HOST/PATH`; other ways to \
             sign in are not known"
        }
        407 => "the proxy wants a user and a password, which stand in its URL as in `http://USER:PASSWORD@HOST`",
        400 if !url.is_https() && url.port() % 1000 == 443 => "a URL of this port mostly begins with `https://`",
        _ => return error,
    };
    refusal.because(why)
}
