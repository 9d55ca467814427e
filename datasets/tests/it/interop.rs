//! Exchanges shards with Python's webdataset, GNU tar and bsdtar, in both directions. If one is not installed, its
//! tests print that they are skipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ndarray::{Array1, Array2, array};
use serde_json::{Value, json};
use tensorfile::{Blob, Tensor, TensorFile, TensorMap};
use tensorfile_datasets::splits::{PartWriter, Planner, commit};
use tensorfile_datasets::{Sample, Shard, ShardWriter};

use crate::support::text;

#[path = "../../../tests/it/support/skipped.rs"]
mod skip;

use skip::skipped;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Runs the script with webdataset, and returns the JSON it prints.
fn webdataset(arguments: &[&str]) -> Option<Value> {
    python("webdataset", "webdataset_shards.py", arguments)
}

/// Runs a script that needs a module, and returns the JSON it prints.
fn python(module: &str, script: &str, arguments: &[&str]) -> Option<Value> {
    let folder = std::env::var_os("TENSORFILE_INTEROP").unwrap_or("target/interop".into());
    let python = root().join(folder).join("venv/bin/python");
    let imported = Command::new(&python)
        .args(["-c", &format!("import importlib.util as i; assert i.find_spec('{module}')")])
        .output();
    if !imported.is_ok_and(|output| output.status.success()) {
        let python = python.display();
        skipped(format_args!("{python}, or its module {module}, is missing; tests/interop/setup.sh installs it"));
        return None;
    }
    let script = root().join("tests/interop").join(script);
    let output = Command::new(python).arg("-B").arg(script).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// Returns a tensor as the script prints an array.
fn described(tensor: &Tensor) -> Value {
    let info = tensor.info();
    let dtype = info.dtype.name();
    let bytes = dtype[1..].parse::<u32>().unwrap() / 8;
    let values = tensor.as_view().to_array::<f64>().or_else(|_| {
        let cast = tensorfile::view::CastView::new(&One(tensor), |_, _| tensorfile::Dtype::F64).load::<TensorMap>();
        cast.and_then(|map| map["0"].as_view().to_array::<f64>())
    });
    let values: Vec<f64> = values.unwrap().into_iter().collect();
    json!({ "dtype": format!("{}{bytes}", &dtype[..1]), "shape": info.shape.dims(), "values": values })
}

/// A tensor as a file.
struct One<'a>(&'a Tensor);

impl tensorfile::Tensors for One<'_> {
    fn send(&self, sink: &mut dyn tensorfile::model::TensorSink) -> tensorfile::Result<()> {
        let record =
            tensorfile::model::TensorRecord { name: "0", info: self.0.info(), data: &self.0.as_bytes(), tied: None };
        sink.tensor(&record)
    }
}

#[test]
fn shards_of_webdataset_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let Some(manifest) = webdataset(&["write", text(folder.path())]) else { return };
    assert_eq!(manifest.as_object().unwrap().len(), 4);
    for (name, expected) in manifest.as_object().unwrap() {
        let path = folder.path().join(format!("{name}.tar"));
        let samples: Vec<Sample> = Shard::open(text(&path)).unwrap().map(Result::unwrap).collect();
        assert_eq!(samples.len(), expected.as_array().unwrap().len());
        for (sample, expected) in samples.iter().zip(expected.as_array().unwrap()) {
            assert_eq!(sample.key, expected["__key__"].as_str().unwrap());
            let map: TensorMap = sample.load().unwrap();
            let found = |name: &str| described(&map[name]);
            assert_eq!(found("image"), expected["image.ten"], "{name}");
            assert_eq!(json!([found("two.0"), found("two.1")]), expected["two.ten"]);
            assert_eq!(found("x"), expected["x.npy"]);
            assert_eq!(json!({ "left": found("pair.left"), "right": found("pair.right") }), expected["pair.npz"]);
            assert_eq!(json!(map["cls"].as_view().to_array::<i64>().unwrap().first()), expected["cls"]);
            assert_eq!(json!(map["raw.bin"].as_bytes()), expected["raw.bin"]);
            assert_eq!(json!(sample.text("caption.txt").unwrap()), expected["caption.txt"]);
            assert_eq!(sample.json::<Value>("json").unwrap(), expected["json"]);
            assert_eq!(map.len(), 8);
        }
    }
}

#[derive(TensorFile)]
struct Row {
    image: Array2<u8>,
    embedding: Array1<f32>,
    label: i64,
    cls: i64,
    bin: Blob,
    #[tensor(metadata)]
    caption: String,
    #[tensor(metadata)]
    json: String,
}

