//! Quantized weights, in the files that programs write: `tests/fixtures/quant` has a folder for each layout, whose README says
//! where they come from.

#[cfg(feature = "quant")]
mod decoding;
mod recognition;
mod refusals;
#[cfg(all(feature = "http", feature = "quant"))]
mod remote;
mod typed;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde::Deserialize;
use tensorfile::{File, OpenOptions};

use crate::support::root;

/// What a folder holds.
#[derive(Debug, Deserialize)]
pub struct Case {
    #[serde(skip)]
    pub name: String,
    /// `quantized`, `recognise`, `decoy` or `ambiguous`.
    pub kind: String,
    /// The weights, by name.
    pub tensors: BTreeMap<String, Weight>,
}

/// A weight as the model's own loader has it.
#[derive(Debug, Deserialize)]
pub struct Weight {
    pub shape: Vec<usize>,
    /// SHA-256 of the elements in row-major order, in which every NaN is the same.
    pub f32: String,
    pub bf16: String,
}

impl Case {
    /// The path to open: the folder of a checkpoint, or the one file of others.
    pub fn path(&self) -> PathBuf {
        let folder = folder().join(&self.name);
        let other = ["model.gguf", "flux.safetensors"].map(|name| folder.join(name));
        other.into_iter().find(|path| path.is_file()).unwrap_or(folder)
    }

    pub fn open(&self) -> File {
        OpenOptions::new().open(self.path()).unwrap()
    }
}

fn folder() -> PathBuf {
    root().join("tests/fixtures/quant")
}

/// Returns all cases, in the order of their names.
pub fn cases() -> Vec<Case> {
    let expected = fs::read_dir(folder().join("expected")).unwrap();
    let mut paths: Vec<PathBuf> = expected.map(|entry| entry.unwrap().path()).collect();
    paths.sort_unstable();
    let read = |path: &PathBuf| {
        let case: Case = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        Case { name: path.file_stem().unwrap().to_string_lossy().into_owned(), ..case }
    };
    let cases: Vec<Case> = paths.iter().map(read).collect();
    assert_eq!(cases.len(), 55);
    cases
}
