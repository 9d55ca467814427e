use std::collections::BTreeMap;

use ndarray::{Array1, Array2};
use tensorfile::TensorFile;

#[derive(TensorFile)]
struct Linear {
    #[tensor(shape = [3, 4, 5])]
    weight: Array2<f32>,
    #[tensor(shape = [3, _])]
    bias: Option<Array1<f32>>,
    #[tensor(shape = [_, _], cast)]
    steps: Vec<u32>,
    #[tensor(shape = [2])]
    heads: BTreeMap<String, Vec<Array2<f32>>>,
}

fn main() {}
