//! Reads arbitrary bytes as a stream with short and interrupted reads, which may fail.

use std::io::{Error, ErrorKind, Read};

use ndarray::Array2;
use serde::Deserialize;
use serde::de::IgnoredAny;
use tensorfile::model::{FieldAttrs, FromTensors, TensorRecord, TensorSink};
use tensorfile::{Category, FORMATS, Format, Result, Tensor, TensorFile, TensorInfo, Tensors, ten};

use crate::budget::{bounded, bounded_stream, limits};
use crate::input::Input;
use crate::model::{Maps, Model, Plain, Positions};
use crate::read::{check_tensor, is_ambiguous, read_map};
use crate::rows::{choose, of_reader, of_slice};
use crate::samples;

/// A reader that returns a few bytes at a time, with interruptions.
struct Unsteady<'a> {
    bytes: &'a [u8],
    sizes: [u8; 3],
    reads: usize,
    /// The number of bytes after which reading fails.
    fails_after: Option<usize>,
}

impl Read for Unsteady<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        assert!(!buffer.is_empty(), "a read of nothing looks like the end");
        let size = usize::from(self.sizes[self.reads % self.sizes.len()]);
        self.reads += 1;
        match size {
            0 if self.reads.is_multiple_of(2) => return Err(ErrorKind::Interrupted.into()),
            _ => {}
        }
        let size = match size {
            255 => usize::MAX,
            size => size.max(1),
        };
        let now = size.min(buffer.len()).min(self.fails_after.unwrap_or(usize::MAX));
        if now == 0 {
            return Err(Error::other("the cable was pulled"));
        }
        let now = self.bytes.read(&mut buffer[..now])?;
        self.fails_after = self.fails_after.map(|left| left - now);
        Ok(now)
    }
}

pub fn run(input: &[u8]) {
    let mut input = Input(input);
    let Some(format) = choose(&mut input) else { return };
    let sizes = [input.byte(), input.byte(), input.byte()];
    let (bits, place) = (input.byte(), usize::from(input.byte()));
    let file = input.0;
    let stream = |fails_after| Unsteady { bytes: file, sizes, reads: 0, fails_after };

    let slice = bounded("a slice", file.len(), || read_map(of_slice(format, file)));
    let whole = bounded_stream("a stream", file.len(), || read_map(of_reader(format, file, file.len())));
    let pieces =
        bounded_stream("a stream in pieces", file.len(), || read_map(of_reader(format, stream(None), file.len())));
    if !is_limit(&slice) && !has_unknown_end(&pieces) {
        assert_eq!(slice.as_ref().ok(), pieces.as_ref().ok(), "{}: {slice:?}, but in pieces {pieces:?}", format.name);
    }
    let message = |result: &Result<_>| result.as_ref().map(drop).map_err(ToString::to_string);
    assert_eq!(message(&whole), message(&pieces), "{}: whole, and in pieces", format.name);
    if let Err(error) = &pieces {
        let is_unknown = matches!(error.kind(), tensorfile::ErrorKind::Unsupported { .. });
        let is_of_file = matches!(error.category(), Category::File | Category::Limit);
        assert!(is_of_file || is_unknown || is_ambiguous(error), "{error:?}");
    }

    // The place is a part of the file, so that long files break off everywhere.
    let fails_after = (file.len() + 1) * place / 256;
    let broken = bounded_stream("a broken stream", file.len(), || {
        read_map(of_reader(format, stream(Some(fails_after)), file.len()))
    });
    if let Ok(broken) = &broken
        && !is_limit(&slice)
    {
        assert_eq!(Some(broken), slice.as_ref().ok(), "{}: broken off after {fails_after}", format.name);
    }

    match bits % 4 {
        0 => load::<Model>(format, file, &stream),
        1 => load::<Positions>(format, file, &stream),
        2 => load::<Vec<Tensor>>(format, file, &stream),
        _ => {
            deserialize::<Maps>(format, file, &stream);
            deserialize::<Plain>(format, file, &stream);
            deserialize::<serde_json::Value>(format, file, &stream);
            let read = bounded_stream("nothing", file.len(), || {
                IgnoredAny::deserialize(&mut of_reader(format, stream(None), file.len()))
                    .map_err(|error| error.to_string())
            });
            drop(read);
        }
    }
    if format.name == ten::FORMAT.name {
        decode(stream(None), bits, file.len());
        decode(stream(Some(fails_after)), bits, file.len());
    }
}

/// Returns whether a file exceeds a limit. Some limits apply only if the length is known, others only to streams.
fn is_limit<T>(result: &Result<T>) -> bool {
    result.as_ref().is_err_and(|error| error.category() == Category::Limit)
}

/// Returns whether the last tensor has an unknown dtype and ends with the file. A stream does not know where that is.
fn has_unknown_end<T>(pieces: &Result<T>) -> bool {
    pieces.as_ref().is_err_and(|error| matches!(error.kind(), tensorfile::ErrorKind::UnknownDtype { .. }))
}

