//! Values of checkpoints that are more than named tensors.

use std::sync::Arc;

/// A value as the program that saved it had it: tensors in dicts and lists, next to numbers and texts.
///
/// [`File::value_tree`](crate::File::value_tree) returns that of a PyTorch checkpoint.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ValueTree {
    nodes: Vec<ValueNode>,
}

/// A value. Values in it are named by their positions in [`ValueTree::nodes`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ValueNode {
    /// Python's `None`.
    None,
    /// A bool.
    Bool(bool),
    /// An integer of up to 64 bits.
    Int(i64),
    /// An integer of any length, as its little-endian bytes in two's complement.
    LongInt(Arc<[u8]>),
    /// An integer of any length, as its decimal digits.
    Digits(Arc<[u8]>),
    /// A float.
    Float(f64),
    /// A complex number.
    Complex(f64, f64),
    /// A string, in UTF-8 that may have lone surrogates, as Python encodes them.
    Text(Arc<[u8]>),
    /// Bytes, and whether they are a `bytearray`.
    Bytes(Arc<[u8]>, bool),
    /// A tuple.
    Tuple(Vec<usize>),
    /// A `torch.Size`.
    Size(Vec<usize>),
    /// A list.
    List(Vec<usize>),
    /// A set.
    Set(Vec<usize>),
    /// A frozen set.
    FrozenSet(Vec<usize>),
    /// Keys with values, and the dict of the attributes of a subclass.
    Dict(Vec<(usize, usize)>, Option<usize>),
    /// A name in the module `torch`: a dtype, a layout or a constant.
    Torch(Arc<str>),
    /// The parts of a device: its type, and perhaps its number.
    Device(Vec<usize>),
    /// A dtype of numpy, with its byte order.
    NumpyDtype(Arc<str>),
    /// A scalar of numpy: its dtype, and its bytes.
    NumpyScalar(Arc<str>, Arc<[u8]>),
    /// A tensor of the file.
    Tensor {
        /// The position in the file.
        position: usize,
        /// The steps between elements of an [unknown](crate::Layout::Unknown) dtype, if they are known: the bytes go
        /// from the first element to the last one.
        strides: Option<Vec<u64>>,
        /// Whether it is an array of numpy.
        is_array: bool,
    },
    /// What an unknown class makes: its name, and its tensors by their names and their positions in the file.
    Object(Arc<str>, Vec<(String, usize)>),
    /// A value that is left out, and why.
    LeftOut(Arc<str>),
}

impl ValueTree {
    /// Returns all values. A value comes after those in it, so that the whole is the last one.
    ///
    /// A value that is in several others is there once.
    #[must_use]
    pub fn nodes(&self) -> &[ValueNode] {
        &self.nodes
    }

    pub(crate) fn new(nodes: Vec<ValueNode>) -> Self {
        Self { nodes }
    }
}
