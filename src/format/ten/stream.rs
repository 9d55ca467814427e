//! Streams of ten messages: an encoder and a decoder for one tensor or struct at a time.

use std::io::{self, IoSlice, Read, Write};
use std::sync::Arc;

use super::ser::Encode;
use super::{FORMAT, de, header};
use crate::error::{Error, ErrorKind, Result};
use crate::find::Finder;
use crate::limits::Limits;
use crate::model::{
    EachEntry, EachPart, Entries, FieldAttrs, FromTensors, KeyPart, List, LoadFrom, Loaded, Node, Payload, Serializer,
    Sink, Source, Store, StructDef, TensorData, TensorSink, TensorSpec, Tensors, embedded_names, put,
};
use crate::read;
use crate::read::Message;
use crate::storage::Stream;
use crate::tensor::checked_io::write_all;
use crate::tensor::{Dtype, Tensor, TensorInfo};
use crate::write::{Plan, check_stored_name, to_writer, write_slices};

/// Writes tensors to a stream one at a time, or as many at once as a struct has.
///
/// The stream does not state the number of its tensors. It has no end mark either.
///
/// ```
/// use ndarray::{Array1, array};
/// use tensorfile::{TensorFile, ten};
///
/// #[derive(TensorFile, Debug, PartialEq)]
/// struct Step {
///     obs: Array1<f32>,
///     reward: f32,
/// }
///
/// let step = Step { obs: array![1.0, 2.0], reward: 0.5 };
/// let mut encoder = ten::Encoder::new(Vec::new());
/// encoder.encode("", &step)?;
/// encoder.encode("value", &0.5_f32)?;
/// let stream = encoder.into_inner();
///
/// let mut decoder = ten::Decoder::new(&stream[..]);
/// assert_eq!(decoder.decode::<Step>()?, Some((String::new(), step)));
/// assert_eq!(decoder.decode::<f32>()?, Some(("value".to_owned(), 0.5)));
/// assert!(decoder.decode::<Step>()?.is_none());
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug)]
pub struct Encoder<W> {
    writer: W,
    /// Memory for the header of a tensor, and for the rest of it if it is small.
    buffer: Vec<u8>,
    /// A named tensor was written. Otherwise, the last tensor may be read as the list of names.
    has_names: bool,
}

impl<W: Write> Encoder<W> {
    /// An encoder over `writer`. Wrap a file or a socket in a [`BufWriter`](std::io::BufWriter) if tensors are small.
    ///
    /// ```
    /// use std::io::BufWriter;
    /// use tensorfile::ten;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("episodes.ten");
    /// let mut encoder = ten::Encoder::new(BufWriter::new(std::fs::File::create(&path)?));
    /// encoder.encode("reward", &0.5_f32)?;
    /// encoder.flush()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(writer: W) -> Self {
        Self { writer, buffer: Vec::new(), has_names: false }
    }

    /// Writes one tensor under a name of up to 8 bytes. An empty name means no name.
    ///
    /// Under the empty name, a struct or another value of several tensors is written under its own names.
    ///
    /// Elements of an array in memory order are written without a copy, except tensors of less than 4 KiB, which are
    /// written with one call. Larger ones take one call too, if the writer supports vectored writes.
    ///
    /// ```
    /// use tensorfile::{TensorView, ten};
    ///
    /// let mut encoder = ten::Encoder::new(Vec::new());
    /// encoder.encode("", &TensorView::from_slice(&[1_u8, 2, 3], [3])?)?;
    /// let (name, view): (String, Vec<u8>) = ten::Decoder::new(&encoder.into_inner()[..]).decode()?.expect("one tensor");
    /// assert_eq!((name.as_str(), view), ("", vec![1, 2, 3]));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Unsupported`]: the name is too long, or the format cannot store the tensor; or all names so far
    ///   were empty and the tensor looks like a [list of names](super#names). Nothing has been written.
    /// - [`ErrorKind::NotATensor`]: the value has a name and is not one tensor. Nothing has been written.
    /// - [`ErrorKind::Io`]: writing failed.
    pub fn encode(&mut self, name: &str, tensor: &(impl Store + ?Sized)) -> Result<()> {
        let refuses_lists = !self.has_names && name.is_empty();
        let encoded = encode(&mut self.writer, &mut self.buffer, Named { name, tensor: &tensor }, refuses_lists);
        self.has_names |= encoded.is_ok() && !name.is_empty();
        encoded.map_err(|error| error.in_tensor(name).in_format(FORMAT.name))
    }

    /// Flushes the writer.
    ///
    /// ```
    /// use std::io::BufWriter;
    /// use tensorfile::ten;
    ///
    /// let mut encoder = ten::Encoder::new(BufWriter::new(Vec::new()));
    /// encoder.encode("reward", &0.5_f32)?;
    /// encoder.flush()?;
    /// assert!(!encoder.get_ref().get_ref().is_empty());
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`]: writing failed.
    pub fn flush(&mut self) -> Result<()> {
        Ok(self.writer.flush()?)
    }

    /// Returns the writer.
    pub fn get_ref(&self) -> &W {
        &self.writer
    }

    /// Returns the writer. Bytes written to it come between two tensors.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.writer
    }

    /// Returns the writer.
    ///
    /// ```
    /// use tensorfile::ten;
    ///
    /// let mut encoder = ten::Encoder::new(Vec::new());
    /// encoder.encode("reward", &0.5_f32)?;
    /// assert_eq!(encoder.into_inner()[..8], *b"~TenBin~");
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    pub fn into_inner(self) -> W {
        self.writer
    }
}

