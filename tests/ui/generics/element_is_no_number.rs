use ndarray::Array1;
use tensorfile::TensorFile;

#[derive(TensorFile)]
struct Linear<A> {
    weight: Array1<A>,
}

fn main() {
    let linear = Linear { weight: Array1::from(vec![String::new()]) };
    let _ = serde_json::to_string(&linear);
}
