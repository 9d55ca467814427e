//! A tensor on its way out of a deserializer: its parts are checked, then its payload is taken over by whoever wants
//! it.

use std::fmt;

use bytemuck::Pod;
use serde::de::{DeserializeSeed, EnumAccess, Error as _, MapAccess, SeqAccess, VariantAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::handoff::take_info;
use super::token;
use crate::error::{Error, is_ours, raise};
use crate::tensor::{Buffer, DimOrder, Dtype, InvalidTensor, Layout, Shape, TensorInfo, check_coo, grow, le_to_host};

/// What a type does with a tensor of a file.
pub(crate) trait Receive<'de>: Sized {
    /// What becomes of the tensor.
    type Value;

    /// The type of the memory that a payload is gathered in where it comes in pieces.
    type Bits: Pod;

    /// Says what kind of tensor is wanted.
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// Refuses a tensor that is not wanted, before its payload is read.
    fn accept(&self, info: &TensorInfo) -> Result<(), Error>;

    /// Takes a payload that lives as long as the file.
    fn borrow(self, info: TensorInfo, payload: &'de [u8]) -> Result<Self::Value, Error> {
        self.copy(info, payload)
    }

    /// Takes a payload that is gone afterwards.
    fn copy(self, info: TensorInfo, payload: &[u8]) -> Result<Self::Value, Error>;

    /// Takes a payload that was gathered from pieces.
    fn gathered(self, info: TensorInfo, payload: Gathered<Self::Bits>) -> Result<Self::Value, Error> {
        self.copy(info, payload.bytes())
    }
}

/// Deserializes a tensor for `receiver`.
pub(crate) fn deserialize_tensor<'de, D: Deserializer<'de>, R: Receive<'de>>(
    deserializer: D,
    receiver: R,
) -> Result<R::Value, D::Error> {
    deserializer.deserialize_struct(token::TENSOR, token::TENSOR_FIELDS, TensorVisitor(receiver))
}

struct TensorVisitor<R>(R);

impl<'de, R: Receive<'de>> Visitor<'de> for TensorVisitor<R> {
    type Value = R::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<R::Value, A::Error> {
        let missing = |at| A::Error::invalid_length(at, &"a tensor's dtype, shape, layout and data");
        if let Some(info) = is_ours::<A::Error>().then(take_info).flatten() {
            self.0.accept(&info).map_err(raise)?;
            return seq.next_element_seed(Payload { info, receiver: self.0 })?.ok_or_else(|| missing(3));
        }
        let DtypeField(dtype) = seq.next_element()?.ok_or_else(|| missing(0))?;
        let ShapeField(shape) = seq.next_element()?.ok_or_else(|| missing(1))?;
        let LayoutField(layout) = seq.next_element()?.ok_or_else(|| missing(2))?;
        let info = head(dtype, shape, layout).map_err(raise)?;
        self.0.accept(&info).map_err(raise)?;
        seq.next_element_seed(Payload { info, receiver: self.0 })?.ok_or_else(|| missing(3))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<R::Value, A::Error> {
        let (mut dtype, mut shape, mut layout) = (None, None, None);
        let mut early: Option<Vec<u8>> = None;
        while let Some(key) = map.next_key::<Key>()? {
            match key {
                Key::Dtype => dtype = Some(map.next_value::<DtypeField>()?.0),
                Key::Shape => shape = Some(map.next_value::<ShapeField>()?.0),
                Key::Layout => layout = Some(map.next_value::<LayoutField>()?.0),
                // A format that sorts its keys gives the payload before what it is the payload of.
                Key::Data if dtype.is_none() || shape.is_none() || layout.is_none() => {
                    early = Some(map.next_value::<serde_bytes::ByteBuf>()?.into_vec());
                }
                Key::Data => {
                    let info = parts(&mut dtype, &mut shape, &mut layout)?;
                    self.0.accept(&info).map_err(raise)?;
                    let value = map.next_value_seed(Payload { info, receiver: self.0 })?;
                    return match map.next_key::<Key>()? {
                        None => Ok(value),
                        Some(_) => Err(A::Error::custom("a tensor has a field twice")),
                    };
                }
            }
        }
        let info = parts(&mut dtype, &mut shape, &mut layout)?;
        let payload = early.ok_or_else(|| A::Error::missing_field(token::DATA))?;
        self.0.accept(&info).map_err(raise)?;
        Payload { info, receiver: self.0 }.visit_bytes(&payload)
    }
}

/// The head of a tensor from its fields, each of which must have come.
fn parts<E: serde::de::Error>(
    dtype: &mut Option<Dtype>,
    shape: &mut Option<Shape>,
    layout: &mut Option<Layout>,
) -> Result<TensorInfo, E> {
    let dtype = dtype.take().ok_or_else(|| E::missing_field(token::DTYPE))?;
    let shape = shape.take().ok_or_else(|| E::missing_field(token::SHAPE))?;
    let layout = layout.take().ok_or_else(|| E::missing_field(token::LAYOUT))?;
    head(dtype, shape, layout).map_err(raise)
}

