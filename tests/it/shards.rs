//! Checkpoints in several files: saving, opening, and indexes that lie.

#![allow(clippy::single_range_in_vec_init, reason = "a vector is sliced by one range")]

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ndarray::{Ix1, array};
use serde_json::{Value, json};
use tensorfile::file::Backend;
use tensorfile::file::load_tensor;
use tensorfile::model::TensorSink;
use tensorfile::report::WarningKind;
use tensorfile::{
    Category, ErrorKind, File, Format, OpenOptions, Result, SaveOptions, Tensor, TensorMap, Tensors, WriteOptions,
};

use crate::support::memory::peak;
use crate::support::{format, multi_tensor_formats, root};

/// Tensors of 16, 8, 40, 0 and 8 bytes.
fn map() -> TensorMap {
    [
        ("b.weight", Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2]).unwrap()),
        ("b.bias", Tensor::from_slice(&[1_i32, -1], [2]).unwrap()),
        ("a.weight", Tensor::from_slice(&[0.5_f32; 10], [10]).unwrap()),
        ("empty", Tensor::from_slice::<f32>(&[], [0]).unwrap()),
        ("a.bias", Tensor::from_slice(&[2_i32, -2], [2]).unwrap()),
    ]
    .into_iter()
    .collect()
}

fn options() -> SaveOptions {
    SaveOptions::new().write(WriteOptions::new().embed_names(true)).max_shard_bytes(24)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = entries.collect();
    names.sort();
    names
}

/// Saves the map in shards; returns the path of the index.
fn save(folder: &Path, format: &Format) -> PathBuf {
    let path = folder.join("model").with_extension(format.extensions[0]);
    options().save(&path, &map()).unwrap();
    folder.join(format!("model.{}.index.json", format.extensions[0]))
}

#[test]
fn shards_of_every_format_open_as_one_file() {
    for format in multi_tensor_formats() {
        let folder = tempfile::tempdir().unwrap();
        let index = save(folder.path(), format);
        let extension = format.extensions[0];
        let shards = [1, 2, 3].map(|at| format!("model-0000{at}-of-00003.{extension}"));
        assert_eq!(names(folder.path())[..3], shards);
        assert_eq!(names(folder.path())[3..], [format!("model.{extension}.index.json")]);

        for backend in [Backend::Mapped, Backend::Positioned] {
            let file = OpenOptions::new().backend(backend).open(&index).unwrap();
            assert_eq!((file.format().name, file.len()), (format.name, 5));
            assert_eq!(file.path(), Some(&*index));
            let paths = shards.each_ref().map(|shard| folder.path().join(shard));
            assert_eq!(file.shards(), paths);
            let lengths = paths.each_ref().map(|path| fs::metadata(path).unwrap().len());
            assert_eq!(file.file_bytes(), lengths.iter().sum::<u64>());
            assert_eq!(file.load::<TensorMap>().unwrap(), map(), "{}", format.name);
            for tensor in file.tensors() {
                let path = tensor.path().unwrap();
                let bytes = fs::read(path).unwrap();
                let range = tensor.range();
                let range = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
                assert_eq!(&bytes[range], map()[tensor.name()].as_bytes(), "{}: {}", format.name, tensor.name());
                assert_eq!(tensor.read().unwrap(), map()[tensor.name()]);
                // A shard is a file by itself.
                assert_eq!(File::open(path).unwrap().tensor(tensor.name()).unwrap(), map()[tensor.name()]);
            }
            assert_eq!(file.slice("a.bias", &[1..2]).unwrap().as_bytes(), (-2_i32).to_le_bytes());
            assert_eq!(file.array::<i32, Ix1>("b.bias").unwrap(), array![1, -1]);
            let whole = format.to_vec(&file, &WriteOptions::new().embed_names(true)).unwrap();
            assert_eq!(whole, format.to_vec(&map(), &WriteOptions::new().embed_names(true)).unwrap());
        }
    }
}

#[test]
fn one_tensor_needs_only_its_shard() {
    for format in multi_tensor_formats() {
        let folder = tempfile::tempdir().unwrap();
        let index = save(folder.path(), format);
        fs::remove_file(folder.path().join(format!("model-00001-of-00003.{}", format.extensions[0]))).unwrap();
        let expected = File::open(&index).unwrap_err().to_string();
        let path = folder.path().join("model").with_extension(format.extensions[0]);
        for (name, tensor) in map().iter() {
            for path in [&index, &path] {
                match load_tensor(path, name) {
                    Ok(read) => assert_eq!(&read, tensor, "{name}"),
                    Err(error) => {
                        assert_eq!(error.to_string(), expected);
                        assert!(["b.weight", "b.bias"].contains(&name.as_str()), "{name}");
                    }
                }
            }
        }
        assert_eq!(load_tensor(&index, "nowhere").unwrap_err().to_string(), expected);
    }
}

