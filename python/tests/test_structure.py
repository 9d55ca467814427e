"""The modules of the package do not need each other in circles."""

import ast
import graphlib
import pathlib

import tensorfile

PACKAGE = pathlib.Path(tensorfile.__file__).parent


def imports(path):
    """Return the modules of the package that a module imports, inside of functions too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            yield from [node.module] if node.module else [name.name for name in node.names]


def test_imports_have_no_circles():
    graph = {path.stem: set(imports(path)) for path in PACKAGE.glob("*.py")}
    assert {"_safetensors", "_types"} <= graph["torch"]
    list(graphlib.TopologicalSorter(graph).static_order())
