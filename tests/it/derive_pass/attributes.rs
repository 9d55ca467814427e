//! Every attribute, in every form.

use ndarray::{Array1, Array2};
use tensorfile::TensorFile;

const WIDTH: usize = 64;

#[derive(TensorFile)]
struct Linear {
    weight: Array2<f32>,
    bias: Option<Array1<f32>>,
}

#[derive(TensorFile)]
#[tensor(rename_all = "SCREAMING-KEBAB-CASE", prefix = "bert.encoder", allow_unknown)]
#[tensor(crate = "tensorfile")]
pub struct Model<const HEADS: usize> {
    #[tensor(rename = "lm_head.weight", alias = "out.weight", alias = "head")]
    head: Array2<f32>,
    #[tensor(default, cast, transpose)]
    scale: Array1<f32>,
    #[tensor(default = "ones", shape = [_, WIDTH / 2, 3 * HEADS])]
    positions: ndarray::Array3<f32>,
    #[tensor(shape = [Self::DEPTH])]
    depth: Array1<f32>,
    #[tensor(flatten)]
    linear: Linear,
    #[tensor(skip)]
    hits: usize,
    #[tensor(skip, default = Instant::now)]
    started: Instant,
    #[tensor()]
    r#type: Array1<u8>,
}

impl<const HEADS: usize> Model<HEADS> {
    const DEPTH: usize = 2 * HEADS;
}

struct Instant;

impl Instant {
    fn now() -> Self {
        Self
    }
}

fn ones() -> ndarray::Array3<f32> {
    ndarray::Array3::ones((1, 32, 3))
}

#[derive(TensorFile)]
#[tensor(prefix = "scale", allow_unknown)]
struct Scale(#[tensor(shape = [])] ndarray::Array0<f32>);
