"""Memory that is lent to other libraries: they write to it, also where they should not, and no file changes.

Each test runs in a process of its own, which a signal would end.
"""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
import tensorfile as tf

BEGIN = """
import ctypes, os, pathlib, sys
import numpy as np
import tensorfile as tf

def write(address, count):
    ctypes.memset(address, 7, count)

def of_capsule(capsule, name):
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    managed = get(capsule, name)
    # The pointer to the elements is first, or after version, context, deleter and flags.
    return ctypes.c_void_p.from_address(managed + (32 if b"versioned" in name else 0)).value

class View(ctypes.Structure):
    _fields_ = [("buf", ctypes.c_void_p), ("rest", ctypes.c_byte * 256)]

def of_buffer(value, flags):
    get = ctypes.pythonapi.PyObject_GetBuffer
    get.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int]
    view = View()
    if get(value, ctypes.byref(view), flags):
        raise BufferError
    return view.buf
"""

# Each way to an address, given a tensor.
ROADS = {
    "dlpack": "of_capsule(keep(tensor.__dlpack__(max_version=(1, 0))), b'dltensor_versioned')",
    "legacy dlpack": "of_capsule(keep(tensor.__dlpack__()), b'dltensor')",
    "read-only buffer": "of_buffer(tensor, 0x11c)",
    "writable buffer": "of_buffer(tensor, 0x001)",
    "asarray": "keep(np.asarray(tensor)).ctypes.data",
    "data": "keep(np.frombuffer(tensor.data, 'u1')).ctypes.data",
    "from_dlpack": "keep(np.from_dlpack(tensor)).ctypes.data",
    "frombuffer": "keep(np.frombuffer(tensor, 'u1')).ctypes.data",
    "part": "keep(tensor[1:]).ctypes.data",
    "numpy": "keep(tensor.numpy()).ctypes.data",
    "private": "of_buffer(keep(tensor._private(True)), 0x001)",
}


def run(code, python=sys.executable):
    ran = subprocess.run([python, "-c", BEGIN + textwrap.dedent(code)], capture_output=True, text=True)
    assert ran.returncode == 0, (ran.returncode, ran.stdout, ran.stderr)


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("format", ["safetensors", "npz", "ten", "shards"])
def test_writes_stay_in_the_process(format, mmap):
    arrays = {"w": np.arange(5000, dtype="f4"), "b": np.arange(3, dtype="i8"), "on": np.bool([1, 0] * 100)}
    if format == "ten":
        del arrays["on"]
    if format == "shards":
        tf.save("file.safetensors", arrays, max_shard_bytes=10_000)
    else:
        tf.save("file", arrays, format=format)
    run(f"""
        paths = [path for path in pathlib.Path(".").iterdir()]
        name = "file.safetensors" if {format == "shards"} else "file"
        before = {{path: path.read_bytes() for path in paths}}
        expected = tf.load(name)
        kept = []
        def keep(value):
            kept.append(value)
            return value
        for road in {list(ROADS.values())!r}:
            for key in expected:
                file = tf.open(name, mmap={mmap})
                tensor = file[key]
                address = eval(road)
                write(address, tensor.nbytes - (tensor[:1].nbytes if "1:" in road else 0))
                # What the library reads is still what the file has.
                assert (tensor.numpy() == expected[key]).all() and (tensor[...] == expected[key]).all(), (road, key)
                tf.save("copy.npz", {{key: tensor}})
                assert (tf.load("copy.npz")[key] == expected[key]).all(), (road, key)
                assert tensor.digest() == tf.open("copy.npz")[key].digest()
        assert all(path.read_bytes() == content for path, content in before.items())
    """)


def test_views_of_one_file_are_of_one_memory():
    tf.save("file.ten", {"w": np.arange(5000)})
    run("""
        file = tf.open("file.ten")
        lent, seen = np.from_dlpack(file["w"]), np.asarray(file["w"])
        lent[0] = 99
        assert seen[0] == 99 and file["w"].numpy()[0] == 0 and np.asarray(tf.open("file.ten")["w"])[0] == 0
        # Numpy's own flag.
        assert lent.flags.writeable and not seen.flags.writeable
    """)


def test_lent_memory_outlives_the_file():
    tf.save("file.ten", {"w": np.arange(100_000)})
    run("""
        file = tf.open("file.ten")
        lent = np.from_dlpack(file["w"])
        tf.save("file.ten", {"w": np.zeros(3)})
        lent[5] = 1
        os.remove("file.ten")
        file.close()
        del file
        lent += 1
        assert lent[5] == 2 and lent[-1] == 100_000
    """)


