//! Types to read files into.

use std::collections::BTreeMap;

use ndarray::{Array1, Array2, ArrayD, ArrayView1};
use serde::Deserialize;
use tensorfile::{CooTensor, Tensor, TensorFile, TensorMap, TensorView};

#[derive(TensorFile, Debug, PartialEq)]
pub struct Layer {
    weight: Array2<f32>,
    bias: Option<Array1<f32>>,
}

/// A type with everything a derived type can have.
#[derive(TensorFile, Debug, PartialEq)]
pub struct Model {
    #[tensor(alias = "first")]
    a: Option<ArrayD<f32>>,
    #[tensor(cast)]
    b: Option<Array1<f64>>,
    layers: Vec<Layer>,
    experts: BTreeMap<String, Array1<i32>>,
    #[tensor(transpose)]
    head: Option<Array2<u8>>,
    sparse: Option<CooTensor<f32>>,
    pair: Option<(bool, [u16; 2])>,
    tree: Option<Box<Tree>>,
    dynamic: Option<Tensor>,
    #[tensor(flatten)]
    rest: TensorMap,
}

#[derive(TensorFile, Debug, PartialEq)]
pub struct Tree {
    value: Option<Array1<u8>>,
    next: Option<Box<Tree>>,
    children: Vec<Tree>,
}

/// A type without names, which borrows if possible.
#[derive(TensorFile, Debug, PartialEq)]
#[tensor(allow_unknown)]
pub struct Borrowing<'a> {
    a: ArrayView1<'a, u8>,
    b: Option<TensorView<'a>>,
}

/// A type by position only.
#[derive(TensorFile, Debug, PartialEq)]
pub struct Positions(pub Option<Array1<u8>>, pub Array2<f32>, pub Vec<Array1<f32>>, pub Option<Tensor>);

/// A type that knows nothing of tensors.
#[derive(Deserialize, Debug, PartialEq)]
pub struct Plain {
    pub a: Option<Vec<f32>>,
    pub b: Option<Vec<f64>>,
    pub layers: Option<Vec<BTreeMap<String, Vec<Vec<f32>>>>>,
    pub head: Option<(u8, u8)>,
    pub value: Option<i64>,
}

pub type Maps = BTreeMap<String, BTreeMap<String, Vec<f32>>>;
