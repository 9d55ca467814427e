//! The answers of a [`Finder`], for the value at its place.

use std::cell::Cell;

use super::entries::MapEntries;
use super::items::ListItems;
use super::value::{FieldOrder, Parts, StructFields, Value, number};
use super::{Answer, Ask};
use crate::error::{Error, ErrorKind, Result};
use crate::find::{self, At, FieldsWalk, Finder, RootKind};
use crate::model::{Copies, KeyPart, Loaded, Mark, Node, StructDef, needs_names};
use crate::read::Labels;
use crate::serde::token;
use crate::tensor::{Dtype, Layout, TensorInfo};

thread_local! {
    static NODE: Cell<Option<fn() -> Node>> = const { Cell::new(None) };
    static DEF: Cell<Option<&'static StructDef>> = const { Cell::new(None) };
}

/// Passes the type of the next value to a [`Deserializer`](find::Deserializer).
///
/// Only wrappers around our deserializers need it: [`own`](crate::serde::own) finds ours, but not inside a wrapper, and
/// serde's calls have no argument for a type.
pub(in crate::serde) fn set_node(node: Option<fn() -> Node>) {
    NODE.set(node);
}

/// Passes the struct of the next value to a [`Deserializer`](find::Deserializer), for the same reason. Names alone do
/// not show which tensors belong to a flattened field.
pub(in crate::serde) fn set_struct(def: &'static StructDef) {
    DEF.set(Some(def));
}

/// Returns the struct of the fields requested by serde.
fn fields_of(name: &str, fields: &'static [&'static str]) -> find::Fields {
    if name != token::DERIVED {
        return find::Fields::Names(fields, false);
    }
    match DEF.take().filter(|def| std::ptr::eq(def.specs, fields)) {
        Some(def) => find::Fields::Behind(def),
        None => find::Fields::Names(fields, true),
    }
}

fn take_node() -> Option<Node> {
    NODE.take().map(|node| node())
}

impl<'de> Finder<'de> {
    pub(super) fn answer(&mut self, ask: Ask) -> Result<Answer<'_, 'de>> {
        match ask {
            Ask::Any => match self.tensor_here()? {
                Some(at) if self.is_plain(at) => self.plain(),
                Some(at) => Ok(Answer::Map(Parts::TensorFields { de: self, at, next: 0 })),
                None => self.map(),
            },
            Ask::Number(_) => self.number(ask),
            Ask::Bytes | Ask::ByteBuf => {
                let at = self.bytes_here()?;
                self.payload(at)
            }
            Ask::Option => {
                if self.is_some()? {
                    return Ok(Answer::Some(Value::Here(self)));
                }
                self.at = At::Here;
                Ok(Answer::None)
            }
            Ask::Unit => {
                self.at = At::Here;
                Ok(Answer::Unit)
            }
            Ask::Newtype(token::ANY_TENSOR) => self.answer(Ask::Struct(token::TENSOR, token::TENSOR_FIELDS)),
            Ask::Newtype(_) => Ok(Answer::Newtype(Value::Here(self))),
            Ask::Seq(len) => self.list(len),
            Ask::Map => self.map(),
            Ask::Struct(token::TENSOR, _) => {
                let at = self.locate()?;
                self.last = Some(at);
                Ok(Answer::Map(Parts::TensorFields { de: self, at, next: 0 }))
            }
            Ask::Struct(token::NDARRAY, fields) if fields == token::NDARRAY_FIELDS => {
                let tensor = self.row_major()?;
                Ok(Answer::Map(Parts::Ndarray { tensor: Some(Box::new(tensor)), next: 0 }))
            }
            Ask::Struct(name, fields) => self.fields(fields_of(name, fields)),
            Ask::Ignored => {
                self.skip()?;
                Ok(Answer::Unit)
            }
            Ask::Enum => self.refuse("an enum"),
            Ask::Str => self.refuse("a string"),
            Ask::Char => self.refuse("a char"),
            Ask::Identifier => self.refuse("an identifier"),
        }
    }

    /// Begins to read a part of a value.
    pub(super) fn begin_part(&mut self) -> Value<'_, 'de> {
        self.last = None;
        Value::Here(self)
    }

    /// Goes back from a part to the value at `place`.
    pub(super) fn end_part(&mut self, place: Mark) {
        self.last = None;
        self.path.back_to(place);
    }

