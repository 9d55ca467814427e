//! Round trips of values through every way of writing and reading.

use tensorfile::{Dtype, Format, Layout, Tensor, TensorInfo, TensorMap, WriteOptions};

use super::{file_of, holds, samples, sparse};
use crate::support::{Dribble, in_written_order, multi_tensor_formats, tensor, written_formats};

const SHAPES: &[&[usize]] = &[
    &[],
    &[0],
    &[1],
    &[7],
    &[64],
    &[2, 3],
    &[0, 3],
    &[3, 0],
    &[2, 3, 4],
    &[2, 0, 4],
    &[1, 1, 1],
    &[2, 3, 1, 2],
    &[0, 0, 0, 0],
];

/// Checks that every way to read a file returns the map.
#[track_caller]
fn assert_reads(format: &Format, file: &[u8], map: &TensorMap, what: &str) {
    assert_eq!(format.from_slice(file).unwrap(), *map, "{}, {what}", format.name);
    assert_eq!(format.from_reader(file).unwrap(), *map, "{}, {what}, from a stream", format.name);
    for sizes in [&[1][..], &[2, 1, 3], &[7, 64, 1], &[63], &[65, 1, 4096]] {
        let read = format.from_reader(Dribble::in_sizes(file, sizes)).unwrap();
        assert_eq!(read, *map, "{}, {what}, from a stream in pieces of {sizes:?}", format.name);
    }
}

/// Sends a map through a format that holds it, by every way, and compares the bytes of all of them.
#[track_caller]
fn assert_round_trips(format: &Format, map: &TensorMap, what: &str) {
    if !holds(format, map) {
        return;
    }
    let file = file_of(format, map);
    let written = &in_written_order(format, map);
    assert_reads(format, &file, written, what);
    assert_eq!(file_of(format, map), file, "{}, {what}: the same value gives the same bytes", format.name);
    let read = format.from_slice(&file).unwrap();
    assert_eq!(file_of(format, &read), file, "{}, {what}: what was read gives the same bytes", format.name);

    let with_names = format.to_vec(map, &WriteOptions::new().embed_names(true)).unwrap();
    assert_reads(format, &with_names, written, what);
    let mut written = Vec::new();
    format.to_writer(&mut written, map, &WriteOptions::new().embed_names(true)).unwrap();
    assert_eq!(written, with_names, "{}, {what}", format.name);
    if let Ok(plain) = format.to_vec(map, &WriteOptions::new()) {
        let mut written = Vec::new();
        format.to_writer(&mut written, map, &WriteOptions::new()).unwrap();
        assert_eq!(written, plain, "{}, {what}", format.name);
    }
}

#[test]
fn headers_that_are_nearly_the_same_take_turns() {
    for format in multi_tensor_formats() {
        let kinds = [
            (Dtype::F32, &[2, 3][..]),
            (Dtype::F32, &[3, 2]),
            (Dtype::I32, &[2, 3]),
            (Dtype::F64, &[2, 3]),
            (Dtype::F32, &[6]),
            (Dtype::F32, &[0, 3]),
        ];
        let kinds: Vec<_> = kinds.into_iter().filter(|(dtype, _)| format.dtypes.contains(dtype)).collect();
        // By ones, twos, threes …, each of them again and again.
        let turns = (1..=kinds.len()).flat_map(|count| (0..4 * count).map(move |at| at % count));
        let map = turns.enumerate().map(|(at, kind)| (format!("t{at:02}"), tensor(kinds[kind].0, kinds[kind].1)));
        assert_round_trips(format, &map.collect(), "in turns");
    }
}

#[test]
fn every_dtype_in_every_shape() {
    for format in written_formats() {
        for &dtype in format.dtypes {
            for shape in SHAPES {
                let map = [("0", tensor(dtype, shape))].into_iter().collect();
                assert_round_trips(format, &map, &format!("{dtype}{shape:?}"));
            }
        }
    }
}

