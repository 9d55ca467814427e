//! Several collections of tensors as one.

use std::fmt;
use std::hash::BuildHasher;
use std::io::{self, Write};
use std::iter::Peekable;
use std::ops::Range;
use std::sync::Arc;
use std::vec::IntoIter;

use hashbrown::{DefaultHashBuilder, HashMap};

use super::Subset;
use super::storage_ids::derived_id;
use crate::error::Result;
use crate::model::{Meaning, TensorData, TensorRecord, TensorSink, Tensors, forward};
use crate::write::may_repeat;

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
    /// For each part, the tensors whose names are in other parts too, in order.
    repeats: Vec<Vec<(usize, Repeat)>>,
    repeated: Option<(String, [usize; 2])>,
}

/// A tensor whose name is in several parts.
#[derive(Debug)]
enum Repeat {
    /// It is in the first of them: tensors of the last one come in its place.
    First { part: usize, positions: Arc<[usize]> },
    /// It is left out here.
    Later,
}

impl<'t> Joined<'t> {
    /// Joins collections. Their tensors are listed, and no payload is read.
    ///
    /// # Errors
    ///
    /// Errors of a part, such as an impossible cast.
    pub fn new(parts: &[&'t dyn Tensors]) -> Result<Self> {
        let mut joined = Self { parts: parts.to_vec(), repeats: Vec::new(), repeated: None };
        joined.repeats.resize_with(parts.len(), Vec::new);
        // Few names are in several parts, and only those are copied.
        let mut hashes = Hashes { hasher: DefaultHashBuilder::default(), hashes: Vec::new() };
        for tensors in parts {
            tensors.send(&mut hashes)?;
        }
        let hashes = hashes.hashes;
        let candidates = if parts.len() > 1 { may_repeat(&hashes) } else { Vec::new() };
        drop(hashes);
        if !candidates.is_empty() {
            let candidates = candidates.into_iter().peekable();
            let mut places =
                RepeatedNames { candidates, next: 0, part: 0, position: 0, by_name: HashMap::new(), repeated: None };
            for tensors in parts {
                tensors.send(&mut places)?;
                (places.part, places.position) = (places.part + 1, 0);
            }
            joined.repeated = places.repeated;
            joined.set_repeats(places.by_name);
        }
        Ok(joined)
    }

    /// Decides on the tensors whose names are in several parts.
    fn set_repeats(&mut self, places: HashMap<String, Vec<[usize; 2]>>) {
        for places in places.into_values() {
            let ([first, _], [last, _]) = (places[0], places[places.len() - 1]);
            if first == last {
                // Names repeated within one part, as in some streams, are left to the writer.
                continue;
            }
            let in_last = places.iter().filter(|place| place[0] == last).map(|place| place[1]);
            let in_last: Arc<[usize]> = in_last.collect();
            for [part, position] in &places {
                let repeat = if *part == first {
                    Repeat::First { part: last, positions: Arc::clone(&in_last) }
                } else {
                    Repeat::Later
                };
                self.repeats[*part].push((*position, repeat));
            }
        }
        self.repeats.iter_mut().for_each(|repeats| repeats.sort_unstable_by_key(|(position, _)| *position));
    }

    /// Returns the first name in two collections, and their positions.
    pub fn repeated(&self) -> Option<(&str, [usize; 2])> {
        self.repeated.as_ref().map(|(name, parts)| (&name[..], *parts))
    }

    /// Sends the tensors of a part, and in the place of the replaced ones those of later parts.
    fn send_part(&self, part: usize, sink: &mut dyn TensorSink) -> Result<()> {
        let (mut repeats, mut next_position) = (self.repeats[part].iter().peekable(), 0);
        self.parts[part].send(&mut forward(sink, &mut |tensor, next| {
            let position = next_position;
            next_position += 1;
            match repeats.next_if(|(repeated, _)| *repeated == position) {
                None => self.send_own(part, tensor, next),
                Some((_, Repeat::First { part, positions })) => {
                    positions.iter().try_for_each(|position| self.send_replacement(*part, *position, next))
                }
                Some((_, Repeat::Later)) => Ok(()),
            }
        }))
    }

    fn send_own(&self, part: usize, tensor: &TensorRecord<'_>, next: &mut dyn TensorSink) -> Result<()> {
        next.tensor(&TensorRecord { data: &JoinedData { part, data: tensor.data }, ..*tensor })
    }

    /// Sends one tensor of a part. Its metadata is sent in the turn of the part.
    fn send_replacement(&self, part: usize, position: usize, next: &mut dyn TensorSink) -> Result<()> {
        let mut each = |tensor: &TensorRecord<'_>| self.send_own(part, tensor, next);
        let tensors = self.parts[part];
        if tensors.send_nth(position, &mut TensorsOnly(&mut each))? {
            return Ok(());
        }
        Subset::from_positions(tensors, [position]).send(&mut TensorsOnly(&mut each))
    }
}

impl Tensors for Joined<'_> {
    fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
        (0..self.parts.len()).try_for_each(|part| self.send_part(part, sink))
    }
}

