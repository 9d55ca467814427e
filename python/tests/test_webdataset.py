"""`tensorfile.webdataset`, beside Python's webdataset where it is installed."""

import gzip
import io
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import tarfile
import warnings

import numpy as np
import pytest
import tensorfile


def ten(array):
    out = io.BytesIO()
    tensorfile.save(out, {"0": array}, format="ten")
    return out.getvalue()


def write(path, samples):
    with tarfile.open(path, "w") as tar:
        for key, files in samples:
            for extension, content in files.items():
                info = tarfile.TarInfo(f"{key}.{extension}")
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))


def sample(number):
    npz = io.BytesIO()
    np.savez_compressed(npz, left=np.float32([number]), right=np.arange(2))
    return f"a/{number:03}", {
        "image.ten": ten(np.full((2, 3), number, "u1")),
        "mask.npy": npy(np.array([True, False])),
        "pair.npz": npz.getvalue(),
        "cls": str(number).encode(),
        "caption.txt": "déjà".encode(),
        "json": json.dumps({"n": number}).encode(),
        "jpg": b"\xff\xd8",
    }


def npy(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


@pytest.fixture
def shards(tmp_path):
    for shard in range(4):
        write(tmp_path / f"s-{shard}.tar", [sample(5 * shard + i) for i in range(5)])
    content = (tmp_path / "s-1.tar").read_bytes()
    (tmp_path / "s-1.tar").write_bytes(gzip.compress(content))
    return str(tmp_path / "s-{0..3}.tar")


def keys(samples):
    return [int(sample["__key__"][2:]) for sample in samples]


def test_samples_are_dicts(shards):
    for number, found in enumerate(tensorfile.webdataset(shards)):
        assert list(found) == ["__key__", "__url__", "image", "mask", "pair.left", "pair.right", "cls", "jpg", "caption", "json"]
        assert found["__key__"] == f"a/{number:03}" and found["__url__"].endswith(f"s-{number // 5}.tar")
        assert found["image"].dtype == "u1" and found["image"].tolist() == [[number] * 3] * 2
        assert found["mask"].dtype == bool and found["mask"].tolist() == [True, False]
        assert found["pair.left"].tolist() == [number] and found["pair.right"].tolist() == [0, 1]
        assert found["cls"] == number and type(found["cls"]) is int
        assert found["caption"] == "déjà" and found["json"] == {"n": number} and found["jpg"] == b"\xff\xd8"
        assert not found["image"].flags.writeable
    assert number == 19


def test_views_outlive_the_samples(shards):
    images = [sample["image"] for sample in tensorfile.webdataset(shards)]
    assert [int(image[0, 0]) for image in images] == list(range(20))


def test_shuffles_and_ranks(shards):
    one = keys(tensorfile.webdataset(shards, shuffle=8, seed=1))
    assert sorted(one) == list(range(20)) and one != sorted(one)
    assert one == keys(tensorfile.webdataset(shards, shuffle=8, seed=1)) != keys(tensorfile.webdataset(shards, shuffle=8, seed=2))
    ranks = [keys(tensorfile.webdataset(shards, rank=rank, world=3)) for rank in range(3)]
    assert sorted(sum(ranks, [])) == list(range(20)) and len(ranks[0]) == 10


@pytest.mark.parametrize("shuffle", [0, 8])
@pytest.mark.parametrize("taken", [0, 1, 7, 19, 20])
def test_goes_on_from_a_state(shards, shuffle, taken):
    dataset = tensorfile.webdataset(shards, shuffle=shuffle, seed=3)
    samples = iter(dataset)
    for _ in range(taken):
        next(samples)
    state = json.loads(json.dumps(dataset.state_dict()))
    resumed = tensorfile.webdataset(shards, shuffle=shuffle)
    resumed.load_state_dict(state)
    assert keys(resumed) == keys(samples)
    # The next epoch begins at the start.
    assert len(keys(resumed)) == 20


def test_errors(tmp_path, shards):
    write(tmp_path / "s-2.tar", [sample(10), ("a/011", {"cls": b"eleven"}), sample(12)])
    with pytest.raises(tensorfile.FormatError, match="sample `a/011`.*found `eleven`"):
        keys(tensorfile.webdataset(shards))
    (tmp_path / "s-2.tar").write_bytes(b"broken")
    with pytest.raises(tensorfile.FormatError, match="s-2.tar: the archive ends inside a header"):
        keys(tensorfile.webdataset(shards))
    dataset = tensorfile.webdataset(shards, errors="skip")
    assert len(keys(dataset)) == 15
    samples, broken, last = dataset.skipped
    assert (samples, broken) == (0, 1) and "s-2.tar" in last
    with pytest.raises(FileNotFoundError):
        keys(tensorfile.webdataset(str(tmp_path / "missing.tar")))
    with pytest.raises(FileNotFoundError):
        tensorfile.webdataset(str(tmp_path / "missing-*.tar"))
    with pytest.raises(ValueError, match="unknown errors"):
        tensorfile.webdataset(shards, errors="ignore")
    with pytest.raises(ValueError, match="rank 2 is not one of 2"):
        tensorfile.webdataset(shards, rank=2, world=2)
    state = tensorfile.webdataset(shards, errors="skip")
    state.load_state_dict({"state": "{"})
    with pytest.raises(ValueError, match="the state is malformed"):
        iter(state)


def test_no_file_hides_another(tmp_path):
    files = {
        "image.npy": npy(np.arange(3)),
        "image.json": b'{"w": 2}',
        "mp4": b"video",
        "mp4.json": b'{"m": 2}',
        "info.json": b'{"i": 1}',
        "x.txt": b"cap",
        "x.cls": b"4",
        "jpg": b"\xff\xd8",
        "jpg.cls": b"3",
        "__key__.txt": b"other",
        "__url__.txt": b"other",
    }
    write(tmp_path / "a.tar", [("0", files)])
    (found,) = tensorfile.webdataset(str(tmp_path / "a.tar"))
    assert found["__key__"] == "0" and found["__url__"].endswith("a.tar")
    assert found["image.npy"].tolist() == [0, 1, 2] and found["image.json"] == {"w": 2}
    assert (found["mp4"], found["mp4.json"], found["info"]) == (b"video", {"m": 2}, {"i": 1})
    assert (found["x.txt"], found["x.cls"], found["jpg"], found["jpg.cls"]) == ("cap", 4, b"\xff\xd8", 3)
    assert (found["__key__.txt"], found["__url__.txt"]) == ("other", "other")
    assert len(found) == len(files) + 2
    write(tmp_path / "b.tar", [("0", {"__key__": b"other"}), ("1", {"txt": b"one"})])
    dataset = tensorfile.webdataset(str(tmp_path / "b.tar"), errors="skip")
    assert [sample["__key__"] for sample in dataset] == ["1"] and dataset.skipped[0] == 1


def test_compressed_files_are_decoded(tmp_path):
    files = {"json.gz": gzip.compress(b'{"a": 1}'), "txt.gz": gzip.compress(b"hi"), "x.npy.gz": gzip.compress(npy(np.arange(2))), "nii.gz": b"kept"}
    write(tmp_path / "a.tar", [("0", files)])
    (found,) = tensorfile.webdataset(str(tmp_path / "a.tar"))
    assert (found["json"], found["txt"], found["x"].tolist(), found["nii.gz"]) == ({"a": 1}, "hi", [0, 1], b"kept")


@pytest.mark.parametrize(
    "files, message",
    [
        ({"cls": b"cat"}, "found `cat`"),
        ({"npy": b"\xff\xd8 no array"}, "npy"),
        ({"json": b"[1,2"}, "`json`: Expecting"),
        ({"x.json": b"{1: 2}"}, "`x.json`: "),
        ({"txt": b"\xff"}, "`txt` is not UTF-8"),
        ({"npy": npy(np.array(["a", "bc"]))}, "unknown dtype"),
        ({"json.gz": b"no gzip"}, "`json.gz`, decompressed: "),
    ],
)
def test_what_cannot_be_decoded_is_skipped(tmp_path, files, message):
    good = {"npy": npy(np.arange(3)), "cls": b"1"}
    write(tmp_path / "a.tar", [("0", good), ("1", {"jpg": b"x", **files}), ("2", good)])
    path = str(tmp_path / "a.tar")
    with pytest.raises((ValueError, TypeError), match=f"a.tar: sample `1` at byte .*{message}"):
        list(tensorfile.webdataset(path))
    dataset = tensorfile.webdataset(path, errors="skip")
    assert [sample["__key__"] for sample in dataset] == ["0", "2"]
    samples, shards, last = dataset.skipped
    assert (samples, shards) == (1, 0) and "sample `1`" in last


def test_a_byte_order_mark_is_no_json(tmp_path):
    write(tmp_path / "a.tar", [("0", {"json": b'\xef\xbb\xbf{"a": 1}'})])
    (found,) = tensorfile.webdataset(str(tmp_path / "a.tar"))
    assert found["json"] == {"a": 1}


def test_the_end_of_a_shard_is_checked(tmp_path, shards):
    path = tmp_path / "s-0.tar"
    content = path.read_bytes()
    with tarfile.open(path) as tar:
        cut = tar.getmembers()[-8].offset_data // 512 * 512 + 512
    for changed, message in ((content[:cut], "it may be cut"), (content + content, "are left out; archives that `cat` joined")):
        path.write_bytes(changed)
        with pytest.warns(UserWarning, match=f"s-0.tar: .*{message}") as caught:
            assert len(list(tensorfile.webdataset(shards))) > 15
        assert len(caught) == 1
        with pytest.raises(tensorfile.FormatError, match=f"s-0.tar: .*{message}"):
            list(tensorfile.webdataset(shards, errors="strict"))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            samples, found = iter(tensorfile.webdataset(shards)), []
            with pytest.raises(UserWarning, match=message):
                found.extend(samples)
            # Nothing is lost if it goes on.
            assert keys(found + list(samples))[-15:] == list(range(5, 20))


def test_a_buffer_is_not_lost(shards):
    dataset = tensorfile.webdataset(shards, shuffle=5, seed=1)
    samples = iter(dataset)
    first = [next(samples) for _ in range(9)]
    in_order = tensorfile.webdataset(shards)
    in_order.load_state_dict(dataset.state_dict())
    with pytest.raises(ValueError, match="one of a shuffle, whose buffer has 4 samples"):
        list(in_order)
    larger = tensorfile.webdataset(shards, shuffle=100)
    larger.load_state_dict(dataset.state_dict())
    assert sorted(keys(first) + keys(larger)) == list(range(20))


def test_epochs_have_their_own_order(shards):
    dataset = tensorfile.webdataset(shards, shuffle=8, seed=1)
    orders = []
    for epoch in (0, 1, 2, 0):
        dataset.set_epoch(epoch)
        orders.append(keys(dataset))
    assert orders[0] == orders[3] and len({tuple(order) for order in orders}) == 3
    assert all(sorted(order) == list(range(20)) for order in orders)
    # A state remembers the epoch.
    dataset.set_epoch(2)
    samples = iter(dataset)
    first = [next(samples) for _ in range(3)]
    resumed = tensorfile.webdataset(shards, shuffle=8, seed=1)
    resumed.load_state_dict(json.loads(json.dumps(dataset.state_dict())))
    assert keys(first) + keys(resumed) == orders[2] and keys(resumed) == orders[2]
    other = pickle.loads(pickle.dumps(dataset))
    assert keys(first) + keys(other) == orders[2]


def test_ranks_have_equal_shares(tmp_path, shards):
    write(tmp_path / "s-0.tar", [sample(0)])
    whole = [keys(tensorfile.webdataset(shards, rank=rank, world=3)) for rank in range(3)]
    assert [len(part) for part in whole] == [6, 5, 5]
    for count in (0, 3, 5, 14):
        for rank in range(3):
            dataset = tensorfile.webdataset(shards, rank=rank, world=3, samples=count, shuffle=3)
            found = keys(dataset)
            assert len(found) == count and set(found) <= set(whole[rank])
            if count > 6:
                assert set(found) == set(whole[rank])
            for taken in {0, 1, count // 2, count}:
                samples = iter(dataset)
                first = [next(samples) for _ in range(min(taken, count))]
                resumed = tensorfile.webdataset(shards, rank=rank, world=3, samples=count, shuffle=3)
                resumed.load_state_dict(json.loads(json.dumps(dataset.state_dict())))
                assert keys(first) + keys(resumed) == found
    with pytest.warns(UserWarning, match="6 ranks share 4 shards, so that some have no samples"):
        assert keys(tensorfile.webdataset(shards, rank=5, world=6)) == []
    with pytest.raises(ValueError, match="6 ranks share 4 shards.*number 5 has none"):
        tensorfile.webdataset(shards, rank=5, world=6, samples=3)
    (tmp_path / "e.tar").write_bytes(bytes(10240))
    assert list(tensorfile.webdataset(str(tmp_path / "e.tar"))) == []
    with pytest.raises(ValueError, match="the 1 shards have no samples, and 3 are asked for"):
        list(tensorfile.webdataset(str(tmp_path / "e.tar"), samples=3))


def test_pipes_and_standard_input(tmp_path, shards):
    code = """
import json, sys, tensorfile
dataset = tensorfile.webdataset("-", shuffle=int(sys.argv[1]), errors="skip")
print(json.dumps([sample["__key__"] for sample in dataset] + list(dataset.skipped)))
"""
    content = (tmp_path / "s-0.tar").read_bytes()
    for shuffle in ("0", "3"):
        run = subprocess.run([sys.executable, "-c", code, shuffle], input=content, capture_output=True, check=True)
        found = json.loads(run.stdout)
        assert sorted(found[:5]) == [f"a/{i:03}" for i in range(5)] and found[5:] == [0, 0, None]


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
def test_ctrl_c_ends_waiting_for_a_server():
    # It takes connections, and says nothing.
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = """
import sys, tensorfile
dataset = tensorfile.webdataset(f"http://127.0.0.1:{sys.argv[1]}/a.tar")
samples = iter(dataset)
try:
    print("waits", flush=True)
    next(samples)
except KeyboardInterrupt:
    print("ended", dataset.skipped, sorted(dataset.state_dict()))
"""
        arguments = [sys.executable, "-c", code, str(server.getsockname()[1])]
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            assert process.stdout.readline() == "waits\n"
            connection, _ = server.accept()
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20)
            connection.close()
        finally:
            process.kill()
            process.wait()
    assert (out, err, process.returncode) == ("ended (0, 0, None) ['epoch', 'state']\n", "", 0)


def test_torch_divides_the_shards(shards, monkeypatch):
    torch = pytest.importorskip("torch")
    from tensorfile.torch import WebDataset

    for workers in (0, 2):
        loader = torch.utils.data.DataLoader(WebDataset(shards), batch_size=None, num_workers=workers)
        found = list(loader)
        assert sorted(keys(found)) == list(range(20))
        assert all(isinstance(sample["image"], torch.Tensor) for sample in found)
    monkeypatch.setenv("WORLD_SIZE", "2")
    halves = []
    for rank in "01":
        monkeypatch.setenv("RANK", rank)
        halves.append(keys(WebDataset(shards)))
    assert sorted(sum(halves, [])) == list(range(20)) and len(halves[0]) == 10
    dataset = WebDataset(shards)
    samples = iter(dataset)
    next(samples)
    resumed = WebDataset(shards)
    resumed.load_state_dict(dataset.state_dict())
    assert keys(resumed) == keys(samples)


def test_torch_keeps_dtypes_and_shares(shards, tmp_path):
    torch = pytest.importorskip("torch")
    from tensorfile.torch import WebDataset

    dtypes = [torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.float32, torch.bool]
    state = {dtype: torch.tensor([[0.5, 1.0]]).to(dtype) for dtype in dtypes}
    files = {}
    for i, tensor in enumerate(state.values()):
        tensorfile.torch.save_file({"w": tensor}, tmp_path / "x.safetensors")
        files[f"t{i}.safetensors"] = (tmp_path / "x.safetensors").read_bytes()
    write(tmp_path / "t.tar", [("0", files)])
    (found,) = WebDataset(str(tmp_path / "t.tar"))
    for i, (dtype, tensor) in enumerate(state.items()):
        assert found[f"t{i}.w"].dtype == dtype and torch.equal(found[f"t{i}.w"].float(), tensor.float())
    write(tmp_path / "u.tar", [("0", {"npy": npy(np.array(["a"]))}), ("1", {"npy": npy(np.arange(1))})])
    with pytest.raises(TypeError, match="u.tar: sample `0`: .*unknown dtype"):
        list(WebDataset(str(tmp_path / "u.tar")))
    skipping = WebDataset(str(tmp_path / "u.tar"), errors="skip")
    assert [sample["__key__"] for sample in skipping] == ["1"] and skipping.skipped[:2] == (1, 0)

    for workers, persistent in ((0, False), (2, False), (2, True)):
        dataset = WebDataset(shards, shuffle=8, samples=13)
        loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=workers, persistent_workers=persistent)
        orders = []
        for epoch in (0, 1, 0):
            dataset.set_epoch(epoch)
            orders.append(keys(loader))
        assert [len(order) for order in orders] == [13] * 3 and orders[0] == orders[2] != orders[1]
    with pytest.warns(UserWarning, match="ranks and workers share 4 shards"):
        os.environ.update(RANK="0", WORLD_SIZE="5")
        try:
            list(WebDataset(shards))
            with pytest.raises(ValueError, match="5 ranks share 4 shards, and each rank needs one"):
                list(WebDataset(shards, samples=2))
        finally:
            del os.environ["RANK"], os.environ["WORLD_SIZE"]


