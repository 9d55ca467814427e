use std::collections::BTreeMap;

use ndarray::array;
use tensorfile::file::Backend;
use tensorfile::model::TensorData;
use tensorfile::report::WarningKind;
use tensorfile::{Arrays, Layout, Limits, OpenOptions, Tensor, TensorInfo, TensorMap, TensorView, WriteOptions, npz};

use crate::support::{Dribble, Messages, hex, message, skipped};

/// An archive of the array `a`, `[1, 2]` in `u1`, and the member `b`, the byte 3.
///
/// The checksums are `5f650262` of the array and `4b0bbe37` of the byte.
const GOLDEN: &str = "
    50 4b 03 04             |   0 a local header
    14 00 08 00 00 00       |     version 2.0, sizes behind the contents, stored
    00 00 00 00             |     no date
    00 00 00 00             |     no checksum here
    00 00 00 00 00 00 00 00 |     nor sizes
    05 00 1d 00             |     name of 5 bytes, 29 of extra fields
    61 2e 6e 70 79          |  30 a.npy
    1e a1 19 00             |  35 alignment: 25 bytes
    40 00                   |     64
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    93 4e 55 4d 50 59 01 00 |  64 an array of numpy
    76 00                   |     dict of 118 bytes
";

fn golden() -> Vec<u8> {
    let mut file = hex(GOLDEN);
    file.extend(b"{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }");
    file.resize(64 + 127, b' ');
    file.extend(b"\n\x01\x02");
    file.extend(hex("
        50 4b 07 08 CRC_A       | 194 a data descriptor
        82 00 00 00 82 00 00 00 |     130 bytes, stored in as many
        50 4b 03 04 14 00 08 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
        01 00 0f 00             |     name of 1 byte, 15 of extra fields
        62                      |     b
        1e a1 0b 00 40 00 00 00 00 00 00 00 00 00 00
        03                      | 256 the byte
        50 4b 07 08 CRC_B 01 00 00 00 01 00 00 00
        50 4b 01 02             | 273 the directory
        14 03 14 00 08 00 00 00 |     version 2.0 of Unix, sizes behind the contents, stored
        00 00 00 00 CRC_A       |     no date
        82 00 00 00 82 00 00 00 |     130 bytes, stored in as many
        05 00 00 00 00 00       |     name of 5 bytes, no extra fields, no comment
        00 00 00 00 00 00 a4 81 |     disk 0, attributes: a file with permissions 644
        00 00 00 00             |     local header at 0
        61 2e 6e 70 79          |     a.npy
        50 4b 01 02 14 03 14 00 08 00 00 00 00 00 00 00 CRC_B
        01 00 00 00 01 00 00 00 01 00 00 00 00 00 00 00 00 00 00 00 a4 81
        d2 00 00 00             |     local header at 210
        62                      |     b
        50 4b 05 06 00 00 00 00 | 371 the end: one disk
        02 00 02 00             |     two members
        62 00 00 00 11 01 00 00 |     directory of 98 bytes, at 273
        00 00                   |     no comment
    "
    .replace("CRC_A", "62 02 65 5f")
    .replace("CRC_B", "37 be 0b 4b")
    .as_str()));
    file
}

fn golden_map() -> TensorMap {
    let blob = Tensor::new(TensorInfo::blob(1), &[3]).unwrap();
    [("a", Tensor::from_slice(&[1_u8, 2], [2]).unwrap()), ("b", blob)].into_iter().collect()
}

#[test]
fn the_golden_file_is_read_and_written_byte_for_byte() {
    assert_eq!(npz::to_vec(&golden_map()).unwrap(), golden());
    assert_eq!(npz::from_slice::<TensorMap>(&golden()).unwrap(), golden_map());
    assert_eq!(npz::from_reader::<TensorMap>(Dribble::new(&golden())).unwrap(), golden_map());
}

