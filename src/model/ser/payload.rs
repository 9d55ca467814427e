use serde::ser::{Impossible, Serialize, SerializeSeq};

use crate::error::{Error, ErrorKind, Result};
use crate::model::handoff::with_place;
use crate::tensor::{DimOrder, Shape, TensorInfo, bytes_in_row_major};

/// The bytes of a tensor on their way to a sink.
#[derive(Debug)]
pub struct Payload<'a, P: ?Sized> {
    /// Serializes itself as bytes or as a list of bytes.
    value: &'a P,
    /// What the bytes come as, where the sink wants them in row-major order and they are not.
    reorder: Option<(TensorInfo, DimOrder)>,
    /// The tensor that this one is the same as, by what the type says.
    tied: Option<&'static str>,
}

/// Where a payload lies in memory, and how it is reordered on its way.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Memory {
    place: Place,
    reorder: Option<(Shape, DimOrder)>,
}

#[derive(Debug, PartialEq, Eq, Hash)]
enum Place {
    /// Where the bytes begin, and how many they are.
    Address(usize, usize),
    /// The number that the value tells.
    Told(u64),
}

impl<'a, P: Serialize + ?Sized> Payload<'a, P> {
    pub(crate) fn new(value: &'a P) -> Self {
        Self { value, reorder: None, tied: None }
    }

    /// A payload in another order, to be passed on in row-major order as `info`.
    pub(super) fn reordered(value: &'a P, info: TensorInfo, order: DimOrder) -> Self {
        Self { value, reorder: Some((info, order)), tied: None }
    }

    pub(super) fn tied(mut self, to: Option<&'static str>) -> Self {
        self.tied = to;
        self
    }

    /// What serializes itself as the bytes, in the order of their memory.
    #[cfg(feature = "shards")]
    pub(crate) fn value(&self) -> &'a P {
        self.value
    }

    /// The absolute name of the tensor that this one is the same as, by what the type says.
    pub(crate) fn tied_to(&self) -> Option<&'static str> {
        self.tied
    }

    /// Where the bytes lie: in memory, if they come in one piece, or where the value says. Another payload may have lain
    /// there before.
    pub(crate) fn memory(&self) -> Option<Memory> {
        let mut found = None;
        let mut look = |piece: &[u8]| {
            found = Some(Place::Address(piece.as_ptr() as usize, piece.len()));
            Ok(())
        };
        // One that comes in pieces is refused before the first is made.
        let look = || self.value.serialize(Pour { take: &mut look, takes_pieces: false });
        let (_, told) = with_place(look);
        let place = found.or(told.map(Place::Told))?;
        let reorder = self.reorder.as_ref().map(|(info, order)| (info.shape.clone(), order.clone()));
        Some(Memory { place, reorder })
    }

    /// Passes the bytes to `take`, in one piece or in several.
    pub(crate) fn pour(&self, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let Some((info, order)) = &self.reorder else { return self.value.serialize(Pour::new(&mut take)) };
        let mut gathered = Vec::new();
        self.value.serialize(Pour::new(&mut |piece| {
            // What lies in memory comes as one piece and need not be gathered.
            if gathered.is_empty() && info.payload_bytes() == Some(piece.len()) {
                return bytes_in_row_major(piece, &info.shape, order, &mut take);
            }
            gathered.extend_from_slice(piece);
            Ok(())
        }))?;
        match info.payload_bytes() == Some(gathered.len()) {
            true => bytes_in_row_major(&gathered, &info.shape, order, take),
            false => take(&gathered),
        }
    }
}

struct Pour<'a> {
    take: &'a mut dyn FnMut(&[u8]) -> Result<()>,
    takes_pieces: bool,
}

impl<'a> Pour<'a> {
    fn new(take: &'a mut dyn FnMut(&[u8]) -> Result<()>) -> Self {
        Self { take, takes_pieces: true }
    }
}

fn no_bytes() -> Error {
    ErrorKind::NotATensor { found: "a payload that is not bytes", instead: "expected bytes or a list of bytes" }.into()
}

macro_rules! refused {
    ($($method:ident($($argument:ty),*) -> $ok:ty;)*) => {$(
        fn $method(self, $(_: $argument),*) -> Result<$ok> {
            Err(no_bytes())
        }
    )*};
}

impl serde::Serializer for Pour<'_> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Self;
    type SerializeTuple = Impossible<(), Error>;
    type SerializeTupleStruct = Impossible<(), Error>;
    type SerializeTupleVariant = Impossible<(), Error>;
    type SerializeMap = Impossible<(), Error>;
    type SerializeStruct = Impossible<(), Error>;
    type SerializeStructVariant = Impossible<(), Error>;

    fn serialize_bytes(self, bytes: &[u8]) -> Result<()> {
        (self.take)(bytes)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self> {
        if !self.takes_pieces {
            return Err(no_bytes());
        }
        Ok(self)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<()> {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<()> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<()> {
        Err(no_bytes())
    }

    refused! {
        serialize_bool(bool) -> ();
        serialize_i8(i8) -> ();
        serialize_i16(i16) -> ();
        serialize_i32(i32) -> ();
        serialize_i64(i64) -> ();
        serialize_u8(u8) -> ();
        serialize_u16(u16) -> ();
        serialize_u32(u32) -> ();
        serialize_u64(u64) -> ();
        serialize_f32(f32) -> ();
        serialize_f64(f64) -> ();
        serialize_char(char) -> ();
        serialize_str(&str) -> ();
        serialize_none() -> ();
        serialize_unit() -> ();
        serialize_unit_struct(&'static str) -> ();
        serialize_unit_variant(&'static str, u32, &'static str) -> ();
        serialize_tuple(usize) -> Impossible<(), Error>;
        serialize_tuple_struct(&'static str, usize) -> Impossible<(), Error>;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> Impossible<(), Error>;
        serialize_map(Option<usize>) -> Impossible<(), Error>;
        serialize_struct(&'static str, usize) -> Impossible<(), Error>;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> Impossible<(), Error>;
    }
}

impl SerializeSeq for Pour<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        value.serialize(Pour::new(&mut *self.take))
    }

    fn end(self) -> Result<()> {
        Ok(())
    }
}
