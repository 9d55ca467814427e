//! The values that a pickle describes.

use super::header::{Function, Tag};

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
    Constant,
    Storage(u32),
    Tensor(u32),
    /// The kind of a tensor that cannot be read.
    Other(&'static &'static str),
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
            Self::Constant => "a constant",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_small() {
        // A byte of a pickle can make a value.
        assert_eq!(size_of::<PickleValue>(), 16);
    }
}
