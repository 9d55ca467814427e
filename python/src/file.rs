//! Open files and their tensors.

use std::cell::Cell;
use std::collections::HashSet;
use std::ffi::c_int;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyBufferError, PyKeyError, PyKeyboardInterrupt, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyIterator, PyList, PyMemoryView, PyTuple};
use tensorfile::file::{Backend, FileTensor, shown_url};
use tensorfile::quant::{Part, Role, Verdict};
use tensorfile::report::WarningKind;
use tensorfile::{
    Dequantize, Dtype, Error, ErrorKind, File, Format, Layout, LayoutMap, Limits, OpenOptions, TensorInfo,
};
use tensorfile_datasets::TAR;

use crate::arguments::strings;
use crate::callbacks::{Callback, detach, is_remote, waits};
use crate::errors::to_exception;
use crate::maps::{PyLayoutMap, map_of, receipt_dict};
use crate::memory::{self, Buffer, Lent, Payload, PyMemory};
use crate::scalars::{buffer_format, dlpack_code};
use crate::streams::{self, Source};
use crate::values;

/// Open a tensor file. Only its index is read, no tensor.
///
/// The format is found by the content, or else by the name, unless you give `format`. You can open a checkpoint in
/// several files by its directory or its index. A file object needs `read` and `seek`. If it is a file on disk, reading
/// does not move its position.
///
/// Use `deny` to turn kinds of warnings into errors, such as `left-out`: arrays of objects and other parts of the file
/// that are not tensors.
///
/// Use `dequantize` to decode quantized weights: `True` to f32, or a dtype such as `"bf16"`. A weight takes the place of its
/// codes. It is computed as it is read, and is no view.
///
/// Use `map` to read the tensors in another layout: a `LayoutMap`, the name of one such as `"qwen3-moe"`, or the path of a
/// file with equations. Tensors are put together as they are read.
///
/// Use `config` to take another model configuration than the `config.json` next to the file. It says how weights are quantized, and
/// has the `config.` numbers of a map.
///
/// The file is mapped into memory, and tensors are views of it. If you write to a view, the change stays in this
/// process. Nobody may truncate a mapped file while it is open, as `torch.save` does if you save under the same name.
/// If that can happen, `mmap=False` reads the file instead. `tensorfile.save` is safe: it replaces files.
///
/// >>> import numpy, tensorfile
/// >>> tensorfile.save("doctest.ptd", {"w": numpy.float32([[1, 2], [3, 4]])})
/// >>> with tensorfile.open("doctest.ptd") as file:
/// ...     file["w"]
/// ...     file["w"][1:, :]
/// <Tensor 'w' f32[2, 2]>
/// array([[3., 4.]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (path, *, format=None, mmap=true, deny=None, dequantize=None, map=None, config=None))]
#[expect(clippy::too_many_arguments, reason = "Python has names for them")]
pub fn open(
    py: Python<'_>,
    path: &Bound<'_, PyAny>,
    format: Option<&str>,
    mmap: bool,
    deny: Option<&Bound<'_, PyAny>>,
    dequantize: Option<Decoded>,
    map: Option<&Bound<'_, PyAny>>,
    config: Option<PathBuf>,
) -> PyResult<PyFile> {
    let deny = deny.map_or_else(|| Ok(Vec::new()), |deny| strings("deny", deny))?;
    let backend = if mmap { Backend::Mapped } else { Backend::Positioned };
    let mut options = options(format)?.deny_warnings(&kinds(&deny)?).backend(backend);
    let dequantize = dequantize.and_then(Decoded::dtype).transpose()?;
    if let Some(dtype) = dequantize {
        options = options.dequantize(Dequantize::to(dtype));
    }
    let map = map.map(map_of).transpose()?;
    if let Some(map) = &map {
        options = options.map(map);
    }
    if let Some(config) = &config {
        options = options.config(config);
    }
    if path.hasattr("read")? {
        let file = match streams::source(path)? {
            Source::Bytes(bytes) => {
                let bytes = Buffer::contiguous(&bytes)?;
                py.detach(|| options.from_bytes(bytes))
            }
            Source::File(file) => py.detach(|| options.backend(Backend::Positioned).from_file(file)),
            Source::Object(object) => py.detach(|| options.open_ranges(object)),
        };
        return Ok(PyFile::new(file.map_err(|error| to_exception(error, None))?, None));
    }
    let path: PathBuf = path.extract()?;
    let dequantize = dequantize.map(Dtype::name);
    let config = config.map(|config| absolute(&config));
    let origin = Origin { path: absolute(&path), format: format.map(Into::into), mmap, deny, dequantize, map, config };
    let (waits, location, shown) = (waits(&path), path.clone(), path);
    let is_tar = format == Some(TAR.name);
    let open = move || open_path(&location, is_tar, &options);
    let file = Callback::default().detach(py, waits, Some(&shown), open)?;
    Ok(PyFile::new(file, Some(origin)))
}

