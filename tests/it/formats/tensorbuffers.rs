use ndarray::{Array1, Array2, ArrayView1, ArrayView2, CowArray, Ix1, array};
use tensorfile::report::WarningKind;
use tensorfile::tensorbuffers::{self, Operation};
use tensorfile::{
    Arrays, Category, Dtype, ErrorKind, File, Limits, OpenOptions, Tensor, TensorFile, TensorInfo, TensorMap,
};

use super::unknown::check as check_unknown;
use crate::support::{Dribble, Messages, format, hex, message};

/// A file of the reference implementation (commit 2422de1): three packed tensors with unsorted ids, and two operations.
pub(super) const REFERENCE: &str = "
    54 42 53 31             |   0 TBS1
    00 00 80 3f 00 00 00 c0 |   4 gate: 1, -2,
    00 00 00 3f             |     0.5
    00 00 80 40             |  16 a.w: 4
    14 00 00 00             |  20 the metadata: its table is at 40
    00 00 00 00             |     padding
    0c 00 10 00             |  28 a vtable of 12 bytes, for tables of 16
    04 00 00 00             |     version at 4, no model
    08 00 0c 00             |     tensors at 8, operations at 12
    0c 00 00 00             |  40 the table: its vtable is 12 before
    28 00 00 00             |     version at 84
    14 00 00 00             |     tensors at 68
    04 00 00 00             |     operations at 56
    02 00 00 00             |  56 two operations
    5c 00 00 00             |     at 152
    2c 00 00 00             |     at 108
    03 00 00 00             |  68 three tensors
    0c 01 00 00             |     at 340
    c8 00 00 00             |     at 276
    90 00 00 00             |     at 224
    05 00 00 00 31 2e 30 2e |  84 1.0.
    30 00 00 00             |     0, NUL, padding
    0c 00 1c 00             |  96 a vtable of 12 bytes, for tables of 28
    08 00 00 00             |     id at 8, no operation
    10 00 04 00             |     output at 16, inputs at 4
    0c 00 00 00             | 108 an operation: its vtable is 12 before
    18 00 00 00             |     inputs at 136
    03 00 00 00 00 00 00 00 |     id 3
    07 00 00 00 00 00 00 00 |     output 7
    00 00 00 00             |     padding
    00 00 00 00             | 136 no inputs
    0c 00 20 00             | 140 a vtable of 12 bytes, for tables of 32
    0c 00 07 00             |     id at 12, operation at 7
    14 00 08 00             |     output at 20, inputs at 8
    0c 00 00 00             | 152 an operation: its vtable is 12 before
    00 00 00 0f             |     padding, operation 15
    18 00 00 00             |     inputs at 184
    09 00 00 00 00 00 00 00 |     id 9
    74 f7 03 7a 82 f8 c9 6a |     output a.w
    00 00 00 00             |     padding
    02 00 00 00             | 184 two inputs
    03 00 00 00 00 00 00 00 |     3
    09 00 00 00 00 00 00 00 |     9
    00 00 00 00 00 00       |     padding
    0e 00 1c 00             | 210 a vtable of 14 bytes, for tables of 28
    14 00 08 00 0c 00       |     id at 20, name at 8, shape at 12
    07 00 10 00             |     dtype at 7, offset at 16, no size
    0e 00 00 00             | 224 a tensor: its vtable is 14 before
    00 00 00 01             |     padding, f32
    14 00 00 00             |     name at 252
    1c 00 00 00             |     shape at 264
    14 00 00 00             |     at byte 20
    4c 4f fc d5 71 d6 94 73 |     id of none
    04 00 00 00 6e 6f 6e 65 | 252 none
    00 00 00 00             |     NUL, padding
    02 00 00 00             | 264 rank 2
    00 00 00 00 07 00 00 00 |     0 by 7
    d0 ff ff ff             | 276 a tensor: its vtable is 48 behind
    00 00 00 01             |     padding, f32
    1c 00 00 00             |     name at 312
    20 00 00 00             |     shape at 320
    10 00 00 00             |     at byte 16
    04 00 00 00             |     4 bytes
    74 f7 03 7a 82 f8 c9 6a |     id of a.w
    00 00 00 00             |     padding
    03 00 00 00 61 2e 77 00 | 312 a.w
    00 00 00 00             | 320 rank 0
    10 00 24 00             | 324 a vtable of 16 bytes, for tables of 36
    18 00 08 00 0c 00       |     id at 24, name at 8, shape at 12
    07 00 10 00 14 00       |     dtype at 7, offset at 16, size at 20
    10 00 00 00             | 340 a tensor: its vtable is 16 before
    00 00 00 01             |     padding, f32
    1c 00 00 00             |     name at 376
    24 00 00 00             |     shape at 388
    04 00 00 00             |     at byte 4
    0c 00 00 00             |     12 bytes
    17 94 5b 4c bd 69 73 71 |     id of gate
    00 00 00 00             |     padding
    04 00 00 00 67 61 74 65 | 376 gate
    00 00 00 00             |     NUL, padding
    01 00 00 00 03 00 00 00 | 388 rank 1, 3
    78 01 00 00             | 396 the metadata is of 376 bytes
    54 42 53 31             | 400 TBS1
";

fn reference() -> TensorMap {
    [
        ("gate", Tensor::from_slice(&[1.0_f32, -2.0, 0.5], [3]).unwrap()),
        ("a.w", Tensor::from_slice(&[4.0_f32], []).unwrap()),
        ("none", Tensor::from_slice::<f32>(&[], [0, 7]).unwrap()),
    ]
    .into_iter()
    .collect()
}

fn operations() -> Vec<Operation> {
    let multiply = Operation { id: 9, operation: 15, output: tensorbuffers::id("a.w"), inputs: vec![3, 9] };
    vec![multiply, Operation { id: 3, operation: 0, output: 7, inputs: vec![] }]
}

