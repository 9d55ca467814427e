use ndarray::Array1;
use tensorfile::TensorFile;

#[derive(TensorFile)]
struct Linear {
    #[tensor(name = "kernel")]
    weight: Array1<f32>,
}

fn main() {}
