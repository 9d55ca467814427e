//! Tensors of dtypes that we do not know: they are listed, and all other tensors of the file are read.

use tensorfile::view::Subset;
use tensorfile::{Category, Error, ErrorKind, Format, Layout, OpenOptions, Tensor, TensorMap, WriteOptions};

use crate::support::{Dribble, format, message, written_formats};

/// Checks a file in which `name` has an unknown dtype: `info` is how it is listed, `range` its bytes.
#[track_caller]
pub fn check(format: &'static Format, bytes: &[u8], name: &str, info: &str, range: std::ops::Range<u64>) {
    let what = format!("{}: {info}", format.name);
    let file = OpenOptions::new().format(format).from_bytes(bytes.to_vec()).unwrap();
    let unknown = file.get(name).unwrap();
    assert_eq!((unknown.info().to_string().as_str(), unknown.range()), (info, range), "{what}");
    assert!(matches!(unknown.layout(), Layout::Unknown(_)), "{what}");

    let dtype = unknown.info().unknown_dtype().unwrap();
    let is_refused = |error: &Error| {
        let read = format!(
            "cannot read elements of dtype {dtype}; it is unknown, and only the file's other tensors can be read"
        );
        let is_told = error.to_string().contains(&read) && error.to_string().contains("tensor `");
        is_told && matches!(error.kind(), ErrorKind::Unsupported { .. }) && error.category() == Category::Call
    };
    let whole: Vec<_> = unknown.shape().iter().map(|dim| 0..*dim).collect();
    for result in [
        unknown.read().map(drop),
        unknown.view().map(drop),
        unknown.array::<u8, ndarray::IxDyn>().map(drop),
        unknown.load::<Tensor>().map(drop),
        unknown.slice(&whole).map(drop),
        file.load::<TensorMap>().map(drop),
        format.from_slice(bytes).map(drop),
        format.from_reader(bytes).map(drop),
        format.from_reader(Dribble::in_sizes(bytes, &[1, 5])).map(drop),
    ] {
        let error = result.unwrap_err();
        assert!(is_refused(&error), "{what}: {error}");
    }

    // The others are read, and written without it.
    let others = file.tensors().filter(|tensor| tensor.info().unknown_dtype().is_none());
    let others: TensorMap = others.map(|tensor| (tensor.name(), tensor.read().unwrap())).collect();
    let known = Subset::new(&file, |name| others.get(name).is_some());
    for other in written_formats().filter(|format| format.max_tensors.is_none()) {
        let holds_others = |tensor: &Tensor| *tensor.layout() != Layout::Blob && other.dtypes.contains(&tensor.dtype());
        let written = other.to_vec(&file, &WriteOptions::new().embed_names(true));
        if !others.iter().all(|(_, tensor)| holds_others(tensor)) {
            assert!(written.is_err(), "{what}");
            continue;
        }
        let expected = format!("{}: tensor `{name}`: cannot store {info}; leave the tensor out", other.name);
        assert_eq!(message(written), expected, "{what}");
        let written = other.to_vec(&known, &WriteOptions::new().embed_names(true)).unwrap();
        assert_eq!(other.from_slice(&written).unwrap(), others, "{what}");
    }
}

/// A file of two tensors, `a` and `b`, with some bytes of the first changed.
fn changed(format: &Format, from: &[u8], to: &[u8]) -> Vec<u8> {
    let a = Tensor::from_slice(&[1.0_f32, 2.0, 3.0], [3]).unwrap();
    let map: TensorMap = [("a", a), ("b", Tensor::from_slice(&[1_i16, -2], [2, 1]).unwrap())].into_iter().collect();
    let mut file = format.to_vec(&map, &WriteOptions::new()).unwrap();
    let at = file.windows(from.len()).position(|part| part == from).unwrap();
    file[at..at + to.len()].copy_from_slice(to);
    file
}

#[test]
fn in_ten_the_data_chunk_has_a_length() {
    let file = changed(format("ten"), b"f4\0\0", b"f3\n\0");
    check(format("ten"), &file, "a", "`f3\\n`[3] of unknown dtype", 96..108);
}

