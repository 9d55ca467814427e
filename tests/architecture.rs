//! The layers of the house: imports point downward only.
//!
//! A module may name the modules of its crate that stand below it, and itself. Which those are is the table here; what
//! a module does name is read from its source.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Each module with those of `crate` that it may name, beside itself. A folder's row holds for all in it, but for what
/// has a row of its own.
const LAYERS: &[(&str, &[&str])] = &[
    // Layer 0: what a tensor is. No I/O, no serde, no formats.
    ("tensor", &[]),
    // Layer 1.
    ("error", &["tensor"]),
    ("limits", &[]),
    // Layer 2: where bytes come from, and how tensors travel through serde; neither knows formats.
    ("source", &["tensor", "error", "limits"]),
    ("model", &["tensor", "error", "limits"]),
    // Layer 3: what formats share.
    ("wire", &["tensor", "error", "limits", "source", "model"]),
    // Layer 4: one folder per format, which knows no other; and the table of them.
    ("format", &["tensor", "error", "limits", "source", "model", "wire"]),
    // Layer 5: on top of all.
    ("array", &["tensor", "error", "limits", "model"]),
    ("cast", &["tensor", "error"]),
    ("digest", &["tensor"]),
    ("stats", &["tensor"]),
    ("private", &["tensor", "error", "limits", "model", "array"]),
    ("report", &["tensor", "error", "model", "wire"]),
    // Layer 6: opened files.
    ("file", &["tensor", "error", "limits", "source", "model", "wire", "format", "report"]),
    (
        "lib",
        &[
            "array", "cast", "digest", "error", "file", "format", "limits", "model", "private", "report", "source",
            "stats", "tensor", "wire",
        ],
    ),
];

/// Items that `lib.rs` re-exports, with the module that each is from.
fn home(item: &str) -> Option<&'static str> {
    Some(match item {
        "Error" | "ErrorKind" | "Result" | "Category" | "LoadReport" => "error",
        "Limits" => "limits",
        "TensorFile" | "FromTensors" | "Schema" | "Slot" => "model",
        "Arrays" => "array",
        "Caster" => "cast",
        "Digest" => "digest",
        "Stats" => "stats",
        "FORMATS" | "Format" | "btf" | "ten" => "format",
        "Dtype" | "Element" | "InvalidTensor" | "Layout" | "Shape" | "Tensor" | "TensorInfo" | "TensorMap"
        | "TensorView" | "CooTensor" | "InvalidCast" | "DimOrder" => "tensor",
        _ => return None,
    })
}

struct Source {
    /// The path below `src`.
    path: PathBuf,
    /// The code without comments, tests and blanks around punctuation.
    code: String,
}

impl Source {
    /// The first folder, or the file itself where it stands in none.
    fn module(&self) -> String {
        let first = self.path.iter().next().unwrap().to_string_lossy();
        first.trim_end_matches(".rs").to_owned()
    }

    /// The names that stand behind `crate::`, each with what follows it.
    fn crate_paths(&self) -> BTreeSet<String> {
        paths_after(&self.code, "crate::")
    }
}

/// The paths that stand behind `prefix`, with lists in braces taken apart.
fn paths_after(code: &str, prefix: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices(prefix) {
        let before = code[..at].chars().next_back();
        if before.is_none_or(|before| !before.is_alphanumeric() && before != '_') {
            expand(&code[at + prefix.len()..], "", &mut found);
        }
    }
    found
}

/// Reads one path, or the list of paths in braces, at the beginning of `code`; returns what is behind it.
fn expand<'a>(code: &'a str, stem: &str, found: &mut BTreeSet<String>) -> &'a str {
    if let Some(mut rest) = code.strip_prefix('{') {
        while !rest.starts_with('}') {
            rest = expand(rest, stem, found).trim_start_matches(',');
        }
        return &rest[1..];
    }
    let end = code.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(code.len());
    let path = format!("{stem}{}", &code[..end]);
    match code[end..].strip_prefix("::") {
        Some(rest) if rest.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '{') => {
            expand(rest, &format!("{path}::"), found)
        }
        rest => {
            found.insert(path);
            let rest = rest.unwrap_or(&code[end..]).trim_start_matches('*');
            // `use a as b`.
            let renamed = rest
                .strip_prefix(" as ")
                .map(|rest| rest.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_'));
            renamed.unwrap_or(rest)
        }
    }
}

fn sources() -> Vec<Source> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }

    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    walk(&root, &mut paths);
    paths.sort();
    let source = |path: PathBuf| Source {
        code: code_of(&std::fs::read_to_string(&path).unwrap()),
        path: path.strip_prefix(&root).unwrap().to_owned(),
    };
    paths.into_iter().map(source).filter(|source| !source.path.starts_with("bin")).collect()
}

