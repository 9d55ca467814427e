"""Files at URLs, on a server in this process."""

import http.server
import re
import threading

import numpy as np
import pytest
import tensorfile as tf
import tensorfile.numpy

CONTENT = {}


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves byte ranges of `CONTENT`."""

    requests = []

    def do_GET(self):
        content = CONTENT.get(self.path.partition("?")[0])
        type(self).requests.append(self.headers.get("Range"))
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
        self.wfile.write(content[start : end + 1])

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