fn encode(writer: &mut dyn Write, buffer: &mut Vec<u8>, tensor: Named<'_>, refuses_lists: bool) -> Result<()> {
    let mut one = One { name: tensor.name, writer, buffer, refuses_lists, written: None, has_parts: false };
    tensor.tensor.store(&mut one, &FieldAttrs::NONE)?;
    if let Some(written) = one.written {
        return Ok(written?);
    }
    let (has_parts, encode) = (one.has_parts, Arc::new(Encode::default()));
    if has_parts && tensor.name.is_empty() {
        return to_writer(&mut Unflushed(writer), &tensor, &*encode);
    }
    let plan = match tensor.name {
        "" if refuses_lists => Plan::new(&tensor, encode)?,
        // A list of names is an ordinary tensor after a named one.
        "" => Plan::from_message(&tensor, encode)?,
        _ => Plan::with_name(&tensor, encode)?,
    };
    if plan.len() != 1 {
        return Err(not_one_tensor());
    }
    let mut writer = Unflushed(writer);
    let mut file = plan.writer(&mut writer);
    tensor.send(&mut file)?;
    file.finish()
}

fn not_one_tensor() -> Error {
    let instead = "`Encoder::encode` takes one tensor under a name, and any number of them under an empty one";
    ErrorKind::NotATensor { found: "the value", instead }.into()
}

/// Writes a single tensor in memory without a plan. Everything else, including unsupported tensors, is left to the
/// plan.
struct One<'a> {
    name: &'a str,
    writer: &'a mut dyn Write,
    buffer: &'a mut Vec<u8>,
    /// The tensor must not begin as a list of names does.
    refuses_lists: bool,
    /// The result of writing the tensor, if it was written.
    written: Option<io::Result<()>>,
    /// The value is a struct or another value with parts, or nothing.
    has_parts: bool,
}

impl One<'_> {
    fn can_store(&self, info: &TensorInfo) -> bool {
        // An empty name means none.
        let has_room = || self.name.is_empty() || check_stored_name(self.name, &Encode::default()).is_ok();
        FORMAT.check(info).is_ok() && has_room()
    }

    fn write(&mut self, info: &TensorInfo, payload: &[u8]) -> io::Result<()> {
        /// A tensor of fewer bytes is copied, as not every writer takes several slices at once.
        const SMALL: usize = 1 << 10;
        const ZEROS: [u8; 64] = [0; 64];
        const { assert!(ZEROS.len() as u64 == header::ALIGNMENT) };

        let padding = &ZEROS[..payload.len().next_multiple_of(ZEROS.len()) - payload.len()];
        self.buffer.clear();
        header::write(self.name, info, payload.len(), self.buffer);
        if payload.len() < SMALL {
            self.buffer.extend_from_slice(payload);
            self.buffer.extend_from_slice(padding);
            return write_all(self.writer, self.buffer);
        }
        let mut slices = [self.buffer.as_slice(), payload, padding].map(IoSlice::new);
        let count = if padding.is_empty() { 2 } else { 3 };
        write_slices(&mut slices[..count], self.writer)
    }
}

