use ndarray::ArrayView1;
use tensorfile::TensorFile;

#[derive(TensorFile)]
struct Model<'a> {
    weight: ArrayView1<'a, f32>,
}

fn main() {
    let _: Model<'_> = tensorfile::load("model.ten").unwrap();
}
