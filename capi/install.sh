#!/usr/bin/env bash
# Builds the library for C and installs it with its headers: `capi/install.sh PREFIX [OPTIONS OF CARGO]`, such as
#
#     capi/install.sh /usr/local --features quant,http
#
# --debug as the second argument installs the library that `cargo test` built instead, for tests.
set -euo pipefail
prefix=${1:?capi/install.sh PREFIX [OPTIONS OF CARGO]}
shift
mkdir -p "$prefix"/{include,lib/pkgconfig,lib/cmake/Tensorfile}
prefix=$(cd "$prefix" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/.."
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
target=${CARGO_TARGET_DIR:-target}

if [[ ${1:-} == --debug ]]; then
    cp "$target/debug/deps/libtensorfile_c.so" "$prefix/lib/libtensorfile.so"
else
    case $(uname -s) in
        Darwin) extension=dylib name=-Wl,-install_name,@rpath/libtensorfile.0.dylib ;;
        *) extension=so name=-Wl,-soname,libtensorfile.so.0 ;;
    esac
    cargo rustc --package tensorfile-c --lib --profile capi --crate-type cdylib,staticlib "$@" -- -C "link-arg=$name"
    cp "$target/capi/libtensorfile_c.a" "$prefix/lib/libtensorfile.a"
    if [[ $extension == so ]]; then
        shared=libtensorfile.so.$version soname=libtensorfile.so.0
    else
        shared=libtensorfile.$version.dylib soname=libtensorfile.0.dylib
    fi
    cp "$target/capi/libtensorfile_c.$extension" "$prefix/lib/$shared"
    ln -sf "$shared" "$prefix/lib/$soname"
    ln -sf "$soname" "$prefix/lib/libtensorfile.$extension"
fi
cp capi/include/tensorfile.h capi/include/tensorfile.hpp "$prefix/include/"
for file in capi/cmake/*.in; do
    sed "s/@VERSION@/$version/g" "$file" >"$prefix/lib/cmake/Tensorfile/$(basename "$file" .in)"
done
sed "s/@VERSION@/$version/g" capi/tensorfile.pc.in >"$prefix/lib/pkgconfig/tensorfile.pc"
