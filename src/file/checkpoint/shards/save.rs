//! Saves a checkpoint as shards and an index. New shards never overwrite current ones: two sets of names take turns,
//! and renaming the index switches from one to the other.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde_json::value::RawValue;

use super::index::{MAX_BYTES, ShardIndex, malformed};
use crate::error::{ErrorKind, Result};
use crate::file::checkpoint::index_of;
use crate::limits::Limits;
use crate::model::{FilePart, TOTAL, TensorSink, Tensors, forward};
use crate::storage::{
    Durability, FileSet, Journal, Listener, ProgressCount, ReplaceStep, Turn, finish_left_sets, has_left_sets, look,
    refuse_existing, remove_left_for, turn_path,
};
use crate::write::name_lists::refuse_lists;
use crate::write::{NamePolicy, Plan};

/// The plans of shards, and the shard of each tensor.
#[derive(Debug)]
pub(in crate::file) struct Split {
    /// All tensors, without a layout.
    all: Plan,
    shard_of: Vec<usize>,
    shards: Vec<Plan>,
    /// The bytes of all tensors. Shared bytes count once.
    bytes: u64,
    naming: Naming,
}

/// The names of shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Naming {
    /// `model-00001-of-00003.safetensors`; in the second set, `model-00001-of-00003-2.safetensors`. The set comes last,
    /// so that no other path has a shard of this name.
    SetLast,
    /// `m-00001-of-00003.gguf`; in the second set, `m.2-00001-of-00003.gguf`. Software that finds the files by name
    /// wants the numbers at the end.
    SetFirst,
}

impl Split {
    /// Returns the number of shards.
    pub(in crate::file) fn len(&self) -> usize {
        self.shards.len()
    }

    /// Returns the plan of each shard, and its tensors.
    pub(super) fn shards<'a>(&'a self, tensors: &'a dyn Tensors) -> impl Iterator<Item = (&'a Plan, Shard<'a>)> {
        let shard_of = &*self.shard_of;
        self.shards.iter().enumerate().map(move |(shard, plan)| (plan, Shard { tensors, shard_of, shard }))
    }

    /// Returns the size of all shards in bytes.
    pub(in crate::file) fn file_bytes(&self) -> u64 {
        self.shards.iter().map(Plan::file_bytes).fold(0, u64::saturating_add)
    }
}

/// The plan of a single file, or of shards.
pub(in crate::file) enum Files {
    One(Plan),
    Shards(Split),
}

/// Plans one file, starting from an empty plan, or shards if the file would be too large.
pub(in crate::file) fn split(mut all: Plan, tensors: &dyn Tensors, max_bytes: u64) -> Result<Files> {
    all.add_all(tensors)?;
    let payloads = (0..all.len()).map(|i| (all.payload_bytes(i) as u64, all.owner(i)));
    let (shard_of, bytes) = assign(payloads, max_bytes);
    let shards = shard_of.iter().max().map_or(1, |last| last + 1);
    if shards == 1 {
        all.lay_out()?;
        return Ok(Files::One(all));
    }
    if all.encode().names() == NamePolicy::Omitted {
        let instead = "without names none could be found again; `WriteOptions::embed_names` writes names".to_owned();
        return Err(ErrorKind::Unsupported { what: "save in shards".to_owned(), instead }.into());
    }
    let mut positions = vec![Vec::new(); shards];
    shard_of.iter().enumerate().for_each(|(i, shard)| positions[*shard].push(i));
    let mut naming = Naming::SetLast;
    let mut plan = |(index, positions): (usize, &Vec<usize>)| {
        let part = FilePart { index: index as u64, count: shards as u64, tensors: Some(all.len() as u64) };
        let encode = match all.encode().with_part(part) {
            Some(encode) => {
                naming = Naming::SetFirst;
                encode
            }
            None => all.shared_encode(),
        };
        all.subset(positions, encode)
    };
    let mut plans: Vec<Plan> = positions.iter().enumerate().map(&mut plan).collect::<Result<_>>()?;
    let last = plans
        .iter_mut()
        .zip(&positions)
        .filter_map(|(plan, positions)| positions.last().copied().filter(|_| plan.may_end_in_names()));
    let mut last: Vec<usize> = last.collect();
    last.sort_unstable();
    refuse_lists(&last, tensors)?;
    Ok(Files::Shards(Split { all, shard_of, shards: plans, bytes, naming }))
}

