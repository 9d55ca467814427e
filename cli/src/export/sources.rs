//! The tensors of a file, of several files, and with a progress bar.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;

use tensorfile::view::Subset;
use tensorfile::{File, Format, Layout, Result, TensorData, TensorInfo, TensorRecord, TensorSink, Tensors};

use super::list;
use crate::exit::{At, Failure, Outcome};
use crate::output::Progress;

/// The tensors of an open file. Errors of reading them name the file, although they pass through the writer of another.
pub struct Source<'f> {
    file: &'f File,
    path: &'f Path,
}

impl<'f> Source<'f> {
    pub fn new(file: &'f File, path: &'f Path) -> Self {
        Self { file, path }
    }

    pub fn path(&self) -> &'f Path {
        self.path
    }

    /// Returns some of the tensors, by their positions.
    pub fn group(&self, tensors: Vec<usize>) -> TensorGroup<'f> {
        TensorGroup { file: self.file, path: self.path, tensors }
    }
}

/// Some tensors of an open file. Sending them takes as long as there are of them, however many the file has.
pub struct TensorGroup<'f> {
    file: &'f File,
    path: &'f Path,
    tensors: Vec<usize>,
}

impl Tensors for TensorGroup<'_> {
    fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
        let sink = &mut SourceSink { path: self.path, sink };
        for tensor in self.tensors.iter().filter_map(|at| self.file.nth(*at)) {
            sink.tensor(&TensorRecord { name: tensor.name(), info: tensor.info(), data: &tensor, tied: None })?;
        }
        Ok(())
    }
}

impl Tensors for Source<'_> {
    fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
        self.file.send(&mut SourceSink { path: self.path, sink })
    }
}

/// Returns whether a format stores a tensor, as far as an unknown dtype is concerned.
pub fn is_storable(info: &TensorInfo, format: &Format) -> bool {
    match &info.layout {
        Layout::Unknown(dtype) => format.stores_unknown(dtype),
        _ => true,
    }
}

/// Tensors without those of unknown dtypes that a format cannot store.
pub struct Storable<'t> {
    pub tensors: &'t dyn Tensors,
    pub format: &'static Format,
}

impl Tensors for Storable<'_> {
    fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
        self.tensors.send(&mut StorableSink { format: self.format, sink })
    }
}

struct StorableSink<'a> {
    format: &'static Format,
    sink: &'a mut dyn TensorSink,
}

impl TensorSink for StorableSink<'_> {
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        if is_storable(tensor.info, self.format) { self.sink.tensor(tensor) } else { Ok(()) }
    }
}

struct SourceSink<'a> {
    path: &'a Path,
    sink: &'a mut dyn TensorSink,
}

impl TensorSink for SourceSink<'_> {
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        let data = SourceData { path: self.path, data: tensor.data };
        self.sink.tensor(&TensorRecord { data: &data, ..*tensor })
    }
}

struct SourceData<'a> {
    path: &'a Path,
    data: &'a dyn TensorData,
}

impl TensorData for SourceData<'_> {
    fn as_bytes(&self) -> Option<&[u8]> {
        self.data.as_bytes()
    }

    fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut nothing = |_| ();
        let mut out = Tracked::new(out, &mut nothing);
        let written = self.data.write_to(&mut out);
        match out.failed {
            true => written,
            false => written.at(self.path).map_err(io::Error::other),
        }
    }

    fn storage_id(&self) -> Option<u64> {
        self.data.storage_id()
    }
}

/// A writer that remembers whether it failed, and reports its progress.
pub struct Tracked<'a> {
    out: &'a mut dyn Write,
    failed: bool,
    advance: &'a mut dyn FnMut(usize),
}

impl<'a> Tracked<'a> {
    pub fn new(out: &'a mut dyn Write, advance: &'a mut dyn FnMut(usize)) -> Self {
        Self { out, failed: false, advance }
    }
}

impl Write for Tracked<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        /// The number of bytes between two looks at the clock.
        const PIECE: usize = 8 << 20;
        let written = self.out.write(&bytes[..bytes.len().min(PIECE)]).inspect_err(|_| self.failed = true)?;
        (self.advance)(written);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush().inspect_err(|_| self.failed = true)
    }
}

/// The tensors of several collections, one collection after the other.
pub struct Joined<'t> {
    parts: Vec<&'t dyn Tensors>,
    tensors: HashMap<String, Place>,
    /// Ids of storage, by the part and the id in it.
    storage: RefCell<HashMap<(usize, u64), u64>>,
}

