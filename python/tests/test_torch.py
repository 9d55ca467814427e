"""`tensorfile.torch`: the functions of safetensors, and `torch.load` without pickle."""

import io
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorfile

torch = pytest.importorskip("torch")

from tensorfile.torch import SafetensorError, load, load_file, load_model, safe_open, save, save_file, save_model  # noqa: E402

NAMES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64".split()
NAMES += "float8_e5m2 float8_e4m3fn float8_e5m2fnuz float8_e4m3fnuz float8_e8m0fnu".split()


def bits(tensor):
    return tensor.contiguous().flatten().view(torch.uint8)


def same(found, expected):
    assert found.keys() == expected.keys()
    for name in expected:
        assert found[name].dtype == expected[name].dtype and found[name].shape == expected[name].shape, name
        assert torch.equal(bits(found[name]), bits(expected[name])), name
    return True


@pytest.fixture
def tensors():
    found = {name: torch.arange(1, 13).to(getattr(torch, name)).reshape(3, 4) for name in NAMES}
    return {**found, "scalar": torch.tensor(3.0), "empty": torch.zeros(0, 3), "columns": torch.arange(6.0).reshape(2, 3).t()}


def test_round_trip(tensors):
    save_file(tensors, "file.safetensors", {"format": "pt"})
    same(load_file("file.safetensors"), tensors)
    same(load_file("file.safetensors", backend="pread"), tensors)
    same(load("file.safetensors"), tensors)
    same(load(save(tensors)), tensors)
    same(load(bytearray(save(tensors))), tensors)
    with open("file.safetensors", "rb") as file:
        same(load(file), tensors)
    for backend in "mmap", "pread":
        with safe_open("file.safetensors", "pt", backend=backend) as file:
            assert file.metadata() == {"format": "pt"}
            same({name: file.get_tensor(name) for name in file.keys()}, tensors)
            for name in NAMES:
                part = file.get_slice(name)
                same({"": part[1:, :2]}, {"": tensors[name][1:, :2]})
                same({"": part[2]}, {"": tensors[name][2]})


def test_dlpack(tensors):
    tensorfile.save("file.safetensors", tensors)
    file = tensorfile.open("file.safetensors")
    same({name: torch.from_dlpack(tensor) for name, tensor in file.items()}, tensors)
    kept = torch.from_dlpack(file["float32"])
    file.close()
    del file
    assert kept.sum() == 78


def test_packed_floats():
    dtype = getattr(torch, "float4_e2m1fn_x2", None)
    if dtype is None:
        pytest.skip("this torch has no float4_e2m1fn_x2")
    tensors = {"a": torch.arange(6, dtype=torch.uint8).reshape(2, 3).view(dtype)}
    save_file(tensors, "file.safetensors")
    assert tensorfile.open("file.safetensors")["a"].shape == (2, 6)
    assert torch.equal(load_file("file.safetensors")["a"].view(torch.uint8), tensors["a"].view(torch.uint8))


def test_changes_do_not_reach_the_file():
    tensors = {"a": torch.zeros(100_000), "b": torch.ones(3)}
    save_file(tensors, "file.safetensors")
    before = open("file.safetensors", "rb").read()
    found = load_file("file.safetensors")
    found["a"] += 1
    found["b"].mul_(5)
    assert found["a"].sum() == 100_000 and found["b"].tolist() == [5, 5, 5]
    assert open("file.safetensors", "rb").read() == before
    save_file(found, "file.safetensors")
    assert found["a"].sum() == 100_000 and load_file("file.safetensors")["b"].tolist() == [5, 5, 5]


class Nested(torch.nn.Module):
    def __init__(self, tied=True):
        super().__init__()
        self.a = torch.nn.Linear(3, 3)
        self.b = torch.nn.Linear(3, 3)
        if tied:
            self.b.weight = self.a.weight


def test_checkpoints_of_torch(tensors):
    for zipped in True, False:
        if not zipped:
            # torch writes the others only to archives.
            tensors = {name: tensor for name, tensor in tensors.items() if not name.startswith(("float8", "uint"))}
        for name in "model.pt", "model.pth", "pytorch_model.bin":
            torch.save(tensors, name, _use_new_zipfile_serialization=zipped)
            same(load(name), torch.load(name))
            same(load(name, mmap=False), tensors)
            same(load(open(name, "rb"), map_location="cpu"), tensors)
            same(load(name, map_location=torch.device("cpu"), weights_only=True), tensors)
    nested = {"epoch": 3, "model": Nested().state_dict()}
    torch.save(nested, "model.pt")
    found = load("model.pt")
    assert set(found) == {"model.a.weight", "model.a.bias", "model.b.weight", "model.b.bias"}
    assert found["model.a.weight"].data_ptr() == found["model.b.weight"].data_ptr()


def test_nothing_is_executed():
    class Evil:
        def __reduce__(self):
            return os.mkdir, ("executed",)

    torch.save({"w": torch.zeros(2), "evil": Evil()}, "evil.pt")
    try:
        load("evil.pt")
    except ValueError:
        pass
    assert not os.path.exists("executed")
    with pytest.raises(ValueError, match="weights_only=False would execute the file, which this function never does"):
        load("evil.pt", weights_only=False)
    with pytest.raises(TypeError, match="map_location is a device, not a function"):
        load("evil.pt", map_location=lambda storage, location: storage)


