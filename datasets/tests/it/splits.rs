//! Jobs divided into splits: planned, read, written and committed.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use ndarray::{Array1, array};
use tempfile::TempDir;
use tensorfile::{File, Tensor, TensorFile, TensorMap};
use tensorfile_datasets::splits::{
    Extent, Part, PartWriter, Piece, Planner, Rows, Split, commit, commit_by_length, files, splits,
};
use tensorfile_datasets::{Column, Error, ShardWriter, Shards};

use crate::support::{ShardFile, archive, file, gzip, keys};

#[derive(TensorFile, Debug, PartialEq)]
struct Row {
    x: Array1<f32>,
    label: i64,
    #[tensor(metadata)]
    text: String,
}

fn row(label: i64) -> Row {
    Row { x: Array1::from_elem(4, label as f32), label, text: format!("row {label}") }
}

/// A folder with inputs, and one for parts.
struct Job(TempDir);

impl Job {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// Writes shards of `samples` samples each. Returns their paths, not in order.
    fn shards(&self, count: usize, samples: i64) -> Vec<String> {
        let mut writer = ShardWriter::new(self.path("in-{000..}.tar")).unwrap().max_samples(samples.cast_unsigned());
        for label in 0..i64::try_from(count).unwrap() * samples {
            writer.write(&format!("{label:05}"), &row(label)).unwrap();
        }
        writer.finish().unwrap();
        (0..count).rev().map(|i| self.path(&format!("in-{i:03}.tar"))).collect()
    }

    fn model(&self, name: &str, lengths: &[usize]) -> String {
        let tensors = lengths.iter().enumerate().map(|(i, len)| (format!("w{i}"), Array1::from_elem(*len, i as u8)));
        tensorfile::save(self.path(name), &TensorMap::from_iter(tensors)).unwrap();
        self.path(name)
    }

    fn part(&self, split: &Split, format: &str) -> Part {
        let mut part = PartWriter::new(self.path("out"), split, format).unwrap();
        part.copy(split).unwrap();
        part.finish().unwrap()
    }

    /// Returns the names in the folder of parts.
    fn listed(&self) -> BTreeSet<String> {
        let entries = fs::read_dir(self.path("out")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    /// Returns the message of an error without the folder.
    fn message(&self, error: &Error) -> String {
        error.to_string().replace(&format!("{}/", self.0.path().display()), "")
    }
}

fn pieces(plan: &[Split]) -> Vec<Vec<(String, Extent)>> {
    let name = |piece: &Piece| piece.location.rsplit('/').next().unwrap().to_owned();
    plan.iter().map(|split| split.pieces.iter().map(|piece| (name(piece), piece.extent.clone())).collect()).collect()
}

#[test]
fn folders_and_patterns_stand_for_files() {
    let job = Job::new();
    fs::create_dir(job.path("empty")).unwrap();
    let shards = job.shards(3, 1);
    let model = job.model("m.safetensors", &[3]);
    fs::write(job.path("notes.txt"), "").unwrap();
    let found = |pattern: &str| files(&[job.path(pattern)]);
    assert_eq!(found("in-{000..001}.tar").unwrap(), [shards[2].clone(), shards[1].clone()]);
    assert_eq!(found("in-*2.tar").unwrap(), [shards[0].clone()]);
    assert_eq!(found("").unwrap(), [shards[2].clone(), shards[1].clone(), shards[0].clone(), model]);
    assert_eq!(job.message(&found("empty").unwrap_err()), "empty: is a folder without shards and tensor files");
    // A checkpoint is one file.
    let plan = splits(&[job.path("m.safetensors")], 1).unwrap();
    commit(job.path("out"), [job.part(&plan[0], "safetensors")]).unwrap();
    assert_eq!(found("out").unwrap(), [job.path("out")]);
    assert_eq!(
        splits(&[job.path("out")], 1 << 20).unwrap()[0].read().map(|_| ()).map_err(|error| error.to_string()),
        Ok(())
    );
}

#[test]
fn files_are_grouped_by_bytes_in_any_order_of_input() {
    let job = Job::new();
    let shards = job.shards(5, 2);
    let bytes = fs::metadata(&shards[0]).unwrap().len();
    let all = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), Extent::All)).collect::<Vec<_>>();
    let expected = [all(&["in-000.tar", "in-001.tar"]), all(&["in-002.tar", "in-003.tar"]), all(&["in-004.tar"])];
    let plan = splits(&shards, bytes * 2).unwrap();
    assert_eq!(pieces(&plan), expected);
    assert_eq!(plan.iter().map(|split| (split.number, split.of)).collect::<Vec<_>>(), [(1, 3), (2, 3), (3, 3)]);

    let mut sorted = shards.clone();
    sorted.sort();
    assert_eq!(splits(&sorted, bytes * 2).unwrap(), plan);
    assert_eq!(splits(&sorted, bytes * 2 + 1).unwrap(), plan, "the same division is the same plan");
    assert_ne!(splits(&sorted[1..], bytes * 2).unwrap()[0].plan, plan[0].plan);
    assert_ne!(splits(&sorted, bytes * 5).unwrap()[0].plan, plan[0].plan);
}

