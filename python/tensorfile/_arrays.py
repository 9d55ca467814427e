"""Tensors as numpy arrays."""

import operator
import re

import numpy

from . import _tensorfile

# From dtypes of files to dtypes of numpy.
DTYPES = {
    "bool": "?",
    "i8": "i1",
    "i16": "i2",
    "i32": "i4",
    "i64": "i8",
    "u8": "u1",
    "u16": "u2",
    "u32": "u4",
    "u64": "u8",
    "f16": "f2",
    "f32": "f4",
    "f64": "f8",
    "c64": "c8",
    "c128": "c16",
    # Quantized elements are read as integers with the same bits.
    "qint8": "i1",
    "quint8": "u1",
    "qint32": "i4",
    "quint4x2": "u1",
    "quint2x4": "u1",
    "bits16": "u2",
}

# From dtypes of files to dtypes of the package ml_dtypes.
ML_DTYPES = {
    "bf16": "bfloat16",
    "f8_e5m2": "float8_e5m2",
    "f8_e4m3fn": "float8_e4m3fn",
    "f8_e5m2fnuz": "float8_e5m2fnuz",
    "f8_e4m3fnuz": "float8_e4m3fnuz",
    "f8_e8m0": "float8_e8m0fnu",
}


def dtype_of(tensor, as_bits=False):
    """Return the numpy dtype of a tensor, and whether it packs several elements into a byte.

    With `as_bits`, integers replace the dtypes of ml_dtypes.
    """
    name = tensor.dtype
    if tensor.is_sparse:
        raise TypeError(f"tensor `{tensor.name}` is sparse; `coo()` returns its indices and values")
    if tensor.is_unknown:
        raise TypeError(f"tensor `{tensor.name}` has the unknown dtype {name}; `data` has its bytes")
    if name in DTYPES:
        return numpy.dtype(DTYPES[name]), False
    if name not in ML_DTYPES:
        # Packed elements are bytes, as in the package gguf.
        return numpy.dtype("u1"), True
    if as_bits:
        return numpy.dtype("u2" if name == "bf16" else "u1"), False
    try:
        import ml_dtypes
    except ImportError:
        raise TypeError(
            f"tensor `{tensor.name}`: numpy has no {name}; install ml_dtypes, or use torch.from_dlpack"
        ) from None
    return numpy.dtype(getattr(ml_dtypes, ML_DTYPES[name])), False