/// Returns the shard of each tensor, and the number of bytes of all tensors. A payload is given by its length, and by
/// the first tensor with the same bytes.
fn assign(payloads: impl Iterator<Item = (u64, usize)>, max_bytes: u64) -> (Vec<usize>, u64) {
    let (mut shard_of, mut shard, mut filled, mut all) = (Vec::new(), 0, 0_u64, 0_u64);
    for (i, (bytes, owner)) in payloads.enumerate() {
        if owner < i {
            shard_of.push(shard_of[owner]);
            continue;
        }
        let fits = filled.checked_add(bytes).is_some_and(|sum| sum <= max_bytes);
        if !fits && filled > 0 && bytes > 0 {
            shard += 1;
            filled = 0;
        }
        filled = filled.saturating_add(bytes);
        all = all.saturating_add(bytes);
        shard_of.push(shard);
    }
    (shard_of, all)
}

/// The tensors of one shard.
pub(super) struct Shard<'a> {
    tensors: &'a dyn Tensors,
    shard_of: &'a [usize],
    shard: usize,
}

impl Tensors for Shard<'_> {
    fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
        let mut shards = self.shard_of.iter();
        self.tensors.send(&mut forward(sink, &mut |tensor, next| {
            // An unplanned tensor goes to every shard, and each writer refuses it.
            if shards.next().is_some_and(|shard| *shard != self.shard) { Ok(()) } else { next.tensor(tensor) }
        }))
    }
}

/// Saves tensors to shards next to `path`, and their index.
pub(in crate::file) fn save(path: &Path, split: &Split, tensors: &dyn Tensors, saving: Saving<'_>) -> Result<()> {
    save_in_steps(path, split, tensors, saving, &mut |_| Ok(()))
}

/// The options of saving shards.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::file) struct Saving<'a> {
    pub(in crate::file) durability: Durability,
    pub(in crate::file) progress: Option<&'a Listener>,
    /// Whether a single file at the path stays, although it would be opened instead of the shards.
    pub(in crate::file) keeps_single: bool,
}

/// Returns an error if a file to write exists.
pub(in crate::file) fn refuse_old(path: &Path, split: &Split, saving: Saving<'_>) -> Result<()> {
    refuse_existing(&index_of(path))?;
    if !saving.keeps_single {
        refuse_existing(path)?;
    }
    // Without an index, the shards have the first names.
    let shards = split.len();
    let naming = split.naming;
    (0..shards).try_for_each(|i| refuse_existing(&path.with_file_name(shard_name(path, naming, 1, i, shards)?)))
}

/// Removes the leftovers of killed saves, for a path that is now saved as one file.
pub(in crate::file) fn remove_left(path: &Path) -> Result<()> {
    if has_left_sets(path) {
        let _turn = Turn::wait(path)?;
        finish_left(path);
    }
    remove_left_for(&index_of(path));
    remove_left_for(&turn_path(path));
    Ok(())
}

/// Finishes saves that were killed while they placed their shards. The caller must hold the turn.
fn finish_left(path: &Path) {
    finish_left_sets(path, &mut |Journal { placed, replaced }| {
        let Ok(OldSet { names, is_unknown: false }) = OldSet::read(path) else { return };
        let is_named = |name: &String| names.iter().any(|other| other.eq_ignore_ascii_case(name));
        let is_finished = !placed.is_empty() && placed.iter().all(is_named);
        let is_single = |name: &String| path.file_name().is_some_and(|own| *own == **name);
        // A save that found this folder locked, because its process was still ending, has renamed the index again.
        let is_outdated = !names.is_empty() && !replaced.iter().any(is_named);
        let mut left = Vec::new();
        if !is_finished {
            left.extend(placed.iter().filter(|name| is_shard_name(path, name)));
        }
        if is_finished || is_outdated {
            left.extend(replaced.iter().filter(|name| is_shard_name(path, name) || is_finished && is_single(name)));
        }
        for name in left.into_iter().filter(|name| !is_named(name)) {
            // A file that cannot be removed does no harm.
            let _ = fs::remove_file(path.with_file_name(name));
        }
    });
}

