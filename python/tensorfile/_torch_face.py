"""Tensors as tensors of torch, as `safe_open` returns them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from . import _arrays, _tensorfile
from ._errors import as_safetensors

# From dtypes of files to dtypes of torch. Tensors of other dtypes, such as GGUF's blocks, become bytes.
_DTYPES = {
    "bool": "bool",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "f8_e5m2": "float8_e5m2",
    "f8_e4m3fn": "float8_e4m3fn",
    "f8_e5m2fnuz": "float8_e5m2fnuz",
    "f8_e4m3fnuz": "float8_e4m3fnuz",
    "f8_e8m0": "float8_e8m0fnu",
    "f4": "float4_e2m1fn_x2",
    "c64": "complex64",
    "c128": "complex128",
    "qint8": "int8",
    "quint8": "uint8",
    "qint32": "int32",
    "bits16": "int16",
}


def tensors(file: _tensorfile.File, device: Any, mmap: bool) -> dict[str, torch.Tensor]:
    with as_safetensors():
        items = file.items()
        found = {name: mapped(tensor) if mmap else None for name, tensor in items}
        rest = [(name, tensor) for name, tensor in items if found[name] is None]
        found.update(zip((name for name, _ in rest), owned([tensor for _, tensor in rest])))
        return {name: to(tensor, device) for name, tensor in found.items() if tensor is not None}


def tensor(tensor: _tensorfile.Tensor, device: Any, mmap: bool) -> torch.Tensor:
    """Return a tensor that may be changed: mapped privately if possible, else read."""
    found = mapped(tensor) if mmap else None
    return to(owned([tensor])[0] if found is None else found, device)


def to(tensor: torch.Tensor, device: Any) -> torch.Tensor:
    return tensor if str(device) == "cpu" else tensor.to(device)


def owned(tensors: list[_tensorfile.Tensor]) -> list[torch.Tensor]:
    """Read tensors of one file together, in threads."""
    dtypes = [dtype_of(tensor) for tensor in tensors]
    memory = [torch.empty(tensor.nbytes, dtype=torch.uint8) for tensor in tensors]
    _tensorfile.read_tensors(tensors, [flat.numpy() for flat in memory])
    return [shaped(flat, dtype, tensor) for flat, dtype, tensor in zip(memory, dtypes, tensors)]


def mapped(tensor: _tensorfile.Tensor, strides: Any = None) -> torch.Tensor | None:
    """Return a tensor in a private mapping of the file, or `None` if the file stores the elements in another form."""
    dtype = dtype_of(tensor, strides)
    if tensor.is_sparse or tensor.nbytes == 0 or tensor.offset % dtype.itemsize:
        return None
    memory = tensor._private(False)
    return None if memory is None else shaped(torch.frombuffer(memory, dtype=torch.uint8), dtype, tensor, strides)


# Dtypes that only torch has, by their names in checkpoints.
_UNKNOWN = {"torch.complex32": "complex32"}


def dtype_of(tensor: _tensorfile.Tensor, strides: Any = None) -> torch.dtype:
    """Return the dtype in torch. `strides` are given for a tensor of an unknown dtype, if the checkpoint has them."""
    if tensor.is_unknown and strides is not None and tensor.dtype in _UNKNOWN:
        return getattr(torch, _UNKNOWN[tensor.dtype])
    if tensor.is_unknown:
        raise TypeError(f"tensor `{tensor.name}` has the unknown dtype {tensor.dtype}; `data` has its bytes")
    name = _DTYPES.get(tensor.dtype, "uint8")
    dtype = getattr(torch, name, None)
    if dtype is None:
        raise TypeError(f"tensor `{tensor.name}`: this version of torch has no {name}")
    return dtype


def shaped(flat: torch.Tensor, dtype: torch.dtype, tensor: _tensorfile.Tensor, strides: Any = None) -> torch.Tensor:
    """Return the bytes of a tensor as a tensor with its dtype, shape and strides."""
    if tensor.is_sparse:
        indices, values = _arrays.split_coo(flat.numpy(), tensor)
        return torch.sparse_coo_tensor(torch.from_numpy(indices), torch.from_numpy(values), tensor.shape)
    if tensor.is_unknown:
        return flat.view(dtype).as_strided(tensor.shape, strides, flat.storage_offset() // dtype.itemsize)
    found = flat.view(dtype)
    if tensor.strides is None:
        return found.reshape(_arrays.packed_shape(tensor.shape, tensor.nbytes))
    return found.as_strided(tensor.shape, [stride // dtype.itemsize for stride in tensor.strides], found.storage_offset())


def read_later(tensor: _tensorfile.Tensor, rows: slice | None, device: Any) -> Callable[[], torch.Tensor]:
    _packed(tensor)
    return lambda: to(owned([tensor])[0], device) if rows is None else part(tensor, rows, device)


def _packed(tensor: _tensorfile.Tensor) -> None:
    """Refuse a dtype that torch lacks, as safetensors does; other functions return such elements as bytes."""
    if tensor.dtype not in _DTYPES:
        raise TypeError(f"torch has no {tensor.dtype}")
    dtype_of(tensor)


def part(tensor: _tensorfile.Tensor, key: Any, device: Any) -> torch.Tensor:
    import numpy as np

    bits = np.asarray(_arrays.part(tensor, key, as_bits=True))
    found = torch.from_numpy(np.ascontiguousarray(bits).reshape(-1).view("u1")).view(dtype_of(tensor))
    return found.reshape(bits.shape).to(device)
