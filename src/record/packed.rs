//! Tensors of an index that wait for their turn, in about a third of the memory that they take in an [`Index`](super::Index).

use std::hash::BuildHasher;
#[cfg(feature = "npz")]
use std::num::NonZeroU8;
use std::ops::Range;

use hashbrown::{DefaultHashBuilder, HashTable};
use smallvec::SmallVec;

use super::Entry;
#[cfg(feature = "npz")]
use super::{Codec, Zipped};
use crate::sorted;
use crate::tensor::{Dtype, Layout, Shape, TensorInfo};

/// A queue of tensors with names. Formats with one index for all tensors fill it before they return the first.
///
/// Each is its name, dtype, shape, layout and range, with numbers of 32 bits where they are enough.
#[derive(Debug, Clone, Default)]
pub(crate) struct Packed {
    /// In chunks, each of which is freed after its last tensor was taken.
    chunks: SmallVec<[Vec<u8>; 1]>,
    /// The chunk of the next one, and its offset there.
    next: (usize, usize),
    /// The number of those to come.
    left: usize,
    /// The start and the end of the last one.
    last: (u64, u64),
    /// One of them begins before the one before it, or begins there and ends before it.
    is_unordered: bool,
    /// The end of those with bytes.
    end: u64,
    /// One of those with bytes begins before the end of others.
    goes_back: bool,
}

/// A tensor in the queue.
#[derive(Debug)]
pub(crate) struct Waiting<'a> {
    pub(crate) name: &'a str,
    pub(crate) info: TensorInfo,
    /// The start and the end of the payload, which may not be a range.
    pub(crate) span: (u64, u64),
    /// The offset in the file of what describes the tensor.
    pub(crate) place: u64,
    #[cfg(feature = "npz")]
    pub(crate) codec: Option<Codec>,
}

impl<'a> Waiting<'a> {
    pub(crate) fn new(name: &'a str, info: TensorInfo, range: &Range<u64>) -> Self {
        Self {
            name,
            info,
            span: (range.start, range.end),
            place: 0,
            #[cfg(feature = "npz")]
            codec: None,
        }
    }

    pub(crate) fn into_entry(self) -> Entry {
        let entry = Entry::new(Some(self.name.to_owned()), self.info, self.span.0..self.span.1);
        #[cfg(feature = "npz")]
        let entry = entry.with_codec(self.codec);
        entry
    }
}

impl Packed {
    /// A chunk ends with the first tensor that ends after this many bytes. The memory of so large a chunk goes back to the
    /// system when it is freed.
    const CHUNK: usize = 1 << 18;

    /// The room that the first chunk has at first: enough for a few tensors.
    const FIRST: usize = 256;

    /// Adds a tensor.
    pub(crate) fn push(&mut self, tensor: &Waiting<'_>) {
        self.is_unordered |= tensor.span < self.last;
        self.last = tensor.span;
        let (start, end) = tensor.span;
        if start < end {
            self.goes_back |= start < self.end;
            self.end = self.end.max(end);
        }
        self.left += 1;
        match self.chunks.last_mut() {
            Some(chunk) if chunk.len() < Self::CHUNK => put_tensor(tensor, chunk),
            last => {
                let room = if last.is_some() { Self::CHUNK + Self::CHUNK / 8 } else { Self::FIRST };
                let mut chunk = Vec::with_capacity(room);
                put_tensor(tensor, &mut chunk);
                self.chunks.push(chunk);
            }
        }
    }