/// Whether quantized weights are decoded: a bool, or a dtype.
#[derive(FromPyObject)]
pub enum Decoded {
    Bool(bool),
    Dtype(String),
}

impl Decoded {
    /// Returns the dtype to which weights are decoded.
    fn dtype(self) -> Option<PyResult<Dtype>> {
        match self {
            Self::Bool(false) => None,
            Self::Bool(true) => Some(Ok(Dtype::F32)),
            Self::Dtype(name) => Some(dtype_of_weights(&name)),
        }
    }
}

/// Returns the dtype to which weights are decoded, by its name.
fn dtype_of_weights(name: &str) -> PyResult<Dtype> {
    let unknown =
        |_| PyValueError::new_err(format!("`{name}` is not a dtype; weights are decoded to f32, bf16 or f16"));
    name.parse::<Dtype>().map_err(unknown)
}

/// Opens a file, a folder, or a WebDataset shard as one file, as the program does.
pub fn open_path(path: &Path, is_tar: bool, options: &OpenOptions) -> tensorfile::Result<File> {
    match path.to_str() {
        Some(location) if is_tar || tensorfile_cli::is_shard(path) => {
            tensorfile_datasets::open(location, options, &Limits::new())
        }
        _ => options.open(path),
    }
}

/// Returns a path of the file that is valid in every working directory. A URL stays as it is.
fn absolute(path: &Path) -> PathBuf {
    if shown_url(path).is_some() {
        return path.to_owned();
    }
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Open a tensor file in memory: `bytes`, `bytearray`, `memoryview` or any other contiguous buffer.
///
/// Nothing is copied. Do not change the bytes while you use the file or a view of it.
///
/// >>> import io, numpy, tensorfile
/// >>> file = io.BytesIO()
/// >>> tensorfile.save(file, {"w": numpy.arange(3)}, format="safetensors")
/// >>> tensorfile.open_bytes(file.getvalue())["w"].shape
/// (3,)
#[pyfunction]
#[pyo3(signature = (data, *, format=None))]
pub fn open_bytes(py: Python<'_>, data: &Bound<'_, PyAny>, format: Option<&str>) -> PyResult<PyFile> {
    let (options, data) = (options(format)?, Buffer::contiguous(data)?);
    let file = py.detach(|| options.from_bytes(data)).map_err(|error| to_exception(error, None))?;
    Ok(PyFile::new(file, None))
}

/// Read tensors of one file together. Each has a contiguous buffer of `nbytes` bytes, filled in the order of `strides`.
#[pyfunction]
#[pyo3(signature = (tensors, buffers, progress=None))]
pub fn read_tensors(
    py: Python<'_>,
    tensors: Vec<Bound<'_, PyTensor>>,
    buffers: Vec<Bound<'_, PyAny>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<()> {
    let Some(file) = tensors.first().map(|tensor| Arc::clone(&tensor.get().file)) else { return Ok(()) };
    let mut pairs = Vec::with_capacity(tensors.len());
    for (tensor, buffer) in tensors.iter().zip(&buffers) {
        let (tensor, buffer) = (tensor.get(), Buffer::writable(buffer)?);
        tensor.check_len(&buffer, tensor.file_tensor().payload_bytes())?;
        if !Arc::ptr_eq(&file, &tensor.file) {
            return Err(PyValueError::new_err("the tensors are of several files"));
        }
        pairs.push((tensor.position, buffer));
    }
    let callback = Callback::new(progress);
    let told = callback.clone();
    callback.detach(py, is_remote(&file), None, move || {
        let bytes = pairs.iter_mut().map(|(position, buffer)| (*position, buffer.bytes_mut())).collect();
        read(&file, bytes, &told)
    })
}

fn options(format: Option<&str>) -> PyResult<OpenOptions> {
    let options = OpenOptions::new();
    Ok(match format {
        Some(name) if name == TAR.name => options.format(&TAR),
        Some(name) => options.format(format_named(name)?),
        None => options,
    })
}

fn kinds(names: &[String]) -> PyResult<Vec<WarningKind>> {
    let kind = |name: &String| {
        name.parse().map_err(|_| {
            let names: Vec<_> = WarningKind::ALL.iter().map(|kind| kind.name()).collect();
            PyValueError::new_err(format!("unknown kind of warnings `{name}`; the kinds are {}", names.join(", ")))
        })
    };
    names.iter().map(kind).collect()
}

pub fn format_named(name: &str) -> PyResult<&'static Format> {
    Format::named(name).ok_or_else(|| {
        let names: Vec<_> = tensorfile::FORMATS.iter().map(|format| format.name).collect();
        PyValueError::new_err(format!("unknown format `{name}`; the formats are {}", names.join(", ")))
    })
}

