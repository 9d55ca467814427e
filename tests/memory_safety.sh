#!/usr/bin/env bash
# Runs tests of the parts with `unsafe` code under a checker, which a nightly toolchain has:
#
#     tests/memory_safety.sh miri       the cast in `src/serde/own.rs`, and the copies in `src/threads.rs`
#     tests/memory_safety.sh address    mapped files, which Miri cannot run, and the parts above, under AddressSanitizer
#
# The tests for AddressSanitizer take a minute on two busy processors. Building them takes 15 minutes the first time, as
# every dependency of the tests is built again.
#
# The Miri of a nightly: `rustup component add miri rust-src --toolchain nightly`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case ${1-} in
miri)
    export MIRIFLAGS=-Zmiri-disable-isolation
    run=(cargo +nightly miri test --no-default-features)
    cargo +nightly miri test --no-default-features --package tensorfile --lib -- threads::
    tests=(memory_safety::)
    expected=2
    ;;
address)
    export RUSTFLAGS="${RUSTFLAGS-} -Zsanitizer=address"
    # Without a target, macros that run in the compiler would be built with it too.
    run=(cargo +nightly test --all-features --target "$(rustc +nightly -vV | sed -n 's/^host: //p')")
    # Those that map files and copy with several threads. The many tests of damaged files are left out, as none of the code
    # that they add to these is `unsafe`.
    tests=(file:: shards:: memory_safety:: every_format::round_trip)
    expected=50
    ;;
*)
    echo "usage: tests/memory_safety.sh miri|address" >&2
    exit 1
    ;;
esac

log=$(mktemp)
trap 'rm -f "$log"' EXIT
"${run[@]}" --package tensorfile-tests --test it -- "${tests[@]}" 2>&1 | tee "$log"
# Nobody would miss a test that was renamed.
passed=$(sed -n 's/^test result: ok\. \([0-9]*\) passed.*/\1/p' "$log")
if ((passed < expected)); then
    echo "only $passed of $expected tests ran" >&2
    exit 1
fi
