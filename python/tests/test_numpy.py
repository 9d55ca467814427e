"""`tensorfile.numpy`: the functions of safetensors, and what safetensors 0.8 gets wrong."""

import json
import os
import pathlib
import stat

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from tensorfile.numpy import SafetensorError, load, load_file, safe_open, save, save_file

ARRAYS = {"b": np.arange(6, dtype="i4").reshape(2, 3), "a": np.float64([1, 2]), "c": np.bool([1, 0]), "s": np.array(3)}


def same(found, expected):
    return found.keys() == expected.keys() and all(
        found[name].dtype == expected[name].dtype and np.array_equal(found[name], expected[name]) for name in expected
    )


def test_same_bytes_as_safetensors():
    for metadata in None, {"format": "np"}:
        assert save(ARRAYS, metadata) == safetensors.numpy.save(ARRAYS, metadata)
        save_file(ARRAYS, "ours", metadata)
        safetensors.numpy.save_file(ARRAYS, "theirs", metadata)
        assert open("ours", "rb").read() == open("theirs", "rb").read()
        assert same(load_file("theirs"), ARRAYS) and same(safetensors.numpy.load_file("ours"), ARRAYS)


def test_safe_open_has_the_same_answers():
    save_file(ARRAYS, "file.safetensors", {"k": "v"})
    with safe_open("file.safetensors", "np") as ours, safetensors.safe_open("file.safetensors", "np") as theirs:
        assert ours.keys() == theirs.keys() and ours.offset_keys() == theirs.offset_keys()
        assert ours.metadata() == theirs.metadata() == {"k": "v"}
        assert same(ours.get_tensors(), theirs.get_tensors())
        for name in ARRAYS:
            assert same({"": ours.get_tensor(name)}, {"": theirs.get_tensor(name)})
            one, other = ours.get_slice(name), theirs.get_slice(name)
            assert one.get_shape() == other.get_shape() and one.get_dtype() == other.get_dtype()
        one, other = ours.get_slice("b"), theirs.get_slice("b")
        for key in np.s_[:], np.s_[1], np.s_[:, 1:], np.s_[..., 2], np.s_[0, -1], (), []:
            assert np.array_equal(one[key], other[key]), key
        for key in np.s_[2], np.s_[:3], np.s_[0, 3], np.s_[0, -4], [0], np.s_[:, 5:9]:
            with pytest.raises(safetensors.SafetensorError) as expected:
                other[key]
            with pytest.raises(SafetensorError) as raised:
                one[key]
            assert str(raised.value) == str(expected.value)
        for use in ours.get_tensor, ours.get_slice, ours.get_tensor_meta, (lambda name: ours.prefetch({name: None})):
            with pytest.raises(SafetensorError, match="File does not contain tensor x: .*missing tensor `x`; the file has"):
                use("x")
    with pytest.raises(SafetensorError, match="File is closed"):
        ours.keys()
    save_file(ARRAYS, "file.safetensors")
    assert safe_open("file.safetensors", "numpy", backend="pread").metadata() is None


def test_refused_calls():
    save_file(ARRAYS, "file.safetensors")
    for arguments, message in [
        (("tf",), "unknown framework `tf`; the frameworks are numpy and torch"),
        (("np", "cpu", "mlx"), "unknown backend `mlx`; the backends are mmap and pread"),
    ]:
        with pytest.raises(SafetensorError, match=message):
            safe_open("file.safetensors", *arguments[:2], **dict(zip(["backend"], arguments[2:])))
    with pytest.raises(SafetensorError, match="cannot store c128"):
        save({"a": np.zeros(2, "c16")})
    with pytest.raises(SafetensorError, match="the file's format was not recognized: it begins with `abc`"):
        load(b"abc")
    with pytest.raises(FileNotFoundError):
        load_file("nothing")


def test_column_major_and_strided_arrays():
    # safetensors 0.8 writes the memory of an array, whatever its order: issue 825.
    columns = np.asfortranarray(np.arange(6, dtype="f4").reshape(2, 3))
    strided = np.arange(20, dtype="f4")[::2]
    found = load(save({"columns": columns, "strided": strided}))
    assert found["columns"].tolist() == columns.tolist() and found["strided"].tolist() == strided.tolist()
    theirs = safetensors.numpy.load(safetensors.numpy.save({"columns": columns}))
    assert theirs["columns"].tolist() != columns.tolist()


@pytest.mark.skipif(os.name == "nt", reason="modes")
def test_files_get_the_mode_of_the_umask():
    # Issue 782 of safetensors.
    old = os.umask(0o002)
    try:
        save_file(ARRAYS, "file.safetensors")
    finally:
        os.umask(old)
    assert stat.S_IMODE(os.stat("file.safetensors").st_mode) == 0o664


