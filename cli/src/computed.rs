use std::cell::RefCell;
use std::io::{self, Write};
use std::path::Path;

use tensorfile::file::FileTensor;
use tensorfile::model::{TensorData, TensorRecord, TensorSink};
use tensorfile::{File, Result, TensorInfo};

use crate::args::{Warnings, open_in_order};
use crate::exit::Outcome;
use crate::output::Progress;
use crate::pieces::Pieces;

/// Computes a value from the payload of each tensor: of a file when it is asked for, of a stream while the tensor
/// passes.
pub struct Computed<T> {
    compute: Box<Compute<T>>,
    of_file: Option<OfFile<T>>,
    /// The values of the tensors of a stream, in their order. An error is there until it is asked for.
    passed: Vec<Option<Result<T>>>,
    progress: Progress,
}

type Compute<T> = dyn FnMut(&TensorInfo, &dyn TensorData) -> Result<T>;
type OfFile<T> = fn(FileTensor<'_>, &mut Progress) -> Result<T>;

impl<T: Clone> Computed<T> {
    pub fn new(compute: impl FnMut(&TensorInfo, &dyn TensorData) -> Result<T> + 'static) -> Self {
        Self { compute: Box::new(compute), of_file: None, passed: Vec::new(), progress: Progress::bytes(0) }
    }

    /// Computes the values of the tensors of a file with this function, which advances the progress.
    pub fn of_file(self, of_file: OfFile<T>) -> Self {
        Self { of_file: Some(of_file), ..self }
    }

    /// Opens a file, or reads a stream and computes the values of its tensors.
    pub fn open(&mut self, path: &Path, from: Option<&str>, warnings: Warnings) -> Outcome<File> {
        open_in_order(path, from, warnings, self)
    }

    /// Returns whether the tensors came from a stream: their values are then in memory.
    pub fn are_known(&self) -> bool {
        !self.passed.is_empty()
    }

    /// Shows the progress over these tensors, unless their values are known.
    pub fn watch<'f>(&mut self, tensors: impl Iterator<Item = FileTensor<'f>>) {
        self.progress = Progress::bytes(tensors.map(|tensor| tensor.payload_bytes()).sum());
    }

    /// Returns the value of a tensor.
    pub fn of(&mut self, tensor: FileTensor<'_>) -> Result<T> {
        let passed = self.passed.get_mut(tensor.position());
        if let Some(Some(Ok(value))) = passed {
            return Ok(value.clone());
        }
        let compute = || match self.of_file {
            Some(of_file) => of_file(tensor, &mut self.progress),
            None => (self.compute)(tensor.info(), &WatchedTensor::new(tensor, &mut self.progress)),
        };
        let value = passed.and_then(Option::take).unwrap_or_else(compute);
        // In a stream, the name of a tensor may come after it.
        value.map_err(|error| tensor.locate(error))
    }
}

impl<T> TensorSink for Computed<T> {
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        self.passed.push(Some((self.compute)(tensor.info, tensor.data)));
        Ok(())
    }
}

/// A tensor that advances a progress bar when it is read.
pub struct WatchedTensor<'a> {
    tensor: FileTensor<'a>,
    progress: RefCell<&'a mut Progress>,
}

impl<'a> WatchedTensor<'a> {
    pub fn new(tensor: FileTensor<'a>, progress: &'a mut Progress) -> Self {
        Self { tensor, progress: RefCell::new(progress) }
    }
}

impl TensorData for WatchedTensor<'_> {
    fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut progress = self.progress.borrow_mut();
        self.tensor.write_to(&mut Pieces(|piece: &[u8]| {
            out.write_all(piece)?;
            progress.advance(piece.len());
            Ok(())
        }))
    }
}
