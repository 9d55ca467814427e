//! Shards as open files.

use std::io::Read;

use tensorfile::{ErrorKind, File, Limits, OpenOptions};

use crate::error::Error;
use crate::format::TAR;
use crate::shard::Bytes;

/// Opens a shard as one file, in the format [`TAR`]: a path, a URL, or `-` for standard input. A compressed shard and a stream
/// are held in memory, up to [`Limits::held`].
///
/// # Errors
///
/// As [`Shard::open`](crate::Shard::open), and [`ErrorKind::Limit`] if too much would be held.
pub fn open(location: &str, options: &OpenOptions, limits: &Limits) -> tensorfile::Result<File> {
    let options = options.clone().format(&TAR);
    match Bytes::open(location).map_err(Error::into_tensorfile)? {
        Bytes::Stream { mut reader, direct: None, .. } => {
            let (mut held, limit) = (Vec::new(), limits.held.min(limits.payload));
            (&mut reader).take(limit.saturating_add(1)).read_to_end(&mut held)?;
            if held.len() as u64 > limit {
                let found = held.len() as u64;
                return Err(ErrorKind::Limit { what: "number of bytes held of a stream", found, limit }.into());
            }
            options.from_bytes(held)
        }
        _ => options.open(location),
    }
}
