//! `.npy` and `.npz` files exchanged with numpy.

use std::collections::BTreeMap;
use std::path::Path;

use ndarray::ArrayD;
use serde::Deserialize;
use tensorfile::{Dtype, Layout, Tensor, TensorInfo, TensorMap, npy, npz};

use crate::support::interop::{Python, run};

/// An array as `npy.py` describes it: its elements in row-major order, little-endian.
#[derive(Deserialize, Debug, PartialEq)]
#[serde(untagged)]
enum Described {
    Array { dtype: String, shape: Vec<usize>, data: String },
    Blob { blob: String },
}

impl Described {
    fn of(tensor: &Tensor) -> Self {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        if *tensor.layout() == Layout::Blob {
            return Self::Blob { blob: hex(tensor.as_bytes()) };
        }
        Self::Array { dtype: tensor.dtype().to_string(), shape: tensor.shape().to_vec(), data: hex(&row_major(tensor)) }
    }
}

/// The elements in row-major order, in which arrays are written.
fn row_major(tensor: &Tensor) -> Vec<u8> {
    let written = npy::to_vec(tensor).unwrap();
    let rows: Tensor = npy::from_slice(&written).unwrap();
    assert_eq!(*rows.layout(), Layout::RowMajor);
    rows.as_bytes().to_vec()
}

fn described(map: &TensorMap) -> BTreeMap<String, Described> {
    map.iter().map(|(name, tensor)| (name.clone(), Described::of(tensor))).collect()
}

fn read(python: &Python, path: &Path) -> BTreeMap<String, Described> {
    serde_json::from_str(&run(python.script("npy.py").arg("read").arg(path))).unwrap()
}

#[test]
fn reads_files_of_numpy() {
    let Some(python) = Python::find() else { return };
    let folder = tempfile::tempdir().unwrap();
    run(python.script("npy.py").arg("write").arg(folder.path()));
    let manifest = std::fs::read(folder.path().join("manifest.json")).unwrap();
    let manifest: BTreeMap<String, BTreeMap<String, Described>> = serde_json::from_slice(&manifest).unwrap();
    assert!(manifest.len() > 400, "{} files", manifest.len());
    for (name, expected) in &manifest {
        let file = std::fs::read(folder.path().join(name)).unwrap();
        let is_archive = name.ends_with(".npz");
        let slice: TensorMap = if is_archive { npz::from_slice(&file) } else { npy::from_slice(&file) }.unwrap();
        let stream: TensorMap =
            if is_archive { npz::from_reader(&file[..]) } else { npy::from_reader(&file[..]) }.unwrap();
        assert!(described(&slice) == *expected, "{name}");
        assert!(slice == stream, "{name}, from a stream");
        // numpy's little-endian files are ours, byte for byte.
        if name.contains("_le_") {
            let kept = npy::Options::new().keep_dim_order(true).to_vec(&slice).unwrap();
            assert!(kept == file, "{name}: written again");
        }
    }
}

/// Every dtype, in ranks 0 to 5, with dims of 0.
fn tensors() -> TensorMap {
    let mut map = TensorMap::new();
    for &dtype in npy::DTYPES {
        for shape in [&[][..], &[0], &[7], &[2, 3], &[2, 0, 4], &[2, 3, 1, 2], &[1, 2, 1, 2, 3]] {
            let info = TensorInfo::new(dtype, shape);
            let last = if dtype == Dtype::Bool { 2 } else { 120 };
            let bytes: Vec<u8> = (0..info.payload_bytes().unwrap()).map(|at| (at % last) as u8).collect();
            map.insert(format!("{dtype}/{shape:?}"), Tensor::new(info, &bytes).unwrap());
        }
    }
    map.insert("größe", Tensor::from_slice(&[1_u8], [1]).unwrap());
    map.insert("重み.🦀", Tensor::from_slice(&[1_u8], [1]).unwrap());
    map.insert("", Tensor::from_slice(&[1_u8], [1]).unwrap());
    map.insert("large", Tensor::from_array(&ArrayD::from_shape_fn(vec![300, 1000], |at| (at[0] * at[1]) as f32)));
    map
}

#[test]
fn numpy_reads_our_files() {
    let Some(python) = Python::find() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ours.npy");
    for (name, tensor) in tensors().iter().filter(|(name, _)| name.ends_with("2, 3]") || name.ends_with("[]")) {
        std::fs::write(&path, npy::to_vec(tensor).unwrap()).unwrap();
        assert_eq!(read(&python, &path)["0"], Described::of(tensor), "{name}");
    }
    let path = folder.path().join("ours.npz");
    let mut map = tensors();
    map.insert("notes.txt", Tensor::new(TensorInfo::blob(5), b"hello").unwrap());
    for compress in [false, true] {
        std::fs::write(&path, npz::Options::new().compress(compress).to_vec(&map).unwrap()).unwrap();
        assert!(read(&python, &path) == described(&map), "compressed: {compress}");
    }
    std::fs::write(&path, npz::to_vec(&TensorMap::new()).unwrap()).unwrap();
    assert!(read(&python, &path).is_empty());
}
