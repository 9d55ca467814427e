//! Damaged and hostile archives, and archives that programs read differently.

use std::fs;

use tensorfile::{Category, Limits, OpenOptions};
use tensorfile_datasets::{OnError, Shard, Shards, TAR, unpack};

use crate::support::{ShardFile, archive, entry, file, gzip, header, pax, sum, zstd};

/// Returns a file whose header is changed.
fn changed(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut file = file("1.txt", "x");
    file[at..at + bytes.len()].copy_from_slice(bytes);
    sum(&mut file);
    file
}

#[test]
fn errors_say_what_is_wrong_and_where() {
    let twice = [file("0.txt", ""), file("1.TXT", "a"), file("1.txt", "b")].concat();
    let again = [file("1.txt", ""), file("2.txt", ""), file("1.cls", "")].concat();
    let mut bad_sum = file("1.txt", "x");
    bad_sum[0] = b'2';
    for (name, entries, expected) in [
        (
            "a file twice",
            twice,
            "sample `1` at byte 512: the file `txt` is there twice: its bytes are at 1024 and 2048",
        ),
        (
            "a key again",
            again,
            "sample `1` at byte 1024: the key, which is at byte 0 too, comes back after another; pack the files in order, as \
             `tar --sort=name` does",
        ),
        ("a hard link", entry("1.txt", b'1', b""), "sample `1` at byte 0: `1.txt` is a hard link, which is not read"),
        ("a device", entry("1.txt", b'3', b""), "sample `1` at byte 0: `1.txt` is a device, which is not read"),
        ("a block device", entry("1.txt", b'4', b""), "sample `1` at byte 0: `1.txt` is a device, which is not read"),
        (
            "a part of a volume",
            entry("1.txt", b'M', b""),
            "sample `1` at byte 0: `1.txt` is of the type `M`, which is not read",
        ),
        (
            "a sparse record",
            [pax(&[("GNU.sparse.major", "1")]), file("1.txt", "x")].concat(),
            "sample `1` at byte 0: a sparse file is not read",
        ),
        (
            "a folder with data",
            entry("1.txt/", b'5', b"data"),
            "`1.txt/` is not a file, but states 4 bytes of data (at byte 0)",
        ),
        (
            "a file called as a folder",
            entry("1.txt/", b'0', b"data"),
            "`1.txt/` is not a file, but states 4 bytes of data (at byte 0)",
        ),
        (
            "two sizes",
            [pax(&[("size", "1"), ("size", "2")]), file("1.txt", "x")].concat(),
            "two PAX records set the `size` of a member (at byte 0)",
        ),
        (
            "a size that is not a number",
            [pax(&[("size", "1x")]), file("1.txt", "x")].concat(),
            "the PAX record `size` is `1x`, but the header says otherwise (at byte 0)",
        ),
        (
            "a name for all",
            [entry("g", b'g', b"15 path=1.tex\n\n\n"), file("1.txt", "x")].concat(),
            "malformed pax extension (at byte 0)",
        ),
        (
            "a name for all members",
            [entry("g", b'g', b"14 path=1.tex\n"), file("1.txt", "x")].concat(),
            "a PAX record sets the `path` of all members (at byte 0)",
        ),
        (
            "two names",
            [pax(&[("path", "a.txt")]), entry("././@LongLink", b'L', b"b.txt\0"), file("1.txt", "x")].concat(),
            "sample `b` at byte 0: the PAX record `path` is `a.txt`, but the header says otherwise",
        ),
        (
            "NUL in a name",
            [entry("././@LongLink", b'L', b"b.txt\0.c\0"), file("1.txt", "x")].concat(),
            "sample `b` at byte 0: `b.txt\\0.c` is a name with NUL, which readers take for different names",
        ),
        (
            "a name that is not UTF-8",
            changed(0, b"\xff.txt\0"),
            "sample `\\xff` at byte 0: the name `\\xff.txt` is not UTF-8",
        ),
        (
            "a checksum",
            bad_sum,
            "the checksum of the header is wrong: the file is damaged, or not a tar archive (at byte 0)",
        ),
        (
            "no checksum",
            vec![b'x'; 512],
            "the checksum of the header is wrong: the file is damaged, or not a tar archive (at byte 0)",
        ),
        (
            "a signed size",
            changed(124, b"+0000000001"),
            "the size `+0000000001\\x00` is neither octal nor base-256 (at byte 0)",
        ),
        (
            "a size of 2^72",
            changed(124, &[0x80, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
            "the size `\\x80\\x00\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x01` is neither octal nor base-256 (at byte 0)",
        ),
        (
            "a size of 2^64 - 1",
            changed(124, b"\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"),
            "size overflow (at byte 0)",
        ),
        (
            "a prefix without ustar",
            {
                let mut file = changed(345, b"prefix");
                file[257..265].copy_from_slice(b"ustar  \0");
                sum(&mut file);
                file
            },
            "sample `1` at byte 0: a header that is not ustar has a prefix, which readers take for different names",
        ),
    ] {
        let tar = archive(&[entries]);
        let expected = |shard: &str| format!("{shard}: {expected}");
        assert_eq!(ShardFile::new(&tar).error(), expected("shard.tar"), "{name}");
        let gz = ShardFile::named("shard.gz", &gzip(&tar));
        // Parsing the header of a stream needs no size.
        assert_eq!(gz.error(), expected("shard.gz"), "{name}");
    }
}

#[test]
fn a_shard_that_ends_early_is_an_error() {
    let tar = archive(&[file("1.txt", [1; 2000])]);
    for (len, expected) in [
        (0, "the shard is empty (at byte 0)"),
        (1, "the archive ends inside a header (at byte 0)"),
        (511, "the archive ends inside a header (at byte 0)"),
        (512, "sample `1` at byte 0: the member takes 2000 bytes, but the shard ends after 0"),
        (2512, "sample `1` at byte 0: the shard ends inside the padding after a member"),
        (2511, "sample `1` at byte 0: the member takes 2000 bytes, but the shard ends after 1999"),
    ] {
        let (shard, gz) = (ShardFile::new(&tar[..len]), ShardFile::named("a.gz", &gzip(&tar[..len])));
        assert_eq!(shard.error(), format!("shard.tar: {expected}"));
        assert_eq!(gz.error(), format!("a.gz: {expected}"));
        let as_file = OpenOptions::new().format(&TAR).open(shard.location()).unwrap_err();
        let of_file = if len == 0 { "the file is empty (at byte 0)".to_owned() } else { format!("tar: {expected}") };
        assert_eq!(as_file.without_path().to_string(), of_file);
        // Nothing is left of a file that is not whole.
        let folder = tempfile::tempdir().unwrap();
        let error = unpack(shard.location(), folder.path()).unwrap_err();
        assert_eq!((error.without_shard().to_string(), error.category()), (expected.to_owned(), Category::File));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), usize::from(len == 2512), "{len}");
    }
    for len in 2513..tar.len() {
        assert_eq!(ShardFile::new(&tar[..len.next_multiple_of(512)]).open().count(), 1);
    }
}

