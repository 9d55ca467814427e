//! The bytes of tensors: storages of a checkpoint, and bytes in its pickle.

use std::num::NonZeroU8;
use std::ops::Range;

use hashbrown::HashMap;

use super::header::{Tag, TensorKind, numpy_dtype};
use super::strides::{Placed, place, run_bytes};
use super::value::{Heap, NumpyArray, PickleValue, PickledStorage, PickledTensor, TensorBits, UnreadTensor};
use crate::error::{Error, ErrorKind, Result, Short};
use crate::limits::Limits;
use crate::read::{Codec, Negation, Strided, Zipped};
use crate::tensor::{Dtype, InvalidTensor, Layout, Shape, TensorInfo};

/// The bytes of storages.
pub(super) struct Storages {
    /// The ranges in the file, by name.
    pub(super) ranges: HashMap<String, Range<u64>>,
    /// The checksums, with the ends of their members, by start.
    pub(super) checksums: HashMap<u64, (u64, u32)>,
    pub(super) is_big_endian: bool,
}

/// A tensor of a checkpoint.
pub(super) struct FoundTensor {
    pub(super) info: TensorInfo,
    pub(super) range: Range<u64>,
    pub(super) codec: Option<Codec>,
}

/// Finds the bytes of the tensors in a pickle.
pub(super) struct TensorFinder<'a> {
    pub(super) heap: &'a Heap,
    pub(super) storages: &'a Storages,
    pub(super) limits: &'a Limits,
}

