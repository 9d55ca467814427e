"""File objects, as the package takes them."""

from __future__ import annotations

import os
from typing import Protocol, Union


class Reader(Protocol):
    """A file object to read from."""

    def read(self, count: int, /) -> bytes:
        """Read up to `count` bytes."""
        ...

    def seek(self, offset: int, whence: int, /) -> int:
        """Move to an offset, and return it."""
        ...


class Writer(Protocol):
    """A file object to write to."""

    def write(self, content: bytes, /) -> int | None:
        """Write some bytes, and return their number; nothing stands for all."""
        ...


Path = Union[str, "os.PathLike[str]"]
