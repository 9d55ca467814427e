//! Paths of checkpoints: directories of Hugging Face's libraries, and models saved in shards.

use std::fs;
use std::path::Path;

use ndarray::{Array1, array};
use tensorfile::file::Backend;
use tensorfile::{ErrorKind, File, OpenOptions, SaveOptions, TensorFile, TensorMap, WriteOptions, load};

use crate::support::written_formats;

#[derive(TensorFile, Debug, PartialEq)]
struct Model {
    a: Array1<f32>,
    b: Array1<f32>,
}

fn model(first: f32) -> Model {
    Model { a: array![first, 1.0], b: array![2.0, 3.0] }
}

/// Returns the whole message of an error, with the path that it begins with.
fn error_of<T>(result: tensorfile::Result<T>) -> String {
    result.map(drop).unwrap_err().to_string()
}

/// Saves a model as two shards and an index.
fn save_shards(path: &Path, model: &Model) {
    SaveOptions::new().max_shard_bytes(8).save(path, model).unwrap();
}

#[test]
fn a_directory_is_opened_as_its_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.json"), "{}").unwrap();
    // Files of other names do not count, and neither does a directory of that name.
    tensorfile::save(folder.path().join("adapter.safetensors"), &model(7.0)).unwrap();
    fs::create_dir(folder.path().join("pytorch_model.bin")).unwrap();
    let path = folder.path().join("model.safetensors");
    save_shards(&path, &model(1.0));
    let file = File::open(folder.path()).unwrap();
    assert_eq!(file.path().unwrap(), folder.path().join("model.safetensors.index.json"));
    assert_eq!(file.shards().len(), 2);
    assert_eq!(load::<Model>(folder.path()).unwrap(), model(1.0));
    // A single file is preferred, as in `transformers`.
    tensorfile::save(&path, &model(2.0)).unwrap();
    assert_eq!(load::<Model>(folder.path()).unwrap(), model(2.0));
    for backend in [Backend::Mapped, Backend::Positioned] {
        let file = OpenOptions::new().backend(backend).open(folder.path()).unwrap();
        assert_eq!((file.path(), file.len()), (Some(&*path), 2));
        assert!(file.report::<Model>().is_ok());
    }
    // Errors name the file.
    fs::write(&path, [0; 4]).unwrap();
    let error = File::open(folder.path()).unwrap_err();
    assert_eq!(error.path(), Some(&*path));
    assert!(error.to_string().starts_with(&format!("{}: safetensors: ", path.display())), "{error}");
}

#[cfg(unix)]
#[test]
fn links_of_a_cache_are_followed() {
    use std::os::unix::fs::symlink;

    let cache = tempfile::tempdir().unwrap();
    let (blobs, snapshots) = (cache.path().join("blobs"), cache.path().join("snapshots"));
    fs::create_dir(&blobs).unwrap();
    for (commit, in_shards) in [("0123abc", false), ("4567def", true)] {
        let snapshot = snapshots.join(commit);
        fs::create_dir_all(&snapshot).unwrap();
        let saved = tempfile::tempdir().unwrap();
        let path = saved.path().join("model.safetensors");
        if in_shards {
            save_shards(&path, &model(4.0))
        } else {
            tensorfile::save(&path, &model(4.0)).unwrap()
        }
        for (at, entry) in fs::read_dir(saved.path()).unwrap().enumerate() {
            let name = entry.unwrap().file_name();
            // The name of a blob is a digest, without an extension.
            let blob = format!("{commit}{at}");
            fs::rename(saved.path().join(&name), blobs.join(&blob)).unwrap();
            symlink(Path::new("../../blobs").join(&blob), snapshot.join(&name)).unwrap();
        }
        assert_eq!(load::<Model>(&snapshot).unwrap(), model(4.0));
        assert_eq!(load::<Model>(snapshot.join("model.safetensors")).unwrap(), model(4.0));
        let file = File::open(&snapshot).unwrap();
        assert!(file.path().unwrap().starts_with(&snapshot) && file.misnamed_as().is_none());
    }

    // A blob that is gone.
    let snapshot = snapshots.join("89abcde");
    fs::create_dir(&snapshot).unwrap();
    symlink("../../blobs/none", snapshot.join("model.safetensors")).unwrap();
    let expected = format!("{}: No such file or directory (os error 2)", snapshot.join("model.safetensors").display());
    assert_eq!(error_of(File::open(&snapshot)), expected);
    // A link that leads nowhere does not hide another file.
    fs::copy(snapshots.join("0123abc/model.safetensors"), snapshot.join("pytorch_model.bin")).unwrap();
    assert_eq!(load::<Model>(&snapshot).unwrap(), model(4.0));
    // Neither does one that leads to itself.
    let snapshot = snapshots.join("f");
    fs::create_dir(&snapshot).unwrap();
    symlink("model.safetensors", snapshot.join("model.safetensors")).unwrap();
    symlink(".", snapshot.join("pytorch_model.bin")).unwrap();
    let error = error_of(File::open(&snapshot));
    assert!(error.starts_with(&format!("{}: ", snapshot.join("model.safetensors").display())), "{error}");
}

