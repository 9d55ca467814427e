"""The functions of safetensors for tensors given by their address in memory."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from typing import Any

from . import _tensorfile
from ._errors import as_safetensors
from ._safetensors import save_as_safetensors
from ._spec import TensorSpec, dtype_name

def serialize(tensor_dict: Mapping[str, TensorSpec], metadata: Mapping[str, str] | None = None) -> bytes:
    """Return tensors at addresses as the bytes of a safetensors file."""
    out = io.BytesIO()
    serialize_file(tensor_dict, out, metadata)  # type: ignore[arg-type]
    return out.getvalue()


def serialize_file(
    tensor_dict: Mapping[str, TensorSpec], filename: str | os.PathLike[str], metadata: Mapping[str, str] | None = None
) -> None:
    """Save tensors at addresses as a safetensors file."""
    for name, spec in tensor_dict.items():
        if not isinstance(spec, TensorSpec):
            raise TypeError(f"`{name}` is a {type(spec).__name__}, not a TensorSpec")
    save_as_safetensors(filename, tensor_dict, metadata)


def deserialize(bytes: bytes) -> list[tuple[str, dict[str, Any]]]:
    """Return the names, shapes, dtypes and bytes of all tensors of a file in memory."""
    with as_safetensors(), _tensorfile.open_bytes(bytes) as file:
        return [
            (name, {"shape": list(tensor.shape), "dtype": dtype_name(tensor), "data": bytearray(tensor.data)})
            for name, tensor in file.items()
        ]
