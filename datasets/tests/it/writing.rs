//! Written shards: their bytes, names, limits and errors.

use std::path::Path;
use std::process::Command;

use ndarray::{Array1, Array2, array};
use tensorfile::{Blob, Tensor, TensorFile, TensorInfo, TensorMap, half, npy};
use tensorfile_datasets::{ShardWriter, Shards};

use crate::support::{keys, text};

#[derive(TensorFile, Debug, PartialEq, Clone)]
struct Row {
    image: Array2<f32>,
    steps: Vec<Array1<u8>>,
    cls: i64,
    label: i64,
    #[tensor(metadata)]
    json: String,
    #[tensor(metadata)]
    caption: String,
    #[tensor(metadata)]
    weight: Option<f32>,
    jpg: Blob,
}

fn row(i: i64) -> Row {
    Row {
        image: array![[1.0, 2.0, i as f32]],
        steps: vec![array![1, 2], array![3]],
        cls: -i,
        label: i,
        json: r#"{"a":1}"#.to_owned(),
        caption: format!("number {i}"),
        weight: (i % 2 == 0).then_some(0.1),
        jpg: Blob(b"\xff\xd8".to_vec()),
    }
}

fn write(folder: &Path, rows: i64) -> Vec<tensorfile_datasets::WrittenShard> {
    let mut writer = ShardWriter::new(folder.join("rows-{08..}.tar")).unwrap().max_samples(2).index(true);
    for i in 0..rows {
        writer.write(&format!("rows/{i:03}"), &row(i)).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn what_is_written_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let shards = write(folder.path(), 5);
    let names: Vec<_> = shards.iter().map(|shard| shard.path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["rows-08.tar", "rows-09.tar", "rows-10.tar"]);
    assert_eq!(shards.iter().map(|shard| shard.samples).collect::<Vec<_>>(), [2, 2, 1]);
    for shard in &shards {
        assert_eq!(std::fs::metadata(&shard.path).unwrap().len(), shard.bytes);
    }
    let pattern = folder.path().join("rows-{08..10}.tar");
    let read: Vec<Row> = Shards::new(text(&pattern)).unwrap().load().map(Result::unwrap).collect();
    assert_eq!(read, (0..5).map(row).collect::<Vec<_>>());
    let glob = folder.path().join("*.tar");
    assert_eq!(Shards::new(text(&glob)).unwrap().count(), 5);
}

#[test]
fn equal_samples_make_equal_bytes_and_no_litter() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let files = folders.each_ref().map(|folder| {
        write(folder.path(), 3);
        let mut files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let names: Vec<_> = files.iter().map(|path| path.file_name().unwrap().to_owned()).collect();
        assert_eq!(names, ["rows-08.idx", "rows-08.tar", "rows-09.idx", "rows-09.tar"]);
        files.iter().map(|path| std::fs::read(path).unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(files[0], files[1]);
}

#[test]
fn a_writer_that_is_dropped_leaves_finished_shards_only() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = ShardWriter::new(folder.path().join("a-{0..}.tar")).unwrap().max_samples(2);
    for key in ["1", "2", "3"] {
        writer.write_files(key, [("txt", "x")]).unwrap();
    }
    drop(writer);
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["a-0.tar"]);
}

#[test]
fn the_index_is_that_of_wds2idx() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = ShardWriter::new(folder.path().join("a-{0..}.tar")).unwrap().index(true);
    writer.write_files("x/1", [("cls", "1"), ("b.txt", "hello")]).unwrap();
    let long = "k".repeat(120);
    writer.write_files(&long, [("txt", "")]).unwrap();
    writer.finish().unwrap();
    let index = std::fs::read_to_string(folder.path().join("a-0.idx")).unwrap();
    // A name of more than 100 bytes takes two blocks before its header.
    let expected = format!("v1.2 2\ncls 512 1 x/1.cls b.txt 1536 5 x/1.b.txt\ntxt 3584 0 {long}.txt\n");
    assert_eq!(index, expected);
    let tar = std::fs::read(folder.path().join("a-0.tar")).unwrap();
    assert_eq!((&tar[512..513], &tar[1536..1541]), (&b"1"[..], &b"hello"[..]));
}

#[test]
fn shards_have_at_most_the_given_length() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = ShardWriter::new(folder.path().join("a-{0..}.tar")).unwrap().max_bytes(4096);
    for (key, len) in [("1", 512), ("2", 512), ("3", 512), ("4", 5000), ("5", 1)] {
        writer.write_files(key, [("x", vec![1; len])]).unwrap();
    }
    let lengths: Vec<_> = writer.finish().unwrap().iter().map(|shard| (shard.samples, shard.bytes)).collect();
    assert_eq!(lengths, [(3, 4096), (1, 512 + 5120 + 1024), (1, 2048)]);
}

