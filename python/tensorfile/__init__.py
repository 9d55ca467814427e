"""Tensor files as views without a copy: safetensors, GGUF, PyTorch, npy, npz, ExecuTorch .ptd, BTF, .ten, TensorBuffers.

>>> import numpy, tensorfile
>>> tensorfile.save("doctest.safetensors", {"w": numpy.zeros((2, 3), "f4"), "b": numpy.float16([1, 2])})
>>> file = tensorfile.open("doctest.safetensors")
>>> file["b"], numpy.asarray(file["b"])
(<Tensor 'b' f16[2]>, array([1., 2.], dtype=float16))

- `open`, `open_bytes`: a lazy mapping of tensors. `load`: a dict of numpy arrays. `save`: the reverse.
- `tensorfile.numpy`, `tensorfile.torch`: the functions of `safetensors.numpy` and `safetensors.torch`.
"""

from collections.abc import Mapping

from ._load import load
from ._save import save
from ._tensorfile import (
    FORMATS,
    File,
    FormatError,
    LimitError,
    MismatchError,
    Tensor,
    __version__,
    open,
    open_bytes,
)

Mapping.register(File)

__all__ = [
    "FORMATS",
    "File",
    "FormatError",
    "LimitError",
    "MismatchError",
    "Tensor",
    "__version__",
    "load",
    "open",
    "open_bytes",
    "save",
]
