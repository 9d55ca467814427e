"""Arguments: lists of strings, metadata, dtypes, and what pickle keeps of files."""

import io
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import tensorfile as tf
import tensorfile.numpy


@pytest.fixture
def saved():
    arrays = {"w": np.float32([1, 2]), "bias": np.float32([3]), "i": np.int32([4])}
    tf.save("a.safetensors", arrays, metadata={"w": "1", "key": "2", "k": "3"})


# Each argument that is a list: a call with it, and what the call says of one string and of a list of it.
LISTS = {
    "stats filter": ("filter", lambda value: list(tf.stats("a.safetensors", filter=value)), "bias"),
    "diff filter": ("filter", lambda value: tf.diff("a.safetensors", "a.safetensors", filter=value), "bias"),
    "diff rename": ("rename", lambda value: tf.diff("a.safetensors", "a.safetensors", rename=value)["tensors"], "bias=w2"),
    "report filter": ("filter", lambda value: len(tf.report("a.safetensors", filter=value)), "bias"),
    "convert filter": ("filter", lambda value: converted(filter=value), "bias"),
    "convert rename": ("rename", lambda value: converted(rename=value), "bias=new"),
    "edit unset": ("unset", lambda value: tf.edit("a.safetensors", unset=value, output="b.safetensors"), "key"),
    "verify deny": ("deny", lambda value: tf.verify("a.safetensors", deny=value)["problems"], "alignment"),
    "open deny": ("deny", lambda value: tf.open("a.safetensors", deny=value).keys(), "left-out"),
    "read_plan names": ("names", lambda value: tf.open("a.safetensors").read_plan(value).pieces, "bias"),
}


def converted(**options):
    tf.convert("a.safetensors", "b.npz", lossy=True, **options)
    return tf.open("b.npz").keys()


@pytest.mark.parametrize("case", LISTS)
def test_one_string_is_one_pattern(saved, case):
    argument, call, value = LISTS[case]
    assert call(value) == call([value]) == call((value,)) == call(iter([value]))
    for wrong, message in [
        (3, f"`{argument}` is a string or a list of strings, not a int"),
        (b"bias", f"`{argument}` is a string or a list of strings, not a bytes"),
        (["bias", 3], f"`{argument}` is a list of strings, but has a int"),
        ([b"bias"], f"`{argument}` is a list of strings, but has a bytes"),
    ]:
        with pytest.raises(TypeError, match=message):
            call(wrong)


def test_lists_of_strings_have_one_check():
    """Every parameter that takes several strings also takes one."""
    import inspect
    import typing

    for name in tf.__all__:
        function = getattr(tf, name)
        if not inspect.isfunction(function):
            continue
        for parameter in inspect.signature(function).parameters.values():
            kind = str(parameter.annotation)
            if "Iterable[str]" in kind or "Sequence[str]" in kind:
                assert "str | Iterable[str]" in kind, (name, parameter)
                case = [case for case in LISTS if case == f"{name} {parameter.name}"]
                assert case, f"{name}({parameter.name}=) is in no row of LISTS"
    assert typing


def test_metadata_that_is_no_text(saved):
    for call, argument in [
        (lambda value: tf.save("b.safetensors", {}, metadata=value), "metadata"),
        (lambda value: tf.numpy.save_file({}, "b.safetensors", value), "metadata"),
        (lambda value: tf.edit("a.safetensors", value), "set"),
    ]:
        with pytest.raises(TypeError, match=f"`{argument}`: the value of `epoch` is a int; values are strings, such as '7'"):
            call({"epoch": 7})
        with pytest.raises(TypeError, match=f"`{argument}`: the key 7 is a int; keys are strings"):
            call({7: "epoch"})


