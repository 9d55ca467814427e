//! Tests which files belong to which sample.

use crate::support::{ShardFile, archive, entry, file, pax};

/// Returns the samples of an archive: each with its key and extensions.
fn samples(entries: &[Vec<u8>]) -> Vec<String> {
    let shard = ShardFile::new(&archive(entries));
    let samples = shard.open().map(|sample| {
        let sample = sample.unwrap();
        let extensions: Vec<&str> = sample.members.iter().map(|member| member.extension.as_str()).collect();
        format!("{}: {}", sample.key, extensions.join(" "))
    });
    samples.collect()
}

#[test]
fn keys_are_paths_up_to_the_first_dot() {
    for (path, expected) in [
        ("0001.ten", "0001: ten"),
        ("a/b/0001.image.ten", "a/b/0001: image.ten"),
        ("a.b/0001.x.ten", "a.b/0001: x.ten"),
        ("./0001.ten", "./0001: ten"),
        ("0001.Image.TEN", "0001: image.ten"),
        ("0001.", "0001: "),
        ("_1.ten", "_1: ten"),
        ("a/__x__/1.ten", "a/__x__/1: ten"),
        ("__x.ten", "__x: ten"),
    ] {
        assert_eq!(samples(&[file(path, "")]), [expected], "{path}");
    }
    for path in ["0001", "a.b/0001", ".hidden", "a/.hidden", "__names__", "__x__/1.ten", "__.__"] {
        assert_eq!(samples(&[file(path, "")]), [""; 0], "{path}");
    }
}

#[test]
fn files_next_to_each_other_are_a_sample() {
    let entries = [
        file("a.x.ten", ""),
        entry("folder/", b'5', b""),
        file("__names__", "a b"),
        file("a.y.ten", ""),
        entry("link.ten", b'2', b""),
        file("b.x.ten", ""),
    ];
    assert_eq!(samples(&entries), ["a: x.ten y.ten", "b: x.ten"]);
}

#[test]
fn long_names_are_read() {
    let long = format!("{}/0001.x.ten", "folder".repeat(40));
    let expected = format!("{}/0001: x.ten", "folder".repeat(40));
    let gnu = [entry("././@LongLink", b'L', format!("{long}\0").as_bytes()), file("cut", "")].concat();
    let posix = [pax(&[("path", &long)]), file("cut", "")].concat();
    assert_eq!(samples(&[gnu]), [expected.as_str()]);
    assert_eq!(samples(&[posix]), [expected.as_str()]);
    let mut prefixed = file("0001.x.ten", "");
    prefixed[345..351].copy_from_slice(b"folder");
    crate::support::sum(&mut prefixed);
    assert_eq!(samples(&[prefixed]), ["folder/0001: x.ten"]);
}

#[test]
fn a_size_may_be_a_record_or_base_256() {
    let mut record = file("0001.txt", "hello");
    record[124..136].copy_from_slice(b"00000000000\0");
    crate::support::sum(&mut record);
    let record = [pax(&[("size", "5")]), record].concat();
    let mut binary = file("0001.txt", "hello");
    binary[124..136].copy_from_slice(&[0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5]);
    crate::support::sum(&mut binary);
    for entry in [record, binary] {
        let shard = ShardFile::new(&archive(&[entry, file("0002.txt", "")]));
        let samples: Vec<_> = shard.open().map(Result::unwrap).collect();
        assert_eq!((samples[0].text("txt").unwrap().as_str(), samples.len()), ("hello", 2));
    }
}
