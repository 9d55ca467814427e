"""Processes made by `fork` while other threads read: they read right values, or are refused, and none hangs."""

import gzip
import http.server
import io
import os
import signal
import tarfile
import threading
import time

import numpy as np
import pytest
import tensorfile as tf

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

ARRAYS = {f"w{i}": np.full(3000 + i, i, "f8") for i in range(6)}


class Slow:
    """A file object that other threads wait for."""

    def __init__(self, path):
        self.inner = open(path, "rb")

    def read(self, count):
        time.sleep(0.0005)
        return self.inner.read(count)

    def seek(self, offset, whence):
        return self.inner.seek(offset, whence)


@pytest.fixture
def url():
    class Handler(http.server.SimpleHTTPRequestHandler):
        """Serves the files of the folder, and ranges of them."""

        protocol_version = "HTTP/1.1"

        def do_GET(self):
            content = open(os.path.basename(self.path), "rb").read()
            start, end = 0, len(content)
            if asked := self.headers.get("Range"):
                start, end = (int(bound) for bound in asked.removeprefix("bytes=").split("-"))
                end = min(end + 1, len(content))
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(content)}")
            else:
                self.send_response(200)
            self.send_header("Content-Length", str(end - start))
            self.send_header("ETag", '"one"')
            self.end_headers()
            self.wfile.write(content[start:end])

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


# How a file of each kind of source is opened, given the URL of a server, and whether forked processes may read it.
SOURCES = {
    "mapped": (lambda url: tf.open("a.safetensors"), True),
    "positioned": (lambda url: tf.open("a.safetensors", mmap=False), True),
    "packed": (lambda url: tf.open("packed.npz"), True),
    "parts": (lambda url: tf.open("parts.safetensors"), True),
    "parts, positioned": (lambda url: tf.open("parts.safetensors", mmap=False), True),
    "shard": (lambda url: tf.open("a.tar"), True),
    "bytes": (lambda url: tf.open_bytes(open("a.safetensors", "rb").read()), True),
    "BytesIO": (lambda url: tf.open(io.BytesIO(open("a.safetensors", "rb").read())), True),
    "buffered file": (lambda url: tf.open(open("a.safetensors", "rb")), True),
    "raw file": (lambda url: tf.open(open("a.safetensors", "rb", buffering=0)), True),
    "file object": (lambda url: tf.open(Slow("a.safetensors")), False),
    "gzip": (lambda url: tf.open(gzip.open("a.gz")), False),
    "URL": (lambda url: tf.open(f"{url}/a.safetensors"), True),
}


def is_right(file):
    return all((file[name].numpy() == tensor).all() and np.asarray(file[name])[0] == tensor[0] for name, tensor in arrays_of(file))


def arrays_of(file):
    return [(name, ARRAYS[name.rpartition("/")[2].partition(".")[0]]) for name in file.keys()]


@pytest.mark.parametrize("kind", SOURCES)
def test_forks_while_a_file_is_read(url, kind):
    tf.save("a.safetensors", ARRAYS)
    np.savez_compressed("packed.npz", **ARRAYS)
    tf.save("parts.safetensors", ARRAYS, max_shard_bytes=60_000)
    with gzip.open("a.gz", "wb") as packed:
        packed.write(open("a.safetensors", "rb").read())
    with tarfile.open("a.tar", "w") as tar:
        for name, array in ARRAYS.items():
            np.save("x.npy", array)
            tar.add("x.npy", f"{name}.x.npy")
    make, may_read = SOURCES[kind]
    file = make(url)
    stop, read = threading.Event(), []

    def work():
        while not stop.is_set():
            read.append(is_right(file))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        # Requests take longer.
        count = 2 if kind == "URL" else 8
        statuses = [forked(lambda: child(file, make, url, may_read)) for _ in range(count)]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert statuses == [0] * count and all(read) and is_right(file)


def child(file, make, url, may_read):
    """Read in a forked process, and return the exit code."""
    if not may_read:
        try:
            file["w0"].numpy()
            return 2
        except RuntimeError as error:
            assert "was opened before a fork" in str(error) and "open it again" in str(error)
    elif not is_right(file):
        return 3
    return 0 if is_right(make(url)) else 4


def forked(work):
    """Return the status of a process that works: the signal, if one ended it."""
    process = os.fork()
    if process == 0:
        # It ends a process that hangs.
        signal.alarm(60)
        code = 1
        try:
            code = work()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def test_positions_of_file_objects_stay():
    tf.save("a.safetensors", ARRAYS)
    with open("a.safetensors", "rb") as source:
        source.seek(7)
        file = tf.open(source)
        assert is_right(file) and source.tell() == 7
    # The object is closed, and its descriptor was another one.
    assert is_right(file)


def test_file_objects_with_other_bytes_than_their_descriptor():
    tf.save("a.safetensors", ARRAYS)
    content = open("a.safetensors", "rb").read()
    with gzip.open("a.gz", "wb") as packed:
        packed.write(content)
    with gzip.open("a.gz") as source:
        assert is_right(tf.open(source))

    class Shifted(io.FileIO):
        """Passes over a few bytes at the start."""

        def seek(self, offset, whence=0):
            return super().seek(offset + 3 if whence == 0 else offset, whence) - 3

    open("shifted", "wb").write(b"abc" + content)
    for source in Shifted("shifted"), io.BufferedReader(Shifted("shifted")):
        assert is_right(tf.open(source))
    # What is not written yet is read.
    with open("new", "w+b") as source:
        source.write(content)
        assert is_right(tf.open(source))
    import tempfile

    with tempfile.NamedTemporaryFile() as source:
        source.write(content)
        assert is_right(tf.open(source))


def test_iterators_are_not_shared_with_forks():
    for i in range(3):
        np.save("x.npy", np.array([i]))
        with tarfile.open("a.tar", "a") as tar:
            tar.add("x.npy", f"{i}.x.npy")
    samples = tf.webdataset("a.tar")
    walk = iter(samples)
    next(walk)

    def work():
        try:
            next(walk)
        except RuntimeError as error:
            # The dataset itself begins anew.
            return 0 if "before a fork" in str(error) and len(list(samples)) == 3 else 2
        return 3

    assert forked(work) == 0 and len(list(walk)) == 2
