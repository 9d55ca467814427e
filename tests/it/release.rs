//! What a release is made of has the same names, packages and versions everywhere.

use std::fs;
use std::path::PathBuf;

use crate::packages::{packaged, published};
use crate::support::root;

/// What `repository` is in Cargo.toml until the owner fills it in.
const PLACEHOLDER: &str = "OWNER/tensorfile";

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the value of a key in the workspace's Cargo.toml.
fn workspace(key: &str) -> String {
    let manifest = text("Cargo.toml");
    let line = manifest.lines().find_map(|line| line.strip_prefix(&format!("{key} = ")));
    line.unwrap_or_else(|| panic!("no {key}")).trim_matches('"').to_owned()
}

fn workflows() -> Vec<(PathBuf, String)> {
    let paths = fs::read_dir(root().join(".github/workflows")).unwrap().map(|entry| entry.unwrap().path());
    paths.map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn crates_are_published_after_those_that_they_need() {
    let script = text("release");
    let order = script.lines().find_map(|line| line.strip_prefix("crates=(")?.strip_suffix(')')).unwrap();
    for path in [".github/workflows/release.yml", "docs/release.md"] {
        assert!(text(path).contains(&format!("for crate in {order}; do")), "{path}: {order}");
    }
    let order: Vec<&str> = order.split(' ').collect();
    let packages = published();
    assert_eq!(order.len(), packages.len());
    for (folder, name) in packages {
        let at = |name: &str| order.iter().position(|other| *other == name).unwrap_or_else(|| panic!("no {name}"));
        let manifest = fs::read_to_string(root().join(&folder).join("Cargo.toml")).unwrap();
        let needed = manifest.lines().filter(|line| line.starts_with("tensorfile") && line.contains("path = "));
        for needed in needed.map(|line| line.split(' ').next().unwrap()) {
            assert!(at(needed) < at(&name), "{name} needs {needed}");
        }
        for key in ["repository", "homepage"] {
            assert!(manifest.contains(&format!("{key}.workspace = true")), "{name}: {key}");
        }
        assert!(manifest.contains("readme = \"README.md\""), "{name}");
    }
}

#[test]
fn packages_have_nothing_else() {
    let mut all = Vec::new();
    for (folder, name) in published() {
        let files = packaged(&name);
        let wrong = files.iter().filter(|path| {
            let path = path.to_string_lossy();
            ["tests/it", "fuzz", "benches/", "packaging", ".ci", ".github", ".clusterfuzzlite"]
                .iter()
                .any(|start| path.starts_with(start))
                || path.ends_with(".snap")
        });
        all.extend(wrong.map(|path| format!("{name}: {}", path.display())));
        // The registry takes 10 MB. Compressed, sources take a third of their length.
        let len = |path: &PathBuf| fs::metadata(root().join(&folder).join(path)).map_or(0, |metadata| metadata.len());
        let bytes: u64 = files.iter().map(len).sum();
        assert!(bytes < 4 << 20, "{name}: {bytes} bytes");
    }
    assert_eq!(all, [""; 0]);
}

#[test]
fn archives_have_one_name() {
    let (workflow, formula) = (text(".github/workflows/release.yml"), text("packaging/tensorfile.rb"));
    let archives = workflow.split("\n  archives:\n").nth(1).unwrap().split("    runs-on:").next().unwrap();
    let targets: Vec<&str> = archives.split("target: ").skip(1).map(|rest| rest.split(',').next().unwrap()).collect();
    assert_eq!(targets.len(), 5, "{targets:?}");
    for target in targets {
        let url = format!("releases/download/v#{{version}}/tensorfile-#{{version}}-{target}.tar.gz");
        assert_eq!(formula.contains(&url), !target.contains("windows"), "{target}");
    }
    let names = [
        ("cli/Cargo.toml", "/releases/download/v{ version }/tensorfile-{ version }-{ target }.tar.gz"),
        ("cli/Cargo.toml", "\"tensorfile-{ version }-{ target }/{ bin }{ binary-ext }\""),
        (".github/workflows/release.yml", "tensorfile-$VERSION-$TARGET.tar.gz"),
        (".github/workflows/release.yml", "/tensorfile-${{ needs.check.outputs.version }}-${{ matrix.target }}.tar.gz"),
        ("packaging/Containerfile", "tensorfile-${VERSION}-${TARGET}.tar.gz"),
        ("release", "folder=tensorfile-$version-$target"),
    ];
    for (path, name) in names {
        assert!(text(path).contains(name), "{path}: {name}");
    }
}

#[test]
fn workflows_run_what_was_reviewed() {
    for (path, workflow) in workflows() {
        let path = path.display();
        let mut uses = 0;
        for line in workflow.lines().filter_map(|line| line.split_once("uses: ").map(|(_, action)| action)) {
            let commit = line.split_once('@').and_then(|(_, pin)| pin.split_once(" # v"));
            let is_pinned = commit
                .is_some_and(|(commit, _)| commit.len() == 40 && commit.chars().all(|digit| digit.is_ascii_hexdigit()));
            assert!(is_pinned || line.starts_with("./"), "{path}: {line}");
            uses += 1;
        }
        assert!(uses > 0, "{path}");
        let checkouts = workflow.matches("uses: actions/checkout@").count();
        assert_eq!(checkouts, workflow.matches("persist-credentials: false").count(), "{path}");
        for word in ["pull_request_target", "secrets."] {
            assert!(!workflow.contains(word), "{path}: {word}");
        }
    }
    // The jobs with tokens run no code.
    let release = text(".github/workflows/release.yml");
    let publish = &release[release.find("\n  publish-crates:").unwrap()..];
    for word in ["cargo build", "cargo install", "cargo test", "maturin", "./release", "bash .ci"] {
        assert!(!publish.contains(word), "{word}");
    }
    assert!(publish.contains("cargo publish --locked --no-verify"));
}

#[test]
fn a_wheel_is_built_by_one_version_of_maturin() {
    let workflow = text(".github/workflows/release.yml");
    let version = workflow.split("maturin-version: v").nth(1).unwrap().lines().next().unwrap();
    assert!(text("python/requirements-test.txt").contains(&format!("maturin=={version}\n")), "{version}");
    // One wheel for all versions of Python from this one on.
    assert!(text("python/Cargo.toml").contains("abi3-py311"));
    assert!(text("python/pyproject.toml").contains("requires-python = \">=3.11\""));
    assert!(text("tests/release/wheel.py").contains("-cp311-abi3-"));
}

#[test]
fn the_owner_is_named_everywhere_or_nowhere() {
    let (repository, homepage) = (workspace("repository"), workspace("homepage"));
    let files = [
        "CITATION.cff",
        "docs/src/maintenance.md",
        "fuzz/oss-fuzz/Dockerfile",
        "fuzz/oss-fuzz/project.yaml",
        "packaging/recipe.yaml",
        "packaging/tensorfile.rb",
        "python/pyproject.toml",
        "cli/Cargo.toml",
    ];
    if repository == PLACEHOLDER {
        println!("NOTE: the repository is not named yet, so that no registry takes the packages");
        assert_eq!(homepage, PLACEHOLDER);
        for path in files {
            assert!(text(path).contains("OWNER"), "{path}");
        }
        return;
    }
    assert!(repository.starts_with("https://") && homepage.starts_with("https://"), "{repository}, {homepage}");
    for path in files {
        assert!(!text(path).contains("OWNER"), "{path}");
    }
}

#[test]
fn all_first_pages_begin_in_the_same_way() {
    let sentences = "Reads and writes tensor files: safetensors, GGUF, PyTorch, ExecuTorch `.ptd`, `.npy`, `.npz`, BTF, `.ten` and \
        TensorBuffers. In Rust they are structs of `ndarray` arrays, in Python arrays of numpy and torch, with names, dtypes and \
        shapes checked. A program lists, compares and converts them.";
    for path in ["README.md", "python/README.md", "src/lib.rs"] {
        let lines = text(path);
        let lines = lines.lines().take(20).map(|line| line.trim_start_matches("//!"));
        let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
        assert!(words.join(" ").contains(sentences), "{path}");
    }
}
