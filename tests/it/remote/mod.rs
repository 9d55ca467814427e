//! Files at URLs: the requests they need, servers that misbehave, and the hub.

#![allow(clippy::single_range_in_vec_init, reason = "a vector is sliced by one range")]

mod answers;
mod faults;
mod requests;

use tensorfile::{Tensor, TensorMap};

/// Returns tensors of `bytes` bytes each, in vectors of different numbers.
fn vectors(count: usize, bytes: usize) -> TensorMap {
    let vector = |i: usize| {
        let numbers: Vec<i8> = (0..bytes).map(|at| (at * 7 + i * 13) as i8).collect();
        Tensor::from_slice(&numbers, [bytes]).unwrap()
    };
    (0..count).map(|i| (format!("t{i}"), vector(i))).collect()
}
