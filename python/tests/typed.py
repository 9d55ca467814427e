"""A program with types, which mypy and pyright check; it does not run."""

import pathlib
from typing import Any, assert_type

import numpy as np
import tensorfile
import tensorfile.numpy


def use(path: pathlib.Path) -> None:
    with tensorfile.open(path) as file:
        tensor = file["w"]
        assert_type(tensor.shape, tuple[int, ...])
        assert_type(tensor.strides, tuple[int, ...] | None)
        assert_type(tensor.size, int | None)
        assert_type(file.get("w"), tensorfile.Tensor | None)
        assert_type(file.get("w", 3), tensorfile.Tensor | int)
        assert_type(file.keys(), list[str])
        assert_type(tensor[1:, ..., None, 0], Any)
        for name, each in file.items():
            assert_type(name, str)
            each.read_into(np.empty(each.nbytes, "u1"))
            each.read_into(bytearray(each.nbytes))
        np.asarray(tensor)
        plan = file.read_plan(["w"], {"b": np.s_[1:]})
        plan.read_into(bytearray(plan.nbytes), progress=lambda done, total: None)
        file.read_into(np.empty(plan.nbytes, "u1"), plan, progress=True)
        assert_type(plan.pieces[0].shape, tuple[int, ...])
    assert_type(tensorfile.load(path, spec={"w": ("f32", (None, 3)), "b": (None, None)}, progress=True), dict[str, np.ndarray])
    tensorfile.save(path, {"w": np.zeros(3), "n": 1}, metadata={"a": "b"}, progress=print)
    assert_type(tensorfile.check(path, {"w": ("f32", None)}).ok, bool)
    with tensorfile.safe_open(path, framework="np") as opened:
        assert_type(opened.get_tensor_meta("w").data_offsets, tuple[int, int])
        with opened.prefetch({"w": slice(0, 2), "b": None}, threads=2) as loader:
            assert_type(loader.names(), list[str])
    assert_type(tensorfile.numpy.load_file(path), dict[str, np.ndarray])
    try:
        tensorfile.open_bytes(b"")
    except tensorfile.MismatchError as error:
        assert_type(error.report, tensorfile.LoadReport | None)
