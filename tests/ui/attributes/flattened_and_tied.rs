use ndarray::Array1;
use tensorfile::TensorFile;

#[derive(TensorFile)]
struct Linear {
    weight: Array1<f32>,
}

#[derive(TensorFile)]
struct Model {
    #[tensor(flatten, tied = "fc")]
    linear: Linear,
}

fn main() {}
