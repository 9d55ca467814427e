//! serde's two directions: ordinary serde types in tensor files, and our types in other serde formats.

mod by_name;
mod by_position;
mod maps;
mod memory_orders;
mod nothing;
mod other_formats;
mod plain_types;
mod streams;
#[cfg(all(feature = "ptd", feature = "pytorch"))]
mod temporaries;

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
    Arrays, Category, CooTensor, Dtype, Element, ErrorKind, Layout, SerdeValue, Tensor, TensorFile, TensorInfo,
    TensorMap, TensorView, btf, ten,
};

use crate::support::{Dribble, Messages, btf_file, contents, info, message, ten_file, ten_file_of};

/// A value in a file of a format, and the functions to read it.
struct Road<T> {
    format: &'static str,
    /// The file has names, of the format or embedded.
    has_names: bool,
    file: tensorfile::Result<Vec<u8>>,
    from_slice: fn(&[u8]) -> tensorfile::Result<T>,
    from_reader: fn(&[u8]) -> tensorfile::Result<T>,
}

/// Returns the value in each format with several tensors that can be written: with names, stored or embedded, and in
/// BTF without.
fn roads<T: Serialize + DeserializeOwned>(value: &T) -> Vec<Road<T>> {
    macro_rules! road {
        ($format:ident, $options:expr, $has_names:literal) => {
            Road {
                format: stringify!($format),
                has_names: $has_names,
                file: {
                    let options = $options;
                    let (file, mut written) = (options.to_vec(value), Vec::new());
                    let result = options.to_writer(&mut written, value);
                    assert_eq!(file.is_ok(), result.is_ok());
                    assert_eq!(&written, file.as_ref().unwrap_or(&Vec::new()), "nothing of a refused value is written");
                    file
                },
                from_slice: |file| tensorfile::$format::from_slice(file),
                from_reader: |file| tensorfile::$format::from_reader(Dribble::new(file)),
            }
        };
    }
    vec![
        road!(ten, ten::Options::new().embed_names(true), true),
        road!(btf, btf::Options::new().embed_names(true), true),
        road!(btf, btf::Options::new(), false),
        #[cfg(feature = "ptd")]
        road!(ptd, tensorfile::ptd::Options::new(), true),
        #[cfg(feature = "tensorbuffers")]
        road!(tensorbuffers, tensorfile::tensorbuffers::Options::new(), true),
        #[cfg(feature = "safetensors")]
        road!(safetensors, tensorfile::safetensors::Options::new(), true),
        #[cfg(feature = "npz")]
        road!(npz, tensorfile::npz::Options::new(), true),
        #[cfg(feature = "pytorch")]
        road!(pytorch, tensorfile::pytorch::Options::new(), true),
        #[cfg(feature = "gguf")]
        road!(gguf, tensorfile::gguf::Options::new(), true),
    ]
}

/// Sends a value through the formats of this crate, with names. All but the first two may lack a dtype, a rank or a
/// key.
#[track_caller]
fn assert_named_files_round_trip<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    for (at, road) in roads(value).into_iter().filter(|road| road.has_names).enumerate() {
        let file = match road.file {
            Ok(file) => file,
            Err(error) if at > 1 && matches!(error.kind(), ErrorKind::Unsupported { .. }) => continue,
            Err(error) => panic!("{}: {error}", road.format),
        };
        assert_eq!((road.from_slice)(&file).unwrap(), *value, "{}", road.format);
        assert_eq!((road.from_reader)(&file).unwrap(), *value, "{} from a stream", road.format);
    }
}

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
    assert_named_files_round_trip(value);
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
