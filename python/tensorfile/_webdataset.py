"""Samples of WebDataset shards."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

from ._tensorfile import Samples, locations

__all__ = ["webdataset"]


class webdataset:
    """The samples of WebDataset shards, tar archives of tensor files, labels and text: each is a dict.

    `shards` is a pattern such as `"train-{000000..000123}.tar"` or `"train-*.tar"`, several of them, a URL, or `-` for
    standard input; shards may be compressed with gzip or zstd. A dict has the names of the files up to their last
    extension: `0001.image.ten` is `sample["image"]`. Tensors are read-only numpy arrays, views of the shard where it is not
    compressed; `.cls` is an int, `.txt` a str, `.json` is parsed, and other files are bytes. `__key__` and `__url__` are the
    key and the shard. Nothing in a shard is executed.

    `shuffle` is the size of a buffer to choose samples from, with `seed`. `rank` and `world` keep every `world`-th shard.
    With `errors="skip"`, broken samples and shards are left out and counted by `skipped`. `state_dict` and
    `load_state_dict` stop and go on, in another process too.

    >>> import numpy, tarfile, tensorfile
    >>> tensorfile.save("doctest.ten", {"0": numpy.arange(3)})
    >>> with tarfile.open("doctest.tar", "w") as tar:
    ...     tar.add("doctest.ten", "0001.x.ten")
    >>> for sample in tensorfile.webdataset("doctest.tar"):
    ...     sample["__key__"], sample["x"]
    ('0001', array([0, 1, 2]))
    """

    def __init__(
        self,
        shards: str | Iterable[str],
        *,
        shuffle: int = 0,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
        errors: str = "stop",
    ) -> None:
        if errors not in ("stop", "skip"):
            raise ValueError(f"unknown errors `{errors}`; they are `stop` and `skip`")
        if not 0 <= rank < world:
            raise ValueError(f"rank {rank} is not one of {world}")
        patterns = [shards] if isinstance(shards, (str, os.PathLike)) else shards
        found = [location for pattern in patterns for location in locations(os.fspath(pattern))]
        self.shards = found[rank::world]
        self._options: dict[str, Any] = {"skip_errors": errors == "skip", "shuffle": shuffle, "seed": seed}
        self._state: str | None = None
        self._samples: Samples | None = None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Iterate over the samples: after the state that was loaded, or else from the start."""
        state, self._state = self._state, None
        self._samples = Samples(self.shards, state=state, **self._options)
        return self._samples

    def __getstate__(self) -> dict[str, Any]:
        """Return what pickle keeps: the shards, the options, and the state after the last sample."""
        return {**vars(self), "_state": self.state_dict()["state"], "_samples": None}

    @property
    def skipped(self) -> tuple[int, int, str | None]:
        """The numbers of samples and shards that were left out since the last start, and the last error."""
        return self._samples.skipped() if self._samples else (0, 0, None)

    def state_dict(self) -> dict[str, Any]:
        """Return the state after the last sample, which JSON and pickle can keep."""
        return {"state": self._samples.state() if self._samples else self._state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on after a state, the next time that the samples are iterated over. The shards and options must be the same."""
        self._state, self._samples = state["state"], None
