//! The memory that reading and writing take.

use tensorfile::WriteOptions;

use crate::support::memory::peak;
use crate::support::tensor;

#[test]
fn a_file_in_memory_is_written_and_read_with_one_copy() {
    for format in tensorfile::FORMATS {
        let map: tensorfile::TensorMap = [("0", tensor(format.dtypes[0], &[1 << 20]))].into_iter().collect();
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
    for format in tensorfile::FORMATS {
        let large = |_| tensor(format.dtypes[0], &[1_100_000]);
        let map: tensorfile::TensorMap =
            (0..format.max_tensors.unwrap_or(16)).map(|at| (at.to_string(), large(at))).collect();
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
