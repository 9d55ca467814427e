//! Killed writers, several writers at once, and readers meanwhile. Readers see the old or the new file, never a
//! mixture, and the next save removes temporary files.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tensorfile::file::Backend;
use tensorfile::{Dtype, File, Format, OpenOptions, SaveOptions, Tensor, TensorInfo, TensorMap, WriteOptions};

use crate::support::child::{Child, ready};
use crate::support::{folder, written_formats};

/// A path and how it is saved to: as one file, or in shards.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    pub format: &'static Format,
    pub folder: &'a Path,
    pub in_shards: bool,
}

/// Elements of each tensor.
pub const LEN: usize = 3000;

impl Target<'_> {
    /// Returns a value whose bytes are all `number`. Its tensors differ, so that no format stores one of them only.
    pub fn value(self, number: u8) -> TensorMap {
        let tensor = |at: usize| {
            let is_whole = |dtype: &&Dtype| **dtype != Dtype::Bool && dtype.block_elements() == 1;
            let dtype = self.format.dtypes.iter().find(is_whole).unwrap();
            let info = TensorInfo::new(*dtype, [LEN + at]);
            Tensor::new(info.clone(), &vec![number; info.payload_bytes().unwrap()]).unwrap()
        };
        (0..self.format.max_tensors.unwrap_or(3)).map(|at| (at.to_string(), tensor(at))).collect()
    }

    fn path(self) -> PathBuf {
        self.folder.join("model").with_extension(self.format.extensions[0])
    }

    fn index(self) -> PathBuf {
        self.folder.join(format!("model.{}.index.json", self.format.extensions[0]))
    }

    pub fn save(self, number: u8) -> tensorfile::Result<()> {
        let options = SaveOptions::new().write(WriteOptions::new().embed_names(true));
        #[cfg(feature = "safetensors")]
        let options = if self.in_shards { options.max_shard_bytes(1) } else { options };
        options.save(self.path(), &self.value(number))
    }

    fn open(self, backend: Backend) -> tensorfile::Result<File> {
        let path = if self.in_shards { self.index() } else { self.path() };
        OpenOptions::new().format(self.format).backend(backend).open(path)
    }

    /// Returns the number whose value is saved.
    #[track_caller]
    pub fn saved(self, backend: Backend) -> u8 {
        let file = self.open(backend).unwrap_or_else(|error| panic!("{self}: {error}"));
        let map: TensorMap = file.load().unwrap_or_else(|error| panic!("{self}: {error}"));
        let number = map["0"].as_bytes()[0];
        assert!(map == self.value(number), "{self}: the file is a mixture");
        number
    }

    /// Returns the names of the files in the folder.
    pub fn names(self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Checks that there are the files of one save, and no others.
    #[track_caller]
    pub fn assert_no_litter(self) {
        let names = self.names();
        assert!(names.iter().all(|name| !name.starts_with('.')), "{self}: {names:?}");
        let files = if self.in_shards { self.value(0).len() + 1 } else { 1 };
        assert_eq!(names.len(), files, "{self}: {names:?}");
    }
}

impl std::fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.format.name, if self.in_shards { " in shards" } else { "" })
    }
}

/// Calls `test` for each format, and again with shards for formats that can be in shards.
pub fn for_each_target(in_memory: bool, mut test: impl FnMut(Target)) {
    for format in written_formats() {
        for in_shards in [false, true] {
            if !in_shards || cfg!(feature = "safetensors") && format.max_tensors.is_none() {
                test(Target { format, folder: folder(in_memory).path(), in_shards });
            }
        }
    }
}

const CHILD: &str = "every_format::writers::saves_until_it_is_killed";

impl Target<'_> {
    /// Starts a process that saves the values of two numbers in turns, until it is killed.
    fn start(self, first: u8) -> Child {
        let task = [
            ("TENSORFILE_TEST_FORMAT", self.format.name),
            ("TENSORFILE_TEST_FOLDER", self.folder.to_str().unwrap()),
            ("TENSORFILE_TEST_SHARDS", if self.in_shards { "yes" } else { "no" }),
            ("TENSORFILE_TEST_FIRST", &first.to_string()),
        ];
        Child::start(CHILD, &task)
    }
}

#[test]
#[ignore = "other tests start it"]
fn saves_until_it_is_killed() {
    let Ok(folder) = std::env::var("TENSORFILE_TEST_FOLDER") else { return };
    let [format, in_shards, first] =
        ["FORMAT", "SHARDS", "FIRST"].map(|name| std::env::var(format!("TENSORFILE_TEST_{name}")).unwrap());
    let format = Format::named(&format).unwrap();
    let target = Target { format, folder: Path::new(&folder), in_shards: in_shards == "yes" };
    let first: u8 = first.parse().unwrap();
    ready();
    let end = Instant::now() + Duration::from_secs(60);
    while Instant::now() < end {
        target.save(first).unwrap();
        target.save(first + 1).unwrap();
    }
}