/// As [`save`], but calls a function before each renaming step. If the function fails, the step fails.
fn save_in_steps(
    path: &Path,
    split: &Split,
    tensors: &dyn Tensors,
    Saving { durability, progress, keeps_single }: Saving<'_>,
    before: &mut dyn FnMut(ReplaceStep) -> io::Result<()>,
) -> Result<()> {
    let old = OldSet::read(path)?;
    // A path unusable in an index is refused before anything is written.
    shard_name(path, split.naming, 1, 0, split.len())?;
    let mut count = progress.map(|listener| listener.count(split.file_bytes()));
    let mut set = FileSet::new(path, durability)?;
    for (shard, (plan, own)) in split.shards(tensors).enumerate() {
        let like = old.names.get(shard).or(old.names.last()).map(|name| path.with_file_name(name));
        set.write(like.as_deref(), &mut |file| plan.write_file(&own, file, durability, count.as_mut()))?;
    }
    count.map_or(Ok(()), ProgressCount::finish)?;

    // Another save to the path would take the same names, and remove the same old shards.
    let _turn = Turn::wait(path)?;
    finish_left(path);
    let old = OldSet::read(path)?;
    let exists = |name: &str| fs::symlink_metadata(path.with_file_name(name)).is_ok();
    let names = old.other_names(path, split, &exists)?;
    let paths: Vec<PathBuf> = names.iter().map(|name| path.with_file_name(name)).collect();
    let own = old.names.iter().filter(|name| is_shard_name(path, name));
    let mut replaced: Vec<PathBuf> = own.map(|name| path.with_file_name(name)).collect();
    // With the old file there, opening the path would open it instead of the index. A link is removed, and its target
    // stays.
    if !keeps_single && fs::symlink_metadata(path).is_ok_and(|old| old.is_file() || old.is_symlink()) {
        replaced.push(path.to_owned());
    }
    set.put(&paths, replaced, &index_of(path), &index(split, &names), before)
}

/// The shards before saving.
#[derive(Default)]
pub(super) struct OldSet {
    /// The shards named by the old index, in order.
    pub(super) names: Vec<String>,
    /// Whether the index is malformed or too long, so that any file may be one of its shards.
    pub(super) is_unknown: bool,
}

impl OldSet {
    fn read(path: &Path) -> Result<Self> {
        let index_path = index_of(path);
        let mut json = Vec::new();
        // Opening a pipe would wait for its other end.
        look(&index_path)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", index_path.display())))?;
        let read = fs::File::open(&index_path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut json));
        let index = match read {
            Ok(_) if json.len() as u64 > MAX_BYTES => Err(malformed("the index is too long".to_owned())),
            Ok(_) => ShardIndex::parse(&json, &Limits::default()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self { names: Vec::new(), is_unknown: false });
            }
            Err(error) => return Err(io::Error::new(error.kind(), format!("{}: {error}", index_path.display())).into()),
        };
        Ok(Self::of_index(index))
    }

    /// Returns the shards of an index, or an unknown set if reading the index failed.
    pub(super) fn of_index(index: Result<ShardIndex>) -> Self {
        let is_unknown = index.is_err();
        let names = index
            .map(|index| index.shards().into_iter().map(|(shard, _)| shard.to_owned()).collect())
            .unwrap_or_default();
        Self { names, is_unknown }
    }

    /// Returns names for a new set, disjoint from the names in the old index.
    ///
    /// There are two sets of names for a number of shards, and they take turns. A set without an index, left by a
    /// crash, is therefore overwritten by the next save.
    pub(super) fn other_names(&self, path: &Path, split: &Split, exists: &dyn Fn(&str) -> bool) -> Result<Vec<String>> {
        let (naming, shards) = (split.naming, split.len());
        let mut set = 1;
        loop {
            let names = (0..shards).map(|i| shard_name(path, naming, set, i, shards)).collect::<Result<Vec<_>>>()?;
            // A name with the set before the numbers may belong to a shard of another path.
            let may_be_others = naming == Naming::SetFirst && set > 1;
            let is_old = |name: &String| {
                if self.is_unknown || may_be_others {
                    exists(name)
                } else {
                    self.names.iter().any(|old| old.eq_ignore_ascii_case(name))
                }
            };
            if !names.iter().any(is_old) {
                return Ok(names);
            }
            set += 1;
        }
    }
}