impl TensorFinder<'_> {
    /// Returns a storage as a tensor of rank 1.
    pub(super) fn storage(&self, storage: &PickledStorage) -> Result<FoundTensor> {
        if storage.is_meta {
            let dims = dims(Some(storage.tag), None, &[storage.count()])?;
            return Ok(self.without_elements(TensorKind::Meta, Some(storage.tag), dims, storage.place));
        }
        let range = self.range(storage)?;
        if let Some(class) = storage.class {
            let dims = dims(None, None, &[storage.count()])?;
            return Ok(self.located_as_bytes(dims, range, self.heap.global_name(class)));
        }
        let shape = dims(Some(storage.tag), None, &[storage.count()])?;
        self.located(shape, Placed::whole(range), storage.tag, TensorBits::default())
    }

    pub(super) fn tensor(&self, tensor: &PickledTensor) -> Result<FoundTensor> {
        let storage = &self.heap.storages[tensor.storage as usize];
        let shape = self.numbers("dim", tensor.shape)?;
        let strides = self.numbers("stride", tensor.strides)?;
        if shape.len() != strides.len() {
            let what = format!("it has {} dims, but {} strides", shape.len(), strides.len());
            return Err(ErrorKind::Malformed { what }.into());
        }
        if storage.is_meta {
            let dims = dims(Some(tensor.tag), None, &shape)?;
            return Ok(self.without_elements(TensorKind::Meta, Some(tensor.tag), dims, tensor.place));
        }
        let (bytes, start, packed) = (tensor.tag.bytes, tensor.start, tensor.tag.packed());
        let range = self.range(storage)?;
        let (placed, dims) = (range.clone(), dims(Some(tensor.tag), None, &shape)?);
        if packed > 1 {
            // Packed elements share a byte, and cannot be sliced individually.
            let elements = range.start..range.start.saturating_add((range.end - range.start).saturating_mul(packed));
            let placed = place(elements, start, &shape, &strides, 1)?.range;
            let first = (placed.start - range.start) / packed;
            let end = (placed.end - range.start).div_ceil(packed);
            return Ok(self.located_as_bytes(
                dims,
                range.start + first..range.start + end,
                &tag_text(Some(tensor.tag), None),
            ));
        }
        let placed = place(placed, start, &shape, &strides, bytes)?;
        let Some(dtype) = tensor.tag.dtype.filter(|dtype| dtype.block_elements() > 1) else {
            return self.located(dims, placed, tensor.tag, tensor.bits);
        };
        // PyTorch's last dim counts bytes, and each byte has several elements.
        let is_whole = placed.strided.is_none() && placed.layout == Layout::RowMajor;
        let (mut dims, can_read) = (dims.dims().to_vec(), is_whole && tensor.bits == TensorBits::default());
        match dims.last_mut().and_then(|last| last.checked_mul(dtype.block_elements()).map(|dim| (last, dim))) {
            Some((last, dim)) if can_read => {
                *last = dim;
                self.located(dims.into(), placed, tensor.tag, tensor.bits)
            }
            _ => Ok(self.located_as_bytes(dims.into(), placed.range, &tag_text(Some(tensor.tag), None))),
        }
    }

    /// Returns a tensor with unreadable elements, and their bytes if they are contiguous.
    pub(super) fn unread(&self, other: &UnreadTensor) -> Result<FoundTensor> {
        let shape = other.shape.map(|shape| self.numbers("dim", shape)).transpose()?.unwrap_or_default();
        let dims = dims(other.tag, Some(other.kind), &shape)?;
        if let Some(dtype) = other.dtype {
            let name = self.heap.global_name(dtype);
            let storage = other.storage.map(|index| &self.heap.storages[index as usize]);
            let (range, tag) = match (storage, other.kind) {
                (Some(storage), TensorKind::OtherDtype) if !storage.is_meta => (self.range(storage)?, name.to_owned()),
                (_, TensorKind::OtherDtype) => (other.place..other.place, name.to_owned()),
                (_, kind) => (other.place..other.place, format!("{name} ({})", kind.name())),
            };
            return Ok(self.located_as_bytes(dims, range, &tag));
        }
        let Some(elements) = other.elements.map(|index| self.heap.tensors[index as usize]) else {
            return Ok(self.without_elements(other.kind, other.tag, dims, other.place));
        };
        let bytes = self.tensor(&elements)?.range;
        let mut tag = tag_text(Some(elements.tag), Some(other.kind));
        let quantizer = other.quantizer.map_or(&[][..], |index| self.heap.values(index));
        // Tensors with different numbers are different, even where only tags and bytes are compared.
        let numbers = match *quantizer {
            [_, PickleValue::Float(scale), PickleValue::Int(zero_point)] => {
                format!(", scale {scale:?}, zero point {zero_point})")
            }
            [_, _, _, PickleValue::Int(axis)] => format!(" along dim {axis})"),
            _ => ")".to_owned(),
        };
        tag.truncate(tag.len() - 1);
        tag.push_str(&numbers);
        Ok(self.located_as_bytes(dims, bytes, &tag))
    }

    /// Returns an array of numpy. `None` if its bytes are not in one place of the file.
    pub(super) fn array(&self, array: &NumpyArray) -> Result<Option<FoundTensor>> {
        let (Some(dtype), PickleValue::Bytes(bytes)) = (array.dtype, array.elements) else { return Ok(None) };
        let dtype = self.heap.dtypes[dtype as usize];
        // Empty bytes may be made by a call.
        let place = if bytes.span.len == 0 { Some(array.place) } else { self.heap.place(bytes.span) };
        let Some(start) = place else { return Ok(None) };
        let shape = self.numbers("dim", array.shape)?;
        let dims = dims(None, None, &shape)?;
        let (range, name) = (start..start + u64::from(bytes.span.len), self.heap.text(dtype.name));
        let len = if bytes.is_latin_1 { self.heap.text(bytes.span).chars().count() } else { bytes.span.len as usize };
        let known = numpy_dtype(name).filter(|_| !dtype.is_structured);
        let size = known.and_then(|known| u8::try_from(known.unit_bytes()).ok()).and_then(NonZeroU8::new);
        let big_endian = size.filter(|size| dtype.is_big_endian && size.get() > 1);
        let codec = match (bytes.is_latin_1, big_endian) {
            (true, _) => Some(Codec::Latin1(big_endian)),
            (false, big_endian) => big_endian.map(Codec::BigEndian),
        };
        let Some(dtype) = known else {
            let order = if dtype.is_big_endian { ">" } else { "" };
            let info = TensorInfo::unknown(&format!("numpy.{order}{name}"), dims, len);
            return Ok(Some(FoundTensor { info, range, codec }));
        };
        let order: Vec<u8> = (0..dims.rank()).rev().filter_map(|dim| u8::try_from(dim).ok()).collect();
        let layout =
            if array.is_column_major && dims.rank() > 1 { Layout::from_dim_order(&order)? } else { Layout::RowMajor };
        let info = TensorInfo { dtype, shape: dims, layout };
        if info.payload_bytes() != Some(len) {
            let expected = TensorInfo::new(dtype, info.shape.clone());
            let what = format!("an array has {len} bytes, but it is {expected}");
            return Err(ErrorKind::Malformed { what }.into());
        }
        Ok(Some(FoundTensor { info, range, codec }))
    }

    /// Returns the range of a storage, after comparing its length with the pickle.
    fn range(&self, storage: &PickledStorage) -> Result<Range<u64>> {
        let key = self.heap.text(storage.key);
        let Some(range) = self.storages.ranges.get(key) else {
            let what = format!("the file does not have the storage `{}`", Short(key));
            return Err(ErrorKind::Malformed { what }.into());
        };
        let found = range.end - range.start;
        if storage.class.is_some() {
            // Nobody knows how many bytes an element has.
            return Ok(range.clone());
        }
        if storage.len.checked_mul(storage.tag.bytes) != Some(found) {
            let (key, count, bytes) = (Short(key), storage.len, storage.tag.bytes);
            let what =
                format!("storage `{key}` is {found} bytes, but the pickle says {count} elements of {bytes} bytes");
            return Err(Error::new(ErrorKind::Malformed { what }).at(range.start));
        }
        let Some((start, len)) = storage.view else { return Ok(range.clone()) };
        if start.checked_add(len).is_none_or(|end| end > storage.len) {
            let (key, of) = (Short(key), storage.len);
            let what = format!("{len} elements from {start} on are not in storage `{key}`, which has {of}");
            return Err(Error::new(ErrorKind::Malformed { what }).at(range.start));
        }
        let start = range.start + start * storage.tag.bytes;
        Ok(start..start + len * storage.tag.bytes)
    }

    fn located(&self, shape: Shape, placed: Placed, tag: &'static Tag, bits: TensorBits) -> Result<FoundTensor> {
        let changed = match (bits.conj, bits.neg) {
            (false, false) => "",
            (true, false) => " (conj)",
            (false, true) => " (neg)",
            (true, true) => " (conj, neg)",
        };
        let has_bits = bits != TensorBits::default();
        let negation = tag.dtype.filter(|_| has_bits).and_then(|dtype| negation(dtype, bits));
        let Some(dtype) = tag.dtype.filter(|_| negation.is_some() || !has_bits) else {
            let tag = format!("{}{changed}", tag_text(Some(tag), None));
            return Ok(self.located_as_bytes(shape, placed.range, &tag));
        };
        let info = TensorInfo { dtype, shape, layout: placed.layout };
        if info.payload_bytes().is_none() {
            return Err(InvalidTensor::TooLarge { dtype, shape: info.shape }.into());
        }
        let size = u8::try_from(dtype.unit_bytes()).ok().and_then(NonZeroU8::new);
        let big_endian = size.filter(|size| self.storages.is_big_endian && size.get() > 1);
        let bytes = placed.range.end - placed.range.start;
        let codec = match placed.strided {
            Some(strided) => Some(Codec::Strided(Box::new(Strided { big_endian, negation, ..*strided }))),
            None if negation.is_some() && bytes > 0 => {
                let strided = Strided { big_endian, negation, run: run_bytes(bytes)?, ..Strided::default() };
                Some(Codec::Strided(Box::new(strided)))
            }
            None => match self.storages.checksum(&placed.range) {
                Some(crc32) => Some(Codec::Zipped(Zipped { big_endian, is_deflated: false, head: 0, crc32 })),
                None if dtype == Dtype::Bool => Some(Codec::Bools),
                None => big_endian.map(Codec::BigEndian),
            },
        };
        Ok(FoundTensor { info, range: placed.range, codec })
    }

    fn without_elements(&self, kind: TensorKind, tag: Option<&Tag>, shape: Shape, place: u64) -> FoundTensor {
        self.located_as_bytes(shape, place..place, &tag_text(tag, Some(kind)))
    }

    /// A tensor of an unknown dtype, as stored: from the first byte of an element to the last one, in file order.
    fn located_as_bytes(&self, shape: Shape, range: Range<u64>, tag: &str) -> FoundTensor {
        let bytes = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        FoundTensor { info: TensorInfo::unknown(tag, shape, bytes), range, codec: None }
    }

    /// Returns the numbers in a tuple.
    fn numbers(&self, what: &'static str, tuple: u32) -> Result<Vec<u64>> {
        let values = self.heap.values(tuple);
        if values.len() as u64 > self.limits.rank {
            let (found, limit) = (values.len() as u64, self.limits.rank);
            return Err(ErrorKind::Limit { what: "rank", found, limit }.into());
        }
        let number = |value: &PickleValue| match *value {
            PickleValue::Int(number) => u64::try_from(number).map_err(|_| {
                Error::new(ErrorKind::BadNumber { what, found: number.into(), expected: "0 or more".to_owned() })
            }),
            other => {
                let found = format!("a {what} is {}, but expected an integer", other.kind());
                Err(ErrorKind::Malformed { what: found }.into())
            }
        };
        values.iter().map(number).collect()
    }
}

