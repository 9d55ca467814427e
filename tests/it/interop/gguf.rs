//! GGUF files exchanged with the Python package of llama.cpp.

use std::collections::BTreeMap;

use serde::Deserialize;
use tensorfile::file::MetadataEdit;
use tensorfile::{Dtype, File, Tensor, TensorFile, TensorMap, WriteOptions, gguf};

use std::process::Command;

use crate::support::interop::{Python, installed, run};
use crate::support::tensor;

/// A file as the script describes it.
#[derive(Deserialize)]
struct Described {
    metadata: BTreeMap<String, String>,
    types: BTreeMap<String, Vec<String>>,
    tensors: Vec<DescribedTensor>,
}

#[derive(Deserialize, Debug, PartialEq)]
struct DescribedTensor {
    name: String,
    dtype: String,
    shape: Vec<usize>,
    offset: u64,
    data: String,
}

/// Types that the package does not have, or of another size.
const NOT_THEIRS: [Dtype; 2] = [Dtype::Q2_0, Dtype::Q8_1];

fn tensors() -> TensorMap {
    let mut map = TensorMap::new();
    for &dtype in gguf::DTYPES.iter().filter(|dtype| !NOT_THEIRS.contains(dtype)) {
        map.insert(format!("dtype.{dtype}"), tensor(dtype, &[2, 3]));
    }
    for rank in 1..=4 {
        map.insert(format!("rank.{rank}"), tensor(Dtype::F32, &[2, 3, 1, 2][..rank]));
    }
    for name in ["größe", "0", "", &"x".repeat(63)] {
        map.insert(name, tensor(Dtype::I8, &[5]));
    }
    map
}

fn described(file: &File, map: &TensorMap) -> Vec<DescribedTensor> {
    let hex = |tensor: &Tensor| tensor.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let describe = |(name, tensor): (&String, &Tensor)| DescribedTensor {
        name: name.clone(),
        dtype: tensor.dtype().to_string(),
        shape: tensor.shape().to_vec(),
        offset: file.get(name).unwrap().range().start,
        data: hex(tensor),
    };
    map.iter().map(describe).collect()
}

#[test]
fn python_reads_and_copies_our_files() {
    let Some(python) = Python::find() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (source, target) = (folder.path().join("in.gguf"), folder.path().join("out.gguf"));
    for alignment in [8, 32, 128] {
        let options = gguf::Options::new().alignment(alignment).metadata("general.name", "größe\n").metadata("a.b", "");
        let map = tensors();
        std::fs::write(&source, options.to_vec(&map).unwrap()).unwrap();
        let found: Described =
            serde_json::from_str(&run(python.script("gguf_tensors.py").arg("read").arg(&source))).unwrap();
        let expected = described(&File::open(&source).unwrap(), &map);
        assert_eq!(found.tensors, expected);
        assert_eq!((&*found.metadata["general.name"], &*found.metadata["a.b"]), ("größe\n", ""));
        assert_eq!(
            found.metadata.get("general.alignment").map(String::as_str),
            (alignment != 32).then_some(&*alignment.to_string())
        );

        run(python.script("gguf_tensors.py").arg("copy").args([&source, &target]));
        let copied = std::fs::read(&target).unwrap();
        assert_eq!(gguf::from_slice::<TensorMap>(&copied).unwrap(), map);
        assert_eq!(gguf::metadata(&copied).unwrap()["general.architecture"], "copy");
    }
}

/// An alarm: a type that Python has and this library has not is named here.
#[test]
fn types_and_their_sizes_are_those_of_python() {
    let Some(python) = Python::find() else { return };
    let theirs: BTreeMap<String, [usize; 2]> =
        serde_json::from_str(&run(python.script("gguf_tensors.py").args(["types", "-"]))).unwrap();
    for (name, sizes) in &theirs {
        let dtype: Dtype = name.parse().unwrap_or_else(|_| panic!("{name} is new in Python's gguf"));
        assert!(gguf::DTYPES.contains(&dtype), "{name} is no type of gguf here");
        let own = [dtype.block_elements(), dtype.block_bytes()];
        assert!(NOT_THEIRS.contains(&dtype) || own == *sizes, "{name} is {own:?} here, and {sizes:?} in Python");
    }
    let own = gguf::DTYPES.iter().filter(|dtype| !NOT_THEIRS.contains(dtype));
    let unknown: Vec<&Dtype> = own.filter(|dtype| !theirs.contains_key(dtype.name())).collect();
    assert!(unknown.is_empty(), "Python lacks {unknown:?}");
}

