use super::*;
use tensorfile::{Category, File};

const MAX: [u8; 8] = [0xff; 8];

#[test]
fn rejects_wrong_headers() {
    let mut messages = Messages::default();
    for (what, file, expected) in [
        ("nothing", vec![], "ptd: needs 64 more bytes, but the file has 0 left (at byte 0)"),
        ("too short", hex(FT01)[..63].to_vec(), "ptd: needs 64 more bytes, but the file has 63 left (at byte 0)"),
        ("identifier", with(FT01, &[(4, b"FT02")]), "ptd: found `FT02`, but expected `FT01` (at byte 4)"),
        ("no header", with(FT01, &[(8, b"eh00")]), "ptd: found `eh00`, but expected `FH01` (at byte 8)"),
        ("header of FT01", with(DATA_V1, &[(8, b"FH01")]), "ptd: found `FH01`, but expected `eh00` (at byte 8)"),
        ("length", with(FT01, &[(12, &[39])]), "ptd: header length is 39, but expected at least 40 (at byte 12)"),
        ("length", with(DATA_V1, &[(12, &[23])]), "ptd: header length is 23, but expected at least 24 (at byte 12)"),
        (
            "length that takes more than its place",
            with(FT01, &[(12, &[49])]),
            "ptd: flatbuffer offset is 48, but expected at least 49, the length of the header (at byte 16)",
        ),
        (
            "flatbuffer offset",
            with(FT01, &[(16, &MAX)]),
            "ptd: flatbuffer offset is 18446744073709551615, but expected less than 2^64 with the size (at byte 16)",
        ),
        (
            "flatbuffer offset in the flatbuffer",
            with(FT01, &[(16, &[61])]),
            "ptd: root table offset is 68, but expected at least 69, where the header ends (at byte 0)",
        ),
        (
            "flatbuffer size",
            with(FT01, &[(24, &[7, 0])]),
            "ptd: flatbuffer size is 7, but expected 8 to 2147483647 (at byte 24)",
        ),
        (
            "flatbuffer size",
            with(FT01, &[(24, &MAX)]),
            "ptd: flatbuffer size is 18446744073709551615, but expected 8 to 2147483647 (at byte 24)",
        ),
        (
            "flatbuffer past the end",
            with(FT01, &[(24, &[0, 2])]),
            "ptd: needs 560 more bytes, but the file has 338 left (at byte 0)",
        ),
        (
            "flatbuffer size of DT01",
            with(DATA_V1, &[(16, &[39, 0])]),
            "ptd: flatbuffer size is 39, but expected 40 to 2147483647 (at byte 16)",
        ),
        (
            "segment base that overflows",
            with(FT01, &[(32, &MAX)]),
            "ptd: segment base offset is 18446744073709551615, but expected less than 2^64 with the 18 bytes of the segments (at byte 32)",
        ),
        (
            "segment base of DT01 that overflows",
            with(DATA_V1, &[(24, &MAX)]),
            "ptd: segment base offset is 18446744073709551615, but expected less than 2^64 with the 6 bytes of the segments (at byte 24)",
        ),
        (
            "what 0.6 and 0.7 write",
            with(FT01, &[(32, &[0x80, 1])]),
            "ptd: the segments begin at byte 384 and end at byte 402, but the file ends at byte 338; ExecuTorch 0.6 and 0.7 write such files for a \
             segment alignment of 128 (at byte 32)",
        ),
        (
            "more data than there is",
            with(DATA_V1, &[(32, &[7])]),
            "ptd: needs 7 more bytes, but the file has 6 left (at byte 288)",
        ),
        ("a cut file", hex(FT01)[..337].to_vec(), "ptd: needs 18 more bytes, but the file has 17 left (at byte 320)"),
        (
            "a file cut before its segments",
            with(FT01, &[(32, &[0x80, 1])])[..325].to_vec(),
            "ptd: needs 77 more bytes, but the file has 0 left (at byte 325)",
        ),
        (
            "segments in the flatbuffer",
            with(FT01, &[(32, &[0x3f, 1])]),
            "ptd: segment 0 begins at byte 319, but data begins at byte 320 at the earliest (at byte 148)",
        ),
    ] {
        messages.compare(what, ptd::from_slice::<TensorMap>(&file), expected);
    }
    messages.end();
}

