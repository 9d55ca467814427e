//! The known globals of checkpoints: dtypes, types of storages, and functions called by pickles.

use crate::error::{ErrorKind, cannot_store};
use crate::tensor::{Dtype, Shape, TensorInfo};
use crate::write::zip::PaddingField;

/// The names of members: of the pickle, of the other parts, and of storages, before their keys. The folder is named
/// as by PyTorch for a file that is not on disk, so that a file's bytes do not depend on its path.
pub(super) const PICKLE: &str = "archive/data.pkl";
pub(super) const BYTE_ORDER: &str = "archive/byteorder";
pub(super) const VERSION: &str = "archive/version";
pub(super) const STORAGES: &str = "archive/data/";

/// The extra field that aligns storages, with the id `FB` and the padding of PyTorch.
pub(super) const PADDING: PaddingField = PaddingField { id: u16::from_le_bytes(*b"FB"), begin: b"", padding: b'Z' };

/// The length of the longest name that our reader does not leave out.
pub(super) const MAX_NAME: usize = u16::MAX as usize - 1;

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

impl Tag {
    /// Returns the number of elements in a unit of [`bytes`](Self::bytes): more than one for dtypes packed by PyTorch.
    pub(super) fn packed(&self) -> u64 {
        match self.name {
            "quint4x2" => 2,
            "quint2x4" => 4,
            _ => 1,
        }
    }
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
    // Two to a byte: PyTorch counts bytes, so the last dim has twice as many elements.
    tag("float4_e2m1fn_x2", "", 1, Some(Dtype::F4)),
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
    // PyTorch only has the names of these dtypes.
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

/// The layouts of sparse tensors, after the dense one.
static LAYOUTS: &[&str] = &["strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"];

/// Returns a layout by its name, without the module `torch`.
pub(super) fn layout(name: &str) -> Option<&'static &'static str> {
    LAYOUTS.iter().find(|layout| **layout == name)
}

/// The type of storages without a dtype: each tensor states it.
pub(super) static UNTYPED: Tag = tag("uint8", "UntypedStorage", 1, Some(Dtype::U8));

/// The type of storages of a class that is unknown: how many bytes an element has is not known either.
pub(super) static UNKNOWN: Tag = tag("", "", 1, None);

/// The number of readable element types.
const READ: usize = {
    let (mut index, mut count) = (0, 0);
    while index < TAGS.len() {
        count += TAGS[index].dtype.is_some() as usize;
        index += 1;
    }
    count
};

/// The readable dtypes.
pub(super) const DTYPES: [Dtype; READ] = {
    let (mut dtypes, mut index, mut count) = ([Dtype::U8; READ], 0, 0);
    while index < TAGS.len() {
        if let Some(dtype) = TAGS[index].dtype {
            dtypes[count] = dtype;
            count += 1;
        }
        index += 1;
    }
    dtypes
};

/// Returns the type of elements of one of the [`DTYPES`].
pub(super) fn tag_of(dtype: Dtype) -> &'static Tag {
    TAGS.iter().find(|tag| tag.dtype == Some(dtype)).expect("dtypes are checked before")
}

/// Returns dims as PyTorch counts them: in bytes along the last one, if several elements share one.
pub(super) fn stored_dims(dtype: Dtype, dims: &[usize]) -> Shape {
    let mut dims = dims.to_vec();
    if let Some(last) = dims.last_mut() {
        *last /= dtype.block_elements();
    }
    dims.into()
}

/// Refuses a shape that PyTorch cannot have.
pub(super) fn check(info: &TensorInfo) -> Result<(), ErrorKind> {
    let packed = info.dtype.block_elements();
    if info.shape.last().is_some_and(|last| !last.is_multiple_of(packed)) {
        let instead = format!("in pytorch, rows of {} are multiples of {packed}", info.dtype);
        return Err(cannot_store(info.to_string(), instead));
    }
    // PyTorch computes strides even for a tensor without elements.
    let elements =
        info.shape.iter().try_fold(1_i64, |elements, dim| elements.checked_mul(i64::try_from(*dim).ok()?.max(1)));
    match elements {
        Some(_) => Ok(()),
        None => Err(cannot_store(info.to_string(), "PyTorch counts elements in 63 bits")),
    }
}

/// Refuses a name that readers leave out.
pub(crate) fn check_name(name: &str) -> Result<(), ErrorKind> {
    if name.len() <= MAX_NAME {
        return Ok(());
    }
    Err(cannot_store(format!("a name of {} bytes", name.len()), format!("pytorch stores names of up to {MAX_NAME}")))
}

