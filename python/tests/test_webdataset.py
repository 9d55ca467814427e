"""`tensorfile.webdataset`, beside Python's webdataset where it is installed."""

import gzip
import io
import json
import tarfile

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


def test_equals_pythons_webdataset(shards):
    webdataset = pytest.importorskip("webdataset")
    theirs = list(webdataset.WebDataset(shards, shardshuffle=False).decode())
    ours = list(tensorfile.webdataset(shards))
    assert len(theirs) == len(ours) == 20
    for their, our in zip(theirs, ours):
        assert their["__key__"] == our["__key__"] and their["cls"] == our["cls"] and their["json"] == our["json"]
        assert (their["image.ten"][0] == our["image"]).all() and (their["mask.npy"] == our["mask"]).all()
        assert their["caption.txt"] == our["caption"] and (their["pair.npz"]["left"] == our["pair.left"]).all()
