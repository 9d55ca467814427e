"""Tensors read in the background, as by `safe_open.prefetch` of safetensors 0.9, which does so for CUDA only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, as_completed
from typing import Any

from ._errors import SafetensorError, as_safetensors


class PrefetchLoader:
    """Tensors that threads read in the background. You get each tensor once, by `take` or by iteration.

    `safe_open.prefetch` returns it. Your tensors stay valid after the loader is closed.
    """

    def __init__(self, reads: Mapping[str, Callable[[], Any]], threads: int) -> None:
        """Use `safe_open.prefetch`."""
        self._names = list(reads)
        self._closed = False
        pool = ThreadPoolExecutor(max(1, min(threads, len(reads))), "tensorfile-prefetch")
        self._futures: dict[str, Future[Any]] = {name: pool.submit(read) for name, read in reads.items()}
        # The threads of the pool end after the last tensor.
        pool.shutdown(wait=False)

    def names(self) -> list[str]:
        """Return the names of all tensors of the loader, in the order of the file."""
        return list(self._names)

    def __len__(self) -> int:
        """Return the number of all tensors of the loader."""
        return len(self._names)

    def take(self, name: str) -> Any:
        """Wait until a tensor, or its planned rows, are read, and return them."""
        if name not in self._names:
            raise SafetensorError(f"tensor {name} is not in the prefetch plan")
        # If two threads ask for a tensor, one gets it.
        future = self._futures.pop(name, None)
        if future is None:
            raise SafetensorError("the loader is closed" if self._closed else f"{name}: already delivered")
        return self._result(future)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """Yield names and tensors as soon as they are read, except those taken before."""
        names = {future: name for name, future in list(self._futures.items())}
        for future in as_completed(list(names)):
            name = names.pop(future)
            if self._closed:
                raise SafetensorError("the loader is closed")
            if self._futures.pop(name, None) is not None:
                yield name, self._result(future)

    def close(self) -> None:
        """Stop reading, and release the tensors that nobody took."""
        self._closed = True
        while self._futures:
            self._futures.popitem()[1].cancel()

    def __enter__(self) -> PrefetchLoader:
        """Return the loader."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close the loader."""
        self.close()

    def __del__(self) -> None:
        """Close the loader."""
        self.close()

    def _result(self, future: Future[Any]) -> Any:
        with as_safetensors():
            try:
                return future.result()
            except CancelledError:
                raise SafetensorError("the loader is closed") from None


def rows(name: str, part: Any, shape: tuple[int, ...]) -> slice | None:
    """Check the rows of a plan for a tensor; `None` stands for all rows."""
    if part is None:
        return None
    if not isinstance(part, slice):
        raise SafetensorError(f"prefetch plan values must be None or a slice, got {type(part)} for {name}")
    if not shape:
        raise SafetensorError(f"cannot slice rows of the 0-d tensor {name}")
    for what, bound in ("start", part.start), ("stop", part.stop):
        if bound is None:
            continue
        if not isinstance(bound, int):
            raise SafetensorError(f"prefetch plan slice bounds for {name} must be integers or None")
        # Python would clip the bound, but a plan that misses the tensor is a mistake.
        if not -shape[0] <= bound <= shape[0]:
            raise SafetensorError(
                f"prefetch plan slice {what} {bound} for {name} is out of range for {shape[0]} rows"
            )
    try:
        start, stop, step = part.indices(shape[0])
    except (TypeError, ValueError) as error:
        raise SafetensorError(f"invalid prefetch plan slice for {name}: {error}") from None
    if step != 1:
        raise SafetensorError(f"prefetch plan slices must have step 1, got {step} for {name}")
    return slice(start, max(start, stop))
