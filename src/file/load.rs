use std::path::Path;

use super::{File, Opened};
use crate::error::Result;
use crate::model::{Adapt, FromTensors, with_schema};

/// Loads a file into a type, whatever the format.
///
/// ```
/// use ndarray::{Array1, array};
/// use tensorfile::TensorFile;
///
/// #[derive(TensorFile, Debug, PartialEq)]
/// struct Bias {
///     bias: Array1<f32>,
/// }
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("bias.ptd");
/// tensorfile::save(&path, &Bias { bias: array![0.5] })?;
/// let bias: Bias = tensorfile::load(&path)?;
/// assert_eq!(bias.bias, array![0.5]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// As [`File::open`] and [`File::load`].
pub fn load<T: for<'f> FromTensors<'f>>(path: impl AsRef<Path>) -> Result<T> {
    File::open(path)?.load()
}

/// Reads a value from a whole index, by the schema of its type where there are no names.
pub(super) fn load_value<'f, T: FromTensors<'f>>(deserializer: &mut Opened<'f>) -> Result<T> {
    with_schema::<crate::error::Error, _>(T::node, || T::load(deserializer, &Adapt::NONE))
}
