//! Files on web servers.

use std::sync::Arc;

use super::location::{Location, RemoteFile, Siblings};
use super::object::{Opened, WebObject};
use super::source::RemoteSource;
use super::url::WebUrl;
use crate::error::{ErrorKind, Result};
use crate::limits::Limits;
use crate::storage::ReadRanges;

/// Opens a URL of a web server.
pub(super) fn open(url: &str, limits: &Limits) -> Result<Location> {
    let url = WebUrl::parse(url).map_err(|what| {
        let what = format!("open the URL: {what}");
        ErrorKind::Unsupported { what, instead: "a URL is `https://HOST/PATH`".to_owned() }
    })?;
    let (_, source) = open_object(url.clone(), None, url.to_string(), limits)?;
    Ok(Location::Ranges(RemoteFile { source: Arc::new(source), siblings: Box::new(WebFolder(url)) }))
}

/// The folder of a file on a web server.
struct WebFolder(WebUrl);

impl Siblings for WebFolder {
    fn open(&self, name: &str, limits: &Limits) -> Result<Arc<dyn ReadRanges>> {
        let url = self.0.sibling(name);
        let shown = url.to_string();
        Ok(Arc::new(open_object(url, None, shown, limits)?.1))
    }
}

/// Opens an object; `name` is for messages.
pub(super) fn open_object(
    url: WebUrl,
    token: Option<String>,
    name: String,
    limits: &Limits,
) -> Result<(Arc<WebObject>, RemoteSource)> {
    let Opened { object, begin } = WebObject::open(url, token, limits)?;
    let object = Arc::new(object);
    Ok((Arc::clone(&object), RemoteSource::new(object, begin, name)))
}
