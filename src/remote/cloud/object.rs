//! Ranges of an object in a store.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use object_store::{Error, GetOptions, GetRange, GetResult, ObjectMeta};

use super::store::Object;
use super::{explain, runtime};
use crate::error::{self, ErrorKind};
use crate::remote::source::{RangeBody, RemoteObject, RemoteSource};
use crate::remote::traffic;
use crate::remote::version::ObjectVersion;

/// The number of bytes of the first request, which also finds out the length.
const FIRST: u64 = 64 << 10;

/// An object in a store, in the version found on opening.
struct StoreObject {
    object: Object,
    len: u64,
    version: ObjectVersion,
}

/// Opens an object with one request, or two if it is empty.
pub(super) fn open(object: Object) -> io::Result<RemoteSource> {
    let name = object.url();
    let (meta, begin) = match get(&object, 0..FIRST, None)? {
        Ok((meta, bytes)) => (meta, bytes),
        // An empty object has no ranges to ask for. The error of stores has no kind to recognize it by.
        Err(error @ Error::Generic { .. }) => {
            let (store, key) = (object.store()?, object.key.clone());
            traffic::add_request();
            let head = GetOptions::new().with_head(true);
            match runtime::run(async move { store.get_opts(&key, head).await })? {
                Ok(GetResult { meta, .. }) if meta.size == 0 => (meta, Bytes::new()),
                _ => return Err(explain(&object, error)),
            }
        }
        Err(error) => return Err(explain(&object, error)),
    };
    let expected = meta.size.min(FIRST);
    if begin.len() as u64 != expected {
        return Err(wrong_length(begin.len(), expected));
    }
    let found = StoreObject { object, len: meta.size, version: version_of(&meta) };
    Ok(RemoteSource::new(Arc::new(found), begin.to_vec(), name))
}

/// Asks for a range, of an object with this tag.
fn get(object: &Object, range: Range<u64>, tag: Option<&str>) -> io::Result<Result<(ObjectMeta, Bytes), Error>> {
    let (store, key) = (object.store()?, object.key.clone());
    let options = GetOptions::new().with_range(Some(GetRange::Bounded(range))).with_if_match(tag);
    traffic::add_request();
    let got = runtime::run(async move {
        let got = store.get_opts(&key, options).await?;
        let meta = got.meta.clone();
        Ok((meta, got.bytes().await?))
    })?;
    if let Ok((_, bytes)) = &got {
        traffic::add_bytes(bytes.len());
    }
    Ok(got)
}

fn version_of(meta: &ObjectMeta) -> ObjectVersion {
    let modified = meta.last_modified.to_rfc3339().into_bytes();
    ObjectVersion { tag: meta.e_tag.clone().map(String::into_bytes), modified: Some(modified) }
}

fn wrong_length(found: usize, expected: u64) -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, format!("the store sends {found} bytes instead of {expected}"))
}

impl StoreObject {
    fn strong_tag(&self) -> Option<&str> {
        std::str::from_utf8(self.version.strong_tag()?).ok()
    }

    /// Reads a range, after comparing the version of the object.
    fn read(&self, range: Range<u64>) -> io::Result<Bytes> {
        // A weak tag may be equal for different bytes, so that stores refuse to compare it.
        let strong = self.strong_tag();
        let expected = range.end - range.start;
        let (meta, bytes) = match get(&self.object, range, strong)? {
            Ok(got) => got,
            Err(Error::Precondition { .. }) => return Err(changed("its entity tag is another one".to_owned())),
            Err(error) => return Err(explain(&self.object, error)),
        };
        if let Some(what) = self.version.difference(&version_of(&meta)) {
            return Err(changed(what));
        }
        if meta.size != self.len {
            return Err(changed(format!("its length was {} bytes, and is {}", self.len, meta.size)));
        }
        if bytes.len() as u64 != expected {
            return Err(wrong_length(bytes.len(), expected));
        }
        Ok(bytes)
    }
}

fn changed(what: String) -> io::Error {
    error::Error::from(ErrorKind::SourceChanged { what }).into()
}

impl RemoteObject for StoreObject {
    fn len(&self) -> io::Result<u64> {
        Ok(self.len)
    }

    fn identity(&self) -> Option<String> {
        let tag = self.strong_tag()?;
        Some(format!("{tag} {}", self.object.url()))
    }

    fn is_streamed(&self) -> bool {
        false
    }

    fn body(self: Arc<Self>, range: Range<u64>) -> Box<dyn RangeBody> {
        Box::new(StoreBody { object: self, rest: range, bytes: Bytes::new() })
    }
}

/// The bytes of a range, asked for in pieces, because `object_store` returns a whole piece at once.
struct StoreBody {
    object: Arc<StoreObject>,
    rest: Range<u64>,
    /// The bytes received from the beginning of the rest.
    bytes: Bytes,
}

/// The length of a piece, equal to that of a span.
const PIECE: u64 = 8 << 20;

impl RangeBody for StoreBody {
    fn rest(&self) -> Range<u64> {
        self.rest.clone()
    }

    fn read_exact(&mut self, mut bytes: &mut [u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.bytes.is_empty() {
                self.bytes = self.object.read(self.rest.start..self.rest.end.min(self.rest.start + PIECE))?;
            }
            let now = self.bytes.split_to(self.bytes.len().min(bytes.len()));
            let (filled, rest) = bytes.split_at_mut(now.len());
            filled.copy_from_slice(&now);
            self.rest.start += now.len() as u64;
            bytes = rest;
        }
        Ok(())
    }
}
