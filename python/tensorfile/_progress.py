"""Progress of reading and writing: a function, or a bar of tqdm."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Union

# A function that gets the bytes so far and their total, or `True` for a bar.
Progress = Union[Callable[[int, int], object], bool, None]


@contextlib.contextmanager
def telling(progress: Progress) -> Iterator[Callable[[int, int], object] | None]:
    """Yield the function to call with progress, if any. For `True`, it is one that moves a tqdm bar."""
    if progress is not True:
        yield progress or None
        return
    try:
        from tqdm.auto import tqdm
    except ImportError:
        raise ImportError("progress=True shows a bar of the package tqdm, which is not installed") from None
    with tqdm(unit="B", unit_scale=True, unit_divisor=1024) as bar:

        def tell(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield tell