def test_no_metadata_and_none():
    import safetensors.numpy

    array = {"a": np.zeros(2)}
    for metadata in None, {}, {"a": "b"}:
        for module in tf.numpy, safetensors.numpy:
            module.save_file(array, "file.safetensors", metadata)
            with tf.safe_open("file.safetensors", "np") as ours, safetensors.safe_open("file.safetensors", "np") as theirs:
                assert ours.metadata() == theirs.metadata() == metadata
            assert tf.open("file.safetensors").metadata() == (metadata or {})
        assert tf.numpy.save(array, metadata) == safetensors.numpy.save(array, metadata)
        # A file that is written again says the same.
        tf.convert("file.safetensors", "again.safetensors", dtype="f32")
        tf.edit("again.safetensors", {})
        assert tf.safe_open("again.safetensors", "np").metadata() == metadata
    tf.save("other.npz", array, metadata={})


def test_dtypes_of_a_spec():
    arrays = {"f32": np.zeros(2, "f4"), "i8": np.zeros(2, "i1"), "i64": np.zeros(2, "i8"), "bool": np.zeros(2, "?")}
    tf.save("file.safetensors", arrays)

    def fits(name, dtype):
        return tf.check("file.safetensors", {name: (dtype, None)}, allow_unknown=True).ok

    for name, dtypes in {
        "f32": ["f32", "f4", "<f4", "float32", "torch.float32", np.float32, np.dtype("f4")],
        "i8": ["i8", "i1", "int8", np.int8],
        "i64": ["i64", "int64", np.int64, int],
        "bool": ["bool", "?", np.bool, bool],
    }.items():
        assert all(fits(name, dtype) for dtype in dtypes), name
        assert not fits(name, "f16") and not fits(name, "float4_e2m1fn_x2")
    for spec, error, message in [
        ({"w": "f32"}, TypeError, "the spec of `w` is 'f32'; it is a dtype and a shape, such as .'f32', .None, 3.."),
        ({"w": ("f32", (1,), 3)}, TypeError, "it is a dtype and a shape"),
        ({"w": ("flt32", None)}, ValueError, "the spec of `w` is .*: unknown dtype 'flt32'; did you mean "),
        ({"w": ("f32", 3)}, TypeError, "the spec of `w` is .*: 'int' object is not iterable"),
        ({"w": ("f32", "ab")}, TypeError, "the spec of `w` is "),
        ({"w": ("f32", (-1,))}, ValueError, "a dim is negative; None is any length"),
        ({"w": ("f32", (1.5,))}, TypeError, "the spec of `w` is "),
        ({"w": (3, None)}, TypeError, "the spec of `w` is .*: 3 is not a dtype"),
        ({3: ("f32", None)}, TypeError, "the spec has the name 3, which is a int"),
        ("w", TypeError, "a spec is a dict of names"),
    ]:
        for use in (lambda: tf.check("file.safetensors", spec)), (lambda: tf.load("file.safetensors", spec=spec)):
            with pytest.raises(error, match=message):
                use()


def same_in_a_process(values):
    """Return what a new process makes of pickled values."""
    code = "import pickle, sys; print([repr(v) for v in pickle.load(open('values.pickle', 'rb'))])"
    with open("values.pickle", "wb") as file:
        pickle.dump(values, file)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_files_and_tensors_are_pickled_by_their_paths(saved, folder, monkeypatch):
    file = tf.open("a.safetensors", mmap=False, deny="left-out")
    os.mkdir("elsewhere")
    monkeypatch.chdir("elsewhere")
    again, tensor = pickle.loads(pickle.dumps((file, file["bias"])))
    assert type(again) is tf.File and again.keys() == file.keys() and again.path == folder / "a.safetensors"
    assert tensor.numpy().tolist() == [3] and tensor.name == "bias"
    assert "'bias' f32[1]" in same_in_a_process([file, file["bias"]])
    monkeypatch.chdir(folder)
    # Positions of other files are other tensors.
    held = pickle.dumps(file["bias"])
    tf.save("a.safetensors", {"other": np.float32([1, 2]), "bias": np.float64([3])})
    with pytest.raises(ValueError, match="a.safetensors: the file was replaced: tensor `bias`, f32.1., is no longer at position"):
        pickle.loads(held)
    file.close()
    with pytest.raises(ValueError, match="the file is closed"):
        pickle.dumps(file)