#[test]
fn webdataset_reads_our_shards() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = ShardWriter::new(folder.path().join("a-{0..}.tar")).unwrap().max_samples(2);
    for i in 0..5_u8 {
        let row = Row {
            image: array![[i, 1], [2, 3]],
            embedding: array![0.5, f32::from(i)],
            label: i64::from(i),
            cls: -i64::from(i),
            bin: Blob(vec![0, 255]),
            caption: "déjà".to_owned(),
            json: json!({ "n": i }).to_string(),
        };
        writer.write(&format!("{}/{i}", "long".repeat(if i == 4 { 40 } else { 1 })), &row).unwrap();
    }
    let shards = writer.finish().unwrap();
    let paths: Vec<&str> = shards.iter().map(|shard| text(&shard.path)).collect();
    let Some(found) = webdataset(&[&["read"], &paths[..]].concat()) else { return };
    assert_eq!(found.as_array().unwrap().len(), 5);
    for (i, found) in found.as_array().unwrap().iter().enumerate() {
        let expected = json!({
            "__key__": format!("{}/{i}", "long".repeat(if i == 4 { 40 } else { 1 })),
            "image.ten": [{ "dtype": "u1", "shape": [2, 2], "values": [i as f64, 1.0, 2.0, 3.0] }],
            "embedding.ten": [{ "dtype": "f4", "shape": [2], "values": [0.5, i as f64] }],
            "label.cls": i,
            "cls": -(i as i64),
            "bin": [0, 255],
            "caption.txt": "déjà",
            "json": { "n": i },
        });
        assert_eq!(found, &expected);
    }
}

#[test]
fn shards_of_other_programs_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let long = format!("{}/{}", "folder".repeat(12), "k".repeat(60));
    let longer = format!("{}/{}", "folder".repeat(30), "k".repeat(130));
    let mut ran = 0;
    for (program, format, longest) in [
        ("tar", "v7", 99),
        ("tar", "oldgnu", usize::MAX),
        ("tar", "gnu", usize::MAX),
        ("tar", "ustar", 200),
        ("tar", "pax", usize::MAX),
        ("bsdtar", "v7tar", 99),
        ("bsdtar", "ustar", 200),
        ("bsdtar", "gnutar", usize::MAX),
        ("bsdtar", "pax", usize::MAX),
    ] {
        let files = folder.path().join("files");
        let _ = fs::remove_dir_all(&files);
        let mut expected = Vec::new();
        for (number, key) in ["1", "b/2", &long, &longer].into_iter().filter(|key| key.len() < longest).enumerate() {
            for (extension, len) in [("a.bin", 511 + number), ("txt", 0), ("z.bin", 70_000)] {
                let path = files.join(format!("{key}.{extension}"));
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, vec![number as u8; len]).unwrap();
                expected.push((key.to_owned(), extension.to_owned(), vec![number as u8; len]));
            }
        }
        let list: Vec<String> = expected.iter().map(|(key, extension, _)| format!("{key}.{extension}")).collect();
        let shard = folder.path().join("shard.tar");
        let _ = fs::remove_file(&shard);
        let mut command = Command::new(program);
        command.arg(format!("--format={format}")).arg("-cf").arg(&shard).arg("-C").arg(&files).args(&list);
        let Ok(output) = command.output() else {
            skipped(format_args!("{program} is missing"));
            continue;
        };
        assert!(output.status.success(), "{program} {format}: {}", String::from_utf8_lossy(&output.stderr));
        let mut found = Vec::new();
        for sample in Shard::open(text(&shard)).unwrap() {
            let sample = sample.unwrap();
            for member in &sample.members {
                found.push((
                    sample.key.clone(),
                    member.extension.clone(),
                    sample.bytes(&member.extension).unwrap().to_vec(),
                ));
            }
        }
        assert!(found == expected, "{program} {format}");
        ran += 1;
    }
    assert!(ran >= 5 || cfg!(not(target_os = "linux")), "{ran} formats");
}

#[test]
fn wids_finds_samples_by_our_indices() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::create_dir(path("elsewhere")).unwrap();
    for index in ["a.json", "elsewhere/a.json"] {
        let mut writer = ShardWriter::new(path("a-{0..}.tar")).unwrap().max_samples(2).wids(path(index));
        for i in 0..5 {
            let files = [("cls", i.to_string().into_bytes()), ("x.bin", vec![i; 700])];
            writer.write_files(&format!("{i:03}"), files).unwrap();
        }
        writer.finish().unwrap();
    }
    let shards: Vec<String> = (0..3).map(|i| path(&format!("a-{i}.tar"))).collect();
    let parts = Planner::by_count(2).plan(&shards).unwrap().into_iter().map(|split| {
        let mut part = PartWriter::new(path("out"), &split, "tar").unwrap();
        part.copy(&split).unwrap();
        part.finish().unwrap()
    });
    let committed = commit(path("out"), parts.collect::<Vec<_>>()).unwrap();
    for index in [&path("a.json"), &path("elsewhere/a.json"), text(&committed.index)] {
        let cache = tempfile::tempdir().unwrap();
        let Some(found) = python("wids", "wids_shards.py", &[index, text(cache.path())]) else { return };
        let expected = (0..5).rev().map(|i| {
            json!({
                "__key__": format!("{i:03}"),
                ".cls": i.to_string().as_bytes(),
                ".x.bin": vec![i; 700],
            })
        });
        assert_eq!(found, Value::from_iter(expected), "{index}");
    }
}