#[test]
fn a_count_gives_splits_of_about_the_same_size() {
    for (count, lengths, expected) in [
        (1, &[1, 2, 3][..], &[3][..]),
        (2, &[10, 10, 10, 10], &[2, 2]),
        (3, &[10, 10, 10, 10], &[1, 2, 1]),
        (4, &[10, 10], &[1, 1]),
        (2, &[100, 1, 1, 1], &[1, 3]),
        (3, &[0, 0, 0], &[3]),
    ] {
        let listed = lengths.iter().enumerate().map(|(i, len)| (format!("{i}.tar"), *len));
        let plan = Planner::by_count(count).whole_files(true).plan_listed(listed).unwrap();
        let found: Vec<_> = plan.iter().map(|split| split.pieces.len()).collect();
        assert_eq!(found, expected, "{count} of {lengths:?}");
    }
}

#[test]
fn every_sample_is_in_one_split() {
    let job = Job::new();
    let shards = job.shards(3, 7);
    let expected: Vec<_> = (0..21).map(|label| format!("{label:05}")).collect();
    let bytes = fs::metadata(&shards[0]).unwrap().len();
    for target in [1, 1000, 3000, 5000, bytes - 1, bytes, 1 << 20] {
        let plan = splits(&shards, target).unwrap();
        let found: Vec<_> = plan.iter().flat_map(|split| keys(split.samples().unwrap())).collect();
        assert_eq!(found, expected, "{target}");
    }
    assert_eq!(splits(&shards, 1).unwrap().len(), 21, "a longer sample is a split");
    for count in [1, 2, 5, 21, 100] {
        let plan = Planner::by_count(count).plan(&shards).unwrap();
        assert_eq!(plan.len(), count.min(21));
        let found: Vec<_> = plan.iter().flat_map(|split| keys(split.samples().unwrap())).collect();
        assert_eq!(found, expected, "{count}");
    }
}

#[test]
fn a_compressed_shard_is_left_whole() {
    let shard = ShardFile::named("a.tar.gz", &gzip(&archive(&[file("1.txt", "a"), file("2.txt", "b")])));
    let plan = splits(&[shard.location().to_owned()], 1).unwrap();
    assert_eq!(pieces(&plan), [[("a.tar.gz".to_owned(), Extent::All)]]);
    assert_eq!(keys(plan[0].samples().unwrap()), ["1", "2"]);
}

