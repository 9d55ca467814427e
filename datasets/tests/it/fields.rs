//! Names of the files of a sample. No file may hide another.

use std::collections::BTreeMap;

use ndarray::array;
use tensorfile::{Blob, OpenOptions, Tensor, TensorFile, TensorMap, npy, npz, ten};
use tensorfile_datasets::{Batches, Sample, ShardWriter, Shards, TAR};

use crate::support::{ShardFile, archive, file, gzip};

fn npy(values: &[f32]) -> Vec<u8> {
    npy::to_vec(&Tensor::from_slice(values, [values.len()]).unwrap()).unwrap()
}

fn npz(names: &[&str]) -> Vec<u8> {
    npz::to_vec(&names.iter().map(|name| (*name, array![1.0_f32])).collect::<TensorMap>()).unwrap()
}

/// Returns the names of everything in a sample, in order.
fn names(sample: &Sample) -> Vec<String> {
    let mut names: Vec<String> = sample.load::<TensorMap>().unwrap().keys().map(str::to_owned).collect();
    names.extend(sample.metadata().unwrap().into_iter().map(|(name, _)| name));
    names.sort();
    names
}

#[test]
fn files_of_one_name_keep_their_extensions() {
    let text = || b"caption".to_vec();
    let json = || br#"{"a": 1}"#.to_vec();
    let number = || b"3".to_vec();
    for (files, expected) in [
        (vec![("image.npy", npy(&[1.0])), ("image.json", json())], &["image.json", "image.npy"][..]),
        (vec![("mp4", text()), ("mp4.json", json()), ("info.json", json())], &["info", "mp4", "mp4.json"]),
        (vec![("x.txt", text()), ("x.json", json())], &["x.json", "x.txt"]),
        (vec![("jpg", text()), ("jpg.cls", number())], &["jpg", "jpg.cls"]),
        (
            vec![("x.npy", npy(&[1.0])), ("x.ten", ten::to_vec(&TensorMap::from_iter([("0", array![1_u8])])).unwrap())],
            &["x.npy", "x.ten"],
        ),
        (vec![("cls", number()), ("cls.txt", text())], &["cls", "cls.txt"]),
        // A name that is the extension of another file.
        (vec![("x.npy", npy(&[1.0])), ("x.json", json()), ("x.npy.txt", text())], &["x.json", "x.npy", "x.npy.txt"]),
        (vec![("x.json", json()), ("x.json.gz", gzip(&json()))], &["x.json", "x.json.gz"]),
        // Tensors in files.
        (vec![("x.npz", npz(&["y"])), ("x.z.txt", text())], &["x.y", "x.z"]),
        (vec![("x.npz", npz(&["y", "z"])), ("x.y.txt", text())], &["x.npz.y", "x.npz.z", "x.y"]),
        (vec![("x.npz", npz(&["y.a"])), ("x.y.npz", npz(&["a"]))], &["x.npz.y.a", "x.y.npz.a"]),
        (vec![("x.npz", npz(&["y"])), ("x.json", json())], &["x.json", "x.npz.y"]),
        // Names that are taken.
        (vec![("__key__.txt", text()), ("__url__.npy", npy(&[1.0]))], &["__key__.txt", "__url__.npy"]),
        // None of these is in the way of another.
        (
            vec![("a.npy", npy(&[1.0])), ("b.json", json()), ("c.cls", number()), ("jpg", text())],
            &["a", "b", "c", "jpg"],
        ),
        (
            vec![("a.json.gz", gzip(&json())), ("b.npy.gz", gzip(&npy(&[1.0]))), ("nii.gz", gzip(b"x"))],
            &["a", "b", "nii.gz"],
        ),
    ] {
        let members: Vec<Vec<u8>> =
            files.iter().map(|(extension, bytes)| file(&format!("1.{extension}"), bytes)).collect();
        let tar = archive(&members);
        for bytes in [tar.clone(), gzip(&tar)] {
            let shard = ShardFile::new(&bytes);
            let sample = shard.open().next().unwrap().unwrap();
            assert_eq!(names(&sample), expected, "{files:?}");
        }

        // As one file, the names are the same, after the key.
        let shard = ShardFile::new(&tar);
        let opened =
            tensorfile_datasets::open(shard.location(), &OpenOptions::new(), &tensorfile::Limits::new()).unwrap();
        let metadata = opened.metadata().unwrap();
        let mut all: Vec<String> = opened.tensors().map(|tensor| tensor.name().to_owned()).collect();
        all.extend(metadata.entries.keys().cloned());
        all.sort();
        assert_eq!(all, expected.iter().map(|name| format!("1.{name}")).collect::<Vec<_>>());
        assert_eq!(metadata.warnings, []);

        // What is read is written with the same names.
        let sample = shard.open().next().unwrap().unwrap();
        let plan = tensorfile_datasets::splits::splits(&[shard.location().to_owned()], 1 << 20).unwrap();
        let mut part = tensorfile_datasets::splits::PartWriter::new(shard.folder.path(), &plan[0], "tar").unwrap();
        part.copy(&plan[0]).unwrap();
        let part = part.finish().unwrap();
        let path = shard.folder.path().join(part.file.unwrap());
        let written = Shards::new(path.to_str().unwrap()).unwrap().next().unwrap().unwrap();
        assert_eq!(names(&written), names(&sample), "{files:?}");
        assert_eq!(written.load::<TensorMap>().unwrap().len(), sample.load::<TensorMap>().unwrap().len());

        // Columns have these names too.
        for column in expected {
            let rows = plan[0].read_columns(Some(&[column])).unwrap();
            let tensorfile_datasets::splits::Rows::Samples(batch) = rows else { panic!("they are samples") };
            let found: Vec<&String> = batch.tensors.keys().chain(batch.metadata.keys()).collect();
            assert_eq!(found, [column], "{files:?}");
        }
    }
}

