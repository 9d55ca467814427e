//! Reads pipes: tensors are passed on as they come, without holding the file.

use std::cell::{Cell, RefCell};
use std::io::{self, Read, Write};
use std::path::Path;

use super::checkpoint::is_index_name;
use super::{File, OpenOptions};
use crate::error::{Category, Error, ErrorKind, Result};
use crate::format::{Format, detect, recognize_begin};
use crate::model::{TensorData, TensorRecord, TensorSink, Tensors, embedded_names};
use crate::read::{Reader, ReaderStorage};
use crate::storage::{FileStart, FileStorage, HeaderStream};
use crate::tensor::checked_io::CheckedReader;

/// The number of bytes to read before detecting the format of a stream.
const BEGIN: u64 = 8 << 10;

/// The most bytes of a stream that may be an index of shards.
const LONGEST_JSON: u64 = 1 << 27;

impl OpenOptions {
    /// Reads a file from start to end from a reader that cannot seek, such as a pipe. Each tensor is sent to `sink` as
    /// it arrives. Returns the index in the end.
    ///
    /// Memory holds the index and a chunk of up to 8 MiB. A sink can write each payload once, while it receives the
    /// tensor; payloads that it does not write are skipped. Elements cannot be read from the returned file.
    ///
    /// Tensors are sent before the rest of the file has been checked. Some files have names at their end, so the sink
    /// gets their tensors with positions as names.
    ///
    /// The reader need not be buffered.
    ///
    /// ```
    /// use tensorfile::model::{TensorRecord, TensorSink};
    /// use tensorfile::stats::Stats;
    /// use tensorfile::{OpenOptions, Result, TensorMap, safetensors};
    ///
    /// /// The means of tensors.
    /// struct Means(Vec<Option<f64>>);
    ///
    /// impl TensorSink for Means {
    ///     fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
    ///         let Some(mut stats) = Stats::from_info(tensor.info) else { return Ok(self.0.push(None)) };
    ///         tensor.data.write_to(&mut stats)?;
    ///         Ok(self.0.push(stats.mean()))
    ///     }
    /// }
    ///
    /// let map = TensorMap::from_iter([("a", ndarray::Array1::<f32>::ones(10_000)), ("b", ndarray::array![1.0, 2.0])]);
    /// let bytes = safetensors::to_vec(&map)?;
    /// let mut means = Means(Vec::new());
    /// let file = OpenOptions::new().read_in_order(&bytes[..], &mut means)?;
    /// assert_eq!(file.tensors().map(|tensor| tensor.name()).collect::<Vec<_>>(), ["a", "b"]);
    /// assert_eq!(means.0, [Some(1.0), Some(1.5)]);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - Errors of `sink` and of [`File::open`].
    /// - [`ErrorKind::Unsupported`]: the file cannot be read in order. This applies to `tensorbuffers`, `npz` and
    ///   `pytorch`, and to files with unordered tensors.
    /// - [`ErrorKind::UnknownDtype`]: the length of a tensor only follows from the end of the file. The sink gets no
    ///   tensor then.
    ///
    /// The length of the file is unknown until its end, so numbers too large for the file are compared with the
    /// [limits](Self::limits) instead. A file of less than 8 KiB is read whole, so its tensors may be in any order.
    pub fn read_in_order(&self, mut reader: impl Read, sink: &mut dyn TensorSink) -> Result<File> {
        if self.map.is_some() {
            let instead = "a map puts tensors together from several places; open the file".to_owned();
            return Err(
                ErrorKind::Unsupported { what: "map a stream that is read in order".to_owned(), instead }.into()
            );
        }
        self.send_in_order(&mut CheckedReader(&mut reader), sink)
    }

