"""Read plans: tensors and parts of tensors, read into your own memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _tensorfile
from ._progress import Progress, telling

if TYPE_CHECKING:
    import numpy as np


class Piece(NamedTuple):
    """A tensor or a part of one, and its place in your memory. Elements are row-major."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int


class ReadPlan:
    """A plan to read tensors into memory of yours, all together and in threads.

    You get it from `File.read_plan`, which reads no tensor yet.

    >>> import numpy, tensorfile
    >>> tensorfile.save("doctest.ptd", {"w": numpy.arange(12).reshape(3, 4), "b": numpy.float32([1, 2])})
    >>> plan = tensorfile.open("doctest.ptd").read_plan(["b"], {"w": numpy.s_[1:, :2]})
    >>> memory = bytearray(plan.nbytes)         # or shared memory, or pinned memory of torch as a numpy array
    >>> plan.read_into(memory)
    >>> plan.views(memory)["w"]
    array([[4, 5],
           [8, 9]])
    >>> plan.pieces[0]
    Piece(name='b', dtype='f32', shape=(2,), offset=0, nbytes=8)
    """

    nbytes: int
    """The number of bytes of memory you need."""
    bytes_read: int
    """The number of bytes to read from the file."""
    spans: list[tuple[int, int]]
    """The byte ranges to read, sorted. In shards, offsets count from the start of the first shard."""
    pieces: list[Piece]
    """The tensors, and their places in the memory."""

    def __init__(
        self, file: _tensorfile.File, names: str | Iterable[str] | None, slices: Mapping[str, Any] | None, align: int
    ) -> None:
        """Use `File.read_plan`."""
        slices = slices or {}
        names = (() if slices else file.keys()) if names is None else names
        parts: list[tuple[str, list[tuple[int, int]] | None]] = [(name, None) for name in _tensorfile.strings("names", names)]
        self._tensors = [file[name] for name, _ in parts]
        self._rests: list[tuple[Any, ...]] = [()] * len(parts)
        for name, key in slices.items():
            # Imported late: it needs numpy.
            from ._arrays import split

            tensor = file[name]
            bounds, rest = split(key, tensor.shape)
            self._tensors.append(tensor)
            parts.append((name, bounds))
            self._rests.append(rest)
        self._plan = _tensorfile.Plan(file, parts, align)
        self.nbytes, self.bytes_read, self.spans, pieces = self._plan.facts()
        self.pieces = [
            Piece(name, tensor.dtype, tuple(shape), offset, nbytes)
            for (name, _), tensor, (offset, nbytes, shape) in zip(parts, self._tensors, pieces)
        ]

    def read_into(self, buffer: Any, progress: Progress = None) -> None:
        """Read into a contiguous buffer of at least `nbytes` bytes.

        `progress` is a function that gets the bytes read and their total; if it raises, the read ends. `True` shows a tqdm
        bar. After an exception the bytes are undefined. After Ctrl-C a server may still be sending: do not reuse the buffer.
        """
        with telling(progress) as tell:
            self._plan.read_into(buffer, tell)

    def views(self, buffer: Any) -> dict[str, np.ndarray]:
        """Return the tensors in a buffer as arrays, by name, without a copy."""
        import numpy as np

        from ._arrays import dtype_of, packed_shape

        memory = np.asarray(memoryview(buffer).cast("B") if not isinstance(buffer, np.ndarray) else buffer)
        memory = memory.reshape(-1).view("u1")
        views = {}
        for piece, tensor, rest in zip(self.pieces, self._tensors, self._rests):
            dtype, is_packed = dtype_of(tensor)
            shape = packed_shape(piece.shape, piece.nbytes) if is_packed else piece.shape
            views[piece.name] = np.ndarray(shape, dtype, memory, piece.offset)[(*rest, ...)]
        return views

    def __repr__(self) -> str:
        """Return the numbers of tensors and bytes."""
        return f"<ReadPlan of {len(self.pieces)} tensors, {self.nbytes} bytes>"
