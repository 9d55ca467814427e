//! Folders with a file for each rank of a trainer that several jobs write, and folders of safetensors files.
//! `dcp_writing` has what is particular to those of `torch.distributed.checkpoint`.

use std::borrow::Cow;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tensorfile::file::{RankFolder, ReadCost, ReadRanges, finish_ranks};
use tensorfile::{Dtype, File, Format, OpenOptions, SaveOptions, TensorMap, WriteOptions, pytorch, safetensors};

use crate::support::child::{Child, ready};
use crate::support::{folder, message, tensor};

/// The formats of the files, each with a name of one of them.
fn kinds() -> [(&'static Format, &'static str); 2] {
    [(&pytorch::FORMAT, "__0_0.distcp"), (&safetensors::FORMAT, "shard-00001-model-00001-of-00001.safetensors")]
}

fn map() -> TensorMap {
    let shapes: [&[usize]; 7] = [&[], &[0], &[1], &[7], &[2, 3], &[9, 2, 1], &[4, 3, 2, 2]];
    let dtypes = [Dtype::U8, Dtype::F32, Dtype::Bf16, Dtype::F64, Dtype::Bool, Dtype::C64];
    let all = dtypes.iter().flat_map(|dtype| shapes.map(|shape| (*dtype, shape)));
    all.map(|(dtype, shape)| (format!("{dtype}{shape:?}"), tensor(dtype, shape))).collect()
}

/// Returns the names and bytes of the files in a folder, in order.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap()))
        .collect();
    files.sort();
    files
}

fn load(folder: &Path) -> TensorMap {
    let map: TensorMap = File::open(folder).unwrap().load().unwrap();
    let mut tensors: Vec<_> = map.into_iter().collect();
    tensors.sort_by(|(one, _), (other, _)| one.cmp(other));
    tensors.into_iter().collect()
}

fn sorted(map: &TensorMap) -> TensorMap {
    let mut tensors: Vec<_> = map.iter().map(|(name, tensor)| (name.to_owned(), tensor.clone())).collect();
    tensors.sort_by(|(one, _), (other, _)| one.cmp(other));
    tensors.into_iter().collect()
}

#[test]
fn files_of_safetensors_are_read_by_their_own_crate() {
    let (map, folder) = (map(), tempfile::tempdir().unwrap());
    for ranks in [1, 2, 3, 8] {
        let path = folder.path().join(ranks.to_string());
        let division = RankFolder::new(ranks).shard_dim(|name| usize::from(name == "f32[2, 3]"));
        SaveOptions::new().format(&safetensors::FORMAT).ranks(division).save(&path, &map).unwrap();
        let file = File::open(&path).unwrap();
        assert_eq!(file.warnings().unwrap(), []);
        assert_eq!(load(&path), sorted(&map), "{ranks} ranks");
        // Divided again, and in the other kind of folder.
        let again = folder.path().join(format!("{ranks}-again"));
        SaveOptions::new().ranks(3).save(&again, &file).unwrap();
        assert_eq!(load(&again), sorted(&map), "{ranks} ranks");

        let mut elements = 0;
        for (name, bytes) in contents(&path) {
            assert!(name.starts_with("shard-") && name.ends_with("-model-00001-of-00001.safetensors"), "{name}");
            let (_, header) = ::safetensors::SafeTensors::read_metadata(&bytes).unwrap();
            let metadata = header.metadata().as_ref().unwrap();
            assert_eq!((&*metadata["DCP_VERSION"], &*metadata["format"]), ("1.0", "pt"));
            let offsets: serde_json::Value = serde_json::from_str(&metadata["DCP_SHARDING_INFO"]).unwrap();
            for (name, view) in ::safetensors::SafeTensors::deserialize(&bytes).unwrap().tensors() {
                let (whole, rank) = (&map[&*name], view.shape().len());
                assert_eq!(offsets[&name]["global_shape"], serde_json::json!(whole.shape().dims()));
                assert_eq!(offsets[&name]["saved_offsets"].as_array().unwrap().len(), rank);
                elements += view.shape().iter().product::<usize>();
            }
        }
        let whole: usize = map.iter().map(|(_, tensor)| tensor.shape().elements().unwrap()).sum();
        assert_eq!(elements, whole);
    }
}

