use half::f16;
use ndarray::{Array1, Array2, ArrayView1, ArrayView2, CowArray, Ix1, Ix2, array};
use tensorfile::file::Backend;
use tensorfile::model::TensorData;
use tensorfile::{
    Arrays, CooTensor, Dtype, OpenOptions, Tensor, TensorFile, TensorInfo, TensorMap, TensorView, WriteOptions, btf,
};

use crate::support::{Dribble, Messages, hex, message, u64s};

/// Two tensors: one takes padding, the other is of rank 0.
const DENSE: &str = "
    02 00 00 00 00 00 00 00 | two tensors
    18 00 00 00 00 00 00 00 | the first at byte 24
    40 00 00 00 00 00 00 00 | the second at byte 64
    02 00 00 00 00 00 00 00 | rank 2
    01 00 00 00 00 00 00 00 | i16, row-major, reserved
    01 00 00 00 00 00 00 00 | 1
    03 00 00 00 00 00 00 00 | by 3
    01 00 ff ff 00 01 00 00 | 1, -1, 256, padding
    00 00 00 00 00 00 00 00 | rank 0
    05 00 00 00 00 00 00 00 | f64, row-major, reserved
    00 00 00 00 00 00 f8 3f | 1.5
";

fn dense() -> TensorMap {
    let (a, b) = (Tensor::from_slice(&[1_i16, -1, 256], [1, 3]), Tensor::from_slice(&[1.5_f64], []));
    [("0", a.unwrap()), ("1", b.unwrap())].into_iter().collect()
}

/// A record of rank 1; `tag` holds the dtype and the layout.
fn record(tag: [u8; 2], dim: u64, payload: &[u8]) -> Vec<u8> {
    let mut record = u64s(&[1]);
    record.extend([tag[0], tag[1], 0, 0, 0, 0, 0, 0]);
    record.extend(u64s(&[dim]));
    record.extend(payload);
    record.resize(record.len().next_multiple_of(8), 0);
    record
}

#[test]
fn reads_dense_tensors() {
    assert_eq!(btf::from_slice::<TensorMap>(&hex(DENSE)).unwrap(), dense());
    assert_eq!(btf::from_reader::<TensorMap>(&hex(DENSE)[..]).unwrap(), dense());
}

#[test]
fn writes_dense_tensors() {
    assert_eq!(btf::to_vec(&dense()).unwrap(), hex(DENSE));
    let mut file = Vec::new();
    btf::to_writer(&mut file, &Arrays((array![[1_i16, -1, 256]], 1.5_f64))).unwrap();
    assert_eq!(file, hex(DENSE));
}

#[test]
fn a_file_without_tensors_is_a_count_of_zero() {
    assert_eq!(btf::to_vec(&TensorMap::new()).unwrap(), [0; 8]);
    assert_eq!(btf::from_slice::<TensorMap>(&[0; 8]).unwrap(), TensorMap::new());
    assert_eq!(btf::from_reader::<TensorMap>(&[0; 8][..]).unwrap(), TensorMap::new());
}

#[test]
fn remarks_on_bytes_after_the_last_record() {
    let warnings = |file: &[u8]| {
        let file = OpenOptions::new().format(&btf::FORMAT).from_bytes(file.to_vec()).unwrap();
        crate::support::warnings(&file.metadata().unwrap())
    };
    assert_eq!(warnings(&hex(DENSE)), [""; 0]);
    assert_eq!(warnings(&[0; 8]), [""; 0]);
    assert_eq!(warnings(&[0; 4096]), ["4088 bytes at the end, from byte 8 on, belong to no tensor"]);
    assert_eq!(warnings(&[hex(DENSE), vec![0]].concat()), ["1 byte at the end, from byte 88 on, belong to no tensor"]);
    // The padding of the last record may be left out.
    let file = [u64s(&[1, 16]), record([6, 0], 3, &[1, 2, 3])].concat();
    assert_eq!(warnings(&file[..file.len() - 5]), [""; 0]);
}

#[test]
fn has_ten_dtypes() {
    let tensors: [(u8, Tensor, &[u8]); 10] = [
        (0, Tensor::from_slice(&[i8::MIN, 1], [2]).unwrap(), &[0x80, 1]),
        (1, Tensor::from_slice(&[i16::MIN, 1], [2]).unwrap(), &[0, 0x80, 1, 0]),
        (2, Tensor::from_slice(&[i32::MIN, 1], [2]).unwrap(), &[0, 0, 0, 0x80, 1, 0, 0, 0]),
        (3, Tensor::from_slice(&[i64::MIN, 1], [2]).unwrap(), &[0, 0, 0, 0, 0, 0, 0, 0x80, 1, 0, 0, 0, 0, 0, 0, 0]),
        (4, Tensor::from_slice(&[-2.0_f32, 0.15625], [2]).unwrap(), &[0, 0, 0, 0xc0, 0, 0, 0x20, 0x3e]),
        (
            5,
            Tensor::from_slice(&[-2.0_f64, 0.1], [2]).unwrap(),
            &[0, 0, 0, 0, 0, 0, 0, 0xc0, 0x9a, 0x99, 0x99, 0x99, 0x99, 0x99, 0xb9, 0x3f],
        ),
        (6, Tensor::from_slice(&[u8::MAX, 1], [2]).unwrap(), &[0xff, 1]),
        (7, Tensor::from_slice(&[0x0102_u16, 1], [2]).unwrap(), &[2, 1, 1, 0]),
        (8, Tensor::from_slice(&[0x0102_0304_u32, 1], [2]).unwrap(), &[4, 3, 2, 1, 1, 0, 0, 0]),
        (
            9,
            Tensor::from_slice(&[0x0102_0304_0506_0708_u64, 1], [2]).unwrap(),
            &[8, 7, 6, 5, 4, 3, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0],
        ),
    ];
    for (tag, tensor, payload) in tensors {
        let file = [u64s(&[1, 16]), record([tag, 0], 2, payload)].concat();
        assert_eq!(btf::from_slice::<Tensor>(&file).unwrap(), tensor, "dtype {tag}");
        assert_eq!(btf::from_reader::<Tensor>(&file[..]).unwrap(), tensor, "dtype {tag} from a stream");
        assert_eq!(btf::to_vec(&tensor).unwrap(), file, "dtype {tag}");
    }
}