impl fmt::Debug for Joined<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Joined").finish_non_exhaustive()
    }
}

/// Hashes the names of all parts.
struct Hashes {
    hasher: DefaultHashBuilder,
    hashes: Vec<u64>,
}

impl TensorSink for Hashes {
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        self.hashes.push(self.hasher.hash_one(tensor.name));
        Ok(())
    }
}

/// Finds the places of the names that may repeat: the part, and the position in it.
struct RepeatedNames {
    /// The tensors whose names may repeat, by their positions in all parts, in order.
    candidates: Peekable<IntoIter<usize>>,
    next: usize,
    part: usize,
    position: usize,
    by_name: HashMap<String, Vec<[usize; 2]>>,
    repeated: Option<(String, [usize; 2])>,
}

impl TensorSink for RepeatedNames {
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        let (next, place) = (self.next, [self.part, self.position]);
        self.next += 1;
        self.position += 1;
        if self.candidates.next_if_eq(&next).is_none() {
            return Ok(());
        }
        let places = self.by_name.entry_ref(tensor.name).or_default();
        if let Some([before, _]) = places.last().filter(|before| before[0] != self.part) {
            self.repeated.get_or_insert_with(|| (tensor.name.to_owned(), [*before, self.part]));
        }
        places.push(place);
        Ok(())
    }
}

/// Drops metadata.
struct TensorsOnly<'a>(&'a mut dyn FnMut(&TensorRecord<'_>) -> Result<()>);

impl TensorSink for TensorsOnly<'_> {
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        (self.0)(tensor)
    }
}

struct JoinedData<'a> {
    part: usize,
    data: &'a dyn TensorData,
}

impl TensorData for JoinedData<'_> {
    fn as_bytes(&self) -> Option<&[u8]> {
        self.data.as_bytes()
    }

    fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        self.data.write_to(out)
    }

    fn copy_to(&self, out: &mut dyn Write) -> io::Result<()> {
        self.data.copy_to(out)
    }

    fn copy_range_to(&self, range: Range<u64>, out: &mut dyn Write) -> io::Result<()> {
        self.data.copy_range_to(range, out)
    }

    fn meaning(&self) -> Result<Meaning> {
        self.data.meaning()
    }

    /// Parts may have different storage of the same id.
    fn storage_id(&self) -> Option<u64> {
        Some(derived_id(self.data.storage_id()?, self.part as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::super::support::{Sent, tied};
    use super::*;

    fn joined(parts: &[&[&str]]) -> (Vec<String>, Option<(String, [usize; 2])>) {
        let parts: Vec<_> =
            parts.iter().map(|names| tied(&names.iter().map(|name| (*name, None)).collect::<Vec<_>>())).collect();
        let parts: Vec<&dyn Tensors> = parts.iter().map(|part| part as &dyn Tensors).collect();
        let joined = Joined::new(&parts).unwrap();
        let names = Sent::by(&joined).names().into_iter().map(str::to_owned).collect();
        (names, joined.repeated().map(|(name, parts)| (name.to_owned(), parts)))
    }

    #[test]
    fn repeated_names_are_in_the_first_place() {
        for (parts, names, repeated) in [
            (&[&["a", "b"][..], &["c"]][..], &["a", "b", "c"][..], None),
            (&[&["a", "b"], &["c", "a"]], &["a", "b", "c"], Some(("a", [0, 1]))),
            (&[&["a"], &["b", "a"], &["c", "b", "a"]], &["a", "b", "c"], Some(("a", [0, 1]))),
            // As in a stream: each place takes all that have the name in the last part.
            (&[&["a", "a"], &["b"]], &["a", "a", "b"], None),
            (&[&["a", "a"], &["a"]], &["a", "a"], Some(("a", [0, 1]))),
            (&[&["a"], &["b", "a", "a"]], &["a", "a", "b"], Some(("a", [0, 1]))),
        ] {
            let repeated = repeated.map(|(name, parts): (&str, _)| (name.to_owned(), parts));
            assert_eq!(joined(parts), (names.iter().map(|name| (*name).to_owned()).collect(), repeated), "{parts:?}");
        }
    }
}
