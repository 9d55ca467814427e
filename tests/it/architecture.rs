//! The layers of the library: imports point downward only.
//!
//! A module may name the modules of its crate that are below it, and itself. The table here lists them; the imports are
//! read from the source.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::support::root;

/// Each module, with the other modules of `crate` that it may name. They are in rows above it.
const LAYERS: &[(&str, &[&str])] = &[
    // Tensors. No I/O, no serde, no formats.
    ("threads", &[]),
    ("limits", &[]),
    ("tensor", &["threads"]),
    ("error", &["tensor"]),
    ("cast", &["tensor", "error", "threads"]),
    ("digest", &["tensor", "threads"]),
    ("stats", &["tensor", "cast", "threads"]),
    // Bytes in files, and values as named tensors. Neither knows formats or serde.
    ("storage", &["tensor", "error", "threads"]),
    ("model", &["tensor", "cast", "error"]),
    // The parts that formats share, and finding tensors by name or position. Reading and writing do not know each
    // other.
    ("read", &["tensor", "error", "limits", "storage", "model"]),
    ("write", &["tensor", "error", "threads", "storage", "model"]),
    // Which bytes are read together, and into which memory.
    ("fetch", &["tensor", "error", "threads", "storage", "read"]),
    // What tensors mean to each other.
    ("quant", &["tensor", "error", "storage", "read", "fetch"]),
    // The tensors of one layout as moves of elements of another.
    ("map", &["tensor", "error", "digest", "fetch"]),
    ("find", &["tensor", "error", "limits", "storage", "model", "read", "quant"]),
    // The bridge to serde, and arrays.
    ("serde", &["tensor", "cast", "error", "limits", "model", "read", "find"]),
    ("array", &["tensor", "error", "model", "serde"]),
    // One folder per format, which knows no other, and the table of them.
    ("format", &["tensor", "error", "limits", "storage", "model", "read", "write", "find", "serde"]),
    // Files at URLs.
    ("remote", &["error", "limits", "storage", "fetch", "format", "threads"]),
    // Open files, and views of tensors for programs.
    (
        "file",
        &[
            "tensor", "digest", "error", "limits", "storage", "model", "read", "write", "find", "fetch", "format",
            "remote", "threads", "quant", "map",
        ],
    ),
    (
        "view",
        &["tensor", "cast", "error", "digest", "stats", "model", "write", "fetch", "file", "format", "quant", "map"],
    ),
    ("private", &["error", "model", "serde"]),
    ("guide", &[]),
    (
        "lib",
        &[
            "array", "cast", "digest", "error", "fetch", "file", "find", "format", "limits", "map", "model", "private",
            "quant", "remote", "serde", "stats", "storage", "tensor", "threads", "view",
        ],
    ),
];

/// Returns the row of a file.
fn row_of(source: &Source) -> &'static (&'static str, &'static [&'static str]) {
    let row = LAYERS.iter().find(|(name, _)| *name == source.module());
    row.unwrap_or_else(|| panic!("{} has no row", source.path.display()))
}

/// Returns the module of an item that `lib.rs` re-exports.
fn home(item: &str) -> Option<&'static str> {
    match item {
        "Serializer" => Some("model"),
        "Deserializer" => Some("find"),
        _ => None,
    }
}

struct Source {
    /// The path below `src`.
    path: PathBuf,
    /// The code without comments, tests and blanks around punctuation.
    code: String,
}

impl Source {
    /// The first folder, or the file itself if it is in no folder.
    fn module(&self) -> String {
        let first = self.path.iter().next().unwrap().to_string_lossy();
        first.trim_end_matches(".rs").to_owned()
    }

    /// Returns the paths that begin with `crate::`, without it.
    fn crate_paths(&self) -> BTreeSet<String> {
        paths_after(&self.code, "crate::")
    }
}

/// Returns the paths that begin with `prefix`, without it. Lists in braces are expanded.
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

/// Reads one path, or a list of paths in braces, at the beginning of `code`. Returns the rest.
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
    sources_in("src")
}

