//! The one deserializer: it finds the tensors that a type asks for by name or by position, in its [`TensorSource`].
//!
//! Two ways lead through a file. By *name*, each segment of the path under which a type asks narrows the names that can
//! be meant. By *position*, for files without names and for lists of whatever a file holds, each tensor that is asked
//! for is the next one. Which way it is is settled once, at the root.
//!
//! From a stream, tensors are taken as they come wherever the file's order is the type's. Where it is not, what is
//! passed on the way is kept until it is asked for.

mod entries;
mod fields;
mod items;
mod number;
mod root;
mod tensor;

use serde::de::Visitor;

use self::entries::EntriesAccess;
use self::fields::FieldsAccess;
use self::items::{ItemsAccess, PositionalFields, PositionalItems};
use self::number::{NumberDeserializer, NumbersAccess};
use self::tensor::{BytesVisitor, NdarrayAccess, TensorAccess, TensorFields};
use super::path::{first_segment, list_key};
use super::positional::needs_names;
use super::{Adapt, FromTensors, Path, TensorSource, token};
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::{Dtype, Layout, Tensor, TensorInfo};

/// A serde deserializer that finds the tensors of a type in a file.
#[derive(Debug)]
pub struct Deserializer<S> {
    source: S,
    path: Path,
    at: At,
    /// Whether tensors are found by position.
    positional: bool,
    /// Whether the root type is known, and with it the way to find tensors.
    settled: bool,
    /// Whether the first item of a list found by position is asked for next. A number then opens a list that is one
    /// tensor.
    opens_list: bool,
    /// Whether an item of a list of any length, found by position, is asked for next.
    takes_item: bool,
    /// The tensor that such a list is.
    opened: Option<Tensor>,
    /// How many structs around the one that is read are flattened into each other.
    flattened: usize,
}

/// What the deserializer knows of the place that it is asked about next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum At {
    /// Something has the name of the path, or lies under it.
    #[default]
    Here,
    /// Nothing has.
    Absent,
    /// The place of the struct around, whose tensors a flattened field shares.
    Shared,
    /// An entry of a map, of which this is the first tensor. Whether its key is the whole name or one segment of it
    /// depends on what is asked for.
    Entry(usize),
}

impl<'de, S: TensorSource<'de>> Deserializer<S> {
    pub(crate) fn over(source: S) -> Self {
        Self {
            source,
            path: Path::default(),
            at: At::Here,
            positional: false,
            settled: false,
            opens_list: false,
            takes_item: false,
            opened: None,
            flattened: 0,
        }
    }

    /// A deserializer of which each value is the next tensor, and nothing is looked for by name.
    pub(crate) fn one_by_one(source: S) -> Self {
        Self { positional: true, settled: true, ..Self::over(source) }
    }

    pub(crate) fn source(&mut self) -> &mut S {
        &mut self.source
    }

    /// Checks that nothing is left over.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unexpected`], [`ErrorKind::WrongCount`]: the file has tensors that the type does not want.
    pub fn end(mut self) -> Result<()> {
        self.source.drain()?;
        let Some(left) = self.source.peek()? else { return Ok(()) };
        if self.positional {
            let (found, read) = (self.source.len(), self.source.len() - self.source.unread_count());
            return Err(ErrorKind::WrongCount { found: found as u64, expected: read.to_string() }.into());
        }
        let kind = ErrorKind::Unexpected { name: self.source.label(left), expected: Vec::new(), complete: true };
        Err(self.about(left, kind.into()))
    }

    /// The tensor that is asked for here.
    fn locate(&mut self) -> Result<usize> {
        match std::mem::take(&mut self.at) {
            At::Absent => return Err(self.missing()),
            At::Entry(at) => {
                self.enter_entry(at, |rest| rest);
                return Ok(at);
            }
            At::Here | At::Shared => {}
        }
        let next = self.source.peek()?;
        if self.positional {
            return next.ok_or_else(|| {
                let found = self.source.len();
                ErrorKind::WrongCount { found: found as u64, expected: format!("at least {}", found + 1) }.into()
            });
        }
        // A value that is one tensor takes the only one that there is, whatever its name.
        let is_next = |at: &usize| self.path.is_root() || self.path.is(self.source.name(*at));
        if let Some(at) = next.filter(is_next) {
            return Ok(at);
        }
        self.source.drain()?;
        self.source.find(self.path.name()).ok_or_else(|| self.missing())
    }

    /// Whether a tensor has the name of the path, or lies under it.
    fn is_present(&mut self) -> Result<bool> {
        self.next_under().map(|next| next.is_some())
    }

    /// The next tensor under the path: in file order while that lasts.
    fn next_under(&mut self) -> Result<Option<usize>> {
        let next = self.source.peek()?;
        if next.is_some_and(|next| self.path.strip(self.source.name(next)).is_some()) {
            return Ok(next);
        }
        self.source.drain()?;
        Ok(self.source.first_under(self.path.prefix()))
    }

