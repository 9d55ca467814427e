//! Damaged files, read into every kind of type. The result is an error or a value, the same from memory and from a
//! stream, and never a panic.

use std::collections::BTreeMap;
use std::fmt::Debug;

use ndarray::{Array0, Array1, Array2, Array3, ArrayD, array};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tensorfile::{Arrays, Category, CooTensor, ErrorKind, Result, Tensor, TensorFile, TensorMap, TensorView, btf, ten};

#[derive(TensorFile, Debug, PartialEq)]
struct Layer {
    weight: Array2<f32>,
    bias: Option<Array1<f32>>,
}

#[derive(TensorFile, Debug, PartialEq)]
struct Model {
    scale: Option<Array0<u8>>,
    layers: Vec<Layer>,
    #[tensor(cast)]
    head: Array1<i64>,
    #[tensor(flatten)]
    rest: Rest,
}

#[derive(TensorFile, Debug, PartialEq)]
struct Rest {
    ids: Vec<u16>,
    last: Option<Tensor>,
}

#[derive(Deserialize, Debug, PartialEq)]
struct Plain {
    #[serde(with = "tensorfile::array")]
    head: Array1<i64>,
    layers: Vec<PlainLayer>,
    ids: Vec<u16>,
    scale: Option<u8>,
    #[serde(flatten)]
    rest: BTreeMap<String, Tensor>,
}

#[derive(Deserialize, Debug, PartialEq)]
struct PlainLayer {
    weight: Array2<f32>,
    #[serde(with = "tensorfile::array", default)]
    bias: Option<Array1<f32>>,
}

fn model() -> Model {
    Model {
        scale: Some(Array0::from_elem((), 3)),
        layers: vec![
            Layer { weight: array![[1.0, 2.0]], bias: Some(array![0.5]) },
            Layer { weight: array![[3.0], [4.0]], bias: None },
        ],
        head: array![1, -1],
        rest: Rest { ids: vec![7, 8, 9], last: Some(Tensor::from_slice(&[1_u8, 2], [2, 1]).unwrap()) },
    }
}

/// The functions that read a format.
trait Read {
    fn slice<'de, T: Deserialize<'de>>(file: &'de [u8]) -> Result<T>;
    fn stream<T: DeserializeOwned>(file: &[u8]) -> Result<T>;
}

struct Btf;
struct Ten;

impl Read for Btf {
    fn slice<'de, T: Deserialize<'de>>(file: &'de [u8]) -> Result<T> {
        btf::from_slice(file)
    }

    fn stream<T: DeserializeOwned>(file: &[u8]) -> Result<T> {
        btf::from_reader(file)
    }
}

impl Read for Ten {
    fn slice<'de, T: Deserialize<'de>>(file: &'de [u8]) -> Result<T> {
        ten::from_slice(file)
    }

    fn stream<T: DeserializeOwned>(file: &[u8]) -> Result<T> {
        ten::from_reader(file)
    }
}

#[track_caller]
fn read_as<R: Read, T: DeserializeOwned + Debug>(file: &[u8], what: &str) {
    let (slice, stream) = (R::slice::<T>(file), R::stream::<T>(file));
    for error in [&slice, &stream].into_iter().filter_map(|result| result.as_ref().err()) {
        assert_ne!(error.category(), Category::Io, "{what}: {error}");
        assert!(!error.to_string().is_empty());
    }
    let same = match (&slice, &stream) {
        // Compared as text, in which a NaN is itself.
        (Ok(slice), Ok(stream)) => format!("{slice:?}") == format!("{stream:?}"),
        (Err(_), Err(_)) => true,
        // A stream does not tell where the last record of an unknown dtype ends.
        (Ok(_), Err(error)) => matches!(error.kind(), ErrorKind::UnknownDtype { .. }),
        _ => false,
    };
    let name = std::any::type_name::<T>();
    assert!(same, "{what}: as {name}, a slice gave\n{slice:?}\nand a stream\n{stream:?}");
}

#[track_caller]
fn read_as_all<R: Read>(file: &[u8], what: &str) {
    read_as::<R, TensorMap>(file, what);
    read_as::<R, Tensor>(file, what);
    read_as::<R, Vec<Tensor>>(file, what);
    read_as::<R, BTreeMap<String, Tensor>>(file, what);
    read_as::<R, BTreeMap<u8, Tensor>>(file, what);
    read_as::<R, CooTensor<f32>>(file, what);
    read_as::<R, Model>(file, what);
    read_as::<R, Vec<Model>>(file, what);
    read_as::<R, Plain>(file, what);
    read_as::<R, BTreeMap<String, PlainLayer>>(file, what);
    read_as::<R, Arrays<Vec<ArrayD<f32>>>>(file, what);
    read_as::<R, Arrays<(Option<Array1<f32>>, Vec<Array2<f32>>, Option<Tensor>)>>(file, what);
    read_as::<R, Arrays<BTreeMap<String, Vec<Layer>>>>(file, what);
    read_as::<R, Arrays<[Array2<f32>; 2]>>(file, what);
    read_as::<R, Arrays<f32>>(file, what);
    read_as::<R, Option<f64>>(file, what);
    read_as::<R, Vec<f32>>(file, what);
    read_as::<R, (f32, f32)>(file, what);
    read_as::<R, Array3<f32>>(file, what);
    read_as::<R, serde_bytes::ByteBuf>(file, what);
    read_as::<R, String>(file, what);
    read_as::<R, ()>(file, what);
    drop(R::slice::<Vec<TensorView<'_>>>(file));
    drop(R::slice::<Arrays<Vec<ndarray::CowArray<'_, f32, ndarray::Ix2>>>>(file));
}

fn damage<R: Read>(what: &str, file: &[u8]) {
    read_as_all::<R>(file, what);
    for len in (0..file.len()).step_by(3) {
        read_as_all::<R>(&file[..len], &format!("{what}, cut at {len}"));
    }
    let mut damaged = file.to_vec();
    for at in 0..file.len() {
        for flip in [1, 0x80, 0xff] {
            damaged[at] ^= flip;
            read_as_all::<R>(&damaged, &format!("{what}, byte {at} xor {flip}"));
            damaged[at] = file[at];
        }
    }
}

#[test]
fn damaged_files_without_names() {
    damage::<Btf>("BTF", &btf::to_vec(&model()).unwrap());
    damage::<Btf>("sparse BTF", &btf::to_vec(&CooTensor::new([2, 2], vec![0, 1], vec![1.0_f32]).unwrap()).unwrap());
}

#[test]
fn damaged_files_with_embedded_names() {
    damage::<Btf>("BTF with names", &btf::Options::new().embed_names(true).to_vec(&model()).unwrap());
}

#[test]
fn damaged_files_with_names() {
    let vector = || Tensor::from_slice(&[1.0_f32, 2.0], [2]).unwrap();
    let map: TensorMap =
        [("w.0", vector()), ("w.1", vector()), ("1.bias", vector()), ("3", vector())].into_iter().collect();
    damage::<Ten>("ten", &ten::to_vec(&map).unwrap());
    damage::<Ten>("ten with embedded names", &ten::Options::new().embed_names(true).to_vec(&map).unwrap());
}
