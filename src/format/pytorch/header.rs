//! The globals of a checkpoint: dtypes, types of storages, and the functions that its pickle calls.

use crate::tensor::Dtype;

/// A type of elements.
#[derive(Debug, PartialEq)]
pub(super) struct Tag {
    /// The dtype in the module `torch`.
    pub(super) name: &'static str,
    /// The type of storages of it in the module `torch`.
    pub(super) storage: &'static str,
    /// The size of an element in bytes.
    pub(super) bytes: u64,
    pub(super) dtype: Option<Dtype>,
}

const fn tag(name: &'static str, storage: &'static str, bytes: u64, dtype: Option<Dtype>) -> Tag {
    Tag { name, storage, bytes, dtype }
}

/// All types of elements.
pub(super) static TAGS: &[Tag] = &[
    tag("bool", "BoolStorage", 1, Some(Dtype::Bool)),
    tag("int8", "CharStorage", 1, Some(Dtype::I8)),
    tag("int16", "ShortStorage", 2, Some(Dtype::I16)),
    tag("int32", "IntStorage", 4, Some(Dtype::I32)),
    tag("int64", "LongStorage", 8, Some(Dtype::I64)),
    tag("uint8", "ByteStorage", 1, Some(Dtype::U8)),
    tag("uint16", "", 2, Some(Dtype::U16)),
    tag("uint32", "", 4, Some(Dtype::U32)),
    tag("uint64", "", 8, Some(Dtype::U64)),
    tag("float16", "HalfStorage", 2, Some(Dtype::F16)),
    tag("bfloat16", "BFloat16Storage", 2, Some(Dtype::Bf16)),
    tag("float32", "FloatStorage", 4, Some(Dtype::F32)),
    tag("float64", "DoubleStorage", 8, Some(Dtype::F64)),
    tag("float8_e5m2", "", 1, Some(Dtype::F8E5M2)),
    tag("float8_e4m3fn", "", 1, Some(Dtype::F8E4M3Fn)),
    tag("float8_e5m2fnuz", "", 1, Some(Dtype::F8E5M2Fnuz)),
    tag("float8_e4m3fnuz", "", 1, Some(Dtype::F8E4M3Fnuz)),
    tag("float8_e8m0fnu", "", 1, Some(Dtype::F8E8M0)),
    tag("float4_e2m1fn_x2", "", 1, None),
    tag("complex32", "ComplexHalfStorage", 4, None),
    tag("complex64", "ComplexFloatStorage", 8, Some(Dtype::C64)),
    tag("complex128", "ComplexDoubleStorage", 16, Some(Dtype::C128)),
    // The scale of quantized elements is not in the storage.
    tag("qint8", "QInt8Storage", 1, None),
    tag("quint8", "QUInt8Storage", 1, None),
    tag("qint32", "QInt32Storage", 4, None),
    tag("quint4x2", "QUInt4x2Storage", 1, None),
    tag("quint2x4", "QUInt2x4Storage", 1, None),
    tag("bits1x8", "", 1, None),
    tag("bits2x4", "", 1, None),
    tag("bits4x2", "", 1, None),
    tag("bits8", "", 1, None),
    tag("bits16", "", 2, None),
    // PyTorch has names for these, but no elements.
    tag("int1", "", 1, None),
    tag("int2", "", 1, None),
    tag("int3", "", 1, None),
    tag("int4", "", 1, None),
    tag("int5", "", 1, None),
    tag("int6", "", 1, None),
    tag("int7", "", 1, None),
    tag("uint1", "", 1, None),
    tag("uint2", "", 1, None),
    tag("uint3", "", 1, None),
    tag("uint4", "", 1, None),
    tag("uint5", "", 1, None),
    tag("uint6", "", 1, None),
    tag("uint7", "", 1, None),
];

/// The layouts of sparse tensors, after that of dense ones.
static LAYOUTS: &[&str] = &["strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"];

/// Returns the layout of that name, without the module `torch`.
pub(super) fn layout(name: &str) -> Option<&'static &'static str> {
    LAYOUTS.iter().find(|layout| **layout == name)
}

/// The type of storages whose dtype is with each tensor.
pub(super) static UNTYPED: Tag = tag("uint8", "UntypedStorage", 1, Some(Dtype::U8));

/// The number of types of elements that can be read.
const READ: usize = {
    let (mut at, mut count) = (0, 0);
    while at < TAGS.len() {
        count += TAGS[at].dtype.is_some() as usize;
        at += 1;
    }
    count
};

/// The dtypes that can be read.
pub(super) const DTYPES: [Dtype; READ] = {
    let (mut dtypes, mut at, mut count) = ([Dtype::U8; READ], 0, 0);
    while at < TAGS.len() {
        if let Some(dtype) = TAGS[at].dtype {
            dtypes[count] = dtype;
            count += 1;
        }
        at += 1;
    }
    dtypes
};

/// A function or a class that a pickle can call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Function {
    /// Makes a tensor of a storage, an offset, a size and strides, and of a dtype that is the seventh argument.
    Tensor,
    /// Makes a parameter of a tensor.
    Parameter,
    /// Calls another function, and sets type and attributes of the result.
    FromType,
    /// Makes a tensor whose elements cannot be read.
    Other(TensorKind),
    /// Makes a dict of nothing, of a dict, or of pairs.
    Dict,
    Tuple,
    List,
    Set,
    /// Makes bytes of a string in Latin-1, or of bytes.
    Bytes,
    /// Returns the value that it is called with.
    Scalar,
    /// A class that is not called.
    Class,
}

