use ndarray::{Array1, Array2};
use tensorfile::TensorFile;

#[derive(TensorFile)]
#[tensor(rename_all = "camelCase")]
struct Linear {
    #[tensor(rename = "outWeight")]
    kernel: Array2<f32>,
    out_weight: Array1<f32>,
}

fn main() {}
