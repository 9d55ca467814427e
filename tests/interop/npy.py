"""Arrays to and from numpy.

    npy.py write FOLDER    saves arrays by every way that numpy has, and describes them in manifest.json
    npy.py read FILE       prints the arrays of a .npy or .npz file as JSON
"""

import io
import json
import sys
import zipfile
from pathlib import Path

import numpy as np
from numpy.lib import format as npy_format

DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]
SHAPES = [(), (0,), (7,), (2, 3), (0, 3), (2, 0, 4), (2, 3, 4), (2, 1, 3, 2), (2, 1, 2, 1, 3)]


def name_of(dtype):
    kind = {"b": "bool", "i": "i", "u": "u", "f": "f", "c": "c"}[dtype.kind]
    return kind if kind == "bool" else f"{kind}{8 * dtype.itemsize}"


def describe(array):
    little = array.astype(array.dtype.newbyteorder("<"))
    return {"dtype": name_of(array.dtype), "shape": array.shape, "data": little.tobytes("C").hex()}


def sample(dtype, shape):
    size = int(np.prod(shape))
    if dtype == "?":
        return (np.arange(size) % 3 == 0).reshape(shape)
    parts = 1 - 2j if "c" in dtype else 1
    return (np.arange(size) * 7 * parts - (0 if "u" in dtype else 5)).astype(dtype).reshape(shape)


def write(folder):
    manifest = {}

    def save(file, arrays):
        manifest[file] = {name: describe(array) for name, array in arrays.items()}

    for number, dtype in enumerate(DTYPES):
        for at, shape in enumerate(SHAPES):
            for order in "<>":
                for memory in "CF":
                    array = np.array(sample(dtype, shape), dtype=np.dtype(dtype).newbyteorder(order), order=memory)
                    file = f"{number}_{at}_{'le' if order == '<' else 'be'}_{memory}.npy"
                    np.save(folder / file, array)
                    save(file, {"0": array})
    for version in [(1, 0), (2, 0), (3, 0)]:
        file, array = f"version{version[0]}.npy", sample("f4", (2, 3))
        with open(folder / file, "wb") as out:
            npy_format.write_array(out, array, version=version)
        save(file, {"0": array})

    arrays = {f"{dtype.replace('?', 'b')}/{at}": sample(dtype, shape) for dtype in DTYPES for at, shape in enumerate(SHAPES)}
    arrays |= {
        "größe": sample(">i4", (5,)),
        "重み.🦀": np.asfortranarray(sample("f8", (3, 4))),
        "large": sample("u4", (300, 1000)),
        "": sample("u1", (1,)),
    }
    np.savez(folder / "stored.npz", **arrays)
    np.savez_compressed(folder / "compressed.npz", **arrays)
    save("stored.npz", arrays)
    save("compressed.npz", arrays)
    positional = [sample("f4", (2,)), sample("i8", ())]
    np.savez(folder / "positional.npz", *positional)
    save("positional.npz", {f"arr_{at}": array for at, array in enumerate(positional)})
    np.savez(folder / "empty.npz")
    save("empty.npz", {})
    (folder / "manifest.json").write_text(json.dumps(manifest))


def read(file):
    if file.suffix == ".npz":
        with zipfile.ZipFile(file) as archive:
            assert archive.testzip() is None
        with np.load(file) as loaded:
            arrays = {name: loaded[name] for name in loaded.files}
    else:
        arrays = {"0": np.load(file)}
        again = io.BytesIO()
        np.save(again, arrays["0"])
        assert again.getvalue() == file.read_bytes(), "numpy saves other bytes"
    print(json.dumps({
        name: describe(array) if isinstance(array, np.ndarray) else {"blob": array.hex()} for name, array in arrays.items()
    }))


{"write": write, "read": read}[sys.argv[1]](Path(sys.argv[2]))
