//! `load_tensor` reads the same tensor as an open file, and less of the rest.

use std::path::Path;

use tensorfile::file::load_tensor;
use tensorfile::{FORMATS, File, Format, Result, Tensor, TensorMap, btf};

use super::{packed_samples, samples};
use crate::support::{folder, tensor};

const NO_TENSOR: [&str; 7] = ["", "#", "nowhere", "#99", "99", "00", "+0"];

/// Returns whether the tensor was read.
fn compare(path: &Path, opened: &Result<File>, name: &str) -> bool {
    let expected = opened.as_ref().map_err(ToString::to_string);
    let expected = expected.and_then(|file| file.tensor(name).map_err(|error| error.to_string()));
    match (load_tensor(path, name), expected) {
        (Ok(found), Ok(expected)) => {
            assert_eq!(found, expected, "{name} of {}", path.display());
            true
        }
        (Err(found), Err(expected)) => {
            assert_eq!(found.to_string(), expected, "{name} of {}", path.display());
            false
        }
        (Ok(_), Err(expected)) => {
            // The headers of other records are not read.
            assert!(
                path.ends_with("file.btf") && !expected.contains(&format!("tensor `{name}`")),
                "{name}: {expected}"
            );
            true
        }
        (Err(found), Ok(_)) => panic!("{name}: {found}"),
    }
}

/// Names and positions of tensors, and some that are neither.
fn wanted(map: &TensorMap) -> Vec<String> {
    let names = map.names().map(str::to_owned);
    let positions = (0..map.len()).flat_map(|at| [format!("#{at}"), format!("#+{at}"), at.to_string()]);
    names.chain(positions).chain(NO_TENSOR.map(str::to_owned)).collect()
}

fn files(format: &Format) -> Vec<(TensorMap, Vec<u8>)> {
    [samples(format), packed_samples(format)].concat()
}

#[test]
fn a_tensor_is_found_as_in_an_open_file() {
    let folder = folder(true);
    for format in FORMATS {
        let path = folder.path().join("file").with_extension(format.extensions[0]);
        for (map, file) in files(format) {
            std::fs::write(&path, &file).unwrap();
            let opened = File::open(&path);
            let read = wanted(&map).into_iter().filter(|name| compare(&path, &opened, name)).count();
            assert!(read >= map.len(), "{}: {read} of {map:?}", format.name);
        }
    }
}

#[test]
fn damaged_files_are_refused_as_in_an_open_file() {
    let folder = folder(true);
    for format in FORMATS {
        let path = folder.path().join("file").with_extension(format.extensions[0]);
        let Some((map, file)) =
            files(format).into_iter().filter(|(map, _)| map.len() < 4).max_by_key(|(map, _)| map.len())
        else {
            continue;
        };
        let mut read = 0;
        for at in (0..file.len()).step_by(if file.len() > 2000 { 37 } else { 1 }) {
            let changed = |change: u8| {
                let mut file = file.clone();
                file[at] ^= change;
                file
            };
            for file in [file[..at].to_vec(), changed(1), changed(0x80)] {
                std::fs::write(&path, &file).unwrap();
                let opened = File::open(&path);
                read += map.names().chain(["#0"]).filter(|name| compare(&path, &opened, name)).count();
            }
        }
        assert!(read > 0, "{}", format.name);
    }
}

#[test]
fn other_records_of_btf_are_not_read() {
    let folder = folder(true);
    let path = folder.path().join("file.btf");
    let map: TensorMap = ["a", "b", "c"].map(|name| (name, tensor(tensorfile::Dtype::F32, &[2]))).into_iter().collect();
    for embeds_names in [false, true] {
        let mut file = btf::Options::new().embed_names(embeds_names).to_vec(&map).unwrap();
        // The dtype of the second record, after its rank.
        let second = usize::try_from(u64::from_le_bytes(file[16..24].try_into().unwrap())).unwrap();
        file[second..second + 8].fill(0xff);
        std::fs::write(&path, &file).unwrap();
        let expected = File::open(&path).unwrap_err().to_string();
        for (at, name) in map.names().enumerate() {
            let name = if embeds_names { name.to_owned() } else { at.to_string() };
            let read: Result<Tensor> = load_tensor(&path, &name);
            match at {
                1 => assert_eq!(read.unwrap_err().to_string(), expected),
                _ => assert_eq!(Some(&read.unwrap()), map.iter().nth(at).map(|(_, tensor)| tensor), "{name}"),
            }
        }
    }
}