#[test]
fn rejects_wrong_indexes() {
    let mut messages = Messages::default();
    for (what, file, expected) in [
        ("version", with(DATA_V1, &[(0x3c, &[3])]), "ptd: schema version is 3, but expected 1 or 2 (at byte 60)"),
        ("no version", with(DATA_V1, &[(0x30, &[0])]), "ptd: schema version is 0, but expected 1 or 2 (at byte 56)"),
        // The root's entry for the version points at the alignment.
        ("version", with(EARLY, &[(0x3c, &[4])]), "ptd: schema version is 16, but expected 0 (at byte 76)"),
        (
            "segment index",
            with(FT01, &[(0xec, &[2])]),
            "ptd: tensor `b`: segment index is 2, but expected at most 1 (at byte 236)",
        ),
        (
            "largest segment index",
            with(FT01, &[(0xec, &[0xff; 4])]),
            "ptd: tensor `b`: segment index is 4294967295, but expected at most 1 (at byte 236)",
        ),
        (
            "no segments",
            with(EARLY, &[(0x68, &[0])]),
            "ptd: tensor `w`: segment index is 0, but expected none, as the file has no segments (at byte 144)",
        ),
        (
            "segment past the end",
            with(FT01, &[(0x78, &[0x11])]),
            "ptd: segment 1 ends at byte 339, but the segments end at byte 338 (at byte 116)",
        ),
        (
            "segment past the end that others have",
            with(FT01, &[(40, &[0x11])]),
            "ptd: segment 1 ends at byte 338, but the segments end at byte 337 (at byte 116)",
        ),
        (
            "segment that overflows",
            with(FT01, &[(0x78, &MAX)]),
            "ptd: segment 1, 2 bytes at 18446744073709551615, ends beyond what can be addressed (at byte 116)",
        ),
        (
            "segments that overlap",
            with(FT01, &[(0x78, &[5])]),
            "ptd: tensor `b`: overlaps tensor `w`, which takes bytes 320 to 326 (at byte 325)",
        ),
        (
            "tensor that leaves its segment",
            with(EARLY, &[(0xc0, &[17])]),
            "ptd: tensor `x`: f64[] takes 8 bytes from byte 17 of segment 0, which has 24 (at byte 192)",
        ),
        (
            "offset that overflows",
            with(EARLY, &[(0xc0, &MAX)]),
            "ptd: tensor `x`: f64[] takes 8 bytes from byte 18446744073709551615 of segment 0, which has 24 (at byte 192)",
        ),
        (
            "tensors that overlap",
            with(EARLY, &[(0xc0, &[4])]),
            "ptd: tensor `x`: overlaps tensor `w`, which takes bytes 336 to 342 (at byte 340)",
        ),
        (
            "size of other bytes than the shape",
            with(DATA_V1, &[(0xf8, &[4])]),
            "ptd: tensor `w`: payload is 4 bytes, but i16[1, 3] takes 6 (at byte 248)",
        ),
        (
            "negative size",
            with(FT01, &[(0x13c, &[0xff; 4])]),
            "ptd: tensor `w`: dim is -1, but expected 0 or more (at byte 292)",
        ),
        (
            "no permutation",
            with(FT01, &[(0x130, &[1, 1])]),
            "ptd: tensor `w`: dim order [1, 1] is not a permutation of 0..2 (at byte 296)",
        ),
        (
            "dim order that is too short",
            with(FT01, &[(0x12c, &[1])]),
            "ptd: tensor `w`: dim order has 1 dims, but the tensor has rank 2 (at byte 296)",
        ),
        (
            "no dim order",
            with(FT01, &[(0x11a, &[0])]),
            "ptd: tensor `w`: dim order has 0 dims, but the tensor has rank 2 (at byte 284)",
        ),
        ("no key", with(FT01, &[(0xe0, &[0])]), "ptd: tensor `#1`: it has no name (at byte 228)"),
        ("two of a name", with(FT01, &[(0xb4, b"w")]), "ptd: two tensors are named `w` (at byte 168)"),
        ("two of a name", with(EARLY, &[(0x128, b"x")]), "ptd: two tensors are named `x` (at byte 268)"),
        ("two of a name", with(DATA_V1, &[(0xbc, b"w")]), "ptd: two tensors are named `w` (at byte 164)"),
        (
            "a key that is no text",
            with(FT01, &[(0x110, &[0xff])]),
            "ptd: the flatbuffer is broken: a string is not UTF-8 (at byte 272)",
        ),
        (
            "a key without an end",
            with(FT01, &[(0x111, &[1])]),
            "ptd: the flatbuffer is broken: a string does not end with a NUL (at byte 273)",
        ),
        (
            "root outside",
            with(FT01, &[(0, &[0, 2])]),
            "ptd: the flatbuffer is broken: a part lies outside of it (at byte 0)",
        ),
        (
            "names of more than there is",
            with(FT01, &[(0x50, &[0xff; 4])]),
            "ptd: the flatbuffer is broken: a part lies outside of it (at byte 84)",
        ),
        (
            "unaligned vector",
            with(FT01, &[(0x48, &[0x19])]),
            "ptd: the flatbuffer is broken: an offset is not aligned (at byte 97)",
        ),
    ] {
        messages.compare(what, ptd::from_slice::<TensorMap>(&file), expected);
        messages.compare(format!("{what}, from a stream"), ptd::from_reader::<TensorMap>(&file[..]), expected);
    }
    messages.end();
}

