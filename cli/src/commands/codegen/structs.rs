//! Collects the structs for a tree of names, each once.

use std::collections::{BTreeSet, HashMap};

use super::names::{Taken, snake};
use super::tree::{Kind, Leaf};
use super::unify::{Content, Fields, Numbered};

/// The structs of a file, without duplicates. A struct comes after the structs of its fields.
#[derive(Debug, Default)]
pub struct Structs {
    pub structs: Vec<Struct>,
    known: HashMap<Signature, usize>,
}

/// The names and types of the fields in any order. Structs with the same signature are equal.
type Signature = BTreeSet<(Option<String>, Type)>;

#[derive(Debug, Clone)]
pub struct Struct {
    pub fields: Vec<Field>,
}

#[derive(Debug, Clone)]
pub struct Field {
    pub ident: String,
    /// The name in the file; `None` if the field is flattened.
    pub name: Option<String>,
    pub ty: Type,
    /// The properties of the tensors, if the field is a tensor or holds only tensors.
    pub leaf: Option<Leaf>,
}

/// The type of a field.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Type {
    /// A tensor, with its rank if it is always the same.
    Tensor(Kind, Option<usize>),
    /// The struct at this index.
    Struct(usize),
    List(Box<Type>),
    Map(Box<Type>),
    Option(Box<Type>),
    /// Tensors by name.
    TensorMap,
}

impl Type {
    /// Returns the index of the struct in the type, if there is one.
    pub fn struct_index(&self) -> Option<usize> {
        match self {
            Self::Struct(index) => Some(*index),
            Self::List(ty) | Self::Map(ty) | Self::Option(ty) => ty.struct_index(),
            Self::Tensor(..) | Self::TensorMap => None,
        }
    }

    /// Returns whether the type holds several items.
    pub fn is_collection(&self) -> bool {
        match self {
            Self::List(_) | Self::Map(_) => true,
            Self::Option(ty) => ty.is_collection(),
            Self::Tensor(..) | Self::Struct(_) | Self::TensorMap => false,
        }
    }
}

impl Structs {
    /// Returns the structs of a file. The last one is the root.
    pub fn new(root: &Fields) -> Self {
        let mut structs = Self::default();
        structs.add(root);
        structs
    }

    /// Adds the struct with these fields, unless it exists, and returns its index.
    fn add(&mut self, fields: &Fields) -> usize {
        let converted = self.fields(fields);
        let signature = converted.iter().map(|field| (field.name.clone(), field.ty.clone())).collect();
        if let Some(&index) = self.known.get(&signature) {
            self.structs[index].unify(&converted);
            return index;
        }
        self.structs.push(Struct { fields: converted });
        self.known.insert(signature, self.structs.len() - 1);
        self.structs.len() - 1
    }

    fn fields(&mut self, fields: &Fields) -> Vec<Field> {
        let mut idents = Taken::default();
        let mut converted = Vec::with_capacity(fields.named.len());
        for (name, field) in &fields.named {
            let (mut ty, leaf) = self.content(&field.content);
            // An absent list or map is empty.
            if field.is_optional && !ty.is_collection() {
                ty = Type::Option(Box::new(ty));
            }
            converted.push(Field { ident: idents.take(snake(name), "_"), name: Some(name.clone()), ty, leaf });
        }
        if let Some(numbered) = &fields.numbered {
            let (ty, leaf) = self.numbered(numbered);
            converted.push(Field { ident: idents.take("items".to_owned(), "_"), name: None, ty, leaf });
        }
        if fields.has_others {
            let ident = idents.take("others".to_owned(), "_");
            converted.push(Field { ident, name: None, ty: Type::TensorMap, leaf: None });
        }
        converted
    }

    fn content(&mut self, content: &Content) -> (Type, Option<Leaf>) {
        match content {
            Content::Tensor(leaf) => (Type::Tensor(leaf.kind, leaf.rank()), Some(leaf.clone())),
            Content::Fields(fields) => match fields.only_numbered() {
                Some(numbered) => self.numbered(numbered),
                None => (Type::Struct(self.add(fields)), None),
            },
        }
    }

    fn numbered(&mut self, numbered: &Numbered) -> (Type, Option<Leaf>) {
        let (item, leaf) = self.content(&numbered.item);
        let ty = if numbered.is_map { Type::Map } else { Type::List };
        (ty(Box::new(item)), leaf)
    }
}

impl Struct {
    /// Keeps only the properties of tensors shared with an equal struct.
    fn unify(&mut self, others: &[Field]) {
        let others: HashMap<_, _> = others.iter().map(|field| (&field.name, &field.leaf)).collect();
        for field in &mut self.fields {
            if let (Some(leaf), Some(Some(other))) = (&mut field.leaf, others.get(&field.name)) {
                leaf.unify(other);
            }
        }
    }
}
