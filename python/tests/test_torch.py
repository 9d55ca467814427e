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
    for mmap in False, True:
        found = load("model.pt", mmap=mmap)
        assert found.keys() == {"epoch", "model"} and found["epoch"] == 3
        same(found["model"], nested["model"])
        assert found["model"]["a.weight"].data_ptr() == found["model"]["b.weight"].data_ptr()


def complex_half(*shape):
    count = 1
    for dim in shape:
        count *= dim
    return torch.complex(torch.arange(count, dtype=torch.float32), torch.ones(count)).reshape(shape).to(torch.complex32)


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_a_checkpoint_is_what_was_saved(zipped, mmap):
    def model():
        return torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))

    first = model()
    optimizer = torch.optim.AdamW(first.parameters(), lr=1e-3, betas=(0.8, 0.9))
    first(torch.randn(4, 3)).sum().backward()
    optimizer.step()
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    whole = torch.arange(12.0).reshape(3, 4)
    saved = {
        "model": first.state_dict(),
        "optimizer": optimizer.state_dict(),
        "schedule": schedule.state_dict(),
        "values": (1, 2.5, None, True, "text", b"bytes", 2**80, -(2**70), 1 + 2j, float("inf"), [], {}, "\ud800"),
        "sets": [{1, 2}, frozenset([3])],
        "of torch": [torch.float16, torch.device("cpu"), torch.Size([2, 3]), torch.strided],
        "numpy": [np.float32(1.5), np.arange(3), np.dtype("i4")],
        "shared": [whole, whole, whole.t(), whole[1:], whole[:, ::2], whole[2, 3]],
        "complex": [complex_half(2, 3), complex_half(2, 3).t(), complex_half(0)],
        7: {"a.b": whole, "a": {"b": whole + 1}},
    }
    torch.save(saved, "model.pt", _use_new_zipfile_serialization=zipped)
    found = load("model.pt", mmap=mmap, strict=True)
    assert list(found) == list(saved)
    other = model()
    assert str(other.load_state_dict(found["model"])) == "<All keys matched successfully>"
    assert found["model"]._metadata == saved["model"]._metadata
    same(other.state_dict(), saved["model"])
    again = torch.optim.AdamW(other.parameters(), lr=1)
    again.load_state_dict(found["optimizer"])
    assert again.param_groups[0]["lr"] == 1e-3 and again.param_groups[0]["betas"] == (0.8, 0.9)
    same(again.state_dict()["state"][0], saved["optimizer"]["state"][0])
    torch.optim.lr_scheduler.StepLR(again, 1).load_state_dict(found["schedule"])
    assert found["values"] == saved["values"] and [type(value) for value in found["values"]] == [type(value) for value in saved["values"]]
    assert found["sets"] == saved["sets"] and found["of torch"] == saved["of torch"]
    scalar, array, dtype = found["numpy"]
    assert scalar == np.float32(1.5) and type(scalar) is np.float32 and type(array) is np.ndarray and dtype == "i4"
    for name in "shared", "complex":
        for one, expected in zip(found[name], saved[name], strict=True):
            wide = torch.complex64 if name == "complex" else torch.float32
            assert one.dtype == expected.dtype and one.shape == expected.shape
            assert torch.equal(one.to(wide), expected.to(wide)) and one.stride() == expected.stride() or one.stride() == one.contiguous().stride()
    assert found[7]["a.b"].sum() + 12 == found[7]["a"]["b"].sum()
    if not mmap:
        # A change of one is a change of the other, as in what was saved.
        found["shared"][0][1, 0] = 100
        assert found["shared"][2][0, 1] == found["shared"][3][0, 0] == found["shared"][1][1, 0] == 100
        assert found[7]["a.b"][1, 0] == 100


def test_what_a_checkpoint_has_besides():
    import argparse

    torch.save({"w": torch.ones(2), "args": argparse.Namespace(lr=1), "list": [argparse.Namespace(), 2]}, "model.pt")
    with pytest.warns(UserWarning, match="model.pt: `args` and 1 other are left out: `argparse.Namespace`|`args`.*`argparse.Namespace`"):
        found = load("model.pt")
    assert found.keys() == {"w", "list"} and found["list"] == [None, 2] and found["w"].tolist() == [1, 1]
    with pytest.raises(tensorfile.MismatchError, match="model.pt: .*argparse.Namespace"):
        load("model.pt", strict=True)
    # A whole module has the names of its state dict.
    model = Nested()
    torch.save({"net": model}, "model.pt")
    with pytest.warns(UserWarning, match="only the tensors are read"):
        same(load("model.pt")["net"], model.state_dict())
    torch.save({"w": torch.ones(2), "sparse": torch.eye(2).to_sparse()}, "model.pt")
    with pytest.warns(UserWarning, match="tensor `sparse` has the unknown dtype torch.float32 .sparse_coo."):
        assert load("model.pt").keys() == {"w"}
    for whole in torch.arange(3), [torch.arange(3)], (1, 2), "text":
        torch.save(whole, "model.pt")
        assert str(load("model.pt")) == str(whole)


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