#[test]
fn a_long_file_is_divided_between_its_tensors() {
    let job = Job::new();
    let model = job.model("m.safetensors", &[100, 50, 50, 300, 10]);
    let plan = splits(&[model], 100).unwrap();
    let ranges: Vec<_> = plan.iter().map(|split| split.pieces[0].extent.clone()).collect();
    // In the order of the file.
    let names: Vec<Vec<String>> = plan
        .iter()
        .map(|split| match split.read().unwrap() {
            Rows::Tensors(rows) => rows.into_iter().map(|row| row.name).collect(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(ranges, [0..1, 1..3, 3..4, 4..5].map(Extent::Tensors));
    assert_eq!(names.concat(), ["w0", "w1", "w2", "w3", "w4"]);
    let parts = plan.iter().map(|split| job.part(split, "safetensors"));
    let committed = commit(job.path("out"), parts.collect::<Vec<_>>()).unwrap();
    assert_eq!(committed.rows, 5);
    let (old, new) = (File::open(job.path("m.safetensors")).unwrap(), File::open(job.path("out")).unwrap());
    assert_eq!(new.path().unwrap(), committed.index);
    assert_eq!(old.load::<TensorMap>().unwrap(), new.load::<TensorMap>().unwrap());
}

#[test]
fn plans_refuse_what_is_not_one_job() {
    let plan = |locations: &[&str]| {
        let listed = locations.iter().map(|location| ((*location).to_owned(), 1));
        Planner::by_bytes(10).plan_listed(listed).unwrap_err().to_string()
    };
    assert_eq!(plan(&[]), "there are no files to split");
    assert_eq!(plan(&["a.npy", "b.npy", "a.npy"]), "the file a.npy is there twice");
    assert_eq!(
        plan(&["a.npy", "b.tar"]),
        "b.tar is a shard of samples and a.npy is not, so they are jobs of their own"
    );
    assert_eq!(
        plan(&["https://host/a.npy?sig=secret", "https://host/a.npy?sig=secret"]),
        "the file https://host/a.npy is there twice"
    );
    let job = Job::new();
    let error = splits(&[job.path("no.npy")], 1).unwrap_err();
    assert_eq!(job.message(&error), "no.npy: No such file or directory (os error 2)");
}

#[test]
fn rows_of_samples_are_columns() {
    let job = Job::new();
    let plan = splits(&job.shards(1, 3), 1 << 20).unwrap();
    let Rows::Samples(batch) = plan[0].read().unwrap() else { panic!("they are samples") };
    assert_eq!(batch.keys, ["00000", "00001", "00002"]);
    let Column::Stacked(x) = &batch.tensors["x"] else { panic!("they have one shape") };
    assert_eq!(x.shape().dims(), [3, 4]);
    assert_eq!(batch.metadata["text"][2].as_deref(), Some("row 2"));

    let Rows::Samples(batch) = plan[0].read_columns(Some(&["label"])).unwrap() else { panic!("they are samples") };
    assert_eq!((batch.keys.len(), batch.tensors.len(), batch.metadata.len()), (3, 1, 0));
    assert!(batch.tensors.contains_key("label"));
}

#[test]
fn rows_of_files_are_tensors() {
    let job = Job::new();
    let plan = splits(&[job.model("a.safetensors", &[3, 4])], 1 << 20).unwrap();
    let Rows::Tensors(rows) = plan[0].read_columns(Some(&["name", "shape"])).unwrap() else {
        panic!("they are tensors")
    };
    assert_eq!((&*rows[1].name, rows[1].info.shape.dims()), ("w1", &[4][..]));
    assert!(rows.iter().all(|row| row.data.is_none()));
    let error = plan[0].read_columns(Some(&["name", "size"])).unwrap_err();
    assert_eq!(error.to_string(), "tensors have no column `size`, but path, name, dtype, shape, data");
    let error = plan[0].samples().err().expect("there are none");
    assert_eq!(error.to_string(), "the split has tensors, not samples");
}

#[test]
fn a_file_that_changed_is_not_read() {
    let job = Job::new();
    for location in [job.model("a.safetensors", &[3]), job.shards(1, 3).remove(0)] {
        let plan = splits(std::slice::from_ref(&location), 1 << 20).unwrap();
        let mut bytes = fs::read(&location).unwrap();
        bytes.extend([0; 512]);
        fs::write(&location, bytes).unwrap();
        let error = plan[0].read().unwrap_err();
        let name = location.rsplit('/').next().unwrap();
        assert_eq!(job.message(&error), format!("{name}: the file changed after the job was planned"));
    }
}

#[test]
fn splits_that_nobody_planned_are_errors() {
    let job = Job::new();
    let (model, shard) = (job.model("a.safetensors", &[3, 4]), job.shards(1, 3).remove(0));
    let changed = "the file changed after the job was planned";
    for (location, extent, expected) in [
        (&model, Extent::Tensors(0..3), format!("a.safetensors: {changed}")),
        (&model, Extent::Tensors(5..usize::MAX), format!("a.safetensors: {changed}")),
        (&model, Extent::Bytes(0..1), format!("a.safetensors: {changed}")),
        (&shard, Extent::Tensors(0..1), "in-000.tar has samples, not tensors".to_owned()),
    ] {
        let mut split = splits(std::slice::from_ref(location), 1 << 20).unwrap().remove(0);
        split.pieces[0].extent = extent;
        assert_eq!(job.message(&split.read().unwrap_err()), expected);
    }
    let mut split = splits(std::slice::from_ref(&shard), 1 << 20).unwrap().remove(0);
    for range in [7..100_000, 512..600, u64::MAX - 1..u64::MAX] {
        split.pieces[0].extent = Extent::Bytes(range);
        // Errors or nothing, but no panic.
        let _ = split.read();
    }
}

#[test]
fn shards_are_packed_anew() {
    let job = Job::new();
    let shards = job.shards(4, 5);
    let plan = Planner::by_count(3).plan(&shards).unwrap();
    let parts: Vec<_> = plan.iter().map(|split| job.part(split, "tar")).collect();
    let committed = commit(job.path("out"), parts.clone()).unwrap();
    let names = ["part-00001-of-00003.tar", "part-00002-of-00003.tar", "part-00003-of-00003.tar"];
    assert_eq!((&committed.files[..], committed.rows), (&names.map(str::to_owned)[..], 20));
    assert_eq!(job.listed(), names.iter().copied().chain(["index.json"]).map(str::to_owned).collect());

    let rows = Shards::from_locations(committed.files.iter().map(|name| job.path(&format!("out/{name}"))));
    let rows: Vec<Row> = rows.load().collect::<Result<_, _>>().unwrap();
    assert_eq!(rows, (0..20).map(row).collect::<Vec<_>>());

    let index: serde_json::Value = serde_json::from_slice(&fs::read(&committed.index).unwrap()).unwrap();
    assert_eq!(index["__kind__"], "wids-shard-index-v1");
    let shard = &index["shardlist"][1];
    assert_eq!((&shard["url"], &shard["nsamples"]), (&names[1].into(), &parts[1].rows.into()));
    assert_eq!(shard["blake3"], blake3::hash(&fs::read(job.path("out/part-00002-of-00003.tar")).unwrap()).to_string());
}

#[test]
fn samples_become_files_of_tensors() {
    let job = Job::new();
    let plan = splits(&job.shards(1, 2), 1 << 20).unwrap();
    let mut part = PartWriter::new(job.path("out"), &plan[0], "safetensors").unwrap();
    let error = part.copy(&plan[0]).unwrap_err();
    let message = "cannot store the text `text` of a sample in safetensors; write tar, or leave the column out";
    assert_eq!(error.to_string(), format!("sample `00000`: {message}"));
    drop(part);
    assert!(job.listed().is_empty(), "a dropped attempt leaves nothing");

    let mut part = PartWriter::new(job.path("out"), &plan[0], "safetensors").unwrap();
    for label in 0..2_i64 {
        let sample = TensorMap::from_iter([("x", array![label])]);
        part.sample(&format!("{label}"), &sample).unwrap();
    }
    let committed = commit(job.path("out"), [part.finish().unwrap()]).unwrap();
    let file = File::open(committed.index).unwrap();
    assert_eq!(file.tensors().map(|tensor| tensor.name()).collect::<Vec<_>>(), ["0.x", "1.x"]);
}

#[test]
fn tensors_of_several_files_are_called_by_their_paths() {
    let job = Job::new();
    fs::create_dir(job.path("deep")).unwrap();
    let files = [job.model("deep/a.safetensors", &[1, 2]), job.model("b.ptd", &[3]), job.path("deep/c.npy")];
    tensorfile::save(&files[2], &TensorMap::from_iter([("0", array![1_u8])])).unwrap();
    let plan = Planner::by_count(2).plan(&files).unwrap();
    let committed = commit(job.path("out"), plan.iter().map(|split| job.part(split, "safetensors"))).unwrap();
    let file = File::open(committed.index).unwrap();
    let names: BTreeSet<_> = file.tensors().map(|tensor| tensor.name()).collect();
    assert_eq!(names, BTreeSet::from(["b.w0", "deep/a.w0", "deep/a.w1", "deep/c"]));

    // A single file keeps its names.
    let plan = splits(&files[2..], 1 << 20).unwrap();
    let mut part = PartWriter::new(job.path("one"), &plan[0], "safetensors").unwrap();
    part.copy(&plan[0]).unwrap();
    assert_eq!(part.finish().unwrap().tensors, ["c"]);
}

#[test]
fn attempts_at_the_same_time_make_one_part() {
    let job = Job::new();
    let plan = splits(&job.shards(1, 50), 1 << 20).unwrap();
    let parts: Vec<Part> = std::thread::scope(|scope| {
        let attempts: Vec<_> = (0..8).map(|_| scope.spawn(|| job.part(&plan[0], "tar"))).collect();
        attempts.into_iter().map(|attempt| attempt.join().unwrap()).collect()
    });
    assert!(parts.iter().all(|part| *part == parts[0]));
    assert_eq!(job.listed(), BTreeSet::from(["part-00001-of-00001.tar".to_owned()]));
    assert_eq!(commit(job.path("out"), parts).unwrap().rows, 50);
}

#[test]
fn an_attempt_with_other_bytes_is_an_error() {
    let job = Job::new();
    let plan = splits(&job.shards(1, 2), 1 << 20).unwrap();
    let first = job.part(&plan[0], "tar");
    let mut second = PartWriter::new(job.path("out"), &plan[0], "tar").unwrap();
    second.sample("a", &TensorMap::from_iter([("x", array![1_u8])])).unwrap();
    let error = second.finish().unwrap_err();
    let message = "an earlier attempt or another job wrote other bytes; remove the file if it is of another job";
    assert_eq!(job.message(&error), format!("out/part-00001-of-00001.tar: {message}"));
    assert_eq!(job.listed(), BTreeSet::from(["part-00001-of-00001.tar".to_owned()]));
    assert_eq!(commit(job.path("out"), [first]).unwrap().rows, 2);
}

#[test]
fn a_lost_attempt_is_removed_at_the_end() {
    let job = Job::new();
    let plan = splits(&job.shards(1, 2), 1 << 20).unwrap();
    let mut lost = PartWriter::new(job.path("out"), &plan[0], "tar").unwrap();
    lost.copy(&plan[0]).unwrap();
    // As if its process was killed.
    std::mem::forget(lost);
    let part = job.part(&plan[0], "tar");
    // One that is slow, and not lost.
    let mut slow = PartWriter::new(job.path("out"), &plan[0], "tar").unwrap();
    slow.copy(&plan[0]).unwrap();
    assert_eq!(job.listed().len(), 3);
    let committed = commit(job.path("out"), [part.clone()]).unwrap();
    assert_eq!(slow.finish().unwrap(), part, "it agrees, without its file");
    let expected = BTreeSet::from(["index.json".to_owned(), "part-00001-of-00001.tar".to_owned()]);
    assert_eq!(job.listed(), expected);
    assert_eq!(commit(job.path("out"), [part]).unwrap(), committed, "it can be done again");
    assert_eq!(job.listed(), expected);
}

#[test]
fn a_split_without_rows_has_no_file() {
    let job = Job::new();
    let plan = Planner::by_count(2).plan(&job.shards(2, 2)).unwrap();
    let empty = PartWriter::new(job.path("out"), &plan[0], "tar").unwrap().finish().unwrap();
    assert_eq!((empty.file.as_deref(), empty.rows, empty.bytes), (None, 0, 0));
    let committed = commit(job.path("out"), [job.part(&plan[1], "tar"), empty]).unwrap();
    assert_eq!(committed.files, ["part-00002-of-00002.tar"]);
}

#[test]
fn commit_refuses_what_is_not_every_split_once() {
    let job = Job::new();
    let shards = job.shards(3, 2);
    let plan = Planner::by_count(3).plan(&shards).unwrap();
    let parts: Vec<Part> = plan.iter().map(|split| job.part(split, "tar")).collect();
    let change = |change: &dyn Fn(&mut Part)| {
        let mut part = parts[1].clone();
        change(&mut part);
        [parts[0].clone(), part, parts[2].clone()].to_vec()
    };
    let twice = |change: &dyn Fn(&mut Part)| {
        let mut part = parts[1].clone();
        change(&mut part);
        [parts.clone(), vec![part]].concat()
    };
    let plan = &parts[0].plan;
    for (parts, expected) in [
        (vec![], "there are no parts".to_owned()),
        (parts[1..].to_vec(), "split 1 of 3 is missing".to_owned()),
        (parts[..2].to_vec(), "split 3 of 3 is missing".to_owned()),
        (change(&|part| part.number = 3), "split 2 of 3 is missing".to_owned()),
        (twice(&|part| part.number = 4), "there are 4 parts of 3".to_owned()),
        (twice(&|part| part.number = usize::MAX), "split 4 of 3 is missing".to_owned()),
        (twice(&|part| part.digest.0[0] ^= 1), "split 2 of 3 was written twice, with different digests".to_owned()),
        (
            change(&|part| part.plan = "0".into()),
            format!("split 1 of 3 and split 2 of 3 are of different plans: {plan} and 0"),
        ),
        (change(&|part| part.file = Some("part-9".to_owned())), "the file `part-9` of split 2 is missing".to_owned()),
        (
            change(&|part| part.file = None),
            "the file `part-00002-of-00003.tar` is not of this job; remove it".to_owned(),
        ),
    ] {
        let error = commit(job.path("out"), parts).unwrap_err();
        assert_eq!(job.message(&error), format!("out: {expected}"));
        assert!(!Path::new(&job.path("out/index.json")).exists());
    }
    fs::rename(job.path("out/part-00001-of-00003.tar"), job.path("out/gone.tar")).unwrap();
    let error = commit(job.path("out"), parts.clone()).unwrap_err();
    assert_eq!(job.message(&error), "out: the file `part-00001-of-00003.tar` of split 1 is missing");
    fs::rename(job.path("out/gone.tar"), job.path("out/part-00001-of-00003.tar")).unwrap();
    // Those that were cut or changed after they were written.
    let path = job.path("out/part-00002-of-00003.tar");
    let bytes = fs::read(&path).unwrap();
    let mut changed = bytes.clone();
    changed[600] ^= 1;
    for (bytes, found) in [
        (&bytes[..1024], format!("it has 1024 bytes instead of {}", bytes.len())),
        (&changed, "it has other bytes".to_owned()),
    ] {
        fs::write(&path, bytes).unwrap();
        let error = commit(job.path("out"), parts.clone()).unwrap_err();
        let expected = "the file `part-00002-of-00003.tar` of split 2 changed after it was written";
        assert_eq!(job.message(&error), format!("out: {expected}: {found}; remove it, and write the split again"));
        assert!(!Path::new(&job.path("out/index.json")).exists());
    }
    // By their lengths, they are not read.
    assert_eq!(commit_by_length(job.path("out"), parts.clone()).unwrap().rows, 6);
    fs::write(&path, &bytes[1..]).unwrap();
    assert!(commit_by_length(job.path("out"), parts.clone()).is_err());
    fs::write(&path, bytes).unwrap();
    let again = twice(&|_| ());
    assert_eq!(commit(job.path("out"), again).unwrap().rows, 6, "the same part twice is counted once");
}

#[test]
fn tensors_of_one_name_are_an_error() {
    let job = Job::new();
    let plan = Planner::by_count(2).plan(&job.shards(2, 1)).unwrap();
    let mut parts = Vec::new();
    for split in &plan {
        let mut part = PartWriter::new(job.path("out"), split, "safetensors").unwrap();
        let tensor = || Tensor::from_slice(&[1_u8], [1]).unwrap();
        part.tensor("w", tensor()).unwrap();
        let error = part.tensor("w", tensor()).unwrap_err();
        assert_eq!(error.to_string(), "two tensors of the split are called `w`");
        parts.push(part.finish().unwrap());
    }
    let error = commit(job.path("out"), parts).unwrap_err();
    assert_eq!(job.message(&error), "out: tensor `w` is in the parts of the splits 1 and 2");
}

#[test]
fn parts_need_a_format_with_names() {
    let job = Job::new();
    let plan = splits(&job.shards(1, 1), 1 << 20).unwrap();
    for format in ["npy", "btf", "zip"] {
        let error = PartWriter::new(job.path("out"), &plan[0], format).unwrap_err();
        let expected = format!(
            "cannot write parts of the format `{format}`; parts are tar, or a format that is written with names, such as safetensors"
        );
        assert_eq!(error.to_string(), expected);
    }
    let mut part = PartWriter::new(job.path("out"), &plan[0], "tar").unwrap();
    let error = part.tensor("w", Tensor::from_slice(&[1_u8], [1]).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "tensor `w` is not a sample, and the part is a tar");
}