#[test]
fn a_missing_file_of_safetensors_is_noticed() {
    let map: TensorMap = [("a", tensor(Dtype::F32, &[8, 2]))].into_iter().collect();
    let folder = tempfile::tempdir().unwrap();
    SaveOptions::new().format(&safetensors::FORMAT).ranks(4).save(folder.path(), &map).unwrap();
    // Without the whole shape, a tensor would end where the last chunk ends.
    let last = folder.path().join("shard-00004-model-00001-of-00001.safetensors");
    let bytes = fs::read(&last).unwrap();
    fs::remove_file(&last).unwrap();
    let error = message(File::open(folder.path()));
    assert!(error.contains("tensor `a`"), "{error}");
    // A file of another save.
    let [own, other] = [br#"\"global_shape\":[8,2]"#, br#"\"global_shape\":[9,2]"#];
    let at = bytes.windows(own.len()).position(|bytes| bytes == own).unwrap();
    fs::write(&last, [&bytes[..at], other, &bytes[at + own.len()..]].concat()).unwrap();
    let error = message(File::open(folder.path()));
    assert!(error.contains("its chunks state the shapes [8, 2] and [9, 2]"), "{error}");
}

#[test]
fn a_folder_of_no_tensors_opens() {
    for (format, _) in kinds() {
        for job in [None, Some((1, 1))] {
            let folder = tempfile::tempdir().unwrap();
            let mut ranks = RankFolder::new(3);
            if let Some((number, of)) = job {
                ranks = ranks.job(number, of);
            }
            SaveOptions::new().format(format).ranks(ranks).save(folder.path(), &TensorMap::new()).unwrap();
            if job.is_some() {
                finish_ranks(folder.path()).unwrap();
            }
            assert_eq!(load(folder.path()), TensorMap::new(), "{}", format.name);
        }
    }
}

#[test]
fn names_have_the_prefix() {
    let map: TensorMap = [("a.b", tensor(Dtype::F32, &[4]))].into_iter().collect();
    for (format, _) in kinds() {
        let folder = tempfile::tempdir().unwrap();
        let ranks = RankFolder::new(2).prefix("model");
        SaveOptions::new().format(format).ranks(ranks).save(folder.path(), &map).unwrap();
        assert!(load(folder.path()).names().eq(["model.a.b"]), "{}", format.name);
    }
}

#[test]
fn other_files_keep_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let save = SaveOptions::new().format(&safetensors::FORMAT).ranks(RankFolder::new(2).job(1, 1));
    save.save(folder.path(), &map()).unwrap();
    fs::write(folder.path().join("notes.tmp"), "mine").unwrap();
    finish_ranks(folder.path()).unwrap();
    assert_eq!(fs::read(folder.path().join("notes.tmp")).unwrap(), b"mine");
}

#[test]
fn metadata_goes_to_each_file() {
    let map: TensorMap = [("a", tensor(Dtype::F32, &[4]))].into_iter().collect();
    let options = WriteOptions::new().metadata([("epoch".to_owned(), "7".to_owned())].into_iter().collect());
    let folder = tempfile::tempdir().unwrap();
    SaveOptions::new().format(&safetensors::FORMAT).write(options).ranks(2).save(folder.path(), &map).unwrap();
    assert_eq!(File::open(folder.path()).unwrap().metadata().unwrap().entries["epoch"], "7");
}