#[test]
fn tables_have_a_list_of_fields() {
    let mut messages = Messages::default();
    for (what, file, tables) in [
        ("FT01", FT01, &[0x3a, 0x6c, 0x8c, 0xdc, 0xf6, 0x112][..]),
        ("early FT01", EARLY, &[0x38, 0x7c, 0xcc, 0x100]),
        ("DT01 V1", DATA_V1, &[0x2c, 0x5c, 0x70, 0x8c, 0xd4]),
        ("DT01 V2", DATA_V2, &[0x2a, 0x58]),
    ] {
        for &at in tables {
            for length in [0, 2] {
                let file = with(file, &[(at, &[length])]);
                let error = message(ptd::from_slice::<TensorMap>(&file));
                let expected =
                    format!("length of a table's list of fields is {length}, but expected at least 4 (at byte {at})");
                assert!(error.ends_with(&expected), "{what}: {error}");
                messages.compare(what, ptd::from_reader::<TensorMap>(&file[..]), &error);
            }
        }
    }
    messages.end();
}

#[test]
fn remarks_on_what_readers_may_stumble_over() {
    let warnings =
        |file: Vec<u8>| crate::support::warnings(&OpenOptions::new().from_bytes(file).unwrap().metadata().unwrap());
    assert_eq!(warnings(hex(FT01)), [""; 0]);
    assert_eq!(
        warnings(with(FT01, &[(0x110, b"\0")])),
        [r"ExecuTorch's C++ cannot find `\u{0}`, a name with NUL in it"]
    );
    let longer = [hex(FT01), vec![0; 3]].concat();
    assert_eq!(warnings(longer), ["3 bytes at the end, from byte 338 on, belong to no tensor"]);
    // A list of fields that ends before the field of the tensors.
    let unlisted = with(FT01, &[(0x3a, &[4])]);
    let found = warnings(unlisted);
    assert!(found.iter().any(|warning| warning.ends_with("belong to no tensor")), "{found:?}");
}

