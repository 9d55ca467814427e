//! Jobs divided into splits; `tensorfile.ray` runs them.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use tensorfile::model::{MetadataValue, TensorSink};
use tensorfile::{Layout, Tensor, TensorInfo, Tensors};
use tensorfile_datasets::splits::{self, Part, PartWriter, Planner, Rows, Split};
use tensorfile_datasets::{Batch, Column, Error};

use crate::arrays::{NamedArray, NamedArrays};
use crate::errors::shard_exception;
use crate::samples::warn;

/// Return splits of files as JSON, divided by bytes or by count, for `tensorfile.ray`.
#[pyfunction]
#[pyo3(signature = (patterns, target_bytes, count, whole_files))]
pub fn plan_splits(
    py: Python<'_>,
    patterns: Vec<String>,
    target_bytes: u64,
    count: Option<usize>,
    whole_files: bool,
) -> PyResult<Vec<String>> {
    let planned = py.detach(|| {
        let planner = count.map_or(Planner::by_bytes(target_bytes), Planner::by_count);
        planner.whole_files(whole_files).plan(&splits::files(&patterns)?)
    });
    let splits = planned.map_err(|error| shard_exception(&error))?;
    splits.iter().map(|split| serde_json::to_string(split).map_err(from_json)).collect()
}

/// Return the columns of a split: lists, or tuples of dtype, shape and bytes of stacked tensors. For samples, the
/// column of keys is always there, because it says how many rows there are.
#[pyfunction]
#[pyo3(signature = (split, columns))]
pub fn read_split<'py>(py: Python<'py>, split: &str, columns: Option<Vec<String>>) -> PyResult<Bound<'py, PyDict>> {
    let split: Split = serde_json::from_str(split).map_err(from_json)?;
    let columns: Option<Vec<&str>> = columns.as_ref().map(|columns| columns.iter().map(String::as_str).collect());
    let read = py.detach(|| split.read_with_warnings(columns.as_deref())).map_err(|error| shard_exception(&error))?;
    let (rows, warnings) = read;
    warn(py, &warnings.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    let found = PyDict::new(py);
    let is_chosen = |name: &str| columns.as_ref().is_none_or(|columns| columns.contains(&name));
    match rows {
        Rows::Samples(batch) => set_samples(&found, batch)?,
        Rows::Tensors(rows) => {
            let infos: Vec<&TensorInfo> = rows.iter().map(|row| &row.info).collect();
            let set = |name: &str, values: Bound<'py, PyList>| {
                if is_chosen(name) { found.set_item(name, values) } else { Ok(()) }
            };
            set("path", PyList::new(py, rows.iter().map(|row| &row.path))?)?;
            set("name", PyList::new(py, rows.iter().map(|row| &row.name))?)?;
            let dtype = |info: &&TensorInfo| info.unknown_dtype().unwrap_or_else(|| info.dtype.name()).to_owned();
            set("dtype", PyList::new(py, infos.iter().map(dtype))?)?;
            set("shape", PyList::new(py, infos.iter().map(|info| info.shape.dims()))?)?;
            let data = rows.iter().map(|row| row.data.as_ref().map(|data| PyBytes::new(py, data.as_bytes())));
            set("data", PyList::new(py, data)?)?;
        }
        _ => return Err(PyValueError::new_err("the rows are of an unknown kind")),
    }
    Ok(found)
}

fn set_samples(found: &Bound<'_, PyDict>, batch: Batch) -> PyResult<()> {
    let py = found.py();
    found.set_item("__key__", batch.keys)?;
    for (name, column) in batch.tensors {
        match column {
            Column::Stacked(tensor) => found.set_item(name, to_python(py, &tensor)?)?,
            Column::Separate(tensors) => {
                let tensors =
                    tensors.iter().map(|tensor| tensor.as_ref().map(|tensor| to_python(py, tensor)).transpose());
                found.set_item(name, tensors.collect::<PyResult<Vec<_>>>()?)?;
            }
        }
    }
    for (name, texts) in batch.metadata {
        // A name may belong to a tensor in some samples and to text in others.
        let Some(values) = found.get_item(&name)? else {
            found.set_item(name, texts)?;
            continue;
        };
        let values = values.cast_into::<PyList>()?;
        for (i, text) in texts.into_iter().enumerate().filter(|(_, text)| text.is_some()) {
            values.set_item(i, text)?;
        }
    }
    Ok(())
}