const SPARSE: &str = "
    01 00 00 00 00 00 00 00 | one tensor
    10 00 00 00 00 00 00 00 | at byte 16
    02 00 00 00 00 00 00 00 | rank 2
    04 02 00 00 00 00 00 00 | f32, COO, reserved
    03 00 00 00 00 00 00 00 | 3
    04 00 00 00 00 00 00 00 | by 4
    03 00 00 00 00 00 00 00 | three coordinates
    02 00 00 00 00 00 00 00 | of rank 2
    00 00 00 00 00 00 00 00 | (0,
    01 00 00 00 00 00 00 00 | 1)
    02 00 00 00 00 00 00 00 | (2,
    03 00 00 00 00 00 00 00 | 3)
    01 00 00 00 00 00 00 00 | (1,
    00 00 00 00 00 00 00 00 | 0)
    03 00 00 00 00 00 00 00 | three values
    00 00 80 3f 00 00 00 c0 | 1, -2
    00 00 00 3f 00 00 00 00 | 0.5, padding
";

fn sparse() -> CooTensor<f32> {
    CooTensor::new([3, 4], vec![0, 1, 2, 3, 1, 0], vec![1.0, -2.0, 0.5]).unwrap()
}

#[test]
fn reads_sparse_tensors_of_either_layout_number() {
    let file = hex(SPARSE);
    let mut of_tfrt = file.clone();
    of_tfrt[25] = 1;
    for file in [file, of_tfrt] {
        assert_eq!(btf::from_slice::<CooTensor<f32>>(&file).unwrap(), sparse());
        assert_eq!(btf::from_reader::<CooTensor<f32>>(&file[..]).unwrap(), sparse());
        let map: TensorMap = btf::from_slice(&file).unwrap();
        assert_eq!(map["0"], sparse().to_tensor());
        assert_eq!(map["0"].info().to_string(), "f32[3, 4] in COO layout with 3 values");
    }
}

#[test]
fn writes_the_layout_number_of_the_specification_or_of_tfrt() {
    let mut file = hex(SPARSE);
    assert_eq!(btf::to_vec(&sparse()).unwrap(), file);
    assert_eq!(btf::to_vec(&sparse().to_tensor()).unwrap(), file);
    file[25] = 1;
    assert_eq!(btf::Options::new().tfrt_coo(true).to_vec(&sparse()).unwrap(), file);
    let map: TensorMap = btf::from_slice(&file).unwrap();
    assert_eq!(btf::FORMAT.to_vec(&map, &WriteOptions::new().tfrt_coo(true)).unwrap(), file);
    let old = OpenOptions::new().format(&btf::FORMAT).from_bytes(file.clone()).unwrap();
    let options = WriteOptions::new().keep_metadata(&old.metadata().unwrap());
    assert_eq!(btf::FORMAT.to_vec(&old, &options).unwrap(), file);
    assert_eq!(btf::FORMAT.to_vec(&map, &WriteOptions::new()).unwrap(), hex(SPARSE));
}

#[test]
fn files_state_their_layout_numbers() {
    let layouts = |file: &[u8]| {
        let file = OpenOptions::new().format(&btf::FORMAT).from_bytes(file.to_vec()).unwrap();
        file.metadata().unwrap().coo_layouts
    };
    let mut of_tfrt = hex(SPARSE);
    of_tfrt[25] = 1;
    assert_eq!(layouts(&hex(DENSE)), [0; 0]);
    assert_eq!(layouts(&hex(SPARSE)), [2]);
    assert_eq!(layouts(&of_tfrt), [1]);
    let record = |file: &[u8]| file[16..].to_vec();
    let both = [u64s(&[2, 24, 24 + 120]), record(&hex(SPARSE)), record(&of_tfrt)].concat();
    assert_eq!(layouts(&both), [1, 2]);
}

