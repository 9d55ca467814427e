//! The tensors of a value on their way to a writer, a digest or a view.

use std::borrow::Cow;
use std::io;
use std::ops::Range;

use super::MetadataValue;
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::checked_io::write_all;
use crate::tensor::{TensorInfo, grow};

/// The bytes of one tensor, for a writer to ask for.
///
/// Bytes are little-endian, in the layout of the tensor's [`TensorInfo`].
///
/// ```
/// use std::io::{self, Write};
/// use tensorfile::model::{TensorData, TensorRecord, TensorSink};
/// use tensorfile::{Dtype, Result, TensorInfo, Tensors, ten};
///
/// /// Zeros that are never in memory all at once.
/// struct Zeros(usize);
///
/// impl TensorData for Zeros {
///     fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
///         io::copy(&mut io::Read::take(io::repeat(0), self.0 as u64), out).map(drop)
///     }
/// }
///
/// struct Model;
///
/// impl Tensors for Model {
///     fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
///         let info = TensorInfo::new(Dtype::F32, [1000]);
///         sink.tensor(&TensorRecord { name: "zeros", info: &info, data: &Zeros(4000), tied: None })
///     }
/// }
///
/// let file = ten::FORMAT.to_vec(&Model, &tensorfile::WriteOptions::new())?;
/// assert_eq!(ten::from_slice::<tensorfile::TensorMap>(&file)?["zeros"].shape().dims(), [1000]);
/// # Ok::<(), tensorfile::Error>(())
/// ```
pub trait TensorData {
    /// Returns the bytes if they are in memory in one run.
    fn as_bytes(&self) -> Option<&[u8]> {
        None
    }

    /// Writes all bytes to `out`.
    ///
    /// # Errors
    ///
    /// An error of `out`, or an [`Error`](crate::Error) as [`io::Error`] if the bytes cannot be read.
    fn write_to(&self, out: &mut dyn io::Write) -> io::Result<()>;

    /// Writes all bytes to `out`, for a copy from file to file: in pieces that a processor's cache holds from reading
    /// to writing.
    ///
    /// # Errors
    ///
    /// As [`write_to`](Self::write_to).
    #[doc(hidden)]
    fn copy_to(&self, out: &mut dyn io::Write) -> io::Result<()> {
        self.write_to(out)
    }

    /// Writes the bytes in a range to `out`, as [`copy_to`](Self::copy_to) does. By default, all bytes are read.
    ///
    /// # Errors
    ///
    /// As [`write_to`](Self::write_to).
    #[doc(hidden)]
    fn copy_range_to(&self, range: Range<u64>, out: &mut dyn io::Write) -> io::Result<()> {
        self.copy_to(&mut WithinRange::new(out, range))
    }

    /// Returns what the elements are, if the collection knows. Views that cast ask for it.
    ///
    /// # Errors
    ///
    /// Those of reading the configuration of a model.
    #[doc(hidden)]
    fn meaning(&self) -> Result<Meaning> {
        Ok(Meaning::Unstated)
    }

    /// Returns an equal number for tensors with shared bytes, if sharing can be known.
    ///
    /// Formats that store shared bytes once also compare the bytes, so equal numbers by chance do no harm.
    fn storage_id(&self) -> Option<u64> {
        self.as_bytes().map(|bytes| bytes.as_ptr().addr() as u64)
    }
}

/// Passes on the bytes in a range of all that are written.
pub(crate) struct WithinRange<'w> {
    out: &'w mut dyn io::Write,
    /// The number of bytes so far.
    at: u64,
    range: Range<u64>,
}

impl<'w> WithinRange<'w> {
    pub(crate) fn new(out: &'w mut dyn io::Write, range: Range<u64>) -> Self {
        Self { out, at: 0, range }
    }
}