/// Returns the bytes of a blob, or dtype, shape and bytes of a tensor.
fn to_python<'py>(py: Python<'py>, tensor: &Tensor) -> PyResult<Bound<'py, PyAny>> {
    let (info, bytes) = (tensor.info(), PyBytes::new(py, tensor.as_bytes()));
    if info.layout == Layout::Blob {
        return Ok(bytes.into_any());
    }
    let shape = PyTuple::new(py, info.shape.dims())?;
    Ok((info.dtype.name(), shape, bytes).into_pyobject(py)?.into_any())
}

/// Writes one part of a job; `tensorfile.ray` uses it.
#[pyclass(frozen, name = "PartWriter", module = "tensorfile")]
pub struct PyPartWriter(Mutex<Option<PartWriter>>);

#[pymethods]
impl PyPartWriter {
    #[new]
    fn new(py: Python<'_>, folder: PathBuf, split: (String, usize, usize), format: &str) -> PyResult<Self> {
        let (plan, number, of) = split;
        let split = Split { plan: plan.into(), number, of, root: None, pieces: Vec::new() };
        let writer = py.detach(|| PartWriter::new(folder, &split, format)).map_err(|error| shard_exception(&error))?;
        Ok(Self(Mutex::new(Some(writer))))
    }

    /// Add tensors.
    fn tensors(&self, py: Python<'_>, arrays: Vec<NamedArray<'_>>) -> PyResult<()> {
        let arrays = NamedArrays::new(&arrays)?;
        self.with(py, |writer| writer.tensors(&arrays))
    }

    /// Add a sample of arrays and texts. Give other files as bytes with the dtype `blob`.
    fn sample(
        &self,
        py: Python<'_>,
        key: &str,
        arrays: Vec<NamedArray<'_>>,
        texts: Vec<(String, String)>,
    ) -> PyResult<()> {
        let sample = Sample { arrays: NamedArrays::new(&arrays)?, texts };
        self.with(py, |writer| writer.sample(key, &sample))
    }

    /// Write the file, give it its name, and return the part as JSON.
    fn finish(&self, py: Python<'_>) -> PyResult<String> {
        let writer = self.0.lock().unwrap_or_else(PoisonError::into_inner).take().ok_or_else(finished)?;
        let part = py.detach(|| writer.finish()).map_err(|error| shard_exception(&error))?;
        serde_json::to_string(&part).map_err(from_json)
    }
}

impl PyPartWriter {
    fn with(&self, py: Python<'_>, call: impl FnOnce(&mut PartWriter) -> Result<(), Error> + Send) -> PyResult<()> {
        py.detach(|| {
            let mut writer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            writer.as_mut().map(call)
        })
        .ok_or_else(finished)?
        .map_err(|error| shard_exception(&error))
    }
}

fn finished() -> PyErr {
    PyValueError::new_err("the part is finished")
}

/// Read a split, write its part, and return the part as JSON.
#[pyfunction]
pub fn convert_split(py: Python<'_>, split: &str, folder: PathBuf, format: &str) -> PyResult<String> {
    let split: Split = serde_json::from_str(split).map_err(from_json)?;
    let part = py.detach(|| {
        let mut writer = PartWriter::new(folder, &split, format)?;
        writer.copy(&split)?;
        writer.finish()
    });
    let part = part.map_err(|error| shard_exception(&error))?;
    warn(py, &part.warnings)?;
    serde_json::to_string(&part).map_err(from_json)
}

/// Write the index of all parts, given as JSON, and return its path, the files, the rows and the bytes.
#[pyfunction]
pub fn commit(py: Python<'_>, folder: PathBuf, parts: Vec<String>) -> PyResult<(PathBuf, Vec<String>, u64, u64)> {
    let parts =
        parts.iter().map(|part| serde_json::from_str(part).map_err(from_json)).collect::<PyResult<Vec<Part>>>()?;
    let committed = py.detach(|| splits::commit(folder, parts)).map_err(|error| shard_exception(&error))?;
    Ok((committed.index, committed.files, committed.rows, committed.bytes))
}

fn from_json(error: serde_json::Error) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// A sample made in Python.
struct Sample {
    arrays: NamedArrays,
    texts: Vec<(String, String)>,
}

impl Tensors for Sample {
    fn send(&self, sink: &mut dyn TensorSink) -> tensorfile::Result<()> {
        self.arrays.send(sink)?;
        self.texts.iter().try_for_each(|(name, text)| sink.metadata(name, &MetadataValue::Text(text.clone())))
    }
}
