use ndarray::Array1;
use tensorfile::TensorFile;

#[derive(TensorFile)]
struct Model<T> {
    #[tensor(flatten)]
    body: T,
}

const _: tensorfile::model::Node = <Model<Array1<f32>> as TensorFile>::NODE;

fn main() {}