/// The golden file with other bytes in some places.
fn changed(changes: &[(usize, &[u8])]) -> Vec<u8> {
    let mut file = golden();
    for (at, bytes) in changes {
        file[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    file
}

fn numbers() -> Vec<u32> {
    (0..50_000).map(|at| at % 1000).collect()
}

fn deflated() -> (TensorMap, Vec<u8>) {
    let map: TensorMap = [
        ("layers/0/größe", Tensor::from_slice(&numbers(), [50, 1000]).unwrap()),
        ("empty", Tensor::from_slice::<f32>(&[], [0, 3]).unwrap()),
        ("one", Tensor::from_slice(&[1.5_f64], []).unwrap()),
        ("notes.txt", Tensor::new(TensorInfo::blob(5), b"hello").unwrap()),
        ("folder/", Tensor::new(TensorInfo::blob(0), b"").unwrap()),
    ]
    .into_iter()
    .collect();
    let file = npz::Options::new().compress(true).to_vec(&map).unwrap();
    (map, file)
}

#[test]
fn deflated_members_are_read_in_any_order_and_by_any_way() {
    let (map, file) = deflated();
    assert!(file.len() < 20_000, "{} bytes", file.len());
    assert_eq!(npz::from_slice::<TensorMap>(&file).unwrap(), map);
    assert_eq!(npz::from_reader::<TensorMap>(Dribble::new(&file)).unwrap(), map);
    let read: BTreeMap<String, Tensor> = npz::from_slice(&file).unwrap();
    assert!(read.iter().all(|(name, tensor)| map[name] == *tensor));
    let mut written = Vec::new();
    npz::Options::new().compress(true).to_writer(&mut written, &map).unwrap();
    assert_eq!(written, file);
}

#[test]
fn stored_members_are_borrowed_and_aligned() {
    let tensors: TensorMap =
        (1..40).map(|len| ("n".repeat(len), Tensor::from_slice(&vec![1.0_f64; len], [len]).unwrap())).collect();
    let file = npz::to_vec(&tensors).unwrap();
    assert_eq!(file.len() as u64, npz::Options::new().plan(&tensors).unwrap().file_bytes());
    let views: BTreeMap<String, TensorView<'_>> = npz::from_slice(&file).unwrap();
    for (name, view) in &views {
        let offset = view.as_bytes().as_ptr() as usize - file.as_ptr() as usize;
        assert_eq!((offset % 64, view.as_bytes()), (0, tensors[name].as_bytes()), "{name}");
    }
    // A compressed tensor cannot be borrowed.
    assert!(npz::from_slice::<BTreeMap<String, TensorView<'_>>>(&deflated().1).is_err());
}

#[test]
fn damaged_deflate_streams_are_errors_that_name_the_tensor() {
    let map: TensorMap = [("x", Tensor::from_slice(&numbers(), [50_000]).unwrap())].into_iter().collect();
    let file = npz::Options::new().compress(true).to_vec(&map).unwrap();
    let directory = file.len() - 22 - 46 - 5;
    let at = |offset: usize, bytes: &[u8]| {
        let mut file = file.clone();
        file[directory + offset..directory + offset + bytes.len()].copy_from_slice(bytes);
        file
    };
    let packed = u32::from_le_bytes(file[directory + 20..directory + 24].try_into().unwrap());
    let mut messages = Messages::default();
    messages.compare(
        "a checksum",
        npz::from_slice::<TensorMap>(&at(16, &[0; 4])),
        &format!(
            "npz: tensor `x`: the CRC-32 is {:08x}, but the file has 00000000 (at byte 64)",
            u32::from_le_bytes(file[directory + 16..directory + 20].try_into().unwrap())
        ),
    );
    messages.compare(
        "a length",
        npz::from_slice::<TensorMap>(&at(24, &[0, 0, 1, 0])),
        "npz: tensor `x`: payload is 65408 bytes, but u32[50000] takes 200000 (at byte 64)",
    );
    messages.compare(
        "a packed length that is too short",
        npz::from_slice::<TensorMap>(&at(20, &(packed - 100).to_le_bytes())),
        "npz: tensor `x`: the member ends before its tensor does (at byte 64)",
    );
    messages.compare(
        "a packed length that is too long",
        npz::from_slice::<TensorMap>(&at(20, &(packed + 4).to_le_bytes())),
        &format!(
            "npz: tensor `x`: the deflate stream takes {packed} bytes, but the file has {} (at byte 64)",
            packed + 4
        ),
    );
    messages.end();
}

#[test]
fn every_bit_of_packed_members_may_be_flipped() {
    let map: TensorMap = [
        ("x", Tensor::from_slice(&[1_u32, 2, 3, 4], [4]).unwrap()),
        ("y", Tensor::new(TensorInfo::blob(3), b"abc").unwrap()),
    ]
    .into_iter()
    .collect();
    let file = npz::Options::new().compress(true).to_vec(&map).unwrap();
    let mut flipped = file.clone();
    for at in 0..file.len() {
        assert!(npz::from_slice::<TensorMap>(&file[..at]).is_err(), "cut at {at}");
        for bit in 0..8 {
            flipped[at] ^= 1 << bit;
            let (slice, stream) = (npz::from_slice::<TensorMap>(&flipped), npz::from_reader::<TensorMap>(&flipped[..]));
            match (slice, stream) {
                (Ok(slice), Ok(stream)) => assert_eq!(slice, stream),
                (Err(slice), Err(stream)) => assert_eq!(slice.to_string(), stream.to_string()),
                other => panic!("bit {bit} of byte {at}: {other:?}"),
            }
            flipped[at] = file[at];
        }
    }
}

#[test]
fn rejects_unsupported_archives() {
    let mut messages = Messages::default();
    let mut compare = |what: &str, file: &[u8], expected: &str| {
        messages.compare(what, npz::from_slice::<TensorMap>(file), expected);
        messages.compare(format!("{what}, from a stream"), npz::from_reader::<TensorMap>(file), expected);
    };
    let none = "npz: the zip archive is cut off: the file does not end with its directory";
    compare("nothing", &[], "npz: the file is empty (at byte 0)");
    compare("other bytes", b"\x01not an archive", &format!("{none} (at byte 15)"));
    compare("cut", &golden()[..392], "npz: the zip archive is damaged: it ends within a record (at byte 371)");
    compare(
        "no local header",
        &changed(&[(0, b"PK..")]),
        "npz: tensor `a`: the zip archive is damaged: a record begins with 2e2e4b50, but expected 04034b50 (at byte 0)",
    );
    compare(
        "another name",
        &changed(&[(30, b"b")]),
        "npz: tensor `a`: the member is named `b.npy` in its local header, but `a.npy` in the directory of the archive (at byte 0)",
    );
    compare(
        "another length of the name",
        &changed(&[(26, &[4])]),
        "npz: tensor `a`: the member is named `a.np` in its local header, but `a.npy` in the directory of the archive (at byte 0)",
    );
    compare(
        "encrypted in the directory",
        &changed(&[(281, &[9])]),
        "npz: tensor `a`: the member is not encrypted in its local header, but encrypted in the directory of the archive (at byte 0)",
    );
    compare(
        "another compression",
        &changed(&[(283, &[12])]),
        "npz: tensor `a`: the member has the compression method 0 in its local header, but 12 in the directory of the archive \
         (at byte 0)",
    );
    compare(
        "another size",
        &changed(&[(6, &[0]), (18, &[131]), (22, &[131])]),
        "npz: tensor `a`: the member has 131 compressed bytes in its local header, but 130 in the directory of the archive \
         (at byte 0)",
    );
    compare(
        "another checksum",
        &changed(&[(6, &[0]), (14, &[1])]),
        "npz: tensor `a`: the member has 1 as its CRC-32 in its local header, but 1600455266 in the directory of the archive \
         (at byte 0)",
    );
    compare(
        "sizes that differ",
        &changed(&[(297, &[131])]),
        "npz: tensor `a`: the member is stored in 130 bytes, but has 131 (at byte 64)",
    );
    compare(
        "a size that is not the array's",
        &changed(&[(293, &[131]), (297, &[131])]),
        "npz: tensor `a`: payload is 3 bytes, but u8[2] takes 2 (at byte 64)",
    );
    compare(
        "a size beyond the directory",
        &changed(&[(293, &[131, 1]), (297, &[131, 1])]),
        "npz: tensor `a`: needs 387 more bytes, but the file has 209 left (at byte 64)",
    );
    compare(
        "another number of members",
        &changed(&[(371 + 8, &[3, 0, 3])]),
        "npz: number of members is 3, but expected 2 (at byte 273)",
    );
    compare(
        "one place twice",
        &changed(&[(344, &[130]), (348, &[130]), (366, &[0])]),
        "npz: tensor `b`: the member is named `a` in its local header, but `b` in the directory of the archive (at byte 0)",
    );
    compare(
        "members within one another",
        &changed(&[(293, &[200]), (297, &[200]), (72, &[188])]),
        "npz: tensor `b`: overlaps tensor `a`, which takes bytes 64 to 264 (at byte 256)",
    );
    compare("no array", &changed(&[(65, b"n")]), "npz: a zip archive without arrays is not npz (at byte 273)");
    messages.end();
}

#[test]
fn checksums_of_stored_members_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.npz");
    for (name, at, start) in [("a", 193, 64), ("b", 256, 256)] {
        let bytes = changed(&[(at, &[golden()[at] ^ 1])]);
        let error = npz::from_slice::<TensorMap>(&bytes).unwrap_err().to_string();
        assert!(error.starts_with(&format!("npz: tensor `{name}`: the CRC-32 is ")), "{error}");
        let end = if name == "a" { "5f650262" } else { "4b0bbe37" };
        assert!(error.ends_with(&format!(", but the file has {end} (at byte {start})")), "{error}");
        assert_eq!(message(npz::from_reader::<TensorMap>(&bytes[..])), error);
        assert_eq!(message(npz::from_slice::<BTreeMap<String, Tensor>>(&bytes)), error);
        std::fs::write(&path, &bytes).unwrap();
        for backend in [Backend::Mapped, Backend::Positioned] {
            let file = OpenOptions::new().backend(backend).open(&path).unwrap();
            let tensor = file.get(name).unwrap();
            assert_eq!(message(tensor.read()), error);
            assert_eq!(message(tensor.load::<Tensor>()), error);
            assert_eq!(message(tensor.write_to(&mut std::io::sink()).map_err(Into::into)), error);
            assert_eq!(message(npz::FORMAT.to_vec(&file, &WriteOptions::new())), error);
            // Nothing but the index is read for a view.
            assert_eq!(tensor.view().is_ok(), backend == Backend::Mapped);
        }
    }
    // Big-endian elements are swapped after the checksum is compared.
    let big_endian = |byte| {
        let numbers = [("n", Tensor::from_slice(&[byte], [1]).unwrap())].into_iter().collect::<TensorMap>();
        let mut file = npz::to_vec(&numbers).unwrap();
        let descr = file.windows(5).position(|text| text == b"'<u2'").unwrap();
        file[descr + 1] = b'>';
        file
    };
    let (file, one) = (big_endian(1_u16), 194);
    // The error tells the checksum of the changed header.
    let error = message(npz::from_slice::<TensorMap>(&file));
    let found = error.strip_prefix("npz: tensor `n`: the CRC-32 is ").unwrap();
    let crc = u32::from_str_radix(&found[..8], 16).unwrap();
    let directory = file.len() - 22 - 46 - 5;
    let mut file = file;
    file[directory + 16..directory + 20].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(npz::from_slice::<TensorMap>(&file).unwrap()["n"], Tensor::from_slice(&[256_u16], [1]).unwrap());
    file[one - 1] ^= 1;
    let error = message(npz::from_slice::<TensorMap>(&file));
    assert!(error.starts_with("npz: tensor `n`: the CRC-32 is "), "{error}");
    assert_eq!(message(npz::from_reader::<TensorMap>(&file[..])), error);
}

#[test]
fn other_zip_archives_are_not_npz() {
    let mut messages = Messages::default();
    for (name, ending, looks_like) in [
        ("notes", b".txt", ""),
        (
            "archive/data",
            b".pkl",
            "; it looks like a checkpoint of PyTorch, which the feature `pytorch` reads: it has `data.pkl`",
        ),
        (
            "code/constants",
            b".pkl",
            "; it looks like a TorchScript archive, a program with its weights: it has `constants.pkl`",
        ),
        ("m/archive_fo", b"rmat", "; it looks like a program that `torch.export` saved: it has `archive_format`"),
        ("model.weight", b"s.h5", "; it looks like a model of Keras: it has `model.weights.h5`"),
        ("MAR-INF/MANIFEST.", b"json", "; it looks like a model archive of TorchServe: it has `MAR-INF/MANIFEST.json`"),
        ("x/.zg", b"roup", "; it looks like a zarr store: it has `.zgroup`"),
        ("x-1.dist-info/RE", b"CORD", "; it looks like a Python wheel: it has `.dist-info/RECORD`"),
        ("[Content_Types]", b".xml", "; it looks like an Office document: it has `[Content_Types].xml`"),
        ("AndroidManifest", b".xml", "; it looks like an Android app: it has `AndroidManifest.xml`"),
        ("META-INF/MANIFES", b"T.MF", "; it looks like a Java archive: it has `META-INF/MANIFEST.MF`"),
        ("mime", b"type", "; it looks like an OpenDocument or EPUB file: it has `mimetype`"),
        ("not-a-mime", b"type", ""),
    ] {
        let map: TensorMap = [(name, Tensor::from_slice(&[1_u8], [1]).unwrap())].into_iter().collect();
        let mut file = npz::to_vec(&map).unwrap();
        while let Some(at) = file.windows(4).position(|text| text == b".npy") {
            file[at..at + 4].copy_from_slice(ending);
        }
        // Its first bytes make it an array, under any name.
        let magic = file.windows(6).position(|text| text == b"\x93NUMPY").unwrap();
        file[magic] = b'n';
        let directory = file.len() - 22 - 46 - name.len() - 4;
        let expected = format!("npz: a zip archive without arrays is not npz{looks_like} (at byte {directory})");
        messages.compare(name, npz::from_slice::<TensorMap>(&file), &expected);
        messages.compare(name, OpenOptions::new().format(&npz::FORMAT).from_bytes(file), &expected);
    }
    messages.end();
    let none = npz::to_vec(&TensorMap::new()).unwrap();
    assert_eq!(npz::from_slice::<TensorMap>(&none).unwrap(), TensorMap::new());
    let blob: TensorMap = [("b", Tensor::new(TensorInfo::blob(1), &[3]).unwrap())].into_iter().collect();
    let expected = "npz: cannot store blobs alone; npz has at least one array, or it is taken for another archive";
    assert_eq!(message(npz::to_vec(&blob)), expected);
}

/// Returns an array and files of these paths.
fn program<'a>(paths: impl Iterator<Item = &'a str>) -> TensorMap {
    let array = ("scipy/stats/data/studentized", Tensor::from_slice(&[1_u8], [1]).unwrap());
    let file = Tensor::new(TensorInfo::blob(3), b"...").unwrap();
    [array].into_iter().chain(paths.map(|path| (path, file.clone()))).collect()
}

/// Writes an archive of them. The paths are put in last, because archives with some of them are refused.
fn program_file(paths: &[&str]) -> Vec<u8> {
    let reversed: Vec<String> = paths.iter().map(|path| path.chars().rev().collect()).collect();
    let mut file = npz::to_vec(&program(reversed.iter().map(String::as_str))).unwrap();
    for (path, reversed) in paths.iter().zip(&reversed) {
        let mut places = 0;
        while let Some(at) = file.windows(path.len()).position(|text| text == reversed.as_bytes()) {
            file[at..at + path.len()].copy_from_slice(path.as_bytes());
            places += 1;
        }
        assert_eq!(places, 2, "{path}");
    }
    file
}

#[test]
fn programs_with_arrays_are_not_npz() {
    const WHEEL: &[&str] = &[
        "scipy/__init__.py",
        "scipy/stats/constants.pkl",
        "scipy-1.16.0.dist-info/METADATA",
        "scipy-1.16.0.dist-info/WHEEL",
        "scipy-1.16.0.dist-info/RECORD",
    ];
    let mut messages = Messages::default();
    for (paths, looks_like) in [
        (WHEEL, "a Python wheel: it has `.dist-info/RECORD`"),
        (&["META-INF/MANIFEST.MF", "org/Main.class"], "a Java archive: it has `META-INF/MANIFEST.MF`"),
        (
            &["classes.dex", "AndroidManifest.xml", "META-INF/MANIFEST.MF"],
            "an Android app: it has `AndroidManifest.xml`",
        ),
        (&["MAR-INF/MANIFEST.json"], "a model archive of TorchServe: it has `MAR-INF/MANIFEST.json`"),
        (
            &["m/data.pkl", "m/code/__torch__.py"],
            "a TorchScript archive, a program with its weights: it has `code/__torch__`",
        ),
        (
            &["m/code/__torch__/torchvision/resnet.py"],
            "a TorchScript archive, a program with its weights: it has `code/__torch__`",
        ),
        // Folders that were packed may have such files anywhere.
        (&WHEEL[..4], ""),
        (&["python/scipy-1.16.0.dist-info/RECORD", "x/META-INF/MANIFEST.MF", "x/AndroidManifest.xml"], ""),
        (&["runs/constants.pkl", "data.pkl", "mimetype", "model.weights.h5", "code/__torch__.py"], ""),
        (&["m/code/__torch__s.py", "MANIFEST.MF", "dist-info/RECORD"], ""),
    ] {
        let (map, file) = (program(paths.iter().copied()), program_file(paths));
        let (written, what) = (npz::to_vec(&map), paths.join(", "));
        if looks_like.is_empty() {
            assert_eq!(written.unwrap(), file, "{what}");
            assert_eq!(npz::from_slice::<TensorMap>(&file).unwrap(), map, "{what}");
            continue;
        }
        let directory = file.windows(4).position(|text| text == b"PK\x01\x02").unwrap();
        let expected = format!("npz: this zip archive is not npz; it looks like {looks_like} (at byte {directory})");
        messages.compare(&what, npz::from_slice::<TensorMap>(&file), &expected);
        messages.compare(&what, OpenOptions::new().from_bytes(file), &expected);
        let kind = looks_like.split(':').next().unwrap();
        let error = message(written);
        let expected = format!(": cannot store a blob of this name; an archive that has it is taken for {kind}");
        assert!(error.ends_with(&expected), "{what}: {error}");
    }
    messages.end();
}

#[test]
fn damage_is_reported_after_the_last_record_that_can_be_read() {
    let map: TensorMap =
        ["a", "b", "c"].into_iter().map(|name| (name, Tensor::from_slice(&[1_u8], [1]).unwrap())).collect();
    let mut file = npz::to_vec(&map).unwrap();
    let records: Vec<usize> = (0..file.len()).filter(|at| file[*at..].starts_with(b"PK\x01\x02")).collect();
    assert_eq!(records.len(), 3);
    file[records[2] + 2..records[2] + 4].copy_from_slice(b"..");
    let expected = "npz: the zip archive is damaged: a record begins with 2e2e4b50, but expected 02014b50";
    assert_eq!(message(npz::from_slice::<TensorMap>(&file)), format!("{expected} (at byte {})", records[1]));
}

/// Returns an archive of vectors with one number, which are members of these names.
fn members(names: &[&str]) -> Vec<u8> {
    // As long as the names, and in the order of the archive.
    let placeholder = |at: usize, name: &str| format!("{}{}", char::from(b'0' + at as u8), "_".repeat(name.len() - 5));
    let map: TensorMap = (0..names.len())
        .map(|at| (placeholder(at, names[at]), Tensor::from_slice(&[at as u8], [1]).unwrap()))
        .collect();
    let mut file = npz::to_vec(&map).unwrap();
    for (at, name) in names.iter().enumerate() {
        let written = format!("{}.npy", placeholder(at, name));
        while let Some(place) = file.windows(written.len()).position(|text| text == written.as_bytes()) {
            file[place..place + written.len()].copy_from_slice(name.as_bytes());
        }
    }
    file
}

#[test]
fn the_last_member_of_a_name_is_read() {
    let file = members(&["a.npy", "b.npy", "a.npy", "c.npy", "a.npy"]);
    let number = |number: u8| Tensor::from_slice(&[number], [1]).unwrap();
    let expected: TensorMap = [("b", number(1)), ("c", number(3)), ("a", number(4))].into_iter().collect();
    assert_eq!(npz::from_slice::<TensorMap>(&file).unwrap(), expected);
    assert_eq!(npz::from_reader::<TensorMap>(&file[..]).unwrap(), expected);
    let file = OpenOptions::new().from_bytes(file).unwrap();
    let mut warnings = file.metadata().unwrap().warnings;
    warnings.retain(|warning| warning.kind == WarningKind::DuplicateName);
    assert_eq!(
        warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["several members are named `a.npy`; the last one is read, as numpy does"]
    );
    assert_eq!((warnings[0].kind, warnings[0].tensor.as_deref()), (WarningKind::DuplicateName, Some("a")));
    // numpy finds the first of these by its name, and the other by its name with the ending.
    let file = members(&["a.npy.npy", "a.npy", "other"]);
    let read = npz::from_slice::<TensorMap>(&file).unwrap();
    assert_eq!(read.names().collect::<Vec<_>>(), ["a.npy", "a", "other"]);
    let file = members(&["other.npy", "other"]);
    let expected: TensorMap = [("other.npy", number(0)), ("other", number(1))].into_iter().collect();
    assert_eq!(npz::from_slice::<TensorMap>(&file).unwrap(), expected);
}

fn case(name: &str) -> Vec<u8> {
    std::fs::read(crate::support::root().join("tests/fixtures/cases").join(name)).unwrap()
}

/// Returns the warnings about members that are left out.
fn left_out(file: &tensorfile::File) -> Vec<String> {
    let warnings = file.metadata().unwrap().warnings.into_iter();
    warnings.filter(|warning| warning.kind == WarningKind::LeftOut).map(|warning| warning.text).collect()
}

fn infos(file: &tensorfile::File) -> Vec<String> {
    file.tensors().map(|tensor| format!("{}: {}", tensor.name(), tensor.info())).collect()
}

#[test]
fn members_are_arrays_by_their_first_bytes() {
    let map: TensorMap = npz::from_slice(&case("npz-member-names/none-ends-in-npy.npz")).unwrap();
    assert_eq!(map["a"], Tensor::from_slice(&[0.0_f64, 1.0, 2.0], [3]).unwrap());
    assert_eq!(map["b"], Tensor::from_slice(&[0_i64, 1, 2, 3], [4]).unwrap());
    // A member called `.npy` that is not an array is a blob with its name.
    let mut file = members(&["a.npy", "b.npy"]);
    let magic = file.windows(6).rposition(|bytes| bytes == b"\x93NUMPY").unwrap();
    file[magic] = 0;
    let file = OpenOptions::new().from_bytes(file).unwrap();
    assert_eq!(infos(&file), ["a: u8[1]", "b.npy: a blob of 129 bytes"]);
    // A blob that begins like an array would be read as one.
    let array = npz::to_vec(&golden_map()).unwrap()[64..194].to_vec();
    let mut map = golden_map();
    map.insert("c", Tensor::new(TensorInfo::blob(array.len()), &array).unwrap());
    let expected = "npz: tensor `c`: cannot store a blob that begins as an array does; it would be read as one";
    assert_eq!(message(npz::to_vec(&map)), expected);
    assert_eq!(message(npz::Options::new().compress(true).to_vec(&map)), expected);
}

#[test]
fn a_member_that_cannot_be_read_costs_no_other() {
    let w = Tensor::from_slice(&[0.0_f64, 1.0, 2.0], [3]).unwrap();
    let file = OpenOptions::new().from_bytes(case("npz-one-bad-member/long-header.npz")).unwrap();
    assert_eq!(infos(&file), ["w: f64[3]", "table: array[] of unknown dtype"]);
    assert_eq!(file.tensor("w").unwrap(), w);
    assert!(file.array::<f32, ndarray::IxDyn>("table").is_err());
    let long = "the elements of `table` cannot be read: header length is 15606, but expected at most 10000";
    assert_eq!(left_out(&file), [long]);
    // It is not lost without a word.
    let error = message(npz::FORMAT.to_vec(&file, &WriteOptions::new()));
    assert_eq!(error, "npz: tensor `table`: cannot store array[] of unknown dtype; leave the tensor out");

    let file = OpenOptions::new().from_bytes(case("npz-one-bad-member/macos.npz")).unwrap();
    assert_eq!(infos(&file), ["a: f64[3]"]);
    assert_eq!(file.tensor("a").unwrap(), w);
    let macos = "`__MACOSX/._a.npy` is left out: macOS made it";
    assert_eq!(left_out(&file), [macos]);

    // Of the golden file, the directory and the local header of `b` say so.
    for (changes, tag) in [
        (&[(218, &[12][..]), (334, &[12])][..], "bzip2"),
        (&[(218, &[14]), (334, &[14])], "lzma"),
        (&[(218, &[77]), (334, &[77])], "method 77"),
        (&[(216, &[9]), (332, &[9])], "encrypted"),
    ] {
        let bytes = changed(changes);
        let file = OpenOptions::new().from_bytes(bytes.clone()).unwrap();
        assert_eq!(infos(&file), ["a: u8[2]".to_owned(), format!("b: {tag}[] of unknown dtype")]);
        assert_eq!(file.tensor("a").unwrap(), golden_map()["a"]);
        let how = if tag == "encrypted" { tag.to_owned() } else { format!("compressed with {tag}") };
        let warning = format!("the elements of `b` cannot be read: the member is {how}");
        assert_eq!(left_out(&file), [warning]);
        assert_eq!(npz::from_reader::<TensorMap>(&bytes[..]).unwrap()["a"], golden_map()["a"]);
        file.check_other_checksums().unwrap();
    }
    let error = message(npz::from_slice::<TensorMap>(&case("zip-local-name/a.npz")));
    let expected = "npz: tensor `a`: the member is named `b.npy` in its local header, but `a.npy` in the directory of the archive (at byte 0)";
    assert_eq!(error, expected);
}

#[test]
fn limits_apply_to_compressed_members() {
    let zeros: TensorMap = [("x", Tensor::from_slice(&[0_u8; 100_000], [100_000]).unwrap())].into_iter().collect();
    let file = npz::Options::new().compress(true).to_vec(&zeros).unwrap();
    let mut messages = Messages::default();
    messages.compare(
        "shared",
        npz::Options::new().limits(Limits::new().shared(1000)).from_slice::<TensorMap>(&file),
        &format!(
            "npz: tensor `x`: memory for tensors in bytes is 100000, but the limit is {}; `Limits::memory` raises it (at byte 64)",
            file.len() + 1000
        ),
    );
    messages.compare(
        "tensors",
        npz::Options::new().limits(Limits::new().tensors(1)).from_slice::<TensorMap>(&golden()),
        "npz: number of tensors is 2, but the limit is 1",
    );
    messages.end();
}

#[test]
fn refuses_unsupported_tensors() {
    let mut messages = Messages::default();
    let blob =
        |name: &str| -> TensorMap { [(name, Tensor::new(TensorInfo::blob(1), &[1]).unwrap())].into_iter().collect() };
    messages.compare(
        "a blob that looks like an array",
        npz::to_vec(&blob("a.npy")),
        "npz: tensor `a.npy`: cannot store a blob of this name; members of npz that end in .npy are those of arrays",
    );
    messages.compare(
        "NUL",
        npz::to_vec(&blob("a\0b")),
        "npz: tensor `a\\u{0}b`: cannot store a name with NUL in it; readers of zip archives end the name there",
    );
    messages.end();
}

#[test]
fn archives_of_many_members_and_of_large_ones_have_64_bits() {
    let blob = |at: u32| (at.to_string(), Tensor::new(TensorInfo::blob(0), &[]).unwrap());
    let mut many: TensorMap = (0..66_000).map(blob).collect();
    many.insert("array", Tensor::from_slice(&[1_u8], [1]).unwrap());
    let file = npz::to_vec(&many).unwrap();
    assert_eq!(file.len() as u64, npz::Options::new().plan(&many).unwrap().file_bytes());
    assert!(npz::from_slice::<TensorMap>(&file).unwrap() == many);

    const LARGE: usize = 5 << 30;
    let one = ndarray::arr0(0_u8);
    let plan = npz::Options::new().plan(&Arrays(one.broadcast(LARGE).unwrap())).unwrap();
    let member = 64 + 128 + LARGE as u64 + 24;
    let directory = 46 + 5 + 20;
    assert_eq!(plan.file_bytes(), member + directory + 56 + 20 + 22);
    let (most, message) =
        (1_usize << 49, "npz: tensor `0`: cannot store 562949953421312 bytes; npz stores tensors of up to 2^48");
    assert_eq!(npz::Options::new().plan(&Arrays(one.broadcast(most).unwrap())).unwrap_err().to_string(), message);
}

#[test]
fn names_that_are_too_long_are_refused() {
    let of = |len: usize| BTreeMap::from([("x".repeat(len), 1_u8)]);
    let error = npz::to_vec(&of(65_532)).unwrap_err().to_string();
    assert!(error.ends_with(": cannot store a name of 65532 bytes; npz stores names of up to 65531"), "{error}");
    let read: BTreeMap<String, u8> = npz::from_slice(&npz::to_vec(&of(65_531)).unwrap()).unwrap();
    assert_eq!(read, of(65_531));
}

#[test]
fn fortran_order_and_blobs_are_kept() {
    let columns = TensorInfo {
        layout: Layout::from_dim_order(&[1, 0]).unwrap(),
        ..TensorInfo::new(tensorfile::Dtype::U8, [2, 2])
    };
    let map: TensorMap = [("c", Tensor::new(columns, &[1, 2, 3, 4]).unwrap())].into_iter().collect();
    for compress in [false, true] {
        let file = npz::Options::new().keep_dim_order(true).compress(compress).to_vec(&map).unwrap();
        assert_eq!(npz::from_slice::<TensorMap>(&file).unwrap(), map);
        let file = npz::Options::new().compress(compress).to_vec(&map).unwrap();
        let read: Arrays<BTreeMap<String, ndarray::Array2<u8>>> = npz::from_slice(&file).unwrap();
        assert_eq!(read.0["c"], array![[1, 3], [2, 4]]);
    }
}

#[test]
fn archives_say_that_their_names_are_utf8() {
    let map: TensorMap = [("größe.重み", Tensor::from_slice(&[1_u8], [1]).unwrap())].into_iter().collect();
    let file = npz::to_vec(&map).unwrap();
    let record = file.windows(4).position(|bytes| bytes == b"PK\x01\x02").unwrap();
    assert_eq!(file[record + 5], 3, "made by Unix: Info-ZIP converts the names of other systems");
    assert_eq!(file[record + 9] & 8, 8, "bit 11 of the flags: names are UTF-8");

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("names.npz");
    std::fs::write(&path, &file).unwrap();
    let unzip = |option: &str| std::process::Command::new("unzip").arg(option).arg(&path).output();
    let Ok(tested) = unzip("-t") else {
        return skipped("there is no `unzip`; the package `unzip` of most systems installs it");
    };
    assert!(tested.status.success(), "{tested:?}");
}

/// The elements behind a slice are damaged, and are not looked at.
#[test]
fn a_slice_of_a_compressed_array_ends_with_its_last_byte() {
    let (map, mut file) = deflated();
    let range = OpenOptions::new().from_bytes(file.clone()).unwrap().get("layers/0/größe").unwrap().range();
    let end = usize::try_from(range.end).unwrap();
    file[end - 200..end].fill(0xff);
    let file = OpenOptions::new().from_bytes(file).unwrap();
    let tensor = file.get("layers/0/größe").unwrap();
    tensor.read().unwrap_err();
    let whole = map["layers/0/größe"].as_bytes();
    let size = whole.len() / 50_000;
    let slice = tensor.slice(&[1..3, 10..20]).unwrap();
    assert_eq!(*slice.shape(), [2, 10]);
    let expected = [1010..1020, 2010..2020].map(|run| &whole[run.start * size..run.end * size]).concat();
    assert_eq!(slice.as_bytes(), expected);
    assert!(tensor.slice(&[3..3, 0..1000]).unwrap().as_bytes().is_empty());
    tensor.slice(&[49..50, 999..1000]).unwrap_err();
}

/// numpy has two orders. An array in a third one costs itself the order, and the others keep theirs.
#[test]
fn arrays_in_other_dim_orders_are_row_major() {
    use tensorfile::Dtype;

    let of = |order: &[u8], shape: &[usize], bytes: &[u8]| {
        let layout = Layout::from_dim_order(order).unwrap();
        Tensor::new(TensorInfo { layout, ..TensorInfo::new(Dtype::U8, shape) }, bytes).unwrap()
    };
    let map: TensorMap =
        [("columns", of(&[1, 0], &[2, 2], &[1, 3, 2, 4])), ("turned", of(&[0, 2, 1], &[1, 2, 2], &[1, 3, 2, 4]))]
            .into_iter()
            .collect();
    let file = npz::Options::new().keep_dim_order(true).to_vec(&map).unwrap();
    let read: TensorMap = npz::from_slice(&file).unwrap();
    assert_eq!(read["columns"], map["columns"]);
    assert_eq!(read["turned"], Tensor::from_slice(&[1_u8, 2, 3, 4], [1, 2, 2]).unwrap());
}