#[test]
fn the_index_is_the_same_as_that_of_transformers() {
    let folder = tempfile::tempdir().unwrap();
    let index = save(folder.path(), format("ten"));
    let expected = r#"{
  "metadata": {
    "total_size": 72
  },
  "weight_map": {
    "a.bias": "model-00003-of-00003.ten",
    "a.weight": "model-00002-of-00003.ten",
    "b.bias": "model-00001-of-00003.ten",
    "b.weight": "model-00001-of-00003.ten",
    "empty": "model-00002-of-00003.ten"
  }
}
"#;
    assert_eq!(fs::read_to_string(index).unwrap(), expected);
}

/// Shards as `safetensors` writes them, and the index as `transformers` does.
#[test]
fn reads_shards_of_transformers() {
    let folder = tempfile::tempdir().unwrap();
    let metadata = || Some([("format".to_owned(), "pt".to_owned())].into_iter().collect());
    let numbers: Vec<u8> = [1.0_f32, 2.0].iter().flat_map(|number| number.to_le_bytes()).collect();
    let shard = |name: &str, tensors: &[&str]| {
        let view = || safetensors::tensor::TensorView::new(safetensors::Dtype::F32, vec![2], &numbers).unwrap();
        let tensors = tensors.iter().map(|tensor| (*tensor, view()));
        fs::write(folder.path().join(name), safetensors::serialize(tensors, metadata()).unwrap()).unwrap();
    };
    shard("model-00001-of-00002.safetensors", &["model.embed_tokens.weight", "model.layers.0.mlp.weight"]);
    shard("model-00002-of-00002.safetensors", &["lm_head.weight"]);
    let index = r#"{
  "metadata": {
    "total_parameters": 6,
    "total_size": 24
  },
  "weight_map": {
    "lm_head.weight": "model-00002-of-00002.safetensors",
    "model.embed_tokens.weight": "model-00001-of-00002.safetensors",
    "model.layers.0.mlp.weight": "model-00001-of-00002.safetensors"
  }
}
"#;
    let path = folder.path().join("model.safetensors.index.json");
    fs::write(&path, index).unwrap();
    let file = File::open(&path).unwrap();
    let names: Vec<_> = file.tensors().map(|tensor| tensor.name()).collect();
    assert_eq!(names, ["model.embed_tokens.weight", "model.layers.0.mlp.weight", "lm_head.weight"]);
    assert_eq!(file.array::<f32, Ix1>("lm_head.weight").unwrap(), array![1.0, 2.0]);
    let metadata = file.metadata().unwrap();
    let entries: Vec<_> = metadata.entries.iter().map(|(key, value)| format!("{key}={value}")).collect();
    assert_eq!((entries, metadata.warnings), (vec!["total_parameters=6".to_owned(), "format=pt".to_owned()], vec![]));

    // Written again, the index is the same, except for entries we do not know.
    SaveOptions::new().max_shard_bytes(16).save(folder.path().join("model.safetensors"), &file).unwrap();
    let index = index.replace("    \"total_parameters\": 6,\n", "").replace("-of-00002", "-of-00002-2");
    assert_eq!(fs::read_to_string(&path).unwrap(), index);
    let first = fs::read(folder.path().join("model-00001-of-00002-2.safetensors")).unwrap();
    assert_eq!(safetensors::SafeTensors::deserialize(&first).unwrap().len(), 2);
}

#[test]
fn a_single_file_has_no_index() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.ten");
    SaveOptions::new().max_shard_bytes(72).save(&path, &map()).unwrap();
    assert_eq!(names(folder.path()), ["model.ten"]);
    assert_eq!(fs::read(path).unwrap(), format("ten").to_vec(&map(), &WriteOptions::new()).unwrap());
}

#[test]
fn tensors_without_names_cannot_be_in_shards() {
    let folder = tempfile::tempdir().unwrap();
    let save = SaveOptions::new().max_shard_bytes(1).write(WriteOptions::new().embed_names(false));
    let error = save.save(folder.path().join("model.btf"), &map()).unwrap_err();
    assert_eq!(error.category(), Category::Call);
    assert_eq!(
        error.to_string(),
        "btf: cannot save in shards; without names none could be found again; `WriteOptions::embed_names` writes names"
    );
    assert!(names(folder.path()).is_empty());
}

#[test]
fn lists_keep_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let list: Vec<Tensor> = (0_i8..12).map(|at| Tensor::from_slice(&[at], [1]).unwrap()).collect();
    for format in multi_tensor_formats() {
        let path = folder.path().join("list").with_extension(format.extensions[0]);
        options().max_shard_bytes(5).save(&path, &list).unwrap();
        let file = File::open(folder.path().join(format!("list.{}.index.json", format.extensions[0]))).unwrap();
        assert_eq!(file.shards().len(), 3);
        assert_eq!(file.deserialize::<Vec<Tensor>>().unwrap(), list, "{}", format.name);
    }
}