/// An open tensor file: a mapping from names to tensors, in the order of the file.
///
/// You get it from `open` and `open_bytes`. Tensors are lazy: their bytes are read when you use them. Tensors and their
/// arrays stay valid after you close the file.
#[pyclass(frozen, mapping, name = "File", module = "tensorfile")]
pub struct PyFile {
    file: RwLock<Option<Arc<File>>>,
    /// How to open the file again; `None` if only this process can.
    origin: Option<Arc<Origin>>,
}

/// The arguments with which another process can open the same file.
#[derive(Clone)]
struct Origin {
    path: PathBuf,
    format: Option<String>,
    mmap: bool,
    deny: Vec<String>,
    /// The dtype to which quantized weights are decoded.
    dequantize: Option<&'static str>,
    map: Option<LayoutMap>,
    config: Option<PathBuf>,
}

impl Origin {
    /// Returns a function and its arguments, with which pickle opens the file.
    fn reduce<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let map = self.map.clone().map(PyLayoutMap);
        let arguments = (&self.path, &self.format, self.mmap, &self.deny, self.dequantize, map, &self.config);
        (py.import("tensorfile._open")?.getattr("reopened")?, arguments).into_bound_py_any(py)
    }
}

fn cannot_pickle() -> PyErr {
    PyTypeError::new_err(
        "cannot pickle a file in memory, or of a file object: other processes do not have it; open a path, or pickle arrays",
    )
}

impl PyFile {
    fn new(file: File, origin: Option<Origin>) -> Self {
        Self { file: RwLock::new(Some(Arc::new(file))), origin: origin.map(Arc::new) }
    }

    pub fn get(&self) -> PyResult<Arc<File>> {
        let file = self.file.read().unwrap_or_else(PoisonError::into_inner);
        file.clone().ok_or_else(|| PyValueError::new_err("the file is closed"))
    }

    fn names(&self) -> PyResult<Vec<String>> {
        let file = self.get()?;
        let mut seen = HashSet::with_capacity(file.len());
        // Several tensors may have the same name, so they are found by their positions.
        let repeated: HashSet<&str> =
            file.tensors().map(|tensor| tensor.name()).filter(|name| !seen.insert(*name)).collect();
        let name = |tensor: FileTensor<'_>| match tensor.name() {
            name if repeated.contains(name) => format!("#{}", tensor.position()),
            name => name.to_owned(),
        };
        Ok(file.tensors().map(name).collect())
    }

    fn tensor(&self, name: &str) -> PyResult<PyTensor> {
        let file = self.get()?;
        let position = file.get(name).map_err(|error| to_exception(error, None))?.position();
        Ok(PyTensor::new(file, position, self.origin.clone()))
    }
}

#[pymethods]
impl PyFile {
    fn __len__(&self) -> PyResult<usize> {
        Ok(self.get()?.len())
    }

    fn __contains__(&self, name: &Bound<'_, PyAny>) -> PyResult<bool> {
        let file = self.get()?;
        Ok(name.extract::<&str>().is_ok_and(|name| file.get(name).is_ok()))
    }

    fn __getitem__(&self, name: &Bound<'_, PyAny>) -> PyResult<PyTensor> {
        match name.extract::<&str>() {
            Ok(name) => self.tensor(name),
            Err(_) => Err(PyKeyError::new_err(name.clone().unbind())),
        }
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        PyList::new(py, self.names()?)?.try_iter()
    }

    /// Return the names of the tensors, in the order of the file.
    ///
    /// A tensor without a name is called by its position, such as `0`. If a name repeats, its tensors are called `#0`,
    /// `#1` and so on.
    fn keys(&self) -> PyResult<Vec<String>> {
        self.names()
    }

    /// Return the tensors, in the order of the file.
    fn values(&self) -> PyResult<Vec<PyTensor>> {
        let file = self.get()?;
        let tensor = |position| PyTensor::new(Arc::clone(&file), position, self.origin.clone());
        Ok((0..file.len()).map(tensor).collect())
    }

    /// Return the names and tensors, in the order of the file.
    fn items(&self) -> PyResult<Vec<(String, PyTensor)>> {
        Ok(self.names()?.into_iter().zip(self.values()?).collect())
    }

