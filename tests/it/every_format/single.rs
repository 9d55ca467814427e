//! Files of a few tensors, which are read without an index. The result is the same as with one.

use std::any::type_name;
use std::fmt::Debug;

use indexmap::IndexMap;
use ndarray::{ArcArray1, Array1, Array2, ArrayView1, array};
use serde::Deserialize;
use tensorfile::format::Deserializer;
use tensorfile::model::FromTensors;
use tensorfile::{
    Arrays, CooTensor, Dtype, ErrorKind, FORMATS, File, Format, Limits, OpenOptions, Result, Tensor, TensorFile,
    TensorMap, WriteOptions, ten,
};

use super::{packed_samples, samples, sparse};
use crate::support::{tensor, written_formats};

fn read<'de, T: Deserialize<'de>>(format: &'static Format, file: &'de [u8]) -> Result<T> {
    let mut deserializer = Deserializer::from_slice(format, file);
    let value = T::deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// Reads a value from memory and from an open file, which has an index, and compares them. Returns whether there is
/// one.
#[track_caller]
fn compare_as<T>(format: &'static Format, file: &[u8], opened: &Result<File>, what: &str) -> bool
where
    T: for<'de> Deserialize<'de> + for<'de> FromTensors<'de> + PartialEq + Debug,
{
    let what = format!("{}, {what}, as {}", format.name, type_name::<T>());
    let small = read::<T>(format, file);
    match opened {
        Ok(file) => {
            let loaded = file.load::<T>();
            assert_eq!(small.as_ref().ok(), loaded.as_ref().ok(), "{what}: {small:?}, {loaded:?}");
            small.is_ok()
        }
        Err(expected) => {
            let error = small.expect_err(&what);
            // Other kinds of files are recognized only if the whole file is known.
            if matches!(expected.kind(), ErrorKind::NotTensors { .. }) {
                return false;
            }
            let is_same = expected.to_string().ends_with(&error.to_string());
            assert!(is_same, "{what}: {error}, but expected {expected}");
            assert_eq!((error.tensor(), error.offset()), (expected.tensor(), expected.offset()), "{what}");
            false
        }
    }
}

/// Reads a file as one tensor and as a map. Returns whether it is one tensor.
#[track_caller]
fn compare(format: &'static Format, file: &[u8], what: &str) -> bool {
    let opened = OpenOptions::new().format(format).from_bytes(file.to_vec());
    compare_as::<TensorMap>(format, file, &opened, what);
    compare_as::<Tensor>(format, file, &opened, what)
}

/// Parts of all kinds.
#[derive(TensorFile, Debug, PartialEq)]
struct Parts {
    a: Tensor,
    #[tensor(alias = "other")]
    b: Option<Tensor>,
    list: Vec<Part>,
    map: IndexMap<String, Part>,
    #[tensor(rename = "a.b")]
    pair: (Tensor, Option<Tensor>),
}

/// A value that does not come through serde.
#[derive(TensorFile, Debug, PartialEq)]
struct Only<T>(T);

/// Parts that are found by position too.
#[derive(TensorFile, Debug, PartialEq)]
struct Four {
    a: Tensor,
    pair: (Tensor, Array1<i32>),
    b: Tensor,
}

#[derive(TensorFile, Debug, PartialEq)]
struct Part {
    x: Array1<i32>,
    y: Option<Array1<i32>>,
}

/// Files of one tensor, and some of none or of several.
fn files(format: &'static Format) -> Vec<Vec<u8>> {
    let mut tensors = Vec::new();
    for dtype in [format.dtypes[0], format.dtypes[format.dtypes.len() - 1]] {
        tensors.extend([&[][..], &[3], &[2, 3], &[0, 4], &[1, 2, 1, 2, 2]].map(|shape| tensor(dtype, shape)));
    }
    if format.dtypes.contains(&Dtype::U8) {
        let names = Array1::from_iter(b"tensorfile.names.v1\0".iter().copied());
        tensors.extend([names, array![1, 2]].map(Tensor::from));
    }
    if format.sparse {
        tensors.push(sparse());
    }
    let mut files = Vec::new();
    for name in ["0", "a"].into_iter().filter(|name| *name == "0" || format.stores_name(name)) {
        for tensor in &tensors {
            let map = [(name, tensor.clone())].into_iter().collect::<TensorMap>();
            // Not every format takes every rank.
            files.extend(format.to_vec(&map, &WriteOptions::new()));
        }
        // Without a name, it is not written as the last tensor.
        let map = [(name, Tensor::from_slice(&[b'?'; 20], [20]).unwrap())].into_iter().collect::<TensorMap>();
        if let Ok(mut file) = format.to_vec(&map, &WriteOptions::new())
            && let Some(at) = file.windows(20).position(|bytes| bytes == [b'?'; 20])
        {
            file[at..at + 20].copy_from_slice(b"tensorfile.names.v1\0");
            files.push(file);
        }
    }
    let others = [samples(format), packed_samples(format)].concat();
    files.extend(others.into_iter().map(|(_, file)| file));
    files
}

#[test]
fn damaged_files_are_read_as_with_an_index() {
    let numbers = [0, 2, 24, 1 << 32, (1 << 63) + 1, u64::MAX - 7];
    for format in FORMATS {
        let mut read = 0;
        for file in files(format) {
            read += usize::from(compare(format, &file, "whole"));
            for len in 1..file.len() {
                compare(format, &file[..len], &format!("cut at {len}"));
            }
            let longer = [&file[..], b"\0"].concat();
            compare(format, &longer, "with a byte more");
            let twice = [&file[..], &file].concat();
            compare(format, &twice, "twice");
            let mut changed = file.clone();
            for at in 0..file.len() {
                for bit in [0, 5, 7] {
                    changed[at] ^= 1 << bit;
                    compare(format, &changed, &format!("bit {bit} of byte {at} flipped"));
                    changed[at] = file[at];
                }
            }
            for at in (0..file.len().saturating_sub(7)).step_by(4) {
                for number in numbers {
                    changed[at..at + 8].copy_from_slice(&number.to_le_bytes());
                    compare(format, &changed, &format!("{number} at byte {at}"));
                    changed[at..at + 8].copy_from_slice(&file[at..at + 8]);
                }
            }
        }
        assert!(read > 1, "{}: {read} files", format.name);
    }
}

/// Files whose parts are missing, left over or in another order, with names and without.
fn files_of_parts(format: &Format) -> Vec<Vec<u8>> {
    let mut files = Vec::new();
    for names in [
        &["a", "b", "list.0.x", "list.1.x", "list.1.y", "map.z.x", "map.y.x", "a.b.0", "a.b.1"][..],
        &["map.z.x", "a", "map.y.x", "other", "a.b.0", "list.0.y", "list.0.x"],
        &["map.z.x", "map.y.x", "a.b.0", "list.0.x", "a", "map.b.x"],
        &["b", "map.z.x", "other", "a.b.0", "list.0.x", "a"],
        &["a", "list.1.x", "map.z.x", "a.b.0"],
        &["a", "list", "list.0.x", "map.z.x", "a.b.0"],
        &["0", "1", "2", "3"],
        &["0.x", "1.x", "1.y"],
    ] {
        let map: TensorMap = names.iter().map(|name| (*name, tensor(Dtype::I32, &[1]))).collect();
        // Not every format takes several.
        let options = WriteOptions::new().embed_names(!format.stores_name("list.0.x"));
        files.extend(format.to_vec(&map, &options));
    }
    files
}

#[test]
fn parts_are_read_as_with_an_index() {
    for format in FORMATS {
        let (files, mut read) = (files_of_parts(format), 0);
        for file in &files {
            let mut compare = |file: &[u8], what: &str| {
                let opened = OpenOptions::new().format(format).from_bytes(file.to_vec());
                compare_as::<TensorMap>(format, file, &opened, what);
                compare_as::<Only<(Tensor, Tensor, Option<Tensor>)>>(format, file, &opened, what);
                compare_as::<Four>(format, file, &opened, what);
                compare_as::<Only<Vec<Part>>>(format, file, &opened, what);
                compare_as::<Only<IndexMap<String, Part>>>(format, file, &opened, what);
                read += usize::from(compare_as::<Parts>(format, file, &opened, what));
            };
            compare(file, "whole");
            let mut changed = file.clone();
            for at in (1..file.len()).step_by(5) {
                compare(&file[..at], &format!("cut at {at}"));
                changed[at] ^= 1 << (at % 8);
                compare(&changed, &format!("a bit of byte {at} flipped"));
                changed[at] = file[at];
            }
        }
        assert!(read > 1 || files.is_empty(), "{}: {read} files", format.name);
    }
}

/// Formats in which no other bytes than 0 and 1 are bools.
fn strict_formats() -> impl Iterator<Item = &'static Format> {
    written_formats()
        .filter(|format| format.dtypes.contains(&Dtype::Bool) && !["npy", "npz", "pytorch"].contains(&format.name))
}

#[test]
fn errors_of_the_array_say_where_the_tensor_is() {
    for format in written_formats().filter(|format| format.dtypes.contains(&Dtype::F32)) {
        let file = format.to_vec(&tensor(Dtype::F32, &[3]), &WriteOptions::new()).unwrap();
        let mut memory = vec![0; file.len() + 4];
        let start = (1..5).find(|start| (memory.as_ptr().addr() + start) % 4 == 1).unwrap();
        memory[start..start + file.len()].copy_from_slice(&file);
        let file = &memory[start..start + file.len()];
        let error = read::<Arrays<ArrayView1<f32>>>(format, file).unwrap_err();
        let expected = read::<Vec<Arrays<ArrayView1<f32>>>>(format, file).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Misaligned { .. }), "{}: {error}", format.name);
        assert_eq!(error.to_string(), expected.to_string());
        assert_eq!((error.tensor(), error.offset()), (expected.tensor(), expected.offset()));
        assert!(error.tensor().is_some() && error.offset().is_some());
    }
    for format in strict_formats() {
        let mut file = format.to_vec(&array![true, true, false], &WriteOptions::new()).unwrap();
        let at = file.windows(3).rposition(|bytes| bytes == [1, 1, 0]).unwrap();
        file[at + 1] = 7;
        let error = read::<Arrays<Array1<bool>>>(format, &file).unwrap_err();
        let expected = read::<Vec<Arrays<Array1<bool>>>>(format, &file).unwrap_err();
        assert_eq!(error.to_string(), expected.to_string());
        assert_eq!((error.tensor(), error.offset()), (expected.tensor(), expected.offset()));
    }
}

