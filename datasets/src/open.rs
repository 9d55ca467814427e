//! Shards as open files.

use std::io::{self, Read};
use std::sync::Arc;

use flate2::read::MultiGzDecoder;
use hashbrown::HashSet;
use tensorfile::file::Container;
use tensorfile::{ErrorKind, File, Limits, OpenOptions};

use crate::archive::{Head, Next, head_of, split};
use crate::error::{Error, Result};
use crate::format::TAR;
use crate::role::{Kind, Role};
use crate::shard::Bytes;
use crate::writer::append;

/// Opens a shard as one file, in the format [`TAR`]. Pass a path, a URL, or `-` for standard input.
///
/// Compressed shards, streams, and shards with compressed files such as `0001.json.gz` are held in memory, up to
/// [`Limits::held`].
///
/// # Errors
///
/// As [`Shard::open`](crate::Shard::open), and [`ErrorKind::Limit`] if too much would be held.
pub fn open(location: &str, options: &OpenOptions, limits: &Limits) -> tensorfile::Result<File> {
    let options = options.clone().format(&TAR);
    match Bytes::open(location, limits).map_err(Error::into_tensorfile)? {
        Bytes::Stream { reader, direct: None, .. } => {
            let held = Held(Arc::new(hold(reader, most(limits))?));
            let file = options.from_bytes(held.clone())?;
            if has_gzip(&file) { options.from_bytes(decompress(&held.0, limits)?) } else { Ok(file) }
        }
        _ => {
            let file = options.open(location)?;
            if !has_gzip(&file) {
                return Ok(file);
            }
            let container = Container::open(location)?;
            let bytes = match container.as_bytes() {
                Some(bytes) => decompress(bytes, limits)?,
                None => {
                    let reader = Bytes::open(location, limits).map_err(Error::into_tensorfile)?.into_reader();
                    decompress(&hold(reader, most(limits))?, limits)?
                }
            };
            options.from_bytes(bytes)
        }
    }
}

/// The bytes of a stream.
#[derive(Clone)]
struct Held(Arc<Vec<u8>>);

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Returns the most bytes to hold.
fn most(limits: &Limits) -> u64 {
    limits.held.min(limits.payload).min(limits.memory.unwrap_or(u64::MAX))
}

/// Reads all of a stream.
fn hold(mut reader: impl Read, limit: u64) -> tensorfile::Result<Vec<u8>> {
    let mut held = Vec::new();
    let read = (&mut reader).take(limit.saturating_add(1)).read_to_end(&mut held);
    read.map_err(|error| Error::from(error).at(held.len() as u64).into_tensorfile())?;
    check(held.len() as u64, limit)?;
    Ok(held)
}

fn check(found: u64, limit: u64) -> tensorfile::Result<()> {
    if found > limit {
        return Err(ErrorKind::Limit { what: "number of bytes held of a stream", found, limit }.into());
    }
    Ok(())
}

/// Returns whether a shard has compressed files of tensors or numbers, which would be blobs without decompression.
fn has_gzip(file: &File) -> bool {
    file.tensors().any(|tensor| {
        let name = tensor.name();
        name.ends_with(".gz") && split(name).is_some_and(|(_, extension)| is_decompressed(extension))
    })
}

/// Returns whether a file with this extension has compressed tensors or a number. Text is metadata, and read elsewhere.
fn is_decompressed(extension: &str) -> bool {
    let role = Role::of(extension);
    role.is_gzip && !matches!(role.kind, Kind::Text)
}

/// Decompresses the compressed files of an archive. All other bytes stay the same.
fn decompress(archive: &[u8], limits: &Limits) -> tensorfile::Result<Vec<u8>> {
    let mut paths = HashSet::new();
    each(archive, &mut |head, _| {
        paths.extend(head.path.clone());
        Ok(())
    })?;
    let (mut found, limit) = (Vec::new(), most(limits));
    let end = each(archive, &mut |head, bytes| {
        let path = head.path.as_deref().filter(|path| {
            let role = split(path).map(|(_, extension)| extension.to_lowercase());
            role.is_some_and(|extension| is_decompressed(&extension)) && head.refused.is_none()
        });
        let plain = path.map(|path| &path[..path.len() - ".gz".len()]).filter(|plain| !paths.contains(*plain));
        let Some(plain) = plain else {
            found.extend_from_slice(bytes);
            return check(found.len() as u64, limit);
        };
        let mut data = Vec::new();
        let left = limit.saturating_sub(found.len() as u64);
        let start = usize::try_from(head.len).expect("the headers are in memory");
        let end = start + usize::try_from(head.size).expect("the data is in memory");
        let read = MultiGzDecoder::new(&bytes[start..end]).take(left.saturating_add(1)).read_to_end(&mut data);
        if let Err(error) = read {
            // The file is left out with a warning, as all files are that cannot be read.
            if error.kind() == io::ErrorKind::OutOfMemory {
                return Err(error.into());
            }
            data.clear();
        }
        check((found.len() + data.len()) as u64, limit)?;
        let mut builder = tar::Builder::new(std::mem::take(&mut found));
        append(&mut builder, plain, &data)?;
        found = std::mem::take(builder.get_mut());
        Ok(())
    })?;
    found.extend_from_slice(&archive[end..]);
    Ok(found)
}

/// Calls `each` with every member: its headers, and all its bytes. Returns the offset of the end.
fn each(archive: &[u8], each: &mut dyn FnMut(&Head, &[u8]) -> tensorfile::Result<()>) -> tensorfile::Result<usize> {
    let mut offset = 0;
    loop {
        let found: Result<Next> = head_of(&archive[offset..]);
        let Next::Member(head) = found.map_err(Error::into_tensorfile)? else { return Ok(offset) };
        let end = head.total().and_then(|total| offset.checked_add(usize::try_from(total).ok()?));
        let bytes = end.and_then(|end| archive.get(offset..end));
        // The index was read without an error before.
        let bytes = bytes.expect("all of a member is in the archive");
        each(&head, bytes)?;
        offset += bytes.len();
    }
}