/// A kind of tensor whose elements cannot be read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum TensorKind {
    /// Made of the arguments of [`Function::Tensor`], then the scales.
    Quantized,
    /// Made of a layout, and a tuple of tensors and the size.
    Sparse(&'static &'static str),
    /// Made of one tensor of all elements, and others.
    Nested,
    /// Made of a dict, in which `values` is one tensor of all elements.
    Jagged,
    /// Without elements, made of a dtype and a size.
    Meta,
    /// Made of a class that has the elements in attributes, a dtype and a size.
    Wrapper,
    /// Without elements and size.
    Uninitialized,
}

impl TensorKind {
    /// Returns the kind as PyTorch calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Quantized => "quantized",
            Self::Sparse(layout) => layout,
            Self::Nested => "nested",
            Self::Jagged => "jagged",
            Self::Meta => "meta",
            Self::Wrapper => "wrapper subclass",
            Self::Uninitialized => "uninitialized",
        }
    }
}

/// A global that a checkpoint may ask for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Global {
    Dtype(&'static Tag),
    Storage(&'static Tag),
    Function(Function),
    Layout(&'static &'static str),
    /// A constant that only quantized tensors have.
    Constant,
}

/// Returns the global of that name. `None` if it is not part of a checkpoint.
///
/// These are the globals of `torch.load(weights_only=True)` that tensors and containers need, the classes and functions of
/// PyTorch's own tensors, and builtin types of values.
pub(super) fn global(module: &str, name: &str) -> Option<Global> {
    let storage = || TAGS.iter().find(|tag| !tag.storage.is_empty() && tag.storage == name).map(Global::Storage);
    let function = match (module, name) {
        ("torch._utils", "_rebuild_tensor" | "_rebuild_tensor_v2" | "_rebuild_tensor_v3") => Function::Tensor,
        ("torch._utils", "_rebuild_parameter" | "_rebuild_parameter_with_state") => Function::Parameter,
        // The tensor of another device, and its dtype.
        ("torch._utils", "_rebuild_device_tensor_from_cpu_tensor") => Function::Parameter,
        ("torch._utils", "_rebuild_qtensor") => Function::Other(TensorKind::Quantized),
        ("torch._utils", "_rebuild_sparse_tensor" | "_rebuild_sparse_csr_tensor") => {
            Function::Other(TensorKind::Sparse(&"sparse"))
        }
        ("torch._utils", "_rebuild_nested_tensor") => Function::Other(TensorKind::Nested),
        ("torch.nested._internal.nested_tensor", "_rebuild_njt") => Function::Other(TensorKind::Jagged),
        ("torch.nested._internal.nested_tensor", "NestedTensor") => Function::Class,
        ("torch._utils", "_rebuild_meta_tensor_no_storage") => Function::Other(TensorKind::Meta),
        ("torch._utils", "_rebuild_wrapper_subclass") => Function::Other(TensorKind::Wrapper),
        ("torch._subclasses.fake_tensor", "FakeTensor") => Function::Class,
        ("torch.nn.parameter", "UninitializedParameter" | "UninitializedBuffer") => {
            Function::Other(TensorKind::Uninitialized)
        }
        ("torch._tensor", "_rebuild_from_type_v2") => Function::FromType,
        ("torch", "Size") | ("builtins" | "__builtin__", "tuple") => Function::Tuple,
        ("torch", "device") | ("torch.serialization", "_get_layout") => Function::Scalar,
        ("torch", "Tensor") | ("torch.nn.parameter", "Parameter") | ("torch.storage", "TypedStorage") => {
            Function::Class
        }
        ("collections", "OrderedDict" | "Counter") | ("builtins" | "__builtin__", "dict") => Function::Dict,
        ("builtins" | "__builtin__", "list") => Function::List,
        ("builtins" | "__builtin__", "set" | "frozenset") => Function::Set,
        ("builtins" | "__builtin__", "bytes" | "bytearray") | ("_codecs", "encode") => Function::Bytes,
        ("builtins" | "__builtin__", "int" | "float" | "bool" | "str" | "complex") => Function::Scalar,
        ("torch.storage", "UntypedStorage") | ("torch", "UntypedStorage") => return Some(Global::Storage(&UNTYPED)),
        ("torch.cuda", _) => return storage(),
        ("torch", _) if layout(name).is_some() => return layout(name).map(Global::Layout),
        ("torch", _) if name.starts_with("per_tensor_") || name.starts_with("per_channel_") => {
            return Some(Global::Constant);
        }
        ("torch", _) => return TAGS.iter().find(|tag| tag.name == name).map(Global::Dtype).or_else(storage),
        _ => return None,
    };
    Some(Global::Function(function))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_dtypes() {
        for tag in TAGS {
            assert!(tag.dtype.is_none_or(|dtype| dtype.block_bytes() as u64 == tag.bytes), "{tag:?}");
        }
    }

    #[test]
    fn only_parts_of_checkpoints_are_known() {
        for (module, name) in
            [("os", "system"), ("builtins", "eval"), ("torch", "load"), ("torch", ""), ("torch.cuda", ""), ("", "")]
        {
            assert_eq!(global(module, name), None, "{module}.{name}");
        }
    }
}
