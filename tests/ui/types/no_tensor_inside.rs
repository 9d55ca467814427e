use std::path::PathBuf;

use ndarray::Array1;
use tensorfile::TensorFile;

#[derive(TensorFile)]
struct Linear {
    weight: Array1<f32>,
    sources: Vec<PathBuf>,
}

fn main() {}
