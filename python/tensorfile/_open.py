"""Files behind file objects, and files that another process opened."""

from __future__ import annotations

import io
from typing import Any

from . import _tensorfile


def in_memory(file: Any) -> bytes | None:
    """Return the bytes of an `io.BytesIO`, without a copy; `None` for other file objects."""
    return file.getvalue() if type(file) is io.BytesIO else None


def descriptor(file: Any) -> int | None:
    """Return the descriptor of a plain file on disk; `None` for all other file objects.

    A `gzip.GzipFile` has a descriptor too, but of the compressed file.
    """
    if type(file).__module__ == "tempfile":
        file = getattr(file, "file", file)
    buffered = file
    if type(file) in (io.BufferedReader, io.BufferedRandom):
        file = file.raw
    if type(file) is not io.FileIO or not file.readable() or not file.seekable():
        return None
    if type(buffered) is io.BufferedRandom:
        # Otherwise bytes in the buffer would be missing.
        buffered.flush()
    return file.fileno()


def reopened(
    path: Any,
    format: str | None,
    mmap: bool,
    deny: list[str],
    dequantize: str | None = None,
    map: _tensorfile.LayoutMap | None = None,
    config: Any = None,
) -> _tensorfile.File:
    """Open a file that another process had open."""
    return _tensorfile.open(
        path, format=format, mmap=mmap, deny=deny, dequantize=dequantize, map=map, config=config
    )


def tensor(file: tuple[Any, tuple[Any, ...]], name: str, position: int, info: str) -> _tensorfile.Tensor:
    """Return the tensor that another process pickled, unless the file was replaced."""
    open_again, arguments = file
    items = open_again(*arguments).values()
    if position < len(items):
        found = items[position]
        if (found.name, found._info) == (name, info):
            return found
    raise ValueError(f"{arguments[0]}: the file was replaced: tensor `{name}`, {info}, is no longer at position {position}")


def samples(
    locations: list[str], errors: str, shuffle: int, seed: int, state: str, tensors: bool
) -> _tensorfile.Samples:
    """Resume the samples of another process, where it pickled them."""
    return _tensorfile.Samples(locations, errors=errors, shuffle=shuffle, seed=seed, state=state, tensors=tensors)
