//! Sample files for fuzzing to begin with.

use std::path::Path;

use tensorfile::format::READ_FORMATS;
use tensorfile::{CooTensor, Dtype, FORMATS, Format, Tensor, TensorInfo, TensorMap, WriteOptions, npz, tensorbuffers};

use crate::rows::number;

fn tensor(dtype: Dtype, shape: &[usize]) -> Tensor {
    let mut shape = shape.to_vec();
    if let Some(last) = shape.last_mut() {
        *last *= dtype.block_elements();
    }
    let info = TensorInfo::new(dtype, shape);
    let last = if dtype == Dtype::Bool { 2 } else { 251 };
    let bytes: Vec<u8> = (0..info.payload_bytes().unwrap()).map(|at| (at % last) as u8).collect();
    Tensor::new(info, &bytes).unwrap()
}

fn map(tensors: &[(&str, Dtype, &[usize])]) -> TensorMap {
    tensors.iter().map(|(name, dtype, shape)| (*name, tensor(*dtype, shape))).collect()
}

/// Small collections. Some fit the types of `model`.
pub fn maps() -> Vec<TensorMap> {
    let mut maps = vec![
        TensorMap::new(),
        map(&[("0", Dtype::U8, &[3])]),
        map(&[("a", Dtype::F32, &[2]), ("b", Dtype::F64, &[3])]),
        map(&[
            ("layers.0.weight", Dtype::F32, &[1, 2]),
            ("layers.0.bias", Dtype::F32, &[1]),
            ("head", Dtype::U8, &[2, 3]),
        ]),
        map(&[
            ("experts.x", Dtype::I32, &[1]),
            ("tree.value", Dtype::U8, &[1]),
            ("tree.next.children.0.value", Dtype::U8, &[0]),
        ]),
        map(&[("0", Dtype::U8, &[2]), ("1", Dtype::F32, &[1, 1]), ("2", Dtype::F32, &[2])]),
        map(&[("value", Dtype::I64, &[]), ("ä", Dtype::U16, &[2, 0])]),
    ];
    maps.extend(Dtype::ALL.iter().map(|dtype| map(&[("0", *dtype, &[1, 2])])));
    let sparse = CooTensor::new([3, 300], vec![0, 1, 2, 299, 1, 0], vec![1.5_f32, -2.0, 0.25]).unwrap().to_tensor();
    maps.push([("sparse", sparse.clone()), ("rest", tensor(Dtype::U8, &[1]))].into_iter().collect());
    maps.push([("0", sparse)].into_iter().collect());
    maps
}

/// Files with as many small tensors as possible. Each tensor takes more memory than bytes of the file.
fn many(format: &Format) -> Vec<Vec<u8>> {
    const COUNT: u64 = 1500;
    if format.name == "btf" {
        // All offsets lead to one record, a scalar.
        let table = std::iter::once(COUNT).chain((0..COUNT).map(|_| 8 + 8 * COUNT));
        let file = table.chain([0, 6, 1]).flat_map(u64::to_le_bytes).collect();
        return vec![file];
    }
    let name = |at: u64, depth: u64| format!("layers.{at}{}", ".a".repeat(depth as usize));
    let map = |depth: fn(u64) -> u64| -> TensorMap {
        (0..COUNT / 10).map(|at| (name(at, depth(at)), tensor(Dtype::U8, &[0]))).collect()
    };
    let options = WriteOptions::new().embed_names(true);
    [map(|_| 0), map(|at| at % 50)].iter().flat_map(|map| format.to_vec(map, &options)).collect()
}

/// Files of a format, with and without names.
pub fn files_of(format: &Format) -> Vec<Vec<u8>> {
    let options = |embed| WriteOptions::new().embed_names(embed);
    let write = |map: &TensorMap| [false, true].map(|embed| format.to_vec(map, &options(embed)));
    let mut files: Vec<Vec<u8>> = maps().iter().flat_map(write).flatten().collect();
    files.extend(many(format));
    match format.name {
        "npy" => {
            let swapped = |file: &Vec<u8>| file.iter().map(|byte| if *byte == b'<' { b'>' } else { *byte }).collect();
            files.extend(files.iter().map(swapped).collect::<Vec<_>>());
        }
        "npz" => files.extend(maps().iter().flat_map(|map| npz::Options::new().compress(true).to_vec(map))),
        "tensorbuffers" => {
            let options = tensorbuffers::Options::new().alignment(1).model("m");
            files.extend(maps().iter().flat_map(|map| options.to_vec(map)));
        }
        _ => {}
    }
    if format.dtypes.contains(&Dtype::Bool) {
        // Bytes other than 0 and 1.
        let bools: TensorMap = [("0", Tensor::from_slice(&[true, false, true], [3]).unwrap())].into_iter().collect();
        let mut file = format.to_vec(&bools, &options(false)).unwrap();
        let at = file.windows(3).rposition(|bytes| bytes == [1, 0, 1]).unwrap();
        file[at] = 255;
        files.push(file);
    }
    // The folders with files that other software made, and with files of reports.
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
    let cases = fixtures.join("cases").read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    let folders = std::iter::once(fixtures.join(format.name)).chain(cases);
    for entry in folders.flat_map(|folder| folder.read_dir().into_iter().flatten().flatten()) {
        if entry.path().extension().is_some_and(|extension| format.extensions.iter().any(|own| extension == *own)) {
            files.push(std::fs::read(entry.path()).unwrap());
        }
    }
    files.sort();
    files.dedup();
    files
}

/// Files of a format that is only read.
fn read_files_of(format: &Format) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/executorch");
    let paths = folder.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    let is_own = |path: &std::path::PathBuf| path.extension().is_some_and(|end| end == format.extensions[0]);
    let mut files: Vec<Vec<u8>> = paths.filter(is_own).map(|path| std::fs::read(path).unwrap()).collect();
    files.sort();
    files
}

/// Files of all formats, each after the byte for its row.
pub fn files() -> Vec<Vec<u8>> {
    let all = FORMATS.iter().flat_map(|format| files_of(format).into_iter().map(|file| (number(format), file)));
    all.map(|(number, file)| [&[number][..], &file].concat()).collect()
}

/// As [`files`], with the formats that are only read.
pub fn all_files() -> Vec<Vec<u8>> {
    let read =
        READ_FORMATS.iter().flat_map(|format| read_files_of(format).into_iter().map(|file| (number(format), file)));
    files().into_iter().chain(read.map(|(number, file)| [&[number][..], &file].concat())).collect()
}
