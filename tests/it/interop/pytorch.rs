//! Random checkpoints saved by PyTorch: we read the same values as PyTorch does.

use std::collections::BTreeMap;
use std::panic::catch_unwind;
use std::path::Path;

use serde::Deserialize;
use tensorfile::file::Backend;
use tensorfile::{Dtype, Layout, OpenOptions, Shape, Tensor, TensorInfo, TensorMap, pytorch};

use crate::formats::pytorch::{halves, row_major};
use crate::support::interop::{installed, run};
use crate::support::{Dribble, hex, root};

/// The dtype, the shape and the elements as hexadecimal digits. Tensors of unknown dtypes have only a shape.
type DescribedTensor = (Option<String>, Vec<usize>, Option<String>);

/// A line of `expected.jsonl`.
#[derive(Deserialize, Debug)]
struct Described {
    file: String,
    tensors: BTreeMap<String, DescribedTensor>,
    metadata: BTreeMap<String, String>,
    unknown: Vec<String>,
}

fn compare(folder: &Path, described: &Described) {
    let Described { file: name, tensors, metadata, unknown } = described;
    let path = folder.join(name);
    let bytes = std::fs::read(&path).unwrap();
    let is_known = |name: &str| !unknown.iter().any(|prefix| name.starts_with(prefix.as_str()));
    let found = pytorch::metadata(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
    let entries: BTreeMap<String, String> = found.entries.into_iter().filter(|(name, _)| is_known(name)).collect();
    assert_eq!(entries, *metadata, "{name}");
    let slice: TensorMap = pytorch::from_slice(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(pytorch::from_reader::<TensorMap>(Dribble::new(&bytes)).unwrap(), slice, "{name}");
    let names: Vec<&String> = slice.iter().map(|(name, _)| name).filter(|name| is_known(name)).collect();
    let mut expected_names: Vec<&String> = tensors.keys().collect();
    let mut sorted = names.clone();
    sorted.sort();
    expected_names.sort();
    assert_eq!(sorted, expected_names, "{name}");
    for backend in [Backend::Mapped, Backend::Positioned] {
        let file = OpenOptions::new().backend(backend).open(&path).unwrap();
        for (tensor_name, (dtype, shape, elements)) in tensors {
            let tensor = file.get(tensor_name).unwrap();
            let read = tensor.read().unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(read, slice[tensor_name.as_str()], "{name}: {tensor_name}");
            assert_eq!(*tensor.shape(), Shape::from(shape.clone()), "{name}: {tensor_name}");
            let (Some(dtype), Some(elements)) = (dtype, elements) else {
                assert!(tensor.info().unknown_dtype().is_some(), "{name}: {tensor_name}");
                continue;
            };
            let info = TensorInfo::new(dtype.parse::<Dtype>().unwrap(), shape.clone());
            let expected = Tensor::new(info, &hex(elements)).unwrap();
            assert_eq!(row_major(&read), expected, "{name}: {tensor_name}");
            let mut written = Vec::new();
            tensor.write_row_major_to(&mut written).unwrap();
            assert_eq!(written, expected.as_bytes(), "{name}: {tensor_name}");
            let ranges: Vec<_> = shape.iter().map(|dim| dim / 2..*dim).collect();
            assert_eq!(tensor.slice(&ranges).unwrap(), halves(&expected), "{name}: {tensor_name}");
            if let Ok(view) = tensor.view() {
                assert_eq!(view.as_bytes(), read.as_bytes(), "{name}: {tensor_name}");
                assert_ne!(*view.layout(), Layout::Blob);
            }
        }
    }
}

/// `setup.sh --torch` installs one PyTorch. An older one can be put next to it by hand.
#[test]
fn reads_what_pytorch_reads() {
    let seeds = std::env::var("TENSORFILE_TORCH_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(1);
    for python in ["torch/bin/python", "torch-1.13/bin/python"] {
        let Some(python) = installed(python) else { continue };
        for seed in 0..seeds {
            let folder = tempfile::tempdir().unwrap();
            let mut command = std::process::Command::new(&python);
            let script = root().join("tests/interop/torch_files.py");
            run(command.arg("-B").arg(script).arg(folder.path()).args(["300", &seed.to_string()]));
            let text = std::fs::read_to_string(folder.path().join("expected.jsonl")).unwrap();
            let lines: Vec<Described> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            assert!(lines.len() > 200, "{} files", lines.len());
            // All of them are compared, and each that is wrong is printed.
            let is_wrong = |described: &&Described| catch_unwind(|| compare(folder.path(), described)).is_err();
            let wrong: Vec<&str> = lines.iter().filter(is_wrong).map(|described| described.file.as_str()).collect();
            assert!(wrong.is_empty(), "seed {seed}: {wrong:?}");
        }
    }
}