/// The text without line comments, without the tests at its end, and without blanks that do not divide words.
fn code_of(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap();
    let lines = text.lines().map(|line| line.trim().split("//").next().unwrap_or_default());
    let mut code = String::new();
    for word in lines.flat_map(str::split_whitespace) {
        let divides = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        if divides(code.chars().next_back()) && divides(word.chars().next()) {
            code.push(' ');
        }
        code.push_str(word);
    }
    code
}

#[test]
fn imports_are_found() {
    let code = code_of(
        "
        use crate::error::{Error, kind::{A, B as C}, Result}; // crate::comment
        use crate::a::{
            self, b,
        };
        use other_crate::x;
        fn f(x: crate::d::E) -> pub(crate) Y { crate::g!() }
        #[cfg(test)]\nmod tests { use crate::h; }
    "
        .trim_end(),
    );
    let found: Vec<String> = paths_after(&code, "crate::").into_iter().collect();
    let expected =
        ["a::b", "a::self", "d::E", "error::Error", "error::Result", "error::kind::A", "error::kind::B", "g"];
    assert_eq!(found, expected);
}

#[test]
fn every_module_has_a_row() {
    let modules: BTreeSet<String> = sources().iter().map(Source::module).collect();
    let rows: BTreeSet<String> = LAYERS.iter().map(|(module, _)| (*module).to_owned()).collect();
    assert_eq!(modules, rows);
}

#[test]
fn imports_point_downward() {
    let mut wrong = Vec::new();
    for source in sources() {
        let module = source.module();
        let (_, below) = LAYERS.iter().find(|(name, _)| *name == module).unwrap();
        for path in source.crate_paths() {
            let first = path.split("::").next().unwrap();
            let home = home(first).unwrap_or(first);
            if home != module && !below.contains(&home) {
                wrong.push(format!("{}: crate::{path}", source.path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "these point upward:\n{}", wrong.join("\n"));
}

#[test]
fn a_format_knows_no_other() {
    let formats: Vec<&str> = tensorfile::FORMATS.iter().map(|format| format.name).collect();
    let mut wrong = Vec::new();
    for source in sources() {
        let Some(own) = formats.iter().find(|name| source.path.starts_with(format!("format/{name}"))) else { continue };
        let mut paths = source.crate_paths();
        paths.extend(paths_after(&source.code, "super::"));
        for path in paths {
            if path.split("::").any(|part| part != *own && formats.contains(&part)) {
                wrong.push(format!("{}: {path}", source.path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "these know another format:\n{}", wrong.join("\n"));
}

#[test]
fn formats_have_the_same_files() {
    for format in tensorfile::FORMATS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/format").join(format.name);
        for file in ["mod.rs", "header.rs", "de.rs", "ser.rs"] {
            assert!(folder.join(file).is_file(), "{} has no {file}", format.name);
        }
    }
}

#[test]
fn only_the_format_module_tells_formats_apart() {
    for source in sources().iter().filter(|source| !source.path.starts_with("format")) {
        for format in tensorfile::FORMATS {
            let quoted = format!("\"{}\"", format.name);
            // A Cargo feature has the name of its format.
            let code = source.code.replace(&format!("feature={quoted}"), "");
            assert!(!code.contains(&quoted), "{} spells {quoted}", source.path.display());
        }
    }
}

#[test]
fn tensors_know_no_serde_and_no_files() {
    for source in sources().iter().filter(|source| source.path.starts_with("tensor")) {
        for foreign in ["serde::", "serde_bytes::", "std::io", "std::fs"] {
            assert!(!source.code.contains(foreign), "{} names {foreign}", source.path.display());
        }
    }
}

#[test]
fn models_know_no_arrays() {
    for source in sources().iter().filter(|source| source.path.starts_with("model")) {
        assert!(!source.code.contains("ndarray::"), "{} names ndarray", source.path.display());
    }
}

#[test]
fn private_names_are_spelled_in_one_place() {
    for source in sources().iter().filter(|source| !source.path.ends_with("token.rs")) {
        assert!(!source.code.contains("\"$tensorfile"), "{} spells a private name", source.path.display());
    }
}

#[test]
fn there_are_no_drawers_for_odds_and_ends() {
    for source in sources() {
        let name = source.path.file_stem().unwrap().to_string_lossy().into_owned();
        assert!(!["utils", "util", "helpers", "common", "misc"].contains(&name.as_str()), "{}", source.path.display());
    }
}
