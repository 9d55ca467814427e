//! Models exchanged with `transformers`, in both directions.
//!
//! Install one or several versions by hand: `tests/interop/setup.sh --torch --transformers VERSION`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use tensorfile::{Dtype, File, SaveOptions, WriteOptions};

use crate::support::interop::{installed, run};
use crate::support::{hex, root};

/// The dtype, the shape and the elements as hexadecimal digits.
type DescribedTensor = (String, Vec<usize>, String);

/// A model as the script prints it.
#[derive(Deserialize, Debug)]
struct Described {
    folder: String,
    tensors: BTreeMap<String, DescribedTensor>,
}

/// Runs the script with one version of transformers.
fn script(python: &Path, version: &Path, arguments: &[&Path]) -> Vec<Described> {
    let mut command = Command::new(python);
    command.arg("-B").arg(root().join("tests/interop/transformers_models.py")).args(arguments);
    command.env("PYTHONPATH", version).env("HF_HUB_OFFLINE", "1");
    run(&mut command).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The file that stands for a folder: an index, or the only file.
fn weights(folder: &Path) -> PathBuf {
    let names =
        ["model.safetensors.index.json", "model.safetensors", "pytorch_model.bin.index.json", "pytorch_model.bin"];
    names.iter().map(|name| folder.join(name)).find(|path| path.exists()).unwrap()
}

fn name_of(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::F16 => "float16",
        Dtype::Bf16 => "bfloat16",
        Dtype::F32 => "float32",
        Dtype::I64 => "int64",
        _ => panic!("{dtype} is in none of the models"),
    }
}

#[test]
fn models_go_both_ways() {
    let Some(python) = installed("torch/bin/python") else { return };
    let Some(versions) = installed("transformers") else { return };
    let versions: Vec<PathBuf> = std::fs::read_dir(versions).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!versions.is_empty(), "setup.sh makes the folder together with a version");
    for version in versions {
        let folder = tempfile::tempdir().unwrap();
        let saved = script(&python, &version, &["save".as_ref(), folder.path()]);
        assert!(saved.len() >= 8, "{version:?}");
        let mut written = Vec::new();
        for model in &saved {
            let source = folder.path().join(&model.folder);
            let file = File::open(weights(&source)).unwrap();
            assert_eq!(file.metadata().unwrap().warnings, [], "{version:?}: {}", model.folder);
            for tensor in file.tensors() {
                let (dtype, shape, data) = &model.tensors[tensor.name()];
                let found = file.tensor(tensor.name()).unwrap();
                assert_eq!((name_of(found.dtype()), found.shape().dims()), (&**dtype, &**shape), "{}", tensor.name());
                assert_eq!(found.as_bytes(), hex(data), "{version:?}: {}: {}", model.folder, tensor.name());
            }
            // A file has only one name of tied tensors.
            for (name, tensor) in &model.tensors {
                let is_tied = |other: &String| file.get(other).is_ok() && model.tensors[other] == *tensor;
                assert!(file.get(name).is_ok() || model.tensors.keys().any(is_tied), "{}: {name}", model.folder);
            }
            for (way, bytes) in [("ours", u64::MAX), ("ours-in-shards", 4096)] {
                let target = folder.path().join(format!("{}-{way}", model.folder));
                std::fs::create_dir(&target).unwrap();
                std::fs::copy(source.join("config.json"), target.join("config.json")).unwrap();
                // 4.46 refuses files without it.
                let options =
                    WriteOptions::new().metadata([("format".to_owned(), "pt".to_owned())].into_iter().collect());
                let options = SaveOptions::new().write(options).max_shard_bytes(bytes);
                options.save(target.join("model.safetensors"), &file).unwrap();
                written.push((target, &model.tensors));
            }
        }
        let mut arguments = vec![Path::new("load")];
        arguments.extend(written.iter().map(|(target, _)| target.as_path()));
        let loaded = script(&python, &version, &arguments);
        assert_eq!(loaded.len(), written.len());
        for (model, (_, expected)) in loaded.iter().zip(&written) {
            assert_eq!(model.tensors, **expected, "{version:?}: {}", model.folder);
        }
    }
}