#[test]
fn survives_cuts_and_flips_everywhere() {
    let files = golden().map(|(what, file, _)| (what, file)).into_iter().chain([("DT01 V2", hex(DATA_V2))]);
    for (what, file) in files {
        for len in 0..file.len() {
            let (slice, stream) = (&file[..len], &file[..len]);
            // The padding before segments that are not there is the only thing that may be missing.
            let read = ptd::from_slice::<TensorMap>(slice);
            assert!(read.is_err(), "{what} cut at {len}");
            assert!(ptd::from_reader::<TensorMap>(stream).is_err(), "{what} cut at {len}, from a stream");
        }
        let mut flipped = file.clone();
        for at in 0..file.len() {
            for change in [1, 2, 4, 8, 16, 32, 64, 128, 0xff] {
                flipped[at] ^= change;
                let slice = ptd::from_slice::<TensorMap>(&flipped);
                let stream = ptd::from_reader::<TensorMap>(&flipped[..]);
                assert_eq!(slice.is_ok(), stream.is_ok(), "{what}: byte {at}: {slice:?} or {stream:?}");
                if let (Ok(slice), Ok(stream)) = (slice, stream) {
                    assert_eq!(slice, stream, "{what}: byte {at}");
                }
                flipped[at] = file[at];
            }
        }
    }
}

#[test]
fn reads_headers_of_any_length() {
    let file = hex(FT01);
    // The C++ writer turns an alignment of 3 into 42, so the flatbuffer is not aligned in the file.
    for header in [40, 42, 48, 64, 128] {
        for length in [40, 41] {
            let number = |number: usize| (number as u64).to_le_bytes();
            let mut other = vec![u8::try_from(0x44 - 48 + header).unwrap(), 0, 0, 0];
            other.extend_from_slice(b"FT01FH01");
            other.extend([length, 0, 0, 0]);
            for field in [number(header), number(0x110), number(header + 0x110), number(0x12)] {
                other.extend(field);
            }
            other.resize(8 + header, 0);
            other.extend(&file[56..]);
            if usize::from(length) > header {
                let expected =
                    "ptd: flatbuffer offset is 40, but expected at least 41, the length of the header (at byte 16)";
                assert_eq!(message(ptd::from_slice::<TensorMap>(&other)), expected);
                continue;
            }
            assert_eq!(ptd::from_slice::<TensorMap>(&other).unwrap(), golden()[0].2, "header of {header}");
            assert_eq!(ptd::from_reader::<TensorMap>(&other[..]).unwrap(), golden()[0].2, "header of {header}");
        }
    }
    let short = with(DATA_V1, &[(12, &[24]), (32, &MAX)]);
    assert_eq!(ptd::from_slice::<TensorMap>(&short).unwrap(), golden()[2].2, "without segment_data_size");
    assert_eq!(ptd::from_reader::<TensorMap>(&short[..]).unwrap(), golden()[2].2, "without segment_data_size");
    let cut = &short[..short.len() - 1];
    let expected = "ptd: segment 0 ends at byte 294, but the segments end at byte 293 (at byte 100)";
    assert_eq!(message(ptd::from_slice::<TensorMap>(cut)), expected);
    let expected = "ptd: needs 1 more bytes, but the file has 0 left (at byte 293)";
    assert_eq!(message(ptd::from_reader::<TensorMap>(cut)), expected);
}

#[test]
fn a_flatbuffer_that_refers_to_itself_again_and_again_is_refused_at_once() {
    // A name of 1 MiB.
    let expected = "ptd: the flatbuffer is broken: its parts are referenced too often (at byte 48)";
    assert_eq!(message(ptd::from_slice::<TensorMap>(&flat(1 << 20, 100_000))), expected);
    assert_eq!(message(ptd::from_slice::<TensorMap>(&flat(3, 2))), "ptd: two tensors are named `nnn` (at byte 116)");
}

