use ndarray::Array1;
use tensorfile::TensorFile;

fn ones() -> Vec<f32> {
    vec![1.0; 4]
}

#[derive(TensorFile)]
struct Linear {
    #[tensor(default = "ones")]
    weight: Array1<f32>,
}

fn main() {}
