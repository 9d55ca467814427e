"""Builds TensorBuffers files with the `flatbuffers` package, table by table from field numbers.

    tbs_build.py DIRECTORY

Writes NAME.tbs, and NAME.txt with what a reader must find: a line for each tensor in the order of the data, and one for each operation:

    data type|shape|bytes|FNV-1a of the bytes|name
    operation ID|number|output|inputs
"""

import struct
import sys
from pathlib import Path

import flatbuffers

# Data type: bytes of an element.
SIZES = {1: 4, 2: 8, 3: 1, 4: 2, 5: 4, 6: 8, 7: 1, 8: 2, 9: 4, 10: 8}
MAGIC = b"TBS1"


def fnv(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def name_id(name):
    return fnv(name.encode() + b"\xff")


def joined(numbers):
    return ",".join(map(str, numbers))


def tensor_line(data_type, shape, data, name):
    return f"{data_type}|{joined(shape)}|{len(data)}|{fnv(data):016x}|{name}"


def operation_line(identity, operation, output, inputs):
    return f"operation {identity}|{operation}|{output}|{joined(inputs)}"


def tensor(name, data_type, shape):
    count = SIZES[data_type]
    for dim in shape:
        count *= dim
    return name, data_type, shape, bytes((sum(name.encode()) + 7 * at) % 251 for at in range(count))


class Builder(flatbuffers.Builder):
    def vector(self, width, items, prepend):
        self.StartVector(width, len(items), width)
        for item in reversed(items):
            prepend(item)
        return self.EndVector()

    def table(self, fields):
        """A table of (field number, adder, value) triples."""
        self.StartObject(1 + max(field for field, _, _ in fields))
        for field, add, value in fields:
            add(self)(field, value, 0)
        return self.EndObject()


def adder(name):
    return lambda builder: getattr(builder, f"Prepend{name}Slot")


OFFSET, U64, U32, I8 = adder("UOffsetTRelative"), adder("Uint64"), adder("Uint32"), adder("Int8")


def metadata(tensors, operations, order, version="1.0.0", model=None, identify=name_id):
    """The flatbuffer. `tensors` are (name, data type, shape, offset, size); `order` sorts their vector, or None."""
    b = Builder(0)
    entries = []
    for name, data_type, shape, offset, size in tensors:
        text, dims = b.CreateString(name), b.vector(4, shape, b.PrependUint32)
        fields = [(0, U64, identify(name)), (1, OFFSET, text), (2, OFFSET, dims), (3, I8, data_type), (4, U32, offset), (5, U32, size)]
        entries.append((name, b.table(fields)))
    if order:
        entries.sort(key=lambda entry: order(entry[0]))
    steps = None
    if operations is not None:
        tables = []
        for identity, operation, output, inputs in operations:
            numbers = b.vector(8, inputs, b.PrependUint64)
            tables.append(b.table([(0, U64, identity), (1, I8, operation), (2, U64, output), (3, OFFSET, numbers)]))
        steps = b.vector(4, tables, b.PrependUOffsetTRelative)
    root = [(0, OFFSET, b.CreateString(version)), (2, OFFSET, b.vector(4, [at for _, at in entries], b.PrependUOffsetTRelative))]
    if model is not None:
        root.append((1, OFFSET, b.CreateString(model)))
    if steps is not None:
        root.append((3, OFFSET, steps))
    b.Finish(b.table(root))
    return bytes(b.Output())


def write(directory, name, tensors, operations=(), align=1, gap=0, reverse=False, **options):
    file = bytearray(MAGIC)
    placed = []
    for key, data_type, shape, data in reversed(tensors) if reverse else tensors:
        file += bytes(-len(file) % align + gap)
        placed.append((key, data_type, shape, len(file), data))
        file += data
    listed = [(key, data_type, shape, offset, len(data)) for key, data_type, shape, offset, data in placed]
    if reverse:
        listed.reverse()
    table = metadata(listed, operations, options.pop("order", None), **options)
    file += table + struct.pack("<I", len(table)) + MAGIC
    lines = [tensor_line(data_type, shape, data, key) for key, data_type, shape, _, data in placed]
    lines += [operation_line(*operation) for operation in operations or ()]
    (directory / f"{name}.tbs").write_bytes(file)
    (directory / f"{name}.txt").write_text("".join(line + "\n" for line in lines))


def main(directory):
    every = [tensor(f"dtype.{data_type}", data_type, [2, 3]) for data_type in SIZES]
    every += [tensor(f"rank.{rank}", 1, [2, 3, 1, 2, 2][:rank]) for rank in range(6)]
    every += [tensor("empty", 2, [0]), tensor("empty.too", 4, [2, 0, 3]), tensor("größe", 7, [5]), tensor("0", 9, [])]
    operations = [(9, 15, name_id("rank.2"), [1, 9]), (1, -128, 0, []), (2**64 - 1, 127, 2**63, [2**64 - 1])]
    many = [tensor(f"layer.{at}.weight", 5, [1]) for at in range(10_000)]
    write(directory, "packed", every, operations)
    write(directory, "sorted", every, operations, order=name_id)
    write(directory, "aligned", every, align=64, order=name_id, model="MiniLM")
    write(directory, "gaps", every, gap=5)
    write(directory, "reversed", every, operations, gap=3, reverse=True)
    write(directory, "by_name", every, order=lambda name: name)
    write(directory, "before_operations", every, None)
    write(directory, "other_ids", every, identify=lambda name: fnv(name.encode()))
    write(directory, "later_version", every, version="1.12.3")
    write(directory, "many", many)
    write(directory, "none", [])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: tbs_build.py DIRECTORY")
    main(Path(sys.argv[1]))
