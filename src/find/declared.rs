//! Finds out whether the file has any tensor of a type. A flattened `Option` has no name: it is there if one of the
//! names of its value is.

use std::any::TypeId;

use super::Finder;
use crate::error::Result;
use crate::model::{Node, first_segment, is_index, strip};

/// Values nested deeper than this count as present. Reading them fails.
const DEPTH: usize = 128;

impl Node {
    /// Returns whether a value of this type may have a tensor of any name at its own place: a map, or a struct with a
    /// flattened map.
    pub(super) fn takes_any_name(self, structs: &mut Vec<TypeId>) -> bool {
        match self {
            Self::Map(_) => true,
            Self::Option(node) | Self::Newtype(node, _) => node().takes_any_name(structs),
            Self::Struct(def) if !structs.contains(&(def.id)()) => {
                structs.push((def.id)());
                let mut flattened = def.fields.iter().filter(|field| field.flatten);
                let takes_any = flattened.any(|field| (field.node)().takes_any_name(structs));
                structs.pop();
                takes_any
            }
            _ => false,
        }
    }

    /// Returns whether a value of this type may be absent.
    pub(super) fn is_option(self) -> bool {
        match self {
            Self::Option(_) => true,
            Self::Newtype(node, _) => node().is_option(),
            _ => false,
        }
    }

    /// Returns whether a value of this type may have a tensor named `rest` below its place.
    fn declares(self, rest: &str, structs: &mut Vec<TypeId>) -> bool {
        let is_below = |index: usize, node: fn() -> Self| {
            let below = strip(rest, itoa::Buffer::new().format(index));
            below.is_some_and(|below| node().declares(below, &mut Vec::new()))
        };
        match self {
            Self::Tensor(_) => rest.is_empty(),
            Self::Metadata(_) => false,
            Self::Option(node) | Self::Newtype(node, _) => node().declares(rest, structs),
            Self::List(node) => first_segment(rest).parse().is_ok_and(|index| is_below(index, node)),
            Self::Array(node, len) => {
                first_segment(rest).parse().is_ok_and(|index| index < len && is_below(index, node))
            }
            Self::Tuple(parts) => parts.iter().enumerate().any(|(index, part)| is_below(index, *part)),
            Self::Map(_) => !rest.is_empty(),
            Self::Struct(def) if structs.contains(&(def.id)()) => false,
            Self::Struct(def) => {
                structs.push((def.id)());
                let declares = def.fields.iter().filter(|field| !field.metadata).any(|field| {
                    if field.flatten {
                        return (field.node)().declares(rest, structs);
                    }
                    let mut below = field.names().filter_map(|name| strip(rest, name));
                    below.any(|below| (field.node)().declares(below, &mut Vec::new()))
                });
                structs.pop();
                declares
            }
        }
    }
}

impl Finder<'_> {
    /// Returns whether the file has any tensor declared by a type at this place. Tensors of fields already read do not
    /// count.
    pub(super) fn has_tensors_of(&mut self, node: Node) -> Result<bool> {
        let Some(next) = self.reader.peek()? else { return Ok(false) };
        // A stream in the order of the type is not read ahead.
        let rest = self.path.strip(self.reader.name(next));
        let is_deep = |rest: &str| rest.bytes().filter(|byte| *byte == b'.').nth(DEPTH).is_some();
        if rest.is_some_and(|rest| is_deep(rest) || node.declares(rest, &mut Vec::new())) {
            return Ok(true);
        }
        self.reader.drain()?;
        Ok(self.has_any_of(node, &mut Vec::new()))
    }

    /// `structs` are the enclosing structs at the same place.
    fn has_any_of(&mut self, node: Node, structs: &mut Vec<TypeId>) -> bool {
        if self.path.depth() > DEPTH {
            return true;
        }
        match node {
            Node::Tensor(_) => self.reader.find(self.path.name()).is_some(),
            Node::Metadata(_) => false,
            Node::Option(node) | Node::Newtype(node, _) => self.has_any_of(node(), structs),
            // The first item may be missing.
            Node::List(node) => self.has_any_below("0", node()) || self.has_later_item(node()),
            Node::Array(node, len) => {
                self.has_any() && (0..len).any(|index| self.has_any_below(itoa::Buffer::new().format(index), node()))
            }
            Node::Tuple(parts) => {
                let mut parts = parts.iter().enumerate();
                parts.any(|(index, part)| self.has_any_below(itoa::Buffer::new().format(index), part()))
            }
            Node::Map(_) => {
                self.reader.first_under(self.path.prefix()).is_some_and(|at| !self.path.is(self.reader.name(at)))
            }
            Node::Struct(def) if structs.contains(&(def.id)()) => false,
            Node::Struct(def) => {
                structs.push((def.id)());
                let any = def.fields.iter().filter(|field| !field.metadata).any(|field| {
                    if field.flatten {
                        self.has_any_of((field.node)(), structs)
                    } else {
                        field.names().any(|name| self.has_any_below(name, (field.node)()))
                    }
                });
                structs.pop();
                any
            }
        }
    }

    fn has_any(&mut self) -> bool {
        self.reader.first_under(self.path.prefix()).is_some()
    }

    fn has_any_below(&mut self, name: &str, node: Node) -> bool {
        let place = self.path.mark();
        self.path.push(name);
        // Recursive types end where the names end.
        let any = self.has_any() && self.has_any_of(node, &mut Vec::new());
        self.path.back_to(place);
        any
    }

    fn has_later_item(&mut self, node: Node) -> bool {
        let Some(first) = self.reader.first_under(self.path.prefix()) else { return false };
        let name = self.reader.name(first);
        let index = first_segment(self.path.strip(name).unwrap_or_default()).to_owned();
        is_index(&index) && self.has_any_below(&index, node)
    }
}
