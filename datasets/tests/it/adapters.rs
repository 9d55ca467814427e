//! Splits, shuffles, batches, threads, and resuming after a stop.

use std::collections::BTreeSet;
use std::path::Path;

use ndarray::{Array1, array};
use tensorfile::{Tensor, TensorMap};
use tensorfile_datasets::{Batches, Column, Loader, OnError, Resume, ShardWriter, Shards, State};

use crate::support::{ShardFile, archive, file, gzip, held, keys, text};

/// Writes samples `0`, `1`, … in shards of seven, every second one compressed.
fn write(folder: &Path, samples: usize) -> Vec<String> {
    let mut writer = ShardWriter::new(folder.join("a-{0..}.tar")).unwrap().max_samples(7);
    for i in 0..samples {
        let mut map = TensorMap::from_iter([("x", array![i as f32, 1.0])]);
        map.insert("ragged", Array1::from_elem(1 + i % 2, 1_u8));
        if i % 3 == 0 {
            map.insert("some", array![1_i32]);
        }
        writer.write(&i.to_string(), &map).unwrap();
    }
    let paths = writer.finish().unwrap().into_iter().map(|shard| shard.path);
    let compress = |(i, path): (usize, std::path::PathBuf)| {
        if i % 2 == 1 {
            let bytes = std::fs::read(&path).unwrap();
            std::fs::write(&path, gzip(&bytes)).unwrap();
        }
        text(&path).to_owned()
    };
    paths.enumerate().map(compress).collect()
}

fn numbers(samples: impl Iterator<Item = tensorfile_datasets::Result<tensorfile_datasets::Sample>>) -> Vec<usize> {
    keys(samples).iter().map(|key| key.parse().unwrap()).collect()
}

#[test]
fn nodes_and_workers_share_the_shards() {
    let folder = tempfile::tempdir().unwrap();
    let paths = write(folder.path(), 70);
    let mut all = Vec::new();
    for (rank, worker) in [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)] {
        all.extend(numbers(Shards::from_locations(paths.clone()).split_by_node(rank, 3).split_by_worker(worker, 2)));
    }
    all.sort_unstable();
    assert_eq!(all, (0..70).collect::<Vec<_>>());
}

#[test]
fn a_shuffle_depends_on_its_seed_only() {
    let folder = tempfile::tempdir().unwrap();
    let paths = write(folder.path(), 40);
    let shuffled = |size, seed| numbers(Shards::from_locations(paths.clone()).shuffle(size, seed));
    let one = shuffled(10, 1);
    assert_eq!(one, shuffled(10, 1));
    assert_ne!(one, shuffled(10, 2));
    assert_eq!(one.iter().copied().collect::<BTreeSet<_>>(), (0..40).collect());
    // None comes before it was read.
    assert!(one.iter().enumerate().all(|(place, number)| *number < place + 10));
    assert_eq!(shuffled(1, 5), (0..40).collect::<Vec<_>>());
    assert_eq!(shuffled(0, 5), (0..40).collect::<Vec<_>>());
}

#[test]
fn every_iterator_goes_on_from_its_state() {
    let folder = tempfile::tempdir().unwrap();
    let paths = write(folder.path(), 30);
    let open = || Shards::from_locations(paths.clone());
    let through_json =
        |state: State| -> State { serde_json::from_str(&serde_json::to_string(&state).unwrap()).unwrap() };
    for taken in 0..=30 {
        let mut plain = open();
        assert_eq!(numbers(plain.by_ref().take(taken)).len(), taken);
        let mut resumed = open();
        resumed.resume(&through_json(plain.state())).unwrap();
        assert_eq!(numbers(resumed), numbers(plain), "after {taken}");

        let mut shuffled = open().shuffle(8, 3);
        shuffled.by_ref().take(taken).for_each(drop);
        let mut resumed = open().shuffle(8, 99);
        resumed.resume(&through_json(shuffled.state())).unwrap();
        assert_eq!(numbers(resumed), numbers(shuffled), "after {taken}");

        let mut loader = Loader::new(open().shuffle(8, 3), 3, |sample| Ok(sample.key.clone()));
        let begin: Vec<String> = loader.by_ref().take(taken).map(Result::unwrap).collect();
        let mut resumed = open().shuffle(8, 99);
        resumed.resume(&through_json(loader.state())).unwrap();
        assert_eq!(keys(resumed), loader.map(Result::unwrap).collect::<Vec<_>>(), "after {taken}");
        assert_eq!(begin, keys(open().shuffle(8, 3).take(taken)));
    }
    let mut batches = Batches::new(open(), 4);
    batches.next().unwrap().unwrap();
    let mut resumed = Batches::new(open(), 4);
    resumed.resume(&batches.state()).unwrap();
    assert_eq!(resumed.next().unwrap().unwrap().keys, ["4", "5", "6", "7"]);

    let others = Shards::from_locations(["other.tar"]).resume(&batches.state()).unwrap_err();
    assert_eq!(others.to_string(), format!("the state is one of other shards: `{}` is not among them", paths[0]));
    let none = open().shuffle(8, 1).resume(&batches.state()).unwrap_err();
    assert_eq!(none.to_string(), "the state is not one of a shuffle");
    // Its buffer would be lost.
    let mut shuffled = open().shuffle(8, 1);
    shuffled.next().unwrap().unwrap();
    let lost = open().resume(&shuffled.state()).unwrap_err();
    let expected = "the state is one of a shuffle, whose buffer has 7 samples; shuffle these shards too";
    assert_eq!(lost.to_string(), expected);
}

