use ndarray::Array1;
use tensorfile::TensorFile;

struct Cache;

#[derive(TensorFile)]
struct Linear {
    weight: Array1<f32>,
    #[tensor(skip)]
    cache: Cache,
}

fn main() {}
