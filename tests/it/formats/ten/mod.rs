mod streams;

use half::f16;
use ndarray::{Array1, Array2, ArrayView1, ArrayView2, ShapeBuilder, array};
use tensorfile::view::SaveReport;
use tensorfile::{Arrays, Dtype, OpenOptions, Tensor, TensorFile, TensorInfo, TensorMap, ten};

use crate::support::{Dribble, Messages, hex, message, u64s};

/// Two tensors: one has a name, the other has none.
const FILE: &str = "
    7e 54 65 6e 42 69 6e 7e | ~TenBin~
    28 00 00 00 00 00 00 00 | 40 bytes of header
    69 32 00 00 00 00 00 00 | i2
    70 6f 6c 69 63 79 00 00 | policy
    02 00 00 00 00 00 00 00 | rank 2
    01 00 00 00 00 00 00 00 | 1
    03 00 00 00 00 00 00 00 | by 3
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 | padding
    7e 54 65 6e 42 69 6e 7e | at byte 80: ~TenBin~
    06 00 00 00 00 00 00 00 | 6 bytes of elements
    01 00 ff ff 00 01       | 1, -1, 256
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 | padding
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    7e 54 65 6e 42 69 6e 7e | at byte 160: ~TenBin~
    18 00 00 00 00 00 00 00 | 24 bytes of header
    66 38 00 00 00 00 00 00 | f8
    00 00 00 00 00 00 00 00 | no name
    00 00 00 00 00 00 00 00 | rank 0
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 | padding
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    7e 54 65 6e 42 69 6e 7e | at byte 240: ~TenBin~
    08 00 00 00 00 00 00 00 | 8 bytes of elements
    00 00 00 00 00 00 f8 3f | 1.5
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 | padding
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
";

fn tensors() -> TensorMap {
    let (a, b) = (Tensor::from_slice(&[1_i16, -1, 256], [1, 3]), Tensor::from_slice(&[1.5_f64], []));
    [("policy", a.unwrap()), ("1", b.unwrap())].into_iter().collect()
}

/// A chunk of a ten file.
fn chunk(contents: &[u8]) -> Vec<u8> {
    let mut chunk = b"~TenBin~".to_vec();
    chunk.extend((contents.len() as u64).to_le_bytes());
    chunk.extend(contents);
    chunk.resize(16 + contents.len().next_multiple_of(64), 0);
    chunk
}

/// A tensor of a ten file.
fn tensor(dtype: &[u8], name: &[u8], dims: &[u64], payload: &[u8]) -> Vec<u8> {
    let mut header = dtype.to_vec();
    header.resize(8, 0);
    header.extend(name);
    header.resize(16, 0);
    header.extend(u64s(&[dims.len() as u64]));
    header.extend(u64s(dims));
    [chunk(&header), chunk(payload)].concat()
}

#[test]
fn reads_tensors() {
    let file = hex(FILE);
    assert_eq!(file.len(), 320);
    assert_eq!(ten::from_slice::<TensorMap>(&file).unwrap(), tensors());
    assert_eq!(ten::from_reader::<TensorMap>(&file[..]).unwrap(), tensors());
    assert_eq!(ten::from_reader::<TensorMap>(Dribble::new(&file)).unwrap(), tensors());
}

#[test]
fn writes_tensors() {
    let file = hex(FILE);
    assert_eq!(ten::to_vec(&tensors()).unwrap(), file);
    let mut encoder = ten::Encoder::new(Vec::new());
    encoder.encode("policy", &array![[1_i16, -1, 256]]).unwrap();
    encoder.encode("", &1.5_f64).unwrap();
    assert_eq!(encoder.into_inner(), file);
}

#[test]
fn an_empty_stream_is_a_file_without_tensors() {
    assert_eq!(ten::to_vec(&TensorMap::new()).unwrap(), [0_u8; 0]);
    assert_eq!(ten::from_slice::<TensorMap>(&[]).unwrap(), TensorMap::new());
    assert_eq!(ten::from_reader::<TensorMap>(&[][..]).unwrap(), TensorMap::new());
    assert!(ten::Decoder::new(&[][..]).next().is_none());
}

