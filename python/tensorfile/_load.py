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
    """Load all tensors of a file as numpy arrays, in threads. The arrays are copies, and you may change them.

    - `path`: a path, a URL or a file object, as for `open`.
    - `spec`: the dtypes and shapes that you expect, as for `check`. If the file does not fit, you get a `MismatchError`
      before any tensor is read.
    - `progress`: a function that gets the bytes read and their total; if it raises, the load ends. `True` shows a tqdm bar.

    >>> import numpy, tensorfile
    >>> tensorfile.save("doctest.ten", {"w": numpy.arange(3)})
    >>> tensorfile.load("doctest.ten")
    {'w': array([0, 1, 2])}
    """
    with open(path, format=format) as file:
        if spec is not None:
            check(file, spec).raise_for_mismatch()
        # Imported late: it needs numpy.
        from . import _arrays

        with telling(progress) as tell:
            return _arrays.load(file, tell)