def test_what_was_read_survives_a_truncated_file():
    # A mapping does not, private or not: `open` and `load_file` say so.
    tf.save("file.npy", {"0": np.arange(100_000)})
    tf.save("file.safetensors", {"w": np.arange(100_000)})
    run("""
        import tensorfile.numpy
        found = [
            tf.load("file.safetensors")["w"],
            tf.open("file.safetensors")["w"].numpy(),
            tf.open("file.safetensors")["w"][:],
            np.from_dlpack(tf.open("file.safetensors", mmap=False)["w"]),
            np.asarray(tf.open("file.safetensors", mmap=False)["w"]),
            np.asarray(tf.open(open("file.safetensors", "rb"))["w"]),
            tf.numpy.load("file.npy"),
            tf.numpy.load_file("file.safetensors")["w"],
            tf.safe_open("file.safetensors", "np").get_tensor("w"),
        ]
        os.truncate("file.safetensors", 0)
        os.truncate("file.npy", 0)
        assert [int(array.sum()) for array in found] == [4999950000] * len(found)
    """)


def test_bytes_of_the_caller_are_not_changed():
    run("""
        tf.save("file.ten", {"w": np.arange(1000)})
        content = open("file.ten", "rb").read()
        before = bytes(bytearray(content))
        import mmap
        mapped = mmap.mmap(os.open("file.ten", os.O_RDONLY), 0, access=mmap.ACCESS_READ)
        for source in content, mapped:
            tensor = tf.open_bytes(source)["w"]
            for capsule, name in (tensor.__dlpack__(max_version=(1, 0)), b"dltensor_versioned"), (tensor.__dlpack__(), b"dltensor"):
                write(of_capsule(capsule, name), 100)
            for flags in 0x001, 0x11d:
                try:
                    of_buffer(tensor, flags)
                    raise SystemExit("it was lent")
                except BufferError:
                    pass
        assert content == before
    """)


def test_files_larger_than_memory_are_lent():
    header = b'{"a":{"dtype":"U8","shape":[68719476736],"data_offsets":[0,68719476736]}}'
    with open("large.safetensors", "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        # It takes no room on the disk.
        file.truncate(8 + len(header) + (1 << 36))
    run("""
        lent = np.from_dlpack(tf.open("large.safetensors")["a"])
        lent[1 << 35] = 3
        assert lent.nbytes == 1 << 36 and lent[(1 << 35) - 1 : (1 << 35) + 2].tolist() == [0, 3, 0]
    """)


def test_mmap_modes_of_numpy():
    np.save("file.npy", np.asfortranarray(np.arange(6).reshape(2, 3)))
    run("""
        from tensorfile.numpy import load
        before = open("file.npy", "rb").read()
        array = load("file.npy", "c")
        array[0, 0] = 50
        assert array.tolist() == [[50, 1, 2], [3, 4, 5]] and open("file.npy", "rb").read() == before
        assert not load("file.npy", "r").flags.writeable
        array = load("file.npy", "r+")
        array[1, 2] = 60
        del array
        assert np.load("file.npy").tolist() == load("file.npy").tolist() == [[0, 1, 2], [3, 4, 60]]
    """)


def test_writes_of_torch_stay_in_the_process():
    pytest.importorskip("torch")
    tf.save("file.safetensors", {"w": np.ones(100_000, "f4"), "b": np.ones(3, "f4")})
    run("""
        import torch
        from tensorfile.torch import load, load_file, safe_open
        before = open("file.safetensors", "rb").read()
        file = tf.open("file.safetensors")
        roads = {
            "from_dlpack": lambda: torch.from_dlpack(file["w"]),
            "as_tensor": lambda: torch.as_tensor(np.from_dlpack(file["w"])),
            "asarray": lambda: torch.asarray(file["w"]),
            "frombuffer": lambda: torch.frombuffer(file["w"], dtype=torch.float32),
            "from_numpy": lambda: torch.from_numpy(np.asarray(file["w"])),
            "load": lambda: load("file.safetensors")["w"],
            "load mapped": lambda: load("file.safetensors", mmap=True)["w"],
            "load_file": lambda: load_file("file.safetensors")["w"],
            "get_tensor": lambda: safe_open("file.safetensors", "pt").get_tensor("w"),
        }
        for name, road in roads.items():
            file = tf.open("file.safetensors")
            tensor = road()
            tensor.mul_(2)
            parameter = torch.nn.Parameter(tensor.clone() if name == "never" else tensor)
            parameter.grad = torch.ones_like(parameter)
            torch.optim.SGD([parameter], lr=1.0).step()
            assert parameter.detach().sum() == 100_000, name
            assert open("file.safetensors", "rb").read() == before, name
        # What replaces `torch.load` does not alias the file, which `torch.save` truncates.
        for name in "ck.pt", "old.pt":
            torch.save({"w": torch.arange(100_000)}, name, _use_new_zipfile_serialization=name == "ck.pt")
            state = load(name)
            torch.save(state, name)
            assert torch.load(name)["w"].sum() == state["w"].sum() == 4999950000
            state = load(name, mmap=True)
            os.remove(name)
            torch.save(state, name)
            assert torch.load(name)["w"].sum() == 4999950000
    """)
