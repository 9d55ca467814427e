"""Threads, processes, and files larger than 4 GiB."""

import multiprocessing
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorfile as tf


def test_one_file_and_many_threads():
    arrays = {f"w{i}": np.full((50, 60), i, "f4") for i in range(64)}
    tf.save("stored.npz", arrays)
    np.savez_compressed("packed.npz", **arrays)
    tf.save("file.safetensors", arrays)
    for name in "stored.npz", "packed.npz", "file.safetensors":
        file = tf.open(name)
        barrier = threading.Barrier(16)

        def work(first):
            barrier.wait()
            for i in range(64):
                i = (i * 7 + first) % 64
                tensor = file[f"w{i}"]
                assert (np.asarray(tensor) == i).all() and (tensor[3:5] == i).all() and (tensor.numpy() == i).all()
            return True

        with ThreadPoolExecutor(16) as pool:
            assert all(pool.map(work, range(16)))


def test_closing_while_others_read():
    tf.save("file.ten", {"w": np.arange(1000)})
    for _ in range(50):
        file = tf.open("file.ten")

        def work(_):
            try:
                return np.asarray(file["w"]).sum() == 499500
            except ValueError:
                return True

        with ThreadPoolExecutor(4) as pool:
            results = pool.map(work, range(16))
            file.close()
            assert all(results)


def test_other_threads_run_while_files_are_read_and_written():
    beats, stop = [], threading.Event()

    def beat():
        while not stop.is_set():
            beats.append(time.monotonic())
            time.sleep(0.001)

    thread = threading.Thread(target=beat)
    thread.start()
    memory = np.zeros(320_000_000, "u1")
    for call in [
        lambda: tf.save("file.ten", {"w": np.zeros(40_000_000)}),
        lambda: tf.load("file.ten"),
        lambda: tf.open("file.ten")["w"].numpy(),
        lambda: tf.open("file.ten")["w"][:-1],
        lambda: tf.open("file.ten")["w"].read_into(memory),
        lambda: tf.open("file.ten").read_plan().read_into(memory),
        lambda: tf.open("file.ten")["w"].digest(),
        lambda: tf.convert("file.ten", "file.ptd"),
        lambda: tf.verify("file.ten", payload=True),
    ]:
        start = time.monotonic()
        call()
        end = time.monotonic()
        # None, if the call kept the interpreter to itself.
        assert sum(start <= beat <= end for beat in beats) > 10 * (end - start)
    stop.set()
    thread.join()


def total(name):
    return int(np.asarray(tf.open(name)["w"]).sum())


def inherited(array, tensor, queue):
    queue.put((int(array.sum()), int(tensor.numpy().sum()), int(tensor[1:2][0])))


def test_spawned_processes():
    tf.save("file.ptd", {"w": np.arange(1000)})
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(total, ["file.ptd"] * 4) == [499500] * 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("mmap", [True, False])
def test_forked_processes(mmap):
    tf.save("file.ptd", {"w": np.arange(1000)})
    file = tf.open("file.ptd", mmap=mmap)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    children = [context.Process(target=inherited, args=(np.asarray(file["w"]), file["w"], queue)) for _ in range(3)]
    for child in children:
        child.start()
    assert [queue.get(timeout=60) for _ in children] == [(499500, 499500, 1)] * 3
    for child in children:
        child.join()
        assert child.exitcode == 0


def test_a_file_beyond_4_gib():
    header = b'{"a":{"dtype":"U8","shape":[4294967296],"data_offsets":[0,4294967296]},'
    header += b'"b":{"dtype":"U8","shape":[3],"data_offsets":[4294967296,4294967299]}}'
    with open("large.safetensors", "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.seek(1 << 32, os.SEEK_CUR)
        file.write(b"abc")
    for mmap in True, False:
        file = tf.open("large.safetensors", mmap=mmap)
        assert bytes(file["b"].data) == b"abc" and file["b"].offset > 1 << 32
        assert file["a"][(1 << 32) - 5 :].tolist() == [0] * 5
    whole = np.asarray(tf.open("large.safetensors")["a"])
    assert whole.nbytes == 1 << 32 and whole[-1] == 0


@pytest.mark.skipif(not hasattr(sys, "_is_gil_enabled"), reason="this Python has no free-threaded build")
def test_free_threading_stays_on():
    import sysconfig

    assert sys._is_gil_enabled() != bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
