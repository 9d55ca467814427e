"""Exceptions: their types, and their messages."""

import errno
import os
import pathlib
import struct
import subprocess
import sys

import numpy as np
import pytest
import tensorfile as tf


def test_types():
    assert issubclass(tf.FormatError, ValueError) and issubclass(tf.LimitError, ValueError)
    assert issubclass(tf.MismatchError, ValueError) and tf.FormatError.__module__ == "tensorfile"


def test_errors_of_the_system():
    with pytest.raises(FileNotFoundError) as raised:
        tf.open("nothing.ten")
    assert raised.value.errno == errno.ENOENT and raised.value.filename == "nothing.ten"
    assert str(raised.value) == "[Errno 2] No such file or directory: 'nothing.ten'"
    with pytest.raises(FileNotFoundError) as raised:
        tf.save("no/where.ten", {"w": 1})
    assert raised.value.filename == "no/where.ten"
    os.mkdir("folder.ten")
    for use in (lambda: tf.open("folder.ten")), (lambda: tf.save("folder.ten", {"w": 1})):
        with pytest.raises(OSError) as raised:
            use()
        assert raised.value.errno is not None


def test_malformed_files():
    header = b'{"w":{"dtype":"F32","shape":[4],"data_offsets":[0,99]}}'
    open("bad.safetensors", "wb").write(struct.pack("<Q", len(header)) + header + bytes(16))
    with pytest.raises(tf.FormatError) as raised:
        tf.open("bad.safetensors")
    assert str(raised.value) == (
        "bad.safetensors: safetensors: tensor `w`: payload is 99 bytes, but f32[4] takes 16 (at byte 13)"
    )
    open("text.bin", "w").write("hello")
    with pytest.raises(tf.FormatError, match="text.bin: the file's format was not recognized: it begins with `hello`"):
        tf.open("text.bin")
    open("empty.bin", "w").close()
    with pytest.raises(tf.FormatError, match="empty"):
        tf.open("empty.bin")


@pytest.mark.parametrize("format", tf.FORMATS)
def test_damaged_files_raise_nothing_else(format):
    tf.save("file", {"0": np.arange(12, dtype="f4").reshape(3, 4)}, format=format)
    content = bytearray(open("file", "rb").read())
    random = np.random.default_rng(1)
    for _ in range(400):
        damaged = content.copy()
        for _ in range(random.integers(1, 4)):
            damaged[random.integers(len(damaged))] = random.integers(256)
        damaged = damaged[: random.integers(len(damaged) + 1)] if random.integers(2) else damaged
        read_all(damaged, format)


def read_all(content, format):
    """Use all of a file in memory, which may be damaged."""
    try:
        file = tf.open_bytes(content, format=format)
        str(file), file.metadata(), file.warnings, file._values()
        for tensor in file.values():
            repr(tensor), tensor.strides
            for use in (lambda: tensor.data), (lambda: np.asarray(tensor)), (lambda: tensor[...]), tensor.numpy, tensor.coo:
                try:
                    use()
                except (ValueError, TypeError, MemoryError):
                    pass
    except (ValueError, MemoryError):
        pass


def test_damaged_checkpoints_raise_nothing_else(fixtures):
    random = np.random.default_rng(2)
    paths = sorted([*(fixtures / "pytorch").glob("*.pt"), *(fixtures / "pytorch").glob("*.pth")])
    assert len(paths) > 30
    for path in paths:
        content = bytearray(path.read_bytes())
        read_all(content, "pytorch")
        for _ in range(20):
            damaged = content.copy()
            # The pickle is at the start of an archive, and the index at its end.
            for _ in range(random.integers(1, 4)):
                place = int(random.integers(min(len(damaged), 2000))) * (1 if random.integers(2) else -1)
                damaged[max(place, -len(damaged))] = random.integers(256)
            read_all(damaged[: random.integers(len(damaged) + 1)] if random.integers(4) == 0 else damaged, "pytorch")


@pytest.mark.parametrize("format", [None, *tf.FORMATS])
def test_files_of_fuzzing_raise_nothing_else(format):
    folder = pathlib.Path(__file__).parents[2] / "fuzz"
    paths = [path for name in ("read", "stream", "one_tensor") for path in folder.glob(f"*/{name}/*")]
    assert len(paths) > 100
    for path in paths:
        read_all(path.read_bytes(), format)


def test_pickles_are_not_executed(fixtures):
    import pickle
    import zipfile

    class Evil:
        def __reduce__(self):
            return (open, ("executed", "w"))

    with zipfile.ZipFile("evil.pt", "w") as archive:
        archive.writestr("evil/data.pkl", pickle.dumps({"w": Evil()}, protocol=2))
        archive.writestr("evil/version", "3\n")
    try:
        tf.load("evil.pt")
    except ValueError:
        pass
    assert not os.path.exists("executed")


def test_a_truncated_file_is_an_error_if_it_is_read():
    tf.save("file.ten", {"w": np.zeros(100_000)})
    tensor = tf.open("file.ten", mmap=False)["w"]
    os.truncate("file.ten", 1000)
    with pytest.raises(tf.FormatError, match="file.ten: ten: tensor `w`: needs "):
        tensor.numpy()


def test_limits():
    header = b'{"w":{"dtype":"F32","shape":[' + b",".join([b"1"] * 300) + b'],"data_offsets":[0,4]}}'
    with pytest.raises(tf.LimitError, match="rank is 300, but the limit is 255"):
        tf.open_bytes(struct.pack("<Q", len(header)) + header + bytes(4))


@pytest.mark.skipif(os.name == "nt", reason="there are no limits of a process")
def test_too_little_memory_is_an_exception():
    header = b'{"a":{"dtype":"U8","shape":[68719476736],"data_offsets":[0,68719476736]}}'
    with open("large.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        # It takes no room on the disk.
        file.truncate(8 + len(header) + (1 << 36))
    code = """
import resource
import numpy, tensorfile
resource.setrlimit(resource.RLIMIT_AS, (1 << 33, 1 << 33))
tensor = tensorfile.open("large.safetensors", mmap=False)["a"]
for use in (lambda: tensor.data), tensor.numpy, (lambda: numpy.from_dlpack(tensor)), (lambda: tensor[: 1 << 35]):
    try:
        use()
    except MemoryError:
        print("MemoryError")
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ran.stdout, ran.returncode) == ("MemoryError\n" * 4, 0), ran.stderr
