#!/bin/bash -eu
# Builds all fuzz targets into $OUT, each with its seeds, its dictionary and its options. OSS-Fuzz, ClusterFuzzLite and
# `check.sh` run it, with the sources in $SRC/tensorfile.
cd "$SRC/tensorfile"
export CARGO_TARGET_DIR=$WORK/target

# A program of its own, which the flags for fuzzing would only slow down.
env -u RUSTFLAGS -u CFLAGS -u CXXFLAGS \
    cargo run --locked --package tensorfile-fuzz-targets --example seeds -- "$WORK/seeds"

# The profile in fuzz/Cargo.toml has assertions and overflow checks.
cargo fuzz build -O
host=$(rustc -vV | sed -n 's/^host: //p')

for file in fuzz/fuzz_targets/*.rs; do
    name=$(basename "$file" .rs)
    cp "$CARGO_TARGET_DIR/$host/release/$name" "$OUT/"
    cp fuzz/tensorfile.dict "$OUT/$name.dict"
    printf '[libfuzzer]\nmax_len = 8192\n' >"$OUT/$name.options"
    rm -f "$OUT/${name}_seed_corpus.zip"
    # Not all targets have findings.
    find "$WORK/seeds/$name" "fuzz/corpus/$name" "fuzz/findings/$name" -type f 2>/dev/null |
        zip --quiet --junk-paths --names-stdin "$OUT/${name}_seed_corpus.zip"
done
