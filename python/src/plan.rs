//! Read plans: tensors, and parts of them, into memory of the caller.

use std::ops::Range;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tensorfile::File;
use tensorfile::file::ReadPlan;

use crate::callbacks::Callback;
use crate::file::PyFile;
use crate::memory::Buffer;

/// What a plan reads: headers are all that is needed to make it again.
#[pyclass(frozen, name = "Plan", module = "tensorfile")]
pub struct PyPlan {
    file: Arc<File>,
    callback: Callback,
    pieces: Vec<(String, Option<Vec<Range<usize>>>)>,
    align: usize,
}

/// The name of a tensor, and the bounds of a part of it along each dim.
type Part = (String, Option<Vec<(usize, usize)>>);

/// A piece of a plan: offset in the memory, number of bytes, and dims.
type Piece = (usize, usize, Vec<usize>);

impl PyPlan {
    fn plan(&self) -> tensorfile::Result<ReadPlan<'_>> {
        let mut plan = self.file.read_plan().align(self.align);
        for (name, part) in &self.pieces {
            plan = match part {
                Some(ranges) => plan.slice(name, ranges)?,
                None => plan.tensor(name)?,
            };
        }
        plan.finish()
    }

    fn with<T>(&self, py: Python<'_>, take: impl FnOnce(&ReadPlan<'_>) -> tensorfile::Result<T> + Send) -> PyResult<T>
    where
        T: Send,
    {
        let taken = py.detach(|| take(&self.plan()?));
        taken.map_err(|error| self.callback.to_exception(error, None))
    }
}

#[pymethods]
impl PyPlan {
    #[new]
    fn new(file: &PyFile, pieces: Vec<Part>, align: usize) -> PyResult<Self> {
        let ranges = |part: Vec<(usize, usize)>| part.into_iter().map(|(start, end)| start..end).collect();
        let pieces = pieces.into_iter().map(|(name, part)| (name, part.map(ranges))).collect();
        Ok(Self { file: file.get()?, callback: file.callback().clone(), pieces, align })
    }

    /// Return the bytes of the memory, the bytes that are read, the ranges of the file, and the pieces.
    #[expect(clippy::type_complexity, reason = "it is unpacked by `tensorfile.ReadPlan` only")]
    fn facts(&self, py: Python<'_>) -> PyResult<(usize, u64, Vec<(u64, u64)>, Vec<Piece>)> {
        self.with(py, |plan| {
            let spans = plan.spans().iter().map(|span| (span.start, span.end)).collect();
            let pieces = plan.pieces().iter();
            let pieces =
                pieces.map(|piece| (piece.range().start, piece.range().len(), piece.info().shape.dims().to_vec()));
            Ok((plan.bytes(), plan.bytes_read(), spans, pieces.collect()))
        })
    }

    /// Read into a contiguous buffer, at least as long as the plan.
    fn read_into(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut buffer = Buffer::writable(buffer)?;
        let len = buffer.len();
        let needed = self.with(py, |plan| {
            if len < plan.bytes() { Ok(plan.bytes()) } else { plan.read_into(buffer.bytes_mut()).map(|()| 0) }
        })?;
        if needed > 0 {
            return Err(PyValueError::new_err(format!("the buffer has {len} bytes, but the plan takes {needed}")));
        }
        Ok(())
    }
}
