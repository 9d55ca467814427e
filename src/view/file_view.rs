use std::fmt;
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;

use crate::error::{Error, Result};
use crate::file::{File, FileTensor};
use crate::model::{Meaning, TensorData, TensorRecord, TensorSink, Tensors};

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
    /// The names by position, unless all tensors keep theirs.
    names: Option<&'f [String]>,
}

impl<'f> FileView<'f> {
    /// Returns the tensors of a file. Errors name it by `path`.
    pub fn new(file: &'f File, path: &'f Path) -> Self {
        Self { file, path, positions: None, names: None }
    }

    /// Returns the path in errors.
    pub fn path(&self) -> &'f Path {
        self.path
    }

    /// Returns the tensors at these positions, in order. Positions without a tensor are ignored.
    ///
    /// Unlike with a [`Subset`](super::Subset), the time does not grow with the file.
    #[must_use]
    pub fn with_positions(&self, mut positions: Vec<usize>) -> Self {
        positions.retain(|position| *position < self.file.len());
        Self { positions: Some(positions), ..*self }
    }

    /// Returns the tensors under these names, which are in the order of the file.
    ///
    /// Unlike in [`Renamed`](super::Renamed), they are borrowed, and several views may share them.
    ///
    /// ```
    /// use tensorfile::view::FileView;
    /// use tensorfile::{File, TensorMap, ten};
    ///
    /// let map = TensorMap::from_iter([("a", ndarray::array![1.0_f32]), ("b", ndarray::array![2.0])]);
    /// let file = File::from_bytes(ten::to_vec(&map)?)?;
    /// let names = ["x", "y"].map(str::to_owned);
    /// let view = FileView::new(&file, "standard input".as_ref()).with_names(&names).with_positions(vec![1]);
    /// let map: TensorMap = ten::from_slice(&ten::to_vec(&view as &dyn tensorfile::Tensors)?)?;
    /// assert!(map.contains("y") && map.len() == 1);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn with_names(&self, names: &'f [String]) -> Self {
        Self { names: Some(names), positions: self.positions.clone(), ..*self }
    }

    fn send_tensor(&self, tensor: &FileTensor<'f>, sink: &mut dyn TensorSink) -> Result<()> {
        let name = self.names.and_then(|names| names.get(tensor.position())).map_or(tensor.name(), String::as_str);
        let data = FileData { path: self.path, data: tensor };
        sink.tensor(&TensorRecord { name, info: tensor.info(), data: &data, tied: None })
    }
}

impl Tensors for FileView<'_> {
    fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
        match &self.positions {
            None => self.file.tensors().try_for_each(|tensor| self.send_tensor(&tensor, sink)),
            Some(positions) => {
                let mut tensors = positions.iter().filter_map(|position| self.file.nth(*position));
                tensors.try_for_each(|tensor| self.send_tensor(&tensor, sink))
            }
        }
    }

    fn send_nth(&self, position: usize, sink: &mut dyn TensorSink) -> Result<bool> {
        let position = match &self.positions {
            None => Some(position),
            Some(positions) => positions.get(position).copied(),
        };
        if let Some(tensor) = position.and_then(|position| self.file.nth(position)) {
            self.send_tensor(&tensor, sink)?;
        }
        Ok(true)
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

    fn copy_range_to(&self, range: Range<u64>, out: &mut dyn Write) -> io::Result<()> {
        self.locate(out, &|out| self.data.copy_range_to(range.clone(), out))
    }

    fn meaning(&self) -> Result<Meaning> {
        self.data.meaning()
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
