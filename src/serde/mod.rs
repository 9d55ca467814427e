//! serde on both sides: plain serde types in tensor files, and types that map to tensors in any serde format.
//!
//! Nothing else in the crate depends on serde, except the public functions of the formats, whose bounds are serde's.

mod de;
pub(crate) mod error;
mod report;
mod ser;
mod sink;
mod source;
mod tensor;
pub(crate) mod token;
mod types;

use std::io::{Read, Write};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::find::Deserializer;
use crate::limits::Limits;
use crate::model::{Serializer, TensorSink, Tensors};
use crate::record::{self, Encode, Format, Plan};

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

/// Plans the file of a value.
pub(crate) fn plan<T: Serialize + ?Sized>(value: &T, encode: Arc<dyn Encode>) -> Result<Plan> {
    record::plan(&SerdeValue(value), encode)
}

/// Writes a value to a file in memory.
pub(crate) fn to_vec<T: Serialize + ?Sized>(value: &T, encode: Arc<dyn Encode>) -> Result<Vec<u8>> {
    record::to_vec(&SerdeValue(value), encode)
}

/// Writes a value to a writer.
pub(crate) fn to_writer<T: Serialize + ?Sized>(
    mut writer: impl Write,
    value: &T,
    encode: Arc<dyn Encode>,
) -> Result<()> {
    record::to_writer(&mut writer, &SerdeValue(value), encode)
}

/// Reads a value from a file in memory.
pub(crate) fn from_slice<'de, T: Deserialize<'de>>(format: &Format, file: &'de [u8], limits: &Limits) -> Result<T> {
    deserialize(Deserializer::of_slice(format, file, limits.clone()), format)
}

/// Reads a value from a stream.
pub(crate) fn from_reader<T: for<'de> Deserialize<'de>>(
    format: &Format,
    reader: impl Read,
    limits: &Limits,
) -> Result<T> {
    deserialize(Deserializer::of_reader(format, reader, limits.clone()), format)
}

fn deserialize<'de, T: Deserialize<'de>>(mut deserializer: Deserializer<'de>, format: &Format) -> Result<T> {
    let value = T::deserialize(&mut deserializer).map_err(|error| deserializer.blame(error).in_format(format.name))?;
    deserializer.end().map(|()| value)
}