#[test]
fn compressed_shards_are_checked_to_their_end() {
    let tar = archive(&[file("1.txt", [1; 2000])]);
    let mut wrong_sum = gzip(&tar);
    let end = wrong_sum.len();
    wrong_sum[end - 5] ^= 1;
    assert_eq!(
        ShardFile::named("a.gz", &wrong_sum).error(),
        "a.gz: gzip: corrupt gzip stream does not have a matching checksum (at byte 2560)"
    );
    let cut = gzip(&tar);
    assert_eq!(
        ShardFile::named("a.gz", &cut[..cut.len() - 4]).error(),
        "a.gz: gzip: the file ends early (at byte 2560)"
    );
    let mut wrong = zstd(&tar);
    let end = wrong.len();
    wrong[end - 1] ^= 1;
    let error = ShardFile::named("a.zst", &wrong).error();
    assert!(error.starts_with("a.zst: zstd: the checksum is "), "{error}");
    for (begin, name) in [(&b"BZh9"[..], "bzip2"), (b"\xfd7zXZ\0", "xz"), (b"\x04\x22\x4d\x18", "lz4")] {
        let error = ShardFile::new(begin).error();
        assert_eq!(error, format!("shard.tar: cannot read a shard compressed with {name}; gzip and zstd are read"));
    }
}

#[test]
fn headers_are_bounded() {
    let long = entry("././@LongLink", b'L', &vec![b'a'; 2 << 20]);
    let records = entry("PaxHeader", b'x', &vec![b'a'; 2 << 20]);
    let many = [entry("././@LongLink", b'L', &vec![b'a'; 500 << 10]), entry("PaxHeader", b'x', &vec![b'a'; 600 << 10])]
        .concat();
    for entries in [long, records, many] {
        let tar = archive(&[entries, file("1.txt", "")]);
        let expected = "number of bytes of headers before a member is 1048577, but the limit is 1048576 (at byte 0)";
        assert_eq!(ShardFile::new(&tar).error(), format!("shard.tar: {expected}"));
        let gz = ShardFile::named("a.gz", &gzip(&tar));
        assert_eq!(gz.error(), format!("a.gz: {expected}"));
    }
    // A stated length is not allocated.
    let stated = [header("PaxHeader", 1 << 32, b'x'), vec![b'a'; 512]].concat();
    assert_eq!(ShardFile::new(&stated).error(), "shard.tar: the archive ends inside a header (at byte 0)");
}

#[test]
fn the_number_of_samples_is_limited() {
    let tar = archive(&[file("1.txt", ""), file("2.txt", ""), file("3.txt", "")]);
    let shard = ShardFile::new(&tar);
    let error = Shard::with_limits(shard.location(), Limits::new().tensors(2)).unwrap().last().unwrap().unwrap_err();
    assert_eq!(error.category(), Category::Limit);
    let expected =
        format!("{}: number of samples in a shard is 3, but the limit is 2 (at byte 1024)", shard.location());
    assert_eq!(error.to_string(), expected);
}

#[test]
fn changed_bytes_never_panic() {
    let tar = archive(&[file("1.x.ten", "abc"), pax(&[("path", "2.txt")]), file("cut", "text"), file("3.cls", "12")]);
    for at in (0..tar.len()).step_by(7) {
        for byte in [0, b'0', b'9', 0x80, 0xff] {
            let mut tar = tar.clone();
            tar[at] = byte;
            let shard = ShardFile::new(&tar);
            let mapped: Vec<String> = read(&shard);
            let gz = ShardFile::new(&gzip(&tar));
            // Both ways read the same samples.
            assert_eq!(read(&gz), mapped, "byte {at} is {byte}");
        }
    }
}

/// Returns the readable samples of a shard.
fn read(shard: &ShardFile) -> Vec<String> {
    let samples = Shards::from_locations([shard.location()]).on_error(OnError::Skip);
    let shown = |sample: tensorfile_datasets::Sample| {
        let loaded = sample.load::<tensorfile::TensorMap>().is_ok();
        format!("{} {:?} {loaded}", sample.key, sample.members)
    };
    samples.map(|sample| shown(sample.unwrap())).collect()
}
