//! Runs all targets on the kept inputs and on the seeds.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use std::fs;
use std::path::{Path, PathBuf};

use tensorfile_fuzz_targets::TARGETS;

#[test]
fn seeds_find_nothing() {
    TARGETS.iter().for_each(|target| target.seeds().iter().for_each(|seed| target.run(seed)));
}

#[test]
fn the_dictionary_has_all_magics() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let dictionary = fs::read_to_string(fuzz.join("tensorfile.dict")).unwrap();
    for magic in tensorfile::FORMATS.iter().flat_map(|format| format.magics) {
        let escaped = |byte: &u8| match byte.is_ascii_graphic() {
            true => char::from(*byte).to_string(),
            false => format!("\\x{byte:02x}"),
        };
        let magic: String = magic.bytes.iter().map(escaped).collect();
        assert!(dictionary.contains(&magic), "{magic}");
    }
}

#[test]
fn every_target_runs_with_libfuzzer() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let manifest = fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
    for target in TARGETS {
        let path = format!("fuzz_targets/{}.rs", target.name);
        assert!(manifest.contains(&format!("path = \"{path}\"")), "{path} is not in Cargo.toml");
        let source = fs::read_to_string(fuzz.join(&path)).unwrap();
        assert!(source.contains(&format!("named(\"{}\")", target.name)), "{path} runs another target");
    }
}

/// Returns the entries of a folder in `fuzz/`, sorted.
fn entries(folder: impl AsRef<Path>) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(folder);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

#[test]
fn kept_inputs_find_nothing() {
    for folder in ["corpus", "findings"].map(entries).iter().flatten() {
        let name = folder.file_name().unwrap().to_str().unwrap();
        let target = TARGETS.iter().find(|target| target.name == name);
        let target = target.unwrap_or_else(|| panic!("{} has the name of no target", folder.display()));
        for path in entries(folder) {
            if std::panic::catch_unwind(|| target.run(&fs::read(&path).unwrap())).is_err() {
                panic!("{} finds something in {}", target.name, path.display());
            }
        }
    }
}

#[test]
fn kept_inputs_of_all_targets_find_nothing_through_c() {
    let paths: Vec<PathBuf> = entries("corpus").into_iter().flat_map(entries).collect();
    let mut reads = 0;
    for path in &paths {
        let input = fs::read(path).unwrap();
        // Many targets have bytes of their own before the file.
        for start in [0, 1, 2, 4, 8].into_iter().filter(|start| *start <= input.len()) {
            reads += tensorfile_fuzz_targets::c_calls::run_on_file(&input[start..]);
        }
    }
    assert!(paths.len() > 600 && reads > 500, "{} inputs, {reads} reads", paths.len());
}

#[test]
fn every_target_and_row_has_a_corpus() {
    for target in TARGETS {
        assert!(!entries(Path::new("corpus").join(target.name)).is_empty(), "{} has no corpus", target.name);
    }
    // In these targets, the first byte of an input is the row of its format.
    for target in ["read", "one_tensor", "stream", "large", "convert", "codegen", "program"] {
        let rows: Vec<u8> = entries(Path::new("corpus").join(target))
            .iter()
            .filter_map(|path| fs::read(path).unwrap().first().copied())
            .collect();
        for (row, format) in (0_u8..).zip(tensorfile::FORMATS) {
            assert!(rows.contains(&row), "no input of {target} is of {}", format.name);
        }
    }
}
