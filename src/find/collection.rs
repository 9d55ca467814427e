//! Loads values from tensors in memory: a map, another value, or a view.

use std::borrow::Cow;
use std::io::{self, Write};
use std::ops::Range;

use hashbrown::HashMap;
use indexmap::IndexMap;

use super::{Comparison, Finder, MetadataSource, compare};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::Limits;
use crate::model::{
    FieldAttrs, FromTensors, MetadataValue, Node, Schema, Source, TensorRecord, TensorSink, Tensors, is_index, put,
};
use crate::read::{Index, Reader, ReaderStorage};
use crate::storage::{ReadAt, Storage};
use crate::tensor::{Buffer, TensorMap};

impl dyn Tensors + '_ {
    /// Loads the tensors into a type, without a file in between. Each is copied once, into the memory of its array.
    ///
    /// ```
    /// use ndarray::{Array1, array};
    /// use tensorfile::{TensorFile, Tensors};
    ///
    /// #[derive(TensorFile)]
    /// struct Old {
    ///     gamma: Array1<f32>,
    /// }
    ///
    /// #[derive(TensorFile)]
    /// #[tensor(cast)]
    /// struct Norm {
    ///     #[tensor(alias = "gamma")]
    ///     scale: Array1<f64>,
    /// }
    ///
    /// let old = Old { gamma: array![0.5] };
    /// let tensors: &dyn Tensors = &old;
    /// assert_eq!(tensors.load::<Norm>()?.scale, array![0.5]);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Load`]: the tensors do not fit `T`. The error contains the report, with all differences.
    /// - By [`category`](Error::category): `Mismatch` if `T` cannot hold the numbers, and errors of reading the
    ///   tensors.
    pub fn load<T: for<'t> FromTensors<'t>>(&self) -> Result<T> {
        let mut value = None;
        load(self, T::NODE, &mut |source| put(&mut value, source, &FieldAttrs::NONE))?;
        Ok(value.expect("the value was loaded"))
    }
}

impl TensorMap {
    /// Loads the tensors into a type by copying them.
    ///
    /// ```
    /// use ndarray::{Array1, array};
    /// use tensorfile::{TensorFile, TensorMap};
    ///
    /// #[derive(TensorFile)]
    /// struct Norm {
    ///     scale: Array1<f32>,
    /// }
    ///
    /// let norm: Norm = TensorMap::from_iter([("scale", array![0.5_f32])]).load()?;
    /// assert_eq!(norm.scale, array![0.5]);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Load`] if the tensors do not fit `T`, with all differences. [`ErrorKind::Cast`] if `T` cannot hold
    /// a number.
    pub fn load<T: for<'t> FromTensors<'t>>(&self) -> Result<T> {
        (self as &dyn Tensors).load()
    }
}

/// Sends the tensors twice: their headers are compared with the type before a payload is held.
fn load(
    tensors: &dyn Tensors,
    node: Node,
    load: &mut dyn FnMut(&mut (dyn Source<'_> + '_)) -> Result<()>,
) -> Result<()> {
    let mut headers = CollectionHeaders::default();
    tensors.send(&mut headers)?;
    let CollectionHeaders { mut index, end, metadata } = headers;
    index.complete().map_err(Error::without_offset)?;
    let metadata = MetadataSource::Read(Box::new(metadata));
    let Comparison { report, taken, .. } = compare(&Schema::new(node), &index, metadata.clone());
    if !report.is_ok() {
        return Err(ErrorKind::Load(Box::new(report)).into());
    }
    let mut payloads = Payloads { index: &index, taken, next: 0, held: HashMap::new() };
    tensors.send(&mut payloads)?;
    if payloads.next < index.len() {
        return Err(changed(index.name(payloads.next)));
    }
    let held = HeldPayloads { held: payloads.held, end };
    let storage = ReaderStorage::Boxed(Box::new(held));
    let reader = Reader::with_index(storage, Cow::Owned(index), Limits::default());
    let mut finder = Finder::over(reader, "", metadata);
    let loaded = finder.load_with(node, &mut |source| load(source)).and_then(|()| finder.end());
    loaded.map_err(Error::without_offset)
}

#[cold]
fn changed(name: &str) -> Error {
    ErrorKind::Message(format!("the tensors changed while they were loaded: `{name}` was sent otherwise before")).into()
}

/// Adds the headers of tensors to an index, as if their payloads followed one another in a file.
#[derive(Default)]
struct CollectionHeaders {
    index: Index,
    end: u64,
    metadata: IndexMap<String, String>,
}

impl TensorSink for CollectionHeaders {
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        let len = tensor.info.payload_bytes().map_or(u64::MAX, |bytes| bytes as u64);
        let range = self.end..self.end.saturating_add(len);
        self.end = range.end;
        // As in a file, a name equal to the position is not a name.
        let is_position = is_index(tensor.name) && tensor.name.parse() == Ok(self.index.pushed());
        let name = (!is_position).then_some(tensor.name);
        self.index.push(name, tensor.info.clone(), range).map_err(Error::without_offset)
    }

    fn metadata(&mut self, key: &str, value: &MetadataValue) -> Result<()> {
        self.metadata.insert(key.to_owned(), value.to_string());
        Ok(())
    }
}

/// Holds the payloads for a type.
struct Payloads<'a> {
    index: &'a Index,
    taken: Vec<bool>,
    next: usize,
    held: HashMap<Range<u64>, Buffer>,
}

impl TensorSink for Payloads<'_> {
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        let position = self.next;
        self.next += 1;
        if position >= self.index.len() || self.index.name(position) != tensor.name {
            return Err(changed(tensor.name));
        }
        let entry = self.index.entry(position);
        if entry.info() != tensor.info {
            return Err(changed(tensor.name));
        }
        if !self.taken[position] {
            return Ok(());
        }
        let expected = usize::try_from(entry.payload_bytes()).unwrap_or(usize::MAX);
        let mut buffer = Buffer::with_capacity(tensor.info.unit_bytes(), 0);
        buffer.reserve(expected)?;
        let mut payload = HeldPayload { buffer, expected };
        tensor.data.write_to(&mut payload).map_err(|error| Error::from(error).in_tensor(tensor.name))?;
        if payload.buffer.len() != expected {
            return Err(changed(tensor.name));
        }
        self.held.insert(entry.range(), payload.buffer);
        Ok(())
    }
}

struct HeldPayload {
    buffer: Buffer,
    expected: usize,
}

impl Write for HeldPayload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.expected - self.buffer.len() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the payload is longer than its header says"));
        }
        self.buffer.append(bytes, self.expected).map_err(Error::from)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Payloads to be taken over by arrays.
struct HeldPayloads {
    held: HashMap<Range<u64>, Buffer>,
    end: u64,
}

impl ReadAt for HeldPayloads {
    fn file_len(&self) -> Option<u64> {
        Some(self.end)
    }

    fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        if !bytes.is_empty() {
            bytes.copy_from_slice(self.chunk(offset..offset.saturating_add(bytes.len() as u64))?);
        }
        Ok(())
    }
}

impl Storage<'_> for HeldPayloads {
    fn take_held(&mut self, range: &Range<u64>) -> Result<Option<Buffer>> {
        Ok(self.held.remove(range))
    }

    fn chunk(&mut self, range: Range<u64>) -> Result<&[u8]> {
        let needed = range.end - range.start;
        self.held.get(&range).map(|held| &**held).ok_or_else(|| ErrorKind::Truncated { needed, left: 0 }.into())
    }
}