#[test]
fn errors_name_the_shard() {
    let folder = tempfile::tempdir().unwrap();
    let index = save(folder.path(), format("ten"));
    let shard = folder.path().join("model-00002-of-00003.ten");
    let file = OpenOptions::new().backend(Backend::Positioned).open(&index).unwrap();
    let start = file.get("a.weight").unwrap().range().start;
    fs::OpenOptions::new().write(true).open(&shard).unwrap().set_len(start + 10).unwrap();
    let message = format!(
        "ten: tensor `a.weight`: needs 40 more bytes, but the file has 10 left (at byte {start} of {})",
        shard.display()
    );
    for error in [file.tensor("a.weight").unwrap_err(), file.load::<TensorMap>().unwrap_err()] {
        assert_eq!(error.without_path().to_string(), message);
        assert_eq!((error.shard(), error.offset()), (Some(&*shard), Some(start)));
    }
    let error = File::open(&index).unwrap_err();
    assert_eq!((error.shard(), error.category()), (Some(&*shard), Category::File));
    assert_eq!(file.array::<i32, Ix1>("b.bias").unwrap(), array![1, -1], "other shards are fine");
}

#[test]
fn saving_again_leaves_whole_sets() {
    let folder = tempfile::tempdir().unwrap();
    let index = save(folder.path(), format("ten"));
    let old = File::open(&index).unwrap();
    let path = folder.path().join("model.ten");

    // A value that cannot be stored leaves everything as it was.
    let half: TensorMap = map().into_iter().chain([("c".repeat(20), map()["b.bias"].clone())]).collect();
    let before = names(folder.path());
    let bare = SaveOptions::new().max_shard_bytes(24).write(WriteOptions::new().embed_names(false));
    bare.save(&path, &half).unwrap_err();
    assert_eq!(names(folder.path()), before);
    assert_eq!(File::open(&index).unwrap().load::<TensorMap>().unwrap(), map());

    // As many shards: an open file is unaffected, as its shards were removed and not overwritten.
    let other: TensorMap = map().into_iter().rev().collect();
    options().save(&path, &other).unwrap();
    let new = File::open(&index).unwrap();
    assert_eq!(new.tensors().next().unwrap().name(), "a.bias");
    assert_eq!(old.load::<TensorMap>().unwrap(), map());
    assert_eq!(names(folder.path())[..3], [1, 2, 3].map(|at| format!("model-0000{at}-of-00003-2.ten")));
    assert_eq!(names(folder.path()).len(), 3 + 1);

    // Onto itself, in other shards.
    options().max_shard_bytes(1).save(&path, &new).unwrap();
    assert_eq!(names(folder.path()).len(), 4 + 1);
    assert_eq!(File::open(&index).unwrap().load::<TensorMap>().unwrap(), other);
}

#[test]
fn no_replace_keeps_shards_and_indices() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.ten");
    let save = options().no_replace(true).max_shard_bytes(1);
    save.save(&path, &map()).unwrap();
    let before = names(folder.path());
    let error = save.save(&path, &map()).unwrap_err();
    let index = folder.path().join("model.ten.index.json");
    assert_eq!(error.to_string(), format!("{}: exists, and is not replaced", index.display()));
    assert!(matches!(error.kind(), ErrorKind::Io(error) if error.kind() == std::io::ErrorKind::AlreadyExists));
    fs::remove_file(index).unwrap();
    save.save(&path, &map()).unwrap_err();
    assert_eq!(names(folder.path()), before[..before.len() - 1]);
    options().no_replace(true).save(&path, &map()).unwrap();
    options().no_replace(true).save(&path, &map()).unwrap_err();
}

#[test]
fn files_that_are_not_flushed_are_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let saved = |durable: bool, max_shard_bytes: u64| {
        let path = folder.path().join(format!("{durable}-{max_shard_bytes}")).join("model.ten");
        fs::create_dir(path.parent().unwrap()).unwrap();
        options().durable(durable).max_shard_bytes(max_shard_bytes).save(&path, &map()).unwrap();
        // Over the first one.
        options().durable(durable).max_shard_bytes(max_shard_bytes).save(&path, &map()).unwrap();
        let folder = path.parent().unwrap();
        names(folder).iter().map(|name| (name.clone(), fs::read(folder.join(name)).unwrap())).collect::<Vec<_>>()
    };
    for max_shard_bytes in [1, u64::MAX] {
        assert_eq!(saved(false, max_shard_bytes), saved(true, max_shard_bytes));
    }
}

#[test]
fn a_second_set_takes_no_names_of_other_paths() {
    let folder = tempfile::tempdir().unwrap();
    let saved = |name: &str| File::open(folder.path().join(format!("{name}.ten.index.json"))).unwrap();
    let paths = ["model", "model-2", "model-00001-of-00003"];
    for _ in 0..3 {
        for (at, name) in paths.iter().enumerate() {
            let map: TensorMap = map().into_iter().rev().skip(at).collect();
            options().max_shard_bytes(1).save(folder.path().join(name).with_extension("ten"), &map).unwrap();
        }
        for (at, name) in paths.iter().enumerate() {
            assert_eq!(saved(name).load::<TensorMap>().unwrap().len(), map().len() - at, "{name}");
        }
    }
    assert_eq!(names(folder.path()).len(), (4 + 3 + 3) + paths.len());
}

