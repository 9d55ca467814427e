//! Layout maps: files in two layouts made by other software, and maps drawn at random against an evaluator that lists all
//! elements of both sides.

mod cases;
mod messages;
mod places;
mod random;
mod reading;

use std::path::{Path, PathBuf};

use serde::Deserialize;
use tensorfile::{LayoutMap, TensorMap};

use crate::support::root;

fn folder() -> PathBuf {
    root().join("tests/fixtures/maps")
}

/// Returns the folders of cases below a folder, in order.
fn folders(below: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        std::fs::read_dir(folder().join(below)).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

/// What `case.json` says.
#[derive(Debug, Deserialize)]
struct Case {
    #[serde(default)]
    map: String,
    #[serde(default)]
    invert: bool,
}

fn case(folder: &Path) -> Case {
    serde_json::from_slice(&std::fs::read(folder.join("case.json")).unwrap()).unwrap()
}

fn parse(text: &str) -> LayoutMap {
    LayoutMap::parse(text).unwrap()
}

/// A file of tensors of bytes that count up, with names and shapes.
fn counting(tensors: &[(&str, &[usize])]) -> Vec<u8> {
    let mut map = TensorMap::new();
    let mut next = 0_u16;
    for (name, shape) in tensors {
        let numbers: Vec<u16> = (0..shape.iter().product::<usize>())
            .map(|_| {
                next += 1;
                next
            })
            .collect();
        map.insert((*name).to_owned(), tensorfile::Tensor::from_slice(&numbers, shape.to_vec()).unwrap());
    }
    tensorfile::safetensors::to_vec(&map).unwrap()
}