def test_equals_pythons_webdataset(shards):
    webdataset = pytest.importorskip("webdataset")
    theirs = list(webdataset.WebDataset(shards, shardshuffle=False).decode())
    ours = list(tensorfile.webdataset(shards))
    assert len(theirs) == len(ours) == 20
    for their, our in zip(theirs, ours):
        assert their["__key__"] == our["__key__"] and their["cls"] == our["cls"] and their["json"] == our["json"]
        assert (their["image.ten"][0] == our["image"]).all() and (their["mask.npy"] == our["mask"]).all()
        assert their["caption.txt"] == our["caption"] and (their["pair.npz"]["left"] == our["pair.left"]).all()


def test_every_file_is_there_as_in_pythons_webdataset(tmp_path):
    webdataset = pytest.importorskip("webdataset")
    random = np.random.default_rng(42)
    names = ["", "x", "x.npy", "x.json", "y", "info", "y.cls"]
    contents = {
        "npy": npy(np.arange(3)),
        "json": b'{"a": 1}',
        "txt": b"text",
        "cls": b"3",
        "jpg": b"\xff\xd8",
        "bin": b"\0\1",
        "json.gz": gzip.compress(b"[1]"),
        "npy.gz": gzip.compress(npy(np.ones(2))),
    }
    extensions = [f"{name}.{kind}".lstrip(".") for name in names for kind in contents]
    samples = []
    for i in range(300):
        chosen = random.choice(extensions, size=random.integers(1, 9), replace=False)
        samples.append((f"{i:04}", {name: next(contents[kind] for kind in sorted(contents, key=len, reverse=True) if f".{name}".endswith(f".{kind}")) for name in chosen}))
    write(tmp_path / "a.tar", samples)
    # Its decoder of images needs another package.
    decoded = webdataset.WebDataset(str(tmp_path / "a.tar"), shardshuffle=False).decode(only=["npy", "json", "txt", "cls", "gz"])
    theirs, ours = list(decoded), list(tensorfile.webdataset(str(tmp_path / "a.tar")))
    assert len(theirs) == len(ours) == len(samples)
    raw = webdataset.WebDataset(str(tmp_path / "a.tar"), shardshuffle=False)
    for (key, files), their, bare, our in zip(samples, theirs, raw, ours):
        assert our.pop("__key__") == key == bare["__key__"]
        our.pop("__url__")
        assert len(our) == len(files), (sorted(our), sorted(files))
        for name in files:
            # Its own name, unless another file has it, or that name is the extension of one.
            plain = name.removesuffix(".gz") if name.endswith(("json.gz", "npy.gz")) else name
            short, _, last = plain.rpartition(".")
            short = plain if last in ("jpg", "bin") or not short else short
            found = our[name] if name in our else our[short]
            expected = their[name] if not isinstance(their[name], bytes) or last in ("jpg", "bin") else None
            if expected is not None:
                assert np.array_equal(found, expected) if isinstance(expected, np.ndarray) else found == expected, (name, found)
