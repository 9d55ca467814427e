#!/usr/bin/env bash
# Builds the Python package, installs it in an environment of its own, and tests it.
#
#     python/test.sh [--setup] [--torch] [PYTEST OPTIONS]
#
# The environment is ${CARGO_TARGET_DIR:-target}/python, relative to the root of the repository. With --setup, only the
# software that the tests need is installed there. With --torch, PyTorch too, which is several GB and without which its
# tests are skipped. Needs Python 3.11 or newer ($PYTHON, or python3).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
venv=$CARGO_TARGET_DIR/python
requirements=python/requirements-test.txt
# Its own tests are run, which are only in source distributions.
safetensors=(0.8.0 0.9.0rc1)

only_setup=no torch=no
while [[ ${1-} == --setup || ${1-} == --torch ]]; do
    if [[ $1 == --setup ]]; then only_setup=yes; else torch=yes; fi
    shift
done

pip() {
    "$venv/bin/python" -m pip --disable-pip-version-check --no-input "$@"
}

# The copy is made last, so that an interrupted installation does not count.
if ! cmp -s "$requirements" "$venv/requirements-test.txt"; then
    "${PYTHON:-python3}" -m venv --clear "$venv"
    pip install --quiet --only-binary :all: -r "$requirements"
    cp "$requirements" "$venv/"
fi
for version in "${safetensors[@]}"; do
    if [[ ! -e $venv/safetensors-$version ]]; then
        sdist=$(mktemp -d)
        # Pip asks for its metadata, which maturin prepares.
        PATH=$venv/bin:$PATH pip download --quiet --no-deps --no-build-isolation --no-binary safetensors --dest "$sdist" "safetensors==$version"
        tar --extract --gzip --file "$sdist/safetensors-$version.tar.gz" --directory "$sdist"
        mv "$sdist/safetensors-$version" "$venv/"
        rm -rf "$sdist"
    fi
done
if [[ $torch == yes ]]; then
    pip install --quiet --only-binary :all: -r tests/interop/requirements-torch.txt
fi
if [[ $only_setup == yes ]]; then
    exit
fi

wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT
"$venv/bin/python" -m maturin build --quiet --locked --profile dev --all-features --manifest-path python/Cargo.toml --out "$wheels"
pip install --quiet --no-index --no-deps --force-reinstall "$wheels"/*.whl
# Not from the folder of the sources, whose package has no compiled half.
cd "$wheels"
"$venv/bin/python" -P -m pytest --config-file "$OLDPWD/python/pyproject.toml" --rootdir "$OLDPWD/python" "$OLDPWD/python/tests" "$@"
