//! A tensor on its way out of a serde format: the struct of [`token`](super::token).

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, EnumAccess, Error as _, MapAccess, SeqAccess, VariantAccess, Visitor};

use super::error::{is_ours, to_de};
use super::token;
use crate::error::Result;
use crate::model::{Loaded, Payload, TensorSpec};
use crate::tensor::{Buffer, DimOrder, Dtype, InvalidTensor, Layout, Shape, TensorInfo};

/// Receives a tensor. Its header is checked before its payload is read.
pub(super) struct TensorVisitor<'a>(pub(super) &'a TensorSpec);

impl TensorVisitor<'_> {
    fn payload<E: serde::de::Error>(&self, info: TensorInfo) -> Result<PayloadSeed, E> {
        self.0.check(&info).map_err(|kind| to_de(kind.into()))?;
        Ok(PayloadSeed(info))
    }
}

impl<'de> Visitor<'de> for TensorVisitor<'_> {
    type Value = Loaded<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    /// The fields in order; from our own deserializer the header at once.
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Loaded<'de>, A::Error> {
        let missing = |at| A::Error::invalid_length(at, &"a tensor's dtype, shape, layout and data");
        let info = if is_ours::<A::Error>() {
            seq.next_element_seed(HeaderSeed)?.ok_or_else(|| missing(0))?
        } else {
            let dtype = seq.next_element_seed(DtypeSeed)?.ok_or_else(|| missing(0))?;
            let shape = seq.next_element_seed(ShapeSeed)?.ok_or_else(|| missing(1))?;
            let layout = seq.next_element_seed(LayoutSeed)?.ok_or_else(|| missing(2))?;
            header(dtype, shape, layout)?
        };
        seq.next_element_seed(self.payload(info)?)?.ok_or_else(|| missing(3))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Loaded<'de>, A::Error> {
        let (mut dtype, mut shape, mut layout, mut early) = (None, None, None, None);
        while let Some(field) = map.next_key_seed(Name(token::TENSOR_FIELDS))? {
            match token::TENSOR_FIELDS[field] {
                token::DTYPE => dtype = Some(map.next_value_seed(DtypeSeed)?),
                token::SHAPE => shape = Some(map.next_value_seed(ShapeSeed)?),
                token::LAYOUT => layout = Some(map.next_value_seed(LayoutSeed)?),
                _ => match (dtype, shape.take(), layout.take()) {
                    (Some(dtype), Some(shape), Some(layout)) => {
                        let loaded = map.next_value_seed(self.payload(header(dtype, shape, layout)?)?)?;
                        return match map.next_key_seed(Name(token::TENSOR_FIELDS))? {
                            None => Ok(loaded),
                            Some(_) => Err(A::Error::custom("a tensor has a field twice")),
                        };
                    }
                    // A format that sorts its keys gives the payload before its header.
                    (_, before_shape, before_layout) => {
                        (shape, layout) = (before_shape, before_layout);
                        early = Some(map.next_value::<serde_bytes::ByteBuf>()?);
                    }
                },
            }
        }
        let dtype = dtype.ok_or_else(|| A::Error::missing_field(token::DTYPE))?;
        let shape = shape.ok_or_else(|| A::Error::missing_field(token::SHAPE))?;
        let layout = layout.ok_or_else(|| A::Error::missing_field(token::LAYOUT))?;
        let seed = self.payload(header(dtype, shape, layout)?)?;
        seed.visit_bytes(&early.ok_or_else(|| A::Error::missing_field(token::DATA))?)
    }
}

/// A dim order has a dim for each of the shape's; row-major order is not one.
fn header<E: serde::de::Error>(dtype: Dtype, shape: Shape, layout: Layout) -> Result<TensorInfo, E> {
    let layout = match layout {
        Layout::DimOrder(order) if order.as_slice().len() != shape.rank() => {
            let wrong = InvalidTensor::DimOrderRank { found: order.as_slice().len(), rank: shape.rank() };
            return Err(to_de(wrong.into()));
        }
        Layout::DimOrder(order) if order.is_row_major() => Layout::RowMajor,
        layout => layout,
    };
    Ok(TensorInfo { dtype, shape, layout })
}

/// The header that our own deserializer gives as bytes.
struct HeaderSeed;

impl<'de> DeserializeSeed<'de> for HeaderSeed {
    type Value = TensorInfo;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<TensorInfo, D::Error> {
        deserializer.deserialize_bytes(self)
    }
}

impl<'de> Visitor<'de> for HeaderSeed {
    type Value = TensorInfo;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the header of a tensor")
    }

    fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<TensorInfo, E> {
        token::decode_header(bytes).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Bytes(bytes), &self))
    }
}

/// The payload of a tensor with this header.
struct PayloadSeed(TensorInfo);

impl PayloadSeed {
    fn loaded<E: serde::de::Error>(self, payload: Payload<'_>) -> Result<Loaded<'_>, E> {
        Loaded::new(self.0, payload).map_err(to_de)
    }
}

impl<'de> DeserializeSeed<'de> for PayloadSeed {
    type Value = Loaded<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Loaded<'de>, D::Error> {
        deserializer.deserialize_bytes(self)
    }
}

