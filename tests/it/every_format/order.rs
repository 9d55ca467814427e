//! Models of many tensors. If the file has them in order, the reader takes one after the other without a search.

use ndarray::{Array1, Array2, array};
use tensorfile::format::Deserializer;
use tensorfile::{Dtype, File, Format, Tensor, TensorFile, TensorMap, WriteOptions};

use super::file_of;
use crate::support::{multi_tensor_formats, tensor};

#[derive(TensorFile, Debug, PartialEq)]
struct Model {
    layers: Vec<Layer>,
    head: Array2<f32>,
}

#[derive(TensorFile, Debug, PartialEq)]
struct Layer {
    weight: Array2<f32>,
    #[tensor(rename = "norm.scale")]
    scale: Array1<f32>,
    bias: Option<Array1<f32>>,
}

/// Changes the tensors of a model at a position.
type Change = fn(&mut Vec<(String, Tensor)>, usize);

fn model() -> Model {
    let layer = |at: u8| Layer {
        weight: array![[f32::from(at)], [0.5]],
        scale: array![-f32::from(at)],
        bias: (!at.is_multiple_of(3)).then(|| array![f32::from(at), 7.0]),
    };
    Model { layers: (0..30).map(layer).collect(), head: array![[9.0]] }
}

/// The tensors of the model.
fn tensors(format: &Format) -> Vec<(String, Tensor)> {
    let file = format.to_vec(&model(), &WriteOptions::new().embed_names(true)).unwrap();
    let file = File::from_bytes(file).unwrap();
    file.tensors().map(|tensor| (tensor.name().to_owned(), tensor.read().unwrap())).collect()
}

/// Loads the model in every way from a file of some tensors.
fn load(format: &Format, tensors: &[(String, Tensor)]) -> Result<Model, String> {
    use serde::Deserialize;

    let map: TensorMap = tensors.iter().cloned().collect();
    let bytes = file_of(format, &map);
    let loaded = File::from_bytes(bytes.clone()).unwrap().load::<Model>().map_err(|error| error.to_string());
    let mut in_memory = Deserializer::from_slice(format, &bytes);
    assert_eq!(Model::deserialize(&mut in_memory).is_ok(), loaded.is_ok(), "{}", format.name);
    let mut in_stream = Deserializer::from_reader(format, &bytes[..]);
    assert_eq!(Model::deserialize(&mut in_stream).is_ok(), loaded.is_ok(), "{}", format.name);
    loaded
}

#[test]
fn a_model_is_loaded_in_any_order_of_its_tensors() {
    for format in multi_tensor_formats() {
        let mut tensors = tensors(format);
        assert_eq!(tensors.len(), 81);
        for rotation in [0, 1, 40] {
            tensors.rotate_left(rotation);
            assert_eq!(load(format, &tensors).unwrap(), model(), "{} by {rotation}", format.name);
        }
        tensors.reverse();
        assert_eq!(load(format, &tensors).unwrap(), model(), "{} backwards", format.name);
        // The dtypes and ranks are in order, and the names are not.
        let mut swapped = self::tensors(format);
        swapped.swap(0, 3);
        assert_eq!(load(format, &swapped).unwrap(), model(), "{} swapped", format.name);
    }
}

#[test]
fn a_tensor_that_does_not_fit_is_an_error_in_any_order() {
    for format in multi_tensor_formats() {
        let changes: [(&str, Change); 4] = [
            ("missing", |tensors, at| drop(tensors.remove(at))),
            ("unexpected", |tensors, at| tensors.insert(at, ("layers.20.more".to_owned(), tensor(Dtype::F32, &[2])))),
            ("renamed", |tensors, at| tensors[at].0.push('x')),
            ("of another rank", |tensors, at| tensors[at].1 = tensor(Dtype::F32, &[1, 1, 1])),
        ];
        for (what, change) in changes {
            let mut tensors = tensors(format);
            let at = tensors.iter().position(|(name, _)| name == "layers.20.weight").unwrap();
            change(&mut tensors, at);
            let error = load(format, &tensors).unwrap_err();
            tensors.rotate_left(1);
            assert_eq!(load(format, &tensors).unwrap_err(), error, "{}: {what}", format.name);
        }
    }
}
