"""Installs the wheel or the source distribution in a folder, in an environment of its own, and tests it from another folder:

    python tests/release/wheel.py [--small] FOLDER

With --small, only what needs no other package is tested. Needs no Rust, unless the folder has a source distribution.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "tests" / "fixtures" / "pytorch" / "state_dict.pt"

READ = """
import sys, tensorfile
assert "site-packages" in tensorfile.__file__, tensorfile.__file__
file = tensorfile.open(sys.argv[1])
tensorfile.save("copy.safetensors", dict(file))
assert sorted(tensorfile.open("copy.safetensors")) == sorted(file)
"""


def main(arguments):
    small = arguments[:1] == ["--small"]
    (folder,) = arguments[small:]
    (package,) = [path for end in ("*.whl", "*.tar.gz") for path in pathlib.Path(folder).resolve().glob(end)]
    # One wheel for all versions of Python.
    assert package.suffix == ".gz" or "-cp311-abi3-" in package.name, package.name

    with tempfile.TemporaryDirectory() as work:
        venv.create(pathlib.Path(work) / "venv", with_pip=True)
        programs = pathlib.Path(work) / "venv" / ("Scripts" if os.name == "nt" else "bin")

        def run(program, *arguments):
            subprocess.run([programs / program, *arguments], check=True, cwd=work, stdin=subprocess.DEVNULL)

        def pip(*arguments):
            run("python", "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input", "install", *arguments)

        pip("--no-deps", package)
        run("python", "-P", "-c", READ, EXAMPLE)
        run("tensorfile", "verify", EXAMPLE)
        if not small:
            pip("--only-binary", ":all:", "-r", ROOT / "python" / "requirements-test.txt")
            tests = ROOT / "python"
            options = ["--config-file", tests / "pyproject.toml", "--rootdir", tests, "-p", "no:cacheprovider"]
            # Only `python/test.sh` has the tests of safetensors itself.
            options += ["--ignore", tests / "tests" / "test_safetensors_suite.py"]
            run("python", "-P", "-m", "pytest", *options, tests / "tests")
    print(f"{package.name}: installed and tested")


if __name__ == "__main__":
    main(sys.argv[1:])
