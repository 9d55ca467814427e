use ndarray::Array1;
use tensorfile::TensorFile;

#[derive(TensorFile)]
struct Linear {
    #[tensor(rename = "fc1.weight", alias = ".weight")]
    weight: Array1<f32>,
}

fn main() {}
