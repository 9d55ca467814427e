//! The tensors of a plan, packed: all names in one string, and one info for equal tensors.

use std::borrow::Cow;
use std::hash::BuildHasher;
use std::ops::Range;

use hashbrown::{DefaultHashBuilder, HashSet};
use smallvec::SmallVec;

use super::FileLayout;
use super::repeats::may_repeat;
use super::sharing::{Digester, KeyedDigest, Shared};
use crate::error::{Error, ErrorKind, Result, cannot_store};
use crate::tensor::{HeaderTable, TensorInfo};

/// The tensors of a file to be written, in order: their names, infos and lengths.
///
/// [`Encode::lay_out`](super::Encode::lay_out) gives each a place.
pub struct PlannedTensors {
    /// All names, concatenated. The name of a single tensor is static and takes no memory.
    names: Cow<'static, str>,
    infos: HeaderTable,
    /// The length in bytes of a payload with each info.
    payload_bytes: SmallVec<[usize; 1]>,
    /// Messages are often of one tensor.
    tensors: SmallVec<[PlannedTensor; 1]>,
    /// The format stores names.
    stores_names: bool,
    /// Names are stored even if they equal positions: the name was given, or the value is read by name.
    pub(super) is_named: bool,
    pub(super) shared: Option<Box<Shared>>,
}

/// A tensor of [`PlannedTensors`]: its name ends here, and begins at the end of the name before.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlannedTensor {
    pub(super) name_end: usize,
    /// The number of the info.
    pub(super) info: u32,
}

/// A tensor of [`PlannedTensors`].
#[derive(Debug, Clone, Copy)]
pub struct Planned<'a> {
    /// The name.
    pub name: &'a str,
    /// The dtype, shape and layout.
    pub info: &'a TensorInfo,
    /// The number of the info. Tensors with the same number have the same info.
    pub info_number: usize,
    /// The length of the payload in bytes.
    pub payload_bytes: usize,
}

/// An iterator over [`PlannedTensors`].
#[derive(Debug, Clone)]
pub struct PlannedIter<'a> {
    names: &'a str,
    infos: &'a [TensorInfo],
    payload_bytes: &'a [usize],
    tensors: std::slice::Iter<'a, PlannedTensor>,
    /// The start of the name of the next tensor.
    name_start: usize,
}

impl<'a> PlannedIter<'a> {
    pub(super) fn new(
        names: &'a str,
        infos: &'a [TensorInfo],
        payload_bytes: &'a [usize],
        tensors: &'a [PlannedTensor],
    ) -> Self {
        Self { names, infos, payload_bytes, tensors: tensors.iter(), name_start: 0 }
    }

    /// Returns the names of all tensors, concatenated.
    pub fn all_names(&self) -> &'a str {
        self.names
    }

    /// Returns the infos, in the order of their numbers.
    pub fn infos(&self) -> &'a [TensorInfo] {
        self.infos
    }

    #[inline]
    fn planned(&self, name: Range<usize>, info: u32) -> Planned<'a> {
        let info_number = info as usize;
        let (info, payload_bytes) = (&self.infos[info_number], self.payload_bytes[info_number]);
        Planned { name: &self.names[name], info, info_number, payload_bytes }
    }
}

impl<'a> Iterator for PlannedIter<'a> {
    type Item = Planned<'a>;

    #[inline]
    fn next(&mut self) -> Option<Planned<'a>> {
        let tensor = self.tensors.next()?;
        let start = std::mem::replace(&mut self.name_start, tensor.name_end);
        Some(self.planned(start..tensor.name_end, tensor.info))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.tensors.size_hint()
    }
}

impl DoubleEndedIterator for PlannedIter<'_> {
    // It is too long to be inlined otherwise.
    #[inline(always)]
    fn next_back(&mut self) -> Option<Self::Item> {
        let tensor = self.tensors.next_back()?;
        let start = self.tensors.as_slice().last().map_or(self.name_start, |before| before.name_end);
        Some(self.planned(start..tensor.name_end, tensor.info))
    }
}

impl ExactSizeIterator for PlannedIter<'_> {}

impl PlannedTensors {
    /// An empty list, for a format with or without names.
    pub(super) fn new(stores_names: bool) -> Self {
        Self {
            names: Cow::Borrowed(""),
            infos: HeaderTable::default(),
            payload_bytes: SmallVec::new(),
            tensors: SmallVec::new(),
            stores_names,
            is_named: false,
            shared: None,
        }
    }

