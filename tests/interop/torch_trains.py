"""Trains a model in several processes that hold parts of it (FSDP2), with AdamW.

    python torch_trains.py save FOLDER PROCESSES
    python torch_trains.py continue FOLDER PROCESSES

`save` trains two steps from the start and saves the model and its optimizer by `dcp.save`. `continue` loads both from a folder by
`dcp.load`, trains two more steps, and prints the losses and the digest of all parameters and of the optimizer's state as JSON. The
processes talk to each other by gloo on the loopback interface.
"""

import hashlib
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
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, init_device_mesh

warnings.simplefilter("ignore")


def whole(value):
    return value.full_tensor() if isinstance(value, DTensor) else value


def digest(state):
    sums = hashlib.sha256()
    def add(path, value):
        if isinstance(value, dict):
            for key in sorted(value, key=str):
                add(f"{path}/{key}", value[key])
        elif isinstance(value, torch.Tensor):
            sums.update(path.encode() + bytes(whole(value).contiguous().reshape(-1).view(torch.uint8).tolist()))
        elif isinstance(value, list):
            for position, item in enumerate(value):
                add(f"{path}/{position}", item)
        else:
            sums.update(f"{path}={value!r}".encode())
    add("", state)
    return sums.hexdigest()


def train(rank, count, mode, folder, port, out):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=count)
    torch.manual_seed(7 if mode == "save" else 8)
    model = torch.nn.Sequential(torch.nn.Linear(10, 7), torch.nn.Tanh(), torch.nn.Linear(7, 5), torch.nn.LayerNorm(5))
    mesh = init_device_mesh("cpu", (count,))
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
    losses = []

    def step(number):
        generator = torch.Generator().manual_seed(number)
        data = torch.randn(4, 10, generator=generator)
        loss = model(data).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    if mode == "save":
        step(1)
        step(2)
        weights, state = get_state_dict(model, optimizer)
        dcp.save({"model": weights, "optimizer": state}, checkpoint_id=folder)
    else:
        weights, state = get_state_dict(model, optimizer)
        loaded = {"model": weights, "optimizer": state}
        dcp.load(loaded, checkpoint_id=folder)
        set_state_dict(model, optimizer, model_state_dict=loaded["model"], optim_state_dict=loaded["optimizer"])
        before = digest(dict(zip(("model", "optimizer"), get_state_dict(model, optimizer))))
        step(3)
        step(4)
        after = digest(dict(zip(("model", "optimizer"), get_state_dict(model, optimizer))))
        if rank == 0:
            pathlib.Path(out).write_text(json.dumps({"before": before, "losses": losses, "after": after}))
    dist.destroy_process_group()


def main():
    mode, folder, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with tempfile.TemporaryDirectory() as temporary:
        out = f"{temporary}/out.json"
        port = 20_000 + os.getpid() % 20_000
        processes.spawn(train, (count, mode, folder, port, out), nprocs=count)
        if mode == "continue":
            print(pathlib.Path(out).read_text())


if __name__ == "__main__":
    main()
