"""Arrays of all kinds on their way to a file."""

import array
import io
import os
import signal
import stat
import threading

import ml_dtypes
import numpy as np
import pytest
import tensorfile as tf


def saved(value, format="safetensors"):
    tf.save("file", {"0": value}, format=format)
    return tf.load("file")["0"]


@pytest.mark.parametrize("format", ["safetensors", "npy", "npz", "ptd", "btf", "ten", "gguf"])
def test_memory_orders(format):
    base = np.arange(2 * 3 * 4 * 5, dtype="f4").reshape(2, 3, 4, 5)
    big = np.arange(600 * 700, dtype="f4").reshape(600, 700)
    arrays = [
        *(base, np.asfortranarray(base), base.T, base.transpose(0, 2, 3, 1), base[::-1], base[:, ::2], base[..., ::-2]),
        *(base[:, :, 1], np.broadcast_to(base[0, 0, 0], (3, 2, 5)), big.T, big[::2, ::-1], big[:, 5:6], big[:0].T),
    ]
    for expected in arrays:
        if format == "gguf" and 0 in expected.shape:
            continue
        found = saved(expected, format)
        assert found.shape == expected.shape and np.array_equal(found, expected), (expected.shape, expected.strides)


def test_dtypes_of_other_packages_in_any_order():
    for dtype in ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu:
        for expected in np.ones((), dtype), np.arange(1, 7).astype(dtype).reshape(2, 3).T, np.ones(7, dtype)[::2]:
            found = saved(expected)
            assert found.dtype == dtype and found.shape == expected.shape and found.tobytes() == expected.tobytes()
            assert np.array_equal(found.astype("f4"), expected.astype("f4"))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, np.bool(True)),
        (3, np.int64(3)),
        (2.5, np.float64(2.5)),
        (1 + 2j, None),
        (np.float16(1.5), np.float16(1.5)),
        (np.array(7, "u2"), np.uint16(7)),
        (np.arange(3, dtype=">u4"), np.arange(3, dtype="u4")),
        (np.array(3, ">f8"), np.float64(3)),
        (array.array("h", [1, 2]), np.int16([1, 2])),
        (b"\x01\x02", np.uint8([1, 2])),
        (bytearray(b"\x03"), np.uint8([3])),
        (memoryview(np.arange(6, dtype="i4").reshape(2, 3)[:, ::2]), np.int32([[0, 2], [3, 5]])),
    ],
    ids=repr,
)
def test_values(value, expected):
    if expected is None:
        with pytest.raises(ValueError, match="safetensors: tensor `0`: cannot store c128"):
            saved(value)
        assert saved(value, "npz") == value
        return
    found = saved(value)
    assert found.dtype == expected.dtype and found.shape == expected.shape and np.array_equal(found, expected)


class ByDlpack:
    """An array of another library, which has only DLPack."""

    def __init__(self, array, versioned=True):
        self.array, self.versioned = array, versioned

    def __dlpack__(self, **arguments):
        if not self.versioned and arguments:
            raise TypeError("__dlpack__() got an unexpected keyword argument")
        return self.array.__dlpack__(**arguments)


def test_dlpack():
    for dtype in "?", "i1", "i8", "u2", "f2", "f8", "c8":
        for versioned in True, False:
            expected = np.arange(12).astype(dtype).reshape(3, 4)
            for value in expected, expected.T, expected[::2, ::-1], expected[:0], expected[0, 0, ...]:
                found = saved(ByDlpack(value, versioned))
                assert found.dtype == value.dtype and np.array_equal(found, value) and found.shape == value.shape
    owner = np.arange(3)
    held = ByDlpack(owner)
    del owner
    assert saved(held).tolist() == [0, 1, 2]

    class Wrong:
        def __dlpack__(self, **_):
            return 3

    with pytest.raises(TypeError):
        saved(Wrong())