    /// Reads the index of a file as [`read_in_order`](Self::read_in_order) does, and passes over all payloads.
    ///
    /// ```
    /// use tensorfile::{OpenOptions, TensorMap, safetensors};
    ///
    /// let map = TensorMap::from_iter([("a", ndarray::Array1::<f32>::zeros(10_000)), ("b", ndarray::array![3.0])]);
    /// let bytes = safetensors::to_vec(&map)?;
    /// let file = OpenOptions::new().read_index(&bytes[..])?;
    /// assert_eq!((file.file_bytes(), file.get("a")?.info().to_string()), (bytes.len() as u64, "f32[10000]".to_owned()));
    /// assert!(file.tensor("a").is_err());
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`read_in_order`](Self::read_in_order).
    pub fn read_index(&self, mut reader: impl Read) -> Result<File> {
        struct PassOver;

        impl TensorSink for PassOver {
            fn tensor(&mut self, _: &TensorRecord<'_>) -> Result<()> {
                Ok(())
            }
        }

        self.send_in_order(&mut CheckedReader(&mut reader), &mut PassOver)
    }

    fn send_in_order(&self, mut reader: &mut dyn Read, sink: &mut dyn TensorSink) -> Result<File> {
        let mut begin = Vec::new();
        (&mut reader).take(BEGIN).read_to_end(&mut begin)?;
        if (begin.len() as u64) < BEGIN {
            let file = self.from_bytes(begin)?;
            self.check_payloads(&file)?;
            return file.send(sink).map(|()| file);
        }
        let format = self.format.map_or_else(|| detect(&mut FileStart(&begin), None), Ok)?;
        // The caller names this format, but the content may be of another one.
        let other = self.format.and_then(|_| recognize_begin(&begin, false));
        let is_in_header = Cell::new(true);
        let mut stream = HeaderStream::new(begin, reader, &is_in_header, embedded_names::LONGEST);
        let storage = ReaderStorage::Boxed(Box::new(&mut stream));
        let mut index = Reader::new(storage, &format.reading, self.limits.clone());
        let sent = self.send_tensors(&mut index, sink, &is_in_header);
        drop(index);
        match sent {
            // The error for a truncated file is more precise without the format that the bytes suggest.
            Err(error) if !matches!(error.kind(), ErrorKind::Truncated { .. }) => {
                return Err(or_other(error.in_format(format.name), other));
            }
            Err(_) => {}
            Ok(sent) => sent?,
        }
        // The index is read again like any file's, with the same checks, errors and warnings.
        let file = self.clone().format(format).read(FileStorage::Headers(stream.finish()?), None);
        let file = file.map_err(|error| or_other(error, other))?;
        self.finish(file)
    }

    /// Sends the tensors of a stream as they come. The inner error is an error of the sink.
    fn send_tensors(
        &self,
        reader: &mut Reader<'_>,
        sink: &mut dyn TensorSink,
        is_in_header: &Cell<bool>,
    ) -> Result<Result<()>> {
        while let Some(i) = reader.next_in_order()? {
            is_in_header.set(false);
            let (name, info) = (reader.name(i), reader.info(i).clone());
            let name = self.renames.rename(i, name).unwrap_or_else(|| name.to_owned());
            let data = NextTensor { reader: RefCell::new(&mut *reader), i, failure: Cell::default() };
            let sent = sink.tensor(&TensorRecord { name: &name, info: &info, data: &data, tied: None });
            if let Some(failure) = data.failure.take() {
                return Err(failure);
            }
            if sent.is_err() {
                return Ok(sent);
            }
        }
        Ok(Ok(()))
    }

    /// Reads a pipe or a device into memory. Its format is read in order if possible, so that malformed input fails
    /// early.
    pub(super) fn hold(&self, mut stream: impl Read, path: &Path) -> Result<FileStorage> {
        let mut begin = Vec::new();
        (&mut stream).take(BEGIN).read_to_end(&mut begin)?;
        let is_whole = (begin.len() as u64) < BEGIN;
        let is_json = self.may_be_index(&begin, path);
        let format = if is_whole || is_json { None } else { self.format_of_begin(&begin, path)? };
        let limit = self.limits.most_held().min(if is_json { LONGEST_JSON } else { u64::MAX });
        let mut held = HeldStream { stream: begin.chain(stream), bytes: Vec::new(), limit };
        if let Some(format) = format
            && let Err(error) = self.clone().format(format).read_index(&mut held)
            && !matches!(error.kind(), ErrorKind::Unsupported { .. } | ErrorKind::UnknownDtype { .. })
        {
            return Err(error);
        }
        let mut piece = vec![0; 64 << 10];
        while held.read(&mut piece)? > 0 {}
        Ok(FileStorage::Memory(Box::new(held.bytes)))
    }

    fn may_be_index(&self, begin: &[u8], path: &Path) -> bool {
        is_index_name(path) || self.format.is_none() && begins_with_json(begin)
    }

    /// Returns the format of a file that may be endless, from its first bytes. `None` if its format is only known at
    /// the end, or if it is an index of shards.
    pub(super) fn format_of_begin(&self, begin: &[u8], path: &Path) -> Result<Option<&'static Format>> {
        if self.format.is_some() || self.may_be_index(begin, path) {
            return Ok(self.format);
        }
        // A name alone decides nothing: it may link to an endless device.
        match detect(&mut FileStart(begin), None) {
            Err(error) if matches!(error.kind(), ErrorKind::UnknownFormat { .. } | ErrorKind::NotTensors { .. }) => {
                Err(error)
            }
            // The bytes that distinguish the formats can be at the end.
            _ => Ok(detect(&mut FileStart(begin), Some(path)).ok()),
        }
    }

    /// Checks the payload limit of a short stream that was read whole.
    fn check_payloads(&self, file: &File) -> Result<()> {
        let limit = self.limits.payload;
        let Some(tensor) = file.tensors().find(|tensor| tensor.payload_bytes() > limit) else { return Ok(()) };
        let (what, found) = ("payload in bytes", tensor.payload_bytes());
        let error = Error::new(ErrorKind::Limit { what, found, limit });
        Err(error.in_tensor(file.index.label(tensor.position())).in_format(file.format.name))
    }
}

