use std::any::TypeId;
use std::cell::RefCell;
use std::fmt;

use super::adapt::dims_text;
use super::{Adapt, FieldSpec};
use crate::error::ErrorKind;
use crate::tensor::{Dtype, TensorInfo};

/// The tree of names and types that a type maps to tensors; see [`Schema`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[doc(hidden)]
pub enum Node {
    /// One tensor.
    Tensor(Slot),
    /// Named parts, or numbered ones.
    Struct { fields: Vec<Field>, allow_unknown: bool },
    /// Present or absent as a whole.
    Optional(Box<Node>),
    /// Any number of items, numbered from 0.
    List(Box<Node>),
    /// So many items, numbered from 0.
    Array(Box<Node>, usize),
    /// Parts of their own types, numbered from 0.
    Tuple(Vec<Node>),
    /// Any number of items with names that the type does not tell.
    Map(Box<Node>),
    /// A struct around, once more: its names go on without end.
    Again(Again),
}

/// How to make the node of a struct that contains itself.
#[derive(Debug, Clone, Copy)]
#[doc(hidden)]
pub struct Again(fn() -> Node);

impl Again {
    pub(crate) fn node(self) -> Node {
        self.0()
    }
}

/// Where one struct contains itself in two places, both are alike; the addresses of functions would not tell.
impl PartialEq for Again {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Again {}

/// A field of [`Node::Struct`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[doc(hidden)]
pub struct Field {
    /// The name as the derive gives it to the deserializer.
    pub spec: &'static str,
    pub node: Node,
}

/// What a type tells of a tensor before there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// The dtype, or `None` for any.
    pub dtype: Option<Dtype>,
    /// The dims as far as known, or `None` for any rank.
    pub dims: Option<Vec<Option<usize>>>,
    accept: Accept,
}

/// Refuses a tensor that a type of the given dims and attributes cannot be read from.
pub(crate) type Check = fn(&TensorInfo, Option<&[Option<usize>]>, &Adapt) -> Result<(), ErrorKind>;

/// The very check that reading begins with.
#[derive(Debug, Clone)]
struct Accept {
    check: Check,
    /// The dims of the type, whatever the attributes say.
    dims: Option<Vec<Option<usize>>>,
    adapt: Adapt,
}

/// The addresses of functions tell nothing; the dtype and the dims of the slot do.
impl PartialEq for Accept {
    fn eq(&self, other: &Self) -> bool {
        (&self.dims, &self.adapt) == (&other.dims, &other.adapt)
    }
}

impl Eq for Accept {}

thread_local! {
    /// The structs whose nodes are being made, each within the one before.
    static OPEN: RefCell<Vec<TypeId>> = const { RefCell::new(Vec::new()) };
}

impl Node {
    /// The node of a derived struct, which `again` makes where the struct contains itself.
    pub(crate) fn of_struct<T: ?Sized>(
        fields: impl FnOnce() -> Vec<Field>,
        allow_unknown: bool,
        again: fn() -> Node,
    ) -> Self {
        let this = typeid::of::<T>();
        if OPEN.with_borrow(|open| open.contains(&this)) {
            return Node::Again(Again(again));
        }
        OPEN.with_borrow_mut(|open| open.push(this));
        let fields = fields();
        OPEN.with_borrow_mut(Vec::pop);
        Node::Struct { fields, allow_unknown }
    }

    /// The node of a field with the given attributes.
    #[must_use]
    pub fn adapted(self, adapt: &Adapt) -> Self {
        match self {
            Node::Tensor(slot) => Node::Tensor(slot.adapted(adapt)),
            Node::Optional(node) => Node::Optional(Box::new(node.adapted(adapt))),
            Node::List(node) => Node::List(Box::new(node.adapted(adapt))),
            Node::Array(node, len) => Node::Array(Box::new(node.adapted(adapt)), len),
            Node::Tuple(parts) => Node::Tuple(parts.into_iter().map(|part| part.adapted(adapt)).collect()),
            Node::Map(node) => Node::Map(Box::new(node.adapted(adapt))),
            node @ (Node::Struct { .. } | Node::Again(_)) => node,
        }
    }
}

impl Slot {
    /// A slot of any tensor.
    pub(crate) const ANY: Self = {
        let accept = Accept { check: |_, _, _| Ok(()), dims: None, adapt: Adapt::NONE };
        Self { dtype: None, dims: None, accept }
    };

