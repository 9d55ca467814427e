"""The functions of `safetensors.numpy`, for files of any format.

>>> import numpy
>>> from tensorfile.numpy import load_file, safe_open, save_file
>>> save_file({"w": numpy.float32([[1, 2], [3, 4]])}, "doctest.safetensors")
>>> with safe_open("doctest.safetensors", framework="np") as file:
...     file.get_slice("w")[:, 1]
array([2., 4.], dtype=float32)

Other than those of safetensors, they save Fortran-ordered and strided arrays right, take `bytearray` and `memoryview`,
and files get the mode of the umask.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from . import _arrays, _tensorfile
from ._errors import SafetensorError, as_safetensors
from ._safetensors import is_bytes, safe_open, save_as_safetensors
from ._types import Path, Reader

if TYPE_CHECKING:
    import numpy as np

__all__ = ["SafetensorError", "load", "load_file", "safe_open", "save", "save_file"]


def save_file(
    tensor_dict: Mapping[str, np.ndarray], filename: Path, metadata: Mapping[str, str] | None = None
) -> None:
    """Save a dict of arrays as a safetensors file, whatever its extension.

    >>> import numpy
    >>> from tensorfile.numpy import save_file
    >>> save_file({"w": numpy.zeros(2)}, "doctest.safetensors", metadata={"format": "np"})
    """
    save_as_safetensors(filename, tensor_dict, metadata)


def save(tensor_dict: Mapping[str, np.ndarray], metadata: Mapping[str, str] | None = None) -> bytes:
    """Return the bytes of a safetensors file of a dict of arrays.

    >>> import numpy
    >>> from tensorfile.numpy import load, save
    >>> load(save({"w": numpy.arange(3)}))
    {'w': array([0, 1, 2])}
    """
    out = io.BytesIO()
    save_as_safetensors(out, tensor_dict, metadata)
    return out.getvalue()


def load_file(filename: Path, *, backend: str = "mmap") -> dict[str, np.ndarray]:
    """Load a file into arrays of their own. The file may have any format."""
    with safe_open(filename, framework="np", backend=backend) as file:
        return file.get_tensors()


def load(data: Any, mmap_mode: str | None = None) -> Any:
    """Load what `safetensors.numpy.load` and `numpy.load` take.

    - The bytes of a file, such as a `bytearray` or a `memoryview`: a dict of arrays.
    - A path or a file object: the array of an npy file; of other files a dict of arrays. With `mmap_mode="r"` they are
      read-only views of the file, where it stores them plainly.

    Arrays of objects are refused by name, whether asked for or not: nothing in a file is executed.

    >>> import numpy
    >>> from tensorfile.numpy import load
    >>> numpy.savez("doctest.npz", w=numpy.arange(3))
    >>> load("doctest.npz", mmap_mode="r")["w"]
    array([0, 1, 2])
    """
    if mmap_mode not in (None, "r"):
        raise ValueError(f"unknown mmap_mode `{mmap_mode}`; views are read-only, `r`")
    if is_bytes(data):
        with as_safetensors():
            file = _tensorfile.open_bytes(data)
    else:
        file = _tensorfile.open(data, deny=["left-out", "unknown-dtype"])
    with file:
        if mmap_mode is None:
            arrays = _arrays.load(file)
        else:
            arrays = {name: _arrays.view(tensor) for name, tensor in file.items()}
        return arrays.popitem()[1] if file.format == "npy" else arrays


def _tensor(tensor: _tensorfile.Tensor, device: object, storages: object) -> np.ndarray:
    return _arrays.owned(tensor)


def _tensors(file: _tensorfile.File, device: object, mmap: bool) -> dict[str, np.ndarray]:
    with as_safetensors():
        return _arrays.load(file)


def _read_later(tensor: _tensorfile.Tensor, rows: slice | None, device: object) -> Callable[[], np.ndarray]:
    _arrays.dtype_of(tensor)
    return lambda: _arrays.owned(tensor) if rows is None else _arrays.part(tensor, rows)


def _part(tensor: _tensorfile.Tensor, key: Any, device: object) -> Any:
    return _arrays.part(tensor, key)