    /// Return the tensor with a name, or `default` if there is none.
    #[pyo3(name = "get", signature = (name, default=None))]
    fn get_or<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.tensor(name) {
            Ok(tensor) => Ok(Some(Bound::new(py, tensor)?.into_any())),
            Err(error) if error.is_instance_of::<PyKeyError>(py) => Ok(default),
            Err(error) => Err(error),
        }
    }

    /// Return the metadata as a dict of strings. You get numbers and lists of GGUF as strings, too.
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let metadata = detach(py, &self.get()?, File::metadata)?;
        let entries = PyDict::new(py);
        metadata.entries.iter().try_for_each(|(key, value)| entries.set_item(key, value))?;
        Ok(entries)
    }

    /// Plan to read tensors and parts of tensors into your own memory. No tensor is read yet.
    ///
    /// `names` lists whole tensors. `slices` maps other names to the parts you need, as indices of a `Tensor`. Without
    /// both, the plan has all tensors. Pieces start at multiples of `align` bytes.
    #[pyo3(signature = (names=None, slices=None, *, align=64))]
    fn read_plan<'py>(
        slf: Bound<'py, Self>,
        names: Option<Bound<'py, PyAny>>,
        slices: Option<Bound<'py, PyAny>>,
        align: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("tensorfile._plan")?.getattr("ReadPlan")?.call1((slf, names, slices, align))
    }

    /// Read the tensors of a plan into a contiguous buffer, as `plan.read_into(buffer, progress)` does.
    #[pyo3(signature = (buffer, plan, progress=None))]
    fn read_into<'py>(
        &self,
        buffer: Bound<'py, PyAny>,
        plan: Bound<'py, PyAny>,
        progress: Option<Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        plan.call_method1("read_into", (buffer, progress)).map(drop)
    }

    /// Warnings about the file, as strings: parts left out, unknown dtypes, repeated names and others.
    #[getter]
    fn warnings(&self) -> PyResult<Vec<String>> {
        let warnings = self.get()?.warnings().map_err(|error| to_exception(error, None))?;
        Ok(warnings.into_iter().map(|warning| warning.text).collect())
    }

    /// The kinds, tensors and texts of the warnings.
    #[getter]
    fn _warnings(&self, py: Python<'_>) -> PyResult<Vec<(&'static str, Option<String>, String)>> {
        let warnings = detach(py, &self.get()?, File::warnings)?;
        Ok(warnings.into_iter().map(|warning| (warning.kind.name(), warning.tensor, warning.text)).collect())
    }

    /// Return the quantized weights: for each, a dict with `name`, `scheme`, `details`, `shape` and `parts`.
    ///
    /// `parts` is a list of pairs of a role, such as `"codes"` and `"scale"`, and the name of a tensor. What looks like codes but
    /// fits no layout has the scheme `"unknown"`, no shape, and the reason as its details.
    fn quantized<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let file = self.get()?;
        let quantized = detach(py, &file, |file| file.quantized().cloned())?;
        let parts = |parts: &[Part]| -> Vec<(&'static str, String)> {
            parts.iter().map(|part| (part.role().name(), part.name().to_owned())).collect()
        };
        let weight = |name: &str, scheme: &str, details: &str, shape: Option<&[usize]>, parts| {
            let dict = PyDict::new(py);
            dict.set_item("name", name)?;
            dict.set_item("scheme", scheme)?;
            dict.set_item("details", details)?;
            dict.set_item("shape", shape.map(|shape| PyTuple::new(py, shape)).transpose()?)?;
            dict.set_item("parts", parts)?;
            Ok(dict)
        };
        let known = quantized.tensors().iter().map(|tensor| {
            let shape = Some(tensor.shape().dims());
            weight(tensor.name(), tensor.scheme().name(), tensor.details(), shape, parts(tensor.parts()))
        });
        let unknown = quantized.unknown().iter();
        let unknown = unknown.map(|codes| weight(codes.name(), "unknown", codes.reason(), None, parts(codes.parts())));
        known.chain(unknown).collect()
    }

    /// Return what became of each element, if the file was opened with a `map`; else `None`. It is a dict with `source`,
    /// `target`, `rules`, `kept`, `made` and `left`, and as `text` what the program prints.
    fn receipt<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        self.get()?.receipt().map(|receipt| receipt_dict(py, receipt)).transpose()
    }

    /// Return a file with quantized weights decoded: to f32, or to a dtype such as `"bf16"`. Both files read the same bytes.
    ///
    /// A weight takes the place of its codes, and its scales are gone. It is computed as it is read.
    #[pyo3(signature = (dtype="f32"))]
    fn dequantize(&self, py: Python<'_>, dtype: &str) -> PyResult<Self> {
        let to = dtype_of_weights(dtype)?;
        let file = detach(py, &self.get()?, move |file| file.dequantize(&Dequantize::to(to)))?;
        let origin = self.origin.as_ref().map(|origin| Origin { dequantize: Some(to.name()), ..(**origin).clone() });
        Ok(Self::new(file, origin))
    }

    /// Return the values of a PyTorch checkpoint as pairs of a kind and its content, inner values first; `None` for
    /// other formats.
    fn _values<'py>(&self, py: Python<'py>) -> PyResult<Option<Vec<values::Made<'py>>>> {
        let tree = detach(py, &self.get()?, File::value_tree)?;
        tree.map(|tree| tree.nodes().iter().map(|node| values::to_python(py, node)).collect()).transpose()
    }

    /// The name of the format.
    #[getter]
    fn format(&self) -> PyResult<&'static str> {
        Ok(self.get()?.format().name)
    }

    /// The path of the file, or of the index of several files; `None` for bytes and file objects.
    #[getter]
    fn path(&self) -> PyResult<Option<PathBuf>> {
        Ok(self.get()?.path().map(Into::into))
    }

    /// The paths of the files that were opened as one; empty for a single file.
    #[getter]
    fn shards(&self) -> PyResult<Vec<PathBuf>> {
        Ok(self.get()?.shards().to_vec())
    }

    /// Whether the file is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.get().is_err()
    }

    /// Close the file. Tensors and arrays of it stay valid.
    fn close(&self) {
        let _ = self.file.write().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().get()?;
        Ok(slf)
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) {
        self.close();
    }

    /// Return a function and its arguments, with which pickle opens the file in another process.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.get()?;
        self.origin.as_ref().ok_or_else(cannot_pickle)?.reduce(py)
    }

    fn _ipython_key_completions_(&self) -> PyResult<Vec<String>> {
        self.names()
    }

    /// Whether the file stores empty metadata, `{}`, rather than none.
    #[getter]
    fn _has_no_metadata(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(detach(py, &self.get()?, File::metadata)?.has_no_entries)
    }

    fn __repr__(&self) -> String {
        let Ok(file) = self.get() else { return "<File, closed>".to_owned() };
        let tensors = if file.len() == 1 { "1 tensor".to_owned() } else { format!("{} tensors", file.len()) };
        match file.location() {
            Some(location) => format!("<File '{location}', {}, {tensors}>", file.format().name),
            None => format!("<File, {}, {tensors}>", file.format().name),
        }
    }

    /// Return the table that `tensorfile ls` prints.
    fn __str__(&self, py: Python<'_>) -> String {
        match self.get() {
            Ok(file) => py.detach(|| tensorfile_cli::table(&file)),
            Err(_) => self.__repr__(),
        }
    }

    fn _repr_html_(slf: Bound<'_, Self>) -> PyResult<Bound<'_, PyAny>> {
        slf.py().import("tensorfile._show")?.call_method1("html", (slf,))
    }
}

