//! Reads arbitrary text as tensors in JSON: types that map to tensors, in another serde format.

use serde::{Deserialize, Serialize};
use tensorfile::{CooTensor, Tensor, TensorMap};

use crate::budget::bounded_stream;
use crate::model::{Layer, Model, Positions, Tree};
use crate::samples;

pub fn run(input: &[u8]) {
    value::<TensorMap>(input);
    value::<Tensor>(input);
    value::<CooTensor<f32>>(input);
    value::<Vec<Layer>>(input);
    value::<Model>(input);
    value::<Tree>(input);
    value::<Positions>(input);
}

/// Reads a value. If that succeeds, writes it and reads it again.
fn value<T: for<'de> Deserialize<'de> + Serialize>(input: &[u8]) {
    let value = bounded_stream("JSON", input.len(), || serde_json::from_slice::<T>(input));
    match value {
        Ok(value) => {
            let written = serde_json::to_vec(&value).unwrap();
            let read: T = serde_json::from_slice(&written).unwrap();
            assert!(serde_json::to_vec(&read).unwrap() == written, "{}", String::from_utf8_lossy(&written));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Collections, and each of their tensors, as JSON.
pub fn seeds() -> Vec<Vec<u8>> {
    let maps = samples::maps();
    let whole = maps.iter().map(|map| serde_json::to_vec(map).unwrap());
    let each = maps.iter().flat_map(|map| map.iter().map(|(_, tensor)| serde_json::to_vec(tensor).unwrap()));
    whole.chain(each).collect()
}
