#!/usr/bin/env python3
"""Prints the digest of a collection, computed from its definition in `src/digest/mod.rs` only.

    digest.py FILE.json

The file is a JSON object of tensors by name, each `{"dtype", "shape", "data"}` with the data in
hexadecimal. The output is one JSON object with the digest of each name, and that of all under "".
"""

import json
import sys
from pathlib import Path

from blake3 import blake3

MAGIC = b"tensorfile.digest.v1\0"


def u64(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(8, "little") for number in numbers)


def main() -> None:
    tensors = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    digests = {}
    for name, tensor in tensors.items():
        head = b"dense\0" + tensor["dtype"].encode() + b"\0" + u64(len(tensor["shape"]), *tensor["shape"])
        digests[name] = blake3(MAGIC + head + bytes.fromhex(tensor["data"]))
    collection = blake3(MAGIC + b"collection\0" + u64(len(digests)))
    for name in sorted(digests, key=str.encode):
        collection.update(u64(len(name.encode())) + name.encode() + digests[name].digest())
    digests[""] = collection
    json.dump({name: digest.hexdigest() for name, digest in digests.items()}, sys.stdout)


main()
