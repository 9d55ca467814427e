"""Types of arguments: paths, file objects, metadata and dtypes."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from typing import Any, Protocol, Union

from ._tensorfile import DTYPES


class Reader(Protocol):
    """A file object to read from."""

    def read(self, count: int, /) -> bytes:
        """Read up to `count` bytes."""
        ...

    def seek(self, offset: int, whence: int, /) -> int:
        """Move to an offset, and return it."""
        ...


class Writer(Protocol):
    """A file object to write to."""

    def write(self, content: bytes, /) -> int | None:
        """Write bytes, and return how many; `None` means all."""
        ...


Path = Union[str, "os.PathLike[str]"]


def texts(argument: str, entries: Mapping[str, Any]) -> dict[str, str]:
    """Return entries of metadata as a dict. A key or value that is not a string is an error."""
    for key, value in entries.items():
        if not isinstance(key, str):
            raise TypeError(f"`{argument}`: the key {key!r} is a {type(key).__name__}; keys are strings")
        if not isinstance(value, str):
            raise TypeError(
                f"`{argument}`: the value of `{key}` is a {type(value).__name__}; values are strings, such as {str(value)!r}"
            )
    return dict(entries)



# Short names of numpy. `f4` is numpy's 4-byte float here; the 4-bit float of files is `float4_e2m1fn_x2`.
NUMPY_WORDS = {
    **{"f2": "f16", "f4": "f32", "f8": "f64", "c8": "c64", "c16": "c128", "?": "bool", "b1": "bool"},
    **{"i1": "i8", "i2": "i16", "i4": "i32", "u1": "u8", "u2": "u16", "u4": "u32"},
}
# Long names of numpy, ml_dtypes and torch.
LONG_NAMES = {
    **{f"{kind}{bits}": f"{kind[0]}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
    **{"float16": "f16", "half": "f16", "bfloat16": "bf16", "float32": "f32", "float": "f64", "float64": "f64", "double": "f64"},
    **{"complex64": "c64", "complex128": "c128", "bool_": "bool", "float8_e8m0fnu": "f8_e8m0"},
    **{f"float8_{kind}": f"f8_{kind}" for kind in ("e5m2", "e4m3fn", "e5m2fnuz", "e4m3fnuz")},
    **{"float4_e2m1fn": "f4", "float4_e2m1fn_x2": "f4"},
}


def dtype_name(dtype: Any) -> str:
    """Return our name of a dtype. It may be given by a name, or as a dtype of numpy or torch."""
    if not isinstance(dtype, str):
        if dtype in (bool, int, float, complex):
            return {bool: "bool", int: "i64", float: "f64", complex: "c128"}[dtype]
        # A class of scalars, a dtype of numpy, or one of torch.
        name = getattr(dtype, "__name__", None) or getattr(dtype, "name", None) or str(dtype)
        name = name.removeprefix("torch.")
        if name not in LONG_NAMES and name not in DTYPES:
            raise TypeError(f"{dtype!r} is not a dtype")
        return LONG_NAMES.get(name, name)
    name = dtype.removeprefix("torch.").removeprefix("<")
    name = NUMPY_WORDS.get(name) or LONG_NAMES.get(name) or name
    if name not in DTYPES:
        near = difflib.get_close_matches(name, DTYPES, n=1)
        advice = f"did you mean {near[0]!r}?" if near else f"some are {', '.join(DTYPES[:16])}"
        raise ValueError(f"unknown dtype {dtype!r}; {advice}")
    return name