#[test]
fn writers_that_are_killed_leave_a_whole_file() {
    /// A tenth of the kills, if a save takes as long as usual.
    const LITTER: usize = 40;
    let (mut kills, mut litter) = (0, 0);
    let start = Instant::now();
    // Until enough saves were interrupted, which takes more kills on a busy machine.
    while kills == 0 || litter <= LITTER && start.elapsed() < Duration::from_secs(60) {
        for in_memory in [true, false] {
            for_each_target(in_memory, |target| kill_writers(target, &mut kills, &mut litter));
        }
    }
    assert!(kills > 200 && litter > LITTER, "{litter} of {kills} kills left temporary files");
}

/// Kills processes that save, and counts those that left temporary files.
fn kill_writers(target: Target<'_>, kills: &mut usize, litter: &mut usize) {
    target.save(1).unwrap();
    for round in 0..12 {
        let child = target.start(1);
        // Saving takes a fraction of a millisecond in memory, and some milliseconds on disk.
        std::thread::sleep(Duration::from_micros(round * 137 % 1500));
        child.kill();
        *kills += 1;
        *litter += usize::from(target.names().iter().any(|name| name.starts_with('.')));
        assert!([1, 2].contains(&target.saved(Backend::Mapped)), "{target}");
        target.save(1).unwrap();
        assert_eq!(target.saved(Backend::Positioned), 1, "{target}");
        target.assert_no_litter();
    }
}

#[test]
fn processes_that_save_at_once() {
    for_each_target(true, |target| {
        target.save(1).unwrap();
        let children = [1, 3].map(|first| target.start(first));
        let mut seen = [false; 5];
        let (start, mut kinds) = (Instant::now(), 0);
        // Until a second one is seen, which takes long on a busy machine.
        while start.elapsed() < Duration::from_millis(150) || kinds < 2 && start.elapsed() < Duration::from_secs(60) {
            for backend in [Backend::Mapped, Backend::Positioned] {
                seen[usize::from(target.saved(backend))] = true;
            }
            kinds = seen.iter().filter(|seen| **seen).count();
        }
        assert!(kinds > 1, "{target}: {seen:?}");
        children.into_iter().for_each(Child::kill);
        assert!((1..5).contains(&target.saved(Backend::Mapped)), "{target}");
        target.save(5).unwrap();
        assert_eq!(target.saved(Backend::Mapped), 5, "{target}");
        target.assert_no_litter();
    });
}

#[test]
fn threads_that_save_at_once() {
    for_each_target(true, |target| {
        target.save(0).unwrap();
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for backend in [Backend::Mapped, Backend::Positioned] {
                let is_done = &is_done;
                scope.spawn(move || {
                    while !is_done.load(Ordering::Relaxed) {
                        assert!(target.saved(backend) < 4, "{target}");
                    }
                });
            }
            let writer = |number| scope.spawn(move || (0..10).for_each(|_| target.save(number).unwrap()));
            let ended = [1, 2, 3].map(writer).map(|writer| writer.join());
            is_done.store(true, Ordering::Relaxed);
            ended.into_iter().for_each(Result::unwrap);
        });
        assert!((1..4).contains(&target.saved(Backend::Mapped)), "{target}: the last one is there");
        target.assert_no_litter();
    });
}

/// Writers that were killed in every state that they can leave, and a next save of another kind.
#[cfg(feature = "safetensors")]
#[test]
fn a_save_as_one_file_removes_what_one_in_shards_left() {
    let (mut rounds, mut left) = (0, 0);
    while left < 20 && rounds < 5000 {
        let folder = folder(true);
        let format = tensorfile::FORMATS[0];
        let target = Target { format, folder: folder.path(), in_shards: true };
        target.save(1).unwrap();
        let child = target.start(1);
        std::thread::sleep(Duration::from_micros(rounds * 137 % 3000));
        child.kill();
        rounds += 1;
        left += usize::from(target.names().iter().any(|name| name.starts_with('.')));
        Target { in_shards: false, ..target }.save(3).unwrap();
        let names = target.names();
        assert!(names.iter().all(|name| !name.starts_with('.')), "{names:?}");
        assert!([1, 2].contains(&target.saved(Backend::Mapped)), "the shards are as they were");
    }
    assert_eq!(left, 20, "of {rounds}");
}
