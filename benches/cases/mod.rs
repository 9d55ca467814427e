//! The values written and read by all benchmarks.
#![allow(dead_code, reason = "each benchmark is a crate of its own, and not all of them use all values")]

use std::collections::HashMap;

use ndarray::{Array1, Array2};
use tensorfile::{TensorFile, TensorMap};

/// Returns the divisor of all sizes, from the environment. With `BENCH_SHRINK=1000` you see quickly that everything
/// runs.
pub fn shrink() -> usize {
    let shrink = std::env::var("BENCH_SHRINK").ok();
    shrink.map_or(1, |shrink| shrink.parse::<usize>().expect("BENCH_SHRINK is a number").max(1))
}

/// A few large tensors: 1 GiB in 64.
pub fn large() -> Vec<Array2<f32>> {
    let rows = (2048 / shrink()).max(1);
    (0..64_u8).map(|tensor| Array2::from_elem((rows, 2048), f32::from(tensor))).collect()
}

/// Many small tensors: 100,000 of 16 elements.
pub fn small() -> Vec<Array1<f32>> {
    (0..(100_000 / shrink()).max(1)).map(|tensor| Array1::from_elem(16, tensor as f32)).collect()
}

/// The sizes in the benchmark of the Go package `ten`, in elements of `f32`.
pub const GO: [usize; 4] = [100, 500, 1_000, 10_000];

/// The fields of messages, such as the steps of an agent. `.ten` stores names of up to 8 bytes.
pub const FIELDS: [&str; 8] = ["obs", "action", "reward", "done", "next_obs", "logprob", "value", "adv"];

/// One of the arrays of a message.
pub fn part(field: &str) -> Array1<f32> {
    Array1::from_elem(100, field.len() as f32)
}

/// The first `parts` arrays of a message in a map.
pub fn parts(parts: usize) -> HashMap<String, Array1<f32>> {
    FIELDS[..parts].iter().map(|field| ((*field).to_owned(), part(field))).collect()
}

/// Declares messages of the first fields, so that `M<Array1<f32>>` owns its arrays, and `M<ArrayView1<f32>>` borrows
/// them.
macro_rules! messages {
    ($($message:ident: $($field:ident)*;)*) => {$(
        #[derive(TensorFile)]
        pub struct $message<A> {
            $(pub $field: A,)*
        }

        impl $message<Array1<f32>> {
            pub fn new() -> Self {
                Self { $($field: part(stringify!($field)),)* }
            }
        }
    )*};
}

messages! {
    Message1: obs;
    Message3: obs action reward;
    Message8: obs action reward done next_obs logprob value adv;
}

/// 1,000 tensors a layer, with the names of a mixture of experts, such as
/// `model.layers.17.mlp.experts.108.gate_proj.weight`. Real models with 100,000 tensors are of this kind.
pub fn model(layers: usize) -> Model {
    let weight = || Weight { weight: Array2::from_elem((4, 4), 1.5) };
    let norm = || Weight { weight: Array1::from_elem(16, 2.5) };
    let expert = |_| Expert { gate_proj: weight(), up_proj: weight(), down_proj: weight() };
    let layer = |_| Layer {
        input_layernorm: norm(),
        self_attn: Attention { q_proj: weight(), k_proj: weight(), v_proj: weight(), o_proj: weight() },
        post_attention_layernorm: norm(),
        mlp: Experts { gate: weight(), experts: (0..331).map(expert).collect() },
    };
    Model { model: Layers { layers: (0..layers).map(layer).collect() } }
}

/// Arrays with the names of the model.
pub fn model_map(model: &Model) -> tensorfile::Result<HashMap<String, Array1<f32>>> {
    let file = tensorfile::safetensors::to_vec(model)?;
    let map: TensorMap = tensorfile::safetensors::from_slice(&file)?;
    Ok(map.into_iter().map(|(name, _)| (name, Array1::from_elem(16, 1.5))).collect())
}

// Arrays are owned, or borrowed in `Model<ArrayView2<f32>, ArrayView1<f32>>`.

#[derive(TensorFile)]
pub struct Model<W = Array2<f32>, N = Array1<f32>> {
    pub model: Layers<W, N>,
}

#[derive(TensorFile)]
pub struct Layers<W, N> {
    pub layers: Vec<Layer<W, N>>,
}

#[derive(TensorFile)]
pub struct Layer<W, N> {
    pub input_layernorm: Weight<N>,
    pub self_attn: Attention<W>,
    pub post_attention_layernorm: Weight<N>,
    pub mlp: Experts<W>,
}

#[derive(TensorFile)]
pub struct Attention<W> {
    pub q_proj: Weight<W>,
    pub k_proj: Weight<W>,
    pub v_proj: Weight<W>,
    pub o_proj: Weight<W>,
}

#[derive(TensorFile)]
pub struct Experts<W> {
    pub gate: Weight<W>,
    pub experts: Vec<Expert<W>>,
}

#[derive(TensorFile)]
pub struct Expert<W> {
    pub gate_proj: Weight<W>,
    pub up_proj: Weight<W>,
    pub down_proj: Weight<W>,
}

#[derive(TensorFile)]
pub struct Weight<A> {
    pub weight: A,
}

/// A model of `tensors` small tensors: two in each block. Their names, such as `l.4999.w`, are so short that `.ten`
/// stores them.
pub fn blocks(tensors: usize) -> Blocks {
    let block = || Block { w: Array2::from_elem((4, 4), 1.5), b: Array1::from_elem(16, 2.5) };
    Blocks { l: (0..tensors.div_ceil(2)).map(|_| block()).collect() }
}

#[derive(TensorFile)]
pub struct Blocks<W = Array2<f32>, B = Array1<f32>> {
    pub l: Vec<Block<W, B>>,
}

#[derive(TensorFile)]
pub struct Block<W, B> {
    pub w: W,
    pub b: B,
}
