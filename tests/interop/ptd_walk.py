"""Walks the tables of an ExecuTorch data file with the `flatbuffers` package, by field numbers.

    ptd_walk.py FILE

Prints a line of what the file says of itself, then one for each tensor, as `ptd_build.py` has it.
"""

import struct
import sys
from pathlib import Path

from flatbuffers import encode, number_types as n
from flatbuffers.table import Table

from ptd_build import fnv


class Walker(Table):
    def __init__(self, file, position):
        super().__init__(file, position)

    def number(self, field, flags, default=0):
        at = self.Offset(4 + 2 * field)
        return self.Get(flags, self.Pos + at) if at else default

    def text(self, field):
        at = self.Offset(4 + 2 * field)
        return self.String(self.Pos + at).decode() if at else None

    def table(self, field):
        at = self.Offset(4 + 2 * field)
        return Walker(self.Bytes, self.Indirect(self.Pos + at)) if at else None

    def list(self, field, flags=None):
        at = self.Offset(4 + 2 * field)
        assert at, f"field {field} is missing, which ExecuTorch takes for present"
        start, length = self.Vector(at), self.VectorLen(at)
        if flags is None:
            return [Walker(self.Bytes, self.Indirect(start + 4 * item)) for item in range(length)]
        return [self.Get(flags, start + flags.bytewidth * item) for item in range(length)]


def line(layout, data, key):
    return f"{layout}|{len(data)}|{fnv(data):016x}|{key}"


def layout(table, first):
    """Scalar type, sizes and dim order, from a field on."""
    numbers = lambda field, flags: ",".join(map(str, table.list(field, flags)))
    scalar_type = table.number(first, n.Int8Flags)
    return f"{scalar_type}|{numbers(first + 1, n.Int32Flags)}|{numbers(first + 2, n.Uint8Flags)}"


def main(path):
    file = Path(path).read_bytes()
    identifier = file[4:8]
    root = Walker(bytearray(file), encode.Get(n.UOffsetTFlags.packer_type, file, 0))
    version = root.number(0, n.Uint32Flags)
    if identifier == b"FT01":
        magic, length, header, size, base, segment_bytes = struct.unpack_from("<4sI4Q", file, 8)
        assert (magic, length) == (b"FH01", 40) and header == 48, "header"
        end, segments = header + size, 1
    else:
        magic, length, end, base, segment_bytes = struct.unpack_from("<4sI3Q", file, 8)
        assert (identifier, magic, length) == (b"DT01", b"eh00", 32), "header"
        segments = version + 1
    assert end <= base and base + segment_bytes == len(file), "frame"
    assert not any(file[end:base]), "padding"
    segments = [(s.number(0, n.Uint64Flags), s.number(1, n.Uint64Flags)) for s in root.list(segments)]
    last = 0
    for offset, size in segments:
        assert last <= offset and offset + size <= segment_bytes and not any(file[base + last:base + offset]), "segment"
        last = offset + size
    lines = []
    if identifier == b"FT01":
        alignment = "-"
        for named in root.list(2):
            offset, size = segments[named.number(1, n.Uint32Flags)]
            tensor = named.table(2)
            data = file[base + offset:base + offset + size]
            lines.append(line(layout(tensor, 0) if tensor else "-|-|-", data, named.text(0)))
    else:
        alignment = root.number(version + 2, n.Uint32Flags)
        for segment in root.list(version):
            offset, size = segments[segment.number(0, n.Uint32Flags)]
            for tensor in segment.list(1):
                start, length = offset + tensor.number(4, n.Uint64Flags), tensor.number(5, n.Uint64Flags)
                assert start + length <= offset + size, "tensor"
                assert (base + start) % alignment == 0, "alignment"
                lines.append(line(layout(tensor, 1), file[base + start:base + start + length], tensor.text(0)))
    told = "-"
    if identifier == b"DT01" and version == 2 and (compatibility := root.table(1)):
        told = "/".join(str(compatibility.text(field)) for field in range(4))
    print(f"{identifier.decode()} {version} {len(segments)} segments at {base} aligned to {alignment}: {told}")
    print("".join(text + "\n" for text in lines), end="")


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")
    main(sys.argv[1])
