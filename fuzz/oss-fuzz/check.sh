#!/usr/bin/env bash
# Builds the fuzz targets as OSS-Fuzz does, but with the toolchain at hand, and runs each on the inputs of its corpus:
#
#     fuzz/oss-fuzz/check.sh
#
# Needs a nightly toolchain, cargo-fuzz and zip. The results are in ${CARGO_TARGET_DIR:-target}/oss-fuzz. Building takes long: the
# library and all that it depends on is compiled twice, once with AddressSanitizer.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

missing=()
export RUSTUP_TOOLCHAIN=nightly
cargo --version >/dev/null 2>&1 || missing+=('a nightly toolchain: rustup toolchain install nightly')
cargo fuzz --version >/dev/null 2>&1 || missing+=('cargo-fuzz: cargo install cargo-fuzz')
command -v zip >/dev/null || missing+=('zip')
if ((${#missing[@]})); then
    printf 'oss-fuzz: missing %s\n' "${missing[@]}" >&2
    exit 1
fi

folder=${CARGO_TARGET_DIR:-target}/oss-fuzz
mkdir -p "$folder"/{src,work,out}
folder=$(cd "$folder" && pwd)
ln -sfn "$PWD" "$folder/src/tensorfile"
export SRC=$folder/src WORK=$folder/work OUT=$folder/out
# The flags of OSS-Fuzz for AddressSanitizer.
RUSTFLAGS='--cfg fuzzing -Cdebuginfo=1 -Cforce-frame-pointers' bash -eu fuzz/oss-fuzz/build.sh

for file in fuzz/fuzz_targets/*.rs; do
    name=$(basename "$file" .rs)
    # Without new inputs. The sanitizer's report has all that is needed.
    "$OUT/$name" -runs=0 "fuzz/corpus/$name" >"$folder/$name.log" 2>&1 || {
        tail -n 40 "$folder/$name.log" >&2
        exit 1
    }
    echo "$name: passes"
done
