#!/usr/bin/env bash
# Writes copies of the formula and the recipe with the version, the digests and the repository of a release:
#
#     packaging/fill.sh FOLDER VERSION SHA256SUMS SOURCE
#
# SHA256SUMS is that of the release, and SOURCE the archive of its tag, `archive/refs/tags/vVERSION.tar.gz` in the repository.
set -euo pipefail
usage='packaging/fill.sh FOLDER VERSION SHA256SUMS SOURCE'
folder=${1:?$usage} version=${2:?$usage} sums=${3:?$usage} source=${4:?$usage}
here=$(dirname "${BASH_SOURCE[0]}")

repository=$(sed -n 's/^repository = "\(.*\)"$/\1/p' "$here/../Cargo.toml")
# The placeholder is no URL.
[[ $repository == https:* ]] || repository=https://github.com/OWNER/tensorfile
owner=${repository%/*}
edits=(-e "s#https://github.com/OWNER/tensorfile#$repository#" -e "s#- OWNER\$#- ${owner##*/}#")
edits+=(-e "s/^\( *version:* \)\"[0-9].*\"\$/\1\"$version\"/")

mkdir -p "$folder"
digest=$(sha256sum "$source" | cut -d' ' -f1)
sed "${edits[@]}" -e "s/sha256: \".*\"/sha256: \"$digest\"/" "$here/recipe.yaml" >"$folder/recipe.yaml"

# The digest of an archive is in the line after its URL.
while read -r target; do
    digest=$(awk -v name="tensorfile-$version-$target.tar.gz" '$2 == name { print $1 }' "$sums")
    if [[ -z $digest ]]; then
        echo "fill: $sums has no tensorfile-$version-$target.tar.gz" >&2
        exit 1
    fi
    edits+=(-e "/-$target\.tar\.gz\"\$/{n;s/sha256 \".*\"/sha256 \"$digest\"/;}")
done < <(sed -n 's/.*#{version}-\(.*\)\.tar\.gz"$/\1/p' "$here/tensorfile.rb")
sed "${edits[@]}" "$here/tensorfile.rb" >"$folder/tensorfile.rb"