/// Returns the index of shards with these names.
pub(super) fn index(split: &Split, names: &[String]) -> Vec<u8> {
    let entry = |(i, &shard): (usize, &usize)| (split.all.name(i).to_owned(), names[shard].clone());
    let weight_map = split.shard_of.iter().enumerate().map(entry).collect();
    let total = RawValue::from_string(split.bytes.to_string()).expect("a number is JSON");
    let metadata = [(TOTAL.to_owned(), total)].into_iter().collect();
    ShardIndex { metadata, weight_map }.to_json()
}

/// Returns the parts of a name around the number of a shard.
fn around_number(path: &Path) -> Option<(&str, String)> {
    let [stem, extension] = [path.file_stem(), path.extension()].map(|part| part.unwrap_or_default().to_str());
    let (stem, extension) = (stem?, extension?);
    let dot = if extension.is_empty() { "" } else { "." };
    Some((stem, format!("{dot}{extension}")))
}

/// Returns the name of a shard.
fn shard_name(path: &Path, naming: Naming, set: usize, i: usize, shards: usize) -> Result<String> {
    let Some((stem, end)) = around_number(path) else {
        let what = format!("save {} in shards", path.display());
        let instead = "the name goes into an index, which takes UTF-8".to_owned();
        return Err(ErrorKind::Unsupported { what, instead }.into());
    };
    let number = i + 1;
    Ok(match (naming, set) {
        (_, 1) => format!("{stem}-{number:05}-of-{shards:05}{end}"),
        (Naming::SetLast, _) => format!("{stem}-{number:05}-of-{shards:05}-{set}{end}"),
        (Naming::SetFirst, _) => format!("{stem}.{set}-{number:05}-of-{shards:05}{end}"),
    })
}

