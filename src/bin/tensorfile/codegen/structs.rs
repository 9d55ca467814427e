use std::collections::{BTreeSet, HashMap};

use super::leaf::{Kind, Leaf};
use super::names::{Taken, snake};
use super::unify::{Fields, Numbered, Part};

/// The structs of a file, each after those that it names: of those that are equal, one.
#[derive(Debug, Default)]
pub struct Structs {
    pub structs: Vec<Struct>,
    known: HashMap<Signature, usize>,
}

/// What makes structs equal: the names and types of the fields, in any order.
type Signature = BTreeSet<(Option<String>, Type)>;

#[derive(Debug, Clone)]
pub struct Struct {
    pub fields: Vec<Field>,
}

#[derive(Debug, Clone)]
pub struct Field {
    pub ident: String,
    /// The name in the file; nothing where the field is flattened.
    pub name: Option<String>,
    pub ty: Type,
    /// What is known of the tensors, where the field is one or holds nothing else.
    pub leaf: Option<Leaf>,
}

/// The type of a field.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Type {
    /// A tensor of a rank, where it is always the same.
    Tensor(Kind, Option<usize>),
    /// The struct of that number.
    Struct(usize),
    List(Box<Type>),
    Map(Box<Type>),
    Option(Box<Type>),
    /// Tensors by their names.
    TensorMap,
}

impl Type {
    /// The struct that it is made of.
    pub fn of_struct(&self) -> Option<usize> {
        match self {
            Self::Struct(at) => Some(*at),
            Self::List(ty) | Self::Map(ty) | Self::Option(ty) => ty.of_struct(),
            Self::Tensor(..) | Self::TensorMap => None,
        }
    }

    pub fn is_of_many(&self) -> bool {
        match self {
            Self::List(_) | Self::Map(_) => true,
            Self::Option(ty) => ty.is_of_many(),
            Self::Tensor(..) | Self::Struct(_) | Self::TensorMap => false,
        }
    }
}

impl Structs {
    /// The structs of a file; the last is the root.
    pub fn new(root: &Fields) -> Self {
        let mut structs = Self::default();
        structs.add(root);
        structs
    }

    /// The number of the struct that has these fields.
    fn add(&mut self, fields: &Fields) -> usize {
        let made = self.fields(fields);
        let signature = made.iter().map(|field| (field.name.clone(), field.ty.clone())).collect();
        if let Some(&at) = self.known.get(&signature) {
            self.structs[at].absorb(&made);
            return at;
        }
        self.structs.push(Struct { fields: made });
        self.known.insert(signature, self.structs.len() - 1);
        self.structs.len() - 1
    }

    fn fields(&mut self, fields: &Fields) -> Vec<Field> {
        let mut idents = Taken::default();
        let mut made = Vec::with_capacity(fields.named.len());
        for (name, field) in &fields.named {
            let (mut ty, leaf) = self.part(&field.part);
            // Lists and maps are empty where nothing is there.
            if field.is_optional && !ty.is_of_many() {
                ty = Type::Option(Box::new(ty));
            }
            made.push(Field { ident: idents.take(snake(name), "_"), name: Some(name.clone()), ty, leaf });
        }
        if let Some(numbered) = &fields.numbered {
            let (ty, leaf) = self.numbered(numbered);
            made.push(Field { ident: idents.take("items".to_owned(), "_"), name: None, ty, leaf });
        }
        if fields.is_loose {
            let ident = idents.take("others".to_owned(), "_");
            made.push(Field { ident, name: None, ty: Type::TensorMap, leaf: None });
        }
        made
    }

    fn part(&mut self, part: &Part) -> (Type, Option<Leaf>) {
        match part {
            Part::Tensor(leaf) => (Type::Tensor(leaf.kind, leaf.rank()), Some(leaf.clone())),
            Part::Fields(fields) => match fields.only_numbered() {
                Some(numbered) => self.numbered(numbered),
                None => (Type::Struct(self.add(fields)), None),
            },
        }
    }

    fn numbered(&mut self, numbered: &Numbered) -> (Type, Option<Leaf>) {
        let (item, leaf) = self.part(&numbered.item);
        let ty = if numbered.is_map { Type::Map } else { Type::List };
        (ty(Box::new(item)), leaf)
    }
}

impl Struct {
    /// Takes in the fields of an equal one: what both know of their tensors is kept.
    fn absorb(&mut self, others: &[Field]) {
        let others: HashMap<_, _> = others.iter().map(|field| (&field.name, &field.leaf)).collect();
        for field in &mut self.fields {
            if let (Some(leaf), Some(Some(other))) = (&mut field.leaf, others.get(&field.name)) {
                leaf.absorb(other);
            }
        }
    }
}
