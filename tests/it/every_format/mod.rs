//! Tests of every row of the table of formats. A new row needs no new test.

#[cfg(feature = "digest")]
mod digests;
mod faults;
#[cfg(target_os = "linux")]
mod full_disk;
mod hostile;
mod memory;
mod names_in_messages;
mod one_tensor;
mod options;
mod order;
mod properties;
mod read_in_order;
mod refused;
mod round_trip;
mod single;
mod slices;
mod stream_index;
mod table;
#[cfg(unix)]
mod writers;

use tensorfile::{CooTensor, Format, Tensor, TensorMap, WriteOptions};

use crate::support::{in_written_order, tensor};

fn sparse() -> Tensor {
    CooTensor::new([3, 300], vec![0, 1, 2, 299, 1, 0], vec![1.5_f32, -2.0, 0.25]).unwrap().to_tensor()
}

/// Returns `true` if a format stores `name` for the tensor at position `at`.
fn stores_name(format: &Format, name: &str, at: usize) -> bool {
    let is_position = name == at.to_string();
    is_position || format.max_name.is_none_or(|most| name.len() <= most && (1..).contains(&name.len()))
}

/// Returns `true` if a format can store a map. Some store a fixed number of tensors, or no names.
fn holds(format: &Format, map: &TensorMap) -> bool {
    let mut names = map.names().enumerate();
    format.max_tensors.is_none_or(|count| map.len() == count && names.all(|(at, name)| stores_name(format, name, at)))
}

/// Returns the file of a map. Its names are embedded if the format cannot store all of them.
pub fn file_of(format: &Format, map: &TensorMap) -> Vec<u8> {
    let own = map.names().enumerate().all(|(at, name)| stores_name(format, name, at));
    let file = if own {
        format.to_vec(map, &WriteOptions::new())
    } else {
        format.to_vec(map, &WriteOptions::new().embed_names(true))
    };
    file.unwrap_or_else(|error| panic!("{error}"))
}

/// Small files that show every feature of a format: their values and their bytes.
pub fn samples(format: &Format) -> Vec<(TensorMap, Vec<u8>)> {
    let (first, last) = (format.dtypes[0], format.dtypes[format.dtypes.len() - 1]);
    let mut maps = vec![
        TensorMap::new(),
        [("0", tensor(first, &[]))].into_iter().collect(),
        [("0", tensor(last, &[2, 3]))].into_iter().collect(),
        [("a", tensor(first, &[2, 3])), ("b.c", tensor(last, &[0, 4])), ("ä", tensor(last, &[5]))]
            .into_iter()
            .collect(),
        [("encoder.weight", tensor(last, &[1, 2, 1])), ("encoder.bias", tensor(first, &[3]))].into_iter().collect(),
        // Headers like the one before are not parsed.
        ["l.0", "l.1", "l.2", "l.3"].map(|name| (name, tensor(first, &[2]))).into_iter().collect(),
    ];
    if format.sparse {
        maps.push([("0", sparse()), ("1", tensor(first, &[1]))].into_iter().collect());
    }
    maps.retain(|map| holds(format, map));
    maps.into_iter().map(|map| (in_written_order(format, &map), file_of(format, &map))).collect()
}

/// Small files with payloads that do not lie in them as they are, which formats read, but write on request only.
pub fn packed_samples(format: &Format) -> Vec<(TensorMap, Vec<u8>)> {
    #[cfg(feature = "npy")]
    let map = |tensor| -> TensorMap { [("0", tensor)].into_iter().collect() };
    match format.name {
        #[cfg(feature = "npy")]
        "npy" => {
            let numbers = Tensor::from_slice(&[0x0102_u16, 0x0304], [2]).unwrap();
            let file = format.to_vec(&map(numbers), &WriteOptions::new()).unwrap();
            let file = file.iter().map(|byte| if *byte == b'<' { b'>' } else { *byte }).collect();
            vec![(map(Tensor::from_slice(&[0x0201_u16, 0x0403], [2]).unwrap()), file)]
        }
        #[cfg(feature = "npz")]
        "npz" => {
            let map = map(tensor(tensorfile::Dtype::I32, &[2, 3]));
            let file = tensorfile::npz::Options::new().compress(true).to_vec(&map).unwrap();
            vec![(map, file)]
        }
        #[cfg(feature = "pytorch")]
        "pytorch" => {
            let folder = crate::support::root().join("tests/fixtures/pytorch");
            let files = ["tensor.pt", "views.pt", "big_endian.pt", "legacy_views.pth"];
            let files = files.map(|name| std::fs::read(folder.join(name)).unwrap());
            files.map(|file| (format.from_slice(&file).unwrap(), file)).into()
        }
        _ => Vec::new(),
    }
}
