//! The neighbours: ordinary serde types in tensor files, and our types in other serde formats.

mod by_name;
mod by_position;
mod maps;
mod memory_orders;
mod other_formats;
mod plain_types;
mod streams;

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::io::Read;

use half::{bf16, f16};
use ndarray::{ArcArray, Array, Array0, Array1, Array2, Array3, ArrayD, Axis, CowArray, Ix2, IxDyn, array, s};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tensorfile::format::Deserializer;
use tensorfile::model::FromTensors;
use tensorfile::{
    Arrays, Category, CooTensor, Dtype, Element, ErrorKind, Layout, Tensor, TensorFile, TensorInfo, TensorMap,
    TensorView, btf, ten,
};

use crate::support::{Dribble, Messages, btf_file, contents, info, message, ten_file, ten_file_of};

/// Sends a value through the formats of this crate, with names.
#[track_caller]
fn assert_files_round_trip<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let file = ten_file(value);
    assert_eq!(ten::from_slice::<T>(&file).unwrap(), *value, "ten");
    assert_eq!(ten::from_reader::<T>(&file[..]).unwrap(), *value, "ten from a stream");
    let file = btf_file(value);
    assert_eq!(btf::from_slice::<T>(&file).unwrap(), *value, "BTF");
    assert_eq!(btf::from_reader::<T>(&file[..]).unwrap(), *value, "BTF from a stream");
    assert_eq!(btf::from_reader::<T>(Dribble::new(&file)).unwrap(), *value, "BTF from a slow stream");
}

/// Sends a value through formats that know nothing of tensors.
#[track_caller]
fn assert_others_round_trip<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let json = serde_json::to_string(value).unwrap();
    assert_eq!(serde_json::from_str::<T>(&json).unwrap(), *value, "JSON: {json}");
    assert_eq!(serde_json::from_reader::<_, T>(json.as_bytes()).unwrap(), *value, "JSON from a stream");
    // A map of JSON sorts its keys, so a tensor's data comes first.
    let tree = serde_json::to_value(value).unwrap();
    assert_eq!(serde_json::from_value::<T>(tree).unwrap(), *value, "a JSON tree");
    let postcard = postcard::to_stdvec(value).unwrap();
    assert_eq!(postcard::from_bytes::<T>(&postcard).unwrap(), *value, "postcard");
}

#[track_caller]
fn assert_round_trips<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    assert_files_round_trip(value);
    assert_others_round_trip(value);
}

#[derive(Serialize, Deserialize, Debug, Clone, PartialEq)]
struct Linear {
    #[serde(with = "tensorfile::array")]
    weight: Array2<f32>,
    #[serde(with = "tensorfile::array", default)]
    bias: Option<Array1<f32>>,
}

fn linear(first: f32) -> Linear {
    Linear { weight: array![[first, 2.0], [3.0, 4.0]], bias: Some(array![first]) }
}

fn without_bias() -> Linear {
    Linear { bias: None, ..linear(9.0) }
}
