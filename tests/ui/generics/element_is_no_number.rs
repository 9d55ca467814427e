use ndarray::Array1;
use tensorfile::TensorFile;

#[derive(TensorFile)]
struct Linear<A> {
    weight: Array1<A>,
}

fn written<T: TensorFile>() {}

fn main() {
    written::<Linear<String>>();
}
