use ndarray::Array1;
use tensorfile::TensorFile;

#[derive(TensorFile)]
struct Scale(#[tensor(cast)] Option<Array1<f32>>);

#[derive(TensorFile)]
struct Linear {
    #[tensor(flatten)]
    weight: Array1<f32>,
    #[tensor(flatten)]
    bias: Option<Box<Array1<f32>>>,
    #[tensor(flatten)]
    scale: Scale,
    #[tensor(flatten)]
    steps: Vec<u32>,
}

fn main() {}