#[test]
fn all_dtypes_and_shapes_in_one_file() {
    for format in written_formats() {
        let shapes = SHAPES.iter().chain(SHAPES.iter().rev());
        let both = shapes.zip(format.dtypes.iter().cycle().skip(3));
        let map = both.enumerate().map(|(at, (shape, &dtype))| (format!("t{at}"), tensor(dtype, shape))).collect();
        assert_round_trips(format, &map, "all");
    }
}

#[test]
fn every_rank_up_to_the_highest() {
    for format in written_formats() {
        for rank in 0..=format.max_rank.unwrap_or(usize::MAX).min(64) {
            let shape: Vec<usize> = (0..rank).map(|at| 1 + at % 2 * usize::from(at < 6)).collect();
            let map = [("x", tensor(format.dtypes[0], &shape))].into_iter().collect();
            assert_round_trips(format, &map, &format!("rank {rank}"));
        }
    }
}

#[test]
fn names_of_every_kind() {
    for format in written_formats() {
        let value = || tensor(format.dtypes[0], &[1]);
        for names in [
            &["a"][..],
            &["0"],
            &["7"],
            &["1", "0"],
            &["00", "01"],
            &["0", "1", "2"],
            &["a", "1"],
            &["-0", "+1"],
            &["a.b", "a.c", "a"],
            &[".", "..", ".a", "a."],
            &["a b", " ", "\t", "\n"],
            &["größe", "重み", "🦀"],
            &["e\u{301}", "é"],
            &["A", "a"],
            &["tensor/x:0", "\"", "\\", "`", "'"],
            &["a name of far more than eight bytes", "model.encoder.layers.11.attention.self.query.weight"],
            &["tensorfile.names.v1"],
        ] {
            let map = names.iter().map(|name| (*name, value())).collect();
            assert_round_trips(format, &map, &format!("{names:?}"));
        }
        let names: Vec<String> = (0..300).map(|at| format!("layers.{at}.weight")).collect();
        let map = names.into_iter().map(|name| (name, value())).collect();
        assert_round_trips(format, &map, "many names");
    }
}

#[test]
fn empty_names_are_kept() {
    for format in written_formats() {
        for names in [&["", "a"][..], &["a", ""], &[""], &["", "0"]] {
            let map: TensorMap = names.iter().map(|name| (*name, tensor(format.dtypes[0], &[1]))).collect();
            if !holds(format, &map) {
                continue;
            }
            let file = format.to_vec(&map, &WriteOptions::new().embed_names(true)).unwrap();
            assert_reads(format, &file, &map, &format!("{names:?}"));
            // Without embedded names, an empty one either comes back or is refused; or no name is stored at all.
            match format.to_vec(&map, &WriteOptions::new()) {
                Ok(file) if format.max_name != Some(0) => assert_reads(format, &file, &map, &format!("{names:?}")),
                Ok(_) => {}
                Err(error) => assert_eq!(error.category(), tensorfile::Category::Call, "{error}"),
            }
        }
    }
}

#[test]
fn files_without_tensors() {
    for format in written_formats() {
        assert_round_trips(format, &TensorMap::new(), "no tensors");
    }
}

#[test]
fn sparse_tensors() {
    for format in written_formats().filter(|format| format.sparse) {
        let map = [("0", tensor(format.dtypes[0], &[1])), ("1", sparse()), ("2", sparse())].into_iter().collect();
        assert_round_trips(format, &map, "sparse");
        let map = [("a.b", sparse()), ("c", tensor(format.dtypes[0], &[1]))].into_iter().collect();
        assert_round_trips(format, &map, "sparse");
    }
}

