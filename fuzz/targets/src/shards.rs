//! Opens arbitrary indexes of shards, next to files that some indexes name.

use std::fs;
use std::path::Path;

use tensorfile::file::{Backend, FileTensor};
use tensorfile::{File, Result, SaveOptions, Tensor, TensorMap, WriteOptions, ten};

use crate::backends::{contents, open, open_both};
use crate::input::Input;

/// The files next to the index. The first byte of an input can choose its own shard by the end of the name.
const SHARDS: [&str; 4] = ["model-00001-of-00002.ten", "model-00002-of-00002.ten", "a.ten", "b.safetensors"];

pub fn run(input: &[u8]) {
    let mut input = Input(input);
    let json = input.before_nul();
    let own = input.0;
    let folder = tempfile::tempdir().unwrap();
    let index = folder.path().join("model.ten.index.json");
    fs::write(&index, json).unwrap();
    let mut len = json.len() + own.len();
    for (at, name) in SHARDS.into_iter().enumerate() {
        let file = shard(at);
        len += file.len();
        fs::write(folder.path().join(name), file).unwrap();
    }
    fs::write(folder.path().join("own.ten"), own).unwrap();
    #[cfg(unix)]
    special_files(folder.path());

    let _ = open_both(&index, len, &show);
    save(folder.path(), &index);
    if own.starts_with(b"GGUF") {
        parts(own);
    }
}

/// Opens a file as the second part of a model, after a correct first part.
fn parts(second: &[u8]) {
    let folder = tempfile::tempdir().unwrap();
    let options = SaveOptions::new().max_shard_bytes(8);
    let map: TensorMap =
        ["a", "b"].map(|name| (name, Tensor::from_slice(&[1_i64], [1]).unwrap())).into_iter().collect();
    options.save(folder.path().join("m.gguf"), &map).unwrap();
    let part = |number: u8| folder.path().join(format!("m-0000{number}-of-00002.gguf"));
    assert_eq!(File::open(part(2)).unwrap().load::<TensorMap>().unwrap(), map);
    fs::write(part(2), second).unwrap();
    let len = second.len() + fs::metadata(part(1)).unwrap().len() as usize;
    if let Ok(file) = open_both(&part(1), len, &show) {
        assert_eq!(file.shards().len(), 2, "{file:?}");
    }
    // It may be a file by itself.
    contents(&open(&part(2), Backend::Positioned, len), len, &show);
}

fn show(tensor: &FileTensor<'_>, read: &Result<Tensor, String>) -> String {
    format!("{tensor:?} {:?} {read:?}", tensor.path())
}

/// Shards that cannot be read: an endless device and a socket. Some have the names of temporary files.
#[cfg(unix)]
fn special_files(folder: &Path) {
    use std::os::unix::fs::symlink;

    for name in ["zero.ten", ".model.ten.turn.0.tmp", ".model.ten.1.tmp"] {
        symlink("/dev/zero", folder.join(name)).unwrap();
    }
    for name in ["socket.ten", ".model.ten.0.tmp", ".model.ten.index.json.0.tmp"] {
        // The path may be too long for a socket.
        let _ = std::os::unix::net::UnixListener::bind(folder.join(name));
    }
}

/// The tensors `a.weight` and `b`, `a.bias`, `x`, and `y`.
fn shard(at: usize) -> Vec<u8> {
    let tensor = |at: usize| Tensor::from_slice(&vec![at as f32; at + 1], [at + 1]).unwrap();
    let names: &[&str] = [&["a.weight", "b"][..], &["a.bias"], &["x"], &["y"]][at];
    let map: TensorMap = names.iter().map(|name| (*name, tensor(at))).collect();
    if SHARDS[at].ends_with(".ten") {
        ten::to_vec(&map).unwrap()
    } else {
        tensorfile::safetensors::to_vec(&map).unwrap()
    }
}

/// Saves other tensors over any index, and checks that they can be read and that no other file is lost.
fn save(folder: &Path, index: &Path) {
    let old: Vec<String> = names(folder);
    let map: TensorMap = (0..3_u8).map(|at| (format!("t{at}"), Tensor::from_slice(&[at; 8], [8]).unwrap())).collect();
    let options = SaveOptions::new().max_shard_bytes(8).write(WriteOptions::new().embed_names(true));
    options.save(folder.join("model.ten"), &map).unwrap();
    assert_eq!(File::open(index).unwrap().load::<TensorMap>().unwrap(), map);
    let new = names(folder);
    for name in old.iter().filter(|name| !new.contains(name)) {
        assert!(name.starts_with("model-") && name.contains("-of-"), "{name} was removed");
    }
    // Three shards, which may have taken the names of others.
    let added = new.iter().filter(|name| !old.contains(name)).count();
    assert!(added <= 3, "{new:?} is more than before, which was {old:?}");
}

fn names(folder: &Path) -> Vec<String> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Indexes, and a file for them to name.
pub fn seeds() -> Vec<Vec<u8>> {
    let two = r#"{"metadata":{"total_size":20},"weight_map":{"a.weight":"model-00001-of-00002.ten","b":"model-00001-of-00002.ten","a.bias":"model-00002-of-00002.ten"}}"#;
    let texts = [
        two,
        r#"{"weight_map":{"x":"a.ten"}}"#,
        r#"{"weight_map":{"y":"b.safetensors"},"metadata":{"format":"pt","x":[1,{"a":null}],"total_size":99999999999999999999}}"#,
        r#"{"weight_map":{"x":"a.ten","y":"b.safetensors"}}"#,
        r#"{"weight_map":{"t":"own.ten","x":"a.ten"}}"#,
        r#"{"weight_map":{"x":"../a.ten"}}"#,
        r#"{"weight_map":{"\u0061.weight":"model-00001-of-00002.ten"}}"#,
        r#"{"weight_map":{}}"#,
        "{",
        "",
    ];
    let own = ten::to_vec(&TensorMap::from_iter([("t", Tensor::from_slice(&[1_u8, 2], [2]).unwrap())])).unwrap();
    let gguf = |index: &str, tensor: &str| {
        let options = tensorfile::gguf::Options::new().metadata("split.no", index).metadata("split.count", "2");
        let map = TensorMap::from_iter([(tensor, Tensor::from_slice(&[1_i8, 2], [2]).unwrap())]);
        [&b"{\0"[..], &options.metadata("split.tensors.count", "2").to_vec(&map).unwrap()].concat()
    };
    // The second part, one of a name that the first has, and one that is the first.
    let parts = [("1", "c"), ("1", "a"), ("0", "c")].map(|(index, tensor)| gguf(index, tensor));
    texts.iter().map(|text| [text.as_bytes(), &[0], &own].concat()).chain(parts).collect()
}