/// A tensor of an open file. It is lazy: its bytes are read when you use it.
///
/// With `numpy.asarray(t)` and `torch.from_dlpack(t)` you get views of the file without a copy. You get copies if the
/// file stores the tensor in another form (compressed, big-endian) or is not mapped, and for `bool`, whose bytes are
/// checked.
///
/// Arrays of `asarray` are read-only. You may change tensors of torch: the change is visible in other views of the file
/// in this process, but the file stays as it is. `t[10:20, :]` reads only this part, as an array of its own.
#[pyclass(frozen, name = "Tensor", module = "tensorfile")]
pub struct PyTensor {
    file: Arc<File>,
    position: usize,
    origin: Option<Arc<Origin>>,
    /// The copy lent by the buffer protocol. `numpy.frombuffer` keeps the tensor alive, but not the memory lent by it.
    copy: Mutex<Option<Py<PyMemory>>>,
}

thread_local! {
    /// The last time that Ctrl-C ended an export of a buffer. `numpy.asarray` drops this exception and calls
    /// `__array__` at once, which would wait for the server again.
    static INTERRUPTED: Cell<Option<Instant>> = const { Cell::new(None) };
}

impl PyTensor {
    fn new(file: Arc<File>, position: usize, origin: Option<Arc<Origin>>) -> Self {
        Self { file, position, origin, copy: Mutex::default() }
    }

    /// Returns a tensor of a file that only this process can open. The position is valid.
    pub fn of_process(file: Arc<File>, position: usize) -> Self {
        Self::new(file, position, None)
    }

    pub fn file_tensor(&self) -> FileTensor<'_> {
        self.file.nth(self.position).expect("the position was found in the file")
    }

    /// Returns the bytes in a private mapping of the file; `None` if they must be copied.
    fn lent(&self) -> PyResult<Option<Payload>> {
        match self.file_tensor().lend() {
            Ok(lent) => Ok(Some(Payload::lend(lent))),
            Err(error) if matches!(error.kind(), ErrorKind::Unsupported { .. }) => Ok(None),
            Err(error) => Err(to_exception(error, None)),
        }
    }

    /// Returns the bytes in their stored order, read-only, and without a copy if they can be lent or borrowed.
    fn payload(&self, py: Python<'_>) -> PyResult<Payload> {
        if let Some(lent) = self.lent()? {
            return Ok(lent);
        }
        let position = self.position;
        let borrowed = Payload::borrow(&self.file, |file| -> Result<_, Option<Error>> {
            let tensor = file.nth(position).ok_or(None)?;
            Ok(tensor.view()?.as_bytes())
        });
        match borrowed {
            Ok(payload) => Ok(payload),
            Err(Some(error)) if !matches!(error.kind(), ErrorKind::Unsupported { .. }) => {
                Err(to_exception(error, None))
            }
            Err(_) => self.copied(py),
        }
    }

    pub fn is_remote(&self) -> bool {
        is_remote(&self.file)
    }

    /// Returns a copy of the bytes.
    fn copied(&self, py: Python<'_>) -> PyResult<Payload> {
        let (len, position) = (self.file_tensor().payload_bytes(), self.position);
        let len = usize::try_from(len).map_err(|_| PyValueError::new_err("the tensor is too large"))?;
        let callback = Callback::default();
        let (file, told) = (Arc::clone(&self.file), callback.clone());
        callback.detach(py, is_remote(&file), None, move || {
            Payload::own(len, |bytes| read(&file, vec![(position, bytes)], &told))
        })
    }

    /// Returns the strides in elements; `None` if the elements have none.
    fn element_strides(&self) -> Option<Vec<usize>> {
        strides(self.file_tensor().info())
    }
}

