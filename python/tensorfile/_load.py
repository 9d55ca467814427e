"""Whole files as dicts of arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ._check import Spec, check
from ._progress import Progress, telling
from ._tensorfile import open
from ._types import Path, Reader

if TYPE_CHECKING:
    import numpy


def load(
    path: Path | Reader,
    *,
    format: str | None = None,
    spec: Mapping[str, Spec] | None = None,
    progress: Progress = None,
) -> dict[str, numpy.ndarray]:
    """Load all tensors of a file into numpy arrays of their own. They are read together, in threads.

    - `path`: a path, a URL or a file object, as for `open`.
    - `spec`: dtypes and shapes, as for `check`. A file that does not fit is a `MismatchError`, before any tensor is read.
    - `progress`: a function of the bytes read and their total, whose exceptions end the load; `True` shows a bar of tqdm.

    >>> import numpy, tensorfile
    >>> tensorfile.save("doctest.ten", {"w": numpy.arange(3)})
    >>> tensorfile.load("doctest.ten")
    {'w': array([0, 1, 2])}
    """
    with open(path, format=format) as file:
        if spec is not None:
            check(file, spec).raise_for_mismatch()
        # It needs numpy.
        from . import _arrays

        with telling(progress) as tell:
            return _arrays.load(file, tell)
