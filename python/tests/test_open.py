"""Open files, their tensors, and views that outlive them."""

import array
import gc
import io
import mmap
import os
import pathlib
from collections.abc import Mapping

import numpy as np
import pytest
import tensorfile as tf


@pytest.fixture
def file():
    arrays = {"w": np.arange(24, dtype="f4").reshape(4, 6), "b": np.arange(3, dtype="i2"), "on": np.bool([1, 0])}
    tf.save("file.safetensors", arrays, metadata={"epoch": "3"})
    with tf.open("file.safetensors") as file:
        yield file


def test_file_is_a_mapping(file):
    assert isinstance(file, Mapping) and type(file) is tf.File
    assert len(file) == 3 and file.keys() == list(file) == ["w", "b", "on"]
    assert "w" in file and "x" not in file and 3 not in file
    assert [tensor.name for tensor in file.values()] == ["w", "b", "on"]
    assert dict(file).keys() == dict(file.items()).keys()
    assert file.get("x") is None and file.get("x", 5) == 5 and file.get("w").name == "w"
    assert file.metadata() == {"epoch": "3"} and file.format == "safetensors" and file.warnings == []
    assert file.path == pathlib.Path("file.safetensors") and file.shards == []
    assert repr(file) == "<File 'file.safetensors', safetensors, 3 tensors>"
    with pytest.raises(KeyError, match="missing tensor `v`; the file has `w`, `b`, `on`"):
        file["v"]
    with pytest.raises(KeyError):
        file[3]


def test_print_shows_the_table(file):
    assert str(file) == (
        "name  dtype  shape   bytes  offset\n"
        "w     f32    [4, 6]   96 B     216\n"
        "b     i16    [3]       6 B     312\n"
        "on    bool   [2]       2 B     318\n"
        "3 tensors, 29 parameters, 104 B"
    )
    html = file._repr_html_()
    assert html.startswith("<table><caption>&lt;File &#x27;file.safetensors&#x27;")
    assert "<tr><td>w</td><td>f32</td><td>[4, 6]</td><td>96</td><td>216</td></tr>" in html
    assert html.endswith('<tfoot><tr><td colspan="5">3 tensors, 29 parameters, 104 B</td></tr></tfoot></table>')
    # In memory, and without tensors.
    tf.save(out := io.BytesIO(), {}, format="safetensors")
    assert str(tf.open_bytes(out.getvalue())) == "0 tensors, 0 parameters, 0 B"
    tf.save("many.safetensors", {f"<{i}>": np.zeros(1) for i in range(1002)})
    many = tf.open("many.safetensors")
    assert len(str(many).splitlines()) == 1004 and many._repr_html_().count("<tr>") == 1003
    assert "… 2 more" in many._repr_html_() and "<td>&lt;7&gt;</td>" in many._repr_html_()


def test_tensor(file):
    w = file["w"]
    assert (w.name, w.dtype, w.shape, w.ndim, w.size, w.nbytes, len(w)) == ("w", "f32", (4, 6), 2, 24, 96, 4)
    assert repr(w) == "<Tensor 'w' f32[4, 6]>" and w.path == file.path
    content = file.path.read_bytes()
    assert content[w.offset : w.offset + w.nbytes] == bytes(w.data)
    view = memoryview(w)
    assert (view.format, view.shape, view.strides, view.readonly) == ("f", (4, 6), (24, 4), True)
    assert view.tolist() == np.arange(24).reshape(4, 6).tolist()


def test_views_share_the_memory_of_the_file(file):
    w = np.asarray(file["w"])
    assert not w.flags.writeable and not w.flags.owndata
    assert np.shares_memory(w, np.asarray(file["w"])) and np.shares_memory(w, np.from_dlpack(file["w"]))
    assert np.shares_memory(w, np.frombuffer(file["w"].data, "f4"))
    with pytest.raises(ValueError, match="read-only"):
        w[0, 0] = 1
    assert np.array(file["w"]).flags.writeable and not np.shares_memory(w, np.array(file["w"]))
    assert np.asarray(file["w"], dtype="f8").dtype == "f8"
    # Bytes of bools are checked, and so are copies.
    assert np.asarray(file["on"]).tolist() == [True, False]


