"""The exception of safetensors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


class SafetensorError(Exception):
    """The exception of safetensors: a file is malformed, or a tensor is missing or cannot be stored."""


@contextlib.contextmanager
def as_safetensors() -> Iterator[None]:
    """Raise exceptions of this package as `SafetensorError`."""
    try:
        yield
    except (ValueError, KeyError) as error:
        message = error.args[0] if isinstance(error, KeyError) else error
        raise SafetensorError(str(message)) from error