def test_files_of_this_process_cannot_be_pickled(saved):
    content = open("a.safetensors", "rb").read()
    for file in tf.open_bytes(content), tf.open(io.BytesIO(content)), tf.open(open("a.safetensors", "rb")):
        for value in file, file["w"]:
            with pytest.raises(TypeError, match="cannot pickle a file in memory, or of a file object: .*open a path"):
                pickle.dumps(value)


def test_safe_open_is_pickled(saved):
    with tf.safe_open("a.safetensors", "np", backend="pread") as file:
        again = pickle.loads(pickle.dumps(file))
        assert again.keys() == file.keys() and again.get_tensor("bias").tolist() == [3] and again.metadata() == file.metadata()


def test_datasets_are_pickled_with_their_state():
    import tarfile

    with tarfile.open("file.tar", "w") as tar:
        for i in range(5):
            np.save("x.npy", np.array([i]))
            tar.add("x.npy", f"{i}.x.npy")
    samples = tf.webdataset("file.tar")
    walk = iter(samples)
    assert [int(next(walk)["x"][0]) for _ in range(2)] == [0, 1]
    again, walk_again = pickle.loads(pickle.dumps((samples, walk)))
    assert [int(sample["x"][0]) for sample in again] == [int(sample["x"][0]) for sample in walk_again] == [2, 3, 4]
    assert [int(sample["x"][0]) for sample in walk] == [2, 3, 4]


def test_notebooks(saved):
    file = tf.open("a.safetensors")
    assert file._ipython_key_completions_() == file.keys()
    html = file["w"]._repr_html_()
    assert html.startswith("<table><caption>&lt;Tensor &#x27;w&#x27;&gt;") and "<th>dtype</th><td>f32</td>" in html


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs")
def test_ctrl_c_ends_the_wait_for_a_pipe():
    os.mkfifo("pipe.safetensors")
    for call in [
        lambda: tf.open("pipe.safetensors"),
        lambda: tf.load("pipe.safetensors"),
        lambda: tf.safe_open("pipe.safetensors", "np"),
        lambda: tf.numpy.load("pipe.safetensors"),
        lambda: tf.convert("pipe.safetensors", "copy.ptd"),
        lambda: tf.info("pipe.safetensors"),
        lambda: tf.check("pipe.safetensors", {}),
    ]:
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            call()
    assert not os.path.exists("copy.ptd") and time


def test_shards_are_files():
    import tarfile

    for i in range(2):
        np.save(f"{i}.npy", np.arange(3) + i)
    with tarfile.open("x.tar", "w") as tar:
        for i in range(2):
            tar.add(f"{i}.npy", f"{i}.x.npy")
    file = tf.open("x.tar")
    assert file.format == "tar" and len(file) == 2 and [t.numpy().tolist() for t in file.values()] == [[0, 1, 2], [1, 2, 3]]
    assert tf.info("x.tar")["format"] == "tar" and list(tf.load("x.tar")) == file.keys()
    tf.convert("x.tar", "x.safetensors")
    assert tf.load("x.safetensors").keys() == tf.load("x.tar").keys()
    tf.convert("x.tar", "unpacked")
    assert np.load("unpacked/1.x.npy").tolist() == [1, 2, 3]
    tf.convert("unpacked", "again-{000..}.tar")
    assert list(tf.load("again-000.tar")) == file.keys()
    os.rename("x.tar", "named")
    assert tf.open("named", format="tar").keys() == file.keys()
    with pytest.raises(ValueError, match="WebDataset shards take `max_shard_bytes` only"):
        tf.convert("again-000.tar", "folder", dtype="f16")