#[test]
fn batches_stack_what_agrees() {
    let folder = tempfile::tempdir().unwrap();
    let paths = write(folder.path(), 5);
    let batches: Vec<_> = Batches::new(Shards::from_locations(paths), 3).map(Result::unwrap).collect();
    assert_eq!(batches.iter().map(|batch| batch.keys.len()).collect::<Vec<_>>(), [3, 2]);
    let x = array![[0.0_f32, 1.0], [1.0, 1.0], [2.0, 1.0]];
    assert_eq!(batches[0].tensors["x"], Column::Stacked(Tensor::from(x)));
    let some = |len: usize| Some(Tensor::from(Array1::from_elem(len, 1_u8)));
    assert_eq!(batches[0].tensors["ragged"], Column::Separate(vec![some(1), some(2), some(1)]));
    let third = Some(Tensor::from(array![1_i32]));
    assert_eq!(batches[0].tensors["some"], Column::Separate(vec![third, None, None]));
}

#[test]
fn a_loader_keeps_the_order_and_reports_errors_and_panics() {
    let folder = tempfile::tempdir().unwrap();
    let paths = write(folder.path(), 60);
    for threads in [0, 1, 2, 5] {
        let loader = Loader::new(Shards::from_locations(paths.clone()), threads, |sample| {
            // Some take longer.
            if sample.key.ends_with('3') {
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            Ok(sample.load::<TensorMap>()?["x"].array::<f32>()?[0])
        });
        assert_eq!(loader.map(Result::unwrap).collect::<Vec<_>>(), (0..60).map(|i| i as f32).collect::<Vec<_>>());
    }
    // Dropped early, it ends its threads.
    drop(Loader::new(Shards::from_locations(paths.clone()), 2, |sample| Ok(sample.key.clone())));

    std::fs::write(&paths[2], "broken").unwrap();
    let broken = || Shards::from_locations(paths.clone());
    let loaded: Vec<_> = Loader::new(broken(), 2, |sample| Ok(sample.key.clone())).collect();
    assert!(loaded.len() == 15 && loaded[14].is_err());
    let skipped = Loader::new(broken().on_error(OnError::Skip), 2, |sample| Ok(sample.key.clone()));
    assert_eq!(skipped.map(Result::unwrap).count(), 53);

    let mut panics = Loader::new(broken(), 2, |sample| if sample.key == "5" { panic!("five") } else { Ok(()) });
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| panics.by_ref().for_each(drop))).unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"five"));
}

/// The limit applies to all held samples together, not to each of them.
#[test]
fn buffers_of_streams_hold_no_more_than_the_limit() {
    let tar = archive(&(0..4).map(|i| file(&format!("{i}.x"), [i; 2000])).collect::<Vec<_>>());
    let (stream, mapped) = (ShardFile::named("a.tar.gz", &gzip(&tar)), ShardFile::new(&tar));
    let shards = |shard: &ShardFile, limit| Shards::new(shard.location()).unwrap().limits(held(limit));
    let expected = |held| format!("number of bytes held by samples in a buffer is {held}, but the limit is 7000");
    for shard in [&stream, &mapped] {
        assert_eq!(shards(shard, 7000).shuffle(2, 1).map(Result::unwrap).count(), 4);
        assert_eq!(Batches::new(shards(shard, 7000), 2).map(Result::unwrap).count(), 2);
        assert_eq!(Batches::new(shards(shard, 1 << 20), 4).map(Result::unwrap).count(), 1);
    }
    let mut shuffled = shards(&stream, 7000).shuffle(4, 1);
    let error = shuffled.next().unwrap().unwrap_err();
    assert!(error.to_string().contains(&expected(7536)), "{error}");
    assert_eq!((error.category(), error.key()), (tensorfile::Category::Limit, Some("2")));
    assert!(shuffled.next().is_none());
    let error = Batches::new(shards(&stream, 7000), 4).next().unwrap().unwrap_err();
    assert!(error.to_string().contains(&expected(7536)), "{error}");
    assert_eq!(shards(&mapped, 7000).shuffle(4, 1).map(Result::unwrap).count(), 4);
}
