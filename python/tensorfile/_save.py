"""Arrays of all kinds on their way to a file."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from . import _tensorfile
from ._progress import Progress, telling
from ._spec import TensorSpec
from ._types import Path, Writer, texts

# Our names of the dtypes of ml_dtypes and torch without a letter in the buffer protocol.
DTYPES = {
    "bfloat16": "bf16",
    "float8_e5m2": "f8_e5m2",
    "float8_e4m3fn": "f8_e4m3fn",
    "float8_e5m2fnuz": "f8_e5m2fnuz",
    "float8_e4m3fnuz": "f8_e4m3fnuz",
    "float8_e8m0fnu": "f8_e8m0",
}


def save(
    path: Path | Writer,
    tensors: Mapping[str, Any],
    *,
    format: str | None = None,
    metadata: Mapping[str, str] | None = None,
    max_shard_bytes: int | None = None,
    ranks: int | None = None,
    dtype: str | None = None,
    durable: bool = True,
    progress: Progress = None,
) -> None:
    """Save a dict of arrays. On success the file is complete and on disk; on failure the old file is unchanged.

    You can save numpy arrays, scalars, torch tensors, tensors of an open file, and anything else with the buffer protocol,
    `__dlpack__` or `__array__`, in any memory order. The extension decides the format, unless you give `format`.

    - `path`: a path, or a file object with `write`.
    - `metadata`: a dict of strings, for formats with metadata. `{}` is stored if the format can tell it from none.
    - `max_shard_bytes`: the most bytes of a file. If there are more, several files and an index are written.
    - `ranks`: with `format="dcp"`, the number of processes of a trainer. The path is of a new folder with a file for each, as
      `torch.distributed.checkpoint` saves it. With `format="hf-sharded"`, the files are
      safetensors, as its `HuggingFaceStorageWriter` saves them.
    - `dtype`: cast all floats to this dtype, such as `"bf16"`.
    - `durable`: wait until the file is on disk. `False` is faster, but you can lose the file if the power fails soon after.
      If only the process is killed, you still have the old file or the new one.
    - `progress`: a function that gets the bytes written and their total; if it raises, the save ends. `True` shows a tqdm
      bar.

    >>> import numpy, tensorfile
    >>> tensorfile.save("doctest.safetensors", {"w": numpy.eye(2), "step": 3}, metadata={"epoch": "7"})
    >>> tensorfile.open("doctest.safetensors").metadata()
    {'epoch': '7'}
    """
    entries = None if metadata is None else texts("metadata", metadata)
    arrays = [(name, *prepared(name, value)) for name, value in tensors.items()]
    with telling(progress) as tell:
        _tensorfile.save(path, arrays, format, entries, max_shard_bytes, ranks, dtype, durable, tell)


def prepared(name: str, value: Any) -> tuple[object, str | None, tuple[int, ...] | None]:
    """Return an object with the buffer protocol or `__dlpack__`, and its dtype and shape if the object states others."""
    if isinstance(value, TensorSpec):
        return value._prepared()
    if isinstance(value, _tensorfile.Tensor):
        if value.is_sparse or value.is_unknown:
            raise TypeError(f"tensor `{name}` is sparse or of an unknown dtype; `convert` copies it")
        return value, None, None
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return of_torch(name, value, torch)
    numpy = sys.modules.get("numpy")
    is_numpy = numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic))
    if is_numpy or isinstance(value, (bool, int, float, complex)) or not is_buffer(value):
        return of_numpy(name, value)
    return value, None, None


def is_buffer(value):
    if hasattr(value, "__dlpack__"):
        return True
    try:
        memoryview(value)
    except TypeError:
        return False
    return True


def of_numpy(name, value):
    import numpy

    if not isinstance(value, (bool, int, float, complex)) and not hasattr(value, "__array__"):
        raise TypeError(f"tensor `{name}`: cannot save a {type(value).__name__}; a tensor is an array or a number")
    if numpy.ma.is_masked(value):
        raise TypeError(f"tensor `{name}` is a masked array, and files have no masks; `.filled()` gives masked elements a value")
    found = numpy.asarray(value)
    shape = found.shape
    # A buffer has at least one dim.
    found = found.reshape(1) if found.ndim == 0 else found
    if found.dtype.name in DTYPES:
        # The view shares the bytes, in any memory order.
        return found.view(f"u{found.dtype.itemsize}"), DTYPES[found.dtype.name], shape
    if found.dtype.kind not in "biufc" or found.dtype.char in "gG":
        raise TypeError(f"tensor `{name}`: cannot save elements of {found.dtype}")
    return found if found.dtype.isnative else found.astype(found.dtype.newbyteorder("=")), None, shape


def of_torch(name, value, torch):
    if hasattr(value, "get_mask"):
        raise TypeError(f"tensor `{name}` is a masked tensor, and files have no masks; `.to_tensor(value)` fills it")
    if value.layout != torch.strided:
        raise TypeError(f"tensor `{name}` is sparse; `to_dense()` makes it dense")
    found = value.detach().resolve_conj().resolve_neg().cpu()
    dtype = str(found.dtype).removeprefix("torch.")
    if dtype == "float4_e2m1fn_x2":
        return found.contiguous().view(torch.uint8), "f4", (*found.shape[:-1], 2 * found.shape[-1])
    if dtype in DTYPES:
        # Some versions of torch cannot export these dtypes by DLPack.
        bits = torch.uint8 if found.element_size() == 1 else torch.int16
        return found.view(bits), DTYPES[dtype], None
    return found, None, None
