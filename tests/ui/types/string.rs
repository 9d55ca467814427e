use ndarray::Array1;
use tensorfile::TensorFile;

#[derive(TensorFile)]
struct Model {
    weight: Array1<f32>,
    author: String,
}

fn main() {}
