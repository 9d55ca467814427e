#!/usr/bin/env bash
# Builds and runs the programs in C, C++ and Go against the library that `cargo test` built: `capi/test.sh [--sanitize] [--valgrind]`.
#
# --sanitize builds those in C and C++ with AddressSanitizer, and --valgrind runs them under Valgrind, which takes longer.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
sanitize=() run=()
for option in "$@"; do
    case $option in
        --sanitize) sanitize=(-fsanitize=address,undefined -fno-sanitize-recover=all) ;;
        --valgrind) run=(valgrind --quiet --error-exitcode=9 --leak-check=full --show-leak-kinds=definite,indirect --errors-for-leak-kinds=definite,indirect) ;;
        *) echo "usage: capi/test.sh [--sanitize] [--valgrind]" >&2 && exit 2 ;;
    esac
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-../target}
CARGO_TARGET_DIR=$(realpath "$CARGO_TARGET_DIR") ./install.sh "$prefix" --debug
export LD_LIBRARY_PATH=$prefix/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} PKG_CONFIG_PATH=$prefix/lib/pkgconfig
fixtures=$(realpath ../tests/fixtures)

warnings=(-g -Wall -Wextra -Wpedantic -Werror)
for standard in c99 c11; do
    "${CC:-cc}" -std=$standard "${warnings[@]}" "${sanitize[@]}" -I"$prefix/include" tests/c/test.c -L"$prefix/lib" -ltensorfile -o "$work/c-$standard"
done
# A pipe has the file that the first program writes.
mkdir "$work"/{c,first}
"$work/c-c99" "$work/first" >/dev/null
mkfifo "$work/pipe"
cat "$work/first/a.safetensors" >"$work/pipe" &
TENSORFILE_TEST_PIPE=$work/pipe "${run[@]}" "$work/c-c11" "$work/c"
for program in tests/c/gguf_dump examples/sum; do
    "${CC:-cc}" -std=c99 "${warnings[@]}" "${sanitize[@]}" -I"$prefix/include" $program.c -L"$prefix/lib" -ltensorfile -o "$work/$(basename $program)"
done
[[ $("$work/sum" "$work/c/a.ptd") == $'matrix 18\ntransposed 18\nsteps -2' ]]
[[ $("$work/gguf_dump" "$work/c/a.gguf" | tail -1) == "      3:          2 |     2,     1,     1,     1 | I64     | steps" ]]

if command -v cmake >/dev/null && command -v c++ >/dev/null; then
    cmake -S tests/cpp -B "$work/cpp-build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_FLAGS="${warnings[*]} ${sanitize[*]}" >/dev/null
    cmake --build "$work/cpp-build" >/dev/null
    c++ -std=c++17 "${warnings[@]}" "${sanitize[@]}" -I"$prefix/include" examples/half.cpp -L"$prefix/lib" -ltensorfile -o "$work/half"
    [[ $("$work/half" "$work/c/a.safetensors" matrix "$work/half.ptd") == "6 numbers, the first is 0.5" ]]
    mkdir "$work/cpp"
    "${run[@]}" "$work/cpp-build/test" "$fixtures" "$work/cpp"
    interop=${TENSORFILE_INTEROP:-../target/interop}
    if [[ -x $interop/flat_tensor ]]; then
        mkdir "$work/ptd"
        "$interop/venv/bin/python" ../tests/interop/ptd_build.py "$work/ptd" >/dev/null
        files=0
        for file in "$work"/ptd/current*.ptd "$work"/c/*.ptd "$fixtures"/ptd/*.ptd; do
            diff <("$interop/flat_tensor" "$file" | sort) <("$work/cpp-build/flat_tensor" "$file" | sort)
            files=$((files + 1))
        done
        echo "cpp: $files files are read as by ExecuTorch"
    else
        echo "NOTE: no reader of ExecuTorch here: it is not compared."
    fi
else
    echo "NOTE: no cmake or no C++ compiler here: the program in C++ is not tested."
fi

if command -v go >/dev/null && command -v pkg-config >/dev/null; then
    (cd go && TENSORFILE_FIXTURES=$fixtures/others go test ./...)
else
    echo "NOTE: no Go or no pkg-config here: the Go module is not tested."
fi
