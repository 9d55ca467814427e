use ndarray::Array1;
use tensorfile::TensorFile;

#[derive(TensorFile)]
#[tensor(prefix = "bert.")]
struct Linear {
    weight: Array1<f32>,
}

fn main() {}
