"""Prints what PyTorch reads from a folder of HuggingFaceStorageWriter: a line of JSON for each of two ways.

    python torch_reads_shards.py FOLDER

1. `dcp.load` with `HuggingFaceStorageReader`, into plain tensors.
2. The file of `consolidate_safetensors_files`, as the safetensors package reads it. It takes floats only, so that the line has no
   tensors if some are not.

Tensors are described as by `torch_reads_folder.py`.
"""

import json
import pathlib
import sys
import tempfile
import warnings

import safetensors.torch
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint._consolidate_hf_safetensors import consolidate_safetensors_files
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
from torch_reads_folder import described

warnings.simplefilter("ignore")


def main():
    folder = sys.argv[1]
    entries = HuggingFaceStorageReader(folder).read_metadata().state_dict_metadata
    state = {name: torch.zeros(entry.size, dtype=entry.properties.dtype) for name, entry in entries.items()}
    dcp.load(state, storage_reader=HuggingFaceStorageReader(folder), no_dist=True)
    print(json.dumps({name: described(tensor) for name, tensor in state.items()}))
    if not all(tensor.is_floating_point() for tensor in state.values()):
        print("{}")
        return
    with tempfile.TemporaryDirectory() as whole:
        consolidate_safetensors_files(folder, whole, {name: 1 for name in entries})
        found = {}
        for path in pathlib.Path(whole).glob("*.safetensors"):
            found |= {name: described(tensor) for name, tensor in safetensors.torch.load_file(path).items()}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
