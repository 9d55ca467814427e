//! The trait for your own storage: bytes read by ranges.

use std::borrow::Cow;
use std::io;

use crate::error::{Error, ErrorKind};

/// The cost of a read: a hint of [`ReadRanges`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadCost {
    /// A read takes as long as a request to a server. Ranges are asked for together, and near ones with the bytes
    /// between them.
    Request,
    /// A read takes as long as a system call. Several threads read at once, and read little more than they need.
    Call,
    /// As [`Call`](Self::Call), but one thread waits for another.
    SerialCall,
}

/// The access pattern of a source: a hint of [`ReadRanges`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AccessPattern {
    /// An index is read: a few bytes here and there.
    Scattered,
    /// The index is read, or known to be long: mostly long ranges follow.
    InOrder,
}

/// Bytes that are read by ranges, from several threads at once. Implement it for an object on a server, a cache, an
/// encrypted file, or a value in a database.
///
/// Then open a file of any format in it with [`OpenOptions::open_ranges`](crate::OpenOptions::open_ranges). Reading a
/// tensor asks for its bytes. Reading several asks for them together, so that a slow source can fetch them at once.
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
/// If you return a [`tensorfile::Error`](crate::Error) inside an [`io::Error`], the caller gets it unchanged.
#[expect(clippy::len_without_is_empty, reason = "an empty file is no file of tensors")]
pub trait ReadRanges: Send + Sync {
    /// Returns the length in bytes. It is called once, when the file is opened.
    ///
    /// # Errors
    ///
    /// Errors of the source.
    fn len(&self) -> io::Result<u64>;

    /// Fills `bytes` from `offset` on. The range lies within the [length](Self::len).
    ///
    /// # Errors
    ///
    /// Errors of the source. [`io::ErrorKind::UnexpectedEof`] if the bytes are not there anymore.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()>;

    /// Fills several ranges, each given by its offset. They lie within the [length](Self::len), do not overlap, and are
    /// sorted by offset.
    ///
    /// By default, they are read one after the other. If your source answers slowly, read them at once, and neighbours
    /// with one request.
    ///
    /// # Errors
    ///
    /// As [`read_at`](Self::read_at). The bytes are undefined then.
    fn read_many(&self, ranges: &mut [(u64, &mut [u8])]) -> io::Result<()> {
        ranges.iter_mut().try_for_each(|(offset, bytes)| self.read_at(*offset, bytes))
    }

    /// Fills a few bytes of an index. More such reads follow, mostly near. If your source can read ahead and keep
    /// bytes, do so here; the other methods should read only the bytes asked for. With `None`, the default, the library
    /// reads ahead with [`read_at`](Self::read_at) instead.
    fn read_index_at(&self, _offset: u64, _bytes: &mut [u8]) -> Option<io::Result<()>> {
        None
    }

    /// Hints that a few bytes at each of these offsets will be read next, such as the headers of tensors. The offsets
    /// come from the file and may be wrong. By default, nothing happens.
    fn will_read(&self, _offsets: &[u64]) {}

    /// Hints how the source will be read from now on. By default, nothing happens.
    fn will_be_read(&self, _access: AccessPattern) {}

    /// Returns what a read costs, which decides how much is asked for together. By default, it is a request to a
    /// server.
    fn cost(&self) -> ReadCost {
        ReadCost::Request
    }

    /// Returns whether bytes only pass in order, so that reading backwards means reading all of them again. Default:
    /// `false`.
    fn is_sequential(&self) -> bool {
        false
    }

    /// Returns text that is equal for two sources only if their bytes are equal, such as a digest. It is never shown.
    /// Default: `None`.
    fn identity(&self) -> Option<Cow<'_, str>> {
        None
    }

    /// Returns the name for messages, without secrets, such as a URL without its query. The extension decides the
    /// format if the content does not. The name may be empty.
    fn name(&self) -> Cow<'_, str>;
}

/// Fills as much of `bytes` as there is by calls of `read`, each given an offset in `bytes`. Returns the number of
/// bytes.
pub(super) fn read_calls(
    bytes: &mut [u8],
    read: &mut dyn FnMut(usize, &mut [u8]) -> io::Result<usize>,
) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match read(filled, &mut bytes[filled..]) {
            Ok(0) => break,
            Ok(now) => filled += now,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Fails if fewer bytes were read than were asked for.
pub(super) fn check_all_read(read: usize, needed: usize) -> io::Result<()> {
    if read == needed {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Truncated { needed: needed as u64, left: read as u64 }).into())
}