impl Sink for One<'_> {
    fn tensor(&mut self, info: &TensorInfo, data: &dyn TensorData) -> Result<()> {
        if self.written.is_some() {
            return Err(not_one_tensor());
        }
        if let Some(payload) = data.as_bytes()
            // Row-major elements; the format has no bools and no blocks, whose bytes would have to be checked.
            && info.takes_any(payload.len())
            && self.can_store(info)
            && !(self.refuses_lists && info.dtype == Dtype::U8 && payload.starts_with(&embedded_names::MAGIC))
        {
            self.written = Some(self.write(info, payload));
        }
        Ok(())
    }

    fn fields(&mut self, _: &'static StructDef, _: &[&dyn Store]) -> Result<()> {
        self.has_parts = true;
        Ok(())
    }

    fn list(&mut self, _: &dyn List, _: &FieldAttrs) -> Result<()> {
        self.has_parts = true;
        Ok(())
    }

    fn tuple(&mut self, _: &dyn List, _: &FieldAttrs) -> Result<()> {
        self.has_parts = true;
        Ok(())
    }

    fn map(&mut self, _: &dyn Entries, _: &FieldAttrs) -> Result<()> {
        self.has_parts = true;
        Ok(())
    }

    fn option(&mut self, value: Option<&dyn Store>, attrs: &FieldAttrs) -> Result<()> {
        self.has_parts = value.is_none();
        value.map_or(Ok(()), |value| value.store(self, attrs))
    }
}

/// A value under a name.
struct Named<'a> {
    name: &'a str,
    tensor: &'a dyn Store,
}

impl Tensors for Named<'_> {
    fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
        let mut serializer = Serializer::named(sink, self.name);
        self.tensor.store(&mut serializer, &FieldAttrs::NONE)?;
        serializer.end()
    }
}

/// A writer without a flush after each tensor, which would make a buffer around a socket useless.
struct Unflushed<'w>(&'w mut dyn Write);

impl Write for Unflushed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads tensors from a stream one at a time.
///
/// Memory is bounded by one tensor. Two tensors may have the same name, as nothing is looked up by it.
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
pub struct Decoder<'r> {
    finder: Finder<'r>,
    /// The error after which the next tensor cannot be found.
    failure: Option<BrokenOff>,
}

/// An error of a stream, to be returned again: in place of the end, which it would look like.
#[derive(Debug)]
struct BrokenOff {
    io: Option<io::ErrorKind>,
    message: String,
}

impl BrokenOff {
    fn new(error: &Error) -> Self {
        let io = match error.kind() {
            ErrorKind::Io(error) => Some(error.kind()),
            _ => None,
        };
        let message = error.to_string();
        Self { io, message: message.strip_prefix("ten: ").unwrap_or(&message).to_owned() }
    }

    fn to_error(&self) -> Error {
        let what = format!("the stream broke off before: {}", self.message);
        match self.io {
            Some(kind) => Error::from(io::Error::new(kind, what)),
            None => ErrorKind::Malformed { what }.into(),
        }
    }
}