/// A known function, class or constant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Function {
    /// Makes a tensor of a storage, an offset, a size and strides. The fields are the positions of the arguments for
    /// the dtype and for the bits `conj` and `neg`.
    Tensor {
        dtype: Option<u8>,
        bits: Option<u8>,
    },
    /// Makes a parameter of a tensor.
    Parameter,
    /// Makes a parameter of a tensor, with attributes as the fourth argument.
    ParameterWithState,
    /// Converts a tensor or an array to a dtype.
    Converted,
    /// Calls another function, and sets type and attributes of the result.
    FromType,
    /// Makes a tensor with unreadable elements.
    Other(TensorKind),
    /// Makes a dict of nothing, of a dict, or of pairs.
    Dict,
    /// Makes a dict of a function for missing keys and what [`Dict`](Self::Dict) takes.
    DefaultDict,
    Tuple,
    Size,
    List,
    Set,
    FrozenSet,
    /// Makes bytes of nothing, of bytes, or of a string and the name of an encoding.
    Bytes,
    Bytearray,
    /// Makes bytes of a string and the name of an encoding.
    Encode,
    Complex,
    Device,
    /// Makes a layout of its name.
    Layout,
    /// Returns the first argument.
    First,
    /// Returns an attribute of a class.
    Attribute,
    /// Calls a class, its first argument.
    New,
    /// As `New`, with a base class and its value.
    Reconstruct,
    NumpyDtype,
    NumpyScalar,
    /// Makes an array, whose content is set later.
    NumpyArray,
    /// Makes an array of bytes, a dtype, a shape and the order of its dims.
    NumpyFromBuffer,
    /// A class of PyTorch or numpy that is never called.
    Class,
    /// A method of quantization or an order of dims.
    Constant,
}

/// A kind of tensor with unreadable elements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum TensorKind {
    /// Made of the arguments of [`Function::Tensor`], then the scales.
    Quantized,
    /// Made of a layout, and a tuple of tensors and the size.
    Sparse(&'static &'static str),
    /// Made of one tensor with all elements, and further tensors.
    Nested,
    /// Made of a dict with all elements in the tensor `values`.
    Jagged,
    /// A tensor without elements, made of a dtype and a size.
    Meta,
    /// A tensor made of a class with its elements in attributes, a dtype and a size.
    Wrapper,
    /// A tensor without elements and size.
    Uninitialized,
    /// A tensor converted to another dtype on loading.
    Converted,
    /// A tensor with unknown bits, or bits unsuitable for its dtype.
    Changed,
    /// A tensor of a dtype that is unknown, as a later PyTorch may have.
    OtherDtype,
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
            Self::Converted => "stored as another dtype",
            Self::Changed => "changed by unknown metadata",
            Self::OtherDtype => "of another dtype",
        }
    }
}

