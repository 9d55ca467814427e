//! Files written by the formats' own software, in `tests/fixtures/others`: TFRT's C++, ggml's C++, Go, and the crate
//! `tensorbuffers`.

use serde::Deserialize;
use sha2::{Digest, Sha256};
use tensorfile::{File, OpenOptions, TensorMap, WriteOptions};

use crate::support::{Dribble, root};

#[derive(Deserialize)]
struct Written {
    file: String,
    tensors: Vec<Described>,
}

#[derive(Deserialize)]
struct Described {
    name: String,
    dtype: String,
    shape: Option<Vec<usize>>,
    /// The dims of ggml, always four, innermost first.
    ne: Option<[usize; 4]>,
    sha256: String,
}

impl Described {
    /// Returns the dims, without the dims of 1 that ggml omits.
    fn dims<'a>(&'a self, found: &'a [usize]) -> (Vec<usize>, Vec<usize>) {
        let without_ones = |dims: &[usize]| dims.iter().copied().skip_while(|dim| *dim == 1).collect();
        match (&self.shape, self.ne) {
            (Some(shape), _) => (shape.clone(), found.to_vec()),
            (None, ne) => {
                let mut dims = ne.expect("a tensor has a shape");
                dims.reverse();
                (without_ones(&dims), without_ones(found))
            }
        }
    }
}

/// Returns each file, and its contents.
fn files() -> impl Iterator<Item = (Written, Vec<u8>)> {
    let folder = root().join("tests/fixtures/others");
    let manifest = std::fs::read(folder.join("manifest.json")).unwrap();
    let files: Vec<Written> = serde_json::from_slice(&manifest).unwrap();
    files.into_iter().map(move |written| {
        let bytes = std::fs::read(folder.join(&written.file)).unwrap();
        (written, bytes)
    })
}

#[track_caller]
fn check(file: &File, written: &Written) {
    assert_eq!(file.len(), written.tensors.len(), "{}", written.file);
    for (i, described) in written.tensors.iter().enumerate() {
        let tensor = if described.name.is_empty() { file.nth(i) } else { file.get(&described.name).ok() };
        let tensor = tensor.unwrap_or_else(|| panic!("{}: no `{}`", written.file, described.name));
        let (expected, found) = described.dims(tensor.shape().dims());
        assert_eq!((tensor.dtype().name(), found), (&*described.dtype, expected), "{}", written.file);
        let digest = Sha256::digest(tensor.read().unwrap().as_bytes());
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digest, described.sha256, "{}: `{}`", written.file, described.name);
    }
}

#[test]
fn files_have_what_their_software_wrote() {
    let mut count = 0;
    let is_on = |file: &str| {
        (cfg!(feature = "gguf") || !file.ends_with(".gguf"))
            && (cfg!(feature = "tensorbuffers") || !file.ends_with(".tbs"))
    };
    for (written, bytes) in files().filter(|(written, _)| is_on(&written.file)) {
        check(&File::from_bytes(bytes.clone()).unwrap(), &written);
        let map: TensorMap = File::from_bytes(bytes.clone()).unwrap().load().unwrap();
        assert_eq!(map.len(), written.tensors.len());
        check(&OpenOptions::new().from_reader(std::io::Cursor::new(bytes)).unwrap(), &written);
        count += 1;
    }
    assert!(count >= if cfg!(feature = "tensorbuffers") { 16 } else { 6 }, "{count}");
}

#[test]
fn go_and_tfrt_write_the_same_bytes() {
    let is_theirs = |file: &str| file.starts_with("go-") || file.starts_with("tfrt-");
    for (written, bytes) in files().filter(|(written, _)| is_theirs(&written.file)) {
        let format = File::from_bytes(bytes.clone()).unwrap().format();
        let file: TensorMap = format.from_slice(&bytes).unwrap();
        assert_eq!(format.from_reader(Dribble::new(&bytes)).unwrap(), file, "{}", written.file);
        assert!(format.to_vec(&file, &WriteOptions::new()).unwrap() == bytes, "{}", written.file);
    }
}

#[cfg(feature = "gguf")]
#[test]
fn files_of_ggml_are_copied() {
    for (written, bytes) in files().filter(|(written, _)| written.file.ends_with("gguf")) {
        let file = File::from_bytes(bytes).unwrap();
        let entries = file.metadata().unwrap().entries;
        let copy = tensorfile::gguf::FORMAT.to_vec(&file, &WriteOptions::new().metadata(entries)).unwrap();
        check(&File::from_bytes(copy).unwrap(), &written);
    }
}
