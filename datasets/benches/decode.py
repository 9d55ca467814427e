"""Prints how many samples Python's webdataset decodes per second of processor time: decode.py PATTERN RUNS."""

import glob
import sys
import time

import webdataset

shards = sorted(glob.glob(sys.argv[1]))
best = 0
for _ in range(int(sys.argv[2])):
    count, total = 0, 0
    start = time.process_time()
    for sample in webdataset.WebDataset(shards, shardshuffle=False).decode():
        (image,), (embedding,) = sample["image.ten"], sample["embedding.ten"]
        total += int(image[0, 0, 0]) + len(embedding) + sample["label.cls"] + len(sample["json"]["caption"])
        count += 1
    best = max(best, count / (time.process_time() - start))
print(best)
