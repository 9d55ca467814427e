//! Samples loaded into structs.

use ndarray::{Array1, Array2, ArrayView2, array};
use tensorfile::file::Backend;
use tensorfile::{Blob, ErrorKind, OpenOptions, Tensor, TensorFile, TensorMap, npy, npz, safetensors, ten};
use tensorfile_datasets::{OnError, Shard, Shards};

use crate::support::{ShardFile, archive, file, gzip, held, keys, text, zstd};

fn ten(array: impl Into<Tensor>) -> Vec<u8> {
    ten::to_vec(&TensorMap::from_iter([("0", array)])).unwrap()
}

/// A sample with all kinds of files.
fn all_kinds(key: &str) -> Vec<u8> {
    let pair = TensorMap::from_iter([("left", array![1.0_f32]), ("right", array![2.0])]);
    let several = ten::to_vec(&[Tensor::from(array![1_u8]), Tensor::from(array![2_u8])]).unwrap();
    [
        file(&format!("{key}.image.ten"), ten(array![[1.0_f32, 2.0], [3.0, 4.0]])),
        file(&format!("{key}.mask.npy"), npy::to_vec(&Tensor::from(array![[1_u8, 0]])).unwrap()),
        file(&format!("{key}.steps.ten"), several),
        file(&format!("{key}.pair.safetensors"), safetensors::to_vec(&pair).unwrap()),
        file(&format!("{key}.packed.npz"), npz::Options::new().compress(true).to_vec(&pair).unwrap()),
        file(&format!("{key}.cls"), " 207\n"),
        file(&format!("{key}.caption.txt"), "a cat"),
        file(&format!("{key}.json"), r#"{"width": 2}"#),
        file(&format!("{key}.jpg"), b"\xff\xd8"),
        file(&format!("{key}.pickle"), b"cos\nsystem\n"),
    ]
    .concat()
}

#[derive(TensorFile, Debug, PartialEq)]
struct Pair {
    left: Array1<f32>,
    right: Array1<f32>,
}

#[derive(TensorFile, Debug, PartialEq)]
struct AllKinds {
    image: Array2<f32>,
    mask: Array2<u8>,
    steps: Vec<Array1<u8>>,
    pair: Pair,
    packed: Pair,
    cls: i64,
    #[tensor(metadata)]
    caption: String,
    #[tensor(metadata)]
    json: String,
    jpg: Blob,
    pickle: Blob,
}

fn expected() -> AllKinds {
    let pair = || Pair { left: array![1.0], right: array![2.0] };
    AllKinds {
        image: array![[1.0, 2.0], [3.0, 4.0]],
        mask: array![[1, 0]],
        steps: vec![array![1], array![2]],
        pair: pair(),
        packed: pair(),
        cls: 207,
        caption: "a cat".to_owned(),
        json: r#"{"width": 2}"#.to_owned(),
        jpg: Blob(b"\xff\xd8".to_vec()),
        pickle: Blob(b"cos\nsystem\n".to_vec()),
    }
}

#[test]
fn every_kind_of_file_is_a_field() {
    let tar = archive(&[all_kinds("a/1"), all_kinds("a/2")]);
    for (name, bytes) in [
        ("shard.tar", tar.clone()),
        ("shard.tar.gz", gzip(&tar)),
        ("shard.tar.zst", zstd(&tar)),
        ("members.gz", [gzip(&tar[..1000]), gzip(&tar[1000..])].concat()),
        // A frame that is to be skipped lies between two.
        ("frames.zst", [zstd(&tar[..1000]), b"\x50\x2a\x4d\x18\x03\0\0\0abc".to_vec(), zstd(&tar[1000..])].concat()),
        // Without its end.
        ("cut.tar", tar[..tar.len() - 1024].to_vec()),
    ] {
        let shard = ShardFile::named(name, &bytes);
        let samples: Vec<_> = shard.open().map(|sample| sample.unwrap()).collect();
        assert_eq!(samples.iter().map(|sample| sample.key.as_str()).collect::<Vec<_>>(), ["a/1", "a/2"], "{name}");
        for sample in &samples {
            assert_eq!(sample.load::<AllKinds>().unwrap(), expected(), "{name}");
            assert_eq!(sample.json::<std::collections::BTreeMap<String, u8>>("json").unwrap()["width"], 2);
            let range = sample.members[5].range.clone();
            assert_eq!(&tar[range.start as usize..range.end as usize], b" 207\n");
        }
        assert_eq!((samples[0].range().start, samples[0].range().end), (0, samples[1].range().start), "{name}");
    }
}

#[test]
fn checkpoints_of_pytorch_are_decoded() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/pytorch");
    let mut read = 0;
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let Ok(expected) = OpenOptions::new().backend(Backend::Positioned).open(&path) else { continue };
        if path.extension().is_none_or(|extension| extension != "pt" && extension != "pth") {
            continue;
        }
        let Ok(expected) = expected.load::<TensorMap>() else { continue };
        let shard = ShardFile::new(&archive(&[file("1.x.pt", std::fs::read(&path).unwrap())]));
        let found: TensorMap = shard.open().next().unwrap().unwrap().load().unwrap();
        let expected: TensorMap = expected.into_iter().map(|(name, tensor)| (format!("x.{name}"), tensor)).collect();
        assert_eq!(found, expected, "{}", path.display());
        read += 1;
    }
    assert!(read > 3, "{read} files");
}