/// Fills memory with the payloads of tensors, which are given by position.
fn read(file: &File, tensors: Vec<(usize, &mut [u8])>, callback: &Callback) -> tensorfile::Result<()> {
    let found = |position| file.nth(position).expect("the position was found in the file");
    // Elements stay in their stored order. A plan would make them row-major.
    let (kept, in_rows): (Vec<_>, Vec<_>) =
        tensors.into_iter().partition(|(position, _)| matches!(found(*position).layout(), Layout::DimOrder(_)));
    for (position, bytes) in kept {
        match found(position).read_at(0, bytes) {
            // Compressed payloads and payloads with a checksum must be read whole.
            Err(error) if matches!(error.kind(), ErrorKind::Unsupported { .. }) => {
                bytes.copy_from_slice(found(position).read()?.as_bytes());
            }
            read => read?,
        }
    }
    let (positions, buffers): (Vec<_>, Vec<_>) = in_rows.into_iter().unzip();
    let callback = callback.clone();
    let plan = file.read_plan().align(1).progress(move |progress| callback.tell(progress));
    plan.tensors(positions.into_iter().map(found))?.finish()?.read_vectored(buffers)
}

/// Returns the strides of a dense tensor with one element in a block, in elements.
fn strides(info: &TensorInfo) -> Option<Vec<usize>> {
    let order: Vec<usize> = match &info.layout {
        Layout::RowMajor | Layout::Blob => (0..info.shape.rank()).collect(),
        Layout::DimOrder(order) => order.as_slice().iter().map(|dim| usize::from(*dim)).collect(),
        _ => return None,
    };
    if info.dtype.block_elements() != 1 {
        return None;
    }
    let (mut strides, mut next) = (vec![0; order.len()], 1_usize);
    for dim in order.into_iter().rev() {
        strides[dim] = next;
        next = next.saturating_mul(info.shape.dims()[dim].max(1));
    }
    Some(strides)
}

#[pymethods]
impl PyTensor {
    /// The name, or the position if the tensor has no name.
    #[getter]
    fn name(&self) -> &str {
        self.file_tensor().name()
    }

    /// The dtype, such as `f32` or `bf16`.
    #[getter]
    fn dtype(&self) -> &str {
        let info = self.file_tensor().info();
        info.unknown_dtype().unwrap_or_else(|| info.dtype.name())
    }

