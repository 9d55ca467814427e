use ndarray::Array1;
use tensorfile::TensorFile;

#[derive(TensorFile)]
#[tensor(rename_all = "camelcase")]
struct Linear {
    weight: Array1<f32>,
}

fn main() {}
