//! The names of a file as a tree, with a level for each segment.

use std::fmt;

use indexmap::IndexMap;
use tensorfile::cast::Caster;
use tensorfile::quant::{Role, Scheme, Verdict};
use tensorfile::{Dtype, Layout, TensorInfo};

use crate::output::tensors::are_codes;

/// A prefix of names.
#[derive(Debug, Default)]
pub struct Node {
    /// The tensor named by the prefix itself.
    pub tensor: Option<Leaf>,
    /// The next segments, in the order of the file.
    pub below: IndexMap<String, Node>,
    /// Set if there are tensors below with names impossible for fields.
    pub has_others: bool,
    /// Set if the structs leave out tensors below, so that a list or a map would take too much.
    pub has_left_out: bool,
    /// Set if the prefix itself names a tensor left out by the structs.
    pub is_left_out: bool,
}

/// The maximum number of segments turned into structs; the rest of a longer name is the name of a field.
///
/// Larger than models need, and small enough for the deserializer and for compile times.
const MAX_DEPTH: usize = 12;

impl Node {
    /// Adds a tensor below this node, the root.
    pub fn insert(&mut self, name: &str, leaf: Leaf) {
        let mut node = self;
        for segment in segments(name) {
            if !is_field_name(segment) {
                node.has_others = true;
                return;
            }
            node = node.below.entry(segment.to_owned()).or_default();
        }
        node.tensor = Some(leaf);
    }

    /// Marks the node of a tensor that is left out, after all other tensors were inserted.
    pub fn leave_out(&mut self, name: &str) {
        let mut node = self;
        for segment in segments(name) {
            if !node.below.contains_key(segment) {
                node.has_left_out = true;
                return;
            }
            node = &mut node.below[segment];
        }
        (node.has_left_out, node.is_left_out) = (true, true);
    }
}

/// Splits a name into the segments of its nodes.
fn segments(name: &str) -> impl Iterator<Item = &str> {
    name.splitn(MAX_DEPTH, '.')
}

/// Returns whether the derive accepts the name.
fn is_field_name(name: &str) -> bool {
    !name.contains('\0') && !name.split('.').any(str::is_empty)
}

/// Parses a segment as a list index.
pub fn index(segment: &str) -> Option<usize> {
    let has_no_leading_zeros = segment == "0" || segment.starts_with(|first| matches!(first, '1'..='9'));
    segment.parse().ok().filter(|_| has_no_leading_zeros)
}

/// The minimum number of digits in an address, as opposed to an index.
const ADDRESS_DIGITS: usize = 9;

/// Returns whether a segment looks like an address: old PyTorch keys the state of an optimizer by the parameter's
/// address.
pub fn is_address(segment: &str) -> bool {
    index(segment).is_some() && segment.len() >= ADDRESS_DIGITS
}

/// The common properties of the tensors in one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    pub kind: Kind,
    /// The dims, with `None` for varying dims; `None` if the ranks differ.
    pub dims: Option<Vec<Option<usize>>>,
    /// Set if the elements are cast to the dtype of `kind`.
    pub is_cast: bool,
    /// The dtype in the file; `None` if several are cast to one.
    pub dtype: Option<Dtype>,
    /// What the tensor is of a quantized weight. Codes are never cast.
    pub scheme: Option<(Scheme, Role)>,
    /// The scheme of a quantized weight that is decoded.
    pub decoded: Option<Scheme>,
}

/// The kind of a tensor. With the rank, it determines the type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Dense(Dtype),
    Sparse(Dtype),
    Blob,
    /// A dtype unknown to the library, accessible only as bytes.
    Unknown,
    /// Several kinds, or one without a type in the library.
    Any,
}

impl Leaf {
    /// Returns the properties of a tensor. Floats are cast to a dtype, if there is one.
    pub fn new(info: &TensorInfo, verdict: Verdict<'_>, cast: Option<Dtype>) -> Self {
        let scheme = match verdict {
            Verdict::Part(weight, role) if are_codes(verdict) => Some((weight.scheme(), role)),
            _ => None,
        };
        let decoded = match verdict {
            Verdict::Decoded(weight) => Some(weight.scheme()),
            _ => None,
        };
        let cast = cast.filter(|_| !are_codes(verdict));
        let kind = match info.layout {
            Layout::RowMajor | Layout::DimOrder(_) => Kind::Dense(info.dtype),
            Layout::Coo { .. } => Kind::Sparse(info.dtype),
            Layout::Blob => Kind::Blob,
            Layout::Unknown(_) => Kind::Unknown,
            _ => Kind::Any,
        };
        let cast = cast.filter(|to| matches!(kind, Kind::Dense(from) if from.is_float() && can_cast(from, *to)));
        let dims = Some(info.shape.iter().copied().map(Some).collect());
        let (kind, is_cast) = (cast.map_or(kind, Kind::Dense), cast.is_some());
        Self { kind, dims, is_cast, dtype: Some(info.dtype), scheme, decoded }
    }

    /// Keeps only the common properties.
    pub fn unify(&mut self, other: &Self) {
        if self.kind != other.kind {
            self.kind = Kind::Any;
        }
        self.scheme = self.scheme.filter(|scheme| Some(*scheme) == other.scheme);
        // The attribute leaves plain tensors as they are.
        self.decoded = self.decoded.or(other.decoded);
        self.is_cast = (self.is_cast || other.is_cast) && self.kind != Kind::Any;
        self.dtype = self.dtype.filter(|dtype| Some(*dtype) == other.dtype);
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

fn can_cast(from: Dtype, to: Dtype) -> bool {
    from == to || Caster::new(from, to).is_ok()
}

impl fmt::Display for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape = self.shape();
        match self.kind {
            Kind::Dense(dtype) if let Some(scheme) = self.decoded => {
                write!(f, "`{dtype}{shape}`, decoded from {scheme}")
            }
            Kind::Dense(to) if self.is_cast => match self.dtype {
                Some(from) if from == to => write!(f, "`{from}{shape}`, or another float"),
                Some(from) => write!(f, "`{from}{shape}`, cast"),
                None => write!(f, "`{to}{shape}`, cast from several dtypes"),
            },
            Kind::Dense(dtype) => {
                write!(f, "`{dtype}{shape}`")?;
                self.scheme.map_or(Ok(()), |(scheme, role)| write!(f, ", {scheme} {role} of a quantized weight"))
            }
            Kind::Sparse(dtype) => write!(f, "`{dtype}{shape}`, sparse"),
            Kind::Blob => write!(f, "a blob of {} bytes", shape.trim_matches(['[', ']'])),
            Kind::Unknown => write!(f, "`{shape}` of unknown dtype: bytes only"),
            Kind::Any => write!(f, "`any{shape}`: dtypes or layouts differ"),
        }
    }
}