    /// Returns the tensors at the given positions. Tensors that share bytes are given together.
    pub(super) fn subset(&self, positions: &[usize], stores_names: bool) -> Result<Self> {
        let mut subset = Self { is_named: self.is_named, ..Self::new(stores_names) };
        for &index in positions {
            let info = self.info(index);
            let number = match subset.find_info(info) {
                Some(known) => known,
                None => subset.add_info(info)?,
            };
            subset.push(self.name(index), number);
        }
        subset.shared = self.shared.as_ref().map(|shared| Box::new(shared.subset(positions)));
        Ok(subset)
    }

    /// Returns the number of an equal info among the most recent ones.
    #[inline]
    pub(super) fn find_info(&mut self, info: &TensorInfo) -> Option<u32> {
        self.infos.find(info)
    }

    /// Adds an info not found by [`find_info`](Self::find_info), and returns its number.
    pub(super) fn add_info(&mut self, info: &TensorInfo) -> Result<u32> {
        self.payload_bytes.push(info.payload_bytes().ok_or_else(|| ends_too_far(info))?);
        Ok(self.infos.add_new(info.clone()))
    }

    /// Adds a tensor in its stored dim order, after its info.
    ///
    /// Returns the length of its payload in bytes.
    // Inlined into the planner, which calls it for each tensor.
    #[inline(always)]
    pub(super) fn push(&mut self, name: &str, info: u32) -> usize {
        match &mut self.names {
            Cow::Owned(names) => names.push_str(name),
            Cow::Borrowed("") if name == "0" => self.names = Cow::Borrowed("0"),
            Cow::Borrowed(_) => self.names.to_mut().push_str(name),
        }
        self.tensors.push(PlannedTensor { name_end: self.names.len(), info });
        self.payload_bytes[info as usize]
    }

    /// Reserves memory for `tensors`.
    pub(super) fn expect(&mut self, tensors: usize) {
        /// A value may announce more than it has.
        const MOST: usize = 1 << 20;

        // The number is only a guess, so failing to reserve is not an error.
        let _ = self.tensors.try_reserve(tensors.min(MOST));
    }

    /// Returns the number of tensors. A list of embedded names counts as one more.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// Returns whether there are no tensors.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// Returns the name of the tensor at a position.
    ///
    /// ```
    /// use tensorfile::{TensorMap, ten};
    ///
    /// let map = TensorMap::from_iter([("a", ndarray::array![1.0_f32, 2.0]), ("b", ndarray::array![3.0])]);
    /// let plan = ten::Options::new().plan(&map)?;
    /// assert_eq!(plan.name(0), "a");
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// If `at` is not below [`len`](Self::len). This holds for all methods that take a position.
    #[must_use]
    pub fn name(&self, i: usize) -> &str {
        let start = i.checked_sub(1).map_or(0, |before| self.planned(before).name_end);
        &self.names[start..self.planned(i).name_end]
    }

    /// Returns the name to store: `""` if the format or the options leave it out, or if it is only the position.
    #[must_use]
    pub fn stored_name(&self, i: usize) -> &str {
        if self.stores_names && !self.implies_name(i) { self.name(i) } else { "" }
    }

    /// Returns dtype, shape and layout of the tensor at a position.
    ///
    /// ```
    /// use tensorfile::{TensorMap, ten};
    ///
    /// let map = TensorMap::from_iter([("a", ndarray::array![1.0_f32, 2.0]), ("b", ndarray::array![3.0])]);
    /// let plan = ten::Options::new().plan(&map)?;
    /// assert_eq!(plan.info(0).to_string(), "f32[2]");
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn info(&self, i: usize) -> &TensorInfo {
        self.infos.get(self.planned(i).info)
    }

    /// Returns the length of a payload in bytes.
    #[must_use]
    pub fn payload_bytes(&self, i: usize) -> usize {
        self.payload_bytes.as_slice()[self.planned(i).info as usize]
    }