def test_refused_values():
    for value, message in [
        ([1, 2], "tensor `0`: cannot save a list; a tensor is an array or a number"),
        ("text", "tensor `0`: cannot save a str"),
        (None, "tensor `0`: cannot save a NoneType"),
        (np.array(["a"]), "tensor `0`: cannot save elements of <U1"),
        (np.array([object()]), "tensor `0`: cannot save elements of object"),
        (np.zeros(2, np.longdouble), "tensor `0`: cannot save elements of float128"),
        (np.zeros(2, [("a", "i4")]), "tensor `0`: cannot save elements of"),
        (np.zeros(2, "M8[s]"), "tensor `0`: cannot save elements of datetime64"),
    ]:
        with pytest.raises(TypeError, match=message):
            saved(value)
    assert not os.path.exists("file")


def test_masks_are_refused():
    masked = np.ma.masked_equal(np.float32([1, -999, 3]), -999)
    for value in masked, np.ma.masked, np.ma.array([1.0, 2.0], mask=[False, True]):
        with pytest.raises(TypeError, match="tensor `0` is a masked array, and files have no masks; `.filled\\(\\)` gives masked"):
            saved(value)
    assert not os.path.exists("file")
    assert saved(masked.filled()).tolist() == [1, -999, 3]
    assert saved(np.ma.array([1.0, 2.0])).tolist() == [1, 2]


@pytest.mark.parametrize("format", ["safetensors", "npy", "npz", "ptd"])
def test_bools_are_0_and_1(format):
    odd = np.array([[255, 0, 2], [1, 254, 0]], "u1").view("?")
    for value in odd, odd.T, odd[:, ::2], np.asfortranarray(odd), odd[0, 0], ByDlpack(odd):
        tf.save("odd", {"0": value}, format=format)
        plain = np.array(value.array if isinstance(value, ByDlpack) else value).view("u1") != 0
        tf.save("plain", {"0": plain}, format=format)
        assert open("odd", "rb").read() == open("plain", "rb").read()
        assert np.array_equal(tf.load("odd")["0"], plain)


def test_tensors_of_files_are_saved_as_they_are_stored():
    columns = np.asfortranarray(np.arange(6, dtype="f4").reshape(2, 3))
    np.savez_compressed("a.npz", columns=columns, on=np.bool([1, 0]), half=np.float16([1]))
    tf.save("b.safetensors", {"bf16": np.ones(3, ml_dtypes.bfloat16), "f8": np.ones(2, ml_dtypes.float8_e4m3fn)})
    tf.save("c.safetensors", {**tf.open("a.npz"), **tf.open("b.safetensors")})
    found = tf.load("c.safetensors")
    assert found["columns"].tolist() == columns.tolist() and found["on"].tolist() == [True, False]
    assert found["bf16"].dtype == ml_dtypes.bfloat16 and found["f8"].tolist() == [1, 1] and found["half"].tolist() == [1]


def test_options():
    arrays = {"w": np.float32([1, 2]), "n": np.int32([3])}
    tf.save("a.safetensors", arrays, metadata={"a": "b"}, dtype="bf16")
    file = tf.open("a.safetensors")
    assert file.metadata() == {"a": "b"}
    assert (file["w"].dtype, file["n"].dtype) == ("bf16", "i32") and file["w"].numpy().tolist() == [1, 2]
    with pytest.raises(ValueError, match="`i8` is not a dtype of floats; they are f16, bf16, f32"):
        tf.save("a.safetensors", arrays, dtype="i8")
    with pytest.raises(ValueError, match="cannot keep the metadata `a`|cannot store the metadata `a`"):
        tf.save("a.npz", arrays, metadata={"a": "b"})
    with pytest.raises(ValueError, match="cannot find the format by the extension `.foo`"):
        tf.save("a.foo", arrays)
    with pytest.raises(ValueError, match=r"`ranks` is for folders of trainers: format=\"dcp\""):
        tf.save("a.pt", arrays, ranks=2)
    for wrong in {1: np.zeros(2)}, {"a": np.zeros(2), None: 3}:
        with pytest.raises(TypeError):
            tf.save("a.ten", wrong)
    tf.save("a.safetensors", {})
    assert tf.load("a.safetensors") == {}
    tf.save("a.safetensors", arrays, durable=False)
    assert tf.load("a.safetensors")["n"].tolist() == [3]


