use ndarray::{Array2, ArrayView2, ShapeBuilder, array};
use num_complex::Complex;
use tensorfile::{Arrays, Dtype, Layout, Limits, Tensor, TensorInfo, TensorMap, TensorView, WriteOptions, npy};

use crate::support::{Dribble, Messages, hex, message};

/// The file that numpy saves for `np.array([[1, 2, 3], [4, 5, 6]], "<i2")`.
fn golden() -> Vec<u8> {
    let mut file = hex("93 4e 55 4d 50 59 01 00 76 00");
    file.extend(b"{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }");
    file.resize(127, b' ');
    file.extend(b"\n\x01\0\x02\0\x03\0\x04\0\x05\0\x06\0");
    file
}

/// A file of the given version, dict and elements.
fn file(version: u8, dict: &str, elements: &[u8]) -> Vec<u8> {
    let mut file = hex("93 4e 55 4d 50 59");
    file.extend([version, 0]);
    let len = u32::try_from(dict.len() + 1).unwrap();
    file.extend(&len.to_le_bytes()[..if version == 1 { 2 } else { 4 }]);
    file.extend(dict.as_bytes());
    file.push(b'\n');
    file.extend(elements);
    file
}

fn dict(descr: &str, fortran: &str, shape: &str) -> String {
    format!("{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}")
}

#[test]
fn the_golden_file_is_read_and_written_byte_for_byte() {
    let values = array![[1_i16, 2, 3], [4, 5, 6]];
    let Arrays(read): Arrays<Array2<i16>> = npy::from_slice(&golden()).unwrap();
    assert_eq!(read, values);
    let Arrays(read): Arrays<Array2<i16>> = npy::from_reader(Dribble::new(&golden())).unwrap();
    assert_eq!(read, values);
    assert_eq!(npy::to_vec(&Arrays(values)).unwrap(), golden());
}

#[test]
fn elements_are_borrowed() {
    let file = golden();
    let tensors: Vec<TensorView<'_>> = npy::from_slice(&file).unwrap();
    assert_eq!(tensors[0].as_bytes().as_ptr(), file[128..].as_ptr());
}

#[test]
fn all_versions_and_ways_to_write_a_dict_are_read() {
    let expected: TensorMap = [("0", Tensor::from_slice(&[1_u16, 2], [2]).unwrap())].into_iter().collect();
    let usual = dict("'<u2'", "False", "(2,)");
    for version in [1, 2, 3] {
        assert_eq!(npy::from_slice::<TensorMap>(&file(version, &usual, &[1, 0, 2, 0])).unwrap(), expected);
    }
    for dict in [
        "{\"shape\":(2,),\"descr\":\"=u2\",\"fortran_order\":False}",
        "{'descr': '|u2', 'fortran_order': True, 'shape': (2,)}     ",
        "  {'fortran_order':  False ,'descr':'<u2', 'shape':(2 , ) , }",
    ] {
        assert_eq!(npy::from_slice::<TensorMap>(&file(1, dict, &[1, 0, 2, 0])).unwrap(), expected, "{dict}");
    }
}

#[test]
fn every_dtype_is_written_as_numpy_does() {
    for (dtype, descr) in [
        (Dtype::Bool, "|b1"),
        (Dtype::I8, "|i1"),
        (Dtype::U8, "|u1"),
        (Dtype::I16, "<i2"),
        (Dtype::U16, "<u2"),
        (Dtype::I32, "<i4"),
        (Dtype::U32, "<u4"),
        (Dtype::I64, "<i8"),
        (Dtype::U64, "<u8"),
        (Dtype::F16, "<f2"),
        (Dtype::F32, "<f4"),
        (Dtype::F64, "<f8"),
        (Dtype::C64, "<c8"),
        (Dtype::C128, "<c16"),
    ] {
        let info = TensorInfo::new(dtype, [1]);
        let tensor = Tensor::new(info, &vec![1; dtype.block_bytes()]).unwrap();
        let written = npy::to_vec(&tensor).unwrap();
        let expected = dict(&format!("'{descr}'"), "False", "(1,)");
        assert_eq!(&written[10..10 + expected.len()], expected.as_bytes());
        assert_eq!(written[128..], vec![1; dtype.block_bytes()]);
    }
}

