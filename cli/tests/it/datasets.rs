//! WebDataset shards: read as files, packed and unpacked.

use ndarray::array;
use tensorfile::{Blob, TensorFile, TensorMap};
use tensorfile_datasets::ShardWriter;

use super::Session;

#[derive(TensorFile)]
struct Sample {
    image: ndarray::Array2<f32>,
    label: i64,
    jpg: Blob,
    #[tensor(metadata)]
    caption: String,
}

/// Adds a shard `a-0.tar` of two samples.
fn session() -> Session {
    let session = Session::new();
    let mut writer = ShardWriter::new(session.path("a-{0..}.tar")).unwrap();
    for label in 1..3 {
        let image = array![[label as f32, 0.5], [-1.0, 2.0]];
        let sample = Sample { image, label, jpg: Blob(vec![1, 2, 3]), caption: format!("number {label}") };
        writer.write(&format!("x/{label:04}"), &sample).unwrap();
    }
    writer.finish().unwrap();
    session
}

#[test]
fn shards_are_files_of_tensors() {
    let session = session();
    insta::assert_snapshot!(session.transcript(&[
        "ls a-0.tar",
        "ls --from tar a-0.tar",
        "info a-0.tar",
        "show a-0.tar x/0002.image",
        "show a-0.tar x/0002.label",
        "stats a-0.tar --filter *.image",
        "verify a-0.tar",
        "hash --tensors a-0.tar",
        "convert a-0.tar images.safetensors --filter *.image --lossy",
        "ls images.safetensors",
        "convert images.safetensors b.tar",
        "convert folder data/b.TAR",
    ]));
}

#[test]
fn compressed_shards_and_streams_are_held() {
    use std::io::Write as _;

    let session = session();
    let plain = std::fs::read(session.path("a-0.tar")).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&plain).unwrap();
    std::fs::write(session.path("a.tar.gz"), gzip.finish().unwrap()).unwrap();
    let of = |arguments: &[&str], input: &[u8]| {
        let output = session.run_with_input(arguments, input);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let expected = of(&["hash", "--tensors", "a-0.tar"], &[]);
    assert_eq!(expected.lines().count(), 6);
    assert_eq!(of(&["hash", "--tensors", "a.tar.gz"], &[]), expected);
    assert_eq!(of(&["hash", "--tensors", "--from", "tar", "-"], &plain), expected);
}

#[test]
fn folders_become_shards_and_shards_folders() {
    let session = Session::new();
    let folder = session.path("folder");
    std::fs::create_dir_all(folder.join("b")).unwrap();
    for (path, content) in [
        ("1.txt", "one"),
        ("1.cls", "1"),
        ("b/2.txt", "two"),
        ("2.x.txt", "dotted"),
        ("README", "no sample"),
        (".hidden", ""),
    ] {
        std::fs::write(folder.join(path), content).unwrap();
    }
    insta::assert_snapshot!(session.transcript(&[
        "convert folder out-{000000..}.tar --max-shard-size 4kB",
        "ls out-000000.tar",
        "convert folder out-{000000..}.tar -n",
        "convert out-000000.tar unpacked",
        "convert out-000000.tar unpacked -n",
        "convert out-000001.tar unpacked/",
        "convert folder out-{000000..}.tar --dtype f16",
        "convert folder out-{000000..}.tar --json",
        "convert model.ptd out-{000000..}.tar",
        "convert out-000000.tar unpacked --max-shard-size 4kB",
        "convert out-000000.tar other.tar.gz",
        "convert folder out-{000000..}.tar.gz",
    ]));
    for (path, content) in [("1.txt", "one"), ("1.cls", "1"), ("b/2.txt", "two"), ("2.x.txt", "dotted")] {
        assert_eq!(std::fs::read_to_string(session.path("unpacked").join(path)).unwrap(), content);
    }
    let mut packed: Vec<_> =
        std::fs::read_dir(session.folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    packed.sort();
    assert_eq!(packed, ["folder", "model.ptd", "out-000000.tar", "out-000001.tar", "sparse.btf", "unpacked"]);
}

#[test]
fn files_that_are_not_read_are_warnings() {
    let session = session();
    let plain = std::fs::read(session.path("a-0.tar")).unwrap();
    std::fs::write(session.path("joined.tar"), [&plain[..], &plain].concat()).unwrap();
    let mut label = tar::Header::new_old();
    label.as_mut_bytes()[..3].copy_from_slice(b"LBL");
    label.set_entry_type(tar::EntryType::new(b'V'));
    label.set_cksum();
    std::fs::write(session.path("label.tar"), [label.as_bytes(), &plain[..]].concat()).unwrap();
    let mut link = tar::Header::new_gnu();
    link.set_path("y.txt").unwrap();
    link.set_link_name("x/0001.caption.txt").unwrap();
    link.set_entry_type(tar::EntryType::Link);
    link.set_size(0);
    link.set_cksum();
    let pair = Sample { image: array![[1.0]], label: 1, jpg: Blob(vec![]), caption: String::new() };
    let mut writer = ShardWriter::new(session.path("b-{0..}.tar")).unwrap();
    writer.write_files("y", [("x.npy", "no array"), ("x.json", "{}"), ("jpg", "1"), ("jpg.cls", "1")]).unwrap();
    writer.write("z", &pair).unwrap();
    let shard = writer.finish().unwrap().pop().unwrap();
    std::fs::write(
        session.path("link.tar"),
        [link.as_bytes(), &std::fs::read(&shard.path).unwrap()[5 << 10..]].concat(),
    )
    .unwrap();
    std::fs::write(session.path("zeros.tar"), [0; 10240]).unwrap();
    std::fs::write(session.path("zeros.bin"), [0; 10240]).unwrap();
    std::fs::write(session.path("noise"), [0xdd; 600]).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, &plain).unwrap();
    let gzip = gzip.finish().unwrap();
    std::fs::write(session.path("cut.tar.gz"), &gzip[..gzip.len() / 2]).unwrap();
    // A window of 2 GiB.
    std::fs::write(session.path("window.tar.zst"), b"\x28\xb5\x2f\xfd\x00\xa8\x09\x00\x00\x01").unwrap();
    insta::assert_snapshot!(session.transcript(&[
        "ls joined.tar",
        "verify joined.tar",
        "verify --strict joined.tar",
        "convert joined.tar joined",
        "verify --strict label.tar",
        "ls b-0.tar",
        "info b-0.tar",
        "verify b-0.tar",
        "verify link.tar",
        "ls zeros.tar",
        "verify --strict zeros.tar",
        "ls zeros.bin",
        "ls noise",
        "ls cut.tar.gz",
        "ls window.tar.zst",
        "convert joined.tar parts --split 1/1",
    ]));
}

