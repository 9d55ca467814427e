use ndarray::Array2;
use tensorfile::TensorFile;

#[derive(TensorFile)]
struct Linear {
    #[tensor(shape = ["out", _])]
    weight: Array2<f32>,
}

fn main() {}
