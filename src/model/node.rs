//! The static description of a type: which tensors it maps to, under which names.

use std::any::TypeId;

use smallvec::SmallVec;

use super::path::{Path, first_segment, list_key};
use super::{FieldAttrs, TensorSpec, TryMetadata};

/// The names and types of the tensors of a type, as static data.
///
/// Nothing is allocated, and functions lead from one node to the next, so recursive types need no special case.
///
/// ```
/// use ndarray::Array1;
/// use tensorfile::model::Node;
/// use tensorfile::TensorFile;
///
/// #[derive(TensorFile)]
/// struct Norm {
///     #[tensor(alias = "gamma")]
///     scale: Array1<f32>,
///     shift: Option<Array1<f32>>,
/// }
///
/// let Node::Struct(def) = Norm::NODE else { panic!("it is a struct") };
/// assert_eq!(def.fields.len(), 2);
/// assert!(matches!((def.fields[1].node)(), Node::Option(_)));
/// ```
#[derive(Debug, Clone, Copy)]
pub enum Node {
    /// One tensor.
    Tensor(TensorSpec),
    /// Named parts.
    Struct(&'static StructDef),
    /// An optional part.
    Option(fn() -> Node),
    /// Any number of items, numbered from 0.
    List(fn() -> Node),
    /// A fixed number of items, numbered from 0.
    Array(fn() -> Node, usize),
    /// Parts of different types, numbered from 0.
    Tuple(&'static [fn() -> Node]),
    /// Any number of entries, under names unknown to the type.
    Map(fn() -> Node),
    /// The field of a newtype struct, with its attributes.
    Newtype(fn() -> Node, &'static FieldAttrs),
    /// An entry of the file's metadata.
    Metadata(TryMetadata),
}

/// A struct with named parts.
///
/// ```
/// use ndarray::Array1;
/// use tensorfile::model::Node;
/// use tensorfile::TensorFile;
///
/// #[derive(TensorFile)]
/// struct Norm {
///     #[tensor(alias = "gamma")]
///     scale: Array1<f32>,
///     shift: Option<Array1<f32>>,
/// }
///
/// let Node::Struct(def) = Norm::NODE else { panic!("it is a struct") };
/// assert_eq!(def.name, "Norm");
/// assert!(!def.allow_unknown);
/// ```
#[derive(Debug)]
pub struct StructDef {
    /// Returns the identity of the type. The address of a constant is not the same everywhere.
    pub id: fn() -> TypeId,
    /// The name of the type.
    pub name: &'static str,
    /// The parts.
    pub fields: &'static [FieldDef],
    /// The names of the parts for serde's `deserialize_struct`; see `serde/token.rs`.
    pub specs: &'static [&'static str],
    /// Skip unknown tensors, instead of refusing the file.
    pub allow_unknown: bool,
}

/// A part of a [`StructDef`].
///
/// ```
/// use ndarray::Array1;
/// use tensorfile::model::Node;
/// use tensorfile::TensorFile;
///
/// #[derive(TensorFile)]
/// struct Norm {
///     #[tensor(alias = "gamma")]
///     scale: Array1<f32>,
///     shift: Option<Array1<f32>>,
/// }
///
/// let Node::Struct(def) = Norm::NODE else { panic!("it is a struct") };
/// assert_eq!((def.fields[0].name, def.fields[0].aliases), ("scale", &["gamma"][..]));
/// ```
#[derive(Debug)]
pub struct FieldDef {
    /// The name.
    pub name: &'static str,
    /// Other accepted names.
    pub aliases: &'static [&'static str],
    /// The part has a default if the file does not have it.
    pub optional: bool,
    /// The tensors of the part are named as if they were parts of the struct.
    pub flatten: bool,
    /// The part is an entry of the file's metadata, not a tensor: its node is [`Node::Metadata`].
    pub metadata: bool,
    /// The attributes of the part.
    pub attrs: FieldAttrs,
    /// The type of the part.
    pub node: fn() -> Node,
}

/// The part of a tensor's name used as the key of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPart {
    /// All of it: the values are tensors.
    Whole,
    /// The first segment: the values are structs or maps.
    First,
    /// All but the last segment: the values are structs of tensors only, and the last segment is their field.
    BeforeLast,
    /// The segment before a number, or all of it: the values are lists.
    BeforeIndex,
}

