"""The functions of safetensors for tensors given by their address in memory."""

from __future__ import annotations

import ctypes
import io
import os
from collections.abc import Mapping, Sequence
from typing import Any

from . import _tensorfile
from ._errors import SafetensorError, as_safetensors

# From the names of dtypes in safetensors' Python API to our own.
DTYPES = {
    "bool": "bool",
    **{f"{kind}{bits}": f"{kind[0]}{bits}" for bits in (8, 16, 32, 64) for kind in ("int", "uint")},
    **{f"float{bits}": f"f{bits}" for bits in (16, 32, 64)},
    **{"bfloat16": "bf16", "float8_e4m3fn": "f8_e4m3fn", "float8_e4m3fnuz": "f8_e4m3fnuz"},
    **{"float8_e5m2": "f8_e5m2", "float8_e5m2fnuz": "f8_e5m2fnuz", "float8_e8m0fnu": "f8_e8m0"},
    **{"float4_e2m1fn_x2": "f4", "complex64": "c64"},
}


class TensorSpec:
    """A tensor at an address, for `serialize`: `data_len` bytes, row-major.

    You must keep the memory alive until `serialize` returns. Nothing can check it.

    >>> import numpy, tensorfile
    >>> array = numpy.float32([1, 2])
    >>> spec = tensorfile.TensorSpec(dtype="float32", shape=[2], data_ptr=array.ctypes.data, data_len=array.nbytes)
    >>> tensorfile.deserialize(tensorfile.serialize({"w": spec}))
    [('w', {'shape': [2], 'dtype': 'F32', 'data': bytearray(b'\\x00\\x00\\x80?\\x00\\x00\\x00@')})]
    """

    __slots__ = ("_dtype", "data_len", "data_ptr", "dtype", "shape")

    def __init__(self, *, dtype: str, shape: Sequence[int], data_ptr: int, data_len: int) -> None:
        if dtype not in DTYPES:
            raise SafetensorError(f"Unknown dtype {dtype!r}. Supported dtypes: {', '.join(DTYPES)}")
        from ._safetensors import NAMES

        self._dtype = DTYPES[dtype]
        self.dtype = NAMES.get(self._dtype, self._dtype.upper())
        self.shape = list(shape)
        if self._dtype == "f4" and self.shape:
            # The last dim counts bytes, and a byte has two elements.
            self.shape[-1] *= 2
        self.data_ptr, self.data_len = data_ptr, data_len

    def __repr__(self) -> str:
        """Return the spec as a call of the constructor."""
        return f"TensorSpec(dtype='{self.dtype}', shape={self.shape}, data_ptr={self.data_ptr}, data_len={self.data_len})"

    def _prepared(self) -> tuple[Any, str, tuple[int, ...]]:
        """Return the memory, the dtype and the shape."""
        memory = memoryview((ctypes.c_ubyte * self.data_len).from_address(self.data_ptr))
        return memory, self._dtype, tuple(self.shape)


def serialize(tensor_dict: Mapping[str, TensorSpec], metadata: Mapping[str, str] | None = None) -> bytes:
    """Return tensors at addresses as the bytes of a safetensors file."""
    out = io.BytesIO()
    serialize_file(tensor_dict, out, metadata)  # type: ignore[arg-type]
    return out.getvalue()


def serialize_file(
    tensor_dict: Mapping[str, TensorSpec], filename: str | os.PathLike[str], metadata: Mapping[str, str] | None = None
) -> None:
    """Save tensors at addresses as a safetensors file."""
    from ._safetensors import save_as_safetensors

    for name, spec in tensor_dict.items():
        if not isinstance(spec, TensorSpec):
            raise TypeError(f"`{name}` is a {type(spec).__name__}, not a TensorSpec")
    save_as_safetensors(filename, tensor_dict, metadata)


def deserialize(bytes: bytes) -> list[tuple[str, dict[str, Any]]]:
    """Return the names, shapes, dtypes and bytes of all tensors of a file in memory."""
    from ._safetensors import dtype_name

    with as_safetensors(), _tensorfile.open_bytes(bytes) as file:
        return [
            (name, {"shape": list(tensor.shape), "dtype": dtype_name(tensor), "data": bytearray(tensor.data)})
            for name, tensor in file.items()
        ]
