//! Loads one tensor of an arbitrary file without opening the file.

use std::path::Path;

use tensorfile::file::load_tensor;
use tensorfile::{File, Result};

use crate::input::Input;
use crate::read::write;
use crate::rows::choose_any;
use crate::samples;

/// The number of tensors to read, by name and by position.
const FEW: usize = 8;

pub fn run(input: &[u8]) {
    let mut input = Input(input);
    let Some(format) = choose_any(&mut input) else { return };
    let own = String::from_utf8_lossy(input.before_nul()).into_owned();
    let path = write(&format!("file.{}", format.extensions[0]), input.0);
    let opened = File::open(&path);
    let mut names = vec![own, String::new(), "nowhere".to_owned()];
    names.extend((0..FEW).flat_map(|at| [at.to_string(), format!("#{at}")]));
    names.extend(opened.iter().flat_map(File::tensors).take(FEW).map(|tensor| tensor.name().to_owned()));
    names.iter().for_each(|name| compare(&path, &opened, name));
}

/// Loads a tensor alone, and compares it with the tensor of the open file.
fn compare(path: &Path, opened: &Result<File>, name: &str) {
    let found = load_tensor(path, name).map_err(|error| error.to_string());
    let expected = match opened {
        Ok(file) => file.tensor(name).map_err(|error| error.to_string()),
        // The wrong headers may be those of other records, which are not read.
        Err(error) if error.format() == Some("btf") => return,
        Err(error) => Err(error.to_string()),
    };
    assert!(found == expected, "`{name}`: {found:?}, but of the open file {expected:?}");
}

/// The files of other targets, each after a name.
pub fn seeds() -> Vec<Vec<u8>> {
    let names = ["a", "0", "layers.0.bias", "#1"];
    let named = |(file, name): (Vec<u8>, &str)| [&file[..1], name.as_bytes(), &[0], &file[1..]].concat();
    samples::all_files().into_iter().zip(names.into_iter().cycle()).map(named).collect()
}
