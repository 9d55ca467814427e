use ndarray::Array1;
use tensorfile::TensorFile;

#[derive(TensorFile)]
#[tensor(allow_unknowns)]
struct Linear {
    weight: Array1<f32>,
}

fn main() {}
