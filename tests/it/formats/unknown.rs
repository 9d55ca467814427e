//! Tensors of unknown dtypes. They are listed, all other tensors of the file are read, and the format of the file can
//! write them again.

use tensorfile::file::Backend;
use tensorfile::view::Subset;
use tensorfile::{
    Category, ErrorKind, Format, Layout, OpenOptions, SaveOptions, Tensor, TensorInfo, TensorMap, WriteOptions,
};

use crate::support::{Dribble, format, message, u64s, written_formats};

/// Checks a file in which `name` has an unknown dtype: `info` is how it is listed, `range` its bytes.
#[track_caller]
pub fn check(format: &'static Format, bytes: &[u8], name: &str, info: &str, range: std::ops::Range<u64>) {
    let what = format!("{}: {info}", format.name);
    let file = OpenOptions::new().format(format).from_bytes(bytes.to_vec()).unwrap();
    let unknown = file.get(name).unwrap();
    assert_eq!((unknown.info().to_string().as_str(), unknown.range()), (info, range.clone()), "{what}");
    let Layout::Unknown(dtype) = unknown.layout() else { panic!("{what}") };

    let whole: Vec<_> = unknown.shape().iter().map(|dim| 0..*dim).collect();
    for error in [
        unknown.array::<u8, ndarray::IxDyn>().map(drop).unwrap_err(),
        unknown.load::<tensorfile::Blob>().map(drop).unwrap_err(),
        unknown.slice(&whole).map(drop).unwrap_err(),
    ] {
        let tag = dtype.tag();
        let read =
            format!("cannot read elements of dtype {tag}; it is unknown; `Tensor` and `TensorMap` hold the bytes");
        let is_told = error.to_string().contains(&read) && error.to_string().contains("tensor `");
        assert!(is_told && matches!(error.kind(), ErrorKind::Unsupported { .. }), "{what}: {error}");
        assert_eq!(error.category(), Category::Call, "{what}");
    }

    // Its bytes are held as they are, without elements.
    let stored = &bytes[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()];
    let map = file.load::<TensorMap>().unwrap();
    let tensor = &map[name];
    assert_eq!((tensor.info(), tensor.as_bytes()), (unknown.info(), stored), "{what}");
    let error = message(tensor.array::<u8>().map(drop));
    assert_eq!(error, format!("the file has {info}, but expected u8"), "{what}");
    assert!(tensor.to_array::<f32>().is_err() && tensor.as_view().coo::<u8>().is_err(), "{what}");
    assert_eq!(unknown.read().unwrap(), *tensor, "{what}");
    assert_eq!(unknown.load::<Tensor>().unwrap(), *tensor, "{what}");
    assert_eq!(unknown.view().unwrap(), tensor.as_view(), "{what}");
    for read in
        [format.from_slice(bytes), format.from_reader(bytes), format.from_reader(Dribble::in_sizes(bytes, &[1, 5]))]
    {
        assert_eq!(read.unwrap(), map, "{what}");
    }

    // The format writes it again, dtype and all. Others do not, and write the others without it.
    let others = file.tensors().filter(|tensor| tensor.info().unknown_dtype().is_none());
    let others: TensorMap = others.map(|tensor| (tensor.name(), tensor.read().unwrap())).collect();
    let known = Subset::new(&file, |name| others.get(name).is_some());
    let embed = WriteOptions::new().embed_names(true);
    for other in written_formats().filter(|format| format.max_tensors.is_none()) {
        let holds_others = |tensor: &Tensor| *tensor.layout() != Layout::Blob && other.dtypes.contains(&tensor.dtype());
        let options = WriteOptions::new().embed_names(true).keep_metadata(&file.metadata().unwrap());
        let written = other.to_vec(&file, if other.name == format.name { &options } else { &embed });
        assert_eq!(other.stores_unknown(dtype), other.name == format.name, "{what}");
        if other.name == format.name {
            let written = written.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(other.to_vec(&map, &options).unwrap(), written, "{what}");
            let again = OpenOptions::new().format(format).from_bytes(written).unwrap();
            assert_eq!(again.load::<TensorMap>().unwrap(), map, "{what}");
            continue;
        }
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

/// Reads a file and writes its tensors again, as a map and one by one, which has to give the same bytes.
#[track_caller]
fn is_rewritten(format: &'static Format, bytes: &[u8]) {
    let name = format.name;
    let file = OpenOptions::new().format(format).from_bytes(bytes.to_vec()).unwrap();
    let tags: Vec<&str> = file.tensors().filter_map(|tensor| tensor.info().unknown_dtype()).collect();
    assert!(!tags.is_empty(), "{name}: every dtype is known");
    let options = WriteOptions::new().keep_metadata(&file.metadata().unwrap());
    assert_eq!(format.to_vec(&file, &options).unwrap(), bytes, "{name}: {tags:?}");
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    std::fs::write(&old, bytes).unwrap();
    for backend in [Backend::Mapped, Backend::Positioned] {
        let map: TensorMap = OpenOptions::new().format(format).backend(backend).open(&old).unwrap().load().unwrap();
        SaveOptions::new().format(format).write(options.clone()).save(&new, &map).unwrap();
        assert_eq!(std::fs::read(&new).unwrap(), bytes, "{name}: {tags:?}");
    }
}

#[test]
fn files_of_later_versions_are_rewritten_as_they_are() {
    // A big-endian dtype, and one of no name.
    for dtype in [*b">f2\0\0\0\0\0", *b"\0\0\0\0\0\0\0\0", *b"\0f3\0\xff\0\0x"] {
        let magic = b"~TenBin~";
        let chunks = [
            magic,
            &u64s(&[32])[..],
            &dtype,
            b"weight\0\0",
            &u64s(&[1, 2]),
            &[0; 32],
            magic,
            &u64s(&[3]),
            &[7, 8, 9],
            &[0; 61],
        ];
        is_rewritten(format("ten"), &chunks.concat());
    }
    // A sparse tensor, as far as the layout number tells.
    for [dtype, layout] in [[40, 0], [99, 2], [255, 77]] {
        let header = |dtype, layout| [&u64s(&[1])[..], &[dtype, layout, 0, 0, 0, 0, 0, 0], &u64s(&[3])].concat();
        let (new, known) = (header(dtype, layout), header(6, 0));
        let file = [&u64s(&[2, 24, 64])[..], &new, b"as it is, padded", &known, b"abc\0\0\0\0\0"].concat();
        is_rewritten(format("btf"), &file);
        // The last record has all the rest of the file, padded or not.
        let last = [&u64s(&[2, 24, 56])[..], &known, b"abc\0\0\0\0\0", &new, b"as it is"].concat();
        (0..8).for_each(|cut| is_rewritten(format("btf"), &last[..last.len() - cut]));
    }
}

#[cfg(feature = "safetensors")]
#[test]
fn dtypes_of_safetensors_are_rewritten_as_they_are() {
    for dtype in ["F2_NEW", "", "f32", "\u{e4}\u{1f600}", r#"\"\\\n"#] {
        let json = format!(
            r#"{{"__metadata__":{{"format":"pt"}},"a":{{"dtype":"{dtype}","shape":[7,0],"data_offsets":[0,5]}},"b":{{"dtype":"U8","shape":[1],"data_offsets":[5,6]}},"c":{{"dtype":"F32","shape":[1],"data_offsets":[6,10]}}}}"#
        );
        let json = format!("{json:width$}", width = json.chars().count() + (8 - json.len() % 8) % 8);
        let file = [&u64s(&[json.len() as u64])[..], json.as_bytes(), b"bytes!abcd"].concat();
        // In this order too, in which the known dtypes alone would be sorted.
        is_rewritten(format("safetensors"), &file);
    }
}

#[cfg(feature = "npy")]
#[test]
fn dtypes_of_numpy_are_rewritten_as_they_are() {
    for (descr, order) in [("'<f3'", "True"), ("'|O'", "False"), ("[('a', '<f4', (2,)), ('b', '>u2')]", "True")] {
        let text = format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': (2, 3), }}");
        let file = format!("\x01\0\x76\0{text:117}\n").into_bytes();
        let file = [b"\x93NUMPY", &file[..], b"elements of any form"].concat();
        let is_sized = descr == "'<f3'";
        is_rewritten(format("npy"), if is_sized { &file[..128 + 18] } else { &file });
    }
}

/// Returns a file of the tensors `a` and `b`. The dtype of `a` has another number.
fn with_tag(format: &Format, tag: u8) -> Vec<u8> {
    let of = |a| {
        let map: TensorMap = [("a", a), ("b", Tensor::from_slice(&[5_i16, 6], [2]).unwrap())].into_iter().collect();
        format.to_vec(&map, &WriteOptions::new()).unwrap()
    };
    let mut file = of(Tensor::from_slice(&[1.0_f32, 2.0], [2]).unwrap());
    let other = of(Tensor::from_slice(&[0x3f80_0000_i32, 0x4000_0000], [2]).unwrap());
    let differences: Vec<usize> = (0..file.len()).filter(|at| file[*at] != other[*at]).collect();
    let [at] = differences[..] else { panic!("{}: {differences:?}", format.name) };
    file[at] = tag;
    file
}

#[test]
fn numbers_of_dtypes_are_rewritten_as_they_are() {
    for format in written_formats().filter(|format| ["ptd", "gguf", "tensorbuffers", "btf"].contains(&format.name)) {
        for tag in [99, 0xff] {
            let file = with_tag(format, tag);
            is_rewritten(format, &file);
            // In another format, the same number means another dtype.
            let map = format.from_slice(&file).unwrap();
            for other in written_formats().filter(|other| other.name != format.name && other.max_tensors.is_none()) {
                assert!(message(other.to_vec(&map, &WriteOptions::new())).ends_with("leave the tensor out"));
            }
        }
    }
}

#[cfg(feature = "gguf")]
#[test]
fn in_gguf_an_unknown_size_is_one_of_an_alignment() {
    use tensorfile::gguf;
    let file = gguf::Options::new()
        .alignment(64)
        .to_vec(&gguf::from_slice::<TensorMap>(&with_tag(format("gguf"), 99)).unwrap());
    let file = file.unwrap();
    let map: TensorMap = gguf::from_slice(&file).unwrap();
    assert_eq!(gguf::Options::new().alignment(64).to_vec(&map).unwrap(), file);
    assert!(gguf::Options::new().alignment(128).to_vec(&map).is_ok());
    // The last tensor has all the rest of the file, padded or not.
    let known = Tensor::from_slice(&[1_i8; 32], [32]).unwrap();
    let last: TensorMap = [("0", known), ("a", map["a"].clone())].into_iter().collect();
    let last = gguf::Options::new().alignment(64).to_vec(&last).unwrap();
    (0..32).for_each(|cut| is_rewritten(format("gguf"), &last[..last.len() - cut]));
    let expected = "gguf: tensor `a`: cannot store 99[2] of unknown dtype aligned to 32 bytes; its size is known up to a \
                    multiple of 64; align to 64";
    assert_eq!(message(gguf::to_vec(&map)), expected);
}

#[cfg(feature = "ptd")]
#[test]
fn in_ptd_a_dim_order_is_kept_and_belongs_to_a_shape() {
    let columns = Layout::from_dim_order(&[1, 0]).unwrap();
    let info = TensorInfo { layout: columns, ..TensorInfo::new(tensorfile::Dtype::U8, [2, 3]) };
    let map: TensorMap = [("a", Tensor::new(info, &[1, 2, 3, 4, 5, 6]).unwrap())].into_iter().collect();
    let options = tensorfile::ptd::Options::new().keep_dim_order(true);
    let known = options.to_vec(&map).unwrap();
    let rows: TensorMap = [("a", Tensor::from_slice(&[1_i8, 2, 3, 4, 5, 6], [2, 3]).unwrap())].into_iter().collect();
    let rows = options.to_vec(&rows).unwrap();
    // The dtype, which is 0 if it is `u8` and 1 if it is `i8`, and the two dims of the order.
    let tag = (0..known.len()).find(|at| (known[*at], rows[*at]) == (0, 1)).unwrap();
    let mut file = known;
    file[tag] = 99;
    is_rewritten(format("ptd"), &file);
    let map: TensorMap = tensorfile::ptd::from_slice(&file).unwrap();
    let other = TensorInfo { shape: [6].into(), ..map["a"].info().clone() };
    let other: TensorMap = [("a", Tensor::new(other, map["a"].as_bytes()).unwrap())].into_iter().collect();
    let expected =
        "ptd: tensor `a`: cannot store 99[6] of unknown dtype; its dim order is of another rank; leave the tensor out";
    assert_eq!(message(options.to_vec(&other)), expected);
}

#[test]
fn a_dtype_of_no_format_is_not_written() {
    let tensor = Tensor::new(TensorInfo::unknown("F2_NEW", [4], 1), &[7]).unwrap();
    let map: TensorMap = [("a", tensor)].into_iter().collect();
    for format in written_formats() {
        let expected =
            format!("{}: tensor `a`: cannot store F2_NEW[4] of unknown dtype; leave the tensor out", format.name);
        assert_eq!(message(format.to_vec(&map, &WriteOptions::new())), expected);
    }
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
fn in_btf_equal_headers_end_where_the_next_records_begin() {
    let stored = [
        Tensor::from_slice(&[1_i32; 3], [3]).unwrap(),
        Tensor::from_slice(&[1_i64; 3], [3]).unwrap(),
        Tensor::from_slice(&[1_i16; 3], [3]).unwrap(),
        Tensor::from_slice(&[1_i32; 3], [3]).unwrap(),
    ];
    let mut file = tensorfile::btf::to_vec(&stored.to_vec()).unwrap();
    for at in 1..5 {
        let offset = u64::from_le_bytes(*file[8 * at..].first_chunk().unwrap());
        file[usize::try_from(offset).unwrap() + 8] = 99;
    }
    let opened = OpenOptions::new().format(format("btf")).from_bytes(file).unwrap();
    let lengths: Vec<u64> = opened.tensors().map(|tensor| tensor.range().end - tensor.range().start).collect();
    assert_eq!(lengths, [16, 24, 8, 16]);
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
        [&u64s(&[json.len() as u64]), json.as_bytes(), &[0; 17]].concat()
    };
    let long = with(&format!(r"\u001b[2J{}", "é".repeat(1000)), "0,10", "10,17");
    let shown = format!(r"\u{{1b}}[2J{}…[7] of unknown dtype", "é".repeat(92));
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
    // Plain serde values have elements, even where they ask for bytes.
    type Bytes = std::collections::BTreeMap<String, serde_bytes::ByteBuf>;
    type Numbers = std::collections::BTreeMap<String, Vec<u8>>;
    let found = "the file has F99[3] of unknown dtype, but expected ";
    let error = message(tensorfile::safetensors::from_slice::<Bytes>(&bytes));
    assert!(error.contains(&format!("tensor `a`: {found}u8")), "{error}");
    let error = message(tensorfile::safetensors::from_slice::<Numbers>(&bytes));
    assert!(error.contains(&format!("tensor `a`: {found}row-major order")), "{error}");

    // A field for any tensor holds the bytes, which are saved again.
    #[derive(tensorfile::TensorFile)]
    struct Any {
        a: Tensor,
        b: ndarray::ArrayD<i16>,
    }
    let any: Any = file.load().unwrap();
    assert_eq!((any.a.info().to_string().as_str(), any.a.as_bytes().len()), ("F99[3] of unknown dtype", 12));
    assert_eq!(tensorfile::safetensors::to_vec(&any).unwrap(), bytes);
    assert_eq!(any.b.len(), 2);
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
        let map = tensorfile::npz::from_slice::<TensorMap>(&bytes).unwrap();
        assert_eq!(tensorfile::npz::from_reader::<TensorMap>(&bytes[..]).unwrap(), map);
        let written = tensorfile::npz::to_vec(&map).unwrap();
        assert_eq!(tensorfile::npz::from_slice::<TensorMap>(&written).unwrap(), map);
        // The bytes of the text, as they are.
        let mut text = Vec::new();
        tensorfile::model::TensorData::write_to(&file.get("bytes").unwrap(), &mut text).unwrap();
        assert_eq!(text, b"ab\0\0cdef", "{name}");
        let expected = "npz: tensor `names`: cannot read elements of dtype '<U5'; it is unknown; `Tensor` and `TensorMap` hold \
                        the bytes";
        assert_eq!(message(file.array::<u8, ndarray::Ix1>("names")), expected);
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
        assert!(
            message(tensor.array::<u8, ndarray::IxDyn>())
                .starts_with("npy: tensor `#0`: cannot read elements of dtype ")
        );
        // The file is written again byte for byte.
        let map = tensorfile::npy::from_slice::<TensorMap>(&bytes).unwrap();
        assert_eq!(tensorfile::npy::to_vec(&map).unwrap(), bytes, "{name}");
        let stream = tensorfile::npy::from_reader::<TensorMap>(&bytes[..]);
        // Text has a size for each element, so its end is known.
        match name {
            "names" => assert_eq!(stream.unwrap(), map),
            _ => assert!(message(stream).contains("unknown dtype tag "), "{name}"),
        }
        if name == "names" {
            let cut = OpenOptions::new().format(format("npy")).from_bytes(bytes[..bytes.len() - 1].to_vec());
            assert_eq!(message(cut), "npy: tensor `#0`: needs 60 more bytes, but the file has 59 left (at byte 128)");
        }
    }
}
