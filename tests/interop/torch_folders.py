"""Saves folders with torch.distributed.checkpoint, from one, two and four processes, and what PyTorch reads from them.

    python torch_folders.py FOLDER [--old]

Each line of `FOLDER/expected.jsonl` is a folder: its tensors by name, with dtype, shape, and elements in row-major order,
little-endian, in hexadecimal, as `dcp_to_torch_save` has them; the texts of its metadata; and the names of the values that
are opaque. The processes talk to each other by gloo on the loopback interface. `--old` is for PyTorch 1.13, which has these
functions under another name, and no `dcp_to_torch_save`: the values are those that were saved.
"""

import argparse
import json
import os
import pathlib
import sys
import warnings

import torch
import torch.distributed as dist
import torch.multiprocessing as processes

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "fixtures" / "pytorch"))
from metadata_text import text

warnings.simplefilter("ignore")

NAMES = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "bool": "bool", "int8": "i8",
         "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16", "uint32": "u32",
         "uint64": "u64", "float8_e5m2": "f8_e5m2", "float8_e4m3fn": "f8_e4m3fn", "complex64": "c64",
         "complex128": "c128"}
NAMES = {getattr(torch, name): ours for name, ours in NAMES.items() if hasattr(torch, name)}

# What safetensors cannot store.
UNSTORED = ["turned", "complex", "conj"]


def numbers(*shape, dtype=torch.float32, first=0):
    count = 1
    for dim in shape:
        count *= dim
    return (torch.arange(count, dtype=torch.float64) * 0.5 + first).reshape(shape).to(dtype)


class Opaque:
    pass


