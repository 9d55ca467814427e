//! Any serde format as a [`Sink`]: types that map to tensors implement `Serialize` with it.
//!
//! Everything here is generic over the format only and shared by all types.

use std::io;

use serde::ser::{Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeTuple, Serializer};
use serde_bytes::Bytes;

use super::error::{is_ours, to_ser};
use super::token;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Adapt, Entries, List, Sink, Store, StructDef, TensorData};
use crate::tensor::{Dtype, Layout, TensorInfo};

/// Serializes a value that maps to tensors: `impl Serialize` of all derived types.
///
/// # Errors
///
/// Errors of the serializer.
pub fn serialize_store<S: Serializer>(value: &dyn Store, serializer: S) -> Result<S::Ok, S::Error> {
    Part { value, adapt: &Adapt::NONE }.serialize(serializer)
}

/// A value inside of another, as serde sees it.
#[derive(Clone, Copy)]
struct Part<'a> {
    value: &'a dyn Store,
    adapt: &'a Adapt,
}

impl Serialize for Part<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut sink = SerdeSink::Open(serializer);
        let stored = self.value.store(&mut sink, self.adapt);
        match (sink, stored) {
            (SerdeSink::Failed(error), _) => Err(error),
            (_, Err(error)) => Err(to_ser(error)),
            (SerdeSink::Done(done), Ok(())) => Ok(done),
            (_, Ok(())) => Err(to_ser(misused("a value stored nothing"))),
        }
    }
}

/// A serde serializer, until it is used. An error of its own waits here while a marker goes up through the value.
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
    fn takes_dim_order(&self) -> bool {
        is_ours::<S::Error>()
    }

    fn tensor(&mut self, info: &TensorInfo, data: &dyn TensorData) -> Result<()> {
        let serializer = self.take()?;
        self.set(serialize_tensor(serializer, info, data))
    }

    fn fields(&mut self, def: &'static StructDef, values: &[&dyn Store]) -> Result<()> {
        let serializer = self.take()?;
        self.set((|| {
            let mut state = serializer.serialize_struct(def.name, values.len())?;
            for (field, value) in def.fields.iter().zip(values) {
                let part = Part { value: *value, adapt: &field.adapt };
                match field.adapt.tied.filter(|_| is_ours::<S::Error>()) {
                    _ if field.flatten => state.serialize_field(field.name, &Flattened(part))?,
                    Some(to) => state.serialize_field(field.name, &Tied { part, to })?,
                    None => state.serialize_field(field.name, &part)?,
                }
            }
            state.end()
        })())
    }

    fn list(&mut self, items: &dyn List, adapt: &Adapt) -> Result<()> {
        let serializer = self.take()?;
        self.set((|| {
            let mut seq = serializer.serialize_seq(Some(items.len()))?;
            for index in 0..items.len() {
                seq.serialize_element(&Part { value: items.item(index), adapt })?;
            }
            seq.end()
        })())
    }

    fn tuple(&mut self, items: &dyn List, adapt: &Adapt) -> Result<()> {
        let serializer = self.take()?;
        self.set((|| {
            let mut tuple = serializer.serialize_tuple(items.len())?;
            for index in 0..items.len() {
                tuple.serialize_element(&Part { value: items.item(index), adapt })?;
            }
            tuple.end()
        })())
    }

    fn map(&mut self, entries: &dyn Entries, adapt: &Adapt) -> Result<()> {
        let serializer = self.take()?;
        self.set((|| {
            let mut map = serializer.serialize_map(Some(entries.len()))?;
            let mut failed = None;
            let visited = entries.for_each(&mut |key, value| {
                map.serialize_entry(key, &Part { value, adapt }).map_err(|error| {
                    failed = Some(error);
                    misused("an error of the serde format")
                })
            });
            match (failed, visited) {
                (Some(error), _) => Err(error),
                (None, Err(error)) => Err(to_ser(error)),
                (None, Ok(())) => map.end(),
            }
        })())
    }

    fn option(&mut self, value: Option<&dyn Store>, adapt: &Adapt) -> Result<()> {
        let serializer = self.take()?;
        self.set(match value {
            Some(value) => serializer.serialize_some(&Part { value, adapt }),
            None => serializer.serialize_none(),
        })
    }
}

/// A field whose tensors are named as if they were fields of the struct around.
struct Flattened<'a>(Part<'a>);

impl Serialize for Flattened<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_newtype_struct(token::FLATTEN, &self.0)
    }
}

/// A field that is equal to another tensor, for our own serializer.
struct Tied<'a> {
    part: Part<'a>,
    to: &'static str,
}

impl Serialize for Tied<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_newtype_variant(token::TIED, 0, self.to, &self.part)
    }
}

/// Serializes a tensor as the struct of [`token`].
pub(super) fn serialize_tensor<S: Serializer>(
    serializer: S,
    info: &TensorInfo,
    data: &dyn TensorData,
) -> Result<S::Ok, S::Error> {
    if is_ours::<S::Error>() {
        let mut tensor = serializer.serialize_struct(token::TENSOR, 2)?;
        tensor.serialize_field(token::HEADER, Bytes::new(&token::encode_header(info)))?;
        tensor.serialize_field(token::DATA, &OwnPayload(data))?;
        return tensor.end();
    }
    let mut tensor = serializer.serialize_struct(token::TENSOR, token::TENSOR_FIELDS.len())?;
    tensor.serialize_field(token::DTYPE, &DtypeField(info.dtype))?;
    tensor.serialize_field(token::SHAPE, info.shape.dims())?;
    tensor.serialize_field(token::LAYOUT, &LayoutField(&info.layout))?;
    match data.as_bytes() {
        Some(bytes) => tensor.serialize_field(token::DATA, Bytes::new(bytes))?,
        None => {
            let mut bytes = Vec::new();
            data.write_to(&mut bytes).map_err(|error| to_ser(error.into()))?;
            tensor.serialize_field(token::DATA, Bytes::new(&bytes))?;
        }
    }
    tensor.end()
}

/// A payload for our own serializer: bytes, or a list of the storage id and pieces, so that nothing is gathered.
struct OwnPayload<'a>(&'a dyn TensorData);

impl Serialize for OwnPayload<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Some(bytes) = self.0.as_bytes() {
            return serializer.serialize_bytes(bytes);
        }
        let mut seq = serializer.serialize_seq(None)?;
        seq.serialize_element(&self.0.storage_id())?;
        let mut pieces = Pieces { seq: &mut seq, error: None };
        let written = self.0.write_to(&mut pieces);
        match (pieces.error, written) {
            (Some(error), _) => Err(error),
            (None, Err(error)) => Err(to_ser(error.into())),
            (None, Ok(())) => seq.end(),
        }
    }
}

/// A list of serde as a writer, each of whose elements is a piece.
struct Pieces<'a, Q: SerializeSeq> {
    seq: &'a mut Q,
    error: Option<Q::Error>,
}

impl<Q: SerializeSeq> io::Write for Pieces<'_, Q> {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.seq.serialize_element(Bytes::new(piece)).map_err(|error| {
            self.error = Some(error);
            io::Error::other("an error of the serde format")
        })?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
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
