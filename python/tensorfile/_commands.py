"""The commands of the program, as functions that return values.

Functions that only read run the command of the program in this process, and parse its JSON.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

from . import _tensorfile
from ._progress import Progress, telling
from ._tensorfile import FormatError, LayoutMap, MismatchError, strings
from ._types import Path, texts


def run(command: str, paths: Iterable[Path], *options: str) -> bytes:
    """Run a command, and return its output. Differences are not an error."""
    named = [os.fspath(path) for path in paths]
    # Here `-` and a name with a leading dash are files, not standard input and options.
    named = [path if not path.startswith("-") else os.path.join(os.curdir, path) for path in named]
    code, output, message = _tensorfile.run(["tensorfile", command, *options, "--", *named])
    if message is None and (code <= 1 or command == "verify" and code != 3):
        return output
    if message is None:
        # The message is in the JSON.
        found = json.loads(output)
        found = found[0] if isinstance(found, list) else found
        message = f"{found['file']}: {found['error']}"
    if code == 3:
        for path in (path for path in named if "://" not in path):
            # If a file cannot be opened, Python's exception has the error number.
            with open(path, "rb"):
                pass
        raise OSError(message)
    raise {1: MismatchError, 2: ValueError, 4: FormatError}.get(code, RuntimeError)(message)


def options(**values: Any) -> list[str]:
    """Return command-line options: a switch for `True`, and one option for each value of a list."""
    found: list[str] = []
    for name, value in values.items():
        name = "--" + name.rstrip("_").replace("_", "-")
        if value is True:
            found.append(name)
        elif isinstance(value, (list, tuple)):
            found += [f"{name}={one}" for one in value]
        elif value is not None and value is not False:
            found.append(f"{name}={value}")
    return found


def info(path: Path) -> dict[str, Any]:
    """Describe a file: format, size, dtypes, layout, metadata and warnings. Only the index is read.

    >>> import numpy, tensorfile
    >>> tensorfile.save("doctest.ptd", {"w": numpy.zeros((3, 64), "f4")})
    >>> info = tensorfile.info("doctest.ptd")
    >>> info["format"], info["total"]["parameters"], info["dtypes"]["f32"]["bytes"]
    ('ptd', 192, 768)
    """
    return json.loads(run("info", [path], "--json"))[0]


def verify(
    path: Path,
    *,
    payload: bool = False,
    format: str | None = None,
    strict: bool = False,
    deny: str | Iterable[str] = (),
) -> dict[str, Any]:
    """Check that a file is well-formed, and return `ok`, `malformed`, `problems` and `warnings`.

    - `payload`: also read all payloads, and check bools and the checksums of npz and PyTorch files.
    - `format`: also report everything that this format could not store.
    - `strict`, `deny`: treat all warnings, or warnings of the given kinds, as problems.

    >>> open("doctest.ten", "wb").write(b"~TenBin~ and so on")
    18
    >>> import tensorfile
    >>> tensorfile.verify("doctest.ten")["problems"]
    ['ten: tensor `#0`: needs 8 more bytes, but the file has 2 left (at byte 16)']
    """
    kinds = ",".join(strings("deny", deny)) or None
    arguments = options(payload=payload, for_=format, strict=strict, deny=kinds)
    return json.loads(run("verify", [path], "--json", *arguments))[0]


def digest(path: Path) -> str:
    """Return a digest of the names, dtypes, shapes and elements of a file's tensors, in hexadecimal.

    The digest is the same in every format. For one tensor, use `Tensor.digest`.

    >>> import numpy, tensorfile
    >>> for name in "doctest.ptd", "doctest.npz":
    ...     tensorfile.save(name, {"w": numpy.arange(3), "b": numpy.ones(2)})
    >>> tensorfile.digest("doctest.ptd") == tensorfile.digest("doctest.npz")
    True
    """
    return json.loads(run("hash", [path], "--json"))[0]["digest"]


def stats(path: Path, *, filter: str | Iterable[str] = ()) -> dict[str, Any]:
    """Return statistics of tensors, by name: count, range, mean, deviation, NaN, infinities, zeros and quantiles.

    `filter` is a glob for names, or several; `!GLOB` excludes. For tensors of packed dtypes you get `None`.

    >>> import numpy, tensorfile
    >>> tensorfile.save("doctest.ptd", {"w": numpy.float32([1, numpy.nan, 3])})
    >>> stats = tensorfile.stats("doctest.ptd")["w"]
    >>> stats["mean"], stats["nans"], stats["first_nan"]
    (2.0, 1, [1])
    """
    arguments = options(filter=strings("filter", filter))
    tensors = json.loads(run("stats", [path], "--json", *arguments))[0]["tensors"]
    return {tensor["name"]: tensor.get("stats") for tensor in tensors}


def diff(
    a: Path,
    b: Path,
    *,
    atol: float = 0,
    rtol: float = 0,
    values: bool = True,
    metadata: bool = False,
    ignore_dtype: bool = False,
    by_position: bool = False,
    rename: str | Iterable[str] = (),
    filter: str | Iterable[str] = (),
) -> dict[str, Any]:
    """Compare the names, dtypes, shapes and values of two files in any formats. The result has `equal` and `tensors`.

    Values count as equal if they differ by at most `atol + rtol * abs(b)`. `rename` takes rules `OLD=NEW` for names in `a`.

    >>> import numpy, tensorfile
    >>> tensorfile.save("doctest.ptd", {"w": numpy.float32([1, 2])})
    >>> tensorfile.save("doctest.npz", {"w": numpy.float32([1, 2.5])})
    >>> diff = tensorfile.diff("doctest.ptd", "doctest.npz")
    >>> diff["equal"], [tensor["name"] for tensor in diff["tensors"]]
    (False, ['w'])
    >>> tensorfile.diff("doctest.ptd", "doctest.npz", atol=0.5)["equal"]
    True
    """
    arguments = options(
        atol=atol,
        rtol=rtol,
        no_values=not values,
        metadata=metadata,
        ignore_dtype=ignore_dtype,
        by_position=by_position,
        rename=strings("rename", rename),
        filter=strings("filter", filter),
    )
    return json.loads(run("diff", [a, b], "--json", *arguments))


def report(*paths: Path, filter: str | Iterable[str] = (), values: bool = True) -> str:
    """Return an HTML page about files: modules, dtypes, bytes and values. The page loads nothing from the network.

    If you give two files, the page compares them too.

    >>> import numpy, tensorfile
    >>> tensorfile.save("doctest.ptd", {"w": numpy.float32([1, 2])})
    >>> tensorfile.report("doctest.ptd")[:15]
    '<!doctype html>'
    """
    arguments = options(output="-", no_values=not values, filter=strings("filter", filter))
    return run("report", paths, *arguments).decode()


def convert(
    source: Path,
    target: Path,
    *,
    format: str | None = None,
    dtype: str | None = None,
    rename: Mapping[str, str] | str | Iterable[str] = (),
    filter: str | Iterable[str] = (),
    max_shard_bytes: int | None = None,
    ranks: int | None = None,
    lossy: bool = False,
    dequantize: bool = False,
    as_stored: bool = False,
    map: LayoutMap | str | None = None,
    config: Path | None = None,
    progress: Progress = None,
) -> None:
    """Convert a file to another format, in pieces: it may be larger than memory. The target may be the source.

    With a WebDataset shard, `.tar`, and a folder as target, you unpack the shard. In another format, the shard's tensors are
    named after the keys of their samples. With a folder as source and a pattern such as `train-{000000..}.tar` as target,
    you pack shards.

    - `format`: the format of the target, if its extension does not say it.
    - `dtype`: cast all floats to this dtype, such as `"bf16"`. In gguf, floats of rank 1 become f32, as llama.cpp needs. If
      no tensor has floats, you get an error.
    - `rename`: a dict, or rules `OLD=NEW`; `*` matches any text.
    - `filter`: globs for the old names; `!GLOB` excludes.
    - `max_shard_bytes`: the most bytes of a file. If there are more, several files and an index are written.
    - `ranks`: with `format="dcp"`, the number of processes of a trainer. The target is a new folder with a file for each, as
      `torch.distributed.checkpoint` saves it; numbers and strings of such a folder are kept. With `format="hf-sharded"`, the files are
      safetensors, as its `HuggingFaceStorageWriter` saves them.
    - `lossy`: drop metadata, blobs and tensors of unknown dtypes if the format cannot store them. By default they are an
      error. Also take a `dtype` that casts nothing.
    - `dequantize`: decode quantized weights to f32, or to the `dtype`. By default, codes and scales are copied as they are.
    - `as_stored`: also cast codes and scales of quantized weights, as if they were the weights. By default, a `dtype` that
      would do this is an error.
    - `map`: write the tensors in another layout: a `LayoutMap`, the name of one, or the path of a file with equations.
      `rename`, `filter` and `dtype` come after it.
    - `config`: take another model configuration than the `config.json` next to the source. It says how weights are quantized, and
      has the `config.` numbers of a map.
    - `progress`: a function that gets the bytes written and their total; if it raises, the conversion ends. `True` shows a
      tqdm bar.

    >>> import numpy, tensorfile
    >>> tensorfile.save("doctest.npz", {"layer.0.w": numpy.float32([1, 2]), "b": numpy.zeros(2)})
    >>> tensorfile.convert("doctest.npz", "doctest.ptd", dtype="f16", rename=["layer.*.w=*.weight"], filter=["layer.*"])
    >>> tensorfile.open("doctest.ptd")["0.weight"]
    <Tensor '0.weight' f16[2]>
    """
    if isinstance(rename, Mapping):
        rename = [f"{escaped(old)}={escaped(new)}" for old, new in rename.items()]
    rules, globs = strings("rename", rename), strings("filter", filter)
    with telling(progress) as tell:
        _tensorfile.convert(
            os.fspath(source),
            os.fspath(target),
            format,
            dtype,
            rules,
            globs,
            max_shard_bytes,
            ranks,
            lossy,
            dequantize,
            as_stored,
            map,
            None if config is None else os.fspath(config),
            tell,
        )


def escaped(name: str) -> str:
    return "".join(f"\\{letter}" if letter in "\\*=#" else letter for letter in name)


def edit(
    path: Path, set: Mapping[str, str] | None = None, unset: str | Iterable[str] = (), *, output: Path | None = None
) -> dict[str, str]:
    """Change the metadata of a safetensors, gguf or tensorbuffers file, and return it. Tensors stay as they are.

    Once complete, the new file replaces the old one. Give an `output` to keep the old one.

    >>> import numpy, tensorfile
    >>> tensorfile.save("doctest.safetensors", {"w": numpy.zeros(2)}, metadata={"a": "1", "b": "2"})
    >>> tensorfile.edit("doctest.safetensors", {"c": "3"}, unset=["a"])
    {'b': '2', 'c': '3'}
    """
    target = path if output is None else output
    return _tensorfile.edit(os.fspath(path), texts("set", set or {}), strings("unset", unset), os.fspath(target))
