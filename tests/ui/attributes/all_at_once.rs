//! Every mistake is reported, and code that uses the struct adds no messages.

use ndarray::Array1;
use tensorfile::TensorFile;

#[derive(TensorFile)]
#[tensor(prefx = "bert", rename_all = "snake")]
struct Linear {
    #[tensor(rename = "w", alais = "kernel", shape)]
    weight: Array1<f32>,
    #[tensor(skip = true, default = "1 + 1")]
    bias: Array1<f32>,
    w: Array1<f32>,
}

fn main() {
    let linear: Linear = serde_json::from_str("{}").unwrap();
    serde_json::to_string(&linear).unwrap();
    let _ = Linear::schema();
}
