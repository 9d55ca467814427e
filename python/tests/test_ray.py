"""Jobs on a cluster of Ray, of which a node is lost. `python/ray.sh` runs them; elsewhere Ray is missing."""

import json
import os
import pathlib
import tarfile
import tempfile
import threading
import time

import numpy as np
import pytest

os.environ.update(
    # Binds to 127.0.0.1.
    RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0",
    RAY_AUTH_MODE="disabled",
    RAY_USAGE_STATS_ENABLED="0",
    # A busy machine is slow to answer.
    RAY_health_check_failure_threshold="20",
)
ray = pytest.importorskip("ray")

import ray.data
import tensorfile
import tensorfile.ray
from ray.cluster_utils import Cluster

SHARDS, SAMPLES = 12, 1500


@pytest.fixture(scope="module")
def cluster():
    """Three nodes, one of them without processors, in processes of this machine."""
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder:
        os.environ["RAY_TMPDIR"] = folder
        head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": 150_000_000}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        cluster.workers = [cluster.add_node(num_cpus=1, object_store_memory=150_000_000) for _ in range(2)]
        cluster.wait_for_nodes()
        ray.init(address=cluster.address, log_to_driver=False, logging_level="warning")
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        yield cluster
        ray.shutdown()
        cluster.shutdown()


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """Shards that Python's webdataset writes."""
    webdataset = pytest.importorskip("webdataset")
    folder = tmp_path_factory.mktemp("shards")
    for shard in range(SHARDS):
        with webdataset.TarWriter(str(folder / f"in-{shard:03}.tar")) as out:
            for i in range(shard * SAMPLES, (shard + 1) * SAMPLES):
                sample = {"x.npy": np.full((16, 16), i, "f4"), "label.cls": i, "note.txt": f"sample {i}", "raw.bin": b"\0\1"}
                out.write({"__key__": f"{i:06}", **sample})
    return folder


def files(folder):
    return {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}


