import pathlib

import pytest


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Each test runs in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def fixtures():
    """Files of other software, next to the tests of the library."""
    return pathlib.Path(__file__).parents[2] / "tests" / "fixtures"
