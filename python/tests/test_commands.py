"""The commands of the program, as functions and in-process."""

import json
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
import tensorfile as tf

ARRAYS = {"layer.0.w": np.arange(12, dtype="f4").reshape(3, 4), "layer.1.w": np.ones((3, 4), "f4"), "n": np.int64([1, 2])}


@pytest.fixture(autouse=True)
def files(folder):
    tf.save("a.safetensors", ARRAYS, metadata={"k": "v", "format": "pt"})
    tf.save("b.ptd", ARRAYS)


def program(*arguments, **options):
    return subprocess.run([sys.executable, "-m", "tensorfile", *arguments], capture_output=True, text=True, **options)


def test_info():
    info = tf.info("a.safetensors")
    assert (info["file"], info["format"], info["total"]["tensors"]) == ("a.safetensors", "safetensors", 3)
    assert info["metadata"] == {"k": "v", "format": "pt"} and list(info["dtypes"]) == ["i64", "f32"]


def test_verify():
    assert tf.verify("a.safetensors", payload=True)["ok"]
    content = open("a.safetensors", "rb").read()
    open("short.safetensors", "wb").write(content[:-10])
    found = tf.verify("short.safetensors")
    assert not found["ok"] and found["malformed"] and "short.safetensors" not in found["problems"][0]
    found = tf.verify("a.safetensors", format="btf")
    assert not found["ok"] and not found["malformed"] and found["problems"]
    open("b.npz", "wb").write(open("a.safetensors", "rb").read())
    assert tf.verify("b.npz")["ok"] and tf.verify("b.npz")["warnings"][0]["kind"] == "extension"
    assert not tf.verify("b.npz", strict=True)["ok"] and not tf.verify("b.npz", deny=["extension", "gap"])["ok"]


def test_digest():
    assert tf.digest("a.safetensors") == tf.digest("b.ptd") and len(tf.digest("b.ptd")) == 64
    assert tf.open("a.safetensors")["n"].digest() == tf.open("b.ptd")["n"].digest()
    listed = json.loads(program("hash", "--json", "a.safetensors").stdout)[0]
    assert listed["digest"] == tf.digest("a.safetensors")
    assert {t["name"]: t["digest"] for t in listed["tensors"]} == {n: t.digest() for n, t in tf.open("b.ptd").items()}


def test_stats():
    stats = tf.stats("a.safetensors")
    assert set(stats) == set(ARRAYS)
    for name, array in ARRAYS.items():
        found = stats[name]
        assert (found["count"], found["min"], found["max"]) == (array.size, array.min(), array.max())
        assert found["mean"] == pytest.approx(array.mean()) and found["std"] == pytest.approx(array.std())
    assert set(tf.stats("a.safetensors", filter=["layer.*", "!*1*"])) == {"layer.0.w"}


def test_diff():
    assert tf.diff("a.safetensors", "b.ptd")["equal"]
    other = {"x.0.w": ARRAYS["layer.0.w"] + 0.5, "n": ARRAYS["n"].astype("i4")}
    tf.save("c.npz", other)
    found = tf.diff("a.safetensors", "c.npz", rename=["layer.*=x.*"])
    assert not found["equal"]
    assert {t["name"]: t["what"] for t in found["tensors"]} == {
        "x.0.w": ["values"],
        "layer.1.w": ["only_in_a"],
        "n": ["dtype"],
    }
    assert tf.diff("a.safetensors", "c.npz", rename=["layer.*=x.*"], filter=["x.0.w"], atol=0.5)["equal"]
    assert tf.diff("a.safetensors", "c.npz", filter=["n"], ignore_dtype=True)["equal"]
    assert not tf.diff("a.safetensors", "b.ptd", metadata=True)["equal"]


def test_report():
    page = tf.report("a.safetensors", "b.ptd")
    assert page.startswith("<!doctype html>") and page.rstrip().endswith("</html>") and "layer.0.w" in page
    assert len(tf.report("a.safetensors", values=False)) < len(page)


