use ndarray::Array1;
use tensorfile::TensorFile;

#[derive(TensorFile)]
#[tensor(allow_unknown)]
struct Linear(Array1<f32>);

fn main() {}