#[test]
fn a_save_that_fails_leaves_the_old_set() {
    let folder = tempfile::tempdir().unwrap();
    let index = save(folder.path(), format("ten"));
    let before = names(folder.path());
    // The second set cannot be put in place.
    let taken = folder.path().join("model-00002-of-00003-2.ten");
    fs::create_dir(&taken).unwrap();
    let error = options().save(folder.path().join("model.ten"), &map()).unwrap_err();
    assert_eq!(error.to_string(), format!("{}: is a directory", taken.display()));
    fs::remove_dir(&taken).unwrap();
    assert_eq!(names(folder.path()), before);
    assert_eq!(File::open(&index).unwrap().load::<TensorMap>().unwrap(), map());
}

#[cfg(feature = "ptd")]
#[test]
fn tied_tensors_stay_together() {
    use ndarray::{Array1, Array2};

    #[derive(tensorfile::TensorFile, Debug, PartialEq)]
    struct Model {
        embedding: Array1<f32>,
        inner: Array2<f32>,
        #[tensor(tied = "embedding")]
        head: Array1<f32>,
    }

    let folder = tempfile::tempdir().unwrap();
    let (embedding, inner) = (array![1.0, 2.0], array![[3.0, 4.0]]);
    let model = Model { head: embedding.clone(), embedding, inner };
    for extension in ["ptd", "ten"] {
        let path = folder.path().join("model").with_extension(extension);
        options().max_shard_bytes(8).save(&path, &model).unwrap();
        let file = File::open(path.with_extension(format!("{extension}.index.json"))).unwrap();
        let is_shared = file.get("head").unwrap().path() == file.get("embedding").unwrap().path();
        assert_eq!((file.shards().len(), is_shared), if extension == "ptd" { (2, true) } else { (3, false) });
        assert_eq!(file.load::<Model>().unwrap(), model);
    }
}

/// Saves shards, changes their index, and returns the error of opening it.
fn refused(change: impl FnOnce(&mut Value)) -> tensorfile::Error {
    let folder = tempfile::tempdir().unwrap();
    let index = save(folder.path(), format("ten"));
    let mut json: Value = serde_json::from_slice(&fs::read(&index).unwrap()).unwrap();
    change(&mut json);
    fs::write(&index, json.to_string()).unwrap();
    File::open(&index).unwrap_err()
}

#[test]
fn an_index_that_does_not_fit_its_shards_is_refused() {
    let second = "model-00002-of-00003.ten";
    for (key, value, message) in [
        (
            "b.bias",
            json!(second),
            "the index says that `b.bias` is in `model-00002-of-00003.ten`, which does not have it",
        ),
        ("new", json!(second), "the index says that `new` is in `model-00002-of-00003.ten`, which does not have it"),
    ] {
        let error = refused(|json| json["weight_map"][key] = value);
        assert_eq!((error.without_path().to_string(), error.category()), (message.to_owned(), Category::File));
    }
    let error = refused(|json| json["weight_map"]["new"] = json!("missing.ten"));
    assert_eq!(error.category(), Category::Io);
    let message = error.to_string();
    assert!(message.contains("missing.ten: ") && message.ends_with("the index says that `new` is in it"), "{message}");
}

#[test]
fn an_index_cannot_lead_out_of_its_folder() {
    for shard in ["../model.ten", "/etc/passwd", "", ".", "..", "a/b", "./a", "a\\b", "a\0b", "a/"] {
        let error = refused(|json| json["weight_map"]["new"] = json!(shard));
        let shard = shard.escape_debug();
        let message = format!("`new` is said to be in `{shard}`, which is not the name of a file next to the index");
        assert_eq!((error.without_path().to_string(), error.category()), (message, Category::File));
    }
}

