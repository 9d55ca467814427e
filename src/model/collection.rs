use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_bytes::Bytes;

use super::handoff::offer_place;
use super::payload::serialize_tensor;
use crate::error::{Error, ErrorKind, Result, is_ours, raise_ser};
use crate::tensor::{TensorInfo, TensorMap};

/// Named tensors whose bytes can be had piece by piece: a [`TensorMap`], an opened file, or what is made of them on the
/// way from one file to another.
///
/// Such a collection goes into any format without being in memory whole; it is a value of serde, as
/// `&dyn Collection`.
///
/// ```
/// use tensorfile::{Collection, Result, Tensor, TensorInfo, TensorMap, ten};
///
/// /// The tensors under a prefix.
/// struct Under<'a>(&'a dyn Collection, Vec<usize>);
///
/// impl Collection for Under<'_> {
///     fn len(&self) -> usize {
///         self.1.len()
///     }
///
///     fn name(&self, at: usize) -> &str {
///         self.0.name(self.1[at])
///     }
///
///     fn info(&self, at: usize) -> &TensorInfo {
///         self.0.info(self.1[at])
///     }
///
///     fn pour(&self, at: usize, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
///         self.0.pour(self.1[at], take)
///     }
/// }
///
/// let map: TensorMap = [("a.w", Tensor::from_slice(&[1_u8], [1])?), ("b.w", Tensor::from_slice(&[2_u8], [1])?)]
///     .into_iter()
///     .collect();
/// let under = Under(&map, (0..map.len()).filter(|&at| map.name(at).starts_with("b.")).collect());
/// let read: TensorMap = ten::from_slice(&ten::to_vec(&under as &dyn Collection)?)?;
/// assert_eq!(read.names().collect::<Vec<_>>(), ["b.w"]);
/// # Ok::<(), tensorfile::Error>(())
/// ```
pub trait Collection {
    /// The number of tensors.
    fn len(&self) -> usize;

    /// Whether there is no tensor.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name of the tensor at a position, or the position as text where it has none.
    ///
    /// # Panics
    ///
    /// Where `at` is not below [`len`](Self::len), as all methods.
    fn name(&self, at: usize) -> &str;

    /// Dtype, shape and layout.
    fn info(&self, at: usize) -> &TensorInfo;

    /// Passes the payload, in the layout of [`info`](Self::info), to `take` in pieces of any size.
    ///
    /// # Errors
    ///
    /// Where the payload cannot be read, and those of `take`.
    fn pour(&self, at: usize, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>;

    /// The payload, where it lies in memory in one piece.
    fn bytes(&self, _at: usize) -> Option<&[u8]> {
        None
    }

    /// A number that tensors have in common which share their bytes, where it is known. Formats that store tied tensors
    /// once compare the bytes of those, so that a number that two tensors have by chance does no harm.
    fn place(&self, _at: usize) -> Option<u64> {
        None
    }
}

impl Collection for TensorMap {
    fn len(&self) -> usize {
        self.len()
    }

    fn name(&self, at: usize) -> &str {
        self.at(at).0
    }

    fn info(&self, at: usize) -> &TensorInfo {
        self.at(at).1.info()
    }

    fn pour(&self, at: usize, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        take(self.at(at).1.as_bytes())
    }

    fn bytes(&self, at: usize) -> Option<&[u8]> {
        Some(self.at(at).1.as_bytes())
    }
}

impl Serialize for dyn Collection + '_ {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.len()))?;
        for at in 0..self.len() {
            map.serialize_entry(self.name(at), &Item { collection: self, at })?;
        }
        map.end()
    }
}

/// A tensor of a collection.
struct Item<'a> {
    collection: &'a dyn Collection,
    at: usize,
}

impl Serialize for Item<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let info = self.collection.info(self.at);
        match self.collection.bytes(self.at) {
            Some(bytes) => serialize_tensor(serializer, info, Bytes::new(bytes)),
            None => serialize_tensor(serializer, info, &ItemPayload(self)),
        }
    }
}

struct ItemPayload<'a>(&'a Item<'a>);

impl ItemPayload<'_> {
    /// Calls `take` with each piece; its error comes back as it is.
    fn for_each<E: serde::ser::Error>(&self, mut take: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let mut failed = None;
        let poured = self.0.collection.pour(self.0.at, &mut |piece| {
            take(piece).map_err(|error| {
                failed = Some(error);
                Error::from(ErrorKind::Message("the pieces are not wanted".to_owned()))
            })
        });
        match failed {
            Some(error) => Err(error),
            None => poured.map_err(|error| raise_ser(error.in_tensor(self.0.collection.name(self.0.at)))),
        }
    }
}

impl Serialize for ItemPayload<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if is_ours::<S::Error>() {
            offer_place(self.0.collection.place(self.0.at));
            let mut seq = serializer.serialize_seq(None)?;
            self.for_each(|piece| seq.serialize_element(Bytes::new(piece)))?;
            return seq.end();
        }
        let mut whole = Vec::new();
        self.for_each(|piece| {
            whole.extend_from_slice(piece);
            Ok::<(), S::Error>(())
        })?;
        serializer.serialize_bytes(&whole)
    }
}
