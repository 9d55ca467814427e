//! The names of a file as a tree that branches at dots.

use std::fmt;

use indexmap::IndexMap;
use tensorfile::{Dtype, Layout, TensorInfo};

/// A prefix of names.
#[derive(Debug, Default)]
pub struct Node {
    /// The tensor whose name is the prefix itself.
    pub tensor: Option<Leaf>,
    /// The next segments, in the order of the file.
    pub below: IndexMap<String, Node>,
    /// Set if there are tensors below whose names no field can have.
    pub has_others: bool,
}

/// The maximum number of segments that become structs; the rest of a longer name is the name of a field.
///
/// Larger than models need, and small enough for the deserializer and for compile times.
const MAX_DEPTH: usize = 12;

impl Node {
    /// Adds a tensor below this node, which is the root.
    pub fn insert(&mut self, name: &str, info: &TensorInfo) {
        let (mut node, mut rest) = (self, Some(name));
        for depth in 1.. {
            let Some(name) = rest else { break };
            let (segment, below) = match name.split_once('.') {
                Some((segment, below)) if depth < MAX_DEPTH => (segment, Some(below)),
                _ => (name, None),
            };
            if !is_field_name(segment) {
                node.has_others = true;
                return;
            }
            node = node.below.entry(segment.to_owned()).or_default();
            rest = below;
        }
        node.tensor = Some(Leaf::of(info));
    }
}

/// Returns whether the derive accepts the name.
fn is_field_name(name: &str) -> bool {
    !name.contains('\0') && !name.split('.').any(str::is_empty)
}

/// Parses a segment that is an index of a list.
pub fn index(segment: &str) -> Option<usize> {
    let has_no_leading_zeros = segment == "0" || segment.starts_with(|first| matches!(first, '1'..='9'));
    segment.parse().ok().filter(|_| has_no_leading_zeros)
}

/// The common properties of the tensors that one field loads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    pub kind: Kind,
    /// The dims, with `None` for dims that differ; `None` if the ranks differ.
    pub dims: Option<Vec<Option<usize>>>,
}

/// The kind of a tensor, which with the rank determines the type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Dense(Dtype),
    Sparse(Dtype),
    Blob,
    /// Several kinds, or one without a type in the library.
    Any,
}

impl Leaf {
    pub fn of(info: &TensorInfo) -> Self {
        let kind = match info.layout {
            Layout::RowMajor | Layout::DimOrder(_) => Kind::Dense(info.dtype),
            Layout::Coo { .. } => Kind::Sparse(info.dtype),
            Layout::Blob => Kind::Blob,
            _ => Kind::Any,
        };
        Self { kind, dims: Some(info.shape.iter().copied().map(Some).collect()) }
    }

    /// Keeps only the properties that both have.
    pub fn unify(&mut self, other: &Self) {
        if self.kind != other.kind {
            self.kind = Kind::Any;
        }
        self.dims = match (self.dims.take(), &other.dims) {
            (Some(mut dims), Some(others)) if dims.len() == others.len() => {
                dims.iter_mut().zip(others).filter(|(dim, other)| dim != other).for_each(|(dim, _)| *dim = None);
                Some(dims)
            }
            _ => None,
        };
    }

    pub fn rank(&self) -> Option<usize> {
        self.dims.as_ref().map(Vec::len)
    }

    /// Formats the dims as the attribute `shape` has them.
    pub fn shape(&self) -> String {
        let Some(dims) = &self.dims else { return "[..]".to_owned() };
        let dims = dims.iter().map(|dim| dim.map_or("_".to_owned(), |dim| dim.to_string()));
        format!("[{}]", dims.collect::<Vec<_>>().join(", "))
    }
}

impl fmt::Display for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape = self.shape();
        match self.kind {
            Kind::Dense(dtype) => write!(f, "`{dtype}{shape}`"),
            Kind::Sparse(dtype) => write!(f, "`{dtype}{shape}`, sparse"),
            Kind::Blob => write!(f, "a blob of {} bytes", shape.trim_matches(['[', ']'])),
            Kind::Any => write!(f, "`any{shape}`: dtypes or layouts differ"),
        }
    }
}