    /// Goes down to the value of a map's entry, whose first tensor is `at`, by as much of the name as `key` takes.
    fn enter_entry(&mut self, at: usize, key: impl Fn(&str) -> &str) {
        let name = self.source.name(at);
        let rest = self.path.strip(name).unwrap_or(name);
        self.path.push(key(rest));
    }

    /// Checks that no tensor has the very name under which parts are asked for.
    fn check_no_tensor_here(&mut self, at: At, expected: &'static str) -> Result<()> {
        if at != At::Here || self.path.is_root() {
            return Ok(());
        }
        let next = self.source.peek()?.filter(|next| self.path.is(self.source.name(*next)));
        match next.or_else(|| self.source.find(self.path.name())) {
            Some(tensor) => {
                let found = self.source.info(tensor).clone();
                let error = Error::new(ErrorKind::WrongLayout { found, expected });
                Err(self.about(tensor, error))
            }
            None => Ok(()),
        }
    }

    /// The error with the tensor that it is about and where that lies, unless someone closer to the fault told.
    fn about(&self, at: usize, error: Error) -> Error {
        error.in_tensor(self.source.label(at)).at(self.source.offset(at))
    }

    fn missing(&self) -> Error {
        let name = self.path.name().to_owned();
        ErrorKind::Missing { name, found: self.source.names_to_show(), complete: true }.into()
    }

    /// Gives the tensor that is asked for to a visitor that knows the fields of one.
    fn tensor<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value> {
        let at = self.locate()?;
        let access = TensorAccess::new(&mut self.source, at);
        access.visit(visitor).map_err(|error| self.about(at, error))
    }

    /// Gives the tensor as ndarray's own representation has it.
    fn ndarray<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value> {
        let (at, tensor) = self.whole_tensor()?;
        visitor.visit_map(NdarrayAccess::new(&tensor)).map_err(|error| self.about(at, error))
    }

    /// The tensor that is asked for and its number, copied.
    fn whole_tensor(&mut self) -> Result<(usize, Tensor)> {
        let at = self.locate()?;
        check_row_major(self.source.info(at)).map_err(|error| self.about(at, error))?;
        Ok((at, Tensor::load(&mut *self, &Adapt::NONE)?))
    }

    /// Gives the number that the tensor of rank 0 here is.
    fn number<V: Visitor<'de>>(
        &mut self,
        visit: impl FnOnce(NumberDeserializer<'_>, V) -> Result<V::Value>,
        visitor: V,
    ) -> Result<V::Value> {
        let opens_list = std::mem::take(&mut self.opens_list);
        let (at, tensor) = self.whole_tensor()?;
        let opens_list = opens_list && tensor.shape().rank() == 1 && !tensor.as_bytes().is_empty();
        let visited = check_rank(tensor.info(), usize::from(opens_list)).and_then(|()| {
            let first = &tensor.as_bytes()[..tensor.dtype().block_bytes()];
            visit(NumberDeserializer::new(tensor.info(), first), visitor)
        });
        self.opened = opens_list.then_some(tensor);
        visited.map_err(|error| self.about(at, error))
    }

    /// Gives the numbers that the tensor of rank 1 here holds.
    fn numbers<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value> {
        let (at, tensor) = self.whole_tensor()?;
        let mut access = NumbersAccess::new(tensor.info(), tensor.as_bytes());
        let visited = check_rank(tensor.info(), 1).and_then(|()| visitor.visit_seq(&mut access));
        let all = visited.and_then(|value| access.end().map(|()| value));
        all.map_err(|error| self.about(at, error))
    }

