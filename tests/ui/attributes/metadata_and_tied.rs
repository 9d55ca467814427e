use ndarray::Array1;
use tensorfile::TensorFile;

#[derive(TensorFile)]
struct Linear {
    weight: Array1<f32>,
    #[tensor(metadata, tied = "weight")]
    epochs: u32,
}

fn main() {}
