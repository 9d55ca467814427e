//! Published packages contain all files included by their sources, and use all their dependencies.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use crate::support::root;

/// Returns the folders of the packages that are published, with their names.
pub fn published() -> Vec<(PathBuf, String)> {
    let workspace = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let members = workspace.lines().find_map(|line| line.strip_prefix("members = ")).unwrap();
    let folders = members.split('"').skip(1).step_by(2).chain([""]);
    let name = |folder: &str| {
        let manifest = fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap();
        let name = manifest.lines().find_map(|line| line.strip_prefix("name = "))?.trim_matches('"').to_owned();
        (!manifest.contains("publish = false")).then(|| (PathBuf::from(folder), name))
    };
    folders.filter_map(name).collect()
}

/// Returns the paths in a package, relative to its folder.
pub fn packaged(name: &str) -> BTreeSet<PathBuf> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["package", "--list", "--allow-dirty", "--offline", "--package", name]);
    let output = cargo.current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(PathBuf::from).collect()
}

/// Returns the paths that a source names with any of these words, relative to its folder.
fn included(source: &str) -> Vec<&str> {
    let words = ["include_str!(", "include_bytes!(", "include!(", "#[path = "].iter();
    let rests = words.flat_map(|word| source.match_indices(word).map(|(at, word)| &source[at + word.len()..]));
    rests.filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next()).collect()
}

/// Joins paths, without the folders that `..` leaves; `None` if it leaves all.
fn join(folder: &Path, path: &str) -> Option<PathBuf> {
    folder.join(path).components().try_fold(PathBuf::new(), |mut joined, part| match part {
        Component::ParentDir => joined.pop().then_some(joined),
        part => {
            joined.push(part);
            Some(joined)
        }
    })
}

#[test]
fn includes_are_found() {
    let source = "#[doc = include_str!(\"../README.md\")]\n#[path = \"a.rs\"]\nmod b; include_bytes!(\n \"c\\\")";
    assert_eq!(included(source), ["../README.md", "c\\", "a.rs"]);
    assert_eq!(join(Path::new("src/view"), "../../a"), Some(PathBuf::from("a")));
    assert_eq!(join(Path::new("src"), "../../a"), None);
}

/// Returns the names of the packages that the library depends on.
fn dependencies(manifest: &str) -> Vec<&str> {
    let sections = manifest.split("\n[").filter_map(|section| {
        let (name, lines) = section.split_once("]\n")?;
        (name == "dependencies" || name.starts_with("target.") && name.ends_with(".dependencies")).then_some(lines)
    });
    sections
        .flat_map(str::lines)
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| Some(line.split_once(" = ")?.0))
        .collect()
}

#[test]
fn the_library_uses_what_it_depends_on() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let dependencies = dependencies(&manifest);
    for expected in ["flatbuffers", "half", "ndarray", "num-traits", "rustix", "serde", "serde_bytes"] {
        assert!(dependencies.contains(&expected), "{expected} is not in {dependencies:?}");
    }
    let files: Vec<PathBuf> = packaged("tensorfile")
        .into_iter()
        .filter(|file| file.starts_with("src") && file.extension().is_some_and(|extension| extension == "rs"))
        .collect();
    let code: Vec<String> = files.iter().map(|file| fs::read_to_string(root().join(file)).unwrap()).collect();
    let is_used = |name: &str| {
        let name = name.replace('-', "_");
        let uses = [format!("{name}::"), format!("use {name};")];
        let mut lines = code.iter().flat_map(|text| text.lines()).filter(|line| !line.trim_start().starts_with("//"));
        lines.any(|line| uses.iter().any(|path| line.contains(path)))
    };
    let unused: Vec<&str> = dependencies.into_iter().filter(|name| !is_used(name)).collect();
    assert_eq!(unused, [""; 0]);
}

#[test]
fn packages_have_what_their_sources_include() {
    let packages = published();
    let names: Vec<&str> = packages.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "tensorfile-c",
            "tensorfile-cli",
            "tensorfile-datasets",
            "tensorfile-derive",
            "tensorfile-quant",
            "tensorfile"
        ]
    );
    let mut missing = Vec::new();
    for (folder, name) in packages {
        let files = packaged(&name);
        assert!(files.contains(Path::new("src/lib.rs")), "{name}: {files:?}");
        for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "rs")) {
            let source = fs::read_to_string(root().join(&folder).join(file)).unwrap();
            let found = |path: &&str| !join(file.parent().unwrap(), path).is_some_and(|path| files.contains(&path));
            let paths = included(&source);
            let not_found = paths.iter().copied().filter(found);
            // Files read at run time would not be found by this check, so there must be none.
            let read = source.contains("CARGO_MANIFEST_DIR").then_some("the folder of the package");
            missing.extend(not_found.chain(read).map(|what| format!("{name}: {} needs {what}", file.display())));
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}
