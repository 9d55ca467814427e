use ndarray::{Array1, Array2};
use tensorfile::TensorFile;

#[derive(TensorFile)]
struct Linear(#[tensor(rename = "1")] Array2<f32>, Array1<f32>);

fn main() {}