#[test]
fn a_directory_without_a_checkpoint_says_what_was_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    let expected = format!(
        "{}: is a directory without `model.safetensors` or `pytorch_model.bin`, or an index of its shards",
        folder.path().display()
    );
    let check = |hint: &str| {
        let error = File::open(folder.path()).unwrap_err();
        assert_eq!(error.to_string(), format!("{expected}{hint}"));
        assert_eq!(error.path(), Some(folder.path()));
        assert!(matches!(error.kind(), ErrorKind::Io(error) if error.kind() == std::io::ErrorKind::IsADirectory));
        assert_eq!(error_of(load::<Model>(folder.path())), error.to_string());
    };
    let write = |name: &str| fs::write(folder.path().join(name), "").unwrap();
    check("");
    write("config.json");
    write("README.md");
    fs::create_dir(folder.path().join("nested.ptd")).unwrap();
    check("");
    write("pytorch_model-00001-of-00002.bin");
    write("pytorch_model-00002-of-00002.bin");
    write("other.bin.index.json");
    check("; open `other.bin.index.json` in it");
    fs::remove_file(folder.path().join("other.bin.index.json")).unwrap();
    // Formats whose features are off have extensions too.
    for name in ["weights.pt", "weights.ptd", "weights.gguf", "weights.bin", "weights.ten"] {
        write(name);
        check(&format!("; open `{name}` in it"));
        fs::remove_file(folder.path().join(name)).unwrap();
    }
    ["b.ten", "a.npz"].iter().for_each(|name| write(name));
    check("; open `a.npz` in it or the other tensor file");
    write("c.btf");
    check("; open `a.npz` in it or one of 2 others");
}

/// Files of a folder: their paths, and their contents if they matter.
type Files = &'static [(&'static str, &'static str)];

fn folder_of(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, contents) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }
    folder
}

/// A pickle of nothing.
const PICKLE: &str = "\u{80}";

