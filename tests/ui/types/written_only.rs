use ndarray::ArrayViewMut1;
use tensorfile::TensorFile;

#[derive(TensorFile)]
struct Linear<'a> {
    weight: ArrayViewMut1<'a, f32>,
}

fn main() {}
