"""Writes random checkpoints with PyTorch, and what it says of them.

    python torch_files.py FOLDER COUNT SEED

Each line of `FOLDER/expected.jsonl` is a file: its tensors by name, with dtype, shape, and elements in row-major order,
little-endian, in hexadecimal; the texts of its metadata; and the classes of what is left out.
A tensor without elements here is listed under a dtype that is not known.
"""

import argparse
import collections
import datetime
import enum
import json
import pathlib
import random
import struct
import sys
import types
import warnings

import numpy
import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "fixtures" / "pytorch"))
from metadata_text import text

warnings.simplefilter("ignore")

FOLDER, COUNT, SEED = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])

NAMES = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "bool": "bool", "int8": "i8",
         "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16", "uint32": "u32",
         "uint64": "u64", "float8_e5m2": "f8_e5m2", "float8_e4m3fn": "f8_e4m3fn", "float8_e5m2fnuz": "f8_e5m2fnuz",
         "float8_e4m3fnuz": "f8_e4m3fnuz", "float8_e8m0fnu": "f8_e8m0", "complex64": "c64", "complex128": "c128"}
NAMES = {getattr(torch, name): ours for name, ours in NAMES.items() if hasattr(torch, name)}
NUMPY = {"float32": "f32", "float64": "f64", "float16": "f16", "bool": "bool", "int8": "i8", "int16": "i16",
         "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
         "complex64": "c64", "complex128": "c128"}
# Dtypes that the older form has storages of.
OLD = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.bool, torch.int8, torch.int16, torch.int32,
       torch.int64, torch.uint8, torch.complex64, torch.complex128]


class Sub(torch.Tensor):
    pass


class Color(enum.Enum):
    RED = 1


class Config:
    def __init__(self, **items):
        self.__dict__.update(items)


Point = collections.namedtuple("Point", "x y")


class AttributeDict(dict):
    pass