/// Loads a type from a stream, and from a slice.
fn load<'a, T>(format: &Format, file: &'a [u8], stream: &dyn Fn(Option<usize>) -> Unsteady<'a>)
where
    T: for<'de> FromTensors<'de> + std::fmt::Debug,
{
    let load = |mut deserializer: tensorfile::format::Deserializer<'a>| {
        let value = T::load(&mut deserializer, &FieldAttrs::NONE)?;
        deserializer.end().map(|()| value)
    };
    let slice = load(of_slice(format, file));
    let pieces =
        bounded_stream("a type from a stream", file.len(), || load(of_reader(format, stream(None), file.len())));
    let same = match (&slice, &pieces) {
        (Ok(slice), Ok(pieces)) => Bytes::of(slice) == Bytes::of(pieces),
        (slice, pieces) => is_limit(slice) || has_unknown_end(pieces) || slice.is_err() && pieces.is_err(),
    };
    assert!(same, "{}: {slice:?}, but from a stream {pieces:?}", format.name);
}

/// Tensors compared by their bytes, because NaN does not equal itself.
#[derive(Default, PartialEq)]
struct Bytes(Vec<(String, TensorInfo, Vec<u8>)>);

impl Bytes {
    fn of(tensors: &dyn Tensors) -> Self {
        let mut bytes = Self::default();
        tensors.send(&mut bytes).unwrap();
        bytes
    }
}

impl TensorSink for Bytes {
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        let mut bytes = Vec::new();
        tensor.data.write_to(&mut bytes)?;
        self.0.push((tensor.name.to_owned(), tensor.info.clone(), bytes));
        Ok(())
    }
}

/// Deserializes a plain type from a stream, and from a slice.
fn deserialize<'a, T>(format: &Format, file: &'a [u8], stream: &dyn Fn(Option<usize>) -> Unsteady<'a>)
where
    T: for<'de> Deserialize<'de> + std::fmt::Debug,
{
    let deserialize = |mut deserializer: tensorfile::format::Deserializer<'a>| {
        let value = T::deserialize(&mut deserializer)?;
        deserializer.end().map(|()| value)
    };
    let slice = deserialize(of_slice(format, file));
    let pieces = bounded_stream("a plain type from a stream", file.len(), || {
        deserialize(of_reader(format, stream(None), file.len()))
    });
    // Numbers may be NaN.
    let debug = |result: &Result<T>| result.as_ref().ok().map(|value| format!("{value:?}"));
    assert!(
        is_limit(&slice) || has_unknown_end(&pieces) || debug(&slice) == debug(&pieces),
        "{}: {slice:?}, but from a stream {pieces:?}",
        format.name
    );
}

/// A struct of two tensors of a stream.
#[derive(TensorFile)]
struct Pair {
    a: Tensor,
    b: Tensor,
}

/// Decodes the tensors of a stream one by one, and two at once.
fn decode(stream: Unsteady<'_>, bits: u8, len: usize) {
    bounded_stream("decoding", len, || {
        let mut decoder = ten::Decoder::with_limits(stream, limits(len));
        // A tensor has at least three blocks of bytes.
        for at in 0..len + 2 {
            // The stream goes on after a tensor that does not fit its type, and after one of unknown dtype.
            let is_of_tensor =
                |error: &tensorfile::Error| matches!(error.category(), Category::Mismatch | Category::Call);
            let goes_on = match (bits >> (at % 6 + 2)) & 1 {
                0 => match decoder.decode::<Tensor>() {
                    Ok(Some((_, tensor))) => {
                        check_tensor(&tensor);
                        true
                    }
                    Ok(None) => false,
                    Err(error) => is_of_tensor(&error),
                },
                _ if at % 3 == 0 => decoder.skip_tensor().unwrap_or(false),
                _ if at % 3 == 1 => match decoder.decode::<Pair>() {
                    Ok(found) => found.is_some(),
                    Err(error) => is_of_tensor(&error),
                },
                _ => match decoder.decode::<Array2<f32>>() {
                    Ok(found) => found.is_some(),
                    Err(error) => is_of_tensor(&error),
                },
            };
            if !goes_on {
                let end = decoder.peek().ok().flatten();
                assert!(end.is_none(), "a tensor after the end: {end:?}");
                return;
            }
        }
        panic!("more tensors than bytes");
    });
}

/// Files of all formats, in pieces.
pub fn seeds() -> Vec<Vec<u8>> {
    let sizes = [[1, 2, 3], [0, 7, 255], [64, 1, 0]];
    let mut seeds = Vec::new();
    for format in FORMATS {
        for (at, file) in samples::files_of(format).into_iter().enumerate() {
            let [a, b, c] = sizes[at % sizes.len()];
            let head = [crate::rows::number(format), a, b, c, at as u8, (at * 37) as u8];
            seeds.push([&head[..], &file].concat());
        }
    }
    seeds
}