def test_views_outlive_the_file():
    tf.save("file.npz", {"w": np.arange(1000)})
    file = tf.open("file.npz")
    w, tensor, b = np.asarray(file["w"]), file["w"], memoryview(file["w"])
    lent = np.from_dlpack(file["w"])
    file.close()
    assert file.closed and repr(file) == str(file) == "<File, closed>"
    for use in (lambda: file["w"]), (lambda: len(file)), (lambda: file.keys()), (lambda: file.metadata()), file.__enter__:
        with pytest.raises(ValueError, match="the file is closed"):
            use()
    del file
    gc.collect()
    os.remove("file.npz")
    assert w.sum() == sum(b) == lent.sum() == tensor[10:].sum() + 45 == 499500


@pytest.mark.parametrize("format", tf.FORMATS)
def test_saving_over_a_file_in_use(format):
    def first():
        return next(iter(tf.open("file").values()))

    def save(value):
        tf.save("file", {"0": value}, format=format)

    save(np.zeros(100_000))
    old = np.asarray(first())
    save(old + 1)
    save(np.asarray(first()) + 1)
    assert not old.any() and (first().numpy() == 2).all()
    # A file is read while it is replaced.
    save(first())
    before = np.asarray(first())
    tf.convert("file", "file", format=format, dtype="f32")
    assert (before == 2).all() and before.dtype == "f8" and (first().numpy() == 2).all() and first().dtype == "f32"
    if format in ("safetensors", "gguf"):
        before = np.asarray(first())
        tf.edit("file", {"a": "b" * 100_000})
        assert (before == 2).all() and (first().numpy() == 2).all()


def test_parts(file):
    w, whole = file["w"], np.asarray(file["w"])
    keys = [
        *(np.s_[1:3, :], np.s_[1:3], np.s_[:, 2:4], np.s_[::2, ::-1], np.s_[3:0:-2, 5], np.s_[-1], np.s_[-1, -2]),
        *(np.s_[...], np.s_[..., 0], np.s_[0, ...], np.s_[None, 1:2], np.s_[:, None], np.s_[2:2], np.s_[10:20, :], ()),
        *(np.s_[:, ::7], np.int64(2), np.s_[5:1], np.s_[..., None], np.s_[1, ..., 2]),
    ]
    for key in keys:
        found, expected = w[key], whole[key]
        assert np.array_equal(found, expected) and np.shape(found) == np.shape(expected), key
    part = w[1:3]
    part[:] = 99
    assert not (whole == 99).any()
    for key, message in [
        (4, "index 4 is out of bounds for dim 0 with size 4"),
        (np.s_[0, -7], "index -7 is out of bounds for dim 1 with size 6"),
        (np.s_[0, 0, 0], "too many indices: 3, but the tensor has 2 dims"),
        (np.s_[..., ...], "single ellipsis"),
    ]:
        with pytest.raises(IndexError, match=message):
            w[key]
    for key in [[0, 1], True, 1.5, "w", np.array([True, False, True, False])]:
        with pytest.raises(TypeError, match="not by .*; `numpy.asarray.t.\\[...\\]` takes any index"):
            w[key]


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="the test looks at what Linux reads")
def test_parts_read_only_their_bytes():
    rows = 4096
    tf.save("file.ten", {"w": np.zeros((rows, 4096), "f4")})
    tensor = tf.open("file.ten", mmap=False)["w"]
    before = read_bytes()
    assert tensor[100:200].shape == (100, 4096)
    assert 100 * 16384 <= read_bytes() - before < 120 * 16384


def read_bytes():
    lines = pathlib.Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("rchar")).split()[1])


