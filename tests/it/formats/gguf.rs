use indexmap::IndexMap;
use tensorfile::report::WarningKind;
use tensorfile::{Dtype, File, Limits, OpenOptions, Tensor, TensorInfo, TensorMap, WriteOptions, gguf};

use super::unknown;
use crate::support::{Dribble, Messages, format, hex, message, root, tensor};

/// Two tensors, the dims of the first innermost first, and an entry of metadata, by hand.
const GOLDEN: &str = "
    47 47 55 46  03 00 00 00                     | GGUF, version 3
    02 00 00 00 00 00 00 00                      | 2 tensors
    01 00 00 00 00 00 00 00                      | 1 entry
    04 00 00 00 00 00 00 00  6e 61 6d 65         | name
    08 00 00 00                                  | a string
    02 00 00 00 00 00 00 00  c3 a4               | ä
    01 00 00 00 00 00 00 00  77                  | w
    02 00 00 00                                  | rank 2
    03 00 00 00 00 00 00 00                      | 3 columns
    01 00 00 00 00 00 00 00                      | 1 row
    19 00 00 00  00 00 00 00 00 00 00 00         | i16 at 0
    03 00 00 00 00 00 00 00  71 2e 30            | q.0
    01 00 00 00                                  | rank 1
    20 00 00 00 00 00 00 00                      | 32 elements
    02 00 00 00  20 00 00 00 00 00 00 00         | q4_0 at 32
    00 00                                        | up to 128
    01 00 ff ff 00 01                            | 1, -1, 256
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f 10 11
    00 00 00 00 00 00 00 00 00 00 00 00 00 00";

// Offsets in it.
const VERSION: usize = 4;
const TENSORS: usize = 8;
const ENTRIES: usize = 16;
const KEY: usize = 24;
const VALUE_TYPE: usize = 36;
const VALUE: usize = 40;
const NAME: usize = 50;
const RANK: usize = 59;
const DIMS: usize = 63;
const TYPE: usize = 79;
const SECOND: usize = 91;
const SECOND_DIM: usize = 106;
const SECOND_TYPE: usize = 114;
const SECOND_OFFSET: usize = 118;
const DATA: usize = 128;

fn tensors() -> TensorMap {
    let w = Tensor::from_slice(&[1_i16, -1, 256], [1, 3]).unwrap();
    [("w", w), ("q.0", tensor(Dtype::Q4_0, &[1]))].into_iter().collect()
}

fn changed(changes: &[(usize, &[u8])]) -> Vec<u8> {
    let mut file = hex(GOLDEN);
    for (at, bytes) in changes {
        file[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    file
}

/// A file of one entry without tensors: the key `k`, the type, and the value.
fn entry(kind: u32, value: &[u8]) -> Vec<u8> {
    let mut file = b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0k".to_vec();
    file.extend(kind.to_le_bytes());
    file.extend(value);
    file
}

/// The type and the number of items of an array, then the items.
fn array(kind: u32, count: u64, items: &[u8]) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &count.to_le_bytes(), items].concat()
}

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(root().join("tests/fixtures/gguf").join(name)).unwrap()
}

/// A file that somebody has, in `tests/fixtures/cases`.
fn case(name: &str) -> Vec<u8> {
    std::fs::read(root().join("tests/fixtures/cases").join(name)).unwrap()
}

fn open(file: Vec<u8>) -> File {
    OpenOptions::new().from_bytes(file).unwrap()
}

#[test]
fn reads_and_writes_a_file() {
    let file = hex(GOLDEN);
    assert_eq!(file.len(), DATA + 64);
    assert_eq!(gguf::from_slice::<TensorMap>(&file).unwrap(), tensors());
    assert_eq!(gguf::from_reader::<TensorMap>(&file[..]).unwrap(), tensors());
    assert_eq!(gguf::from_reader::<TensorMap>(Dribble::new(&file)).unwrap(), tensors());
    assert_eq!(gguf::metadata(&file).unwrap(), IndexMap::from([("name".to_owned(), "ä".to_owned())]));
    assert_eq!(gguf::Options::new().metadata("name", "ä").to_vec(&tensors()).unwrap(), file);
    let opened = open(file);
    assert_eq!((opened.format().name, opened.get("q.0").unwrap().range()), ("gguf", 160..178));
    let metadata = opened.metadata().unwrap();
    assert_eq!((metadata.version.as_deref(), &metadata.warnings[..]), (Some("3"), &[][..]));
}

