//! Any serde format as a [`Sink`]: types that map to tensors implement `Serialize` with it.
//!
//! Everything here is generic over the format only and shared by all types.

use serde::ser::{Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeTuple, Serializer};
use serde_bytes::Bytes;

use super::error::{is_ours, to_ser};
use super::{own, token};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Entries, FieldAttrs, List, MetadataValue, Sink, Store, StructDef, TensorData, gather};
use crate::tensor::{Dtype, Layout, TensorInfo};

/// Serializes a value that maps to tensors: the `Serialize` impl of all derived types.
///
/// # Errors
///
/// Errors of the serializer.
// Not inlined, so that the copies in `compiled` are used.
#[inline(never)]
pub fn serialize_store<S: Serializer>(value: &dyn Store, mut serializer: S) -> Result<S::Ok, S::Error> {
    match own::sink(&mut serializer) {
        Some(sink) => value.store(sink, &FieldAttrs::NONE).map_err(to_ser)?,
        None => return SerdePart::Value(value, &FieldAttrs::NONE).serialize(serializer),
    }
    // The value was stored, so nothing is left. A `None` would be refused where names are omitted.
    serializer.serialize_unit()
}

/// A part of a value, as serde sees it: the only type our types pass to a serde format, except keys.
#[derive(Clone, Copy)]
enum SerdePart<'a> {
    Value(&'a dyn Store, &'a FieldAttrs),
    /// A field whose tensors are named like fields of the enclosing struct.
    Flattened(&'a dyn Store, &'a FieldAttrs),
    /// A field equal to another tensor, for our own serializer.
    Tied(&'a dyn Store, &'a FieldAttrs, &'static str),
    Dtype(Dtype),
    Dims(&'a [usize]),
    Layout(&'a Layout),
    DimOrder(&'a [u8]),
    Number(usize),
    Byte(u8),
    Payload(&'a Bytes),
    /// The value of a field that is metadata in tensor files, and an ordinary field elsewhere.
    Metadata(&'a MetadataValue),
}

impl Serialize for SerdePart<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Value(value, attrs) => {
                let mut sink = SerdeSink::Open(serializer);
                let stored = value.store(&mut sink, attrs);
                match (sink, stored) {
                    (SerdeSink::Failed(error), _) => Err(error),
                    (_, Err(error)) => Err(to_ser(error)),
                    (SerdeSink::Done(done), Ok(())) => Ok(done),
                    (_, Ok(())) => Err(to_ser(misused("a value stored nothing"))),
                }
            }
            Self::Flattened(value, attrs) => {
                serializer.serialize_newtype_struct(token::FLATTEN, &Self::Value(value, attrs))
            }
            Self::Tied(value, attrs, to) => {
                serializer.serialize_newtype_variant(token::TIED, 0, to, &Self::Value(value, attrs))
            }
            Self::Dtype(dtype) => serializer.serialize_unit_variant(token::DTYPE, dtype as u32, dtype.name()),
            Self::Dims(dims) => serialize_list(serializer, dims.len(), &mut |i| Self::Number(dims[i])),
            Self::Layout(layout) => match layout {
                Layout::RowMajor => serializer.serialize_unit_variant(token::LAYOUT, 0, token::ROW_MAJOR),
                Layout::DimOrder(order) => {
                    let order = Self::DimOrder(order.as_slice());
                    serializer.serialize_newtype_variant(token::LAYOUT, 1, token::DIM_ORDER, &order)
                }
                Layout::Coo { entries } => {
                    serializer.serialize_newtype_variant(token::LAYOUT, 2, token::COO, &Self::Number(*entries))
                }
                Layout::Blob => serializer.serialize_unit_variant(token::LAYOUT, 3, token::BLOB),
                Layout::Unknown(unknown) => {
                    let what = format!("serialize {}, an unknown dtype", unknown.tag());
                    let instead = "leave the tensor out".to_owned();
                    Err(to_ser(ErrorKind::Unsupported { what, instead }.into()))
                }
            },
            Self::DimOrder(order) => serialize_list(serializer, order.len(), &mut |i| Self::Byte(order[i])),
            Self::Number(number) => serializer.serialize_u64(number as u64),
            Self::Byte(byte) => serializer.serialize_u8(byte),
            Self::Payload(bytes) => bytes.serialize(serializer),
            Self::Metadata(value) => serialize_metadata(serializer, value),
        }
    }
}

fn serialize_metadata<S: Serializer>(serializer: S, value: &MetadataValue) -> Result<S::Ok, S::Error> {
    // Integers have 64 or 128 bits, because each call is compiled for every format of a program. NOTE: keep in step
    // with `deserialize_metadata` in `source.rs`.
    match *value {
        MetadataValue::Bool(value) => serializer.serialize_bool(value),
        MetadataValue::I8(value) => serializer.serialize_i64(value.into()),
        MetadataValue::I16(value) => serializer.serialize_i64(value.into()),
        MetadataValue::I32(value) => serializer.serialize_i64(value.into()),
        MetadataValue::I64(value) => serializer.serialize_i64(value),
        MetadataValue::I128(value) => serializer.serialize_i128(value),
        MetadataValue::U8(value) => serializer.serialize_u64(value.into()),
        MetadataValue::U16(value) => serializer.serialize_u64(value.into()),
        MetadataValue::U32(value) => serializer.serialize_u64(value.into()),
        MetadataValue::U64(value) => serializer.serialize_u64(value),
        MetadataValue::U128(value) => serializer.serialize_u128(value),
        MetadataValue::F32(value) => serializer.serialize_f32(value),
        MetadataValue::F64(value) => serializer.serialize_f64(value),
        MetadataValue::Char(value) => serializer.serialize_str(value.encode_utf8(&mut [0; 4])),
        MetadataValue::Text(ref value) => serializer.serialize_str(value),
        MetadataValue::Variant { of, index, name } => serializer.serialize_unit_variant(of, index, name),
    }
}

/// The error for metadata of a type inside a wrapper around our own serializer or deserializer.
pub(super) fn wrapped_metadata() -> Error {
    let what = "move metadata through `#[serde(flatten)]` or another wrapper".to_owned();
    ErrorKind::Unsupported {
        what,
        instead: "make the struct with the field the whole value, or a field of it".to_owned(),
    }
    .into()
}

fn serialize_list<'a, S: Serializer>(
    serializer: S,
    len: usize,
    item: &mut dyn FnMut(usize) -> SerdePart<'a>,
) -> Result<S::Ok, S::Error> {
    let mut seq = serializer.serialize_seq(Some(len))?;
    for i in 0..len {
        seq.serialize_element(&item(i))?;
    }
    seq.end()
}

/// A serde serializer, until it is used. Its error waits here while a marker goes up through the value.
enum SerdeSink<S: Serializer> {
    Open(S),
    Taken,
    Done(S::Ok),
    Failed(S::Error),
}

fn misused(what: &str) -> Error {
    ErrorKind::Message(what.to_owned()).into()
}

impl<S: Serializer> SerdeSink<S> {
    fn take(&mut self) -> Result<S> {
        match std::mem::replace(self, Self::Taken) {
            Self::Open(serializer) => Ok(serializer),
            _ => Err(misused("a value stored itself twice")),
        }
    }

    fn set(&mut self, result: Result<S::Ok, S::Error>) -> Result<()> {
        match result {
            Ok(done) => {
                *self = Self::Done(done);
                Ok(())
            }
            Err(error) => {
                *self = Self::Failed(error);
                Err(misused("an error of the serde format"))
            }
        }
    }
}

impl<S: Serializer> Sink for SerdeSink<S> {
    fn tensor(&mut self, info: &TensorInfo, data: &dyn TensorData) -> Result<()> {
        let serializer = self.take()?;
        self.set(serialize_tensor(serializer, info, data))
    }

    fn fields(&mut self, def: &'static StructDef, values: &[&dyn Store]) -> Result<()> {
        let serializer = self.take()?;
        self.set(serialize_fields(serializer, def, values))
    }

    fn list(&mut self, items: &dyn List, attrs: &FieldAttrs) -> Result<()> {
        let serializer = self.take()?;
        self.set(serialize_list(serializer, items.len(), &mut |i| SerdePart::Value(items.item(i), attrs)))
    }

    fn tuple(&mut self, items: &dyn List, attrs: &FieldAttrs) -> Result<()> {
        let serializer = self.take()?;
        self.set(serialize_tuple(serializer, items, attrs))
    }

    fn map(&mut self, entries: &dyn Entries, attrs: &FieldAttrs) -> Result<()> {
        let serializer = self.take()?;
        self.set(serialize_map(serializer, entries, attrs))
    }

    fn option(&mut self, value: Option<&dyn Store>, attrs: &FieldAttrs) -> Result<()> {
        let serializer = self.take()?;
        self.set(match value {
            Some(value) => serializer.serialize_some(&SerdePart::Value(value, attrs)),
            None => serializer.serialize_none(),
        })
    }

    fn metadata(&mut self, value: &MetadataValue) -> Result<()> {
        if is_ours::<S::Error>() {
            return Err(wrapped_metadata());
        }
        let serializer = self.take()?;
        self.set(SerdePart::Metadata(value).serialize(serializer))
    }
}

fn serialize_fields<S: Serializer>(
    serializer: S,
    def: &'static StructDef,
    values: &[&dyn Store],
) -> Result<S::Ok, S::Error> {
    let mut state = serializer.serialize_struct(def.name, values.len())?;
    for (field, value) in def.fields.iter().zip(values) {
        let part = match field.attrs.tied {
            _ if field.flatten => SerdePart::Flattened(*value, &field.attrs),
            Some(to) if is_ours::<S::Error>() => SerdePart::Tied(*value, &field.attrs, to),
            _ => SerdePart::Value(*value, &field.attrs),
        };
        state.serialize_field(field.name, &part)?;
    }
    state.end()
}

fn serialize_tuple<S: Serializer>(serializer: S, items: &dyn List, attrs: &FieldAttrs) -> Result<S::Ok, S::Error> {
    let mut tuple = serializer.serialize_tuple(items.len())?;
    for i in 0..items.len() {
        tuple.serialize_element(&SerdePart::Value(items.item(i), attrs))?;
    }
    tuple.end()
}

fn serialize_map<S: Serializer>(serializer: S, entries: &dyn Entries, attrs: &FieldAttrs) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(entries.len()))?;
    let mut failed = None;
    let visited = entries.for_each(&mut |key, value| {
        failed = map.serialize_entry(key, &SerdePart::Value(value, attrs)).err();
        if failed.is_some() { Err(misused("an error of the serde format")) } else { Ok(()) }
    });
    match (failed, visited) {
        (Some(error), _) => Err(error),
        (None, Err(error)) => Err(to_ser(error)),
        (None, Ok(())) => map.end(),
    }
}

/// Serializes a tensor as the struct of [`token`].
pub(super) fn serialize_tensor<S: Serializer>(
    serializer: S,
    info: &TensorInfo,
    data: &dyn TensorData,
) -> Result<S::Ok, S::Error> {
    let gathered;
    let bytes = match data.as_bytes() {
        Some(bytes) => bytes,
        None => {
            gathered = gather(info, data).map_err(|error| to_ser(error.into()))?;
            &gathered
        }
    };
    let mut tensor = serializer.serialize_struct(token::TENSOR, token::TENSOR_FIELDS.len())?;
    let parts = [
        SerdePart::Dtype(info.dtype),
        SerdePart::Dims(info.shape.dims()),
        SerdePart::Layout(&info.layout),
        SerdePart::Payload(Bytes::new(bytes)),
    ];
    for (name, part) in token::TENSOR_FIELDS.iter().zip(&parts) {
        tensor.serialize_field(name, part)?;
    }
    tensor.end()
}
