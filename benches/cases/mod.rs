//! The values that all benchmarks write and read.
#![allow(dead_code, reason = "each benchmark is a crate of its own, and not all of them use all values")]

use std::collections::BTreeMap;

use ndarray::{Array1, Array2, ArrayView1, ArrayView2};
use tensorfile::TensorFile;

/// By how much the environment asks to shrink the sizes; `BENCH_SHRINK=1000` is enough to see that all of it runs.
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

/// The small tensors under names that take all of the 8 bytes that `.ten` has for them.
pub fn small_by_name() -> BTreeMap<String, Array1<f32>> {
    small().into_iter().enumerate().map(|(at, tensor)| (format!("t{at:07}"), tensor)).collect()
}

/// The sizes that the benchmark of the Go package `ten` measures, in elements of `f32`.
pub const GO: [usize; 4] = [100, 500, 1_000, 10_000];

/// A model of `tensors` small tensors: two in each layer.
pub fn model(tensors: usize) -> Model {
    let layer = || Layer { w: Array2::from_elem((4, 4), 1.5), b: Array1::from_elem(16, 2.5) };
    Model { l: (0..tensors.div_ceil(2)).map(|_| layer()).collect() }
}

#[derive(TensorFile)]
pub struct Model {
    pub l: Vec<Layer>,
}

/// Its fields' names are so short that `.ten` has room for all: `l.4999.w`.
#[derive(TensorFile)]
pub struct Layer {
    pub w: Array2<f32>,
    pub b: Array1<f32>,
}

#[derive(TensorFile)]
pub struct ModelView<'a> {
    pub l: Vec<LayerView<'a>>,
}

#[derive(TensorFile)]
pub struct LayerView<'a> {
    pub w: ArrayView2<'a, f32>,
    pub b: ArrayView1<'a, f32>,
}
