"""Decoded samples per second of processor time, beside webdataset, in one run.

    python -m pip install python/ webdataset numpy
    python python/benches/webdataset_speed.py [SAMPLES]

Each sample is an image of u8, of 64 x 64 x 3 or 256 x 256 x 3, a vector of 64 f32, a label and a line of JSON, as in
`datasets/benches`. There is a tenth as many of the large ones. Both read the same shards on one thread, and touch every field.
The best of five runs counts.
"""

import json
import os
import sys
import tempfile
import time

import numpy as np
import tensorfile
import webdataset


def write(folder, side, samples):
    for shard in range(0, samples, 2000):
        with open(os.path.join(folder, f"bench-{shard // 2000:06}.tar"), "wb") as file:
            writer = webdataset.TarWriter(file)
            for number in range(shard, min(shard + 2000, samples)):
                writer.write(
                    {
                        "__key__": f"{number:08}",
                        "image.ten": np.full((side, side, 3), number % 256, "u1"),
                        "embedding.ten": np.full(64, number, "f4"),
                        "label.cls": number,
                        "json": {"id": number, "caption": "a sample"},
                    }
                )
            writer.close()


def ours(shards):
    return sum(
        int(sample["image"][0, 0, 0]) + len(sample["embedding"]) + sample["label"] + len(sample["json"]["caption"])
        for sample in tensorfile.webdataset(shards)
    )


def theirs(shards):
    total = 0
    for sample in webdataset.WebDataset(shards, shardshuffle=False).decode():
        (image,), (embedding,) = sample["image.ten"], sample["embedding.ten"]
        total += int(image[0, 0, 0]) + len(embedding) + sample["label.cls"] + len(sample["json"]["caption"])
    return total


def best(run, shards, samples):
    rates, found = [], set()
    for _ in range(5):
        start = time.process_time()
        found.add(run(shards))
        rates.append(samples / (time.process_time() - start))
    (total,) = found
    return max(rates), total


def main(samples):
    for side, samples in [(64, samples), (256, samples // 10)]:
        with tempfile.TemporaryDirectory() as folder:
            write(folder, side, samples)
            shards = sorted(os.path.join(folder, name) for name in os.listdir(folder))
            (our, total), (their, expected) = best(ours, shards, samples), best(theirs, shards, samples)
            assert total == expected
            rates = {"tensorfile": round(our), "webdataset": round(their), "ratio": round(our / their, 1)}
            print(json.dumps({"image": [side, side, 3], **rates}))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)
