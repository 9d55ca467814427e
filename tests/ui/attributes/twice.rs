use ndarray::Array1;
use tensorfile::TensorFile;

#[derive(TensorFile)]
struct Linear {
    #[tensor(rename = "kernel", cast)]
    #[tensor(rename = "w")]
    weight: Array1<f32>,
}

fn main() {}