#[test]
fn views_borrow_from_a_mapped_shard() {
    #[derive(TensorFile)]
    struct View<'a> {
        image: ArrayView2<'a, f32>,
    }

    let tar = archive(&[file("1.image.ten", ten(array![[1.0_f32, 2.0]]))]);
    for bytes in [tar.clone(), gzip(&tar)] {
        let shard = ShardFile::new(&bytes);
        let sample = shard.open().next().unwrap().unwrap();
        let view: View<'_> = sample.load().unwrap();
        let file = sample.bytes("image.ten").unwrap().as_ptr_range();
        assert_eq!(view.image, array![[1.0, 2.0]]);
        assert!(file.contains(&view.image.as_ptr().cast()));
    }
}

#[test]
fn a_mismatch_is_a_report_with_shard_key_and_offset() {
    #[derive(TensorFile, Debug)]
    struct Wanted {
        image: Array2<u8>,
        label: i64,
        #[tensor(metadata)]
        caption: String,
    }

    let shard =
        ShardFile::new(&archive(&[file("0.txt", ""), file("1.image.ten", ten(array![1.0_f32])), file("1.text", "")]));
    let sample = shard.open().nth(1).unwrap().unwrap();
    let error = sample.load::<Wanted>().unwrap_err();
    let expected = format!(
        "{}: sample `1` at byte 512: 1 missing, 1 wrong dtype, 1 missing metadata; 0 of 1 tensor fits\n\
         missing:\n  `label`  i64[]\nwrong dtype (`#[tensor(cast)]` converts numbers):\n  `image`  f32[1], but expected u8\n\
         missing metadata:\n  `caption`  a string",
        shard.location()
    );
    assert_eq!(error.to_string(), expected);
    assert!(matches!(error.kind(), ErrorKind::Load(_)));
    assert_eq!((error.key(), error.offset(), error.shard()), (Some("1"), Some(512), Some(shard.location())));
}