def plain():
    """Returns what one process saves."""
    shared = numbers(4, 6)
    model = torch.nn.Linear(4, 3)
    for i, parameter in enumerate(model.parameters()):
        parameter.data = numbers(*parameter.shape, first=i)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
    model(numbers(2, 4)).sum().backward()
    optimizer.step()
    return {
        "model": model.state_dict(), "optim": optimizer.state_dict(), "epoch": 3, "name": "run", "lr": 1e-4,
        "none": None, "list": [1, numbers(2), {"a": numbers(1)}], "flags": (True, False), "nothing": [],
        "transposed": shared.t(), "part": shared[1:3, 2:5], "expanded": numbers(1).expand(1000),
        "channels_last": numbers(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "f8": numbers(4).to(torch.float8_e4m3fn), "u16": numbers(3).to(torch.uint16), "bool": torch.tensor([True, False]),
        "scalar": torch.tensor(7), "empty": numbers(0, 3), "c64": numbers(2, dtype=torch.complex64) * (1 + 2j),
        "conj": (numbers(2, dtype=torch.complex64) * (1 + 2j)).conj(), "tied": shared, "parameter":
        torch.nn.Parameter(numbers(2)), "class": Opaque, "nested": {"deep": {"er": numbers(2, dtype=torch.float64)}},
    }


def sharded(world):
    """Returns what each of several processes saves."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, Shard

    def distribute(value, mesh, placements):
        # Without sending it, which gloo does not do for all dtypes.
        local = value
        for i, placement in enumerate(placements):
            if isinstance(placement, Shard):
                parts, own = torch.chunk(local, mesh.size(i), placement.dim), mesh.get_local_rank(i)
                local = parts[own] if own < len(parts) else local.narrow(placement.dim, 0, 0)
        return DTensor.from_local(local, mesh, placements, run_check=False, shape=value.shape, stride=value.stride())

    line = init_device_mesh("cpu", (world,))
    values = {
        "rows": distribute(numbers(7, 5), line, [Shard(0)]),
        "columns": distribute(numbers(7, 5, dtype=torch.bfloat16), line, [Shard(1)]),
        "middle": distribute(numbers(3, 6, 5, dtype=torch.int16), line, [Shard(1)]),
        "copies": distribute(numbers(7, 5), line, [Replicate()]),
        "few": distribute(numbers(1, 3), line, [Shard(0)]),
        "complex": distribute(numbers(4, 3, dtype=torch.complex64) * (1 - 1j), line, [Shard(1)]),
        "turned": distribute(numbers(6, 4).t(), line, [Shard(0)]),
        "conj": distribute((numbers(4, 3, dtype=torch.complex64) * (1 - 1j)).conj(), line, [Shard(0)]),
        "bools": distribute(numbers(9, dtype=torch.int64) % 2 == 0, line, [Shard(0)]),
        "plain": numbers(3), "step": 7, "empty": distribute(numbers(0, 3), line, [Shard(1)]),
        "scalar": distribute(torch.tensor(2.5), line, [Replicate()]),
    }
    if world == 4:
        square = init_device_mesh("cpu", (2, 2))
        values["blocks"] = distribute(numbers(5, 6), square, [Shard(0), Shard(1)])
        values["hybrid"] = distribute(numbers(5, 6), square, [Replicate(), Shard(0)])
        values["twice"] = distribute(numbers(9, 2), square, [Shard(0), Shard(0)])
    return values


def save_sharded(rank, world, port, folder):
    import torch.distributed.checkpoint as dcp

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=world)
    for name, writer in [
        ("sharded", {}), ("threads", {"thread_count": 3}), ("file_per_item", {"single_file_per_rank": False}),
    ]:
        path = folder / f"{name}_{world}"
        dcp.save(sharded(world), storage_writer=dcp.FileSystemWriter(path, **writer))
    values = {name: value for name, value in sharded(world).items() if torch.is_tensor(value) and name not in UNSTORED}
    writer = dcp.HuggingFaceStorageWriter(str(folder / f"hugging_face_{world}"), save_distributed=True)
    dcp.save(values, storage_writer=writer)
    dist.destroy_process_group()


def save_old(rank, world, port, folder):
    """Saves with PyTorch 1.13, whose sharded tensors have chunks of rows or columns."""
    from torch.distributed._shard import checkpoint, shard_parameter
    from torch.distributed._shard.sharding_spec import ChunkShardingSpec

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=world)
    places = [f"rank:{i}/cpu" for i in range(world)]
    values = {"plain": numbers(3), "transposed": numbers(4, 6).t(), "step": 7}
    for name, dim in [("rows", 0), ("columns", 1)]:
        module = torch.nn.Linear(5, 7, bias=False)
        module.weight = torch.nn.Parameter(numbers(7, 5))
        shard_parameter(module, "weight", ChunkShardingSpec(dim=dim, placements=places))
        values[name] = module.weight
    checkpoint.save_state_dict(values, checkpoint.FileSystemWriter(folder / f"old_{world}"))
    dist.destroy_process_group()


def is_scalar(value):
    return value is None or isinstance(value, (bool, int, float, str))


def describe(values):
    """Returns the tensors, the metadata and the opaque values, with names joined by dots."""
    tensors, metadata, opaque = {}, {}, []

    def visit(name, value):
        if torch.is_tensor(value):
            value = value.detach().resolve_conj().resolve_neg().contiguous()
            elements = value.reshape(-1).view(torch.uint8) if value.numel() else value.new_empty(0, dtype=torch.uint8)
            tensors[name] = [NAMES[value.dtype], list(value.shape), bytes(elements.tolist()).hex()]
        elif isinstance(value, dict) and value:
            for key, inner in value.items():
                visit(f"{name}.{key}" if name else str(key), inner)
        elif isinstance(value, (list, tuple)) and not all(map(is_scalar, value)):
            for i, inner in enumerate(value):
                visit(f"{name}.{i}", inner)
        elif is_scalar(value) or isinstance(value, (list, tuple)):
            metadata[name] = text(value)
        else:
            opaque.append(name)

    visit("", values)
    return {"tensors": tensors, "metadata": metadata, "opaque": opaque}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--old", action="store_true")
    options = parser.parse_args()
    folder = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    lines, port = [], 29400 + os.getpid() % 1000
    if options.old:
        processes.spawn(save_old, (2, port, folder), nprocs=2)
        values = {"plain": numbers(3), "transposed": numbers(4, 6).t(), "step": 7, "rows": numbers(7, 5),
                  "columns": numbers(7, 5)}
        lines.append({"folder": "old_2", **describe(values)})
    else:
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

        dcp.save(plain(), checkpoint_id=folder / "plain")
        for i, world in enumerate([2, 4]):
            processes.spawn(save_sharded, (world, port + i, folder), nprocs=world)
        for path in sorted(path for path in folder.iterdir() if (path / ".metadata").is_file()):
            dcp_to_torch_save(path, folder / "whole.pt")
            values = torch.load(folder / "whole.pt", weights_only=False)
            lines.append({"folder": path.name, **describe(values)})
            (folder / "whole.pt").unlink()
        for path in sorted(folder.glob("hugging_face_*")):
            values = next(line for line in lines if line["folder"] == path.name.replace("hugging_face", "sharded"))
            tensors = {name: value for name, value in values["tensors"].items() if name not in UNSTORED}
            lines.append({"folder": path.name, "tensors": tensors, "metadata": {}, "opaque": []})
    with open(folder / "expected.jsonl", "w") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