impl<'r> Decoder<'r> {
    /// A decoder over `reader`, read in pieces of up to 256 KiB.
    ///
    /// ```
    /// use tensorfile::{Tensor, ten};
    ///
    /// let stream = ten::to_vec(&[Tensor::from_slice(&[1.0_f32, 2.0], [2])?])?;
    /// let mut decoder = ten::Decoder::new(&stream[..]);
    /// assert_eq!(decoder.decode::<Vec<f32>>()?, Some((String::new(), vec![1.0, 2.0])));
    /// assert_eq!(decoder.decode::<Vec<f32>>()?, None);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    pub fn new(reader: impl Read + 'r) -> Self {
        Self::with_limits(reader, Limits::default())
    }

    /// A decoder that refuses tensors beyond `limits`. Their number is unlimited.
    ///
    /// ```
    /// use tensorfile::{Limits, Tensor, ten};
    ///
    /// let stream = ten::to_vec(&[Tensor::from_slice(&[1.0_f32; 100], [100])?])?;
    /// let mut decoder = ten::Decoder::with_limits(&stream[..], Limits::new().payload(100));
    /// assert!(decoder.decode::<Tensor>().is_err());
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    pub fn with_limits(reader: impl Read + 'r, limits: Limits) -> Self {
        let storage = read::ReaderStorage::Boxed(Box::new(Stream::new(reader)));
        let mut reader = read::Reader::new(storage, &FORMAT.reading, limits.tensors(u64::MAX));
        // A list of names is an ordinary tensor here.
        reader.loader.ignore_embedded_names();
        Self { finder: Finder::one_by_one(reader, FORMAT.name), failure: None }
    }

    /// Returns the name, dtype and shape of the next tensor; `None` at the end of the stream.
    ///
    /// ```
    /// use ndarray::{Array1, array};
    /// use tensorfile::ten;
    ///
    /// let mut encoder = ten::Encoder::new(Vec::new());
    /// encoder.encode("obs", &array![1.0_f32, 2.0])?;
    /// encoder.encode("reward", &0.5_f32)?;
    /// let stream = encoder.into_inner();
    ///
    /// let mut decoder = ten::Decoder::new(&stream[..]);
    /// while let Some((name, info)) = decoder.peek()? {
    ///     println!("{name} {info}");
    ///     if name == "obs" {
    ///         let (_, obs) = decoder.decode::<Array1<f32>>()?.expect("it was there");
    ///         assert_eq!(obs.len(), 2);
    ///     } else {
    ///         decoder.skip_tensor()?;
    ///     }
    /// }
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the stream is malformed or cannot be read.
    pub fn peek(&mut self) -> Result<Option<(&str, &TensorInfo)>> {
        let Some(index) = self.next_index()? else { return Ok(None) };
        let reader = self.finder.reader();
        let name = if reader.index().has_name(index) { reader.name(index) } else { "" };
        Ok(Some((name, reader.info(index))))
    }

    /// Returns the index of the next tensor. A stream that broke off has no end.
    fn next_index(&mut self) -> Result<Option<usize>> {
        let next = self.finder.reader().peek().map_err(|error| error.in_format(FORMAT.name));
        match (self.noted(next)?, &self.failure) {
            (None, Some(failure)) => Err(failure.to_error().in_format(FORMAT.name)),
            (next, _) => Ok(next),
        }
    }

    /// Keeps the first error after which there is no next tensor.
    fn noted<T>(&mut self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result
            && self.failure.is_none()
            && self.finder.reader().loader.is_broken
        {
            self.failure = Some(BrokenOff::new(error));
        }
        result
    }

    /// Reads the next tensor and its name, possibly empty; `None` at the end of the stream.
    ///
    /// A struct takes as many tensors as it has, by name or, if they are unnamed, by position; the returned name is
    /// empty. A stream that ends between them is an error.
    ///
    /// What does not fit `T` or has an unknown dtype is skipped by the error. The next call reads what comes after it.
    /// After any other error, where the next tensor begins is not known, and each call returns an error.
    ///
    /// ```
    /// use ndarray::array;
    /// use tensorfile::ten;
    ///
    /// let mut encoder = ten::Encoder::new(Vec::new());
    /// encoder.encode("obs", &array![1.0_f32, 2.0])?;
    /// encoder.encode("reward", &0.5_f32)?;
    /// let stream = encoder.into_inner();
    ///
    /// let mut decoder = ten::Decoder::new(&stream[..]);
    /// let Some((name, obs)) = decoder.decode::<Vec<f32>>()? else { return Ok(()) };
    /// assert_eq!((name.as_str(), obs), ("obs", vec![1.0, 2.0]));
    /// let Some((_, reward)) = decoder.decode::<f32>()? else { return Ok(()) };
    /// assert_eq!(reward, 0.5);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// By [`category`](crate::Error::category): `File` if the stream is malformed or ends within a struct, `Mismatch`
    /// if the tensors do not fit `T`.
    ///
    /// [`ErrorKind::Unsupported`]: the number of tensors of `T` varies, as in a struct with an `Option`.
    pub fn decode<T: for<'de> FromTensors<'de>>(&mut self) -> Result<Option<(String, T)>> {
        let mut value = None;
        let name = self.decode_with(T::NODE, &mut |source| put(&mut value, source, &FieldAttrs::NONE));
        let name = self.noted(name)?;
        Ok(name.zip(value))
    }

    /// Calls `load` with the next tensor, and returns its name. A struct takes several, and has no name.
    fn decode_with(&mut self, node: Node, load: LoadFrom<'_, 'r>) -> Result<Option<String>> {
        if let Node::Struct(def) = node.inner() {
            return self.decode_struct(node, def, load);
        }
        if let Some(name) = self.decode_message(load).map_err(|error| error.in_format(FORMAT.name))? {
            return Ok(Some(name));
        }
        let Some((name, _)) = self.peek()? else { return Ok(None) };
        let name = name.to_owned();
        let loaded = self.finder.load_with(node, load);
        self.finder.reader().clear();
        loaded.map(|()| Some(name)).map_err(|error| error.in_format(FORMAT.name))
    }

    fn decode_struct(&mut self, node: Node, def: &'static StructDef, load: LoadFrom<'_, 'r>) -> Result<Option<String>> {
        if self.peek()?.is_none() {
            return Ok(None);
        }
        let loaded = match Node::Struct(def).tensor_count(&mut Vec::new()) {
            Some(tensors @ 1..) => self.finder.load_next(node, tensors, load),
            _ => {
                let what = format!("read a `{}` from a stream that goes on", def.name);
                let instead = "its end is only known if it has the same number of tensors each time, and at least one: \
                               no `Option`, `Vec` or map";
                Err(ErrorKind::Unsupported { what, instead: instead.to_owned() }.into())
            }
        };
        loaded.map(|()| Some(String::new())).map_err(|error| error.in_format(FORMAT.name))
    }

    /// Decodes a message with a buffered header, without an index. `None`, with nothing read, if the header is
    /// incomplete or unexpected: the index reader then takes over.
    fn decode_message(&mut self, load: LoadFrom<'_, 'r>) -> Result<Option<String>> {
        let reader = self.finder.reader();
        let mut message = Message::EMPTY;
        if !reader.loader.message(de::message, header::COMMON_BYTES, &mut message)? {
            return Ok(None);
        }
        let mut source = MessageSource { reader, message: &mut message, offset: None };
        let loaded = load(&mut source);
        let Some(offset) = source.offset else { return Ok(None) };
        if let Err(error) = loaded {
            let name = if message.name.is_empty() { reader.loader.last_label() } else { message.name };
            return Err(error.in_tensor(name).at(offset));
        }
        Ok(Some(message.name))
    }

    /// Skips the next tensor. Returns whether there was one.
    ///
    /// ```
    /// use ndarray::array;
    /// use tensorfile::ten;
    ///
    /// let mut encoder = ten::Encoder::new(Vec::new());
    /// encoder.encode("obs", &array![1.0_f32, 2.0])?;
    /// encoder.encode("reward", &0.5_f32)?;
    /// let stream = encoder.into_inner();
    ///
    /// let mut decoder = ten::Decoder::new(&stream[..]);
    /// assert!(decoder.skip_tensor()?);
    /// assert_eq!(decoder.decode::<f32>()?.map(|(name, _)| name).as_deref(), Some("reward"));
    /// assert!(!decoder.skip_tensor()?);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the stream is malformed or cannot be read.
    pub fn skip_tensor(&mut self) -> Result<bool> {
        let found = self.peek()?.is_some();
        self.finder.reader().clear();
        Ok(found)
    }
}

