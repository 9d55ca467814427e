"""Read plans: into memory of the caller."""

import mmap
import multiprocessing.shared_memory
import os
import signal
import threading

import ml_dtypes
import numpy as np
import pytest
import tensorfile as tf

ARRAYS = {
    "w": np.arange(600, dtype="f4").reshape(20, 30),
    "columns": np.asfortranarray(np.arange(12).reshape(3, 4)),
    "half": np.arange(7).astype(ml_dtypes.bfloat16),
    "on": np.bool([1, 0, 1]),
    "none": np.zeros((0, 3)),
    "one": np.array(5),
}


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("format", ["safetensors", "ptd"])
def test_everything(format, mmap):
    tf.save("file", {k: v for k, v in ARRAYS.items()}, format=format)
    file = tf.open("file", mmap=mmap)
    plan = file.read_plan()
    assert [piece.name for piece in plan.pieces] == file.keys() and repr(plan).startswith("<ReadPlan of 6 tensors, ")
    assert all(piece.offset % 64 == 0 for piece in plan.pieces)
    assert plan.bytes_read == sum(end - start for start, end in plan.spans) == sum(a.nbytes for a in ARRAYS.values())
    for memory in bytearray(plan.nbytes), np.empty(plan.nbytes, "u1"), np.empty(plan.nbytes // 4 + 1, "i4"):
        file.read_into(memory, plan)
        views = plan.views(memory)
        for name, expected in ARRAYS.items():
            assert views[name].dtype == expected.dtype and views[name].tolist() == expected.tolist()
            assert views[name].flags.writeable and (expected.size == 0 or np.shares_memory(views[name], np.asarray(memory)))


def test_parts_and_alignment():
    tf.save("file.safetensors", ARRAYS)
    file = tf.open("file.safetensors")
    plan = file.read_plan(["one", "on"], {"w": np.s_[3:5, 10:], "columns": np.s_[:, 1], "half": np.s_[::3]}, align=4096)
    assert [piece.offset for piece in plan.pieces] == [0, 4096, 8192, 12288, 16384]
    assert plan.pieces[2] == ("w", "f32", (2, 20), 8192, 160)
    memory = bytearray(plan.nbytes)
    plan.read_into(memory)
    views = plan.views(memory)
    assert views["w"].tolist() == ARRAYS["w"][3:5, 10:].tolist()
    assert views["columns"].tolist() == ARRAYS["columns"][:, 1].tolist()
    assert views["half"].tolist() == ARRAYS["half"][::3].tolist()
    assert (views["one"].tolist(), views["on"].tolist()) == (5, [True, False, True])
    assert file.read_plan([]).nbytes == 0 and file.read_plan(slices={"w": np.s_[:1]}).nbytes == 120


def test_encoded_tensors_and_shards():
    arrays = {name: array for name, array in ARRAYS.items() if name != "half"}
    np.savez_compressed("packed.npz", **arrays)
    tf.save("model.safetensors", arrays, max_shard_bytes=1000)
    for name in "packed.npz", "model.safetensors.index.json":
        file = tf.open(name)
        plan = file.read_plan()
        memory = bytearray(plan.nbytes)
        plan.read_into(memory)
        assert all(view.tolist() == arrays[name].tolist() for name, view in plan.views(memory).items())
        assert len(plan.pieces) == 5


def test_shared_memory_and_maps():
    tf.save("file.ptd", ARRAYS)
    plan = tf.open("file.ptd").read_plan(["w"])
    shared = multiprocessing.shared_memory.SharedMemory(create=True, size=plan.nbytes)
    try:
        plan.read_into(shared.buf)
        assert np.array(plan.views(shared.buf)["w"]).tolist() == ARRAYS["w"].tolist()
    finally:
        shared.close()
        shared.unlink()
    anonymous = mmap.mmap(-1, plan.nbytes)
    plan.read_into(anonymous)
    assert plan.views(anonymous)["w"].tolist() == ARRAYS["w"].tolist()


def test_refused_calls():
    tf.save("file.ptd", ARRAYS)
    file = tf.open("file.ptd")
    plan = file.read_plan(["w"])
    for buffer, error, message in [
        (bytearray(2399), ValueError, "the buffer has 2399 bytes, but the plan takes 2400"),
        (bytes(2400), BufferError, "the buffer is read-only"),
    ]:
        with pytest.raises(error, match=message):
            plan.read_into(buffer)
    with pytest.raises(KeyError, match="missing tensor `x`"):
        file.read_plan(["x"])
    with pytest.raises(IndexError):
        file.read_plan(slices={"w": 20})
    with pytest.raises(ValueError, match="align pieces to 0 bytes"):
        file.read_plan(align=0)
    file.close()
    plan.read_into(bytearray(2400))
    with pytest.raises(ValueError, match="the file is closed"):
        file.read_plan()


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_ends_a_read():
    # 4 GiB of zeros, which take no room.
    header = b'{"a":{"dtype":"U8","shape":[4294967296],"data_offsets":[0,4294967296]}}'
    with open("large.safetensors", "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + (1 << 32))
    plan = tf.open("large.safetensors").read_plan()
    memory = mmap.mmap(-1, plan.nbytes)
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        timer.start()
        plan.read_into(memory)