#[test]
fn folders_of_trainers_say_what_to_open() {
    const NONE: &str = "is a directory without `model.safetensors` or `pytorch_model.bin`, or an index of its shards";
    let cases: [(Files, String); 16] = [
        (
            &[
                ("latest", "global_step5\n"),
                ("zero_to_fp32.py", ""),
                ("global_step3/mp_rank_00_model_states.pt", ""),
                ("global_step5/mp_rank_00_model_states.pt", ""),
                ("global_step5/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt", ""),
            ],
            "is a folder of DeepSpeed; open `global_step5/mp_rank_00_model_states.pt` in it, which has the model; \
             `zero_to_fp32.py` there makes a file of its weights in f32"
                .to_owned(),
        ),
        (
            &[("mp_rank_00_model_states.pt", ""), ("mp_rank_01_model_states.pt", ""), ("a.txt", "")],
            "is a folder of DeepSpeed; open `mp_rank_00_model_states.pt` in it, which has a part of the model, as has another \
             file"
                .to_owned(),
        ),
        (
            &[
                ("layer_01-model_00-model_states.pt", ""),
                ("layer_00-model_00-model_states.pt", ""),
                ("layer_02-model_00-model_states.pt", ""),
                ("mp_rank_00_model_states.pt", ""),
            ],
            "is a folder of DeepSpeed; open `layer_00-model_00-model_states.pt` in it, which has a part of the model, as have 2 \
             other files"
                .to_owned(),
        ),
        (
            &[
                ("latest", "global_step5"),
                ("global_step5/zero_pp_rank_0_mp_rank_00_model_states.pt", ""),
                ("global_step5/zero_pp_rank_0_mp_rank_00_optim_states.pt", ""),
            ],
            "is a folder of DeepSpeed without a file of the whole model; the weights of ZeRO-3 are in parts in the \
             `*_optim_states.pt` files, and `zero_to_fp32.py` of DeepSpeed puts them together"
                .to_owned(),
        ),
        (
            &[
                ("latest_universal", "step5"),
                ("step5/mp_rank_00_model_states.pt", ""),
                ("step5/zero/layer.weight/fp32.pt", ""),
            ],
            "is a folder of DeepSpeed; open `step5/mp_rank_00_model_states.pt` in it, which has the model; its weights in f32 \
             are in `zero` next to it, in `NAME/fp32.pt` for each parameter"
                .to_owned(),
        ),
        (
            &[
                ("latest_checkpointed_iteration.txt", "5"),
                ("iter_0000005/mp_rank_00/model_optim_rng.pt", ""),
                ("iter_0000005/mp_rank_01/model_optim_rng.pt", ""),
                ("iter_0000010/mp_rank_00/model_optim_rng.pt", ""),
            ],
            "is a folder of Megatron; open `iter_0000005/mp_rank_00/model_optim_rng.pt` in it, which has a part of the model, as \
             has another file"
                .to_owned(),
        ),
        (
            &[("latest_checkpointed_iteration.txt", "release"), ("release/mp_rank_00/model_rng.pt", "")],
            "is a folder of Megatron; open `release/mp_rank_00/model_rng.pt` in it, which has the model".to_owned(),
        ),
        (
            &[("latest_checkpointed_iteration.txt", "7"), ("iter_0000007/.metadata", PICKLE), ("iter_0000007/common.pt", "")],
            "is a folder of Megatron; open `iter_0000007` in it, which has the model".to_owned(),
        ),
        // A name that leads out of the folder is not followed.
        (&[("latest", "../../etc"), ("latest_checkpointed_iteration.txt", "-1")], NONE.to_owned()),
        // Of accelerate.
        (
            &[
                ("optimizer_0/.metadata", PICKLE),
                ("pytorch_model_fsdp_0/.metadata", PICKLE),
                ("random_states_0.pkl", ""),
                ("scheduler.bin", ""),
            ],
            format!("{NONE}; open `pytorch_model_fsdp_0` in it, which has the model"),
        ),
        (
            &[("pytorch_model_fsdp.bin", ""), ("optimizer.bin", "")],
            format!("{NONE}; open `pytorch_model_fsdp.bin` in it"),
        ),
        // Of NeMo.
        (
            &[("context/model.yaml", ""), ("weights/.metadata", PICKLE), ("weights/common.pt", "")],
            format!("{NONE}; open `weights` in it, which has the model"),
        ),
        // Of the Trainer of transformers, whose last step counts.
        (
            &[
                ("checkpoint-500/model.safetensors", ""),
                ("checkpoint-1500/model.safetensors", ""),
                ("checkpoint-1000/model.safetensors", ""),
                ("training_args.bin", ""),
            ],
            format!("{NONE}; open `checkpoint-1500` in it, which has the model"),
        ),
        // Of Lightning.
        (
            &[("version_0/checkpoints/epoch=0.ckpt", ""), ("version_0/hparams.yaml", "")],
            format!("{NONE}; open `version_0/checkpoints/epoch=0.ckpt` in it, which has the model"),
        ),
        // Only files that lie next to a model.
        (&[("optimizer.pt", ""), ("scheduler.pt", "")], format!("{NONE}; open `optimizer.pt` in it or the other tensor file")),
        (&[("optimizer.pt", ""), ("a.safetensors", "")], format!("{NONE}; open `a.safetensors` in it")),
    ];
    for (files, expected) in cases {
        let folder = folder_of(files);
        // The pickle is one byte.
        for (name, _) in files.iter().filter(|(_, contents)| *contents == PICKLE) {
            fs::write(folder.path().join(name), [0x80]).unwrap();
        }
        let error = File::open(folder.path()).unwrap_err();
        assert_eq!(error.without_path().to_string(), expected, "{files:?}");
        assert!(matches!(error.kind(), ErrorKind::Io(error) if error.kind() == std::io::ErrorKind::IsADirectory));
    }
}

