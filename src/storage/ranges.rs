//! Storages that anybody can implement: bytes read by ranges.

use std::borrow::Cow;
use std::io;

/// Bytes that are read by ranges, from several threads at once: an object on a server, a cache, an encrypted file, a
/// value in a database.
///
/// [`OpenOptions::open_ranges`](crate::OpenOptions::open_ranges) opens a file of any format in it. Reading a tensor asks
/// for its bytes, and reading several asks for them together, so that a slow source can fetch them at once.
///
/// ```
/// use std::borrow::Cow;
/// use std::io;
/// use std::sync::Arc;
/// use tensorfile::file::ReadRanges;
/// use tensorfile::{OpenOptions, TensorMap, ten};
///
/// /// A file whose bytes are all inverted.
/// struct Inverted(Vec<u8>);
///
/// impl ReadRanges for Inverted {
///     fn len(&self) -> io::Result<u64> {
///         Ok(self.0.len() as u64)
///     }
///
///     fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
///         let stored = usize::try_from(offset).ok().and_then(|start| self.0.get(start..)?.get(..bytes.len()));
///         let stored = stored.ok_or(io::ErrorKind::UnexpectedEof)?;
///         bytes.iter_mut().zip(stored).for_each(|(byte, stored)| *byte = !stored);
///         Ok(())
///     }
///
///     fn name(&self) -> Cow<'_, str> {
///         "inverted.ten".into()
///     }
/// }
///
/// let map = TensorMap::from_iter([("a", ndarray::array![1.0_f32, 2.0])]);
/// let stored = ten::to_vec(&map)?.iter().map(|byte| !byte).collect();
/// let file = OpenOptions::new().open_ranges(Arc::new(Inverted(stored)))?;
/// assert_eq!(file.load::<TensorMap>()?, map);
/// # Ok::<(), tensorfile::Error>(())
/// ```
///
/// A [`tensorfile::Error`](crate::Error) inside an [`io::Error`] reaches the caller as it is.
#[expect(clippy::len_without_is_empty, reason = "an empty file is no file of tensors")]
pub trait ReadRanges: Send + Sync {
    /// Returns the length in bytes. It is asked for once, when the file is opened.
    ///
    /// # Errors
    ///
    /// Those of the source.
    fn len(&self) -> io::Result<u64>;

    /// Fills `bytes` from `offset` on. The range lies within the [length](Self::len).
    ///
    /// # Errors
    ///
    /// Those of the source. [`io::ErrorKind::UnexpectedEof`] if the bytes are not there anymore.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()>;

    /// Fills several ranges, each given by its offset. They lie within the [length](Self::len) and do not overlap; their
    /// order is that of the offsets.
    ///
    /// By default they are read one after the other. A source with a long way to its bytes reads them at once, and near
    /// ones with one request.
    ///
    /// # Errors
    ///
    /// As [`read_at`](Self::read_at). The bytes are undefined then.
    fn read_many(&self, ranges: &mut [(u64, &mut [u8])]) -> io::Result<()> {
        ranges.iter_mut().try_for_each(|(offset, bytes)| self.read_at(*offset, bytes))
    }

    /// Fills a few bytes of an index: other reads of this kind follow, mostly near. A source that reads ahead and keeps what
    /// it read does so here, while the other functions read what is asked for. `None`, the default, means that it does not,
    /// and more bytes than needed are asked for with [`read_at`](Self::read_at).
    fn read_index_at(&self, _offset: u64, _bytes: &mut [u8]) -> Option<io::Result<()>> {
        None
    }

    /// Hints that a few bytes at each of these offsets will be read next, such as the headers of tensors. The offsets
    /// come from the file and may be wrong. No offsets mean that the index is read. By default, nothing happens.
    fn will_read(&self, _offsets: &[u64]) {}

    /// Returns whether bytes pass in order, so that reading backwards takes as long as reading all of them again. By default, they
    /// do not.
    fn is_sequential(&self) -> bool {
        false
    }

    /// Returns text that is equal for two sources only if their bytes are, such as a digest. It is not shown. By default,
    /// there is none.
    fn identity(&self) -> Option<Cow<'_, str>> {
        None
    }

    /// Returns the name for messages, without secrets, such as a URL without its query. Its extension decides between
    /// formats if the content does not. It may be empty.
    fn name(&self) -> Cow<'_, str>;
}
