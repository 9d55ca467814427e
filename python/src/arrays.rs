//! Python's arrays as tensors of the library.

use std::io::{self, Write};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use tensorfile::model::{TensorData, TensorRecord, TensorSink};
use tensorfile::{Dtype, Result, TensorInfo, Tensors};

use crate::file::PyTensor;
use crate::memory::{Borrowed, Elements};
use crate::scalars::{dtype_from_buffer, dtype_from_dlpack};

/// Named arrays, in order.
pub struct NamedArrays(Vec<(String, Array)>);

/// An array: strided memory owned by Python, with a dtype.
struct Array {
    info: TensorInfo,
    memory: Memory,
}

enum Memory {
    Array(Borrowed),
    /// A tensor of an open file. Its bytes are read from the file: others may have written to the memory it lent.
    Tensor(Py<PyTensor>),
}

/// A name and an array. The array is an object with the buffer protocol or `__dlpack__`; a dtype and a shape, if given,
/// replace the object's own. The dtype `blob` means bytes without elements.
pub type NamedArray<'py> = (String, Bound<'py, PyAny>, Option<String>, Option<Vec<usize>>);

impl NamedArrays {
    pub fn new(arrays: &[NamedArray<'_>]) -> PyResult<Self> {
        let arrays = arrays.iter().map(|(name, object, dtype, shape)| {
            let array = Array::new(object, dtype.as_deref(), shape.as_deref());
            Ok((name.clone(), array.map_err(|error| in_tensor(object.py(), name, error))?))
        });
        Ok(Self(arrays.collect::<PyResult<_>>()?))
    }
}

/// Adds the name of a tensor to an exception about its type.
fn in_tensor(py: Python<'_>, name: &str, error: PyErr) -> PyErr {
    if !error.is_instance_of::<PyTypeError>(py) {
        return error;
    }
    PyTypeError::new_err(format!("tensor `{name}`: {}", error.value(py)))
}

impl Array {
    fn new(object: &Bound<'_, PyAny>, dtype: Option<&str>, shape: Option<&[usize]>) -> PyResult<Self> {
        if let Ok(tensor) = object.cast::<PyTensor>() {
            let info = tensor.get().file_tensor().info().clone();
            // Ctrl-C may end reading from a server, but not saving a file.
            let memory = if tensor.get().is_remote() {
                Memory::Array(Borrowed::from_buffer(&object.getattr("data")?)?.0)
            } else {
                Memory::Tensor(tensor.clone().unbind())
            };
            return Ok(Self { info, memory });
        }
        // numpy's arrays have both. Their buffers take less time, and may be read-only.
        let has_buffer = !object.hasattr("__dlpack__")? || object.hasattr("__array_interface__")?;
        let (memory, elements) =
            if has_buffer { Borrowed::from_buffer(object)? } else { Borrowed::from_dlpack(object)? };
        let dtype = match dtype {
            Some("blob") => {
                let info = TensorInfo::blob(memory.dims.iter().product());
                return Ok(Self { info, memory: Memory::Array(memory) });
            }
            Some(name) => name.parse().map_err(|_| PyTypeError::new_err(format!("unknown dtype `{name}`")))?,
            None => dtype_of(&elements)?,
        };
        let info = TensorInfo::new(dtype, shape.unwrap_or(&memory.dims));
        Ok(Self { info, memory: Memory::Array(memory) })
    }
}

fn dtype_of(elements: &Elements) -> PyResult<Dtype> {
    let (dtype, found) = match elements {
        Elements::Buffer { format, bytes } => {
            (dtype_from_buffer(format, *bytes), format!("of `{}`, {bytes} bytes each", format.to_string_lossy()))
        }
        Elements::DlPack { code, bits } => {
            (dtype_from_dlpack(*code, *bits), format!("of type code {code} and {bits} bits in DLPack"))
        }
    };
    dtype.ok_or_else(|| PyTypeError::new_err(format!("cannot save elements {found}")))
}

impl Tensors for NamedArrays {
    fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
        sink.expect(self.0.len())?;
        self.0.iter().try_for_each(|(name, array)| {
            sink.tensor(&TensorRecord { name, info: &array.info, data: array, tied: None })
        })
    }
}

impl TensorData for Array {
    fn as_bytes(&self) -> Option<&[u8]> {
        let bytes = match &self.memory {
            Memory::Array(memory) => memory.as_bytes()?,
            // The tensor compares its checksum while it is written.
            Memory::Tensor(_) => return None,
        };
        (self.info.dtype != Dtype::Bool || bytes.iter().all(|byte| *byte < 2)).then_some(bytes)
    }

    fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        match &self.memory {
            // numpy and torch take any byte but 0 for true; formats require 1.
            Memory::Array(memory) if self.info.dtype == Dtype::Bool => memory.in_rows(&mut |piece| {
                let bools: Vec<u8> = piece.iter().map(|byte| u8::from(*byte != 0)).collect();
                out.write_all(&bools)
            }),
            Memory::Array(memory) => memory.in_rows(&mut |piece| out.write_all(piece)),
            Memory::Tensor(tensor) => tensor.get().file_tensor().write_to(out),
        }
    }

    fn copy_to(&self, out: &mut dyn Write) -> io::Result<()> {
        match &self.memory {
            Memory::Tensor(tensor) => tensor.get().file_tensor().copy_to(out),
            Memory::Array(_) => self.write_to(out),
        }
    }
}
