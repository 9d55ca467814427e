"""Copies a safetensors file by way of the `safetensors` package, and prints what it found.

    safetensors_copy.py IN OUT

The output is a JSON object: `metadata`, and `tensors`, a list in the order of the package with name, dtype, shape and the
bytes in hexadecimal. Both ways of reading, of a file and of bytes, must agree about what the file says of itself.
"""

import ctypes
import json
import sys
from pathlib import Path

from safetensors import TensorSpec, deserialize, safe_open, serialize

# What the package writes for the names that it takes.
DTYPES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "F8_E5M2": "float8_e5m2",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "I16": "int16",
    "U16": "uint16",
    "F16": "float16",
    "BF16": "bfloat16",
    "I32": "int32",
    "U32": "uint32",
    "F32": "float32",
    "F64": "float64",
    "I64": "int64",
    "U64": "uint64",
    "F8_E8M0": "float8_e8m0fnu",
    "C64": "complex64",
}


def main(source, target):
    tensors = deserialize(Path(source).read_bytes())
    with safe_open(source, framework="np") as file:
        metadata = file.metadata() or {}
        assert sorted(file.keys()) == sorted(name for name, _ in tensors)

    found, specs, buffers = [], {}, []
    for name, tensor in tensors:
        data, shape = bytes(tensor["data"]), list(tensor["shape"])
        found.append({"name": name, "dtype": tensor["dtype"], "shape": shape, "data": data.hex()})
        # The package takes addresses; the buffers must outlive the call.
        buffers.append(ctypes.create_string_buffer(data, max(len(data), 1)))
        specs[name] = TensorSpec(
            dtype=DTYPES[tensor["dtype"]], shape=shape, data_ptr=ctypes.addressof(buffers[-1]), data_len=len(data)
        )
    # Of no tensors and `{}` the package makes a header that is no JSON, and that it does not read itself.
    Path(target).write_bytes(serialize(specs, metadata=metadata or None))
    json.dump({"metadata": metadata, "tensors": found}, sys.stdout)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: safetensors_copy.py IN OUT")
    main(*sys.argv[1:])
