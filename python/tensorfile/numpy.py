"""The functions of `safetensors.numpy`, for files of any format.

>>> import numpy
>>> from tensorfile.numpy import load_file, safe_open, save_file
>>> save_file({"w": numpy.float32([[1, 2], [3, 4]])}, "doctest.safetensors")
>>> with safe_open("doctest.safetensors", framework="np") as file:
...     file.get_slice("w")[:, 1]
array([2., 4.], dtype=float32)

Unlike those of safetensors, they save Fortran-ordered and strided arrays correctly, take `bytearray` and `memoryview`,
and files get the mode of the umask.
"""

from __future__ import annotations

import io
import types
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from . import _arrays, _tensorfile
from ._errors import SafetensorError, as_safetensors
from ._safetensors import is_bytes, safe_open, save_as_safetensors
from ._types import Path

if TYPE_CHECKING:
    import numpy as np

__all__ = ["NpzFile", "SafetensorError", "load", "load_file", "safe_open", "save", "save_file"]


def save_file(
    tensor_dict: Mapping[str, np.ndarray], filename: Path, metadata: Mapping[str, str] | None = None
) -> None:
    """Save a dict of arrays as a safetensors file, with any extension.

    >>> import numpy
    >>> from tensorfile.numpy import save_file
    >>> save_file({"w": numpy.zeros(2)}, "doctest.safetensors", metadata={"format": "np"})
    """
    save_as_safetensors(filename, tensor_dict, metadata)


def save(tensor_dict: Mapping[str, np.ndarray], metadata: Mapping[str, str] | None = None) -> bytes:
    """Return a dict of arrays as the bytes of a safetensors file.

    >>> import numpy
    >>> from tensorfile.numpy import load, save
    >>> load(save({"w": numpy.arange(3)}))
    {'w': array([0, 1, 2])}
    """
    out = io.BytesIO()
    save_as_safetensors(out, tensor_dict, metadata)
    return out.getvalue()


def load_file(filename: Path, *, backend: str = "mmap") -> dict[str, np.ndarray]:
    """Load a file of any format as a dict of arrays, which you may change."""
    with safe_open(filename, framework="np", backend=backend) as file:
        return file.get_tensors()


class NpzFile(Mapping[str, Any]):
    """The arrays of a file, each read when you ask for it. `load` returns it, as `numpy.load` does for an npz file.

    If you ask for an array of objects, you get a `ValueError`; you can still read the other arrays.
    """

    def __init__(self, file: _tensorfile.File, read: Callable[[_tensorfile.Tensor], Any]) -> None:
        """Use `load`."""
        self._file, self._read = file, read

    @property
    def files(self) -> list[str]:
        """The names of the arrays."""
        return self._file.keys()

    @property
    def f(self) -> Any:
        """The arrays as attributes."""
        return types.SimpleNamespace(**self)

    def __getitem__(self, name: str) -> Any:
        """Read an array."""
        tensor = self._file[name]
        return _arrays.of_text(tensor) if tensor.is_unknown else self._read(tensor)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the arrays."""
        return iter(self.files)

    def __len__(self) -> int:
        """Return the number of arrays."""
        return len(self._file)

    def __contains__(self, name: object) -> bool:
        """Return whether the file has an array with a name."""
        return name in self._file

    def close(self) -> None:
        """Close the file. Arrays stay valid."""
        self._file.close()

    def __enter__(self) -> NpzFile:
        """Return the arrays."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close the file."""
        self.close()

    def __repr__(self) -> str:
        """Return the names."""
        if self._file.closed:
            return "<NpzFile, closed>"
        shown = ", ".join(self.files[:5]) + (", …" if len(self.files) > 5 else "")
        return f"<NpzFile {self._file.path or 'object'} with keys: {shown}>"


def load(
    file: Any,
    mmap_mode: str | None = None,
    allow_pickle: bool = False,
    fix_imports: bool = True,
    encoding: str = "ASCII",
    *,
    max_header_size: int = 10000,
) -> Any:
    """Load a file as both `safetensors.numpy.load` and `numpy.load` do.

    - From the bytes of a file, such as a `bytearray` or a `memoryview`, you get a dict of arrays.
    - From a path or file object of an npy file, you get its array. From any other file, you get the arrays by name, each
      read when you ask for it; use `with` to close the file.

    With `mmap_mode="r"` you get read-only views of the file, if it stores the elements plainly. With `"c"` you may change the
    arrays, and the file stays as it is. With `"r+"` you change the array of an npy file on disk.

    Nothing in a file is executed: `allow_pickle=True` is an error, and so is asking for an array of objects. Arrays of
    strings and of times are copies. The other arguments are accepted as by `numpy.load`, which uses them for pickles.

    >>> import numpy
    >>> from tensorfile.numpy import load
    >>> numpy.savez("doctest.npz", w=numpy.arange(3))
    >>> with load("doctest.npz", mmap_mode="r") as arrays:
    ...     arrays["w"]
    array([0, 1, 2])
    """
    if allow_pickle:
        raise ValueError("allow_pickle=True would execute the file, which this function never does; use numpy.load")
    if mmap_mode not in (None, "r", "c", "r+"):
        raise ValueError(f"unknown mmap_mode `{mmap_mode}`; it is `r`, `c`, or `r+` for npy files")
    if is_bytes(file):
        with as_safetensors(), _tensorfile.open_bytes(file) as opened:
            return _arrays.load(opened)
    if hasattr(file, "read") and file.tell() != 0:
        # numpy would read from the position.
        raise ValueError(f"the file object is at byte {file.tell()}, but files are read from their start; `seek(0)` moves it")
    opened = _tensorfile.open(file)
    read: Callable[[_tensorfile.Tensor], Any] = {None: _arrays.owned, "r": _arrays.view}.get(mmap_mode, _arrays.private)
    if mmap_mode == "r+":
        read = _in_place
        if opened.format != "npy" or opened.path is None:
            raise ValueError("mmap_mode `r+` changes a file in place, which has to be an npy file on disk; `c` changes memory")
    arrays = NpzFile(opened, read)
    if opened.format != "npy":
        return arrays
    with opened:
        for kind, _, text in opened._warnings if hasattr(file, "read") else ():
            if kind in ("left-out", "trailing-bytes"):
                raise ValueError(f"{text} from paths only; from a file object it reads one array after the other")
        return arrays[opened.keys()[0]]


def _in_place(tensor: _tensorfile.Tensor) -> np.ndarray:
    """Return an array whose changes reach the file."""
    import numpy as np

    dtype, is_packed = _arrays.dtype_of(tensor)
    if is_packed or tensor.is_encoded or tensor.path is None or tensor.strides is None:
        raise ValueError(f"tensor `{tensor.name}` is not stored plainly, so that it cannot be changed in place")
    memory = np.memmap(tensor.path, "u1", "r+", tensor.offset, tensor.nbytes)
    return np.ndarray(tensor.shape, dtype, memory, strides=tensor.strides)