def test_bytearray_and_memoryview():
    # Issue 529 of safetensors.
    content = save(ARRAYS)
    for data in content, bytearray(content), memoryview(content), np.frombuffer(content, "u1"):
        found = load(data)
        assert same(found, ARRAYS) and all(array.flags.writeable for array in found.values())


def test_offset_of_a_tensor():
    # Issue 569 of safetensors.
    import tensorfile

    save_file(ARRAYS, "file.safetensors")
    tensor = tensorfile.open("file.safetensors")["b"]
    assert open("file.safetensors", "rb").read()[tensor.offset :][: tensor.nbytes] == ARRAYS["b"].tobytes()


def test_dtypes_that_safetensors_leaves_to_torch():
    arrays = {"a": np.ones(3, ml_dtypes.bfloat16), "b": np.ones((2, 2), ml_dtypes.float8_e4m3fn)}
    found = load(save(arrays))
    assert same(found, arrays)
    save_file(arrays, "file.safetensors")
    with safe_open("file.safetensors", "np") as file:
        assert file.get_slice("a")[1:].dtype == ml_dtypes.bfloat16
        assert file.get_slice("b").get_dtype() == "F8_E4M3"


def test_other_formats():
    np.savez("file.npz", **ARRAYS)
    assert same(load_file("file.npz"), ARRAYS)
    with safe_open("file.npz", "np") as file:
        assert file.get_slice("b")[:, 1].tolist() == [1, 4]


def test_load_as_numpy_does():
    np.save("file.npy", ARRAYS["b"])
    np.savez("stored.npz", **ARRAYS)
    np.savez_compressed("packed.npz", **ARRAYS)
    for mode in None, "r":
        assert np.array_equal(load("file.npy", mode), ARRAYS["b"])
        assert np.array_equal(load(pathlib.Path("file.npy"), mmap_mode=mode), ARRAYS["b"])
        for name in "stored.npz", "packed.npz":
            found = load(name, mmap_mode=mode)
            assert same(found, ARRAYS) and found["b"].flags.writeable == (mode is None)
        with open("stored.npz", "rb") as file:
            assert same(load(file, mmap_mode=mode), ARRAYS)
    assert load("stored.npz", mmap_mode="r")["b"].base is not None
    with pytest.raises(ValueError, match="unknown mmap_mode `w\\+`; it is `r`, `c`, or `r\\+` for npy files"):
        load("file.npy", mmap_mode="w+")


