"""Tensors as arrays of numpy, as `safe_open` returns them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import _arrays, _tensorfile
from ._errors import as_safetensors

if TYPE_CHECKING:
    import numpy as np


def tensor(tensor: _tensorfile.Tensor, device: object, mmap: bool) -> np.ndarray:
    return _arrays.owned(tensor)


def tensors(file: _tensorfile.File, device: object, mmap: bool) -> dict[str, np.ndarray]:
    with as_safetensors():
        return _arrays.load(file)


def read_later(tensor: _tensorfile.Tensor, rows: slice | None, device: object) -> Callable[[], np.ndarray]:
    _arrays.dtype_of(tensor)
    return lambda: _arrays.owned(tensor) if rows is None else _arrays.part(tensor, rows)


def part(tensor: _tensorfile.Tensor, key: Any, device: object) -> Any:
    return _arrays.part(tensor, key)
