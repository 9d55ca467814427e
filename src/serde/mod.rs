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

use std::io;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::find::Deserializer;
use crate::limits::Limits;
use crate::model::{Serializer, TensorSink, Tensors};
use crate::read::{Reading, foreign};

pub use metadata::{
    MetadataField, check_metadata, check_written_metadata, metadata_field, metadata_node, put_metadata,
    reload_metadata, unread_metadata_node,
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
    read_with(Deserializer::with_slice(reading, file, limits.clone()), reading, read)
        .map_err(|error| foreign::or_other(error, &reading.spec, file))
}

fn read_stream(
    reading: &'static Reading,
    reader: &mut dyn io::Read,
    limits: &Limits,
    read: &mut dyn FnMut(&mut Deserializer<'_>) -> Result<()>,
) -> Result<()> {
    read_with(Deserializer::with_reader(reading, reader, limits.clone()), reading, &mut |deserializer| {
        read(deserializer)
    })
}

fn read_with<'de>(
    mut deserializer: Deserializer<'de>,
    reading: &'static Reading,
    read: ReadValue<'_, 'de>,
) -> Result<()> {
    deserializer.read_whole(read).map_err(|error| error.in_format(reading.spec.name))
}
