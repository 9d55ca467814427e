use std::fmt;

use tensorfile::{Dtype, Layout, TensorInfo};

/// What the tensors that one field holds have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    pub kind: Kind,
    /// The dims, `None` for those that differ; `None` as a whole where ranks do.
    pub dims: Option<Vec<Option<usize>>>,
}

/// The kind of tensor, which decides the type of a field together with the rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Dense(Dtype),
    Sparse(Dtype),
    Blob,
    /// Of several kinds, or of one that no type of the crate is for.
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

    /// Takes in another one, of which only what both have in common is kept.
    pub fn absorb(&mut self, other: &Self) {
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

    /// The dims as they stand in the attribute `shape`.
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