class Maker:
    def __init__(self, rng):
        self.rng = rng
        self.is_old = rng.random() < 0.25

    def shape(self, most=4):
        return [self.rng.choice([0, 1, 1, 2, 2, 3, 3, 4, 5]) for _ in range(self.rng.randrange(most + 1))]

    def base(self, dtype=None):
        rng = self.rng
        dtype = dtype or rng.choice(OLD if self.is_old else list(NAMES))
        shape = self.shape()
        count = int(numpy.prod(shape)) if shape else 1
        if dtype.is_complex or dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
            return torch.randn(shape, dtype=torch.complex128 if dtype.is_complex else torch.float64).to(dtype)
        if dtype == torch.bool:
            return torch.rand(shape) < 0.5
        size = torch.empty(0, dtype=dtype).element_size()
        bits = torch.tensor([rng.randrange(256) for _ in range(count * size)], dtype=torch.uint8)
        return bits.view(dtype).reshape(shape) if count else torch.empty(shape, dtype=dtype)

    def view(self, tensor):
        rng = self.rng
        for _ in range(rng.randrange(4)):
            what = rng.randrange(12)
            dims = tensor.dim()
            try:
                if what == 0 and dims:
                    dim = rng.randrange(dims)
                    start = rng.randrange(tensor.shape[dim] + 1)
                    tensor = tensor.narrow(dim, start, rng.randrange(tensor.shape[dim] - start + 1))
                elif what == 1 and dims:
                    dim = rng.randrange(dims)
                    tensor = tensor[(slice(None),) * dim + (slice(rng.randrange(2), None, rng.choice([2, 3])),)]
                elif what == 2 and dims:
                    tensor = tensor.permute(*rng.sample(range(dims), dims))
                elif what == 3 and dims and tensor.shape[0]:
                    tensor = tensor[rng.randrange(tensor.shape[0])]
                elif what == 4 and dims < 5:
                    tensor = tensor.unsqueeze(rng.randrange(dims + 1))
                elif what == 5:
                    tensor = tensor.expand(rng.choice([1, 2, 3]), *tensor.shape)
                elif what == 6 and dims and tensor.shape[0] > 1:
                    tensor = tensor.unfold(0, 2, 1)
                elif what == 7 and tensor.numel():
                    tensor = tensor.as_strided((2, 2), (rng.randrange(2), rng.randrange(2)))
                elif what == 8 and dims == 2:
                    tensor = tensor.diagonal()
                elif what == 9 and tensor.is_complex():
                    tensor = tensor.conj()
                elif what == 10 and tensor.is_complex():
                    tensor = rng.choice([tensor.imag, tensor.real, torch.view_as_real(tensor.resolve_conj())])
                elif what == 11 and tensor.dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int32,
                                                     torch.uint8, torch.complex64):
                    tensor = torch._neg_view(tensor)
            except RuntimeError:
                pass
        return tensor

    def tensor(self):
        what = self.rng.randrange(14)
        tensor = self.view(self.base())
        if what == 0 and (tensor.is_floating_point() or tensor.is_complex()):
            return torch.nn.Parameter(tensor.detach(), requires_grad=self.rng.random() < 0.5)
        if what == 1:
            return tensor.as_subclass(Sub)
        if what == 2:
            tensor.note = self.rng.choice(["x", 5, None])
            return tensor
        if what == 3:
            values = torch.randn(self.rng.randrange(4), 3, dtype=torch.float32)
            kind = self.rng.choice([torch.qint8, torch.quint8, torch.qint32])
            if self.rng.random() < 0.5:
                return torch.quantize_per_tensor(values, self.rng.choice([0.1, 0.5, 1e-3]), self.rng.randrange(20), kind)
            scales, points = torch.tensor([0.5, 0.25, 0.1]), torch.tensor([0, 1, 2])
            return torch.quantize_per_channel(values, scales, points, 1, kind)
        if what == 4:
            values = (torch.rand(4, 6) < 0.3).to(self.rng.choice([torch.float32, torch.float64])) * 2.5
            return self.rng.choice([lambda: values.to_sparse(), lambda: values.to_sparse_csr(),
                                    lambda: values.to_sparse_csc(), lambda: values.to_sparse_bsr((2, 2)),
                                    lambda: values.to_sparse_bsc((2, 3)), lambda: values.to_sparse(1)])()
        return tensor

    def array(self):
        array = numpy.array(self.rng.choices(range(-100, 100), k=6)).reshape(2, 3)
        array = array.astype(self.rng.choice(list(NUMPY)))
        what = self.rng.randrange(5)
        if what == 0:
            array = array.astype(array.dtype.newbyteorder(">"))
        return [array, array.T, array[:, ::2], array[0], array.reshape(3, 2, 1), array[:0]][self.rng.randrange(6)]

    def text(self):
        alphabet = "abcXYZ019 _'\"\\\n\t\r\0\x7f\x85\u00e4\u00ad\u0301\u200b\u2028\ud7ff\ue000\uffff\U0001f600\U000e0001"
        return "".join(self.rng.choices(alphabet, k=self.rng.randrange(8)))

    def float(self):
        rng = self.rng
        return rng.choice([
            rng.random(), 10.0 ** rng.randrange(-30, 30), -rng.random() * 10 ** rng.randrange(-10, 25), float("inf"),
            float("-inf"), float("nan"), 0.0, -0.0, float(rng.randrange(10 ** 18)), 1e16, 1e-5, 9999999999999998.0,
            struct.unpack("<d", struct.pack("<Q", rng.getrandbits(64)))[0],
        ])

    def scalar(self, depth=0):
        rng = self.rng
        what = rng.randrange(16)
        if what == 0: return None
        if what == 1: return rng.random() < 0.5
        if what == 2: return rng.randrange(-10, 300)
        if what == 3: return rng.choice([1, -1]) * rng.getrandbits(rng.choice([8, 31, 33, 62, 64, 65, 128, 129, 300, 2000]))
        if what in (4, 5): return self.float()
        if what in (6, 7): return self.text()
        if what == 8: return bytes(rng.choices(range(256), k=rng.randrange(6)))
        if what == 9: return bytearray(rng.choices(b"ab'\"\\\xff", k=rng.randrange(6)))
        if what == 10: return complex(self.float(), self.float())
        if what == 11: return torch.device(*rng.choice([("cpu",), ("cuda", 0), ("cuda", 3), ("mps",), ("meta",)]))
        if what == 12: return rng.choice([torch.float16, torch.int64, torch.bool, torch.complex64, torch.quint8])
        # In a list, numpy 1 prints them in another way than numpy 2.
        if what == 13 and numpy.__version__.startswith("1."): return 7
        if what == 13: return rng.choice([numpy.float64(self.float()), numpy.float32(rng.random()), numpy.int64(-5),
                                          numpy.uint8(200), numpy.bool_(True), numpy.complex128(1 + 2j)])
        if what == 14: return rng.choice([torch.strided, torch.sparse_coo])
        return rng.randrange(2 ** 31)

    def scalars(self):
        items = [self.scalar() for _ in range(self.rng.randrange(4))]
        what = self.rng.randrange(6)
        if what == 0: return tuple(items)
        if what == 1: return torch.Size([self.rng.randrange(9) for _ in range(self.rng.randrange(4))])
        if what == 2: return set(self.rng.choices([[1], ["x"], [], [(1, "a")]])[0])
        if what == 3: return frozenset(self.rng.choices([[1], ["x"], []])[0])
        return items

    def foreign(self):
        rng = self.rng
        return rng.choice([
            lambda: argparse.Namespace(lr=0.1, w=self.base()), lambda: Color.RED, lambda: pathlib.PurePosixPath("a/b"),
            lambda: datetime.datetime(2020, 1, 2), lambda: datetime.timedelta(3), lambda: Config(a=1, b=[self.base()]),
            lambda: Point(1, self.base()), lambda: AttributeDict(lr=0.5, x=self.base()),
            lambda: types.SimpleNamespace(z=3), lambda: torch.nn.Linear(2, 3),
            lambda: torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)), lambda: numpy.dtype("f4").type,
            lambda: collections.deque([1, 2], 5), lambda: torch.nn.Linear, lambda: slice(1, 2), lambda: range(3),
            lambda: numpy.random.RandomState(1), lambda: numpy.datetime64("2020-01-01"), lambda: torch.nn.functional.relu,
            lambda: numpy.array([1, None, "x"], dtype=object), lambda: numpy.array(["a", "bc"]),
        ])()

    def key(self):
        rng = self.rng
        return rng.choice([lambda: "".join(rng.choices("abcdefgh", k=6)), lambda: rng.randrange(1000),
                           lambda: (rng.randrange(99), (1, "x")), lambda: rng.random() < 0.5])()

    def value(self, depth=0):
        what = self.rng.randrange(14)
        if what < 5 or depth > 3:
            return self.tensor()
        if what < 7:
            return self.scalar()
        if what == 7:
            return self.scalars()
        if what == 8:
            return self.foreign()
        if what == 9:
            return self.array()
        items = [self.value(depth + 1) for _ in range(self.rng.randrange(1, 4))]
        if what == 10:
            return items
        if what == 11:
            return tuple(items)
        pairs = {self.key(): item for item in items}
        return self.rng.choice([pairs, collections.OrderedDict(pairs), collections.defaultdict(list, pairs)])