/// Returns whether text begins like a JSON object, as an index of shards does.
fn begins_with_json(begin: &[u8]) -> bool {
    begin.trim_ascii_start().starts_with(b"{") && !begin.contains(&0)
}

/// A stream whose bytes are held as they are read, up to a limit.
struct HeldStream<R> {
    stream: R,
    bytes: Vec<u8>,
    limit: u64,
}

impl<R: Read> Read for HeldStream<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(bytes)?;
        let (found, limit) = ((self.bytes.len() + read) as u64, self.limit);
        if found > limit {
            let what = "the length of a stream that is held in memory";
            return Err(Error::from(ErrorKind::Limit { what, found, limit }).into());
        }
        self.bytes.try_reserve(read).map_err(|_| io::ErrorKind::OutOfMemory)?;
        self.bytes.extend_from_slice(&bytes[..read]);
        Ok(read)
    }
}

/// Returns the error that names the actual kind of a stream, if recognized. Otherwise adds that the stream cannot be
/// read in order.
fn or_other(error: Error, other: Option<Error>) -> Error {
    if error.category() == Category::Io { error } else { other.unwrap_or(error) }
}

/// The next tensor of a stream.
struct NextTensor<'a, 'de> {
    reader: RefCell<&'a mut Reader<'de>>,
    i: usize,
    /// The error of the stream, which ends reading even if the sink ignores it.
    failure: Cell<Option<Error>>,
}

impl TensorData for NextTensor<'_, '_> {
    fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        let reader = self.reader.try_borrow_mut().ok().filter(|reader| !reader.is_read(self.i));
        let Some(mut reader) = reader else {
            let what = "write the payload of a tensor of a stream twice".to_owned();
            return Err(Error::from(ErrorKind::Unsupported { what, instead: "it is gone".to_owned() }).into());
        };
        reader.write_next_to(self.i, out).unwrap_or_else(|failure| {
            let copy = io::Error::other(failure.to_string());
            self.failure.set(Some(failure));
            Err(copy)
        })
    }
}