def test_convert():
    tf.convert("a.safetensors", "c.ptd", lossy=True)
    assert tf.diff("a.safetensors", "c.ptd")["equal"]
    with pytest.raises(ValueError, match="cannot keep the metadata `k`; ptd has no place for it"):
        tf.convert("a.safetensors", "d.ptd")
    assert not os.path.exists("d.ptd")
    tf.convert("a.safetensors", "a.safetensors", dtype="bf16")
    file = tf.open("a.safetensors")
    assert {t.dtype for t in file.values()} == {"bf16", "i64"} and file.metadata() == {"k": "v", "format": "pt"}
    tf.convert("b.ptd", "c.bin", format="npz", rename={"n": "*odd=name"}, filter=["n"])
    assert tf.load("c.bin")["*odd=name"].tolist() == [1, 2]
    tf.convert("b.ptd", "c.ptd", rename=["layer.*.w=*"])
    assert tf.open("c.ptd").keys() == ["0", "1", "n"]
    tf.convert("b.ptd", "shards.safetensors", max_shard_bytes=60)
    assert len(tf.open("shards.safetensors.index.json").shards) == 3
    np.save("one.npy", np.arange(3))
    tf.convert("one.npy", "one.safetensors")
    assert tf.open("one.safetensors").keys() == ["one"]
    for arguments, error, message in [
        ({"rename": ["nothing=x"]}, tf.MismatchError, "no tensor matches `nothing`"),
        ({"rename": ["nothing"]}, ValueError, "expected OLD=NEW"),
        ({"filter": ["["]}, ValueError, "is not closed"),
        ({"filter": ["x*"]}, ValueError, "no tensor matches the filter"),
        ({"dtype": "i4"}, ValueError, "`i4` is not a dtype of floats"),
        ({"format": "tin"}, ValueError, "unknown format `tin`"),
    ]:
        with pytest.raises(error, match=message):
            tf.convert("b.ptd", "c.safetensors", **arguments)
    with pytest.raises(FileNotFoundError) as raised:
        tf.convert("nothing.ptd", "c.ptd")
    assert raised.value.filename == "nothing.ptd"


def test_convert_leaves_out_what_describes_the_old_file():
    tf.save("c.safetensors", ARRAYS, metadata={"DCP_SHARDING_INFO": "{}", "split.count": "2", "author": "me"})
    tf.convert("c.safetensors", "d.safetensors")
    assert tf.open("d.safetensors").metadata() == {"author": "me"}
    entries = {"general.file_type": "0", "general.name": "x"}
    tf.save("c.gguf", {"w": ARRAYS["layer.0.w"]}, metadata=entries)
    tf.convert("c.gguf", "d.gguf")
    assert tf.open("d.gguf").metadata() == entries
    tf.convert("c.gguf", "d.gguf", dtype="f16")
    assert tf.open("d.gguf").metadata() == {"general.name": "x"}


def test_convert_of_what_cannot_be_stored(fixtures):
    checkpoint = fixtures / "cases" / "torch2" / "dtype-torch.bcomplex32.pt"
    with pytest.raises(ValueError, match="cannot store torch.bcomplex32"):
        tf.convert(checkpoint, "c.safetensors")
    tf.convert(checkpoint, "c.safetensors", lossy=True)
    assert tf.open("c.safetensors").keys() == ["y"]
    arguments = fixtures / "cases" / "trainer-folders" / "training_args.bin"
    with pytest.raises(ValueError, match="cannot convert nothing; the file has no tensors"):
        tf.convert(arguments, "d.safetensors")
    assert not os.path.exists("d.safetensors")


def test_folders_of_trainers(fixtures):
    folder = tf.open(fixtures / "cases" / "torch2" / "dcp-unflattened")
    assert folder.keys() == ["w", "model.up", "nested.a", "list.0"]
    assert folder.metadata() == {"nested.n": "1", "list.1": "2", "n": "5"}
    os.makedirs("run/weights")
    open("run/weights/model.safetensors", "wb").write(open("a.safetensors", "rb").read())
    with pytest.raises(OSError, match="open `weights` in it, which has the model"):
        tf.open("run")


def test_progress_of_convert():
    tf.save("large.ten", {"w": np.zeros(4_000_000)})
    told = []
    tf.convert("large.ten", "large.ptd", progress=lambda done, total: told.append((done, total)))
    assert len(told) > 2 and told[-1] == (os.path.getsize("large.ptd"),) * 2

    def stop(done, total):
        raise StopIteration("enough")

    with pytest.raises(StopIteration, match="enough"):
        tf.convert("large.ten", "stopped.ptd", progress=stop)
    assert not os.path.exists("stopped.ptd")


