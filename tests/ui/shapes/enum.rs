use ndarray::Array1;
use tensorfile::TensorFile;

#[derive(TensorFile)]
enum Layer {
    Linear(Array1<f32>),
}

fn main() {}
