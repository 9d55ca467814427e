//! Small tests of the parts with `unsafe` code, which `tests/memory_safety.sh` runs under Miri.
//!
//! There are no tests of streams, because Miri takes long for their buffers.

use ndarray::{Array1, Array2, ArrayView1, array};
use serde::{Deserialize, Serialize};
use tensorfile::{TensorFile, ten};

/// A plain type of serde, with a type of ours in it: both casts of `src/serde/own.rs`, each way.
#[derive(Serialize, Deserialize, Debug, PartialEq)]
struct Plain {
    #[serde(with = "tensorfile::array")]
    weight: Array2<f32>,
    numbers: Vec<i64>,
    layers: Vec<Layer>,
}

#[derive(TensorFile, Debug, PartialEq)]
struct Layer {
    w: Array1<f32>,
    b: Option<Array1<f64>>,
}

#[derive(TensorFile)]
struct Borrowed<'a> {
    w: ArrayView1<'a, f32>,
}

fn layer() -> Layer {
    Layer { w: array![1.0, 2.0], b: Some(array![0.5]) }
}

#[test]
fn plain_types_hold_types_of_ours() {
    let value = Plain { weight: array![[1.0, 2.0]], numbers: vec![3, -4], layers: vec![layer(), layer()] };
    let file = ten::Options::new().embed_names(true).to_vec(&value).unwrap();
    assert_eq!(ten::from_slice::<Plain>(&file).unwrap(), value);
    // Another serializer, and another deserializer.
    let json = serde_json::to_string(&value).unwrap();
    assert_eq!(serde_json::from_str::<Plain>(&json).unwrap(), value);
}

#[test]
fn views_outlive_all_but_the_file() {
    let bytes = ten::to_vec(&Layer { b: None, ..layer() }).unwrap();
    // The bytes of a `Vec<u8>` are aligned by chance only.
    let mut aligned = vec![0_u64; bytes.len().div_ceil(8)];
    let file = &mut bytemuck::cast_slice_mut::<_, u8>(&mut aligned)[..bytes.len()];
    file.copy_from_slice(&bytes);
    let file = &*file;
    let view = {
        let borrowed: Borrowed<'_> = ten::from_slice(file).unwrap();
        borrowed.w
    };
    assert_eq!(view, array![1.0, 2.0]);
}