#[test]
fn sparse_tensors_may_be_empty_or_of_rank_0() {
    let empty = hex("
        01 00 00 00 00 00 00 00 10 00 00 00 00 00 00 00 | one tensor at byte 16
        01 00 00 00 00 00 00 00 09 02 00 00 00 00 00 00 | rank 1, u64, COO
        05 00 00 00 00 00 00 00                         | 5
        00 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00 | no coordinates of rank 1
        00 00 00 00 00 00 00 00                         | no values
    ");
    let tensor = CooTensor::<u64>::new([5], vec![], vec![]).unwrap();
    assert_eq!(btf::from_slice::<CooTensor<u64>>(&empty).unwrap(), tensor);
    assert_eq!(btf::to_vec(&tensor).unwrap(), empty);

    let scalar = hex("
        01 00 00 00 00 00 00 00 10 00 00 00 00 00 00 00 | one tensor at byte 16
        00 00 00 00 00 00 00 00 01 02 00 00 00 00 00 00 | rank 0, i16, COO
        02 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 | two coordinates of rank 0
        02 00 00 00 00 00 00 00                         | two values
        07 00 08 00 00 00 00 00                         | 7, 8, padding
    ");
    let tensor = CooTensor::<i16>::new([], vec![], vec![7, 8]).unwrap();
    assert_eq!(btf::from_slice::<CooTensor<i16>>(&scalar).unwrap(), tensor);
    assert_eq!(btf::from_reader::<CooTensor<i16>>(&scalar[..]).unwrap(), tensor);
    assert_eq!(btf::to_vec(&tensor).unwrap(), scalar);
}

/// A file of `u8` tensors, one a record, with the offset table given and the records where `at` says.
fn laid_out(offsets: &[u64], records: &[(usize, Vec<u8>)]) -> Vec<u8> {
    let mut file = u64s(&[offsets.len() as u64]);
    file.extend(u64s(offsets));
    for (at, record) in records {
        // Gaps are not zeros, so they cannot be mistaken for padding.
        file.resize((*at).max(file.len()), 0xaa);
        file.splice(*at.., record.iter().copied());
    }
    file
}

#[test]
fn follows_the_offset_table() {
    let bytes = |payload: &[u8]| record([6, 0], payload.len() as u64, payload);
    let (one, two) = (bytes(&[1, 2, 3]), bytes(&[4, 5, 6, 7, 8, 9, 10, 11, 12]));
    let unpadded = |mut record: Vec<u8>, padding: usize| {
        record.truncate(record.len() - padding);
        record
    };
    for (what, file) in [
        ("in order", laid_out(&[24, 56], &[(24, one.clone()), (56, two.clone())])),
        ("reordered", laid_out(&[64, 24], &[(24, two.clone()), (64, one.clone())])),
        ("with gaps", laid_out(&[40, 104], &[(40, one.clone()), (104, two.clone())])),
        (
            "with bytes after the last record",
            laid_out(&[24, 56], &[(24, one.clone()), (56, two.clone()), (200, vec![1])]),
        ),
        ("the last one unpadded", laid_out(&[24, 56], &[(24, one.clone()), (56, unpadded(two.clone(), 7))])),
        ("reordered and unpadded", laid_out(&[64, 24], &[(24, two.clone()), (64, unpadded(one.clone(), 5))])),
    ] {
        let expected = [vec![1_u8, 2, 3], vec![4, 5, 6, 7, 8, 9, 10, 11, 12]].map(Array1::from);
        let Arrays(read): Arrays<[Array1<u8>; 2]> = btf::from_slice(&file).unwrap();
        assert_eq!(read, expected, "{what}");
        let Arrays(read): Arrays<[Array1<u8>; 2]> = btf::from_reader(&file[..]).unwrap();
        assert_eq!(read, expected, "{what}, from a stream");
        let Arrays(read): Arrays<[Array1<u8>; 2]> = btf::from_reader(Dribble::new(&file)).unwrap();
        assert_eq!(read, expected, "{what}, from a slow stream");
    }
}

#[test]
fn two_tensors_may_be_one_record() {
    let one = record([6, 0], 3, &[1, 2, 3]);
    for offsets in [&[40, 40, 40][..], &[40, 72, 40]] {
        let file = laid_out(offsets, &[(40, one.clone()), (72, one.clone())]);
        let Arrays(read): Arrays<Vec<ArrayView1<'_, u8>>> = btf::from_slice(&file).unwrap();
        assert_eq!(read, [array![1, 2, 3], array![1, 2, 3], array![1, 2, 3]], "{offsets:?}");
        let Arrays(read): Arrays<Vec<Array1<u8>>> = btf::from_reader(&file[..]).unwrap();
        assert_eq!(read, [array![1, 2, 3], array![1, 2, 3], array![1, 2, 3]], "{offsets:?}, from a stream");
    }
}

#[test]
fn reserved_bytes_and_padding_may_be_anything() {
    let mut file = hex(DENSE);
    file[34..40].fill(0xfe);
    file[62..64].fill(0xfe);
    file[74..80].fill(0xfe);
    assert_eq!(btf::from_slice::<TensorMap>(&file).unwrap(), dense());
    assert_eq!(btf::from_reader::<TensorMap>(&file[..]).unwrap(), dense());
}

#[cfg(target_pointer_width = "64")]
#[test]
fn zero_dims_are_ordinary() {
    let file = hex("
        01 00 00 00 00 00 00 00 10 00 00 00 00 00 00 00 | one tensor at byte 16
        03 00 00 00 00 00 00 00 05 00 00 00 00 00 00 00 | rank 3, f64
        ff ff ff ff ff ff ff 7f 00 00 00 00 00 00 00 00 | 2^63 - 1 by 0
        ff ff ff ff ff ff ff 7f                         | by 2^63 - 1
    ");
    let tensor = Tensor::from_slice::<f64>(&[], [i64::MAX as usize, 0, i64::MAX as usize]).unwrap();
    assert_eq!(btf::from_slice::<Tensor>(&file).unwrap(), tensor);
    assert_eq!(btf::from_reader::<Tensor>(&file[..]).unwrap(), tensor);
    assert_eq!(btf::to_vec(&tensor).unwrap(), file);
}

const NAMED: &str = "
    03 00 00 00 00 00 00 00 | three tensors
    20 00 00 00 00 00 00 00 | at byte 32
    38 00 00 00 00 00 00 00 | at byte 56
    50 00 00 00 00 00 00 00 | at byte 80
    00 00 00 00 00 00 00 00 | rank 0
    02 00 00 00 00 00 00 00 | i32
    07 00 00 00 00 00 00 00 | 7, padding
    00 00 00 00 00 00 00 00 | rank 0
    06 00 00 00 00 00 00 00 | u8
    09 00 00 00 00 00 00 00 | 9, padding
    01 00 00 00 00 00 00 00 | rank 1
    06 00 00 00 00 00 00 00 | u8
    20 00 00 00 00 00 00 00 | 32
    74 65 6e 73 6f 72 66 69 | tensorfi
    6c 65 2e 6e 61 6d 65 73 | le.names
    2e 76 31 00             | .v1
    62 2e 77 65 69 67 68 74 00 | b.weight
    c3 a4 00                | ä, in UTF-8
";

fn named() -> TensorMap {
    let (a, b) = (Tensor::from_slice(&[7_i32], []), Tensor::from_slice(&[9_u8], []));
    [("b.weight", a.unwrap()), ("ä", b.unwrap())].into_iter().collect()
}

#[test]
fn embedded_names_are_one_more_tensor() {
    let file = hex(NAMED);
    let options = btf::Options::new().embed_names(true);
    assert_eq!(options.to_vec(&named()).unwrap(), file);
    assert_eq!(btf::from_slice::<TensorMap>(&file).unwrap(), named());
    assert_eq!(btf::from_reader::<TensorMap>(&file[..]).unwrap(), named());
    assert_eq!(btf::from_reader::<TensorMap>(Dribble::new(&file)).unwrap(), named());
}

#[test]
fn lists_of_names_must_be_complete() {
    let names_at = 104;
    let mut messages = Messages::default();
    for (what, edit, expected) in [
        (
            "too few names",
            &(|file: &mut Vec<u8>| file[names_at + 28] = b'x') as &dyn Fn(&mut Vec<u8>),
            "btf: the list of names has 1, but the file has 2 tensors (at byte 104)",
        ),
        (
            "too many names",
            &|file| file[names_at + 21] = 0,
            "btf: the list of names has 3, but the file has 2 tensors (at byte 104)",
        ),
        ("no end", &|file| file[names_at + 31] = b'x', "btf: the list of names does not end with a NUL (at byte 104)"),
        ("no UTF-8", &|file| file[names_at + 30] = 0xff, "btf: the list of names is not UTF-8 (at byte 104)"),
    ] {
        let mut file = hex(NAMED);
        edit(&mut file);
        messages.compare(what, btf::from_slice::<TensorMap>(&file), expected);
        messages.compare(format!("{what}, from a stream"), btf::from_reader::<TensorMap>(&file[..]), expected);
    }
    messages.end();
    let mut file = hex(NAMED);
    file.splice(names_at + 20.., *b"same\0same\0");
    file[96] = 30;
    let expected = "btf: two tensors are named `same` (at byte 104)";
    assert_eq!(message(btf::from_slice::<TensorMap>(&file)), expected);
    assert_eq!(message(btf::from_reader::<TensorMap>(&file[..])), expected);
}

#[test]
fn a_list_of_names_that_is_not_the_last_is_a_tensor() {
    let mut file = hex(NAMED);
    file.splice(16..32, u64s(&[80, 56]));
    for map in [btf::from_slice::<TensorMap>(&file).unwrap(), btf::from_reader(&file[..]).unwrap()] {
        assert_eq!(map.names().collect::<Vec<_>>(), ["0", "1", "2"]);
        assert!(map["1"].as_bytes().starts_with(b"tensorfile.names.v1\0"));
    }
}

#[test]
fn a_list_of_names_that_begins_otherwise_is_a_tensor() {
    let mut file = hex(NAMED);
    file[104 + 18] = b'2';
    let map: TensorMap = btf::from_slice(&file).unwrap();
    assert_eq!(map.names().collect::<Vec<_>>(), ["0", "1", "2"]);
    assert_eq!(btf::from_reader::<TensorMap>(&file[..]).unwrap(), map);
}

#[test]
fn every_cut_is_the_files_fault() {
    for (what, file, whole) in [("dense", hex(DENSE), 88), ("sparse", hex(SPARSE), 132), ("names", hex(NAMED), 136)] {
        for len in 0..whole {
            let cut = &file[..len];
            let error = btf::from_slice::<TensorMap>(cut).unwrap_err();
            assert_eq!(error.category(), tensorfile::Category::File, "{what}, cut at {len}: {error}");
            let error = btf::from_reader::<TensorMap>(cut).unwrap_err();
            assert_eq!(error.category(), tensorfile::Category::File, "{what}, cut at {len}, from a stream: {error}");
        }
        // The last record may go unpadded.
        for len in whole..=file.len() {
            btf::from_slice::<TensorMap>(&file[..len]).unwrap();
            btf::from_reader::<TensorMap>(&file[..len]).unwrap();
        }
    }
}

#[test]
fn reports_where_a_file_is_cut() {
    let mut messages = Messages::default();
    for (len, slice, stream) in [
        (4, "btf: needs 8 more bytes, but the file has 4 left (at byte 0)", ""),
        (
            20,
            "btf: number of tensors is 2, but expected at most 1, as the file has 12 bytes left (at byte 0)",
            "btf: needs 16 more bytes, but the file has 12 left (at byte 8)",
        ),
        (30, "btf: tensor `#0`: needs 8 more bytes, but the file has 6 left (at byte 24)", ""),
        (39, "btf: tensor `#0`: needs 8 more bytes, but the file has 7 left (at byte 32)", ""),
        (52, "btf: tensor `#0`: needs 8 more bytes, but the file has 4 left (at byte 48)", ""),
        (60, "btf: tensor `#0`: needs 6 more bytes, but the file has 4 left (at byte 56)", ""),
        (64, "btf: tensor `#1`: needs 8 more bytes, but the file has 0 left (at byte 64)", ""),
        (87, "btf: tensor `#1`: needs 8 more bytes, but the file has 7 left (at byte 80)", ""),
    ] {
        let file = &hex(DENSE)[..len];
        messages.compare(format!("cut at {len}"), btf::from_slice::<TensorMap>(file), slice);
        let stream = if stream.is_empty() { slice } else { stream };
        messages.compare(format!("cut at {len}, from a stream"), btf::from_reader::<TensorMap>(file), stream);
    }
    messages.end();
}

/// Replaces numbers of 64 bits in a file.
fn with(file: &str, numbers: &[(usize, u64)]) -> Vec<u8> {
    let mut file = hex(file);
    for (at, number) in numbers {
        file[*at..at + 8].copy_from_slice(&number.to_le_bytes());
    }
    file
}

#[cfg(target_pointer_width = "64")]
#[test]
fn rejects_numbers_that_cannot_be() {
    const MAX: u64 = u64::MAX;
    let mut messages = Messages::default();
    for (what, file, slice, stream) in [
        (
            "count",
            with(DENSE, &[(0, 11)]),
            "btf: number of tensors is 11, but expected at most 10, as the file has 80 bytes left (at byte 0)",
            "btf: needs 88 more bytes, but the file has 80 left (at byte 8)",
        ),
        (
            "absurd count",
            with(DENSE, &[(0, MAX)]),
            "btf: number of tensors is 18446744073709551615, but expected at most 10, as the file has 80 bytes left (at byte 0)",
            "btf: number of tensors is 18446744073709551615, but the limit is 4194304 (at byte 0)",
        ),
        (
            "offset in the table",
            with(DENSE, &[(8, 16)]),
            "btf: tensor `#0`: record offset is 16, but expected at least 24, where the offset table ends (at byte 8)",
            "",
        ),
        (
            "offset of the count",
            with(DENSE, &[(16, 0)]),
            "btf: tensor `#1`: record offset is 0, but expected at least 24, where the offset table ends (at byte 16)",
            "",
        ),
        (
            "unaligned offset",
            with(DENSE, &[(16, 68)]),
            "btf: tensor `#1`: record offset is 68, but expected a multiple of 8 (at byte 16)",
            "",
        ),
        (
            "offset at the end",
            with(DENSE, &[(16, 88)]),
            "btf: tensor `#1`: needs 8 more bytes, but the file has 0 left (at byte 88)",
            "",
        ),
        (
            "offset past the end",
            with(DENSE, &[(16, 1 << 40)]),
            "btf: tensor `#1`: needs 8 more bytes, but the file has 0 left (at byte 1099511627776)",
            "",
        ),
        (
            "offset near 2^64",
            with(DENSE, &[(16, MAX - 7)]),
            "btf: tensor `#1`: needs 8 more bytes, but the file has 0 left (at byte 18446744073709551608)",
            "",
        ),
        (
            "rank",
            with(DENSE, &[(24, 3)]),
            "btf: tensor `#0`: needs 6622839177222 more bytes, but the file has 24 left (at byte 64)",
            "btf: tensor `#0`: payload in bytes is 6622839177222, but the limit is 1099511627776",
        ),
        (
            "absurd rank",
            with(DENSE, &[(24, MAX)]),
            "btf: tensor `#0`: rank is 18446744073709551615, but the limit is 255 (at byte 24)",
            "",
        ),
        (
            "dim",
            with(DENSE, &[(48, 17)]),
            "btf: tensor `#0`: needs 34 more bytes, but the file has 32 left (at byte 56)",
            "",
        ),
        (
            "negative dim",
            with(DENSE, &[(48, MAX)]),
            "btf: tensor `#0`: dim is 18446744073709551615, but expected at most 9223372036854775807 (at byte 48)",
            "",
        ),
        (
            "dims that overflow",
            with(DENSE, &[(40, 1 << 32), (48, 1 << 32)]),
            "btf: tensor `#0`: i16[4294967296, 4294967296] takes more bytes than can be addressed (at byte 56)",
            "",
        ),
        (
            "bytes that overflow",
            with(DENSE, &[(40, 1 << 31), (48, 1 << 32)]),
            "btf: tensor `#0`: i16[2147483648, 4294967296] takes more bytes than can be addressed (at byte 56)",
            "",
        ),
        (
            "a large dim",
            with(DENSE, &[(48, 1 << 61)]),
            "btf: tensor `#0`: needs 4611686018427387904 more bytes, but the file has 32 left (at byte 56)",
            "btf: tensor `#0`: payload in bytes is 4611686018427387904, but the limit is 1099511627776",
        ),
        ("layout", with(DENSE, &[(32, 0x0301)]), "btf: tensor `#0`: unknown layout tag 3 (at byte 33)", ""),
        (
            "overlapping records",
            with(DENSE, &[(16, 32)]),
            "btf: tensor `#1`: overlaps tensor `#0`, which takes bytes 24 to 62 (at byte 32)",
            "",
        ),
        (
            "overlap with the payload's last bytes",
            with(DENSE, &[(16, 56), (48, 4)]),
            "btf: tensor `#1`: overlaps tensor `#0`, which takes bytes 24 to 64 (at byte 56)",
            "",
        ),
    ] {
        messages.compare(what, btf::from_slice::<TensorMap>(&file), slice);
        let stream = if stream.is_empty() { slice } else { stream };
        messages.compare(format!("{what}, from a stream"), btf::from_reader::<TensorMap>(&file[..]), stream);
        messages.compare(format!("{what}, a list from a stream"), btf::from_reader::<Vec<Tensor>>(&file[..]), stream);
        // The order of reading makes no other message.
        messages.compare(format!("{what}, a list"), btf::from_slice::<Vec<TensorView<'_>>>(&file), slice);
    }
    messages.end();
}

#[test]
fn rejects_records_that_overlap_out_of_order() {
    let bytes = |payload: &[u8]| record([6, 0], payload.len() as u64, payload);
    // The record at 40 ends at 72; the third begins at 64, in its payload, which looks like a record.
    let outer = bytes(&[0; 16]);
    let file = laid_out(&[88, 40, 64], &[(40, outer), (88, bytes(&[1]))]);
    let expected = "btf: tensor `#2`: overlaps tensor `#1`, which takes bytes 40 to 80 (at byte 64)";
    assert_eq!(message(btf::from_slice::<TensorMap>(&file)), expected);
    assert_eq!(message(btf::from_reader::<TensorMap>(&file[..])), expected);
}

#[cfg(target_pointer_width = "64")]
#[test]
fn rejects_sparse_tensors_that_contradict_themselves() {
    let mut messages = Messages::default();
    for (what, file, slice, stream) in [
        (
            "an index that is its dim",
            with(SPARSE, &[(80, 3)]),
            "btf: tensor `#0`: index 3 of coordinate 1 is outside dim 0, which is 3 (at byte 80)",
            "",
        ),
        (
            "a negative index",
            with(SPARSE, &[(72, u64::MAX)]),
            "btf: tensor `#0`: index 18446744073709551615 of coordinate 0 is outside dim 1, which is 4 (at byte 72)",
            "",
        ),
        (
            "more values than indices",
            with(SPARSE, &[(112, 4)]),
            "btf: tensor `#0`: 3 coordinates, but 4 values (at byte 112)",
            "",
        ),
        (
            "indices of another rank",
            with(SPARSE, &[(56, 3)]),
            "btf: tensor `#0`: coordinates have 3 indices, but the tensor has rank 2 (at byte 56)",
            "",
        ),
        (
            "more coordinates than bytes",
            with(SPARSE, &[(48, 4)]),
            "btf: tensor `#0`: needs 88 more bytes, but the file has 72 left (at byte 64)",
            "",
        ),
        (
            "coordinates that overflow",
            with(SPARSE, &[(48, 1 << 60)]),
            "btf: tensor `#0`: f32[3, 4] takes more bytes than can be addressed (at byte 64)",
            "",
        ),
        (
            "a negative number of coordinates",
            with(SPARSE, &[(48, u64::MAX)]),
            "btf: tensor `#0`: dim is 18446744073709551615, but expected at most 9223372036854775807 (at byte 48)",
            "",
        ),
        (
            "no place for a coordinate",
            with(SPARSE, &[(32, 0)]),
            "btf: tensor `#0`: number of values is 3, but expected 0, as the shape [0, 4] has no elements (at byte 112)",
            "",
        ),
    ] {
        messages.compare(what, btf::from_slice::<TensorMap>(&file), slice);
        messages.compare(what, btf::from_slice::<CooTensor<f32>>(&file), slice);
        let stream = if stream.is_empty() { slice } else { stream };
        messages.compare(format!("{what}, from a stream"), btf::from_reader::<TensorMap>(&file[..]), stream);
        messages.compare(format!("{what}, from a stream"), btf::from_reader::<CooTensor<f32>>(&file[..]), stream);
    }
    messages.end();
}

#[test]
fn files_check_sparse_tensors_as_soon_as_they_can() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sparse.btf");
    for backend in [Backend::Mapped, Backend::Positioned] {
        let open = |file: &[u8]| {
            std::fs::write(&path, file).unwrap();
            OpenOptions::new().backend(backend).open(&path)
        };
        // The numbers of values are part of the index.
        let expected = "btf: tensor `#0`: 3 coordinates, but 4 values (at byte 112)";
        assert_eq!(message(open(&with(SPARSE, &[(112, 4)]))), expected);
        let expected = "btf: tensor `#0`: number of values is 3, but expected 0, as the shape [3, 0] has no elements (at byte 112)";
        assert_eq!(message(open(&with(SPARSE, &[(40, 0)]))), expected);

        for (at, number) in [(72, 4), (88, u64::MAX), (96, 1 << 62), (80, 1 << 63)] {
            let file = open(&with(SPARSE, &[(at, number)])).unwrap();
            let tensor = file.get("0").unwrap();
            let (entry, axis) = ((at - 64) / 16, (at - 64) / 8 % 2);
            let dim = tensor.shape()[axis];
            let expected = format!(
                "btf: tensor `#0`: index {number} of coordinate {entry} is outside dim {axis}, which is {dim} (at byte {at})"
            );
            assert_eq!(message(tensor.read()), expected);
            assert_eq!(message(tensor.load::<CooTensor<f32>>()), expected);
            assert_eq!(message(file.load::<TensorMap>()), expected);
            assert_eq!(message(tensor.write_to(&mut std::io::sink()).map_err(Into::into)), expected);
            assert_eq!(message(tensor.write_row_major_to(&mut std::io::sink()).map_err(Into::into)), expected);
            assert_eq!(message(btf::FORMAT.to_vec(&file, &WriteOptions::new())), expected);
            assert_eq!(tensor.as_bytes(), None);
            if backend == Backend::Mapped {
                assert_eq!(message(tensor.view()), expected);
            }
        }
    }
}

/// A stream says the same as a slice about sparse tensors that are not read: skipped, or kept for later and then
/// skipped.
#[test]
fn streams_check_sparse_tensors_that_nobody_reads() {
    #[derive(Debug, TensorFile)]
    #[tensor(allow_unknown)]
    struct Last {
        last: Array1<u8>,
    }

    #[derive(Debug, serde::Deserialize)]
    struct Plain {
        #[expect(dead_code, reason = "it is only read")]
        absent: Option<f64>,
    }

    let last = || Tensor::from_slice(&[1_u8], [1]).unwrap();
    let head = &hex(SPARSE)[16..48];
    for names in [["sparse", "last"], ["last", "sparse"]] {
        let tensor = |name| if name == "last" { last() } else { sparse().to_tensor() };
        let map: TensorMap = names.iter().map(|name| (*name, tensor(*name))).collect();
        let file = btf::Options::new().embed_names(true).to_vec(&map).unwrap();
        btf::from_slice::<Last>(&file).unwrap();
        btf::from_reader::<Last>(&file[..]).unwrap();
        btf::from_slice::<Plain>(&file).unwrap();
        btf::from_reader::<Plain>(&file[..]).unwrap();

        // The record of the sparse tensor is taken from `SPARSE`, where it is at byte 16.
        let record = file.windows(32).position(|part| part == head).unwrap();
        let number = names.iter().position(|name| *name == "sparse").unwrap();
        let count = record + 112 - 16;
        let mut wrong = file.clone();
        wrong[count..count + 8].copy_from_slice(&4_u64.to_le_bytes());
        let expected = format!("btf: tensor `#{number}`: 3 coordinates, but 4 values (at byte {count})");
        assert_eq!(message(btf::from_slice::<Last>(&wrong)), expected);
        assert_eq!(message(btf::from_reader::<Last>(&wrong[..])), expected);
        assert_eq!(message(btf::from_slice::<Plain>(&wrong)), expected);
        assert_eq!(message(btf::from_reader::<Plain>(&wrong[..])), expected);
        let cut = &file[..count + 4];
        assert!(btf::from_slice::<Last>(cut).is_err() && btf::from_reader::<Last>(cut).is_err());
    }
}

#[cfg(target_pointer_width = "64")]
#[test]
fn cannot_store_other_dtypes_and_layouts() {
    let stores = "btf stores i8, i16, i32, i64, f32, f64, u8, u16, u32, u64";
    for &dtype in Dtype::ALL {
        let info = TensorInfo::new(dtype, [4 * dtype.block_elements()]);
        let bytes = vec![0; info.payload_bytes().unwrap()];
        let map: TensorMap = [("layer.bias", Tensor::new(info, &bytes).unwrap())].into_iter().collect();
        let mut file = Vec::new();
        let written = btf::to_writer(&mut file, &map);
        if btf::DTYPES.contains(&dtype) {
            written.unwrap();
        } else {
            let is_number = dtype.is_float() || dtype.is_integer();
            let advice = match dtype.block_elements() {
                32.. => "; gguf stores it",
                _ if is_number => "; `view::CastView` casts",
                _ => "",
            };
            assert_eq!(message(written), format!("btf: tensor `layer.bias`: cannot store {dtype}; {stores}{advice}"));
            assert!(file.is_empty(), "nothing is written");
        }
    }
    let order = tensorfile::Layout::from_dim_order(&[1, 0]).unwrap();
    let info = TensorInfo { layout: order, ..TensorInfo::new(Dtype::U8, [2, 2]) };
    let columns = Tensor::new(info, &[1, 2, 3, 4]).unwrap();
    let rows = Tensor::from_slice(&[1_u8, 3, 2, 4], [2, 2]).unwrap();
    assert_eq!(btf::to_vec(&columns).unwrap(), btf::to_vec(&rows).unwrap(), "any order is stored in rows");
    let tensor = Tensor::from_slice::<u8>(&[], [0, usize::MAX]).unwrap();
    assert_eq!(
        message(btf::to_vec(&tensor)),
        "btf: tensor `0`: cannot store a dim of 18446744073709551615; btf stores dims below 2^63"
    );
    let half = Arrays(array![f16::ONE]);
    assert_eq!(
        message(btf::to_vec(&half)),
        format!("btf: tensor `0`: cannot store f16; {stores}; `view::CastView` casts")
    );
}

#[test]
fn any_rank_is_written_and_up_to_the_limit_is_read() {
    let tensor = |rank: usize| Tensor::from_slice(&[1_u8], vec![1; rank]).unwrap();
    let file = btf::to_vec(&tensor(255)).unwrap();
    assert_eq!(btf::from_slice::<Tensor>(&file).unwrap(), tensor(255));
    let file = btf::to_vec(&tensor(256)).unwrap();
    assert_eq!(
        message(btf::from_slice::<Tensor>(&file)),
        "btf: tensor `#0`: rank is 256, but the limit is 255 (at byte 16)"
    );
    let options = btf::Options::new().limits(tensorfile::Limits::new().rank(256));
    assert_eq!(options.from_slice::<Tensor>(&file).unwrap(), tensor(256));
    assert_eq!(options.from_reader::<Tensor>(&file[..]).unwrap(), tensor(256));
}

#[test]
fn limits_are_kept() {
    let file = hex(DENSE);
    let limits = |limits| btf::Options::new().limits(limits);
    let one = limits(tensorfile::Limits::new().tensors(1));
    let expected = "btf: number of tensors is 2, but the limit is 1 (at byte 0)";
    assert_eq!(message(one.from_slice::<TensorMap>(&file)), expected);
    assert_eq!(message(one.from_reader::<TensorMap>(&file[..])), expected);
    let small = limits(tensorfile::Limits::new().payload(7));
    assert_eq!(small.from_slice::<TensorMap>(&file).unwrap(), dense(), "what is in memory is there");
    let expected = "btf: tensor `#1`: payload in bytes is 8, but the limit is 7";
    assert_eq!(message(small.from_reader::<TensorMap>(&file[..])), expected);
}

#[test]
fn shared_records_do_not_add_up_without_bound() {
    // 1,000 tensors that are one of 1 MiB.
    let (tensors, table) = (1000, 8 + 8 * 1000);
    let file = laid_out(&vec![table; tensors], &[(table as usize, record([6, 0], 1 << 20, &[7; 1 << 20]))]);
    let options = |shared| btf::Options::new().limits(tensorfile::Limits::new().shared(shared));
    let expected = "btf: tensor `#10`: sum of payloads in bytes is 11534336, but the limit is 11056608; `Limits::shared` raises it";
    let error = options(10_000_000).from_slice::<Vec<TensorView<'_>>>(&file);
    assert_eq!(message(error), expected);
    assert_eq!(message(options(10_000_000).from_reader::<TensorMap>(&file[..])), expected);
    let views: Vec<TensorView<'_>> = options(1 << 30).from_slice(&file).unwrap();
    assert_eq!(views.len(), tensors);
}

#[cfg(target_endian = "little")]
#[test]
fn views_borrow_where_the_payload_is_aligned() {
    let values = Arrays((array![1.0_f64, 2.0], array![[3_u16, 4]]));
    let file = btf::to_vec(&values).unwrap();
    // The bytes of a `Vec<u64>` start at a multiple of 8, and one more byte before them at none.
    let mut words = vec![0_u64; file.len() / 8 + 1];
    let memory: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
    type Views<'a> = Arrays<(ArrayView1<'a, f64>, ArrayView2<'a, u16>)>;
    type Cows<'a> = Arrays<(CowArray<'a, f64, Ix1>, CowArray<'a, u16, Ix2>)>;

    memory[..file.len()].copy_from_slice(&file);
    let aligned = &memory[..file.len()];
    let Arrays((a, b)): Views<'_> = btf::from_slice(aligned).unwrap();
    assert_eq!((a, b), (values.0.0.view(), values.0.1.view()));
    assert!(aligned.as_ptr_range().contains(&a.as_ptr().cast()) && aligned.as_ptr_range().contains(&b.as_ptr().cast()));
    let Arrays((a, b)): Cows<'_> = btf::from_slice(aligned).unwrap();
    assert!(a.is_view() && b.is_view());

    memory[1..=file.len()].copy_from_slice(&file);
    let unaligned = &memory[1..=file.len()];
    let expected = "btf: tensor `0`: cannot borrow f64 from bytes that do not start at a multiple of 8; \
                    a `CowArray` would copy them (at byte 48)";
    assert_eq!(message(btf::from_slice::<Views<'_>>(unaligned)), expected);
    let Arrays((a, b)): Cows<'_> = btf::from_slice(unaligned).unwrap();
    assert!(!a.is_view() && !b.is_view(), "copied");
    assert_eq!((a.view(), b.view()), (values.0.0.view(), values.0.1.view()));
    let Arrays(owned): Arrays<(Array1<f64>, Array2<u16>)> = btf::from_slice(unaligned).unwrap();
    assert_eq!(owned, values.0);
}

#[cfg(target_endian = "little")]
#[test]
fn nothing_is_borrowed_from_a_stream() {
    use serde::Deserialize;

    let file = [u64s(&[1, 16]), record([6, 0], 2, &[1, 2])].concat();
    let mut deserializer = btf::Options::new().stream_deserializer(&file[..]);
    assert_eq!(
        message(TensorView::deserialize(&mut deserializer)),
        "tensor `#0`: cannot borrow from a stream, from a file that is read at positions, or from a tensor that is packed; use a `Tensor`, or `File::view` of a \
         file in memory (at byte 40)"
    );
    let mut deserializer = btf::Options::new().stream_deserializer(&file[..]);
    assert_eq!(
        message(Arrays::<ArrayView1<'_, u8>>::deserialize(&mut deserializer)),
        "tensor `#0`: cannot borrow from a stream, from a file that is read at positions, or from a tensor that is packed; use an owned array, or `File::view` of \
         a file in memory (at byte 40)"
    );
    let mut deserializer = btf::Options::new().stream_deserializer(&file[..]);
    let Arrays(copied) = Arrays::<CowArray<'_, u8, Ix1>>::deserialize(&mut deserializer).unwrap();
    deserializer.end().unwrap();
    assert!(!copied.is_view());
    assert_eq!(copied, array![1, 2]);
}
