//! Folders saved by PyTorch, and ours: we read the same tensors as PyTorch does.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use tensorfile::file::RankFolder;
use tensorfile::view::Subset;
use tensorfile::{Dtype, File, SaveOptions, Tensor, TensorMap, WriteOptions, pytorch};

use super::pytorch::{hex_of, torch_name};
use crate::dcp::{compare, described};
use crate::support::interop::{installed, run};
use crate::support::{root, tensor};

/// `setup.sh --torch` installs one PyTorch. An older one can be put next to it by hand.
#[test]
fn reads_what_pytorch_reads() {
    for (python, options) in [("torch/bin/python", &[][..]), ("torch-1.13/bin/python", &["--old"])] {
        let Some(python) = installed(python) else { continue };
        let folder = tempfile::tempdir().unwrap();
        let mut command = std::process::Command::new(&python);
        let script = root().join("tests/interop/torch_folders.py");
        run(command.arg("-B").arg(script).arg(folder.path()).args(options));
        let folders = described(&folder.path().join("expected.jsonl"));
        assert_eq!(folders.len(), if options.is_empty() { 9 } else { 1 });
        folders.iter().for_each(|described| compare(&folder.path().join(&described.folder), described));
    }
}

/// What PyTorch reads from a folder: the nested value, plain tensors, and tensors that several processes hold.
struct Loaded {
    nested: BTreeMap<String, Value>,
    plain: BTreeMap<String, Value>,
    shared: BTreeMap<String, Value>,
}

fn load(python: &Path, folder: &Path, processes: usize) -> Loaded {
    let script = root().join("tests/interop/torch_reads_folder.py");
    let mut command = std::process::Command::new(python);
    let lines = run(command.arg("-B").arg(script).arg(folder).arg(processes.to_string()));
    let mut lines = lines.lines().map(|line| serde_json::from_str(line).unwrap());
    let mut next = || lines.next().unwrap();
    Loaded { nested: next(), plain: next(), shared: next() }
}

/// Describes the tensors of a map as the script does.
fn expected(map: &TensorMap) -> BTreeMap<String, Value> {
    let described = |(name, tensor): (&String, &Tensor)| {
        let mut shape = tensor.shape().dims().to_vec();
        if let Some(last) = shape.last_mut() {
            *last /= tensor.dtype().block_elements();
        }
        (name.clone(), json!([torch_name(tensor.dtype()), shape, hex_of(tensor.as_bytes())]))
    };
    map.iter().map(described).collect()
}

#[test]
fn pytorch_reads_our_folders() {
    let Some(python) = installed("torch/bin/python") else { return };
    let folder = tempfile::tempdir().unwrap();
    let shapes: [&[usize]; 6] = [&[], &[7], &[16, 3], &[3, 0], &[1, 4], &[9, 2, 2]];
    let all = pytorch::DTYPES.iter().flat_map(|dtype| shapes.map(|shape| (*dtype, shape)));
    let map: TensorMap = all.map(|(dtype, shape)| (format!("{dtype}.{shape:?}"), tensor(dtype, shape))).collect();
    let expected = expected(&map);
    for (name, ranks, processes) in [
        ("one", RankFolder::new(1), 2),
        ("four", RankFolder::new(4), 2),
        ("eight", RankFolder::new(8).shard_dim(|name| usize::from(name.contains("3]"))), 4),
        ("whole", RankFolder::new(3).replicate(20), 4),
    ] {
        let path = folder.path().join(name);
        SaveOptions::new().ranks(ranks).save(&path, &map).unwrap();
        let loaded = load(&python, &path, processes);
        assert_eq!(loaded.nested, expected, "{name}");
        assert_eq!(loaded.plain, expected, "{name}");
        assert!(loaded.shared.len() > 20, "{name}");
        for (tensor, value) in loaded.shared {
            assert_eq!(value, expected[&tensor], "{name}: {tensor}");
        }
    }
    // Under a key.
    let path = folder.path().join("prefixed");
    let map: TensorMap = [("a.b", tensor(Dtype::F32, &[4, 2]))].into_iter().collect();
    SaveOptions::new().ranks(RankFolder::new(2).prefix("model")).save(&path, &map).unwrap();
    let loaded = load(&python, &path, 2);
    assert_eq!(loaded.nested.keys().collect::<Vec<_>>(), ["model/a.b"]);
    assert_eq!(loaded.plain.keys().collect::<Vec<_>>(), ["model.a.b"]);
}

