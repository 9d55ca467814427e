//! `.ten` files exchanged with `webdataset`, the software that the format comes from.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use tensorfile::{Dtype, FORMATS, Tensor, TensorInfo, TensorMap, ten};

use crate::support::hex;
use crate::support::interop::{Python, run};

/// The packages that have the format's code, by the name that the scripts take.
const SOFTWARE: [&str; 2] = ["webdataset", "tensorcom"];

#[test]
fn reads_and_reproduces_files_of_the_real_software() {
    let Some(python) = Python::find() else { return };
    for software in SOFTWARE {
        reads_and_reproduces_files_of(&python, software);
    }
}

fn reads_and_reproduces_files_of(python: &Python, software: &str) {
    let directory = tempfile::tempdir().unwrap();
    run(python.script("ten_write.py").arg(directory.path()).env("TENBIN", software));
    let manifest = std::fs::read_to_string(directory.path().join("manifest.json")).unwrap();
    let manifest: BTreeMap<String, Vec<Described>> = serde_json::from_str(&manifest).unwrap();
    assert!(manifest.len() > 100, "{} files", manifest.len());

    for (name, described) in &manifest {
        let file = std::fs::read(directory.path().join(name)).unwrap();
        let expected: Vec<(String, Tensor)> = described.iter().map(Described::tensor).collect();

        let tensors: Vec<_> = ten::Decoder::new(&file[..]).map(Result::unwrap).collect();
        assert_eq!(tensors, expected, "{name}");
        assert!(encoded(&expected) == file, "{name}: written one by one");

        let named = with_positions(&expected);
        if name == "same_name.ten" {
            let error = ten::from_slice::<TensorMap>(&file).unwrap_err();
            assert!(
                error.to_string().starts_with("ten: two tensors are named `same`; read them by position"),
                "{error}"
            );
            let list: Vec<Tensor> = ten::from_slice(&file).unwrap();
            assert!(list.iter().eq(expected.iter().map(|(_, tensor)| tensor)), "{name}, as a list");
            continue;
        }
        assert_eq!(ten::from_slice::<TensorMap>(&file).unwrap(), named, "{name}");
        assert_eq!(ten::from_reader::<TensorMap>(&file[..]).unwrap(), named, "{name}, from a stream");
        assert!(ten::to_vec(&named).unwrap() == file, "{name}: written at once");
        if described.iter().all(|tensor| tensor.info.is_empty()) {
            let list: Vec<Tensor> = ten::from_slice(&file).unwrap();
            assert!(ten::to_vec(&list).unwrap() == file, "{name}: written as a list");
        }
    }
}

#[test]
fn the_real_software_reads_our_files() {
    let Some(python) = Python::find() else { return };
    for software in SOFTWARE {
        reads_our_files(&python, software);
    }
}

fn reads_our_files(python: &Python, software: &str) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ours.ten");

    for &dtype in dtypes().iter().filter(|&&dtype| dtype != Dtype::U32) {
        let tensors: Vec<_> = (1..=9).map(|rank| (format!("rank{rank}"), sample(dtype, rank))).collect();
        std::fs::write(&path, encoded(&tensors)).unwrap();
        assert_eq!(read(python, software, &path), tensors, "{dtype}");
        assert!(ten::to_vec(&with_positions(&tensors)).unwrap() == encoded(&tensors), "{dtype}");
    }

    let zeros: Vec<_> = [vec![0], vec![0, 3], vec![3, 0], vec![2, 0, 3], vec![0; 9]]
        .map(|shape| (String::new(), Tensor::from_slice::<f64>(&[], shape).unwrap()))
        .into();
    // Data is padded to multiples of 64 bytes.
    let lengths =
        [1_usize, 63, 64, 65, 128].map(|len| (len.to_string(), Tensor::from_slice(&vec![7_u8; len], [len]).unwrap()));
    let names = ["", "a", "12345678", "  a b ", "\u{1}\n\u{7f}", "a\0b"];
    let names = names.map(|name| (name.to_owned(), sample(Dtype::I16, 2)));
    for tensors in [zeros, lengths.into(), names.into(), Vec::new()] {
        std::fs::write(&path, encoded(&tensors)).unwrap();
        assert_eq!(read(python, software, &path), tensors);
    }

    // Other software takes a list of names for one more tensor.
    let map = TensorMap::from_iter([("encoder.layer.0.weight", sample(Dtype::F32, 2))]);
    std::fs::write(&path, ten::Options::new().embed_names(true).to_vec(&map).unwrap()).unwrap();
    let read = read(python, software, &path);
    assert_eq!(read[0], (String::new(), sample(Dtype::F32, 2)));
    assert_eq!(read[1].1.as_bytes(), b"tensorfile.names.v1\0encoder.layer.0.weight\0");
}