impl io::Write for WithinRange<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let within = |end: u64| usize::try_from(end.saturating_sub(self.at)).unwrap_or(usize::MAX).min(bytes.len());
        let (start, end) = (within(self.range.start), within(self.range.end));
        write_all(self.out, &bytes[start..end.max(start)])?;
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What the elements of a tensor are.
#[derive(Debug)]
#[doc(hidden)]
pub enum Meaning {
    /// The collection does not know. The names of its tensors decide.
    Unstated,
    Numbers,
    /// Codes or scales of a quantized weight: the error for a cast.
    Codes(ErrorKind),
}

/// Writes a payload into memory. Fails if memory runs out.
pub(crate) fn gather(info: &TensorInfo, data: &dyn TensorData) -> io::Result<Vec<u8>> {
    let mut all = GatheredPayload { bytes: Vec::new(), expected: info.payload_bytes().unwrap_or(0) };
    data.write_to(&mut all)?;
    Ok(all.bytes)
}

struct GatheredPayload {
    bytes: Vec<u8>,
    expected: usize,
}

impl io::Write for GatheredPayload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        grow(&mut self.bytes, bytes.len(), self.expected).map_err(Error::from)?;
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TensorData for &[u8] {
    fn as_bytes(&self) -> Option<&[u8]> {
        Some(self)
    }

    fn write_to(&self, out: &mut dyn io::Write) -> io::Result<()> {
        write_all(out, self)
    }
}

/// Bytes in memory that only this tensor has while it is sent. Another value may come from the same place later, so the place
/// identifies nothing.
pub(crate) struct TemporaryBytes<'a>(pub(crate) &'a [u8]);

impl TensorData for TemporaryBytes<'_> {
    fn as_bytes(&self) -> Option<&[u8]> {
        Some(self.0)
    }

    fn write_to(&self, out: &mut dyn io::Write) -> io::Result<()> {
        write_all(out, self.0)
    }

    fn storage_id(&self) -> Option<u64> {
        None
    }
}

impl TensorData for Cow<'_, [u8]> {
    fn as_bytes(&self) -> Option<&[u8]> {
        Some(self)
    }

    fn write_to(&self, out: &mut dyn io::Write) -> io::Result<()> {
        write_all(out, self)
    }
}

/// A named tensor on its way to a [`TensorSink`].
///
/// ```
/// use tensorfile::model::{TensorRecord, TensorSink};
/// use tensorfile::{Result, TensorMap, Tensors};
///
/// /// Adds up the bytes of tensors.
/// struct Count(u64);
///
/// impl TensorSink for Count {
///     fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
///         self.0 += tensor.info.payload_bytes().map_or(0, |bytes| bytes as u64);
///         Ok(())
///     }
/// }
///
/// let map = TensorMap::from_iter([("a", ndarray::array![1.0_f32, 2.0]), ("b", ndarray::array![3.0])]);
/// let mut count = Count(0);
/// map.send(&mut count)?;
/// assert_eq!(count.0, 12);
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct TensorRecord<'a> {
    /// The name; the position in decimal if the tensor has none.
    pub name: &'a str,
    /// Dtype, shape and layout.
    pub info: &'a TensorInfo,
    /// The bytes.
    pub data: &'a dyn TensorData,
    /// The full name of an equal tensor, declared by `#[tensor(tied = "…")]`.
    pub tied: Option<&'a str>,
}

impl std::fmt::Debug for TensorRecord<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TensorRecord")
            .field("name", &self.name)
            .field("info", self.info)
            .field("tied", &self.tied)
            .finish_non_exhaustive()
    }
}

