"""Shards by Python's webdataset, and shards that it reads.

    webdataset_shards.py write FOLDER    # writes FOLDER/NAME.tar, and prints the samples of each as JSON
    webdataset_shards.py read TAR...     # prints the decoded samples of shards as JSON
"""

import json
import os
import sys

import numpy as np
import webdataset
from webdataset import tenbin


def samples():
    for number in range(4):
        yield {
            "__key__": f"folder/{number:04}",
            "image.ten": np.arange(6, dtype="u1").reshape(2, 3) + number,
            "two.ten": [np.float32([number]), np.int64([[1, 2]])],
            "x.npy": np.float64([0.5, number]),
            "pair.npz": {"left": np.int32([number]), "right": np.arange(2, dtype="f4")},
            "cls": number - 1,
            "caption.txt": f"déjà {number}",
            "json": {"n": number, "list": [1, "two"]},
            "raw.bin": b"\x00\xff",
        }


def plain(value):
    """Return what a sample holds, as JSON."""
    if isinstance(value, np.ndarray):
        return {"dtype": value.dtype.str[1:], "shape": list(value.shape), "values": value.astype("f8").flatten().tolist()}
    if isinstance(value, bytes):
        return list(value)
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], np.ndarray):
        return [plain(array) for array in value]
    if isinstance(value, np.lib.npyio.NpzFile) or isinstance(value, dict) and value and isinstance(next(iter(value.values())), np.ndarray):
        return {name: plain(value[name]) for name in value}
    return value


def write(folder):
    manifest = {}
    writers = {
        "ustar": {},
        "gnu": {"format": "GNU_FORMAT"},
        "pax": {"format": "PAX_FORMAT"},
        "packed": {"compress": True},
    }
    for name, options in writers.items():
        found = list(samples())
        if name in ("gnu", "pax"):
            for sample in found:
                sample["__key__"] = "long" * 40 + sample["__key__"]
        with open(os.path.join(folder, f"{name}.tar"), "wb") as file:
            writer = webdataset.TarWriter(file, **options)
            for sample in found:
                writer.write(sample)
            writer.close()
        manifest[name] = [{key: plain(value) for key, value in sample.items()} for sample in found]
    json.dump(manifest, sys.stdout)


def read(shards):
    dataset = webdataset.WebDataset(shards, shardshuffle=False).decode()
    found = [{key: plain(value) for key, value in sample.items() if key != "__url__" and key != "__local_path__"} for sample in dataset]
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    assert tenbin
    write(sys.argv[2]) if sys.argv[1] == "write" else read(sys.argv[2:])
