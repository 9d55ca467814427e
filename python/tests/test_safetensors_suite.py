"""The tests of safetensors itself, from its source distributions, with `tensorfile` in its place.

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

VERSIONS = ["0.8.0", "0.9.0rc1"]

PACKAGE = {
    "__init__.py": """
from tensorfile import PrefetchLoader, SafetensorError, TensorMeta, TensorSpec
from tensorfile import deserialize, safe_open, serialize, serialize_file
_safe_open_handle = safe_open
""",
    "numpy.py": "from tensorfile.numpy import *",
    "torch.py": """
from tensorfile.torch import *
from tensorfile.torch import _end_ptr, _find_shared_tensors, _is_complete, _remove_duplicate_names
from tensorfile.torch import storage_ptr, storage_size
""",
}

# The tests that fail, each with the reason.
STRIDED = "tensors in any memory order are saved right, and not refused"
EXCEPTIONS = {
    "test_simple.py::ErrorsTestCase::test_file_not_found": "the exception has `errno` and `filename`",
}
ON_CPU = "tensors are also prefetched to the CPU, and for numpy"
EXCEPTIONS_OF_TORCH = {
    "test_pt_comparison.py::SliceTestCase::test_cannot_serialize_a_non_contiguous_tensor": STRIDED,
    "test_pt_model.py::TorchModelTestCase::test_workaround_non_contiguous": STRIDED,
    "test_pt_model.py::TorchModelTestCase::test_remove_duplicate_names": "a part of a storage is saved",
}
EXCEPTIONS_OF_PREFETCH = {
    "test_pread_backend.py::PreadBackendTests::test_prefetch_works_from_any_backend": ON_CPU,
    "test_pread_backend.py::PreadBackendTests::test_prefetch_requires_pt": ON_CPU,
    "test_pread_backend.py::PreadBackendTests::test_prefetch_requires_cuda": ON_CPU,
    "test_pread_backend.py::PreadBackendTests::test_prefetch_device_overrides_the_handle": ON_CPU,
}
# These tests of loaders do not look at a device of CUDA, and pass on the CPU too.
ON_CUDA = re.compile(r"non_default_device|slabs_move|plan_gap|delivered_allocations|int_device|reuses_framework")

WITHOUT_TORCH = """
import sys, types
from unittest import mock
sys.modules["torch"] = mock.MagicMock(__spec__=None, __version__="2", Tensor=type("Tensor", (), {}))
sys.modules["safetensors.torch"] = mock.MagicMock(__spec__=None)
"""
NEEDS_TORCH = "torch or test_pt or WindowsTestCase or accept_path or fsspec"


@pytest.mark.parametrize("version", VERSIONS)
def test_suite_of_safetensors(folder, version):
    source = pathlib.Path(sys.prefix) / f"safetensors-{version}" / "bindings" / "python" / "tests"
    if not source.exists():
        pytest.skip("python/test.sh downloads the tests")
    has_torch = importlib.util.find_spec("torch") is not None
    shutil.copytree(source, "tests")
    os.mkdir("safetensors")
    for name, text in PACKAGE.items():
        pathlib.Path("safetensors", name).write_text(text)
    files = ["simple", "handle", "threadable", "multithreaded"]
    arguments = []
    expected = set(EXCEPTIONS)
    if has_torch:
        files += ["pread_backend", "pt_comparison", "pt_model"]
        expected |= set(EXCEPTIONS_OF_TORCH)
        if version != VERSIONS[0]:
            expected |= set(EXCEPTIONS_OF_PREFETCH)
            prefetch_on_cpu(pathlib.Path("tests/test_pread_backend.py"))
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


def prefetch_on_cpu(path):
    """Let the tests of loaders, which need a device of CUDA, load to the CPU."""
    before, found, cuda = path.read_text().partition("@unittest.skipIf(not torch.cuda.is_available()")
    assert found
    cuda = cuda.partition("\n")[2].replace('"cuda:0"', '"cpu"').replace("torch.cuda.synchronize()", "pass")
    cuda = cuda.replace('got.device.type, "cuda"', 'got.device.type, "cpu"')
    cuda = re.sub(r"    def (test_\w+)", lambda found: f"    def {'of_cuda_' * bool(ON_CUDA.search(found[1]))}{found[1]}", cuda)
    path.write_text(before + cuda)