/// Returns whether [`shard_name`] returns a name for some number of shards.
pub(super) fn is_shard_name(path: &Path, name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = || {
        let (stem, end) = around_number(path)?;
        let numbers = name.strip_prefix(stem)?.strip_suffix(end.as_str())?;
        let numbers = match numbers.strip_prefix('.').and_then(|numbers| numbers.split_once('-')) {
            Some((set, numbers)) if is_number(set) => numbers.split_once("-of-").filter(|(_, count)| is_number(count)),
            _ => numbers.strip_prefix('-').and_then(|numbers| numbers.split_once("-of-")),
        };
        let (i, rest) = numbers?;
        let (count, set) = rest.split_once('-').map_or((rest, None), |(count, set)| (count, Some(set)));
        Some(is_number(i) && is_number(count) && set.is_none_or(is_number))
    };
    number().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::File;
    use crate::format::ten;
    use crate::tensor::{Tensor, TensorMap};
    use crate::write::WriteOptions;

    /// Assigns tensors to shards. Each is given by its length, or by an earlier tensor with the same bytes.
    fn shards(tensors: &[Result<u64, usize>], max_bytes: u64) -> (Vec<usize>, u64) {
        let payload = |(i, tensor): (usize, &Result<u64, usize>)| {
            tensor.map_or_else(|owner| (tensors[owner].unwrap(), owner), |bytes| (bytes, i))
        };
        assign(tensors.iter().enumerate().map(payload), max_bytes)
    }

    #[test]
    fn a_shard_ends_before_the_tensor_that_exceeds_it() {
        assert_eq!(shards(&[Ok(4), Ok(4), Ok(1), Ok(0)], 8), (vec![0, 0, 1, 1], 9));
        assert_eq!(shards(&[Ok(0), Ok(20), Ok(0), Ok(1), Ok(20), Ok(20)], 8), (vec![0, 0, 0, 1, 2, 3], 61));
        assert_eq!(shards(&[Ok(4), Ok(8), Err(0), Ok(1)], 8), (vec![0, 1, 0, 2], 13));
        assert_eq!(shards(&[Ok(u64::MAX), Ok(1)], u64::MAX), (vec![0, 1], u64::MAX));
        assert_eq!(shards(&[], 1), (vec![], 0));
    }

    fn tensors(number: u8) -> TensorMap {
        let tensor = |name: &str| (name.to_owned(), Tensor::from_slice(&[number], [1]).unwrap());
        ["a", "b", "c"].into_iter().map(tensor).collect()
    }

    fn save_tensors(path: &Path, number: u8, before: &mut dyn FnMut(ReplaceStep) -> io::Result<()>) -> Result<()> {
        let encode = (ten::FORMAT.encode)(&WriteOptions::new()).unwrap();
        let tensors = tensors(number);
        let Files::Shards(split) = split(Plan::empty(encode), &tensors, 1).unwrap() else {
            panic!("one file is enough")
        };
        save_in_steps(path, &split, &tensors, Saving::default(), before)
    }

    /// Returns the number identifying the saved tensors.
    fn saved(path: &Path) -> u8 {
        let map: TensorMap = File::open(index_of(path)).unwrap().load().unwrap();
        let number = map["a"].as_bytes()[0];
        assert_eq!(map, tensors(number));
        number
    }

    /// The step that renames the index: three steps create it, then come three shards and a flush.
    const INDEX: usize = 7;

    /// The first step with a journal.
    const JOURNAL: usize = 3;

    #[test]
    fn the_index_names_a_whole_set_at_each_step() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.ten");
        let files = || fs::read_dir(folder.path()).unwrap().count();
        let mut steps = 0;
        save_tensors(&path, 0, &mut |_| {
            steps += 1;
            Ok(())
        })
        .unwrap();
        let steps = steps;
        assert_eq!(steps, INDEX + 2);
        for fault in 0..steps {
            // The state at a step equals the state after a crash there.
            let mut step = 0;
            let check = |_| {
                assert_eq!(saved(&path), if step > INDEX { 1 } else { 0 });
                step += 1;
                Ok(())
            };
            save_tensors(&path, 1, &mut { check }).unwrap();
            assert_eq!((saved(&path), files()), (1, 4));

            // The same steps, one of them failing.
            let mut step = 0;
            let fail = |_| {
                step += 1;
                if step - 1 == fault { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
            };
            save_tensors(&path, 2, &mut { fail }).unwrap_err();
            let is_renamed = fault > INDEX;
            assert_eq!(saved(&path), if is_renamed { 2 } else { 1 });
            // Both sets stay, because the index on disk may name either.
            assert_eq!(files(), if is_renamed { 7 } else { 4 }, "{fault}");

            // The next save overwrites the leftovers.
            save_tensors(&path, 0, &mut |_| Ok(())).unwrap();
            assert_eq!((saved(&path), files()), (0, 4));
        }
    }

    /// Copies a folder and its subfolders, as a killed process leaves them.
    fn copy(from: &Path, to: &Path) {
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let target = to.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                fs::create_dir(&target).unwrap();
                fs::set_permissions(&target, entry.metadata().unwrap().permissions()).unwrap();
                copy(&entry.path(), &target);
            } else {
                fs::copy(entry.path(), target).unwrap();
            }
        }
    }

    #[cfg(unix)]
    #[test]
    fn the_next_save_removes_what_a_killed_one_left() {
        // Over nothing, over other shards, and over a single file.
        for before in ["nothing", "shards", "single"] {
            for fault in 0..INDEX + 2 {
                let (folder, left) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
                let path = folder.path().join("model.ten");
                match before {
                    "shards" => save_tensors(&path, 0, &mut |_| Ok(())).unwrap(),
                    "single" => crate::file::save(&path, &tensors(0)).unwrap(),
                    _ => {}
                }
                let mut step = 0;
                let kill = |_| {
                    if step == fault {
                        copy(folder.path(), left.path());
                    }
                    step += 1;
                    Ok(())
                };
                save_tensors(&path, 1, &mut { kill }).unwrap();
                let path = left.path().join("model.ten");
                let is_new = File::open(&path).is_ok_and(|file| file.tensor("a").unwrap().as_bytes() == [1]);
                assert!(!is_new || fault > INDEX, "{before}, {fault}");
                // Two shards instead of three, and one file.
                let names = || {
                    let names = fs::read_dir(left.path()).unwrap().map(|entry| entry.unwrap().file_name());
                    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
                    names.sort();
                    names
                };
                if fault % 2 == 0 {
                    let encode = (ten::FORMAT.encode)(&WriteOptions::new()).unwrap();
                    let tensors = tensors(2);
                    let Files::Shards(split) = split(Plan::empty(encode), &tensors, 2).unwrap() else {
                        panic!("one file is enough")
                    };
                    save(&path, &split, &tensors, Saving::default()).unwrap();
                    assert_eq!(names().len(), 3, "{before}, {fault}: {:?}", names());
                } else {
                    crate::file::save(&path, &tensors(2)).unwrap();
                    // The old index stays, with its shards.
                    let has_index = before == "shards" || fault > INDEX;
                    assert_eq!(names().len(), if has_index { 5 } else { 1 }, "{before}, {fault}: {:?}", names());
                }
                assert_eq!(File::open(&path).unwrap().load::<TensorMap>().unwrap(), tensors(2), "{before}, {fault}");
            }
        }
    }

    /// Orders of two killed saves and a third one, in which a set of shards named by no index stayed: the folder of a
    /// killed save was looked at before its process placed the shards, and removed after.
    #[cfg(unix)]
    #[test]
    fn a_save_killed_while_another_looks_at_its_folder_leaves_no_shards() {
        let formats = [
            &ten::FORMAT,
            #[cfg(feature = "gguf")]
            &crate::format::gguf::FORMAT,
        ];
        for (format, extension) in formats.into_iter().zip(["ten", "gguf"]) {
            let split_of = |number: u8| {
                let tensor = |name: &str| (name.to_owned(), Tensor::from_slice(&[f32::from(number)], [1]).unwrap());
                let tensors: TensorMap = ["a", "b", "c"].into_iter().map(tensor).collect();
                let encode = (format.encode)(&WriteOptions::new()).unwrap();
                let Files::Shards(split) = split(Plan::empty(encode), &tensors, 1).unwrap() else {
                    panic!("one file is enough")
                };
                (split, tensors)
            };
            let save_number = |path: &Path, number, before: &mut dyn FnMut(ReplaceStep) -> io::Result<()>| {
                let (split, tensors) = split_of(number);
                let saving = Saving { durability: Durability::Cached, ..Saving::default() };
                save_in_steps(path, &split, &tensors, saving, before).unwrap();
            };
            for saves_before in [0, 1, 2] {
                // The save is seen before its journal is there, and killed before a later step.
                for (seen, killed) in (JOURNAL..INDEX + 2).map(|killed| (JOURNAL - 1, killed)) {
                    let states = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
                    let folder = tempfile::tempdir().unwrap();
                    let name = format!("model.{extension}");
                    let path = folder.path().join(&name);
                    for number in 0..saves_before {
                        save_number(&path, number, &mut |_| Ok(()));
                    }
                    let mut step = 0;
                    save_number(&path, 3, &mut |_| {
                        for (at, state) in [seen, killed].into_iter().zip(&states) {
                            if step == at {
                                copy(folder.path(), state.path());
                            }
                        }
                        step += 1;
                        Ok(())
                    });
                    let [now, later] = states;
                    let path = now.path().join(&name);
                    let place = now.path().to_owned();
                    // The steps of the process until it was killed.
                    crate::storage::failpoint::set(Box::new(move |_| {
                        empty(&place);
                        copy(later.path(), &place);
                    }));
                    for number in [4, 5] {
                        save_number(&path, number, &mut |_| Ok(()));
                        let what = format!("{extension}, {saves_before} saves before, {seen}, {killed}, save {number}");
                        let map: TensorMap = File::open(index_of(&path)).unwrap().load().unwrap();
                        assert_eq!(map, split_of(number).1, "{what}");
                        let names = fs::read_dir(now.path()).unwrap().map(|entry| entry.unwrap().file_name());
                        let names: Vec<_> = names.collect();
                        assert_eq!(names.len(), 4, "{what}: {names:?}");
                    }
                }
            }
        }
    }

    /// Removes all files in a folder, but not the folders in it, which are open.
    fn empty(folder: &Path) {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                empty(&entry.path());
                fs::remove_dir(entry.path()).unwrap();
            } else {
                fs::remove_file(entry.path()).unwrap();
            }
        }
    }

    /// A save whose process still ends is not seen by the next one, but by the one after that.
    #[cfg(unix)]
    #[test]
    fn a_save_that_was_not_finished_in_time_is_finished_later() {
        let (folder, left) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = folder.path().join("model.ten");
        save_tensors(&path, 0, &mut |_| Ok(())).unwrap();
        let mut step = 0;
        save_tensors(&path, 1, &mut |_| {
            if step == INDEX + 1 {
                copy(folder.path(), left.path());
            }
            step += 1;
            Ok(())
        })
        .unwrap();
        let path = left.path().join("model.ten");
        let entries = fs::read_dir(left.path()).unwrap().map(|entry| entry.unwrap().path());
        let set = entries.into_iter().find(|path| path.is_dir()).unwrap();
        let lock = fs::File::open(set).unwrap();
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
        save_tensors(&path, 2, &mut |_| Ok(())).unwrap();
        drop(lock);
        save_tensors(&path, 3, &mut |_| Ok(())).unwrap();
        assert_eq!((saved(&path), fs::read_dir(left.path()).unwrap().count()), (3, 4));
    }

    #[test]
    fn shards_stay_next_to_a_malformed_index() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.ten");
        save_tensors(&path, 0, &mut |_| Ok(())).unwrap();
        let first = fs::read(index_of(&path)).unwrap();
        fs::write(index_of(&path), "{").unwrap();
        save_tensors(&path, 1, &mut |_| Ok(())).unwrap();
        assert_eq!((saved(&path), fs::read_dir(folder.path()).unwrap().count()), (1, 7));
        fs::write(index_of(&path), first).unwrap();
        assert_eq!(saved(&path), 0);
    }

    #[test]
    fn only_own_shards_are_removed() {
        let path = Path::new("dir/model.ten");
        for own in ["model-00001-of-00003.ten", "model-00001-of-00003-2.ten", "model.2-00001-of-00003.ten"] {
            assert!(is_shard_name(path, own), "{own}");
        }
        for other in [
            "model.ten",
            "other-00001-of-00003.ten",
            "model-x-00001-of-00003.ten",
            "model2-00001-of-00003.ten",
            "model-2-00001-of-00003.ten",
            "model-00001-of-00003-.ten",
            "model-00001-of-00003-2-2.ten",
            "model-00001-of-00003.ptd",
            "model-00001-of-.ten",
            "model.x-00001-of-00003.ten",
            "model.2-00001-of-00003-2.ten",
            "",
        ] {
            assert!(!is_shard_name(path, other), "{other}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn new_shards_have_the_permissions_of_old_ones() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.ten");
        save_tensors(&path, 0, &mut |_| Ok(())).unwrap();
        for i in 0..3 {
            let shard = folder.path().join(shard_name(&path, Naming::SetLast, 1, i, 3).unwrap());
            fs::set_permissions(shard, fs::Permissions::from_mode(0o600)).unwrap();
        }
        save_tensors(&path, 1, &mut |_| Ok(())).unwrap();
        for i in 0..3 {
            let shard = folder.path().join(shard_name(&path, Naming::SetLast, 2, i, 3).unwrap());
            assert_eq!(fs::metadata(shard).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
}
