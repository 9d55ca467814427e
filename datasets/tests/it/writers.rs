//! Archives as other programs write them, ends of archives, and members that are not read.

use std::fs;

use tensorfile::report::WarningKind;
use tensorfile::{Category, ErrorKind, Limits, OpenOptions, TensorMap};
use tensorfile_datasets::{OnError, Shard, Shards, TAR, is_shard, is_shard_at, unpack};

use crate::support::{ShardFile, archive, entry, file, gzip, held, keys, sum, zstd};

/// Returns a file as tar of Unix Version 7 wrote it: without `ustar`, and with the type 0.
fn v7(name: &str, data: &str) -> Vec<u8> {
    let mut file = file(name, data);
    file[257..345].fill(0);
    file[156] = 0;
    sum(&mut file);
    file
}

/// Returns a file whose checksum is a sum of signed bytes.
fn signed(name: &[u8], data: &str) -> Vec<u8> {
    let mut file = file("", data);
    file[..name.len()].copy_from_slice(name);
    file[148..156].fill(b' ');
    let sum: i32 = file[..512].iter().map(|byte| i32::from(byte.cast_signed())).sum();
    file[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    file
}

/// Returns the label of a volume, as `tar --label` makes it.
fn label(has_size: bool) -> Vec<u8> {
    let mut label = entry("LABEL", b'V', b"");
    if !has_size {
        label[100..136].fill(0);
        label[257..].fill(0);
        sum(&mut label);
    }
    label
}

#[test]
fn archives_of_other_programs_are_read() {
    let (one, two) = (file("1.txt", "one"), file("2.txt", "two"));
    for (name, tar) in [
        ("v7", archive(&[v7("1.txt", "one"), v7("2.txt", "two")])),
        ("v7 with a folder", archive(&[v7("folder/", ""), v7("1.txt", "one"), v7("2.txt", "two")])),
        ("a label", archive(&[label(true), one.clone(), two.clone()])),
        ("a label without a size", archive(&[label(false), one.clone(), two.clone()])),
        ("a folder with a list", archive(&[entry("folder/", b'D', b"Yname\0\0"), one.clone(), two.clone()])),
        ("signed checksums", archive(&[signed(b"1.txt", "one"), signed("2.\u{e9}.txt".as_bytes(), "two")])),
    ] {
        assert!(is_shard(&tar[..512]), "{name}");
        for bytes in [tar.clone(), gzip(&tar), zstd(&tar)] {
            let shard = ShardFile::new(&bytes);
            assert_eq!(keys(shard.open()), ["1", "2"], "{name}");
            assert_eq!(unpack(shard.location(), &shard.folder.path().join("out")).unwrap().files, 2, "{name}");
        }
        let shard = ShardFile::new(&tar);
        let opened = OpenOptions::new().format(&TAR).open(shard.location()).unwrap();
        assert_eq!((opened.metadata().unwrap().entries.len(), opened.metadata().unwrap().warnings.len()), (2, 0));
    }
    // A checksum is checked in either form.
    let mut wrong = signed("1.\u{e9}.txt".as_bytes(), "x");
    wrong[152] ^= 1;
    assert!(ShardFile::new(&archive(&[wrong])).error().contains("the checksum of the header is wrong"));
    assert!(is_shard_at("a.tar", &[0; 512]) && !is_shard_at("a.bin", &[0; 512]) && !is_shard_at("a.tar", &[0; 100]));
    let empty = ShardFile::new(&[0; 10240]);
    assert_eq!(keys(empty.open()), [""; 0]);
    assert_eq!(empty.open().warnings(), []);
}

#[test]
fn frames_and_padding_are_skipped() {
    let tar = archive(&[file("1.txt", "one"), file("2.txt", "two")]);
    let skipped = |first: u8, data: &[u8]| {
        let mut frame = vec![first, 0x2a, 0x4d, 0x18];
        frame.extend(u32::try_from(data.len()).unwrap().to_le_bytes());
        frame.extend(data);
        frame
    };
    // As `pzstd` writes it, and of other numbers.
    let parallel: Vec<u8> =
        tar.chunks(700).flat_map(|chunk| [skipped(0x50, &[1, 2, 3, 4]), zstd(chunk)].concat()).collect();
    for (name, bytes) in [
        ("a.tar.zst", parallel),
        ("a.tar.zst", [skipped(0x5f, b""), zstd(&tar), skipped(0x51, b"end")].concat()),
        ("a.tar.gz", [gzip(&tar), vec![0; 4096]].concat()),
        ("a.tar.gz", [gzip(&tar[..100]), gzip(&tar[100..]), vec![0; 1]].concat()),
    ] {
        assert!(is_shard_at(name, &bytes[..bytes.len().min(512)]), "{name}");
        let shard = ShardFile::named(name, &bytes);
        let mut samples = shard.open();
        assert_eq!(keys(samples.by_ref()), ["1", "2"], "{name}");
        assert_eq!(samples.warnings(), []);
    }
    let shard = ShardFile::named("a.gz", &[gzip(&tar), b"more".to_vec()].concat());
    let expected = format!("a.gz: gzip: other bytes follow the compressed ones (at byte {})", tar.len() - 1024);
    assert_eq!(shard.error(), expected);
}

#[test]
fn what_follows_the_end_is_a_warning() {
    let (one, two) = (archive(&[file("1.txt", "one")]), archive(&[file("2.txt", "two")]));
    let goes_on = "the archive ends at byte 1024, and bytes after that are left out; archives that `cat` joined are unpacked \
                   by `tar --ignore-zeros`";
    let cut = "the archive has no blocks of zeros at its end: it may be cut, so that samples are missing";
    let joined = [one.clone(), two.clone()].concat();
    for (bytes, expected) in [
        (joined.clone(), Some(goes_on)),
        ([one.clone(), b"garbage".repeat(100)].concat(), Some(goes_on)),
        ([one.clone(), vec![0; 100_000]].concat(), None),
        (one[..1024].to_vec(), Some(cut)),
        (one[..1536].to_vec(), None),
        (one.clone(), None),
    ] {
        for (name, bytes) in [("a.tar", bytes.clone()), ("a.tar.gz", gzip(&bytes)), ("a.tar.zst", zstd(&bytes))] {
            let shard = ShardFile::named(name, &bytes);
            let mut samples = shard.open();
            assert_eq!(keys(samples.by_ref()), ["1"], "{name}");
            let found: Vec<&str> = samples.warnings().iter().map(|warning| &*warning.text).collect();
            assert_eq!(found, Vec::from_iter(expected), "{name}");

            let opened = tensorfile_datasets::open(shard.location(), &OpenOptions::new(), &Limits::new()).unwrap();
            let warnings = opened.metadata().unwrap().warnings;
            assert_eq!(warnings.iter().map(|warning| &*warning.text).collect::<Vec<_>>(), found, "{name}");
            assert!(warnings.iter().all(|warning| warning.kind == WarningKind::LeftOut));
            let unpacked = unpack(shard.location(), &shard.folder.path().join("out")).unwrap();
            assert_eq!(unpacked.warnings.len(), found.len(), "{name}");

            let mut shards = Shards::from_locations([shard.location(), shard.location()]);
            assert_eq!(keys(shards.by_ref()), ["1", "1"]);
            let texts: Vec<String> = shards.warnings().iter().map(ToString::to_string).collect();
            let expected: Vec<String> = found.iter().map(|text| format!("{}: {text}", shard.location())).collect();
            assert_eq!(texts, [expected.clone(), expected.clone()].concat(), "{name}");
            let strict = Shards::from_locations([shard.location()]).on_error(OnError::Strict);
            let errors: Vec<String> = strict.filter_map(Result::err).map(|error| error.to_string()).collect();
            assert_eq!(errors, expected, "{name}");
        }
    }
    // Members of gzip and frames of zstd that are archives of their own.
    for bytes in [[gzip(&one), gzip(&two)].concat(), [zstd(&one), zstd(&two)].concat()] {
        let shard = ShardFile::new(&bytes);
        let mut samples = shard.open();
        assert_eq!((keys(samples.by_ref()), samples.warnings().len()), (vec!["1".to_owned()], 1));
    }
    // A range ends where it is said to, and is not cut there.
    let shard = ShardFile::new(&archive(&[file("1.txt", "one"), file("2.txt", "two")]));
    let mut first = shard.open().with_range(0..1024).unwrap();
    assert_eq!((keys(first.by_ref()), first.warnings().len()), (vec!["1".to_owned()], 0));
}

#[test]
fn a_member_that_is_not_read_costs_its_sample() {
    let bad_name = {
        let mut bad = file("2.txt", "x");
        bad[1] = 0xff;
        bad[2..6].copy_from_slice(b".txt");
        sum(&mut bad);
        bad
    };
    let sparse = {
        let mut sparse = file("2.txt", "data");
        sparse[156] = b'S';
        sparse[257..265].copy_from_slice(b"ustar  \0");
        // One piece of the file, in a header of its own after this one.
        sparse[482] = 1;
        sparse[483..495].copy_from_slice(b"00000000004\0");
        sum(&mut sparse);
        let mut pieces = vec![0; 512];
        pieces[..24].copy_from_slice(b"00000000000\x0000000000004\0");
        [&sparse[..512], &pieces, &sparse[512..]].concat()
    };
    for (bad, named) in [
        (entry("2.txt", b'1', b""), "sample `2`"),
        (entry("2.txt", b'3', b""), "sample `2`"),
        (entry("2.txt", b'Z', b"data of nobody knows what"), "sample `2`"),
        (bad_name, "sample `2\\xff`"),
        (sparse, "sample `2`"),
        ([file("2.cls", "1"), entry("2.txt", b'1', b""), file("2.x", "")].concat(), "sample `2`"),
        ([file("2.cls", "1"), file("2.cls", "2")].concat(), "sample `2`"),
    ] {
        let tar = archive(&[file("1.txt", "one"), bad, file("3.txt", "three")]);
        for bytes in [tar.clone(), gzip(&tar)] {
            let shard = ShardFile::new(&bytes);
            let (good, errors): (Vec<_>, Vec<_>) = shard.open().partition(Result::is_ok);
            assert_eq!(keys(good.into_iter()), ["1", "3"], "{named}");
            let [error] = &errors.into_iter().map(Result::unwrap_err).collect::<Vec<_>>()[..] else {
                panic!("{named}")
            };
            assert!(error.to_string().contains(named) && error.category() == Category::File, "{error}");

            let opened = tensorfile_datasets::open(shard.location(), &OpenOptions::new(), &Limits::new()).unwrap();
            let metadata = opened.metadata().unwrap();
            assert_eq!(metadata.entries.keys().collect::<Vec<_>>(), ["1.txt", "3.txt"], "{named}");
            let [warning] = &metadata.warnings[..] else { panic!("{:?}", metadata.warnings) };
            assert!(warning.text.starts_with(&named.replace('\\', "\\\\")), "{warning}");
        }
    }
    // A file that is no tensor file costs its tensors.
    let shard = ShardFile::new(&archive(&[file("1.x.npy", "none"), file("1.jpg", "x"), file("2.jpg", "x")]));
    let opened = OpenOptions::new().format(&TAR).open(shard.location()).unwrap();
    assert_eq!(opened.load::<TensorMap>().unwrap().keys().collect::<Vec<_>>(), ["1.jpg", "2.jpg"]);
    let warnings = opened.metadata().unwrap().warnings;
    assert!(
        warnings.len() == 1 && warnings[0].text.starts_with("sample `1`: `x.npy` is left out: npy: "),
        "{warnings:?}"
    );
}

#[test]
fn corrupt_compressed_shards_are_malformed() {
    let tar = archive(&[file("1.txt", "one"), file("2.bin", [7; 100_000])]);
    for (name, bytes) in [("a.tar.gz", gzip(&tar)), ("a.tar.zst", zstd(&tar))] {
        let mut changed = bytes.clone();
        let middle = changed.len() / 2;
        changed[middle..middle + 8].fill(0xff);
        for bytes in [&bytes[..bytes.len() / 2], &changed] {
            let shard = ShardFile::named(name, bytes);
            let error = shard.open().find_map(Result::err).expect("it is damaged");
            assert!(matches!(error.kind(), ErrorKind::Malformed { .. }) && error.offset().is_some(), "{error}");
            let opened = tensorfile_datasets::open(shard.location(), &OpenOptions::new(), &Limits::new());
            let error = opened.unwrap_err();
            assert!(error.category() == Category::File && error.to_string().contains("(at byte "), "{error}");
            let error = unpack(shard.location(), &shard.folder.path().join("out")).unwrap_err();
            assert_eq!(error.category(), Category::File, "{error}");
        }
    }
}

#[test]
fn windows_of_zstd_are_bounded() {
    // A frame of one raw block of 1 byte, with a window of 2 GiB, of 128 MiB, and of the content.
    let frame = |header: &[u8]| [b"\x28\xb5\x2f\xfd", header, &[9, 0, 0, 1]].concat();
    let window = |log: u8| frame(&[0, (log - 10) << 3]);
    for (bytes, found) in
        [(window(31), 1_u64 << 31), (window(28), 1 << 28), (frame(&[0xe0, 0, 0, 0, 0, 1, 0, 0, 0]), 1 << 32)]
    {
        for bytes in [bytes.clone(), [zstd(b"one"), bytes].concat()] {
            let shard = ShardFile::named("a.tar.zst", &bytes);
            let expected =
                format!("a.tar.zst: number of bytes of a zstd window is {found}, but the limit is 134217728");
            let error = shard.error();
            assert!(error.starts_with(&expected), "{error}");
        }
    }
    let shard = ShardFile::named("a.tar.zst", &window(27));
    assert_eq!(shard.error(), "a.tar.zst: the archive ends inside a header (at byte 0)");
    // It is held, as samples are.
    let error = Shard::with_limits(shard.location(), held(1 << 20)).unwrap().next().unwrap().unwrap_err();
    assert!(error.to_string().ends_with("is 134217728, but the limit is 1048576 (at byte 0)"), "{error}");
    // Together with a sample.
    let tar = archive(&[file("1.txt", vec![1; 100_000])]);
    let raw = |block: &[u8]| {
        // The last block of a frame has the lowest bit.
        let header = u32::try_from(block.len()).unwrap() << 3 | 1;
        [b"\x28\xb5\x2f\xfd\x00\x50", &header.to_le_bytes()[..3], block].concat()
    };
    let frames: Vec<u8> = tar.chunks(65_536).flat_map(raw).collect();
    let shard = ShardFile::named("a.tar.zst", &frames);
    for (limit, found) in [(1 << 20, None), (1_100_000, None), (1 << 21, Some("1"))] {
        let sample = Shard::with_limits(shard.location(), held(limit)).unwrap().next().unwrap();
        assert_eq!(sample.ok().map(|sample| sample.key).as_deref(), found, "{limit}");
    }
}

/// A file that breaks its sample is left out when a shard is unpacked, and all other files are written.
#[test]
fn what_is_not_unpacked_is_a_warning() {
    let tar = archive(&[
        file("1.txt", "one"),
        entry("2.txt", b'1', b""),
        entry("3.txt", b'3', b""),
        entry("4.txt", b'7', b"four"),
        entry("5.txt", b'V', b""),
        entry("6.txt", b'2', b""),
        file("7.txt", "seven"),
    ]);
    for bytes in [tar.clone(), gzip(&tar)] {
        let shard = ShardFile::new(&bytes);
        let out = shard.folder.path().join("out");
        let unpacked = unpack(shard.location(), &out).unwrap();
        let warnings: Vec<_> =
            unpacked.warnings.iter().map(|warning| (warning.offset, warning.text.as_str())).collect();
        assert_eq!(
            warnings,
            [
                (Some(1024), "a file is left out: `2.txt` is a hard link, which is not read (at byte 1024)"),
                (Some(1536), "a file is left out: `3.txt` is a device, which is not read (at byte 1536)"),
            ]
        );
        let mut names: Vec<_> = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!((names, unpacked.files), (["1.txt", "4.txt", "7.txt"].map(Into::into).to_vec(), 3));
    }
}