#[test]
fn in_btf_the_next_record_is_the_end() {
    let (rank_and_dtype, f32) = ([1, 0, 0, 0, 0, 0, 0, 0, 4], [1, 0, 0, 0, 0, 0, 0, 0, 99]);
    let file = changed(format("btf"), &rank_and_dtype, &f32);
    // The end of the padding.
    check(format("btf"), &file, "0", "99[3] of unknown dtype", 48..64);

    // The last record ends with the file, which a stream does not tell.
    let mut last = changed(format("btf"), &rank_and_dtype, &rank_and_dtype);
    last[64 + 8] = 10;
    let opened = OpenOptions::new().format(format("btf")).from_bytes(last.clone()).unwrap();
    let tensors: Vec<String> = opened.tensors().map(|tensor| tensor.info().to_string()).collect();
    assert_eq!(tensors, ["f32[3]", "10[2, 1] of unknown dtype"]);
    assert_eq!(opened.nth(0).unwrap().read().unwrap().shape().dims(), [3]);
    let stream = format("btf").from_reader(&last[..]).map(drop);
    assert_eq!(message(stream), "btf: tensor `#1`: unknown dtype tag 10 (at byte 72)");

    // Nor is it known where records are in another order.
    let mut swapped = file.clone();
    let (one, other) = (file[8..16].to_vec(), file[16..24].to_vec());
    swapped[8..16].copy_from_slice(&other);
    swapped[16..24].copy_from_slice(&one);
    assert_eq!(message(format("btf").from_slice(&swapped)), "btf: tensor `#1`: unknown dtype tag 99 (at byte 32)");
}

#[test]
fn in_btf_a_header_cannot_reach_into_the_next_record() {
    let mut file = changed(format("btf"), &[1, 0, 0, 0, 0, 0, 0, 0, 4], &[5, 0, 0, 0, 0, 0, 0, 0, 99]);
    file.extend([0; 64]);
    let error = message(format("btf").from_slice(&file));
    assert_eq!(error, "btf: tensor `#1`: overlaps tensor `#0`, which takes bytes 24 to 80 (at byte 64)");
}