    pub(crate) fn new(dtype: Dtype, dims: Option<Vec<Option<usize>>>, check: Check) -> Self {
        let accept = Accept { check, dims: dims.clone(), adapt: Adapt::NONE };
        Self { dtype: Some(dtype), dims, accept }
    }

    fn adapted(mut self, adapt: &Adapt) -> Self {
        // A newtype's attributes hold where its field has none.
        if *adapt == (Adapt { tied: adapt.tied, ..Adapt::NONE }) {
            return self;
        }
        self.accept.adapt = *adapt;
        if adapt.cast {
            self.dtype = None;
        }
        if let Some(shape) = adapt.shape {
            self.dims = Some(shape.to_vec());
        }
        if adapt.transpose
            && let Some(dims) = &mut self.dims
        {
            dims.reverse();
        }
        self
    }

    /// Refuses a tensor as reading would, before its payload is read.
    pub(crate) fn check(&self, info: &TensorInfo) -> Result<(), ErrorKind> {
        let Accept { check, dims, adapt } = &self.accept;
        check(info, dims.as_deref(), adapt)
    }

    /// Whether a tensor of a file fits, as far as dtype and dims tell.
    #[must_use]
    pub fn accepts(&self, info: &TensorInfo) -> bool {
        self.dtype.is_none_or(|dtype| dtype == info.dtype)
            && self.dims.as_ref().is_none_or(|dims| {
                dims.len() == info.shape.rank()
                    && dims.iter().zip(info.shape.iter()).all(|(dim, found)| dim.is_none_or(|dim| dim == *found))
            })
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.dtype.map_or("any", Dtype::name))?;
        match &self.dims {
            Some(dims) => f.write_str(&dims_text(dims)),
            None => f.write_str("[..]"),
        }
    }
}

/// The tensors that a type maps to: names, dtypes and shapes as far as the type tells, without an instance.
///
/// Where a name depends on the value, it holds a `*`: an index of a `Vec`, a key of a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    node: Node,
}

/// A tensor of a [`Schema`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchemaEntry {
    /// The name, with `*` for each part that the value decides.
    pub name: String,
    /// Other names that the tensor is read by.
    pub aliases: Vec<String>,
    /// What is known of the tensor.
    pub slot: Slot,
    /// Whether a file may do without it.
    pub optional: bool,
}

impl Schema {
    pub(crate) fn new(node: Node) -> Self {
        Self { node }
    }

    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    /// The tensors in the order in which they are written.
    #[must_use]
    pub fn entries(&self) -> Vec<SchemaEntry> {
        let mut entries = Vec::new();
        collect(&self.node, &[String::new()], false, &mut entries);
        entries
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for entry in self.entries() {
            writeln!(f, "{}: {}{}", entry.name, entry.slot, if entry.optional { "?" } else { "" })?;
        }
        Ok(())
    }
}

/// Adds the tensors of `node`, which lies at any of `names`.
fn collect(node: &Node, names: &[String], optional: bool, entries: &mut Vec<SchemaEntry>) {
    match node {
        Node::Tensor(slot) => entries.push(SchemaEntry {
            name: names[0].clone(),
            aliases: names[1..].to_vec(),
            slot: slot.clone(),
            optional,
        }),
        Node::Optional(node) => collect(node, names, true, entries),
        // A list may be empty, so nothing in it must be there; but what an item of it has, each item must have.
        Node::List(node) | Node::Map(node) => collect(node, &join(names, "*"), optional, entries),
        Node::Array(node, len) => {
            for at in 0..*len {
                collect(node, &join(names, &at.to_string()), optional, entries);
            }
        }
        Node::Tuple(parts) => {
            for (at, part) in parts.iter().enumerate() {
                collect(part, &join(names, &at.to_string()), optional, entries);
            }
        }
        Node::Again(_) => collect(&Node::Tensor(Slot::ANY), &join(names, "*"), optional, entries),
        Node::Struct { fields, .. } => {
            for field in fields {
                let spec = FieldSpec::parse(field.spec);
                let names = if spec.is_flattened() {
                    names.to_vec()
                } else {
                    spec.names().flat_map(|name| join(names, name)).collect()
                };
                collect(&field.node, &names, optional || spec.is_optional(), entries);
            }
        }
    }
}

fn join(names: &[String], part: &str) -> Vec<String> {
    let join = |name: &String| if name.is_empty() { part.to_owned() } else { format!("{name}.{part}") };
    names.iter().map(join).collect()
}