#[test]
fn version_2_has_the_same_bytes() {
    let file = changed(&[(VERSION, &[2])]);
    assert_eq!(gguf::from_slice::<TensorMap>(&file).unwrap(), tensors());
    assert_eq!(open(file).metadata().unwrap().version.as_deref(), Some("2"));
}

#[test]
fn reproduces_a_file_of_llama_cpp() {
    let file = fixture("plain.gguf");
    let map: TensorMap = gguf::from_slice(&file).unwrap();
    let infos: Vec<String> = map.infos().map(|(name, info)| format!("{name}: {info}")).collect();
    let expected = [
        "token_embd.weight: f32[2, 3]",
        "blk.0.attn_norm.weight: f16[2]",
        "blk.0.ids: i16[2, 1, 4]",
        "blk.0.q: q8_0[2, 32]",
    ];
    assert_eq!(infos, expected);
    let embed = map["token_embd.weight"].as_view().to_array::<f32>().unwrap();
    assert_eq!(embed.iter().copied().collect::<Vec<_>>(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let metadata = gguf::metadata(&file).unwrap();
    assert_eq!(metadata.iter().collect::<Vec<_>>().len(), 2);
    assert_eq!((&*metadata["general.architecture"], &*metadata["general.name"]), ("test", "größe"));
    let options = metadata.iter().fold(gguf::Options::new(), |options, (key, value)| options.metadata(key, value));
    assert_eq!(options.to_vec(&map).unwrap(), file);
}

#[test]
fn reads_all_types_of_llama_cpp() {
    let file = fixture("mixed.gguf");
    let map: TensorMap = gguf::from_slice(&file).unwrap();
    assert_eq!(gguf::from_reader::<TensorMap>(&file[..]).unwrap(), map);
    for (name, tensor) in &map {
        // Each is two rows of a block.
        let block = tensor.dtype().block_elements();
        assert_eq!((tensor.dtype().name(), tensor.shape().dims()), (name.as_str(), &[2, block][..]));
        let bytes: Vec<u8> = (0..2 * tensor.dtype().block_bytes()).map(|at| at as u8).collect();
        assert_eq!(tensor.as_bytes(), bytes, "{name}");
    }
    // All but `q8_1` and `q2_0`, which the package has not.
    assert_eq!(map.len(), gguf::DTYPES.len() - 2);
    let opened = open(file);
    assert!(opened.tensors().all(|tensor| tensor.range().start % 64 == 0));
    assert_eq!(opened.metadata().unwrap().warnings, []);
}

#[test]
fn metadata_of_all_types_is_text() {
    let file = fixture("mixed.gguf");
    let found: Vec<String> =
        gguf::metadata(&file).unwrap().iter().map(|(key, value)| format!("{key} = {value}")).collect();
    let tokens: Vec<String> = (0..100).map(|at| format!("\"token{at}\"")).collect();
    let numbers: Vec<String> = (0..1000).map(|at| at.to_string()).collect();
    let expected = [
        "general.architecture = test",
        "general.alignment = 64",
        "a.u8 = 200",
        "a.i8 = -100",
        "a.u16 = 60000",
        "a.i16 = -30000",
        "a.u32 = 4000000000",
        "a.i32 = -2000000000",
        "a.f32 = 0.1",
        "a.bool = true",
        "a.u64 = 18446744073709551615",
        "a.i64 = -9223372036854775808",
        "a.f64 = 1e300",
        "a.short = [1, 2, 3]",
        "a.floats = [0.5, 2.0]",
        r#"a.strings = ["<s>", "a\"b", "ä"]"#,
        &format!("a.long = [{}]", numbers.join(", ")),
        &format!("a.tokens = [{}]", tokens.join(", ")),
        "a.nested = [[1, 2], [3]]",
    ];
    assert_eq!(found, expected);
}

#[test]
fn metadata_may_be_long_nested_and_not_utf8() {
    let text = |file: &[u8]| gguf::metadata(file).map(|metadata| metadata["k"].clone());
    let word = |word: &[u8]| [&(word.len() as u64).to_le_bytes()[..], word].concat();
    let nested = |depth: u32| (0..depth).fold(array(0, 1, &[7]), |inner, _| array(9, 1, &inner));
    assert_eq!(text(&entry(9, &nested(3))).unwrap(), "[[[[7]]]]");
    assert_eq!(message(text(&entry(9, &nested(4)))), "gguf: depth of arrays is 5, but the limit is 4 (at byte 85)");
    assert_eq!(text(&entry(8, &word(b"a\xffb"))).unwrap(), "a\u{fffd}b");
    assert_eq!(text(&entry(9, &array(8, 1, &word(b"\xff\"")))).unwrap(), "[\"\u{fffd}\\\"\"]");
    assert_eq!(text(&entry(9, &array(7, 3, &[0, 1, 0]))).unwrap(), "[false, true, false]");
    assert_eq!(text(&entry(9, &array(6, 0, &[]))).unwrap(), "[]");
    // Long arrays are whole, also where an index skips them.
    let inner = array(8, 2, &[word(b"x"), word(b"")].concat());
    let long = entry(9, &array(9, 20, &inner.repeat(20)));
    let shown = vec![r#"["x", ""]"#; 20].join(", ");
    assert_eq!(text(&long).unwrap(), format!("[{shown}]"));
    assert_eq!(open(long.clone()).metadata().unwrap().entries["k"], format!("[{shown}]"));
    assert_eq!(open(entry(9, &array(9, 20, &array(0, 0, &[]).repeat(20)))).len(), 0);
    // An invalid bool is found in an array of any length.
    let bools = entry(9, &array(7, 20, &[[1; 19].as_slice(), &[2]].concat()));
    assert_eq!(message(text(&bools)), "gguf: bool is 2, but expected 0 or 1 (at byte 68)");
    assert_eq!(message(OpenOptions::new().from_bytes(bools)), "gguf: bool is 2, but expected 0 or 1 (at byte 68)");
    for len in 24..long.len() {
        assert!(message(text(&long[..len])).contains("more byte"), "{len}");
        let stream = gguf::from_reader::<TensorMap>(&long[..len]);
        assert!(message(stream).contains("more byte"), "{len}");
    }
    assert_eq!(gguf::from_reader::<TensorMap>(&long[..]).unwrap(), TensorMap::new());
}

#[test]
fn writes_an_alignment_and_metadata_in_order() {
    let options = gguf::Options::new().alignment(8).metadata("z", "1").metadata("a", "").metadata("z", "2");
    let file = options.to_vec(&tensors()).unwrap();
    let entries: Vec<_> = gguf::metadata(&file).unwrap().into_iter().collect();
    let expected = [("general.alignment", "8"), ("z", "2"), ("a", "")];
    assert_eq!(entries, expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
    assert_eq!(gguf::from_slice::<TensorMap>(&file).unwrap(), tensors());
    // The entry states the alignment of the next file, too.
    let entries = entries.into_iter().collect::<IndexMap<_, _>>();
    let again = gguf::FORMAT.to_vec(&tensors(), &WriteOptions::new().metadata(entries)).unwrap();
    assert_eq!(again, file);

    let mut messages = Messages::default();
    let power = "an alignment is a power of two below 2^32";
    for (options, expected) in [
        (gguf::Options::new().alignment(0), format!("cannot align tensors to 0 bytes; {power}")),
        (gguf::Options::new().alignment(24), format!("cannot align tensors to 24 bytes; {power}")),
        (gguf::Options::new().alignment(1 << 32), format!("cannot align tensors to 4294967296 bytes; {power}")),
        (gguf::Options::new().metadata("general.alignment", "x"), format!("cannot align tensors to x bytes; {power}")),
        (
            gguf::Options::new().metadata("ä", ""),
            "cannot write metadata of the key `ä`; a key is 1 to 65535 bytes of ASCII".to_owned(),
        ),
    ] {
        messages.compare(&expected, options.to_vec(&tensors()), &format!("gguf: {expected}"));
    }
}

#[test]
fn refuses_what_ggml_does_not_read() {
    let write = |name: &str, info: TensorInfo| {
        let tensor = Tensor::new(info.clone(), &vec![0; info.payload_bytes().unwrap()]).unwrap();
        message(gguf::to_vec(&[(name, tensor)].into_iter().collect::<TensorMap>()))
    };
    assert_eq!(
        write(&"n".repeat(64), TensorInfo::new(Dtype::F32, [1])),
        format!(
            "gguf: tensor `{}`: cannot store a name of 64 bytes; gguf stores up to 63; rename the tensor, or allow long \
             names, of up to 127",
            "n".repeat(64)
        )
    );
    assert_eq!(
        write("a\0b", TensorInfo::new(Dtype::F32, [1])),
        "gguf: tensor `a\\u{0}b`: cannot store a name with NUL; in ggml a name ends there"
    );
    assert_eq!(
        write("q", TensorInfo::new(Dtype::Q4_0, [32, 2])),
        "gguf: tensor `q`: cannot store q4_0[32, 2]; in gguf, rows of q4_0 are multiples of 32"
    );
    assert_eq!(
        write("r", TensorInfo::new(Dtype::F32, [1; 5])),
        "gguf: tensor `r`: cannot store rank 5; gguf stores ranks up to 4"
    );
}

#[test]
fn tensors_are_read_in_the_order_of_their_data_and_with_gaps() {
    // The first is moved to the end, after a gap.
    let mut file = changed(&[(TYPE + 4, &[128])]);
    file.truncate(DATA + 50);
    file.resize(DATA + 128, 0xee);
    file.extend([1, 0, 0xff, 0xff, 0, 1]);
    let map: TensorMap = gguf::from_slice(&file).unwrap();
    assert_eq!(map.names().collect::<Vec<_>>(), ["q.0", "w"]);
    assert_eq!(map.into_iter().rev().collect::<TensorMap>(), tensors());
    assert_eq!(gguf::from_reader::<TensorMap>(&file[..]).unwrap().len(), 2);
    let warnings = |file: Vec<u8>| crate::support::warnings(&open(file).metadata().unwrap());
    // Padding may be missing, and more than that is no tensor's.
    assert_eq!(warnings(file.clone()), Vec::<String>::new());
    file.resize(DATA + 160, 0);
    assert_eq!(warnings(file.clone()), Vec::<String>::new());
    file.push(0);
    assert_eq!(warnings(file), ["27 bytes at the end, from byte 262 on, belong to no tensor"]);
}

#[test]
fn an_unknown_type_ends_where_the_next_tensor_begins() {
    let gguf = format("gguf");
    unknown::check(gguf, &changed(&[(TYPE, &[99])]), "w", "99[1, 3] of unknown dtype", 128..160);
    // Numbers that ggml no longer has.
    unknown::check(gguf, &changed(&[(TYPE, &[4])]), "w", "4[1, 3] of unknown dtype", 128..160);
    // The last one ends with the file, if its end is known.
    let last = changed(&[(SECOND_TYPE, &[99])]);
    let opened = open(last.clone());
    assert_eq!(opened.get("q.0").unwrap().range(), 160..192);
    assert_eq!(opened.get("w").unwrap().read().unwrap(), tensors()["w"]);
    let error = message(gguf::from_reader::<TensorMap>(&last[..]));
    assert_eq!(error, "gguf: tensor `q.0`: unknown dtype tag 99 (at byte 118)");
}

#[test]
fn reports_malformed_files() {
    let mut messages = Messages::default();
    let u64s = |number: u64| number.to_le_bytes();
    for (file, expected) in [
        (b"GGU".to_vec(), "needs 4 more bytes, but the file has 3 left (at byte 0)"),
        (changed(&[(0, b"ggml")]), "found `ggml`, but expected `GGUF` (at byte 0)"),
        (changed(&[(VERSION, &[4])]), "version is 4, but expected 2 or 3 (at byte 4)"),
        (
            changed(&[(VERSION, &[1])]),
            "cannot read version 1 of gguf; llama.cpp cannot either; convert the model again (at byte 4)",
        ),
        (
            changed(&[(VERSION, &[0, 0, 0, 1])]),
            "cannot read version 1 of gguf; llama.cpp cannot either; convert the model again (at byte 4)",
        ),
        // All numbers are big-endian then.
        (
            changed(&[(VERSION, &[0, 0, 0, 3])]),
            "number of tensors is 144115188075855872, but the limit is 4194304 (at byte 8)",
        ),
        (
            changed(&[(TENSORS, &u64s(1 << 30))]),
            "number of tensors is 1073741824, but the limit is 4194304 (at byte 8)",
        ),
        (changed(&[(TENSORS, &u64s(1 << 20))]), "needs 25165824 more bytes, but the file has 142 left (at byte 50)"),
        (
            changed(&[(ENTRIES, &u64s(u64::MAX))]),
            "number of entries of metadata is 18446744073709551615, but the limit is 4194304 (at byte 24)",
        ),
        (changed(&[(ENTRIES, &u64s(100))]), "needs 1400 more bytes, but the file has 168 left (at byte 24)"),
        (changed(&[(KEY, &u64s(1 << 16))]), "length of a key is 65536, but expected at most 65535 (at byte 24)"),
        (changed(&[(KEY + 9, &[0xff])]), "a name is not UTF-8 (at byte 33)"),
        (changed(&[(VALUE_TYPE, &[13])]), "type of metadata is 13, but expected 0 to 12 (at byte 36)"),
        (
            changed(&[(VALUE, &u64s(u64::MAX))]),
            "length of a string is 18446744073709551615, but expected at most 1073741824 (at byte 40)",
        ),
        (changed(&[(VALUE, &u64s(1000))]), "needs 1000 more bytes, but the file has 144 left (at byte 48)"),
        (entry(7, &[2]), "bool is 2, but expected 0 or 1 (at byte 37)"),
        (
            entry(9, &array(5, u64::MAX, &[])),
            "needs 18446744073709551615 more bytes, but the file has 0 left (at byte 49)",
        ),
        (
            changed(&[(NAME, &u64s(1 << 20))]),
            "tensor `#0`: length of a name is 1048576, but expected at most 65535 (at byte 50)",
        ),
        (changed(&[(RANK, &[0, 1])]), "tensor `w`: rank is 256, but the limit is 255 (at byte 59)"),
        (
            changed(&[(DIMS + 8, &u64s(1 << 63))]),
            "tensor `w`: dim is 9223372036854775808, but expected less than 2^63 (at byte 71)",
        ),
        (
            changed(&[(DIMS, &u64s(1 << 40)), (DIMS + 8, &u64s(1 << 40))]),
            "tensor `w`: i16[1099511627776, 1099511627776] is too large (at byte 63)",
        ),
        (
            changed(&[(TYPE + 4, &[16])]),
            "tensor `w`: offset is 16, but expected a multiple of the alignment, 32 (at byte 83)",
        ),
        (
            changed(&[(SECOND_DIM, &[33])]),
            "tensor `q.0`: innermost dim is 33, but expected a multiple of 32, as q4_0 stores blocks (at byte 106)",
        ),
        (
            changed(&[(SECOND_OFFSET, &[0])]),
            "tensor `q.0`: overlaps tensor `w`, which takes bytes 128 to 134 (at byte 118)",
        ),
        (
            changed(&[(SECOND_OFFSET, &u64s(!31))]),
            "tensor `q.0`: offset is 18446744073709551584, but expected a tensor that ends below 2^63 (at byte 118)",
        ),
        (
            changed(&[(SECOND_OFFSET, &[64])]),
            "tensor `q.0`: needs 18 more bytes, but the file has 0 left (at byte 192)",
        ),
    ] {
        messages.compare(expected, gguf::from_slice::<TensorMap>(&file), &format!("gguf: {expected}"));
        assert!(gguf::from_reader::<TensorMap>(&file[..]).is_err(), "{expected}");
    }
    assert_eq!(changed(&[])[SECOND], 3, "the second tensor begins with the length of its name");
}

#[test]
fn entries_and_names_may_not_repeat() {
    let mut twice = entry(0, &[1]);
    twice[ENTRIES] = 2;
    twice.extend(b"\x01\0\0\0\0\0\0\0k\0\0\0\0\x02");
    let error = message(gguf::from_slice::<TensorMap>(&twice));
    assert_eq!(error, "gguf: two entries of the metadata have the key `k` (at byte 38)");

    let map: TensorMap = ["a", "b"].into_iter().map(|name| (name, Tensor::from_slice(&[1_i8], [1]).unwrap())).collect();
    let mut file = gguf::to_vec(&map).unwrap();
    let at = file.iter().rposition(|byte| *byte == b'b').unwrap();
    file[at] = b'a';
    let error = message(gguf::from_slice::<TensorMap>(&file));
    assert_eq!(error, "gguf: two tensors are named `a` (at byte 82)");
}

#[test]
fn the_alignment_is_checked() {
    let align = |kind: u32, value: &[u8]| {
        let mut file = b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x11\0\0\0\0\0\0\0general.alignment".to_vec();
        file.extend(kind.to_le_bytes());
        file.extend(value);
        message(gguf::from_slice::<TensorMap>(&file))
    };
    assert_eq!(align(4, &[0; 4]), "gguf: alignment is 0, but expected a power of two (at byte 53)");
    assert_eq!(align(4, &[48, 0, 0, 0]), "gguf: alignment is 48, but expected a power of two (at byte 53)");
    let expected = "gguf: type of the alignment is 10, but expected 4, an integer (at byte 49)";
    assert_eq!(align(10, &[32, 0, 0, 0, 0, 0, 0, 0]), expected);
}

#[test]
fn strings_of_a_stream_are_limited() {
    let word = |len: usize| [&(len as u64).to_le_bytes()[..], &vec![b'x'; len]].concat();
    let file = entry(8, &word(5000));
    let limits = || Limits::new().shared(1000);
    assert!(gguf::Options::new().limits(limits()).from_slice::<TensorMap>(&file).is_ok());
    let error = message(gguf::Options::new().limits(limits()).from_reader::<TensorMap>(&file[..]));
    assert_eq!(error, "gguf: strings of the header in bytes is 5001, but the limit is 1000 (at byte 45)");
}

#[test]
fn texts_of_arrays_are_limited() {
    // Each byte is a text of seven.
    let file = entry(9, &array(7, 5000, &[0; 5000]));
    let limits = || Limits::new().shared(1000);
    let error = message(OpenOptions::new().limits(limits()).from_bytes(file.clone()).and_then(|file| file.metadata()));
    assert_eq!(error, "gguf: strings of the header in bytes is 6026, but the limit is 6025 (at byte 1254)");
    assert!(
        message(gguf::Options::new().limits(limits()).from_reader::<TensorMap>(&file[..])).contains("but the limit")
    );
    // An index does not keep the items of other arrays.
    let numbers = entry(9, &array(0, 5000, &[200; 5000]));
    let options = gguf::Options::new().limits(Limits::new().shared(0));
    assert_eq!(options.from_slice::<TensorMap>(&numbers).unwrap(), TensorMap::new());
}

#[test]
fn whole_arrays_reach_other_formats_and_come_back() {
    let file = open(case("gguf-array-metadata/tokens40.gguf"));
    let metadata = file.metadata().unwrap();
    let tokens: Vec<String> = (0..40).map(|at| format!("\"t{at}\"")).collect();
    let tokens = format!("[{}]", tokens.join(", "));
    assert_eq!(metadata.entries["tokenizer.ggml.tokens"], tokens);
    let options = WriteOptions::new().keep_metadata(&metadata);
    // Between two files, arrays keep their types.
    let again = gguf::FORMAT.to_vec(&file, &options).unwrap();
    assert_eq!(open(again).metadata().unwrap(), metadata);
    #[cfg(feature = "safetensors")]
    {
        let other = tensorfile::safetensors::FORMAT.to_vec(&file, &options).unwrap();
        assert_eq!(tensorfile::safetensors::metadata(&other).unwrap()["tokenizer.ggml.tokens"], tokens);
    }
}

#[test]
fn long_names_are_written_on_request() {
    let file = open(case("gguf-long-name/name77.gguf"));
    let name = file.nth(0).unwrap().name().to_owned();
    assert_eq!(name.len(), 77);
    assert!(message(gguf::FORMAT.to_vec(&file, &WriteOptions::new())).ends_with("or allow long names, of up to 127"));
    let long = gguf::FORMAT.to_vec(&file, &WriteOptions::new().long_names(true)).unwrap();
    assert_eq!(open(long).tensor(&name).unwrap(), file.tensor(&name).unwrap());
    let longer: TensorMap = [("n".repeat(128), Tensor::from_slice(&[1_i8], [1]).unwrap())].into_iter().collect();
    assert_eq!(
        message(gguf::Options::new().long_names(true).to_vec(&longer)),
        format!(
            "gguf: tensor `{}`: cannot store a name of 128 bytes; gguf stores up to 127; rename the tensor",
            "n".repeat(128)
        )
    );
}

#[test]
fn a_part_says_that_it_is_one_and_copies_do_not() {
    let file = open(case("gguf-split/m-00001-of-00002.gguf"));
    let metadata = file.metadata().unwrap();
    let expected = "the file is part 1 of 2 of a model in several files; it has 1 of 2 tensors";
    assert_eq!(crate::support::warnings(&metadata), [expected]);
    assert_eq!(metadata.warnings[0].kind, WarningKind::Part);
    assert!(metadata.entries.keys().all(|key| !key.starts_with("split.")), "{:?}", metadata.entries);
    // Entries about the file itself are returned on request.
    assert_eq!(gguf::metadata(&case("gguf-split/m-00002-of-00002.gguf")).unwrap()["split.no"], "1");
    let copy = gguf::FORMAT.to_vec(&file, &WriteOptions::new().keep_metadata(&metadata)).unwrap();
    assert!(gguf::metadata(&copy).unwrap().keys().all(|key| !key.starts_with("split.")));
    // One file of one is whole, and impossible numbers do not make a part.
    for (count, text) in [("1", "1"), ("2", "x")] {
        let options = gguf::Options::new().metadata("split.no", "0").metadata("split.count", count);
        let file = options.metadata("split.tensors.count", text).to_vec(&TensorMap::new()).unwrap();
        assert_eq!(open(file).metadata().unwrap().warnings.is_empty(), count == "1");
    }
}

#[cfg(feature = "npy")]
#[test]
fn reads_big_endian_files_of_llama_cpp() {
    let (little, big) = (open(fixture("little_endian.gguf")), open(fixture("big_endian.gguf")));
    assert_eq!(big.metadata().unwrap().version.as_deref(), Some("3, big-endian"));
    assert_eq!(big.metadata().unwrap().entries, little.metadata().unwrap().entries);
    for tensor in little.tensors() {
        let other = big.get(tensor.name()).unwrap();
        match tensor.dtype().block_elements() {
            1 => assert_eq!(other.read().unwrap(), tensor.read().unwrap(), "{}", tensor.name()),
            _ => assert_eq!(other.info().to_string(), "q8_0, big-endian[2, 32] of unknown dtype"),
        }
    }
    // Written again, it is the little-endian file, but for what cannot be read.
    let readable = tensorfile::view::Subset::new(&big, |name| name != "q");
    let options = WriteOptions::new().keep_metadata(&big.metadata().unwrap());
    let expected = tensorfile::view::Subset::new(&little, |name| name != "q");
    assert_eq!(gguf::FORMAT.to_vec(&readable, &options).unwrap(), gguf::FORMAT.to_vec(&expected, &options).unwrap());
    assert!(message(gguf::FORMAT.to_vec(&big, &options)).contains("leave the tensor out"));
    let edit = tensorfile::file::MetadataEdit::new().set("general.name", "x");
    assert!(message(edit.to_writer(&big, &mut Vec::new())).contains("convert it to a new file first"));
    // A stream is read as a file is.
    let bytes = fixture("big_endian.gguf");
    let streamed: IndexMap<String, Tensor> = {
        let mut all = IndexMap::new();
        OpenOptions::new().read_in_order(&bytes[..], &mut Collect(&mut all)).unwrap();
        all
    };
    assert_eq!(streamed["f32"], little.tensor("f32").unwrap());
}

#[cfg(feature = "npy")]
struct Collect<'a>(&'a mut IndexMap<String, Tensor>);

#[cfg(feature = "npy")]
impl tensorfile::model::TensorSink for Collect<'_> {
    fn tensor(&mut self, tensor: &tensorfile::model::TensorRecord<'_>) -> tensorfile::Result<()> {
        if tensor.info.unknown_dtype().is_none() {
            let mut bytes = Vec::new();
            tensor.data.write_to(&mut bytes)?;
            self.0.insert(tensor.name.to_owned(), Tensor::new(tensor.info.clone(), &bytes)?);
        }
        Ok(())
    }
}

/// `first.weight` is stored as [6, 16], and `second.weight` as it is.
#[test]
fn tensors_have_the_shapes_of_the_model() {
    let bytes = std::fs::read(root().join("tests/fixtures/cases/gguf-orig-shape/comfy.gguf")).unwrap();
    let file = File::from_bytes(bytes.clone()).unwrap();
    let numbers: Vec<f32> = (0..96_u8).map(f32::from).collect();
    assert_eq!(file.tensor("first.weight").unwrap(), Tensor::from_slice(&numbers, [24, 4]).unwrap());
    assert_eq!(file.get("second.weight").unwrap().info().to_string(), "f16[2, 2]");
    assert!(file.warnings().unwrap().is_empty());
    let key = "comfy.gguf.orig_shape.first.weight";
    let copy = gguf::FORMAT.to_vec(&file, &WriteOptions::new().metadata(file.metadata().unwrap().entries)).unwrap();
    let copy = File::from_bytes(copy).unwrap();
    assert_eq!(copy.get("first.weight").unwrap().info().to_string(), "f32[24, 4]");
    assert_eq!(copy.metadata().unwrap().entries[key], "[24, 4]");

    // Another number of elements, and a negative one.
    let at = bytes.windows(key.len()).position(|bytes| bytes == key.as_bytes()).unwrap() + key.len() + 16;
    assert_eq!(bytes[at..at + 4], 24_u32.to_le_bytes());
    for (dim, text) in [(25_i32, "[25, 4]"), (-24, "[-24, 4]")] {
        let mut bytes = bytes.clone();
        bytes[at..at + 4].copy_from_slice(&dim.to_le_bytes());
        let file = File::from_bytes(bytes).unwrap();
        assert_eq!(file.get("first.weight").unwrap().info().to_string(), "f32[6, 16]");
        let warnings = file.warnings().unwrap();
        let expected = format!(
            "`first.weight` is stored as f32[6, 16], but the metadata says that the shape of the model is {text}"
        );
        assert_eq!((warnings.len(), warnings[0].kind, &*warnings[0].text), (1, WarningKind::Metadata, &*expected));
    }
}
