#!/usr/bin/env python3
"""Prints what ExecuTorch's own Python reader finds in a `.ptd` file, a line for each key, as `flat_tensor.cpp` does:

    ptd_executorch.py SITE FILE.ptd

    scalar type|sizes|dim order|bytes|FNV-1a of the bytes|key

SITE is the folder that `setup.sh --executorch` installs the wheel in; `flatc` must be in the PATH. PyTorch is not needed: what
the reader imports of it, and does not use, are empty modules here. The first three parts of a key without a layout are `-`.
"""

import importlib.machinery
import sys
import types

site, path = sys.argv[1:]
sys.path.insert(0, site)


def package(name):
    """A package without what its __init__ would import."""
    path = f"{site}/{name.replace('.', '/')}"
    module = types.ModuleType(name)
    module.__path__, module.__file__ = [path], f"{path}/__init__.py"
    loader = importlib.machinery.SourceFileLoader(name, module.__file__)
    module.__spec__ = importlib.machinery.ModuleSpec(name, loader, origin=module.__file__, is_package=True)
    module.__spec__.submodule_search_locations = [path]
    sys.modules[name] = module


class Empty(types.ModuleType):
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


for name in ["", ".exir", ".exir._serialize", ".extension", ".extension.flat_tensor"]:
    package(f"executorch{name}")
for name in ["torch", "torch.fx", "sympy", "executorch.exir.tensor", "executorch.exir._serialize._named_data_store"]:
    sys.modules[name] = Empty(name)

from executorch.exir._serialize._cord import Cord
from executorch.extension.flat_tensor.serialize.serialize import FlatTensorConfig, FlatTensorSerializer

from ptd_build import fnv

with open(path, "rb") as file:
    payload = FlatTensorSerializer(FlatTensorConfig()).deserialize(Cord(file.read()))
for key, entry in payload.named_data.items():
    data, layout = payload.buffers[entry.buffer_index], entry.tensor_layout
    parts = ["-"] * 3
    if layout is not None:
        sizes, order = (",".join(map(str, numbers)) for numbers in (layout.sizes, layout.dim_order))
        parts = [str(int(layout.scalar_type)), sizes, order]
    print("|".join([*parts, str(len(data)), f"{fnv(data):016x}", key]))