    /// Returns the tensors to come.
    pub(crate) fn iter(&self) -> Iter<'_> {
        Iter { packed: self, chunk: self.next.0, at: self.next.1 }
    }

    /// Returns the tensor that begins there.
    fn at(&self, (chunk, at): Place) -> Unpacker<'_> {
        Unpacker { bytes: &self.chunks[chunk as usize], at: at as usize }
    }

    /// Returns whether one begins before the end of those before it, apart from tensors without bytes. If not, no two overlap,
    /// and a stream can be read tensor by tensor.
    #[cfg(feature = "ptd")]
    pub(crate) fn goes_back(&self) -> bool {
        self.goes_back
    }

    /// Sorts the tensors by the start and the end of their payloads.
    pub(crate) fn sort(&mut self) {
        if !self.is_unordered {
            return;
        }
        let mut order = Vec::with_capacity(self.left);
        let mut tensors = self.iter();
        while let Some((place, tensor)) = tensors.next_placed() {
            order.push((tensor.span, place));
        }
        let mut sorted = Self::default();
        for at in sorted::positions(order.len(), &mut |one, other| order[one].cmp(&order[other])) {
            sorted.push(&self.at(order[at].1).tensor());
        }
        *self = sorted;
    }

    /// Returns the first tensor that has the name of one before it.
    pub(crate) fn find_duplicate(&self) -> Option<Waiting<'_>> {
        if self.left < 2 {
            return None;
        }
        let hasher = DefaultHashBuilder::default();
        let mut names = HashTable::with_capacity(self.left);
        let name_at = |place: &Place| self.at(*place).name();
        let mut tensors = self.iter();
        while let Some((place, name)) = tensors.next_name() {
            let hash = |place: &Place| hasher.hash_one(name_at(place));
            match names.entry(hasher.hash_one(name), |other| name_at(other) == name, hash) {
                hashbrown::hash_table::Entry::Occupied(_) => return Some(self.at(place).tensor()),
                hashbrown::hash_table::Entry::Vacant(vacant) => drop(vacant.insert(place)),
            }
        }
        None
    }

    /// Takes the first tensor out of the queue.
    pub(crate) fn pop(&mut self) -> Option<Waiting<'_>> {
        if self.left == 0 {
            *self = Self::default();
            return None;
        }
        self.left -= 1;
        let (chunk, at) = self.next;
        if at == self.chunks[chunk].len() {
            self.chunks[chunk] = Vec::new();
            self.next = (chunk + 1, 0);
        }
        let (chunk, at) = &mut self.next;
        let mut unpacker = Unpacker { bytes: &self.chunks[*chunk], at: *at };
        let tensor = unpacker.tensor();
        *at = unpacker.at;
        Some(tensor)
    }

    /// Returns the number of tensors to come.
    pub(crate) fn len(&self) -> usize {
        self.left
    }
}

/// The number of a chunk, and an offset in it.
type Place = (u32, u32);

fn put_tensor(tensor: &Waiting<'_>, out: &mut Vec<u8>) {
    let Waiting { name, info, span, place, .. } = tensor;
    put_count(name.len(), out);
    out.extend_from_slice(name.as_bytes());
    let rest = out.len();
    out.extend_from_slice(&[0; size_of::<u16>()]);
    out.push(info.dtype as u8);
    put_count(info.shape.rank(), out);
    for &dim in info.shape.dims() {
        put(dim as u64, out);
    }
    match &info.layout {
        Layout::RowMajor => out.push(0),
        Layout::Blob => out.push(1),
        Layout::DimOrder(order) => {
            out.push(2);
            put_count(order.as_slice().len(), out);
            out.extend_from_slice(order.as_slice());
        }
        Layout::Coo { entries } => {
            out.push(3);
            put(*entries as u64, out);
        }
        Layout::Unknown(unknown) => {
            out.push(4);
            put_count(unknown.tag().len(), out);
            out.extend_from_slice(unknown.tag().as_bytes());
            put_count(unknown.stored().len(), out);
            out.extend_from_slice(unknown.stored());
            put(info.payload_bytes().unwrap_or_default() as u64, out);
        }
    }
    put(span.0, out);
    put(span.1.wrapping_sub(span.0), out);
    put(*place, out);
    #[cfg(feature = "npz")]
    put_codec(tensor.codec.as_ref(), out);
    // The length of the rest, so that names can be read alone.
    let len = u16::try_from(out.len() - rest - size_of::<u16>()).unwrap_or(u16::MAX);
    out[rest..rest + size_of::<u16>()].copy_from_slice(&len.to_le_bytes());
}

/// Writes a number that is small most often.
fn put_count(number: usize, out: &mut Vec<u8>) {
    match u8::try_from(number) {
        Ok(small) if small != u8::MAX => out.push(small),
        _ => {
            out.push(u8::MAX);
            put(number as u64, out);
        }
    }
}

/// Writes a number that has up to 32 bits most often.
fn put(number: u64, out: &mut Vec<u8>) {
    match u32::try_from(number) {
        Ok(short) if short != u32::MAX => out.extend_from_slice(&short.to_le_bytes()),
        _ => {
            out.extend_from_slice(&u32::MAX.to_le_bytes());
            out.extend_from_slice(&number.to_le_bytes());
        }
    }
}

/// Writes a codec. No format has strided payloads in a queue.
#[cfg(feature = "npz")]
fn put_codec(codec: Option<&Codec>, out: &mut Vec<u8>) {
    let zipped = match codec {
        Some(Codec::Zipped(zipped)) => Some(zipped),
        _ => None,
    };
    let kind = zipped.map_or(codec.is_some().into(), |zipped| if zipped.is_deflated { 2 } else { 3 });
    out.push(kind);
    if let Some(codec) = codec {
        out.push(codec.big_endian().map_or(0, NonZeroU8::get));
    }
    if let Some(Zipped { head, crc32, .. }) = zipped {
        put((*head).into(), out);
        out.extend_from_slice(&crc32.to_le_bytes());
    }
}

