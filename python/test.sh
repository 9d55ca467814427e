#!/usr/bin/env bash
# Builds the Python package, installs it in an environment of its own, and tests it.
#
#     python/test.sh [--setup] [PYTEST OPTIONS]
#
# The environment is ${CARGO_TARGET_DIR:-target}/python, relative to the root of the repository. With --setup, only the
# software that the tests need is installed there. Needs Python 3.11 or newer ($PYTHON, or python3).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
venv=$CARGO_TARGET_DIR/python
requirements=python/requirements-test.txt

# The copy is made last, so that an interrupted installation does not count.
if ! cmp -s "$requirements" "$venv/requirements-test.txt"; then
    "${PYTHON:-python3}" -m venv --clear "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --only-binary :all: -r "$requirements"
    cp "$requirements" "$venv/"
fi
if [[ ${1-} == --setup ]]; then
    exit
fi

wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT
"$venv/bin/python" -m maturin build --quiet --locked --profile dev --manifest-path python/Cargo.toml --out "$wheels"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --no-index --no-deps --force-reinstall "$wheels"/*.whl
# Not from the folder of the sources, whose package has no compiled half.
cd "$wheels"
"$venv/bin/python" -P -m pytest --config-file "$OLDPWD/python/pyproject.toml" --rootdir "$OLDPWD/python" "$OLDPWD/python/tests" "$@"