#[test]
fn has_eleven_dtypes() {
    let tensors: [(&[u8], Tensor, &[u8]); 11] = [
        (b"i1", Tensor::from_slice(&[i8::MIN, 1], [2]).unwrap(), &[0x80, 1]),
        (b"i2", Tensor::from_slice(&[i16::MIN, 1], [2]).unwrap(), &[0, 0x80, 1, 0]),
        (b"i4", Tensor::from_slice(&[i32::MIN, 1], [2]).unwrap(), &[0, 0, 0, 0x80, 1, 0, 0, 0]),
        (b"i8", Tensor::from_slice(&[i64::MIN, 1], [2]).unwrap(), &[0, 0, 0, 0, 0, 0, 0, 0x80, 1, 0, 0, 0, 0, 0, 0, 0]),
        (b"f2", Tensor::from_slice(&[f16::from_f32(-2.0), f16::from_f32(0.15625)], [2]).unwrap(), &[0, 0xc0, 0, 0x31]),
        (b"f4", Tensor::from_slice(&[-2.0_f32, 0.15625], [2]).unwrap(), &[0, 0, 0, 0xc0, 0, 0, 0x20, 0x3e]),
        (
            b"f8",
            Tensor::from_slice(&[-2.0_f64, 0.1], [2]).unwrap(),
            &[0, 0, 0, 0, 0, 0, 0, 0xc0, 0x9a, 0x99, 0x99, 0x99, 0x99, 0x99, 0xb9, 0x3f],
        ),
        (b"u1", Tensor::from_slice(&[u8::MAX, 1], [2]).unwrap(), &[0xff, 1]),
        (b"u2", Tensor::from_slice(&[0x0102_u16, 1], [2]).unwrap(), &[2, 1, 1, 0]),
        (b"u4", Tensor::from_slice(&[0x0102_0304_u32, 1], [2]).unwrap(), &[4, 3, 2, 1, 1, 0, 0, 0]),
        (
            b"u8",
            Tensor::from_slice(&[0x0102_0304_0506_0708_u64, 1], [2]).unwrap(),
            &[8, 7, 6, 5, 4, 3, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0],
        ),
    ];
    for (dtype, value, payload) in tensors {
        let file = tensor(dtype, b"", &[2], payload);
        assert_eq!(ten::from_slice::<Tensor>(&file).unwrap(), value, "{}", value.dtype());
        assert_eq!(ten::from_reader::<Tensor>(&file[..]).unwrap(), value, "{} from a stream", value.dtype());
        assert_eq!(ten::to_vec(&value).unwrap(), file, "{}", value.dtype());
    }
}

#[test]
fn nuls_around_names_are_removed() {
    for (stored, name) in [
        (&b"a"[..], "a"),
        (b"abcdefgh", "abcdefgh"),
        (b"a\0b", "a\0b"),
        (b"\0\0a", "a"),
        (b"\0a\0b\0", "a\0b"),
        (b" a ", " a "),
        ("größe".as_bytes(), "größe"),
        (b"\xff", "\\xff"),
        (b"a\xc3\x28", "a\\xc3("),
        // Cut in the middle of a letter, as Go's writers might do by hand.
        (&"abcdefgö".as_bytes()[..8], "abcdefg\\xc3"),
        (b"", "0"),
        (b"\0\0\0", "0"),
    ] {
        let file = tensor(b"u1", stored, &[1], &[7]);
        let map: TensorMap = ten::from_slice(&file).unwrap();
        assert_eq!(map.names().collect::<Vec<_>>(), [name], "{}", stored.escape_ascii());
        assert_eq!(ten::from_reader::<TensorMap>(&file[..]).unwrap(), map, "{}", stored.escape_ascii());
        let (found, _) = ten::Decoder::new(&file[..]).next().unwrap().unwrap();
        assert_eq!(found, if name == "0" { "" } else { name }, "{}", stored.escape_ascii());
    }
}

#[test]
fn names_are_padded_with_nuls() {
    for (name, stored) in
        [("a", &b"a"[..]), ("abcdefgh", b"abcdefgh"), ("a\0b", b"a\0b"), ("größe", "größe".as_bytes())]
    {
        let map: TensorMap = [(name, Tensor::from_slice(&[7_u8], [1]).unwrap())].into_iter().collect();
        assert_eq!(ten::to_vec(&map).unwrap(), tensor(b"u1", stored, &[1], &[7]), "{name}");
    }
}

#[test]
fn positions_are_not_written_as_names() {
    let one = |name: &[u8], value: u8| tensor(b"u1", name, &[1], &[value]);
    let value = |value: u8| Tensor::from_slice(&[value], [1]).unwrap();
    for (names, file) in [
        (["0", "1"], [one(b"", 5), one(b"", 6)].concat()),
        (["1", "0"], [one(b"1", 5), one(b"0", 6)].concat()),
        (["00", "01"], [one(b"00", 5), one(b"01", 6)].concat()),
        (["a", "1"], [one(b"a", 5), one(b"", 6)].concat()),
        (["+0", "a"], [one(b"+0", 5), one(b"a", 6)].concat()),
    ] {
        let map: TensorMap = [(names[0], value(5)), (names[1], value(6))].into_iter().collect();
        assert_eq!(ten::to_vec(&map).unwrap(), file, "{names:?}");
        assert_eq!(ten::from_slice::<TensorMap>(&file).unwrap(), map, "{names:?}");
        assert_eq!(ten::from_reader::<TensorMap>(&file[..]).unwrap(), map, "{names:?}, from a stream");
    }
}