/// Asks for the same values in another way, for which nothing is read in one step.
#[derive(Deserialize)]
struct Searched<T>(T);

/// From memory and from a stream, whose length is not known.
#[track_caller]
fn compare_errors<'de, T: Deserialize<'de>>(format: &'static Format, file: &'de [u8]) {
    let readers = || [Deserializer::from_slice(format, file), Deserializer::from_reader(format, file)];
    for (mut single, mut searched) in readers().into_iter().zip(readers()) {
        let error = T::deserialize(&mut single).err().unwrap();
        let expected = Searched::<T>::deserialize(&mut searched).err().unwrap();
        assert_eq!(error.to_string(), expected.to_string(), "{}", format.name);
        assert_eq!((error.tensor(), error.offset()), (expected.tensor(), expected.offset()), "{}", format.name);
    }
}

#[test]
fn errors_are_those_of_a_search() {
    for format in written_formats().filter(|format| format.dtypes.contains(&Dtype::F32)) {
        let file = format.to_vec(&tensor(Dtype::F32, &[3]), &WriteOptions::new()).unwrap();
        compare_errors::<Arrays<Array1<f64>>>(format, &file);
        compare_errors::<Arrays<Array2<f32>>>(format, &file);
        compare_errors::<CooTensor<f32>>(format, &file);
        compare_errors::<Arrays<Array1<f32>>>(format, &file[..file.len() / 2]);
        compare_errors::<Arrays<Array1<f32>>>(format, b"");
    }
    for format in strict_formats() {
        let mut file = format.to_vec(&array![true, true, false], &WriteOptions::new()).unwrap();
        let at = file.windows(3).rposition(|bytes| bytes == [1, 1, 0]).unwrap();
        file[at + 1] = 7;
        compare_errors::<Arrays<Array1<bool>>>(format, &file);
    }
}

