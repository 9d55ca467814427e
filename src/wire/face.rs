//! The functions that every format has, written once.

use std::io::{BufWriter, Read, Write};

use serde::{Deserialize, Serialize};

use super::{Encode, Entry, Index, Plan, Reader, Walk};
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::model::{Deserializer, Serializer, TensorSource};
use crate::source::{Ranges, Slice, Storage, Stream};

/// The most that small writes are gathered to; larger payloads are written as they are.
const BUFFER: usize = 64 * 1024;

pub(crate) fn plan<T: Serialize + ?Sized, E: Encode>(value: &T, encode: E) -> Result<Plan<E>> {
    Plan::of(value, encode).map_err(|error| error.in_format(E::FORMAT))
}

/// The tensors of a value, each of which can be stored.
#[cfg(feature = "shards")]
pub(crate) fn outline<T: Serialize + ?Sized, E: Encode>(value: &T, encode: E) -> Result<Vec<super::Outline>> {
    let plan = Plan::without_layout("", value, encode).map_err(|error| error.in_format(E::FORMAT))?;
    Ok(plan.outline())
}

pub(crate) fn to_vec<T: Serialize + ?Sized, E: Encode>(value: &T, encode: E) -> Result<Vec<u8>> {
    let plan = plan(value, encode)?;
    let mut file = Vec::new();
    // A view can be of far more elements than there is memory, so the attempt may fail.
    usize::try_from(plan.file_bytes())
        .ok()
        .and_then(|len| file.try_reserve_exact(len).ok())
        .ok_or_else(|| Error::from(std::io::Error::from(std::io::ErrorKind::OutOfMemory)).in_format(E::FORMAT))?;
    let mut file = write(value, file, plan)?;
    // Where it is packed it is shorter than planned.
    file.shrink_to_fit();
    Ok(file)
}

pub(crate) fn to_writer<T: Serialize + ?Sized, E: Encode>(writer: impl Write, value: &T, encode: E) -> Result<()> {
    let plan = plan(value, encode)?;
    write(value, BufWriter::with_capacity(BUFFER, writer), plan).map(drop)
}

fn write<T: Serialize + ?Sized, W: Write, E: Encode>(value: &T, writer: W, plan: Plan<E>) -> Result<W> {
    let mut serializer = Serializer::new(writer, plan);
    value.serialize(&mut serializer).map_err(|error| error.in_format(E::FORMAT))?;
    serializer.end()
}

pub(crate) fn from_slice<'de, T: Deserialize<'de>, W: Walk>(file: &'de [u8], walk: W, limits: Limits) -> Result<T> {
    let mut reader = Reader::new(Slice::new(file), walk, limits);
    // The whole index is checked before the first value is made.
    reader.drain().map_err(|error| error.in_format(W::FORMAT))?;
    read(reader)
}

pub(crate) fn from_reader<T: for<'de> Deserialize<'de>, W: Walk>(
    reader: impl Read,
    walk: W,
    limits: Limits,
) -> Result<T> {
    read(Reader::new(Stream::new(reader), walk, limits))
}

/// The index of an opened file.
pub(crate) fn index<W: Walk>(storage: &Storage, walk: W, limits: Limits) -> Result<Index> {
    Reader::new(Ranges::new(storage), walk, limits).into_index().map_err(|error| error.in_format(W::FORMAT))
}

/// Passes a payload of an opened file to `take` in pieces.
pub(crate) fn pour(storage: &Storage, entry: &Entry, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    #[cfg(feature = "npy")]
    if let Some(coding) = entry.coding() {
        let mut source = Ranges::new(storage);
        let range = super::RangeReader::new(&mut source, entry.range());
        let mut decoder = super::Decoder::new(range, coding, entry.payload_bytes());
        while let Some(piece) = decoder.piece()? {
            take(piece)?;
        }
        return Ok(());
    }
    storage.pour(entry.range().start, entry.payload_bytes(), take)
}

/// A deserializer over a file in memory.
pub(crate) fn slice_deserializer<W: Walk>(
    file: &[u8],
    walk: W,
    limits: Limits,
) -> Deserializer<Reader<'_, Slice<'_>, W>> {
    Deserializer::over(Reader::new(Slice::new(file), walk, limits))
}

/// A deserializer over a stream.
pub(crate) fn stream_deserializer<'de, R: Read, W: Walk>(
    reader: R,
    walk: W,
    limits: Limits,
) -> Deserializer<Reader<'de, Stream<R>, W>> {
    Deserializer::over(Reader::new(Stream::new(reader), walk, limits))
}

fn read<'de, T, B, W>(reader: Reader<'de, B, W>) -> Result<T>
where
    T: Deserialize<'de>,
    B: crate::source::ByteSource<'de>,
    W: Walk,
{
    let mut deserializer = Deserializer::over(reader);
    let value = T::deserialize(&mut deserializer);
    let ended = value.and_then(|value| deserializer.end().map(|()| value));
    ended.map_err(|error| error.in_format(W::FORMAT))
}

impl<'de, W: Walk + Default> Deserializer<Reader<'de, Slice<'de>, W>> {
    /// A deserializer over a file in memory. Call [`end`](Self::end) after the value.
    #[must_use]
    pub fn from_slice(file: &'de [u8]) -> Self {
        slice_deserializer(file, W::default(), Limits::default())
    }
}

impl<'de, R: Read, W: Walk + Default> Deserializer<Reader<'de, Stream<R>, W>> {
    /// A deserializer over a stream. Call [`end`](Self::end) after the value.
    pub fn from_reader(reader: R) -> Self {
        stream_deserializer(reader, W::default(), Limits::default())
    }
}
