"""Each format and dtype, against numpy and the software of the formats."""

import ml_dtypes
import numpy as np
import pytest
import tensorfile as tf

DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]
DTYPES += [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e8m0fnu]
DTYPES += [ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz]
DTYPES = [np.dtype(dtype) for dtype in DTYPES]

STORED = {
    "btf": "i1 i2 i4 i8 u1 u2 u4 u8 f4 f8",
    "ten": "i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8",
    "ptd": "b1 i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 bfloat16 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz",
    "tensorbuffers": "i1 i2 i4 i8 u1 u2 u4 u8 f4 f8",
    "safetensors": "b1 i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 bfloat16 float8_e4m3fn float8_e5m2 float8_e8m0fnu float8_e4m3fnuz float8_e5m2fnuz",
    "npy": "b1 i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16",
    "npz": "b1 i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16",
    "pytorch": "b1 i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16 bfloat16 float8_e4m3fn float8_e5m2 float8_e8m0fnu float8_e4m3fnuz float8_e5m2fnuz",
    "gguf": "i1 i2 i4 i8 f2 f4 f8 bfloat16",
}


def values(dtype, shape):
    """Return numbers of a dtype, of all its bytes but for bools."""
    size = int(np.prod(shape))
    if dtype.kind == "b":
        return (np.arange(size) % 3 == 0).reshape(shape)
    numbers = np.arange(1, size + 1) % 61
    return (numbers * (1 + 1j)).astype(dtype).reshape(shape) if dtype.kind == "c" else numbers.astype(dtype).reshape(shape)


def same(found, expected):
    return found.dtype == expected.dtype and found.shape == expected.shape and found.tobytes() == expected.tobytes()


def test_all_formats_are_here():
    assert set(tf.FORMATS) == set(STORED)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("format", STORED)
def test_round_trip(format, dtype):
    stored = {np.dtype(getattr(ml_dtypes, name, None) or name) for name in STORED[format].split()}
    arrays = {"0": values(dtype, (3, 5))} if format == "npy" else {"0": values(dtype, (3, 5)), "1": values(dtype, (7,))}
    if dtype not in stored:
        with pytest.raises(ValueError, match=f"{format}: tensor `0`: cannot store "):
            tf.save("file", arrays, format=format)
        return
    tf.save("file", arrays, format=format)
    for mmap in True, False:
        with tf.open("file", mmap=mmap) as file:
            assert file.format == format and list(file) == list(arrays)
            for name, expected in arrays.items():
                tensor = file[name]
                assert same(np.asarray(tensor), expected)
                assert same(tensor.numpy(), expected) and tensor.numpy().flags.writeable
                assert bytes(tensor.data) == expected.tobytes()
                assert (tensor.shape, tensor.ndim, tensor.size) == (expected.shape, expected.ndim, expected.size)
                assert (tensor.nbytes, tensor.strides) == (expected.nbytes, expected.strides)
                assert same(tensor[...], expected) and same(tensor[1:-1], expected[1:-1].copy())
                buffer = bytearray(expected.nbytes)
                tensor.read_into(buffer)
                assert buffer == expected.tobytes()
    loaded = tf.load("file")
    assert list(loaded) == list(arrays) and all(same(loaded[name], arrays[name]) for name in arrays)


@pytest.mark.parametrize("format", STORED)
def test_shapes(format):
    for shape in [(), (1,), (0,), (2, 0, 3), (1, 1, 1), (2, 3, 4, 5)]:
        expected = values(np.dtype("f4"), shape)
        try:
            tf.save("file", {"0": expected}, format=format)
        except ValueError as error:
            # GGUF has no dims of 0.
            assert format == "gguf" and 0 in shape, error
            continue
        tensor = tf.open("file")["0"]
        assert tensor.shape == shape or (format == "gguf" and shape == ())
        assert np.asarray(tensor).reshape(shape).tolist() == expected.tolist()
        assert tensor.numpy().reshape(shape).tolist() == expected.tolist()