/// The tensors of a queue.
pub(crate) struct Iter<'a> {
    packed: &'a Packed,
    chunk: usize,
    at: usize,
}

impl<'a> Iter<'a> {
    /// Returns the place of the next tensor, and what reads it.
    fn next_place(&mut self) -> Option<(Place, Unpacker<'a>)> {
        let mut bytes = self.packed.chunks.get(self.chunk)?;
        if self.at == bytes.len() {
            (self.chunk, self.at) = (self.chunk + 1, 0);
            bytes = self.packed.chunks.get(self.chunk)?;
        }
        let number = |number: usize| u32::try_from(number).expect("chunks and the offsets in them are few");
        Some(((number(self.chunk), number(self.at)), Unpacker { bytes, at: self.at }))
    }

    fn next_placed(&mut self) -> Option<(Place, Waiting<'a>)> {
        let (place, mut unpacker) = self.next_place()?;
        let tensor = unpacker.tensor();
        self.at = unpacker.at;
        Some((place, tensor))
    }

    fn next_name(&mut self) -> Option<(Place, &'a [u8])> {
        let (place, mut unpacker) = self.next_place()?;
        let name = unpacker.name();
        let start = unpacker.at + size_of::<u16>();
        match unpacker.rest() {
            u16::MAX => {
                unpacker.at = self.at;
                unpacker.tensor();
                self.at = unpacker.at;
            }
            len => self.at = start + usize::from(len),
        }
        Some((place, name))
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = Waiting<'a>;

    fn next(&mut self) -> Option<Waiting<'a>> {
        self.next_placed().map(|(_, tensor)| tensor)
    }
}

