//! Samples of WebDataset shards, as dicts of arrays.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict};
use tensorfile::{Dtype, Layout, TensorInfo};
use tensorfile_datasets::{OnError, Resume, Sample, Shards, Shuffle, State};

use crate::errors::shard_exception;
use crate::file::PyTensor;
use crate::scalars::buffer_format;

/// Return the paths and URLs that a pattern stands for, in order.
#[pyfunction]
pub fn locations(pattern: &str) -> PyResult<Vec<String>> {
    tensorfile_datasets::locations(pattern).map_err(|error| shard_exception(&error))
}

/// An iterator over the samples of shards. Use `tensorfile.webdataset`.
#[pyclass(frozen, name = "Samples", module = "tensorfile._tensorfile")]
pub struct PySamples {
    samples: Mutex<Samples>,
}

enum Samples {
    InOrder(Shards),
    Shuffled(Shuffle),
}

impl Samples {
    fn next(&mut self) -> Option<tensorfile_datasets::Result<Sample>> {
        match self {
            Self::InOrder(samples) => samples.next(),
            Self::Shuffled(samples) => samples.next(),
        }
    }

    fn as_resume(&mut self) -> &mut dyn Resume {
        match self {
            Self::InOrder(samples) => samples,
            Self::Shuffled(samples) => samples,
        }
    }

    fn shards(&self) -> &Shards {
        match self {
            Self::InOrder(samples) => samples,
            Self::Shuffled(samples) => samples.shards(),
        }
    }
}

impl PySamples {
    fn lock(&self) -> MutexGuard<'_, Samples> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl PySamples {
    #[new]
    #[pyo3(signature = (locations, *, skip_errors, shuffle, seed, state))]
    fn new(
        py: Python<'_>,
        locations: Vec<String>,
        skip_errors: bool,
        shuffle: usize,
        seed: u64,
        state: Option<&str>,
    ) -> PyResult<Self> {
        let on_error = if skip_errors { OnError::Skip } else { OnError::Stop };
        let shards = Shards::from_locations(locations).on_error(on_error);
        let mut samples =
            if shuffle > 0 { Samples::Shuffled(shards.shuffle(shuffle, seed)) } else { Samples::InOrder(shards) };
        if let Some(state) = state {
            let state: State = serde_json::from_str(state)
                .map_err(|error| PyValueError::new_err(format!("the state is malformed: {error}")))?;
            py.detach(|| samples.as_resume().resume(&state)).map_err(|error| shard_exception(&error))?;
        }
        Ok(Self { samples: Mutex::new(samples) })
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        // Another thread may hold the lock and wait for the interpreter.
        match py.detach(|| self.lock().next()) {
            None => Ok(None),
            Some(Ok(sample)) => dict(py, &sample).map(Some),
            Some(Err(error)) => Err(shard_exception(&error)),
        }
    }

    /// Return the state after the last sample, as JSON.
    fn state(&self, py: Python<'_>) -> PyResult<String> {
        let state = py.detach(|| self.lock().as_resume().state());
        serde_json::to_string(&state).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Return the numbers of samples and shards that were skipped, and the last error.
    fn skipped(&self, py: Python<'_>) -> (u64, u64, Option<String>) {
        py.detach(|| {
            let samples = self.lock();
            let skipped = samples.shards().skipped();
            (skipped.samples, skipped.shards, skipped.last.as_ref().map(ToString::to_string))
        })
    }
}

/// Returns a sample as a dict: its key, its shard, arrays, text, JSON and bytes.
fn dict<'py>(py: Python<'py>, sample: &Sample) -> PyResult<Bound<'py, PyDict>> {
    let file = Arc::new(sample.open().map_err(|error| shard_exception(&error))?);
    let dict = PyDict::new(py);
    dict.set_item("__key__", &sample.key)?;
    dict.set_item("__url__", sample.shard())?;
    for tensor in file.tensors() {
        let value = value(py, sample, &file, tensor.position(), tensor.info())?;
        dict.set_item(tensor.name(), value)?;
    }
    for (name, text) in sample.metadata().map_err(|error| shard_exception(&error))? {
        dict.set_item(name, text)?;
    }
    for member in &sample.members {
        let (name, last) = member.extension.rsplit_once('.').unwrap_or((&member.extension, &member.extension));
        if matches!(last, "json" | "jsn")
            && let Some(text) = dict.get_item(name)?
        {
            dict.set_item(name, json(py)?.call1((text,))?)?;
        }
    }
    Ok(dict)
}

/// Returns an array, a view of the sample where it can be; an int for an i64 without dims, and bytes for a blob.
fn value<'py>(
    py: Python<'py>,
    sample: &Sample,
    file: &Arc<tensorfile::File>,
    position: usize,
    info: &TensorInfo,
) -> PyResult<Bound<'py, PyAny>> {
    let tensor = PyTensor::of_process(Arc::clone(file), position);
    let placed = |error| shard_exception(&sample.place(error));
    if info.layout == Layout::Blob {
        let bytes = tensor.file_tensor().read().map_err(placed)?;
        return Ok(PyBytes::new(py, bytes.as_bytes()).into_any());
    }
    if info.dtype == Dtype::I64 && info.layout == Layout::RowMajor && info.shape.dims().is_empty() {
        let number = tensor.file_tensor().load::<i64>().map_err(placed)?;
        return Ok(number.into_pyobject(py)?.into_any());
    }
    let is_common = info.layout == Layout::RowMajor && buffer_format(info.dtype).is_some();
    let tensor = Bound::new(py, tensor)?;
    if is_common { as_array(py)?.call1((tensor,)) } else { view(py)?.call1((tensor,)) }
}

fn as_array(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static AS_ARRAY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    AS_ARRAY.import(py, "numpy", "asarray")
}

fn view(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static VIEW: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    VIEW.import(py, "tensorfile._arrays", "view")
}

fn json(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static LOADS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    LOADS.import(py, "json", "loads")
}
