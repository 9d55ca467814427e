"""The functions of `safetensors.torch`, for files of any format, and a `load` that also reads checkpoints of PyTorch.

    from tensorfile.torch import load, load_file, safe_open, save_file

    state_dict = load("pytorch_model.bin")      # executes nothing in the file
    save_file(state_dict, "model.safetensors")

Unlike those of safetensors, they save strided tensors correctly, take `bytearray` and `memoryview`, and files get the
mode of the umask.
"""

from __future__ import annotations

import contextlib
import io
import os
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
import torch.utils.data

from . import _tensorfile, _torch_face
from ._errors import SafetensorError, as_safetensors
from ._safetensors import is_bytes, safe_open, save_as_safetensors
from ._types import Path
from ._webdataset import expanded, webdataset

__all__ = [
    "SafetensorError",
    "WebDataset",
    "load",
    "load_file",
    "load_model",
    "safe_open",
    "save",
    "save_file",
    "save_model",
]

def save_file(
    tensors: Mapping[str, torch.Tensor], filename: Path, metadata: Mapping[str, str] | None = None
) -> None:
    """Save a dict of tensors as a safetensors file, with any extension.

    If tensors share memory, you get an error, as with safetensors. `save_model` saves them once.
    """
    _check(tensors)
    save_as_safetensors(filename, tensors, metadata)


