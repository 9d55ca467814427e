use ndarray::Array1;
use tensorfile::TensorFile;

#[derive(TensorFile)]
struct Linear {
    weight: Array1<f32>,
}

#[derive(TensorFile)]
struct Model {
    #[tensor(dequantize)]
    linear: Linear,
}

fn main() {}
