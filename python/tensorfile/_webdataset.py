"""Samples of WebDataset shards."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

from ._tensorfile import Samples, locations

__all__ = ["webdataset"]


class webdataset:
    """The samples of WebDataset shards, which are tar archives of tensor files, labels and text. You get each as a dict.

    `shards` is a pattern such as `"train-{000000..000123}.tar"` or `"train-*.tar"`, a list of patterns, a URL, or `-` for
    standard input. Shards may be compressed with gzip or zstd. The keys of a dict are the names of files up to their last
    extension: `0001.image.ten` is `sample["image"]`. If two files would have the same key, both keep their extension:
    `0001.image.npy` and `0001.image.json` are `sample["image.npy"]` and `sample["image.json"]`.

    Tensors are read-only numpy arrays, and views of the shard unless it is compressed. A `.cls` is an int, a `.txt` a str,
    and a `.json` is parsed; you get other files as bytes. `__key__` is the key of the sample, `__url__` the shard. Nothing
    in a shard is executed.

    Set `shuffle` to the size of a buffer from which samples are drawn at random. The order depends on `seed` and the epoch;
    call `set_epoch` before each. `rank` and `world` keep every `world`-th shard. Give `samples` if all ranks need the same
    number per epoch: shards with fewer start over, and shards with more are not read to their end.

    With `errors="skip"`, broken samples and shards are left out, and `skipped` counts them. If a shard may be truncated, or
    goes on after its end, you get a `UserWarning`; with `errors="strict"`, an error. With `state_dict` and
    `load_state_dict` you stop and resume, in another process too.

    >>> import numpy, tarfile, tensorfile
    >>> tensorfile.save("doctest.ten", {"0": numpy.arange(3)})
    >>> with tarfile.open("doctest.tar", "w") as tar:
    ...     tar.add("doctest.ten", "0001.x.ten")
    >>> for sample in tensorfile.webdataset("doctest.tar"):
    ...     sample["__key__"], sample["x"]
    ('0001', array([0, 1, 2]))
    """

    # The word for those who share the shards, in messages.
    _sharers = "ranks"
    # Whether samples have `Tensor`s instead of arrays.
    _tensors = False

    def __init__(
        self,
        shards: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        *,
        shuffle: int = 0,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
        samples: int | None = None,
        errors: str = "stop",
    ) -> None:
        if errors not in ("stop", "skip", "strict"):
            raise ValueError(f"unknown errors `{errors}`; they are `stop`, `skip` and `strict`")
        if not 0 <= rank < world:
            raise ValueError(f"rank {rank} is not one of {world}")
        if samples is not None and samples < 0:
            raise ValueError(f"the number of samples is {samples}")
        found = expanded(shards)
        self.shards = found[rank::world]
        if world > len(found):
            text = f"{world} {self._sharers} share {len(found)} shards, so that some have no samples"
            if samples and not self.shards:
                raise ValueError(f"{text}, as number {rank} has none; use fewer, or more shards")
            warnings.warn(text, stacklevel=2)
        self._options: dict[str, Any] = {"errors": errors, "shuffle": shuffle, "tensors": self._tensors}
        self._seed, self._count, self._epoch = seed, samples, 0
        # The loaded state, until the next iteration begins.
        self._state: dict[str, Any] | None = None
        self._samples: Samples | None = None
        self._taken = self._round = 0

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the next epoch. Each epoch has its own order, which depends on `seed` and the number only."""
        self._epoch = epoch

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Iterate over the samples, from the loaded state or else from the start."""
        state, self._state = self._state or {}, None
        self._taken, self._round = state.get("taken", 0), state.get("round", 0)
        self._samples = self._open(state.get("state"), state.get("epoch", self._epoch))
        return self._samples if self._count is None else self._counted(self._count, state.get("epoch", self._epoch))

    def _open(self, state: str | None, epoch: int) -> Samples:
        seed = seed_of(self._seed, epoch, self._round)
        return Samples(self.shards, state=state, seed=seed, **self._options)

    def _counted(self, count: int, epoch: int) -> Iterator[dict[str, Any]]:
        """Yield `count` samples, in as many rounds over the shards as needed."""
        is_new = self._taken == 0
        while self._taken < count:
            assert self._samples is not None
            for sample in self._samples:
                self._taken, is_new = self._taken + 1, False
                yield sample
                if self._taken >= count:
                    return
            if is_new:
                raise ValueError(f"the {len(self.shards)} shards have no samples, and {count} are asked for")
            self._round, is_new = self._round + 1, True
            self._samples = self._open(None, epoch)

    @property
    def skipped(self) -> tuple[int, int, str | None]:
        """The numbers of samples and shards left out since the iteration began, and the last error."""
        return self._samples.skipped() if self._samples else (0, 0, None)

    def state_dict(self) -> dict[str, Any]:
        """Return the state after the last sample. You can store it with JSON or pickle."""
        if self._samples is None:
            return self._state or {"state": None, "epoch": self._epoch}
        state = {"state": self._samples.state(), "epoch": self._epoch}
        return state if self._count is None else {**state, "taken": self._taken, "round": self._round}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next iteration resume after a state. Shards and options must be the same as when it was taken."""
        self._state, self._samples = dict(state), None
        self._epoch = state.get("epoch", self._epoch)

    def __getstate__(self) -> dict[str, Any]:
        # Another process resumes where this one is.
        found = {**self.__dict__, "_samples": None}
        return found if self._samples is None else {**found, "_state": self.state_dict()}


def expanded(shards: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[str]:
    """Return the shards that match patterns."""
    patterns = [shards] if isinstance(shards, (str, os.PathLike)) else shards
    return [location for pattern in patterns for location in locations(os.fspath(pattern))]


def seed_of(seed: int, epoch: int, round: int) -> int:
    """Return the seed of a round over the shards. For the first round it is `seed`."""
    if epoch == round == 0:
        return seed
    return int.from_bytes(hashlib.blake2b(f"{seed} {epoch} {round}".encode(), digest_size=8).digest(), "little")
