use ndarray::ArrayViewMut1;
use tensorfile::TensorFile;

#[derive(TensorFile)]
#[tensor(write_only)]
struct Linear<'a> {
    weight: ArrayViewMut1<'a, f32>,
    name: &'static str,
}

fn main() {}