def test_rows_of_shards_are_samples(cluster, shards):
    pattern = str(shards / "in-{000..001}.tar")
    rows = tensorfile.ray.read(pattern, target_bytes=1 << 20).take_all()
    rows.sort(key=lambda row: row["__key__"])
    assert [row["label"] for row in rows] == list(range(2 * SAMPLES))
    for row in rows[:: SAMPLES // 3]:
        assert row["x"].dtype == np.float32 and (row["x"] == row["label"]).all() and row["x"].shape == (16, 16)
        assert (row["note"], row["raw.bin"]) == (f"sample {row['label']}", b"\0\1")
    found = tensorfile.ray.read(pattern, columns=["label"]).take(1)[0]
    assert found.keys() == {"label", "__split__"}


def test_columns_that_samples_lack_are_none(cluster, folder):
    webdataset = pytest.importorskip("webdataset")
    # Of the second shard, no sample has the array.
    for shard in range(2):
        with webdataset.TarWriter(f"in-{shard}.tar") as out:
            for i in range(shard * 4, shard * 4 + 4):
                array = {"x.npy": np.full((2, 3), i, "f4"), "label.cls": i} if i in (1, 2) else {}
                out.write({"__key__": f"{i}", "note.txt": f"sample {i}", **array})
    dataset = tensorfile.ray.read("in-{0..1}.tar", target_bytes=1)
    assert dataset.count() == 8
    dataset = tensorfile.ray.read("in-{0..1}.tar", target_bytes=os.path.getsize("in-0.tar"))
    rows = sorted(dataset.take_all(), key=lambda row: row["__key__"])
    assert [row["note"] for row in rows] == [f"sample {i}" for i in range(8)]
    for i, row in enumerate(rows[:4]):
        if i in (1, 2):
            assert row["x"].dtype == np.float32 and (row["x"] == np.full((2, 3), i)).all() and row["label"] == i
        else:
            assert row["x"] is None and row["label"] is None
    assert tensorfile.ray.read("in-{0..1}.tar", columns=["x"]).count() == 8

    def filled(batch):
        missing = [None] * len(batch["__key__"])
        return {"x": np.stack([np.zeros((2, 3), "f4") if x is None else x for x in batch.get("x", missing)])}

    (together,) = dataset.map_batches(filled, batch_size=None).iter_batches(batch_size=8)
    assert sorted(together["x"].sum(axis=(1, 2))) == [0] * 6 + [6, 12]

    written = tensorfile.ray.write(dataset, "copied", "tar")
    members = []
    for name in written.files:
        with tarfile.open(f"copied/{name}") as part:
            members += part.getnames()
    arrays = [name for i in (1, 2) for name in (f"{i}.x.ten", f"{i}.label.cls")]
    assert sorted(members) == sorted(arrays + [f"{i}.note.txt" for i in range(8)])


def test_samples_keep_names_and_dtypes(cluster, folder):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    webdataset = pytest.importorskip("webdataset")
    half = np.arange(4).reshape(2, 2).astype(ml_dtypes.bfloat16)
    tensorfile.save("half.safetensors", {"h": half, "e": half.astype(ml_dtypes.float8_e4m3fn)})
    tensors = pathlib.Path("half.safetensors").read_bytes()
    with webdataset.TarWriter("in-0.tar") as out:
        for i in range(4):
            files = {"w.safetensors": tensors, "x.npy": np.full(2, i), "x.json": {"i": i}, "jpg": b"raw", "jpg.cls": i}
            out.write({"__key__": f"{i}", **{name: files[name] for name in files}, **({"y.npy": np.ones(1)} if i else {"y.txt": "text"})})
    dataset = tensorfile.ray.read("in-0.tar")
    rows = sorted(dataset.take_all(), key=lambda row: row["__key__"])
    for i, row in enumerate(rows):
        assert row["w.h"].dtype == half.dtype and (row["w.h"] == half).all()
        assert row["w.e"].dtype == ml_dtypes.float8_e4m3fn and (row["w.e"].astype("f4") == half.astype("f4")).all()
        assert row["x.npy"].tolist() == [i, i] and json.loads(row["x.json"]) == {"i": i}
        assert (row["jpg"], row["jpg.cls"]) == (b"raw", i)
        assert row["y"].tolist() == [1] if i else row["y"] == "text"


def test_rows_of_files_are_tensors(cluster, folder):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    tensorfile.save("a.safetensors", {"w": np.eye(2), "half": np.ones(3, ml_dtypes.bfloat16)})
    np.save("b.npy", np.arange(5))
    rows = tensorfile.ray.read(["a.safetensors", "*.npy"]).take_all()
    found = {(os.path.basename(row["path"]), row["name"]): row for row in rows}
    assert found.keys() == {("a.safetensors", "w"), ("a.safetensors", "half"), ("b.npy", "0")}
    half = found["a.safetensors", "half"]
    assert (half["dtype"], list(half["shape"])) == ("bf16", [3]) and len(half["data"]) == 6
    assert tensorfile.ray.array(half).dtype == ml_dtypes.bfloat16
    assert (tensorfile.ray.array(found["a.safetensors", "w"]) == np.eye(2)).all()

    written = tensorfile.ray.convert(["a.safetensors", "b.npy"], "converted", "safetensors")
    assert sorted(tensorfile.open(written.path)) == ["a.half", "a.w", "b"] and written.rows == 3
    # Cut between its tensors, which keep their names.
    written = tensorfile.ray.write(tensorfile.ray.read("a.safetensors", target_bytes=1), "copied", "safetensors")
    assert len(written.files) == 2 and tensorfile.diff("a.safetensors", "copied")["equal"]


def test_checks_are_rows(cluster, folder):
    tensorfile.save("good.safetensors", {"w": np.float32([1, np.nan, 3])})
    pathlib.Path("bad.safetensors").write_bytes(b"no tensors")
    found = {os.path.basename(row["path"]): row for row in tensorfile.ray.verify("*.safetensors").take_all()}
    assert found["good.safetensors"]["ok"] and not found["bad.safetensors"]["ok"]
    assert len(found["bad.safetensors"]["problems"]) == 1
    (row,) = tensorfile.ray.stats("good.safetensors").take_all()
    assert (row["name"], row["mean"], row["nans"], row["positive_infinities"]) == ("w", 2, 1, 0)


def test_rows_that_left_their_split_are_refused(cluster, shards, folder):
    dataset = tensorfile.ray.read(str(shards / "in-000.tar"), target_bytes=1 << 20)
    with pytest.raises(ray.exceptions.RayTaskError, match="a block has rows of .* splits"):
        tensorfile.ray.write(dataset.repartition(1), "moved", "tar")
    with pytest.raises(ray.exceptions.RayTaskError, match="no column `__split__`"):
        tensorfile.ray.write(dataset.drop_columns(["__split__"]), "moved", "tar")
    first = dataset.map_batches(lambda batch: batch if 0 in batch["label"] else {n: c[:0] for n, c in batch.items()}, batch_size=None)
    with pytest.raises(ValueError, match="split 2 of .* is missing"):
        tensorfile.ray.write(first, "first", "tar")
    assert tensorfile.ray.write(first, "first", "tar", empty=True).rows > 0


def test_a_lost_node_changes_nothing(cluster, shards, folder):
    pattern = str(shards / "in-{000..011}.tar")
    starts = folder / "starts"
    starts.mkdir()

    def marked(batch):
        (identity,) = set(batch["__split__"])
        node = ray.get_runtime_context().get_node_id()
        (starts / f"{json.loads(identity)[1]}-{node}").touch()
        time.sleep(0.3)
        return {**batch, "x": batch["x"] * 2}

    dataset = tensorfile.ray.read(pattern, target_bytes=4 << 20).map_batches(marked, batch_size=None)
    undisturbed = tensorfile.ray.write(dataset, "undisturbed", "tar")
    assert undisturbed.rows == SHARDS * SAMPLES and len(undisturbed.files) > 20
    assert files("undisturbed").keys() == {*undisturbed.files, "index.json"}
    for path in starts.iterdir():
        path.unlink()

    lost = cluster.workers.pop()
    results = []
    job = threading.Thread(target=lambda: results.append(tensorfile.ray.write(dataset, "disturbed", "tar")))
    job.start()
    # In the middle of a split of that node, after it did one.
    finished = lambda path: any(pathlib.Path("disturbed").glob(f"part-{int(path.name.split('-')[0]):05}-*"))
    while True:
        own = [path for path in starts.glob(f"*-{lost.node_id}")]
        if len(own) > 1 and not all(map(finished, own)):
            break
        assert job.is_alive(), results
        time.sleep(0.01)
    cluster.remove_node(lost, allow_graceful=False)
    job.join()
    (disturbed,) = results

    attempts = [int(path.name.split("-")[0]) for path in starts.iterdir()]
    assert len(attempts) > len(set(attempts)), "a split was run twice"
    assert disturbed._replace(path="") == undisturbed._replace(path="")
    assert files("disturbed") == files("undisturbed"), "the same bytes, and no temporary file"
    keys = []
    for name in disturbed.files:
        with tarfile.open(f"disturbed/{name}") as part:
            keys += [member.name.split(".")[0] for member in part if member.name.endswith(".cls")]
    assert keys == [f"{i:06}" for i in range(SHARDS * SAMPLES)], "every sample is there exactly once"
