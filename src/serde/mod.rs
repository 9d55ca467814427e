//! serde on both sides: plain serde types in tensor files, and types that map to tensors in any serde format.
//!
//! Nothing else in the crate depends on serde, except the public functions of formats, for serde's bounds, and
//! `serialize`, which is above the modules of the reports it serializes.

mod compiled;
mod de;
pub(crate) mod error;
mod metadata;
mod own;
mod ser;
mod sink;
mod source;
pub(crate) mod token;
mod types;

use std::cell::Cell;
use std::io;
use std::io::Read as _;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::find::{Deserializer, RequiredField};
use crate::limits::Limits;
use crate::model::{Serializer, TensorSink, Tensors};
use crate::read::{Reading, foreign};

pub use metadata::{
    MetadataField, check_metadata, check_written_metadata, metadata_field, metadata_field_or, metadata_node,
    put_metadata, reload_metadata, unread_metadata_node,
};
pub use sink::serialize_store;
pub use source::deserialize_load;

/// A serde value as [`Tensors`].
///
/// Types with `#[derive(TensorFile)]` are [`Tensors`] themselves.
///
/// ```
/// use std::collections::BTreeMap;
/// use tensorfile::{SerdeValue, TensorMap, save, load};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("lists.ten");
/// save(&path, &SerdeValue(&BTreeMap::from([("bias", [1.0_f32, 2.0])])))?;
/// let map: TensorMap = load(&path)?;
/// assert_eq!(map["bias"].shape().dims(), [2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct SerdeValue<'a, T: ?Sized>(pub &'a T);

impl<T: Serialize + ?Sized> Tensors for SerdeValue<'_, T> {
    fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
        let mut serializer = Serializer::new(sink);
        self.0.serialize(&mut serializer)?;
        serializer.end()
    }
}

/// Reads a value from a file in memory.
pub(crate) fn from_slice<'de, T: Deserialize<'de>>(
    reading: &'static Reading,
    file: &'de [u8],
    limits: &Limits,
) -> Result<T> {
    let mut value = None;
    read_slice(reading, file, limits, &mut |deserializer| {
        value = Some(T::deserialize(deserializer)?);
        Ok(())
    })?;
    Ok(value.expect("the value was deserialized"))
}

/// Reads a value from a stream.
pub(crate) fn from_reader<T: for<'de> Deserialize<'de>>(
    reading: &'static Reading,
    mut reader: impl io::Read,
    limits: &Limits,
) -> Result<T> {
    let mut value = None;
    read_stream(reading, &mut reader, limits, &mut |deserializer| {
        value = Some(T::deserialize(deserializer)?);
        Ok(())
    })?;
    Ok(value.expect("the value was deserialized"))
}

/// A closure that deserializes a value and keeps it.
type ReadValue<'x, 'de> = &'x mut (dyn FnMut(&mut Deserializer<'de>) -> Result<()> + 'x);

// Not generic, so that the crates of users compile neither a deserializer nor its drop code.
fn read_slice<'de>(
    reading: &'static Reading,
    file: &'de [u8],
    limits: &Limits,
    read: ReadValue<'_, 'de>,
) -> Result<()> {
    let slice = || Deserializer::with_slice(reading, file, limits.clone());
    read_with(slice(), reading, read)
        .or_else(|failed| read_again(&slice, reading, read, failed))
        .map_err(|error| foreign::or_other(error, &reading.spec, file))
}

fn read_stream(
    reading: &'static Reading,
    reader: &mut dyn io::Read,
    limits: &Limits,
    read: &mut dyn FnMut(&mut Deserializer<'_>) -> Result<()>,
) -> Result<()> {
    let for_serde = Cell::new(false);
    let mut kept = KeptStream { reader, is_wanted: &for_serde, bytes: Vec::new(), is_whole: true };
    let deserializer = Deserializer::with_reader(reading, &mut kept, limits.clone()).telling(&for_serde);
    let Err(failed) = read_with(deserializer, reading, &mut |deserializer| read(deserializer)) else { return Ok(()) };
    if failed.required.is_none() {
        return Err(failed.error);
    }
    let rest = kept.rest().map_err(|error| Error::from(error).in_format(reading.spec.name))?;
    let Some(file) = rest else {
        return Err(failed.error.advise(
            "if it may be empty, add `#[serde(default)]`: a field with nothing in the file is found by reading again, and a \
             stream of more than 1 MiB is read once",
        ));
    };
    let slice = || Deserializer::with_slice(reading, &file, limits.clone());
    read_again(&slice, reading, &mut |deserializer| read(deserializer), failed)
}

/// An error of reading a value, and the field of a plain serde struct that it was for.
struct Unfit {
    error: Error,
    required: Option<RequiredField>,
}

fn read_with<'de>(
    mut deserializer: Deserializer<'de>,
    reading: &'static Reading,
    read: ReadValue<'_, 'de>,
) -> Result<(), Unfit> {
    deserializer
        .read_whole(read)
        .map_err(|error| Unfit { error: error.in_format(reading.spec.name), required: deserializer.required() })
}

/// Reads a value again, with an empty value for each required field that the file does not have: see
/// [`RequiredField`].
#[cold]
fn read_again<'de>(
    deserializer: &dyn Fn() -> Deserializer<'de>,
    reading: &'static Reading,
    read: ReadValue<'_, 'de>,
    Unfit { error, required }: Unfit,
) -> Result<()> {
    let Some(required) = required else { return Err(error) };
    let mut absent = vec![required];
    loop {
        let mut deserializer = deserializer();
        deserializer.finder().absent.clone_from(&absent);
        match read_with(deserializer, reading, read) {
            Ok(()) => return Ok(()),
            // Each struct of a type has the field, so that the attempts are as many as fields of types.
            Err(Unfit { required: Some(next), .. }) if !absent.contains(&next) => absent.push(next),
            // The first error names the field that a file should have.
            Err(next) => {
                let is_missing =
                    matches!(next.error.kind(), ErrorKind::Missing { .. } | ErrorKind::DuplicateName { .. });
                return Err(if is_missing { error } else { next.error });
            }
        }
    }
}

/// A stream that keeps the bytes read for a plain serde value, up to a small limit.
struct KeptStream<'a> {
    reader: &'a mut dyn io::Read,
    is_wanted: &'a Cell<bool>,
    bytes: Vec<u8>,
    /// All bytes read so far are kept.
    is_whole: bool,
}

impl KeptStream<'_> {
    /// Reads the rest of the stream. Returns all of it, if it is kept.
    fn rest(mut self) -> io::Result<Option<Vec<u8>>> {
        let mut buffer = [0; 1 << 12];
        while self.is_whole {
            match self.read(&mut buffer) {
                Ok(0) => break,
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
        Ok(self.is_whole.then_some(self.bytes))
    }
}

impl io::Read for KeptStream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        /// The most bytes to keep.
        const MOST: usize = 1 << 20;

        let len = self.reader.read(buffer)?;
        self.is_whole &= len == 0 || self.is_wanted.get() && self.bytes.len() + len <= MOST;
        if self.is_whole {
            self.bytes.extend_from_slice(buffer.get(..len).unwrap_or_default());
        } else {
            self.bytes = Vec::new();
        }
        Ok(len)
    }
}
