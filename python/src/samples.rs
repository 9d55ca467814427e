//! Samples of WebDataset shards, as dicts of arrays.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fs, thread};

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyException, PyMemoryError, PyRuntimeError, PyTypeError, PyUserWarning, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict};
use tensorfile::file::shown_url;
use tensorfile::{Dtype, ErrorKind, Layout, TensorInfo};
use tensorfile_datasets::{OnError, Resume, Sample, Shards, Shuffle, State};

use crate::callbacks::{POLL, in_thread};
use crate::errors::shard_exception;
use crate::file::PyTensor;
use crate::scalars::buffer_format;

/// Return the paths and URLs that match a pattern, in order.
#[pyfunction]
pub fn locations(pattern: &str) -> PyResult<Vec<String>> {
    tensorfile_datasets::locations(pattern).map_err(|error| shard_exception(&error))
}

/// An iterator over the samples of shards. Use `tensorfile.webdataset`.
#[pyclass(frozen, name = "Samples", module = "tensorfile._tensorfile")]
pub struct PySamples {
    samples: Arc<Mutex<Samples>>,
    /// The thread that reads, if reading a shard may wait.
    reader: Option<Mutex<Reader>>,
    skips: bool,
    /// Tensors are of the type `Tensor`, not arrays of numpy.
    tensors: bool,
    counts: Mutex<Counts>,
    /// The arguments with which another process continues: the shards, the handling of errors, the size of the buffer,
    /// and the seed.
    made_of: (Vec<String>, String, usize, u64),
    /// The process that reads the shards. A forked process shares their positions, and would move them.
    process: u32,
}

enum Samples {
    InOrder(Shards),
    Shuffled(Shuffle),
}

/// Counts and leftovers of this iterator.
#[derive(Default)]
struct Counts {
    /// The number of warnings that were shown.
    warned: usize,
    /// The number of samples that could not be decoded.
    undecoded: u64,
    /// The error of the last such sample, and the number of other samples and shards skipped before it.
    last: Option<(String, u64)>,
    /// A sample kept for the next call, because a warning about it was raised as an exception.
    ahead: Option<Sample>,
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

    /// Returns the counts, new warnings and state after a sample.
    fn progress(&mut self, seen: usize, has_state: bool) -> Progress {
        let warnings: Vec<String> = self.shards().warnings().iter().skip(seen).map(ToString::to_string).collect();
        let skipped = self.shards().skipped();
        let skipped = (skipped.samples, skipped.shards, skipped.last.as_ref().map(ToString::to_string));
        Progress { warnings, skipped, state: has_state.then(|| self.as_resume().state()) }
    }
}

/// The counts, new warnings and state after a sample.
struct Progress {
    /// The new warnings.
    warnings: Vec<String>,
    skipped: (u64, u64, Option<String>),
    /// The state; `None` if it is not sent with every sample.
    state: Option<State>,
}

type Read = (Option<tensorfile_datasets::Result<Sample>>, Progress);

/// A thread that reads shards from servers. Ctrl-C ends waiting for it, while the thread reads on.
struct Reader {
    ask: Sender<()>,
    done: Receiver<Read>,
    is_asked: bool,
    /// The last known state, and the number of samples returned since.
    state: State,
    skipped: (u64, u64, Option<String>),
}

impl Reader {
    /// The number of samples from one state to the next, if states are large.
    const BETWEEN_STATES: u64 = 64;

    fn new(samples: &Arc<Mutex<Samples>>) -> Self {
        let (ask, asked) = channel();
        let (send, done) = channel();
        let state = lock(samples).as_resume().state();
        let samples = Arc::clone(samples);
        thread::spawn(move || {
            let (mut warned, mut since) = (0, 0);
            while asked.recv().is_ok() {
                let mut samples = lock(&samples);
                let found = samples.next();
                since += 1;
                let is_due = samples.as_resume().has_small_state() || since == Self::BETWEEN_STATES;
                if is_due {
                    since = 0;
                }
                let progress = samples.progress(warned, is_due);
                warned += progress.warnings.len();
                drop(samples);
                if send.send((found, progress)).is_err() {
                    return;
                }
            }
        });
        Self { ask, done, is_asked: false, state, skipped: (0, 0, None) }
    }

