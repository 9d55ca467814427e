//! Read plans: tensors and parts of tensors, read into the caller's memory.

use std::ops::Range;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tensorfile::File;
use tensorfile::file::ReadPlan;

use crate::callbacks::{Callback, is_remote};
use crate::errors::to_exception;
use crate::file::PyFile;
use crate::memory::Buffer;

/// The pieces of a plan. With these, another process can make the plan again from the headers of the file.
#[pyclass(frozen, name = "Plan", module = "tensorfile")]
pub struct PyPlan(Arc<Pieces>);

struct Pieces {
    file: Arc<File>,
    pieces: Vec<(String, Option<Vec<Range<usize>>>)>,
    align: usize,
}

/// The name of a tensor, and the bounds of a part of it along each dim.
type Part = (String, Option<Vec<(usize, usize)>>);

/// A piece of a plan: its offset in the memory, its number of bytes, and its dims.
type Piece = (usize, usize, Vec<usize>);

impl Pieces {
    fn plan(&self, callback: Callback) -> tensorfile::Result<ReadPlan<'_>> {
        let mut plan = self.file.read_plan().align(self.align).progress(move |progress| callback.tell(progress));
        for (name, part) in &self.pieces {
            plan = match part {
                Some(ranges) => plan.slice(name, ranges)?,
                None => plan.tensor(name)?,
            };
        }
        plan.finish()
    }
}

#[pymethods]
impl PyPlan {
    #[new]
    fn new(file: &PyFile, pieces: Vec<Part>, align: usize) -> PyResult<Self> {
        let ranges = |part: Vec<(usize, usize)>| part.into_iter().map(|(start, end)| start..end).collect();
        let pieces = pieces.into_iter().map(|(name, part)| (name, part.map(ranges))).collect();
        Ok(Self(Arc::new(Pieces { file: file.get()?, pieces, align })))
    }

    /// Return the number of bytes of the memory, the number of bytes to read, the ranges of the file, and the pieces.
    #[expect(clippy::type_complexity, reason = "it is unpacked by `tensorfile.ReadPlan` only")]
    fn facts(&self, py: Python<'_>) -> PyResult<(usize, u64, Vec<(u64, u64)>, Vec<Piece>)> {
        let facts = py.detach(|| {
            let plan = self.0.plan(Callback::default())?;
            let spans = plan.spans().iter().map(|span| (span.start, span.end)).collect();
            let pieces = plan.pieces().iter();
            let pieces =
                pieces.map(|piece| (piece.range().start, piece.range().len(), piece.info().shape.dims().to_vec()));
            Ok((plan.bytes(), plan.bytes_read(), spans, pieces.collect()))
        });
        facts.map_err(|error| to_exception(error, None))
    }

    /// Read into a contiguous buffer, which must be at least as long as the plan.
    fn read_into(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>, progress: Option<Py<PyAny>>) -> PyResult<()> {
        let mut buffer = Buffer::writable(buffer)?;
        let (len, pieces, callback) = (buffer.len(), Arc::clone(&self.0), Callback::new(progress));
        let told = callback.clone();
        let needed = callback.detach(py, is_remote(&self.0.file), None, move || {
            let plan = pieces.plan(told)?;
            if len < plan.bytes() { Ok(plan.bytes()) } else { plan.read_into(buffer.bytes_mut()).map(|()| 0) }
        })?;
        if needed > 0 {
            return Err(PyValueError::new_err(format!("the buffer has {len} bytes, but the plan takes {needed}")));
        }
        Ok(())
    }
}
