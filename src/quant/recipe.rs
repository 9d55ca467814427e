//! How a weight is made from its parts. The parts have the dtypes and shapes that a layout wants.

use crate::tensor::Dtype;

/// The arithmetic of a layout, with its numbers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Recipe {
    /// `code * scale`: a byte for each code, and a scale for each block, whose size is given for each dim.
    Scaled { code: Code, scale: ScaleCode, blocks: Vec<usize> },
    /// `code * scale` of 4-bit floats, two to a byte.
    Float4 { order: Float4Order, group: usize, scale: ScaleCode, second: Second, in_tiles: bool, is_transposed: bool },
    /// `(code - zero) * scale` of integers in words.
    Packed { bits: u32, is_dense: bool, group: usize },
    /// `(code - zero) * scale` of integers in columns of words.
    Columns { bits: u32, kind: ColumnsKind, group: usize },
    /// `map[code] * absmax` over blocks of all elements. Nested scales have a block and an offset.
    Codebook { block: usize, nested: Option<(usize, f32)> },
    /// `code * scale + bias` of integers in words.
    Affine { bits: u32, group: usize },
    /// Blocks of ggml.
    Ggml(Dtype),
    /// It is not decoded.
    Refused,
}

/// What a byte of codes is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    Float8(Dtype),
    I8,
    /// With a division by 127.
    LlmInt8,
}

/// What the scales are stored as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScaleCode {
    /// A dtype of floats.
    Float(Dtype),
    E4m3,
    /// A power of two.
    E8m0,
}

/// Which half of a byte is first, and what code 8 is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Float4Order {
    LowFirst,
    /// Code 8 is positive zero.
    ModelOpt,
    HighFirst,
}

/// What is done with the scale of scales.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Second {
    None,
    Divides,
    Multiplies,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnsKind {
    /// Whether zeros are stored less 1.
    Gptq {
        less_1: bool,
    },
    Awq,
}
