"""Prints what torch.distributed.checkpoint reads from a folder: a line of JSON for each of three ways.

    python torch_reads_folder.py FOLDER PROCESSES

1. `dcp_to_torch_save`, which gives the nested value back. Keys are joined by `/`.
2. `dcp.load` into plain tensors, without processes.
3. `dcp.load` into DTensors that PROCESSES processes hold, divided along their first dim, and gathered again.

A tensor has its dtype, its shape, and its elements in row-major order as hexadecimal digits. Other values are as `repr`
prints them. The processes talk to each other by gloo on the loopback interface.
"""

import json
import os
import pathlib
import sys
import tempfile
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as processes
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

warnings.simplefilter("ignore")


class Opaque:
    """What `torch_folders.py` saves as an object of its own."""


def described(value):
    if not isinstance(value, torch.Tensor):
        return "an object" if isinstance(value, Opaque) else repr(value)
    flat = value.contiguous().reshape(-1).view(torch.uint8)
    return [str(value.dtype).removeprefix("torch."), list(value.shape), bytes(flat.tolist()).hex()]


def walk(value, path, found):
    if isinstance(value, dict):
        for key, item in value.items():
            walk(item, [*path, str(key)], found)
    elif isinstance(value, list) and any(isinstance(item, (dict, torch.Tensor)) for item in value):
        for position, item in enumerate(value):
            walk(item, [*path, str(position)], found)
    else:
        found["/".join(path)] = described(value)
    return found


def empty(folder):
    entries = dcp.FileSystemReader(folder).read_metadata().state_dict_metadata.items()
    tensors = [(name, entry) for name, entry in entries if isinstance(entry, TensorStorageMetadata)]
    return {name: torch.zeros(entry.size, dtype=torch.uint8).to(entry.properties.dtype)
            if entry.properties.dtype.itemsize > 1 else torch.zeros(entry.size, dtype=torch.uint8).view(entry.properties.dtype)
            for name, entry in tensors}


def gather(rank, count, folder, port, out):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=count)
    mesh = init_device_mesh("cpu", (count,))
    # Communication knows few dtypes.
    known = {torch.float32, torch.float64, torch.int32, torch.int64, torch.uint8, torch.int8, torch.float16, torch.bfloat16}
    state = {name: distribute_tensor(tensor, mesh, [Shard(0)]) for name, tensor in empty(folder).items()
             if tensor.ndim and tensor.dtype in known}
    dcp.load(state, checkpoint_id=folder)
    found = {name: described(tensor.full_tensor()) for name, tensor in state.items()}
    if rank == 0:
        pathlib.Path(out).write_text(json.dumps(found))
    dist.destroy_process_group()


def main():
    folder, count = sys.argv[1], int(sys.argv[2])
    with tempfile.TemporaryDirectory() as temporary:
        whole, gathered = f"{temporary}/whole.pt", f"{temporary}/gathered.json"
        dcp_to_torch_save(folder, whole)
        print(json.dumps(walk(torch.load(whole, weights_only=False), [], {})))
        state = empty(folder)
        dcp.load(state, checkpoint_id=folder, no_dist=True)
        print(json.dumps({name: described(tensor) for name, tensor in state.items()}))
        port = 20_000 + os.getpid() % 20_000
        processes.spawn(gather, (count, folder, port, gathered), nprocs=count)
        print(pathlib.Path(gathered).read_text())


if __name__ == "__main__":
    main()