#[test]
fn malformed_indexes_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.ten.index.json");
    let deep = format!(r#"{{"weight_map": {}"#, "[".repeat(10_000));
    for (json, message) in [
        ("", "EOF while parsing a value at line 1 column 0"),
        ("{}", "missing field `weight_map` at line 1 column 2"),
        ("[]", "invalid type: list, expected an object with `weight_map` at line 1 column 0"),
        (r#"{"weight_map": {"a": "x", "a": "x"}}"#, "`a` is there twice at line 1 column 29"),
        (r#"{"weight_map": {}, "weight_map": {}}"#, "`weight_map` is there twice at line 1 column 31"),
        (r#"{"metadata": {"a": 1, "a": 1}, "weight_map": {}}"#, "`a` is there twice at line 1 column 25"),
        (r#"{"weight_map": {"a": 1}}"#, "invalid type: integer `1`, expected a string at line 1 column 22"),
        (r#"{"weight_map": {}} x"#, "trailing characters at line 1 column 20"),
        (&deep, "invalid type: list, expected an object at line 1 column 15"),
    ] {
        fs::write(&path, json).unwrap();
        let error = File::open(&path).unwrap_err();
        assert_eq!(error.without_path().to_string(), format!("the index of shards is malformed: {message}"));
        assert_eq!(error.category(), Category::File);
    }
    fs::write(&path, r#"{"weight_map": {}}"#).unwrap();
    assert_eq!(File::open(&path).unwrap_err().without_path().to_string(), "the index of shards lists no tensors");

    let long = fs::File::create(&path).unwrap();
    long.set_len(1 << 40).unwrap();
    let error = File::open(&path).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Limit { .. }), "{error}");
    // No more than the limit is held, however many entries there are.
    let entries: Vec<String> = (0..100_000).map(|at| format!(r#""t{at}": "a.ten""#)).collect();
    fs::write(&path, format!(r#"{{"weight_map": {{{}}}}}"#, entries.join(","))).unwrap();
    let limits = tensorfile::Limits::new().tensors(4);
    let (opened, used) = peak(|| OpenOptions::new().limits(limits.clone()).open(&path).map(drop));
    let error = opened.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Limit { found: 100_000, limit: 4, .. }), "{error}");
    let len = usize::try_from(fs::metadata(&path).unwrap().len()).unwrap();
    assert!(used < 3 * len, "{used} bytes for an index of {len}");
    let error = OpenOptions::new().limits(limits).open(save(folder.path(), format("ten"))).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Limit { found: 5, limit: 4, .. }), "{error}");
}

#[test]
fn an_index_is_recognized_by_name_or_content() {
    let folder = tempfile::tempdir().unwrap();
    let index = save(folder.path(), format("ten"));
    let renamed = folder.path().join("checkpoint");
    fs::rename(&index, &renamed).unwrap();
    assert_eq!(File::open(&renamed).unwrap().len(), 5);
    fs::write(&renamed, r#"{"other": "json"}"#).unwrap();
    assert!(matches!(File::open(&renamed).unwrap_err().kind(), ErrorKind::NotTensors { .. }));
}

#[test]
fn metadata_is_that_of_the_index_and_of_the_shards() {
    let format = format("ten");
    let folder = tempfile::tempdir().unwrap();
    let index = save(folder.path(), format);
    let mut json: Value = serde_json::from_slice(&fs::read(&index).unwrap()).unwrap();
    json["metadata"] = json!({"total_size": 1000, "total_parameters": 18, "format": "pt", "nested": {"a": [1]}});
    fs::write(&index, json.to_string()).unwrap();
    let metadata = File::open(&index).unwrap().metadata().unwrap();
    let entries: Vec<_> = metadata.entries.iter().map(|(key, value)| format!("{key}={value}")).collect();
    assert_eq!(entries, ["format=pt", "nested={\"a\":[1]}", "total_parameters=18"]);
    assert_eq!(crate::support::warnings(&metadata), ["the index states 1000 bytes, but the tensors have 72"]);
}

#[test]
fn shards_are_of_one_format() {
    let folder = tempfile::tempdir().unwrap();
    let index = save(folder.path(), format("ten"));
    let shard = folder.path().join("model-00003-of-00003.ten");
    let options = WriteOptions::new().embed_names(true);
    let other = format("btf").to_vec(&File::open(&shard).unwrap(), &options).unwrap();
    fs::remove_file(&shard).unwrap();
    let renamed = shard.with_extension("btf");
    fs::write(&renamed, other).unwrap();
    let json = fs::read_to_string(&index).unwrap().replace("00003-of-00003.ten", "00003-of-00003.btf");
    fs::write(&index, json).unwrap();
    assert_eq!(
        File::open(&index).unwrap_err().without_path().to_string(),
        "the shards are of two formats, ten and btf"
    );
}

/// Tensors that count how often they are sent.
struct Counted<'a> {
    tensors: &'a TensorMap,
    sent: Cell<usize>,
}

impl Tensors for Counted<'_> {
    fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
        self.sent.set(self.sent.get() + 1);
        self.tensors.send(sink)
    }
}

#[test]
fn values_are_planned_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.ten");
    let map: TensorMap = (0..4).map(|at| (at.to_string(), Tensor::from_slice(&[at; 2000], [2000]).unwrap())).collect();
    let tensors = Counted { tensors: &map, sent: Cell::new(0) };

    // One pass looks for names to embed, one plans, and one for each file writes.
    for (max_shard, files) in [(None, 1), (Some(1 << 20), 1), (Some(8000), 4), (Some(16_000), 2)] {
        let mut save = SaveOptions::new();
        if let Some(bytes) = max_shard {
            save = save.max_shard_bytes(bytes);
        }
        save.save(&path, &tensors).unwrap();
        assert_eq!(tensors.sent.take(), 2 + files, "{max_shard:?}");

        let plan = save.plan(&path, &tensors).unwrap();
        assert_eq!(tensors.sent.take(), 2, "{max_shard:?}");
        plan.save(&tensors).unwrap();
        assert_eq!(tensors.sent.take(), files, "{max_shard:?}");
    }
}

#[test]
fn plans_know_the_size_of_all_shards() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.ten");
    let map: TensorMap = (0..4).map(|at| (at.to_string(), Tensor::from_slice(&[at; 8], [8]).unwrap())).collect();
    let plan = SaveOptions::new().max_shard_bytes(64).plan(&path, &map).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    let error = plan.to_writer(&mut Vec::new(), &map).unwrap_err();
    assert_eq!(error.to_string(), "cannot write shards to one writer; save them to files");

    plan.save(&map).unwrap();
    let files = fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path());
    let shards = files.filter(|path| path.extension().is_some_and(|extension| extension == "ten"));
    assert_eq!(shards.map(|path| fs::metadata(path).unwrap().len()).sum::<u64>(), plan.file_bytes());
}