#[test]
fn tensors_in_another_memory_order() {
    for format in written_formats() {
        for order in [&[1_u8, 0][..], &[0, 2, 1], &[2, 1, 0], &[0, 2, 3, 1]] {
            let shape: Vec<usize> = (2..2 + order.len()).collect();
            let layout = Layout::from_dim_order(order).unwrap();
            let info = TensorInfo { layout, ..TensorInfo::new(Dtype::I8, shape) };
            let bytes: Vec<u8> = (0..info.payload_bytes().unwrap()).map(|at| at as u8).collect();
            let map: TensorMap = [("0", Tensor::new(info, &bytes).unwrap())].into_iter().collect();
            for keep in [false, true] {
                let what = format!("{}, {order:?}, kept: {keep}", format.name);
                let file = match format.to_vec(&map, &WriteOptions::new().keep_dim_order(keep)) {
                    Ok(file) => file,
                    // numpy has two orders.
                    Err(error) => {
                        assert!(
                            keep && format.name.starts_with("np") && !order.is_sorted_by(|a, b| a > b),
                            "{what}: {error}"
                        );
                        continue;
                    }
                };
                for read in [format.from_slice(&file).unwrap(), format.from_reader(&file[..]).unwrap()] {
                    // The memory order may differ, but each element has its old index.
                    let (read, written) = (&read["0"], map["0"].array::<i8>().unwrap());
                    assert_eq!(read.array::<i8>().unwrap(), written, "{what}");
                    assert!(keep || *read.layout() == Layout::RowMajor, "{what}");
                    assert!(!keep || format.name != "ptd" || read.layout() == map["0"].layout(), "{what}");
                }
            }
        }
    }
}

#[test]
fn files_larger_than_all_buffers() {
    for format in written_formats() {
        for &dtype in [format.dtypes[0], *format.dtypes.last().unwrap()].iter() {
            let map: TensorMap =
                [("0", tensor(dtype, &[3])), ("1", tensor(dtype, &[701, 1003])), ("2", tensor(dtype, &[5]))]
                    .into_iter()
                    .collect();
            if !holds(format, &map) {
                continue;
            }
            let file = format.to_vec(&map, &WriteOptions::new()).unwrap();
            assert!(format.from_slice(&file).unwrap() == map, "{}", format.name);
            for sizes in [&[usize::MAX][..], &[4099, 262_144, 1]] {
                assert!(format.from_reader(Dribble::in_sizes(&file, sizes)).unwrap() == map, "{}", format.name);
            }
            let mut written = Vec::new();
            format.to_writer(&mut written, &map, &WriteOptions::new()).unwrap();
            assert!(written == file, "{}", format.name);
        }
    }
}

/// A stream is held in blocks, which are freed as they are read. Headers and payloads begin in one and end in the next.
#[test]
fn small_tensors_in_files_larger_than_all_buffers() {
    for format in written_formats().filter(|format| format.max_tensors.is_none()) {
        // The end of a block is in another part of a record each time.
        for first in [0, 80, 160, 240] {
            let len = |at: usize| if at == 0 { first } else { at % 97 };
            let map: TensorMap = (0..6000).map(|at| (format!("t{at}"), tensor(format.dtypes[0], &[len(at)]))).collect();
            let file = format.to_vec(&map, &WriteOptions::new().embed_names(true)).unwrap();
            assert!(format.from_reader(&file[..]).unwrap() == map, "{}", format.name);
        }
    }
}

#[test]
fn from_any_format_to_any_other_and_back() {
    for from in written_formats() {
        for (map, file) in samples(from) {
            for to in written_formats() {
                let fits = |info: &TensorInfo| {
                    to.dtypes.contains(&info.dtype) && (to.sparse || !matches!(info.layout, Layout::Coo { .. }))
                };
                if !holds(to, &map) || !map.infos().all(|(_, info)| fits(info)) {
                    continue;
                }
                let converted =
                    to.to_vec(&from.from_slice(&file).unwrap(), &WriteOptions::new().embed_names(true)).unwrap();
                let back = file_of(from, &to.from_slice(&converted).unwrap());
                let file = file_of(from, &in_written_order(to, &map));
                assert_eq!(back, file, "{} to {} and back: {map:?}", from.name, to.name);
            }
        }
    }
}