class Flat:
    def __init__(self, protocol=2):
        self.tensors, self.metadata, self.protocol = {}, {}, protocol
        self.unknown = set()

    def tensor(self, path, tensor):
        name = path or "0"
        if type(tensor) is not torch.Tensor and tensor.layout == torch.strided:
            tensor = torch.Tensor.as_subclass(tensor.detach(), torch.Tensor)
        parts = {}
        if tensor.is_quantized:
            if tensor.qscheme() != torch.per_tensor_affine:
                parts = {"scales": tensor.q_per_channel_scales(), "zero_points": tensor.q_per_channel_zero_points()}
        elif tensor.layout == torch.sparse_coo:
            parts = {"indices": tensor._indices(), "values": tensor._values()}
        elif tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
            parts = {"crow_indices": tensor.crow_indices(), "col_indices": tensor.col_indices(), "values": tensor.values()}
        elif tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
            parts = {"ccol_indices": tensor.ccol_indices(), "row_indices": tensor.row_indices(), "values": tensor.values()}
        is_plain = tensor.layout == torch.strided and not tensor.is_quantized and tensor.dtype in NAMES
        elements = None
        # PyTorch does not negate floats of 8 bits.
        if is_plain and tensor.is_neg() and "float8" in str(tensor.dtype):
            is_plain = False
        if is_plain:
            real = tensor.resolve_conj().resolve_neg().contiguous()
            real = torch.view_as_real(real) if real.is_complex() else real
            dense = torch.empty(real.numel(), dtype=real.dtype)
            dense.copy_(real.reshape(-1))
            elements = bytes(dense.view(torch.uint8).tolist()).hex() if real.numel() else ""
        dtype = NAMES[tensor.dtype] if is_plain else None
        self.tensors[name] = [dtype, list(tensor.shape), elements]
        for part, value in parts.items():
            self.tensor(f"{path}.{part}" if path else part, value)

    def visit(self, value, path, in_object=False):
        join = lambda name: f"{path}.{text(name)}" if path else text(name)
        if isinstance(value, torch.Tensor):
            self.tensor(path, value)
        elif isinstance(value, numpy.ndarray) and value.dtype.name in NUMPY:
            elements = numpy.ascontiguousarray(value).astype(value.dtype.newbyteorder("<")).tobytes().hex()
            self.tensors[path or "0"] = [NUMPY[value.dtype.name], list(value.shape), elements]
        elif isinstance(value, numpy.ndarray) and value.dtype == object:
            for at, item in enumerate(value.reshape(-1)):
                self.visit(item, join(at), in_object)
        elif isinstance(value, numpy.ndarray):
            self.tensors[path or "0"] = [None, list(value.shape), None]
        elif isinstance(value, torch.nn.Module):
            for name, tensor in [*value.named_parameters(), *value.named_buffers()]:
                self.tensor(join(name), tensor)
        elif type(value) in (argparse.Namespace, Config):
            for name, item in vars(value).items():
                self.visit(item, join(name), True)
        elif isinstance(value, AttributeDict):
            for name, item in value.items():
                self.visit(item, join(name), True)
        elif isinstance(value, Point):
            for at, item in enumerate(value):
                self.visit(item, join(at), True)
        elif isinstance(value, dict):
            for key, item in value.items():
                self.visit(item, join(key), in_object)
        elif isinstance(value, (list, tuple, set, frozenset)):
            if in_object or not all(is_scalar(item) for item in value):
                for at, item in enumerate(value):
                    self.visit(item, join(at), in_object)
            else:
                self.metadata[path or "0"] = text(value, protocol=self.protocol)
        elif isinstance(value, numpy.random.RandomState):
            # The state of it is an array among its arguments. Its name is not fixed.
            self.unknown.add(path)
        elif is_scalar(value) and not in_object:
            self.metadata[path or "0"] = text(value, protocol=self.protocol)