/// The file of the reference with other bytes in some places.
fn changed(changes: &[(usize, &[u8])]) -> Vec<u8> {
    let mut file = hex(REFERENCE);
    for (at, bytes) in changes {
        file[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    file
}

fn names(map: &TensorMap) -> Vec<&str> {
    map.names().collect()
}

#[test]
fn reads_files_of_the_reference() {
    let file = hex(REFERENCE);
    let map: TensorMap = tensorbuffers::from_slice(&file).unwrap();
    assert_eq!(map, reference());
    assert_eq!(names(&map), ["gate", "a.w", "none"], "in the order of the data");
    assert_eq!(tensorbuffers::from_reader::<TensorMap>(&file[..]).unwrap(), map);
    assert_eq!(tensorbuffers::from_reader::<TensorMap>(Dribble::new(&file)).unwrap(), map);

    let metadata = tensorbuffers::metadata(&file).unwrap();
    assert_eq!(metadata.version, "1.0.0");
    assert_eq!(metadata.model, None);
    assert_eq!(metadata.operations, operations());
    assert!(!metadata.is_sorted);
    assert_eq!(metadata.wrong_ids, [""; 0]);
}

/// The file that we write: tensors at multiples of 64, then the metadata with its entries sorted by id.
fn ours() -> Vec<u8> {
    let mut file = b"TBS1".to_vec();
    file.resize(64, 0);
    file.extend(hex("01 00 ff ff 00 01"));
    file.resize(128, 0);
    file.extend(hex("00 00 00 00 00 00 f8 3f"));
    file.resize(192, 0);
    file.extend(hex("
        10 00 00 00             | 192 the metadata: its table is at 208
        0c 00 14 00 04 00 08 00 | 196 fields of the root: version at 4, model at 8, tensors at 12, operations at 16
        0c 00 10 00
        0c 00 00 00             | 208 the root, fields at 196
        10 00 00 00             | 212 version at 228
        18 00 00 00             | 216 model at 240
        60 00 00 00             | 220 tensors at 316
        18 00 00 00             | 224 operations at 248
        05 00 00 00 31 2e 30 2e | 228 `1.0.0`
        30 00
        00 00                   | 238 padding
        01 00 00 00 6d 00       | 240 `m`
        00 00                   | 246 padding
        01 00 00 00 10 00 00 00 | 248 1 operations, at 268
        0c 00 20 00 0c 00 07 00 | 256 fields of an operation: id at 12, operation at 7, output at 20, inputs at 8
        14 00 08 00
        0c 00 00 00             | 268 an operation, fields at 256
        00 00 00                | 272 padding
        ff                      | 275 operation 255
        18 00 00 00             | 276 inputs at 300
        02 00 00 00 00 00 00 00 | 280 id 2
        05 00 00 00 00 00 00 00 | 288 output 5
        00 00 00 00             | 296 padding
        01 00 00 00 06 00 00 00 | 300 1 inputs: 6
        00 00 00 00
        00 00 00 00             | 312 padding
        02 00 00 00 58 00 00 00 | 316 2 tensors, at 408, 344
        14 00 00 00
        10 00 20 00 18 00 08 00 | 328 fields of a tensor: id at 24, name at 8, shape at 12, dtype at 7, offset at 16, size at 20
        0c 00 07 00 10 00 14 00
        10 00 00 00             | 344 a tensor, fields at 328
        00 00 00                | 348 padding
        02                      | 351 dtype 2
        18 00 00 00             | 352 name at 376
        20 00 00 00             | 356 shape at 388
        80 00 00 00             | 360 offset 128
        08 00 00 00             | 364 size 8
        22 7f 99 70 e3 d4 13 62 | 368 id 6213d4e370997f22
        04 00 00 00 c3 a4 2e 77 | 376 `ä.w`
        00
        00 00 00                | 385 padding
        00 00 00 00             | 388 no dims
        10 00 24 00 18 00 08 00 | 392 fields of a tensor: id at 24, name at 8, shape at 12, dtype at 7, offset at 16, size at 20
        0c 00 07 00 10 00 14 00
        10 00 00 00             | 408 a tensor, fields at 392
        00 00 00                | 412 padding
        04                      | 415 dtype 4
        1c 00 00 00             | 416 name at 444
        20 00 00 00             | 420 shape at 452
        40 00 00 00             | 424 offset 64
        06 00 00 00             | 428 size 6
        ee 1b 4d b5 07 c9 a5 08 | 432 id 8a5c907b54d1bee
        00 00 00 00             | 440 padding
        01 00 00 00 62 00       | 444 `b`
        00 00                   | 450 padding
        02 00 00 00 01 00 00 00 | 452 2 dims: 1, 3
        03 00 00 00
        10 01 00 00             | 464 the metadata is of 272 bytes
        54 42 53 31             | 468 TBS1
    "));
    file
}

#[test]
fn writes_sorted_and_aligned() {
    let map: TensorMap = [
        ("ä.w", Tensor::from_slice(&[1.5_f64], []).unwrap()),
        ("b", Tensor::from_slice(&[1_i16, -1, 256], [1, 3]).unwrap()),
    ]
    .into_iter()
    .rev()
    .collect();
    let operation = Operation { id: 2, operation: -1, output: 5, inputs: vec![6] };
    let options = tensorbuffers::Options::new().model("m").operations([operation.clone()]);
    let file = options.to_vec(&map).unwrap();
    assert_eq!(file, ours());
    let mut written = Vec::new();
    options.to_writer(&mut written, &map).unwrap();
    assert_eq!(written, file);

    let read: TensorMap = tensorbuffers::from_slice(&file).unwrap();
    assert_eq!(read, map);
    assert_eq!(names(&read), ["b", "ä.w"]);
    let metadata = tensorbuffers::metadata(&file).unwrap();
    assert_eq!(metadata.model.as_deref(), Some("m"));
    assert_eq!(metadata.operations, [operation]);
    assert!(metadata.is_sorted);
    assert_eq!(tensorbuffers::Options::new().keep(&metadata).to_vec(&read).unwrap(), file, "a rewrite keeps all");
}

#[test]
fn operations_are_written_sorted() {
    let file = tensorbuffers::Options::new().operations(operations()).to_vec(&reference()).unwrap();
    let [nine, three] = operations().try_into().unwrap();
    assert_eq!(tensorbuffers::metadata(&file).unwrap().operations, [three, nine]);
}

#[test]
fn packed_on_request() {
    let file = tensorbuffers::Options::new().alignment(1).to_vec(&reference()).unwrap();
    // The data is the same as in the reference, and the metadata follows directly.
    assert_eq!(file[..20], hex(REFERENCE)[..20]);
    assert_eq!(tensorbuffers::from_slice::<TensorMap>(&file).unwrap(), reference());
    for alignment in [2, 4, 8, 16, 128, 4096] {
        let file = tensorbuffers::Options::new().alignment(alignment).to_vec(&reference()).unwrap();
        let at = usize::try_from(alignment.max(4)).unwrap();
        assert_eq!(file[at..at + 12], hex(REFERENCE)[4..16], "aligned to {alignment}");
        assert_eq!(tensorbuffers::from_slice::<TensorMap>(&file).unwrap(), reference());
    }
    for alignment in [0, 3, 65] {
        assert_eq!(
            message(tensorbuffers::Options::new().alignment(alignment).to_vec(&reference())),
            format!(
                "tensorbuffers: cannot align tensors to {alignment} bytes; an alignment is a power of two below 2^32"
            )
        );
    }
}

#[test]
fn has_ten_dtypes() {
    let tags = [
        (1, Dtype::F32),
        (2, Dtype::F64),
        (3, Dtype::I8),
        (4, Dtype::I16),
        (5, Dtype::I32),
        (6, Dtype::I64),
        (7, Dtype::U8),
        (8, Dtype::U16),
        (9, Dtype::U32),
        (10, Dtype::U64),
    ];
    assert_eq!(tags.map(|(_, dtype)| dtype), tensorbuffers::DTYPES);
    for (tag, dtype) in tags {
        let bytes = dtype.bytes_for(1).unwrap();
        // `none`, whose shape has a zero, can be of any dtype.
        let file = changed(&[(231, &[tag])]);
        let map: TensorMap = tensorbuffers::from_slice(&file).unwrap();
        assert_eq!(*map["none"].info(), TensorInfo::new(dtype, [0, 7]));

        let tensor = Tensor::new(TensorInfo::new(dtype, []), &[1; 8][..bytes]).unwrap();
        let file = tensorbuffers::Options::new().alignment(1).to_vec(&tensor).unwrap();
        assert_eq!(file[4..4 + bytes], [1; 8][..bytes]);
        assert!(file.windows(4).any(|bytes| bytes == [0, 0, 0, tag]), "dtype {tag}");
        assert_eq!(tensorbuffers::from_slice::<Tensor>(&file).unwrap(), tensor);
    }
}

#[test]
fn ids_need_not_be_those_of_the_names() {
    let file = changed(&[(300, &[0; 8]), (376 + 4, b"G")]);
    let map: TensorMap = tensorbuffers::from_slice(&file).unwrap();
    assert_eq!(names(&map), ["Gate", "a.w", "none"]);
    assert_eq!(tensorbuffers::metadata(&file).unwrap().wrong_ids, ["Gate", "a.w"]);
    let written = tensorbuffers::to_vec(&map).unwrap();
    assert_eq!(tensorbuffers::metadata(&written).unwrap().wrong_ids, [""; 0], "they are written right");
}

#[test]
fn fields_that_may_be_missing() {
    // A file from before operations existed, and a file without tensors.
    let file = changed(&[(38, &[0; 2])]);
    assert_eq!(tensorbuffers::from_slice::<TensorMap>(&file).unwrap(), reference());
    assert_eq!(tensorbuffers::metadata(&file).unwrap().operations, []);
    let file = changed(&[(36, &[0; 2])]);
    assert_eq!(tensorbuffers::from_slice::<TensorMap>(&file).unwrap(), TensorMap::new());
    // A vtable that ends before the inputs, and one before the output.
    for (len, output) in [(10, 7), (8, 0)] {
        let metadata = tensorbuffers::metadata(&changed(&[(96, &[len])])).unwrap();
        let expected = Operation { id: 3, operation: 0, output, inputs: vec![] };
        assert_eq!(metadata.operations[1], expected);
    }
}

#[test]
fn any_version_that_begins_with_one() {
    for version in [b"1.0.1", b"1.9.7", b"1.256"] {
        let file = changed(&[(88, version)]);
        assert_eq!(tensorbuffers::from_slice::<TensorMap>(&file).unwrap(), reference());
        assert_eq!(tensorbuffers::metadata(&file).unwrap().version.as_bytes(), version);
    }
}

#[test]
fn tensors_may_be_one_but_not_overlap() {
    let two: TensorMap =
        [("a", Tensor::from_slice(&[1_u8, 2], [2]).unwrap()), ("b", Tensor::from_slice(&[3_u8, 4], [2]).unwrap())]
            .into_iter()
            .collect();
    let mut file = tensorbuffers::Options::new().alignment(1).to_vec(&two).unwrap();
    let place = [6, 0, 0, 0, 2, 0, 0, 0];
    let at = file.windows(8).position(|bytes| bytes == place).unwrap();
    file[at] = 4;
    let one = Tensor::from_slice(&[1_u8, 2], [2]).unwrap();
    let map: TensorMap = tensorbuffers::from_slice(&file).unwrap();
    assert_eq!(map, [("a", one.clone()), ("b", one)].into_iter().collect::<TensorMap>());
    assert_eq!(tensorbuffers::from_reader::<TensorMap>(&file[..]).unwrap(), map);
    file[at] = 5;
    assert_eq!(
        message(tensorbuffers::from_slice::<TensorMap>(&file)),
        "tensorbuffers: tensor `b`: overlaps tensor `a`, which takes bytes 4 to 6 (at byte 72)"
    );
}

#[test]
fn reports_malformed_files() {
    let mut messages = Messages::default();
    let cut = |len: usize| hex(REFERENCE)[..len].to_vec();
    let flatbuffer = "the flatbuffer is broken";
    for (what, file, expected) in [
        ("nothing", cut(0), "needs 4 more bytes, but the file has 0 left (at byte 0)"),
        ("a magic", cut(4), "needs 8 more bytes, but the file has 0 left (at byte 4)"),
        ("seven bytes more", cut(11), "needs 8 more bytes, but the file has 7 left (at byte 4)"),
        ("two magics", b"TBS1\0\0\0\0TBS1".to_vec(), &format!("{flatbuffer}: a part lies outside of it (at byte 4)")),
        ("another magic", changed(&[(3, b"2")]), "found `TBS2`, but expected `TBS1` (at byte 0)"),
        ("another magic at the end", changed(&[(400, b"TBS2")]), "found `TBS2`, but expected `TBS1` (at byte 400)"),
        ("no magic at the end", cut(400), r"found `x\x01\x00\x00`, but expected `TBS1` (at byte 396)"),
        (
            "metadata of the whole file",
            changed(&[(396, &[0x89, 1])]),
            "metadata size is 393, but expected at most 392 (at byte 396)",
        ),
        (
            "metadata of 4 GiB",
            changed(&[(396, &[0xff; 4])]),
            "metadata size is 4294967295, but expected at most 392 (at byte 396)",
        ),
        (
            "metadata one byte off",
            changed(&[(396, &[0x79])]),
            &format!("{flatbuffer}: a part lies outside of it (at byte 19)"),
        ),
        ("no metadata", changed(&[(396, &[0, 0])]), &format!("{flatbuffer}: a part lies outside of it (at byte 396)")),
        ("no version", changed(&[(32, &[0])]), &format!("{flatbuffer}: it has no `version` (at byte 40)")),
        ("no name", changed(&[(216, &[0])]), &format!("tensor `#2`: {flatbuffer}: it has no `name` (at byte 224)")),
        ("no shape", changed(&[(332, &[0])]), &format!("tensor `gate`: {flatbuffer}: it has no `shape` (at byte 340)")),
        (
            "a name of no text",
            changed(&[(316, &[0xff])]),
            &format!("tensor `#1`: {flatbuffer}: a string is not UTF-8 (at byte 316)"),
        ),
        (
            "a name without its NUL",
            changed(&[(384, b"x")]),
            &format!("tensor `#0`: {flatbuffer}: a string does not end with a NUL (at byte 384)"),
        ),
        (
            "a table at an odd place",
            changed(&[(72, &[0x0e])]),
            &format!("tensor `#0`: {flatbuffer}: an offset is not aligned (at byte 342)"),
        ),
        (
            "too many tensors",
            changed(&[(68, &[0xff; 4])]),
            &format!("{flatbuffer}: a part lies outside of it (at byte 72)"),
        ),
        (
            "too many inputs",
            changed(&[(184, &[0xff; 4])]),
            &format!("{flatbuffer}: a part lies outside of it (at byte 188)"),
        ),
        (
            "another size",
            changed(&[(360, &[8])]),
            "tensor `gate`: payload is 8 bytes, but f32[3] takes 12 (at byte 340)",
        ),
        (
            "another dtype",
            changed(&[(347, &[2])]),
            "tensor `gate`: payload is 12 bytes, but f64[3] takes 24 (at byte 340)",
        ),
        (
            "too large a shape",
            changed(&[(268, &[0xff; 8])]),
            "tensor `none`: payload is 0 bytes, but f32[4294967295, 4294967295] takes more than can be addressed (at byte 224)",
        ),
        (
            "an offset into the magic",
            changed(&[(356, &[3])]),
            "tensor `gate`: takes bytes 3 to 15, but tensors lie in bytes 4 to 20 (at byte 340)",
        ),
        (
            "an end in the metadata",
            changed(&[(356, &[9])]),
            "tensor `gate`: takes bytes 9 to 21, but tensors lie in bytes 4 to 20 (at byte 340)",
        ),
        (
            "an offset outside",
            changed(&[(356, &[0xff; 4])]),
            "tensor `gate`: takes bytes 4294967295 to 4294967307, but tensors lie in bytes 4 to 20 (at byte 340)",
        ),
        (
            "nothing inside of the metadata",
            changed(&[(240, &[21])]),
            "tensor `none`: takes bytes 21 to 21, but tensors lie in bytes 4 to 20 (at byte 224)",
        ),
        (
            "an overlap",
            changed(&[(292, &[8])]),
            "tensor `a.w`: overlaps tensor `gate`, which takes bytes 4 to 16 (at byte 276)",
        ),
        (
            "an operation without a list of fields",
            changed(&[(96, &[2])]),
            "length of a table's list of fields is 2, but expected at least 4 (at byte 96)",
        ),
        (
            "another operation without one",
            changed(&[(140, &[0])]),
            "length of a table's list of fields is 0, but expected at least 4 (at byte 140)",
        ),
    ] {
        let expected = format!("tensorbuffers: {expected}");
        messages.compare(what, tensorbuffers::from_slice::<TensorMap>(&file), &expected);
        messages.compare(format!("{what}, by its metadata"), tensorbuffers::metadata(&file), &expected);
        messages.compare(
            format!("{what}, from a stream"),
            tensorbuffers::from_reader::<TensorMap>(&file[..]),
            &expected,
        );
    }
    messages.end();
}

#[test]
fn other_versions_and_repeated_names_are_read_with_a_warning() {
    use WarningKind::{DuplicateName, Name, Version};
    let (of_version, twice) = ("but the format is known as 1.x", "; the reference reader finds one of them");
    for (what, file, kinds, text) in [
        ("version 2", changed(&[(88, b"2")]), &[Version][..], of_version),
        ("version 11", changed(&[(88, b"11.0\n")]), &[Version], of_version),
        ("an id twice", changed(&[(300, &hex("17 94 5b 4c bd 69 73 71"))]), &[DuplicateName, Name], twice),
        ("a name twice", changed(&[(256, b"gate")]), &[Name], "gate"),
        ("an entry twice", changed(&[(76, &[8, 1])]), &[DuplicateName], twice),
    ] {
        let opened = File::from_bytes(file.clone()).unwrap();
        let reference = File::from_bytes(hex(REFERENCE)).unwrap();
        assert_eq!(opened.len(), reference.len(), "{what}");
        let warnings = opened.metadata().unwrap().warnings;
        let found: Vec<WarningKind> = warnings.iter().map(|warning| warning.kind).collect();
        assert!(kinds.iter().all(|kind| found.contains(kind)), "{what}: {warnings:?}");
        assert!(warnings.iter().any(|warning| warning.text.contains(text)), "{what}: {warnings:?}");
        for at in (0..opened.len()).filter(|_| what != "an entry twice") {
            assert_eq!(opened.nth(at).unwrap().read().unwrap(), reference.nth(at).unwrap().read().unwrap(), "{what}");
        }
        let names: std::collections::HashSet<&str> = opened.tensors().map(|tensor| tensor.name()).collect();
        if names.len() < opened.len() {
            let error = "several tensors are named `gate`, so it can only be read by position";
            assert!(message(opened.tensor("gate")).contains("gate"), "{error}");
            let map = message(tensorbuffers::from_slice::<TensorMap>(&file));
            assert!(map.contains("`gate`"), "{what}: {map}");
        } else {
            assert_eq!(tensorbuffers::from_slice::<TensorMap>(&file).unwrap(), self::reference(), "{what}")
        }
    }
    // Nothing is appended to unknown content.
    let (_folder, path) = on_disk(&changed(&[(88, b"2")]));
    let expected = "tensorbuffers: cannot change a file of version `2.0.0`; 1.x is known; write a new file";
    assert_eq!(message(tensorbuffers::append(&path, &TensorMap::new())), expected);
}

#[test]
fn no_byte_can_do_harm() {
    for file in [hex(REFERENCE), ours()] {
        for at in 0..file.len() {
            for bit in 0..8 {
                let mut wrong = file.clone();
                wrong[at] ^= 1 << bit;
                let read = tensorbuffers::from_slice::<TensorMap>(&wrong).map(drop);
                let metadata = tensorbuffers::metadata(&wrong).map(drop);
                for error in [read.err(), metadata.err()].into_iter().flatten() {
                    let category = error.category();
                    // Some bytes are dtypes, and others make two names the same.
                    let is_unknown =
                        matches!(error.kind(), ErrorKind::Unsupported { .. } | ErrorKind::AmbiguousName { .. });
                    assert!(
                        is_unknown || matches!(category, Category::File | Category::Limit),
                        "bit {bit} of byte {at}: {error}"
                    );
                }
            }
            for cut in [&file[..at], &file[at + 1..], &[&file[..at], &file[at + 1..]].concat()] {
                drop(tensorbuffers::from_slice::<TensorMap>(cut));
                drop(tensorbuffers::metadata(cut));
            }
            let error = tensorbuffers::from_slice::<TensorMap>(&file[..at]).unwrap_err();
            assert_eq!(error.category(), Category::File, "cut at {at}: {error}");
        }
    }
}

/// A flatbuffer whose operations are all one, which has many inputs.
fn shared(operations: u32, inputs: u32) -> Vec<u8> {
    let mut metadata = hex("
        18 00 00 00             |  0 the table is at 24
        0c 00 10 00             |  4 a vtable
        04 00 00 00 00 00 08 00 |    version at 4, operations at 8
        0c 00 10 00             | 16 a vtable, cut short to 8 bytes by the next line
        00 00 00 00             |    padding
        14 00 00 00             | 24 the table: its vtable is 20 before
        0c 00 00 00             |    version at 40
        14 00 00 00             |    operations at 52
        00 00 00 00             |    padding
        05 00 00 00             | 40 the version
        31 2e 30 2e 30 00 00 00 |
    ");
    let at = |metadata: &Vec<u8>| u32::try_from(metadata.len()).unwrap();
    metadata.extend(operations.to_le_bytes());
    let table = at(&metadata) + 4 * operations + 12;
    for _ in 0..operations {
        let offset = table - at(&metadata);
        metadata.extend(offset.to_le_bytes());
    }
    // A vtable of 12 bytes with inputs at 4, the table, and the inputs.
    metadata.extend(hex("0c 00 08 00 00 00 00 00 00 00 04 00"));
    metadata.extend(hex("0c 00 00 00"));
    let padding = at(&metadata) % 8;
    metadata.extend((4 + padding).to_le_bytes());
    metadata.resize(metadata.len() + padding as usize, 0);
    metadata.extend(inputs.to_le_bytes());
    metadata.resize(metadata.len() + 8 * inputs as usize, 7);
    let size = at(&metadata).to_le_bytes();
    [b"TBS1", &metadata[..], &size, b"TBS1"].concat()
}

#[test]
fn shared_parts_cannot_make_much_of_little() {
    let metadata = tensorbuffers::metadata(&shared(3, 2)).unwrap();
    assert_eq!(metadata.operations.len(), 3);
    assert_eq!(metadata.operations[2].inputs, [0x0707_0707_0707_0707; 2]);
    assert_eq!(
        message(tensorbuffers::metadata(&shared(10_000, 10_000))),
        "tensorbuffers: the flatbuffer is broken: its parts are referenced too often (at byte 4)"
    );
}

#[test]
fn limits_are_kept() {
    let limits = |limits| tensorbuffers::Options::new().limits(limits);
    let file = hex(REFERENCE);
    let expected = "tensorbuffers: number of tensors is 3, but the limit is 2 (at byte 20)";
    assert_eq!(message(limits(Limits::new().tensors(2)).from_slice::<TensorMap>(&file)), expected);
    assert_eq!(message(limits(Limits::new().tensors(2)).from_reader::<TensorMap>(&file[..])), expected);
    assert_eq!(
        message(limits(Limits::new().rank(1)).from_slice::<TensorMap>(&file)),
        "tensorbuffers: tensor `none`: rank is 2, but the limit is 1 (at byte 224)"
    );
    assert_eq!(
        message(limits(Limits::new().payload(100)).from_reader::<TensorMap>(&file[..])),
        "tensorbuffers: the length of a stream that cannot be read in order is 400, but the limit is 100"
    );
}

/// Arrays of any size that take no memory.
#[derive(TensorFile)]
struct Broadcast<'a> {
    first: ArrayView2<'a, u8>,
    #[tensor(rename = "the.second")]
    second: ArrayView2<'a, f32>,
}

#[test]
fn refuses_more_than_4_gib_before_writing() {
    let (byte, float) = (array![[7_u8]], array![[0.5_f32]]);
    let value = |first: [usize; 2], second: [usize; 2]| Broadcast {
        first: byte.broadcast(first).unwrap(),
        second: float.broadcast(second).unwrap(),
    };
    let mut messages = Messages::default();
    let packed = tensorbuffers::Options::new().alignment(1);
    for (what, value, expected) in [
        (
            "a tensor",
            value([1 << 16, 1 << 16], [1, 1]),
            "tensor `first`: cannot store 4294967296 bytes; tensorbuffers stores tensors below 4 GiB",
        ),
        (
            "a dim",
            value([0, 1 << 32], [1, 1]),
            "tensor `first`: cannot store a dim of 4294967296; tensorbuffers stores dims below 2^32",
        ),
        (
            "two tensors",
            value([3, 1 << 30], [1 << 10, 1 << 19]),
            "tensor `the.second`: cannot store it at bytes 3221225476 to 5368709124; \
             tensorbuffers addresses bytes below 4 GiB; write several files",
        ),
        (
            "one byte",
            value([1, (1 << 32) - 8], [1, 1]),
            "tensor `the.second`: cannot store it at bytes 4294967292 to 4294967296; \
             tensorbuffers addresses bytes below 4 GiB; write several files",
        ),
        ("nothing", value([1, (1 << 32) - 9], [1, 1]), "no error"),
    ] {
        let expected = if expected == "no error" { expected.to_owned() } else { format!("tensorbuffers: {expected}") };
        messages.compare(what, packed.plan(&value), &expected);
        if expected != "no error" {
            let mut written = Vec::new();
            messages.compare(what, packed.to_writer(&mut written, &value), &expected);
            assert!(written.is_empty(), "{what}: something was written");
        }
    }
    messages.end();
    assert!(packed.plan(&value([1, (1 << 32) - 9], [1, 1])).unwrap().file_bytes() > 1 << 32);
}

#[test]
fn cannot_store_other_dtypes() {
    let tensor = Tensor::new(TensorInfo::new(Dtype::Bf16, [1]), &[0; 2]).unwrap();
    let map: TensorMap = [("layer.bias", tensor)].into_iter().collect();
    assert_eq!(
        message(tensorbuffers::to_vec(&map)),
        "tensorbuffers: tensor `layer.bias`: cannot store bf16; \
         tensorbuffers stores f32, f64, i8, i16, i32, i64, u8, u16, u32, u64; `view::CastView` casts"
    );
}

#[derive(TensorFile, Debug, PartialEq)]
struct Linear {
    weight: Array2<f32>,
    bias: Option<Array1<f32>>,
}

#[derive(TensorFile, Debug, PartialEq)]
struct Attention {
    query: Linear,
    key: Linear,
}

#[derive(TensorFile, Debug, PartialEq)]
struct Layer {
    #[tensor(rename = "attention.self")]
    attention: Attention,
    #[tensor(rename = "output.LayerNorm")]
    norm: Linear,
}

/// A few parts of MiniLM, by their real names.
#[derive(TensorFile, Debug, PartialEq)]
struct MiniLm {
    #[tensor(rename = "embeddings.position_ids")]
    position_ids: Array2<i64>,
    #[tensor(rename = "embeddings.word_embeddings.weight")]
    words: Array2<f32>,
    #[tensor(rename = "encoder.layer")]
    layers: Vec<Layer>,
}

#[test]
fn derived_structs_come_back() {
    let linear = |seed: u8| Linear {
        weight: array![[f32::from(seed), 0.5], [-1.0, 2.0]],
        bias: seed.is_multiple_of(2).then(|| array![1.0, f32::from(seed)]),
    };
    let layer =
        |seed| Layer { attention: Attention { query: linear(seed), key: linear(seed + 1) }, norm: linear(seed + 2) };
    let model =
        MiniLm { position_ids: array![[0, 1, 2]], words: array![[0.25], [0.75]], layers: (0..12).map(layer).collect() };
    let file = tensorbuffers::to_vec(&model).unwrap();
    let map: TensorMap = tensorbuffers::from_slice(&file).unwrap();
    assert!(map.get("encoder.layer.11.attention.self.key.weight").is_some());
    assert_eq!(tensorbuffers::from_slice::<MiniLm>(&file).unwrap(), model);
    assert_eq!(tensorbuffers::from_reader::<MiniLm>(&file[..]).unwrap(), model);
    assert_eq!(tensorbuffers::to_vec(&model).unwrap(), file, "the same value gives the same bytes");
    let packed = tensorbuffers::Options::new().alignment(1).to_vec(&model).unwrap();
    assert_eq!(tensorbuffers::from_slice::<MiniLm>(&packed).unwrap(), model);
}

#[test]
fn views_borrow_from_our_files_and_cows_copy_from_packed_ones() {
    let value = Arrays((array![1_u8], array![1.0_f64, 2.0]));
    let file = tensorbuffers::to_vec(&value).unwrap();
    // The bytes of a `Vec<u64>` start at a multiple of 8.
    let mut words = vec![0_u64; file.len().div_ceil(8)];
    let memory = &mut bytemuck::cast_slice_mut(&mut words)[..file.len()];
    memory.copy_from_slice(&file);
    let Arrays((_, view)): Arrays<(ArrayView1<'_, u8>, ArrayView1<'_, f64>)> =
        tensorbuffers::from_slice(memory).unwrap();
    assert_eq!(view, array![1.0, 2.0]);
    assert!(memory.as_ptr_range().contains(&view.as_ptr().cast()));

    let file = tensorbuffers::Options::new().alignment(1).to_vec(&value).unwrap();
    memory[..file.len()].copy_from_slice(&file);
    let memory = &memory[..file.len()];
    let Arrays((_, cow)): Arrays<(ArrayView1<'_, u8>, CowArray<'_, f64, Ix1>)> =
        tensorbuffers::from_slice(memory).unwrap();
    assert!(!cow.is_view());
    assert_eq!(
        message(tensorbuffers::from_slice::<Arrays<(ArrayView1<'_, u8>, ArrayView1<'_, f64>)>>(memory)),
        "tensorbuffers: tensor `1`: cannot borrow f64 from bytes that do not start at a multiple of 8; \
         a `CowArray` would copy them (at byte 5)"
    );
}

#[test]
fn tensors_without_elements_keep_their_places() {
    let empty = || Tensor::from_slice::<u8>(&[], [0]).unwrap();
    let full = || Tensor::from_slice(&[1_u8], [1]).unwrap();
    let order = ["e", "z", "full", "a", "y", "b"];
    let map: TensorMap = order.iter().map(|&name| (name, if name == "full" { full() } else { empty() })).collect();
    for alignment in [1, 64] {
        let file = tensorbuffers::Options::new().alignment(alignment).to_vec(&map).unwrap();
        assert_eq!(names(&tensorbuffers::from_slice(&file).unwrap()), order);
    }
}

#[test]
fn entries_may_lie_in_another_order_than_their_data() {
    let tensor = |at: u32| Tensor::from_slice(&[at], [1]).unwrap();
    for count in [2, 200] {
        let map: TensorMap = (0..count).map(|at| (format!("t{at}"), tensor(at))).collect();
        let mut file = tensorbuffers::Options::new().alignment(4).to_vec(&map).unwrap();
        // Each entry gets the data of the entry as far from the other end.
        let offset = |at: u32| (4 + 4 * at).to_le_bytes();
        let id = |at: u32| tensorbuffers::id(&format!("t{at}")).to_le_bytes();
        let ids: Vec<usize> = (0..count).map(|at| file.windows(8).position(|bytes| bytes == id(at)).unwrap()).collect();
        let is_offset = |distance: &usize| {
            ids.iter().zip(0..).all(|(id, at)| file.get(id - 32 + distance..).unwrap().starts_with(&offset(at)))
        };
        let distance = (0..64).find(is_offset).unwrap();
        for (id, at) in ids.iter().zip((0..count).rev()) {
            file[id - 32 + distance..][..4].copy_from_slice(&offset(at));
        }
        let read: TensorMap = tensorbuffers::from_slice(&file).unwrap();
        let expected: TensorMap = (0..count).rev().map(|at| (format!("t{at}"), tensor(count - 1 - at))).collect();
        assert!(read == expected && read.names().eq(expected.names()), "{count} tensors");
    }
}

#[test]
fn a_hundred_thousand_tensors() {
    let name = |at: usize| format!("model.layers.{}.block.{}.weight", at / 100, at % 100);
    let tensor = |at: usize| Tensor::from_slice(&[at as u32, 7], [2, 1]).unwrap();
    let map: TensorMap = (0..100_000).map(|at| (name(at), tensor(at))).collect();
    let file = tensorbuffers::to_vec(&map).unwrap();
    let read: TensorMap = tensorbuffers::from_slice(&file).unwrap();
    assert!(read == map);
    assert!(read.names().eq(map.names()), "in the order that they were written in");
    assert!(tensorbuffers::from_reader::<TensorMap>(&file[..]).unwrap() == map);
    assert!(tensorbuffers::metadata(&file).unwrap().is_sorted);
}

/// A file alone in a folder.
fn on_disk(file: &[u8]) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.tbs");
    std::fs::write(&path, file).unwrap();
    (folder, path)
}

#[test]
fn appends_to_a_file_of_the_reference() {
    let (_folder, path) = on_disk(&changed(&[(300, &[1; 8])]));
    let more: TensorMap = [("c.x", Tensor::from_slice(&[1_u64], [1]).unwrap())].into_iter().collect();
    tensorbuffers::append(&path, &more).unwrap();
    let file = std::fs::read(&path).unwrap();
    assert_eq!(file[..20], hex(REFERENCE)[..20], "the data is not touched");
    assert_eq!(file[64..72], [1, 0, 0, 0, 0, 0, 0, 0], "the new tensor is aligned");
    let map: TensorMap = tensorbuffers::from_slice(&file).unwrap();
    assert_eq!(names(&map), ["gate", "a.w", "none", "c.x"]);
    assert_eq!(map, reference().into_iter().chain(more).collect());
    let metadata = tensorbuffers::metadata(&file).unwrap();
    assert!(metadata.is_sorted);
    assert_eq!(metadata.wrong_ids, ["a.w"], "operations may refer to the id that it has");
    assert_eq!(metadata.operations, operations().into_iter().rev().collect::<Vec<_>>());

    let options = tensorbuffers::Options::new().model("m").operations([]).alignment(1);
    options.append(&path, &Arrays((array![5_u8],))).unwrap();
    let file = std::fs::read(&path).unwrap();
    assert_eq!(names(&tensorbuffers::from_slice(&file).unwrap()), ["gate", "a.w", "none", "c.x", "0"]);
    let metadata = tensorbuffers::metadata(&file).unwrap();
    assert_eq!((metadata.model.as_deref(), metadata.operations.len()), (Some("m"), 0));

    tensorbuffers::append(&path, &TensorMap::new()).unwrap();
    let metadata = tensorbuffers::metadata(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(metadata.model.as_deref(), Some("m"), "what a file says stays");
}

#[test]
fn appending_in_steps_is_writing_at_once() {
    let map: TensorMap = (0..20)
        .map(|at: u8| (format!("t.{at}"), Tensor::from_slice(&vec![at; 9 * at as usize], [9, at as usize]).unwrap()))
        .collect();
    let (_folder, path) = on_disk(&tensorbuffers::to_vec(&TensorMap::new()).unwrap());
    for (name, tensor) in &map {
        tensorbuffers::append(
            &path,
            &[(name, tensor.clone())].into_iter().map(|(name, tensor)| (name.clone(), tensor)).collect::<TensorMap>(),
        )
        .unwrap();
    }
    assert_eq!(std::fs::read(&path).unwrap(), tensorbuffers::to_vec(&map).unwrap());
}

#[test]
fn failed_appends_keep_the_file() {
    let one = |name: &str, tensor| [(name, tensor)].into_iter().collect::<TensorMap>();
    let tensor = || Tensor::from_slice(&[1_u8], [1]).unwrap();
    let mut messages = Messages::default();
    for (what, file, value, expected) in [
        ("a name twice", hex(REFERENCE), one("a.w", tensor()), "two tensors are named `a.w`"),
        ("a name of another id", changed(&[(300, &[0; 8])]), one("a.w", tensor()), "two tensors are named `a.w`"),
        (
            "an id twice",
            changed(&[(300, &tensorbuffers::id("x").to_le_bytes())]),
            one("x", tensor()),
            "cannot store tensors `a.w` and `x` in one file; they have the same id, 08f1c907b58eba68",
        ),
        (
            "a dtype",
            hex(REFERENCE),
            one("x", Tensor::new(TensorInfo::new(Dtype::Bool, [1]), &[1]).unwrap()),
            "tensor `x`: cannot store bool; tensorbuffers stores f32, f64, i8, i16, i32, i64, u8, u16, u32, u64",
        ),
        ("no file", changed(&[(0, b"X")]), one("x", tensor()), "found `XBS1`, but expected `TBS1` (at byte 0)"),
        ("a short file", vec![0; 3], one("x", tensor()), "needs 4 more bytes, but the file has 3 left (at byte 0)"),
        (
            "a name twice in the file",
            changed(&[(256, b"gate")]),
            one("x", tensor()),
            "two tensors are named `gate` (at byte 20)",
        ),
    ] {
        let (folder, path) = on_disk(&file);
        let appended = tensorbuffers::append(&path, &value);
        let category = appended.as_ref().unwrap_err().category();
        // Errors of the appended tensors do not blame the tensors of the file.
        let is_call = ["a name twice", "a name of another id", "an id twice", "a dtype"].contains(&what);
        assert_eq!(category, if is_call { Category::Call } else { Category::File }, "{what}");
        messages.compare(what, appended, &format!("tensorbuffers: {expected}"));
        assert_eq!(std::fs::read(&path).unwrap(), file, "{what}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "{what}: nothing is left behind");
    }
    messages.end();
    let (folder, _) = on_disk(&[]);
    let nowhere = folder.path().join("no.tbs");
    let error = tensorbuffers::append(&nowhere, &reference()).unwrap_err();
    assert_eq!(error.category(), Category::Io);
    assert!(error.to_string().starts_with(&format!("tensorbuffers: {}: ", nowhere.display())), "{error}");
}

#[test]
fn unknown_dtypes_cost_their_tensor_only() {
    let range = |name: &str| OpenOptions::new().from_bytes(changed(&[])).unwrap().get(name).unwrap().range();
    for (at, tag, name, info) in [
        (347, 0, "gate", "0[3] of unknown dtype"),
        (347, 11, "gate", "11[3] of unknown dtype"),
        (283, 0xff, "a.w", "-1[] of unknown dtype"),
    ] {
        check_unknown(format("tensorbuffers"), &changed(&[(at, &[tag])]), name, info, range(name));
    }
}

#[test]
fn wrong_ids_are_counted_in_the_order_of_the_data() {
    for names in [["x", "a", "b", "c"], ["c", "b", "a", "x"]] {
        let map: TensorMap = names.into_iter().map(|name| (name, Tensor::from_slice(&[1_u8], [1]).unwrap())).collect();
        let mut file = tensorbuffers::to_vec(&map).unwrap();
        for name in names {
            let id = tensorbuffers::id(name);
            let at = file.windows(8).position(|bytes| bytes == id.to_le_bytes()).unwrap();
            file[at] ^= 1;
        }
        let warnings = crate::support::warnings(&File::from_bytes(file).unwrap().metadata().unwrap());
        let expected = format!(
            "4 tensors, `{}` first, have ids that are not those of their names; the reference reader misses them",
            names[0]
        );
        assert_eq!(warnings, [expected]);
    }
}

#[test]
fn metadata_holds_nothing_for_each_tensor() {
    let map: TensorMap =
        (0..10_000).map(|at| (format!("layers.{at}"), Tensor::from_slice(&[1_u8], [1]).unwrap())).collect();
    let file = tensorbuffers::Options::new().alignment(1).to_vec(&map).unwrap();
    let len = file.len();
    let file = File::from_bytes(file).unwrap();
    let (metadata, bytes) = crate::support::memory::peak(|| file.metadata().unwrap());
    assert_eq!(metadata.warnings, []);
    assert!(bytes < len + 4096, "{bytes} bytes for a file of {len}");
}
