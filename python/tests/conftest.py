import pathlib
import signal

import pytest

# A shell starts programs in the background with interrupts ignored, and tests send some.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Each test runs in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def cases(fixtures):
    """Files of users, with what they are."""
    return fixtures / "cases"


@pytest.fixture
def fixtures():
    """Files of other software, next to the tests of the library."""
    return pathlib.Path(__file__).parents[2] / "tests" / "fixtures"