def test_file_objects():
    out = io.BytesIO()
    tf.save(out, {"w": np.arange(3)}, format="npz")
    assert np.load(io.BytesIO(out.getvalue()))["w"].tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="a file object has no extension; `format` names a format"):
        tf.save(io.BytesIO(), {"w": 1})

    class Slow:
        """Takes a few bytes at a time."""

        taken = b""

        def write(self, content):
            self.taken += content[:7]
            return len(content[:7])

    slow = Slow()
    tf.save(slow, {"w": np.arange(3)}, format="npz")
    assert slow.taken == out.getvalue()

    class Full:
        def write(self, content):
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left on device") as raised:
        tf.save(Full(), {"w": 1}, format="ten")
    assert raised.value.errno == 28


def test_progress():
    told = []
    tf.save("a.ten", {"w": np.zeros(5_000_000)}, progress=lambda done, total: told.append((done, total)))
    size = os.path.getsize("a.ten")
    assert len(told) > 4 and told == sorted(told) and told[-1] == (size, size)
    before = open("a.ten", "rb").read(1000)

    def stop(done, total):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        tf.save("a.ten", {"w": np.ones(5_000_000)}, progress=stop)
    assert open("a.ten", "rb").read(1000) == before and os.listdir() == ["a.ten"]


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_ends_a_save():
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        timer.start()
        # 3 GiB of one number.
        tf.save("a.ten", {"w": np.broadcast_to(np.zeros(1), (3, 1 << 27))})
    assert os.listdir() == []


@pytest.mark.skipif(os.name == "nt", reason="modes")
def test_files_get_the_mode_of_the_umask():
    old = os.umask(0o027)
    try:
        tf.save("a.safetensors", {"w": 1})
    finally:
        os.umask(old)
    assert stat.S_IMODE(os.stat("a.safetensors").st_mode) == 0o640


def test_a_failed_save_leaves_the_old_file():
    tf.save("a.btf", {"w": np.float32([1])})
    with pytest.raises(ValueError):
        tf.save("a.btf", {"w": np.float32([1]), "no": np.float16([1])})
    assert tf.load("a.btf")["w"].tolist() == [1] and os.listdir() == ["a.btf"]


def test_folders_of_trainers():
    arrays = {"w": np.arange(21, dtype="f4").reshape(7, 3), "step": 3}
    tf.save("step-0", arrays, format="dcp", ranks=8)
    assert sorted(os.listdir("step-0")) == [".metadata", *(f"__{rank}_0.distcp" for rank in range(8))]
    assert {name: array.tolist() for name, array in tf.load("step-0").items()} == {"w": arrays["w"].tolist(), "step": 3}
    tf.convert("step-0", "step-0-3", format="dcp", ranks=3, dtype="f64")
    file = tf.open("step-0-3")
    assert (file["w"].dtype, file["w"].numpy().tolist()) == ("f64", arrays["w"].tolist())
    with pytest.raises(OSError, match="is a folder with `.metadata`; save to a new folder, or empty it"):
        tf.save("step-0", arrays, format="dcp", ranks=8)
    with pytest.raises(ValueError, match="cannot save for 0 ranks"):
        tf.save("new", arrays, format="dcp", ranks=0)
    tf.save("hf", arrays, format="hf-sharded", ranks=3)
    with tf.open("hf") as file:
        assert all(np.array_equal(file[name], array) for name, array in arrays.items())
    tf.convert("hf", "hf-2", format="hf-sharded", ranks=2)
    assert sorted(os.listdir("hf-2")) == [
        f"shard-0000{rank}-model-00001-of-00001.safetensors" for rank in (1, 2)
    ]
    tf.save("one", arrays, format="dcp")
    assert sorted(os.listdir("one")) == [".metadata", "__0_0.distcp"]


def test_values_of_trainers_are_kept(fixtures):
    source = fixtures / "dcp" / "sharded_4"
    tf.convert(source, "new", format="dcp", ranks=2, lossy=True)
    assert tf.open("new").metadata()["step"] == tf.open(source).metadata()["step"] == "7"
