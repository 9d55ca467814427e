"""The speed of the package beside safetensors, numpy and, if it is there, torch, in one run.

    python -m pip install python/ safetensors numpy torch
    python python/benches/speed.py [FOLDER]

For another version of safetensors, `pip install --target DIR safetensors==0.9.0rc1`, and run it with `PYTHONPATH=DIR`.

Prints a line for each task: the time of the other package divided by ours, more is better, and both times. They are the
least of several runs, which alternate: of the processor for a task that it limits, on the clock for one in threads.
"""

import mmap
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import safetensors
import safetensors.numpy
import tensorfile
import tensorfile.numpy

try:
    import torch
except ImportError:
    torch = None

MIB = 1 << 20


def least(clock, repeats, calls):
    """Return the least time of each call."""
    times = [[] for _ in calls]
    for _ in range(repeats):
        for call, taken in zip(calls, times):
            start = clock()
            call()
            taken.append(clock() - start)
    return [min(taken) for taken in times]


def compare(task, other, ours, theirs, repeats=9, clock=time.process_time):
    ours, theirs = least(clock, repeats, [ours, theirs])
    kind = "processor" if clock is time.process_time else "clock"
    print(f"{task:<44}  {theirs / ours:6.2f} x {other:<22}  {1e3 * ours:9.3f} ms, {1e3 * theirs:9.3f} ms, {kind}")


def opened_by(module, name):
    def call():
        file = tensorfile.open(name) if module is tensorfile else safetensors.safe_open(name, "np")
        return len(file.keys())

    return call


def touch(file, read):
    for name in file.keys():
        read(file, name).flat[0]


def main(folder):
    os.chdir(folder)
    rng = np.random.default_rng(0)

    print("safetensors", safetensors.__version__, "numpy", np.__version__, "torch", torch and torch.__version__)
    code = "import time; s = time.process_time(); import tensorfile; print(time.process_time() - s)"
    taken = min(float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout) for _ in range(9))
    library = tensorfile._tensorfile.__file__
    print(f"{'import tensorfile':<44}  {1e3 * taken:6.1f} ms; the library has {os.path.getsize(library) / 1e6:.1f} MB")

    small = {f"model.layers.{i // 10}.part{i % 10}.weight": np.zeros(4, "f4") for i in range(10_000)}
    safetensors.numpy.save_file(small, "small.safetensors")
    compare("open 10,000 tensors", "safetensors", opened_by(tensorfile, "small.safetensors"), opened_by(safetensors, "small.safetensors"))

    large = {f"layers.{i}.weight": rng.standard_normal((256, 1024), dtype="f4") for i in range(288)}
    safetensors.numpy.save_file(large, "large.safetensors")
    ours, theirs = tensorfile.open("large.safetensors"), safetensors.safe_open("large.safetensors", "np")
    compare(
        "first touch of 288 tensors of 1 MiB",
        "safetensors",
        lambda: touch(ours, lambda file, name: np.asarray(file[name])),
        lambda: touch(theirs, lambda file, name: file.get_tensor(name)),
    )
    for clock in time.process_time, time.perf_counter:
        compare(
            "load_file, 288 MiB",
            "safetensors",
            lambda: tensorfile.numpy.load_file("large.safetensors"),
            lambda: safetensors.numpy.load_file("large.safetensors"),
            clock=clock,
        )

    def save(module, name):
        def call():
            module.save_file(large, name)

        return call

    compare("save_file, 288 MiB", "safetensors", save(tensorfile.numpy, "a"), save(safetensors.numpy, "b"), 5)
    compare("save_file, 288 MiB", "safetensors", save(tensorfile.numpy, "a"), save(safetensors.numpy, "b"), 5, time.perf_counter)
    ours, theirs = tensorfile.open("large.safetensors"), safetensors.safe_open("large.safetensors", "np")
    compare(
        "128 rows of each of 288 tensors",
        "safetensors",
        lambda: [ours[name][:128] for name in large],
        lambda: [theirs.get_slice(name)[:128] for name in large],
    )

    np.savez("large.npz", **{f"part.{i}": np.concatenate(list(large.values())[72 * i :][:72]) for i in range(4)})
    compare(
        "a member of 72 MiB of npz, by mmap",
        "numpy",
        lambda: tensorfile.open("large.npz")["part.2"].data[0],
        lambda: np.load("large.npz")["part.2"].flat[0],
    )

    with tensorfile.open("large.safetensors", mmap=False) as file:
        plan = file.read_plan()
        memory = mmap.mmap(-1, plan.nbytes)
        descriptor = os.open("large.safetensors", os.O_RDONLY)
        begin, step = plan.spans[0][0], 8 * MIB
        view = memoryview(memory)

        def chunk(start):
            os.preadv(descriptor, [view[start : start + step]], begin + start)

        with ThreadPoolExecutor(2) as pool:
            compare(
                "read_into, 288 MiB, 2 threads",
                "os.preadv in 2 threads",
                lambda: plan.read_into(memory),
                lambda: list(pool.map(chunk, range(0, plan.nbytes, step))),
                clock=time.perf_counter,
            )
        os.close(descriptor)

    if torch is not None:
        from tensorfile.torch import load

        state = {name: torch.from_numpy(large[name]) for name in list(large)[:96]}
        torch.save(state, "model.pt")
        compare(
            "load a .pt of 96 MiB",
            "torch.load(mmap=True)",
            lambda: load("model.pt", mmap=True),
            lambda: torch.load("model.pt", mmap=True),
        )

        def used(tensors):
            return sum(float(tensor.sum()) for tensor in tensors.values())

        assert used(load("model.pt")) == used(torch.load("model.pt"))
        compare(
            "load it, and sum all tensors",
            "torch.load(mmap=True)",
            lambda: used(load("model.pt", mmap=True)),
            lambda: used(torch.load("model.pt", mmap=True)),
        )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(folder)