def packed_shape(shape, nbytes):
    """Return the shape of an array of packed bytes. If rows are whole bytes, its last dim counts bytes."""
    rows = 1
    for dim in shape[:-1]:
        rows *= dim
    if shape and (rows == 0 or nbytes % rows == 0):
        return (*shape[:-1], nbytes // rows if rows else 0)
    return (nbytes,)


def view(tensor):
    """Return a read-only view of the file, or of a copy if the file stores the elements in another form."""
    dtype, is_packed = dtype_of(tensor)
    if is_packed:
        return numpy.ndarray(packed_shape(tensor.shape, tensor.nbytes), dtype, tensor.data)
    return numpy.ndarray(tensor.shape, dtype, tensor.data, strides=tensor.strides)


def of_text(tensor):
    """Return an array of strings or times, which this package otherwise does not take for tensors."""
    shown = f"{tensor.path or 'the file'}: tensor `{tensor.name}`, {tensor.dtype}{list(tensor.shape)}"
    found = re.fullmatch(r"'([<>|=]?[USMm]\d*(?:\[\w+\])?)'", tensor.dtype)
    if found is None:
        reason = "has Python objects, which only executing the file would make" if "O" in tensor.dtype else "is no tensor"
        raise ValueError(f"{shown}, {reason}")
    if tensor.ndim > 1:
        # The file may be in column order, and `Tensor` does not say so for an unknown dtype.
        raise ValueError(f"{shown}, has several dims; `numpy.load` reads it")
    return numpy.frombuffer(bytes(tensor.data), numpy.dtype(found[1])).reshape(tensor.shape).copy()


def private(tensor):
    """Return an array that may be changed: a view of a private mapping of the file if possible, else a copy."""
    memory = tensor._private(False)
    if memory is None or tensor.nbytes == 0:
        return owned(tensor)
    dtype, is_packed = dtype_of(tensor)
    if is_packed:
        return numpy.ndarray(packed_shape(tensor.shape, tensor.nbytes), dtype, memory)
    return numpy.ndarray(tensor.shape, dtype, memory, strides=tensor.strides)


def array(tensor, dtype, copy):
    """Implement `__array__`."""
    found = owned(tensor) if copy else view(tensor)
    if dtype is None or found.dtype == dtype:
        return found
    if copy is False:
        raise ValueError(f"tensor `{tensor.name}` has to be copied from {found.dtype} to {dtype}")
    return found.astype(dtype)


def empty(shape, dtype):
    """Return a new array, and its bytes as a buffer."""
    if dtype.isbuiltin == 1:
        found = numpy.empty(shape, dtype)
        # A buffer has at least one dim.
        return found, found.reshape(1) if found.ndim == 0 else found
    # The dtypes of ml_dtypes have no letter in the buffer protocol, so the buffer is an array of bytes.
    size = dtype.itemsize
    for dim in shape:
        size *= dim
    flat = numpy.empty(size, "u1")
    return flat.view(dtype).reshape(shape), flat


def owned(tensor):
    """Return a copy of a tensor, in the memory order of the file."""
    return owned_all([tensor])[0]


def owned_all(tensors, progress=None):
    """Return copies of tensors of one file, read together and in threads."""
    places = [place(tensor) for tensor in tensors]
    _tensorfile.read_tensors(tensors, [buffer for _, buffer in places], progress)
    return [found for found, _ in places]


def load(file, progress=None):
    """Return copies of all tensors of a file, by name."""
    items = file.items()
    return dict(zip((name for name, _ in items), owned_all([tensor for _, tensor in items], progress)))


def place(tensor):
    """Return a new array for a tensor, in the memory order of the file, and its bytes as a buffer."""
    dtype, is_packed = dtype_of(tensor)
    if is_packed:
        return empty(packed_shape(tensor.shape, tensor.nbytes), dtype)
    # Sort the dims as they are in memory, outermost first. For dims of size 1 the order does not matter.
    strides = tensor.strides
    order = sorted(range(len(strides)), key=lambda dim: -strides[dim])
    found, buffer = empty([tensor.shape[dim] for dim in order], dtype)
    if order == list(range(len(order))):
        return found, buffer
    return found.transpose([order.index(dim) for dim in range(len(order))]), buffer


def coo(tensor):
    """Return the indices and values of a sparse tensor."""
    if not tensor.is_sparse:
        raise TypeError(f"tensor `{tensor.name}` is dense; `numpy.asarray` has its elements")
    payload = numpy.empty(tensor.nbytes, "u1")
    tensor.read_into(payload)
    return split_coo(payload, tensor)


def split_coo(payload, tensor):
    """Split the bytes of a sparse tensor: rows of indices, their number, and values."""
    dtype, ndim = numpy.dtype(DTYPES[tensor.dtype]), tensor.ndim
    nnz = (len(payload) - 8) // (8 * ndim + dtype.itemsize)
    # The file has unsigned indices. They are below the dims, so they fit into i8.
    indices = payload[: 8 * ndim * nnz].view("i8").reshape(nnz, ndim).T
    return indices, payload[8 * ndim * nnz + 8 :].view(dtype)


def part(tensor, key, as_bits=False):
    """Read the part of a tensor with an index of integers, slices, `...` and `None`."""
    dtype, is_packed = dtype_of(tensor, as_bits)
    shape = tensor.shape
    bounds, rest = split(key, shape)
    sizes = tuple(end - start for start, end in bounds)
    if is_packed:
        if shape and rest[-1] != slice(None):
            raise IndexError(f"tensor `{tensor.name}`: elements of {tensor.dtype} are packed along the last dim")
        elements = tensor.size
        nbytes = tensor.nbytes
        for size in sizes:
            nbytes *= size
        sizes = packed_shape(sizes, nbytes // elements if elements else 0)
    found, buffer = empty(sizes, dtype)
    tensor._read_part(bounds, buffer)
    return found[rest] if any(index != slice(None) for index in rest) else found


def integer(index):
    try:
        if not isinstance(index, (bool, numpy.bool_)):
            return operator.index(index)
    except TypeError:
        pass
    raise TypeError(
        f"a tensor is indexed by integers, slices, `...` and `None`, not by {type(index).__name__};"
        " `numpy.asarray(t)[...]` takes any index"
    )


def split(key, shape):
    """Split an index into the bounds to read along each dim, and an index into the elements read."""
    keys = list(key) if isinstance(key, tuple) else [key]
    dims = sum(index is not None and index is not Ellipsis for index in keys)
    if dims > len(shape):
        raise IndexError(f"too many indices: {dims}, but the tensor has {len(shape)} dims")
    if sum(index is Ellipsis for index in keys) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if not any(index is Ellipsis for index in keys):
        keys.append(Ellipsis)
    place = next(i for i, index in enumerate(keys) if index is Ellipsis)
    keys[place : place + 1] = [slice(None)] * (len(shape) - dims)
    bounds, rest = [], []
    for index in keys:
        if index is None:
            rest.append(None)
            continue
        dim = shape[len(bounds)]
        if isinstance(index, slice):
            picked = range(*index.indices(dim))
            low, high = sorted((picked[0], picked[-1])) if picked else (0, -1)
            bounds.append((low, high + 1))
            rest.append(slice(None) if picked.step == 1 else slice(None, None, picked.step))
            continue
        number = integer(index)
        if not -dim <= number < dim:
            raise IndexError(f"index {number} is out of bounds for dim {len(bounds)} with size {dim}")
        number %= dim
        bounds.append((number, number + 1))
        rest.append(0)
    return bounds, tuple(rest)