@pytest.mark.parametrize("format", [format for format in STORED if format != "gguf"])
@pytest.mark.parametrize("mmap", [True, False])
def test_tensors_without_elements(format, mmap):
    tf.save("file", {"0": np.zeros((2, 0, 3), "f4")}, format=format)
    tensor = tf.open("file", mmap=mmap)["0"]
    assert (tensor.shape, tensor.size, tensor.nbytes, len(tensor)) == ((2, 0, 3), 0, 0, 2)
    assert memoryview(tensor).shape == (2, 0, 3) and bytes(tensor.data) == b"" and len(tensor.digest()) == 64
    for found in np.asarray(tensor), np.from_dlpack(tensor), tensor.numpy(), tf.load("file")["0"]:
        assert (found.shape, found.dtype) == ((2, 0, 3), "f4")
    for key, shape in [(0, (0, 3)), (np.s_[:, 0:0], (2, 0, 3)), (np.s_[..., 1:], (2, 0, 2)), (np.s_[0:0], (0, 0, 3))]:
        assert tensor[key].shape == shape
    tensor.read_into(bytearray())
    plan = tf.open("file", mmap=mmap).read_plan()
    memory = bytearray(plan.nbytes)
    plan.read_into(memory)
    assert plan.views(memory)["0"].shape == (2, 0, 3)
    tf.save("again", {"0": tensor}, format=format)
    assert tf.diff("file", "again")["equal"]


def test_safetensors_reads_ours_and_we_read_theirs():
    import safetensors.numpy

    types = [np.dtype(name) for name in "b1 i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8".split()]
    arrays = {str(dtype): values(dtype, (4, 3)) for dtype in types}
    tf.save("ours.safetensors", arrays, metadata={"by": "us"})
    theirs = safetensors.numpy.load_file("ours.safetensors")
    assert theirs.keys() == arrays.keys() and all(same(theirs[name], arrays[name]) for name in arrays)
    with safetensors.safe_open("ours.safetensors", "np") as file:
        assert file.metadata() == {"by": "us"}
    safetensors.numpy.save_file(arrays, "theirs.safetensors", metadata={"by": "them"})
    ours = tf.open("theirs.safetensors")
    assert ours.metadata() == {"by": "them"} and set(ours) == set(arrays)
    assert all(same(np.asarray(ours[name]), arrays[name]) for name in arrays)


def test_numpy_reads_ours_and_we_read_theirs():
    types = [np.dtype(name) for name in "b1 i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16".split()]
    arrays = {str(dtype): values(dtype, (4, 3)) for dtype in types}
    tf.save("ours.npz", arrays)
    with np.load("ours.npz") as theirs:
        assert set(theirs) == set(arrays) and all(same(theirs[name], arrays[name]) for name in arrays)
    for write in np.savez, np.savez_compressed:
        write("theirs.npz", **arrays)
        ours = tf.open("theirs.npz")
        assert all(same(np.asarray(ours[name]), arrays[name]) for name in arrays)
        assert {tensor.is_encoded for tensor in ours.values()} == {write is np.savez_compressed}
    for dtype in types:
        np.save("theirs.npy", arrays[str(dtype)])
        assert same(np.asarray(tf.open("theirs.npy")["0"]), arrays[str(dtype)])
        tf.save("ours.npy", {"0": arrays[str(dtype)]})
        assert same(np.load("ours.npy"), arrays[str(dtype)])


def test_big_endian_and_column_major_arrays_of_numpy():
    big = np.arange(6, dtype=">i4").reshape(2, 3)
    np.save("big.npy", big)
    assert np.asarray(tf.open("big.npy")["0"]).tolist() == big.tolist()
    columns = np.asfortranarray(np.arange(24, dtype="f4").reshape(2, 3, 4))
    for write in (lambda: np.save("x.npy", columns)), (lambda: np.savez_compressed("x.npy", columns)):
        write()
        name = "x.npy" if write.__code__.co_names[1] == "save" else "x.npy.npz"
        tensor = next(iter(tf.open(name).values()))
        for found in np.asarray(tensor), tensor.numpy():
            assert found.flags.f_contiguous and found.tolist() == columns.tolist()
        assert tensor.strides == columns.strides
        assert tensor[1, :, 1:3].tolist() == columns[1, :, 1:3].tolist()