#[test]
fn padding_may_be_anything() {
    let mut file = hex(FILE);
    for padding in [56..80, 102..160, 200..240, 264..320] {
        file[padding].fill(0xfe);
    }
    assert_eq!(ten::from_slice::<TensorMap>(&file).unwrap(), tensors());
    assert_eq!(ten::from_reader::<TensorMap>(&file[..]).unwrap(), tensors());
}

#[test]
fn dtypes_may_have_nuls_before_them() {
    // As the readers strip them at both ends.
    let file = tensor(b"\0u1", b"", &[1], &[7]);
    assert_eq!(ten::from_slice::<Tensor>(&file).unwrap(), Tensor::from_slice(&[7_u8], [1]).unwrap());
}

#[cfg(target_pointer_width = "64")]
#[test]
fn zero_dims_and_rank_0_are_ordinary() {
    for (dims, payload) in [
        (&[][..], &[9_u8][..]),
        (&[0], &[]),
        (&[3, 0, 2], &[]),
        (&[i64::MAX as u64, 0, i64::MAX as u64], &[]),
        (&[1; 9], &[9]),
    ] {
        let file = tensor(b"u1", b"", dims, payload);
        let shape: Vec<usize> = dims.iter().map(|&dim| dim as usize).collect();
        let expected = Tensor::from_slice(payload, shape).unwrap();
        assert_eq!(ten::from_slice::<Tensor>(&file).unwrap(), expected, "{dims:?}");
        assert_eq!(ten::from_reader::<Tensor>(&file[..]).unwrap(), expected, "{dims:?}, from a stream");
        assert_eq!(ten::to_vec(&expected).unwrap(), file, "{dims:?}");
    }
}

#[test]
fn rank_10_is_read_but_not_written() {
    let expected = Tensor::from_slice(&[1_u8, 2], [1, 1, 1, 1, 1, 1, 1, 1, 1, 2]).unwrap();
    let file = tensor(b"u1", b"", &[1, 1, 1, 1, 1, 1, 1, 1, 1, 2], &[1, 2]);
    assert_eq!(ten::from_slice::<Tensor>(&file).unwrap(), expected);
    assert_eq!(ten::from_reader::<Tensor>(&file[..]).unwrap(), expected);
    assert_eq!(message(ten::to_vec(&expected)), "ten: tensor `0`: cannot store rank 10; ten stores ranks up to 9");

    let expected = Tensor::from_slice(&[1_u8], vec![1; 255]).unwrap();
    let file = tensor(b"u1", b"", &[1; 255], &[1]);
    assert_eq!(ten::from_slice::<Tensor>(&file).unwrap(), expected);
    let file = tensor(b"u1", b"", &[1; 256], &[1]);
    let expected = "ten: tensor `#0`: rank is 256, but the limit is 255 (at byte 32)";
    assert_eq!(message(ten::from_slice::<Tensor>(&file)), expected);
    assert_eq!(message(ten::from_reader::<Tensor>(&file[..])), expected);
}

#[test]
fn payloads_that_fill_their_last_block_take_no_padding() {
    for len in [0_usize, 1, 63, 64, 65, 127, 128, 129] {
        let payload: Vec<u8> = (0..len as u8).collect();
        let file = tensor(b"u1", b"", &[len as u64], &payload);
        assert_eq!(file.len(), 80 + 16 + len.div_ceil(64) * 64);
        let array = Array1::from(payload);
        assert_eq!(ten::to_vec(&Arrays(&array)).unwrap(), file, "{len} bytes");
        let Arrays(read): Arrays<Array1<u8>> = ten::from_slice(&file).unwrap();
        assert_eq!(read, array, "{len} bytes");
        let Arrays(read): Arrays<Array1<u8>> = ten::from_reader(Dribble::new(&file)).unwrap();
        assert_eq!(read, array, "{len} bytes, from a stream");
    }
}

