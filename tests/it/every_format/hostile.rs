//! Damaged files. Reading returns an error or a value, never panics, and takes memory in proportion to the file.

use std::collections::BTreeSet;

use tensorfile::file::Backend;
use tensorfile::{Category, ErrorKind, FORMATS, File, Format, OpenOptions, Result, TensorMap, WriteOptions};

use super::packed_samples;
use crate::support::memory::peak;
use crate::support::{Dribble, in_written_order, root};

/// Additional memory allowed for reading: the buffer of a stream, and the first piece of a payload.
const BUFFERS: usize = (256 << 10) + (1 << 20) + (64 << 10);

/// Reads a file from memory and from a stream, and checks that the results agree. Returns the value, if it is one.
#[track_caller]
fn read(format: &Format, file: &[u8], what: &str) -> Option<TensorMap> {
    let what = format!("{}, {what}", format.name);
    let (slice, used) = peak(|| format.from_slice(file));
    assert!(used < 32 * file.len() + (64 << 10), "{what}: reading {} bytes took {used}", file.len());
    let (stream, used) = peak(|| format.from_reader(file));
    assert!(used < 32 * file.len() + BUFFERS, "{what}: reading {} bytes from a stream took {used}", file.len());
    for error in [&slice, &stream].into_iter().filter_map(|result| result.as_ref().err()) {
        // Names may repeat in a file, but not in the map that it is read as.
        let is_ambiguous =
            ["ten", "tensorbuffers"].contains(&format.name) && matches!(error.kind(), ErrorKind::AmbiguousName { .. });
        // Any byte may be read as a dtype.
        let is_unknown = matches!(error.kind(), ErrorKind::Unsupported { .. });
        assert!(
            is_ambiguous || is_unknown || matches!(error.category(), Category::File | Category::Limit),
            "{what}: {error:?}"
        );
        assert!(error.to_string().starts_with(&format!("{}: ", format.name)), "{what}: {error}");
        let is_within = error.offset().is_none_or(|offset| offset <= file.len() as u64);
        assert!(is_within || error.to_string().contains("needs"), "{what}: {error}, of {} bytes", file.len());
    }
    match (slice, stream) {
        (Ok(slice), Ok(stream)) => {
            assert_eq!(slice, stream, "{what}");
            check(format, &slice, &what);
            Some(slice)
        }
        (Err(_), Err(_)) => None,
        // A stream may not tell where a tensor of an unknown dtype ends.
        (Ok(slice), Err(error)) if matches!(error.kind(), ErrorKind::UnknownDtype { .. }) => {
            check(format, &slice, &what);
            Some(slice)
        }
        (slice, stream) => panic!("{what}: a slice gave\n{slice:?}\nand a stream\n{stream:?}"),
    }
}

/// The samples of a format, and its compressed samples.
fn all_samples(format: &Format) -> Vec<(TensorMap, Vec<u8>)> {
    [super::samples(format), packed_samples(format)].concat()
}

/// Checks that the tensors of a value are valid, and that it is the same after writing and reading.
#[track_caller]
fn check(format: &Format, map: &TensorMap, what: &str) {
    for (_, tensor) in map {
        assert_eq!(tensor.info().payload_bytes(), Some(tensor.as_bytes().len()), "{what}");
        tensorfile::TensorView::new(tensor.info().clone(), tensor.as_bytes()).unwrap();
    }
    match format.to_vec(map, &WriteOptions::new().embed_names(true).keep_dim_order(true)) {
        Ok(file) => {
            let (read, written) = (format.from_slice(&file).unwrap(), in_written_order(format, map));
            #[cfg(feature = "pytorch")]
            if format.name == "pytorch" {
                // A dim of length 1 may have any stride, and so no place in the order.
                use crate::formats::pytorch::all_row_major;
                return assert_eq!(all_row_major(&read), all_row_major(&written), "{what}");
            }
            assert_eq!(read, written, "{what}");
        }
        // Readers take more than writers may write, such as rank 10 of ten.
        Err(error) => assert_eq!(error.category(), Category::Call, "{what}: {error}"),
    }
}

