//! Indexes read from streams equal the indexes read from files, and so do errors.

use std::io::{self, Read};

use tensorfile::{ErrorKind, File, Format, OpenOptions, Result, TensorMap, WriteOptions};

use crate::support::memory::peak;
use crate::support::{multi_tensor_formats, tensor, written_formats};

/// The beginning of the error for files whose index is not read in order.
pub const NOT_IN_ORDER: &str = "cannot read the index of a stream that cannot be read in order";

/// Returns whether a format has its index before the payloads, or between them.
pub fn is_in_order(format: &Format) -> bool {
    !["tensorbuffers", "npz", "pytorch"].contains(&format.name)
}

/// Files longer and shorter than the beginning that is read to find the format.
pub fn files(format: &Format) -> Vec<Vec<u8>> {
    let [first, last] = [format.dtypes.first(), format.dtypes.last()].map(|dtype| *dtype.unwrap());
    let large = [("a", tensor(first, &[20_000])), ("b.c", tensor(last, &[3])), ("d", tensor(last, &[0, 4]))];
    let maps: [TensorMap; 3] = [
        large.into_iter().chain([("e", tensor(first, &[9_000]))]).collect(),
        [("0", tensor(first, &[30_000]))].into_iter().collect(),
        [("0", tensor(first, &[2, 3]))].into_iter().collect(),
    ];
    let holds = |map: &&TensorMap| format.max_tensors.is_none_or(|count| map.len() == count);
    let file = |map: &TensorMap| {
        let entry = ("general.name".to_owned(), "tiny".to_owned());
        let options = WriteOptions::new().embed_names(format.max_name.is_some());
        let options = if format.keeps_metadata(&entry.0) { options.metadata([entry].into()) } else { options };
        format.to_vec(map, &options).unwrap()
    };
    maps.iter().filter(holds).map(file).collect()
}

/// Everything known about a file without its payloads.
fn shown(file: Result<File>) -> String {
    let file = match file {
        Ok(file) => file,
        Err(error) => return format!("{error}, at {:?}", error.offset()),
    };
    let tensors: Vec<_> = file.tensors().map(|tensor| (tensor.name(), tensor.info(), tensor.range())).collect();
    let metadata = file.metadata().map(|metadata| (metadata.version, metadata.entries, metadata.warnings));
    format!("{} of {} bytes: {tensors:?}, {metadata:?}", file.format().name, file.file_bytes())
}

#[track_caller]
fn compare(format: &'static Format, file: &[u8], what: &str) {
    let from_stream = shown(OpenOptions::new().read_index(file));
    if is_in_order(format) || !from_stream.contains(NOT_IN_ORDER) {
        // From a long stream, the format is known even if the end is missing.
        let options = if file.len() < 8 << 10 { OpenOptions::new() } else { OpenOptions::new().format(format) };
        assert_eq!(from_stream, shown(options.from_bytes(file.to_vec())), "{}, {what}", format.name);
    }
}

#[test]
fn whole_and_cut_files_are_as_in_memory() {
    for format in written_formats() {
        for file in files(format) {
            compare(format, &file, "whole");
            compare(format, &[&file[..], b"more"].concat(), "with bytes after the end");
            let (step, last) = (file.len() / 100 + 1, file.len() - 1);
            for len in (0..300.min(last)).chain((0..last).step_by(step)).chain([last]) {
                compare(format, &file[..len], &format!("cut at {len} of {}", file.len()));
            }
        }
    }
}

#[test]
fn damaged_files_are_as_in_memory_or_refused_too() {
    for format in written_formats().filter(|format| is_in_order(format)) {
        let mut file = files(format).remove(0);
        for at in (0..200).chain(file.len() - 300..file.len()) {
            for value in [0, 1, 0x7f, 0xff] {
                let old = std::mem::replace(&mut file[at], value);
                let in_memory = OpenOptions::new().from_bytes(file.clone());
                // A damaged offset can put tensors in another order, and the end of an unknown dtype may be that of the
                // file.
                match OpenOptions::new().read_index(&file[..]) {
                    Ok(from_stream) => assert_eq!(shown(Ok(from_stream)), shown(in_memory), "{} at {at}", format.name),
                    Err(error) if error.to_string().contains(NOT_IN_ORDER) => {}
                    Err(error) if matches!(error.kind(), ErrorKind::UnknownDtype { .. }) => {}
                    Err(error) => assert!(in_memory.is_err(), "{} at {at}: {error}", format.name),
                }
                file[at] = old;
            }
        }
    }
}

#[test]
fn elements_that_were_passed_over_cannot_be_read() {
    for format in written_formats().filter(|format| is_in_order(format)) {
        let file = OpenOptions::new().read_index(&files(format)[0][..]).unwrap();
        let large = file.tensors().max_by_key(|tensor| tensor.payload_bytes()).unwrap();
        let error = large.read().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains("they were passed over"), "{}: {error}", format.name);
    }
}

#[test]
fn formats_with_an_index_at_the_end_are_refused_at_once() {
    for format in written_formats().filter(|format| !is_in_order(format)) {
        let file = files(format).remove(0);
        let mut stream = Counted { file: &file, read: 0 };
        let error = OpenOptions::new().read_index(&mut stream).unwrap_err();
        // What tells the archives of PyTorch is at their end.
        let name = if format.name == "pytorch" { "npz" } else { format.name };
        assert_eq!(error.to_string(), format!("{name}: {NOT_IN_ORDER}; all of it has to be in memory or in a file"));
        assert!(stream.read < 16 << 10, "{}: {} bytes were read", format.name, stream.read);
    }
}

#[test]
fn errors_of_the_stream_have_the_offset() {
    struct Broken;

    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the line is dead"))
        }
    }

    for format in written_formats().filter(|format| is_in_order(format)) {
        let file = files(format).remove(0);
        let error = OpenOptions::new().read_index(file[..20_000].chain(Broken)).unwrap_err();
        assert!(error.to_string().ends_with("the line is dead (at byte 20000)"), "{}: {error}", format.name);
    }
}

#[test]
fn memory_is_that_of_the_index() {
    for format in multi_tensor_formats().filter(|format| is_in_order(format)) {
        let large = |at: usize| (format!("t{at}"), tensor(format.dtypes[0], &[1 << 20]));
        let map: TensorMap = (0..8).map(large).collect();
        let options = WriteOptions::new().embed_names(format.max_name.is_some());
        let file = format.to_vec(&map, &options).unwrap();
        let (opened, used) = peak(|| OpenOptions::new().read_index(&file[..]).unwrap());
        assert_eq!(opened.len(), 8);
        // The buffer of a stream, and little else.
        assert!(used < 512 << 10, "{}: {used} bytes for a file of {}", format.name, file.len());
    }
}

/// Counts the bytes that are read.
struct Counted<'a> {
    file: &'a [u8],
    read: usize,
}

impl Read for Counted<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(bytes)?;
        self.read += read;
        Ok(read)
    }
}
