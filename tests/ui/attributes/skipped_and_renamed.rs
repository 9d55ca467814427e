use ndarray::Array1;
use tensorfile::TensorFile;

#[derive(TensorFile)]
struct Linear {
    weight: Array1<f32>,
    #[tensor(rename = "cache", skip)]
    hits: Array1<f32>,
}

fn main() {}