impl Storages {
    /// Returns the checksum of a range, if the range is all of a storage.
    fn checksum(&self, range: &Range<u64>) -> Option<u32> {
        self.checksums.get(&range.start).filter(|(end, _)| *end == range.end).map(|(_, crc32)| *crc32)
    }
}

/// Returns the type and the kind of a tensor, as far as they are known, as PyTorch calls them.
fn tag_text(tag: Option<&Tag>, kind: Option<TensorKind>) -> String {
    match (tag, kind) {
        (Some(tag), Some(kind)) => format!("torch.{} ({})", tag.name, kind.name()),
        (Some(tag), None) => format!("torch.{}", tag.name),
        (None, Some(kind)) => kind.name().to_owned(),
        (None, None) => String::new(),
    }
}

/// Returns the dims of a tensor of this type and kind.
fn dims(tag: Option<&Tag>, kind: Option<TensorKind>, shape: &[u64]) -> Result<Shape> {
    let dims: Option<Shape> = shape.iter().map(|dim| usize::try_from(*dim).ok()).collect();
    dims.ok_or_else(|| {
        let what = format!("{}{shape:?} takes more bytes than can be addressed", tag_text(tag, kind));
        ErrorKind::Malformed { what }.into()
    })
}

/// Returns the numbers to negate in tensors with these bits. `None` if the dtype cannot have them.
fn negation(dtype: Dtype, bits: TensorBits) -> Option<Negation> {
    let are_integers = match dtype {
        Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 | Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => true,
        Dtype::F16 | Dtype::Bf16 | Dtype::F32 | Dtype::F64 | Dtype::C64 | Dtype::C128 => false,
        _ => return None,
    };
    if bits.conj && !dtype.is_complex() {
        return None;
    }
    let bytes = u8::try_from(dtype.block_bytes() / if dtype.is_complex() { 2 } else { 1 }).ok()?;
    Some(Negation { bytes, are_integers, even_and_odd: [bits.neg, bits.neg != bits.conj] })
}
