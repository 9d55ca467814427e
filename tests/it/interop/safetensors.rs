//! Files exchanged with safetensors' Python package.
//!
//! `formats/safetensors.rs` compares with the Rust crate.

use std::collections::BTreeMap;

use serde::Deserialize;
use tensorfile::file::MetadataEdit;
use tensorfile::{Dtype, File, Tensor, TensorFile, TensorInfo, TensorMap, safetensors};

use crate::support::interop::{Python, run};
use crate::support::{hex, tensor};

/// A file as the script describes it.
#[derive(Deserialize)]
struct Described {
    metadata: BTreeMap<String, String>,
    tensors: Vec<DescribedTensor>,
}

#[derive(Deserialize)]
struct DescribedTensor {
    name: String,
    dtype: String,
    shape: Vec<usize>,
    data: String,
}

impl DescribedTensor {
    fn tensor(self) -> (String, Tensor) {
        let dtype = match self.dtype.to_lowercase().as_str() {
            "f8_e4m3" => Dtype::F8E4M3Fn,
            name => name.parse().unwrap(),
        };
        (self.name, Tensor::new(TensorInfo::new(dtype, self.shape), &hex(&self.data)).unwrap())
    }
}

/// Reads a file with the Python package and writes it again. `None` if the package is not installed.
fn copy(file: &[u8]) -> Option<(Described, Vec<u8>)> {
    let python = Python::find()?;
    let folder = tempfile::tempdir().unwrap();
    let (source, target) = (folder.path().join("in.safetensors"), folder.path().join("out.safetensors"));
    std::fs::write(&source, file).unwrap();
    let printed = run(python.script("safetensors_copy.py").args([&source, &target]));
    Some((serde_json::from_str(&printed).unwrap(), std::fs::read(target).unwrap()))
}

/// Every dtype from narrow to wide, which is not the order of the package, ranks 0 to 5, dims of 0, and names of every
/// kind.
fn tensors() -> TensorMap {
    let mut map = TensorMap::new();
    // The package refuses 6-bit floats, and takes 4-bit floats in another shape.
    for &dtype in safetensors::DTYPES.iter().filter(|dtype| dtype.has_elements()) {
        map.insert(format!("dtype.{dtype}"), tensor(dtype, &[8]));
    }
    for rank in 0..=5 {
        map.insert(format!("rank.{rank}"), tensor(Dtype::F32, &[2, 3, 1, 2, 2][..rank]));
    }
    for name in ["größe", "0", "", "\"\\\n\0\u{2028}", "format"] {
        map.insert(name, tensor(Dtype::U8, &[5]));
    }
    map.insert("empty", tensor(Dtype::I16, &[2, 0, 3]));
    map
}

#[test]
fn round_trips_through_the_python_package() {
    for (map, metadata) in [
        (tensors(), vec![("format", "np"), ("größe", "\"\n\u{1f980}")]),
        (tensors(), vec![]),
        (TensorMap::new(), vec![("format", "pt")]),
        (TensorMap::new(), vec![]),
    ] {
        let options = metadata.iter().fold(safetensors::Options::new(), |all, (key, value)| all.metadata(*key, *value));
        let file = options.to_vec(&map).unwrap();
        let Some((found, written)) = copy(&file) else { return };
        // The package writes several entries in any order.
        assert!(metadata.len() > 1 || written == file, "the package sorts tensors in the same way");
        let told: BTreeMap<String, String> =
            metadata.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        assert_eq!(found.metadata, told);
        assert_eq!(safetensors::metadata(&written).unwrap().into_iter().collect::<BTreeMap<_, _>>(), told);

        let sorted = |map: TensorMap| map.into_iter().collect::<BTreeMap<_, _>>();
        let expected = sorted(map);
        assert_eq!(found.tensors.into_iter().map(DescribedTensor::tensor).collect::<BTreeMap<_, _>>(), expected);
        assert_eq!(sorted(safetensors::from_slice(&written).unwrap()), expected);
        assert_eq!(sorted(safetensors::from_reader(&written[..]).unwrap()), expected);
    }
}

#[test]
fn the_python_package_reads_fields_and_edits() {
    #[derive(TensorFile, Debug, PartialEq)]
    struct Model {
        weight: ndarray::Array1<f32>,
        #[tensor(metadata)]
        format: String,
        #[tensor(metadata)]
        epochs: u32,
        #[tensor(metadata)]
        rate: f64,
    }
    let model = || Model { weight: ndarray::array![1.0, 2.0], format: "größe\n".to_owned(), epochs: 3, rate: 1e-300 };
    let Some((found, written)) = copy(&safetensors::to_vec(&model()).unwrap()) else { return };
    let entries = |found: &Described, key: &str| found.metadata[key].clone();
    assert_eq!(["format", "epochs", "rate"].map(|key| entries(&found, key)), ["größe\n", "3", "1e-300"]);
    // The package writes the entries in any order.
    assert_eq!(safetensors::from_slice::<Model>(&written).unwrap(), model());

    let mut edited = Vec::new();
    let edit = MetadataEdit::new().set("epochs", "4").set("added", "\"\u{1f980}").unset("rate");
    edit.to_writer(&File::from_bytes(written).unwrap(), &mut edited).unwrap();
    let (found, _) = copy(&edited).unwrap();
    let expected = [("added", "\"\u{1f980}"), ("epochs", "4"), ("format", "größe\n")];
    assert_eq!(found.metadata, expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
    assert_eq!(found.tensors.into_iter().map(DescribedTensor::tensor).collect::<TensorMap>().len(), 1);
}