impl<'de> Visitor<'de> for PayloadSeed {
    type Value = Loaded<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the bytes of a tensor")
    }

    fn visit_borrowed_bytes<E: serde::de::Error>(self, bytes: &'de [u8]) -> Result<Loaded<'de>, E> {
        self.loaded(Payload::Borrowed(bytes))
    }

    fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Loaded<'de>, E> {
        self.0.check_payload(bytes.len() as u64).map_err(|error| to_de(error.into()))?;
        let buffer = Buffer::from_slice(self.0.element_bytes(), bytes);
        self.loaded(Payload::Owned(buffer))
    }

    /// Pieces from our own deserializer, or single bytes from a format without bytes.
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Loaded<'de>, A::Error> {
        /// The memory that is allocated before the first piece arrives.
        const FIRST: usize = 1 << 20;

        let Some(expected) = self.0.payload_bytes() else {
            let TensorInfo { dtype, shape, .. } = self.0;
            return Err(to_de(InvalidTensor::TooLarge { dtype, shape }.into()));
        };
        let mut buffer = Buffer::with_capacity(self.0.element_bytes(), expected.min(FIRST));
        while seq.next_element_seed(Piece { buffer: &mut buffer, expected })?.is_some() {}
        self.loaded(Payload::Owned(buffer))
    }
}

/// An element of a payload's list: a run of bytes, or a number that is one byte.
struct Piece<'a> {
    buffer: &'a mut Buffer,
    expected: usize,
}

impl Piece<'_> {
    fn append<E: serde::de::Error>(self, piece: &[u8]) -> Result<(), E> {
        if piece.len() > self.expected - self.buffer.len() {
            return Err(E::custom(format_args!("payload is longer than {} bytes", self.expected)));
        }
        self.buffer.append(piece, self.expected);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Piece<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        // Formats without bytes list numbers of 8 bits. Our own deserializer gives bytes for any call.
        deserializer.deserialize_u8(self)
    }
}

impl<'de> Visitor<'de> for Piece<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a byte")
    }

    fn visit_bytes<E: serde::de::Error>(self, piece: &[u8]) -> Result<(), E> {
        self.append(piece)
    }

    fn visit_u8<E: serde::de::Error>(self, byte: u8) -> Result<(), E> {
        self.append(&[byte])
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<(), E> {
        let byte = u8::try_from(number).map_err(|_| E::custom(format_args!("{number} is not a byte")))?;
        self.append(&[byte])
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<(), E> {
        let byte = u8::try_from(number).map_err(|_| E::custom(format_args!("{number} is not a byte")))?;
        self.append(&[byte])
    }
}

/// Finds a name, or its number, in a list.
struct Name(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for Name {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl<'de> Visitor<'de> for Name {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "one of {}", self.0.join(", "))
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<usize, E> {
        self.0.iter().position(|known| *known == name).ok_or_else(|| E::unknown_variant(name, self.0))
    }

    fn visit_bytes<E: serde::de::Error>(self, name: &[u8]) -> Result<usize, E> {
        self.visit_str(&String::from_utf8_lossy(name))
    }

    fn visit_u64<E: serde::de::Error>(self, at: u64) -> Result<usize, E> {
        let known = usize::try_from(at).ok().filter(|at| *at < self.0.len());
        known.ok_or_else(|| E::custom(format_args!("{at} is not the number of one of {}", self.0.join(", "))))
    }
}

struct DtypeSeed;

impl<'de> DeserializeSeed<'de> for DtypeSeed {
    type Value = Dtype;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Dtype, D::Error> {
        deserializer.deserialize_enum(token::DTYPE, Dtype::NAMES, self)
    }
}

impl<'de> Visitor<'de> for DtypeSeed {
    type Value = Dtype;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a dtype")
    }

    fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<Dtype, A::Error> {
        let (at, variant) = access.variant_seed(Name(Dtype::NAMES))?;
        variant.unit_variant()?;
        Ok(Dtype::ALL[at])
    }
}

struct ShapeSeed;

impl<'de> DeserializeSeed<'de> for ShapeSeed {
    type Value = Shape;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Shape, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for ShapeSeed {
    type Value = Shape;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of dims")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Shape, A::Error> {
        let mut shape = Shape::default();
        while let Some(dim) = seq.next_element()? {
            shape.push(dim);
        }
        Ok(shape)
    }
}

struct LayoutSeed;

impl<'de> DeserializeSeed<'de> for LayoutSeed {
    type Value = Layout;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Layout, D::Error> {
        deserializer.deserialize_enum(token::LAYOUT, token::LAYOUTS, self)
    }
}

impl<'de> Visitor<'de> for LayoutSeed {
    type Value = Layout;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a layout")
    }

    fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<Layout, A::Error> {
        let (at, variant) = access.variant_seed(Name(token::LAYOUTS))?;
        match token::LAYOUTS[at] {
            token::ROW_MAJOR => variant.unit_variant().map(|()| Layout::RowMajor),
            token::BLOB => variant.unit_variant().map(|()| Layout::Blob),
            token::DIM_ORDER => {
                let order: Vec<u8> = variant.newtype_variant()?;
                DimOrder::new(&order).map(Layout::DimOrder).map_err(|error| to_de(error.into()))
            }
            _ => Ok(Layout::Coo { entries: variant.newtype_variant()? }),
        }
    }
}