/// Returns a file whose entries are all the same table, with a name of `name` letters.
fn flat(name: u32, entries: u32) -> Vec<u8> {
    let entry = 0x68 + 4 * entries;
    let end = entry + 12 + name + 1;
    let mut file = hex("
        40 00 00 00 46 54 30 31 | 00 the root table at 40, FT01
        46 48 30 31 28 00 00 00 | 08 FH01, a header of 40
        28 00 00 00 00 00 00 00 | 10 without padding
    ");
    file.extend([end - 40, 0, end, 0, 0, 0].iter().flat_map(|number: &u32| number.to_le_bytes()));
    file.extend(hex("
        0a 00 0c 00 00 00 08 00 | 30 fields of the root: segments at 8,
        04 00 00 00 00 00 00 00 | 38 named data at 4; padding
        10 00 00 00 20 00 00 00 | 40 root, named data at 64
        0c 00 00 00             | 48 segments at 54
        06 00 08 00 04 00 00 00 | 4c fields of named data: key at 4
        01 00 00 00 08 00 00 00 | 54 one segment, at 60
        04 00 04 00 04 00 00 00 | 5c no fields; the segment
    "));
    file.extend(entries.to_le_bytes());
    file.extend((0..entries).flat_map(|at| (entry - 0x68 - 4 * at).to_le_bytes()));
    file.extend([entry - 0x4c, 4, name].iter().flat_map(|number| number.to_le_bytes()));
    file.extend(std::iter::repeat_n(b'n', name as usize));
    file.push(0);
    file
}

#[test]
fn a_segment_that_is_too_short_costs_its_tensor() {
    let whole = OpenOptions::new().from_bytes(hex(FT01)).unwrap();
    for (changes, shape, takes) in [
        // Four elements instead of three, more than there is memory, and more than can be addressed.
        (&[(0x13c, &[4][..])][..], "i16[1, 4]", "8"),
        (
            &[(0x138, &[0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff, 0x7f])],
            "i16[2147483647, 2147483647]",
            "9223372028264841218",
        ),
    ] {
        let file = OpenOptions::new().from_bytes(with(FT01, changes)).unwrap();
        assert_eq!(file.len(), whole.len());
        let warnings = file.metadata().unwrap().warnings;
        let text = format!("`w` cannot be read, as the file has 6 bytes of it, but {shape} takes {takes}");
        let found = warnings.iter().map(|warning| (warning.kind, warning.tensor.as_deref(), &*warning.text));
        assert_eq!(found.collect::<Vec<_>>(), [(WarningKind::Damaged, Some("w"), text.as_str())]);
        for tensor in file.tensors() {
            if tensor.name() != "w" {
                assert_eq!(tensor.read().unwrap(), whole.tensor(tensor.name()).unwrap());
                continue;
            }
            let info = tensor.info();
            assert!(info.is_damaged());
            assert_eq!((info.dtype, info.to_string()), (Dtype::I16, format!("{shape}, damaged")));
            // Its bytes are there, but nothing reads elements, and no format takes it.
            assert_eq!(tensor.payload_bytes(), 6);
            let error = tensor.load::<ndarray::ArrayD<i16>>().unwrap_err();
            assert_eq!(error.category(), Category::File);
            let expected = format!("ptd: tensor `w`: payload is 6 bytes, but {shape} takes {takes} (at byte");
            assert!(error.to_string().starts_with(&expected), "{error}");
            assert!(message(ptd::FORMAT.to_vec(&file, &WriteOptions::new())).contains("leave the tensor out"));
        }
    }
}

/// ExecuTorch's own writers and readers let it pass.
#[test]
fn a_segment_that_is_too_long_begins_with_the_elements() {
    let whole = OpenOptions::new().from_bytes(hex(FT01)).unwrap();
    let file = OpenOptions::new().from_bytes(with(FT01, &[(0x13c, &[2])])).unwrap();
    let (found, all) = (file.tensor("w").unwrap(), whole.tensor("w").unwrap());
    assert_eq!(found.info().to_string(), "i16[1, 2]");
    assert_eq!(found.as_bytes(), &all.as_bytes()[..4]);
    let warnings = file.warnings().unwrap();
    let found = warnings.iter().map(|warning| (warning.kind, warning.tensor.as_deref(), &*warning.text));
    let text = "the segment of `w` has 6 bytes, but i16[1, 2] takes the first 4; the last 2 belong to nothing";
    assert_eq!(found.collect::<Vec<_>>(), [(WarningKind::TrailingBytes, Some("w"), text)]);
    let copy = File::from_bytes(ptd::FORMAT.to_vec(&file, &WriteOptions::new()).unwrap()).unwrap();
    assert!(copy.warnings().unwrap().is_empty());
    assert_eq!(copy.tensor("w").unwrap().as_bytes(), &all.as_bytes()[..4]);
}
