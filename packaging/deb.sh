#!/usr/bin/env bash
# Makes a Debian package from an archive of a release, in the folder of the archive; needs cargo-deb:
#
#     packaging/deb.sh target/release-0.1.0/tensorfile-0.1.0-x86_64-unknown-linux-musl.tar.gz
#
# Nothing is compiled, and so the package has the same program as the archive. As that is static, it depends on no library.
set -euo pipefail
archive=$(realpath "${1:?packaging/deb.sh ARCHIVE}")
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The name is `tensorfile-VERSION-TARGET.tar.gz`.
target=$(basename "$archive" .tar.gz)
target=${target#tensorfile-"$(tests/release/versions.sh)"-}

# Where `package.metadata.deb` in cli/Cargo.toml finds the files.
rm -rf target/deb
mkdir -p target/deb
tar -xzf "$archive" -C target/deb --strip-components 1
cargo deb --package tensorfile-cli --target "$target" --no-build --no-strip --output "$(dirname "$archive")"