/// A dim order is one of the shape's dims; that of rows is no special layout.
fn head(dtype: Dtype, shape: Shape, layout: Layout) -> Result<TensorInfo, InvalidTensor> {
    let layout = match layout {
        Layout::DimOrder(order) if order.as_slice().len() != shape.rank() => {
            return Err(InvalidTensor::DimOrderRank { found: order.as_slice().len(), rank: shape.rank() });
        }
        Layout::DimOrder(order) if order.is_row_major() => Layout::RowMajor,
        layout => layout,
    };
    Ok(TensorInfo { dtype, shape, layout })
}

/// The payload of a tensor whose head is known.
struct Payload<R> {
    info: TensorInfo,
    receiver: R,
}

impl<R> Payload<R> {
    fn check<E: serde::de::Error>(&self, payload: &[u8]) -> Result<(), E> {
        self.info.check_payload(payload.len() as u64).map_err(raise)?;
        check_coo(&self.info, payload).map_err(raise)
    }
}

impl<'de, R: Receive<'de>> DeserializeSeed<'de> for Payload<R> {
    type Value = R::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<R::Value, D::Error> {
        deserializer.deserialize_bytes(self)
    }
}

impl<'de, R: Receive<'de>> Visitor<'de> for Payload<R> {
    type Value = R::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the bytes of a tensor")
    }

    fn visit_borrowed_bytes<E: serde::de::Error>(self, payload: &'de [u8]) -> Result<R::Value, E> {
        self.check(payload)?;
        self.receiver.borrow(self.info, payload).map_err(raise)
    }

    fn visit_bytes<E: serde::de::Error>(self, payload: &[u8]) -> Result<R::Value, E> {
        self.check(payload)?;
        self.receiver.copy(self.info, payload).map_err(raise)
    }

    /// Pieces, from a stream; or single bytes, from a format that has no bytes.
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<R::Value, A::Error> {
        let Some(expected) = self.info.payload_bytes() else {
            let TensorInfo { dtype, shape, .. } = self.info;
            return Err(raise(InvalidTensor::TooLarge { dtype, shape }));
        };
        let mut gathered = Gathered::<R::Bits>::new(expected);
        while seq.next_element_seed(Piece(&mut gathered))?.is_some() {}
        self.check(gathered.bytes())?;
        self.receiver.gathered(self.info, gathered).map_err(raise)
    }
}

/// A payload that grows as its pieces come in, in memory of the type that it will be.
///
/// What a file only promises is not allocated: the memory is never more than twice what has come, and never more than
/// what was promised.
pub(crate) struct Gathered<B> {
    bits: Vec<B>,
    /// The bytes in use; the last element may be in part.
    len: usize,
    expected: usize,
}

impl<B: Pod> Gathered<B> {
    const FIRST: usize = 1 << 20;

    fn new(expected: usize) -> Self {
        Self { bits: Vec::with_capacity(expected.min(Self::FIRST).div_ceil(size_of::<B>())), len: 0, expected }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.bits)[..self.len]
    }

    /// The elements, if they are whole.
    pub(crate) fn into_bits(self) -> Vec<B> {
        debug_assert_eq!(self.len, self.bits.len() * size_of::<B>(), "whole elements");
        let mut bits = self.bits;
        le_to_host(&mut bits);
        bits
    }

    fn push(&mut self, piece: &[u8]) {
        let spare = self.bits.len() * size_of::<B>() - self.len;
        let more = piece.len().saturating_sub(spare).div_ceil(size_of::<B>());
        grow(&mut self.bits, more, self.expected.div_ceil(size_of::<B>()));
        match bytemuck::try_cast_slice(piece) {
            Ok(elements) if spare == 0 => self.bits.extend_from_slice(elements),
            _ => {
                let len = (self.len + piece.len()).div_ceil(size_of::<B>());
                self.bits.resize(len, B::zeroed());
                bytemuck::cast_slice_mut(&mut self.bits)[self.len..self.len + piece.len()].copy_from_slice(piece);
            }
        }
        self.len += piece.len();
    }
}

impl Gathered<u64> {
    /// The bytes, without a copy.
    pub(crate) fn into_buffer(self) -> Buffer {
        Buffer::from_words(self.bits, self.len)
    }
}

/// One element of a payload's list: a run of bytes, or a number that is one byte.
struct Piece<'a, B>(&'a mut Gathered<B>);