/// Returns the sources of a crate, given their folder in the repository.
fn sources_in(folder: &str) -> Vec<Source> {
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

    let root = root().join(folder);
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
fn rows_name_rows_above_them() {
    let mut wrong = Vec::new();
    for (at, (module, below)) in LAYERS.iter().enumerate() {
        for other in *below {
            if !LAYERS[..at].iter().any(|(above, _)| above == other) {
                wrong.push(format!("{module} names {other}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn imports_point_downward() {
    let mut wrong = Vec::new();
    for source in sources() {
        let module = source.module();
        let (_, below) = row_of(&source);
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

/// Returns the folder of a format below `src`. Formats that share a header are in one folder.
fn folder_of(format: &str) -> PathBuf {
    let (own, shared) = (Path::new("format").join(format), Path::new("format/numpy").join(format));
    let root = root().join("src");
    if root.join(&own).is_dir() { own } else { shared }
}

#[test]
fn formats_do_not_import_each_other() {
    let formats: Vec<&str> = tensorfile::FORMATS.iter().map(|format| format.name).collect();
    let mut wrong = Vec::new();
    for source in sources() {
        let Some(own) = formats.iter().find(|name| source.path.starts_with(folder_of(name))) else { continue };
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
        let folder = root().join("src").join(folder_of(format.name));
        for file in ["mod.rs", "header.rs", "de.rs", "ser.rs"] {
            let is_shared =
                folder.ends_with("numpy/npy") && file == "header.rs" && folder.join("../header.rs").is_file();
            assert!(folder.join(file).is_file() || is_shared, "{} has no {file}", format.name);
        }
    }
}

#[test]
fn only_the_format_module_names_formats() {
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
fn tensors_do_not_import_serde_arrays_or_files() {
    for source in sources().iter().filter(|source| source.path.starts_with("tensor")) {
        for foreign in ["serde::", "serde_bytes::", "ndarray::", "std::fs"] {
            assert!(!source.code.contains(foreign), "{} names {foreign}", source.path.display());
        }
    }
}

#[test]
fn only_the_edge_imports_ndarray() {
    for source in sources() {
        let is_edge = ["array", "file"].iter().any(|folder| source.path.starts_with(folder));
        assert!(is_edge || !source.code.contains("ndarray::"), "{} names ndarray", source.path.display());
    }
}

/// Returns the paths into the crate serde, as opposed to `crate::serde`.
fn serde_paths(code: &str) -> BTreeSet<String> {
    let code = code.replace("crate::serde::", "").replace("self::serde::", "").replace("::serde;", "");
    paths_after(&code, "serde::")
}

#[test]
fn only_the_bridge_and_public_functions_import_serde() {
    /// Public functions whose bounds are serde's, headers that are JSON, and `Serialize` of reports.
    const ALLOWED: &[&str] = &[
        "array/with.rs",
        "file/checkpoint/shards/index.rs",
        "file/file.rs",
        "format/options.rs",
        "format/safetensors/header.rs",
        "view/serialize.rs",
    ];
    for source in sources().iter().filter(|source| !source.path.starts_with("serde")) {
        let is_face = source.path.ends_with("mod.rs") || source.path.ends_with("options.rs");
        let is_format = source.path.starts_with("format") && is_face;
        let is_allowed = is_format || ALLOWED.iter().any(|path| source.path == Path::new(path));
        let paths = serde_paths(&source.code);
        assert!(is_allowed || paths.is_empty(), "{} names serde: {paths:?}", source.path.display());
    }
}

/// Returns the places in `code` that name a closure trait other than after `dyn`: `impl FnMut(…)`, or a bound such as
/// `F: Fn(…)`.
fn closure_bounds(code: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for name in ["Fn(", "FnMut(", "FnOnce("] {
        for (at, _) in code.match_indices(name) {
            let before = &code[..at];
            let is_word = !before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
            // `dyn for<'a> Fn(&'a u8)`.
            let before = before.rfind("for<").filter(|at| before[*at..].find('>') == Some(before.len() - at - 1));
            let before = before.map_or(&code[..at], |at| &code[..at]).trim_end();
            if is_word && !before.ends_with("dyn") {
                found.push(&code[before.len() - before.len().min(20)..at + name.len()]);
            }
        }
    }
    found
}

#[test]
fn closure_bounds_are_found() {
    let code = "fn a<F:Fn(u8)>(_:impl FnMut(u8),_:&dyn Fn(u8),_:Box<dyn for<'a>FnOnce(&'a u8)+'a>,_:fn(u8))where G:for<'a>Fn(&'a u8)";
    assert_eq!(closure_bounds(code).len(), 3, "{:?}", closure_bounds(code));
}

#[test]
fn everything_below_the_bridge_is_compiled_once() {
    /// Files whose closures do not make copies for each type of a user.
    const ALLOWED: &[&str] = &[
        // Public functions that box a listener at once.
        "file/dequantize.rs",
        "file/open.rs",
        "file/rank_folder.rs",
        "file/read_plan.rs",
        "file/save.rs",
        "storage/progress.rs",
        // Called by functions of this crate that are not generic, with a value that is moved or returned.
        "format/tensorbuffers/metadata.rs",
        "storage/save/replace.rs",
    ];
    let mut unused: BTreeSet<&str> = ALLOWED.iter().copied().collect();
    for folder in ["storage", "model", "read", "write", "find", "serde", "array", "format", "file"] {
        for source in sources().iter().filter(|source| source.path.starts_with(folder)) {
            let found = closure_bounds(&source.code);
            let path = source.path.to_str().unwrap();
            let is_allowed = ALLOWED.contains(&path) && !found.is_empty() && unused.remove(path);
            assert!(is_allowed || found.is_empty(), "{path} is generic over a closure: {found:?}");
        }
    }
    assert!(unused.is_empty(), "these have no generic closures any more: {unused:?}");
}

#[test]
fn no_folder_has_circles() {
    let sources = sources();
    let folders: BTreeSet<&Path> = sources.iter().filter_map(|source| source.path.parent()).collect();
    /// Folders whose `mod.rs` defines what their files are about: `File`, `Finder`, `Caster`, `Index` and `Options`.
    const ABOUT_ONE_TYPE: &[&str] =
        &["cast", "file", "find", "format/ptd", "format/tensorbuffers", "read/index", "serde/de"];

    let mut circles = Vec::new();
    let is_about_one_type = |folder: &&Path| ABOUT_ONE_TYPE.iter().any(|path| *folder == Path::new(path));
    for folder in folders.into_iter().filter(|folder| !folder.as_os_str().is_empty() && !is_about_one_type(folder)) {
        circles.extend(circle(folder, &sources).map(|circle| format!("{}: {}", folder.display(), circle.join(" -> "))));
    }
    assert!(circles.is_empty(), "these modules need each other:\n{}", circles.join("\n"));
}

#[test]
fn the_modules_of_datasets_have_no_circles() {
    let mut named: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in sources_in("datasets/src").iter().filter(|source| source.module() != "lib") {
        let paths = source.crate_paths();
        let others = paths.iter().filter_map(|path| path.split("::").next()).filter(|name| *name != source.module());
        named.entry(source.module()).or_default().extend(others.map(str::to_owned));
    }
    assert!(named.len() > 10 && named["shard"].contains("archive"), "{named:?}");
    // What names no other module is left out again and again.
    while let Some(free) = named.iter().find(|(_, others)| others.iter().all(|name| !named.contains_key(name))) {
        let free = free.0.clone();
        named.remove(&free);
    }
    assert!(named.is_empty(), "these modules need each other: {named:?}");
}

/// Returns modules of a folder that name each other in a circle.
fn circle(folder: &Path, sources: &[Source]) -> Option<Vec<String>> {
    let root = sources.iter().find(|source| source.path == folder.join("mod.rs"))?;
    // The modules of the folder, and the module of each item that `mod.rs` re-exports.
    let module_of = |source: &Source| {
        let below = source.path.strip_prefix(folder).ok()?;
        let first = below.iter().next()?.to_str()?.trim_end_matches(".rs");
        Some(first.to_owned())
    };
    let modules: BTreeSet<String> = sources.iter().filter_map(module_of).collect();
    let mut items = BTreeMap::new();
    for module in &modules {
        for item in paths_after(&root.code, &format!("{module}::")) {
            items.insert(item, module.clone());
        }
    }
    // Items that `mod.rs` defines are a module like any other.
    let text = std::fs::read_to_string(self::root().join("src").join(&root.path)).unwrap();
    items.extend(types_of(&text).map(|(_, name)| (name.to_owned(), "mod".to_owned())));
    let own = without_reexports(&root.code);
    // Modules that name no others are here too.
    let mut needs: BTreeMap<String, BTreeSet<String>> =
        modules.iter().map(|module| (module.clone(), BTreeSet::new())).collect();
    for source in sources {
        let Some(module) = module_of(source) else { continue };
        if module == "mod" {
            let is_named = |item: &str| words(&own).any(|word| word == item);
            let named =
                items.iter().filter(|(item, home)| *home != "mod" && is_named(item)).map(|(_, home)| home.clone());
            let called = modules.iter().filter(|module| own.contains(&format!("{module}::"))).cloned();
            needs.entry(module).or_default().extend(named.chain(called));
            continue;
        }
        // `super` of a file in the folder, and the full path.
        let full =
            format!("crate::{}::", folder.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("::"));
        let mut paths = paths_after(&source.code, &full);
        if source.path.parent() == Some(folder) {
            paths.extend(paths_after(&source.code.replace("super::super::", ""), "super::"));
        }
        for path in paths {
            let first = path.split("::").next().unwrap_or_default();
            let needed = if modules.contains(first) { Some(first.to_owned()) } else { items.get(first).cloned() };
            needs.entry(module.clone()).or_default().extend(needed.filter(|needed| *needed != module));
        }
    }
    // Removes modules that need none of the others, until nothing is left, or only circles.
    while let Some(done) = modules_without_needs(&needs) {
        needs.remove(&done);
        for needed in needs.values_mut() {
            needed.remove(&done);
        }
    }
    let mut at = needs.keys().next()?.clone();
    let mut way = Vec::new();
    while !way.contains(&at) {
        way.push(at.clone());
        at = needs[&at].first()?.clone();
    }
    way.push(at);
    Some(way)
}

/// Returns the code of a `mod.rs` without its `mod` lines and re-exports.
fn without_reexports(code: &str) -> String {
    let is_reexport = |item: &&str| {
        let item = item.trim_start_matches(['}', ']']);
        item.contains("pub use ") || item.contains(")use ") || item.starts_with("mod ")
    };
    code.split(';').filter(|item| !is_reexport(item)).collect::<Vec<_>>().join(";")
}

/// Returns the identifiers of some code.
fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !c.is_alphanumeric() && c != '_')
}

fn modules_without_needs(needs: &BTreeMap<String, BTreeSet<String>>) -> Option<String> {
    let is_free = |needed: &BTreeSet<String>| needed.iter().all(|module| !needs.contains_key(module));
    needs.iter().find(|(_, needed)| is_free(needed)).map(|(module, _)| module.clone())
}

#[test]
fn private_names_are_spelled_in_one_place() {
    for source in sources().iter().filter(|source| !source.path.ends_with("token.rs")) {
        assert!(!source.code.contains("\"$tensorfile"), "{} spells a private name", source.path.display());
    }
}

/// Returns the types that a file defines, each with its line. Types within functions and tests are indented, and are
/// not among them.
fn types_of(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().zip(1..).filter_map(|(line, number)| {
        let item = match line.strip_prefix("pub(") {
            Some(rest) => rest.split_once(") ")?.1,
            None => line.strip_prefix("pub ").unwrap_or(line),
        };
        let (kind, rest) = item.strip_prefix("unsafe ").unwrap_or(item).split_once(' ')?;
        let is_type = ["struct", "enum", "trait", "union", "type"].contains(&kind);
        let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
        is_type.then_some((number, name))
    })
}

#[test]
fn types_are_found() {
    let text = "\
/// A struct A.
pub struct B<'a> {
    field: C,
}
enum D {}
fn f() {
    struct E;
}
pub(in crate::file) struct F(u8, pub u8);
pub unsafe trait G: H {}
pub(crate) type I<'x> = &'x mut J;
";
    let found: Vec<(usize, &str)> = types_of(text).collect();
    assert_eq!(found, [(2, "B"), (5, "D"), (9, "F"), (10, "G"), (11, "I")]);
}

#[test]
fn type_names_are_defined_once() {
    /// Every format may have its own.
    const OF_FORMATS: &[&str] = &["Deserializer", "Encode", "Metadata", "Options", "Reader", "Serializer"];
    for folder in ["src", "cli/src", "datasets/src"] {
        let mut places: BTreeMap<(String, Option<&str>), Vec<String>> = BTreeMap::new();
        // It is compiled instead of `read/member.rs`.
        for source in sources_in(folder)
            .into_iter()
            .filter(|source| !["no_member.rs", "no_json.rs"].iter().any(|twin| source.path.ends_with(twin)))
        {
            let format = tensorfile::FORMATS.iter().find(|format| source.path.starts_with(folder_of(format.name)));
            let path = Path::new(folder).join(&source.path);
            for (line, name) in types_of(&std::fs::read_to_string(root().join(&path)).unwrap()) {
                let owner = format.filter(|_| OF_FORMATS.contains(&name)).map(|format| format.name);
                places.entry((name.to_owned(), owner)).or_default().push(format!("{}:{line}", path.display()));
            }
        }
        let repeated = places.iter().filter(|(_, places)| places.len() > 1);
        let repeated: Vec<String> =
            repeated.map(|((name, _), places)| format!("{name}: {}", places.join(", "))).collect();
        assert!(repeated.is_empty(), "these names are defined more than once:\n{}", repeated.join("\n"));
    }
}

#[test]
fn no_file_is_a_collection_of_helpers() {
    for source in sources() {
        let name = source.path.file_stem().unwrap().to_string_lossy().into_owned();
        assert!(!["utils", "util", "helpers", "common", "misc"].contains(&name.as_str()), "{}", source.path.display());
    }
}
