use ndarray::{Array1, Array2};
use tensorfile::TensorFile;

#[derive(TensorFile)]
struct Linear {
    weight: Array2<f32>,
    #[tensor(alias = "b", alias = "weight")]
    bias: Array1<f32>,
}

fn main() {}