/// If this fails because the real software has become more capable, the deviations in our documentation are out of
/// date.
#[test]
fn documented_deviations_of_the_real_software_hold() {
    let Some(python) = Python::find() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ours.ten");
    let non_ascii = vec![("größe".to_owned(), sample(Dtype::F32, 1))];
    for tensors in
        [vec![(String::new(), sample(Dtype::U32, 1))], vec![(String::new(), sample(Dtype::F32, 0))], non_ascii]
    {
        std::fs::write(&path, encoded(&tensors)).unwrap();
        let output = python.script("ten_read.py").arg(&path).output().unwrap();
        assert_eq!(output.status.code(), Some(REFUSED), "{}", String::from_utf8_lossy(&output.stderr));
        let ours: Vec<_> = ten::Decoder::new(&encoded(&tensors)[..]).map(Result::unwrap).collect();
        assert_eq!(ours, tensors);
    }
}

/// The exit code of `ten_read.py` if the real software refuses a file.
const REFUSED: i32 = 3;

fn read(python: &Python, software: &str, path: &Path) -> Vec<(String, Tensor)> {
    let printed = run(python.script("ten_read.py").arg(path).env("TENBIN", software));
    let described: Vec<Described> = serde_json::from_str(&printed).expect("the script prints JSON");
    described.iter().map(Described::tensor).collect()
}

/// A tensor as the scripts describe it.
#[derive(Deserialize)]
struct Described {
    dtype: String,
    shape: Vec<usize>,
    info: String,
    data: String,
}

impl Described {
    fn tensor(&self) -> (String, Tensor) {
        let bytes = hex(&self.data);
        let info = TensorInfo::new(self.dtype.parse().expect("a dtype of ours"), self.shape.clone());
        (self.info.clone(), Tensor::new(info, &bytes).expect("the scripts describe whole tensors"))
    }
}

/// The file of the tensors, written one after the other.
fn encoded(tensors: &[(String, Tensor)]) -> Vec<u8> {
    let mut encoder = ten::Encoder::new(Vec::new());
    for (name, tensor) in tensors {
        encoder.encode(name, tensor).expect("the format can store it");
    }
    encoder.into_inner()
}

/// The tensors by name; those without one by position.
fn with_positions(tensors: &[(String, Tensor)]) -> TensorMap {
    let name = |(at, (name, tensor)): (usize, &(String, Tensor))| {
        (if name.is_empty() { at.to_string() } else { name.clone() }, tensor.clone())
    };
    tensors.iter().enumerate().map(name).collect()
}

fn dtypes() -> &'static [Dtype] {
    FORMATS.iter().find(|format| format.name == "ten").expect("a row of the table").dtypes
}

/// A tensor of bytes of all kinds, NaNs and infinities among them.
fn sample(dtype: Dtype, rank: usize) -> Tensor {
    let shape: Vec<usize> = [7, 1, 3, 1, 2, 1, 1, 2, 1][..rank].to_vec();
    let info = TensorInfo::new(dtype, shape);
    // First all pairs of the bytes of NaNs, infinities and limits, then a ramp.
    let corners = [0x00_u8, 0xff, 0x7f, 0x80, 0x01, 0xf0, 0x7c, 0xfe];
    let pairs = corners.iter().flat_map(|&a| corners.map(|b| [a, b])).flatten();
    let len = info.payload_bytes().expect("it is small");
    let bytes: Vec<u8> = pairs.chain((0..=255).cycle()).take(len).collect();
    Tensor::new(info, &bytes).expect("as many bytes as it takes")
}
