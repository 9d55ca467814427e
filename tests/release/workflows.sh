#!/usr/bin/env bash
# Checks .github with zizmor, which looks for ways to take over a workflow, and with actionlint, if it is in the path.
#
# zizmor is installed in ${TENSORFILE_INTEROP:-target/interop}/zizmor, relative to the root of the repository. If it cannot be
# installed, a note says so, and the check passes. Needs Python 3.11 or newer ($PYTHON, or python3).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
requirements=tests/release/requirements-zizmor.txt
venv=${TENSORFILE_INTEROP:-target/interop}/zizmor

# The copy is made last, so that an interrupted installation does not count.
install() {
    "${PYTHON:-python3}" -m venv --clear "$venv" >&2 &&
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --only-binary :all: -r "$requirements" >&2 &&
        cp "$requirements" "$venv/requirements.txt"
}

if cmp -s "$requirements" "$venv/requirements.txt" || install; then
    # Offline, as other audits ask the server of the actions.
    "$venv/bin/zizmor" --quiet --offline --persona=regular .github
else
    echo 'NOTE: zizmor could not be installed: the workflows are not audited.'
fi

if command -v actionlint >/dev/null; then
    actionlint
else
    echo 'NOTE: no actionlint here: expressions and shell code in workflows are not checked.'
fi