#[test]
fn every_cut() {
    for format in FORMATS {
        for (map, file) in all_samples(format) {
            for len in 0..file.len() {
                let Some(read) = read(format, &file[..len], &format!("cut at {len} of {}", file.len())) else {
                    continue;
                };
                // A cut file has the first tensors of the whole file.
                assert!(read.len() <= map.len());
                for ((_, read), (_, whole)) in read.iter().zip(&map) {
                    assert_eq!(read, whole, "{}, cut at {len}", format.name);
                }
            }
            assert_eq!(read(format, &file, "whole"), Some(map));
        }
    }
}

#[test]
fn every_bit_flipped() {
    for format in FORMATS {
        for (_, file) in all_samples(format) {
            let mut flipped = file.clone();
            for at in 0..file.len() {
                for bit in 0..8 {
                    flipped[at] ^= 1 << bit;
                    read(format, &flipped, &format!("bit {bit} of byte {at} flipped"));
                    flipped[at] = file[at];
                }
            }
        }
    }
}

#[test]
fn every_number_replaced() {
    let numbers: Vec<u64> = [0, 1, 2, 7, 8, 16, 24, 63, 64, 65]
        .into_iter()
        .chain([1 << 16, 1 << 20, 1 << 28, u64::from(u32::MAX), 1 << 32, 1 << 40, 1 << 60, 1 << 61, 1 << 62, 1 << 63])
        .chain([i64::MAX as u64, (1 << 63) + 1, u64::MAX - 63, u64::MAX - 15, u64::MAX - 7, u64::MAX])
        .collect();
    for format in FORMATS {
        for (_, file) in all_samples(format) {
            let mut replaced = file.clone();
            for at in (0..file.len().saturating_sub(7)).step_by(4) {
                for number in &numbers {
                    replaced[at..at + 8].copy_from_slice(&number.to_le_bytes());
                    read(format, &replaced, &format!("{number} at byte {at}"));
                    replaced[at..at + 4].copy_from_slice(&(*number as u32).to_le_bytes());
                    replaced[at + 4..at + 8].copy_from_slice(&file[at + 4..at + 8]);
                    read(format, &replaced, &format!("{number} in 32 bits at byte {at}"));
                    replaced[at..at + 8].copy_from_slice(&file[at..at + 8]);
                }
            }
        }
    }
}

/// The index and all tensors of a file, or the message of the first error.
fn contents(file: Result<File>) -> Result<Vec<String>, String> {
    let read = |file: File| file.tensors().map(|tensor| Ok(format!("{tensor:?} {:?}", tensor.read()?))).collect();
    file.and_then(read).map_err(|error: tensorfile::Error| error.without_path().to_string())
}

#[test]
fn numbers_past_the_end_of_files_that_are_read_at_positions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let numbers = [i64::MAX as u64 - 7, 1 << 63, (1 << 63) + 8, u64::MAX - 15, u64::MAX - 7, u64::MAX];
    for format in FORMATS {
        let options = OpenOptions::new().format(format);
        let positioned = options.clone().backend(Backend::Positioned);
        for (_, file) in all_samples(format) {
            let mut replaced = file.clone();
            for at in (0..file.len().saturating_sub(7)).step_by(4) {
                for number in numbers {
                    replaced[at..at + 8].copy_from_slice(&number.to_le_bytes());
                    std::fs::write(&path, &replaced).unwrap();
                    let what = format!("{}: {number} at byte {at}", format.name);
                    assert_eq!(
                        contents(positioned.open(&path)),
                        contents(options.from_bytes(replaced.clone())),
                        "{what}"
                    );
                    replaced[at..at + 8].copy_from_slice(&file[at..at + 8]);
                }
            }
        }
    }
}

#[test]
fn bytes_put_in_and_taken_out() {
    for format in FORMATS {
        for (_, file) in all_samples(format) {
            for at in 0..=file.len() {
                for len in [1, 8, 64] {
                    let mut longer = file.clone();
                    longer.splice(at..at, std::iter::repeat_n(0, len));
                    read(format, &longer, &format!("{len} bytes put in at {at}"));
                    let mut shorter = file.clone();
                    shorter.drain(at..(at + len).min(file.len()));
                    read(format, &shorter, &format!("{len} bytes taken out at {at}"));
                }
            }
        }
    }
}

#[test]
fn files_in_a_row() {
    for format in FORMATS {
        let samples = all_samples(format);
        for (_, first) in &samples {
            for (_, second) in &samples {
                read(format, &[&first[..], second].concat(), "two files");
            }
        }
    }
}

