"""The interface of safetensors 0.9, for files of any format: the code common to numpy and torch."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _tensorfile
from ._errors import SafetensorError, as_safetensors
from ._save import save
from ._spec import dtype_name
from ._types import Path, Reader

if TYPE_CHECKING:
    from ._prefetch import PrefetchLoader

class TensorMeta(NamedTuple):
    """A tensor's entry in the header of a file, returned by `safe_open.get_tensor_meta`."""

    dtype: str
    """The dtype, such as `F32`."""
    shape: list[int]
    """The dims."""
    data_offsets: tuple[int, int]
    """The bounds of the bytes. They count from the end of a safetensors header, or the start of another format's file."""


class Part:
    """A tensor that you read in parts, returned by `safe_open.get_slice`."""

    def __init__(self, tensor: _tensorfile.Tensor, read: Callable[[_tensorfile.Tensor, Any], Any]) -> None:
        self._tensor, self._read = tensor, read

    def get_shape(self) -> list[int]:
        """Return the dims."""
        return list(self._tensor.shape)

    def get_dtype(self) -> str:
        """Return the dtype, such as `F32`."""
        return dtype_name(self._tensor)

    def __getitem__(self, key: Any) -> Any:
        """Read a part. The index has integers, slices and `...`, within the bounds of the tensor."""
        if isinstance(key, list):
            if key:
                raise SafetensorError("Non empty lists are not implemented")
            key = slice(0, 0)
        self._check(key if isinstance(key, tuple) else (key,))
        with as_safetensors():
            try:
                return self._read(self._tensor, key)
            except IndexError as error:
                raise SafetensorError(str(error)) from error

    def _check(self, keys: tuple[Any, ...]) -> None:
        """Refuse bounds outside of the tensor, as safetensors does; numpy takes them."""
        if any(key is Ellipsis or key is None for key in keys):
            return
        shape = self.get_shape()
        for i, (key, dim) in enumerate(zip(keys, shape)):
            if isinstance(key, int) and key < -dim:
                raise SafetensorError(f"Invalid index {key} for dimension {i} of size {dim}")
            first, last = key, key
            if isinstance(key, slice):
                first = 0 if key.start is None else key.start
                last = first if key.stop is None or first >= dim else key.stop - 1
            if isinstance(last, int) and last >= max(dim, 1):
                text = ", ".join(map(shown, keys))
                raise SafetensorError(
                    f"Error during slicing [{text}] with shape {shape}:"
                    f" index {last} out of bounds for tensor dimension #{i} of size {dim}"
                )


def shown(key: Any) -> str:
    if not isinstance(key, slice):
        return str(key)
    start, stop = ("" if bound is None else str(bound) for bound in (key.start, key.stop))
    return f"{start}:{stop}" if key.step is None else f"{start}:{stop}:{key.step}"


