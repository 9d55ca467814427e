use std::path::Path;

use super::OpenOptions;
use super::open::at_path;
use crate::error::Result;
use crate::model::{FieldAttrs, FromTensors, Node, Source, node_of, put};
use crate::tensor::Tensor;

/// Loads a file of any format into a type. The path may also be a checkpoint's directory or a URL: see
/// [`File::open`](super::File::open).
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
/// A borrowing type, such as a struct of `ArrayView`s, does not compile here, because the file is closed before this
/// returns. Use [`File::load`](super::File::load) with an open file instead.
///
/// # Errors
///
/// As [`File::open`](super::File::open) and [`File::load`](super::File::load).
pub fn load<T: for<'f> FromTensors<'f>>(path: impl AsRef<Path>) -> Result<T> {
    let mut value = None;
    load_with(path.as_ref(), node_of::<T>, &mut |source| put(&mut value, source, &FieldAttrs::NONE))?;
    Ok(value.expect("the value was loaded"))
}

/// Reads one tensor of a file of any format, by its name or its position, as [`File::get`](super::File::get) finds it.
///
/// Only what leads to the tensor is read. In a BTF file, the headers after it are skipped; in a checkpoint in shards,
/// only its own shard is opened. Skipped parts are not checked. To read several tensors, [open](super::File::open) the
/// file.
///
/// ```
/// use ndarray::array;
/// use tensorfile::file::load_tensor;
/// use tensorfile::TensorMap;
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.safetensors");
/// let map = TensorMap::from_iter([("a", array![1.0_f32, 2.0]), ("b", array![3.0])]);
/// tensorfile::save(&path, &map)?;
/// let tensor = load_tensor(&path, "b")?;
/// assert_eq!(tensor.as_view().to_array::<f32>()?, array![3.0].into_dyn());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// As [`File::open`](super::File::open) and [`File::tensor`](super::File::tensor).
pub fn load_tensor(path: impl AsRef<Path>, name: &str) -> Result<Tensor> {
    OpenOptions::new().tensor(path.as_ref(), name)
}

/// Opens and closes the file here, so that the crates of users compile neither.
fn load_with(
    path: &Path,
    node: fn() -> Node,
    load: &mut dyn FnMut(&mut (dyn Source<'_> + '_)) -> Result<()>,
) -> Result<()> {
    let options = OpenOptions::new();
    let place = options.find(path).map_err(|error| at_path(error, path))?;
    if options.load_in_order(&place, node, load).map_err(|error| at_path(error, path))? {
        return Ok(());
    }
    let file = options.open_place(place, None).map_err(|error| at_path(error, path))?;
    file.load_with(node, &mut |source| load(source))
}