#[test]
fn bytes_of_no_format() {
    for format in FORMATS {
        for (what, bytes) in [
            ("zeros", vec![0; 4096]),
            ("ones", vec![1; 4096]),
            ("all bits", vec![0xff; 4096]),
            ("text", b"The quick brown fox jumps over the lazy dog. ".repeat(50)),
            ("numbers", (0..2048_u64).flat_map(u64::to_le_bytes).collect()),
            ("eights", std::iter::repeat_n(8_u64, 2048).flat_map(u64::to_le_bytes).collect()),
        ] {
            for len in [1, 7, 8, 9, 16, 24, 64, 100, 1000, bytes.len()] {
                read(format, &bytes[..len], &format!("{len} bytes of {what}"));
            }
        }
    }
}

#[test]
fn errors_do_not_depend_on_the_pieces_of_a_stream() {
    for format in FORMATS {
        for (_, file) in all_samples(format) {
            for at in (0..file.len()).step_by(3) {
                let mut wrong = file.clone();
                wrong[at] ^= 0x41;
                let whole = format.from_reader(&wrong[..]).map_err(|error| error.to_string());
                let pieces = format.from_reader(Dribble::in_sizes(&wrong, &[1, 5])).map_err(|error| error.to_string());
                assert_eq!(whole, pieces, "{}, byte {at}", format.name);
            }
        }
    }
}

/// Returns the kinds of errors that the docs of a format's `from_slice` list as its own.
fn documented_kinds(format: &Format) -> BTreeSet<String> {
    let folder = if format.name.starts_with("np") { "numpy/" } else { "" };
    kinds_in_docs(&format!("{folder}{}/mod.rs", format.name))
}

/// Returns the kinds of errors that the docs of the first `from_slice` of a source list.
fn kinds_in_docs(path: &str) -> BTreeSet<String> {
    let source = std::fs::read_to_string(root().join("src/format").join(path)).unwrap();
    let (docs, _) = source.split_once("pub fn from_slice<").unwrap();
    let (_, list) = docs.rsplit_once("/// # Errors\n").unwrap();
    list.split("[`ErrorKind::").skip(1).map(|rest| rest.split_once('`').unwrap().0.to_owned()).collect()
}

/// The kinds in the docs that damage to a few bytes of the samples does not lead to.
const RARE_KINDS: &[(&str, &str)] =
    &[("npy", "InvalidTensor"), ("ptd", "UnknownDtype"), ("pytorch", "AmbiguousName"), ("pytorch", "DuplicateName")];

#[test]
fn the_docs_list_the_errors_of_damaged_files() {
    let mut wrong = Vec::new();
    // `Options` has the errors of every format.
    let common = kinds_in_docs("options.rs");
    let mut common_found = BTreeSet::from(["Limit".to_owned(), "Load".to_owned()]);
    for format in FORMATS {
        let mut found = BTreeSet::new();
        let mut read = |file: &[u8]| {
            for error in [format.from_slice(file).err(), format.from_reader(file).err()].into_iter().flatten() {
                let kind = format!("{:?}", error.kind());
                found.insert(kind.split([' ', '(', '{']).next().unwrap().to_owned());
            }
        };
        for (_, file) in all_samples(format) {
            (0..file.len()).for_each(|len| read(&file[..len]));
            read(&[&file[..], b"more"].concat());
            let mut damaged = file.clone();
            for (at, byte) in file.iter().enumerate() {
                for value in [0, 1, 0xff, byte ^ 1, byte ^ 0x40] {
                    damaged[at] = value;
                    read(&damaged);
                }
                damaged[at] = *byte;
            }
        }
        let mut documented = documented_kinds(format);
        for kind in found.iter().filter(|kind| !documented.contains(*kind) && !common.contains(*kind)) {
            wrong.push(format!("{}: the docs lack {kind}", format.name));
        }
        documented.retain(|kind| !RARE_KINDS.contains(&(format.name, kind)));
        documented.retain(|kind| !["Limit", "Load"].contains(&&**kind));
        for kind in documented.difference(&found) {
            wrong.push(format!("{}: no damage leads to {kind}, which is in the docs", format.name));
        }
        common_found.extend(found);
    }
    wrong.extend(common.difference(&common_found).map(|kind| format!("no damage of any format leads to {kind}")));
    assert!(wrong.is_empty(), "the docs of `from_slice`: {wrong:#?}");
}