#[test]
fn big_endian_elements_are_turned_around() {
    let long: Vec<u32> = (0..40_000).collect();
    let bytes: Vec<u8> = long.iter().flat_map(|number| number.to_be_bytes()).collect();
    for (descr, elements, expected) in [
        ("'>u2'", &[1, 2, 3, 4][..], Tensor::from_slice(&[0x0102_u16, 0x0304], [2]).unwrap()),
        ("'>f4'", &[0x3f, 0x80, 0, 0, 0xc0, 0, 0, 0], Tensor::from_slice(&[1.0_f32, -2.0], [2]).unwrap()),
        (
            "'>i8'",
            &[0, 0, 0, 0, 0, 0, 1, 2, 255, 255, 255, 255, 255, 255, 255, 254],
            Tensor::from_slice(&[258_i64, -2], [2]).unwrap(),
        ),
        ("'>c8'", &[0x3f, 0x80, 0, 0, 0xc0, 0, 0, 0], Tensor::from_slice(&[Complex::new(1.0_f32, -2.0)], [1]).unwrap()),
        (
            "'>c16'",
            &[0x3f, 0xf0, 0, 0, 0, 0, 0, 0, 0xc0, 0, 0, 0, 0, 0, 0, 0],
            Tensor::from_slice(&[Complex::new(1.0_f64, -2.0)], [1]).unwrap(),
        ),
        ("'>u1'", &[1, 2], Tensor::from_slice(&[1_u8, 2], [2]).unwrap()),
        ("'>u4'", &bytes, Tensor::from_slice(&long, [40_000]).unwrap()),
    ] {
        let shape = format!("({},)", expected.shape()[0]);
        let file = file(1, &dict(descr, "False", &shape), elements);
        let map: TensorMap = npy::from_slice(&file).unwrap();
        assert_eq!(map["0"], expected, "{descr}");
        assert_eq!(npy::from_reader::<TensorMap>(Dribble::new(&file)).unwrap(), map, "{descr}, from a stream");
        assert_eq!(npy::from_reader::<Tensor>(&file[..]).unwrap(), expected, "{descr}, as one tensor");
    }
}

#[test]
fn fortran_order_is_read_as_strides() {
    let file = file(1, &dict("'<i2'", "True", "(2, 3)"), &[1, 0, 4, 0, 2, 0, 5, 0, 3, 0, 6, 0]);
    let map: TensorMap = npy::from_slice(&file).unwrap();
    assert_eq!(*map["0"].layout(), Layout::from_dim_order(&[1, 0]).unwrap());
    let Arrays(array): Arrays<Array2<i16>> = npy::from_slice(&file).unwrap();
    assert_eq!((&array, array.strides()), (&array![[1, 2, 3], [4, 5, 6]], &[1, 2][..]));
    assert_eq!(npy::to_vec(&map).unwrap(), golden(), "it is written in rows");
    let kept = npy::Options::new().keep_dim_order(true).to_vec(&map).unwrap();
    let text = dict("'<i2'", "True", "(2, 3)");
    assert_eq!((&kept[10..10 + text.len()], &kept[128..]), (text.as_bytes(), &file[file.len() - 12..]));
}

#[test]
fn keeps_arrays_without_numbers() {
    let fields = format!("[{}]", (0..200).map(|at| format!("('field {at}', '<f4'), ")).collect::<String>());
    for (descr, bytes) in [
        ("'<c32'", 64),
        ("'<U3'", 24),
        ("'<M8[ns]'", 16),
        ("'<f16'", 32),
        ("'<V2'", 4),
        ("'|O'", 5),
        ("[('a', '<f4'), ('b', '<i4', (2,))]", 24),
        ("''", 1),
        (fields.as_str(), 1600),
    ] {
        for (order, shape) in [("False", "(2,)"), ("True", "(1, 2)")] {
            let payload: Vec<u8> = (0..=u8::MAX).cycle().take(bytes).collect();
            let file = file(1, &dict(descr, order, shape), &payload);
            let map: TensorMap = npy::from_slice(&file).unwrap();
            assert_eq!(map["0"].as_bytes(), payload, "{descr}");
            let written = npy::to_vec(&map).unwrap();
            assert!(String::from_utf8_lossy(&written).contains(&dict(descr, order, shape)), "{descr}");
            assert_eq!(npy::from_slice::<TensorMap>(&written).unwrap(), map, "{descr}");
            // Both formats have the same dtypes.
            let zipped = tensorfile::npz::to_vec(&map).unwrap();
            assert_eq!(tensorfile::npz::from_slice::<TensorMap>(&zipped).unwrap(), map, "{descr}");
        }
    }
    // Version 3 has text in UTF-8, version 1 in Latin-1.
    for (version, descr) in [(3, "[('\u{e4}', '<f4')]".as_bytes()), (1, b"[('\xe4', '<f4')]"), (2, b"\"it's\"")] {
        let text = [b"{'descr': ", descr, b", 'fortran_order': False, 'shape': (1,), }".as_slice()].concat();
        let header = [text.as_slice(), b"\n"].concat();
        let size = u32::try_from(header.len()).unwrap().to_le_bytes();
        let size = if version == 1 { &size[..2] } else { &size };
        let file = [b"\x93NUMPY", &[version, 0][..], size, &header, &[1, 2, 3, 4]].concat();
        let map: TensorMap = npy::from_slice(&file).unwrap();
        let written = npy::to_vec(&map).unwrap();
        assert_eq!(written[6], if version == 3 { 3 } else { 1 });
        assert!(written.windows(text.len()).any(|part| part == text), "{version}");
        assert!(written.len() == 128 + 4 && written.ends_with(&[1, 2, 3, 4]), "{version}");
        assert_eq!(npy::from_slice::<TensorMap>(&written).unwrap()["0"].as_bytes(), [1, 2, 3, 4]);
    }
    // As long as numpy reads, but not with the padding that it writes.
    let long = format!("[('{}', '<f4')]", "x".repeat(9_900));
    let map: TensorMap = npy::from_slice(&file(1, &dict(&long, "False", "(1,)"), &[0; 4])).unwrap();
    assert!(message(npy::to_vec(&map)).contains("cannot store a dtype of 9"));
}

