"""Files at URLs, on a server in this process."""

import http.server
import os
import re
import signal
import threading
import time

import numpy as np
import pytest
import tensorfile as tf
import tensorfile.numpy

CONTENT = {}


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves byte ranges of `CONTENT`."""

    requests = []
    # Cleared while the server is silent.
    speaks = threading.Event()
    speaks.set()

    def do_GET(self):
        content = CONTENT.get(self.path.partition("?")[0])
        type(self).requests.append(self.headers.get("Range"))
        self.speaks.wait()
        if content is None:
            self.send_error(404)
            return
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range") or "")
        start, end = (int(found[1]), min(int(found[2]), len(content) - 1)) if found else (0, len(content) - 1)
        self.send_response(206 if found else 200)
        if found:
            self.send_header("Content-Range", f"bytes {start}-{end}/{len(content)}")
        self.send_header("ETag", '"1"')
        self.send_header("Content-Length", str(end + 1 - start))
        self.end_headers()
        try:
            self.wfile.write(content[start : end + 1])
        except OSError:
            # A call that was ended reads no more.
            pass

    def log_message(self, *_):
        pass


@pytest.fixture
def url(folder):
    tf.save("model.safetensors", {"w": np.arange(1 << 20, dtype="f4").reshape(1024, 1024), "b": np.arange(3)})
    CONTENT["/model.safetensors"] = (folder / "model.safetensors").read_bytes()
    Handler.requests = []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        Handler.speaks.set()
        server.shutdown()
        thread.join()


def test_reads_only_what_is_asked_for(url):
    file = tf.open(f"{url}/model.safetensors?token=secret")
    assert len(Handler.requests) == 1 and file.path is None and "secret" not in repr(file)
    assert file["w"][700, :5].tolist() == [716800, 716801, 716802, 716803, 716804]
    first, part = Handler.requests
    start, end = map(int, part.removeprefix("bytes=").split("-"))
    assert end + 1 - start <= 4096
    assert np.asarray(file["b"]).tolist() == [0, 1, 2] and file["b"].numpy().tolist() == [0, 1, 2]


def test_whole_files(url):
    loaded = tf.load(f"{url}/model.safetensors")
    assert loaded["w"][-1, -1] == (1 << 20) - 1 and loaded["b"].tolist() == [0, 1, 2]
    assert tensorfile.numpy.load_file(f"{url}/model.safetensors")["b"].tolist() == [0, 1, 2]
    plan = tf.open(f"{url}/model.safetensors").read_plan(["b"], {"w": np.s_[:2]})
    memory = bytearray(plan.nbytes)
    plan.read_into(memory)
    assert plan.views(memory)["w"][1, 0] == 1024


def test_commands(url):
    assert tf.info(f"{url}/model.safetensors")["total"]["tensors"] == 2
    assert tf.digest(f"{url}/model.safetensors") == tf.digest("model.safetensors")
    assert tf.diff(f"{url}/model.safetensors", "model.safetensors")["equal"]
    tf.convert(f"{url}/model.safetensors", "copy.ptd")
    assert tf.diff("copy.ptd", "model.safetensors")["equal"]
    assert tf.check(f"{url}/model.safetensors", {"w": ("f32", (None, 1024)), "b": ("i64", (3,))}).ok


def test_errors(url):
    for call in tf.open, tf.info, tf.load:
        with pytest.raises(OSError, match="404"):
            call(f"{url}/nothing.safetensors?token=secret")
    with pytest.raises(OSError) as raised:
        tf.open(f"{url}/nothing.safetensors?token=secret")
    assert "secret" not in str(raised.value)
    with pytest.raises(ValueError, match="https?://|URL"):
        tf.save(f"{url}/model.safetensors", {"w": np.zeros(2)})


def test_tensors_are_asked_for_together(url):
    arrays = {f"layers.{i}.weight": np.full(1000, i, "f4") for i in range(100)}
    tf.save("many.safetensors", arrays)
    with open("many.safetensors", "rb") as file:
        CONTENT["/many.safetensors"] = file.read()
    Handler.requests = []
    told = []
    loaded = tf.load(f"{url}/many.safetensors", progress=lambda *progress: told.append(progress))
    assert all((loaded[name] == arrays[name]).all() for name in arrays) and len(Handler.requests) < 10
    assert told == sorted(told) and told[-1] == (400_000, 400_000)

    def stop(done, total):
        raise StopIteration("enough")

    with pytest.raises(StopIteration, match="enough"):
        tf.load(f"{url}/many.safetensors", progress=stop)


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_ends_a_call_while_the_server_is_silent(url):
    file = tf.open(f"{url}/model.safetensors")
    tensor, plan = file["w"], file.read_plan(["w"])
    memory = bytearray(plan.nbytes)
    Handler.speaks.clear()
    for call in [
        lambda: tf.open(f"{url}/model.safetensors"),
        lambda: tf.load(f"{url}/model.safetensors"),
        lambda: tensor[700],
        lambda: tensor.data,
        lambda: np.asarray(tensor),
        lambda: memoryview(tensor),
        tensor.numpy,
        tensor.digest,
        lambda: np.from_dlpack(tensor),
        lambda: tensor.read_into(memory),
        lambda: plan.read_into(memory),
        lambda: tf.convert(f"{url}/model.safetensors", "copy.ptd"),
        lambda: tf.info(f"{url}/model.safetensors"),
        lambda: tf.save("copy.ptd", {"w": tensor}),
    ]:
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            call()
        assert time.monotonic() - start < 10
    Handler.speaks.set()
    # The file is still of use.
    assert tensor[0, :2].tolist() == [0, 1] and tensor.numpy()[-1, -1] == (1 << 20) - 1
    # Nothing is written after the call has ended.
    assert not os.path.exists("copy.ptd")


def test_errors_of_connections():
    import errno
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ConnectionRefusedError) as raised:
        tf.open(f"http://127.0.0.1:{port}/model.safetensors")
    assert raised.value.errno == errno.ECONNREFUSED and raised.value.filename.endswith("/model.safetensors")
