use ndarray::Array1;
use tensorfile::TensorFile;

#[derive(TensorFile)]
#[tensor(rename_all = "UPPERCASE")]
struct Linear(Array1<f32>, Array1<f32>);

fn main() {}
