use std::io::{Read, Write};

use serde::Serialize;

use super::{Encode, Walk};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::Limits;
use crate::model::{Adapt, Deserializer, Serializer, Stored, TensorSource};
use crate::source::Stream;
use crate::tensor::{Tensor, TensorInfo};
use crate::wire::{Encode as _, Plan, Pour, Reader};
use crate::{FromTensors, TensorFile};

/// Writes tensors to a stream one at a time, as they come.
///
/// Nothing tells the reader how many there will be: the stream ends where it ends.
///
/// ```
/// use ndarray::array;
/// use tensorfile::ten;
///
/// let mut encoder = ten::Encoder::new(Vec::new());
/// encoder.encode("policy", &array![[1.0_f32, 2.0], [3.0, 4.0]])?;
/// encoder.encode("value", &0.5_f32)?;
/// let stream = encoder.into_inner();
/// assert_eq!(stream.len(), 2 * (16 + 64 + 16 + 64));
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug)]
pub struct Encoder<W> {
    writer: W,
}

impl<W: Write> Encoder<W> {
    /// An encoder over `writer`. Wrap a file or a socket in a [`BufWriter`](std::io::BufWriter) where tensors are
    /// small.
    pub fn new(writer: W) -> Self {
        Self { writer }
    }

    /// Writes one tensor under a name of up to 8 bytes, or under none where it is empty.
    ///
    /// Elements of an array in memory order are written from where they are.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Unsupported`]: the name is too long, or the format cannot store the tensor. Nothing has been
    ///   written.
    /// - [`ErrorKind::NotATensor`]: the value is not one tensor.
    /// - [`ErrorKind::Io`]: the writer failed.
    pub fn encode<T: TensorFile + ?Sized>(&mut self, name: &str, tensor: &T) -> Result<()> {
        self.try_encode(name, tensor).map_err(|error| error.in_tensor(name).in_format(Encode::FORMAT))
    }

    fn try_encode<T: TensorFile + ?Sized>(&mut self, name: &str, tensor: &T) -> Result<()> {
        let stored = Stored { value: tensor, adapt: &Adapt::NONE };
        let plan = Plan::under(name, &stored, Encode::default())?;
        if plan.len() != 1 {
            let instead = "`Encoder::encode` takes one tensor, `ten::to_writer` any number of them";
            return Err(ErrorKind::NotATensor { found: "the value", instead }.into());
        }
        let mut serializer = Serializer::under(name, Pour::new(&mut self.writer, plan));
        stored.serialize(&mut serializer)?;
        serializer.into_sink()?.finish().map(drop)
    }

    /// Flushes the writer.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`]: the writer failed.
    pub fn flush(&mut self) -> Result<()> {
        Ok(self.writer.flush()?)
    }

    /// The writer, to look at.
    pub fn get_ref(&self) -> &W {
        &self.writer
    }

    /// The writer.
    pub fn into_inner(self) -> W {
        self.writer
    }
}

/// Reads tensors from a stream one at a time, as they come.
///
/// Memory is bounded by one tensor. Two tensors of one name are no error here, as nothing is looked up by it.
///
/// ```
/// use ndarray::{Array2, array};
/// use tensorfile::ten;
///
/// # let mut encoder = ten::Encoder::new(Vec::new());
/// # encoder.encode("policy", &array![[1.0_f32, 2.0], [3.0, 4.0]])?;
/// # encoder.encode("value", &0.5_f32)?;
/// # let stream = encoder.into_inner();
/// let mut decoder = ten::Decoder::new(&stream[..]);
/// let (name, policy) = decoder.decode::<Array2<f32>>()?.expect("a first tensor");
/// assert_eq!((name.as_str(), policy), ("policy", array![[1.0, 2.0], [3.0, 4.0]]));
/// for tensor in decoder {
///     let (name, tensor) = tensor?;
///     println!("{name}: {}", tensor.info());
/// }
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug)]
pub struct Decoder<R: Read> {
    deserializer: Deserializer<Reader<'static, Stream<R>, Walk>>,
}

impl<R: Read> Decoder<R> {
    /// A decoder over `reader`, which is read in pieces of up to 256 KiB.
    pub fn new(reader: R) -> Self {
        Self::with_limits(reader, Limits::default())
    }

    /// A decoder that refuses tensors beyond `limits`. Their number is not limited.
    pub fn with_limits(reader: R, limits: Limits) -> Self {
        let reader = Reader::new(Stream::new(reader), Walk::default(), limits.tensors(u64::MAX));
        Self { deserializer: Deserializer::one_by_one(reader.without_embedded_names()) }
    }

    /// The name, dtype and shape of the next tensor; `None` at the end of the stream.
    ///
    /// # Errors
    ///
    /// Where the stream is malformed or cannot be read.
    pub fn peek(&mut self) -> Result<Option<(&str, &TensorInfo)>> {
        let source = self.deserializer.source();
        let next = source.peek().map_err(|error| error.in_format(Encode::FORMAT))?;
        Ok(next.map(|at| (if source.has_name(at) { source.name(at) } else { "" }, source.info(at))))
    }

    /// Reads the next tensor and its name, which is empty where it has none; `None` at the end of the stream.
    ///
    /// A tensor that `T` does not want is passed over by the error, and the next call reads the one after it.
    ///
    /// # Errors
    ///
    /// By [`category`](Error::category): `File` where the stream is malformed, `Mismatch` where the tensor is not what
    /// `T` wants.
    pub fn decode<T: for<'de> FromTensors<'de>>(&mut self) -> Result<Option<(String, T)>> {
        let Some((name, _)) = self.peek()? else { return Ok(None) };
        let name = name.to_owned();
        let tensor = T::load(&mut self.deserializer, &Adapt::NONE);
        self.deserializer.source().forget();
        tensor.map(|tensor| Some((name, tensor))).map_err(|error| error.in_format(Encode::FORMAT))
    }

    /// Passes over the next tensor; whether there was one.
    ///
    /// # Errors
    ///
    /// Where the stream is malformed or cannot be read.
    pub fn skip_tensor(&mut self) -> Result<bool> {
        let found = self.peek()?.is_some();
        self.deserializer.source().forget();
        Ok(found)
    }
}

impl<R: Read> Iterator for Decoder<R> {
    type Item = Result<(String, Tensor), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.decode().transpose()
    }
}
