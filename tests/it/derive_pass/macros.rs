//! Structs written by macros, and types that are macros.

use ndarray::{Array1, Array2};
use tensorfile::TensorFile;

macro_rules! array {
    ($element:ty, 1) => {
        Array1<$element>
    };
    ($element:ty, 2) => {
        Array2<$element>
    };
}

macro_rules! layer {
    ($name:ident<$parameter:ident> { $($field:ident: $type:ty = $path:literal),* }) => {
        #[derive(TensorFile)]
        struct $name<$parameter> {
            $(#[tensor(rename = $path)] $field: $type,)*
        }
    };
}

layer!(Linear<A> { weight: Array2<A> = "fc.weight", bias: Option<Array1<A>> = "fc.bias" });

#[derive(TensorFile)]
struct Model<A> {
    weight: array!(A, 2),
    fixed: array!(f32, 1),
}

#[test]
fn derives_for_structs_that_macros_write() {
    let linear: Linear<f32> = Linear { weight: Array2::ones((1, 1)), bias: None };
    assert!(serde_json::to_string(&linear).unwrap().contains("fc.weight"));
}