/// The next tensor of a stream, as the whole value.
struct MessageSource<'a, 'r> {
    reader: &'a mut read::Reader<'r>,
    message: &'a mut Message,
    /// The offset of the payload, if it was read.
    offset: Option<u64>,
}

impl MessageSource<'_, '_> {
    /// The error for anything else. Nobody sees it, unless a value asks for two tensors.
    #[cold]
    fn is_not_wanted<T>() -> Result<T> {
        Err(ErrorKind::Message("a value is read from one tensor of the stream".to_owned()).into())
    }
}

impl<'de> Source<'de> for MessageSource<'_, '_> {
    fn tensor(&mut self, spec: &TensorSpec) -> Result<Loaded<'de>> {
        if self.offset.is_some() || !spec.passes(&self.message.info) {
            return Self::is_not_wanted();
        }
        self.offset = Some(self.reader.loader.next_offset() + self.message.header_bytes as u64);
        let payload = self.reader.loader.message_payload(self.message)?;
        let info = std::mem::replace(&mut self.message.info, TensorInfo::EMPTY);
        Ok(Loaded::from_checked(info, Payload::Owned(payload)))
    }

    fn fields(&mut self, _: &'static StructDef, _: EachPart<'_, 'de>) -> Result<()> {
        Self::is_not_wanted()
    }

    fn list(&mut self, _: EachPart<'_, 'de>) -> Result<()> {
        Self::is_not_wanted()
    }

    fn tuple(&mut self, _: usize, _: EachPart<'_, 'de>) -> Result<()> {
        Self::is_not_wanted()
    }

    fn map(&mut self, _: KeyPart, _: EachEntry<'_, 'de>) -> Result<()> {
        Self::is_not_wanted()
    }

    fn option(&mut self, _: EachPart<'_, 'de>) -> Result<()> {
        Self::is_not_wanted()
    }
}

impl Iterator for Decoder<'_> {
    type Item = Result<(String, Tensor)>;

    /// Returns the next tensor. After an error of a broken stream, returns `None`.
    fn next(&mut self) -> Option<Self::Item> {
        let has_failed = self.failure.is_some();
        self.decode().transpose().filter(|tensor| !has_failed || tensor.is_ok())
    }
}