/// A global allowed in checkpoints.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Global {
    Dtype(&'static Tag),
    Storage(&'static Tag),
    Function(Function),
    Layout(&'static &'static str),
}

/// Returns a global by name. `None` if it is unknown: its result is not read, and none of it is run.
///
/// These are the globals of `torch.load(weights_only=True)` for tensors and containers, the classes and functions of
/// PyTorch's own tensors, numpy's arrays, and builtin types of values.
pub(super) fn global(module: &str, name: &str) -> Option<Global> {
    let storage = || TAGS.iter().find(|tag| !tag.storage.is_empty() && tag.storage == name).map(Global::Storage);
    let function = match (module, name) {
        ("torch._utils", "_rebuild_tensor") => Function::Tensor { dtype: None, bits: None },
        ("torch._utils", "_rebuild_tensor_v2") => Function::Tensor { dtype: None, bits: Some(6) },
        ("torch._utils", "_rebuild_tensor_v3") => Function::Tensor { dtype: Some(6), bits: Some(7) },
        ("torch._utils", "_rebuild_parameter") => Function::Parameter,
        ("torch._utils", "_rebuild_parameter_with_state") => Function::ParameterWithState,
        ("torch.nn.parameter", "Parameter" | "Buffer") | ("torch.autograd.variable" | "torch.autograd", "Variable") => {
            Function::Parameter
        }
        (
            "torch._utils",
            "_rebuild_device_tensor_from_cpu_tensor" | "_rebuild_device_tensor_from_numpy" | "_rebuild_xla_tensor",
        ) => Function::Converted,
        ("torch._utils", "_rebuild_qtensor") => Function::Other(TensorKind::Quantized),
        ("torch._utils", "_rebuild_sparse_tensor" | "_rebuild_sparse_csr_tensor") => {
            Function::Other(TensorKind::Sparse(&"sparse"))
        }
        ("torch._utils", "_rebuild_nested_tensor") => Function::Other(TensorKind::Nested),
        ("torch.nested._internal.nested_tensor", "_rebuild_njt") => Function::Other(TensorKind::Jagged),
        ("torch.nested._internal.nested_tensor", "NestedTensor") => Function::Class,
        ("torch._utils", "_rebuild_meta_tensor_no_storage") => Function::Other(TensorKind::Meta),
        ("torch._utils", "_rebuild_wrapper_subclass") => Function::Other(TensorKind::Wrapper),
        ("torch.nn.parameter", "UninitializedParameter" | "UninitializedBuffer") => {
            Function::Other(TensorKind::Uninitialized)
        }
        ("torch._tensor", "_rebuild_from_type_v2" | "_rebuild_from_type") | ("torch.tensor", "_rebuild_from_type") => {
            Function::FromType
        }
        // What libtorch writes around lists and dicts.
        (
            "torch.jit._pickle",
            "build_intlist" | "build_tensorlist" | "build_doublelist" | "build_boollist" | "restore_type_tag",
        ) => Function::First,
        ("torch", "Size") => Function::Size,
        ("torch", "device") => Function::Device,
        ("torch.serialization", "_get_layout") => Function::Layout,
        ("torch", "Tensor") | ("torch.storage", "TypedStorage") => Function::Class,
        ("collections", "OrderedDict" | "Counter") | ("builtins" | "__builtin__", "dict") => Function::Dict,
        ("collections", "defaultdict") => Function::DefaultDict,
        ("builtins" | "__builtin__", "tuple") => Function::Tuple,
        ("builtins" | "__builtin__", "list") => Function::List,
        ("builtins" | "__builtin__", "set") => Function::Set,
        ("builtins" | "__builtin__", "frozenset") => Function::FrozenSet,
        ("builtins" | "__builtin__", "bytes") => Function::Bytes,
        ("builtins" | "__builtin__", "bytearray") => Function::Bytearray,
        ("_codecs", "encode") => Function::Encode,
        ("builtins" | "__builtin__", "complex") => Function::Complex,
        ("builtins" | "__builtin__", "getattr") => Function::Attribute,
        ("copyreg" | "copy_reg", "__newobj__") => Function::New,
        ("copyreg" | "copy_reg", "_reconstructor") => Function::Reconstruct,
        ("numpy", "dtype") => Function::NumpyDtype,
        ("numpy", "ndarray") => Function::Class,
        ("numpy.core.multiarray" | "numpy._core.multiarray", "scalar") => Function::NumpyScalar,
        ("numpy.core.multiarray" | "numpy._core.multiarray", "_reconstruct") => Function::NumpyArray,
        ("numpy.core.numeric" | "numpy._core.numeric", "_frombuffer") => Function::NumpyFromBuffer,
        ("torch.storage", "UntypedStorage") | ("torch", "UntypedStorage") => return Some(Global::Storage(&UNTYPED)),
        ("torch.cuda", _) => return storage(),
        ("torch", _) if layout(name).is_some() => return layout(name).map(Global::Layout),
        ("torch", _) if CONSTANTS.contains(&name) => Function::Constant,
        ("torch", _) => return TAGS.iter().find(|tag| tag.name == name).map(Global::Dtype).or_else(storage),
        _ => return None,
    };
    Some(Global::Function(function))
}

/// The methods of quantization, and the orders of dims, both constants in the module `torch`.
static CONSTANTS: &[&str] = &[
    "per_tensor_affine",
    "per_tensor_symmetric",
    "per_channel_affine",
    "per_channel_symmetric",
    "per_channel_affine_float_qparams",
    "contiguous_format",
    "preserve_format",
    "channels_last",
    "channels_last_3d",
];

/// Returns the dtype of a name of numpy, without byte order.
pub(super) fn numpy_dtype(name: &str) -> Option<Dtype> {
    Some(match name {
        "b1" => Dtype::Bool,
        "i1" => Dtype::I8,
        "i2" => Dtype::I16,
        "i4" => Dtype::I32,
        "i8" => Dtype::I64,
        "u1" => Dtype::U8,
        "u2" => Dtype::U16,
        "u4" => Dtype::U32,
        "u8" => Dtype::U64,
        "f2" => Dtype::F16,
        "f4" => Dtype::F32,
        "f8" => Dtype::F64,
        "c8" => Dtype::C64,
        "c16" => Dtype::C128,
        _ => return None,
    })
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
