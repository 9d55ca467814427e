//! Runs all targets on the inputs that are kept, and on those that fuzzing begins with.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use std::fs;
use std::path::{Path, PathBuf};

use tensorfile_fuzz_targets::{TARGETS, Target};

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

#[test]
fn kept_inputs_find_nothing() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for folder in ["corpus", "findings"] {
        TARGETS.iter().for_each(|target| replay(target, &fuzz.join(folder).join(target.name)));
    }
}

/// Runs a target on the files of a folder, if there are any.
fn replay(target: &Target, folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if std::panic::catch_unwind(|| target.run(&fs::read(&path).unwrap())).is_err() {
            panic!("{} finds something in {}", target.name, path.display());
        }
    }
}
