#!/usr/bin/env bash
# Checks that all manifests, the lock files and the changelog have one version, and prints it:
#
#     tests/release/versions.sh [TAG]
#
# With a tag such as `v0.1.0`, that version has to be the tag's, and the changelog has to have the day of the release.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
tag=${1-}

failed=
wrong() {
    echo "versions: $*" >&2
    failed=yes
}

version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' Cargo.toml)
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$ ]] || wrong "Cargo.toml: the workspace has version \`$version\`"

# Packages take the workspace's version, and depend on each other by it. The wheel's version is that of its package.
for manifest in Cargo.toml {capi,cli,datasets,derive,python,quant}/Cargo.toml; do
    grep -qx 'version.workspace = true' "$manifest" || wrong "$manifest: expected \`version.workspace = true\`"
    while read -r line; do
        [[ $line == *"version = \"$version\""* ]] || wrong "$manifest: expected version $version in \`$line\`"
    done < <(sed -n '/^tensorfile[a-z-]* = .*version = /p; /^\[package.metadata.capi.library\]/,/^\[/{/^version = /p;}' "$manifest")
done
grep -qx 'dynamic = \["version"\]' python/pyproject.toml || wrong 'python/pyproject.toml: expected a dynamic version'

for file in CITATION.cff packaging/recipe.yaml packaging/tensorfile.rb; do
    grep -qE "^ *version:? \"?$version\"?\$" "$file" || wrong "$file: expected version $version"
done

# The lock file has a version for each package of the workspace. Fuzzing has one of its own, 0.0.0, and no lock file.
for lock in Cargo.lock frameworks/Cargo.lock; do
    while read -r name locked; do
        [[ $locked == "$version" || $locked == 0.0.0 ]] || wrong "$lock: $name has version $locked, expected $version"
    done < <(sed -n '/^name = "tensorfile/{N;s/name = "\(.*\)"\nversion = "\(.*\)"/\1 \2/p;}' "$lock")
done

heading=$(grep -m 1 "^## " CHANGELOG.md || true)
if [[ -z $tag ]]; then
    [[ $heading == "## $version ("*")" ]] || wrong "CHANGELOG.md starts with \`$heading\`, expected \`## $version (…)\`"
else
    [[ $tag == "v$version" ]] || wrong "the tag is $tag, and the version $version"
    [[ $heading =~ ^"## $version ("[0-9]{4}-[0-9]{2}-[0-9]{2}")"$ ]] ||
        wrong "CHANGELOG.md starts with \`$heading\`, expected \`## $version (YEAR-MONTH-DAY)\`"
fi

[[ -z $failed ]] || exit 1
echo "$version"
