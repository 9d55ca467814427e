use ndarray::{Array1, Array2};
use tensorfile::TensorFile;

#[derive(TensorFile)]
struct Linear {
    #[tensor(rename = "weight")]
    kernel: Array2<f32>,
    weight: Array1<f32>,
}

fn main() {}
