//! [`Deserializer`] as serde's: plain serde values take their tensors from a file.
//!
//! The generic methods are compiled once for each visitor of a user, so they only choose between one visit and another.
//! All that is found is found by methods that are not generic.

mod entries;
mod fields;
mod items;
mod number;
mod tensor;

use std::cell::Cell;

use serde::de::{DeserializeSeed, Visitor};

use self::entries::EntriesAccess;
pub(super) use self::entries::parse_key;
use self::fields::FieldsAccess;
use self::items::{FieldsInOrder, ItemsAccess, ItemsInOrder};
use self::number::{NumberDeserializer, NumbersAccess};
use self::tensor::{HeaderAndPayload, NdarrayAccess, TensorFields, visit_payload};
use super::token;
use crate::error::{Error, ErrorKind, Result};
use crate::find::{At, Deserializer, Fields, FieldsWalk, RootKind};
use crate::model::{KeyPart, Loaded, Mark, Node, needs_names};
use crate::tensor::{Dtype, Layout, TensorInfo};

thread_local! {
    static NODE: Cell<Option<fn() -> Node>> = const { Cell::new(None) };
}

/// Tells the next call of a [`Deserializer`] the type that it is for. serde has no argument for it.
pub(super) fn set_node(node: Option<fn() -> Node>) {
    NODE.set(node);
}

fn take_node() -> Option<Node> {
    NODE.take().map(|node| node())
}

/// The items of a list, as they are found.
enum Items<'de> {
    /// By position.
    InOrder,
    /// By their numbers in the names.
    ByName(At),
    /// One tensor that has the numbers.
    Numbers(usize, Loaded<'de>),
}

impl<'de> Deserializer<'de> {
    /// Returns the tensor here and its number. Its elements are in row-major order.
    fn row_major(&mut self) -> Result<(usize, Loaded<'de>)> {
        let at = self.locate()?;
        let info = self.reader.info(at).clone();
        let loaded = check_row_major(&info)
            .and_then(|()| self.reader.payload(at))
            .and_then(|payload| Loaded::new(info, payload));
        loaded.map(|loaded| (at, loaded)).map_err(|error| self.about(at, error))
    }

    /// Returns the tensor of rank 0 here, or the list of numbers that begins here.
    fn number(&mut self) -> Result<(usize, Loaded<'de>, bool)> {
        let opens_list = std::mem::take(&mut self.opens_list);
        let (at, tensor) = self.row_major()?;
        let opens_list = opens_list && tensor.info().shape.rank() == 1 && !tensor.as_bytes().is_empty();
        check_rank(tensor.info(), usize::from(opens_list)).map_err(|error| self.about(at, error))?;
        Ok((at, tensor, opens_list))
    }

    fn visit_number<V: Visitor<'de>>(
        &mut self,
        visitor: V,
        visit: fn(NumberDeserializer<'_>, V) -> Result<V::Value>,
    ) -> Result<V::Value> {
        let (at, tensor, opens_list) = self.number()?;
        let first = &tensor.as_bytes()[..tensor.info().dtype.block_bytes()];
        let visited = visit(NumberDeserializer::new(tensor.info(), first), visitor);
        if opens_list {
            self.opened = Some(tensor);
        }
        visited.map_err(|error| self.about(at, error))
    }

    /// Reads a part of a value. An error of the type that reads it is about the tensor that was read last.
    pub(super) fn value<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value> {
        self.last = None;
        let value = seed.deserialize(&mut *self).map_err(|error| self.blame(error))?;
        self.last = None;
        Ok(value)
    }

