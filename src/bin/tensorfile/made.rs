//! Tensors on their way into another file: chosen, renamed and cast, but not read yet.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;

use tensorfile::{CastReport, Caster, Collection, Error, ErrorKind, File, FileTensor, Layout, Result, TensorInfo};

use crate::failure::{At, Failure, Outcome};
use crate::progress::Progress;

/// The most that is cast at once, in bytes.
const PIECE: usize = 1 << 20;

/// A tensor of an opened file, as it will be written.
#[derive(Debug)]
pub struct Planned<'f> {
    pub source: FileTensor<'f>,
    pub name: String,
    pub info: TensorInfo,
    /// The file that the tensor is in, and what messages call it.
    file: &'f File,
    path: &'f Path,
    report: RefCell<CastReport>,
}

impl<'f> Planned<'f> {
    /// The tensors of a file as they are.
    pub fn of(file: &'f File, path: &'f Path) -> impl Iterator<Item = Self> {
        file.tensors().map(move |source| {
            let (name, info) = (source.name().to_owned(), source.info().clone());
            Self { source, name, info, file, path, report: RefCell::default() }
        })
    }

    /// Whether another dtype will be written.
    pub fn is_cast(&self) -> bool {
        self.info.dtype != self.source.dtype()
    }

    /// What casting changed, once the tensor is written.
    pub fn report(&self) -> CastReport {
        self.report.borrow().clone()
    }

    fn pour(&self, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        if !self.is_cast() {
            return self.pour_source(take);
        }
        let mut caster = Caster::between_kinds(self.source.dtype(), self.info.dtype)?;
        let (mut before_elements, mut cast) = (self.before_elements(), Vec::new());
        self.pour_source(&mut |piece| {
            let (kept, elements) = piece.split_at(before_elements.min(piece.len()));
            before_elements -= kept.len();
            take(kept)?;
            cast.clear();
            caster.cast(elements, &mut cast);
            take(&cast)
        })?;
        self.report.replace(caster.report().clone());
        Ok(())
    }

    fn pour_source(&self, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut take = |bytes: &[u8]| bytes.chunks(PIECE).try_for_each(&mut *take);
        match self.source.layout() {
            // It is read whole, so that its coordinates are looked at.
            Layout::Coo { .. } => take(self.source.read()?.as_bytes()),
            _ => self.source.pour(&mut take),
        }
    }

    /// The bytes of the payload before its elements: the coordinates of a sparse tensor.
    fn before_elements(&self) -> usize {
        let info = self.source.info();
        match info.layout {
            Layout::Coo { entries } => {
                let elements = info.dtype.bytes_for(entries).unwrap_or_default();
                info.payload_bytes().unwrap_or_default().saturating_sub(elements)
            }
            _ => 0,
        }
    }
}

/// What will be a file.
#[derive(Debug)]
pub struct Made<'f> {
    tensors: Vec<Planned<'f>>,
    progress: RefCell<Progress>,
    /// Why a tensor could not be read. The writer passes errors on as its own, which then name the wrong file.
    failure: RefCell<Option<Failure>>,
}

impl<'f> Made<'f> {
    /// # Errors
    ///
    /// Where two tensors have one name.
    pub fn of(tensors: Vec<Planned<'f>>) -> Outcome<Self> {
        let mut seen = HashMap::with_capacity(tensors.len());
        for tensor in &tensors {
            if let Some(other) = seen.insert(&tensor.name, tensor) {
                let [one, two] =
                    [other, tensor].map(|tensor| format!("`{}` of {}", tensor.source.name(), tensor.path.display()));
                return Err(Failure::usage(format_args!(
                    "two tensors would be named `{}`: {one} and {two}",
                    tensor.name
                )));
            }
        }
        let bytes = tensors.iter().fold(0_u64, |sum, tensor| sum.saturating_add(tensor.source.payload_bytes()));
        Ok(Self { tensors, progress: Progress::bytes(bytes).into(), failure: RefCell::default() })
    }

    pub fn tensors(&self) -> &[Planned<'f>] {
        &self.tensors
    }

    /// Calls the tensors by their positions.
    pub fn drop_names(&mut self) {
        for (at, tensor) in self.tensors.iter_mut().enumerate() {
            tensor.name = at.to_string();
        }
    }

    /// Says which file an error of writing to `path` is about.
    pub fn blame<T>(&self, written: Result<T>, path: &Path) -> Outcome<T> {
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => written.at(path),
        }
    }
}

impl Collection for Made<'_> {
    fn len(&self) -> usize {
        self.tensors.len()
    }

    fn name(&self, at: usize) -> &str {
        &self.tensors[at].name
    }

    fn info(&self, at: usize) -> &TensorInfo {
        &self.tensors[at].info
    }

    fn pour(&self, at: usize, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let tensor = &self.tensors[at];
        let mut is_refused = false;
        let poured = tensor.pour(&mut |piece| {
            self.progress.borrow_mut().advance(piece.len());
            take(piece).inspect_err(|_| is_refused = true)
        });
        poured.map_err(|error| {
            if is_refused {
                return error;
            }
            let message = error.to_string();
            *self.failure.borrow_mut() = Err::<(), Error>(error).at(tensor.path).err();
            ErrorKind::Message(message).into()
        })
    }

    fn place(&self, at: usize) -> Option<u64> {
        // Tensors of several files may have one place by chance, which does no harm.
        let tensor = &self.tensors[at];
        Collection::place(tensor.file, tensor.source.position())
    }
}
