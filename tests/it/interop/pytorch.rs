//! Random checkpoints saved by PyTorch, and ours: we read the same values as PyTorch does.

use std::collections::BTreeMap;
use std::panic::catch_unwind;
use std::path::Path;

use indexmap::IndexMap;
use serde::Deserialize;
use tensorfile::file::Backend;
use tensorfile::{Dtype, Layout, OpenOptions, Shape, Tensor, TensorInfo, TensorMap, TensorView, pytorch};

use crate::formats::pytorch::{halves, row_major};
use crate::support::interop::{installed, run};
use crate::support::{Dribble, hex, root, tensor};

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

/// What PyTorch reads of a tensor.
#[derive(Deserialize, Debug, PartialEq)]
struct Loaded {
    dtype: String,
    shape: Vec<usize>,
    strides: Vec<usize>,
    /// The address modulo 64.
    misaligned: u64,
    /// The number of the first tensor with the same storage. Storages without bytes have no number.
    first: Option<usize>,
    elements: String,
}

/// Returns what PyTorch reads from a file when it copies it, and when it maps it.
fn loaded(python: &Path, file: &Path) -> Vec<IndexMap<String, Loaded>> {
    let script = root().join("tests/interop/torch_reads.py");
    let lines = run(std::process::Command::new(python).arg("-B").arg(script).arg(file));
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the name of a dtype in the module `torch`.
pub fn torch_name(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::Bool => "bool",
        Dtype::I8 => "int8",
        Dtype::I16 => "int16",
        Dtype::I32 => "int32",
        Dtype::I64 => "int64",
        Dtype::U8 => "uint8",
        Dtype::U16 => "uint16",
        Dtype::U32 => "uint32",
        Dtype::U64 => "uint64",
        Dtype::F16 => "float16",
        Dtype::Bf16 => "bfloat16",
        Dtype::F32 => "float32",
        Dtype::F64 => "float64",
        Dtype::F8E5M2 => "float8_e5m2",
        Dtype::F8E4M3Fn => "float8_e4m3fn",
        Dtype::F8E5M2Fnuz => "float8_e5m2fnuz",
        Dtype::F8E4M3Fnuz => "float8_e4m3fnuz",
        Dtype::F8E8M0 => "float8_e8m0fnu",
        Dtype::F4 => "float4_e2m1fn_x2",
        Dtype::C64 => "complex64",
        Dtype::C128 => "complex128",
        other => panic!("PyTorch has no {other}"),
    }
}

pub fn hex_of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Checks what PyTorch reads from a file of some tensors. `owners` has the first tensor with the same storage.
fn check_loaded(python: &Path, path: &Path, map: &TensorMap, owners: &[usize]) {
    for (way, found) in ["copied", "mapped"].into_iter().zip(loaded(python, path)) {
        assert!(found.keys().eq(map.names()), "{way}: {found:?}");
        for ((name, tensor), (found, owner)) in map.iter().zip(found.values().zip(owners)) {
            let mut shape = tensor.shape().dims().to_vec();
            // PyTorch counts the bytes of packed elements.
            if let Some(last) = shape.last_mut() {
                *last /= tensor.dtype().block_elements();
            }
            let elements = hex_of(row_major(tensor).as_bytes());
            assert_eq!((found.dtype.as_str(), &found.shape), (torch_name(tensor.dtype()), &shape), "{way}: {name}");
            assert_eq!((&found.elements, found.misaligned), (&elements, 0), "{way}: {name}");
            assert_eq!(found.first, (!elements.is_empty()).then_some(*owner), "{way}: {name}");
            if let Layout::DimOrder(order) = tensor.layout() {
                let mut by_stride: Vec<usize> = (0..shape.len()).collect();
                by_stride.sort_by_key(|dim| std::cmp::Reverse(found.strides[*dim]));
                assert!(order.as_slice().iter().map(|dim| usize::from(*dim)).eq(by_stride), "{way}: {name}");
            }
        }
    }
}

#[test]
fn pytorch_reads_our_files() {
    let Some(python) = installed("torch/bin/python") else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.pt");
    let shapes: [&[usize]; 6] = [&[], &[1], &[5], &[2, 3], &[2, 0, 4], &[2, 1, 3, 2]];
    let all = pytorch::DTYPES.iter().flat_map(|dtype| shapes.map(|shape| (*dtype, shape)));
    let map: TensorMap = all.map(|(dtype, shape)| (format!("{dtype}{shape:?}"), tensor(dtype, shape))).collect();
    std::fs::write(&path, pytorch::to_vec(&map).unwrap()).unwrap();
    check_loaded(&python, &path, &map, &(0..map.len()).collect::<Vec<_>>());
    // Nothing.
    std::fs::write(&path, pytorch::to_vec(&TensorMap::new()).unwrap()).unwrap();
    check_loaded(&python, &path, &TensorMap::new(), &[]);
}

#[test]
fn pytorch_reads_shared_and_permuted_tensors() {
    let Some(python) = installed("torch/bin/python") else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.pt");
    let [floats, numbers]: [Vec<u8>; 2] = [(0..96).collect(), (100..124).collect()];
    let view = |dtype, dims: &[usize], order: &[u8], bytes| {
        let layout = Layout::from_dim_order(order).unwrap();
        TensorView::new(TensorInfo { layout, ..TensorInfo::new(dtype, dims) }, bytes).unwrap()
    };
    let views = IndexMap::from([
        ("a", view(Dtype::F32, &[2, 3, 4], &[0, 1, 2], &floats)),
        ("alone", view(Dtype::U16, &[12], &[0], &numbers)),
        ("a.tied", view(Dtype::F32, &[4, 6], &[0, 1], &floats)),
        ("a.permuted", view(Dtype::F32, &[4, 3, 2], &[2, 1, 0], &floats)),
    ]);
    std::fs::write(&path, pytorch::Options::new().keep_dim_order(true).to_vec(&views).unwrap()).unwrap();
    let map: TensorMap = views.iter().map(|(name, view)| (*name, view.to_tensor())).collect();
    check_loaded(&python, &path, &map, &[0, 1, 0, 0]);
    // The same bytes with several dtypes.
    let views = IndexMap::from([
        ("i16", view(Dtype::I16, &[4, 3], &[0, 1], &numbers)),
        ("f64", view(Dtype::F64, &[3], &[0], &numbers)),
        ("e4m3", view(Dtype::F8E4M3Fn, &[24], &[0], &numbers)),
    ]);
    std::fs::write(&path, pytorch::to_vec(&views).unwrap()).unwrap();
    let map: TensorMap = views.iter().map(|(name, view)| (*name, view.to_tensor())).collect();
    check_loaded(&python, &path, &map, &[0, 0, 0]);
}