    /// Goes into a list.
    fn enter_list(&mut self) -> Result<Items<'de>> {
        self.settle(RootKind::List, take_node())?;
        self.path.check_depth()?;
        (self.opens_list, self.takes_item) = (false, false);
        let at = std::mem::take(&mut self.at);
        if self.positional {
            return Ok(Items::InOrder);
        }
        match at {
            At::Absent => return Ok(Items::ByName(At::Absent)),
            At::Entry(at) => drop(self.enter_entry(at, KeyPart::BeforeIndex)),
            At::Here | At::Shared => {}
        }
        let here = self.next_here()?;
        if here.is_some_and(|here| self.path.is(self.reader.name(here))) {
            let (at, tensor) = self.row_major()?;
            check_rank(tensor.info(), 1).map_err(|error| self.about(at, error))?;
            return Ok(Items::Numbers(at, tensor));
        }
        Ok(Items::ByName(At::Here))
    }

    fn visit_list<V: Visitor<'de>>(&mut self, len: Option<usize>, visitor: V) -> Result<V::Value> {
        match self.enter_list()? {
            Items::InOrder => visitor.visit_seq(ItemsInOrder::new(self, len)),
            Items::ByName(at) => visitor.visit_seq(ItemsAccess::new(self, len, at)),
            Items::Numbers(at, tensor) => {
                let mut numbers = NumbersAccess::new(tensor.info(), tensor.as_bytes());
                let visited = visitor.visit_seq(&mut numbers);
                let all = visited.and_then(|value| numbers.end().map(|()| value));
                all.map_err(|error| self.about(at, error))
            }
        }
    }

    /// Goes into a map. Returns whether it is there.
    fn enter_map(&mut self) -> Result<bool> {
        self.settle(RootKind::Map, take_node())?;
        self.path.check_depth()?;
        let at = std::mem::take(&mut self.at);
        if self.positional {
            return Err(needs_names("a map"));
        }
        self.enter_parts(at, "a map")?;
        Ok(at != At::Absent)
    }

    /// Goes into an entry of a map that has parts, and checks that a value with parts is here.
    fn enter_parts(&mut self, at: At, expected: &'static str) -> Result<At> {
        let at = match at {
            At::Entry(first) => {
                self.enter_entry(first, KeyPart::First);
                At::Here
            }
            at => at,
        };
        self.check_has_parts(at, expected)?;
        Ok(at)
    }

    /// Goes into a struct. Returns the place that it is at, or `None` if its fields come by position.
    fn enter_fields(&mut self) -> Result<Option<At>> {
        self.settle(RootKind::Struct, take_node())?;
        self.enter_struct()?;
        let at = std::mem::take(&mut self.at);
        if self.positional {
            return Ok(None);
        }
        self.enter_parts(at, "a struct").map(Some)
    }

    fn visit_fields<V: Visitor<'de>>(&mut self, fields: Fields, visitor: V) -> Result<V::Value> {
        let outer = self.flattened;
        let place = self.enter_fields()?;
        let mark = self.path.mark();
        let visited = match place {
            None => visitor.visit_seq(FieldsInOrder::new(self, fields.len())),
            Some(at) => {
                let walk = FieldsWalk::new(self, fields, at);
                visitor.visit_map(FieldsAccess::new(self, walk))
            }
        };
        self.flattened = outer;
        visited.map_err(|error| self.complete(error, mark))
    }

    /// Completes an error of serde, which knows only the last part of a name.
    fn complete(&self, error: Error, place: Mark) -> Error {
        error.complete_name(self.path.prefix_at(place)).with_found_names(|| self.reader.labels())
    }

    /// Skips the value here.
    fn skip(&mut self) -> Result<()> {
        match std::mem::take(&mut self.at) {
            At::Absent => {}
            At::Entry(at) => {
                self.enter_entry(at, KeyPart::Whole);
                self.reader.skip(at);
            }
            At::Here | At::Shared if self.positional => {
                if let Some(at) = self.reader.peek()? {
                    self.reader.skip(at);
                }
            }
            At::Here | At::Shared => {
                while let Some(at) = self.next_here()? {
                    self.reader.skip(at);
                }
            }
        }
        Ok(())
    }

    /// Returns the tensor that is all of the value here, if one is.
    fn tensor_here(&mut self) -> Result<Option<usize>> {
        if let At::Entry(_) = self.at {
            return self.locate().map(Some);
        }
        let here = self.next_here()?;
        Ok(here.filter(|here| self.path.is(self.reader.name(*here))))
    }

    /// Returns the tensor here, which is a list of bytes.
    fn bytes_here(&mut self) -> Result<usize> {
        let at = self.locate()?;
        let info = self.reader.info(at);
        let checked = match info.dtype {
            Dtype::U8 => check_rank(info, 1),
            _ => Err(ErrorKind::WrongDtype { found: info.clone(), expected: Dtype::U8 }.into()),
        };
        checked.map(|()| at).map_err(|error| self.about(at, error))
    }

    fn refuse<T>(&self, found: &'static str) -> Result<T> {
        let instead = "the file can hold a tensor, a number, or a struct, map, list or tuple of them";
        let name = match self.at {
            At::Entry(at) => self.reader.index().label(at),
            _ => self.path.name().to_owned(),
        };
        Err(Error::new(ErrorKind::NotATensor { found, instead }).in_tensor(name))
    }
}