#[test]
fn progress_is_reported_for_writers_too() {
    let map = map();
    let bytes = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&bytes);
    let options = SaveOptions::new().progress(move |progress| seen.store(progress.bytes, Ordering::Relaxed));
    let options = options.write(WriteOptions::new().embed_names(true));
    let plan = options.plan("model.ten", &map).unwrap();
    plan.to_writer(&mut Vec::new(), &map).unwrap();
    assert_eq!(bytes.load(Ordering::Relaxed), plan.file_bytes());
}

/// The warnings of a file.
fn warnings(file: &File) -> Vec<(WarningKind, String)> {
    file.metadata().unwrap().warnings.iter().map(|warning| (warning.kind, warning.to_string())).collect()
}

/// Files that somebody has.
fn cases(name: &str) -> PathBuf {
    root().join("tests/fixtures/cases").join(name)
}

#[test]
fn the_index_decides_which_tensors_of_its_shards_there_are() {
    let folder = tempfile::tempdir().unwrap();
    let index = save(folder.path(), format("ten"));
    let text = fs::read_to_string(&index).unwrap();
    let mut json: Value = serde_json::from_str(&text).unwrap();
    let weight_map = json["weight_map"].as_object_mut().unwrap();
    weight_map.remove("empty");
    weight_map.remove("b.bias");
    fs::write(&index, json.to_string()).unwrap();
    let other = Tensor::from_slice(&[9_i32; 2], [2]).unwrap();
    // The third shard has a tensor of the first too.
    let third = folder.path().join("model-00003-of-00003.ten");
    let map_of_third: TensorMap = [("a.bias", map()["a.bias"].clone()), ("b.weight", other)].into_iter().collect();
    SaveOptions::new().write(WriteOptions::new().embed_names(true)).save(&third, &map_of_third).unwrap();

    let file = File::open(&index).unwrap();
    assert_eq!(
        file.tensors().map(|tensor| tensor.name().to_owned()).collect::<Vec<_>>(),
        ["b.weight", "a.weight", "a.bias"]
    );
    assert_eq!(file.tensor("b.weight").unwrap(), map()["b.weight"]);
    assert_eq!(load_tensor(&index, "b.weight").unwrap(), map()["b.weight"]);
    let index_warning = |text: &str| (WarningKind::Index, text.to_owned());
    assert_eq!(
        warnings(&file),
        [
            index_warning("the index states 72 bytes, but the tensors have 64"),
            index_warning("`model-00001-of-00003.ten` has a tensor that the index does not list: `b.bias` is left out"),
            index_warning("`model-00002-of-00003.ten` has a tensor that the index does not list: `empty` is left out"),
            index_warning(
                "`model-00003-of-00003.ten` has a tensor that the index lists in another shard: `b.weight` is left out"
            ),
        ]
    );
}

#[test]
fn tensors_that_the_index_does_not_list_are_left_out() {
    let file = File::open(cases("index-lists-a-part/more-in-shard/model.safetensors.index.json")).unwrap();
    let values = |name: &str| file.array::<f32, Ix1>(name).unwrap();
    assert_eq!((values("a"), values("b")), (array![0.0, 1.0], array![4.0, 5.0]));
    assert!(file.get("c").is_err());
    let found = warnings(&file);
    assert_eq!(found.len(), 1);
    assert!(found[0].0 == WarningKind::Index && found[0].1.contains("`c` is left out"), "{found:?}");
}

