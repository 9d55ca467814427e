"""Whole files as dicts of arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._tensorfile import open
from ._types import Path, Reader

if TYPE_CHECKING:
    import numpy


def load(path: Path | Reader, *, format: str | None = None) -> dict[str, numpy.ndarray]:
    """Load all tensors of a file into numpy arrays of their own.

    `path` is a path or a file object, as for `open`.

    >>> import numpy, tensorfile
    >>> tensorfile.save("doctest.ten", {"w": numpy.arange(3)})
    >>> tensorfile.load("doctest.ten")
    {'w': array([0, 1, 2])}
    """
    with open(path, format=format) as file:
        return {name: tensor.numpy() for name, tensor in file.items()}
