//! safetensors to and from its own Python package.
//!
//! `tests/interop/setup.sh` installs it into `target/interop`, or `$TENSORFILE_INTEROP`; without it these tests say that
//! they are skipped. The Rust crate is compared with in `tests/formats/safetensors.rs`.

#![cfg(feature = "safetensors")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]
#![allow(clippy::cast_possible_truncation, reason = "the numbers of tests are small")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use tensorfile::{Dtype, Tensor, TensorInfo, TensorMap, safetensors};

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
        let byte = |at| u8::from_str_radix(&self.data[at..at + 2], 16).unwrap();
        let bytes: Vec<u8> = (0..self.data.len()).step_by(2).map(byte).collect();
        (self.name, Tensor::new(TensorInfo::new(dtype, self.shape), &bytes).unwrap())
    }
}

/// What the package finds in a file, and the file that it writes of that; `None` where it is not installed.
fn copy(file: &[u8]) -> Option<(Described, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let interop = std::env::var_os("TENSORFILE_INTEROP").map_or_else(|| root.join("target/interop"), PathBuf::from);
    let python = interop.join("venv/bin/python");
    if !python.exists() {
        println!("skipped: {} is not there; tests/interop/setup.sh installs it", python.display());
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let (source, target) = (folder.path().join("in.safetensors"), folder.path().join("out.safetensors"));
    std::fs::write(&source, file).unwrap();
    let script = root.join("tests/interop/safetensors_copy.py");
    let output = Command::new(python).arg("-B").arg(script).args([&source, &target]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some((serde_json::from_slice(&output.stdout).unwrap(), std::fs::read(target).unwrap()))
}

fn tensor(dtype: Dtype, shape: &[usize]) -> Tensor {
    let info = TensorInfo::new(dtype, shape);
    let last = if dtype == Dtype::Bool { 2 } else { 251 };
    let bytes: Vec<u8> = (0..info.payload_bytes().unwrap()).map(|at| (at * 7 % last) as u8).collect();
    Tensor::new(info, &bytes).unwrap()
}

/// Every dtype from narrow to wide, which is not the order of the package, ranks 0 to 5, dims of 0, and names of every
/// kind.
fn tensors() -> TensorMap {
    let mut map = TensorMap::new();
    for &dtype in safetensors::DTYPES {
        map.insert(format!("dtype.{dtype}"), tensor(dtype, &[3]));
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
fn the_package_reads_what_we_write_and_we_what_it_writes() {
    for (map, metadata) in [
        (tensors(), vec![("format", "np"), ("größe", "\"\n\u{1f980}")]),
        (tensors(), vec![]),
        (TensorMap::new(), vec![("format", "pt")]),
        (TensorMap::new(), vec![]),
    ] {
        let options = metadata.iter().fold(safetensors::Options::new(), |all, (key, value)| all.metadata(*key, *value));
        let Some((found, written)) = copy(&options.to_vec(&map).unwrap()) else { return };
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