def test_edit():
    assert tf.edit("a.safetensors", {"new": "1"}, unset=["format"]) == {"k": "v", "new": "1"}
    assert tf.open("a.safetensors").metadata() == {"k": "v", "new": "1"}
    tf.edit("a.safetensors", unset=["k"], output="c.safetensors")
    assert tf.open("c.safetensors").metadata() == {"new": "1"}
    assert tf.open("a.safetensors").metadata() == {"k": "v", "new": "1"} and tf.diff("a.safetensors", "b.ptd")["equal"]
    with pytest.raises(ValueError, match="ptd"):
        tf.edit("b.ptd", {"k": "v"})

    threads = [threading.Thread(target=tf.edit, args=("a.safetensors", {f"k{i}": "v"})) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {f"k{i}" for i in range(8)} <= tf.open("a.safetensors").metadata().keys()


def test_check():
    spec = {"layer.0.w": ("f32", (None, 4)), "layer.1.w": (None, None), "n": ("i64", (2,))}
    report = tf.check("a.safetensors", spec)
    assert report.ok and str(report) == "all 3 tensors fit" and report.raise_for_mismatch() is None
    assert tf.check(tf.open("a.safetensors"), {"n": ("i64", None)}, allow_unknown=True).ok
    wrong = {"layer.0.w": ("f16", (3, 4)), "layer.1.w": ("f32", (3, None, 4)), "m": ("i64", (2,)), "x": (None, (None,))}
    report = tf.check("a.safetensors", wrong)
    assert not report.ok and str(report) == (
        "2 missing, 1 unexpected, 1 wrong dtype, 1 wrong shape; 0 of 3 tensors fit\n"
        "missing:\n  `m`  i64[2]\n  `x`  [_]\n"
        "unexpected:\n  `n`  i64[2]\n"
        "wrong dtype:\n  `layer.0.w`  f32[3, 4], but expected f16\n"
        "wrong shape:\n  `layer.1.w`  f32[3, 4], but expected [3, _, 4]"
    )
    assert report.missing == {"m": "i64[2]", "x": "[_]"} and report.wrong_dtype == {"layer.0.w": ("f32[3, 4]", "f16")}
    for call in report.raise_for_mismatch, (lambda: tf.load("a.safetensors", spec=wrong)):
        with pytest.raises(tf.MismatchError) as raised:
            call()
        assert raised.value.report == report and str(raised.value) == str(report)
    assert tf.MismatchError("x").report is None
    assert set(tf.load("a.safetensors", spec=spec)) == set(ARRAYS)


def test_failures():
    for call in tf.info, tf.verify, tf.digest, tf.stats, tf.report, (lambda path: tf.diff(path, "b.ptd")):
        with pytest.raises(FileNotFoundError) as raised:
            call("nothing.ptd")
        assert raised.value.errno == 2 and raised.value.filename == "nothing.ptd"
    open("bad.ptd", "wb").write(b"123 and so on, which is no file of tensors")
    for call in tf.info, tf.digest, tf.stats, tf.report, (lambda path: tf.diff("b.ptd", path)):
        with pytest.raises(tf.FormatError, match="bad.ptd"):
            call("bad.ptd")
    with pytest.raises(ValueError, match="invalid value 'tin'"):
        tf.verify("b.ptd", format="tin")
    os.rename("b.ptd", "-b.ptd")
    assert tf.info("-b.ptd")["total"]["tensors"] == 3


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_ends_a_command():
    # A pipe that nobody writes to.
    os.mkfifo("pipe")
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        tf.digest("pipe")
    # Ends the thread, which still waits.
    os.close(os.open("pipe", os.O_WRONLY))


def test_program():
    ran = program("ls", "a.safetensors")
    assert ran.returncode == 0 and ran.stdout.splitlines()[0].split() == ["name", "dtype", "shape", "bytes", "offset"]
    assert str(tf.open("a.safetensors")) + "\n" == ran.stdout
    assert program("diff", "a.safetensors", "b.ptd").returncode == 0
    assert program("ls", "nothing").returncode == 3 and "nothing" in program("ls", "nothing").stderr
    assert program("frob").returncode == 2 and program().returncode == 2
    assert tf.__version__ in program("--version").stdout
    assert program("info", "-", stdin=open("a.safetensors", "rb")).returncode == 0
    script = os.path.join(os.path.dirname(sys.executable), "tensorfile")
    assert subprocess.run([script, "--version"], capture_output=True, text=True).stdout == program("--version").stdout


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_ends_the_program_and_leaves_no_file():
    os.mkfifo("pipe")
    with subprocess.Popen([sys.executable, "-m", "tensorfile", "convert", "pipe", "c.ptd"]) as ran:
        with open("pipe", "wb") as pipe:
            pipe.write(open("a.safetensors", "rb").read()[:100])
            pipe.flush()
            ran.send_signal(signal.SIGINT)
            assert ran.wait(timeout=60) == 130
    assert not [name for name in os.listdir() if "c.ptd" in name]