def test_object_arrays_are_refused_by_name():
    np.save("file.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.savez("file.npz", good=np.arange(3), bad=np.array([{}], dtype=object))
    for mode in None, "r", "c":
        with pytest.raises(ValueError, match="file.npy: tensor `0`, '\\|O'\\[1\\], has Python objects, which only executing"):
            load("file.npy", mmap_mode=mode)
        # It costs itself.
        found = load("file.npz", mmap_mode=mode)
        assert found.files == ["good", "bad"] and found["good"].tolist() == [0, 1, 2]
        with pytest.raises(ValueError, match="file.npz: tensor `bad`, '\\|O'\\[1\\], has Python objects"):
            found["bad"]


def test_arrays_of_npz_files_are_those_of_numpy(cases):
    arrays = {"w": np.arange(3), "names": np.array(["x", "yy"]), "raw": np.array([b"a", b"bc"]), "day": np.array(["2026-01-01"], "M8[D]")}
    np.savez("file.npz", **arrays)
    for path in "file.npz", cases / "torch2" / "npz-with-text.npz":
        with np.load(path) as theirs, load(path, allow_pickle=False) as ours:
            assert ours.files == theirs.files == list(ours) == list(ours.keys()) and len(ours) == len(theirs)
            for name in theirs:
                assert np.array_equal(ours[name], theirs[name]) and ours[name].dtype == theirs[name].dtype and name in ours
            with pytest.raises(KeyError):
                ours["nothing"]
            names = theirs.files
        assert repr(ours) == "<NpzFile, closed>" and names
        with pytest.raises(ValueError, match="closed"):
            ours["a"]
    assert load("file.npz").f.w.tolist() == [0, 1, 2]
    for value in arrays.values():
        np.save("file.npy", value)
        assert np.array_equal(load("file.npy"), value) and load("file.npy").dtype == value.dtype
    np.save("file.npy", np.array([["a"]]))
    with pytest.raises(ValueError, match="'<U1'\\[1, 1\\], has several dims; `numpy.load` reads it"):
        load("file.npy")
    with pytest.raises(ValueError, match="allow_pickle=True would execute the file"):
        load("file.npz", allow_pickle=True)
    with pytest.raises(ValueError, match="mmap_mode `r\\+` changes a file in place, which has to be an npy file on disk"):
        load("file.npz", "r+")


def test_file_objects_are_read_from_their_start():
    with open("file.npy", "w+b") as file:
        np.save(file, np.arange(3))
        np.save(file, np.arange(4))
        with pytest.raises(ValueError, match="the file object is at byte .*, but files are read from their start; `seek\\(0\\)`"):
            load(file)
        file.seek(0)
        with pytest.raises(ValueError, match="which is left out, as numpy does from paths only; from a file object"):
            load(file)


def test_names_in_the_order_of_their_bytes():
    header = b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
    with open("file.safetensors", "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header + b"\1\2")
    with safe_open("file.safetensors", "np") as ours, safetensors.safe_open("file.safetensors", "np") as theirs:
        assert ours.keys() == theirs.keys() == ["a", "b"] and ours.offset_keys() == theirs.offset_keys() == ["b", "a"]
        assert ours.get_tensor_meta("a") == ("U8", [1], (1, 2)) and ours.prefetch().names() == ["b", "a"]


def test_meta_of_a_tensor():
    save_file(ARRAYS, "file.safetensors", {"k": "v"})
    content = open("file.safetensors", "rb").read()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    with safe_open("file.safetensors", "np") as file:
        for name in ARRAYS:
            meta = file.get_tensor_meta(name)
            assert (meta.dtype, meta.shape, list(meta.data_offsets)) == tuple(header[name].values())
    np.savez("file.npz", **ARRAYS)
    with safe_open("file.npz", "np") as file:
        start, end = file.get_tensor_meta("b").data_offsets
        assert open("file.npz", "rb").read()[start:end] == ARRAYS["b"].tobytes()


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_prefetch(backend):
    arrays = {f"w{i:02}": np.full((30, 40), i, "f4") for i in range(50)}
    save_file(arrays, "file.safetensors")
    with safe_open("file.safetensors", "np", backend=backend) as file:
        with file.prefetch(threads=3) as loader:
            assert loader.names() == file.offset_keys() and len(loader) == 50
            assert (loader.take("w07") == 7).all()
            rest = dict(loader)
            assert same(rest, {name: array for name, array in arrays.items() if name != "w07"}) and dict(loader) == {}
            for name, message in [("w07", "w07: already delivered"), ("w08", "w08: already delivered"), ("x", "x is not in the")]:
                with pytest.raises(SafetensorError, match=message):
                    loader.take(name)
        loader = file.prefetch({"w03": slice(-2, None), "w02": None, "w01": slice(5, 5)})
    # It needs no open file.
    assert loader.take("w03").shape == (2, 40) and loader.take("w01").shape == (0, 40)
    assert loader.names() == ["w01", "w02", "w03"]
    loader.close()
    for use in (lambda: loader.take("w02")), (lambda: list(loader) or loader.take("w02")):
        with pytest.raises(SafetensorError, match="the loader is closed"):
            use()


def test_refused_plans():
    save_file({**ARRAYS, "half": np.ones(2, ml_dtypes.bfloat16)}, "file.safetensors")
    with safe_open("file.safetensors", "np") as file:
        for plan, message in [
            ({"b": slice(0, 3)}, "slice stop 3 for b is out of range for 2 rows"),
            ({"b": slice(0, 2, 2)}, "must have step 1, got 2 for b"),
            ({"b": slice(0, 2, 0)}, "invalid prefetch plan slice for b"),
            ({"b": slice("a", 2)}, "bounds for b must be integers or None"),
            ({"b": 1}, "must be None or a slice, got <class 'int'> for b"),
            ({"s": slice(0, 1)}, "cannot slice rows of the 0-d tensor s"),
            ({}, "selects no tensors"),
        ]:
            with pytest.raises(SafetensorError, match=message):
                file.prefetch(plan)
    with pytest.raises(SafetensorError, match="File is closed"):
        file.prefetch()


def test_prefetch_of_damaged_files():
    np.savez("file.npz", good=np.arange(3), bad=np.arange(1000))
    with safe_open("file.npz", "np") as file:
        place = file.get_tensor_meta("bad").data_offsets[0]
    content = bytearray(open("file.npz", "rb").read())
    content[place] ^= 1
    open("file.npz", "wb").write(content)
    with safe_open("file.npz", "np") as file, file.prefetch() as loader:
        assert loader.take("good").tolist() == [0, 1, 2]
        with pytest.raises(SafetensorError, match="file.npz: npz: tensor `bad`"):
            loader.take("bad")