def test_buffers_to_read_into(file):
    w = file["w"]
    for buffer in [bytearray(96), array.array("f", [0] * 24), np.empty((4, 6), "f4"), np.empty(96, "u1"), mmap.mmap(-1, 96)]:
        w.read_into(buffer)
        assert bytes(memoryview(buffer).cast("B")) == bytes(w.data)
    for buffer, error, message in [
        (bytearray(95), ValueError, "the buffer has 95 bytes, but tensor `w` takes 96"),
        (bytes(96), BufferError, "the buffer is read-only"),
        (np.empty((4, 12), "f4")[:, ::2], BufferError, "the buffer is not contiguous"),
        ("text", TypeError, "str"),
    ]:
        with pytest.raises(error, match=message):
            w.read_into(buffer)


def test_bytes_in_memory(file):
    content = file.path.read_bytes()
    for data in content, bytearray(content), memoryview(content), np.frombuffer(content, "u1"):
        opened = tf.open_bytes(data)
        assert opened.path is None and repr(opened) == "<File, safetensors, 3 tensors>"
        assert np.shares_memory(np.asarray(opened["w"]), np.frombuffer(data, "u1"))
    held = tf.open_bytes(bytearray(content))["w"]
    gc.collect()
    assert held[0, 1] == 1
    with pytest.raises(BufferError):
        tf.open_bytes(memoryview(content)[::2])
    with pytest.raises(tf.FormatError):
        tf.open_bytes(content[:40])


class Reader:
    """A file object with nothing but two methods."""

    def __init__(self, content):
        self.inner = io.BytesIO(content)
        self.read, self.seek = self.inner.read, self.inner.seek


def test_file_objects(file):
    content = file.path.read_bytes()
    for source in io.BytesIO(content), open(file.path, "rb"), open(file.path, "rb", buffering=0), Reader(content):
        opened = tf.open(source)
        assert opened.path is None and opened.keys() == file.keys()
        assert np.array_equal(np.asarray(opened["w"]), np.asarray(file["w"]))
        assert opened["w"][1:2, 3].tolist() == [9]
        assert tf.load(source)["b"].tolist() == [0, 1, 2]

    class Broken(Reader):
        def __init__(self, content):
            super().__init__(content)
            self.read = lambda count: 1 / 0

    with pytest.raises(ZeroDivisionError):
        tf.open(Broken(content))
    with pytest.raises(TypeError):
        tf.open(io.StringIO("text"))
    with pytest.raises(tf.FormatError, match="the file is empty"):
        tf.open(io.BytesIO())
    with open("write.bin", "wb") as out:
        out.write(b"0123")
        with pytest.raises(io.UnsupportedOperation):
            tf.open(out)

    class Long(Reader):
        def __init__(self, content):
            super().__init__(content)
            self.read = lambda count: bytes(count + 1)

    with pytest.raises(OSError, match="`read` returned .* bytes, but .* were asked for"):
        tf.open(Long(content))


def test_paths(folder):
    class Path:
        def __fspath__(self):
            return "file.ten"

    tf.save(Path(), {"w": 1})
    assert tf.load(Path())["w"] == tf.load("file.ten")["w"] == tf.load(folder / "file.ten")["w"] == 1
    for path in 3, None, b"file.ten":
        with pytest.raises(TypeError):
            tf.open(path)


def test_formats_are_named():
    tf.save("file.bin", {"w": 1}, format="ten")
    assert tf.open("file.bin").format == tf.open("file.bin", format="ten").format == "ten"
    with pytest.raises(ValueError, match="unknown format `tin`; the formats are btf, ten, ptd"):
        tf.open("file.bin", format="tin")


def test_repeated_names_have_positions():
    from webdataset import tenbin

    tenbin.save("file.ten", np.int32([1]), np.int32([2]), np.int32([3]), infos=["a", "b", "a"])
    file = tf.open("file.ten")
    assert file.keys() == ["#0", "b", "#2"]
    assert {name: tensor[0] for name, tensor in file.items()} == {"#0": 1, "b": 2, "#2": 3}
    assert [file[name][0] for name in file] == [1, 2, 3]
    with pytest.raises(KeyError, match="two tensors are named `a`"):
        file["a"]


