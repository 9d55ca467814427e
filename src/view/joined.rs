//! Several collections of tensors as one.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write};

use super::Subset;
use crate::error::Result;
use crate::model::{TensorData, TensorRecord, TensorSink, Tensors, forward};

/// The tensors of several collections, in sequence.
///
/// If a name is repeated, the tensor of the last collection comes in the place of the first.
///
/// ```
/// use ndarray::array;
/// use tensorfile::view::Joined;
/// use tensorfile::{TensorMap, Tensors, ten};
///
/// let old = TensorMap::from_iter([("a", array![1.0_f32]), ("b", array![2.0])]);
/// let new = TensorMap::from_iter([("c", array![3.0_f32]), ("a", array![4.0])]);
/// let joined = Joined::new(&[&old, &new])?;
/// assert_eq!(joined.repeated(), Some(("a", [0, 1])));
///
/// let map: TensorMap = ten::from_slice(&ten::to_vec(&joined as &dyn Tensors)?)?;
/// assert_eq!(map, TensorMap::from_iter([("a", array![4.0_f32]), ("b", array![2.0]), ("c", array![3.0])]));
/// # Ok::<(), tensorfile::Error>(())
/// ```
pub struct Joined<'t> {
    parts: Vec<&'t dyn Tensors>,
    places: HashMap<String, Place>,
    repeated: Option<(String, [usize; 2])>,
    /// Ids of storage, by the part and the id in it.
    storage: RefCell<HashMap<(usize, u64), u64>>,
}

/// The first part with a tensor, which decides its position, and the last one, which provides the tensor.
#[derive(Clone, Copy)]
struct Place {
    first: usize,
    last: usize,
}

impl<'t> Joined<'t> {
    /// Joins collections. Their tensors are listed, and no payload is read.
    ///
    /// # Errors
    ///
    /// Errors of a part, such as an impossible cast.
    pub fn new(parts: &[&'t dyn Tensors]) -> Result<Self> {
        let mut joined =
            Self { parts: parts.to_vec(), places: HashMap::new(), repeated: None, storage: RefCell::default() };
        for (part, tensors) in parts.iter().enumerate() {
            tensors.send(&mut Listed { part, joined: &mut joined })?;
        }
        Ok(joined)
    }

    /// Returns the first name in two collections, and their positions.
    pub fn repeated(&self) -> Option<(&str, [usize; 2])> {
        self.repeated.as_ref().map(|(name, parts)| (&name[..], *parts))
    }

    /// Sends the unreplaced tensors of a part; for a replacement, only the replacing tensor.
    fn send_part(&self, tensors: &dyn Tensors, part: usize, replaces: bool, sink: &mut dyn TensorSink) -> Result<()> {
        tensors.send(&mut forward(sink, &mut |tensor, next| {
            let Some(&Place { first, last }) = self.places.get(tensor.name) else { return Ok(()) };
            if part == last && (part == first || replaces) {
                let data = JoinedData { joined: self, part, data: tensor.data };
                return next.tensor(&TensorRecord { data: &data, ..*tensor });
            }
            if part != first || replaces {
                return Ok(());
            }
            let replacement = Subset::from_names(self.parts[last], [tensor.name]);
            self.send_part(&replacement, last, true, &mut TensorsOnly(next))
        }))
    }
}

impl Tensors for Joined<'_> {
    fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
        self.parts.iter().enumerate().try_for_each(|(part, tensors)| self.send_part(*tensors, part, false, sink))
    }
}

impl fmt::Debug for Joined<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Joined").finish_non_exhaustive()
    }
}

/// Notes the names of a part.
struct Listed<'a, 't> {
    part: usize,
    joined: &'a mut Joined<'t>,
}

impl TensorSink for Listed<'_, '_> {
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        let Self { part, joined } = self;
        let Some(place) = joined.places.get_mut(tensor.name) else {
            joined.places.insert(tensor.name.to_owned(), Place { first: *part, last: *part });
            return Ok(());
        };
        // Names repeated within one part, as in some streams, are left to the writer.
        if place.last != *part {
            joined.repeated.get_or_insert_with(|| (tensor.name.to_owned(), [place.last, *part]));
        }
        place.last = *part;
        Ok(())
    }
}

/// Drops metadata: a part that replaces a tensor sends its own metadata in its turn.
struct TensorsOnly<'a>(&'a mut dyn TensorSink);

impl TensorSink for TensorsOnly<'_> {
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        self.0.tensor(tensor)
    }
}

struct JoinedData<'a, 't> {
    joined: &'a Joined<'t>,
    part: usize,
    data: &'a dyn TensorData,
}

impl TensorData for JoinedData<'_, '_> {
    fn as_bytes(&self) -> Option<&[u8]> {
        self.data.as_bytes()
    }

    fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        self.data.write_to(out)
    }

    fn copy_to(&self, out: &mut dyn Write) -> io::Result<()> {
        self.data.copy_to(out)
    }

    /// Parts may have different storage of the same id.
    fn storage_id(&self) -> Option<u64> {
        let key = (self.part, self.data.storage_id()?);
        let mut storage = self.joined.storage.borrow_mut();
        let next = storage.len() as u64;
        Some(*storage.entry(key).or_insert(next))
    }
}
