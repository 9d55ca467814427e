//! How a weight is made from its parts. The parts have the dtypes and shapes that a layout wants.

use crate::tensor::Dtype;

/// The arithmetic of a layout, with its numbers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Recipe {
    Scaled(ScaledRecipe),
    Float4(Float4Recipe),
    Packed(PackedRecipe),
    Columns(ColumnsRecipe),
    Codebook(CodebookRecipe),
    Affine(AffineRecipe),
    Ggml(GgmlRecipe),
    /// It is not decoded.
    Refused,
}

/// `code * scale`: a byte for each code, and a scale for each block.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ScaledRecipe {
    pub(crate) code: Code,
    pub(crate) scale: ScaleCode,
    /// The size of a block in each dim.
    pub(crate) blocks: Vec<usize>,
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

/// `code * scale` of 4-bit floats, two to a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Float4Recipe {
    pub(crate) order: Float4Order,
    pub(crate) group: usize,
    pub(crate) scale: ScaleCode,
    pub(crate) second: Second,
    pub(crate) in_tiles: bool,
    pub(crate) is_transposed: bool,
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

/// `(code - zero) * scale` of integers in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PackedRecipe {
    pub(crate) bits: u32,
    pub(crate) is_dense: bool,
    pub(crate) group: usize,
}

/// `(code - zero) * scale` of integers in columns of words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ColumnsRecipe {
    pub(crate) bits: u32,
    pub(crate) kind: ColumnsKind,
    pub(crate) group: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnsKind {
    /// Whether zeros are stored less 1.
    Gptq {
        less_1: bool,
    },
    Awq,
}

/// `map[code] * absmax` over blocks of all elements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CodebookRecipe {
    pub(crate) block: usize,
    /// The block and the offset of scales that are codes too.
    pub(crate) nested: Option<(usize, f32)>,
}

/// `code * scale + bias` of integers in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AffineRecipe {
    pub(crate) bits: u32,
    pub(crate) group: usize,
}

/// Blocks of ggml.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GgmlRecipe(pub(crate) Dtype);
