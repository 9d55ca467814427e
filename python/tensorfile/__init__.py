"""Tensor files as views without a copy: safetensors, GGUF, PyTorch, npy, npz, ExecuTorch .ptd, BTF, .ten, TensorBuffers.

>>> import numpy, tensorfile
>>> tensorfile.save("doctest.safetensors", {"w": numpy.zeros((2, 3), "f4"), "b": numpy.float16([1, 2])})
>>> file = tensorfile.open("doctest.safetensors")
>>> file["b"], numpy.asarray(file["b"])
(<Tensor 'b' f16[2]>, array([1., 2.], dtype=float16))

- `open`, `open_bytes` give you a lazy mapping of tensors, `load` a dict of numpy arrays. `save` writes such a dict.
- `check` compares a file with the names, dtypes and shapes that you expect.
- `info`, `verify`, `stats`, `diff`, `digest`, `report`, `convert`, `edit` are the commands of the program `tensorfile`.
  You can also run the program: `python -m tensorfile`.
- `webdataset` iterates over the samples of WebDataset shards, as dicts of arrays. `tensorfile.ray` works on many machines.
- `safe_open`, `tensorfile.numpy` and `tensorfile.torch` replace those of safetensors: change the import, keep your code.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ._check import LoadReport, check
from ._commands import convert, diff, digest, edit, info, report, stats, verify
from ._errors import SafetensorError
from ._load import load
from ._plan import ReadPlan
from ._raw import deserialize, serialize, serialize_file
from ._safetensors import TensorMeta, safe_open
from ._save import save
from ._spec import TensorSpec
from ._tensorfile import (
    FORMATS,
    File,
    FormatError,
    LayoutMap,
    LimitError,
    MismatchError,
    Tensor,
    __version__,
    open,
    open_bytes,
)
from ._webdataset import webdataset

if TYPE_CHECKING:
    from ._prefetch import PrefetchLoader


def __getattr__(name: str) -> Any:
    """Import a name that is seldom used and takes long to import."""
    if name == "PrefetchLoader":
        from ._prefetch import PrefetchLoader

        return PrefetchLoader
    raise AttributeError(f"module 'tensorfile' has no attribute '{name}'")


Mapping.register(File)  # pyright: ignore[reportAttributeAccessIssue]

__all__ = [
    "FORMATS",
    "File",
    "FormatError",
    "LayoutMap",
    "LimitError",
    "LoadReport",
    "MismatchError",
    "PrefetchLoader",
    "ReadPlan",
    "SafetensorError",
    "Tensor",
    "TensorMeta",
    "TensorSpec",
    "__version__",
    "check",
    "convert",
    "deserialize",
    "diff",
    "digest",
    "edit",
    "info",
    "load",
    "open",
    "open_bytes",
    "report",
    "safe_open",
    "save",
    "serialize",
    "serialize_file",
    "stats",
    "verify",
    "webdataset",
]
