//! Destinations of a file, and the writer for formats whose bytes are all in the layout. Small writes are gathered: a
//! copy of up to 16 KiB takes less time than a system call.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, IoSlice, Write};

use super::{FileLayout, PlannedTensors};
use crate::error::Result;
use crate::model::TensorData;
use crate::tensor::checked_io::{self, check_written};
use crate::threads;

/// Writes the payloads of a file, and the bytes around them.
pub trait FileWriter<'w> {
    /// Writes the next tensor.
    fn tensor(&mut self, index: usize, data: &dyn TensorData) -> Result<()>;

    /// Returns whether all tensors must be sent again, because some came before their turn. Called after the last one.
    #[doc(hidden)]
    fn starts_over(&mut self) -> bool {
        false
    }

    /// Writes everything after the last payload.
    fn finish(self: Box<Self>) -> Result<Output<'w>>;
}

/// The destination of a file: memory, or a writer with gathered small writes.
///
/// ```
/// use tensorfile::format::{FileWriter, Output};
/// use tensorfile::model::TensorData;
/// use tensorfile::Result;
///
/// /// Writes payloads one after the other.
/// struct Packed<'w>(Output<'w>);
///
/// impl<'w> FileWriter<'w> for Packed<'w> {
///     fn tensor(&mut self, _: usize, data: &dyn TensorData) -> Result<()> {
///         Ok(data.write_to(&mut self.0)?)
///     }
///
///     fn finish(self: Box<Self>) -> Result<Output<'w>> {
///         Ok(self.0)
///     }
/// }
/// # Ok::<(), tensorfile::Error>(())
/// ```
pub struct Output<'w> {
    /// The file in memory, or the gathered bytes.
    buffer: Vec<u8>,
    to: Option<&'w mut dyn Write>,
    /// Writes of this size are passed on without a copy into the buffer.
    large: usize,
    hold: Hold,
}

/// The payloads to hold if they come before their turn. All others must be sent again.
#[derive(Clone, Copy)]
struct Hold {
    /// Payloads of fewer bytes are held.
    each: usize,
    /// The most bytes held.
    all: usize,
}

/// The size of the buffer for small writes.
const BUFFER: usize = 64 << 10;

/// The size from which a system call takes less time than a copy.
const LARGE: usize = 16 << 10;

/// Enough to send 100,000 small tensors once.
const HOLD: Hold = Hold { each: 16 << 20, all: 16 << 20 };

impl<'w> Output<'w> {
    /// Appends to a file in memory.
    pub(crate) fn memory(file: Vec<u8>) -> Self {
        Self { buffer: file, to: None, large: LARGE, hold: HOLD }
    }

    /// Passes on the writes of a file of `file_bytes` bytes.
    pub(crate) fn stream(to: &'w mut dyn Write, file_bytes: u64) -> Self {
        let capacity = usize::try_from(file_bytes).unwrap_or(BUFFER).min(BUFFER);
        Self { buffer: Vec::with_capacity(capacity), to: Some(to), large: LARGE, hold: HOLD }
    }

    /// Passes on the writes of a file. Writes of at least `large` bytes are not gathered.
    pub(super) fn pieces(to: &'w mut dyn Write, large: usize) -> Self {
        // A held payload is a copy, which a large piece must not be.
        Self { buffer: Vec::new(), to: Some(to), large, hold: Hold { each: large, ..HOLD } }
    }

    /// Holds all payloads that come before their turn, for tensors sent only once.
    pub(super) fn holding_all(self) -> Self {
        Self { hold: Hold { each: usize::MAX, all: usize::MAX }, ..self }
    }

    /// Flushes the writer. Returns the file in memory.
    pub(super) fn finish(mut self) -> io::Result<Vec<u8>> {
        self.flush()?;
        Ok(self.buffer)
    }

    /// Writes the gathered bytes.
    fn drain(&mut self) -> io::Result<()> {
        if let Some(to) = &mut self.to {
            checked_io::write_all(*to, &self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }

    /// Writes zeros.
    fn pad(&mut self, len: u64) -> io::Result<()> {
        const ZEROS: [u8; 128] = [0; 128];
        let mut left = len;
        while left > 0 {
            let now = usize::try_from(left).unwrap_or(usize::MAX).min(ZEROS.len());
            self.write_all(&ZEROS[..now])?;
            left -= now as u64;
        }
        Ok(())
    }
}

impl Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(to) = &mut self.to
            && (bytes.len() >= self.large || self.buffer.len() + bytes.len() > BUFFER)
        {
            if bytes.len() >= self.large {
                // One call for both, if the writer takes several slices at once.
                let mut slices = [&self.buffer, bytes].map(IoSlice::new);
                let first = usize::from(self.buffer.is_empty());
                write_slices(&mut slices[first..], *to)?;
                self.buffer.clear();
                return Ok(());
            }
            checked_io::write_all(*to, &self.buffer)?;
            self.buffer.clear();
        }
        threads::extend(&mut self.buffer, bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.drain()?;
        self.to.as_mut().map_or(Ok(()), |to| to.flush())
    }
}

impl fmt::Debug for Output<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output").field("buffered", &self.buffer.len()).finish_non_exhaustive()
    }
}