/// Receives named tensors in order: a file writer, a digest, statistics.
///
/// ```
/// use tensorfile::model::{TensorRecord, TensorSink};
/// use tensorfile::{Result, Tensor, TensorMap, Tensors};
///
/// /// Counts bytes.
/// struct Count(usize);
///
/// impl TensorSink for Count {
///     fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
///         self.0 += tensor.info.payload_bytes().unwrap_or(0);
///         Ok(())
///     }
/// }
///
/// let map: TensorMap = [("bias", Tensor::from_slice(&[1.0_f32, 2.0], [2])?)].into_iter().collect();
/// let mut count = Count(0);
/// map.send(&mut count)?;
/// assert_eq!(count.0, 8);
/// # Ok::<(), tensorfile::Error>(())
/// ```
pub trait TensorSink {
    /// Takes the next tensor.
    ///
    /// # Errors
    ///
    /// Errors of the sink. The sender stops at the first one.
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()>;

    /// Announces the number of fields, items or entries of the value, before the first tensor. It is about the number
    /// of tensors. By default, nothing is done.
    ///
    /// # Errors
    ///
    /// Errors of the sink. The sender stops, before it sorts the entries of a map.
    fn expect(&mut self, _tensors: usize) -> Result<()> {
        Ok(())
    }

    /// Returns whether the names of tensors are left out. A part of a plain serde value that stores nothing is then
    /// refused, because the next part would be read in its place. By default, it is `false`.
    #[doc(hidden)]
    fn omits_names(&self) -> bool {
        false
    }

    /// Notes that a part of a plain serde value stores nothing, and that it could only be told from a missing one by
    /// the names of the others. A format that leaves out the names of positions then stores them. By default, nothing
    /// is done.
    #[doc(hidden)]
    fn needs_names(&mut self) {}

    /// Takes an entry of metadata, of a field with `#[tensor(metadata)]`. By default it is ignored, as by a digest of
    /// tensors. [`view::forward`](crate::view::forward) passes it on.
    ///
    /// # Errors
    ///
    /// As [`tensor`](Self::tensor).
    fn metadata(&mut self, _key: &str, _value: &MetadataValue) -> Result<()> {
        Ok(())
    }
}

/// Named tensors in a fixed order, to be sent any number of times: a value, an open [`File`](crate::File), or a view.
///
/// File writers take `Tensors`. From one file to another, tensors are not held in memory.
///
/// ```
/// use tensorfile::view::forward;
/// use tensorfile::model::TensorSink;
/// use tensorfile::{Result, Tensor, TensorMap, Tensors, ten};
///
/// /// The tensors whose names begin with a prefix.
/// struct Under<'a>(&'a dyn Tensors, &'a str);
///
/// impl Tensors for Under<'_> {
///     fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
///         self.0.send(&mut forward(sink, &mut |tensor, next| {
///             if tensor.name.starts_with(self.1) { next.tensor(tensor) } else { Ok(()) }
///         }))
///     }
/// }
///
/// let map: TensorMap = [("a.w", Tensor::from_slice(&[1_u8], [1])?), ("b.w", Tensor::from_slice(&[2_u8], [1])?)]
///     .into_iter()
///     .collect();
/// let file = ten::to_vec(&Under(&map, "b.") as &dyn Tensors)?;
/// assert_eq!(ten::from_slice::<TensorMap>(&file)?.names().collect::<Vec<_>>(), ["b.w"]);
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not known to be made of tensors",
    label = "not known to be made of tensors",
    note = "`#[derive(TensorFile)]` makes a struct of tensors, and `SerdeValue(&value)` takes any value that implements `Serialize`"
)]
pub trait Tensors {
    /// Sends each tensor to `sink`. The tensors are the same every time.
    ///
    /// # Errors
    ///
    /// Errors of the sink, and of reading the tensors.
    fn send(&self, sink: &mut dyn TensorSink) -> Result<()>;

    /// Sends the tensor at a position, from 0, as [`send`](Self::send) does, in a time that does not grow with the
    /// number of tensors. Returns `false` if it would, which is the default. A missing tensor is not sent.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    #[doc(hidden)]
    fn send_nth(&self, _position: usize, _sink: &mut dyn TensorSink) -> Result<bool> {
        Ok(false)
    }
}
