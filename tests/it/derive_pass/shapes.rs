//! Structs of every shape.

use ndarray::Array1;
use tensorfile::TensorFile;

#[derive(TensorFile)]
struct Named {
    weight: Array1<f32>,
}

#[derive(TensorFile)]
struct Newtype(Array1<f32>);

#[derive(TensorFile)]
struct Tuple(Array1<f32>, #[tensor(rename = "bias")] Option<Array1<f32>>, #[tensor(skip)] String);

#[derive(TensorFile)]
struct Unit;

#[derive(TensorFile)]
struct NoFields {}

#[derive(TensorFile)]
struct EmptyTuple();

#[derive(TensorFile)]
#[tensor(prefix = "nothing")]
struct EmptyPrefix;

#[derive(TensorFile)]
struct All {
    parts: (Named, Newtype, Tuple),
    unit: Unit,
    no_fields: NoFields,
    empty: [EmptyTuple; 2],
    prefix: Box<EmptyPrefix>,
}
