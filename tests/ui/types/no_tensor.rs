use ndarray::Array1;
use tensorfile::TensorFile;

#[derive(TensorFile)]
struct Linear {
    weight: Array1<f32>,
    name: String,
}

fn main() {}
