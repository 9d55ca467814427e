"""Tensors at addresses, and the names of dtypes in safetensors."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from . import _tensorfile
from ._errors import SafetensorError

# From the names of dtypes in safetensors' Python API to our own.
DTYPES = {
    "bool": "bool",
    **{f"{kind}{bits}": f"{kind[0]}{bits}" for bits in (8, 16, 32, 64) for kind in ("int", "uint")},
    **{f"float{bits}": f"f{bits}" for bits in (16, 32, 64)},
    **{"bfloat16": "bf16", "float8_e4m3fn": "f8_e4m3fn", "float8_e4m3fnuz": "f8_e4m3fnuz"},
    **{"float8_e5m2": "f8_e5m2", "float8_e5m2fnuz": "f8_e5m2fnuz", "float8_e8m0fnu": "f8_e8m0"},
    **{"float4_e2m1fn_x2": "f4", "complex64": "c64"},
}

# The names of dtypes in headers of safetensors, where they are not ours in upper case.
NAMES = {
    "bool": "BOOL",
    "f4": "F4",
    "f6_e2m3": "F6_E2M3",
    "f6_e3m2": "F6_E3M2",
    "f8_e5m2": "F8_E5M2",
    "f8_e4m3fn": "F8_E4M3",
    "f8_e5m2fnuz": "F8_E5M2FNUZ",
    "f8_e4m3fnuz": "F8_E4M3FNUZ",
    "f8_e8m0": "F8_E8M0",
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


def dtype_name(tensor: _tensorfile.Tensor) -> str:
    """Return the name that a header has for the dtype of a tensor, such as `F32`."""
    return NAMES.get(tensor.dtype, tensor.dtype.upper())
