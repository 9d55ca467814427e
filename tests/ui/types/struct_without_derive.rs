use ndarray::Array1;
use tensorfile::TensorFile;

struct Linear {
    weight: Array1<f32>,
}

#[derive(TensorFile)]
#[tensor(prefix = "bert")]
struct Model {
    linear: Linear,
}

fn main() {}