/// Reads what [`put_tensor`] wrote.
struct Unpacker<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Unpacker<'a> {
    fn byte(&mut self) -> u8 {
        self.at += 1;
        self.bytes[self.at - 1]
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let bytes = self.bytes[self.at..].first_chunk().expect("it was written");
        self.at += N;
        *bytes
    }

    fn number(&mut self) -> u64 {
        match u32::from_le_bytes(self.array()) {
            u32::MAX => u64::from_le_bytes(self.array()),
            short => short.into(),
        }
    }

    fn size(&mut self) -> usize {
        usize::try_from(self.number()).expect("it was a usize")
    }

    fn count(&mut self) -> usize {
        match self.byte() {
            u8::MAX => self.size(),
            small => small.into(),
        }
    }

    fn bytes(&mut self, len: usize) -> &'a [u8] {
        let start = self.at;
        self.at += len;
        &self.bytes[start..self.at]
    }

    fn name(&mut self) -> &'a [u8] {
        let len = self.count();
        self.bytes(len)
    }

    /// Returns the length of what follows, or the largest number if it is longer.
    fn rest(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    #[cfg(feature = "npz")]
    fn codec(&mut self) -> Option<Codec> {
        let kind = self.byte();
        if kind == 0 {
            return None;
        }
        let big_endian = NonZeroU8::new(self.byte());
        if kind == 1 {
            return big_endian.map(Codec::BigEndian);
        }
        Some(Codec::Zipped(Zipped {
            big_endian,
            is_deflated: kind == 2,
            head: u32::try_from(self.number()).expect("it was a u32"),
            crc32: u32::from_le_bytes(self.array()),
        }))
    }

    fn tensor(&mut self) -> Waiting<'a> {
        let name = std::str::from_utf8(self.name()).expect("it was a str");
        self.rest();
        let dtype = Dtype::ALL[usize::from(self.byte())];
        let rank = self.count();
        let mut shape = Shape::default();
        for _ in 0..rank {
            shape.push(self.size());
        }
        let layout = match self.byte() {
            0 => Layout::RowMajor,
            1 => Layout::Blob,
            2 => Layout::from_dim_order(self.name()).expect("it was a dim order"),
            3 => Layout::Coo { entries: self.size() },
            _ => {
                let tag = str::from_utf8(self.name()).expect("it was a str");
                let stored = self.name().into();
                Layout::unknown(tag.into(), stored, self.size())
            }
        };
        let info = TensorInfo { dtype, shape, layout };
        let start = self.number();
        let span = (start, start.wrapping_add(self.number()));
        let place = self.number();
        Waiting {
            name,
            info,
            span,
            place,
            #[cfg(feature = "npz")]
            codec: self.codec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> (Packed, Vec<String>) {
        let mut shapes = vec![TensorInfo::blob(7), TensorInfo::new(Dtype::ALL[Dtype::ALL.len() - 1], [])];
        let order = Layout::from_dim_order(&[2, 0, 1]).unwrap();
        for layout in [Layout::RowMajor, order, Layout::Coo { entries: usize::MAX }] {
            shapes.push(TensorInfo { layout, ..TensorInfo::new(Dtype::Bf16, [0x7f, 0x80, usize::MAX]) });
        }
        shapes.push(TensorInfo::new(Dtype::F32, vec![1; 255]));
        shapes.push(TensorInfo::unknown_in("ten", &"é".repeat(80), &[0xff; 300], [3, 7], usize::MAX));
        shapes.push(TensorInfo::new(Dtype::F32, vec![7; 20_000]));
        let (mut packed, mut shown) = (Packed::default(), Vec::new());
        for (at, info) in shapes.into_iter().enumerate() {
            let (name, start) = ("ä".repeat(at * 70), u64::MAX - (at as u64) * 1000);
            // A file may state an end before the start.
            let tensor = Waiting { span: (start, 16), place: start, ..Waiting::new(&name, info, &(0..0)) };
            packed.push(&tensor);
            shown.push(format!("{tensor:?}"));
        }
        (packed, shown)
    }

    #[test]
    fn tensors_come_back_as_they_were() {
        let (mut packed, shown) = queue();
        assert_eq!(packed.iter().map(|tensor| format!("{tensor:?}")).collect::<Vec<_>>(), shown);
        for (at, shown) in shown.iter().enumerate() {
            assert_eq!(packed.len(), 8 - at);
            assert_eq!(format!("{:?}", packed.pop().unwrap()), *shown);
        }
        assert!(packed.pop().is_none() && packed.chunks.is_empty());
    }

    #[cfg(feature = "npz")]
    #[test]
    fn codecs_come_back_as_they_were() {
        let zipped = |big_endian, is_deflated| {
            Some(Codec::Zipped(Zipped { big_endian, is_deflated, head: u32::MAX, crc32: 0x0102_0304 }))
        };
        let mut packed = Packed::default();
        let big_endian = NonZeroU8::new(8);
        for codec in [None, big_endian.map(Codec::BigEndian), zipped(None, true), zipped(big_endian, false)] {
            let tensor = Waiting { codec, ..Waiting::new("a", TensorInfo::new(Dtype::U8, []), &(5..6)) };
            packed.push(&tensor);
            assert_eq!(format!("{:?}", packed.iter().last().unwrap()), format!("{tensor:?}"));
        }
    }

    #[test]
    fn chunks_are_freed_one_by_one() {
        let mut packed = Packed::default();
        let name = |at: usize| format!("{at}{}", "x".repeat(1000 + at));
        for at in 0..1000 {
            packed.push(&Waiting::new(&name(at), TensorInfo::new(Dtype::U8, [at]), &(0..at as u64)));
        }
        let chunks = packed.chunks.len();
        assert!(packed.find_duplicate().is_none() && (4..8).contains(&chunks), "{chunks}");
        assert!(packed.iter().map(|tensor| tensor.name).eq((0..1000).map(name)));
        for at in 0..1000 {
            let tensor = packed.pop().unwrap();
            assert_eq!((tensor.name, tensor.span), (&*name(at), (0, at as u64)));
        }
        assert_eq!(packed.chunks.iter().filter(|chunk| chunk.capacity() > 0).count(), 1);
    }

    #[test]
    fn sorts_by_start_and_end() {
        let (mut packed, mut shown) = queue();
        assert!(packed.is_unordered);
        packed.sort();
        shown.reverse();
        assert_eq!(packed.iter().map(|tensor| format!("{tensor:?}")).collect::<Vec<_>>(), shown);
        assert!(!packed.is_unordered);
    }

    #[test]
    fn finds_a_name_that_comes_again() {
        let mut packed = Packed::default();
        for (name, place, rank) in [("a", 0, 0), ("b", 8, 20_000), ("ab", 16, 1)] {
            packed.push(&Waiting { place, ..Waiting::new(name, TensorInfo::new(Dtype::U8, vec![1; rank]), &(0..1)) });
        }
        assert!(packed.find_duplicate().is_none());
        packed.push(&Waiting { place: 24, ..Waiting::new("b", TensorInfo::new(Dtype::U8, []), &(0..1)) });
        assert_eq!(packed.find_duplicate().unwrap().place, 24);
    }
}
