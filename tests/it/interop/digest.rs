//! Digests compared with a Python program that follows their definition.

use std::collections::BTreeMap;

use tensorfile::digest::{CollectionDigester, Digest};
use tensorfile::{Dtype, Tensor};

use crate::support::info;
use crate::support::interop::{Python, run};

#[test]
fn python_computes_the_same() {
    let Some(python) = Python::find() else { return };
    let mut tensors: BTreeMap<String, Tensor> = BTreeMap::new();
    for (at, &dtype) in Dtype::ALL.iter().enumerate() {
        for shape in [vec![], vec![0], vec![3, at + 1], vec![2, 600, 1]] {
            let info = info(dtype, &shape);
            let bytes: Vec<u8> = (0..info.payload_bytes().unwrap()).map(|at| u8::from(at % 2 == 1)).collect();
            tensors.insert(format!("größe.{info}"), Tensor::new(info, &bytes).unwrap());
        }
    }
    let described: serde_json::Map<_, _> =
        tensors.iter().map(|(name, tensor)| (name.clone(), described(tensor))).collect();
    let file = tempfile::NamedTempFile::new().unwrap();
    serde_json::to_writer(&file, &described).unwrap();

    let printed = run(python.script("digest.py").arg(file.path()));
    let theirs: BTreeMap<String, Digest> = serde_json::from_str(&printed).expect("the script prints JSON");

    let mut ours: BTreeMap<String, Digest> =
        tensors.iter().map(|(name, tensor)| (name.clone(), Digest::new(&tensor.as_view()))).collect();
    ours.insert(String::new(), ours.clone().into_iter().collect::<CollectionDigester>().finish());
    assert_eq!(theirs, ours);
}

fn described(tensor: &Tensor) -> serde_json::Value {
    let data: String = tensor.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    serde_json::json!({ "dtype": tensor.dtype().name(), "shape": tensor.shape().dims(), "data": data })
}
