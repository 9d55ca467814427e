//! Dicts of arrays on their way to a file.

use std::path::PathBuf;

use indexmap::IndexMap;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tensorfile::view::CastView;
use tensorfile::{Dtype, Format, SaveOptions, TensorInfo, Tensors, WriteOptions};

use crate::arrays::{NamedArray, NamedArrays};
use crate::callbacks::Callback;
use crate::file::format_named;
use crate::streams::PyWriter;

/// Save named arrays; `tensorfile.save` prepares them.
#[pyfunction]
#[pyo3(signature = (path, arrays, format, metadata, max_shard_bytes, ranks, dtype, durable, progress))]
#[expect(clippy::too_many_arguments, reason = "it is called by `tensorfile.save` only")]
pub fn save(
    py: Python<'_>,
    path: &Bound<'_, PyAny>,
    arrays: Vec<NamedArray<'_>>,
    format: Option<&str>,
    metadata: Option<IndexMap<String, String>>,
    max_shard_bytes: Option<u64>,
    ranks: Option<usize>,
    dtype: Option<&str>,
    durable: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<()> {
    let arrays = NamedArrays::new(&arrays)?;
    let callback = Callback::new(progress);
    let write = WriteOptions::new().empty_metadata(metadata.is_some()).metadata(metadata.unwrap_or_default());
    let options = SaveOptions::new().write(write).durable(durable);
    let mut options = options.progress({
        let callback = callback.clone();
        move |progress| callback.tell(progress)
    });
    options = in_format(options, format, ranks)?;
    if let Some(bytes) = max_shard_bytes {
        options = options.max_shard_bytes(bytes);
    }
    let floats = dtype.map(float_named).transpose()?;
    let to_writer = path.hasattr("write")?;
    if to_writer && format.is_none() {
        return Err(PyValueError::new_err("a file object has no extension; `format` names a format"));
    }
    let path_name: PathBuf = if to_writer { PathBuf::new() } else { path.extract()? };
    let writer = PyWriter(path.clone().unbind());
    let saved = py.detach(|| {
        let format = format.map_or_else(|| Format::for_path(&path_name), file_format);
        let cast = CastView::new(&arrays, |_, info| cast_floats(floats, info, format));
        let tensors: &dyn Tensors = if floats.is_some() { &cast } else { &arrays };
        if to_writer {
            options.plan("", tensors)?.to_writer(writer, tensors)
        } else {
            options.save(&path_name, tensors)
        }
    });
    saved.map_err(|error| callback.to_exception(error, (!to_writer).then_some(&*path_name)))
}

/// The names of the formats of folders with a file for each process of a trainer, and of their files.
const FOLDERS: [(&str, &str); 2] = [("dcp", "pytorch"), ("hf-sharded", "safetensors")];

/// Returns whether a format is one of folders with a file for each process of a trainer.
pub fn is_folder(name: &str) -> bool {
    FOLDERS.iter().any(|(folder, _)| *folder == name)
}

/// Returns the format of a file, or of the files in a folder.
pub fn file_format(name: &str) -> Option<&'static Format> {
    let of_folder = FOLDERS.iter().find(|(folder, _)| *folder == name);
    Format::named(of_folder.map_or(name, |(_, format)| format))
}

/// Sets the format of a file by its name, or that a folder is saved for a number of ranks.
pub fn in_format(options: SaveOptions, format: Option<&str>, ranks: Option<usize>) -> PyResult<SaveOptions> {
    match (format, ranks) {
        (Some(name), ranks) if is_folder(name) => {
            let format = file_format(name).expect("the formats of folders are there");
            Ok(options.format(format).ranks(ranks.unwrap_or(1)))
        }
        (_, Some(_)) => {
            Err(PyValueError::new_err("`ranks` is for folders of trainers: format=\"dcp\" or \"hf-sharded\""))
        }
        (Some(name), None) => Ok(options.format(format_named(name)?)),
        (None, None) => Ok(options),
    }
}

/// Returns a dtype of floats by its name.
pub fn float_named(name: &str) -> PyResult<Dtype> {
    let dtype = name.parse::<Dtype>().ok().filter(|dtype| dtype.is_float());
    dtype.ok_or_else(|| {
        let names: Vec<_> = Dtype::ALL.iter().filter(|dtype| dtype.is_float()).map(|dtype| dtype.name()).collect();
        PyValueError::new_err(format!("`{name}` is not a dtype of floats; they are {}", names.join(", ")))
    })
}

/// Returns the dtype in which `format` stores a tensor: only floats are cast.
pub fn cast_floats(floats: Option<Dtype>, info: &TensorInfo, format: Option<&Format>) -> Dtype {
    let to = floats.filter(|_| info.dtype.is_float());
    to.map_or(info.dtype, |to| format.map_or(to, |format| format.usual_dtype(info, to)))
}
