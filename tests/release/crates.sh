#!/usr/bin/env bash
# Builds and runs the first program of the README with the packages in a folder, without the sources of this repository:
#
#     tests/release/crates.sh FOLDER
set -euo pipefail
crates=$(realpath "${1:?tests/release/crates.sh FOLDER}")
readme=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../../README.md")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p src packages
for crate in "$crates"/*.crate; do tar -xzf "$crate" -C packages; done

# A file for the program to read, and the program.
{
    echo '#[test] fn save() {'
    echo '    let model = Linear { weight: Array2::ones([2, 64]), bias: Array1::zeros(2) };'
    echo '    tensorfile::save("linear.safetensors", &model).unwrap();'
    echo '}'
} >tests.rs
awk '/^```rust/ { inside = 1; next } /^```/ { if (inside) exit } inside' "$readme" >src/main.rs
cat tests.rs >>src/main.rs
{
    printf '[package]\nname = "first"\nversion = "0.0.0"\nedition = "2024"\n\n[dependencies]\nndarray = "0.17"\n'
    for package in packages/*; do
        name=$(basename "$package" | sed 's/-[0-9].*//')
        if [[ $name == tensorfile ]]; then
            printf 'tensorfile = { path = "%s" }\n' "$package"
        fi
    done
    # Packages depend on each other by version.
    printf '\n[patch.crates-io]\n'
    for package in packages/*; do
        name=$(basename "$package" | sed 's/-[0-9].*//')
        case $name in tensorfile-derive | tensorfile-quant) printf '%s = { path = "%s" }\n' "$name" "$package" ;; esac
    done
} >Cargo.toml
export CARGO_TARGET_DIR=$work/target
cargo test --quiet
cargo run --quiet
[[ -s linear.ptd ]]
echo "the first program of the README works with the packages"