#[test]
fn what_would_be_read_differently_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = ShardWriter::new(folder.path().join("a-{0..}.tar")).unwrap();
    let map = |name: &str| TensorMap::from_iter([(name, array![1.0_f32])]);
    let blob = |name: &str| TensorMap::from_iter([(name, Tensor::new(TensorInfo::blob(1), &[1]).unwrap())]);
    for (key, sample, expected) in [
        (
            "a.b",
            map("x"),
            "cannot store a file called `a.b.x.ten`; keys are relative paths without `..` and without a dot in the base name, and extensions are in lower case",
        ),
        (
            "__a__/1",
            map("x"),
            "cannot store a file called `__a__/1.x.ten`; keys are relative paths without `..` and without a dot in the base name, and extensions are in lower case",
        ),
        (
            "a/",
            map("x"),
            "cannot store a file called `a/.x.ten`; keys are relative paths without `..` and without a dot in the base name, and extensions are in lower case",
        ),
        (
            "a",
            map("X"),
            "cannot store a file called `a.X.ten`; keys are relative paths without `..` and without a dot in the base name, and extensions are in lower case",
        ),
        (
            "a",
            map("x/y"),
            "cannot store a file called `a.x/y.ten`; keys are relative paths without `..` and without a dot in the base name, and extensions are in lower case",
        ),
        (
            "a",
            blob("x.npy"),
            "cannot store `x.npy` in a file with the extension `x.npy`; it would be read as something else; rename the field",
        ),
        ("a", TensorMap::new(), "a sample without files cannot be stored"),
        (
            "../a",
            map("x"),
            "cannot store a file called `../a.x.ten`; keys are relative paths without `..` and without a dot in the base name, and extensions are in lower case",
        ),
        (
            "a",
            TensorMap::from_iter([("x", array![half::bf16::ONE])]),
            "cannot store bf16 for `x`; ten stores f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64; `view::CastView` casts",
        ),
    ] {
        let error = writer.write(key, &sample).unwrap_err().to_string();
        assert!(error.ends_with(expected) && error.starts_with(&format!("sample `{key}`: ")), "{error}");
    }
    writer.write("a", &map("x")).unwrap();
    let error = writer.write("a", &map("x")).unwrap_err();
    assert_eq!(error.to_string(), "sample `a`: the shard has a sample with this key already");
    for (pattern, expected) in [
        ("a.tar", "the pattern `a.tar` has no number such as {000000..}"),
        ("a-{x..}.tar", "the pattern `a-{x..}.tar` has no number such as {000000..}"),
        ("a-{0..}.tar.gz", "cannot write compressed shards such as `a-{0..}.tar.gz`; write .tar, and compress it"),
    ] {
        assert_eq!(ShardWriter::new(pattern).unwrap_err().to_string(), expected);
    }
}

#[test]
fn another_format_stores_other_dtypes() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = ShardWriter::new(folder.path().join("a-{0..}.tar")).unwrap().format(&npy::FORMAT);
    let map = TensorMap::from_iter([("x", array![true, false])]);
    writer.write("1", &map).unwrap();
    writer.finish().unwrap();
    let sample = Shards::new(text(&folder.path().join("a-0.tar"))).unwrap().next().unwrap().unwrap();
    assert_eq!((sample.members[0].extension.as_str(), sample.load::<TensorMap>().unwrap()), ("x.npy", map));
}

#[test]
fn programs_for_tar_see_the_same_files() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = ShardWriter::new(folder.path().join("a-{0..}.tar")).unwrap();
    let long = format!("{}/{}", "folder".repeat(20), "k".repeat(30));
    for key in ["1", "b/2", &long] {
        writer.write_files(key, [("txt", key), ("x.cls", "5")]).unwrap();
    }
    writer.finish().unwrap();
    let path = folder.path().join("a-0.tar");
    let samples = Shards::new(text(&path)).unwrap();
    let expected: Vec<String> =
        keys(samples).iter().flat_map(|key| ["txt", "x.cls"].map(|end| format!("{key}.{end}"))).collect();
    let mut ran = 0;
    for program in ["tar", "bsdtar"] {
        let Ok(output) = Command::new(program).args(["tf", text(&path)]).output() else { continue };
        assert!(output.status.success(), "{program}");
        assert_eq!(String::from_utf8(output.stdout).unwrap().lines().collect::<Vec<_>>(), expected, "{program}");
        ran += 1;
    }
    assert!(ran > 0 || cfg!(not(target_os = "linux")));
}