#[test]
fn jobs_make_the_folder_of_one() {
    let map = map();
    for (format, file) in kinds() {
        let folder = tempfile::tempdir().unwrap();
        let save = |path: &Path, ranks: RankFolder| SaveOptions::new().format(format).ranks(ranks).save(path, &map);
        let whole = folder.path().join("whole");
        save(&whole, RankFolder::new(5).replicate(8)).unwrap();
        for jobs in [1, 2, 3, 5] {
            let path = folder.path().join(format!("{jobs}-jobs"));
            for number in (1..=jobs).rev() {
                if number < jobs {
                    let error = message(File::open(&path));
                    assert!(error.contains("that was not saved whole: it has `.metadata."), "{error}");
                    let error = message(finish_ranks(&path));
                    assert!(error.ends_with(&format!("job 1 of {jobs} has not saved its ranks")), "{error}");
                }
                save(&path, RankFolder::new(5).replicate(8).job(number, jobs)).unwrap();
            }
            // A job that is done again changes nothing.
            save(&path, RankFolder::new(5).replicate(8).job(jobs, jobs)).unwrap();
            finish_ranks(&path).unwrap();
            finish_ranks(&path).unwrap();
            assert_eq!(contents(&path), contents(&whole), "{} of {jobs} jobs", format.name);
            let error = message(save(&path, RankFolder::new(5).replicate(8).job(1, jobs)));
            assert!(error.contains("save to a new folder, or empty it"), "{error}");
        }
        assert!(whole.join(file).exists());
    }
}

#[test]
fn jobs_that_differ_are_refused() {
    let small: TensorMap = [("a", tensor(Dtype::F32, &[4]))].into_iter().collect();
    for (format, _) in kinds() {
        let folder = tempfile::tempdir().unwrap();
        let save = |map: &TensorMap, ranks| SaveOptions::new().format(format).ranks(ranks).save(folder.path(), map);
        save(&map(), RankFolder::new(4).job(1, 2)).unwrap();
        save(&small, RankFolder::new(4).job(2, 2)).unwrap();
        let error = message(finish_ranks(folder.path()));
        assert!(error.ends_with("job 2 of 2 saved another value than job 1, or in another way"), "{error}");
        let error = message(save(&small, RankFolder::new(4).job(2, 3)));
        assert!(error.contains("is a folder with `.metadata.1-of-2.tmp`"), "{error}");
        let error = message(save(&small, RankFolder::new(4)));
        assert!(error.contains("save to a new folder, or empty it"), "{error}");
        save(&map(), RankFolder::new(4).job(2, 2)).unwrap();
        finish_ranks(folder.path()).unwrap();
        assert_eq!(load(folder.path()), sorted(&map()));
        for (number, of) in [(0, 2), (3, 2), (1, 5)] {
            let error = message(save(&small, RankFolder::new(4).job(number, of)));
            assert!(error.contains(&format!("cannot save the ranks of job {number} of {of}")), "{error}");
        }
        let empty = tempfile::tempdir().unwrap();
        assert!(message(finish_ranks(empty.path())).ends_with("no job has saved its ranks here"));
    }
}

/// A source that counts the bytes read.
struct Counted(Vec<u8>, Arc<AtomicU64>);

impl ReadRanges for Counted {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.1.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let start = usize::try_from(offset).unwrap();
        bytes.copy_from_slice(self.0.get(start..start + bytes.len()).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn cost(&self) -> ReadCost {
        ReadCost::Call
    }

    fn name(&self) -> Cow<'_, str> {
        "counted".into()
    }
}

#[test]
fn a_job_reads_the_bytes_of_its_ranks() {
    let map: TensorMap = ["a", "b"].map(|name| (name, tensor(Dtype::F32, &[512, 1024]))).into_iter().collect();
    let bytes = safetensors::to_vec(&map).unwrap();
    let all = bytes.len() as u64;
    for (format, _) in kinds() {
        let folder = tempfile::tempdir().unwrap();
        for number in 1..=4 {
            let read = Arc::new(AtomicU64::new(0));
            let source: Arc<dyn ReadRanges> = Arc::new(Counted(bytes.clone(), read.clone()));
            let file = OpenOptions::new().open_ranges(source).unwrap();
            let ranks = RankFolder::new(8).job(number, 4);
            SaveOptions::new().format(format).ranks(ranks).save(folder.path(), &file).unwrap();
            let read = read.load(Ordering::Relaxed);
            assert!(read <= all / 4 + (64 << 10), "{}: {read} of {all} bytes", format.name);
        }
        finish_ranks(folder.path()).unwrap();
        assert_eq!(load(folder.path()), map);
    }
}