#[test]
fn values_are_those_of_their_files() {
    #[derive(TensorFile)]
    struct Video {
        mp4: Blob,
        #[tensor(metadata, rename = "mp4.json")]
        json: String,
        #[tensor(metadata)]
        info: String,
    }

    let video = b"\0\0\0\x18ftyp";
    let tar = archive(&[file("1.info.json", "{\"i\":1}"), file("1.mp4", video), file("1.mp4.json", "{\"m\":2}")]);
    let shard = ShardFile::new(&tar);
    let sample = shard.open().next().unwrap().unwrap();
    let Video { mp4, json, info } = sample.load().unwrap();
    assert_eq!((&mp4.0[..], &*json, &*info), (&video[..], "{\"m\":2}", "{\"i\":1}"));
    assert_eq!(sample.json::<BTreeMap<String, u8>>("mp4.json").unwrap()["m"], 2);
    let batch = Batches::new(shard.open(), 1).next().unwrap().unwrap();
    assert_eq!(batch.metadata["mp4.json"], [Some("{\"m\":2}".to_owned())]);
}

#[test]
fn a_file_called_as_the_key_costs_its_sample() {
    let tar = archive(&[file("1.__key__", "other"), file("2.txt", "")]);
    let shard = ShardFile::new(&tar);
    let expected = "shard.tar: sample `1` at byte 0: a file is called `__key__`, which is the name of something else";
    assert_eq!(shard.error(), expected);
    assert_eq!(shard.open().filter(Result::is_ok).count(), 1);
}

#[test]
fn what_would_hide_something_else_is_not_written() {
    #[derive(TensorFile)]
    struct Both {
        x: ndarray::Array1<f32>,
        #[tensor(metadata, rename = "x.ten")]
        text: String,
    }

    let folder = tempfile::tempdir().unwrap();
    let mut writer = ShardWriter::new(folder.path().join("a-{0..}.tar")).unwrap();
    let error = writer.write("1", &Both { x: array![1.0], text: "one".to_owned() }).unwrap_err();
    let expected = "sample `1`: cannot store `x.ten` in a file with the extension `x.ten.txt`; it would be read as something else; \
                    rename the field";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn compressed_files_are_decoded() {
    let pair = npz(&["left", "right"]);
    let tar = archive(&[
        file("1.json.gz", gzip(b"\xef\xbb\xbf{\"a\": 1}")),
        file("1.txt.gz", gzip(b"hi")),
        file("1.x.npy.gz", gzip(&npy(&[1.0, 2.0]))),
        file("1.pair.npz.gz", gzip(&pair)),
        file("1.cls.gz", gzip(b"7")),
        file("1.plain.npy", npy(&[3.0])),
    ]);
    for bytes in [tar.clone(), gzip(&tar)] {
        let shard = ShardFile::new(&bytes);
        let sample = shard.open().next().unwrap().unwrap();
        let map: TensorMap = sample.load().unwrap();
        assert_eq!(map["x"].array::<f32>().unwrap(), array![1.0, 2.0].into_dyn());
        assert_eq!(map["plain"].array::<f32>().unwrap(), array![3.0].into_dyn());
        assert_eq!(map.keys().collect::<Vec<_>>(), ["x", "pair.left", "pair.right", "cls", "plain"]);
        assert_eq!(sample.text("txt.gz").unwrap(), "hi");
        assert_eq!(sample.json::<BTreeMap<String, u8>>("json.gz").unwrap()["a"], 1);
        assert!(sample.bytes("txt.gz").unwrap().starts_with(b"\x1f\x8b"));
        let opened =
            tensorfile_datasets::open(shard.location(), &OpenOptions::new(), &tensorfile::Limits::new()).unwrap();
        assert_eq!(opened.array::<f32, ndarray::Ix1>("1.x").unwrap(), array![1.0, 2.0]);
        assert_eq!(opened.load::<TensorMap>().unwrap().len(), 5);
        assert_eq!(opened.metadata().unwrap().entries["1.txt"], "hi");
    }
    // A damaged one costs its sample, and a large one is not held.
    let mut damaged = gzip(&npy(&[1.0]));
    damaged.truncate(20);
    let zeros = gzip(&vec![0; 1 << 20]);
    let tar = archive(&[
        file("1.x.npy.gz", &damaged),
        file("2.json.gz", &damaged),
        file("3.x.npy.gz", zeros),
        file("4.txt", ""),
    ]);
    let shard = ShardFile::new(&tar);
    let limited = tensorfile_datasets::Shard::with_limits(shard.location(), crate::support::held(100_000)).unwrap();
    let errors: Vec<String> = limited
        .filter_map(|sample| sample.unwrap().load::<TensorMap>().err())
        .map(|error| error.to_string().replace(shard.location(), "S"))
        .collect();
    assert!(errors[0].starts_with("S: sample `1` at byte 0: `x.npy.gz`, decompressed: "), "{errors:?}");
    assert!(errors[1].starts_with("S: sample `2` at byte 1024: `json.gz`, decompressed: "), "{errors:?}");
    assert!(errors[2].ends_with("number of bytes of a sample is 100001, but the limit is 100000"), "{errors:?}");
    assert_eq!(errors.len(), 3);
    let as_file = OpenOptions::new().format(&TAR).open(shard.location()).unwrap();
    assert!(as_file.metadata().unwrap().warnings[0].text.starts_with("sample `2`: `json.gz` is left out: "));
}