def test_dlpack(file):
    w = file["w"]
    assert w.__dlpack_device__() == (1, 0)
    assert "dltensor_versioned" in repr(w.__dlpack__(max_version=(1, 0)))
    assert '"dltensor"' in repr(w.__dlpack__())
    copied = np.from_dlpack(w, copy=True)
    copied[0, 0] = 5
    assert np.asarray(w)[0, 0] == 0
    for arguments in {"stream": 1}, {"dl_device": (2, 0)}:
        with pytest.raises(BufferError):
            w.__dlpack__(**arguments)
    with pytest.raises(BufferError, match="the tensor has to be copied"):
        file["on"].__dlpack__(max_version=(1, 0), copy=False)
    assert np.shares_memory(np.from_dlpack(w, copy=False), np.asarray(w))
    assert np.from_dlpack(file["on"]).tolist() == [True, False]
    for _ in range(100):
        # Capsules that nobody takes free their tensors.
        w.__dlpack__(), w.__dlpack__(max_version=(1, 0))


def test_index_of_shards():
    arrays = {name: np.full(1000, i, "f4") for i, name in enumerate("abcd")}
    tf.save("model.safetensors", arrays, max_shard_bytes=8000)
    assert not os.path.exists("model.safetensors")
    file = tf.open("model.safetensors.index.json")
    assert len(file.shards) == 2 and file["d"].path == pathlib.Path("model-00002-of-00002.safetensors")
    assert all((np.asarray(file[name]) == arrays[name]).all() for name in arrays)
    assert tf.open("model.safetensors").keys() == tf.open(".").keys() == list("abcd")


def sparse(*indices, dims=(5,), values=(7, 8), count=None):
    """Return a BTF of a sparse tensor of f32."""

    def words(*numbers):
        return np.array(numbers, "u8").tobytes()

    count = len(values) if count is None else count
    record = words(len(dims)) + bytes([4, 2, 0, 0, 0, 0, 0, 0]) + words(*dims)
    payload = words(count, len(dims), *indices, count) + np.float32(values).tobytes()
    return words(1, 16) + record + payload + bytes(-len(payload) % 8)


def test_sparse_tensors():
    tensor = tf.open_bytes(sparse(1, 3), format="btf")["0"]
    assert tensor.is_sparse and tensor.shape == (5,) and tensor.strides is None and "5" in repr(tensor)
    indices, values = tensor.coo()
    assert (indices.tolist(), indices.dtype, values.tolist(), values.dtype) == ([[1, 3]], "i8", [7, 8], "f4")
    # As torch and scipy make them dense.
    tensor = tf.open_bytes(sparse(0, 2, 1, 0, 1, 1, dims=(2, 3), values=(1, 2, 3)), format="btf")["0"]
    indices, values = tensor.coo()
    dense = np.zeros(tensor.shape, values.dtype)
    dense[tuple(indices)] = values
    assert dense.tolist() == [[0, 0, 1], [2, 3, 0]]
    indices, values = tf.open_bytes(sparse(dims=(4, 5), values=()), format="btf")["0"].coo()
    assert indices.shape == (2, 0) and values.shape == (0,)
    for use in (lambda: np.asarray(tensor)), tensor.numpy, (lambda: tensor[0]):
        with pytest.raises(TypeError, match="tensor `0` is sparse; `coo\\(\\)` returns its indices and values"):
            use()
    for use in (lambda: tensor.__dlpack__()), (lambda: memoryview(tensor)):
        with pytest.raises(BufferError, match="; `data` has its bytes"):
            use()
    with pytest.raises(TypeError, match="tensor `a` is sparse"):
        tf.save("a.btf", {"a": tensor})
    tf.save("a.btf", {"a": np.zeros(2)})
    with pytest.raises(TypeError, match="tensor `a` is dense; `numpy.asarray` has its elements"):
        tf.open("a.btf")["a"].coo()


def test_sparse_tensors_with_wrong_indices():
    for content in sparse(1, 5), sparse(1, 1 << 63), sparse(1, 3, count=1 << 60), sparse(1, 3)[:-8]:
        with pytest.raises(tf.FormatError):
            tf.open_bytes(content, format="btf")["0"].coo()