def test_models():
    model = Nested()
    save_model(model, "model.safetensors", {"by": "us"})
    with safe_open("model.safetensors", "pt") as file:
        assert file.keys() == ["a.bias", "a.weight", "b.bias"]
        assert file.metadata() == {"by": "us", "b.weight": "a.weight"}
    other = Nested()
    assert load_model(other, "model.safetensors") == (set(), [])
    same(other.state_dict(), model.state_dict())
    with pytest.raises(RuntimeError, match='Missing key.* "b.weight"'):
        load_model(Nested(tied=False), "model.safetensors")
    missing, unexpected = load_model(Nested(tied=False), "model.safetensors", strict=False)
    assert (missing, unexpected) == ({"b.weight"}, [])
    with pytest.raises(RuntimeError, match="Some tensors share memory.*`save_model` stores them once"):
        save_file(model.state_dict(), "model.safetensors")


def test_strided_tensors_are_saved_right():
    whole = torch.arange(24.0).reshape(4, 6)
    for tensor in whole.t(), whole[:, ::2], whole[1:3], whole.flip(0), whole.expand(2, 4, 6), whole[:, 3]:
        same(load(save({"a": tensor})), {"a": tensor})


def test_grad_conj_and_neg():
    tensors = {
        "grad": torch.ones(3, requires_grad=True),
        "conj": torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex64).conj(),
        "neg": torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex64).conj().imag,
    }
    found = load(save(tensors))
    assert found["conj"].tolist() == [1 - 2j, 3 + 1j] and found["neg"].tolist() == [-2, 1]
    assert found["grad"].tolist() == [1, 1, 1] and not found["grad"].requires_grad


def test_refused_tensors():
    for value, error, message in [
        ({"a": torch.eye(3).to_sparse()}, ValueError, "sparse tensors: `\\['a'\\]`"),
        ({"a": np.zeros(2)}, ValueError, "Key `a` is invalid, expected torch.Tensor"),
        ([torch.zeros(2)], ValueError, "Expected a dict of"),
        ({"a": torch.zeros(2, dtype=torch.complex128)}, SafetensorError, "cannot store c128"),
        ({"a": torch.zeros(2, device="meta")}, (NotImplementedError, RuntimeError), "meta tensor"),
    ]:
        with pytest.raises(error, match=message):
            save(value)
    with pytest.raises(TypeError, match="tensor `a` is sparse; `to_dense\\(\\)` makes it dense"):
        tensorfile.save("a.ten", {"a": torch.eye(3).to_sparse()})


def test_files_of_other_formats(tensors):
    keep = {"float32", "int64", "columns"}
    for format in "ptd", "npz", "ten", "tensorbuffers":
        expected = {name: tensors[name] for name in keep}
        tensorfile.save("file", expected, format=format)
        same(load("file"), expected)
        same(load_file("file", backend="pread"), expected)
    out = io.BytesIO()
    tensorfile.save(out, expected, format="npz")
    same(load(io.BytesIO(out.getvalue())), expected)


def test_torch_is_imported_only_if_used():
    code = "import sys, numpy, tensorfile as t, tensorfile.numpy; t.save('a.ten', {'a': numpy.zeros(2)}); t.load('a.ten'); print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_prefetch(tensors):
    save_file(tensors, "file.safetensors")
    with safe_open("file.safetensors", "pt") as file:
        with file.prefetch(threads=3) as loader:
            assert loader.names() == file.offset_keys()
            same(dict(loader), tensors)
        with file.prefetch({"float32": slice(1, 3), "bfloat16": None, "columns": slice(-1, None)}) as loader:
            expected = {"float32": tensors["float32"][1:3], "bfloat16": tensors["bfloat16"], "columns": tensors["columns"][-1:]}
            same({name: loader.take(name) for name in expected}, expected)
        meta = file.get_tensor_meta("bfloat16")
        assert (meta.dtype, meta.shape, meta.data_offsets[1] - meta.data_offsets[0]) == ("BF16", [3, 4], 24)


def test_sparse_tensors():
    from test_open import sparse

    for content in sparse(0, 2, 1, 0, 1, 1, dims=(2, 3), values=(1, 2, 3)), sparse(dims=(2, 3), values=()):
        open("file.btf", "wb").write(content)
        expected = torch.sparse_coo_tensor(*map(torch.from_numpy, tensorfile.open("file.btf")["0"].coo()), (2, 3))
        for found in load("file.btf"), load(content), load_file("file.btf"), load_file("file.btf", backend="pread"):
            assert found["0"].is_sparse and torch.equal(found["0"].to_dense(), expected.to_dense())
    assert expected.to_dense().tolist() == [[0, 0, 0]] * 2


def test_many_tensors_are_read_together(tensors):
    tensorfile.save("file.npz", {name: tensors[name] for name in ("float32", "int64", "columns", "bool", "empty")})
    same(load("file.npz", mmap=False), {name: tensors[name] for name in ("float32", "int64", "columns", "bool", "empty")})
    grown = load("file.npz")["float32"]
    grown += 1
    assert torch.equal(grown, tensors["float32"] + 1)