#[test]
fn rejects_arrays_without_numbers() {
    let mut messages = Messages::default();
    let mut compare = |what: &str, file: Vec<u8>, expected: &str| {
        let stream = npy::from_reader::<TensorMap>(&file[..]);
        messages.compare(what, npy::from_slice::<TensorMap>(&file), expected);
        messages.compare(format!("{what}, from a stream"), stream, expected);
    };
    let of = |descr: &str, bytes: usize| file(1, &dict(descr, "False", "(1,)"), &vec![0; bytes]);
    let needed = "npy: tensor `#0`: needs 12 more bytes, but the file has 11 left (at byte 68)";
    compare("text that ends early", of("'<U3'", 11), needed);

    let dict_of = |text: &str| file(1, text, &[]);
    let bad = |why: &str| {
        format!("npy: tensor `#0`: the header {why}, but expected a dict of descr, fortran_order and shape (at byte 0)")
    };
    compare("no dict", dict_of("(1, 2)"), &bad("is not a dict"));
    compare("no Python", dict_of("{'descr'"), &bad("is not a dict"));
    compare("another key", dict_of("{'descr': '<f4', 'x': 1}"), &bad("has another key"));
    compare("a wrong order", file(1, &dict("'<f4'", "0", "()"), &[]), &bad("has a wrong value for fortran_order"));
    compare("a wrong shape", file(1, &dict("'<f4'", "False", "(-1,)"), &[]), &bad("has a wrong value for shape"));
    compare("nesting", dict_of(&"[".repeat(5000)), &bad("is not a dict"));
    compare("nesting in it", dict_of(&format!("{{'shape': {}", "(".repeat(5000))), &bad("has a wrong value for shape"));
    compare("sets", dict_of(&"{".repeat(9000)), &bad("is not a dict"));
    compare("brackets in text", dict_of("{'{[(': 1}"), &bad("has another key"));
    compare("a key twice", dict_of("{'shape': (), 'shape': ()}"), &bad("has shape twice"));
    compare("an escape", dict_of("{'descr': '\\N{'}"), &bad("has a wrong value for descr"));
    compare(
        "a missing key",
        dict_of("{'descr': '<f4', 'shape': ()}"),
        "npy: tensor `#0`: missing key: fortran_order (at byte 0)",
    );
    compare("an empty header", hex("93 4e 55 4d 50 59 01 00 00 00"), &bad("is not a dict"));
    compare(
        "a long header",
        hex("93 4e 55 4d 50 59 02 00 ff ff ff ff"),
        "npy: tensor `#0`: header length is 4294967295, but expected at most 10000 (at byte 0)",
    );
    compare(
        "a later version",
        file(4, "", &[]),
        "npy: tensor `#0`: version is 4, but expected 1, 2 or 3, of which the minor version is 0 (at byte 0)",
    );
    compare(
        "text instead",
        b"\x01not an array".to_vec(),
        "npy: tensor `#0`: found `\\x01not a`, but expected `\\x93NUMPY` (at byte 0)",
    );
    compare("nothing", Vec::new(), "npy: tensor `#0`: needs 6 more bytes, but the file has 0 left (at byte 0)");
    // A stream does not tell where these end.
    for descr in ["'|O'", "[('a', '<f4'), ('b', '<i4', (2,))]", "''"] {
        let file = of(descr, 16);
        let expected = format!("npy: tensor `#0`: unknown dtype tag {descr} (at byte 0)");
        messages.compare(descr, npy::from_reader::<TensorMap>(&file[..]), &expected);
    }
    messages.end();
}

