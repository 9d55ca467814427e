//! The values that a pickle describes.

use super::header::{Function, Tag, TensorKind};

/// A value. Those of any length are in a [`Heap`], so that values are small, and containers can be shared.
#[derive(Debug, Clone, Copy)]
pub(super) enum PickleValue {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// An integer of more than 64 bits, as its little-endian bytes.
    Long(Span),
    Text(Span),
    Bytes(Span),
    Tuple(u32),
    List(u32),
    Set(u32),
    Dict(u32),
    Dtype(&'static Tag),
    StorageType(&'static Tag),
    Function(Function),
    /// The layout of a tensor, such as `sparse_coo`.
    Layout(&'static &'static str),
    Constant,
    Storage(u32),
    Tensor(u32),
    /// A tensor whose elements cannot be read.
    Other(u32),
}

impl PickleValue {
    /// Returns the kind of value for messages.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Bool(_) => "a bool",
            Self::Int(_) | Self::Long(_) => "an integer",
            Self::Float(_) => "a float",
            Self::Text(_) => "a string",
            Self::Bytes(_) => "bytes",
            Self::Tuple(_) => "a tuple",
            Self::List(_) => "a list",
            Self::Set(_) => "a set",
            Self::Dict(_) => "a dict",
            Self::Dtype(_) => "a dtype",
            Self::StorageType(_) | Self::Function(_) => "a function",
            Self::Layout(_) | Self::Constant => "a constant",
            Self::Storage(_) => "a storage",
            Self::Tensor(_) | Self::Other(_) => "a tensor",
        }
    }

    /// Returns the container, if it is one.
    pub(super) fn container(self) -> Option<u32> {
        match self {
            Self::Tuple(at) | Self::List(at) | Self::Set(at) | Self::Dict(at) => Some(at),
            _ => None,
        }
    }
}

/// A part of [`Heap::bytes`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) start: u32,
    pub(super) len: u32,
}

/// The values of any length.
#[derive(Debug, Default)]
pub(super) struct Heap {
    /// The bytes of strings, which are UTF-8, and others.
    pub(super) bytes: Vec<u8>,
    /// The values of containers. Those of dicts are keys and values in turn.
    pub(super) containers: Vec<Vec<PickleValue>>,
    pub(super) storages: Vec<PickledStorage>,
    pub(super) tensors: Vec<PickledTensor>,
    pub(super) others: Vec<UnreadTensor>,
}

impl Heap {
    pub(super) fn bytes(&self, span: Span) -> &[u8] {
        &self.bytes[span.start as usize..][..span.len as usize]
    }

    pub(super) fn text(&self, span: Span) -> &str {
        str::from_utf8(self.bytes(span)).expect("a text was checked")
    }

    pub(super) fn values(&self, container: u32) -> &[PickleValue] {
        &self.containers[container as usize]
    }
}

/// A storage, which tensors can share.
#[derive(Debug, Clone, Copy)]
pub(super) struct PickledStorage {
    /// The name.
    pub(super) key: Span,
    pub(super) tag: &'static Tag,
    /// The number of elements.
    pub(super) len: u64,
    /// It is on the device `meta`, and has no bytes.
    pub(super) is_meta: bool,
    /// The offset of the opcode in the file.
    pub(super) place: u64,
}

/// A part of a storage as a tensor.
#[derive(Debug, Clone, Copy)]
pub(super) struct PickledTensor {
    pub(super) storage: u32,
    pub(super) tag: &'static Tag,
    /// The first element.
    pub(super) start: u64,
    /// The containers of the dims and of the strides in elements.
    pub(super) shape: u32,
    pub(super) strides: u32,
    /// The offset of the opcode in the file.
    pub(super) place: u64,
}

/// A tensor whose elements cannot be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnreadTensor {
    pub(super) kind: TensorKind,
    /// The type of its elements, and the container of its dims, as far as they are known.
    pub(super) tag: Option<&'static Tag>,
    pub(super) shape: Option<u32>,
    /// The tensor that has the bytes of its elements, if one has.
    pub(super) elements: Option<u32>,
    /// The offset of the opcode in the file.
    pub(super) place: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_small() {
        // A byte of a pickle can make a value.
        assert_eq!(size_of::<PickleValue>(), 16);
    }
}
