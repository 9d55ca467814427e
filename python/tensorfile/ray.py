"""Datasets of tensor files on Ray: read, written, converted and checked on many machines.

    import tensorfile.ray

    rows = tensorfile.ray.read("train-{000000..000123}.tar", columns=["__key__", "image", "label"])
    tensorfile.ray.write(rows.map_batches(augment, batch_size=None), "out", "tar")

Install Ray with the extra `tensorfile[ray]`. Your work is divided into splits: files, tensors of a large file, or samples of
a large shard. Ray runs each split as one task, and runs it again if a machine is lost. Each split writes one file. The file
gets its name once it is complete, and has the same bytes whichever machine wrote it. The index is written at the end, when
every split has its file. Write to a folder that all machines share; or to a URL such as `s3://bucket/folder`, if the
package is built with the feature `cloud` of its crates.

If you read shards, a row is a sample: `__key__`, and a column for each tensor and text. Arrays of bf16 and 8-bit floats keep
their dtypes (of the package `ml_dtypes`), as Python objects. If you read other files, a row is a tensor: `path`, `name`,
`dtype`, `shape`, and its bytes as `data`; `array` turns the row into an array. Keep the column `__split__`: `write` needs
it.

A sample without a column has None there. If no sample of a split has the column, the split lacks it. Ray holds columns with
None as Python objects, and cannot batch them with arrays of other splits: fill them first, with
`map_batches(fill, batch_size=None)`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy
import ray.data

from . import _arrays, _tensorfile
from ._commands import stats as stats_of
from ._commands import verify as verify_file
from ._save import prepared

__all__ = ["Written", "array", "convert", "read", "stats", "verify", "write"]

# A split becomes a block of Ray, and blocks have up to 128 MiB by default.
TARGET_BYTES = 64 << 20

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


class Written(NamedTuple):
    """A finished job: the path of the index, the names of the files, and the numbers of rows and bytes."""

    path: str
    files: list[str]
    rows: int
    bytes: int


def read(paths: Paths, *, columns: str | Iterable[str] | None = None, target_bytes: int = TARGET_BYTES) -> ray.data.Dataset:
    """Read samples of shards, or tensors of files, as a Ray dataset.

    - `paths`: paths, URLs, folders, and patterns such as `train-{000..123}.tar` and `models/*.safetensors`.
    - `columns`: the columns you need. No other files or tensors are read.
    - `target_bytes`: the most bytes of a split. A larger sample or tensor is a split of its own.
    """
    chosen = None if columns is None else _tensorfile.strings("columns", columns)
    return mapped(planned(paths, target_bytes), read_split, columns=chosen)


def write(dataset: ray.data.Dataset, folder: str | os.PathLike[str], format: str, *, empty: bool = False) -> Written:
    """Write a dataset from `read`: one file for each split, and an index at the end.

    You can change batches on the way with `map_batches(f, batch_size=None)`. `f` must keep `__split__`, and return the same
    if it is called again. Do not move rows between splits before you write, as `random_shuffle` does.

    - `format`: `tar` for samples, or a format of tensors with names, such as `safetensors`. In the latter, a sample's tensors
      are named after its key and their columns.
    - `empty`: accept splits without rows. By default they are an error.
    """
    target: dict[str, Any] = {"folder": absolute(folder), "format": format}
    parts = mapped(dataset, write_split, batch_size=None, **target).take_all()
    return committed(target["folder"], format, [row["part"] for row in parts], empty)


def convert(
    paths: Paths, folder: str | os.PathLike[str], to: str, *, target_bytes: int = TARGET_BYTES
) -> Written:
    """Convert files to `tar` or a format of tensors: one file for each split, and an index.

    Rows do not pass through Python, so this takes a small part of the time of `write(read(paths), folder, to)`. If there are
    several files, tensors are named after the path of their file and their own name.
    """
    target: dict[str, Any] = {"folder": absolute(folder), "format": to}
    parts = mapped(planned(paths, target_bytes), convert_split, **target).take_all()
    return committed(target["folder"], to, [row["part"] for row in parts], False)


def verify(paths: Paths, *, payload: bool = False, target_bytes: int = TARGET_BYTES) -> ray.data.Dataset:
    """Check files as `tensorfile.verify` does. Each is a row of `path`, `ok`, `malformed`, `problems` and `warnings`.

    If a file cannot be read, its row has an `error`.
    """
    return mapped(planned(paths, target_bytes, whole_files=True), verify_split, payload=payload)


def stats(paths: Paths, *, target_bytes: int = TARGET_BYTES) -> ray.data.Dataset:
    """Compute statistics as `tensorfile.stats` does. Each tensor is a row of `path`, `name` and its statistics."""
    return mapped(planned(paths, target_bytes, whole_files=True), stats_split)


def array(row: Mapping[str, Any]) -> numpy.ndarray:
    """Turn the row of a tensor into an array."""
    return as_array(row["dtype"], tuple(row["shape"]), row["data"])


def planned(paths: Paths, target_bytes: int, whole_files: bool = False) -> ray.data.Dataset:
    """Return a dataset with a row for each split. Each row becomes a task."""
    named = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    plan = _tensorfile.plan_splits([absolute(path) for path in named], target_bytes, None, whole_files)
    return ray.data.from_items([{"split": split} for split in plan], override_num_blocks=len(plan))


def absolute(path: str | os.PathLike[str]) -> str:
    """Return an absolute path, because workers have other working directories. URLs stay as they are."""
    text = os.fspath(path)
    return text if "://" in text else os.path.abspath(text)


def mapped(dataset: ray.data.Dataset, function: Any, batch_size: int | None = 1, **arguments: Any) -> ray.data.Dataset:
    """Call a function for each split, and return its results."""
    return dataset.map_batches(function, batch_size=batch_size, fn_kwargs=arguments)


# The functions of tasks. Each gets one split. If a task fails, Ray runs it again from its start.


def read_split(batch, columns):
    (split,) = batch["split"]
    found = {name: as_column(column) for name, column in _tensorfile.read_split(split, columns).items()}
    rows = max(map(len, found.values()), default=0)
    if columns is not None and "__key__" not in columns:
        found.pop("__key__", None)
    return {**found, "__split__": numpy.full(rows, identity(split), object)}


def convert_split(batch, folder, format):
    (split,) = batch["split"]
    return {"part": [_tensorfile.convert_split(split, folder, format)]}


def write_split(batch, folder, format):
    splits = set(batch.get("__split__", ()))
    if len(splits) != 1:
        found = f"rows of {len(splits)} splits" if splits else "no column `__split__`"
        raise ValueError(f"a block has {found}; `write` takes a dataset of `read` whose rows stay in their splits")
    part = _tensorfile.PartWriter(folder, tuple(json.loads(*splits)), format)
    columns = {name: column for name, column in batch.items() if name not in ("__split__", "__key__")}
    if "__key__" in batch:
        for i, key in enumerate(batch["__key__"]):
            part.sample(key, *sample({name: column[i] for name, column in columns.items()}))
    else:
        if missing := {"name", "dtype", "shape", "data"} - columns.keys():
            raise ValueError(f"rows of samples have `__key__`, and rows of tensors `{min(missing)}`")
        for name, dtype, shape, data in zip(*(columns[name] for name in ("name", "dtype", "shape", "data"))):
            part.tensors([(name, data, dtype, list(shape))])
    return {"part": [part.finish()]}


def verify_split(batch, payload):
    (split,) = batch["split"]
    rows = []
    for path in paths_of(split):
        try:
            found = verify_file(path, payload=payload)
        except (OSError, ValueError) as error:
            found = {"ok": False, "malformed": False, "problems": [], "warnings": [], "error": str(error)}
        rows.append({"path": path, "error": None, **{name: found[name] for name in found if name != "file"}})
    warnings = [[warning["text"] for warning in row.pop("warnings")] for row in rows]
    return {**transposed(rows, ["path", "ok", "malformed", "problems", "error"]), "warnings": listed(warnings)}


# The statistics that are numbers.
STATISTICS = ["count", "min", "max", "mean", "std", "zeros", "nans", "positive_infinities", "negative_infinities"]


def stats_split(batch):
    (split,) = batch["split"]
    rows = [
        {"path": path, "name": name, **(found or {})}
        for path in paths_of(split)
        for name, found in stats_of(path).items()
    ]
    return transposed(rows, ["path", "name", *STATISTICS])


def paths_of(split):
    return [piece["location"] for piece in json.loads(split)["pieces"]]


def identity(split):
    found = json.loads(split)
    return json.dumps([found["plan"], found["number"], found["of"]])


def transposed(rows, names):
    return {name: listed([row.get(name) for row in rows]) for name in names}


def listed(values):
    """Return an array of objects. numpy would turn a list of arrays into one array."""
    found = numpy.empty(len(values), object)
    for i, value in enumerate(values):
        found[i] = value
    return found


def as_column(column):
    if isinstance(column, tuple):
        found = as_array(*column)
        # Ray turns an array of a dtype that Arrow lacks into lists of numbers, but keeps arrays that are objects.
        return listed([numpy.asarray(value) for value in found]) if column[0] in _arrays.ML_DTYPES else found
    return listed([as_array(*value) if isinstance(value, tuple) else value for value in column])


def as_array(dtype, shape, data):
    """Return the bytes of a tensor as an array."""
    if dtype in _arrays.DTYPES:
        return numpy.frombuffer(data, _arrays.DTYPES[dtype]).reshape(shape)
    if dtype not in _arrays.ML_DTYPES:
        return numpy.frombuffer(data, "u1").reshape(_arrays.packed_shape(shape, len(data)))
    import ml_dtypes

    return numpy.frombuffer(data, getattr(ml_dtypes, _arrays.ML_DTYPES[dtype])).reshape(shape)


def sample(row):
    """Return the arrays and the texts of a sample."""
    arrays, texts = [], []
    for name, value in row.items():
        if isinstance(value, str):
            texts.append((name, value))
        elif isinstance(value, bytes):
            arrays.append((name, value, "blob", None))
        elif value is not None:
            arrays.append((name, *prepared(name, value)))
    return arrays, texts


def committed(folder, format, parts, empty):
    found = [json.loads(part) for part in parts]
    if not found:
        raise ValueError("the dataset has no rows")
    plan, of = found[0]["plan"], found[0]["of"]
    if empty:
        # Ray calls no function for a block without rows.
        missing = set(range(1, of + 1)) - {part["number"] for part in found}
        parts = parts + [_tensorfile.PartWriter(folder, (plan, number, of), format).finish() for number in missing]
    index, files, rows, size = _tensorfile.commit(folder, parts)
    return Written(str(index), files, rows, size)
