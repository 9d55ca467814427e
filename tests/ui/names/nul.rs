use ndarray::Array1;
use tensorfile::TensorFile;

#[derive(TensorFile)]
struct Linear {
    #[tensor(rename = "weight\0")]
    weight: Array1<f32>,
}

fn main() {}