#[test]
fn a_folder_of_many_folders_is_not_searched_for_long() {
    let folder = tempfile::tempdir().unwrap();
    for i in 0..500 {
        fs::create_dir_all(folder.path().join(format!("{i}/a/b/c"))).unwrap();
    }
    let text = File::open(folder.path()).unwrap_err().without_path().to_string();
    assert!(!text.contains("which has the model"), "{text}");
}

#[test]
fn the_tensor_files_of_a_folder_are_told_by_name_and_content() {
    let fixtures = crate::support::root().join("tests/fixtures");
    let folder =
        folder_of(&[("data.bin", "text"), ("model.onnx", ""), ("a.tar", ""), ("b.tar.gz", ""), ("notes.txt", "")]);
    let path = |name: &str| folder.path().join(name);
    let copy = |from: &str, to: &str| _ = fs::copy(fixtures.join(from), path(to)).unwrap();
    copy("pytorch/state_dict.pt", "last.ckpt");
    copy("pytorch/state_dict.pt", "a.pt");
    copy("cases/trainer-folders/training_args.bin", "training_args.bin");
    copy("dcp/plain/.metadata", ".metadata");
    copy("dcp/plain/__0_0.distcp", "__0_0.distcp");
    // One that is damaged is not left out.
    fs::write(path("cut.ckpt"), &fs::read(fixtures.join("pytorch/state_dict.pt")).unwrap()[..500]).unwrap();
    fs::create_dir(path("inner.ckpt")).unwrap();
    tensorfile::save(path("in_shards.npz"), &model(1.0)).unwrap();
    SaveOptions::new().max_shard_bytes(8).save(path("m.safetensors"), &model(1.0)).unwrap();
    let found = OpenOptions::new().tensor_files(&folder).unwrap();
    let names = |paths: &[std::path::PathBuf]| {
        let name = |path: &std::path::PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        paths.iter().map(name).collect::<Vec<_>>()
    };
    assert_eq!(
        names(&found.files),
        [".metadata", "a.pt", "cut.ckpt", "in_shards.npz", "last.ckpt", "m.safetensors.index.json"]
    );
    assert_eq!(names(&found.left_out), ["a.tar", "b.tar.gz", "data.bin", "model.onnx", "training_args.bin"]);
    assert_eq!(found.model, None);
    // The files of all processes are one.
    let ranks = OpenOptions::new().tensor_files(fixtures.join("dcp/hugging_face_4")).unwrap();
    assert_eq!(ranks.files, [fixtures.join("dcp/hugging_face_4")]);
    // The state of an optimizer is not the model.
    let folder = folder_of(&[("weights/model.safetensors", "")]);
    fs::copy(fixtures.join("pytorch/state_dict.pt"), folder.path().join("optimizer.pt")).unwrap();
    let found = OpenOptions::new().tensor_files(&folder).unwrap();
    assert_eq!((found.files.len(), found.model), (1, Some(folder.path().join("weights"))));
}