#[test]
fn an_index_for_wids_is_written() {
    let session = Session::new();
    std::fs::create_dir(session.path("folder")).unwrap();
    for i in 0..3 {
        std::fs::write(session.path(&format!("folder/{i}.txt")), vec![b'a'; 1000]).unwrap();
    }
    insta::assert_snapshot!(session.transcript(&[
        "convert folder out-{0..}.tar --max-shard-size 4kB --wids out.json",
        "convert folder new-{0..}.tar --wids out.json -n",
        "convert folder new-{0..}.tar --wids https://host/out.json",
        "convert model.ptd model.ten --wids out.json",
        "convert out-0.tar unpacked --wids out.json",
        "convert folder out --split 1/2 --wids out.json",
    ]));
    insta::assert_snapshot!(std::fs::read_to_string(session.path("out.json")).unwrap());
}

#[test]
fn names_that_leave_the_folder_are_refused() {
    let session = Session::new();
    let entry = |name: &str| {
        let mut header = tar::Header::new_ustar();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(1);
        header.set_mode(0o644);
        header.set_entry_type(tar::EntryType::Regular);
        header.set_cksum();
        let mut entry = header.as_bytes().to_vec();
        entry.push(b'x');
        entry.resize(1024, 0);
        entry
    };
    for (number, name) in ["../a.txt", "/tmp/a.txt", "b/../../a.txt", ".."].into_iter().enumerate() {
        let file = format!("{number}.tar");
        std::fs::write(session.path(&file), [entry("good.txt"), entry(name), vec![0; 1024]].concat()).unwrap();
        let output = session.run(&["convert", &file, "out"]);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(message, format!("tensorfile: {file}: the name `{name}` leaves the folder (at byte 1024)\n"));
        assert_eq!(output.status.code(), Some(4));
        assert!(!session.path("a.txt").exists() && session.path("out/good.txt").exists());
    }
    #[cfg(unix)]
    {
        std::fs::create_dir(session.path("elsewhere")).unwrap();
        std::os::unix::fs::symlink(session.path("elsewhere"), session.path("out/link")).unwrap();
        std::fs::write(session.path("link.tar"), [entry("link/a.txt"), vec![0; 1024]].concat()).unwrap();
        let output = session.run(&["convert", "link.tar", "out"]);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(message, "tensorfile: link.tar: the name `link/a.txt` leads through a symbolic link (at byte 0)\n");
        assert!(!session.path("elsewhere/a.txt").exists());
    }
}

#[test]
fn broken_shards_are_malformed_files() {
    let session = session();
    let mut tar = std::fs::read(session.path("a-0.tar")).unwrap();
    std::fs::write(session.path("cut.tar"), &tar[..600]).unwrap();
    std::fs::write(session.path("padding.tar"), &tar[..700]).unwrap();
    std::fs::write(session.path("no_end.tar"), &tar[..tar.len() - 1024]).unwrap();
    tar[0] ^= 1;
    std::fs::write(session.path("sum.tar"), &tar).unwrap();
    std::fs::write(session.path("text.tar"), "no archive").unwrap();
    std::fs::write(session.path("empty.tar"), "").unwrap();
    std::fs::write(session.path("no_members.tar"), [0; 1024]).unwrap();
    let map = TensorMap::from_iter([("x", array![1.0_f32])]);
    session.write("not.ten", &map);
    std::fs::rename(session.path("not.ten"), session.path("ten.tar")).unwrap();
    insta::assert_snapshot!(session.transcript(&[
        "ls cut.tar",
        "verify cut.tar",
        "ls padding.tar",
        "ls sum.tar",
        "ls text.tar",
        "ls ten.tar",
        "ls --from tar model.ptd",
        "ls missing.tar",
        "ls no_end.tar",
        "verify no_end.tar",
        "verify --deny left-out no_end.tar",
        "ls empty.tar",
        "ls --from tar empty.tar",
        "verify --from tar empty.tar",
        "convert --from tar empty.tar out",
        "ls --from tar no_members.tar",
        "convert cut.tar out",
    ]));
    assert_eq!(std::fs::read_dir(session.path("out/x")).unwrap().count(), 0);
    #[cfg(unix)]
    {
        let output = session.run(&["ls", "--from", "tar", "/dev/null"]);
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "tensorfile: /dev/null: the file is empty (at byte 0)\n");
    }
}
