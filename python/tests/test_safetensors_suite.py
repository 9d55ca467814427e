"""The tests of safetensors itself, from its source distribution, with `tensorfile` in its place.

`python/test.sh` puts the tests next to the environment. Without torch, those that need it are left out.
"""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

SOURCE = pathlib.Path(sys.prefix) / "safetensors-0.8.0" / "bindings" / "python" / "tests"

PACKAGE = {
    "__init__.py": """
from tensorfile._safetensors import SafetensorError, safe_open
_safe_open_handle = safe_open
TensorSpec = serialize = serialize_file = deserialize = None
""",
    "numpy.py": "from tensorfile.numpy import *",
    "torch.py": """
from tensorfile.torch import *
from tensorfile.torch import _end_ptr, _find_shared_tensors, _is_complete, _remove_duplicate_names
from tensorfile.torch import storage_ptr, storage_size
""",
}

# The tests that fail, each with the reason.
RAW = "`serialize`, `serialize_file` and `TensorSpec` take addresses of memory; they are not offered"
STRIDED = "tensors in any memory order are saved right, and not refused"
EXCEPTIONS = {
    "test_simple.py::ErrorsTestCase::test_file_not_found": "the exception has `errno` and `filename`",
    "test_simple.py::ReadmeTestCase::test_exception": RAW,
    "test_threadable.py::TestCase::test_serialize_file_releases_gil": RAW,
}
EXCEPTIONS_OF_TORCH = {
    "test_pt_comparison.py::SliceTestCase::test_cannot_serialize_a_non_contiguous_tensor": STRIDED,
    "test_pt_model.py::TorchModelTestCase::test_workaround_non_contiguous": STRIDED,
    "test_pt_model.py::TorchModelTestCase::test_remove_duplicate_names": "a part of a storage is saved",
}

WITHOUT_TORCH = """
import sys, types
from unittest import mock
sys.modules["torch"] = mock.MagicMock(__spec__=None, __version__="2", Tensor=type("Tensor", (), {}))
sys.modules["safetensors.torch"] = mock.MagicMock(__spec__=None)
"""
NEEDS_TORCH = "torch or test_pt or WindowsTestCase or accept_path or fsspec"


@pytest.mark.skipif(not SOURCE.exists(), reason="python/test.sh downloads the tests")
def test_suite_of_safetensors(folder):
    has_torch = importlib.util.find_spec("torch") is not None
    shutil.copytree(SOURCE, "tests")
    os.mkdir("safetensors")
    for name, text in PACKAGE.items():
        pathlib.Path("safetensors", name).write_text(text)
    files = ["simple", "handle", "threadable", "multithreaded"]
    arguments = []
    expected = set(EXCEPTIONS)
    if has_torch:
        files += ["pread_backend", "pt_comparison", "pt_model"]
        expected |= set(EXCEPTIONS_OF_TORCH)
        # Files of other packages' file systems need the package fsspec.
        arguments = [] if importlib.util.find_spec("fsspec") else ["-k", "not fsspec"]
    else:
        pathlib.Path("conftest.py").write_text(WITHOUT_TORCH)
        arguments = ["-k", f"not ({NEEDS_TORCH})"]
    command = [sys.executable, "-m", "pytest", "-q", "-rf", "-p", "no:cacheprovider", "--rootdir", ".", *arguments]
    command += [f"tests/test_{name}.py" for name in files]
    ran = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])})
    failed = set(re.findall(r"^FAILED tests/(\S+)", ran.stdout, re.MULTILINE))
    assert failed == expected, ran.stdout
    passed = int(re.search(r"(\d+) passed", ran.stdout)[1])
    assert passed >= (55 if has_torch else 12), ran.stdout
