"""Samples of shards as rows of Ray Data, beside Ray's own `read_webdataset`, in one run.

    python -m pip install 'python/[ray]' webdataset
    python python/benches/on_ray.py [SAMPLES]

Prints rows for each second of processor time: of the driver, the workers and the processes of Ray together. The shards have
samples of an array of 4 KiB (`.npy`), a label and a text. Both readers decode them, and rows are counted.
"""

import os
import sys
import tempfile
import time

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import numpy as np
import ray
import ray.data
import tensorfile.ray
import webdataset

SHARDS = 8
TICKS = os.sysconf("SC_CLK_TCK")


def processor_time():
    """Return the seconds of processor time of this process and all that descend from it, also of those that ended."""
    stats = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        stats[int(pid)] = int(fields[1]), sum(map(int, fields[11:15]))
    total, own = 0, {os.getpid()}
    while found := {pid for pid, (parent, _) in stats.items() if parent in own or pid in own}:
        total += sum(stats.pop(pid)[1] for pid in found)
        own |= found
    return total / TICKS


def count(batch):
    return {"rows": [len(batch["__key__"])]}


def rows(dataset):
    return sum(row["rows"] for row in dataset.map_batches(count, batch_size=None).take_all())


def write(folder, samples):
    rng = np.random.default_rng(0)
    for shard in range(SHARDS):
        with webdataset.TarWriter(f"{folder}/in-{shard}.tar") as out:
            for i in range(samples // SHARDS):
                sample = {"x.npy": rng.random(1024, "f4"), "label.cls": i % 10, "note.txt": f"sample {i}"}
                out.write({"__key__": f"{shard}-{i:06}", **sample})
    return [f"{folder}/in-{shard}.tar" for shard in range(SHARDS)]


def main(samples):
    with tempfile.TemporaryDirectory() as folder:
        paths = write(folder, samples)
        ray.init(include_dashboard=False, log_to_driver=False, logging_level="error")
        ray.data.DataContext.get_current().enable_progress_bars = False
        readers = {
            "read_webdataset": lambda: rows(ray.data.read_webdataset(paths)),
            "tensorfile.ray.read": lambda: rows(tensorfile.ray.read(paths)),
        }
        least = dict.fromkeys(readers, float("inf"))
        for round in range(4):
            for name, reader in readers.items():
                start = processor_time()
                assert reader() == samples
                # Processes are still busy with the end of the job.
                time.sleep(1)
                # The first round starts workers and imports.
                if round > 0:
                    least[name] = min(least[name], processor_time() - start)
        for name, seconds in least.items():
            print(f"{name:<20}  {samples / seconds:10,.0f} rows per processor second")
        theirs, ours = least.values()
        print(f"{theirs / ours:.1f} x")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40_000)
