"""Walks the tables of a TensorBuffers file with the `flatbuffers` package, by field numbers.

    tbs_walk.py FILE [METADATA]

Prints a line of what the file says of itself, then one for each tensor and operation, as `tbs_build.py` has it. Every tensor must be found by a binary search
for the id of its name, as the reference looks it up. METADATA, if it is given, is written: the flatbuffer alone.
"""

import struct
import sys
from bisect import bisect_left
from pathlib import Path

from flatbuffers import encode, number_types as n
from flatbuffers.table import Table

from tbs_build import MAGIC, SIZES, name_id, operation_line, tensor_line


class Walker(Table):
    def number(self, field, flags):
        at = self.Offset(4 + 2 * field)
        return self.Get(flags, self.Pos + at) if at else 0

    def text(self, field):
        at = self.Offset(4 + 2 * field)
        return self.String(self.Pos + at).decode() if at else None

    def list(self, field, flags=None):
        at = self.Offset(4 + 2 * field)
        assert at, f"field {field} is missing, which the reference always writes"
        start, length = self.Vector(at), self.VectorLen(at)
        if flags is None:
            return [Walker(self.Bytes, self.Indirect(start + 4 * item)) for item in range(length)]
        return [self.Get(flags, start + flags.bytewidth * item) for item in range(length)]


def main(path, copy=None):
    file = Path(path).read_bytes()
    size, magic = struct.unpack("<I4s", file[-8:])
    start = len(file) - 8 - size
    assert file[:4] == magic == MAGIC and start >= 4, "frame"
    metadata = bytearray(file[start:-8])
    if copy:
        Path(copy).write_bytes(metadata)
    root = Walker(metadata, encode.Get(n.UOffsetTFlags.packer_type, metadata, 0))
    print(f"version {root.text(0)} model {root.text(1)} data aligned to {start & -start if start > 4 else 4}")

    tensors = root.list(2)
    ids = [tensor.number(0, n.Uint64Flags) for tensor in tensors]
    lines, end = [], 4
    for tensor in tensors:
        name, shape, data_type = tensor.text(1), tensor.list(2, n.Uint32Flags), tensor.number(3, n.Int8Flags)
        offset, length = tensor.number(4, n.Uint32Flags), tensor.number(5, n.Uint32Flags)
        found = bisect_left(ids, name_id(name))
        assert tensors[found].text(1) == name, f"a search for {name} finds {tensors[found].text(1)}"
        count = SIZES[data_type]
        for dim in shape:
            count *= dim
        assert length == count, f"{name} is of {length} bytes, but takes {count}"
        assert 4 <= offset and offset + length <= start, f"{name} lies at {offset}"
        lines.append((offset, length, tensor_line(data_type, shape, file[offset:offset + length], name)))
    for offset, length, line in sorted(lines):
        assert offset >= end, f"overlap at {offset}"
        assert not any(file[end:offset]), f"padding before {offset}"
        end = offset + length
        print(line)
    assert not any(file[end:start]), "padding before the metadata"
    for step in root.list(3):
        numbers = step.number(0, n.Uint64Flags), step.number(1, n.Int8Flags), step.number(2, n.Uint64Flags)
        print(operation_line(*numbers, step.list(3, n.Uint64Flags)))


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: tbs_walk.py FILE [METADATA]")
    main(*sys.argv[1:])
