"""Progress of reading and writing."""

import io
import mmap
import sys

import numpy as np
import pytest
import tensorfile as tf

ARRAYS = {f"w{i}": np.full(1_000_000, i, "f4") for i in range(6)}


@pytest.mark.parametrize("format", ["safetensors", "npz", "ptd"])
@pytest.mark.parametrize("map", [True, False])
def test_reads(format, map):
    tf.save("file", ARRAYS, format=format)
    calls = {"load": lambda progress: tf.load("file", progress=progress)}
    file = tf.open("file", mmap=map)
    plan = file.read_plan()
    memory = mmap.mmap(-1, plan.nbytes)
    calls["plan.read_into"] = lambda progress: plan.read_into(memory, progress)
    calls["file.read_into"] = lambda progress: file.read_into(memory, plan, progress=progress)
    for name, call in calls.items():
        told = []
        call(lambda done, total: told.append((done, total)))
        assert told == sorted(told) and len(told) >= 6 and told[-1] == (24_000_000, 24_000_000), name

        def stop(done, total):
            raise RuntimeError("enough")

        with pytest.raises(RuntimeError, match="enough"):
            call(stop)
        call(None), call(False)
    assert (plan.views(memory)["w5"] == 5).all()


def test_a_bar_of_tqdm(capsys):
    tf.save("file.ptd", ARRAYS, progress=True)
    tf.convert("file.ptd", "file.npz", progress=True)
    tf.load("file.npz", progress=True)
    plan = tf.open("file.npz").read_plan(["w1"])
    plan.read_into(bytearray(plan.nbytes), progress=True)
    bars = [bar.split("\r")[-1] for bar in capsys.readouterr().err.strip().split("\n")]
    assert len(bars) == 4 and all("100%" in bar for bar in bars)
    assert all("22.9M/22.9M" in bar for bar in bars[:3]) and "3.81M/3.81M" in bars[3]


def test_a_bar_without_tqdm(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    for call in (lambda: tf.save(io.BytesIO(), ARRAYS, format="ten", progress=True)), (lambda: tf.load("x", progress=True)):
        tf.save("x", {"w": 1}, format="ten")
        with pytest.raises(ImportError, match="progress=True shows a bar of the package tqdm, which is not installed"):
            call()