#[test]
fn errors_of_files_have_offsets_in_the_shard() {
    let mut broken = ten(array![1.0_f32]);
    broken[100] = 9;
    broken[16] = b'q';
    let tar = archive(&[
        file("0.txt", ""),
        file("1.x.ten", &ten(array![1.0_f32])[..20]),
        file("2.cls", "x"),
        file("3.txt", b"\xff"),
    ]);
    for bytes in [tar.clone(), gzip(&tar)] {
        let shard = ShardFile::new(&bytes);
        let samples: Vec<_> = shard.open().skip(1).map(Result::unwrap).collect();
        let errors = samples.iter().map(|sample| match &*sample.key {
            "2" => sample.load::<i64>().unwrap_err(),
            _ => sample.load::<TensorMap>().unwrap_err(),
        });
        let errors: Vec<String> = errors.map(|error| error.to_string().replace(shard.location(), "S")).collect();
        assert_eq!(
            errors,
            [
                "S: sample `1` at byte 512: ten: tensor `#0`: needs 8 more bytes, but the file has 4 left (at byte 1040)",
                "S: sample `2` at byte 1536: tensor `cls`: found `x`, but expected an i64 as text (at byte 2048)",
                "S: sample `3` at byte 2560: `txt` is not UTF-8: it has `\\xff`",
            ]
        );
    }
}

#[test]
fn a_stream_holds_one_sample_within_the_limit() {
    let tar = archive(&[file("1.x", [1; 2000]), file("2.x", [2; 3000])]);
    let shard = ShardFile::named("a.tar.gz", &gzip(&tar));
    let mut samples = Shard::with_limits(shard.location(), held(3000)).unwrap();
    assert_eq!(samples.next().unwrap().unwrap().bytes("x").unwrap(), [1; 2000]);
    let error = samples.next().unwrap().unwrap_err();
    let expected = format!(
        "{}: sample `2` at byte 2560: number of bytes of a sample is 3512, but the limit is 3000",
        shard.location()
    );
    assert_eq!(error.to_string(), expected);
    assert!(samples.next().is_none());
    // A mapped shard holds nothing.
    let mapped = ShardFile::new(&tar);
    assert_eq!(keys(Shard::with_limits(mapped.location(), held(3000)).unwrap()), ["1", "2"]);
}

#[test]
fn a_range_begins_and_ends_at_headers() {
    let tar = archive(&(0..10).map(|i| file(&format!("{i}.txt"), "x")).collect::<Vec<_>>());
    for bytes in [tar.clone(), gzip(&tar), zstd(&tar)] {
        let shard = ShardFile::new(&bytes);
        let starts: Vec<u64> = shard.open().map(|sample| sample.unwrap().range().start).collect();
        let some = shard.open().with_range(starts[3]..starts[6]).unwrap();
        assert_eq!(keys(some), ["3", "4", "5"]);
        assert_eq!(keys(shard.open().with_range(starts[8]..u64::MAX).unwrap()), ["8", "9"]);
        assert_eq!(keys(shard.open().with_range(starts[8]..starts[8]).unwrap()), [""; 0]);
    }
}

#[test]
fn broken_samples_and_shards_can_be_skipped() {
    let good = ShardFile::new(&archive(&[
        file("1.cls", "1"),
        file("2.cls", "two"),
        file("3.cls", "3"),
        file("3.cls", "3"),
        file("4.cls", "4"),
    ]));
    std::fs::write(good.folder.path().join("b.tar"), &archive(&[file("5.cls", "5")])[..512]).unwrap();
    std::fs::write(good.folder.path().join("c.tar"), archive(&[file("6.cls", "6")])).unwrap();
    let paths =
        ["shard.tar", "b.tar", "missing.tar", "c.tar"].map(|name| text(&good.folder.path().join(name)).to_owned());

    #[derive(TensorFile)]
    struct Label {
        cls: i64,
    }

    let mut labels = Shards::from_locations(paths.clone()).on_error(OnError::Skip).load::<Label>();
    assert_eq!(labels.by_ref().map(|label| label.unwrap().cls).collect::<Vec<_>>(), [1, 4, 6]);
    let skipped = labels.shards().skipped();
    assert_eq!((skipped.samples, skipped.shards), (2, 2));
    assert!(skipped.last.as_ref().unwrap().to_string().contains("missing.tar: "));

    let mut labels = Shards::from_locations(paths).load::<Label>();
    assert_eq!(labels.next().unwrap().unwrap().cls, 1);
    assert!(labels.next().unwrap().is_err() && labels.next().is_none());
}