#[test]
fn stated_lengths_and_limits_are_checked() {
    let mut messages = Messages::default();
    messages.compare(
        "cut",
        npy::from_slice::<TensorMap>(&golden()[..139]),
        "npy: tensor `#0`: needs 12 more bytes, but the file has 11 left (at byte 128)",
    );
    let huge = file(1, &dict("'<f8'", "False", "(18446744073709551615, 2)"), &[]);
    messages.compare(
        "overflow",
        npy::from_slice::<TensorMap>(&huge),
        "npy: tensor `#0`: f64[18446744073709551615, 2] takes more bytes than can be addressed (at byte 89)",
    );
    messages.compare(
        "rank",
        npy::Options::new().limits(Limits::new().rank(1)).from_slice::<TensorMap>(&golden()),
        "npy: tensor `#0`: rank is 2, but the limit is 1 (at byte 0)",
    );
    messages.end();
}

#[test]
fn refuses_unsupported_tensors() {
    let mut messages = Messages::default();
    let one = || array![1_u8];
    messages.compare(
        "two",
        npy::to_vec(&Arrays((one(), one()))),
        "npy: cannot store 2 tensors; npy stores exactly one; npz stores several",
    );
    messages.compare(
        "none",
        npy::to_vec(&TensorMap::new()),
        "npy: cannot store 0 tensors; npy stores exactly one; npz stores several",
    );
    messages.compare(
        "bf16",
        npy::to_vec(&Arrays(array![half::bf16::ONE])),
        "npy: tensor `0`: cannot store bf16; npy stores bool, i8, u8, i16, u16, i32, u32, i64, u64, f16, f32, f64, c64, c128; \
         `view::CastView` casts",
    );
    let blob = Tensor::new(TensorInfo::blob(1), &[1]).unwrap();
    messages.compare(
        "a blob",
        npy::to_vec(&blob),
        "npy: tensor `0`: cannot store a blob; npy stores tensors; npz and ptd store blobs",
    );
    let info =
        TensorInfo { layout: Layout::from_dim_order(&[0, 2, 1]).unwrap(), ..TensorInfo::new(Dtype::U8, [1, 2, 3]) };
    let turned = Tensor::new(info, &[0; 6]).unwrap();
    let kept = npy::Options::new().keep_dim_order(true).to_vec(&turned).unwrap();
    assert_eq!(kept, npy::to_vec(&turned).unwrap(), "numpy has no such dim order");
    let format = tensorfile::FORMATS.iter().find(|format| format.name == "npy").unwrap();
    let named: TensorMap = [("a", Tensor::from_slice(&[1_u8], [1]).unwrap())].into_iter().collect();
    messages.compare(
        "a name that is to be kept",
        format.to_vec(&named, &WriteOptions::new().embed_names(true)),
        "npy: tensor `a`: cannot store the name `a`; npy stores no names; npz does",
    );
    messages.end();
    assert_eq!(format.to_vec(&named, &WriteOptions::new()).unwrap().len(), 129);
}

#[test]
fn columns_of_memory_are_kept_on_request() {
    let columns = ArrayView2::from_shape((2, 2).f(), &[1_u8, 2, 3, 4]).unwrap();
    for (keep, elements) in [(false, [1, 3, 2, 4]), (true, [1, 2, 3, 4])] {
        let file = npy::Options::new().keep_dim_order(keep).to_vec(&Arrays(columns)).unwrap();
        assert_eq!(file[128..], elements);
        let Arrays(read): Arrays<Array2<u8>> = npy::from_slice(&file).unwrap();
        assert_eq!(read, columns);
    }
}

/// The file has a hole of 64 GiB, which no test could read.
#[cfg(target_os = "linux")]
#[test]
fn a_slice_of_a_big_endian_array_reads_no_more_than_that() {
    use std::io::{Seek, SeekFrom, Write};

    const ELEMENTS: u64 = 8 << 30;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("huge.npy");
    let mut file = std::fs::File::create(&path).unwrap();
    let mut header =
        format!("{{'descr': '>f8', 'fortran_order': False, 'shape': ({}, 2), }}", ELEMENTS / 2).into_bytes();
    header.resize(117, b' ');
    file.write_all(b"\x93NUMPY\x01\x00\x76\x00").unwrap();
    file.write_all(&header).unwrap();
    file.write_all(b"\n").unwrap();
    file.seek(SeekFrom::Start(128 + 8 * (ELEMENTS - 3))).unwrap();
    for number in [1.5_f64, -2.0, 3.25] {
        file.write_all(&number.to_be_bytes()).unwrap();
    }
    drop(file);
    for backend in [tensorfile::file::Backend::Mapped, tensorfile::file::Backend::Positioned] {
        let file = tensorfile::OpenOptions::new().backend(backend).open(&path).unwrap();
        let rows = usize::try_from(ELEMENTS / 2).unwrap();
        let slice = file.nth(0).unwrap().slice(&[rows - 2..rows, 0..2]).unwrap();
        assert_eq!(slice, Tensor::from_slice(&[0.0, 1.5, -2.0, 3.25], [2, 2]).unwrap());
    }
}

