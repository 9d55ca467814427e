use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use crate::error::{Error, Result};
use crate::file::File;
use crate::model::{TensorData, TensorRecord, TensorSink, Tensors, forward};

/// The tensors of an open file, or some of them. Errors of reading them name the file, although they pass through the
/// writer of another.
///
/// ```
/// use tensorfile::view::FileView;
/// use tensorfile::{File, TensorMap, ten};
///
/// let file = File::from_bytes(ten::to_vec(&TensorMap::from_iter([("a", ndarray::array![1.0_f32])]))?)?;
/// let map: TensorMap = ten::from_slice(&ten::to_vec(&FileView::new(&file, "standard input".as_ref()) as &dyn tensorfile::Tensors)?)?;
/// assert!(map.contains("a"));
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Clone)]
pub struct FileView<'f> {
    file: &'f File,
    path: &'f Path,
    /// The positions of the tensors, if not all are sent.
    positions: Option<Vec<usize>>,
}

impl<'f> FileView<'f> {
    /// Returns the tensors of a file. Errors name it by `path`.
    pub fn new(file: &'f File, path: &'f Path) -> Self {
        Self { file, path, positions: None }
    }

    /// Returns the path in errors.
    pub fn path(&self) -> &'f Path {
        self.path
    }

    /// Returns the tensors at these positions, in order. Positions without a tensor are ignored.
    ///
    /// Unlike with a [`Subset`](super::Subset), the time does not grow with the file.
    #[must_use]
    pub fn with_positions(&self, positions: Vec<usize>) -> Self {
        Self { positions: Some(positions), ..*self }
    }
}

impl Tensors for FileView<'_> {
    fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
        let mut each = |tensor: &TensorRecord<'_>, next: &mut dyn TensorSink| {
            let data = FileData { path: self.path, data: tensor.data };
            next.tensor(&TensorRecord { data: &data, ..*tensor })
        };
        let sink = &mut forward(sink, &mut each);
        let Some(positions) = &self.positions else { return self.file.send(sink) };
        for tensor in positions.iter().filter_map(|position| self.file.nth(*position)) {
            sink.tensor(&TensorRecord { name: tensor.name(), info: tensor.info(), data: &tensor, tied: None })?;
        }
        Ok(())
    }
}

impl fmt::Debug for FileView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileView").field("path", &self.path).finish_non_exhaustive()
    }
}

struct FileData<'a> {
    path: &'a Path,
    data: &'a dyn TensorData,
}

impl TensorData for FileData<'_> {
    fn as_bytes(&self) -> Option<&[u8]> {
        self.data.as_bytes()
    }

    fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        self.locate(out, &|out| self.data.write_to(out))
    }

    fn copy_to(&self, out: &mut dyn Write) -> io::Result<()> {
        self.locate(out, &|out| self.data.copy_to(out))
    }

    fn storage_id(&self) -> Option<u64> {
        self.data.storage_id()
    }
}

impl FileData<'_> {
    /// Writes to `out`. The errors of the file have its path.
    fn locate(&self, out: &mut dyn Write, write: &dyn Fn(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        let mut out = TargetWriter { out, failed: false };
        let written = write(&mut out);
        if out.failed { written } else { written.map_err(|error| Error::from(error).with_path(self.path).into()) }
    }
}

/// A writer that remembers its failure: the error is then not one of the file being read.
struct TargetWriter<'a> {
    out: &'a mut dyn Write,
    failed: bool,
}

impl Write for TargetWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes).inspect_err(|_| self.failed = true)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush().inspect_err(|_| self.failed = true)
    }
}
