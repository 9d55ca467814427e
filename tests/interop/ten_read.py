#!/usr/bin/env python3
"""Prints what the real ten software finds in a file.

    ten_read.py FILE.ten

The real software is webdataset, or tensorcom if $TENBIN says so.

The output is a JSON list with one object for each tensor, the same that `ten_write.py` puts into
its manifest. Exits with 3 and a message if the real software refuses the file, so that a refusal
cannot be confused with a script that did not get that far (1, and a traceback).
"""

import importlib.util
import json
import os
import sys
from pathlib import Path

import numpy as np

# The module by itself, because the package tensorcom imports ZeroMQ.
[PACKAGE] = importlib.util.find_spec(os.environ.get("TENBIN", "webdataset")).submodule_search_locations
SPEC = importlib.util.spec_from_file_location("tenbin", f"{PACKAGE}/tenbin.py")
tenbin = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(tenbin)

REFUSED = 3


def describe(array: np.ndarray, info: str) -> dict:
    """One tensor as the Rust tests expect it, its data as bytes.

    Hexadecimal bytes rather than numbers, because JSON cannot carry NaN payloads, -0.0 or 64 bits.
    """
    assert array.dtype.kind in "fiu", f"{array.dtype} is no dtype of ten"
    little = array.astype(array.dtype.newbyteorder("<"))
    return {
        "dtype": f"{array.dtype.kind}{8 * array.dtype.itemsize}",
        "shape": list(array.shape),
        "info": info,
        "data": little.tobytes(order="C").hex(),
    }


def read(path: Path) -> list[dict]:
    """Reads a file with both decoders of the software, which must agree.

    `load` is for files, `decode_buffer` for members of a tar archive. They check different things:
    only `load` notices a file that ends after a header.
    """
    loaded = tenbin.load(str(path), infos=True, nocheck=True)
    decoded = tenbin.decode_buffer(path.read_bytes(), infos=True)
    tensors, again = ([describe(*tensor) for tensor in zip(*lists)] for lists in (loaded, decoded))
    if tensors != again:
        raise ValueError("`load` and `decode_buffer` disagree")
    return tensors


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: ten_read.py FILE.ten")
    try:
        tensors = read(Path(sys.argv[1]))
    except OSError:
        raise
    except Exception as error:  # The real software raises whatever its parts happen to raise.
        print(f"{PACKAGE} refuses {sys.argv[1]}: {type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(REFUSED)
    json.dump(tensors, sys.stdout)


if __name__ == "__main__":
    main()