/// The first part that has a tensor, which decides its position, and the last one, which provides the tensor.
struct Place {
    first: usize,
    last: usize,
}

/// The treatment of tensors that have the same name in several parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplicates {
    /// An error, whose message ends with a hint.
    Refuse { hint: &'static str },
    /// The tensor of the last part replaces the others, in the place of the first.
    Replace,
}

impl<'t> Joined<'t> {
    /// Joins collections, each with the path of its file.
    pub fn new(parts: &[(&'t dyn Tensors, &Path)], duplicates: Duplicates) -> Outcome<Self> {
        let mut tensors: HashMap<String, Place> = HashMap::new();
        for (at, (part, path)) in parts.iter().enumerate() {
            for (name, _) in list(*part)? {
                let Some(place) = tensors.get_mut(&name) else {
                    tensors.insert(name, Place { first: at, last: at });
                    continue;
                };
                // Names that are repeated in one part, as in some streams, are left to the writer.
                if let Duplicates::Refuse { hint } = duplicates
                    && place.last != at
                {
                    let (one, two) = (parts[place.last].1.display(), path.display());
                    return Err(Failure::usage(format_args!("both {one} and {two} have a tensor `{name}`{hint}")));
                }
                place.last = at;
            }
        }
        let parts = parts.iter().map(|(part, _)| *part).collect();
        Ok(Self { parts, tensors, storage: RefCell::default() })
    }
}

impl Tensors for Joined<'_> {
    fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
        (0..self.parts.len())
            .try_for_each(|part| self.parts[part].send(&mut JoinedSink { joined: self, part, replaces: false, sink }))
    }
}

struct JoinedSink<'a, 't> {
    joined: &'a Joined<'t>,
    part: usize,
    /// Set while a tensor is sent in the place of one that it replaces.
    replaces: bool,
    sink: &'a mut dyn TensorSink,
}

impl TensorSink for JoinedSink<'_, '_> {
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        let Self { joined, part, replaces, .. } = *self;
        let Some(&Place { first, last }) = joined.tensors.get(tensor.name) else { return Ok(()) };
        if part == last && (part == first || replaces) {
            let data = JoinedData { joined, part, data: tensor.data };
            return self.sink.tensor(&TensorRecord { data: &data, ..*tensor });
        }
        if part == first {
            let replacement = Subset::of_names(joined.parts[last], [tensor.name]);
            return replacement.send(&mut JoinedSink { joined, part: last, replaces: true, sink: self.sink });
        }
        Ok(())
    }
}

struct JoinedData<'a, 't> {
    joined: &'a Joined<'t>,
    part: usize,
    data: &'a dyn TensorData,
}

impl TensorData for JoinedData<'_, '_> {
    fn as_bytes(&self) -> Option<&[u8]> {
        self.data.as_bytes()
    }

    fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        self.data.write_to(out)
    }

    fn storage_id(&self) -> Option<u64> {
        let key = (self.part, self.data.storage_id()?);
        let mut storage = self.joined.storage.borrow_mut();
        let next = storage.len() as u64;
        Some(*storage.entry(key).or_insert(next))
    }
}

/// Tensors whose writing advances a progress bar.
pub struct Watched<'a> {
    tensors: &'a dyn Tensors,
    progress: RefCell<Progress>,
}

impl<'a> Watched<'a> {
    /// Watches tensors with `bytes` bytes of payload.
    pub fn new(tensors: &'a dyn Tensors, bytes: u64) -> Self {
        Self { tensors, progress: Progress::bytes(bytes).into() }
    }
}

impl Tensors for Watched<'_> {
    fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
        self.tensors.send(&mut WatchedSink { progress: &self.progress, sink })
    }
}

struct WatchedSink<'a> {
    progress: &'a RefCell<Progress>,
    sink: &'a mut dyn TensorSink,
}

impl TensorSink for WatchedSink<'_> {
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        let data = WatchedData { progress: self.progress, data: tensor.data };
        self.sink.tensor(&TensorRecord { data: &data, ..*tensor })
    }
}

struct WatchedData<'a> {
    progress: &'a RefCell<Progress>,
    data: &'a dyn TensorData,
}

impl TensorData for WatchedData<'_> {
    fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut advance = |bytes| self.progress.borrow_mut().advance(bytes);
        self.data.write_to(&mut Tracked::new(out, &mut advance))
    }

    fn storage_id(&self) -> Option<u64> {
        self.data.storage_id()
    }
}
