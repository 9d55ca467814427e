"""Whole files as dicts of arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ._check import Spec, check
from ._tensorfile import open
from ._types import Path, Reader

if TYPE_CHECKING:
    import numpy


def load(
    path: Path | Reader, *, format: str | None = None, spec: Mapping[str, Spec] | None = None
) -> dict[str, numpy.ndarray]:
    """Load all tensors of a file into numpy arrays of their own.

    `path` is a path or a file object, as for `open`. If `spec` is given, as for `check`, a file that does not fit is a
    `MismatchError`, before any tensor is read.

    >>> import numpy, tensorfile
    >>> tensorfile.save("doctest.ten", {"w": numpy.arange(3)})
    >>> tensorfile.load("doctest.ten")
    {'w': array([0, 1, 2])}
    """
    with open(path, format=format) as file:
        if spec is not None:
            check(file, spec).raise_for_mismatch()
        return {name: tensor.numpy() for name, tensor in file.items()}