def save(tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """Return a dict of tensors as the bytes of a safetensors file."""
    _check(tensors)
    out = io.BytesIO()
    save_as_safetensors(out, tensors, metadata)
    return out.getvalue()


def load_file(filename: Path, device: str | int = "cpu", *, backend: str = "mmap") -> dict[str, torch.Tensor]:
    """Load a file of any format into tensors.

    With the backend `mmap`, tensors on the CPU are mapped. A page is read when you first use it, and the file stays as it
    is if you change a tensor.
    """
    with safe_open(filename, framework="pt", device=device, backend=backend) as file:
        return file.get_tensors()


def load(
    f: Any,
    map_location: Any = None,
    *,
    weights_only: bool = True,
    mmap: bool = False,
    strict: bool = False,
) -> Any:
    """Load a file as both `safetensors.torch.load` and `torch.load` do.

    - `f`: the bytes of a file, such as a `bytearray` or a `memoryview`; or a path or a file object of a `.pt`, `.pth`,
      `.bin`, `.safetensors` or any other format.

    From a PyTorch checkpoint you get the value that was saved: nested dicts, lists, numbers and strings with tensors in
    them, ready for `load_state_dict` of modules and optimizers. From other formats you get a dict of tensors.

    Nothing in the file is executed, so `weights_only=False` is an error. Objects that only code could create, and tensors of
    dtypes that torch lacks, are left out with a warning; with `strict`, they are an error.

    The file is read into memory, so you may save over it, as `torch.save` does. With `mmap=True` it is mapped instead: a page
    is read when you first use it, changes stay in this process, and nobody may truncate the file meanwhile. `map_location`
    is a device.
    """
    if not weights_only:
        raise ValueError("weights_only=False would execute the file, which this function never does; use torch.load")
    if map_location is not None and not isinstance(map_location, (str, int, torch.device)):
        raise TypeError(f"map_location is a device, not a {type(map_location).__name__}")
    device = "cpu" if map_location is None else map_location
    if is_bytes(f):
        with as_safetensors():
            file = _tensorfile.open_bytes(f)
    else:
        file = _tensorfile.open(f, mmap=mmap)
    with file:
        values = file._values()
        left: list[str] = [text for kind, _, text in file._warnings if kind == "left-out"]
        strides = {place[0]: place[1] for kind, place in values or () if kind == "tensor"}
        tensors = _loadable(file, strides, left)
        if strict and left:
            raise _tensorfile.MismatchError(f"{file.path or 'the file'}: {'; '.join(left)}")
        for text in left:
            warnings.warn(f"{file.path or 'the file'}: {text}", stacklevel=2)
        found = _read_all(tensors, strides, device, mmap, shares=values is not None)
        if values is not None:
            return _made(values, found)
        return {name: found[i] for i, name in enumerate(file.keys()) if i in found}


def _loadable(file: _tensorfile.File, strides: Mapping[int, Any], left: list[str]) -> dict[int, _tensorfile.Tensor]:
    """Return the tensors whose dtype torch has, by position, and add reasons for the others to `left`."""
    found = {}
    for position, tensor in enumerate(file.values()):
        try:
            _torch_face.dtype_of(tensor, strides.get(position))
            found[position] = tensor
        except TypeError as error:
            left.append(str(error))
    return found


def _read_all(
    tensors: Mapping[int, _tensorfile.Tensor], strides: Mapping[int, Any], device: Any, mmap: bool, shares: bool
) -> dict[int, torch.Tensor]:
    """Read tensors of one file together. Tensors that share bytes in the file share memory, as when they were saved."""
    found: dict[int, torch.Tensor] = {}
    memory: dict[int, torch.Tensor] = {}
    for position, tensor in tensors.items():
        mapped = _torch_face.mapped(tensor, strides.get(position)) if mmap else None
        if mapped is not None:
            found[position] = mapped
    rest = [(position, tensor) for position, tensor in tensors.items() if position not in found]
    shared = [(position, tensor) for position, tensor in rest if shares and _is_plain(tensor)]
    # Storages: each is a range of the file that some tensors share.
    storages: list[tuple[int, int, list[int]]] = []
    for position, tensor in sorted(shared, key=lambda pair: (pair[1].offset, -pair[1].nbytes)):
        start, end = tensor.offset, tensor.offset + tensor.nbytes
        if storages and start < storages[-1][1]:
            first, last, members = storages[-1]
            if (start - first) % _torch_face.dtype_of(tensor, strides.get(position)).itemsize == 0:
                storages[-1] = (first, max(last, end), [*members, position])
                continue
        storages.append((start, end, [position]))
    # Tensors of one storage may overlap, so they are read in turns. A tensor whose bytes are all filled is not read.
    turns: list[tuple[list[_tensorfile.Tensor], list[Any]]] = []
    for start, end, members in storages:
        flat = torch.empty(end - start, dtype=torch.uint8)
        filled, turn = start, 0
        for position in members:
            tensor = tensors[position]
            memory[position] = flat[tensor.offset - start :][: tensor.nbytes]
            if tensor.offset + tensor.nbytes > filled:
                if turn == len(turns):
                    turns.append(([], []))
                turns[turn][0].append(tensor)
                turns[turn][1].append(memory[position].numpy())
                filled, turn = tensor.offset + tensor.nbytes, turn + 1
    for position, tensor in rest:
        if position not in memory:
            memory[position] = torch.empty(tensor.nbytes, dtype=torch.uint8)
            if not turns:
                turns.append(([], []))
            turns[0][0].append(tensor)
            turns[0][1].append(memory[position].numpy())
    for part, buffers in turns:
        _tensorfile.read_tensors(part, buffers)
    for position, tensor in rest:
        own = strides.get(position)
        found[position] = _torch_face.shaped(memory[position], _torch_face.dtype_of(tensor, own), tensor, own)
    return {position: _torch_face.to(tensor, device) for position, tensor in found.items()}


def _is_plain(tensor: _tensorfile.Tensor) -> bool:
    """Return whether the file has the bytes of a tensor at its offset, just as they are in memory."""
    return not (tensor.is_encoded or tensor.is_sparse or tensor.dtype == "bool" or tensor.nbytes == 0)


def _made(values: list[tuple[str, Any]], tensors: Mapping[int, torch.Tensor]) -> Any:
    """Create the values of a checkpoint, inner ones first. A value left out is missing from dicts, and `None` in lists."""
    made: list[Any] = []
    # A mark for values left out.
    left = object()

    def items(places: list[int]) -> list[Any]:
        return [None if made[place] is left else made[place] for place in places]

    for kind, of in values:
        value: Any = left
        if kind == "value":
            value = of
        elif kind == "tensor":
            position, _, is_array = of
            if position in tensors:
                value = tensors[position].numpy() if is_array else tensors[position]
        elif kind == "dict":
            pairs, attributes = of
            value = {} if attributes is None else OrderedDict()
            for key, item in pairs:
                if made[item] is not left and made[key] is not left:
                    with contextlib.suppress(TypeError):
                        value[made[key]] = made[item]
            for name, item in (made[attributes] if attributes is not None else {}).items():
                if isinstance(name, str) and not name.startswith("__"):
                    # For example the versions of modules, which `load_state_dict` looks at.
                    setattr(value, name, item)
        elif kind == "list":
            value = items(of)
        elif kind == "tuple":
            value = tuple(items(of))
        elif kind == "size":
            value = torch.Size(items(of))
        elif kind in ("set", "frozenset"):
            with contextlib.suppress(TypeError):
                value = (set if kind == "set" else frozenset)(items(of))
        elif kind == "torch":
            value = getattr(torch, of, left)
        elif kind == "device":
            with contextlib.suppress(RuntimeError, TypeError):
                value = torch.device(*items(of))
        elif kind == "long":
            value = int.from_bytes(of, "little", signed=True)
        elif kind == "digits":
            with contextlib.suppress(ValueError):
                value = int(of.rstrip("L"))
        elif kind in ("numpy_dtype", "numpy_scalar"):
            value = _of_numpy(kind, of, left)
        elif kind == "object" and of[1]:
            value = {name: tensors[position] for name, position in of[1] if position in tensors}
        made.append(value)
    whole = made[-1] if made else {}
    return {} if whole is left else whole


def _of_numpy(kind: str, of: Any, left: Any) -> Any:
    import numpy as np

    try:
        if kind == "numpy_dtype":
            return np.dtype(of)
        return np.frombuffer(of[1], of[0])[0]
    except (TypeError, ValueError, IndexError):
        return left


def save_model(
    model: torch.nn.Module,
    filename: str,
    metadata: Mapping[str, str] | None = None,
    force_contiguous: bool = True,
) -> None:
    """Save the state dict of a model. Of several tensors that share memory, one is saved; metadata maps the others to it.

    `force_contiguous` is accepted as by safetensors, but has no effect: tensors in any memory order are saved correctly.
    """
    state = model.state_dict()
    entries = dict(metadata or {})
    for kept, removed in _remove_duplicate_names(state).items():
        for name in removed:
            entries.setdefault(name, kept)
            del state[name]
    save_file(state, filename, entries)


def load_model(
    model: torch.nn.Module,
    filename: Path,
    strict: bool = True,
    device: str | int = "cpu",
    *,
    backend: str = "mmap",
) -> tuple[set[str], list[str]]:
    """Load a file into a model, and return the missing and unexpected names. With `strict`, they are an error."""
    state = load_file(filename, device, backend=backend)
    shared = _remove_duplicate_names(model.state_dict(), preferred_names=state)
    missing, unexpected = model.load_state_dict(state, strict=False)
    absent = set(missing)
    for name in (name for names in shared.values() for name in names):
        if name in absent:
            # The tensor shares memory with one that was loaded.
            absent.remove(name)
        else:
            unexpected.append(name)
    if strict and (absent or unexpected):
        lines = [f"Error(s) in loading state_dict for {type(model).__name__}:"]
        for what, names in ("Missing", absent), ("Unexpected", unexpected):
            if names:
                listed = ", ".join(f'"{name}"' for name in sorted(names))
                lines.append(f"    {what} key(s) in state_dict: {listed}")
        raise RuntimeError("\n".join(lines))
    return absent, unexpected


def storage_ptr(tensor: torch.Tensor) -> int:
    """Return the address of the storage of a tensor."""
    return tensor.untyped_storage().data_ptr()


def storage_size(tensor: torch.Tensor) -> int:
    """Return the bytes of the storage of a tensor."""
    return tensor.untyped_storage().nbytes()


def _check(tensors: object) -> None:
    """Refuse everything that safetensors refuses, except tensors in another memory order."""
    if not isinstance(tensors, Mapping):
        raise ValueError(f"Expected a dict of [str, torch.Tensor] but received {type(tensors)}")
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(f"Key `{name}` is invalid, expected torch.Tensor but received {type(tensor)}")
    sparse = [name for name, tensor in tensors.items() if tensor.layout != torch.strided]
    if sparse:
        raise ValueError(
            f"You are trying to save a sparse tensors: `{sparse}` which this library does not support. You can make it a"
            " dense tensor before saving with `.to_dense()` but be aware this might make a much larger file than needed."
        )
    shared = [names for names in _find_shared_tensors(tensors) if len(names) > 1]
    if shared:
        raise RuntimeError(
            f"Some tensors share memory, and would be stored several times: {shared}. `save_model` stores them once."
        )


def _end_ptr(tensor: torch.Tensor) -> int:
    """Return the address of the end of the last element."""
    if tensor.numel() == 0:
        return tensor.data_ptr()
    last = sum((dim - 1) * stride for dim, stride in zip(tensor.shape, tensor.stride()))
    return tensor.data_ptr() + (last + 1) * tensor.element_size()


def _is_complete(tensor: torch.Tensor) -> bool:
    """Return whether a tensor covers all of its storage."""
    return (
        tensor.data_ptr() == storage_ptr(tensor) and tensor.numel() * tensor.element_size() == storage_size(tensor)
    )


def _find_shared_tensors(tensors: Mapping[str, torch.Tensor]) -> list[set[str]]:
    """Group the names of tensors that share bytes. Tensors in separate parts of one storage are in separate groups."""
    storages: dict[tuple[Any, ...], list[str]] = {}
    for name, tensor in tensors.items():
        if tensor.device.type != "meta" and storage_ptr(tensor) != 0 and storage_size(tensor) != 0:
            key = (tensor.device, storage_ptr(tensor), storage_size(tensor))
            storages.setdefault(key, []).append(name)
    groups: list[set[str]] = []
    for names in storages.values():
        end = 0
        for name in sorted(names, key=lambda name: tensors[name].data_ptr()):
            if end > tensors[name].data_ptr():
                groups[-1].add(name)
            else:
                groups.append({name})
            end = max(end, _end_ptr(tensors[name]))
    return groups


def _remove_duplicate_names(
    tensors: Mapping[str, torch.Tensor],
    *,
    preferred_names: Iterable[str] = (),
    discard_names: Iterable[str] = (),
) -> dict[str, list[str]]:
    """Choose one name of each group of tensors that share bytes, and list the other names under it."""
    preferred, discarded = set(preferred_names), set(discard_names)
    removed = {}
    for names in _find_shared_tensors(tensors):
        complete = sorted(name for name in names if _is_complete(tensors[name]))
        if not complete:
            if len(names) == 1:
                continue
            raise RuntimeError(f"none of the tensors {sorted(names)}, which share memory, has all of it")
        best = [name for name in complete if name in preferred] or [n for n in complete if n not in discarded] or complete
        others = sorted(names - {best[0]})
        if others:
            removed[best[0]] = others
    return removed


class WebDataset(torch.utils.data.IterableDataset):
    """`tensorfile.webdataset` for a `DataLoader`: you get torch tensors instead of arrays, in memory of their own.

    The shards are divided among the ranks of `torch.distributed` (or of `RANK` and `WORLD_SIZE` in the environment), and
    among the workers of the loader. By default, a rank has the samples of its shards. `DistributedDataParallel` needs the
    same number on every rank: give `samples`, the number per rank and epoch, and shards with fewer start over.

    Call `set_epoch` before each epoch for another order; workers see it too. `state_dict` and `load_state_dict` are about
    one worker, as torchdata's `StatefulDataLoader` needs them.

        dataset = WebDataset("train-{000000..000123}.tar", shuffle=1000, samples=100_000)
        loader = DataLoader(dataset, num_workers=4, batch_size=None)
        for epoch in range(10):
            dataset.set_epoch(epoch)
            for sample in loader: ...
    """

    def __init__(
        self,
        shards: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        *,
        shuffle: int = 0,
        seed: int = 0,
        samples: int | None = None,
        errors: str = "stop",
    ) -> None:
        super().__init__()
        self._shards: list[str | os.PathLike[str]] = [shards] if isinstance(shards, (str, os.PathLike)) else list(shards)
        self._options: dict[str, Any] = {"shuffle": shuffle, "seed": seed, "errors": errors}
        self._count = samples
        # The epoch is in shared memory, so that workers that live for several epochs see it change.
        self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()
        self._state: dict[str, Any] | None = None
        self._samples: webdataset | None = None
        self._undecoded = 0
        self._last: str | None = None

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the next epoch. Each epoch has its own order, which depends on `seed` and the number only."""
        self._epoch.fill_(epoch)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        rank, world = _rank()
        worker = torch.utils.data.get_worker_info()
        number, workers = (0, 1) if worker is None else (worker.id, worker.num_workers)
        options = dict(self._options)
        if self._count is not None:
            shards = len(expanded(self._shards))
            if shards < world:
                raise ValueError(f"{world} ranks share {shards} shards, and each rank needs one")
            # With the same number of workers with samples, all ranks have the same number of batches.
            workers = min(workers, shards // world)
            if number >= workers:
                return
            options["samples"] = self._count // workers + (number < self._count % workers)
        self._samples = _Samples(self._shards, rank=rank + world * number, world=world * workers, **options)
        self._samples.set_epoch(int(self._epoch))
        if self._state is not None:
            self._samples.load_state_dict(self._state)
            self._state = None
        self._undecoded, self._last = 0, None
        for sample in self._samples:
            try:
                found = {name: _of_sample(sample, value) for name, value in sample.items()}
            except (TypeError, ValueError) as error:
                if self._options["errors"] != "skip":
                    raise
                self._undecoded, self._last = self._undecoded + 1, str(error)
                continue
            yield found

    @property
    def skipped(self) -> tuple[int, int, str | None]:
        """The numbers of samples and shards this worker left out since the iteration began, and the last error."""
        samples, shards, last = self._samples.skipped if self._samples else (0, 0, None)
        return samples + self._undecoded, shards, self._last or last

    def state_dict(self) -> dict[str, Any]:
        """Return the state of this worker after its last sample."""
        return self._samples.state_dict() if self._samples else self._state or {"state": None}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next iteration resume after a state of this worker."""
        self._state, self._samples = state, None

    def __getstate__(self) -> dict[str, Any]:
        # Samples of this process are no use to workers, which read other shards.
        return {**self.__dict__, "_samples": None}


class _Samples(webdataset):
    _sharers = "ranks and workers"
    _tensors = True


def _rank() -> tuple[int, int]:
    """Return the rank of this process, and the number of processes."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


def _of_sample(sample: dict[str, Any], value: Any) -> Any:
    """Return a value of a sample. A tensor is copied, because tensors of torch are writable."""
    if not isinstance(value, _tensorfile.Tensor):
        return value
    try:
        return _torch_face.owned([value])[0]
    except (TypeError, ValueError) as error:
        message = f"{sample['__url__']}: sample `{sample['__key__']}`: {error}"
        raise type(error)(message) from None
