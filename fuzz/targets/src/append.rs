//! Appends tensors to arbitrary TensorBuffers files.

use std::fs;

use tensorfile::{Category, ErrorKind, FORMATS, File, TensorMap, WriteOptions, tensorbuffers};

use crate::budget::{bounded, limits};
use crate::input::Input;
use crate::rows::open;
use crate::samples;

pub fn run(input: &[u8]) {
    let mut input = Input(input);
    let mut made_of = Input(input.bytes(64));
    let alignment = 1 << made_of.below(8);
    let new = made_of.map();
    let old = input.0;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.tbs");
    fs::write(&path, old).unwrap();
    let options = tensorbuffers::Options::new().limits(limits(old.len())).alignment(alignment);
    let bytes: usize = new.iter().map(|(_, tensor)| tensor.as_bytes().len()).sum();
    let appended = bounded("appending", old.len() + 2 * bytes, || options.append(&path, &new));
    let file = fs::read(&path).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
    let before = open(&tensorbuffers::FORMAT, old.len()).from_bytes(old.to_vec());
    if let Err(error) = appended {
        assert!(file == old, "the file is changed by a failure");
        let is_of_call = error.category() == Category::Call || matches!(error.kind(), ErrorKind::DuplicateName { .. });
        assert!(is_of_call || before.is_err(), "{error:?}, but the file is read");
        return;
    }
    let before = before.unwrap();
    let after = open(&tensorbuffers::FORMAT, file.len()).from_bytes(file).unwrap();
    assert_eq!(after.len(), before.len() + new.len());
    for (tensor, old) in after.tensors().zip(before.tensors()) {
        assert_eq!((tensor.name(), tensor.info()), (old.name(), old.info()));
        if tensor.info().unknown_dtype().is_none() {
            assert_eq!(tensor.read().unwrap(), old.read().unwrap());
        }
    }
    for (tensor, (name, new)) in after.tensors().skip(before.len()).zip(&new) {
        assert_eq!(tensor.name(), name);
        assert_eq!((tensor.dtype(), tensor.shape()), (new.dtype(), new.shape()));
    }
    let (old, new) = (before.metadata().unwrap(), after.metadata().unwrap());
    assert_eq!(old.entries, new.entries);
    everything(&after);
}

/// Reads the file after appending, in the ordinary way.
fn everything(file: &File) {
    if file.tensors().any(|tensor| tensor.info().unknown_dtype().is_some()) {
        return;
    }
    let map: TensorMap = file.load().unwrap();
    for format in FORMATS {
        let _ = format.to_vec(&map, &WriteOptions::new());
    }
}

/// Tensors to append, and the file.
pub fn seeds() -> Vec<Vec<u8>> {
    let files = samples::files_of(&tensorbuffers::FORMAT);
    let made_of = |at: usize| {
        let mut bytes = vec![at as u8, 2, 1, 3, 5, 34, at as u8 % 23, 3, 2, 1, 7, 8, 9, 2, 0, 50, 3, 2];
        bytes.resize(64, at as u8);
        bytes
    };
    files.into_iter().enumerate().map(|(at, file)| [made_of(at), file].concat()).collect()
}