    fn read(&mut self) -> Result<Option<Read>, RecvTimeoutError> {
        if !self.is_asked {
            self.is_asked = self.ask.send(()).is_ok();
        }
        match self.done.recv_timeout(POLL) {
            Ok((found, mut progress)) => {
                self.is_asked = false;
                self.skipped.clone_from(&progress.skipped);
                match progress.state.take() {
                    Some(state) => self.state = state,
                    None => self.state.returned += u64::from(matches!(found, Some(Ok(_)))),
                }
                Ok(Some((found, progress)))
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether reading a shard may wait for others: it is at a URL, standard input, or a pipe.
fn may_wait(location: &str) -> bool {
    location == "-" || shown_url(location).is_some() || fs::metadata(location).is_ok_and(|found| !found.is_file())
}

#[pymethods]
impl PySamples {
    #[new]
    #[pyo3(signature = (locations, *, errors, shuffle, seed, state, tensors))]
    fn new(
        py: Python<'_>,
        locations: Vec<String>,
        errors: &str,
        shuffle: usize,
        seed: u64,
        state: Option<&str>,
        tensors: bool,
    ) -> PyResult<Self> {
        let on_error = match errors {
            "skip" => OnError::Skip,
            "strict" => OnError::Strict,
            _ => OnError::Stop,
        };
        let waits = locations.iter().any(|location| may_wait(location));
        let made_of = (locations.clone(), errors.to_owned(), shuffle, seed);
        let shards = Shards::from_locations(locations).on_error(on_error);
        let mut samples =
            if shuffle > 0 { Samples::Shuffled(shards.shuffle(shuffle, seed)) } else { Samples::InOrder(shards) };
        if let Some(state) = state {
            let state: State = serde_json::from_str(state)
                .map_err(|error| PyValueError::new_err(format!("the state is malformed: {error}")))?;
            let resumed = move || samples.as_resume().resume(&state).map(|()| samples);
            let resumed = if waits { in_thread(py, resumed)? } else { py.detach(resumed) };
            samples = resumed.map_err(|error| shard_exception(&error))?;
        }
        let samples = Arc::new(Mutex::new(samples));
        let reader = waits.then(|| Mutex::new(Reader::new(&samples)));
        let (skips, process) = (errors == "skip", std::process::id());
        Ok(Self { samples, reader, skips, tensors, counts: Mutex::default(), made_of, process })
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    /// Return a function and its arguments, with which pickle resumes after the last sample in another process.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (locations, errors, shuffle, seed) = &self.made_of;
        let arguments = (locations, errors, shuffle, seed, self.state(py)?, self.tensors);
        (py.import("tensorfile._open")?.getattr("samples")?, arguments).into_bound_py_any(py)
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        if self.process != std::process::id() {
            return Err(PyRuntimeError::new_err(
                "the samples were iterated over before a fork, so the positions in their shards belong to two processes; \
                 iterate over the dataset in this one, or pickle the iterator",
            ));
        }
        loop {
            let ahead = lock(&self.counts).ahead.take();
            let found = match ahead {
                Some(sample) => Some(Ok(sample)),
                None => {
                    let (found, progress) = self.read(py)?;
                    if let Err(raised) = warn(py, &progress.warnings) {
                        lock(&self.counts).ahead = found.transpose().ok().flatten();
                        return Err(raised);
                    }
                    found
                }
            };
            let sample = match found {
                None => return Ok(None),
                Some(Err(error)) => return Err(shard_exception(&error)),
                Some(Ok(sample)) => sample,
            };
            match dict(py, &sample, self.tensors) {
                Err(error) if self.skips && is_of_sample(py, &error) => self.skip(py, &error),
                found => return found.map(Some),
            }
        }
    }

    /// Return the state after the last sample, as JSON.
    fn state(&self, py: Python<'_>) -> PyResult<String> {
        let state = py.detach(|| match &self.reader {
            Some(reader) => lock(reader).state.clone(),
            None => lock(&self.samples).as_resume().state(),
        });
        serde_json::to_string(&state).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Return the numbers of samples and shards that were skipped, and the last error.
    fn skipped(&self, py: Python<'_>) -> (u64, u64, Option<String>) {
        let (samples, shards, last) = py.detach(|| self.skipped_by_shards());
        let counts = lock(&self.counts);
        let own = counts.last.as_ref().filter(|(_, before)| *before == samples + shards);
        (samples + counts.undecoded, shards, own.map(|(last, _)| last.clone()).or(last))
    }
}

impl PySamples {
    /// Reads a sample without the interpreter: another thread may hold the lock and wait for it.
    fn read(&self, py: Python<'_>) -> PyResult<Read> {
        let Some(reader) = &self.reader else {
            return Ok(py.detach(|| {
                let mut samples = lock(&self.samples);
                let found = samples.next();
                let mut counts = lock(&self.counts);
                let progress = match samples.shards().warnings().len() > counts.warned {
                    true => samples.progress(counts.warned, false),
                    false => Progress { warnings: Vec::new(), skipped: (0, 0, None), state: None },
                };
                counts.warned += progress.warnings.len();
                (found, progress)
            }));
        };
        loop {
            match py.detach(|| lock(reader).read()) {
                Ok(Some(read)) => return Ok(read),
                Ok(None) => py.check_signals()?,
                Err(_) => return Err(PyRuntimeError::new_err("reading samples panicked")),
            }
        }
    }

    fn skipped_by_shards(&self) -> (u64, u64, Option<String>) {
        match &self.reader {
            Some(reader) => lock(reader).skipped.clone(),
            None => lock(&self.samples).progress(usize::MAX, false).skipped,
        }
    }

    /// Counts a sample that cannot be decoded.
    fn skip(&self, py: Python<'_>, error: &PyErr) {
        let (samples, shards, _) = py.detach(|| self.skipped_by_shards());
        let mut counts = lock(&self.counts);
        counts.undecoded += 1;
        counts.last = Some((error.value(py).to_string(), samples + shards));
    }
}

/// Returns whether an exception is about one sample rather than the process.
fn is_of_sample(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyException>(py) && !error.is_instance_of::<PyMemoryError>(py)
}

/// Shows warnings about shards.
pub fn warn(py: Python<'_>, warnings: &[String]) -> PyResult<()> {
    warnings.iter().try_for_each(|text| {
        let text = std::ffi::CString::new(text.replace('\0', "\\0")).expect("it has no NUL");
        PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 1)
    })
}

/// Returns a sample as a dict: its key, its shard, arrays, text, JSON and bytes.
fn dict<'py>(py: Python<'py>, sample: &Sample, tensors: bool) -> PyResult<Bound<'py, PyDict>> {
    let file = Arc::new(sample.open().map_err(|error| shard_exception(&error))?);
    let dict = PyDict::new(py);
    dict.set_item("__key__", &sample.key)?;
    dict.set_item("__url__", sample.shard())?;
    for tensor in file.tensors() {
        let value = value(py, sample, &file, tensor.position(), tensor.info(), tensors)?;
        dict.set_item(tensor.name(), value)?;
    }
    for (name, text) in sample.metadata().map_err(|error| shard_exception(&error))? {
        dict.set_item(name, text)?;
    }
    for member in sample.members.iter().filter(|member| member.is_json()) {
        if let Some(text) = dict.get_item(member.name())? {
            let text: String = text.extract()?;
            let parsed = json(py)?.call1((text.strip_prefix('\u{feff}').unwrap_or(&text),));
            let parsed = parsed.map_err(|error| {
                let what = format!("`{}`: {}", member.extension, error.value(py));
                shard_exception(&sample.place(ErrorKind::Malformed { what }.into()))
            })?;
            dict.set_item(member.name(), parsed)?;
        }
    }
    Ok(dict)
}

/// Returns a tensor as an array, which is a view of the sample if possible. Returns an int for an i64 of rank 0, and
/// bytes for a blob.
fn value<'py>(
    py: Python<'py>,
    sample: &Sample,
    file: &Arc<tensorfile::File>,
    position: usize,
    info: &TensorInfo,
    tensors: bool,
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
    if tensors {
        return Ok(Bound::new(py, tensor)?.into_any());
    }
    let is_common = info.layout == Layout::RowMajor && buffer_format(info.dtype).is_some();
    let tensor = Bound::new(py, tensor)?;
    let array = if is_common { as_array(py)?.call1((tensor,)) } else { view(py)?.call1((tensor,)) };
    // The message names the tensor already.
    array.map_err(|error| match error.is_instance_of::<PyTypeError>(py) {
        true => PyTypeError::new_err(in_sample(sample, &error.value(py).to_string())),
        false => error,
    })
}

/// Returns a message with the shard and the key of a sample.
fn in_sample(sample: &Sample, message: &str) -> String {
    sample.place(ErrorKind::Message(message.to_owned()).into()).to_string()
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