    /// Returns each tensor.
    pub fn iter(&self) -> PlannedIter<'_> {
        PlannedIter::new(&self.names, self.infos.as_slice(), &self.payload_bytes, &self.tensors)
    }

    /// Returns the length of each payload in bytes.
    pub fn payload_lens(&self) -> impl ExactSizeIterator<Item = usize> + DoubleEndedIterator {
        let payload_bytes = self.payload_bytes.as_slice();
        self.tensors.as_slice().iter().map(|tensor| payload_bytes[tensor.info as usize])
    }

    /// Returns the first tensor with the same bytes, which are stored once, with it. For most tensors it is the tensor
    /// itself.
    ///
    /// ```
    /// use ndarray::Array1;
    /// use tensorfile::{TensorMap, ptd};
    ///
    /// let zeros = Array1::<f32>::zeros(8);
    /// let map = TensorMap::from_iter([("a", zeros.clone()), ("b", zeros)]);
    /// let plan = ptd::Options::new().dedup(true).plan(&map)?;
    /// assert_eq!((plan.owner(0), plan.owner(1)), (0, 0));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn owner(&self, i: usize) -> usize {
        self.shared.as_ref().map_or(i, |shared| shared.owner(i))
    }

    /// Stacks the tensors: each header is followed by its payload, and each payload is padded to a multiple of
    /// `alignment` bytes of its length.
    ///
    /// `header` appends the header of a tensor with a [stored name](Self::stored_name) and an info. Tensors with equal
    /// name and info share one call. The result lacks `begin` and `end`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] for a tensor that ends past 2⁶⁴.
    pub fn stack(
        &self,
        start: u64,
        alignment: u64,
        header: &mut dyn FnMut(&str, &TensorInfo, &mut Vec<u8>),
    ) -> Result<FileLayout> {
        let mut layout = FileLayout::with_capacity(self.len());
        // For each info, the place of the header of tensors without a name.
        let mut unnamed: SmallVec<[Option<Range<usize>>; 1]> = SmallVec::from_elem(None, self.infos.as_slice().len());
        let unnamed = unnamed.as_mut_slice();
        let (padded_lens, mut end) = (self.padded_lens(alignment), start);
        let padded_lens = padded_lens.as_slice();
        let mut name_start = 0;
        for (i, tensor) in self.tensors.as_slice().iter().enumerate() {
            let number = tensor.info as usize;
            let mut name = "";
            if self.stores_names {
                let given = &self.names[name_start..tensor.name_end];
                name = if self.is_implied(given, i) { "" } else { given };
                name_start = tensor.name_end;
            }
            let place_of_header = match &unnamed[number] {
                Some(place) if name.is_empty() => place.clone(),
                _ => {
                    let place = layout.add_header(&mut |headers| header(name, self.infos.get(tensor.info), headers));
                    if name.is_empty() {
                        unnamed[number] = Some(place.clone());
                    }
                    place
                }
            };
            let payload = end.checked_add(place_of_header.len() as u64);
            let next = payload.and_then(|start| start.checked_add(padded_lens[number]?));
            let (Some(payload), Some(next)) = (payload, next) else {
                return Err(ends_too_far(self.infos.get(tensor.info)).in_tensor(self.name(i)));
            };
            layout.place(place_of_header, payload);
            end = next;
        }
        layout.end_offset = end;
        layout.omits_positions = self.stores_names;
        Ok(layout)
    }

    /// Stacks payloads without headers, each padded to a multiple of `alignment` bytes of its length.
    ///
    /// The result lacks `begin` and `end`.
    ///
    /// ```
    /// use tensorfile::{TensorMap, ten};
    ///
    /// let map = TensorMap::from_iter([("a", ndarray::array![1.0_f32]), ("b", ndarray::array![2.0])]);
    /// let layout = ten::Options::new().plan(&map)?.stack_payloads(64, 16)?;
    /// assert!(layout.payloads().eq([64, 80]));
    /// assert_eq!(layout.end_offset, 96);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`stack`](Self::stack).
    pub fn stack_payloads(&self, start: u64, alignment: u64) -> Result<FileLayout> {
        let mut layout = FileLayout::with_capacity(self.len());
        let (padded_lens, mut end) = (self.padded_lens(alignment), start);
        let padded_lens = padded_lens.as_slice();
        for (i, tensor) in self.tensors.as_slice().iter().enumerate() {
            let next = padded_lens[tensor.info as usize].and_then(|len| end.checked_add(len));
            layout.push_payload(end);
            end = next.ok_or_else(|| ends_too_far(self.info(i)).in_tensor(self.name(i)))?;
        }
        layout.end_offset = end;
        Ok(layout)
    }

    /// Returns the length of a payload with each info and of its padding. For each tensor, a division takes too long.
    fn padded_lens(&self, alignment: u64) -> SmallVec<[Option<u64>; 1]> {
        let payload_bytes = self.payload_bytes.as_slice().iter();
        payload_bytes.map(|bytes| (*bytes as u64).checked_next_multiple_of(alignment)).collect()
    }

    /// Lays out payloads of unknown dtypes, which fill all their room in the old file. The last one is not padded. Any
    /// other is refused unless its length is a multiple of `alignment`, because padding could not be told from payload.
    pub(crate) fn end_with_unknown(&self, alignment: u64, layout: &mut FileLayout) -> Result<()> {
        let Some(last) = self.len().checked_sub(1) else { return Ok(()) };
        for i in (0..self.len()).filter(|i| self.info(*i).unknown_dtype().is_some()) {
            let bytes = self.payload_bytes(i) as u64;
            if i == last {
                layout.end_offset = layout.payload(i) + bytes;
            } else if !bytes.is_multiple_of(alignment) {
                let instead = format!("its {bytes} bytes would be padded, unless it is the last tensor");
                return Err(Error::from(cannot_store(self.info(i).to_string(), instead)).in_tensor(self.name(i)));
            }
        }
        Ok(())
    }

    /// Returns the bytes of a name. Unlike a slice of the text, they are not checked for the boundaries of characters.
    #[inline]
    fn name_bytes(&self, i: usize) -> &[u8] {
        let tensors = self.tensors.as_slice();
        let start = i.checked_sub(1).map_or(0, |before| tensors[before].name_end);
        &self.names.as_bytes()[start..tensors[i].name_end]
    }

    #[inline]
    fn planned(&self, i: usize) -> &PlannedTensor {
        &self.tensors.as_slice()[i]
    }

    /// Returns whether the name of a tensor equals its position and need not be stored.
    pub(crate) fn implies_name(&self, i: usize) -> bool {
        self.is_implied(self.name(i), i)
    }

    #[inline]
    pub(super) fn is_implied(&self, name: &str, i: usize) -> bool {
        !self.is_named && is_position(name, i)
    }

    /// Returns a digester for shared bytes, and the digest to expect from it.
    pub(super) fn digest(&self, i: usize) -> Option<(KeyedDigest, Digester)> {
        self.shared.as_ref()?.digest(i)
    }

    pub(super) fn check_names(&self) -> Result<()> {
        let names = || (0..self.len()).map(|i| self.name_bytes(i));
        // Positions, and the keys of most maps, are in order and so do not repeat.
        if names().is_sorted_by(|one, other| one < other)
            || names().is_sorted_by(|one, other| (one.len(), one) < (other.len(), other))
        {
            return Ok(());
        }
        let hasher = DefaultHashBuilder::default();
        let hashes: Vec<u64> = names().map(|name| hasher.hash_one(name)).collect();
        let candidates = may_repeat(&hashes);
        let mut seen = HashSet::with_capacity(candidates.len());
        if let Some(i) = candidates.into_iter().find(|i| !seen.insert(self.name_bytes(*i))) {
            return Err(ErrorKind::RepeatedName { name: self.name(i).to_owned() }.into());
        }
        Ok(())
    }
}