    /// The dims.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.file_tensor().shape().dims())
    }

    /// The distance between neighbours along each dim, in bytes; `None` for sparse tensors and dtypes with several
    /// elements in a block.
    #[getter]
    fn strides<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let item = self.file_tensor().dtype().block_bytes();
        let strides = self.element_strides().filter(|_| !self.is_unknown());
        strides.map(|strides| PyTuple::new(py, strides.iter().map(|stride| stride.saturating_mul(item)))).transpose()
    }

    /// The number of dims.
    #[getter]
    fn ndim(&self) -> usize {
        self.file_tensor().shape().rank()
    }

    /// The number of elements.
    #[getter]
    fn size(&self) -> Option<usize> {
        self.file_tensor().shape().elements()
    }

    /// The number of bytes of the elements, after decompression.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.file_tensor().payload_bytes()
    }

    /// The offset of the first byte in `path`.
    #[getter]
    fn offset(&self) -> u64 {
        self.file_tensor().range().start
    }

    /// The path of the file or shard with the bytes; `None` for bytes and file objects.
    #[getter]
    fn path(&self) -> Option<PathBuf> {
        self.file_tensor().path().map(Into::into)
    }

    /// Whether the tensor is sparse: its bytes are coordinates and values.
    #[getter]
    fn is_sparse(&self) -> bool {
        matches!(self.file_tensor().layout(), Layout::Coo { .. })
    }

    /// Read the indices and values of a sparse tensor: arrays of the shapes `(ndim, nnz)` and `(nnz,)`.
    ///
    /// Pass them on with `torch.sparse_coo_tensor(*t.coo(), t.shape)`, or with
    /// `scipy.sparse.coo_array((values, tuple(indices)), t.shape)`.
    fn coo(slf: Bound<'_, Self>) -> PyResult<Bound<'_, PyAny>> {
        slf.py().import("tensorfile._arrays")?.call_method1("coo", (slf,))
    }

    /// Whether the dtype is unknown to this library. You can still get the bytes with `data`.
    #[getter]
    fn is_unknown(&self) -> bool {
        self.file_tensor().info().unknown_dtype().is_some()
    }

    /// Whether the file stores the bytes in another form, compressed or big-endian. You always get copies then.
    #[getter]
    fn is_encoded(&self) -> bool {
        self.file_tensor().is_encoded()
    }

    /// The bytes, as a read-only `memoryview`, in the order of `strides`.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyMemoryView>> {
        PyMemoryView::from(Bound::new(py, PyMemory::of_bytes(self.payload(py)?))?.as_any())
    }

    /// Return bytes that may be changed, as an object with the buffer protocol. They are in a private mapping of the
    /// file if possible; else they are a copy, or `None` without `copy`.
    fn _private<'py>(&self, py: Python<'py>, copy: bool) -> PyResult<Option<Bound<'py, PyMemory>>> {
        let payload = match self.lent()? {
            None if copy => Some(self.copied(py)?),
            lent => lent,
        };
        payload.map(|payload| Bound::new(py, PyMemory::of_bytes(payload))).transpose()
    }

    fn __len__(&self) -> PyResult<usize> {
        let first = self.file_tensor().shape().dims().first().copied();
        first.ok_or_else(|| PyTypeError::new_err("the tensor has no dims, and so no length"))
    }

    fn __repr__(&self) -> String {
        let tensor = self.file_tensor();
        format!("<Tensor '{}' {}>", tensor.name(), tensor.info())
    }

    fn _repr_html_(slf: Bound<'_, Self>) -> PyResult<Bound<'_, PyAny>> {
        slf.py().import("tensorfile._show")?.call_method1("tensor_html", (slf,))
    }

    /// Return a function and its arguments, with which pickle finds the tensor in another process.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let file = self.origin.as_ref().ok_or_else(cannot_pickle)?.reduce(py)?;
        let tensor = self.file_tensor();
        let arguments = (file, tensor.name(), self.position, tensor.info().to_string());
        (py.import("tensorfile._open")?.getattr("tensor")?, arguments).into_bound_py_any(py)
    }

    /// The dtype, shape and layout as one string.
    #[getter]
    fn _info(&self) -> String {
        self.file_tensor().info().to_string()
    }

    fn __getitem__<'py>(slf: Bound<'py, Self>, key: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("tensorfile._arrays")?.call_method1("part", (slf, key))
    }

    /// Return the quantized weight whose codes this tensor has, decoded to f32, or to a dtype such as `"bf16"`. Nothing is
    /// read yet. A tensor that is not quantized is returned as it is.
    #[pyo3(signature = (dtype="f32"))]
    fn dequantize(slf: &Bound<'_, Self>, dtype: &str) -> PyResult<Py<Self>> {
        let (py, tensor) = (slf.py(), slf.get());
        let to = dtype_of_weights(dtype)?;
        let (file, position) = (&tensor.file, tensor.position);
        let quantized = detach(py, file, |file| file.quantized().cloned())?;
        let own = tensor.file_tensor().name();
        let name = match quantized.verdict(position) {
            Verdict::Part(weight, Role::Codes) => weight.name().to_owned(),
            Verdict::Part(weight, role) => {
                let what = format!("`{own}` is the {role} of `{}`, not its codes", weight.name());
                return Err(PyValueError::new_err(what));
            }
            Verdict::Unknown(codes) => {
                let what = format!("`{own}` may belong to a quantized weight, but {}", codes.reason());
                return Err(PyValueError::new_err(what));
            }
            _ => return Ok(slf.clone().unbind()),
        };
        let only = name.clone();
        let dequantize = Dequantize::to(to).only(move |weight| weight == only);
        let file = detach(py, file, move |file| file.dequantize(&dequantize))?;
        let position = file.get(&name).map_err(|error| to_exception(error, None))?.position();
        Py::new(py, Self::new(Arc::new(file), position, None))
    }

    /// Read the tensor as a new numpy array, which you may change.
    fn numpy(slf: Bound<'_, Self>) -> PyResult<Bound<'_, PyAny>> {
        slf.py().import("tensorfile._arrays")?.call_method1("owned", (slf,))
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        slf: Bound<'py, Self>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if INTERRUPTED.take().is_some_and(|when| when.elapsed() < Duration::from_millis(10)) {
            return Err(PyKeyboardInterrupt::new_err(()));
        }
        slf.py().import("tensorfile._arrays")?.call_method1("array", (slf, dtype, copy))
    }

    /// Return the digest of dtype, shape and elements, in hexadecimal. It is the same in every format.
    fn digest(&self, py: Python<'_>) -> PyResult<String> {
        let position = self.position;
        let digest = detach(py, &self.file, move |file| {
            file.nth(position).expect("the position was found in the file").digest()
        });
        Ok(digest?.to_string())
    }

    /// Read the bytes into a contiguous buffer of `nbytes` bytes, in the order of `strides`.
    fn read_into(slf: Bound<'_, Self>, buffer: Bound<'_, PyAny>) -> PyResult<()> {
        read_tensors(slf.py(), vec![slf], vec![buffer], None)
    }

    /// Read a part, given by a pair of bounds for each dim, into a contiguous buffer, row-major.
    fn _read_part(&self, py: Python<'_>, bounds: Vec<(usize, usize)>, buffer: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut buffer = Buffer::writable(buffer)?;
        let ranges: Vec<Range<usize>> = bounds.into_iter().map(|(start, end)| start..end).collect();
        let position = self.position;
        detach(py, &self.file, move |file| {
            let tensor = file.nth(position).expect("the position was found in the file");
            tensor.slice_into(&ranges, buffer.bytes_mut())
        })
    }

    /// Export the tensor by DLPack: memory in a private mapping of the file if possible, else a copy.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        if stream.is_some_and(|stream| !stream.is_none()) {
            return Err(PyBufferError::new_err("the memory of the processor has no streams"));
        }
        if dl_device.is_some_and(|(kind, _)| kind != 1) {
            return Err(PyBufferError::new_err("the tensor is in the memory of the processor"));
        }
        let tensor = self.file_tensor();
        let info = tensor.info();
        let code = dlpack_code(info.dtype).zip(self.element_strides()).filter(|_| !self.is_unknown());
        let Some(((code, bits), strides)) = code else {
            return Err(PyBufferError::new_err(format!("DLPack has no {info}; `data` has its bytes")));
        };
        let is_versioned = max_version.is_some_and(|(major, _)| major >= 1);
        // Read-only bytes are not lent, because torch does not check whether it may write to them.
        let lent = if copy == Some(true) { None } else { self.lent()? };
        let payload = match lent.filter(|payload| payload.is_aligned_to(info.dtype.block_bytes())) {
            Some(lent) => lent,
            None if copy == Some(false) => return Err(PyBufferError::new_err("the tensor has to be copied")),
            None => self.copied(py)?,
        };
        let number = |number: &usize| i64::try_from(*number).unwrap_or(i64::MAX);
        let shape = info.shape.dims().iter().map(number).collect();
        let lent = Lent { payload, code, bits, shape, strides: strides.iter().map(number).collect() };
        if is_versioned { lent.versioned(py) } else { lent.legacy(py) }
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        (1, 0)
    }

    #[expect(unsafe_code, reason = "Python passes a pointer, which is used in `memory`")]
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let this = slf.get();
        let info = this.file_tensor().info();
        let format = buffer_format(info.dtype).zip(this.element_strides()).filter(|_| !this.is_unknown());
        let Some((format, strides)) = format else {
            return Err(PyBufferError::new_err(format!("the buffer protocol has no {info}; `data` has its bytes")));
        };
        let item = info.dtype.block_bytes();
        let shape = info.shape.dims().iter().map(|dim| dim.cast_signed()).collect();
        let strides = strides.iter().map(|stride| stride.saturating_mul(item).cast_signed()).collect();
        let mut copy =
            this.copy.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|copy| copy.clone_ref(slf.py()));
        if copy.is_none() {
            let payload = this.payload(slf.py()).inspect_err(|error| {
                if error.is_instance_of::<PyKeyboardInterrupt>(slf.py()) {
                    INTERRUPTED.set(Some(Instant::now()));
                }
            })?;
            let is_copied = payload.is_copied();
            let memory = Py::new(slf.py(), PyMemory { payload, format, item, shape, strides })?;
            if is_copied {
                *this.copy.lock().unwrap_or_else(PoisonError::into_inner) = Some(memory.clone_ref(slf.py()));
            }
            copy = Some(memory);
        }
        let memory = copy.expect("it is there by now").into_bound(slf.py());
        // SAFETY: Python passes a view to be filled.
        unsafe { memory::export(memory, view, flags) }
    }
}

impl PyTensor {
    fn check_len(&self, buffer: &Buffer, needed: u64) -> PyResult<()> {
        match buffer.len() {
            len if len as u64 == needed => Ok(()),
            len => {
                let name = self.file_tensor().name();
                Err(PyValueError::new_err(format!("the buffer has {len} bytes, but tensor `{name}` takes {needed}")))
            }
        }
    }
}
