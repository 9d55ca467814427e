//! The structs of MiniLM, a small BERT, as `tensorfile codegen` prints them.

use ndarray::{Array1, Array2};
use tensorfile::TensorFile;

#[derive(TensorFile)]
pub struct Model {
    pub embeddings: Embeddings,
    pub encoder: Encoder,
    pub pooler: Dense,
}

#[derive(TensorFile)]
pub struct Embeddings {
    pub position_ids: Array2<i64>,
    #[tensor(rename = "LayerNorm")]
    pub layer_norm: LayerNorm,
    pub position_embeddings: Embedding,
    pub token_type_embeddings: Embedding,
    pub word_embeddings: Embedding,
}

#[derive(TensorFile)]
pub struct LayerNorm {
    pub bias: Array1<f32>,
    pub weight: Array1<f32>,
}

#[derive(TensorFile)]
pub struct Embedding {
    pub weight: Array2<f32>,
}

#[derive(TensorFile)]
pub struct Encoder {
    pub layer: Vec<Layer>,
}

#[derive(TensorFile)]
pub struct Layer {
    pub attention: Attention,
    pub intermediate: Dense,
    pub output: Output,
}

#[derive(TensorFile)]
pub struct Attention {
    pub output: Output,
    #[tensor(rename = "self")]
    pub self_: AttentionSelf,
}

#[derive(TensorFile)]
pub struct Output {
    #[tensor(rename = "LayerNorm")]
    pub layer_norm: LayerNorm,
    pub dense: Linear,
}

#[derive(TensorFile)]
pub struct Linear {
    pub bias: Array1<f32>,
    pub weight: Array2<f32>,
}

#[derive(TensorFile)]
pub struct AttentionSelf {
    pub key: Linear,
    pub query: Linear,
    pub value: Linear,
}

#[derive(TensorFile)]
pub struct Dense {
    pub dense: Linear,
}
