//! A tensor on its way into a serializer: the struct of [`token`], with the payload in one piece or in several.

use std::borrow::Cow;

use serde::ser::{SerializeSeq, SerializeStruct};
use serde::{Serialize, Serializer};
use serde_bytes::Bytes;

use super::handoff::with_info;
use super::token;
use crate::error::is_ours;
use crate::tensor::{Dtype, Layout, TensorInfo};

/// Serializes a tensor whose payload is `data`.
pub(crate) fn serialize_tensor<S: Serializer, P: Serialize + ?Sized>(
    serializer: S,
    info: &TensorInfo,
    data: &P,
) -> Result<S::Ok, S::Error> {
    let mut tensor = serializer.serialize_struct(token::TENSOR, token::TENSOR_FIELDS.len())?;
    if is_ours::<S::Error>() {
        with_info(info.clone(), || tensor.serialize_field(token::DATA, data))?;
        return tensor.end();
    }
    tensor.serialize_field(token::DTYPE, &DtypeField(info.dtype))?;
    tensor.serialize_field(token::SHAPE, info.shape.dims())?;
    tensor.serialize_field(token::LAYOUT, &LayoutField(&info.layout))?;
    tensor.serialize_field(token::DATA, data)?;
    tensor.end()
}

/// A payload that does not lie in memory as one run of bytes.
///
/// Our serializers are given its pieces as a list; other formats would not know that the list is one value, so they are
/// given a copy in one piece.
pub(crate) trait Pieces {
    /// Calls `take` with each piece in turn.
    fn for_each<E>(&self, take: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E>;
}

/// [`Pieces`] as serde sees them.
pub(crate) struct InPieces<P>(pub(crate) P);

impl<P: Pieces> Serialize for InPieces<P> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if is_ours::<S::Error>() {
            let mut seq = serializer.serialize_seq(None)?;
            self.0.for_each(|piece| seq.serialize_element(Bytes::new(piece)))?;
            return seq.end();
        }
        let mut whole = Vec::new();
        self.0.for_each(|piece| {
            whole.extend_from_slice(piece);
            Ok::<(), S::Error>(())
        })?;
        serializer.serialize_bytes(&whole)
    }
}

impl<const N: usize> Pieces for [Cow<'_, [u8]>; N] {
    fn for_each<E>(&self, take: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        self.iter().map(|piece| &**piece).try_for_each(take)
    }
}

struct DtypeField(Dtype);

impl Serialize for DtypeField {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit_variant(token::DTYPE, self.0 as u32, self.0.name())
    }
}

struct LayoutField<'a>(&'a Layout);

impl Serialize for LayoutField<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Layout::RowMajor => serializer.serialize_unit_variant(token::LAYOUT, 0, token::ROW_MAJOR),
            Layout::DimOrder(order) => {
                serializer.serialize_newtype_variant(token::LAYOUT, 1, token::DIM_ORDER, order.as_slice())
            }
            Layout::Coo { entries } => serializer.serialize_newtype_variant(token::LAYOUT, 2, token::COO, entries),
            Layout::Blob => serializer.serialize_unit_variant(token::LAYOUT, 3, token::BLOB),
        }
    }
}