/// Writes a file whose layout holds all bytes except payloads.
pub(super) struct LayoutWriter<'w> {
    tensors: &'w PlannedTensors,
    layout: &'w FileLayout,
    out: Output<'w>,
    /// The number of bytes written.
    position: u64,
    /// The place in the file of the next tensor to write.
    next: usize,
    /// Tensors before this place are held if they come before their turn.
    held_to: usize,
    /// The held payloads, by place.
    held: BTreeMap<usize, Vec<u8>>,
}

impl<'w> LayoutWriter<'w> {
    pub(super) fn new(tensors: &'w PlannedTensors, layout: &'w FileLayout, out: Output<'w>) -> Self {
        let mut writer = Self { tensors, layout, out, position: 0, next: 0, held_to: 0, held: BTreeMap::new() };
        if layout.is_reordered() {
            writer.choose_held();
        }
        writer
    }

    fn begin(&mut self) -> io::Result<()> {
        let begin = &self.layout.begin;
        self.position += begin.len() as u64;
        self.out.write_all(begin)
    }

    /// Returns whether it is the turn of a tensor. Other tensors are put in their place in memory, held, or left for
    /// the next time.
    fn is_turn(&mut self, index: usize, data: &dyn TensorData) -> io::Result<bool> {
        let place = self.layout.place_of(index);
        if self.out.to.is_none() {
            return self.place(index, data).map(|()| false);
        }
        if place > self.next && place < self.held_to {
            let mut bytes = Vec::new();
            // A view can have far more elements than there is memory.
            bytes.try_reserve_exact(self.tensors.payload_bytes(index)).map_err(|_| io::ErrorKind::OutOfMemory)?;
            data.write_to(&mut bytes)?;
            self.held.insert(place, bytes);
        }
        Ok(place == self.next)
    }

    /// Writes a tensor to its place in a file in memory, which is filled with zeros up to there.
    fn place(&mut self, index: usize, data: &dyn TensorData) -> io::Result<()> {
        if self.next == 0 {
            self.begin()?;
        }
        let start = usize::try_from(self.layout.payload(index)).expect("there is memory for the file");
        let end = start + self.tensors.payload_bytes(index);
        let file = &mut self.out.buffer;
        if file.len() < end {
            file.resize(end, 0);
        }
        data.write_to(&mut &mut file[start..end])?;
        self.position = file.len() as u64;
        self.next += 1;
        Ok(())
    }

    /// Chooses the tensors to hold: the first ones after the next, as many as fit.
    fn choose_held(&mut self) {
        let (tensors, layout, Hold { each, mut all }) = (self.tensors, self.layout, self.out.hold);
        let fits = |place: &usize| {
            let bytes = tensors.payload_bytes(layout.tensor_at(*place));
            bytes < each && all.checked_sub(bytes).map(|left| all = left).is_some()
        };
        let first = self.next + 1;
        self.held_to = first + (first..tensors.len()).take_while(fits).count();
    }
}

impl<'w> FileWriter<'w> for LayoutWriter<'w> {
    fn tensor(&mut self, index: usize, data: &dyn TensorData) -> Result<()> {
        if self.layout.is_reordered() && !self.is_turn(index, data)? {
            return Ok(());
        }
        if self.next == 0 {
            self.begin()?;
        }
        let (header, offset) = (self.layout.header(index), self.layout.payload(index));
        self.out.pad(offset - header.len() as u64 - self.position)?;
        self.out.write_all(header)?;
        match data.as_bytes() {
            Some(bytes) => self.out.write_all(bytes)?,
            None if self.out.to.is_some() => data.copy_to(&mut self.out)?,
            None => data.write_to(&mut self.out)?,
        }
        self.position = offset + self.tensors.payload_bytes(index) as u64;
        self.next += 1;
        // In a sorted file there are no headers and no gaps.
        while let Some(bytes) = self.held.remove(&self.next) {
            self.out.write_all(&bytes)?;
            self.position += bytes.len() as u64;
            self.next += 1;
        }
        Ok(())
    }

    fn starts_over(&mut self) -> bool {
        let starts_over = self.layout.is_reordered() && self.next < self.tensors.len();
        if starts_over {
            self.choose_held();
        }
        starts_over
    }

    fn finish(mut self: Box<Self>) -> Result<Output<'w>> {
        if self.tensors.is_empty() {
            self.begin()?;
        }
        let layout = self.layout;
        self.out.pad(layout.end_offset - self.position)?;
        self.out.write_all(&layout.end)?;
        Ok(self.out)
    }
}

/// Writes non-empty slices with as few calls as possible.
pub(crate) fn write_slices(mut slices: &mut [IoSlice<'_>], writer: &mut dyn Write) -> io::Result<()> {
    /// The most slices of one call, which is the limit of Linux.
    const AT_ONCE: usize = 1024;

    while !slices.is_empty() {
        match writer.write_vectored(&slices[..slices.len().min(AT_ONCE)]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                let given = slices.iter().take(AT_ONCE).map(|slice| slice.len()).fold(0, usize::saturating_add);
                IoSlice::advance_slices(&mut slices, check_written(written, given)?);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