impl KeyPart {
    /// Returns the key in what follows the name of the map.
    pub(crate) fn of(self, rest: &str) -> &str {
        match self {
            Self::Whole => rest,
            Self::First => first_segment(rest),
            Self::BeforeLast => rest.rsplit_once('.').map_or(rest, |(key, _)| key),
            Self::BeforeIndex => list_key(rest),
        }
    }
}

impl FieldDef {
    /// Returns the names of the part in a file, starting with the name for writing.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }
}

impl FieldDef {
    /// Returns whether reading takes the part for missing if the file has none of its tensors, and the struct skips
    /// unknown ones. A flattened map takes the remaining tensors, possibly none.
    pub(crate) fn is_missing_without_tensors(&self) -> bool {
        let node = (self.node)();
        let takes_rest = self.flatten && matches!(node.inner(), Node::Map(_));
        !self.optional && !takes_rest && node.requires_parts(&mut Vec::new())
    }
}

impl StructDef {
    /// Returns whether all fields are tensors or optional tensors with names of one segment. A key before the segment
    /// may have dots.
    pub(crate) fn is_flat(&self) -> bool {
        let is_flat = |field: &FieldDef| {
            let is_tensor = !field.flatten && !field.metadata && matches!((field.node)().inner(), Node::Tensor(_));
            is_tensor && field.names().all(|name| !name.contains('.'))
        };
        !self.fields.is_empty() && self.fields.iter().all(is_flat)
    }
}

impl Node {
    /// Returns how much of a name is the key of a map with values of this type.
    #[must_use]
    pub fn key_part(&self) -> KeyPart {
        match self {
            Self::Tensor(_) | Self::Metadata(_) => KeyPart::Whole,
            Self::Option(node) | Self::Newtype(node, _) => node().key_part(),
            Self::List(_) | Self::Array(..) | Self::Tuple(_) => KeyPart::BeforeIndex,
            Self::Struct(def) if def.is_flat() => KeyPart::BeforeLast,
            Self::Struct(_) | Self::Map(_) => KeyPart::First,
        }
    }

    /// Returns the rank of a tensor as one bit, if the type fixes it. No bit is set for all else.
    pub(crate) const fn ranks(&self) -> u64 {
        match self {
            Self::Tensor(spec) => spec.ranks(),
            _ => 0,
        }
    }

    /// Calls `found` with the keys of all metadata declared by the type outside of lists and maps, under each name of a
    /// field. Stops when it returns `true`, and returns whether it did.
    ///
    /// `path` is the name of the place; `structs` are the enclosing structs, which are not entered again.
    pub(crate) fn any_metadata(
        self,
        path: &mut Path,
        structs: &mut Vec<TypeId>,
        found: &mut dyn FnMut(&str) -> bool,
    ) -> bool {
        match self {
            Self::Tensor(_) | Self::List(_) | Self::Map(_) => false,
            Self::Metadata(_) => found(path.name()),
            Self::Option(node) | Self::Newtype(node, _) => node().any_metadata(path, structs, found),
            // A type that is only metadata is stored in fields only.
            Self::Array(..) | Self::Tuple(_) => false,
            Self::Struct(def) if structs.contains(&(def.id)()) => false,
            Self::Struct(def) => {
                structs.push((def.id)());
                let any = def.fields.iter().any(|field| {
                    if field.flatten {
                        return (field.node)().any_metadata(path, structs, found);
                    }
                    std::iter::once(&field.name).chain(field.aliases).any(|name| {
                        let place = path.push(name);
                        let any = (field.node)().any_metadata(path, structs, found);
                        path.back_to(place);
                        any
                    })
                });
                structs.pop();
                any
            }
        }
    }

