use std::path::Path;

use super::File;
use crate::error::Result;
use crate::model::{Adapt, FromTensors, Node, Source, node_of, put};

/// Loads a file of any format into a type, or the checkpoint in a directory: see [`File::open`].
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
/// A type that borrows, such as one of `ArrayView`s, does not compile here, as the file is closed in the end. [`File::load`] takes
/// one, of a file that stays open.
///
/// # Errors
///
/// As [`File::open`] and [`File::load`].
pub fn load<T: for<'f> FromTensors<'f>>(path: impl AsRef<Path>) -> Result<T> {
    let mut value = None;
    load_with(path.as_ref(), node_of::<T>, &mut |source| put(&mut value, source, &Adapt::NONE))?;
    Ok(value.expect("the value was loaded"))
}

/// Opens the file and closes it here, so that the crates of users compile neither.
fn load_with(
    path: &Path,
    node: fn() -> Node,
    load: &mut dyn FnMut(&mut (dyn Source<'_> + '_)) -> Result<()>,
) -> Result<()> {
    File::open(path)?.load_with(node, &mut |source| load(source))
}