def test_webdataset_reads_ours_and_we_read_theirs():
    from webdataset import tenbin

    # It cannot read `u4`, neither ours nor its own: the name of the dtype is misspelled there.
    arrays = [values(np.dtype(name), (4, 3)) for name in "i1 i2 i4 i8 u1 u2 u8 f2 f4 f8".split()]
    tf.save("ours.ten", {f"w{i}": array for i, array in enumerate(arrays)})
    theirs, infos = tenbin.load("ours.ten", infos=True, nocheck=True)
    assert infos == [f"w{i}" for i in range(len(arrays))]
    assert all(same(found, array) for found, array in zip(theirs, arrays, strict=True))
    tenbin.save("theirs.ten", *arrays, nocheck=True)
    ours = tf.load("theirs.ten")
    assert all(same(found, array) for found, array in zip(ours.values(), arrays, strict=True))


def test_gguf_reads_ours_and_we_read_theirs():
    import gguf

    arrays = {name: values(np.dtype(name), (4, 32)) for name in "i1 i2 i4 i8 f2 f4 f8".split()}
    tf.save("ours.gguf", arrays)
    theirs = {tensor.name: tensor for tensor in gguf.GGUFReader("ours.gguf").tensors}
    assert all(theirs[name].data.tobytes() == arrays[name].tobytes() for name in arrays)
    writer = gguf.GGUFWriter("theirs.gguf", "test")
    for name, array in arrays.items():
        writer.add_tensor(name, array)
    blocks = gguf.quantize(arrays["f4"], gguf.GGMLQuantizationType.Q4_0)
    writer.add_tensor("q4", blocks, raw_dtype=gguf.GGMLQuantizationType.Q4_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    ours = tf.open("theirs.gguf")
    assert all(same(np.asarray(ours[name]), arrays[name]) for name in arrays)
    # Packed elements are bytes, as gguf has them.
    q4 = ours["q4"]
    assert (q4.dtype, q4.shape, q4.strides, q4.nbytes) == ("q4_0", (4, 32), None, 72)
    assert same(np.asarray(q4), blocks) and same(q4.numpy(), blocks) and same(q4[1:3], blocks[1:3].copy())
    assert same(gguf.dequantize(np.asarray(q4), gguf.GGMLQuantizationType.Q4_0), gguf.dequantize(blocks, gguf.GGMLQuantizationType.Q4_0))
    with pytest.raises(IndexError, match="elements of q4_0 are packed along the last dim"):
        q4[:, 0]
    with pytest.raises(BufferError, match=r"the buffer protocol has no q4_0\[4, 32\]; `data` has its bytes"):
        memoryview(q4)
    # Tensors of one file are saved to another, whatever their dtype.
    tf.save("again.gguf", dict(ours))
    again = tf.open("again.gguf")
    assert all(bytes(again[name].data) == bytes(ours[name].data) and again[name].dtype == ours[name].dtype for name in ours)


def test_folders_of_trainers(fixtures):
    with tf.open(fixtures / "dcp" / "sharded_4") as file:
        assert file["rows"].numpy().tolist() == (np.arange(35, dtype="f4") * 0.5).reshape(7, 5).tolist()
        assert file["blocks"][1:3].tolist() == (np.arange(30, dtype="f4") * 0.5).reshape(5, 6)[1:3].tolist()
        assert file.metadata()["step"] == "7"


def test_files_of_torch(fixtures):
    file = tf.open(fixtures / "pytorch" / "dtypes.pt")
    assert file.format == "pytorch" and len(file) > 10
    assert {tensor.dtype for tensor in file.values()} >= {"f32", "bf16", "f16", "i64", "bool"}
    for tensor in file.values():
        assert np.asarray(tensor).shape == tensor.shape and tensor.numpy().tobytes() == np.asarray(tensor).tobytes()


def test_safetensors_are_aligned():
    arrays = {"a": np.int8([1]), "b": np.float64([1, 2]), "c": np.float16([3])}
    tf.save("file.safetensors", arrays)
    file = tf.open("file.safetensors")
    assert list(file) == ["b", "c", "a"]
    assert all(np.asarray(tensor).flags.aligned for tensor in file.values())