#[cfg(feature = "gguf")]
#[test]
fn parts_of_gguf_open_as_one() {
    let parts = [1, 2].map(|number| cases(&format!("gguf-split/m-0000{number}-of-00002.gguf")));
    for path in &parts {
        for backend in [Backend::Mapped, Backend::Positioned] {
            let file = OpenOptions::new().backend(backend).open(path).unwrap();
            assert_eq!(file.tensors().map(|tensor| tensor.name().to_owned()).collect::<Vec<_>>(), ["a", "b"]);
            assert_eq!((file.shards(), file.path()), (&parts[..], Some(&**path)));
            let metadata = file.metadata().unwrap();
            assert!(metadata.warnings.is_empty(), "{:?}", metadata.warnings);
            assert!(metadata.entries.keys().all(|key| !key.starts_with("split.")));
            assert_eq!(file.load::<TensorMap>().unwrap().len(), 2);
        }
        assert_eq!(load_tensor(path, "b").unwrap(), File::open(path).unwrap().tensor("b").unwrap());
    }
    // One file has all tensors, with the metadata of the first part and its types.
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("m.gguf");
    let file = File::open(&parts[1]).unwrap();
    let write = WriteOptions::new().keep_metadata(&file.metadata().unwrap());
    SaveOptions::new().write(write).save(&whole, &file).unwrap();
    let entries = tensorfile::gguf::metadata(&fs::read(&whole).unwrap()).unwrap();
    assert!(entries.keys().all(|key| !key.starts_with("split.")), "{entries:?}");
    assert_eq!(entries, file.metadata().unwrap().entries);

    let edit = tensorfile::file::MetadataEdit::new().set("general.name", "x");
    let error = edit.to_writer(&file, &mut Vec::new()).unwrap_err();
    let expected = "cannot edit the metadata of a model in several files; merge them into one file first";
    assert!(error.to_string().ends_with(expected), "{error}");

    // A part whose others are missing, or that has another name, is opened alone.
    for name in ["m-00002-of-00002.gguf", "other.gguf"] {
        let path = folder.path().join(name);
        fs::copy(&parts[1], &path).unwrap();
        let file = File::open(&path).unwrap();
        assert_eq!((file.len(), file.shards().len()), (1, 0));
        let text = "the file is part 2 of 2 of a model in several files; it has 1 of 2 tensors";
        assert_eq!(warnings(&file), [(WarningKind::Part, text.to_owned())]);
        fs::remove_file(path).unwrap();
    }
    // Another file in the place of one is an error.
    for (first, expected) in [
        (&parts[1], "it states that it is part 2 of 2, but expected part 1 of 2"),
        (&whole, "it does not state that it is a part, but expected part 1 of 2"),
    ] {
        let [one, two] = [1, 2].map(|number| folder.path().join(format!("m-0000{number}-of-00002.gguf")));
        fs::copy(first, &one).unwrap();
        fs::copy(&parts[1], &two).unwrap();
        let error = File::open(&two).unwrap_err();
        assert_eq!(error.category(), Category::File);
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[cfg(feature = "gguf")]
#[test]
fn shards_of_gguf_state_their_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    let write = || WriteOptions::new().metadata([("general.name".to_owned(), "x".to_owned())].into_iter().collect());
    let save = || SaveOptions::new().write(write()).max_shard_bytes(24).save(&path, &map()).unwrap();
    save();
    let entries = |name: &str| {
        let entries = tensorfile::gguf::metadata(&fs::read(folder.path().join(name)).unwrap()).unwrap();
        entries.into_iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    };
    let part = |number: u8| format!("split.no={number} split.count=3 split.tensors.count=5");
    assert_eq!(entries("m-00001-of-00003.gguf"), format!("general.name=x {}", part(0)));
    assert_eq!(entries("m-00002-of-00003.gguf"), part(1));
    assert_eq!(entries("m-00003-of-00003.gguf"), part(2));
    // With and without the index.
    for name in ["m.gguf", "m.gguf.index.json", "m-00002-of-00003.gguf"] {
        let file = File::open(folder.path().join(name)).unwrap();
        assert_eq!(file.load::<TensorMap>().unwrap(), map(), "{name}");
        assert_eq!((warnings(&file), &*file.metadata().unwrap().entries["general.name"]), (Vec::new(), "x"));
    }
    // A second set has names that llama.cpp takes too, and takes no names of others.
    fs::write(folder.path().join("m.2-00001-of-00003.gguf"), "mine").unwrap();
    save();
    let second = names(folder.path());
    let expected = [
        "m.2-00001-of-00003.gguf",
        "m.3-00001-of-00003.gguf",
        "m.3-00002-of-00003.gguf",
        "m.3-00003-of-00003.gguf",
        "m.gguf.index.json",
    ];
    assert_eq!(second, expected);
    assert_eq!(File::open(folder.path().join(expected[1])).unwrap().load::<TensorMap>().unwrap(), map());
    save();
    assert_eq!(names(folder.path()).len(), 5, "the third set is removed again");
}

#[test]
fn a_shard_that_is_opened_alone_says_so() {
    let folder = tempfile::tempdir().unwrap();
    save(folder.path(), format("ten"));
    let shard = folder.path().join("model-00002-of-00003.ten");
    let expected = "the file is shard 2 of 3; `model.ten.index.json` next to it opens all of them";
    assert_eq!(warnings(&File::open(&shard).unwrap()), [(WarningKind::Part, expected.to_owned())]);
    fs::remove_file(folder.path().join("model.ten.index.json")).unwrap();
    let expected = "the file is part 2 of 3, by its name; the others are not opened with it";
    assert_eq!(warnings(&File::open(&shard).unwrap()), [(WarningKind::Part, expected.to_owned())]);
    // The only one is whole.
    for name in
        ["model-00001-of-00001.ten", "a-1-of-2.ten", "model-of-00002.ten", "00001-of-00002", "a-00003-of-00002.ten"]
    {
        let path = folder.path().join(name);
        fs::copy(&shard, &path).unwrap();
        let file = OpenOptions::new().format(format("ten")).open(&path).unwrap();
        assert_eq!(warnings(&file), [], "{name}");
    }
}

#[test]
fn shards_replace_a_single_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.ten");
    let old: TensorMap = [("old", Tensor::from_slice(&[1_u8], [1]).unwrap())].into_iter().collect();
    tensorfile::save(&path, &old).unwrap();
    options().no_replace(true).save(&path, &map()).unwrap_err();
    assert_eq!(names(folder.path()), ["model.ten"]);
    options().keep_single(true).save(&path, &map()).unwrap();
    assert_eq!(File::open(&path).unwrap().load::<TensorMap>().unwrap(), old);
    options().save(&path, &map()).unwrap();
    assert!(!path.exists());
    assert_eq!(File::open(&path).unwrap().load::<TensorMap>().unwrap(), map());
    assert_eq!(names(folder.path()).len(), 4);
}

