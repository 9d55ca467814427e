use ndarray::Array1;
use tensorfile::TensorFile;

#[derive(TensorFile)]
#[tensor(rename = "linear")]
struct Linear {
    weight: Array1<f32>,
}

fn main() {}