/// Random blocks of all types, decoded here and there.
#[cfg(feature = "quant")]
#[test]
fn weights_are_those_of_python() {
    /// Types that the package does not decode.
    const NOT_DECODED: [Dtype; 3] = [Dtype::Q8K, Dtype::Q1_0, Dtype::Q2_0];
    const ROWS: usize = 64;
    const COLUMNS: usize = 512;

    let Some(python) = Python::find() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (source, target) = (folder.path().join("in.gguf"), folder.path().join("out"));
    let mut state = 1_u64;
    let mut random = || {
        // A generator of Marsaglia, whose numbers are the same in each run.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    let mut map = TensorMap::new();
    let blocks = gguf::DTYPES.iter().filter(|dtype| dtype.block_elements() > 1);
    for &dtype in blocks.filter(|dtype| !NOT_THEIRS.contains(dtype) && !NOT_DECODED.contains(dtype)) {
        let bytes: Vec<u8> = (0..dtype.bytes_for(ROWS * COLUMNS).unwrap()).map(|_| random()).collect();
        map.insert(dtype.name(), Tensor::new(tensorfile::TensorInfo::new(dtype, [ROWS, COLUMNS]), &bytes).unwrap());
    }
    std::fs::write(&source, gguf::to_vec(&map).unwrap()).unwrap();
    run(python.script("gguf_tensors.py").arg("decode").args([&source, &target]));
    let theirs = std::fs::read(&target).unwrap();
    let options = tensorfile::OpenOptions::new().dequantize(tensorfile::Dequantize::to(Dtype::F32));
    let file = options.open(&source).unwrap();
    assert_eq!((file.len(), theirs.len()), (map.len(), 4 * map.len() * ROWS * COLUMNS));
    for (tensor, theirs) in file.tensors().zip(theirs.chunks(4 * ROWS * COLUMNS)) {
        let own = tensor.read().unwrap();
        let numbers = own.as_bytes().as_chunks::<4>().0.iter().zip(theirs.as_chunks::<4>().0);
        for (i, (own, theirs)) in numbers.enumerate() {
            let [own, theirs] = [own, theirs].map(|bytes| f32::from_le_bytes(*bytes));
            let are_equal = own.to_bits() == theirs.to_bits() || own.is_nan() && theirs.is_nan();
            assert!(are_equal, "{}, weight {i}: {own:e} here, {theirs:e} in Python", tensor.name());
        }
    }
}

/// A tensor as ggml has it.
#[derive(Deserialize, Debug, PartialEq)]
struct GgmlTensor {
    name: String,
    dtype: String,
    ne: [usize; 4],
    offset: u64,
    data: String,
}

/// Types that ggml has removed, or never had in files.
fn is_of_ggml(dtype: Dtype) -> bool {
    dtype != Dtype::Q8_1
}

#[test]
fn ggml_reads_and_copies_our_files() {
    let Some(ggml) = installed("ggml_tensors") else { return };
    let folder = tempfile::tempdir().unwrap();
    let (source, target) = (folder.path().join("in.gguf"), folder.path().join("out.gguf"));
    let mut map: TensorMap = tensors().into_iter().filter(|(_, tensor)| is_of_ggml(tensor.dtype())).collect();
    map.insert("q2_0", tensor(Dtype::Q2_0, &[2, 3]));
    for alignment in [32, 128] {
        let options = gguf::Options::new().alignment(alignment).metadata("general.name", "größe\n").metadata("a.b", "");
        std::fs::write(&source, options.to_vec(&map).unwrap()).unwrap();
        let mut found: Vec<GgmlTensor> =
            serde_json::from_str(&run(Command::new(&ggml).args([&source, &target]))).unwrap();
        // It writes `q2_K`.
        found.iter_mut().for_each(|tensor| tensor.dtype.make_ascii_lowercase());
        let expected = described(&File::open(&source).unwrap(), &map).into_iter().map(|tensor| {
            let DescribedTensor { name, dtype, shape, offset, data } = tensor;
            let mut ne = [1; 4];
            ne.iter_mut().zip(shape.iter().rev()).for_each(|(ne, dim)| *ne = *dim);
            GgmlTensor { name, dtype, ne, offset, data }
        });
        assert_eq!(found, expected.collect::<Vec<_>>());

        // Its writer takes no alignment from the metadata that it copies.
        if alignment != 32 {
            continue;
        }
        let copied = std::fs::read(&target).unwrap();
        // ggml leaves out outer dims of 1.
        let copy = gguf::from_slice::<TensorMap>(&copied).unwrap();
        assert_eq!(copy.len(), map.len());
        for (name, tensor) in &map {
            assert_eq!((copy[name].dtype(), copy[name].as_bytes()), (tensor.dtype(), tensor.as_bytes()), "{name}");
        }
        assert_eq!(gguf::metadata(&copied).unwrap()["general.name"], "größe\n");
    }
}

#[test]
fn python_reads_fields_with_their_types() {
    #[derive(TensorFile)]
    struct Model {
        #[tensor(metadata, rename = "general.architecture")]
        architecture: String,
        #[tensor(metadata, rename = "llama.block_count")]
        blocks: u32,
        #[tensor(metadata)]
        rate: f32,
        #[tensor(metadata)]
        exact: f64,
        #[tensor(metadata)]
        flag: bool,
        #[tensor(metadata)]
        small: Option<i8>,
    }
    let Some(python) = Python::find() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let architecture = "llama".to_owned();
    let model = Model { architecture, blocks: 12, rate: 0.5, exact: 0.1, flag: true, small: Some(-3) };
    tensorfile::save(&path, &model).unwrap();
    let found: Described = serde_json::from_str(&run(python.script("gguf_tensors.py").arg("read").arg(&path))).unwrap();
    for (key, value, kind) in [
        ("general.architecture", "llama", "STRING"),
        ("llama.block_count", "12", "UINT32"),
        ("rate", "0.5", "FLOAT32"),
        ("exact", "0.1", "FLOAT64"),
        ("flag", "True", "BOOL"),
        ("small", "-3", "INT8"),
    ] {
        assert_eq!((&*found.metadata[key], &found.types[key][..]), (value, &[kind.to_owned()][..]), "{key}");
    }
}

#[test]
fn types_of_files_of_python_are_kept() {
    let Some(python) = Python::find() else { return };
    let folder = tempfile::tempdir().unwrap();
    let [old, kept, edited] = ["old.gguf", "kept.gguf", "edited.gguf"].map(|name| folder.path().join(name));
    run(python.script("gguf_tensors.py").arg("model").arg(&old));
    let read = |path: &std::path::Path| -> Described {
        serde_json::from_str(&run(python.script("gguf_tensors.py").arg("read").arg(path))).unwrap()
    };
    let before = read(&old);
    assert_eq!(before.types["tokenizer.ggml.tokens"], ["ARRAY", "STRING"]);

    let file = File::open(&old).unwrap();
    let options = WriteOptions::new().keep_metadata(&file.metadata().unwrap());
    tensorfile::SaveOptions::new().write(options).save(&kept, &file).unwrap();
    let after = read(&kept);
    assert_eq!((after.types, after.metadata), (before.types.clone(), before.metadata.clone()));

    let edit = MetadataEdit::new().set("llama.block_count", "24").set("new", "1").unset("rate");
    edit.save(&file, &edited).unwrap();
    let mut after = read(&edited);
    assert_eq!(after.metadata.remove("llama.block_count").unwrap(), "24");
    assert_eq!(after.metadata.remove("new").unwrap(), "1");
    assert_eq!(after.types["llama.block_count"], ["UINT32"]);
    let mut expected = before.metadata;
    expected.remove("rate").unwrap();
    expected.remove("llama.block_count").unwrap();
    assert_eq!(after.metadata, expected);
}

#[cfg(feature = "safetensors")]
#[test]
fn parts_are_those_of_python() {
    let Some(python) = Python::find() else { return };
    let folder = tempfile::tempdir().unwrap();
    let theirs = folder.path().join("theirs.gguf");
    run(python.script("gguf_tensors.py").arg("split").arg(&theirs));
    let part = |name: &str, number: u8| folder.path().join(format!("{name}-0000{number}-of-00003.gguf"));
    let file = File::open(part("theirs", 2)).unwrap();
    assert_eq!((file.len(), file.shards().len()), (3, 3));
    let metadata = file.metadata().unwrap();
    assert_eq!(metadata.warnings, []);

    // Written again, the parts have the same entries, with the same types.
    let options = WriteOptions::new().keep_metadata(&metadata);
    let options = tensorfile::SaveOptions::new().write(options).max_shard_bytes(24);
    options.save(folder.path().join("ours.gguf"), &file).unwrap();
    for number in 1..=3 {
        let read = |name: &str| -> Described {
            let path = part(name, number);
            serde_json::from_str(&run(python.script("gguf_tensors.py").arg("read").arg(path))).unwrap()
        };
        let (theirs, ours) = (read("theirs"), read("ours"));
        assert_eq!((ours.tensors, ours.metadata), (theirs.tensors, theirs.metadata), "{number}");
        assert_eq!(ours.types, theirs.types, "{number}");
    }
}