#[cfg(unix)]
#[test]
fn special_files_are_no_shards() {
    let folder = tempfile::tempdir().unwrap();
    let index = save(folder.path(), format("ten"));
    let shard = folder.path().join("model-00002-of-00003.ten");
    let fifo = |path: &Path| assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    let device = |path: &Path| std::os::unix::fs::symlink("/dev/zero", path).unwrap();
    let makers = [&fifo as &dyn Fn(&Path), &device, &|path| fs::create_dir(path).unwrap()];
    let kinds = ["a pipe, not a regular file", "a device, not a regular file", "a directory"];
    for (make, kind) in makers.into_iter().zip(kinds) {
        fs::remove_file(&shard).unwrap();
        make(&shard);
        let error = File::open(&index).unwrap_err();
        let shard_of = "the index says that `a.weight` is in `model-00002-of-00003.ten`";
        let expected = format!("{shard_of}, which is {kind}");
        assert_eq!((error.without_path().to_string(), error.category()), (expected, Category::File));
        load_tensor(&index, "a.weight").unwrap_err();
        if shard.is_dir() {
            fs::remove_dir(&shard).unwrap();
            fs::write(&shard, "").unwrap();
        }
    }
}

#[cfg(unix)]
#[test]
fn special_files_do_not_stop_a_save() {
    let fifo = |path: &Path| assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    let link = |path: &Path| std::os::unix::fs::symlink("nowhere", path).unwrap();
    let to_file = |path: &Path| {
        fs::write(path.with_file_name("target"), "mine").unwrap();
        std::os::unix::fs::symlink("target", path).unwrap();
    };
    let own_folder = |path: &Path| {
        fs::create_dir(path).unwrap();
        for name in ["0", "1", "notes", "journal"] {
            fs::write(path.join(name), "mine").unwrap();
        }
    };
    for make in [&fifo as &dyn Fn(&Path), &link, &to_file, &own_folder] {
        for name in [".model.ten.0.tmp", ".model.ten.turn.0.tmp", ".model.ten.index.json.0.tmp"] {
            let folder = tempfile::tempdir().unwrap();
            make(&folder.path().join(name));
            let before = names(folder.path());
            let inside = || fs::read_dir(folder.path().join(name)).map_or(0, |entries| entries.count());
            let files = inside();
            options().save(folder.path().join("model.ten"), &map()).unwrap();
            options().save(folder.path().join("model.ten"), &map()).unwrap();
            let after = names(folder.path());
            assert!(before.iter().all(|name| after.contains(name)), "{name}: {after:?}");
            assert_eq!((after.len() - before.len(), inside()), (4, files), "{name}: {after:?}");
        }
    }
}

#[test]
fn more_shards_than_files_may_be_open() {
    const SHARDS: usize = 300;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.ten");
    let tensors: TensorMap =
        (0..SHARDS).map(|at| (format!("t{at}"), Tensor::from_slice(&[at as u64; 20_000], [20_000]).unwrap())).collect();
    options().max_shard_bytes(1).durable(false).save(&path, &tensors).unwrap();
    let open_files = || fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count());
    for backend in [Backend::Mapped, Backend::Positioned] {
        let before = open_files();
        let file = OpenOptions::new().backend(backend).open(&path).unwrap();
        assert_eq!(file.shards().len(), SHARDS);
        // Other tests open files too.
        assert!(open_files() < before + SHARDS, "{} files are open", open_files());
        for (name, tensor) in tensors.iter().step_by(7).chain(tensors.iter().rev().step_by(11)) {
            assert_eq!(&file.tensor(name).unwrap(), tensor);
        }
        assert_eq!(file.view("t0").is_ok(), backend == Backend::Mapped && cfg!(feature = "mmap"));
    }
}