#[test]
fn a_folder_that_was_killed_while_it_was_completed_is_completed() {
    let map = map();
    for (format, _) in kinds() {
        let folder = tempfile::tempdir().unwrap();
        let (whole, left) = (folder.path().join("whole"), folder.path().join("left"));
        let save = |path: &Path, ranks: RankFolder| SaveOptions::new().format(format).ranks(ranks).save(path, &map);
        save(&whole, RankFolder::new(3)).unwrap();
        for number in 1..=3 {
            save(&left, RankFolder::new(3).job(number, 3)).unwrap();
        }
        // After some of the steps of completing it.
        if format.name == "pytorch" {
            fs::rename(left.join(".metadata.1-of-3.tmp"), left.join(".metadata")).unwrap();
        } else {
            let name = "shard-00002-model-00001-of-00001.safetensors";
            fs::rename(left.join(format!("{name}.tmp")), left.join(name)).unwrap();
            assert!(message(File::open(&left)).contains("that was not saved whole"));
        }
        finish_ranks(&left).unwrap();
        assert_eq!(contents(&left), contents(&whole), "{}", format.name);
    }
}

#[test]
fn a_folder_that_was_taken_over_is_removed_if_that_fails() {
    let map = map();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    let save = SaveOptions::new().format(&safetensors::FORMAT).ranks(3);
    let plan = save.plan(&path, &map).unwrap();
    // As a job leaves it: the metadata is that of the whole folder.
    SaveOptions::new().format(&safetensors::FORMAT).ranks(RankFolder::new(3).job(1, 1)).save(&path, &map).unwrap();
    fs::rename(path.join(".metadata.1-of-1.tmp"), path.join(".metadata.tmp")).unwrap();
    // It was killed while the files got their names.
    let name = "shard-00001-model-00001-of-00001.safetensors";
    fs::rename(path.join(format!("{name}.tmp")), path.join(name)).unwrap();
    assert!(message(File::open(&path)).contains("that was not saved whole"));
    plan.save(&TensorMap::new()).unwrap_err();
    assert_eq!(contents(&path), []);
    plan.save(&map).unwrap();
    assert_eq!(load(&path), sorted(&map));
}

/// Tensors that take some milliseconds to write.
fn large() -> TensorMap {
    (0..6).map(|at| (format!("layers.{at}"), tensor(Dtype::F32, &[256, 1000]))).collect()
}

#[test]
#[ignore = "another test starts it"]
fn saves_a_folder_until_it_is_killed() {
    let Ok(folder) = std::env::var("TENSORFILE_TEST_FOLDER") else { return };
    let format = Format::named(&std::env::var("TENSORFILE_TEST_FORMAT").unwrap()).unwrap();
    let map = large();
    ready();
    let end = Instant::now() + Duration::from_secs(60);
    for number in 0.. {
        let path = Path::new(&folder).join(number.to_string());
        SaveOptions::new().format(format).durable(false).ranks(4).save(&path, &map).unwrap();
        if Instant::now() > end {
            return;
        }
    }
}

#[test]
fn a_killed_save_leaves_no_folder_that_opens() {
    let map = large();
    for (format, _) in kinds() {
        let (mut unfinished, mut kills) = (0, 0);
        // Kills that hit the middle of a save count.
        while kills < 25 || unfinished < 5 && kills < 200 {
            let folder = folder(true);
            let path = folder.path().to_str().unwrap();
            let task = [("TENSORFILE_TEST_FORMAT", format.name), ("TENSORFILE_TEST_FOLDER", path)];
            let child = Child::start("rank_folders::saves_a_folder_until_it_is_killed", &task);
            std::thread::sleep(Duration::from_micros(kills * 1371 % 20_000));
            child.kill();
            kills += 1;
            for entry in fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()) {
                // Locks of folders that are being saved are beside them.
                if !entry.is_dir() {
                    continue;
                }
                match File::open(&entry) {
                    Ok(file) => assert_eq!(file.load::<TensorMap>().unwrap(), map),
                    Err(_) => {
                        unfinished += 1;
                        SaveOptions::new().format(format).ranks(4).save(&entry, &map).unwrap();
                        assert_eq!(load(&entry), map);
                    }
                }
            }
        }
        assert!(unfinished >= 5, "{}: {unfinished} of {kills}", format.name);
    }
}
