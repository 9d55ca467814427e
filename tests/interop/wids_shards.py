"""Reads shards by the index of Python's `wids`.

    wids_shards.py INDEX CACHE     # prints the key and the files of each sample, from the last to the first, as JSON
"""

import json
import sys
import types
from typing import Generic, TypeVar

# `wids` needs PyTorch for samplers, which are not used here, and for the names of two classes.
for name in ("torch", "torch.distributed", "torch.utils", "torch.utils.data"):
    sys.modules[name] = types.ModuleType(name)
T = TypeVar("T")


class Dataset(Generic[T]):
    pass


sys.modules["torch"].distributed = sys.modules["torch.distributed"]
sys.modules["torch.utils.data"].Dataset = sys.modules["torch.utils.data"].Sampler = Dataset

import wids

index, cache = sys.argv[1:]
dataset = wids.ShardListDataset(index, cache_dir=cache, transformations=[], keep=True)
samples = [dataset[i] for i in reversed(range(len(dataset)))]
plain = lambda value: list(value.getvalue()) if hasattr(value, "getvalue") else value
json.dump([{name: plain(sample[name]) for name in sorted(sample) if name[:2] != "__" or name == "__key__"} for sample in samples], sys.stdout)