impl<B: Pod> Piece<'_, B> {
    fn push<E: serde::de::Error>(self, piece: &[u8]) -> Result<(), E> {
        if piece.len() > self.0.expected - self.0.len {
            return Err(E::custom(format_args!("payload is longer than {} bytes", self.0.expected)));
        }
        self.0.push(piece);
        Ok(())
    }
}

impl<'de, B: Pod> DeserializeSeed<'de> for Piece<'_, B> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        // Formats that know no bytes list numbers of 8 bits; ours calls back with bytes whatever it is asked for.
        deserializer.deserialize_u8(self)
    }
}

impl<'de, B: Pod> Visitor<'de> for Piece<'_, B> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a byte")
    }

    fn visit_bytes<E: serde::de::Error>(self, piece: &[u8]) -> Result<(), E> {
        self.push(piece)
    }

    fn visit_u8<E: serde::de::Error>(self, byte: u8) -> Result<(), E> {
        self.push(&[byte])
    }

    fn visit_u64<E: serde::de::Error>(self, byte: u64) -> Result<(), E> {
        let byte = u8::try_from(byte).map_err(|_| E::custom(format_args!("{byte} is no byte")))?;
        self.push(&[byte])
    }

    fn visit_i64<E: serde::de::Error>(self, byte: i64) -> Result<(), E> {
        let byte = u8::try_from(byte).map_err(|_| E::custom(format_args!("{byte} is no byte")))?;
        self.push(&[byte])
    }
}

#[derive(Clone, Copy)]
enum Key {
    Dtype,
    Shape,
    Layout,
    Data,
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const KEYS: [Key; 4] = [Key::Dtype, Key::Shape, Key::Layout, Key::Data];
        deserializer.deserialize_identifier(Identifier(token::TENSOR_FIELDS)).map(|at| KEYS[at])
    }
}

/// Finds a name, or its number, in a list.
struct Identifier(&'static [&'static str]);

impl<'de> Visitor<'de> for Identifier {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "one of {}", self.0.join(", "))
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<usize, E> {
        self.0.iter().position(|&known| known == name).ok_or_else(|| E::unknown_variant(name, self.0))
    }

    fn visit_bytes<E: serde::de::Error>(self, name: &[u8]) -> Result<usize, E> {
        self.visit_str(&String::from_utf8_lossy(name))
    }

    fn visit_u64<E: serde::de::Error>(self, at: u64) -> Result<usize, E> {
        usize::try_from(at)
            .ok()
            .filter(|at| *at < self.0.len())
            .ok_or_else(|| E::custom(format_args!("{at} is no number of {}", self.0.join(", "))))
    }
}

impl<'de> DeserializeSeed<'de> for Identifier {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

struct DtypeField(Dtype);

impl<'de> Deserialize<'de> for DtypeField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct DtypeVisitor;

        impl<'de> Visitor<'de> for DtypeVisitor {
            type Value = DtypeField;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a dtype")
            }

            fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<DtypeField, A::Error> {
                let (at, variant) = access.variant_seed(Identifier(Dtype::NAMES))?;
                variant.unit_variant().map(|()| DtypeField(Dtype::ALL[at]))
            }
        }

        deserializer.deserialize_enum(token::DTYPE, Dtype::NAMES, DtypeVisitor)
    }
}

struct ShapeField(Shape);

impl<'de> Deserialize<'de> for ShapeField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ShapeVisitor;

        impl<'de> Visitor<'de> for ShapeVisitor {
            type Value = ShapeField;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of dims")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<ShapeField, A::Error> {
                let mut shape = Shape::default();
                while let Some(dim) = seq.next_element()? {
                    shape.push(dim);
                }
                Ok(ShapeField(shape))
            }
        }

        deserializer.deserialize_seq(ShapeVisitor)
    }
}

struct LayoutField(Layout);

impl<'de> Deserialize<'de> for LayoutField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LayoutVisitor;

        impl<'de> Visitor<'de> for LayoutVisitor {
            type Value = LayoutField;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a layout")
            }

            fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<LayoutField, A::Error> {
                let (at, variant) = access.variant_seed(Identifier(token::LAYOUTS))?;
                let layout = match token::LAYOUTS[at] {
                    token::ROW_MAJOR => variant.unit_variant().map(|()| Layout::RowMajor)?,
                    token::BLOB => variant.unit_variant().map(|()| Layout::Blob)?,
                    token::DIM_ORDER => {
                        let order: Vec<u8> = variant.newtype_variant()?;
                        Layout::DimOrder(DimOrder::new(&order).map_err(raise)?)
                    }
                    _ => Layout::Coo { entries: variant.newtype_variant()? },
                };
                Ok(LayoutField(layout))
            }
        }

        deserializer.deserialize_enum(token::LAYOUT, token::LAYOUTS, LayoutVisitor)
    }
}