#[test]
fn embedded_names_are_one_more_tensor() {
    let list = b"tensorfile.names.v1\0encoder.layer.0.weight\0\xc3\xa4\0";
    let file = [
        tensor(b"u1", b"", &[1], &[1]),
        tensor(b"u1", b"", &[1], &[2]),
        tensor(b"u1", b"", &[list.len() as u64], list),
    ]
    .concat();
    let value = |value: u8| Tensor::from_slice(&[value], [1]).unwrap();
    let map: TensorMap = [("encoder.layer.0.weight", value(1)), ("ä", value(2))].into_iter().collect();
    assert_eq!(ten::Options::new().embed_names(true).to_vec(&map).unwrap(), file);
    assert_eq!(ten::from_slice::<TensorMap>(&file).unwrap(), map);
    assert_eq!(ten::from_reader::<TensorMap>(Dribble::new(&file)).unwrap(), map);

    // The decoder returns the list of names as a tensor.
    let decoded: Vec<String> = ten::Decoder::new(&file[..]).map(|tensor| tensor.unwrap().0).collect();
    assert_eq!(decoded, ["", "", ""]);
    // With a name, it is a tensor too.
    let file = [tensor(b"u1", b"a", &[1], &[1]), tensor(b"u1", b"b", &[list.len() as u64], list)].concat();
    let map: TensorMap = ten::from_slice(&file).unwrap();
    assert_eq!(map.names().collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn every_cut_but_between_tensors_is_the_files_fault() {
    let file = hex(FILE);
    for len in 0..=file.len() {
        let cut = &file[..len];
        let (slice, stream) = (ten::from_slice::<TensorMap>(cut), ten::from_reader::<TensorMap>(cut));
        if let 0 | 160 | 320 = len {
            assert_eq!(slice.unwrap().len(), len / 160);
            assert_eq!(stream.unwrap().len(), len / 160);
        } else {
            let (slice, stream) = (slice.unwrap_err(), stream.unwrap_err());
            assert_eq!(slice.category(), tensorfile::Category::File, "cut at {len}: {slice}");
            assert_eq!(stream.category(), tensorfile::Category::File, "cut at {len}, from a stream: {stream}");
        }
    }
}

#[test]
fn reports_where_a_stream_is_cut() {
    let mut messages = Messages::default();
    for (len, slice, stream) in [
        (1, "ten: tensor `#0`: needs 8 more bytes, but the file has 1 left (at byte 0)", ""),
        (12, "ten: tensor `#0`: needs 8 more bytes, but the file has 4 left (at byte 8)", ""),
        (20, "ten: tensor `#0`: needs 8 more bytes, but the file has 4 left (at byte 16)", ""),
        (50, "ten: tensor `#0`: needs 8 more bytes, but the file has 2 left (at byte 48)", ""),
        (70, "ten: tensor `policy`: needs 24 more bytes, but the file has 14 left (at byte 56)", ""),
        (80, "ten: tensor `policy`: needs 8 more bytes, but the file has 0 left (at byte 80)", ""),
        (99, "ten: tensor `policy`: needs 6 more bytes, but the file has 3 left (at byte 96)", ""),
        (102, "ten: tensor `policy`: needs 58 more bytes, but the file has 0 left (at byte 102)", ""),
        (159, "ten: tensor `policy`: needs 58 more bytes, but the file has 57 left (at byte 102)", ""),
        (161, "ten: tensor `#1`: needs 8 more bytes, but the file has 1 left (at byte 160)", ""),
        (319, "ten: tensor `#1`: needs 56 more bytes, but the file has 55 left (at byte 264)", ""),
    ] {
        let file = &hex(FILE)[..len];
        messages.compare(format!("cut at {len}"), ten::from_slice::<TensorMap>(file), slice);
        let stream = if stream.is_empty() { slice } else { stream };
        messages.compare(format!("cut at {len}, from a stream"), ten::from_reader::<Vec<Tensor>>(file), stream);
    }
    messages.end();
}

/// Replaces bytes in a file.
fn with(edits: &[(usize, &[u8])]) -> Vec<u8> {
    let mut file = hex(FILE);
    for (at, bytes) in edits {
        file[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    file
}

#[cfg(target_pointer_width = "64")]
#[test]
fn keeps_dtypes_outside_the_specification() {
    // Another one, none, one that goes on after its end, and one of a big-endian machine.
    for (dtype, shown) in [(&b"f3"[..], "`f3`"), (b"\0\0", "``"), (b"i2\0x", "`i2\\x00x`"), (b">i2", "`>i2`")] {
        let file = with(&[(16, dtype)]);
        let map: TensorMap = ten::from_slice(&file).unwrap();
        assert_eq!(map["policy"].info().unknown_dtype(), Some(shown));
        assert_eq!(ten::to_vec(&map).unwrap(), file, "{shown}");
    }
}

#[cfg(target_pointer_width = "64")]
#[test]
fn rejects_files_outside_the_specification() {
    const MINUS_ONE: &[u8] = &[0xff; 8];
    const LARGEST: &[u8] = &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
    const EXABYTE: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 0x10];
    let mut messages = Messages::default();
    for (what, file, slice, stream) in [
        (
            "magic",
            with(&[(0, b"~tenbin~")]),
            "ten: tensor `#0`: found `~tenbin~`, but expected `~TenBin~` (at byte 0)",
            "",
        ),
        (
            "magic of the data",
            with(&[(80, b"\0")]),
            "ten: tensor `policy`: found `\\x00TenBin~`, but expected `~TenBin~` (at byte 80)",
            "",
        ),
        (
            "magic of the second tensor",
            with(&[(167, b"\n")]),
            "ten: tensor `#1`: found `~TenBin\\n`, but expected `~TenBin~` (at byte 160)",
            "",
        ),
        (
            "negative header length",
            with(&[(8, MINUS_ONE)]),
            "ten: tensor `#0`: chunk length is -1, but expected 0 or more (at byte 8)",
            "",
        ),
        (
            "negative data length",
            with(&[(88, MINUS_ONE)]),
            "ten: tensor `policy`: chunk length is -1, but expected 0 or more (at byte 88)",
            "",
        ),
        (
            "header too short for its fields",
            with(&[(8, &[16])]),
            "ten: tensor `#0`: header length is 16, but expected 8 × (3 + rank) (at byte 8)",
            "",
        ),
        (
            "header of no whole numbers",
            with(&[(8, &[41])]),
            "ten: tensor `#0`: header length is 41, but expected 8 × (3 + rank) (at byte 8)",
            "",
        ),
        (
            "header too long",
            with(&[(8, &[48])]),
            "ten: tensor `#0`: header length is 48, but expected 8 × (3 + rank), and the rank is 2 (at byte 8)",
            "",
        ),
        (
            "rank too low",
            with(&[(32, &[1])]),
            "ten: tensor `#0`: header length is 40, but expected 8 × (3 + rank), and the rank is 1 (at byte 8)",
            "",
        ),
        (
            "rank too high",
            with(&[(32, LARGEST)]),
            "ten: tensor `#0`: header length is 40, but expected 8 × (3 + rank), and the rank is 9223372036854775807 (at byte 8)",
            "",
        ),
        (
            "negative rank",
            with(&[(32, MINUS_ONE)]),
            "ten: tensor `#0`: rank is -1, but expected 0 or more (at byte 32)",
            "",
        ),
        (
            "the wildcard of Python",
            with(&[(40, MINUS_ONE)]),
            "ten: tensor `#0`: dim is -1, but expected 0 or more (at byte 40)",
            "",
        ),
        (
            "less data than the shape says",
            with(&[(48, &[4])]),
            "ten: tensor `policy`: payload is 6 bytes, but i16[1, 4] takes 8 (at byte 88)",
            "",
        ),
        (
            "more data than the shape says",
            with(&[(48, &[0])]),
            "ten: tensor `policy`: payload is 6 bytes, but i16[1, 0] takes 0 (at byte 88)",
            "",
        ),
        (
            "another dtype than the data's",
            with(&[(17, b"4")]),
            "ten: tensor `policy`: payload is 6 bytes, but i32[1, 3] takes 12 (at byte 88)",
            "",
        ),
        (
            "dims that overflow",
            with(&[(40, LARGEST), (48, LARGEST)]),
            "ten: tensor `policy`: payload is 6 bytes, but i16[9223372036854775807, 9223372036854775807] takes more than can be addressed (at byte 88)",
            "",
        ),
        (
            "more data than there is",
            with(&[(48, &[0, 1]), (88, &[0, 2])]),
            "ten: tensor `policy`: needs 512 more bytes, but the file has 224 left (at byte 96)",
            "",
        ),
        (
            "an exabyte",
            with(&[(17, b"1"), (48, EXABYTE), (88, EXABYTE)]),
            "ten: tensor `policy`: needs 1152921504606846976 more bytes, but the file has 224 left (at byte 96)",
            "ten: tensor `policy`: payload in bytes is 1152921504606846976, but the limit is 1099511627776",
        ),
        (
            "the largest length",
            with(&[(17, b"1"), (48, LARGEST), (88, LARGEST)]),
            "ten: tensor `policy`: needs 9223372036854775807 more bytes, but the file has 224 left (at byte 96)",
            "ten: tensor `policy`: payload in bytes is 9223372036854775807, but the limit is 1099511627776",
        ),
        (
            "one byte more",
            [hex(FILE), vec![0]].concat(),
            "ten: tensor `#2`: needs 8 more bytes, but the file has 1 left (at byte 320)",
            "",
        ),
        (
            "zeros behind",
            [hex(FILE), vec![0; 64]].concat(),
            "ten: tensor `#2`: found `\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00`, but expected `~TenBin~` (at byte 320)",
            "",
        ),
    ] {
        messages.compare(what, ten::from_slice::<TensorMap>(&file), slice);
        messages.compare(format!("{what}, a list"), ten::from_slice::<Vec<Tensor>>(&file), slice);
        let stream = if stream.is_empty() { slice } else { stream };
        messages.compare(format!("{what}, from a stream"), ten::from_reader::<TensorMap>(&file[..]), stream);
        messages.compare(format!("{what}, a list from a stream"), ten::from_reader::<Vec<Tensor>>(&file[..]), stream);
    }
    messages.end();
}

#[derive(TensorFile, Debug)]
struct Same {
    same: Array1<u8>,
}

#[test]
fn names_may_repeat_where_nothing_is_looked_up_by_them() {
    let [one, other] = [7_u8, 8].map(|number| Tensor::from_slice(&[number], [1]).unwrap());
    for (name, names) in [("same", [&b"same"[..], b"same"]), ("0", [b"", b"0"]), ("1", [b"1", b""])] {
        let [first, second] = [(names[0], 7), (names[1], 8)].map(|(name, number)| tensor(b"u1", name, &[1], &[number]));
        let bytes = [first, second].concat();
        let what = names.map(|name| String::from_utf8_lossy(name).into_owned());
        if name != "1" {
            // A list whose first name is a number is read by name.
            assert_eq!(ten::from_slice::<Vec<Tensor>>(&bytes).unwrap(), [one.clone(), other.clone()], "{what:?}");
            assert_eq!(ten::from_reader::<Vec<Tensor>>(&bytes[..]).unwrap(), [one.clone(), other.clone()], "{what:?}");
            let tuple = (array![7_u8], array![8_u8]);
            assert_eq!(ten::from_slice::<Arrays<(Array1<u8>, Array1<u8>)>>(&bytes).unwrap().0, tuple, "{what:?}");
            assert_eq!(ten::from_reader::<Arrays<(Array1<u8>, Array1<u8>)>>(&bytes[..]).unwrap().0, tuple, "{what:?}");
        }
        let file = OpenOptions::new().from_bytes(bytes.clone()).unwrap();
        let numbers: Vec<u8> = file.tensors().map(|tensor| tensor.read().unwrap().as_bytes()[0]).collect();
        assert_eq!(numbers, [7, 8], "{what:?}");
        assert_eq!(file.tensors().filter(|tensor| tensor.name() == name).count(), 2, "{what:?}");
        assert_eq!(file.tensor("#1").unwrap(), other, "{what:?}");

        let advice = "read them by position, as a list or a tuple, or as `#0`, `#1`, and so on";
        let expected = format!("ten: two tensors are named `{name}`; {advice} (at byte ");
        for error in [
            message(file.get(name)),
            message(ten::from_slice::<TensorMap>(&bytes)),
            message(ten::from_reader::<TensorMap>(&bytes[..])),
            message(ten::from_slice::<Same>(&bytes)),
            message(ten::from_reader::<Same>(&bytes[..])),
        ] {
            assert!(error.starts_with(&expected), "{error}");
        }
        let report = file.report::<Same>().to_string();
        assert!(report.contains(&format!("two tensors are named `{name}`")), "{report}");
    }
}

#[test]
fn cannot_store_other_dtypes_and_layouts() {
    let stores = "ten stores f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64";
    for &dtype in Dtype::ALL {
        let info = TensorInfo::new(dtype, [4 * dtype.block_elements()]);
        let bytes = vec![0; info.payload_bytes().unwrap()];
        let map: TensorMap = [("bias", Tensor::new(info, &bytes).unwrap())].into_iter().collect();
        let mut file = Vec::new();
        let written = ten::to_writer(&mut file, &map);
        if ten::DTYPES.contains(&dtype) {
            written.unwrap();
        } else {
            let is_number = dtype.is_float() || dtype.is_integer();
            let advice = match dtype.block_elements() {
                32.. => "; gguf stores it",
                _ if is_number => "; `view::CastView` casts",
                _ => "",
            };
            assert_eq!(message(written), format!("ten: tensor `bias`: cannot store {dtype}; {stores}{advice}"));
            assert!(file.is_empty(), "nothing is written");
        }
    }
    let sparse = tensorfile::CooTensor::new([2], vec![1], vec![1.0_f32]).unwrap();
    assert_eq!(
        message(ten::to_vec(&sparse)),
        "ten: tensor `0`: cannot store a sparse tensor; ten stores dense tensors; btf stores sparse ones"
    );
}

#[test]
fn names_that_are_not_utf8_survive_rewriting() {
    for (stored, name) in [
        (&b"\xff\xfe"[..], r"\xff\xfe"),
        (b"\xff\xfe\xfd", r"\xff\xfe\xfd"),
        (b"abcdefg\xff", r"abcdefg\xff"),
        (br"\xff", r"\\xff"),
        (br"\\xff", r"\\\\xff"),
        (br"\n", r"\n"),
    ] {
        let file = tensor(b"u1", stored, &[1], &[7]);
        let map: TensorMap = ten::from_slice(&file).unwrap();
        assert_eq!(map.names().collect::<Vec<_>>(), [name]);
        assert_eq!(ten::to_vec(&map).unwrap(), file, "{name}");
        assert!(ten::FORMAT.stores_name(name), "{name}");
        assert_eq!(SaveReport::new(&map, &ten::FORMAT).unwrap().unstored_names, 0, "{name}");
        let (read, value) = ten::Decoder::new(&file[..]).next().unwrap().unwrap();
        let mut encoder = ten::Encoder::new(Vec::new());
        encoder.encode(&read, &value).unwrap();
        assert_eq!(encoder.into_inner(), file, "{name}");
    }
}

#[test]
fn cannot_store_names_that_would_not_come_back() {
    for (name, expected) in [
        (
            "encoder.w",
            "ten: tensor `encoder.w`: cannot store a name of 9 bytes; ten stores up to 8; rename the tensor, or embed \
             the names",
        ),
        (
            "ääääo",
            "ten: tensor `ääääo`: cannot store a name of 9 bytes; ten stores up to 8; rename the tensor, or embed \
             the names",
        ),
        ("\0a", "ten: tensor `\\u{0}a`: cannot store a name with NUL at its end; readers of ten strip them"),
        ("a\0", "ten: tensor `a\\u{0}`: cannot store a name with NUL at its end; readers of ten strip them"),
        (r"\xff\x00", r"ten: tensor `\xff\x00`: cannot store a name with NUL at its end; readers of ten strip them"),
    ] {
        // The tensor before it could be written, but is not.
        let tensor = || Tensor::from_slice(&[7_u8], [1]).unwrap();
        let map: TensorMap = [("first", tensor()), (name, tensor())].into_iter().collect();
        let mut file = Vec::new();
        assert_eq!(message(ten::to_writer(&mut file, &map)), expected);
        assert!(file.is_empty(), "nothing is written");
    }
    let map: TensorMap = [("a\0b", Tensor::from_slice(&[7_u8], [1]).unwrap())].into_iter().collect();
    assert_eq!(
        message(ten::Options::new().embed_names(true).to_vec(&map)),
        "ten: tensor `a\\u{0}b`: cannot store the name `a\\u{0}b`; embedded names end with a NUL"
    );
}

#[cfg(target_endian = "little")]
#[test]
fn views_borrow_from_a_file_in_memory() {
    let values = Arrays((array![1.0_f64, 2.0], array![[3_u16, 4]]));
    let file = ten::to_vec(&values).unwrap();
    let mut words = vec![0_u64; file.len() / 8];
    bytemuck::cast_slice_mut(&mut words).copy_from_slice(&file);
    let aligned: &[u8] = bytemuck::cast_slice(&words);
    let Arrays((a, b)): Arrays<(ArrayView1<'_, f64>, ArrayView2<'_, u16>)> = ten::from_slice(aligned).unwrap();
    assert_eq!((a, b), (values.0.0.view(), values.0.1.view()));
    assert!(aligned.as_ptr_range().contains(&a.as_ptr().cast()) && aligned.as_ptr_range().contains(&b.as_ptr().cast()));
}

#[test]
fn encoder_writes_what_a_plan_writes() {
    /// Counts calls, and takes several slices in one.
    struct Calls(Vec<u8>, usize);

    impl std::io::Write for Calls {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.1 += 1;
            self.0.write(bytes)
        }

        fn write_vectored(&mut self, slices: &[std::io::IoSlice<'_>]) -> std::io::Result<usize> {
            self.1 += 1;
            self.0.write_vectored(slices)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            panic!("a buffer around a socket is not flushed")
        }
    }

    for &dtype in ten::DTYPES {
        for shape in [&[][..], &[0], &[7], &[2, 3], &[64, 64], &[5000], &[1; 9]] {
            for name in ["", "x", "12345678", r"\xff"] {
                let tensor = crate::support::tensor(dtype, shape);
                let expected = match name {
                    "" => ten::to_vec(std::slice::from_ref(&tensor)).unwrap(),
                    _ => ten::to_vec(&[(name, tensor.clone())].into_iter().collect::<TensorMap>()).unwrap(),
                };
                let mut encoder = ten::Encoder::new(Calls(Vec::new(), 0));
                encoder.encode(name, &Some(&tensor)).unwrap();
                encoder.encode(name, &tensor).unwrap();
                let Calls(written, calls) = encoder.into_inner();
                assert!(written == expected.repeat(2), "{dtype}{shape:?} as `{name}`");
                assert_eq!(calls, 2, "{dtype}{shape:?} as `{name}`");
            }
        }
    }

    let mut encoder = ten::Encoder::new(Calls(Vec::new(), 0));
    encoder.encode("f", &Array2::from_shape_fn((2, 3).f(), |(row, column)| (3 * row + column) as f32)).unwrap();
    let written = encoder.get_mut();
    assert_eq!(ten::from_slice::<TensorMap>(&written.0).unwrap()["f"].as_bytes()[4..8], 1_f32.to_le_bytes());
    written.0.clear();
    let error = encoder.encode("123456789", &1_u8).unwrap_err().to_string();
    assert!(error.starts_with("ten: tensor `123456789`: cannot store a name of 9 bytes"), "{error}");
    let error = encoder.encode("x", &Vec::<Array1<u8>>::new()).unwrap_err().to_string();
    assert!(error.contains("`Encoder::encode` takes one tensor"), "{error}");
    assert!(encoder.into_inner().0.is_empty());
}

#[test]
fn messages_are_decoded_alike_however_they_arrive() {
    let mut stream = Vec::new();
    let mut encoder = ten::Encoder::new(&mut stream);
    for at in 0..5 {
        let name = if at % 2 == 0 { String::new() } else { format!("t{at}") };
        encoder.encode(&name, &Array1::from_elem(3 * at, 1.5_f32)).unwrap();
    }
    let all = |file: &[u8], dribbles: bool| -> Vec<String> {
        let mut decoder = if dribbles { ten::Decoder::new(Dribble::new(file)) } else { ten::Decoder::new(file) };
        let mut next = || match decoder.decode::<Array1<f32>>() {
            Ok(next) => next.map(|next| format!("{next:?}")),
            Err(error) => Some(error.to_string()),
        };
        std::iter::from_fn(&mut next).take(10).collect()
    };
    assert_eq!(all(&stream, false).len(), 5);
    for len in 0..stream.len() {
        assert_eq!(all(&stream[..len], false), all(&stream[..len], true), "{len} bytes");
    }
    for at in 0..stream.len() {
        for byte in [0, 1, 2, b'f', b'8', 64, 255] {
            let mut file = stream.clone();
            file[at] = byte;
            assert_eq!(all(&file, false), all(&file, true), "byte {at} is {byte}");
            let read = |reader: &mut dyn std::io::Read| {
                ten::from_reader::<Arrays<Array1<f32>>>(reader).map(|array| array.0).map_err(|e| e.to_string())
            };
            assert_eq!(read(&mut &file[..]), read(&mut Dribble::new(&file)));
        }
    }
}

#[test]
fn an_error_of_a_short_stream_is_not_lost() {
    struct Broken<'a>(&'a [u8], usize);

    impl std::io::Read for Broken<'_> {
        fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
            if self.0.is_empty() {
                self.1 += 1;
                return Err(std::io::Error::other(format!("error {}", self.1)));
            }
            self.0.read(bytes)
        }
    }

    let file = ten::to_vec(&Arrays(Array1::from_elem(10, 1.5_f32))).unwrap();
    for len in 0..=file.len() {
        let error = ten::from_reader::<Arrays<Array1<f32>>>(Broken(&file[..len], 0)).unwrap_err();
        assert!(error.to_string().contains("error 1"), "{len} bytes: {error}");
        let mut decoder = ten::Decoder::new(Broken(&file[..len], 0));
        let decoded: Vec<_> = std::iter::from_fn(|| decoder.decode::<Array1<f32>>().transpose()).take(3).collect();
        let errors: Vec<String> = decoded.iter().filter_map(|item| Some(item.as_ref().err()?.to_string())).collect();
        let is_first = |error: &String| error.contains("error 1");
        assert!(!errors.is_empty() && errors.iter().all(is_first), "{len} bytes: {errors:?}");
        assert!(decoder.next().is_none(), "an iteration that skips errors ends");
    }
}
