//! Writes arbitrary collections of tensors in every format, and reads them back.

use tensorfile::{Category, FORMATS, File, Format, Layout, Tensor, TensorMap, WriteOptions};

use crate::budget::bounded_output;
use crate::input::Input;
use crate::read::read_map;
use crate::rows::{of_reader, of_slice, open};

pub fn run(input: &[u8]) {
    let mut input = Input(input);
    let options = input.options();
    let map = input.map();
    for format in FORMATS {
        write(format, &map, &options);
    }
    // A last tensor that begins as a list of names does, which is true of some of its names.
    if map.len().is_multiple_of(4) {
        let mut list = b"tensorfile.names.v1\0".to_vec();
        let names = map.names().step_by(1 + map.len() % 3);
        list.extend(names.flat_map(|name| name.bytes().chain([0])));
        let mut map = map.clone();
        map.insert(map.len().to_string(), Tensor::from_slice(&list, [list.len()]).unwrap());
        for format in FORMATS {
            write(format, &map, &options);
        }
    }
}

fn write(format: &'static Format, map: &TensorMap, options: &WriteOptions) {
    let bytes: usize = map.iter().map(|(name, tensor)| tensor.as_bytes().len() + name.len() + 8).sum();
    // Padding to a large alignment is longer than the tensors.
    let planned = format.file_bytes(map, options).unwrap_or(0) as usize;
    let file = match bounded_output("writing", 2 * bytes, planned, || format.to_vec(map, options)) {
        Ok(file) => file,
        Err(error) => {
            assert_eq!(error.category(), Category::Call, "{}: {error:?}", format.name);
            let mut written = Vec::new();
            assert!(format.to_writer(&mut written, map, options).is_err());
            assert!(written.is_empty(), "{}: something was written before {error}", format.name);
            return;
        }
    };
    let name = format.name;
    assert_eq!(format.file_bytes(map, options).unwrap(), file.len() as u64, "{name}: the planned length");
    let mut written = Vec::new();
    format.to_writer(&mut written, map, options).unwrap();
    assert!(written == file, "{name}: a writer gives other bytes");

    let read = read_map(of_slice(format, &file)).unwrap_or_else(|error| panic!("{name}: {error:?}: {map:?}"));
    same(format, map, &read, options.embed_names == Some(true));
    assert_eq!(read_map(of_reader(format, &file[..], file.len())).unwrap(), read, "{name}: from a stream");
    let opened = open(format, file.len()).from_bytes(file.clone()).unwrap();
    assert_eq!(opened.load::<TensorMap>().unwrap(), read, "{name}: opened");

    // The same file again, from the tensors that were read, in memory and in the file.
    let again = |tensors: &dyn tensorfile::Tensors| format.to_vec(tensors, options);
    if keeps_names(&opened, &read) {
        assert!(again(&read).unwrap() == file, "{name}: what was read gives other bytes: {options:?} {map:?}");
        assert!(again(&opened).unwrap() == file, "{name}: the file gives other bytes: {options:?} {map:?}");
    }
}

/// Returns whether a file stores all names. Otherwise names are positions.
fn keeps_names(file: &File, map: &TensorMap) -> bool {
    file.len() == map.len()
}

/// Compares the tensors read with the tensors written.
fn same(format: &Format, written: &TensorMap, read: &TensorMap, with_names: bool) {
    assert_eq!(written.len(), read.len(), "{}", format.name);
    let mut read: Vec<(&String, &Tensor)> = read.iter().collect();
    if format.name == "safetensors" {
        // Several dtypes are written in an order of their own, which tests compare with that of the crate.
        read.sort_by_key(|(name, _)| written.names().position(|written| written == *name));
    }
    for ((old_name, old), (new_name, new)) in written.iter().zip(read) {
        let has_name = with_names || format.max_name != Some(0);
        assert!(!has_name || old_name == new_name, "{}: `{old_name}` became `{new_name}`", format.name);
        assert_eq!((old.dtype(), old.shape()), (new.dtype(), new.shape()), "{}: `{old_name}`", format.name);
        let is_same = match (old.layout(), new.layout()) {
            (one, other) if one == other => old.as_bytes() == new.as_bytes(),
            _ => row_major(old) == row_major(new),
        };
        assert!(is_same, "{}: `{old_name}` was {old:?} and is {new:?}", format.name);
    }
}

/// Returns the elements in row-major order.
fn row_major(tensor: &Tensor) -> Vec<u8> {
    let info = tensorfile::TensorInfo { layout: Layout::RowMajor, ..tensor.info().clone() };
    // Together these formats store all tensors, in row-major order. An only tensor of npy has no name, and is read as
    // `0`.
    let stores = |format: &&'static Format| {
        format.dtypes.contains(&tensor.dtype()) && format.max_rank.is_none_or(|most| tensor.shape().rank() <= most)
    };
    let mut formats = ["ptd", "safetensors", "npy"].into_iter().map(|name| Format::named(name).unwrap());
    let format = formats.find(stores).unwrap();
    let file = format.to_vec(&TensorMap::from_iter([("0", tensor.clone())]), &WriteOptions::new()).unwrap();
    let map: TensorMap = format.from_slice(&file).unwrap();
    assert_eq!(*map["0"].info(), info);
    map["0"].as_bytes().to_vec()
}

/// Options and collections, as bytes of an input.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![vec![0; 8]];
    for options in 0..32 {
        for kind in [2, 18, 34, 50, 15] {
            // Two tensors, named by a part each.
            let seed =
                [&[options, 4, 3, 2, 0, 5, kind, options % 29, 3, 2, 1, 1, 9, 9, 9, 9, 2, 0, 6][..], &[kind; 20]];
            seeds.push(seed.concat());
        }
    }
    seeds
}
