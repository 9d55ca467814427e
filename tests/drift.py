#!/usr/bin/env python3
"""Compare the tables of this repository with the newest packages of the software that they describe.

    python3 tests/drift.py

Prints what is new there, and exits with 1 if something is. If a package cannot be read, it exits with 2.

Packages come from the registries of pip and cargo, and are read as archives: nothing is installed, and no code of theirs is run.
Wheels for macOS are taken, because those of torch are smallest there: 140 MB.
"""

import ast
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
# The Python that the wheels are for. All packages here have wheels for it.
PYTHON = "3.13"


def ours(path):
    return (ROOT / "src/format" / path).read_text()


def between(text, begin, end):
    """Return the text between two others, which must be there."""
    return text.split(begin, 1)[1].split(end, 1)[0]


class Wheel:
    """The newest wheel of a package."""

    def __init__(self, name, folder):
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--dest", str(folder / name)]
        options = ["--only-binary=:all:", "--platform=macosx_99_0_arm64", f"--python-version={PYTHON}"]
        subprocess.run([*pip, *options, name], check=True)
        (path,) = (folder / name).glob("*.whl")
        self.title = " ".join(path.name.split("-")[:2])
        self.archive = zipfile.ZipFile(path)

    def text(self, path):
        return self.archive.read(path).decode()

    def tree(self, path):
        return ast.parse(self.text(path))


def classes(tree):
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def fields(node):
    """Return the names that are assigned or annotated in a class: fields of a dataclass, or members of an enum."""
    found = []
    for item in node.body:
        targets = item.targets if isinstance(item, ast.Assign) else [item.target] if isinstance(item, ast.AnnAssign) else []
        found += [target.id for target in targets]
    return found


def ggml(folder):
    """The numbers and names of ggml's types."""
    wheel = Wheel("gguf", folder)
    plain = lambda name: name.upper().replace("_", "")
    table = between(ours("gguf/header.rs"), "const TAGS: &[(u32, Dtype)] = &[", "];")
    known = {(int(number), plain(name)) for number, name in re.findall(r"\((\d+), Dtype::(\w+)\)", table)}
    members = classes(wheel.tree("gguf/constants.py"))["GGMLQuantizationType"].body
    found = {item.targets[0].id: item.value.value for item in members if isinstance(item, ast.Assign)}
    return wheel.title, known, {(number, plain(name)): f"type {number}, {name}" for name, number in found.items()}


def safetensors(folder):
    """The dtypes of the crate, which defines them. The wheel has its code compiled."""
    project = folder / "safetensors"
    (project / "src").mkdir(parents=True)
    (project / "src/lib.rs").touch()
    manifest = '[package]\nname = "drift"\nedition = "2021"\n[dependencies]\nsafetensors = "*"\n[workspace]\n'
    (project / "Cargo.toml").write_text(manifest)
    subprocess.run(["cargo", "vendor", "--quiet", "vendor"], cwd=project, check=True, stdout=subprocess.DEVNULL)
    crate = project / "vendor/safetensors"
    version = between((crate / "Cargo.toml").read_text(), '\nversion = "', '"')
    variants = between((crate / "src/tensor.rs").read_text(), "pub enum Dtype {", "\n}")
    found = re.findall(r"^    (\w+),$", variants, re.MULTILINE)
    table = between(ours("safetensors/header.rs"), "const TAGS: &[(&str, Dtype)] = &[", "];")
    known = set(re.findall(r'\("(\w+)", Dtype::', table))
    return f"safetensors {version}", known, {name: f"dtype {name}" for name in found}


def schema(text):
    """Return the fields and values of a flatbuffers schema, as `Table.field` and `Enum.VALUE = 1`."""
    text = re.sub(r"//.*", "", text)
    blocks = re.findall(r"(?:table|enum) (\w+)[^{]*\{([^}]*)\}", text)
    return {f"{name}.{' '.join(item.split(':')[0].split())}" for name, body in blocks for item in re.split("[;,]", body) if item.strip()}


def executorch(folder):
    """The scalar types, and the tables of a `.ptd` file."""
    wheel = Wheel("executorch", folder)
    files = ["scalar_type.fbs", "flat_tensor.fbs"]
    known = set().union(*(schema(ours(f"ptd/schema/{file}")) for file in files))
    numbers = set(re.findall(r"\((\d+), Dtype::", between(ours("ptd/header.rs"), "const SCALAR_TYPES", "];")))
    # A scalar type of the schema that the reader has no dtype for counts as unknown.
    known = {item for item in known if " = " not in item or item.split(" = ")[1] in numbers}
    found = set().union(*(schema(wheel.text(f"executorch/extension/flat_tensor/serialize/{file}")) for file in files))
    return wheel.title, known, {item: item for item in found}


def numpy(folder):
    """The versions of the header of an npy file, with the bytes of its length, and its keys."""
    wheel = Wheel("numpy", folder)
    values = {}
    for node in wheel.tree("numpy/lib/_format_impl.py").body:
        if isinstance(node, ast.Assign):
            values[ast.unparse(node.targets[0])] = node.value
    versions = ast.literal_eval(values["_header_size_info"])
    found = {(*version, {"<H": 2, "<I": 4}.get(length, length)): f"header version {version}, its length is `{length}`" for version, (length, _) in versions.items()}
    found |= {key: f"key `{key}` of the header" for key in ast.literal_eval(values["EXPECTED_KEYS"])}
    arms = re.findall(r"\[([\d| ]+), (\d+)\] => (\d+),", between(ours("numpy/header.rs"), "match version {", "_ =>"))
    known = {(int(major), int(minor), int(size)) for majors, minor, size in arms for major in majors.split("|")}
    return wheel.title, known | set(re.findall(r'b"(\w+)" => set\(', ours("numpy/dict.rs"))), found


def torch(folder):
    """The classes of the metadata of `torch.distributed.checkpoint`, and their fields."""
    wheel = Wheel("torch", folder)
    # The docs have a line for each class with the names of its fields, or more lines that begin with spaces.
    known, name = set(), None
    for line in between(ours("pytorch/dcp.rs"), "//! ```text\n", "//! ```\n").splitlines():
        line = line.removeprefix("//! ")
        name = line.split(" ")[0] if line[:1].strip() else name
        known |= {(name, None), *((name, word) for word in re.findall(r"\w+", line))}
    found = classes(wheel.tree("torch/distributed/checkpoint/metadata.py"))
    found["_StorageInfo"] = classes(wheel.tree("torch/distributed/checkpoint/filesystem.py"))["_StorageInfo"]
    names = {(name, None): f"class {name}" for name in found}
    return wheel.title, known, names | {(name, field): f"{name}.{field}" for name, node in found.items() for field in fields(node)}


def main():
    is_new = False
    with tempfile.TemporaryDirectory() as folder:
        for compare in (ggml, safetensors, executorch, numpy, torch):
            try:
                title, known, found = compare(pathlib.Path(folder))
            except (OSError, subprocess.CalledProcessError, KeyError, IndexError, AttributeError, ValueError) as error:
                print(f"{compare.__name__}: cannot be compared: {type(error).__name__}: {error}", file=sys.stderr)
                return 2
            if not found or not known:
                print(f"{title}: its names, or ours, were not found; correct this script", file=sys.stderr)
                return 2
            new = [text for item, text in found.items() if item not in known]
            print(f"{title}: {len(found)} compared, {len(new)} new")
            print("".join(f"    {text}\n" for text in sorted(new)), end="")
            is_new |= bool(new)
    return int(is_new)


if __name__ == "__main__":
    sys.exit(main())
