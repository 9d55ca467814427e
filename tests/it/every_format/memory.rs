//! The memory that reading and writing take.

use tensorfile::{File, TensorMap, WriteOptions};

use crate::support::memory::{kept, peak};
use crate::support::{multi_tensor_formats, tensor, written_formats};

#[test]
fn a_file_in_memory_is_written_and_read_with_one_copy() {
    for format in written_formats() {
        let map: TensorMap = [("0", tensor(format.dtypes[0], &[1 << 20]))].into_iter().collect();
        let bytes = map["0"].as_bytes().len();
        let (file, used) = peak(|| format.to_vec(&map, &WriteOptions::new()).unwrap());
        assert!(used < bytes + 4096, "{}: writing took {used} bytes for {bytes}", format.name);
        let (read, used) = peak(|| format.from_slice(&file).unwrap());
        assert!(used < bytes + 4096, "{}: reading took {used} bytes for {bytes}", format.name);
        assert!(read == map);
    }
}

#[test]
fn a_stream_is_written_without_a_copy_and_read_with_no_more_than_two() {
    const BUFFERS: usize = 3 << 20;
    for format in written_formats() {
        let large = |_| tensor(format.dtypes[0], &[1_100_000]);
        let map: TensorMap = (0..format.max_tensors.unwrap_or(16)).map(|at| (at.to_string(), large(at))).collect();
        let bytes: usize = map.iter().map(|(_, tensor)| tensor.as_bytes().len()).sum();
        let ((), used) = peak(|| format.to_writer(std::io::sink(), &map, &WriteOptions::new()).unwrap());
        assert!(used < BUFFERS, "{}: writing took {used} bytes", format.name);
        let file = format.to_vec(&map, &WriteOptions::new()).unwrap();
        let (read, used) = peak(|| format.from_reader(&file[..]).unwrap());
        // A file whose index or names come last is held in memory until then, but only once.
        assert!(used < bytes * 9 / 4 + BUFFERS, "{}: reading took {used} bytes for {bytes}", format.name);
        assert!(read == map);
    }
}

/// The memory that the index of an open file may take for each tensor, with a name of 24 bytes.
const PER_TENSOR: usize = 100;

/// The memory that opening may take for each of these tensors.
const OPENING: usize = 200;

#[test]
fn an_index_takes_little_memory_for_each_tensor() {
    const TENSORS: usize = 50_000;
    let folder = tempfile::tempdir().unwrap();
    for format in multi_tensor_formats() {
        let one = tensor(format.dtypes[0], &[4]);
        let name = |at: usize| format!("model.layers.{at:04}.weight");
        let map: TensorMap = (0..TENSORS).map(|at| (name(at), one.clone())).collect();
        let path = folder.path().join("many").with_extension(format.extensions[0]);
        let file = format.to_vec(&map, &WriteOptions::new().embed_names(format.max_name.is_some())).unwrap();
        std::fs::write(&path, file).unwrap();
        let ((file, used), held) = kept(|| peak(|| File::open(&path).unwrap()));
        assert_eq!(file.get(&name(TENSORS - 1)).unwrap().position(), TENSORS - 1, "{}", format.name);
        assert!(held <= PER_TENSOR * TENSORS, "{}: {} bytes for each are held", format.name, held / TENSORS);
        // A stream of tensors does not tell how many there are, so its list grows. Where it cannot grow in place, as
        // counted here, it is there twice for a moment.
        let more = match format.name {
            "ten" => PER_TENSOR,
            // All values of a pickle are there before the index is made.
            "pytorch" => 1000,
            _ => 0,
        };
        let most = (OPENING + more) * TENSORS;
        assert!(used <= most, "{}: opening takes {} bytes for each", format.name, used / TENSORS);
    }
}
