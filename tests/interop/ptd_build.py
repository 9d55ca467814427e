"""Builds ExecuTorch data files of every generation with the `flatbuffers` package, table by table from field numbers.

    ptd_build.py DIRECTORY

Writes NAME.ptd, and NAME.txt with what a reader must find, a line for each tensor as `flat_tensor.cpp` prints it:

    scalar type|sizes|dim order|bytes|FNV-1a of the bytes|key
"""

import struct
import sys
from pathlib import Path

import flatbuffers

# Scalar type: bytes of an element.
SIZES = {
    0: 1, 1: 1, 2: 2, 3: 4, 4: 8, 5: 2, 6: 4, 7: 8, 11: 1, 12: 1, 13: 1, 14: 4, 15: 2, 16: 1, 17: 1,
    22: 2, 23: 1, 24: 1, 25: 1, 26: 1, 27: 2, 28: 4, 29: 8,
}


def fnv(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


class Item:
    """A tensor, or a blob if it has no scalar type."""

    def __init__(self, key, scalar_type=None, sizes=(), order=None, data=None):
        self.key, self.scalar_type, self.sizes = key, scalar_type, sizes
        self.order = tuple(range(len(sizes))) if order is None else order
        if data is None:
            count = SIZES[scalar_type]
            for size in sizes:
                count *= size
            seed = sum(key.encode())
            data = bytes((seed + 7 * at) % (2 if scalar_type == 11 else 251) for at in range(count))
        self.data = data

    def line(self):
        numbers = lambda of: ",".join(map(str, of))
        layout = "-|-|-" if self.scalar_type is None else f"{self.scalar_type}|{numbers(self.sizes)}|{numbers(self.order)}"
        return f"{layout}|{len(self.data)}|{fnv(self.data):016x}|{self.key}"


class Builder(flatbuffers.Builder):
    def vector(self, width, items, prepend, alignment=None):
        self.StartVector(width, len(items), alignment or width)
        for item in reversed(items):
            prepend(item)
        return self.EndVector()

    def tables(self, offsets):
        return self.vector(4, offsets, self.PrependUOffsetTRelative)

    def table(self, fields):
        """`fields` maps numbers to (kind, value)."""
        self.StartObject(max(fields) + 1)
        for number, (kind, value) in fields.items():
            getattr(self, f"Prepend{kind}Slot")(number, value, 0)
        return self.EndObject()

    def shape(self, item):
        return (
            self.vector(4, item.sizes, self.PrependInt32),
            self.vector(1, item.order, self.PrependUint8),
        )


OFFSET = "UOffsetTRelative"


def place(items, alignment, per_segment):
    """Puts the data into segments of so many tensors; equal data objects are put once."""
    segments, places, data = [], {}, b""
    for item in items:
        if id(item.data) in places:
            continue
        data += bytes(-len(data) % alignment)
        if not segments or segments[-1][2] == per_segment:
            segments.append([len(data), 0, 0])
        segment = segments[-1]
        places[id(item.data)] = (len(segments) - 1, len(data) - segment[0])
        data += item.data
        segment[1], segment[2] = len(data) - segment[0], segment[2] + 1
    return segments, [places[id(item.data)] for item in items], data


def segment_vector(b, segments):
    return b.tables([b.table({0: ("Uint64", offset), 1: ("Uint64", size)}) for offset, size, _ in segments])


def named_data(b, items, places, early=False):
    entries = []
    for item, (segment, _) in zip(items, places):
        fields = {0: (OFFSET, b.CreateString(item.key)), 1: ("Uint32", segment)}
        if item.scalar_type is not None:
            assert not early
            sizes, order = b.shape(item)
            layout = {0: ("Int8", item.scalar_type), 1: (OFFSET, sizes), 2: (OFFSET, order)}
            fields[2] = (OFFSET, b.table(layout))
        entries.append(b.table(fields))
    return b.tables(entries)


def current(items, alignment=128, header=48, length=40):
    segments, places, data = place(items, alignment, 1)
    b = Builder(0)
    named, vector = named_data(b, items, places), segment_vector(b, segments)
    b.Finish(b.table({0: ("Uint32", 0), 1: (OFFSET, vector), 2: (OFFSET, named)}), b"FT01")
    return flat_tensor_frame(bytes(b.Output()), data, alignment, header, length)


def flat_tensor_frame(flatbuffer, data, alignment, header=48, length=40):
    base = header + len(flatbuffer)
    base += -base % alignment
    head = b"FH01" + struct.pack("<I4Q", length, header, len(flatbuffer), base, len(data))
    return inject(flatbuffer, head, header, base) + data


def inject(flatbuffer, head, header, base):
    root = struct.pack("<I", struct.unpack_from("<I", flatbuffer)[0] + header)
    start = root + flatbuffer[4:8] + head.ljust(header, b"\0") + flatbuffer[8:]
    return start.ljust(base, b"\0")


def early(items, named=None, alignment=16, per_segment=3):
    """ExecuTorch 0.5 without named data, 0.6 with; `named` are blobs, with a segment each."""
    segments, places, data = place(items, alignment, per_segment)
    blobs = []
    for blob in named or []:
        data += bytes(-len(data) % alignment)
        blobs.append((len(segments), 0))
        segments.append([len(data), len(blob.data), 1])
        data += blob.data
    b = Builder(0)
    tensors = []
    for item, (segment, offset) in zip(items, places):
        sizes, order = b.shape(item)
        tensors.append(b.table({
            0: (OFFSET, b.CreateString(item.key)), 1: ("Int8", item.scalar_type), 2: (OFFSET, sizes),
            3: (OFFSET, order), 4: ("Uint32", segment), 5: ("Uint64", offset),
        }))
    fields = {0: ("Uint32", 0), 1: ("Uint32", alignment), 2: (OFFSET, b.tables(tensors)), 3: (OFFSET, segment_vector(b, segments))}
    if named is not None:
        fields[4] = (OFFSET, named_data(b, named, blobs, early=True))
    b.Finish(b.table(fields), b"FT01")
    return flat_tensor_frame(bytes(b.Output()), data, alignment)


def data(items, version, alignment=128, per_segment=2, length=32):
    segments, places, content = place(items, alignment, per_segment)
    b = Builder(0)
    lists, run = [], []
    for item, (segment, offset) in zip(items, places):
        if run and run[-1][0] != segment:
            lists, run = lists + [run], []
        run.append((segment, offset, item))
    lists += [run] if run else []
    tensor_segments = []
    for run in lists:
        tensors = []
        for _, offset, item in run:
            sizes, order = b.shape(item)
            tensors.append(b.table({
                0: (OFFSET, b.CreateString(item.key)), 1: ("Int8", item.scalar_type), 2: (OFFSET, sizes),
                3: (OFFSET, order), 4: ("Uint64", offset), 5: ("Uint64", len(item.data)),
            }))
        vector = b.tables(tensors)
        tensor_segments.append(b.table({0: ("Uint32", run[0][0]), 1: (OFFSET, vector)}))
    rest = {0: (OFFSET, b.tables(tensor_segments)), 1: (OFFSET, segment_vector(b, segments)), 2: ("Uint32", alignment)}
    fields = {0: ("Uint32", version)}
    if version == 2:
        strings = [b.CreateString(text) for text in ("llama", "2", "int4", "größer")]
        fields[1] = (OFFSET, b.table({at: (OFFSET, string) for at, string in enumerate(strings)}))
    fields |= {version + at: field for at, field in rest.items()}
    b.Finish(b.table(fields), b"DT01")
    flatbuffer = bytes(b.Output())
    base = length + len(flatbuffer)
    base += -base % alignment
    head = b"eh00" + struct.pack("<I3Q", length, length + len(flatbuffer), base, len(content))[: length - 4]
    return inject(flatbuffer, head, length, base) + content


def every_dtype():
    return [Item(f"of.{scalar_type}", scalar_type, (2, 3)) for scalar_type in SIZES]


def every_shape():
    shapes = [(), (3,), (2, 3), (2, 1, 3), (1, 2, 3, 2), (2, 1, 2, 1, 3), (0,), (2, 0, 3)]
    tensors = [Item(f"shape.{at}", 6, shape) for at, shape in enumerate(shapes)]
    return tensors + [
        Item("nhwc", 6, (2, 3, 4, 5), (0, 2, 3, 1)),
        Item("transposed", 4, (2, 3), (1, 0)),
        Item("größe", 0, (1,)),
    ]


def shared():
    first = Item("embed.weight", 6, (4, 2))
    return [first, Item("bias", 6, (3,)), Item("head.weight", 6, (2, 4), data=first.data)]


def blobs():
    return [Item("blob.0", data=b"opaque"), Item("weight", 3, (2,)), Item("blob.empty", data=b"")]


def main(directory):
    tensors = every_dtype() + every_shape() + shared()
    many = [Item(f"layer.{at}.weight", 1, (1,)) for at in range(10_000)]
    files = {
        "current": (current(tensors + blobs()), tensors + blobs()),
        "current_16": (current(tensors, alignment=16), tensors),
        "current_of_c": (current(tensors, alignment=64, header=64), tensors),
        "current_unpadded": (current(tensors, alignment=8, header=40), tensors),
        "current_misaligned": (current(tensors, alignment=3, header=42), tensors),
        "current_longer_header": (current(tensors, header=64, length=52), tensors),
        "current_empty": (current([]), []),
        "current_many": (current(many, alignment=16), many),
        "early_0_5": (early(tensors), tensors),
        "early_0_6": (early(tensors, blobs()[::2]), tensors + blobs()[::2]),
        "early_one_segment": (early(tensors, [], per_segment=10**9), tensors),
        "data_v1": (data(tensors, 1), tensors),
        "data_v2": (data(tensors, 2, per_segment=1), tensors),
        "data_v2_one_segment": (data(tensors, 2, per_segment=10**9), tensors),
        "data_v1_short_header": (data(tensors, 1, length=24), tensors),
    }
    for name, (file, items) in files.items():
        (Path(directory) / f"{name}.ptd").write_bytes(file)
        (Path(directory) / f"{name}.txt").write_text("".join(item.line() + "\n" for item in items), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
