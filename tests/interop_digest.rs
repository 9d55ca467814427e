//! Digests as a Python program computes them from their definition.
//!
//! `tests/interop/setup.sh` installs what it needs into `target/interop`; without it this test says that it is skipped.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use tensorfile::digest::{CollectionDigester, Digest};
use tensorfile::{Dtype, Tensor, TensorInfo};

#[test]
fn python_computes_the_same() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let interop = std::env::var_os("TENSORFILE_INTEROP").unwrap_or("target/interop".into());
    let python = root.join(interop).join("venv/bin/python");
    if !python.exists() {
        let message = format!("skipped: no {}; tests/interop/setup.sh installs it\n", python.display());
        std::io::stderr().write_all(message.as_bytes()).expect("stderr is open");
        return;
    }

    let mut tensors: BTreeMap<String, Tensor> = BTreeMap::new();
    for (at, &dtype) in Dtype::ALL.iter().enumerate() {
        for shape in [vec![], vec![0], vec![3, at + 1], vec![2, 600, 1]] {
            let info = TensorInfo::new(dtype, shape);
            let bytes: Vec<u8> = (0..info.payload_bytes().unwrap()).map(|at| u8::from(at % 2 == 1)).collect();
            tensors.insert(format!("größe.{info}"), Tensor::new(info, &bytes).unwrap());
        }
    }
    let described: serde_json::Map<_, _> =
        tensors.iter().map(|(name, tensor)| (name.clone(), described(tensor))).collect();
    let file = tempfile::NamedTempFile::new().unwrap();
    serde_json::to_writer(&file, &described).unwrap();

    let output = Command::new(python).arg("-B").arg(root.join("tests/interop/digest.py")).arg(file.path()).output();
    let output = output.expect("Python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let theirs: BTreeMap<String, Digest> = serde_json::from_slice(&output.stdout).expect("the script prints JSON");

    let mut ours: BTreeMap<String, Digest> =
        tensors.iter().map(|(name, tensor)| (name.clone(), Digest::of(&tensor.as_view()))).collect();
    ours.insert(String::new(), ours.clone().into_iter().collect::<CollectionDigester>().finish());
    assert_eq!(theirs, ours);
}

fn described(tensor: &Tensor) -> serde_json::Value {
    let data: String = tensor.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    serde_json::json!({ "dtype": tensor.dtype().name(), "shape": tensor.shape().dims(), "data": data })
}
