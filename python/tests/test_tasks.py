"""The tasks of newcomers, each as a script that they write. The guide has them too."""

import os
import subprocess
import sys

import numpy as np
import pytest
import tensorfile

from test_urls import url  # noqa: F401, a fixture


def run(script, *arguments):
    ran = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


SCRIPT = """
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load, load_file, save, save_file

weights = {"w": np.arange(6, dtype="f4").reshape(2, 3), "b": np.float16([1, 2]), "step": np.array(7)}
save_file(weights, "model.safetensors", metadata={"format": "np"})
with safe_open("model.safetensors", framework="np", device="cpu") as file:
    print(file.keys(), file.metadata())
    part = file.get_slice("w")
    print(part.get_shape(), part.get_dtype(), part[:, 1:])
    for name in file.keys():
        print(name, file.get_tensor(name))
    try:
        file.get_tensor("missing")
    except SafetensorError:
        print("missing")
print(sorted(load_file("model.safetensors").items()), sorted(load(save(weights)).items()))
"""


def test_replace_safetensors_in_a_script():
    pytest.importorskip("safetensors")
    assert run(SCRIPT) == run(SCRIPT.replace("from safetensors", "from tensorfile")) != ""


def test_replace_safetensors_in_a_script_for_torch():
    pytest.importorskip("torch")
    pytest.importorskip("safetensors")
    script = SCRIPT.replace("safetensors.numpy", "safetensors.torch").replace('"np"', '"pt"').replace("np.", "torch.")
    script = script.replace("torch.arange(6, dtype=\"f4\")", "torch.arange(6.0)").replace("torch.float16([1, 2])", "torch.ones(2)")
    script = script.replace("torch.array", "torch.tensor").replace("import numpy as np", "import torch")
    assert run(script) == run(script.replace("from safetensors", "from tensorfile")) != ""


def test_open_a_checkpoint_of_torch_safely(fixtures):
    script = """
import sys, tensorfile
checkpoint = tensorfile.load(sys.argv[1])
print({name: array.shape for name, array in checkpoint.items() if name.startswith("layers.0")})
"""
    path = fixtures / "pytorch" / "state_dict.pt"
    assert run(script, str(path)) == "{'layers.0.weight': (3, 3), 'layers.0.bias': (3,)}\n"
    evil = "import os, pickle\nclass Evil:\n  def __reduce__(self): return os.mkdir, ('executed',)\n"
    evil += "pickle.dump({'w': Evil()}, open('evil.pt', 'wb'))"
    run(evil)
    for script in "import tensorfile; tensorfile.load('evil.pt')", "import tensorfile; tensorfile.info('evil.pt')":
        subprocess.run([sys.executable, "-c", script], capture_output=True)
        assert not os.path.exists("executed")


def test_read_a_row_of_a_tensor_on_a_server(url):  # noqa: F811
    from test_urls import Handler

    script = "import sys, tensorfile; print(tensorfile.open(sys.argv[1])['w'][700, :3])"
    assert run(script, f"{url}/model.safetensors") == "[716800. 716801. 716802.]\n"
    # The index, and a row of 4 KiB.
    bounds = [part.removeprefix("bytes=").split("-") for part in Handler.requests]
    assert len(bounds) == 2 and int(bounds[1][1]) + 1 - int(bounds[1][0]) <= 4096


def test_convert_a_folder(fixtures):
    os.mkdir("checkpoints")
    for i in range(3):
        np.savez(f"checkpoints/{i}.npz", w=np.full((2, 3), i + 0.5), step=np.array(i))
    script = """
import pathlib, tensorfile
for path in pathlib.Path("checkpoints").glob("*.npz"):
    tensorfile.convert(path, path.with_suffix(".safetensors"), dtype="bf16")
"""
    run(script)
    assert len(os.listdir("checkpoints")) == 6
    for i in range(3):
        file = tensorfile.open(f"checkpoints/{i}.safetensors")
        assert file["w"].dtype == "bf16" and file["step"][()] == i and (file["w"].numpy() == i + 0.5).all()