    /// Gives a list, of `len` items where the type tells.
    fn list<V: Visitor<'de>>(&mut self, len: Option<usize>, visitor: V) -> Result<V::Value> {
        self.settle_list()?;
        self.path.check_depth()?;
        (self.opens_list, self.takes_item) = (false, false);
        let at = std::mem::take(&mut self.at);
        if self.positional {
            return visitor.visit_seq(PositionalItems::new(self, len));
        }
        match at {
            At::Absent => return visitor.visit_seq(ItemsAccess::new(self, len, true)),
            At::Entry(at) => self.enter_entry(at, list_key),
            At::Here | At::Shared => {}
        }
        let here = self.next_under()?;
        if here.is_some_and(|here| self.path.is(self.source.name(here))) {
            return self.numbers(visitor);
        }
        visitor.visit_seq(ItemsAccess::new(self, len, false))
    }

    /// Gives a struct. One that is flattened into itself would be followed down to the end of the stack, as its name does
    /// not get longer.
    fn struct_fields<V: Visitor<'de>>(
        &mut self,
        derived: bool,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        const LIMIT: usize = 128;
        if self.at != At::Shared {
            return self.own_fields(derived, fields, visitor);
        }
        self.flattened += 1;
        let read = if self.flattened > LIMIT {
            let (what, found, limit) = ("number of structs flattened into each other", LIMIT as u64 + 1, LIMIT as u64);
            Err(ErrorKind::Limit { what, found, limit }.into())
        } else {
            self.own_fields(derived, fields, visitor)
        };
        self.flattened -= 1;
        read
    }

    fn own_fields<V: Visitor<'de>>(
        &mut self,
        derived: bool,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        self.settle_struct()?;
        self.path.check_depth()?;
        (self.opens_list, self.takes_item) = (false, false);
        let mut at = std::mem::take(&mut self.at);
        if self.positional {
            return visitor.visit_seq(PositionalFields::new(self, fields.len()));
        }
        if let At::Entry(first) = at {
            self.enter_entry(first, first_segment);
            at = At::Here;
        }
        self.check_no_tensor_here(at, "a struct")?;
        let place = self.path.mark();
        let visited = visitor.visit_map(FieldsAccess::new(self, fields, derived, at));
        visited.map_err(|error| {
            let error = error.complete_name(self.path.prefix_at(place));
            error.with_found_names(|| self.source.names_to_show())
        })
    }

    fn refuse<T>(&self, found: &'static str) -> Result<T> {
        let instead = "the file can hold a tensor, a number, or a struct, map, list or tuple of them";
        let name = match self.at {
            At::Entry(at) => self.source.label(at),
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
            self.number(|number, visitor: V| number.$method(visitor), visitor)
        }
    )*};
}

impl<'de, S: TensorSource<'de>> serde::Deserializer<'de> for &mut Deserializer<S> {
    type Error = Error;

    numbers! {
        deserialize_bool, deserialize_i8, deserialize_i16, deserialize_i32, deserialize_i64,
        deserialize_u8, deserialize_u16, deserialize_u32, deserialize_u64, deserialize_f32, deserialize_f64
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if let At::Entry(_) = self.at {
            let at = self.locate()?;
            return visitor.visit_map(TensorFields::new(TensorAccess::new(&mut self.source, at)));
        }
        let here = self.next_under()?;
        match here.filter(|here| self.path.is(self.source.name(*here))) {
            Some(at) => visitor.visit_map(TensorFields::new(TensorAccess::new(&mut self.source, at))),
            None => self.deserialize_map(visitor),
        }
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let at = self.locate()?;
        let info = self.source.info(at).clone();
        let checked = match info.dtype {
            Dtype::U8 => check_rank(&info, 1),
            _ => Err(ErrorKind::WrongDtype { found: info, expected: Dtype::U8 }.into()),
        };
        let visited = checked.and_then(|()| self.source.payload(at, BytesVisitor(visitor)));
        visited.map_err(|error| self.about(at, error))
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let present = match self.at {
            At::Absent => false,
            At::Entry(_) => true,
            // A file without tensors is no value; a flattened field has no name of its own to look for.
            At::Here | At::Shared if self.path.is_root() => self.source.peek()?.is_some(),
            // An item of a list is there, or the list would be shorter.
            At::Here | At::Shared if self.positional && self.takes_item => true,
            At::Here | At::Shared if self.positional => return Err(needs_names("an `Option`")),
            At::Here => true,
            At::Shared => self.is_present()?,
        };
        if present {
            visitor.visit_some(self)
        } else {
            self.at = At::Here;
            visitor.visit_none()
        }
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
        self.list(None, visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value> {
        self.list(Some(len), visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(self, _: &'static str, len: usize, visitor: V) -> Result<V::Value> {
        self.list(Some(len), visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.settle_map()?;
        self.path.check_depth()?;
        let at = std::mem::take(&mut self.at);
        if self.positional {
            return Err(needs_names("a map"));
        }
        if let At::Entry(first) = at {
            self.enter_entry(first, first_segment);
        }
        self.check_no_tensor_here(at, "a map")?;
        visitor.visit_map(EntriesAccess::new(self, at == At::Absent))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        match name {
            token::TENSOR => self.tensor(visitor),
            token::NDARRAY if fields == token::NDARRAY_FIELDS => self.ndarray(visitor),
            _ => self.struct_fields(name == token::DERIVED, fields, visitor),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match std::mem::take(&mut self.at) {
            At::Absent => {}
            At::Entry(at) => {
                self.enter_entry(at, |rest| rest);
                self.source.skip(at);
            }
            At::Here | At::Shared if self.positional => {
                if let Some(at) = self.source.peek()? {
                    self.source.skip(at);
                }
            }
            At::Here | At::Shared => {
                while let Some(at) = self.next_under()? {
                    self.source.skip(at);
                }
            }
        }
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