#[cfg(feature = "safetensors")]
#[test]
fn in_safetensors_the_header_has_offsets() {
    let safetensors = format("safetensors");
    let file = changed(safetensors, b"F32", b"F99");
    let begin = file.len() as u64 - 16;
    check(safetensors, &file, "a", "F99[3] of unknown dtype", begin..begin + 12);

    // Names of dtypes may be of any length, and a terminal is not to be trusted with them.
    let tensor = |name: &str, dtype: &str, offsets: &str| {
        format!(r#""{name}":{{"dtype":"{dtype}","shape":[7],"data_offsets":[{offsets}]}}"#)
    };
    let with = |dtype: &str, one: &str, other: &str| {
        let json = format!("{{{},{}}}", tensor("a", dtype, one), tensor("b", "U8", other));
        [&crate::support::u64s(&[json.len() as u64]), json.as_bytes(), &[0; 17]].concat()
    };
    let long = with(&format!(r"\u001b[2J{}", "é".repeat(1000)), "0,10", "10,17");
    let shown = format!(r"\u{{1b}}[2J{}…[7] of unknown dtype", "é".repeat(60));
    let file = OpenOptions::new().format(safetensors).from_bytes(long).unwrap();
    assert_eq!(file.get("a").unwrap().info().to_string(), shown);
    for (what, one, other, expected) in [
        (
            "an overlap",
            "0,11",
            "10,17",
            "tensor `b`: data offset is 10, but expected 11, as there are no gaps between tensors",
        ),
        (
            "a gap",
            "0,9",
            "10,17",
            "tensor `b`: data offset is 10, but expected 9, as there are no gaps between tensors",
        ),
        ("backwards", "7,0", "0,7", "tensor `a`: end of the data is 0, but expected at least 7, where it begins"),
        ("past the end", "7,18446744073709551615", "0,7", "tensor `a`: needs 18446744073709551608 more bytes"),
    ] {
        let error = message(safetensors.from_slice(&with("F99", one, other)));
        assert!(error.contains(expected), "{what}: {error}");
    }
}

#[cfg(feature = "safetensors")]
#[test]
fn types_that_do_not_need_it_are_loaded() {
    #[derive(tensorfile::TensorFile)]
    #[tensor(allow_unknown)]
    struct B {
        b: ndarray::ArrayD<i16>,
    }

    #[derive(tensorfile::TensorFile, Debug)]
    struct Both {
        a: ndarray::ArrayD<u8>,
        b: ndarray::ArrayD<i16>,
    }

    let bytes = changed(format("safetensors"), b"F32", b"F99");
    let file = OpenOptions::new().format(format("safetensors")).from_bytes(bytes.clone()).unwrap();
    assert_eq!(file.load::<B>().unwrap().b.shape(), [2, 1]);
    assert_eq!(tensorfile::safetensors::from_slice::<B>(&bytes).unwrap().b.shape(), [2, 1]);
    assert_eq!(tensorfile::safetensors::from_reader::<B>(&bytes[..]).unwrap().b.shape(), [2, 1]);
    let report = file.report::<Both>().to_string();
    assert!(report.ends_with("wrong dtype:\n  `a`  F99[3] of unknown dtype, but expected u8"), "{report}");
    let error = message(tensorfile::safetensors::from_slice::<Both>(&bytes));
    assert_eq!(error, format!("safetensors: {report}"));
    let json = serde_json::to_string(&file).unwrap_err().to_string();
    assert!(json.contains("cannot serialize F99, an unknown dtype; leave the tensor out"), "{json}");
}

/// Files that numpy wrote, by `tests/fixtures/numpy/write_mixed.py`.
#[cfg(feature = "npz")]
fn of_numpy(name: &str) -> Vec<u8> {
    std::fs::read(crate::support::root().join("tests/fixtures/numpy").join(name)).unwrap()
}

#[cfg(feature = "npz")]
#[test]
fn in_npz_numbers_next_to_other_arrays_are_read() {
    for name in ["mixed.npz", "mixed_deflated.npz"] {
        let bytes = of_numpy(name);
        let file = OpenOptions::new().from_bytes(bytes.clone()).unwrap();
        let listed: Vec<String> = file.tensors().map(|tensor| format!("{} {}", tensor.name(), tensor.info())).collect();
        let expected = [
            "x f32[2, 3]",
            "names '<U5'[3] of unknown dtype",
            "bytes '|S4'[2] of unknown dtype",
            "objects '|O'[3] of unknown dtype",
            "records [('value', '<f4'), ('count', '<i2', (2,))][2] of unknown dtype",
            "dates '<M8[ns]'[2] of unknown dtype",
            "complex c64[2]",
            "long '<f16'[1] of unknown dtype",
            "y i16[3]",
        ];
        assert_eq!(listed, expected, "{name}");
        assert_eq!(file.array::<f32, ndarray::Ix2>("x").unwrap(), ndarray::array![[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]);
        assert_eq!(file.array::<i16, ndarray::Ix1>("y").unwrap(), ndarray::array![0, 1, 2]);
        let complex = file.array::<num_complex::Complex<f32>, ndarray::Ix1>("complex").unwrap();
        assert_eq!(complex.to_vec(), [num_complex::Complex::new(1.0, 2.0), num_complex::Complex::new(0.0, -0.5)]);
        // The bytes of the text, as they are.
        let mut text = Vec::new();
        tensorfile::TensorData::write_to(&file.get("bytes").unwrap(), &mut text).unwrap();
        assert_eq!(text, b"ab\0\0cdef", "{name}");
        let expected = "npz: tensor `names`: cannot read elements of dtype '<U5'; it is unknown, and only the file's other \
                        tensors can be read";
        assert_eq!(message(file.tensor("names")), expected);
        assert!(message(tensorfile::npz::from_reader::<TensorMap>(&bytes[..])).starts_with(expected));
    }
}

#[cfg(feature = "npz")]
#[test]
fn in_npy_the_only_array_is_listed() {
    for (name, info) in [
        ("names", "'<U5'[3] of unknown dtype"),
        ("objects", "'|O'[3] of unknown dtype"),
        ("records", "[('value', '<f4'), ('count', '<i2', (2,))][2] of unknown dtype"),
    ] {
        let bytes = of_numpy(&format!("mixed_{name}.npy"));
        let file = OpenOptions::new().from_bytes(bytes.clone()).unwrap();
        let tensor = file.nth(0).unwrap();
        assert_eq!((tensor.info().to_string().as_str(), tensor.range()), (info, 128..bytes.len() as u64));
        assert!(message(tensor.read()).starts_with("npy: tensor `#0`: cannot read elements of dtype "));
        let stream = message(tensorfile::npy::from_reader::<TensorMap>(&bytes[..]));
        // Text has a size for each element, so its end is known.
        let expected = if name == "names" { "cannot read elements of dtype '<U5'" } else { "unknown dtype tag " };
        assert!(stream.contains(expected), "{stream}");
        if name == "names" {
            let cut = OpenOptions::new().format(format("npy")).from_bytes(bytes[..bytes.len() - 1].to_vec());
            assert_eq!(message(cut), "npy: tensor `#0`: needs 60 more bytes, but the file has 59 left (at byte 128)");
        }
    }
}