class safe_open:
    """Open a tensor file lazily. Use it as `safetensors.safe_open`, with files of any format.

    `framework` is `np`, `numpy`, `pt`, `torch` or `pytorch`; `device` is for torch. `filename` is a path or a file object.
    """

    def __init__(
        self, filename: Path | Reader, framework: str, device: str | int = "cpu", *, backend: str = "mmap"
    ) -> None:
        if framework in ("np", "numpy"):
            from . import _numpy_face as face
        elif framework in ("pt", "torch", "pytorch"):
            from . import _torch_face as face  # type: ignore[no-redef]
        else:
            raise SafetensorError(f"unknown framework `{framework}`; the frameworks are numpy and torch")
        if backend not in ("mmap", "pread"):
            raise SafetensorError(f"unknown backend `{backend}`; the backends are mmap and pread")
        self._face: Any = face
        self._framework, self._device, self._mmap = framework, device, backend == "mmap"
        self._data_starts: dict[os.PathLike[str] | None, int] = {}
        self._file: _tensorfile.File | None
        if isinstance(filename, _tensorfile.File):
            self._file = filename
            return
        # A file opened for text has a `buffer` with its bytes.
        filename = getattr(filename, "buffer", filename)
        with as_safetensors():
            self._file = _tensorfile.open(filename, mmap=self._mmap)

    @property
    def _open(self) -> _tensorfile.File:
        if self._file is None:
            raise SafetensorError("File is closed")
        return self._file

    def __enter__(self) -> safe_open:
        """Return the file."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Return a function and its arguments, with which pickle opens the file in another process."""
        return _reopened, (self._open, self._framework, self._device, "mmap" if self._mmap else "pread")

    def __exit__(self, *exception: object) -> None:
        """Close the file. Tensors stay valid."""
        self._open.close()
        self._file = None

    def keys(self) -> list[str]:
        """Return the names of the tensors, sorted."""
        return sorted(self._open.keys())

    def offset_keys(self) -> list[str]:
        """Return the names of the tensors, in the order of the file."""
        return self._open.keys()

    def metadata(self) -> dict[str, str] | None:
        """Return the metadata; `None` if the file cannot hold any."""
        with as_safetensors():
            found = self._open.metadata()
            return None if not found and not self._open._has_no_metadata else found

    def get_tensor(self, name: str) -> Any:
        """Read a tensor."""
        tensor = self._tensor(name)
        with as_safetensors():
            return self._face.tensor(tensor, self._device, self._mmap)

    def _tensor(self, name: str) -> _tensorfile.Tensor:
        try:
            return self._open[name]
        except KeyError as error:
            raise SafetensorError(f"File does not contain tensor {name}: {error.args[0]}") from error

    def get_tensor_meta(self, name: str) -> TensorMeta:
        """Return a tensor's entry in the header. No tensor is read."""
        tensor = self._tensor(name)
        start = tensor.offset - self._data_start(tensor.path)
        return TensorMeta(dtype_name(tensor), list(tensor.shape), (start, start + tensor.nbytes))

    def _data_start(self, path: os.PathLike[str] | None) -> int:
        """Return the offset of the first payload, from which a safetensors header counts."""
        if self._open.format != "safetensors":
            return 0
        if path not in self._data_starts:
            # safetensors files have no gap before the first payload.
            offsets = (tensor.offset for tensor in self._open.values() if tensor.path == path)
            self._data_starts[path] = min(offsets)
        return self._data_starts[path]

    def prefetch(
        self, plan: Mapping[str, slice | None] | None = None, *, device: str | int | None = None, threads: int = 8
    ) -> PrefetchLoader:
        """Begin to read tensors in the background.

        `plan` maps names to rows, as a slice of step 1, or to `None` for the whole tensor. Without a plan, you get all
        tensors. `device` is the file's by default. Unlike safetensors' `prefetch`, it works on the CPU and with numpy too.

        >>> import numpy
        >>> from tensorfile.numpy import safe_open, save_file
        >>> save_file({"w": numpy.arange(12).reshape(4, 3), "b": numpy.ones(2)}, "doctest.safetensors")
        >>> with safe_open("doctest.safetensors", "np") as file, file.prefetch({"w": slice(1, 3)}) as loader:
        ...     loader.take("w")
        array([[3, 4, 5],
               [6, 7, 8]])
        """
        from ._prefetch import PrefetchLoader, rows

        device = self._device if device is None else device
        if plan is None:
            plan = dict.fromkeys(self.offset_keys())
        elif not isinstance(plan, Mapping):
            raise SafetensorError(f"a prefetch plan is a dict of names, each with None or a slice, not a {type(plan).__name__}")
        elif not plan:
            raise SafetensorError("prefetch plan selects no tensors")
        reads: dict[str, Callable[[], Any]] = {}
        places = {name: place for place, name in enumerate(self.offset_keys())}
        for name in sorted(plan, key=lambda name: places.get(name, 0)):
            tensor = self._tensor(name)
            part = rows(name, plan[name], tensor.shape)
            with as_safetensors():
                try:
                    reads[name] = self._face.read_later(tensor, part, device)
                except TypeError as error:
                    raise SafetensorError(f"prefetch cannot hand out {dtype_name(tensor)}: {error}") from error
        return PrefetchLoader(reads, threads)

    def get_tensors(self) -> dict[str, Any]:
        """Read all tensors."""
        return self._face.tensors(self._open, self._device, self._mmap)

    def get_slice(self, name: str) -> Part:
        """Return a tensor that you read in parts by indexing it: `[2:4, :]`."""
        tensor = self._tensor(name)
        return Part(tensor, lambda tensor, key: self._face.part(tensor, key, self._device))


def _reopened(file: Any, framework: str, device: str | int, backend: str) -> safe_open:
    return safe_open(file, framework, device, backend=backend)


def save_as_safetensors(path: Any, tensors: Mapping[str, Any], metadata: Mapping[str, str] | None) -> None:
    """Save tensors in the order of safetensors: by dtype, and then by name."""
    with as_safetensors():
        save(path, dict(sorted(tensors.items())), format="safetensors", metadata=metadata)


def is_bytes(content: object) -> bool:
    """Return whether an argument is the content of a file, not a path or a file object."""
    return not isinstance(content, (str, os.PathLike)) and not hasattr(content, "read")