#[test]
fn a_path_that_was_saved_in_shards_opens_its_index() {
    for format in written_formats().filter(|format| format.max_tensors.is_none()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model").with_extension(format.extensions[0]);
        let missing = error_of(File::open(&path));
        assert_eq!(missing, format!("{}: No such file or directory (os error 2)", path.display()));
        let options = SaveOptions::new().write(WriteOptions::new().embed_names(true)).max_shard_bytes(8);
        options.save(&path, &model(1.0)).unwrap();
        assert!(!path.exists(), "{}", format.name);
        assert_eq!(load::<Model>(&path).unwrap(), model(1.0), "{}", format.name);
        let index = format!("{}.index.json", path.display());
        assert_eq!(File::open(&path).unwrap().path(), Some(Path::new(&index)));

        // Errors name the index, or the shard that it asks for.
        fs::write(&index, "{").unwrap();
        assert!(error_of(File::open(&path)).starts_with(&format!("{index}: the index of shards is malformed")));
        let json = r#"{"weight_map": {"a": "model-x.y"}}"#;
        fs::write(&index, json).unwrap();
        let shard = folder.path().join("model-x.y");
        let expected = format!(
            "{index}: {}: No such file or directory (os error 2); the index says that `a` is in it",
            shard.display()
        );
        assert_eq!(error_of(File::open(&path)), expected);
    }
}

#[test]
fn a_directory_with_a_pickle_is_opened_too() {
    let fixtures = crate::support::root().join("tests/fixtures/pytorch");
    let folder = tempfile::tempdir().unwrap();
    fs::copy(fixtures.join("state_dict.pt"), folder.path().join("pytorch_model.bin")).unwrap();
    let file = File::open(folder.path()).unwrap();
    assert_eq!(
        (file.format().name, file.path().unwrap().file_name().unwrap().to_str()),
        ("pytorch", Some("pytorch_model.bin"))
    );
    let map: TensorMap = load(folder.path()).unwrap();
    assert_eq!(map, load(fixtures.join("state_dict.pt")).unwrap());

    // The same in shards.
    let shard = "pytorch_model-00001-of-00001.bin";
    fs::rename(folder.path().join("pytorch_model.bin"), folder.path().join(shard)).unwrap();
    let names: serde_json::Map<_, _> = map.iter().map(|(name, _)| (name.to_owned(), shard.into())).collect();
    let index = serde_json::json!({ "weight_map": names }).to_string();
    fs::write(folder.path().join("pytorch_model.bin.index.json"), index).unwrap();
    assert_eq!(load::<TensorMap>(folder.path()).unwrap(), map);
}

#[test]
fn a_pointer_of_git_lfs_is_told_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 548105171\n";
    let expected = "the file is a pointer of Git LFS, not the file that it stands for, which `git lfs pull` fetches; it begins \
                    with `version https://git-lfs.github.com/spec/v1\\noid sha256:4d7a2146\\ns` (at byte 0)";
    for name in ["model.safetensors", "model.ptd", "model.btf", "model.gguf", "model"] {
        let path = folder.path().join(name);
        fs::write(&path, pointer).unwrap();
        assert_eq!(error_of(File::open(&path)), format!("{}: {expected}", path.display()));
    }
    assert_eq!(error_of(File::open(folder.path())).split(": ").last(), Some(expected));
    // Text that is longer than a pointer begins is no pointer.
    assert!(!error_of(File::from_bytes(b"version".to_vec())).contains("LFS"));
}
