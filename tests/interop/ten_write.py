#!/usr/bin/env python3
"""Writes `.ten` files with the real software, and says what is in them.

    ten_write.py OUTDIR

Next to the files goes `manifest.json`, an object from file name to the list of its tensors:
`{"f4_rank1.ten": [{"dtype": "f32", "shape": [13], "info": "", "data": "0000…"}]}`. The data is the
little-endian, row-major elements in hexadecimal. Every run writes the same bytes.
"""

import json
import sys
from pathlib import Path

import numpy as np

from ten_read import describe, tenbin

# All that webdataset and tensorcom can write. It knows u4 too, but under the misspelt name `unit32`.
DTYPES = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u8"]

# Rank 9 is the most it writes. It writes rank 0 as well, though it cannot read it.
RANKS = range(10)


def edge_values(dtype: np.dtype) -> np.ndarray:
    """The values that careless code gets wrong."""
    if dtype.kind != "f":
        limits = np.iinfo(dtype)
        return np.array([limits.min, limits.max, limits.min + 1, limits.max - 1, 0, 1], dtype)
    limits = np.finfo(dtype)
    numbers = [-0.0, 0.0, 1.5, np.inf, -np.inf, limits.max, limits.min, limits.tiny]
    subnormals = [limits.smallest_subnormal, -limits.smallest_subnormal]
    # NaNs are made from bits: two quiet ones and a signalling one, whose payload must survive.
    bits = np.dtype(f"u{dtype.itemsize}")
    infinity = int(np.array(np.inf, dtype).view(bits))
    quiet = infinity | 1 << (limits.nmant - 1)
    sign = 1 << (8 * dtype.itemsize - 1)
    nans = np.array([quiet, sign | quiet | 5, infinity | 1], bits).view(dtype)
    return np.concatenate([np.array(numbers + subnormals, dtype), nans])


def sample(code: str, rank: int) -> np.ndarray:
    """A tensor with the edge values in it, and then a ramp, so that no two rows are equal."""
    dtype = np.dtype(code)
    values = edge_values(dtype)
    if rank == 0:
        return values[-1].reshape(())
    shape = (2, 1, 3, 1, 1, 2, 1, 1)[: rank - 1] + (len(values),)
    ramp = np.arange(np.prod(shape) - len(values)) % 100
    return np.concatenate([values, ramp.astype(dtype)]).reshape(shape)


def cases() -> dict[str, list[tuple[np.ndarray, str]]]:
    """File name, without extension, to the tensors and infos of the file."""
    files = {f"{code}_rank{rank}": [(sample(code, rank), "")] for code in DTYPES for rank in RANKS}

    # Data is padded to a multiple of 64 bytes; an exact multiple gets no padding.
    for length in (1, 63, 64, 65, 128):
        files[f"length_{length}"] = [(np.arange(length, dtype="u1"), "")]
    for shape in [(0,), (0, 3), (3, 0), (2, 0, 3), (0, 0), (0,) * 9]:
        name = "_".join(map(str, shape))
        files[f"zero_{name}"] = [(np.zeros(shape, "f4"), "")]

    # Infos keep inner zero bytes, and lose those at the end, which are padding.
    for name, info in {
        "one": "a",
        "eight": "12345678",
        "spaces": "  a b ",
        "control": "\x01\n\x7f",
        "inner_zero": "a\0b",
    }.items():
        files[f"info_{name}"] = [(sample("i2", 2), info)]

    files["empty"] = []
    every = [sample(code, 2) for code in DTYPES]
    files["many_unnamed"] = [(array, "") for array in every]
    files["many_named"] = [(array, code) for array, code in zip(every, DTYPES)]
    files["some_named"] = [(every[0], ""), (every[1], "b"), (every[2], ""), (every[3], "d")]
    files["zero_between"] = [(every[0], "a"), (np.zeros((0, 2), "i8"), "none"), (every[1], "b")]
    # Nothing in the real software minds tensors of one name.
    files["same_name"] = [(every[0], "same"), (every[1], "same")]
    # Column-major in memory: the file is row-major all the same.
    files["fortran"] = [(np.asfortranarray(np.arange(6, dtype="i4").reshape(2, 3)), "")]
    return files


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: ten_write.py OUTDIR")
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    manifest = {}
    for name, tensors in cases().items():
        file = f"{name}.ten"
        arrays, infos = [array for array, _ in tensors], [info for _, info in tensors]
        (directory / file).write_bytes(tenbin.encode_buffer(arrays, infos))
        manifest[file] = [describe(array, info) for array, info in tensors]
    (directory / "manifest.json").write_text(json.dumps(manifest, indent=1))


if __name__ == "__main__":
    main()