/// The files of `tests/fixtures/cases`, as numpy reads them.
fn case(name: &str) -> Vec<u8> {
    std::fs::read(crate::support::root().join("tests/fixtures/cases").join(name)).unwrap()
}

#[test]
fn headers_are_read_in_every_form_that_numpy_reads() {
    let expected = Tensor::from_slice(&[0.0_f32, 1.0, 2.0, 3.0, 4.0, 5.0], [2, 3]).unwrap();
    for name in ["f4.npy", "no-newline.npy"] {
        assert_eq!(npy::from_slice::<Tensor>(&case(&format!("npy-header-forms/{name}"))).unwrap(), expected, "{name}");
    }
    for (descr, dtype) in [
        ("f4", Some(Dtype::F32)),
        ("=f4", Some(Dtype::F32)),
        ("|f4", Some(Dtype::F32)),
        ("float32", Some(Dtype::F32)),
        ("<f", Some(Dtype::F32)),
        ("single", Some(Dtype::F32)),
        ("?", Some(Dtype::Bool)),
        ("|b1", Some(Dtype::Bool)),
        (">b1", Some(Dtype::Bool)),
        ("bool", Some(Dtype::Bool)),
        ("b", Some(Dtype::I8)),
        ("uint8", Some(Dtype::U8)),
        ("half", Some(Dtype::F16)),
        ("float", Some(Dtype::F64)),
        ("complex", Some(Dtype::C128)),
        ("bfloat16", Some(Dtype::Bf16)),
        ("float8_e4m3fn", Some(Dtype::F8E4M3Fn)),
        ("float8_e8m0fnu", Some(Dtype::F8E8M0)),
        // numpy understands none of these, or as something else.
        ("<float32", None),
        ("<bfloat16", None),
        ("<f1", None),
        ("Float32", None),
        (" f4", None),
        ("f4,i4", None),
        ("3f4", None),
    ] {
        let bytes = dtype.map_or(4, Dtype::block_bytes);
        let file = file(1, &dict(&format!("'{descr}'"), "False", "(1,)"), &vec![0; bytes]);
        let read = npy::from_slice::<Tensor>(&file).unwrap();
        let known = read.info().unknown_dtype().is_none().then(|| read.dtype());
        assert_eq!(known, dtype, "{descr}");
    }
    // `>` with a letter is big-endian too.
    let read: Tensor = npy::from_slice(&file(1, &dict("'>h'", "False", "(1,)"), &[1, 2])).unwrap();
    assert_eq!(read, Tensor::from_slice(&[0x102_i16], [1]).unwrap());
}

#[test]
fn records_of_python_2_are_listed_by_their_fields() {
    let file = case("npz-one-bad-member/python2-names.npy");
    let read: Tensor = npy::from_slice(&file).unwrap();
    assert_eq!(read.info().to_string(), "[('caf\u{e9}', '<f4'), ('b', '<i4')][2] of unknown dtype");
    // They are written as they are stored.
    assert_eq!(npy::to_vec(&read).unwrap(), file);
}

#[test]
fn the_first_of_two_arrays_in_a_file_is_read() {
    let two = [golden(), golden()].concat();
    for (what, file, expected) in [
        ("another array", two, "the file has another array at byte 140, which is left out, as numpy does"),
        ("bytes", [&golden()[..], &[0]].concat(), "1 byte at the end, from byte 140 on, belong to no tensor"),
    ] {
        let map: TensorMap = npy::from_slice(&golden()).unwrap();
        assert_eq!(npy::from_slice::<TensorMap>(&file).unwrap(), map, "{what}");
        assert_eq!(npy::from_reader::<TensorMap>(&file[..]).unwrap(), map, "{what}");
        let metadata = tensorfile::File::from_bytes(file).unwrap().metadata().unwrap();
        assert_eq!(crate::support::warnings(&metadata), [expected]);
    }
    assert!(tensorfile::File::from_bytes(golden()).unwrap().metadata().unwrap().warnings.is_empty());
}