def is_scalar(value):
    kinds = (bool, int, float, complex, str, bytes, bytearray, torch.device, torch.dtype, torch.layout)
    is_number = isinstance(value, numpy.generic) and value.dtype.name in NUMPY
    return value is None or type(value) in kinds or is_number


def main():
    if SEED % 2:
        torch.set_default_dtype(torch.float64)
    with open(FOLDER / "expected.jsonl", "w") as out:
        for number in range(COUNT):
            rng = random.Random(SEED * 100_000 + number)
            torch.manual_seed(number)
            maker = Maker(rng)
            value = {maker.key(): maker.value() for _ in range(rng.randrange(1, 6))} if rng.random() < 0.9 else maker.value()
            options = {"pickle_protocol": rng.choice([1, 2, 2, 2, 2, 3, 4, 5])}
            if maker.is_old:
                options["_use_new_zipfile_serialization"] = False
            name = f"{number}.pt"
            try:
                torch.save(value, FOLDER / name, **options)
                # What is read back counts: a view of a negated tensor can be another one.
                loaded = torch.load(FOLDER / name, weights_only=False)
            except Exception as error:  # PyTorch cannot save or load this.
                print(f"{name}: {type(error).__name__}: {str(error)[:100]}", file=sys.stderr)
                continue
            flat = Flat(options["pickle_protocol"])
            flat.visit(loaded, "")
            line = {"file": name, "tensors": flat.tensors, "metadata": flat.metadata, "unknown": sorted(flat.unknown)}
            out.write(json.dumps(line) + "\n")
        # What programs that use libtorch save.
        for number, value in enumerate([] if not hasattr(torch._C, "_pickle_save") else [
            ({"a": torch.arange(3)}, [1, 2], [0.5], [torch.ones(2)], [True], "x", {"x": 1}, torch.device("cpu"), {"d": 0.25}),
            torch.ones(2, 3).t(), (torch.tensor([1 + 2j]).conj(), 2 ** 40, None, -1.5, complex(1, 2)),
            [torch.arange(4), torch.arange(4).bool()],
        ]):
            name = f"libtorch-{number}.pt"
            (FOLDER / name).write_bytes(torch._C._pickle_save(value))
            flat = Flat()
            flat.visit(value, "")
            out.write(json.dumps({"file": name, "tensors": flat.tensors, "metadata": flat.metadata, "unknown": []}) + "\n")


main()
