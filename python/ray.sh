#!/usr/bin/env bash
# Tests `tensorfile.ray` on a cluster of Ray on this machine, of which a node is killed: about 2.5 minutes.
#
#     python/ray.sh [--setup] [PYTEST OPTIONS]
#
# Ray takes 0.6 GB, in an environment of its own: ${CARGO_TARGET_DIR:-target}/ray. With --setup, only that is installed. The
# package is built by the tools of `python/test.sh --setup`. Where Ray cannot be installed, or there is no room for it, a note
# says so, and nothing is tested.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
venv=$CARGO_TARGET_DIR/ray
requirements=python/requirements-ray.txt

skip() {
    printf '\nNOTE: %s: `tensorfile.ray` is not tested on a cluster.\n' "$1"
    exit
}

# In GiB.
free() {
    df --output=avail --block-size=1G "$1" | tail -n 1
}

if ! cmp -s "$requirements" "$venv/requirements-ray.txt"; then
    mkdir -p "$venv"
    (($(free "$venv") >= 3)) || skip 'less than 3 GiB of disk are free for Ray'
    "${PYTHON:-python3}" -m venv --clear "$venv"
    "$venv/bin/python" -m pip --disable-pip-version-check --no-input install --quiet --only-binary :all: -r "$requirements" ||
        skip 'Ray cannot be installed here'
    # Made last, so that an interrupted installation does not count.
    cp "$requirements" "$venv/"
fi
if [[ ${1-} == --setup ]]; then
    exit
fi
# The object stores of three nodes, and their processes.
(($(free /dev/shm) >= 1)) || skip 'less than 1 GiB of shared memory is free for Ray'
(($(awk '/^MemAvailable:/ { print int($2 / 1048576) }' /proc/meminfo) >= 4)) || skip 'less than 4 GiB of memory are free for Ray'

wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT
"$CARGO_TARGET_DIR/python/bin/python" -m maturin build --quiet --locked --profile dev --all-features --manifest-path python/Cargo.toml --out "$wheels"
"$venv/bin/python" -m pip --disable-pip-version-check install --quiet --no-index --no-deps --force-reinstall "$wheels"/*.whl
# Not from the folder of the sources, whose package has no compiled half.
cd "$wheels"
"$venv/bin/python" -P -m pytest --config-file "$OLDPWD/python/pyproject.toml" --rootdir "$OLDPWD/python" "$OLDPWD/python/tests/test_ray.py" "$@"