/// The state of a model and its optimizer, as PyTorch saves it, for another number of ranks.
#[test]
fn a_folder_of_pytorch_goes_through_another_number_of_ranks() {
    let Some(python) = installed("torch/bin/python") else { return };
    let folder = tempfile::tempdir().unwrap();
    for name in ["plain", "sharded_4"] {
        let old = root().join("tests/fixtures/dcp").join(name);
        let file = File::open(&old).unwrap();
        let mut options = WriteOptions::new().keep_metadata(&file.metadata().unwrap());
        options.metadata.clear();
        let is_stored = |name: &str| pytorch::FORMAT.stores_opaque(file.get(name).unwrap().layout());
        let path = folder.path().join(name);
        SaveOptions::new().ranks(3).write(options).save(&path, &Subset::new(&file, is_stored)).unwrap();
        let [before, after] = [&old, &path].map(|path| load(&python, path, 2));
        let kept = |before: BTreeMap<String, Value>, after: &BTreeMap<String, Value>, what: &str| {
            for (key, value) in before {
                if let Some(found) = after.get(&key) {
                    assert_eq!(*found, value, "{name}, {what}: {key}");
                } else {
                    println!("{name}, {what}: `{key}` is left out");
                }
            }
        };
        kept(before.nested, &after.nested, "nested");
        kept(before.plain, &after.plain, "plain");
        assert_eq!(after.nested.keys().any(|key| key.contains('/')), name == "plain", "{:?}", after.nested.keys());
    }
}

#[test]
fn pytorch_reads_our_files_of_safetensors() {
    let Some(python) = installed("torch/bin/python") else { return };
    let folder = tempfile::tempdir().unwrap();
    // PyTorch's reader takes no tensors without elements, and only these dtypes.
    let shapes: [&[usize]; 5] = [&[], &[7], &[16, 3], &[1, 4], &[9, 2, 2]];
    let floats = [Dtype::F64, Dtype::F32, Dtype::F16, Dtype::Bf16];
    let map_of = |dtypes: &[Dtype]| -> TensorMap {
        let all = dtypes.iter().flat_map(|dtype| shapes.map(|shape| (*dtype, shape)));
        all.map(|(dtype, shape)| (format!("{dtype}.{shape:?}"), tensor(dtype, shape))).collect()
    };
    let integers = map_of(&[Dtype::I64, Dtype::I32, Dtype::I8, Dtype::U8]);
    let columns = RankFolder::new(4).shard_dim(|name| usize::from(name.contains("3]")));
    for (name, ranks, map) in [
        ("one", RankFolder::new(1), map_of(&floats)),
        ("eight", RankFolder::new(8), map_of(&floats)),
        ("columns", columns, map_of(&floats)),
        ("integers", RankFolder::new(3), integers),
    ] {
        let (path, expected) = (folder.path().join(name), expected(&map));
        SaveOptions::new().format(&tensorfile::safetensors::FORMAT).ranks(ranks).save(&path, &map).unwrap();
        let script = root().join("tests/interop/torch_reads_shards.py");
        let lines = run(std::process::Command::new(&python).arg("-B").arg(script).arg(&path));
        let mut lines = lines.lines().map(|line| serde_json::from_str::<BTreeMap<String, Value>>(line).unwrap());
        assert_eq!(lines.next().unwrap(), expected, "{name}");
        let mut found = lines.next().unwrap();
        let mut whole = if name == "integers" { BTreeMap::new() } else { expected };
        // The consolidation of PyTorch 2.15 leaves scalars zero.
        for tensors in [&mut found, &mut whole] {
            tensors.retain(|name, _| !name.ends_with("[]"));
        }
        assert_eq!(found, whole, "{name}");
    }
}

/// A model and its optimizer, trained in 4 processes, go on in 2 as they would from PyTorch's own folder.
#[test]
fn a_trainer_goes_on_from_our_folder() {
    let Some(python) = installed("torch/bin/python") else { return };
    let folder = tempfile::tempdir().unwrap();
    let script = root().join("tests/interop/torch_trains.py");
    let train = |mode: &str, folder: &Path, processes: usize| {
        let mut command = std::process::Command::new(&python);
        run(command.arg("-B").arg(&script).arg(mode).arg(folder).arg(processes.to_string()))
    };
    let own = folder.path().join("own");
    train("save", &own, 4);
    let expected: Value = serde_json::from_str(&train("continue", &own, 2)).unwrap();
    for ranks in [1, 2, 3, 8] {
        let file = File::open(&own).unwrap();
        let mut options = WriteOptions::new().keep_metadata(&file.metadata().unwrap());
        options.metadata.clear();
        let path = folder.path().join(ranks.to_string());
        SaveOptions::new().ranks(ranks).write(options).save(&path, &file).unwrap();
        let found: Value = serde_json::from_str(&train("continue", &path, 2)).unwrap();
        assert_eq!(found, expected, "{ranks} ranks");
    }
}