    /// Returns the tensor here. Its elements are in row-major order.
    fn row_major(&mut self) -> Result<Loaded<'de>> {
        let at = self.locate()?;
        self.last = Some(at);
        let info = self.reader.info(at).clone();
        check_row_major(&info)?;
        let payload = self.reader.payload(at, Copies::Shared)?;
        Loaded::new(info, payload)
    }

    /// Returns whether a tensor is a number or a list of numbers in serde's sense. An empty list has no dtype there.
    fn is_plain(&self, at: usize) -> bool {
        let info = self.reader.info(at);
        let is_short = info.shape.rank() <= 1 && info.shape.elements() != Some(0) && info.layout == Layout::RowMajor;
        is_short && token::NUMBERS.contains(&info.dtype)
    }

    /// Returns the number or the list of numbers here.
    fn plain(&mut self) -> Result<Answer<'_, 'de>> {
        let tensor = self.row_major()?;
        match tensor.info().shape.rank() {
            0 => number(tensor.info(), tensor.as_bytes(), Ask::Any),
            _ => Ok(Answer::Seq(Parts::Elements { tensor: Box::new(tensor), taken: 0 })),
        }
    }

    /// Returns the tensor of rank 0 here, or the first element of the list of numbers starting here.
    fn number<'a>(&mut self, ask: Ask) -> Result<Answer<'a, 'de>> {
        let opens_list = std::mem::take(&mut self.item.opens_list);
        let tensor = self.row_major()?;
        let opens_list = opens_list && tensor.info().shape.rank() == 1 && !tensor.as_bytes().is_empty();
        check_rank(tensor.info(), usize::from(opens_list))?;
        let first = &tensor.as_bytes()[..tensor.info().dtype.block_bytes()];
        let answer = number(tensor.info(), first, ask)?;
        if opens_list {
            self.item.opened = Some(tensor);
        }
        Ok(answer)
    }

    /// Goes into a list.
    fn list(&mut self, len: Option<usize>) -> Result<Answer<'_, 'de>> {
        let kind = if len.is_some() { RootKind::Tuple } else { RootKind::List };
        self.settle(kind, take_node())?;
        self.path.check_depth()?;
        (self.item.opens_list, self.item.of_any_length) = (false, false);
        let at = self.take_place();
        if self.is_positional() {
            return Ok(Answer::Seq(Parts::Items(ListItems::by_position(self, len))));
        }
        match at {
            At::Absent | At::Metadata => return Ok(Answer::Seq(Parts::Items(ListItems::by_name(self, len, false)))),
            At::Entry(at) => self.enter_entry(at, KeyPart::BeforeIndex),
            At::Here | At::Tensor(_) | At::Shared => {}
        }
        let here = self.next_here()?;
        if here.is_some_and(|here| self.path.is(self.reader.name(here))) {
            let tensor = self.row_major()?;
            check_rank(tensor.info(), 1)?;
            return Ok(Answer::Seq(Parts::Elements { tensor: Box::new(tensor), taken: 0 }));
        }
        Ok(Answer::Seq(Parts::Items(ListItems::by_name(self, len, true))))
    }

    /// Goes into a map.
    fn map(&mut self) -> Result<Answer<'_, 'de>> {
        self.settle(RootKind::Map, take_node())?;
        self.path.check_depth()?;
        let at = self.take_place();
        if self.is_positional() {
            return Err(needs_names("a map"));
        }
        self.enter_parts(at, "a map")?;
        Ok(Answer::Map(Parts::Entries(MapEntries::new(self, at))))
    }

    /// Goes into a struct.
    fn fields(&mut self, fields: find::Fields) -> Result<Answer<'_, 'de>> {
        let outer = (self.scope.flattened, self.scope.skips_unknown);
        self.settle(RootKind::Struct, take_node())?;
        self.enter_struct()?;
        let at = self.take_place();
        if self.is_positional() {
            let order = FieldOrder::ByPosition { left: fields.len() };
            return Ok(Answer::Seq(Parts::Fields(StructFields { place: self.path.mark(), de: self, outer, order })));
        }
        let at = self.enter_parts(at, "a struct")?;
        self.enter_skipping(at, fields.allow_unknown())?;
        let order = FieldOrder::ByName { walk: Box::new(FieldsWalk::new(self, fields, at)), unknown: String::new() };
        Ok(Answer::Map(Parts::Fields(StructFields { place: self.path.mark(), de: self, outer, order })))
    }

    /// Enters a map entry with parts, and checks that there is a value with parts.
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

    /// Completes an error of serde, which has only the last segment of a name.
    pub(super) fn complete(&self, error: Error, place: Mark) -> Error {
        error.complete_name(self.path.prefix_at(place)).with_found_names(|| {
            let Labels { names, others } = self.reader.labels();
            (names, others)
        })
    }

    /// Skips the value here.
    fn skip(&mut self) -> Result<()> {
        match self.take_place() {
            At::Absent | At::Metadata => {}
            At::Entry(at) => {
                self.enter_entry(at, KeyPart::Whole);
                self.reader.skip(at);
            }
            At::Here | At::Tensor(_) | At::Shared if self.is_positional() => {
                if let Some(at) = self.reader.peek()? {
                    self.reader.skip(at);
                }
            }
            At::Here | At::Tensor(_) | At::Shared => {
                while let Some(at) = self.next_here()? {
                    self.reader.skip(at);
                    self.scope.skipped += usize::from(self.scope.skips_unknown);
                }
            }
        }
        Ok(())
    }

    /// Returns the tensor that holds the whole value here, if any.
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
        self.last = Some(at);
        let info = self.reader.info(at);
        if info.dtype != Dtype::U8 || info.unknown_dtype().is_some() {
            return Err(ErrorKind::WrongDtype { found: info.clone(), expected: Dtype::U8 }.into());
        }
        check_rank(info, 1).map(|()| at)
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

/// Elements read one by one come in the order of their bytes.
fn check_row_major(info: &TensorInfo) -> Result<()> {
    match info.layout {
        Layout::RowMajor => Ok(()),
        _ => Err(ErrorKind::WrongLayout { found: info.clone(), expected: "row-major order" }.into()),
    }
}
