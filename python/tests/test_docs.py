"""The examples in docstrings, and the names in stubs."""

import doctest
import importlib
import inspect
import pathlib
import pkgutil
import re
import shutil
import subprocess
import sys

import pytest
import tensorfile

CONFIG = pathlib.Path(__file__).parents[1] / "pyproject.toml"
MODULES = ["tensorfile", *(f"tensorfile.{module.name}" for module in pkgutil.iter_modules(tensorfile.__path__))]


PAGES = ["python/README.md", "README.md", "docs/src/python.md", "docs/src/datasets.md", "docs/src/answers.md"]


def examples_of(page):
    """Return the examples of a page that can run here."""
    text = (pathlib.Path(__file__).parents[2] / page).read_text()
    found = doctest.DocTestParser().get_examples(text, page)
    if importlib.util.find_spec("torch") is None:
        found = [example for example in found if not re.search(r"\btorch\b", example.source.partition("#")[0])]
    return found


def documented():
    """Yield the public functions, classes and modules with their docstrings."""
    for name in MODULES:
        if name.rpartition(".")[2].startswith("__"):
            continue
        try:
            module = importlib.import_module(name)
        except ImportError:
            # torch may be missing.
            continue
        yield name, module.__doc__
        for item, value in vars(module).items():
            if not item.startswith("_") and (inspect.isroutine(value) or inspect.isclass(value)):
                yield f"{name}.{item}", value.__doc__


@pytest.mark.parametrize("name", dict(documented()))
def test_examples(name):
    text = dict(documented())[name] or ""
    test = doctest.DocTestParser().get_doctest(text, {}, name, name, 0)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(test)
    assert runner.failures == 0


def test_public_items_are_documented():
    for item in tensorfile.__all__:
        if item not in ("FORMATS", "__version__"):
            assert getattr(tensorfile, item).__doc__, item
    for kind in tensorfile.File, tensorfile.Tensor:
        for item, value in vars(kind).items():
            assert item.startswith("_") or value.__doc__, (kind, item)


@pytest.mark.parametrize("tool", [["mypy", "-p", "tensorfile"], ["mypy.stubtest", "tensorfile._tensorfile"]], ids=" ".join)
def test_types(tool):
    pytest.importorskip("mypy")
    ran = subprocess.run([sys.executable, "-m", *tool, f"--{'mypy-' * (tool[0] != 'mypy')}config-file", str(CONFIG)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("tool", [["mypy"], ["pyright", "--pythonpath", sys.executable]], ids=lambda tool: tool[0])
def test_types_of_a_program(folder, tool):
    """The stubs, and a program that uses them."""
    pytest.importorskip(tool[0])
    package, program = pathlib.Path(tensorfile.__file__).parent, pathlib.Path(__file__).parent / "typed.py"
    checked = [program]
    if tool[0] == "pyright":
        # mypy has checked the package. Modules for other packages need these.
        missing = [name for name in ("ray", "torch") if importlib.util.find_spec(name) is None]
        checked += [path for path in package.glob("*.py*") if path.stem.strip("_").partition("_")[0] not in missing]
    for i, page in enumerate(PAGES):
        # Its examples as one program.
        example = pathlib.Path(f"page_{i}.py")
        example.write_text("".join(example.source for example in examples_of(page)))
        checked.append(example)
    options = ["--allow-redefinition-new", "--local-partial-types"] if tool[0] == "mypy" else []
    ran = subprocess.run([sys.executable, "-m", *tool, *options, *map(str, checked)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    wrong = pathlib.Path("wrong.py")
    wrong.write_text('import tensorfile\n\nx: int = tensorfile.open("a")["w"].dtype\ntensorfile.save("a", {}, format=3)\n')
    refused = subprocess.run([sys.executable, "-m", *tool, str(wrong)], capture_output=True, text=True)
    assert refused.returncode == 1 and "2 errors" in refused.stdout, refused.stdout


@pytest.mark.parametrize("page", PAGES)
def test_pages(fixtures, page):
    shutil.copy(fixtures / "pytorch" / "state_dict.pt", "pytorch_model.bin")
    test = doctest.DocTest(examples_of(page), {}, page, page, 0, None)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(test)
    assert runner.failures == 0 and len(test.examples) > 3


def test_numpy_is_needed_only_for_arrays(folder):
    tensorfile.save("file.ten", {"w": memoryview(bytes(12)).cast("f")})
    code = """
import sys
sys.modules["numpy"] = None
import tensorfile
file = tensorfile.open("file.ten")
assert bytes(file["w"].data) == bytes(12) and memoryview(file["w"]).tolist() == [0, 0, 0]
buffer = bytearray(12)
file["w"].read_into(buffer)
file.read_into(buffer, file.read_plan(["w"]))
tensorfile.save("again.ten", {"w": memoryview(buffer).cast("f"), "lazy": file["w"]})
assert tensorfile.diff("again.ten", "again.ten")["equal"] and tensorfile.check("file.ten", {"w": ("f32", (3,))}).ok
assert tensorfile.info("file.ten")["total"]["tensors"] == 1
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
