use serde::ser::{Impossible, Serialize, SerializeSeq, SerializeTuple};

use crate::error::{Error, ErrorKind, Result};
use crate::model::handoff::take_info;
use crate::model::token;
use crate::tensor::{Dtype, Layout, Shape, TensorInfo};

/// The fields of a tensor before its data, caught one by one.
#[derive(Debug, Default)]
pub(super) struct Head {
    dtype: Option<Dtype>,
    shape: Shape,
    layout: Layout,
}

impl Head {
    pub(super) fn set<T: Serialize + ?Sized>(&mut self, field: &'static str, value: &T) -> Result<()> {
        let mut caught = Caught::default();
        value.serialize(&mut caught)?;
        match field {
            token::DTYPE => self.dtype = caught.dtype,
            token::SHAPE => self.shape = caught.numbers,
            token::LAYOUT => self.layout = caught.into_layout()?,
            // Only ndarray's own struct has a number here.
            "v" if caught.numbers == [1] => {}
            _ => return Err(not_ours()),
        }
        Ok(())
    }

    /// The head: handed over by a type of ours, or caught from another.
    pub(super) fn take_info(&mut self) -> Result<TensorInfo> {
        if let Some(info) = take_info() {
            return Ok(info);
        }
        let dtype = self.dtype.take().ok_or_else(not_ours)?;
        Ok(TensorInfo { dtype, shape: self.take_shape(), layout: std::mem::take(&mut self.layout) })
    }

    pub(super) fn take_shape(&mut self) -> Shape {
        std::mem::take(&mut self.shape)
    }
}

/// A short value: a dtype, a list of numbers, or a layout.
#[derive(Debug, Default)]
struct Caught {
    dtype: Option<Dtype>,
    numbers: Shape,
    variant: Option<&'static str>,
}

impl Caught {
    fn into_layout(self) -> Result<Layout> {
        match self.variant {
            Some(token::ROW_MAJOR) => Ok(Layout::RowMajor),
            Some(token::BLOB) => Ok(Layout::Blob),
            Some(token::DIM_ORDER) => {
                let order: Option<Vec<u8>> = self.numbers.iter().map(|&dim| u8::try_from(dim).ok()).collect();
                Ok(Layout::from_dim_order(&order.ok_or_else(not_ours)?)?)
            }
            Some(token::COO) => Ok(Layout::Coo { entries: *self.numbers.first().ok_or_else(not_ours)? }),
            _ => Err(not_ours()),
        }
    }

    fn number(&mut self, number: impl TryInto<usize>) -> Result<()> {
        self.numbers.push(number.try_into().map_err(|_| not_ours())?);
        Ok(())
    }
}

/// Only a struct that borrowed our private name, or ndarray's, can come here.
fn not_ours() -> Error {
    let instead = "a struct `Array` of three fields is taken for ndarray's own, so give it another name";
    ErrorKind::NotATensor { found: "a struct that is named like a tensor but has other fields", instead }.into()
}

macro_rules! numbers {
    ($($method:ident($number:ty)),*) => {$(
        fn $method(self, value: $number) -> Result<()> {
            self.number(value)
        }
    )*};
}

macro_rules! refused {
    ($($method:ident($($argument:ty),*) -> $ok:ty;)*) => {$(
        fn $method(self, $(_: $argument),*) -> Result<$ok> {
            Err(not_ours())
        }
    )*};
}

impl<'a> serde::Serializer for &'a mut Caught {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = &'a mut Caught;
    type SerializeTuple = &'a mut Caught;
    type SerializeTupleStruct = Impossible<(), Error>;
    type SerializeTupleVariant = Impossible<(), Error>;
    type SerializeMap = Impossible<(), Error>;
    type SerializeStruct = Impossible<(), Error>;
    type SerializeStructVariant = Impossible<(), Error>;

    numbers! {
        serialize_i8(i8), serialize_i16(i16), serialize_i32(i32), serialize_i64(i64),
        serialize_u8(u8), serialize_u16(u16), serialize_u32(u32), serialize_u64(u64)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self> {
        Ok(self)
    }

    fn serialize_tuple(self, _: usize) -> Result<Self> {
        Ok(self)
    }

    fn serialize_unit_variant(self, name: &'static str, at: u32, variant: &'static str) -> Result<()> {
        match name {
            token::DTYPE => self.dtype = Dtype::ALL.get(at as usize).copied(),
            _ => self.variant = Some(variant),
        }
        Ok(())
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<()> {
        self.variant = Some(variant);
        value.serialize(self)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<()> {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<()> {
        value.serialize(self)
    }

    refused! {
        serialize_bool(bool) -> ();
        serialize_f32(f32) -> ();
        serialize_f64(f64) -> ();
        serialize_char(char) -> ();
        serialize_str(&str) -> ();
        serialize_bytes(&[u8]) -> ();
        serialize_none() -> ();
        serialize_unit() -> ();
        serialize_unit_struct(&'static str) -> ();
        serialize_tuple_struct(&'static str, usize) -> Impossible<(), Error>;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> Impossible<(), Error>;
        serialize_map(Option<usize>) -> Impossible<(), Error>;
        serialize_struct(&'static str, usize) -> Impossible<(), Error>;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> Impossible<(), Error>;
    }
}

impl SerializeSeq for &mut Caught {
    type Ok = ();
    type Error = Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        value.serialize(&mut **self)
    }

    fn end(self) -> Result<()> {
        Ok(())
    }
}

impl SerializeTuple for &mut Caught {
    type Ok = ();
    type Error = Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        value.serialize(&mut **self)
    }

    fn end(self) -> Result<()> {
        Ok(())
    }
}
