use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::model::{FromTensors, TensorFile};
use crate::serde::{deserialize_load, serialize_store};

/// Serializes an array, or a collection of arrays, as tensors.
///
/// # Errors
///
/// Errors of the serializer.
pub fn serialize<T: TensorFile, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serialize_store(value, serializer)
}

/// Deserializes an array, or a collection of arrays, from tensors.
///
/// # Errors
///
/// Errors of the deserializer.
pub fn deserialize<'de, T: FromTensors<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    deserialize_load(deserializer)
}

/// Arrays, or collections of arrays, as a serde value.
///
/// ```
/// use ndarray::{Array2, array};
/// use tensorfile::{Arrays, ten};
///
/// let file = ten::to_vec(&Arrays(vec![array![[1.0_f32, 2.0]], array![[3.0]]]))?;
/// let Arrays(list): Arrays<Vec<Array2<f32>>> = ten::from_slice(&file)?;
/// assert_eq!(list[1], array![[3.0]]);
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Arrays<T>(pub T);

impl<T: TensorFile> Serialize for Arrays<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize(&self.0, serializer)
    }
}

impl<'de, T: FromTensors<'de>> Deserialize<'de> for Arrays<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize(deserializer).map(Arrays)
    }
}
