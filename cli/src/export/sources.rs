//! Tensors that a format can store, and with a progress bar.

use std::cell::RefCell;
use std::io::{self, Write};
use std::ops::Range;

use tensorfile::model::{TensorData, TensorRecord, TensorSink};
use tensorfile::view::forward;
use tensorfile::{Format, Result, Tensors};

use crate::output::Progress;

/// The tensors that `format` has a place for. Others are blobs, or have an unknown dtype.
#[derive(Clone, Copy)]
pub struct Storable<'t> {
    pub tensors: &'t dyn Tensors,
    pub format: &'static Format,
}

impl Tensors for Storable<'_> {
    fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
        self.tensors.send(&mut forward(sink, &mut |tensor, next| {
            if self.format.stores_opaque(&tensor.info.layout) { next.tensor(tensor) } else { Ok(()) }
        }))
    }
}

/// Tensors with a progress bar for writing.
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
        self.tensors.send(&mut forward(sink, &mut |tensor, next| {
            let data = WatchedData { progress: &self.progress, data: tensor.data };
            next.tensor(&TensorRecord { data: &data, ..*tensor })
        }))
    }
}

struct WatchedData<'a> {
    progress: &'a RefCell<Progress>,
    data: &'a dyn TensorData,
}

impl TensorData for WatchedData<'_> {
    fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut advance = |bytes| self.progress.borrow_mut().advance(bytes);
        self.data.write_to(&mut Advancing { out, advance: &mut advance })
    }

    fn copy_to(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut advance = |bytes| self.progress.borrow_mut().advance(bytes);
        self.data.copy_to(&mut Advancing { out, advance: &mut advance })
    }

    fn copy_range_to(&self, range: Range<u64>, out: &mut dyn Write) -> io::Result<()> {
        let mut advance = |bytes| self.progress.borrow_mut().advance(bytes);
        self.data.copy_range_to(range, &mut Advancing { out, advance: &mut advance })
    }

    fn storage_id(&self) -> Option<u64> {
        self.data.storage_id()
    }
}

/// A writer that advances a progress bar.
pub struct Advancing<'a> {
    pub out: &'a mut dyn Write,
    pub advance: &'a mut dyn FnMut(usize),
}

impl Write for Advancing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        /// The number of bytes between two looks at the clock.
        const PIECE: usize = 8 << 20;
        let written = self.out.write(&bytes[..bytes.len().min(PIECE)])?;
        (self.advance)(written);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