    /// Returns the number of tensors of each value; `None` if values have more or fewer.
    ///
    /// `structs` are the enclosing structs, which are not entered again.
    pub(crate) fn tensor_count(self, structs: &mut Vec<TypeId>) -> Option<usize> {
        match self {
            Self::Tensor(_) => Some(1),
            Self::Metadata(_) => Some(0),
            Self::Newtype(node, _) => node().tensor_count(structs),
            Self::Array(node, len) => node().tensor_count(structs)?.checked_mul(len),
            Self::Tuple(parts) => {
                parts.iter().try_fold(0, |count: usize, part| count.checked_add(part().tensor_count(structs)?))
            }
            Self::Struct(def) if structs.contains(&(def.id)()) => None,
            Self::Struct(def) => {
                structs.push((def.id)());
                let count = def.fields.iter().try_fold(0, |count: usize, field| {
                    if field.optional && !field.metadata {
                        None
                    } else {
                        count.checked_add((field.node)().tensor_count(structs)?)
                    }
                });
                structs.pop();
                count
            }
            Self::Option(_) | Self::List(_) | Self::Map(_) => None,
        }
    }

    /// Returns whether values have a list or a map outside of anything optional. `structs` are the enclosing structs.
    fn requires_parts(self, structs: &mut Vec<TypeId>) -> bool {
        match self {
            Self::Tensor(_) | Self::Metadata(_) | Self::Option(_) => false,
            Self::List(_) | Self::Map(_) => true,
            Self::Newtype(node, _) => node().requires_parts(structs),
            Self::Array(node, len) => len > 0 && node().requires_parts(structs),
            Self::Tuple(parts) => parts.iter().any(|part| part().requires_parts(structs)),
            Self::Struct(def) if structs.contains(&(def.id)()) => false,
            Self::Struct(def) => {
                structs.push((def.id)());
                let requires = def.fields.iter().any(|field| !field.optional && (field.node)().requires_parts(structs));
                structs.pop();
                requires
            }
        }
    }

    /// Returns whether a field of the type has the attribute `dequantize`.
    pub(crate) fn dequantizes(self) -> bool {
        // Most types are asked while they load, so nothing is allocated.
        self.any_dequantizes(&mut SmallVec::new())
    }

    /// `structs` were asked before.
    fn any_dequantizes(self, structs: &mut SmallVec<[TypeId; 8]>) -> bool {
        match self {
            Self::Tensor(_) | Self::Metadata(_) => false,
            Self::Newtype(node, attrs) => attrs.dequantize || node().any_dequantizes(structs),
            Self::Option(node) | Self::List(node) | Self::Array(node, _) | Self::Map(node) => {
                node().any_dequantizes(structs)
            }
            Self::Tuple(parts) => parts.iter().any(|part| part().any_dequantizes(structs)),
            Self::Struct(def) if structs.contains(&(def.id)()) => false,
            Self::Struct(def) => {
                structs.push((def.id)());
                let mut fields = def.fields.iter();
                fields.any(|field| field.attrs.dequantize || (field.node)().any_dequantizes(structs))
            }
        }
    }

    /// Returns the node without `Option`s and newtypes around it.
    pub(crate) fn inner(mut self) -> Self {
        while let Self::Option(node) | Self::Newtype(node, _) = self {
            self = node();
        }
        self
    }

    /// Returns whether this is a list of tensors only, of any length.
    pub(crate) fn is_tensor_list(self) -> bool {
        match self {
            Self::List(item) => matches!(item().without_newtypes(), Self::Tensor(_)),
            Self::Newtype(node, _) => node().is_tensor_list(),
            _ => false,
        }
    }

    fn without_newtypes(self) -> Self {
        match self {
            Self::Newtype(node, _) => node().without_newtypes(),
            node => node,
        }
    }

    /// Returns whether the first item of a list is a struct, which makes the list read by name.
    pub(crate) fn begins_with_struct(self) -> bool {
        let first = match self.inner() {
            Self::List(item) => Some(item()),
            Self::Array(item, len) => (len > 0).then(item),
            Self::Tuple(parts) => parts.first().map(|part| part()),
            _ => None,
        };
        first.is_some_and(|first| matches!(first.inner(), Self::Struct(_)))
    }
}
