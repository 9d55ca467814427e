use std::any::TypeId;
use std::cell::RefCell;
use std::fmt;

use super::adapt::dims_text;
use super::{Adapt, FieldSpec};
use crate::tensor::Dtype;

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
    /// Any number of items with names that the type does not tell.
    Map(Box<Node>),
}

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
}

/// The names of a tuple's parts.
const NUMBERS: [&str; 8] = ["0", "1", "2", "3", "4", "5", "6", "7"];

thread_local! {
    /// The structs whose nodes are being made, each within the one before.
    static OPEN: RefCell<Vec<TypeId>> = const { RefCell::new(Vec::new()) };
}

impl Node {
    /// The node of a derived struct. Where it contains itself, the inner one is a map: its names go on without end.
    pub(crate) fn of_struct<T: ?Sized>(fields: impl FnOnce() -> Vec<Field>, allow_unknown: bool) -> Self {
        let this = typeid::of::<T>();
        if OPEN.with_borrow(|open| open.contains(&this)) {
            return Node::Map(Box::new(Node::Tensor(Slot { dtype: None, dims: None })));
        }
        OPEN.with_borrow_mut(|open| open.push(this));
        let fields = fields();
        OPEN.with_borrow_mut(Vec::pop);
        Node::Struct { fields, allow_unknown }
    }

    /// The parts of a tuple.
    pub(crate) fn numbered(parts: Vec<Node>) -> Self {
        let fields = NUMBERS.into_iter().zip(parts).map(|(spec, node)| Field { spec, node }).collect();
        Node::Struct { fields, allow_unknown: false }
    }

    /// The node of a field with the given attributes.
    #[must_use]
    pub fn adapted(self, adapt: &Adapt) -> Self {
        match self {
            Node::Tensor(slot) => Node::Tensor(slot.adapted(adapt)),
            Node::Optional(node) => Node::Optional(Box::new(node.adapted(adapt))),
            Node::List(node) => Node::List(Box::new(node.adapted(adapt))),
            Node::Array(node, len) => Node::Array(Box::new(node.adapted(adapt)), len),
            Node::Map(node) => Node::Map(Box::new(node.adapted(adapt))),
            node @ Node::Struct { .. } => node,
        }
    }
}

impl Slot {
    fn adapted(mut self, adapt: &Adapt) -> Self {
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

    /// Whether a tensor of a file fits.
    #[must_use]
    pub fn accepts(&self, info: &crate::tensor::TensorInfo) -> bool {
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