impl std::fmt::Debug for PlannedTensors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Returns whether a name equals the position of its tensor and need not be stored.
#[inline]
pub(crate) fn is_position(name: &str, position: usize) -> bool {
    // Few names begin with a digit.
    name.as_bytes().first().is_some_and(u8::is_ascii_digit) && is_decimal(name, position)
}

/// Returns whether a text is a number in decimal.
#[inline]
fn is_decimal(text: &str, number: usize) -> bool {
    /// Any number with this many digits fits into 64 bits. Positions have fewer digits.
    const MOST_DIGITS: usize = 19;

    let is_short = match text.as_bytes() {
        [b'0', _, ..] | [] => false,
        digits => digits.len() <= MOST_DIGITS,
    };
    let mut value = 0;
    is_short
        && text.bytes().all(|byte| {
            let digit = byte.wrapping_sub(b'0');
            value = 10 * value + u64::from(digit);
            digit < 10
        })
        && value == number as u64
}

/// The error for a tensor that ends past the largest offset.
pub(crate) fn ends_too_far(info: &TensorInfo) -> Error {
    cannot_store(info.to_string(), "the file would be longer than can be addressed").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_shortest_decimal_is_a_position() {
        for number in [0, 1, 9, 10, 99, 100, 1234, usize::MAX / 2] {
            assert!(is_decimal(&number.to_string(), number), "{number}");
            assert!(!is_decimal(&number.to_string(), number + 1), "{number}");
        }
        let others =
            [("", 0), ("00", 0), ("01", 1), ("+1", 1), ("1 ", 1), ("1a", 1), ("/", 0), (":", 10), ("\u{663}", 3)];
        // 1 more than a multiple of 2^64.
        for (text, number) in others.into_iter().chain([("18446744073709551617", 1)]) {
            assert!(!is_decimal(text, number), "{text}");
        }
    }
}