fn check_rank(info: &TensorInfo, rank: usize) -> Result<()> {
    if info.shape.rank() == rank {
        return Ok(());
    }
    Err(ErrorKind::WrongShape { found: info.clone(), expected: format!("rank {rank}") }.into())
}

/// Elements that are taken one by one are taken in the order of their bytes.
fn check_row_major(info: &TensorInfo) -> Result<()> {
    match info.layout {
        Layout::RowMajor => Ok(()),
        _ => Err(ErrorKind::WrongLayout { found: info.clone(), expected: "row-major order" }.into()),
    }
}

macro_rules! numbers {
    ($($method:ident),*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
            self.visit_number(visitor, |number, visitor| number.$method(visitor))
        }
    )*};
}

impl<'de> serde::Deserializer<'de> for &mut Deserializer<'de> {
    type Error = Error;

    numbers! {
        deserialize_bool, deserialize_i8, deserialize_i16, deserialize_i32, deserialize_i64,
        deserialize_u8, deserialize_u16, deserialize_u32, deserialize_u64, deserialize_f32, deserialize_f64
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.tensor_here()? {
            Some(at) => visitor.visit_map(TensorFields::new(self, at)),
            None => self.deserialize_map(visitor),
        }
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let at = self.bytes_here()?;
        visit_payload(self, at, visitor).map_err(|error| self.about(at, error))
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if self.is_some()? {
            return visitor.visit_some(self);
        }
        self.at = At::Here;
        visitor.visit_none()
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.at = At::Here;
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.visit_list(None, visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value> {
        self.visit_list(Some(len), visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(self, _: &'static str, len: usize, visitor: V) -> Result<V::Value> {
        self.visit_list(Some(len), visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let is_present = self.enter_map()?;
        visitor.visit_map(EntriesAccess::new(self, is_present))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        match name {
            token::TENSOR => {
                let at = self.locate()?;
                self.last = Some(at);
                let visited = visitor.visit_seq(HeaderAndPayload::new(self, at));
                visited.map_err(|error| self.about(at, error))
            }
            token::NDARRAY if fields == token::NDARRAY_FIELDS => {
                let (at, tensor) = self.row_major()?;
                visitor.visit_map(NdarrayAccess::new(&tensor)).map_err(|error| self.about(at, error))
            }
            _ => self.visit_fields(Fields::Names(fields, name == token::DERIVED), visitor),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.skip()?;
        visitor.visit_unit()
    }

    fn deserialize_enum<V: Visitor<'de>>(self, _: &'static str, _: &'static [&'static str], _: V) -> Result<V::Value> {
        self.refuse("an enum")
    }

    fn deserialize_str<V: Visitor<'de>>(self, _: V) -> Result<V::Value> {
        self.refuse("a string")
    }

    fn deserialize_string<V: Visitor<'de>>(self, _: V) -> Result<V::Value> {
        self.refuse("a string")
    }

    fn deserialize_char<V: Visitor<'de>>(self, _: V) -> Result<V::Value> {
        self.refuse("a char")
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, _: V) -> Result<V::Value> {
        self.refuse("an identifier")
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}
