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

#[derive(TensorFile)]
pub struct Flattened<T, M> {
    #[tensor(flatten)]
    body: T,
    #[tensor(flatten)]
    layers: Vec<Array2<f32>>,
    #[tensor(flatten)]
    pair: (Array1<f32>, Array1<f32>),
    #[tensor(flatten)]
    others: M,
    #[tensor(flatten)]
    newtype: Option<Box<Layers>>,
}

#[derive(TensorFile)]
struct Layers(Vec<Array2<f32>>);

type Checked = Flattened<Linear, std::collections::BTreeMap<String, tensorfile::Tensor>>;
const _: tensorfile::model::Node = <Checked as TensorFile>::NODE;

#[derive(TensorFile)]
pub struct Shaped<A, D> {
    #[tensor(shape = [3, 4, 5])]
    any_rank: ndarray::ArrayD<f32>,
    #[tensor(shape = [3, 4])]
    parameter: A,
    #[tensor(shape = [3, 4], cast)]
    list: Option<Vec<Box<D>>>,
    #[tensor(shape = [3])]
    numbers: Vec<f32>,
    #[tensor(shape = [3])]
    items: Vec<Array1<f32>>,
    #[tensor(shape = [])]
    number: f32,
}

const _: tensorfile::model::Node = <Shaped<Array2<f32>, ndarray::ArrayD<f32>> as TensorFile>::NODE;
