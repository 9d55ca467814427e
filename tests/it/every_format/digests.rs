//! Digests of files do not depend on how the files are stored and read.

use std::io::Cursor;
use std::path::Path;

use tensorfile::digest::Digest;
use tensorfile::digest::TensorDigester;
use tensorfile::file::Backend;
use tensorfile::model::TensorData;
use tensorfile::{Dtype, FORMATS, File, Format, OpenOptions, Result, TensorInfo, TensorMap, WriteOptions};

use super::{packed_samples, samples};
use crate::support::{folder, tensor, written_formats};

const MIB: usize = 1 << 20;

/// Files of one tensor that is large enough for several threads.
fn large_samples() -> impl Iterator<Item = (&'static Format, TensorMap, Vec<u8>)> {
    written_formats().filter(|format| format.dtypes.contains(&Dtype::I32)).map(|format| {
        let map = TensorMap::from_iter([("0", tensor(Dtype::I32, &[3, (1 << 18) + 11]))]);
        let file = format.to_vec(&map, &WriteOptions::new()).unwrap();
        (format, map, file)
    })
}

fn all_samples() -> impl Iterator<Item = (&'static Format, TensorMap, Vec<u8>)> {
    let small = FORMATS.iter().flat_map(|format| {
        let samples = [samples(format), packed_samples(format)].concat();
        samples.into_iter().map(|(map, file)| (*format, map, file))
    });
    small.chain(large_samples())
}

/// Opens a file in all ways.
fn opened(format: &'static Format, path: &Path, bytes: &[u8]) -> Vec<File> {
    let options = OpenOptions::new().format(format);
    let on_disk =
        [Backend::Mapped, Backend::Positioned].map(|backend| options.clone().backend(backend).open(path).unwrap());
    let others = [options.from_bytes(bytes.to_vec()), options.from_reader(Cursor::new(bytes.to_vec()))];
    on_disk.into_iter().chain(others.map(Result::unwrap)).collect()
}

#[test]
fn digests_are_those_of_the_tensors_in_memory() {
    let folder = folder(true);
    let path = folder.path().join("file");
    for (format, map, bytes) in all_samples() {
        std::fs::write(&path, &bytes).unwrap();
        for file in opened(format, &path, &bytes) {
            assert_eq!(file.len(), map.len());
            for tensor in file.tensors() {
                let (expected, mut counted) = (Digest::new(&map[tensor.name()].as_view()), 0);
                let what = format!("{}: {}", format.name, tensor.info());
                assert_eq!(tensor.digest_with(&mut |bytes| counted += bytes).unwrap(), expected, "{what}");
                assert_eq!(counted, tensor.payload_bytes(), "{what}");
                assert_eq!(tensor.digest().unwrap(), expected, "{what}");
            }
        }
    }
}

/// Computes a digest from the payload in order.
fn in_order(info: &TensorInfo, data: &dyn TensorData) -> Result<Digest> {
    let mut digester = TensorDigester::new(info);
    data.write_to(&mut digester)?;
    Ok(digester.finish()?)
}

#[test]
fn a_file_that_shrinks_is_the_same_error_as_if_it_is_read_in_order() {
    let folder = folder(true);
    let path = folder.path().join("file");
    let positioned = OpenOptions::new().backend(Backend::Positioned);
    for (format, _, bytes) in all_samples() {
        // The headers were read before.
        for len in (0..bytes.len()).step_by(if bytes.len() < MIB { 17 } else { MIB / 3 }) {
            std::fs::write(&path, &bytes).unwrap();
            let file = positioned.clone().format(format).open(&path).unwrap();
            std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(len as u64).unwrap();
            for tensor in file.tensors() {
                let what = format!("{}: {} in {len} of {} bytes", format.name, tensor.info(), bytes.len());
                match (tensor.digest(), in_order(tensor.info(), &tensor)) {
                    (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{what}"),
                    (Err(found), Err(expected)) => {
                        assert_eq!(found.to_string(), expected.to_string(), "{what}");
                        assert_eq!((found.tensor(), found.offset()), (expected.tensor(), expected.offset()), "{what}");
                        assert!(found.tensor().is_some() && found.offset().is_some(), "{what}: {found}");
                    }
                    (found, expected) => panic!("{what}: {found:?}, not {expected:?}"),
                }
            }
        }
    }
}