#[test]
fn one_tensor_is_read_once() {
    for format in written_formats().filter(|format| format.dtypes.contains(&Dtype::F32)) {
        let file = format.to_vec(&tensor(Dtype::F32, &[3]), &WriteOptions::new()).unwrap();
        let array: Arrays<ArcArray1<f32>> = read(format, &file).unwrap();
        assert_eq!(array.0.len(), 3);
        let mut deserializer = Deserializer::from_slice(format, &file);
        Tensor::deserialize(&mut deserializer).unwrap();
        let again = Tensor::deserialize(&mut deserializer).unwrap_err();
        assert!(matches!(again.kind(), ErrorKind::Missing { .. }), "{}: {again}", format.name);
        deserializer.end().unwrap();
        let mut deserializer = Deserializer::from_slice(format, &file);
        Tensor::deserialize(&mut deserializer).unwrap();
        assert_eq!(TensorMap::deserialize(&mut deserializer).unwrap().len(), 0, "{}", format.name);
        deserializer.end().unwrap();
    }
}

#[test]
fn limits_hold_for_one_tensor() {
    let file = ten::to_vec(&tensor(Dtype::F32, &[3])).unwrap();
    for limits in [Limits::new().tensors(0), Limits::new().rank(0), Limits::new().shared(0)] {
        let options = ten::Options::new().limits(limits.clone());
        let single = options.from_slice::<Tensor>(&file).map(|tensor| vec![tensor]);
        let list = options.from_slice::<Vec<Tensor>>(&file);
        assert_eq!(single.map_err(|error| error.to_string()), list.map_err(|error| error.to_string()), "{limits:?}");
    }
}
